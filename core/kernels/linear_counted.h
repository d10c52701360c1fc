/* Kernels: sums over the distinct rows of a regression, times their counts, in double precision:
 * gradient, squares and log density in one pass. Lanes run over rows. A part of
 * core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_LINEAR_COUNTED_H
#define BARKER_CORE_KERNELS_LINEAR_COUNTED_H

#include "core/kernels/counted_rows.h"
#include "core/kernels/law_terms.h"

#define TILES (COUNTED_GROUP / LANES)

/* Per lane, that is per distinct row, summed over the rows equal to it: the residuals (derivatives
 * in eta), the slopes (in psi) and the squares of both. */
struct counted_terms {
    struct cache_line residual, square, slope, slope_square;
};

/* Sums of a pass that are not per column. */
struct counted_totals {
    struct law_numbers law;
    struct cache_line log, slope, slope_square;
};

/* One column of a tile, in double. */
INLINE struct cache_line tile_column(enum precision p, const void *x, size_t at)
{
    return p == PRECISION_SINGLE ? line_widen((const float *)x + at)
                                 : line_load((const double *)x + at);
}

INLINE void tiles_predict(enum precision p, const struct counted_rows *rows, const double *theta,
                          size_t at, struct cache_line eta[TILES])
{
    for (size_t t = 0; t < TILES; t++)
        eta[t] = rows->offset != NULL ? line_load(rows->offset + at + t * LANES)
                                      : line_value(PRECISION_DOUBLE, 0.0);
    for (size_t j = 0; j < rows->columns; j++) {
        struct cache_line coefficient = line_value(PRECISION_DOUBLE, theta[j]);
        for (size_t t = 0; t < TILES; t++) {
            size_t from = (at + t * LANES) * rows->columns + j * LANES;
            eta[t] =
                line_fused(PRECISION_DOUBLE, tile_column(p, rows->x, from), coefficient, eta[t]);
        }
    }
}

/* With e = exp(-|eta|), the less likely response has probability q = e/(1 + e). Of n responses, k
 * of them unlikely, the residuals add up to n q - k, times the sign of eta, and the log densities
 * to -n log(1 + e) - k |eta|: nothing cancels where |eta| is large and k is 0. eta is clipped,
 * because k = 0 times infinity would be NaN. */
INLINE vr logistic_part(const double *response, const double *count, bool squares, bool log, vr eta,
                        vr *residual, vr *square)
{
    vr n = vr_load(count), ones = vr_load(response), size = vr_abs(vr_within(eta, -1e300, 1e300));
    vr_mask below = eta < vr_set(0.0);
    vr power, inverse, half = vr_half_exp(-vr_within(size, 0.0, 708.0), &power);
    vr e = half * (2.0 * power), log_m = vr_log_and_inverse(e, &inverse), q = e * inverse;
    vr unlikely = vr_select(below, ones, n - ones), r = vr_fused(n, q, -unlikely);
    *residual = vr_select(below, -r, r);
    if (squares)
        *square = unlikely * (inverse * inverse) + (n - unlikely) * (q * q);
    return log ? -vr_fused(n, log_m, unlikely * size) : vr_set(0.0);
}

INLINE void logistic_tile(const struct counted_rows *rows, const struct counted_pass *pass,
                          size_t at, struct cache_line eta, struct counted_terms *terms,
                          struct counted_totals *totals)
{
    for (size_t i = 0; i < FPARTS; i++) {
        size_t from = at + i * WIDTH;
        vr residual, square = vr_set(0.0);
        vr log = logistic_part(rows->y + from, rows->count + from, pass->sumsq != NULL, pass->log,
                               (vr)eta.part[i], &residual, &square);
        terms->residual.part[i] = (vf)residual;
        terms->square.part[i] = (vf)square;
        totals->log.part[i] = (vf)((vr)totals->log.part[i] + log);
    }
}

