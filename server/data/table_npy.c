/* NumPy's NPY: "\x93NUMPY", version, header length, a Python dict as text, then the raw values.
 * Memory is allocated for what the header states before a value is read, so its length, the shape
 * and the size of the file are compared first. */
#include "server/data/table_parts.h"

#include "server/base/text.h"

#include <endian.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MAGIC_BYTES = 6, HEADER_MAX = 10000, DIMENSIONS_MAX = 2 };

/* The header's text, read from left to right. */
struct scan {
    const char *at, *end;
};

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->end && memchr(" \t\r\n", *scan->at, 4) != NULL)
        scan->at++;
}

static bool take(struct scan *scan, char c)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static bool take_word(struct scan *scan, const char *word)
{
    size_t size = strlen(word);
    skip_space(scan);
    if ((size_t)(scan->end - scan->at) < size || memcmp(scan->at, word, size) != 0)
        return false;
    scan->at += size;
    return true;
}

/* A Python string without escapes, cut to fit `out`. */
static bool take_string(struct scan *scan, char *out, size_t size)
{
    if (!take(scan, '\'') && !take(scan, '"'))
        return false;
    char quote = scan->at[-1];
    const char *close = memchr(scan->at, quote, (size_t)(scan->end - scan->at));
    if (close == NULL)
        return false;
    size_t length = (size_t)(close - scan->at) < size - 1 ? (size_t)(close - scan->at) : size - 1;
    memcpy(out, scan->at, length);
    out[length] = '\0';
    scan->at = close + 1;
    return true;
}

/* A length; Python 2 wrote long ones as 10L. */
static bool take_length(struct scan *scan, size_t *out)
{
    skip_space(scan);
    const char *start = scan->at;
    *out = 0;
    for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; scan->at++) {
        size_t digit = (size_t)(*scan->at - '0');
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, digit, out))
            return false;
    }
    bool found = scan->at > start;
    if (found)
        take(scan, 'L');
    return found;
}

static bool take_shape(struct scan *scan, struct npy *npy)
{
    if (!take(scan, '('))
        return false;
    for (npy->dimensions = 0; !take(scan, ')'); npy->dimensions++) {
        size_t length;
        if (!take_length(scan, &length))
            return false;
        if (npy->dimensions < DIMENSIONS_MAX)
            npy->shape[npy->dimensions] = length;
        if (!take(scan, ',') && (scan->at == scan->end || *scan->at != ')'))
            return false;
    }
    return npy->has_shape = true;
}

static bool take_order(struct scan *scan, struct npy *npy)
{
    npy->fortran = take_word(scan, "True");
    return npy->has_order = npy->fortran || take_word(scan, "False");
}

/* A list describes records, e.g. [('a', '<f8')]; its text stops the scan and names the type. */
static bool take_type(struct scan *scan, struct npy *npy)
{
    skip_space(scan);
    if (scan->at < scan->end && *scan->at == '[')
        memcpy(npy->type, "[...]", 6);
    else if (!take_string(scan, npy->type, sizeof npy->type))
        return false;
    return npy->has_type = true;
}

static bool scan_header(struct scan *scan, struct npy *npy)
{
    if (!take(scan, '{'))
        return false;
    while (!take(scan, '}')) {
        char key[TABLE_NPY_TYPE];
        if (!take_string(scan, key, sizeof key) || !take(scan, ':'))
            return false;
        bool known = strcmp(key, "descr") == 0           ? take_type(scan, npy)
                     : strcmp(key, "fortran_order") == 0 ? take_order(scan, npy)
                     : strcmp(key, "shape") == 0         ? take_shape(scan, npy)
                                                         : false;
        if (!known || npy->type[0] == '[')
            return false;
        if (!take(scan, ',') && (scan->at == scan->end || *scan->at != '}'))
            return false;
    }
    skip_space(scan);
    return scan->at == scan->end && npy->has_type && npy->has_order && npy->has_shape;
}

