/* Data files as text, also packed: what is read, what is refused and in which words, limits. */
#include "tests/unit/server/data/table_fixture.h"

/* Text: what is read */

Test(table, well_formed_text_is_read)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct good *g = &good[i];
        struct table table;
        struct err_info info;
        enum err err = read_bytes(&table, g->text, strlen(g->text), BUDGET, &info);
        cr_expect_eq(err, ERR_OK, "%s: %s", g->label, info.message);
        if (err != ERR_OK)
            continue;
        cr_expect_eq(table.rows, g->rows, "%s: %zu rows", g->label, table.rows);
        cr_expect_eq(table.rows_total, g->rows, "%s", g->label);
        cr_expect_eq(table.columns, g->columns, "%s: %zu columns", g->label, table.columns);
        cr_expect_eq(table.header, g->header, "%s", g->label);
        cr_expect_eq(table.single_exact, g->single, "%s: single", g->label);
        cr_expect_str_eq(table.names[table.columns - 1], g->last_name, "%s", g->label);
        cr_expect_eq(bits_of(table.values[0]), bits_of(g->first), "%s", g->label);
        cr_expect_eq(bits_of(table.values[table.rows * table.columns - 1]), bits_of(g->last), "%s",
                     g->label);
        table_release(&table);
    }
}

/* Text: what is refused, and the words */

struct bad {
    const char *text;
    size_t size; /* 0: up to the NUL */
    enum err code;
    const char *message;
};

#define EXPECTED   "; expected are decimal numbers such as -1.5e3, separated by "
#define SIXTY_FIVE "11111111112222222222333333333344444444445555555555666666666677777"

