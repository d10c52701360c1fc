/* Whatever bytes a data file has, they give a sound table or a message. */
#include "tests/unit/server/data/table_fixture.h"

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
