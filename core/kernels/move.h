/* Kernels: moves, running moments, estimates and plain functions over coordinates. A part of
 * core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_MOVE_H
#define BARKER_CORE_KERNELS_MOVE_H

#include "core/kernels/kernels.h"
#include "core/kernels/vmathf.h"

#include <float.h>
#include <string.h>

/* a_i b_i as floats, for one register of floats from coordinate i on. Only the random part of a
 * move is computed in single precision; positions and step sizes are doubles. */
static inline vf product_single(const double *a, const double *b, size_t i)
{
    return vf_of_doubles(vr_load(a + i) * vr_load(b + i),
                         vr_load(a + i + WIDTH) * vr_load(b + i + WIDTH));
}

/* tau sigma. Adding 2^-60 changes no probability, and prevents a tau that has decayed to almost
 * zero from giving subnormal floats, which some processors handle a hundred times more slowly. */
static inline vf noise_single(vr tau, vr sigma, vr tau_high, vr sigma_high)
{
    const vr least = vr_set(0x1p-60);
    return vf_of_doubles(vr_fused(tau, sigma, least), vr_fused(tau_high, sigma_high, least));
}

/* theta += sigma * jump. */
static inline void jump_by(double *theta, const double *sigma, vf jump, size_t i)
{
    vr *low = (vr *)(void *)(theta + i), *high = (vr *)(void *)(theta + i + WIDTH);
    *low += vr_load(sigma + i) * vf_low(jump);
    *high += vr_load(sigma + i + WIDTH) * vf_high(jump);
}

/* x where `keep` is set, else -x. */
static inline vf with_sign(vf x, vfi keep)
{
    return (vf)((vfi)x ^ (~keep & (int32_t)0x80000000));
}

/* Index of the first NaN in x. x is only searched if a lane of `suspect` is set. */
static inline size_t first_undefined(const double *x, size_t n, vfi suspect)
{
    int32_t some = 0;
    for (size_t k = 0; k < FLOATS; k++)
        some |= suspect[k];
    for (size_t j = 0; some != 0 && j < n; j++)
        if (x[j] != x[j])
            return j;
    return SIZE_MAX;
}

/* Registers that a move processes side by side. Each step of the computation depends on the
 * previous one, and the out-of-order window is too short to overlap iterations by itself. */
#define ABREAST (REGISTER == 64 ? 3 : 2)

INLINE void horner_abreast(vf *p, const vf *x, float c, size_t many)
{
    for (size_t k = 0; k < many; k++)
        p[k] = vf_horner(p[k], x[k], c);
}

/* u < 1/(1 + exp(-x)), without the division: u (1/2 + exp(-x)/2) < 1/2. The exponential is 2^n
 * 2^f with a polynomial of degree 5 (7e-8) and an error of up to |x| 6e-8; the probability is
 * right to 2e-7. */
INLINE void accepted_abreast(const vf *u, const vf *x, size_t many, vfi *up)
{
    vf f[ABREAST], t[ABREAST], p[ABREAST];
    for (size_t k = 0; k < many; k++) {
        vf y = vf_within(x[k] * -0x1.715476p0f, -124.0f, 124.0f);
        t[k] = y + VF_MAGIC;
        f[k] = y - (t[k] - VF_MAGIC);
        p[k] = vf_set(0.0013276449171826243f);
    }
    horner_abreast(p, f, 0.009675564244389534f, many);
    horner_abreast(p, f, 0.05550713464617729f, many);
    horner_abreast(p, f, 0.24022118747234344f, many);
    horner_abreast(p, f, 0.6931469440460205f, many);
    horner_abreast(p, f, 1.0000001192092896f, many);
    for (size_t k = 0; k < many; k++) {
        vf power = (vf)(((vfu)t[k] << 23) + 0x3f000000U);
        up[k] = u[k] * vf_horner(p[k], power, 0.5f) < vf_set(0.5f);
    }
}

/* The same for one register. */
static inline vfi accepted(vf u, vf x)
{
    vfi up;
    accepted_abreast(&u, &x, 1, &up);
    return up;
}

#define STRETCH 1.702f