/* Finds the header's text and where the data start. */
static enum err locate(struct npy *npy, struct scan *header, struct err_info *info)
{
    const struct table_input *input = npy->input;
    const unsigned char *p = (const unsigned char *)input->bytes + MAGIC_BYTES;
    size_t size = (size_t)(input->end - input->bytes) - MAGIC_BYTES;
    if (size < 2 || p[0] < 1 || p[0] > 3)
        return err_set(info, size < 2 ? ERR_MALFORMED : ERR_UNSUPPORTED,
                       "%s: NPY version %u is not supported; versions 1 to 3 are", input->name,
                       size < 2 ? 0u : p[0]);
    size_t length_bytes = p[0] == 1 ? 2 : 4, length = 0;
    if (size < 2 + length_bytes)
        return err_set(info, ERR_MALFORMED, "%s: the NPY header is cut off", input->name);
    for (size_t i = length_bytes; i-- > 0;)
        length = length << 8 | p[2 + i];
    if (length > HEADER_MAX)
        return err_set(info, ERR_TOO_LARGE,
                       "%s: the NPY header has %zu bytes; at most %d are allowed", input->name,
                       length, HEADER_MAX);
    if (length > size - 2 - length_bytes)
        return err_set(info, ERR_MALFORMED, "%s: the NPY header is cut off", input->name);
    header->at = (const char *)p + 2 + length_bytes;
    header->end = npy->data = header->at + length;
    return ERR_OK;
}

static bool type_is_known(const char *type, size_t *item_bytes)
{
    static const char *const kinds[] = {"f4", "f8", "i1", "i2", "i4", "i8",
                                        "u1", "u2", "u4", "u8", "b1"};
    if (strlen(type) != 3 || memchr("<>|", type[0], 3) == NULL)
        return false;
    *item_bytes = (size_t)(type[2] - '0');
    if (type[0] == '|' && *item_bytes != 1)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type + 1, kinds[i]) == 0)
            return true;
    return false;
}

static enum err read_header(struct npy *npy, struct err_info *info)
{
    const char *name = npy->input->name;
    struct scan scan = {0};
    enum err err = locate(npy, &scan, info);
    if (err != ERR_OK)
        return err;
    const char *text = scan.at;
    bool complete = scan_header(&scan, npy);
    char buffer[TEXT_SHOWN_MAX];
    if (npy->has_type && !type_is_known(npy->type, &npy->item_bytes))
        return err_set(
            info, ERR_UNSUPPORTED,
            "%s: NPY type \"%s\" is not supported; allowed are f4, f8, i1 to i8, u1 to u8 "
            "and b1, in either byte order",
            name, text_shown(buffer, npy->type, strlen(npy->type)));
    if (!complete)
        return err_set(info, ERR_MALFORMED,
                       "%s: the NPY header is not a dict of descr, fortran_order and shape: \"%s\" "
                       "at its byte %zu",
                       name, text_shown(buffer, scan.at, (size_t)(scan.end - scan.at)),
                       (size_t)(scan.at - text) + 1);
    if (npy->dimensions < 1 || npy->dimensions > DIMENSIONS_MAX)
        return err_set(info, ERR_UNSUPPORTED,
                       "%s: the array has %zu dimensions; 1 or 2 are allowed", name,
                       npy->dimensions);
    return ERR_OK;
}

/* Copies the shape to the table. */
static enum err check_shape(struct npy *npy, struct table *table, struct err_info *info)
{
    const char *name = npy->input->name;
    size_t rows = npy->shape[0], columns = npy->dimensions == 2 ? npy->shape[1] : 1;
    if (rows == 0 || columns == 0)
        return err_set(info, ERR_MALFORMED, "%s has %zu rows and %zu columns; it holds no values",
                       name, rows, columns);
    if (rows > TABLE_ROWS_MAX || columns > TABLE_COLUMNS_MAX)
        return err_set(info, ERR_TOO_LARGE,
                       "%s has %zu rows and %zu columns; at most %zu and %zu are allowed", name,
                       rows, columns, TABLE_ROWS_MAX, TABLE_COLUMNS_MAX);
    table->rows_total = rows;
    table->columns = columns;
    return ERR_OK;
}

