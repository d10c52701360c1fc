/* Bytes to tables, at once and as a stream. */
#ifndef BARKER_TESTS_TABLE_FIXTURE_H
#define BARKER_TESTS_TABLE_FIXTURE_H

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

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static inline size_t below(uint64_t *state, size_t limit)
{
    return (size_t)(next_random(state) >> 11) % limit;
}

/* The bytes as a stream sees them. */
struct bytes {
    const char *at;
    size_t left;
};

static inline enum err feed(void *context, char *to, size_t room, size_t *got,
                            struct err_info *info)
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
static inline enum err stream_rows(struct table_stream *stream, const struct table *table,
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
static inline void expect_stream(const void *bytes, size_t size, const struct table *table,
                                 enum err err, const struct err_info *info)
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

/* The preview of a file in memory, all of which is read. */
static inline enum err peek(struct table *table, const struct table_source *source, size_t rows,
                            struct err_info *info)
{
    struct bytes from = {source->bytes, source->size};
    struct table_feed pieces = {
        .read = feed, .context = &from, .name = source->name, .budget_bytes = source->budget_bytes};
    bool whole;
    enum err err = table_preview(table, &pieces, rows, SIZE_MAX, &whole, info);
    cr_assert(whole);
    return err;
}

/* Reads a copy that ends exactly where the bytes do, so that a sanitizer sees every byte too far;
 * then as a stream.
 */
static inline enum err read_bytes(struct table *table, const void *bytes, size_t size,
                                  size_t budget, struct err_info *info)
{
    char *copy = malloc(size > 0 ? size : 1);
    cr_assert_not_null(copy);
    memcpy(copy, bytes, size);
    struct table_source source = {
        .name = "x.csv", .bytes = copy, .size = size, .budget_bytes = budget};
    *info = (struct err_info){0};
    enum err err = table_read(table, &source, info);
    expect_stream(copy, size, table, err, info);
    free(copy);
    return err;
}

static inline size_t pack(const void *bytes, size_t size, unsigned char *out, size_t capacity)
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

static inline uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

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

static inline void expect_refusal(const void *bytes, size_t size, size_t budget, enum err code,
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

static inline size_t make_npy(unsigned char *out, int version, const char *dict, const void *data,
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

static const struct {
    int version;
    const char *dict;
    size_t data;
    enum err code;
    const char *message;
} bad_npy[] = {
#define TYPES \
    "is not supported; allowed are f4, f8, i1 to i8, u1 to u8 and b1, in either byte order"
#define DICT "the NPY header is not a dict of descr, fortran_order and shape: "
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
     "x.csv: the array has 0 dimensions; 1 or 2 are allowed"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 3)}", 48, ERR_UNSUPPORTED,
     "x.csv: the array has 3 dimensions; 1 or 2 are allowed"},
    {4, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,)}", 48, ERR_UNSUPPORTED,
     "x.csv: NPY version 4 is not supported; versions 1 to 3 are"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5)}", 0, ERR_MALFORMED,
     "x.csv has 0 rows and 5 columns; it holds no values"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (7,)}", 48, ERR_MALFORMED,
     "x.csv: the file has 48 bytes of values, but its header says 7 rows and 1 columns of 8 bytes"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}", 48, ERR_MALFORMED,
     "x.csv: the file has 48 bytes of values, but its header says 5 rows and 1 columns of 8 bytes"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (65536, 65536)}", 0, ERR_MALFORMED,
     "x.csv: the file has 0 bytes of values, but its header says 65536 rows and 65536 columns of 8 "
     "bytes"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0,
     ERR_TOO_LARGE,
     "x.csv has 4294967296 rows and 4294967296 columns; at most 100000000 and 100000 are allowed"},
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

#endif