static const struct bad bad[] = {
    {"\n\n \r\n", 0, ERR_MALFORMED, "x.csv has only blank lines"},
    {"\xef\xbb\xbf", 0, ERR_MALFORMED, "x.csv has only blank lines"},
    {"y,age\n", 0, ERR_MALFORMED, "x.csv has a header but no rows"},
    {"y,age", 0, ERR_MALFORMED, "x.csv has a header but no rows"},
    {"\n1,2\n", 0, ERR_MALFORMED, "x.csv, line 1 is blank; names or numbers are expected"},
    {"y,age\n1,2\n3,abc\n", 0, ERR_MALFORMED,
     "x.csv, line 3, column 2 (age): \"abc\" is not a number" EXPECTED "commas"},
    {"1,2\n3,4x\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4x\" is not a number" EXPECTED "commas"},
    {"1\t2\n3\t4,5\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4,5\" is not a number" EXPECTED "tabs"},
    {"a;b;c\n1,5;2,5;1\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 1 (a): \"1,5\" is not a number" EXPECTED "semicolons"},
    {"y,z\n1,NaN\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2 (z): \"NaN\" is not a number" EXPECTED "commas"},
    {"1,NaN\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"NaN\" is not a number" EXPECTED "commas"},
    {"NA\n1\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 1: \"NA\" is not a number" EXPECTED "commas"},
    {"1,-inf\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"-inf\" is not a number" EXPECTED "commas"},
    {"1,0x10\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"0x10\" is not a number" EXPECTED "commas"},
    {"1,2\n1,0x10\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"0x10\" is not a number" EXPECTED "commas"},
    {"1,1e400\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"1e400\" is beyond the range of a double"},
    {"a,b\n1,-1e999\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2 (b): \"-1e999\" is beyond the range of a double"},
    {"1,,3\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: the cell is empty; a number is expected"},
    {"a,b\n1,\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2 (b): the cell is empty; a number is expected"},
    {"a\tb\n1\t\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2 (b): the cell is empty; a number is expected"},
    {"a,b\n \t,2\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 1 (a): the cell is empty; a number is expected"},
    {"a,b\n1,2\n\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 3 is blank; blank lines are allowed only at the end"},
    {"1\n \r\n2\n", 0, ERR_MALFORMED,
     "x.csv, line 2 is blank; blank lines are allowed only at the end"},
    {"1,2\n3\n", 0, ERR_MALFORMED,
     "x.csv, line 2 has 1 cell where line 1 has 2 (separated by commas)"},
    {"1,2\n3,4,5\n", 0, ERR_MALFORMED,
     "x.csv, line 2 has 3 cells where line 1 has 2 (separated by commas)"},
    {"1\t2\n3\t4\t\n", 0, ERR_MALFORMED,
     "x.csv, line 2 has 3 cells where line 1 has 2 (separated by tabs)"},
    {"1,2\r3,4\r5,6", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"2\\x0d3\" is not a column name: a name must be UTF-8 without "
     "control "
     "characters"},
    {"1,2\n3,4\r5\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4\\x0d5\" is not a number" EXPECTED "commas"},
    {"1,2\n3,4\r\r\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4\\x0d\" is not a number" EXPECTED "commas"},
    {"1,2\n3,4\0\n", 9, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4\\x00\" is not a number" EXPECTED "commas"},
    {"a,b\0\n3,4\n", 9, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"b\\x00\" is not a column name: a name must be UTF-8 without "
     "control "
     "characters"},
    {"a,\xff\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xff\" is not a column name: a name must be UTF-8 without "
     "control "
     "characters"},
    {"a,\xed\xa0\x80\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xed\\xa0\\x80\" is not a column name: a name must be UTF-8 "
     "without "
     "control characters"},
    {"a,\xc2\x9b\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xc2\\x9b\" is not a column name: a name must be UTF-8 without "
     "control "
     "characters"},
    {"a,\xf0\x80\x80\xaf\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xf0\\x80\\x80\\xaf\" is not a column name: a name must be UTF-8 "
     "without "
     "control characters"},
    {"a,,b\n1,2,3\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\" is not a column name: a name must not be empty"},
    {"a,\"\"\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\" is not a column name: a name must not be empty"},
    {"age,b,c,age\n1,2,3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1: columns 1 and 4 are both named \"age\"; names must differ"},
    {"a,\"b\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\\"b\" is not a column name: its quote is not closed on the same "
     "line"},
    {"a,\"b\"c\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\\"b\\\"c\" is not a column name: there is text after the "
     "closing quote"},
    {"a,b\"c\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"b\\\"c\" is not a column name: a name with quotes in it must be "
     "quoted"},
    {"a,b\n1,\"2\"\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2 (b) holds a quoted number (\"2\"); write numbers without quotes"},
    {"a,b\n1,2 3\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2 (b): \"2 3\" is not a number" EXPECTED "commas"},
    {"1,2\n1,\"quote \\ \x1b[31m and more text than can be shown in a message\"\n", 0,
     ERR_MALFORMED,
     "x.csv, line 2, column 2 holds text (\"quote \\\\ \\x1b[31m and more text than can...\"); "
     "write "
     "categories as numbers, such as 0 and 1, or remove the column from the file"},
    {"1,2\n1," SIXTY_FIVE "\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"1111111111222222222233333333334444444444...\" is longer than the "
     "64 bytes of a number"},
    {"caf\xc3\xa9,b\nx,2\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 1 (caf\xc3\xa9): \"x\" is not a number" EXPECTED "commas"},
    {"PK\003\004....", 0, ERR_UNSUPPORTED,
     "x.csv is a zip archive (.xlsx, .npz); supported are CSV, TSV and NPY, also compressed with "
     "gzip"},
    {"\xff\xfe"
     "1\0",
     4, ERR_UNSUPPORTED,
     "x.csv is UTF-16 text; save it as UTF-8; supported are CSV, TSV and NPY, also compressed with "
     "gzip"},
    {"PAR1....", 0, ERR_UNSUPPORTED,
     "x.csv is Parquet; supported are CSV, TSV and NPY, also compressed with gzip"},
};

Test(table, faulty_text_is_refused_with_place_and_reason)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_refusal(bad[i].text, bad[i].size > 0 ? bad[i].size : strlen(bad[i].text), BUDGET,
                       bad[i].code, bad[i].message);
    expect_refusal("", 0, BUDGET, ERR_MALFORMED, "x.csv is empty");
}

