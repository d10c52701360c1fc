/* Kernels: the links of core/linear.h, a line of rows at a time. A part of core/kernels.c. */
#ifndef BARKER_CORE_KERNEL_LINK_H
#define BARKER_CORE_KERNEL_LINK_H

#include "core/kernel_line.h"
#include "core/linear.h"

/* ---- logistic: the response is kept as the sign bit where y = 0 ---- */

#define SIGN_SINGLE 0x80000000U
#define SIGN_DOUBLE 0x8000000000000000ULL

/* Sign bits of FLOATS rows. */
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

/* Sign bits where bit k of `bits` is zero. */
INLINE struct line zeros_of(enum precision p, uint32_t bits)
{
    struct line y;
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

INLINE struct line logistic_responses(enum precision p, const uint32_t *ones, const uint32_t *row)
{
    struct line y;
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

/* s F(-s eta), s = 2 y - 1, F the logistic function: right to the last digits when a row is
 * predicted almost surely. */
INLINE struct line logistic_residual(enum precision p, struct line eta, struct line y)
{
    if (p == PRECISION_SINGLE) {
        for (size_t i = 0; i < FPARTS; i++) {
            vfu zero = (vfu)y.part[i];
            vf f = vf_logistic((vf)((vfu)eta.part[i] ^ zero ^ SIGN_SINGLE));
            eta.part[i] = (vf)((vfu)f ^ zero);
        }
        return eta;
    }
    vd x;
    vu zero;
    memcpy(&x, &eta, sizeof x);
    memcpy(&zero, &y, sizeof zero);
    x = vd_logistic((vd)((vu)x ^ zero ^ SIGN_DOUBLE));
    x = (vd)((vu)x ^ zero);
    memcpy(&eta, &x, sizeof x);
    return eta;
}

/* ---- any of them ---- */

/* What the residual needs of a line of rows: those that `row` names, or, when it is NULL, those
 * from `at` on, a multiple of their number. */
INLINE struct line link_responses(enum link link, enum precision p, const struct linear *l,
                                  const uint32_t *row, size_t at)
{
    switch (link) {
    case LINK_LOGISTIC:
        return row != NULL ? logistic_responses(p, l->ones, row)
                           : zeros_of(p, l->ones[at / 32] >> at % 32);
    }
    return (struct line){0};
}

INLINE struct line link_residual(enum link link, enum precision p, struct line eta, struct line y)
{
    switch (link) {
    case LINK_LOGISTIC:
        return logistic_residual(p, eta, y);
    }
    return eta;
}

#endif
