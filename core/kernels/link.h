/* Kernels: from predictors to residuals, for a line of rows at a time. The logistic link is
 * inlined; the others are calls (core/kernels/law_terms.h). A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_LINK_H
#define BARKER_CORE_KERNELS_LINK_H

#include "core/kernels/law_terms.h"
#include "core/kernels/cache_line.h"
#include "core/kernels/linear_rows.h"

/* x[row[k]] for FLOATS rows. */
INLINE vf gather_single(const float *x, const uint32_t *row)
{
#if REGISTER == 64
    return (vf)_mm512_i32gather_ps(_mm512_loadu_si512(row), x, 4);
#elif REGISTER == 32
    return (vf)_mm256_i32gather_ps(x, _mm256_loadu_si256((const __m256i *)(const void *)row), 4);
#else
    vf out = {0};
    for (size_t k = 0; k < FLOATS; k++)
        out[k] = x[row[k]];
    return out;
#endif
}

/* ---- logistic: a response is stored as a sign bit, set where y = 0 ---- */

#define SIGN_SINGLE 0x80000000U
#define SIGN_DOUBLE 0x8000000000000000ULL

/* Sign bits of FLOATS rows, set where y = 0. */
INLINE vf zeros_at(const uint32_t *ones, const uint32_t *row)
{
#if REGISTER == 64
    __m512i i = _mm512_loadu_si512(row);
    __m512i word = _mm512_i32gather_epi32(_mm512_srli_epi32(i, 5), ones, 4);
    word = _mm512_sllv_epi32(word, _mm512_andnot_si512(i, _mm512_set1_epi32(31)));
    return (vf)_mm512_andnot_si512(word, _mm512_set1_epi32((int)SIGN_SINGLE));
#elif REGISTER == 32
    __m256i i = _mm256_loadu_si256((const __m256i *)(const void *)row);
    __m256i word =
        _mm256_i32gather_epi32((const int *)(const void *)ones, _mm256_srli_epi32(i, 5), 4);
    word = _mm256_sllv_epi32(word, _mm256_andnot_si256(i, _mm256_set1_epi32(31)));
    return (vf)_mm256_andnot_si256(word, _mm256_set1_epi32((int)SIGN_SINGLE));
#else
    vfu sign = {0};
    for (size_t k = 0; k < FLOATS; k++)
        sign[k] = ~(ones[row[k] / 32] << (~row[k] & 31)) & SIGN_SINGLE;
    return (vf)sign;
#endif
}

/* Sign bits, set where bit k of `bits` is zero. */
INLINE struct cache_line zeros_of(enum precision p, uint32_t bits)
{
    struct cache_line y;
    for (size_t i = 0; i < FPARTS; i++) {
        vfu one = {0};
        vr_bits wide = {0};
        for (size_t k = 0; k < FLOATS; k++)
            one[k] = 1U << k;
        for (size_t k = 0; k < WIDTH; k++)
            wide[k] = 1ULL << k;
        y.part[i] = p == PRECISION_SINGLE
                        ? (vf)((vfu)((bits >> i * FLOATS & one) == 0) & SIGN_SINGLE)
                        : (vf)((vr_bits)((bits >> i * WIDTH & wide) == 0) & SIGN_DOUBLE);
    }
    return y;
}

INLINE struct cache_line logistic_responses(enum precision p, const uint32_t *ones,
                                            const uint32_t *row)
{
    struct cache_line y;
    if (p == PRECISION_SINGLE) {
        for (size_t i = 0; i < FPARTS; i++)
            y.part[i] = zeros_at(ones, row + i * FLOATS);
        return y;
    }
    uint32_t bits = 0;
    for (size_t k = 0; k < 8; k++)
        bits |= (ones[row[k] / 32] >> row[k] % 32 & 1) << k;
    return zeros_of(p, bits);
}

/* s F(-s eta), s = 2 y - 1, F the logistic function: full relative accuracy also where the
 * probability of y is close to 1. */
INLINE struct cache_line logistic_residual(enum precision p, struct cache_line eta,
                                           struct cache_line y)
{
    for (size_t i = 0; i < FPARTS; i++) {
        if (p == PRECISION_SINGLE) {
            vfu zero = (vfu)y.part[i];
            vf f = vf_logistic((vf)((vfu)eta.part[i] ^ zero ^ SIGN_SINGLE));
            eta.part[i] = (vf)((vfu)f ^ zero);
        } else {
            vr_bits zero = (vr_bits)y.part[i];
            vr f = vr_logistic((vr)((vr_bits)eta.part[i] ^ zero ^ SIGN_DOUBLE));
            eta.part[i] = (vf)((vr_bits)f ^ zero);
        }
    }
    return eta;
}

