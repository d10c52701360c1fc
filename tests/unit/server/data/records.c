/* Tables as people have them: what is read of them, and what is not. */
#include "tests/unit/server/data/records_fixture.h"

static const struct {
    const char *label, *text, *unused;
    struct records_options options;
    const char *wanted;
} files[] = {
    {"write.csv",
     "\"\",\"low\",\"race\",\"smoke\"\n\"85\",0,\"black\",TRUE\n\"86\",1.25,NA,FALSE\n"
     "\"87\",NA,\"other, or not\",NA\n",
     NULL,
     {0},
     "low 0..1.25 missing 1\nrace text black:1,other, or not:1 missing 1\n"
     "smoke logical FALSE:1,TRUE:1 missing 1\n0 0 1\n1.25 - 0\n- 1 -\n"},
    {"write.csv2",
     "\"\";\"x\";\"g\"\n\"1\";1,5;\"b\"\n\"2\";-2;\"a\"\n\"3\";1e-2;\"say \"\"hi\"\"\"\n",
     NULL,
     {0},
     "x -2..1.5\ng text a:1,b:1,say \"hi\":1\n1.5 1\n-2 0\n0.01 2\n"},
    {"write.table",
     "\"x\" \"g\"\n\"1\" 1.5 \"a b\"\n\"2\" -2 \"say \\\"hi\\\"\"\n\"3\" NA NA\n",
     NULL,
     {0},
     "x -2..1.5 missing 1\ng text a b:1,say \"hi\":1 missing 1\n1.5 0\n-2 1\n- -\n"},
    {"write.table of one column", "\"x\"\n\"1\" 1.5\n\"2\" 3\n", NULL, {0}, "x 1.5..3\n1.5\n3\n"},
    {"write.table with tabs",
     "\"x\"\t\"g\"\n\"1\"\t1.5\t\"a\tb\"\n\"2\"\t2\t\"c\"\n",
     NULL,
     {0},
     "x 1.5..2\ng text a\tb:1,c:1\n1.5 0\n2 1\n"},
    {"write.table without quotes",
     "x g\n1 1.5 a\n2 2.5 b\n",
     NULL,
     {0},
     "x 1.5..2.5\ng text a:1,b:1\n1.5 0\n2.5 1\n"},
    {"aligned blanks",
     "  x   y \n  1  20 \n 10   3\n",
     NULL,
     {0},
     "x 1..10 whole\ny 3..20 whole\n1 20\n10 3\n"},
    {"pandas",
     ",age,smoker,city\n0,31.0,True,Bonn\n1,,False,\n2,47.5,True,\"K\xc3\xb6ln, Rhein\"\n",
     NULL,
     {0},
     "age 31..47.5 missing 1\nsmoker logical FALSE:1,TRUE:2\n"
     "city text Bonn:1,K\xc3\xb6ln, Rhein:1 missing 1\n31 1 0\n- 0 -\n47.5 1 1\n"},
    {"pandas with numbered columns",
     ",0,1\n0,5,6\n1,7,8\n",
     NULL,
     {0},
     "0 5..7 whole\n1 6..8 whole\n5 6\n7 8\n"},
    {"a database",
     "id,name,price\n1,NULL,2.50\n2,chair,null\n3,table,NULL\n",
     NULL,
     {0},
     "id 1..3 whole\nname text chair:1,table:1 missing 1\nprice 2.5..2.5 missing 2\n1 - 2.5\n"
     "2 0 -\n3 1 -\n"},
    {"a German spreadsheet",
     "\xef\xbb\xbfGr\xc3\xb6\xc3\x9f"
     "e;Ort;n\r\n1,85;Ulm;3\r\n;Bad Ems;4\r\n2;;5\r\n;;\r\n",
     NULL,
     {0},
     "Gr\xc3\xb6\xc3\x9f"
     "e 1.85..2 missing 2\nOrt text Bad Ems:1,Ulm:1 missing 2\nn 3..5 whole missing 1\n"
     "1.8500000000000001 1 3\n- 0 4\n2 - 5\n- - -\n"},
    {"an American one",
     "\xef\xbb\xbfheight,city\r\n1.5,\"Ames, IA\"\r\n2,Reno\r\n",
     NULL,
     {0},
     "height 1.5..2\ncity text Ames, IA:1,Reno:1\n1.5 0\n2 1\n"},
    {"semicolons and points",
     "x;y\n1.5;2\n2.5;3\n",
     NULL,
     {0},
     "x 1.5..2.5\ny 2..3 whole\n1.5 2\n2.5 3\n"},
    {"decimal commas of all kinds",
     "x;y\n0,5;1\n1,5;,5\n-2,5e1;2,\n3;0,30000000000000004\n 4,25 ;NA\n",
     NULL,
     {0},
     "x -25..4.25\ny 0.3..2 missing 1\n0.5 1\n1.5 0.5\n-25 2\n3 0.30000000000000004\n4.25 -\n"},
    {"semicolons without names",
     "1,5;2,5\n3,5;4\n",
     NULL,
     {0},
     "V1 1.5..3.5\nV2 2.5..4\n1.5 2.5\n3.5 4\n"},
    {"line ends in cells",
     "id,note\n1,\"two\nlines\"\n2,\"a\r\n\r\nb\"\n",
     NULL,
     {0},
     "id 1..2 whole\nnote text a\r\n\r\nb:1,two\nlines:1\n1 1\n2 0\n"},
    {"line ends in names",
     "\"size\n (mm)\",b\n1,2\n",
     NULL,
     {0},
     "size (mm) 1..1 whole\nb 2..2 whole\n1 2\n"},
    {"apostrophes",
     "a,b\n'x, y',1\n'it''s',2\n'tis,3\n",
     NULL,
     {0},
     "a text 'tis:1,it's:1,x, y:1\nb 1..3 whole\n2 1\n1 2\n0 3\n"},
    {"quoted numbers and blanks",
     "a,b\n\"1\", x \n\" 2 \",\" x\"\n\" NA \",\"\"\n",
     NULL,
     {0},
     "a 1..2 whole missing 1\nb text  x:1,x:1 missing 1\n1 1\n2 0\n- -\n"},
    {"all cells quoted",
     "\"a\",\"b\"\n\"1\",\"2\"\n",
     NULL,
     {0},
     "a 1..1 whole\nb 2..2 whole\n1 2\n"},
    {"no names", "1,2\n3,NA\n", NULL, {0}, "V1 1..3 whole\nV2 2..2 whole missing 1\n1 2\n3 -\n"},
    {"no names, quoted",
     "\"1\",\"2\"\n\"3\",\"4\"\n",
     NULL,
     {0},
     "V1 1..3 whole\nV2 2..4 whole\n1 2\n3 4\n"},
    {"unnamed columns",
     "a,,b,\n1,2,3,\n",
     NULL,
     {0},
     "a 1..1 whole\nV2 2..2 whole\nb 3..3 whole\nV4 0..0 missing 1\n1 2 3 -\n"},
    {"blank lines",
     "\n \na,b\n\n1,2\n \r\n\n3,4\n\n\n",
     NULL,
     {0},
     "a 1..3 whole\nb 2..4 whole\n1 2\n3 4\n"},
    {"no last line end", "a,b\n1,2\n3,x", NULL, {0}, "a 1..3 whole\nb text 2:1,x:1\n1 0\n3 1\n"},
    {"no last LF", "a,b\r\n1,2\r\n3,4\r", NULL, {0}, "a 1..3 whole\nb 2..4 whole\n1 2\n3 4\n"},
    {"one column of text",
     "name\nJohn Smith\nAnna\n",
     NULL,
     {0},
     "name text Anna:1,John Smith:1\n1\n0\n"},
    {"texts after numbers",
     "a,b\n1.50,T\n 2 ,F\n1.50,maybe\n\"3\",TRUE\nx,NA\n",
     NULL,
     {0},
     "a text 1.50:2,2:1,3:1,x:1\nb text F:1,T:1,TRUE:1,maybe:1 missing 1\n0 1\n1 0\n0 3\n2 2\n3 "
     "-\n"},
    {"logical and numbers",
     "a,b\nTRUE,1\n1,TRUE\n",
     NULL,
     {0},
     "a text 1:1,TRUE:1\nb text 1:1,TRUE:1\n1 0\n0 1\n"},
    {"one logical value",
     "a,b\nTRUE,F\nT,false\n",
     NULL,
     {0},
     "a logical TRUE:2\nb logical FALSE:2\n0 0\n0 0\n"},
    {"infinite as text",
     "a,b\nInf,1\nx,2\n",
     NULL,
     {0},
     "a text Inf:1,x:1\nb 1..2 whole\n0 1\n1 2\n"},
    {"missing in any case",
     "a,b\nna,x\nNaN,n/a\n.,Null\n,N/A\n7,.\n",
     NULL,
     {0},
     "a 7..7 whole missing 4\nb text x:1 missing 4\n- 0\n- -\n- -\n- -\n7 -\n"},
    {"further missing values",
     "a,b\n-9,?\n-9.0,-9\n4,x\n",
     NULL,
     {.missing = (const char *const[]){"-9", "?"}, .missing_count = 2},
     "a 4..4 whole missing 2\nb text x:1 missing 2\n- -\n- -\n4 0\n"},
    {"comments",
     "# made by hand\na,b\n#1,2\n3,4\n# 5",
     NULL,
     {.comment = '#'},
     "a 3..3 whole\nb 4..4 whole\n3 4\n"},
    {"decimal commas where asked for",
     "a\tb\n1,5\t2\n2,5\t3\n",
     NULL,
     {.decimal = ','},
     "a 1.5..2.5\nb 2..3 whole\n1.5 2\n2.5 3\n"},
    {"columns that are not used",
     "a,b,a2\n1,\"x\ny\",2\n3,Inf\xff,4\n5,\"6\"7,6\n",
     "b",
     {0},
     "a 1..5 whole\na2 2..6 whole\n1 0 2\n3 0 4\n5 0 6\n"},
    {"equal names that are not used", "b,a,b\n1,2,3\n", "b", {0}, "a 2..2 whole\n0 2 0\n"},
    {"dates and addresses",
     "d,ip\n12.03.2024,10.0.0.1\n2024-03-12,10.0.0.1\n",
     NULL,
     {0},
     "d text 12.03.2024:1,2024-03-12:1\nip text 10.0.0.1:2\n0 0\n1 0\n"},
    {"extremes",
     "a,b\n1e308,-0\n-4503599627370497,12345678901234567890\n",
     NULL,
     {0},
     "a -4.5036e+15..1e+308 whole\nb -0..1.23457e+19 whole\n1e+308 -0\n"
     "-4503599627370497 1.2345678901234567e+19\n"},
};