/* Logistic and normal curves differ by < 0.01 everywhere once one is stretched by 1.702, so normal
 * gradient noise folds into the Barker sign probability in closed form: widen the slope by
 * 1.702/sqrt(1.702^2 - t^2), t = noise sd times jump. At t >= 1.702 the noise alone exceeds the
 * randomness that a step should have, and the sign follows the gradient: the slope is made so large
 * that the sign is certain. 2^-55 is subtracted so that a gradient of exactly 0 counts as negative;
 * it is too small to change any other result. gw: the log odds without a correction. */
static inline vf stretched(vf gw, vf t)
{
    vf room = vf_fused_from(t, t, vf_set(STRETCH * STRETCH)), none = vf_set(FLT_MIN);
    return (STRETCH * gw - 0x1p-55f) / vf_sqrt(vf_where_less(none, room, room, none));
}

/* Jump of the bimodal kernel: 1 + 0.1 z. */
static inline vf bimodal(vf z)
{
    return vf_horner(vf_set(0.1f), z, 1.0f);
}

/* Log odds of moving along the jump rather than against it, for coordinates from..to. */
static inline __attribute__((always_inline)) void barker_odds(const struct barker_move *m,
                                                              enum barker_rule rule, bool gaussian,
                                                              size_t from, size_t to, float *out)
{
    for (size_t i = from; i < to; i += FLOATS) {
        vf z = vf_load(m->z + i), jump = gaussian ? z : bimodal(z);
        vf odds = product_single(m->g, m->sigma, i) * jump;
        if (rule == BARKER_CORRECTED) {
            vr tau = m->tau_factor * vr_load(m->tau + i),
               tau_high = m->tau_factor * vr_load(m->tau + i + WIDTH);
            vf noise =
                noise_single(tau, vr_load(m->sigma + i), tau_high, vr_load(m->sigma + i + WIDTH));
            odds = stretched(odds, noise * jump);
        }
        vf_store(out + i - from, odds);
    }
}

/* Moves `many` registers of coordinates, from coordinate i on. */
INLINE void barker_jumps(const struct barker_move *m, enum barker_rule rule, bool gaussian,
                         size_t i, const float *odds, size_t many, vfi *bad)
{
    vf x[ABREAST], u[ABREAST];
    vfi up[ABREAST];
    for (size_t k = 0; k < many; k++) {
        x[k] = vf_load(odds + k * FLOATS);
        up[k] = x[k] > vf_set(0.0f);
        *bad |= x[k] != x[k];
        if (rule != BARKER_EXTREME)
            u[k] = vf_load(m->u + i + k * FLOATS);
    }
    if (rule != BARKER_EXTREME)
        accepted_abreast(u, x, many, up);
    for (size_t k = 0; k < many; k++) {
        vf z = vf_load(m->z + i + k * FLOATS), jump = gaussian ? z : bimodal(z);
        jump_by(m->theta, m->sigma, with_sign(jump, up[k]), i + k * FLOATS);
    }
}

/* In two stages of this many coordinates, odds and then moves: from a gradient to a new position
 * takes about a hundred cycles, too long for the out-of-order window to overlap several. */
#define BARKER_STAGE 128

static inline __attribute__((always_inline)) size_t
barker_loop(const struct barker_move *m, enum barker_rule rule, bool gaussian)
{
    _Alignas(ALIGNMENT) float odds[BARKER_STAGE];
    vfi bad = {0};
    for (size_t from = 0, to; from < m->n; from = to) {
        to = m->n - from < BARKER_STAGE ? m->n : from + BARKER_STAGE;
        barker_odds(m, rule, gaussian, from, to, odds);
        size_t i = from;
        for (; i + ABREAST * FLOATS <= to; i += ABREAST * FLOATS)
            barker_jumps(m, rule, gaussian, i, odds + i - from, ABREAST, &bad);
        for (; i < to; i += FLOATS)
            barker_jumps(m, rule, gaussian, i, odds + i - from, 1, &bad);
    }
    return first_undefined(m->g, m->n, bad);
}

static size_t barker_(const struct barker_move *m)
{
    switch (m->rule) {
    case BARKER_VANILLA:
        return m->gaussian ? barker_loop(m, BARKER_VANILLA, true)
                           : barker_loop(m, BARKER_VANILLA, false);
    case BARKER_CORRECTED:
        return m->gaussian ? barker_loop(m, BARKER_CORRECTED, true)
                           : barker_loop(m, BARKER_CORRECTED, false);
    case BARKER_EXTREME:
        break;
    }
    return m->gaussian ? barker_loop(m, BARKER_EXTREME, true)
                       : barker_loop(m, BARKER_EXTREME, false);
}