/* F(offset) - F(eta). The response cancels in the difference. */
INLINE struct cache_line logistic_difference(enum precision p, struct cache_line eta,
                                             struct cache_line at_centre)
{
    return line_subtract(p, at_centre, line_apply(p, vf_logistic, vr_logistic, eta));
}

/* ---- any link ---- */

/* Numbers for a line of rows from an array of either precision: x[row[k]], or x[at + k] when row
 * is NULL. */
INLINE struct cache_line link_numbers(enum precision p, const void *x, const uint32_t *row,
                                      size_t at)
{
    struct cache_line out;
    if (row == NULL) {
        memcpy(&out, (const char *)x + at * (p == PRECISION_SINGLE ? 4 : 8), sizeof out);
        return out;
    }
    if (p == PRECISION_DOUBLE) {
        vd numbers = {0};
        for (size_t k = 0; k < LANES; k++)
            numbers[k] = ((const double *)x)[row[k]];
        memcpy(&out, &numbers, sizeof out);
        return out;
    }
    for (size_t i = 0; i < FPARTS; i++)
        out.part[i] = gather_single(x, row + i * FLOATS);
    return out;
}

/* What the residuals of a line of rows need. Only what the link uses is set. */
struct link_rows {
    struct cache_line y; /* not set for logistic differences or signed rows */
    struct cache_line offset, at_centre, at_centre_psi, weight;
};

INLINE struct cache_line link_responses(enum precision p, bool logistic, const struct linear *l,
                                        const uint32_t *row, size_t at)
{
    if (!logistic)
        return link_numbers(p, p == PRECISION_SINGLE ? (const void *)l->y : l->data->y, row, at);
    return row != NULL ? logistic_responses(p, l->ones, row)
                       : zeros_of(p, l->ones[at / 32] >> at % 32);
}

/* Loads 16 tails, four per line: that of row k is `behind` bytes after the address row[k]. */
INLINE void tails_load(const char *const row[16], size_t behind, struct cache_line x[4])
{
    for (size_t i = 0; i < 4; i++)
        x[i] = line_of_quarters(row[i] + behind, row[4 + i] + behind, row[8 + i] + behind,
                                row[12 + i] + behind);
}

/* Transposes the tails: one line per number of a tail. */
INLINE void tails_transpose(bool logistic, const struct cache_line x[4], struct link_rows *out)
{
    for (size_t k = 0; k < FPARTS; k++) {
        vf a = SHUFFLE_SINGLE(x[0].part[k], x[1].part[k], 0x44);
        vf b = SHUFFLE_SINGLE(x[2].part[k], x[3].part[k], 0x44);
        out->offset.part[k] = SHUFFLE_SINGLE(a, b, 0x88);
        out->at_centre.part[k] = SHUFFLE_SINGLE(a, b, 0xdd);
        a = SHUFFLE_SINGLE(x[0].part[k], x[1].part[k], 0xee);
        b = SHUFFLE_SINGLE(x[2].part[k], x[3].part[k], 0xee);
        out->weight.part[k] = SHUFFLE_SINGLE(a, b, 0xdd);
        if (logistic)
            continue;
        out->y.part[k] = SHUFFLE_SINGLE(a, b, 0x88);
        out->at_centre_psi.part[k] = out->weight.part[k];
    }
}

/* Loads what is not in tails. `row` and `at` are as in link_numbers; `at` is a multiple of the
 * rows of a line. */
INLINE void link_load(enum precision p, bool logistic, const struct linear *l, const uint32_t *row,
                      size_t at, struct link_rows *out)
{
    bool tails = p == PRECISION_SINGLE && linear_has_tails(l);
    if (logistic ? l->terms == TERMS_PLAIN && l->layout != LINEAR_SIGNED : !tails)
        out->y = link_responses(p, logistic, l, row, at);
    if (tails)
        return;
    if (l->offset != NULL)
        out->offset = link_numbers(p, l->offset, row, at);
    if (l->terms != TERMS_PLAIN)
        out->at_centre = link_numbers(p, l->at_centre, row, at);
    if (!logistic && l->at_centre_psi != NULL)
        out->at_centre_psi = link_numbers(p, l->at_centre_psi, row, at);
    if (l->terms == TERMS_LINEARISED)
        out->weight = link_numbers(p, l->weight, row, at);
}