Test(records, files_are_read_as_their_programs_mean_them)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct reading reading = {
            .text = files[i].text, .unused = files[i].unused, .options = files[i].options};
        expect_read(&reading, files[i].wanted);
    }
}

static const struct {
    const char *text;
    size_t size; /* 0: strlen */
    const char *wanted;
} refused[] = {
    {"a,b\n1,2\n3\n4,5,6\n7,8\n", 0,
     "MALFORMED x.csv: line 3 has 1 cell instead of 2, separated by commas\n"
     "line 4 has 3 cells instead of 2, separated by commas"},
    {"\"a\" \"b\"\n\"1\" 1 2\n\"2\" 3\n", 0,
     "MALFORMED x.csv: line 3 has 2 cells instead of 3 (with its name), separated by blanks"},
    {"\n\"\",age,x\n1,Inf,\"a\nb\"\n2,0x1F,c\n\n3,1e400,d\n4,-infinity,e\n", 0,
     "MALFORMED x.csv: line 3, column 2 (age): \"Inf\" is not finite\n"
     "line 5, column 2 (age): \"0x1F\" is hexadecimal; write decimal numbers\n"
     "line 7, column 2 (age): \"1e400\" is beyond the range of a double\n"
     "line 8, column 2 (age): \"-infinity\" is not finite"},
    {"1,2\n3,inf\n", 0, "MALFORMED x.csv: line 2, column 2: \"inf\" is not finite"},
    {"a,b\n1,\"1,234\"\n2,\"1,234.5\"\n3,4\n", 0,
     "MALFORMED x.csv: line 2, column 2 (b): \"1,234\" has a decimal comma where a point is "
     "expected\n"
     "line 3, column 2 (b): \"1,234.5\" is not a number: separators of thousands are not read"},
    {"a;b\n1,5;1.234\n2,5;3\n", 0,
     "MALFORMED x.csv: line 2, column 2 (b): a decimal point where other columns have decimal "
     "commas; separators of thousands are not read"},
    {"a;b\n1,5;1\n2.5;3\n", 0,
     "MALFORMED x.csv: line 3, column 1 (a): \"2.5\" has a decimal point where a comma is "
     "expected"},
    {"a,b\n1,x\n2,\"y\n3,z\n", 0, "MALFORMED x.csv: line 3, column 2 (b): its quote is not closed"},
    {"a,b\n1,\"x\"y\n2,z\n", 0,
     "MALFORMED x.csv: line 2, column 2 (b): there is text after the closing quote of \"x\""},
    {"a,b\n1,x\xff\n2,y\0z\n3,w\n", 19,
     "MALFORMED x.csv: line 2, column 2 (b): \"x\\xff\" is not UTF-8\n"
     "line 3, column 2 (b): \"y\\x00z\" has a NUL byte"},
    {"a,b\n", 0, "MALFORMED x.csv has a header but no rows"},
    {"a,b\n\n  \n", 0, "MALFORMED x.csv has a header but no rows"},
    {"\n \n", 0, "MALFORMED x.csv has only blank lines"},
    {"a,b,a\n1,2,3\n", 0,
     "MALFORMED x.csv: columns 1 and 3 are both named \"a\"; names of columns that are used must "
     "differ"},
    {"a,\xff\n1,2\n", 0,
     "MALFORMED x.csv, line 1, column 2: \"\\xff\" is not a column name: a name must be UTF-8 "
     "without control characters"},
    {"a,b\0\n1,2\n", 9,
     "MALFORMED x.csv, line 1, column 2: \"b\\x00\" is not a column name: a name must be UTF-8 "
     "without control characters"},
    {"a,\"b\n1,2\n", 0, "MALFORMED x.csv has a header but no rows"},
    {"\x93NUMPY\x01", 0, "UNSUPPORTED x.csv is NPY, which is not read as text"},
    {"PAR1xxxx", 0,
     "UNSUPPORTED x.csv is Parquet; supported are CSV, TSV and NPY, also compressed with gzip"},
};

