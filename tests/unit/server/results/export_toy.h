/* An export of draws that can be told apart, read as a whole: shared by the tests of formats. */
#ifndef TESTS_UNIT_SERVER_RESULTS_EXPORT_TOY_H
#define TESTS_UNIT_SERVER_RESULTS_EXPORT_TOY_H

#include "server/base/decimal.h"
#include "server/results/export.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a source whose draws can be told apart ---- */

struct toy {
    uint64_t stored[8]; /* draws of chain c + 1 */
    uint64_t fail_at;   /* calls until it fails; 0: never */
    size_t calls, most; /* numbers of the largest read */
};

static const char *const names[] = {"mu", "theta[1]", "U[3,7]", "a\"b", "x_1.y"};

static inline double toy_value(uint32_t chain, uint64_t draw, uint32_t column)
{
    if (draw % 97 == 13 && column == 1)
        return draw % 2 == 0 ? NAN : -INFINITY;
    return (double)chain + (double)draw / 3.0 - 1000.0 * column;
}

static inline enum err toy_draws(void *ctx, uint32_t chain, uint64_t first, size_t count,
                                 const uint32_t *columns, size_t column_count, double *out,
                                 struct err_info *info)
{
    struct toy *toy = ctx;
    if (++toy->calls == toy->fail_at)
        return err_set(info, ERR_IO, "the disk is gone");
    cr_assert(count > 0 && first + count <= toy->stored[chain - 1], "chain %u: %" PRIu64 " + %zu",
              chain, first, count);
    toy->most = count * column_count > toy->most ? count * column_count : toy->most;
    for (size_t k = 0; k < column_count; k++) {
        cr_assert(k == 0 || columns[k] > columns[k - 1], "columns must increase");
        for (size_t i = 0; i < count; i++)
            out[k * count + i] = toy_value(chain, first + i, columns[k]);
    }
    return ERR_OK;
}

static inline const char *toy_name(void *ctx, size_t column)
{
    (void)ctx;
    return names[column];
}

/* ---- reading a whole export ---- */

struct bytes {
    char *at;
    size_t size, room;
};

static inline void bytes_add(struct bytes *b, const char *at, size_t n)
{
    if (b->size + n + 1 > b->room) {
        b->room = 2 * (b->size + n + 1);
        b->at = realloc(b->at, b->room);
        cr_assert_not_null(b->at);
    }
    memcpy(b->at + b->size, at, n);
    b->size += n;
    b->at[b->size] = '\0';
}

static inline void bytes_addf(struct bytes *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void bytes_addf(struct bytes *b, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bytes_add(b, text, (size_t)n);
}

static inline void bytes_number(struct bytes *b, double value)
{
    char text[DECIMAL_SIZE];
    bytes_add(b, text, decimal_write(value, text));
}

/* Pulls with buffers of `size` bytes, each allocated so that a sanitizer sees every byte too far.
 * Returns the last result. */
static inline ssize_t pull(struct export *e, size_t size, struct bytes *out)
{
    for (;;) {
        char *buffer = malloc(size);
        ssize_t got = export_read(e, buffer, size);
        cr_assert_leq(got, (ssize_t)size);
        cr_assert_neq(got, 0, "\"nothing now\" would suspend the download");
        if (got > 0)
            bytes_add(out, buffer, (size_t)got);
        free(buffer);
        if (got < 0)
            return got;
    }
}

struct wish {
    uint32_t columns[5];
    size_t width;
    uint32_t chains[4];
    size_t chain_count;
    struct export_range range;
    uint64_t thin;
    bool warmup;
    const char *request;
};

#define WARMUP 40 /* iterations, of every job here */

static inline void choose_all(const struct wish *w, const struct toy *toy,
                              struct export_chain *chains)
{
    for (size_t c = 0; c < w->chain_count; c++) {
        chains[c] = (struct export_chain){.chain = w->chains[c], .iteration = 160, .seconds = 2.5};
        export_choose(&chains[c], &w->range, toy->stored[w->chains[c] - 1], w->thin);
    }
}

static inline const struct export_format *export_find(const char *name)
{
    for (const struct export_format *const *f = export_formats; *f != NULL; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}

static inline struct export *start(const char *format, const struct wish *w, struct toy *toy)
{
    struct export_chain chains[4];
    struct err_info info;
    struct export *e;
    choose_all(w, toy, chains);
    struct export_plan plan = {
        .source = {.ctx = toy, .draws = toy_draws, .name = toy_name},
        .job = "01hzy6v5d8k2m3n4",
        .columns = w->columns,
        .width = w->width,
        .chains = chains,
        .chain_count = w->chain_count,
        .step = w->range.step,
        .thin = w->thin,
        .warmup = w->warmup,
        .request = w->request != NULL ? w->request : "{}",
        .warmup_iterations = WARMUP,
        .started_ms = 1769850300120,
    };
    cr_assert_eq(export_new(&e, export_find(format), &plan, &info), ERR_OK);
    return e;
}

#endif
