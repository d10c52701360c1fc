/* Tables in NPY files: every version, type and order, and what is refused. */
#include "tests/unit/server/data/table_fixture.h"

/* NPY */

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
    struct table_source source = {
        .name = "x.npy", .bytes = (char *)file, .size = size, .budget_bytes = BUDGET};
    struct table table;
    struct err_info info;
    for (size_t wanted = ROWS; wanted > 0; wanted -= 65) {
        cr_assert_eq(peek(&table, &source, wanted, &info), ERR_OK);
        cr_expect_eq(table.rows, wanted);
        cr_expect_eq(table.rows_total, ROWS);
        for (size_t i = 0; i < wanted * COLUMNS; i++)
            cr_assert_eq(table.values[i], (double)(i % COLUMNS * ROWS + i / COLUMNS));
        table_release(&table);
        if (wanted < 65)
            break;
    }
}

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
                   "x.csv: the NPY header has 10001 bytes; at most 10000 are allowed");
    expect_refusal("\x93NUMPY\3\0\xff\xff\xff\xff{", 13, BUDGET, ERR_TOO_LARGE,
                   "x.csv: the NPY header has 4294967295 bytes; at most 10000 are allowed");
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
                   "x.csv, row 2, column 1: a boolean that is neither 0 nor 1");
}

Test(table, npy_stays_within_the_budget)
{
    static const double values[6] = {1, 2, 3, 4, 5, 6};
    unsigned char file[200];
    size_t size = make_npy(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2)}",
                           values, sizeof values);
    expect_refusal(file, size, 80, ERR_TOO_LARGE,
                   "x.csv: its values do not fit into the 32 bytes of memory left for it");
}
