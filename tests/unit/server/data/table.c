/* Data files as text and NPY: what is read, what is refused and in which words, and that decimal
 * text becomes the double that strtod makes of it. */
#include "server/data/table.h"
#include "server/data/table_decimal.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

enum { BUDGET = 1 << 20 };

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static size_t below(uint64_t *state, size_t limit)
{
    return (size_t)(next_random(state) >> 11) % limit;
}

/* The bytes as a stream sees them. */
struct bytes {
    const char *at;
    size_t left;
};

static enum err feed(void *context, char *to, size_t room, size_t *got, struct err_info *info)
{
    struct bytes *b = context;
    (void)info;
    *got = b->left < room ? b->left : room;
    if (*got > 0)
        memcpy(to, b->at, *got);
    b->at += *got;
    b->left -= *got;
    return ERR_OK;
}

/* All rows of the stream must be those of the table; returns how it ended. */
static enum err stream_rows(struct table_stream *stream, const struct table *table,
                            struct err_info *info)
{
    const struct table *block = table_stream_table(stream);
    size_t rows = 0;
    for (;;) {
        enum err err = table_stream_next(stream, info);
        if (err != ERR_OK)
            return err;
        if (block->rows == 0)
            break;
        if (table != NULL) {
            cr_assert_leq(rows + block->rows, table->rows);
            cr_assert_eq(memcmp(block->values, table->values + rows * table->columns,
                                block->rows * table->columns * sizeof(double)),
                         0);
        }
        rows += block->rows;
    }
    cr_assert(table == NULL || rows == table->rows);
    return ERR_OK;
}

/* However the file is cut into pieces, its rows are the same, and so is what is wrong with it: what
 * the table alone may not take (memory) and where gzip was cut are no matter of content. */
static void expect_stream(const void *bytes, size_t size, const struct table *table, enum err err,
                          const struct err_info *info)
{
    static const size_t windows[] = {5, 64, 777, 0};
    bool packed = size >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
    if (err == ERR_TOO_LARGE || err == ERR_NO_MEMORY || size > 1 << 22)
        return;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        struct bytes from = {bytes, size};
        struct table_feed source = {.read = feed,
                                    .context = &from,
                                    .name = "x.csv",
                                    .budget_bytes = 64 * BUDGET,
                                    .window_bytes = windows[i]};
        struct table_stream *stream;
        struct err_info why = {0};
        enum err code = table_stream_open(&stream, &source, &why);
        if (code == ERR_OK && err == ERR_OK) {
            const struct table *head = table_stream_table(stream);
            cr_assert_eq(head->columns, table->columns);
            cr_assert_eq(head->header, table->header);
            for (size_t j = 0; j < head->columns; j++)
                cr_assert_str_eq(head->names[j], table->names[j]);
        }
        if (code == ERR_OK)
            code = stream_rows(stream, err == ERR_OK ? table : NULL, &why);
        table_stream_close(stream);
        cr_assert_eq(code, err, "window %zu: %s, not %s", windows[i], why.message, info->message);
        if (err != ERR_OK && !packed)
            cr_assert_str_eq(why.message, info->message, "window %zu", windows[i]);
    }
}

/* Reads a copy that ends exactly where the bytes do, so that a sanitizer sees every byte too far;
 * then as a stream.
 */
static enum err read_bytes(struct table *table, const void *bytes, size_t size, size_t budget,
                           struct err_info *info)
{
    char *copy = malloc(size > 0 ? size : 1);
    cr_assert_not_null(copy);
    memcpy(copy, bytes, size);
    struct table_source source = {"x.csv", copy, size, budget};
    *info = (struct err_info){0};
    enum err err = table_read(table, &source, info);
    expect_stream(copy, size, table, err, info);
    free(copy);
    return err;
}

static size_t pack(const void *bytes, size_t size, unsigned char *out, size_t capacity)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)size,
                       .next_out = out,
                       .avail_out = (uInt)capacity};
    cr_assert_eq(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return capacity - stream.avail_out;
}

/* Decimal text */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void expect_as_strtod(const char *text)
{
    char *stop;
    double expected = strtod(text, &stop), value = -1.0;
    size_t size = strlen(text);
    const char *end = table_decimal(text, text + size, &value);
    cr_assert_eq(end, (const char *)stop, "\"%s\" ends elsewhere", text);
    cr_assert_eq(bits_of(value), bits_of(expected), "\"%s\" is %.17g, not %.17g", text, expected,
                 value);
}

static void random_decimal(uint64_t *state, char *text)
{
    size_t digits = 1 + below(state, 23), point = below(state, 26);
    if (below(state, 2))
        *text++ = "+-"[below(state, 2)];
    for (size_t i = 0; i < digits; i++) {
        if (i == point)
            *text++ = '.';
        *text++ = (char)('0' + below(state, 10));
    }
    if (below(state, 3) == 0)
        text += sprintf(text, "%c%d", "eE"[below(state, 2)],
                        (int)below(state, 60) - 30 + (below(state, 50) ? 0 : 300));
    *text = '\0';
}