/* Limits */

static char *repeat(const char *piece, size_t count, size_t *size)
{
    size_t length = strlen(piece);
    char *text = malloc(length * count + 1);
    cr_assert_not_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * length, piece, length);
    text[ *size = length * count] = '\0';
    return text;
}

Test(table, columns_are_limited)
{
    size_t size;
    char *text = repeat("1,", TABLE_COLUMNS_MAX, &size);
    struct table table;
    struct err_info info;
    cr_expect_eq(read_bytes(&table, text, size - 1, 64 << 20, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(table.columns, TABLE_COLUMNS_MAX);
    cr_expect_str_eq(table.names[TABLE_COLUMNS_MAX - 1], "V100000");
    table_release(&table);
    text[size - 1] = ',';
    char *more = malloc(size + 1);
    memcpy(more, text, size);
    more[size] = '1';
    expect_refusal(more, size + 1, 64 << 20, ERR_TOO_LARGE,
                   "x.csv has 100001 columns; at most 100000 are allowed");
    free(more);
    free(text);
}

Test(table, a_million_columns_are_refused)
{
    size_t size;
    char *text = repeat("x;", 1000000, &size);
    expect_refusal(text, size, 64 << 20, ERR_TOO_LARGE,
                   "x.csv has 1000001 columns; at most 100000 are allowed");
    free(text);
}

Test(table, lines_are_limited)
{
    size_t size;
    char *text = repeat(" ", TABLE_LINE_MAX + 3, &size);
    memcpy(text, "1\n2", 3);
    text[size - 1] = ',';
    expect_refusal(text, size, BUDGET, ERR_TOO_LARGE,
                   "x.csv, line 2 is longer than 16777216 bytes");
    text[size - 1] = ' ';
    expect_refusal(text, size, BUDGET, ERR_TOO_LARGE,
                   "x.csv, line 2 is longer than 16777216 bytes");
    expect_refusal(text + 2, size - 2, BUDGET, ERR_TOO_LARGE,
                   "x.csv, line 1 is longer than 16777216 bytes");
    struct table table;
    struct err_info info;
    cr_expect_eq(read_bytes(&table, text + 2, TABLE_LINE_MAX, BUDGET, &info), ERR_OK, "%s",
                 info.message);
    table_release(&table);
    free(text);
}

Test(table, a_name_has_at_most_256_bytes)
{
    char text[300];
    struct table table;
    struct err_info info;
    memset(text, 'n', sizeof text);
    memcpy(text + TABLE_NAME_MAX, "\n1\n", 3);
    cr_expect_eq(read_bytes(&table, text, TABLE_NAME_MAX + 3, BUDGET, &info), ERR_OK);
    table_release(&table);
    memcpy(text + TABLE_NAME_MAX, "n\n1\n", 4);
    expect_refusal(text, TABLE_NAME_MAX + 4, BUDGET, ERR_MALFORMED,
                   "x.csv, line 1, column 1: \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...\" is "
                   "not a column name: a name is too long");
}

/* One block of short lines, mapped again and again, is a text of 10^8 lines in little memory. */
Test(table, rows_are_limited)
{
    enum { BLOCK = 1 << 21 };
    size_t blocks = TABLE_ROWS_MAX * 2 / BLOCK + 1;
    int fd = memfd_create("lines", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, BLOCK) == 0);
    char *space =
        mmap(NULL, blocks * BLOCK, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(space, MAP_FAILED);
    for (size_t i = 0; i < BLOCK / 2; i++)
        cr_assert_eq(write(fd, "7\n", 2), 2);
    for (size_t i = 0; i < blocks; i++)
        cr_assert_neq(mmap(space + i * BLOCK, BLOCK, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0),
                      MAP_FAILED);
    struct table table;
    struct err_info info = {0};
    struct table_source source = {.name = "x.csv",
                                  .bytes = space,
                                  .size = TABLE_ROWS_MAX * 2 + 2,
                                  .budget_bytes = (size_t)1 << 40};
    static const char message[] = "x.csv has more than the 100000000 rows allowed";
    cr_expect_eq(peek(&table, &source, 3, &info), ERR_TOO_LARGE);
    cr_expect_str_eq(info.message, message);
    struct bytes from = {space, source.size};
    struct table_feed pieces = {
        .read = feed, .context = &from, .name = "x.csv", .budget_bytes = BUDGET};
    struct table_stream *stream;
    cr_assert_eq(table_stream_open(&stream, &pieces, &info), ERR_OK);
    cr_expect_eq(stream_rows(stream, NULL, &info), ERR_TOO_LARGE);
    cr_expect_str_eq(info.message, message);
    table_stream_close(stream);
    source.size = TABLE_ROWS_MAX * 2;
    cr_expect_eq(peek(&table, &source, 3, &info), ERR_OK);
    cr_expect_eq(table.rows_total, TABLE_ROWS_MAX);
    cr_expect_eq(table.rows, 3);
    table_release(&table);
    munmap(space, blocks * BLOCK);
    close(fd);
}

Test(table, memory_stays_within_the_budget)
{
    static const char text[] = "a,b\n1,2\n3,4\n5,6\n";
    struct table table;
    struct err_info info;
    size_t needed = 2 * (sizeof(char *) + sizeof(size_t)) + sizeof "a,b" + 1 + 6 * sizeof(double);
    for (size_t budget = 0; budget < needed; budget++) {
        enum err err = read_bytes(&table, text, sizeof text - 1, budget, &info);
        cr_assert_eq(err, ERR_TOO_LARGE, "budget %zu: %s", budget, err_name(err));
    }
    cr_assert_eq(read_bytes(&table, text, sizeof text - 1, needed, &info), ERR_OK);
    table_release(&table);
    expect_refusal(text, sizeof text - 1, needed - 1, ERR_TOO_LARGE,
                   "x.csv: its values do not fit into the 47 bytes of memory left for it");
}

Test(table, short_lines_under_a_wide_first_one_do_not_ask_for_much)
{
    size_t wide, lines;
    char *first = repeat("1,", 1000, &wide), *rest = repeat("\n7", 1000, &lines);
    char *text = malloc(wide + lines);
    memcpy(text, first, wide - 1);
    memcpy(text + wide - 1, rest, lines);
    expect_refusal(text, wide - 1 + lines, (size_t)64 << 10, ERR_MALFORMED,
                   "x.csv, line 2 has 1 cell where line 1 has 1000 (separated by commas)");
    free(text);
    free(rest);
    free(first);
}

/* A sanitizer's allocator does not survive the limit that makes malloc fail. */
#ifndef __SANITIZE_ADDRESS__
static void limit_memory(size_t more)
{
    size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    cr_assert(statm != NULL && fscanf(statm, "%zu", &pages) == 1);
    fclose(statm);
    size_t limit = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}), 0);
}