static inline vr vr_positive(vr x)
{
    return (vr)((vr_mask)x & (x > vr_set(0.0)));
}

/* The noise of the drift sigma^2 g / 2 has the sd s = sigma^2 tau / 2. Corrected: the injected
 * noise has the variance sigma^2 - s^2, so that both together have sigma^2; modified: its sd is
 * expanded to first order in s^2. */
static inline __attribute__((always_inline)) vr langevin_at(const struct langevin_move *m,
                                                            enum langevin_rule rule, size_t i, vr z)
{
    vr sigma = vr_load(m->sigma + i), half = 0.5 * sigma * sigma, sd = sigma;
    vr theta = vr_load(m->theta + i) + half * vr_load(m->g + i);
    if (rule == LANGEVIN_CORRECTED) {
        vr drift_sd = half * (m->tau_factor * vr_load(m->tau + i));
        sd = vr_sqrt(vr_positive(sigma * sigma - drift_sd * drift_sd));
    } else if (rule == LANGEVIN_MODIFIED) {
        vr st = sigma * (m->tau_factor * vr_load(m->tau + i));
        sd = sigma * vr_positive(1.0 - st * st * 0.125);
    }
    if (rule != LANGEVIN_EXTREME)
        theta += sd * z;
    *(vr *)(void *)(m->theta + i) = theta;
    return theta - theta; /* 0, or NaN when theta is not finite */
}

static inline __attribute__((always_inline)) size_t langevin_loop(const struct langevin_move *m,
                                                                  enum langevin_rule rule)
{
    vr wrong = vr_set(0.0);
    for (size_t i = 0; i < m->n; i += FLOATS) {
        vf z = rule != LANGEVIN_EXTREME ? vf_load(m->z + i) : vf_set(0.0f);
        wrong += langevin_at(m, rule, i, vf_low(z)) + langevin_at(m, rule, i + WIDTH, vf_high(z));
    }
    double sum = 0.0;
    for (size_t k = 0; k < WIDTH; k++)
        sum += wrong[k];
    for (size_t j = 0; sum != 0.0 && j < m->n; j++)
        if (!(m->theta[j] - m->theta[j] == 0.0))
            return j;
    return SIZE_MAX;
}

static size_t langevin_(const struct langevin_move *m)
{
    switch (m->rule) {
    case LANGEVIN_VANILLA:
        return langevin_loop(m, LANGEVIN_VANILLA);
    case LANGEVIN_CORRECTED:
        return langevin_loop(m, LANGEVIN_CORRECTED);
    case LANGEVIN_MODIFIED:
        return langevin_loop(m, LANGEVIN_MODIFIED);
    case LANGEVIN_EXTREME:
        break;
    }
    return langevin_loop(m, LANGEVIN_EXTREME);
}

static size_t lattice_(double *theta, const double *g, const double *sigma, const float *u,
                       size_t n)
{
    vfi bad = {0};
    for (size_t i = 0; i < n; i += FLOATS) {
        /* Not clipped: u lies in (0,1). */
        vf p = 0.5f + 0.25f * product_single(g, sigma, i);
        bad |= p != p;
        jump_by(theta, sigma, with_sign(vf_set(1.0f), vf_load(u + i) < p), i);
    }
    return first_undefined(g, n, bad);
}

static void moments_(double *mean, double *m2, const double *x, double count, size_t n)
{
    double inverse = 1.0 / count;
    for (size_t i = 0; i < n; i += WIDTH) {
        vr v = vr_load(x + i), m = vr_load(mean + i), delta = v - m;
        m = vr_fused(delta, vr_set(inverse), m);
        vr_store(mean + i, m);
        vr_store(m2 + i, vr_fused(delta, v - m, vr_load(m2 + i)));
    }
}

/* Squares of terms beyond 1e154 overflow to infinity, or give a NaN difference. Clipping them to
 * the largest double gives a tau from which a running average can recover; NaN terms show in g. */