static void random_printed(uint64_t *state, char *text)
{
    uint64_t bits = next_random(state);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (below(state, 4) != 0 || !isfinite(value))
        value = ((double)(bits >> 11) * 0x1p-53 - 0.5) * pow(10.0, (double)below(state, 12) - 4.0);
    sprintf(text, "%.*g", (int)(14 + below(state, 5)), value);
}

/* Exactly between two doubles, or one unit of the last digit beside that. */
static void random_halfway(uint64_t *state, char *text)
{
    uint64_t odd = (next_random(state) >> 11 | UINT64_C(1) << 53 | 1) & ((UINT64_C(1) << 54) - 1);
    int halvings = (int)below(state, 3), offset = (int)below(state, 3) - 1;
    uint64_t scaled = odd * (halvings == 2 ? 25 : halvings == 1 ? 5 : 1) + (uint64_t)offset;
    sprintf(text, "%llue-%d", (unsigned long long)scaled, halvings);
}

Test(table, decimals_are_bit_equal_to_strtod)
{
    static void (*const kinds[])(uint64_t *, char *) = {random_decimal, random_printed,
                                                        random_halfway};
    uint64_t state = 2385;
    char text[128];
    for (size_t i = 0; i < 1500000; i++) {
        kinds[i % 3](&state, text);
        expect_as_strtod(text);
    }
}

Test(table, decimals_at_the_edges_are_bit_equal_to_strtod)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "+0.0e-99999",
        "0e99999",
        "-0e+7",
        "5",
        ".5",
        "5.",
        "-.25e+1",
        "1E5",
        "00012.5",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993e1",
        "9007199254740992.5",
        "18446744073709551615",
        "18446744073709551616",
        "9999999999999999999",
        "1e22",
        "1e23",
        "1e27",
        "1e28",
        "-1e-27",
        "1e-28",
        "7.450580596923828125e-27",
        "1e308",
        "1e309",
        "-1e400",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "4.9e-324",
        "2e-324",
        "1e-400",
        "2.2250738585072011e-308",
        "123456789012345678901234567890",
        "0.00000000000000000000001234",
        "0.1000000000000000055511151231257827",
        "3e",
        "3e+",
        "3e-x",
        "7.2.1",
        "12abc",
        "1e99999999999",
        "1e-99999999999",
        "1e4294967297",
        "1e-18446744073709551617",
        "000000000000000000000000000000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_as_strtod(texts[i]);
}

Test(table, what_is_no_decimal_is_not_read)
{
    static const char *const texts[] = {"",    ".",    "-",  "+",   "e5", "-.e5", "nan",
                                        "inf", "-inf", " 1", "--1", "\0", "x",    ",1"};
    double value;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_expect_null(table_decimal(texts[i], texts[i] + strlen(texts[i]), &value), "\"%s\"",
                       texts[i]);
    char digits[TABLE_CELL_MAX + 1];
    memset(digits, '1', sizeof digits);
    cr_expect_not_null(table_decimal(digits, digits + TABLE_CELL_MAX, &value));
    cr_expect_null(table_decimal(digits, digits + sizeof digits, &value));
    cr_expect_eq(table_decimal("12345", "12345" + 3, &value) == NULL, false);
}

Test(table, a_decimal_is_not_read_beyond_its_end)
{
    double value = 0.0;
    const char *text = "-12.5e17";
    static const double expected[] = {0, 0, -1, -12, -12, -12.5, -12.5, -125, -12.5e17};
    for (size_t size = 2; size <= 8; size++) {
        cr_assert_not_null(table_decimal(text, text + size, &value));
        cr_expect_eq(value, size == 7 ? -125 : expected[size], "%zu bytes: %g", size, value);
    }
}

/* Text: what is read */

struct good {
    const char *label, *text;
    size_t rows, columns;
    bool header, single;
    const char *last_name;
    double first, last;
};