/* What all rows of a call share: the law, and the sums of the terms in psi, one per element of a
 * line. Not used by the logistic link. */
struct link_call {
    const struct linear *linear;
    struct law_numbers numbers;
    _Alignas(ALIGNMENT) double sum[16], sumsq[16];
};

/* theta NULL: psi is taken at theta = 0. */
INLINE void link_begin(struct link_call *c, const struct linear *l, const double *theta)
{
    struct law law = {.link = l->link, .psi = l->psi, .dof = l->dof};
    c->linear = l;
    if (l->link == LINK_LOGISTIC)
        return;
    memset(c->sum, 0, sizeof c->sum);
    memset(c->sumsq, 0, sizeof c->sumsq);
    if (l->free_psi && theta != NULL)
        law.psi += l->step * theta[l->data->columns];
    c->numbers = law_numbers(&law);
}

/* A line of rows of any link but the logistic one. s->eta holds the predictors, offsets
 * included, on entry. */
INLINE void other_slopes(enum precision p, const struct link_call *c, struct law_slopes *s,
                         const struct link_rows *rows)
{
    const struct linear *l = c->linear;
    law_slopes(p, &c->numbers, s, &rows->y, l->free_psi);
    if (l->terms != TERMS_PLAIN)
        s->eta = line_subtract(p, s->eta, rows->at_centre);
    if (l->terms != TERMS_PLAIN && l->free_psi)
        s->psi = line_subtract(p, s->psi, rows->at_centre_psi);
    if (l->free_psi)
        s->psi = line_multiply(p, s->psi, line_value(p, l->step));
}

/* From x'theta of a line of rows. The slope in psi is set if psi is free. */
INLINE struct law_slopes link_slopes(enum precision p, bool logistic, const struct link_call *c,
                                     struct cache_line eta, const struct link_rows *rows)
{
    const struct linear *l = c->linear;
    struct cache_line from = eta;
    if (l->offset != NULL || linear_has_tails(l))
        eta = line_add(p, eta, rows->offset);
    struct law_slopes s = {.eta = eta, .psi = eta};
    if (logistic)
        s.eta = l->terms != TERMS_PLAIN      ? logistic_difference(p, eta, rows->at_centre)
                : l->layout == LINEAR_SIGNED ? logistic_residual(p, eta, (struct cache_line){0})
                                             : logistic_residual(p, eta, rows->y);
    else
        other_slopes(p, c, &s, rows);
    if (l->terms == TERMS_LINEARISED)
        s.eta = line_fused(p, rows->weight, from, s.eta);
    return s;
}

/* ---- residuals at the centre, for differences ---- */

/* A line of rows from `at` on. An incomplete line repeats the last row. */
INLINE struct law_slopes centre_slopes(enum precision p, const struct link_call *c, size_t at)
{
    const struct linear *l = c->linear;
    uint32_t row[16];
    for (size_t k = 0; k < 16; k++)
        row[k] = (uint32_t)(at + k < l->data->N ? at + k : l->data->N - 1);
    struct law_slopes s = {.eta = link_numbers(p, l->offset, row, 0)};
    if (l->link == LINK_LOGISTIC) {
        s.eta = line_apply(p, vf_logistic, vr_logistic, s.eta);
        return s;
    }
    struct cache_line y = link_responses(p, false, l, row, 0);
    law_slopes(p, &c->numbers, &s, &y, l->free_psi);
    return s;
}

INLINE void centre_fill(enum precision p, const struct linear *l, char *at_centre, char *psi)
{
    size_t G = line_elements(p), size = 64 / G;
    struct link_call c;
    link_begin(&c, l, NULL);
    for (size_t at = 0; at < l->data->N; at += G) {
        struct law_slopes s = centre_slopes(p, &c, at);
        size_t bytes = (l->data->N - at < G ? l->data->N - at : G) * size;
        memcpy(at_centre + at * size, &s.eta, bytes);
        if (psi != NULL)
            memcpy(psi + at * size, &s.psi, bytes);
    }
}

static void linear_centre_(const struct linear *l, void *at_centre, void *psi)
{
    if (l->data->precision == PRECISION_SINGLE)
        centre_fill(PRECISION_SINGLE, l, at_centre, psi);
    else
        centre_fill(PRECISION_DOUBLE, l, at_centre, psi);
}

#endif
