/* Speed of reading data files, one core: MB of file per second, best of several passes. Prints one
 * JSON object. Called by tests/bench/server.
 *
 *     bench-table MIB        size of the files */
#include "server/data/table.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COLUMNS = 10, PASSES = 5, CELL_BYTES = 40 };

static size_t text_bytes;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double uniform(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static size_t make_text(char *text, const char *format)
{
    uint64_t state = 88172645463325252u;
    size_t size = 0;
    for (size_t i = 0; size < text_bytes; i++) {
        double value = 4.0 * uniform(&state) - 2.0;
        bool integer = strcmp(format, "integer") == 0;
        size +=
            (size_t)(integer ? sprintf(text + size, "%u", (unsigned)(next_random(&state) % 2000))
                             : sprintf(text + size, format, value));
        text[size++] = (i + 1) % COLUMNS == 0 ? '\n' : ',';
    }
    while (text[size - 1] != '\n')
        size--;
    return size;
}

static size_t make_npy(char *bytes, size_t rows)
{
    uint64_t state = 88172645463325252u;
    char dict[119];
    int length =
        snprintf(dict, sizeof dict,
                 "{'descr': '<f8', 'fortran_order': False, 'shape': (%zu, %d), }", rows, COLUMNS);
    memcpy(bytes, "\x93NUMPY\1\0\x76\0", 10);
    memset(bytes + 10, ' ', 117);
    memcpy(bytes + 10, dict, (size_t)length);
    bytes[127] = '\n';
    for (size_t i = 0; i < rows * COLUMNS; i++) {
        double value = uniform(&state);
        memcpy(bytes + 128 + 8 * i, &value, 8);
    }
    return 128 + 8 * rows * COLUMNS;
}

static void measure(const char *label, const char *bytes, size_t size)
{
    struct table_source source = {
        .name = label, .bytes = bytes, .size = size, .budget_bytes = (size_t)1 << 30};
    struct err_info info;
    double best = 1e9;
    for (int pass = 0; pass < PASSES; pass++) {
        struct table table;
        double start = seconds();
        if (table_read(&table, &source, &info) != ERR_OK) {
            fprintf(stderr, "%s\n", info.message);
            exit(1);
        }
        double taken = seconds() - start;
        best = taken < best ? taken : best;
        table_release(&table);
    }
    printf("\"%s\": %.0f, ", label, (double)size / 1e6 / best);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *label, *format;
    } texts[] = {
        {"CSV, integers of 1 to 4 digits", "integer"},
        {"CSV, 3 decimals", "%.3f"},
        {"CSV, 15 digits", "%.15g"},
        {"CSV, 17 digits", "%.17g"},
        {"CSV, 17 digits with exponent", "%.16e"},
        {"CSV, 21 digits", "%.20f"},
    };
    text_bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 32) << 20;
    char *bytes = malloc(text_bytes + 2 * COLUMNS * CELL_BYTES);
    if (bytes == NULL)
        return 1;
    printf("{");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        measure(texts[i].label, bytes, make_text(bytes, texts[i].format));
    measure("NPY, <f8", bytes, make_npy(bytes, (text_bytes - 128) / 8 / COLUMNS));
    printf("\"mib\": %zu}\n", text_bytes >> 20);
    free(bytes);
    return 0;
}