static const struct good good[] = {
    {"header", "y,age\n1,2.385\n0,-3.5\n", 2, 2, true, false, "age", 1, -3.5},
    {"no header", "1,2\n3,4\n5,6\n", 3, 2, false, true, "V2", 1, 6},
    {"one cell", "7.25", 1, 1, false, true, "V1", 7.25, 7.25},
    {"no newline at the end", "a,b\n1,2", 1, 2, true, true, "b", 1, 2},
    {"CRLF", "a,b\r\n1,2\r\n3,4\r\n", 2, 2, true, true, "b", 1, 4},
    {"CRLF without the last LF", "a,b\r\n1,2\r\n3,4\r", 2, 2, true, true, "b", 1, 4},
    {"mixed line ends", "a,b\r\n1,2\n3,4\r\n", 2, 2, true, true, "b", 1, 4},
    {"BOM and header", "\xef\xbb\xbfy,z\n1,2\n", 1, 2, true, true, "z", 1, 2},
    {"BOM without header",
     "\xef\xbb\xbf"
     "1,2\n",
     1, 2, false, true, "V2", 1, 2},
    {"blank lines at the end", "1,2\n\n  \n\r\n\t\n", 1, 2, false, true, "V2", 1, 2},
    {"tabs", "a\tb\n1\t2\n", 1, 2, true, true, "b", 1, 2},
    {"semicolons", "a;b;c\n1;2;3\n", 1, 3, true, true, "c", 1, 3},
    {"the most frequent separator", "\"a;b;c\",d\n1,2\n", 1, 2, true, true, "d", 1, 2},
    {"tabs with commas in names", "a,b\tc\td\n1\t2\t3\n", 1, 3, true, true, "d", 1, 3},
    {"spaces around cells", "  a , b  \n 1 ,\t2 \n  3,4  \n", 2, 2, true, true, "b", 1, 4},
    {"spaces inside a name", "the age,b\n1,2\n", 1, 2, true, true, "b", 1, 2},
    {"tabs with spaces", " 1 \t 2\n", 1, 2, false, true, "V2", 1, 2},
    {"quoted names", "\"y\",\"a,b\"\n1,2\n", 1, 2, true, true, "a,b", 1, 2},
    {"doubled quotes", "y,\"say \"\"hi\"\"\"\n1,2\n", 1, 2, true, true, "say \"hi\"", 1, 2},
    {"a quoted quote", "y,\"\"\"\"\n1,2\n", 1, 2, true, true, "\"", 1, 2},
    {"quoted name with spaces kept", "y, \" z \" \n1,2\n", 1, 2, true, true, " z ", 1, 2},
    {"quoted numbers are names", "\"1\",\"2\"\n3,4\n", 1, 2, true, true, "2", 3, 4},
    {"one name among numbers", "y,0,1\n2,3,4\n", 1, 3, true, true, "1", 2, 4},
    {"NaN as a name beside another", "y,NaN\n2,3\n", 1, 2, true, true, "NaN", 2, 3},
    {"R draws", ".chain,\"theta[1]\",\"U[3,7]\"\n1,0.5,2\n", 1, 3, true, true, "U[3,7]", 1, 2},
    {"UTF-8 names",
     "y,Gr\xc3\xb6\xc3\x9f"
     "e\n1,2\n",
     1, 2, true, true,
     "Gr\xc3\xb6\xc3\x9f"
     "e",
     1, 2},
    {"exponents", "1e3,-2.5E-1\n", 1, 2, false, true, "V2", 1000, -0.25},
    {"bare points", "1.,.5\n", 1, 2, false, true, "V2", 1, .5},
    {"signs", "+1,-0\n", 1, 2, false, true, "V2", 1, -0.0},
    {"underflow", "1,1e-400\n", 1, 2, false, true, "V2", 1, 0},
    {"not single: 0.1", "1,0.1\n", 1, 2, false, false, "V2", 1, 0.1},
    {"not single: 2^24 + 1", "1,16777217\n", 1, 2, false, false, "V2", 1, 16777217},
    {"single: 2^24", "1,16777216\n", 1, 2, false, true, "V2", 1, 16777216},
    {"not single: too large", "1e39,1\n", 1, 2, false, false, "V2", 1e39, 1},
    {"17 digits", "0.1,0.30000000000000004\n", 1, 2, false, false, "V2", 0.1, 0.30000000000000004},
    {"triplets", "user,item,rating\n1,6,5\n1,10,3\n", 2, 3, true, true, "rating", 1, 3},
    {"largest double", "1,1.7976931348623157e308\n", 1, 2, false, false, "V2", 1,
     1.7976931348623157e308},
};

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
    {"\n\n \r\n", 0, ERR_MALFORMED, "x.csv has no lines but blank ones"},
    {"\xef\xbb\xbf", 0, ERR_MALFORMED, "x.csv has no lines but blank ones"},
    {"y,age\n", 0, ERR_MALFORMED, "x.csv has a header and no rows"},
    {"y,age", 0, ERR_MALFORMED, "x.csv has a header and no rows"},
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
     "x.csv, line 1, column 2: \"2\\x0d3\" is no name: a name must be UTF-8 without control "
     "characters"},
    {"1,2\n3,4\r5\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4\\x0d5\" is not a number" EXPECTED "commas"},
    {"1,2\n3,4\r\r\n", 0, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4\\x0d\" is not a number" EXPECTED "commas"},
    {"1,2\n3,4\0\n", 9, ERR_MALFORMED,
     "x.csv, line 2, column 2: \"4\\x00\" is not a number" EXPECTED "commas"},
    {"a,b\0\n3,4\n", 9, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"b\\x00\" is no name: a name must be UTF-8 without control "
     "characters"},
    {"a,\xff\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xff\" is no name: a name must be UTF-8 without control "
     "characters"},
    {"a,\xed\xa0\x80\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xed\\xa0\\x80\" is no name: a name must be UTF-8 without "
     "control characters"},
    {"a,\xc2\x9b\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xc2\\x9b\" is no name: a name must be UTF-8 without control "
     "characters"},
    {"a,\xf0\x80\x80\xaf\n3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\xf0\\x80\\x80\\xaf\" is no name: a name must be UTF-8 without "
     "control characters"},
    {"a,,b\n1,2,3\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\" is no name: a name must not be empty"},
    {"a,\"\"\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\" is no name: a name must not be empty"},
    {"age,b,c,age\n1,2,3,4\n", 0, ERR_MALFORMED,
     "x.csv, line 1: columns 1 and 4 are both named \"age\"; names must differ"},
    {"a,\"b\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\\"b\" is no name: its quote is not closed on the same line"},
    {"a,\"b\"c\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"\\\"b\\\"c\" is no name: there is text after the closing quote"},
    {"a,b\"c\n1,2\n", 0, ERR_MALFORMED,
     "x.csv, line 1, column 2: \"b\\\"c\" is no name: a name with quotes in it must be quoted"},
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
     "x.csv is a zip archive (.xlsx, .npz); CSV, TSV and NPY are read, also compressed with gzip"},
    {"\xff\xfe"
     "1\0",
     4, ERR_UNSUPPORTED,
     "x.csv is UTF-16 text; save it as UTF-8; CSV, TSV and NPY are read, also compressed with "
     "gzip"},
    {"PAR1....", 0, ERR_UNSUPPORTED,
     "x.csv is Parquet; CSV, TSV and NPY are read, also compressed with gzip"},
};