static inline vr usable_variance(vr x)
{
    return vr_between(x, 0.0, DBL_MAX);
}

static inline void smooth_at(const struct running_tau *r, size_t i, vr tau)
{
    vr m = vr_load(r->memory + i);
    vr_store(r->memory + i, vr_fused(vr_set(r->beta), tau - m, m));
}

static inline void add_at(const struct running_tau *r, size_t i, vr tau)
{
    vr_store(r->memory + i, vr_fused(vr_set(r->beta), tau, vr_load(r->memory + i)));
}

static void smooth_(const struct running_tau *running, const double *tau, size_t n)
{
    const struct running_tau r = *running;
    for (size_t i = 0; i < n; i += WIDTH)
        smooth_at(&r, i, vr_load(tau + i));
}

/* g += scale * sum; returns the sum. */
INLINE vr gradient_at(const struct batch_sums *b, size_t i, double *g)
{
    vr s = vr_load(b->sum + i);
    vr_store(g + i, vr_fused(vr_set(b->scale), s, vr_load(g + i)));
    return s;
}

INLINE vr variance_at(const struct batch_sums *b, double unbiased, size_t i, vr s)
{
    return vr_fused(s * -b->share, s, vr_load(b->sumsq + i)) * unbiased;
}

/* In one pass: the latency of the square roots hides the other operations. */
INLINE void estimate_all(const struct batch_sums *b, double unbiased, double *g, double *tau,
                         const struct running_tau *running)
{
    for (size_t i = 0; i < b->n; i += WIDTH) {
        vr s = gradient_at(b, i, g);
        if (tau == NULL && running == NULL)
            continue;
        vr sd = b->tau_scale * vr_sqrt(usable_variance(variance_at(b, unbiased, i, s)));
        if (tau != NULL)
            vr_store(tau + i, sd);
        if (running != NULL)
            smooth_at(running, i, sd);
    }
}

/* For coordinates with terms in this batch. The running tau uses single-precision roots: a move
 * needs no more than seven digits of it. */
INLINE void touched_at(const struct batch_sums *b, double unbiased, size_t i, double *g,
                       double *tau, const struct running_tau *running)
{
    vr variance = variance_at(b, unbiased, i, gradient_at(b, i, g));
    if (tau != NULL)
        vr_store(tau + i, b->tau_scale * vr_sqrt(usable_variance(variance)));
    if (running != NULL)
        add_at(running, i, b->tau_scale * vr_sqrt_single(vr_between(variance, FLT_MIN, FLT_MAX)));
}

INLINE void estimate_touched(const struct batch_sums *b, double unbiased, double *g, double *tau,
                             const struct running_tau *running)
{
    if (tau != NULL)
        memset(tau, 0, padded(b->n) * sizeof *tau);
    for (size_t at = 0; at < b->n; at += 64 * LANES) {
        uint64_t *word = &b->touched[at / (64 * LANES)], bits = *word;
        *word = 0;
        for (; bits != 0; bits &= bits - 1) {
            size_t i = at + LANES * (size_t)__builtin_ctzll(bits);
            for (size_t k = 0; k < PARTS; k++, i += WIDTH) {
                touched_at(b, unbiased, i, g, tau, running);
                vr_store(b->sum + i, vr_set(0.0));
                vr_store(b->sumsq + i, vr_set(0.0));
            }
        }
    }
}

static void estimate_(const struct batch_sums *sums, double *g, double *tau,
                      const struct running_tau *running)
{
    const struct batch_sums b = *sums;
    const struct running_tau copy = running != NULL ? *running : (struct running_tau){0};
    const struct running_tau *r = running != NULL ? &copy : NULL;
    double unbiased = 1.0 / (b.count - 1.0);
    if (b.touched != NULL)
        estimate_touched(&b, unbiased, g, tau, r);
    else
        estimate_all(&b, unbiased, g, tau, r);
}

static void prior_gradient_(double *g, const double *theta, double precision, size_t n)
{
    for (size_t i = 0; i < padded(n); i += WIDTH)
        vr_store(g + i, -precision * vr_load(theta + i));
}