Test(records, mistakes_have_their_line_column_and_name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct reading reading = {.text = refused[i].text, .size = refused[i].size};
        expect_read(&reading, refused[i].wanted);
    }
}

Test(records, mistakes_are_reported_together_the_first_twenty)
{
    char text[2048] = "age,b\n";
    for (size_t i = 0, n = strlen(text); i < 25; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, i % 5 == 4 ? "1\n" : "Inf,%zu\n", i);
    struct report *report = malloc(sizeof *report);
    struct reading reading = {.text = text};
    read_every_way(report, &reading);
    cr_expect_str_eq(report->text,
                     "MALFORMED x.csv: line 2, column 1 (age): \"Inf\" is not finite\n"
                     "line 3, column 1 (age): \"Inf\" is not finite\n"
                     "line 4, column 1 (age): \"Inf\" is not finite\n"
                     "line 5, column 1 (age): \"Inf\" is not finite\n"
                     "line 6 has 1 cell instead of 2, separated by commas\n"
                     "line 7, column 1 (age): \"Inf\" is not finite\n"
                     "line 8, column 1 (age): \"Inf\" is not finite\n"
                     "line 9, column 1 (age): \"Inf\" is not finite\nand 17 more",
                     "%s", report->text);
    size_t lines = 0;
    for (const char *at = report->mistakes; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    cr_expect_eq(lines, 20);
    cr_expect_not_null(strstr(
        report->mistakes, "\nline 21 has 1 cell instead of 2, separated by commas\nand 5 more"));
    free(report);
}

/* An odd number is none in a column of text, wherever its first text is. */
Test(records, mistakes_of_numbers_are_none_in_texts)
{
    struct reading reading = {.text = "a,b\nInf,1\n0x1,Inf\nx,2\n"};
    expect_read(&reading, "MALFORMED x.csv: line 3, column 2 (b): \"Inf\" is not finite");
    reading.unused = "b";
    expect_read(&reading, "a text 0x1:1,Inf:1,x:1\n1 0\n0 0\n2 0\n");
}

Test(records, a_second_scan_is_asked_for_only_by_mixed_columns)
{
    static const struct {
        const char *text;
        bool again;
    } cases[] = {{"a,b\nNA,1\nx,2\n3,4\n", false},
                 {"a,b\n3,1\nx,2\n", true},
                 {"a,b\nT,1\nF,2\n", false},
                 {"a,b\nT,1\n1,2\n", true}};
    struct report *report = malloc(sizeof *report);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_records(report, &(struct reading){.text = cases[i].text});
        cr_expect_eq(report->err, ERR_OK, "%s", report->text);
        cr_expect_eq(report->again, cases[i].again, "%zu", i);
    }
    free(report);
}