static void expect_refusal(const void *bytes, size_t size, size_t budget, enum err code,
                           const char *message)
{
    struct table table;
    struct err_info info;
    enum err err = read_bytes(&table, bytes, size, budget, &info);
    cr_expect_eq(err, code, "%s instead of: %s", err_name(err), message);
    cr_expect_str_eq(info.message, message);
    cr_expect_null(table.values);
    cr_expect_null(table.names);
    cr_expect_null(table.file);
    if (err == ERR_OK)
        table_release(&table);
}

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
                   "x.csv has 100001 columns; at most 100000 are read");
    free(more);
    free(text);
}

Test(table, a_million_columns_are_refused)
{
    size_t size;
    char *text = repeat("x;", 1000000, &size);
    expect_refusal(text, size, 64 << 20, ERR_TOO_LARGE,
                   "x.csv has 1000001 columns; at most 100000 are read");
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
                   "x.csv, line 1, column 1: \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...\" is no "
                   "name: a name is too long");
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
    struct table_source source = {"x.csv", space, TABLE_ROWS_MAX * 2 + 2, (size_t)1 << 40};
    cr_expect_eq(table_read(&table, &source, &info), ERR_TOO_LARGE);
    cr_expect_str_eq(info.message, "x.csv has 100000001 rows; at most 100000000 are read");
    source.size = TABLE_ROWS_MAX * 2;
    cr_expect_eq(table_peek(&table, &source, 3, &info), ERR_OK);
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
                   "x.csv: its values (6 of 8 bytes each) do not fit into the 47 bytes of memory "
                   "left for it");
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
    struct table_source plain = {"x.csv", text, size, (size_t)1 << 40}, gzip = plain;
    gzip.bytes = (char *)packed;
    gzip.size = pack(text, size, packed, 1 << 20);
    struct table table;
    struct err_info info;
    limit_memory(10 << 20);
    cr_expect_eq(table_read(&table, &plain, &info), ERR_NO_MEMORY);
    cr_expect_str_eq(info.message, "x.csv: no memory for its values (67108864 bytes)");
    cr_expect_eq(table_read(&table, &gzip, &info), ERR_NO_MEMORY);
    cr_expect(strstr(info.message, "x.csv: no memory to unpack it") != NULL, "%s", info.message);
    free(packed);
    free(text);
}
#endif

/* Peek and find */