Test(table, out_of_memory_is_an_error)
{
    size_t size;
    char *text = repeat("1,1\n", 4 << 20, &size);
    unsigned char *packed = malloc(1 << 20);
    struct table_source plain = {.name = "x.csv",
                                 .bytes = text,
                                 .size = size,
                                 .budget_bytes = (size_t)1 << 40},
                        gzip = plain;
    gzip.bytes = (char *)packed;
    gzip.size = pack(text, size, packed, 1 << 20);
    struct table table;
    struct err_info info;
    limit_memory(10 << 20);
    cr_expect_eq(table_read(&table, &plain, &info), ERR_NO_MEMORY);
    cr_expect_str_eq(info.message, "x.csv: no memory for its values");
    cr_expect_eq(table_read(&table, &gzip, &info), ERR_NO_MEMORY);
    cr_expect_str_eq(info.message, "x.csv: no memory for its values");
    free(packed);
    free(text);
}

Test(table, peek_unpacks_gzip_in_little_memory)
{
    size_t size;
    char *text = repeat("1,1\n", 25 << 20, &size);
    unsigned char *packed = malloc(1 << 20);
    struct table_source source = {.name = "x.csv",
                                  .bytes = (char *)packed,
                                  .size = pack(text, size, packed, 1 << 20),
                                  .budget_bytes = BUDGET};
    free(text);
    struct table table;
    struct err_info info;
    limit_memory(4 << 20);
    cr_assert_eq(peek(&table, &source, 3, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(table.rows, 3);
    cr_expect_eq(table.rows_total, 25 << 20);
    table_release(&table);
    free(packed);
}
#endif

/* Peek and find */

Test(table, peek_reads_the_first_rows_and_counts_the_others)
{
    static const char text[] = "a,b\n1,2\n3,4\n5,oops\n\n7,8\n";
    struct table_source source = {
        .name = "x.csv", .bytes = text, .size = sizeof text - 1, .budget_bytes = BUDGET};
    struct table table;
    struct err_info info;
    cr_assert_eq(peek(&table, &source, 2, &info), ERR_OK);
    cr_expect_eq(table.rows, 2);
    cr_expect_eq(table.rows_total, 5);
    cr_expect_str_eq(table.names[1], "b");
    cr_expect_eq(table.values[3], 4);
    table_release(&table);
    cr_assert_eq(peek(&table, &source, 0, &info), ERR_OK);
    cr_expect_eq(table.rows, 0);
    cr_expect_eq(table.rows_total, 5);
    table_release(&table);
    cr_expect_eq(peek(&table, &source, 3, &info), ERR_MALFORMED);
    table_release(&table);
}

/* The lines that are not parsed count up to the last that is not blank, wherever windows end. */
Test(table, peek_counts_lines_in_plain_and_packed_files)
{
    static const struct {
        const char *head, *piece, *tail;
        size_t pieces, rows;
    } cases[] = {
        {"a,b\n1,2\n", "", "", 0, 1},
        {"a,b\n1,2\n", "3,4\n", "\n \r\n\t\n", 1, 2},
        {"a,b\n1,2\n", "\n", "3,4", 3, 5},
        {"a,b\n1,2\n\n", "3,4\r\n", "\r\n", 700000, 700002},
        {"a,b\r\n1,2\r\n", "                ", "\n", 200000, 1},
        {"a,b\n1,2\n", "\n", "", 3000000, 1},
        {"a,b\n1,2\n", "\n", " x", 3000000, 3000002},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size, head = strlen(cases[i].head), tail = strlen(cases[i].tail);
        char *middle = repeat(cases[i].piece, cases[i].pieces, &size);
        char *text = malloc(head + size + tail);
        unsigned char *packed = malloc(1 << 20);
        memcpy(text, cases[i].head, head);
        memcpy(text + head, middle, size);
        memcpy(text + head + size, cases[i].tail, tail);
        size += head + tail;
        struct table_source sources[2] = {
            {.name = "x.csv", .bytes = text, .size = size, .budget_bytes = BUDGET},
            {.name = "x.csv",
             .bytes = (char *)packed,
             .size = pack(text, size, packed, 1 << 20),
             .budget_bytes = BUDGET}};
        for (size_t k = 0; k < 4; k++) {
            struct table table;
            struct err_info info;
            cr_assert_eq(peek(&table, &sources[k / 2], k % 2, &info), ERR_OK, "%s", info.message);
            cr_expect_eq(table.rows, k % 2);
            cr_expect_eq(table.rows_total, cases[i].rows, "case %zu: %zu", i, table.rows_total);
            table_release(&table);
        }
        free(packed);
        free(text);
        free(middle);
    }
}

Test(table, columns_are_found_by_name)
{
    static const char text[] = "y,age,Age,\"a,b\",x\n1,2,3,4,5\n";
    static const char *const names[] = {"y", "age", "Age", "a,b", "x"};
    struct table table;
    struct err_info info;
    size_t column = 99;
    cr_assert_eq(read_bytes(&table, text, sizeof text - 1, BUDGET, &info), ERR_OK);
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(table_find(&table, names[i], &column, &info), ERR_OK);
        cr_expect_eq(column, i);
    }
    static const char *const absent[] = {"", "z", "ag", "agee", "Y", "A"};
    for (size_t i = 0; i < 6; i++)
        cr_expect_eq(table_find(&table, absent[i], &column, &info), ERR_NOT_FOUND);
    cr_expect_eq(table_find(&table, "sex", &column, &info), ERR_NOT_FOUND);
    cr_expect_str_eq(info.message, "x.csv has no column \"sex\"; it has 5: y, age, Age, a,b, x");
    table_release(&table);
}

Test(table, a_long_list_of_columns_is_cut)
{
    size_t size;
    char *text = repeat("1,", 500, &size);
    struct table table;
    struct err_info info;
    size_t column;
    cr_assert_eq(read_bytes(&table, text, size - 1, BUDGET, &info), ERR_OK);
    cr_expect_eq(table_find(&table, "V500", &column, &info), ERR_OK);
    cr_expect_eq(column, 499);
    cr_expect_eq(table_find(&table, "V501", &column, &info), ERR_NOT_FOUND);
    size_t length = strlen(info.message);
    cr_expect_str_eq(info.message + length - 13, "V32, V33, ...", "%s", info.message);
    table_release(&table);
    free(text);
}

/* gzip */

Test(table, gzip_is_unpacked)
{
    unsigned char packed[1000];
    struct table table;
    struct err_info info;
    size_t first = pack("a,b\n1,2\n3,", 10, packed, sizeof packed);
    size_t both = first + pack("4\n5,6", 5, packed + first, sizeof packed - first);
    cr_assert_eq(read_bytes(&table, packed, both, BUDGET, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(table.rows, 3);
    cr_expect_eq(table.values[3], 4);
    cr_expect_eq(table.values[5], 6);
    table_release(&table);
    size_t wrong = pack("a,b\n1,2\n3,x\n", 12, packed, sizeof packed);
    expect_refusal(packed, wrong, BUDGET, ERR_MALFORMED,
                   "x.csv, line 3, column 2 (b): \"x\" is not a number" EXPECTED "commas");
}

Test(table, damaged_gzip_is_refused)
{
    unsigned char packed[1000];
    struct table table;
    struct err_info info;
    size_t size = pack("a,b\n1,2\n3,4\n", 12, packed, sizeof packed - 4);
    for (size_t cut = 2; cut < size; cut++) {
        cr_expect_eq(read_bytes(&table, packed, cut, BUDGET, &info), ERR_MALFORMED, "%zu", cut);
        cr_expect_str_eq(info.message, "x.csv: the gzip data end too early");
    }
    memcpy(packed + size, "junk", 4);
    cr_expect_eq(read_bytes(&table, packed, size + 4, BUDGET, &info), ERR_MALFORMED);
    packed[size - 6] ^= 1;
    cr_expect_eq(read_bytes(&table, packed, size, BUDGET, &info), ERR_MALFORMED);
    cr_expect(strstr(info.message, "damaged near byte") != NULL, "%s", info.message);
    size = pack("", 0, packed, sizeof packed);
    expect_refusal(packed, size, BUDGET, ERR_MALFORMED, "x.csv has only blank lines");
}

Test(table, a_gzip_bomb_meets_the_budget)
{
    size_t size;
    char *text = repeat("1,1\n", 4 << 20, &size);
    unsigned char *packed = malloc(1 << 20);
    size_t packed_size = pack(text, size, packed, 1 << 20);
    cr_assert_lt(packed_size, 100000);
    expect_refusal(packed, packed_size, 0, ERR_TOO_LARGE,
                   "x.csv: its column names (2 of 8 bytes each) do not fit into the 0 bytes of "
                   "memory left for it");
    expect_refusal(packed, packed_size, 20 << 20, ERR_TOO_LARGE,
                   "x.csv: its values do not fit into the 20971472 bytes of memory left for it");
    free(packed);
    free(text);
}