INLINE void law_tile(const struct counted_rows *rows, const struct counted_pass *pass, size_t at,
                     struct cache_line eta, struct counted_terms *terms,
                     struct counted_totals *totals)
{
    const enum precision wide = PRECISION_DOUBLE;
    struct cache_line y = line_load(rows->y + at), n = line_load(rows->count + at);
    struct law_slopes s = {.eta = eta};
    law_slopes(wide, &totals->law, &s, &y, pass->free_psi);
    terms->residual = line_multiply(wide, n, s.eta);
    terms->square = line_multiply(wide, terms->residual, s.eta);
    if (pass->free_psi) {
        terms->slope = line_multiply(wide, n, s.psi);
        terms->slope_square = line_multiply(wide, terms->slope, s.psi);
        totals->slope = line_add(wide, totals->slope, terms->slope);
        totals->slope_square = line_add(wide, totals->slope_square, terms->slope_square);
    }
    for (size_t i = 0; pass->log && i < FPARTS; i++) {
        vr log = law_log(&totals->law, (vr)eta.part[i], (vr)y.part[i]);
        totals->log.part[i] = (vf)vr_fused((vr)n.part[i], log, (vr)totals->log.part[i]);
    }
}

/* Adds residual times x, or its square, to the sums of every column, which stay apart by lane. */
INLINE void tiles_add(enum precision p, const struct counted_rows *rows, bool squares, size_t at,
                      const struct counted_terms terms[TILES], double *work)
{
    const enum precision wide = PRECISION_DOUBLE;
    for (size_t j = 0; j < rows->columns; j++) {
        double *to = work + (squares ? rows->columns + j : j) * LANES;
        struct cache_line sum = line_load(to);
        for (size_t t = 0; t < TILES; t++) {
            size_t from = (at + t * LANES) * rows->columns + j * LANES;
            struct cache_line x = tile_column(p, rows->x, from);
            sum = line_fused(wide, squares ? line_multiply(wide, x, x) : x,
                             squares ? terms[t].square : terms[t].residual, sum);
        }
        line_store(to, sum);
    }
}

INLINE void counted_loop(enum precision p, bool logistic, const struct counted_rows *rows,
                         const struct counted_pass *pass, struct counted_totals *totals)
{
    for (size_t at = 0; at < rows->n; at += COUNTED_GROUP) {
        struct cache_line eta[TILES];
        struct counted_terms terms[TILES];
        tiles_predict(p, rows, pass->theta, at, eta);
        for (size_t t = 0; t < TILES; t++) {
            if (logistic)
                logistic_tile(rows, pass, at + t * LANES, eta[t], &terms[t], totals);
            else
                law_tile(rows, pass, at + t * LANES, eta[t], &terms[t], totals);
        }
        if (pass->sum != NULL)
            tiles_add(p, rows, false, at, terms, pass->work);
        if (pass->sumsq != NULL)
            tiles_add(p, rows, true, at, terms, pass->work);
    }
}

/* Not inlined, as in linear.h. */
#define COUNTED_LOOP(name, p, logistic)                                         \
    static __attribute__((noinline)) void name(const struct counted_rows *rows, \
                                               const struct counted_pass *pass, \
                                               struct counted_totals *totals)   \
    {                                                                           \
        counted_loop(p, logistic, rows, pass, totals);                          \
    }
COUNTED_LOOP(counted_single_logistic, PRECISION_SINGLE, true)
COUNTED_LOOP(counted_single_other, PRECISION_SINGLE, false)
COUNTED_LOOP(counted_double_logistic, PRECISION_DOUBLE, true)
COUNTED_LOOP(counted_double_other, PRECISION_DOUBLE, false)
#undef COUNTED_LOOP

static inline double line_sum(const void *line)
{
    return vd_sum(vd_load(line));
}

static void counted_out(const struct counted_rows *rows, bool free_psi, const double *work,
                        const struct cache_line *slope, double *out)
{
    size_t columns = rows->columns;
    memset(out, 0, padded(columns + free_psi) * sizeof *out);
    for (size_t j = 0; j < columns; j++)
        out[j] = line_sum(work + j * LANES);
    if (free_psi)
        out[columns] = line_sum(slope);
}

static double counted_sums_(const struct counted_rows *rows, const struct counted_pass *pass)
{
    struct counted_totals totals = {.law = law_numbers(&pass->law)};
    bool single = rows->precision == PRECISION_SINGLE;
    memset(pass->work, 0, counted_work_bytes(rows->columns));
    if (pass->law.link == LINK_LOGISTIC)
        (single ? counted_single_logistic : counted_double_logistic)(rows, pass, &totals);
    else
        (single ? counted_single_other : counted_double_other)(rows, pass, &totals);
    if (pass->sum != NULL)
        counted_out(rows, pass->free_psi, pass->work, &totals.slope, pass->sum);
    if (pass->sumsq != NULL)
        counted_out(rows, pass->free_psi, pass->work + rows->columns * LANES, &totals.slope_square,
                    pass->sumsq);
    return line_sum(&totals.log);
}

#endif