Test(table, peek_reads_the_first_rows_and_counts_the_others)
{
    static const char text[] = "a,b\n1,2\n3,4\n5,oops\n\n7,8\n";
    struct table_source source = {"x.csv", text, sizeof text - 1, BUDGET};
    struct table table;
    struct err_info info;
    cr_assert_eq(table_peek(&table, &source, 2, &info), ERR_OK);
    cr_expect_eq(table.rows, 2);
    cr_expect_eq(table.rows_total, 5);
    cr_expect_str_eq(table.names[1], "b");
    cr_expect_eq(table.values[3], 4);
    table_release(&table);
    cr_assert_eq(table_peek(&table, &source, 0, &info), ERR_OK);
    cr_expect_eq(table.rows, 0);
    cr_expect_eq(table.rows_total, 5);
    table_release(&table);
    cr_expect_eq(table_peek(&table, &source, 3, &info), ERR_MALFORMED);
    table_release(&table);
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
    expect_refusal(packed, size, BUDGET, ERR_MALFORMED, "x.csv has no lines but blank ones");
}

Test(table, a_gzip_bomb_meets_the_budget)
{
    size_t size;
    char *text = repeat("1,1\n", 4 << 20, &size);
    unsigned char *packed = malloc(1 << 20);
    size_t packed_size = pack(text, size, packed, 1 << 20);
    cr_assert_lt(packed_size, 100000);
    expect_refusal(packed, packed_size, 5 << 20, ERR_TOO_LARGE,
                   "x.csv unpacks to more than the 5242880 bytes of memory left for it");
    expect_refusal(packed, packed_size, 0, ERR_TOO_LARGE,
                   "x.csv unpacks to more than the 0 bytes of memory left for it");
    expect_refusal(
        packed, packed_size, 20 << 20, ERR_TOO_LARGE,
        "x.csv: its values (8388608 of 8 bytes each) do not fit into the 4194256 bytes of "
        "memory left for it");
    free(packed);
    free(text);
}

/* NPY */

static size_t make_npy(unsigned char *out, int version, const char *dict, const void *data,
                       size_t size)
{
    size_t length = strlen(dict), at = 8;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        out[at++] = (unsigned char)(length >> (8 * i));
    memcpy(out + at, dict, length);
    memcpy(out + at + length, data, size);
    return at + length + size;
}

static void reverse_items(unsigned char *bytes, size_t count, size_t item)
{
    for (size_t i = 0; i < count * item; i += item)
        for (size_t j = 0; j < item / 2; j++) {
            unsigned char keep = bytes[i + j];
            bytes[i + j] = bytes[i + item - 1 - j];
            bytes[i + item - 1 - j] = keep;
        }
}

struct npy_type {
    const char *name;
    size_t item;
    unsigned char bytes[48]; /* six items, little endian */
    double values[6];
};

#define ITEMS(type, ...)                                         \
    memcpy(t.bytes, (type[6]){__VA_ARGS__}, sizeof(type[6]));    \
    memcpy(t.values, (double[6]){__VA_ARGS__}, sizeof t.values); \
    t.item = sizeof(type)

static struct npy_type npy_type(size_t index)
{
    static const char *const names[] = {"f8", "f4", "i8", "i4", "i2", "i1",
                                        "u8", "u4", "u2", "u1", "b1"};
    struct npy_type t = {.name = names[index]};
    switch (index) {
    case 0:
        ITEMS(double, 2.385, -1e300, 0.1, 4, -5, 6);
        break;
    case 1:
        ITEMS(float, 2.5f, -1e30f, 0.1f, 4, -5, 6);
        break;
    case 2:
        ITEMS(int64_t, -7, 1ll << 40, -(1ll << 62), 4, 5, 6);
        break;
    case 3:
        ITEMS(int32_t, -7, INT32_MAX, INT32_MIN, 4, 5, 6);
        break;
    case 4:
        ITEMS(int16_t, -7, INT16_MAX, INT16_MIN, 4, 5, 6);
        break;
    case 5:
        ITEMS(int8_t, -7, 127, -128, 4, 5, 6);
        break;
    case 6:
        ITEMS(uint64_t, 7, 1ull << 63, 3, 4, 5, 6);
        break;
    case 7:
        ITEMS(uint32_t, 7, UINT32_MAX, 3, 4, 5, 6);
        break;
    case 8:
        ITEMS(uint16_t, 7, UINT16_MAX, 3, 4, 5, 6);
        break;
    case 9:
        ITEMS(uint8_t, 7, 255, 3, 4, 5, 6);
        break;
    default:
        ITEMS(uint8_t, 1, 0, 1, 1, 0, 1);
    }
    return t;
}