static double dot_(const double *a, const double *b, size_t n)
{
    vr sum[PARTS] = {0};
    for (size_t i = 0; i < n; i += LANES)
        for (size_t k = 0; k < PARTS; k++)
            sum[k] += vr_load(a + i + k * WIDTH) * vr_load(b + i + k * WIDTH);
    return vd_sum(lanes_of(sum));
}

#define EIGHTS (4 * PARTS <= 8 ? 4 : 2) /* blocks of LANES numbers whose sums fit into registers */

/* `eights` blocks of LANES results at once, so that their additions overlap; p: numbers from one
 * row of the matrix to the next. */
INLINE void trmv_part(const double *matrix, const double *x, const double *base, size_t from,
                      size_t to, size_t p, size_t eights, double *out)
{
    vr sum[EIGHTS * PARTS] = {{0}};
    size_t many = eights * PARTS;
    for (size_t k = 0; base != NULL && k < many; k++)
        sum[k] = vr_load(base + k * WIDTH);
    for (size_t j = from; j < to; j++)
        for (size_t k = 0; k < many; k++)
            sum[k] = vr_fused(vr_set(x[j]), vr_load(matrix + j * p + k * WIDTH), sum[k]);
    for (size_t k = 0; k < many; k++)
        vr_store(out + k * WIDTH, sum[k]);
}

/* Calls trmv_part with a constant number of blocks, so that its loops are unrolled. */
INLINE void trmv_block(const double *matrix, const double *x, const double *base, size_t from,
                       size_t to, size_t p, size_t eights, double *out)
{
    if (EIGHTS > 2 && eights == 4)
        trmv_part(matrix, x, base, from, to, p, EIGHTS, out);
    else if (EIGHTS > 2 && eights == 3)
        trmv_part(matrix, x, base, from, to, p, EIGHTS - 1, out);
    else if (eights == 2)
        trmv_part(matrix, x, base, from, to, p, 2, out);
    else
        trmv_part(matrix, x, base, from, to, p, 1, out);
}

/* In groups of at most four blocks of LANES, as equal in size as possible: a small group is
 * bound by the latency of its additions. */
static void trmv_(const double *matrix, const double *x, const double *base, size_t d,
                  enum triangle kind, double *out)
{
    size_t p = padded(d), left = (d + LANES - 1) / LANES, at = 0;
    for (size_t blocks = (left + 3) / 4, end; blocks > 0; blocks--) {
        size_t eights = blocks > 1 ? (left + blocks - 1) / blocks : left;
        left -= eights;
        end = at + eights * LANES;
        size_t from = kind == TRIANGLE_UPPER ? at : 0;
        size_t to = kind == TRIANGLE_LOWER && end < d ? end : d;
        for (size_t some; at < end; at += some * LANES) {
            some = (end - at) / LANES < EIGHTS ? (end - at) / LANES : EIGHTS;
            trmv_block(matrix + at, x, base != NULL ? base + at : NULL, from, to, p, some,
                       out + at);
        }
    }
    for (; at < p; at++)
        out[at] = 0.0;
}

#define SQUARES_MOST 4 /* registers of a matrix row that are updated at once */

/* Updates `many` registers of a row of the matrix. */
INLINE void squares_part(double *line, const double *x, size_t stride, const double *factor,
                         size_t n, size_t many)
{
    vr sum[SQUARES_MOST];
    for (size_t k = 0; k < many; k++)
        sum[k] = vr_load(line + k * WIDTH);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < many; k++)
            sum[k] = vr_fused(vr_set(factor[i]), vr_load(x + i * stride + k * WIDTH), sum[k]);
    for (size_t k = 0; k < many; k++)
        vr_store(line + k * WIDTH, sum[k]);
}

static void syrk_(double *matrix, size_t stride, const double *x, const double *weight, size_t n,
                  size_t columns)
{
    double factor[SYRK_ROWS];
    for (size_t j = 0; j < columns; j++) {
        double *line = matrix + j * stride;
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            factor[i] = weight[i] * x[i * stride + j];
        for (; k + (SQUARES_MOST - 1) * WIDTH <= j; k += SQUARES_MOST * WIDTH)
            squares_part(line + k, x + k, stride, factor, n, SQUARES_MOST);
        for (; k <= j; k += WIDTH)
            squares_part(line + k, x + k, stride, factor, n, 1);
    }
}

#endif
