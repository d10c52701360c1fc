/* The hot loops, written once with vector types and compiled per instruction set: KERNELS is the
 * name of the table that this compilation defines, KERNELS_ISA its name for people. */
#include "core/kernels.h"
#include "core/vmath.h"

#include <float.h>
#include <string.h>

extern const struct kernels KERNELS;

static inline vu rotl(vu x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* xoshiro256++ in every lane. */
static inline vu next(vu s[4])
{
    vu result = rotl(s[0] + s[3], 23) + s[0];
    vu t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* The upper 52 bits, centred: (k + 1/2) 2^-52, never 0 or 1. */
static inline vd unit(vu bits)
{
    return (vd)((bits >> 12) | 0x3ff0000000000000ULL) - (1.0 - 0x1p-53);
}

static void rng_bits_(struct rng *rng, uint64_t *out, size_t n)
{
    vu s[4] = {rng->s[0], rng->s[1], rng->s[2], rng->s[3]};
    for (size_t i = 0; i < n; i += LANES)
        *(vu *)(void *)(out + i) = next(s);
    memcpy(rng->s, s, sizeof s);
}

static void rng_uniform_(struct rng *rng, double *out, size_t n)
{
    vu s[4] = {rng->s[0], rng->s[1], rng->s[2], rng->s[3]};
    for (size_t i = 0; i < n; i += LANES)
        vd_store(out + i, unit(next(s)));
    memcpy(rng->s, s, sizeof s);
}

/* Box-Muller: two vectors of uniforms make two vectors of normals. */
static void rng_normal_(struct rng *rng, double *out, size_t n)
{
    vu s[4] = {rng->s[0], rng->s[1], rng->s[2], rng->s[3]};
    for (size_t i = 0; i < n; i += 2 * LANES) {
        vd radius = vd_sqrt(-2.0 * vd_log(unit(next(s))));
        vd sine, cosine;
        vd_sincos(unit(next(s)), &sine, &cosine);
        vd_store(out + i, radius * cosine);
        vd_store(out + i + LANES, radius * sine);
    }
    memcpy(rng->s, s, sizeof s);
}

/* Logistic and normal curves differ by < 0.01 everywhere once one is stretched by 1.702, so normal
 * gradient noise folds into the Barker sign probability in closed form: widen the slope by
 * 1.702/sqrt(1.702^2 - t^2), t = noise sd times jump. At t >= 1.702 the noise alone exceeds the
 * randomness we want, and the sign follows the gradient. */
#define STRETCH 1.702

static inline vd follow_gradient(vd gw)
{
    return vd_select(gw > vd_set(0.0), vd_set(1.0), vd_set(0.0));
}

static inline vd corrected_probability(vd g, vd w, vd tau)
{
    vd t = vd_abs(w) * tau;
    vd slope = STRETCH / vd_sqrt(STRETCH * STRETCH - t * t);
    return vd_select(t < vd_set(STRETCH), vd_logistic(slope * g * w), follow_gradient(g * w));
}

static inline __attribute__((always_inline)) void barker_loop(const struct barker_move *m,
                                                              enum barker_rule rule, bool gaussian)
{
    for (size_t i = 0; i < m->n; i += LANES) {
        vd z = vd_load(m->z + i), g = vd_load(m->g + i), sigma = vd_load(m->sigma + i), p;
        vd w = gaussian ? sigma * z : sigma + sigma * 0.1 * z;
        if (rule == BARKER_VANILLA)
            p = vd_logistic(g * w);
        else if (rule == BARKER_CORRECTED)
            p = corrected_probability(g, w, vd_load(m->tau + i));
        else
            p = follow_gradient(g * w);
        vd move = vd_select(vd_load(m->u + i) < p, w, -w);
        vd_store(m->theta + i, vd_load(m->theta + i) + move);
    }
}

static void barker_(const struct barker_move *m)
{
    switch (m->rule) {
    case BARKER_VANILLA:
        m->gaussian ? barker_loop(m, BARKER_VANILLA, true) : barker_loop(m, BARKER_VANILLA, false);
        break;
    case BARKER_CORRECTED:
        m->gaussian ? barker_loop(m, BARKER_CORRECTED, true)
                    : barker_loop(m, BARKER_CORRECTED, false);
        break;
    case BARKER_EXTREME:
        m->gaussian ? barker_loop(m, BARKER_EXTREME, true) : barker_loop(m, BARKER_EXTREME, false);
        break;
    }
}

static inline vd positive_part(vd x)
{
    return vd_select(x > vd_set(0.0), x, vd_set(0.0));
}

static inline __attribute__((always_inline)) void langevin_loop(const struct langevin_move *m,
                                                                enum langevin_rule rule)
{
    for (size_t i = 0; i < m->n; i += LANES) {
        vd sigma = vd_load(m->sigma + i), half = 0.5 * sigma * sigma, sd = sigma;
        vd theta = vd_load(m->theta + i) + half * vd_load(m->g + i);
        if (rule == LANGEVIN_CORRECTED) {
            vd drift_sd = half * vd_load(m->tau + i);
            sd = vd_sqrt(positive_part(sigma * sigma - drift_sd * drift_sd));
        } else if (rule == LANGEVIN_MODIFIED) {
            vd st = sigma * vd_load(m->tau + i);
            sd = sigma * positive_part(1.0 - st * st * 0.125);
        }
        if (rule != LANGEVIN_EXTREME)
            theta += sd * vd_load(m->z + i);
        vd_store(m->theta + i, theta);
    }
}

static void langevin_(const struct langevin_move *m)
{
    switch (m->rule) {
    case LANGEVIN_VANILLA:
        langevin_loop(m, LANGEVIN_VANILLA);
        break;
    case LANGEVIN_CORRECTED:
        langevin_loop(m, LANGEVIN_CORRECTED);
        break;
    case LANGEVIN_MODIFIED:
        langevin_loop(m, LANGEVIN_MODIFIED);
        break;
    case LANGEVIN_EXTREME:
        langevin_loop(m, LANGEVIN_EXTREME);
        break;
    }
}

static void lattice_(double *theta, const double *g, const double *sigma, const double *u, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        vd w = vd_load(sigma + i);
        vd p = 0.5 + 0.25 * vd_load(g + i) * w; /* u in (0,1) does the clipping */
        vd_store(theta + i, vd_load(theta + i) + vd_select(vd_load(u + i) < p, w, -w));
    }
}

static void moments_(double *mean, double *m2, const double *x, double count, size_t n)
{
    double inverse = 1.0 / count;
    for (size_t i = 0; i < n; i += LANES) {
        vd v = vd_load(x + i), m = vd_load(mean + i), delta = v - m;
        m += delta * inverse;
        vd_store(mean + i, m);
        vd_store(m2 + i, vd_load(m2 + i) + delta * (v - m));
    }
}

/* Squares of terms beyond 1e154 overflow to infinity or to a NaN difference. The largest number
 * instead gives a tau that a running average can leave behind again; NaN terms show in g. */
static inline vd usable_variance(vd x)
{
    return vd_select(vd_abs(x) <= vd_set(DBL_MAX), positive_part(x), vd_set(DBL_MAX));
}

static void estimate_(double *g, double *tau, const double *sum, const double *sumsq, double scale,
                      double tau_scale, double count, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vd_store(g + i, vd_load(g + i) + scale * vd_load(sum + i));
    if (tau == NULL)
        return;
    for (size_t i = 0; i < n; i += LANES) {
        vd s = vd_load(sum + i);
        vd variance = (vd_load(sumsq + i) - s * s / count) / (count - 1.0);
        vd_store(tau + i, tau_scale * vd_sqrt(usable_variance(variance)));
    }
}

static void logistic_(const double *x, double *out, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vd_store(out + i, vd_logistic(vd_load(x + i)));
}

static void log_logistic_(const double *x, double *out, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vd_store(out + i, vd_log_logistic(vd_load(x + i)));
}

static double dot_(const double *a, const double *b, size_t n)
{
    vd sum = vd_set(0.0);
    for (size_t i = 0; i < n; i += LANES)
        sum += vd_load(a + i) * vd_load(b + i);
    return vd_sum(sum);
}

/* Eight elements of a row as doubles, whatever their precision. */
typedef float vf __attribute__((vector_size(32), may_alias));

static inline __attribute__((always_inline)) vd row_lanes(const void *row, size_t j, bool single)
{
    if (single)
        return __builtin_convertvector(*(const vf *)(const void *)((const float *)row + j), vd);
    return vd_load((const double *)row + j);
}

static inline const char *row_at(const struct dataset *data, size_t row)
{
    size_t size = data->precision == PRECISION_SINGLE ? sizeof(float) : sizeof(double);
    return (const char *)data->x + row * data->stride * size;
}

/* Pointers to the rows of one block; the rows of the next block are asked for meanwhile. */
struct block {
    size_t count;
    uint32_t row[LINEAR_BLOCK];
    const char *x[LINEAR_BLOCK];
};

static void block_fill(struct block *b, const struct dataset *data, const uint32_t *idx, size_t at,
                       size_t n)
{
    b->count = n - at < LINEAR_BLOCK ? n - at : LINEAR_BLOCK;
    for (size_t k = 0; k < b->count; k++) {
        b->row[k] = idx != NULL ? idx[at + k] : (uint32_t)(at + k);
        b->x[k] = row_at(data, b->row[k]);
    }
    if (idx == NULL)
        return;
    for (size_t k = at + LINEAR_BLOCK; k < n && k < at + 2 * LINEAR_BLOCK; k++)
        __builtin_prefetch(row_at(data, idx[k]));
}

static inline __attribute__((always_inline)) void
block_predict(const struct block *b, const double *theta, size_t stride, bool single, double *eta)
{
    for (size_t k = 0; k < b->count; k++) {
        vd sum = vd_set(0.0);
        for (size_t j = 0; j < stride; j += LANES)
            sum += row_lanes(b->x[k], j, single) * vd_load(theta + j);
        eta[k] = vd_sum(sum);
    }
}

static inline __attribute__((always_inline)) void block_add(const struct block *b, const double *r,
                                                            size_t stride, bool single, double *sum,
                                                            double *sumsq)
{
    for (size_t j = 0; j < stride; j += LANES) {
        vd s = vd_load(sum + j), q = sumsq != NULL ? vd_load(sumsq + j) : vd_set(0.0);
        for (size_t k = 0; k < b->count; k++) {
            vd term = r[k] * row_lanes(b->x[k], j, single);
            s += term;
            if (sumsq != NULL)
                q += term * term;
        }
        vd_store(sum + j, s);
        if (sumsq != NULL)
            vd_store(sumsq + j, q);
    }
}

static void linear_gradient_(const struct dataset *data, const double *theta, const uint32_t *idx,
                             size_t n, linear_residual *residual, const void *model, double *sum,
                             double *sumsq)
{
    _Alignas(ALIGNMENT) double eta[LINEAR_BLOCK], r[LINEAR_BLOCK];
    struct block b;
    size_t width = padded(data->columns) * sizeof *sum;
    memset(sum, 0, width);
    if (sumsq != NULL)
        memset(sumsq, 0, width);
    memset(eta, 0, sizeof eta);
    for (size_t at = 0; at < n; at += LINEAR_BLOCK) {
        block_fill(&b, data, idx, at, n);
        if (data->precision == PRECISION_SINGLE)
            block_predict(&b, theta, data->stride, true, eta);
        else
            block_predict(&b, theta, data->stride, false, eta);
        residual(model, eta, b.row, b.count, r);
        if (data->precision == PRECISION_SINGLE)
            block_add(&b, r, data->stride, true, sum, sumsq);
        else
            block_add(&b, r, data->stride, false, sum, sumsq);
    }
}

static void linear_predictor_(const struct dataset *data, const double *theta, const uint32_t *idx,
                              size_t n, double *eta)
{
    struct block b;
    for (size_t at = 0; at < n; at += LINEAR_BLOCK) {
        block_fill(&b, data, idx, at, n);
        if (data->precision == PRECISION_SINGLE)
            block_predict(&b, theta, data->stride, true, eta + at);
        else
            block_predict(&b, theta, data->stride, false, eta + at);
    }
}

const struct kernels KERNELS = {
    .isa = KERNELS_ISA,
    .rng_bits = rng_bits_,
    .rng_uniform = rng_uniform_,
    .rng_normal = rng_normal_,
    .barker = barker_,
    .langevin = langevin_,
    .lattice = lattice_,
    .moments = moments_,
    .estimate = estimate_,
    .logistic = logistic_,
    .log_logistic = log_logistic_,
    .dot = dot_,
    .linear_gradient = linear_gradient_,
    .linear_predictor = linear_predictor_,
};