static void expect_npy(const struct npy_type *type, int version, char order, bool fortran)
{
    char dict[200];
    unsigned char file[400], data[48];
    struct table table;
    struct err_info info;
    memcpy(data, type->bytes, sizeof data);
    if (order == '>')
        reverse_items(data, 6, type->item);
    snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (3, 2), }   \n",
             order, type->name, fortran ? "True" : "False");
    size_t size = make_npy(file, version, dict, data, 6 * type->item);
    enum err err = read_bytes(&table, file, size, BUDGET, &info);
    cr_assert_eq(err, ERR_OK, "version %d, %s: %s", version, dict, info.message);
    cr_expect(table.rows == 3 && table.columns == 2 && !table.header);
    cr_expect_str_eq(table.names[1], "V2");
    for (size_t i = 0; i < 6; i++) {
        size_t at = fortran ? i % 3 * 2 + i / 3 : i;
        cr_expect_eq(bits_of(table.values[at]), bits_of(type->values[i]), "%s: %zu", dict, i);
    }
    cr_expect_eq(table.single_exact,
                 strcmp(type->name, "f8") != 0 && strcmp(type->name, "i4") != 0 &&
                     strcmp(type->name, "u4") != 0,
                 "%s", dict);
    table_release(&table);
}

Test(table, npy_is_read_in_every_version_type_and_order)
{
    for (size_t i = 0; i < 11; i++) {
        struct npy_type type = npy_type(i);
        for (int version = 1; version <= 3; version++)
            for (int fortran = 0; fortran < 2; fortran++) {
                expect_npy(&type, version, '<', fortran);
                expect_npy(&type, version, '>', fortran);
                if (type.item == 1)
                    expect_npy(&type, version, '|', fortran);
            }
    }
}

Test(table, npy_shapes_and_spellings)
{
    static const struct {
        const char *dict;
        size_t rows, columns;
    } cases[] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", 6, 1},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (6), }", 6, 1},
        {"{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f8\"}", 2, 3},
        {"  { 'shape' : ( 1 , 6L , ) , 'fortran_order' : True , 'descr' : '<f8' } \n", 1, 6},
        {"{'descr': '<f8', 'fortran_order': True, 'shape': (6L,)}", 6, 1},
    };
    double values[6] = {1.5, 2.25, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char file[400];
        struct table table;
        struct err_info info;
        size_t size = make_npy(file, 1, cases[i].dict, values, sizeof values);
        cr_assert_eq(read_bytes(&table, file, size, BUDGET, &info), ERR_OK, "%s", info.message);
        cr_expect_eq(table.rows, cases[i].rows);
        cr_expect_eq(table.columns, cases[i].columns);
        cr_expect_eq(table.values[1], 2.25);
        table_release(&table);
    }
}

Test(table, a_tall_npy_in_fortran_order_is_transposed)
{
    enum { ROWS = 131, COLUMNS = 5 };
    double values[ROWS * COLUMNS];
    unsigned char file[sizeof values + 200];
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (double)i;
    size_t size = make_npy(file, 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (131, 5)}",
                           values, sizeof values);
    struct table_source source = {"x.npy", (char *)file, size, BUDGET};
    struct table table;
    struct err_info info;
    for (size_t wanted = ROWS; wanted > 0; wanted -= 65) {
        cr_assert_eq(table_peek(&table, &source, wanted, &info), ERR_OK);
        cr_expect_eq(table.rows, wanted);
        cr_expect_eq(table.rows_total, ROWS);
        for (size_t i = 0; i < wanted * COLUMNS; i++)
            cr_assert_eq(table.values[i], (double)(i % COLUMNS * ROWS + i / COLUMNS));
        table_release(&table);
        if (wanted < 65)
            break;
    }
}