enum err table_npy_size(const struct npy *npy, const struct table *table, size_t bytes,
                        struct err_info *info)
{
    size_t rows = table->rows_total, columns = table->columns;
    if (bytes == rows * columns * npy->item_bytes)
        return ERR_OK;
    return err_set(info, ERR_MALFORMED,
                   "%s: the file has %zu bytes of values, but its header says %zu rows and %zu "
                   "columns of %zu bytes",
                   npy->input->name, bytes, rows, columns, npy->item_bytes);
}

static uint64_t load_bits(const char *p, size_t bytes, bool big_endian)
{
    uint64_t bits = 0;
    if (big_endian) {
        memcpy((char *)&bits + 8 - bytes, p, bytes);
        return be64toh(bits);
    }
    memcpy(&bits, p, bytes);
    return le64toh(bits);
}

/* The item at `p` as the nearest double; NaN for a boolean that is neither 0 nor 1. */
static double load_item(const struct npy *npy, const char *p)
{
    uint64_t bits = load_bits(p, npy->item_bytes, npy->type[0] == '>');
    unsigned unused = 64 - 8 * (unsigned)npy->item_bytes;
    double value;
    float single;
    switch (npy->type[1]) {
    case 'f':
        if (npy->item_bytes == 8) {
            memcpy(&value, &bits, sizeof value);
            return value;
        }
        memcpy(&single, &(uint32_t){(uint32_t)bits}, sizeof single);
        return single;
    case 'i':
        return (double)((int64_t)(bits << unused) >> unused);
    case 'b':
        return bits <= 1 ? (double)bits : NAN;
    default:
        return (double)bits;
    }
}

static enum err bad_item(const struct npy *npy, size_t row, size_t column, double value,
                         struct err_info *info)
{
    if (npy->type[1] == 'b')
        return err_set(info, ERR_MALFORMED,
                       "%s, row %zu, column %zu: a boolean that is neither 0 nor 1",
                       npy->input->name, row + 1, column + 1);
    return err_set(info, ERR_MALFORMED, "%s, row %zu, column %zu: %s is not a finite number",
                   npy->input->name, row + 1, column + 1,
                   isnan(value) ? "NaN"
                   : value > 0  ? "Inf"
                                : "-Inf");
}

/* Rows go in blocks: in Fortran order the values of a column are neighbours, and a block of rows
 * uses every cache line it touches. */
enum err table_npy_rows(const struct npy *npy, struct table *table, size_t first, size_t rows,
                        struct err_info *info)
{
    enum { BLOCK = 64 };
    size_t columns = table->columns;
    size_t row_step = (npy->fortran ? 1 : columns) * npy->item_bytes;
    size_t column_step = (npy->fortran ? table->rows_total : 1) * npy->item_bytes;
    double *values = table->values + table->rows * columns;
    bool exact = true;
    for (size_t from = 0; from < rows; from += BLOCK) {
        size_t to = rows - from < BLOCK ? rows : from + BLOCK;
        for (size_t column = 0; column < columns; column++) {
            for (size_t row = from; row < to; row++) {
                double value = load_item(npy, npy->data + row * row_step + column * column_step);
                if (!isfinite(value))
                    return bad_item(npy, first + row, column, value, info);
                values[row * columns + column] = value;
                exact &= table_is_single(value);
            }
        }
    }
    table->rows += rows;
    table->single_exact &= exact;
    return ERR_OK;
}

enum err table_npy_first(struct npy *npy, struct table *table, struct err_info *info)
{
    enum err err = read_header(npy, info);
    return err == ERR_OK ? check_shape(npy, table, info) : err;
}