/* A file that has changed after the scan is noticed by whatever does not fit. */
Test(records, a_changed_file_is_a_conflict)
{
    static const char before[] = "a,b,c\n1,x,T\n2,y,T\n";
    static const char *const after[] = {
        "a,b,c\n1,x,T\n2,z,T\n",       "a,b,c\n1,x,T\n",        "a,b,c\n1,x,T\n2,y,T\n3,y,T\n",
        "a,b,c\n1,x,T\nu,y,T\n",       "a,d,c\n1,x,T\n2,y,T\n", "a,b,c\n1,x,T\n2,y\n",
        "a,b,c\n1,x,T\n2,y,F\n",       "a,b,c\n1,x,T\n2,y,1\n", "a,b,c\n1,x,T\n2,\"y\"y,T\n",
        "a,b,c\n1,x,T\n2,y,T\n\"2,y,T"};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        struct pieces from = {.bytes = before, .size = sizeof before - 1};
        struct table_feed source = {
            .read = feed_pieces, .context = &from, .name = "x.csv", .budget_bytes = BUDGET};
        struct records *records;
        struct column_facts facts[3];
        struct err_info info = {0};
        uint64_t rows;
        bool again;
        cr_assert_eq(records_open(&records, &source, NULL, &info), ERR_OK);
        cr_assert_eq(records_use(records, (bool[]){true, true, true}, &info), ERR_OK);
        cr_assert_eq(records_scan(records, facts, &rows, &again, &info), ERR_OK);
        from = (struct pieces){.bytes = after[i], .size = strlen(after[i])};
        enum err err = records_rewind(records, &source, &info);
        const double *values;
        size_t count = 1;
        while (err == ERR_OK && count > 0)
            err = records_next(records, facts, &values, &count, &info);
        cr_expect_eq(err, ERR_CONFLICT, "%zu: %s", i, err_name(err));
        cr_expect_str_eq(info.message, "x.csv has changed while it was read");
        records_facts_release(facts, 3);
        records_close(records);
    }
}