static const struct {
    int version;
    const char *dict;
    size_t data;
    enum err code;
    const char *message;
} bad_npy[] = {
#define TYPES "is not read; allowed are f4, f8, i1 to i8, u1 to u8 and b1, in either byte order"
#define DICT  "the NPY header is not a dict of descr, fortran_order and shape: "
    {1, "{'descr': '|O', 'fortran_order': False, 'shape': (6,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY type \"|O\" " TYPES},
    {1, "{'descr': '<c16', 'fortran_order': False, 'shape': (3,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY type \"<c16\" " TYPES},
    {1, "{'descr': '<U4', 'fortran_order': False, 'shape': (3,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY type \"<U4\" " TYPES},
    {1, "{'descr': '<f2', 'fortran_order': False, 'shape': (24,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY type \"<f2\" " TYPES},
    {1, "{'descr': '|f8', 'fortran_order': False, 'shape': (6,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY type \"|f8\" " TYPES},
    {1, "{'descr': '=f8', 'fortran_order': False, 'shape': (6,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY type \"=f8\" " TYPES},
    {1, "{'descr': '<f8<f8<f8<f8<f8<f8', 'fortran_order': False, 'shape': (6,)}", 48,
     ERR_UNSUPPORTED, "x.csv: NPY type \"<f8<f8<f8<f8<f8\" " TYPES},
    {1, "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (6,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY type \"[...]\" " TYPES},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 8, ERR_UNSUPPORTED,
     "x.csv: an array of 0 dimensions; 1 or 2 are read"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 3)}", 48, ERR_UNSUPPORTED,
     "x.csv: an array of 3 dimensions; 1 or 2 are read"},
    {4, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY version 4; versions 1 to 3 are read"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5)}", 0, ERR_MALFORMED,
     "x.csv has 0 rows and 5 columns; it holds no values"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (7,)}", 48, ERR_MALFORMED,
     "x.csv: 48 bytes of values where 7 rows and 1 columns of 8 bytes are announced"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}", 48, ERR_MALFORMED,
     "x.csv: 48 bytes of values where 5 rows and 1 columns of 8 bytes are announced"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (65536, 65536)}", 0, ERR_MALFORMED,
     "x.csv: 0 bytes of values where 65536 rows and 65536 columns of 8 bytes are announced"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0,
     ERR_TOO_LARGE,
     "x.csv has 4294967296 rows and 4294967296 columns; at most 100000000 and 100000 are read"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551622,)}", 48,
     ERR_MALFORMED, "x.csv: " DICT "\"2,)}\" at its byte 71"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (-6,)}", 48, ERR_MALFORMED,
     "x.csv: " DICT "\"-6,)}\" at its byte 52"},
    {1, "{'descr': '<f8', 'fortran_order': 0, 'shape': (6,)}", 48, ERR_MALFORMED,
     "x.csv: " DICT "\"0, 'shape': (6,)}\" at its byte 35"},
    {1, "{'descr': '<f8', 'fortran_order': False}", 48, ERR_MALFORMED,
     "x.csv: " DICT "\"\" at its byte 41"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,), 'x': 1}", 48, ERR_MALFORMED,
     "x.csv: " DICT "\" 1}\" at its byte 61"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,)} x", 48, ERR_MALFORMED,
     "x.csv: " DICT "\"x\" at its byte 57"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,", 48, ERR_MALFORMED,
     "x.csv: " DICT "\"\" at its byte 54"},
    {1, "{'descr': '<f8' 'fortran_order': False, 'shape': (6,)}", 48, ERR_MALFORMED,
     "x.csv: " DICT "\"'fortran_order': False, 'shape': (6,)}\" at its byte 17"},
    {1, "{'descr: <f8, fortran_order: False}", 48, ERR_MALFORMED,
     "x.csv: " DICT "\"descr: <f8, fortran_order: False}\" at its byte 3"},
    {1, "", 48, ERR_MALFORMED, "x.csv: " DICT "\"\" at its byte 1"},
};

Test(table, faulty_npy_is_refused_with_the_reason)
{
    static const double values[6] = {1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof bad_npy / sizeof *bad_npy; i++) {
        unsigned char file[400];
        size_t size = make_npy(file, bad_npy[i].version, bad_npy[i].dict, values, bad_npy[i].data);
        expect_refusal(file, size, BUDGET, bad_npy[i].code, bad_npy[i].message);
    }
}

Test(table, npy_that_is_cut_off_is_refused)
{
    static const double values[2] = {1, 2};
    unsigned char file[200];
    for (int version = 1; version <= 3; version++) {
        size_t size =
            make_npy(file, version, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}",
                     values, sizeof values);
        for (size_t cut = 6; cut < size; cut++) {
            struct table table;
            struct err_info info;
            cr_expect_eq(read_bytes(&table, file, cut, BUDGET, &info), ERR_MALFORMED, "%zu", cut);
        }
    }
    expect_refusal("\x93NUMPY\2\0\x11\x27\0\0{", 13, BUDGET, ERR_TOO_LARGE,
                   "x.csv: an NPY header of 10001 bytes; at most 10000 are read");
    expect_refusal("\x93NUMPY\3\0\xff\xff\xff\xff{", 13, BUDGET, ERR_TOO_LARGE,
                   "x.csv: an NPY header of 4294967295 bytes; at most 10000 are read");
}

Test(table, npy_values_are_finite_and_truth_values_0_or_1)
{
    static const char *const names[] = {"NaN", "Inf", "-Inf"};
    static const double faults[] = {NAN, INFINITY, -INFINITY};
    unsigned char file[200];
    char message[200];
    for (size_t i = 0; i < 3; i++) {
        double values[4] = {1, 2, faults[i], 4};
        size_t size = make_npy(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}",
                               values, sizeof values);
        snprintf(message, sizeof message, "x.csv, row 2, column 1: %s is not a finite number",
                 names[i]);
        expect_refusal(file, size, BUDGET, ERR_MALFORMED, message);
    }
    size_t size =
        make_npy(file, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\2", 2);
    expect_refusal(file, size, BUDGET, ERR_MALFORMED,
                   "x.csv, row 2, column 1: a truth value that is neither 0 nor 1");
}

Test(table, npy_stays_within_the_budget)
{
    static const double values[6] = {1, 2, 3, 4, 5, 6};
    unsigned char file[200];
    size_t size = make_npy(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2)}",
                           values, sizeof values);
    expect_refusal(file, size, 80, ERR_TOO_LARGE,
                   "x.csv: its values (6 of 8 bytes each) do not fit into the 32 bytes of memory "
                   "left for it");
}

/* Whatever the bytes, reading ends with a sound table or a message */

static void expect_sound(const struct table *table)
{
    cr_assert_gt(table->rows, 0);
    cr_assert_eq(table->rows, table->rows_total);
    cr_assert_gt(table->columns, 0);
    bool exact = true;
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        cr_assert(isfinite(table->values[i]));
        exact &= (double)(float)table->values[i] == table->values[i];
    }
    cr_assert_eq(exact, table->single_exact);
    for (size_t i = 0; i < table->columns; i++) {
        size_t column = SIZE_MAX;
        cr_assert_gt(strlen(table->names[i]), 0);
        cr_assert_eq(table_find(table, table->names[i], &column, NULL), ERR_OK);
        cr_assert_eq(column, i);
    }
}

static size_t mutate(uint64_t *state, unsigned char *bytes, size_t size, size_t capacity)
{
    static const char spice[] = ",;\t\n\r\" 0123456789.eE+-xNa\0\xef\xbb\xbf\x93(){}'";
    for (size_t changes = 1 + below(state, 4); changes > 0; changes--) {
        size_t at = below(state, size + 1);
        unsigned char byte = below(state, 3) ? (unsigned char)spice[below(state, sizeof spice)]
                                             : (unsigned char)next_random(state);
        switch (below(state, 4)) {
        case 0:
            if (size < capacity) {
                memmove(bytes + at + 1, bytes + at, size - at);
                bytes[at] = byte;
                size++;
            }
            break;
        case 1:
            if (at < size) {
                memmove(bytes + at, bytes + at + 1, size - at - 1);
                size--;
            }
            break;
        case 2:
            size = below(state, 8) ? size : at;
            break;
        default:
            if (at < size)
                bytes[at] = byte;
        }
    }
    return size;
}

static size_t make_seed(size_t index, unsigned char *bytes, size_t capacity)
{
    size_t texts = sizeof good / sizeof *good, npys = sizeof bad_npy / sizeof *bad_npy;
    static const double values[6] = {1, 2, 3, 4, 5, 6};
    unsigned char plain[600];
    size_t size;
    if (index % 3 == 0) {
        size_t npy = index / 3 % (npys + 1);
        const char *dict = npy < npys
                               ? bad_npy[npy].dict
                               : "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }\n";
        return make_npy(bytes, 1 + (int)(index / 3 % 3), dict, values, sizeof values);
    }
    const char *text = good[index / 3 % texts].text;
    size = strlen(text);
    if (index % 3 == 1 || index % 5 != 0) {
        memcpy(bytes, text, size);
        return size;
    }
    memcpy(plain, text, size);
    return pack(plain, size, bytes, capacity);
}

Test(table, any_bytes_give_a_sound_table_or_a_message)
{
    enum { RUNS = 30000, CAPACITY = 700 };
    uint64_t state = 20240;
    size_t read = 0, refused = 0;
    for (size_t i = 0; i < RUNS; i++) {
        unsigned char bytes[CAPACITY];
        size_t size = make_seed(i, bytes, CAPACITY);
        struct table table;
        struct err_info info;
        size = mutate(&state, bytes, size, CAPACITY);
        enum err err = read_bytes(&table, bytes, size, BUDGET, &info);
        if (err == ERR_OK) {
            expect_sound(&table);
            table_release(&table);
            read++;
        } else {
            cr_assert_eq(strncmp(info.message, "x.csv", 5), 0, "%s", info.message);
            cr_assert(err == ERR_MALFORMED || err == ERR_UNSUPPORTED || err == ERR_TOO_LARGE,
                      "%s: %s", err_name(err), info.message);
            refused++;
        }
    }
    cr_expect_gt(read, RUNS / 20, "%zu", read);
    cr_expect_gt(refused, RUNS / 4, "%zu", refused);
}

Test(table, random_bytes_give_a_message)
{
    uint64_t state = 77;
    for (size_t i = 0; i < 20000; i++) {
        unsigned char bytes[200];
        size_t size = 1 + below(&state, sizeof bytes);
        struct table table;
        struct err_info info;
        for (size_t j = 0; j < size; j++)
            bytes[j] = (unsigned char)next_random(&state);
        if (i % 2 == 0 && size > 10)
            memcpy(bytes, i % 4 == 0 ? "\x93NUMPY\1\0" : "\x1f\x8b\x08\0\0\0\0\0", 8);
        if (read_bytes(&table, bytes, size, BUDGET, &info) == ERR_OK)
            table_release(&table);
        else
            cr_assert_eq(strncmp(info.message, "x.csv", 5), 0);
    }
}
