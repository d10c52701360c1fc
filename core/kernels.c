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

/* One register of this instruction set, PARTS of which make the eight lanes. A loop that carries
 * sums from turn to turn keeps them in these: the compiler sends a wider vector through memory at
 * every turn. */
#if defined(__AVX512F__)
#define REGISTER 64
#elif defined(__AVX__)
#define REGISTER 32
#else
#define REGISTER 16
#endif
#define PARTS (sizeof(vd) / REGISTER)
#define WIDTH (REGISTER / sizeof(double))

typedef double vr __attribute__((vector_size(REGISTER), may_alias));
typedef double vr_unaligned __attribute__((vector_size(REGISTER), aligned(8), may_alias));
typedef uint64_t vr_bits __attribute__((vector_size(REGISTER), may_alias));
typedef int64_t vr_mask __attribute__((vector_size(REGISTER), may_alias));
typedef float vr_single __attribute__((vector_size(REGISTER / 2), may_alias));
typedef double half __attribute__((vector_size(32), may_alias));
typedef double quarter __attribute__((vector_size(16), may_alias));
typedef int64_t quarter_choice __attribute__((vector_size(16)));

union lanes {
    vr part[PARTS];
    vd all;
    half halves[2];
};

static inline vr vr_load(const double *p)
{
    return *(const vr *)(const void *)p;
}

static inline vr vr_set(double x)
{
    return x - (vr){0};
}

static inline vd lanes_of(const vr part[PARTS])
{
    union lanes u;
    for (size_t i = 0; i < PARTS; i++)
        u.part[i] = part[i];
    return u.all;
}

/* Elements of a row as doubles, whatever their precision. */
static inline __attribute__((always_inline)) vr row_part(const void *row, size_t j, bool single)
{
    if (!single)
        return vr_load((const double *)row + j);
    const float *p = (const float *)row + j;
#if defined(__AVX512F__) /* gcc 12 does not find these by itself */
    return (vr)_mm512_cvtps_pd(_mm256_load_ps(p));
#elif defined(__AVX__)
    return (vr)_mm256_cvtps_pd(_mm_load_ps(p));
#else
    return __builtin_convertvector(*(const vr_single *)(const void *)p, vr);
#endif
}

static inline size_t row_bytes(const struct dataset *data)
{
    return data->stride * (data->precision == PRECISION_SINGLE ? sizeof(float) : sizeof(double));
}

static inline const char *row_at(const struct dataset *data, size_t row)
{
    return (const char *)data->x + row * row_bytes(data);
}

/* Pointers to the rows of one block; the rows of the next block are asked for meanwhile. */
struct block {
    size_t count;
    uint32_t row[LINEAR_BLOCK];
    const char *x[LINEAR_BLOCK];
};

static inline void block_fill(struct block *b, const struct dataset *data, const uint32_t *idx,
                              size_t at, size_t n)
{
    const char *x = data->x;
    size_t bytes = row_bytes(data);
    b->count = n - at < LINEAR_BLOCK ? n - at : LINEAR_BLOCK;
    for (size_t k = 0; k < b->count; k++) {
        b->row[k] = idx != NULL ? idx[at + k] : (uint32_t)(at + k);
        b->x[k] = x + b->row[k] * bytes;
    }
    if (idx == NULL)
        return;
    for (size_t k = at + LINEAR_BLOCK; k < n && k < at + 2 * LINEAR_BLOCK; k++)
        __builtin_prefetch(x + idx[k] * bytes);
}

/* The first two additions of vd_sum. */
static inline quarter fold(const vr part[PARTS])
{
#if REGISTER == 16
    return (part[0] + part[2]) + (part[1] + part[3]);
#else
    union lanes u = {.all = lanes_of(part)};
    half h = u.halves[0] + u.halves[1];
    return __builtin_shufflevector(h, h, 0, 1) + __builtin_shufflevector(h, h, 2, 3);
#endif
}

/* eta[0] = a'theta, eta[1] = b'theta, each in the order of vd_sum. Two rows share the loads of
 * theta and the last step of the sum. */
static inline __attribute__((always_inline)) void pair_predict(const char *a, const char *b,
                                                               const double *theta, size_t stride,
                                                               bool single, double eta[2])
{
    vr sum[2][PARTS] = {0};
    for (size_t j = 0; j < stride; j += LANES)
        for (size_t i = 0; i < PARTS; i++) {
            vr t = vr_load(theta + j + i * WIDTH);
            sum[0][i] += row_part(a, j + i * WIDTH, single) * t;
            sum[1][i] += row_part(b, j + i * WIDTH, single) * t;
        }
    quarter x = fold(sum[0]), y = fold(sum[1]);
    quarter both = __builtin_shuffle(x, y, (quarter_choice){0, 2}) +
                   __builtin_shuffle(x, y, (quarter_choice){1, 3});
    eta[0] = both[0];
    eta[1] = both[1];
}

static inline __attribute__((always_inline)) void
block_predict(const struct block *b, const double *theta, size_t stride, bool single, double *eta)
{
    size_t k = 0;
    for (; k + 2 <= b->count; k += 2)
        pair_predict(b->x[k], b->x[k + 1], theta, stride, single, eta + k);
    if (k < b->count) {
        double last[2];
        pair_predict(b->x[k], b->x[k], theta, stride, single, last);
        eta[k] = last[0];
    }
}

static inline __attribute__((always_inline)) void block_add(const struct block *b, const double *r,
                                                            size_t stride, bool single, double *sum,
                                                            double *sumsq)
{
    for (size_t j = 0; j < stride; j += WIDTH) {
        vr s = vr_load(sum + j), q = sumsq != NULL ? vr_load(sumsq + j) : vr_set(0.0);
        for (size_t k = 0; k < b->count; k++) {
            vr term = r[k] * row_part(b->x[k], j, single);
            s += term;
            if (sumsq != NULL)
                q += term * term;
        }
        *(vr *)(void *)(sum + j) = s;
        if (sumsq != NULL)
            *(vr *)(void *)(sumsq + j) = q;
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

/* ---- held-out metrics ---- */

/* Eight numbers that need not be aligned; behind the end of the array the value is `rest`. */
static inline vd load_part(const double *p, size_t left, double rest)
{
    vd x = vd_set(rest);
    if (left >= LANES)
        memcpy(&x, p, sizeof x);
    else
        for (size_t k = 0; k < left; k++)
            x[k] = p[k];
    return x;
}

static inline void store_part(double *p, size_t left, vd x)
{
    if (left >= LANES)
        memcpy(p, &x, sizeof x);
    else
        for (size_t k = 0; k < left; k++)
            p[k] = x[k];
}

/* With s = 2y - 1 it is the logistic function of s eta. The bound is no zero, so that a row far out
 * in covariate space predicted wrongly costs 700 nats, not infinity. */
static void bernoulli_(const double *eta, const double *y, double *p, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        vd sign = 2.0 * load_part(y + i, n - i, 0.0) - 1.0;
        vd z = sign * load_part(eta + i, n - i, 0.0);
        z = vd_select(z < vd_set(-700.0), vd_set(-700.0), z);
        store_part(p + i, n - i, vd_logistic(z));
    }
}

static void average_(double *mean, const double *x, double weight, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        vd m = load_part(mean + i, n - i, 0.0);
        store_part(mean + i, n - i, m + weight * (load_part(x + i, n - i, 0.0) - m));
    }
}

/* The logarithm of a product instead of a sum of logarithms: x = 2^k m with m between sqrt(1/2) and
 * sqrt 2, so that 512 factors m stay within 2^-256 and 2^256. False when some x is no normal
 * positive number. */
#define FACTORS 512

static inline bool multiply_up(const double *x, size_t n, vd *product, double *exponent)
{
    vr m[PARTS];
    vr_bits k[PARTS];
    vr_mask odd = {0};
    for (size_t i = 0; i < PARTS; i++) {
        m[i] = vr_set(1.0);
        k[i] = (vr_bits){0};
    }
    for (size_t at = 0; at < n; at += LANES)
        for (size_t i = 0; i < PARTS; i++) {
            vr v = *(const vr_unaligned *)(const void *)(x + at + i * WIDTH);
            vr_bits e = ((vr_bits)v - 0x3fe6a09e667f3bcdULL + 0x3ff0000000000000ULL) >> 52;
            m[i] *= (vr)((vr_bits)v - ((e - 1023) << 52));
            k[i] += e;
            odd |= (v < vr_set(DBL_MIN)) | ~(v <= vr_set(DBL_MAX));
        }
    uint64_t exponents = 0;
    int64_t any = 0;
    for (size_t j = 0; j < WIDTH; j++) {
        any |= odd[j];
        for (size_t i = 0; i < PARTS; i++)
            exponents += k[i][j];
    }
    *product = lanes_of(m);
    *exponent = (double)exponents - 1023.0 * (double)n;
    return any == 0;
}

static double log_sum_(const double *x, size_t n)
{
    vd logs = vd_set(0.0), product;
    double exponents = 0.0, exponent;
    for (size_t at = 0; at < n; at += FACTORS * LANES) {
        size_t count = n - at < FACTORS * LANES ? n - at : FACTORS * LANES;
        size_t done = count / LANES * LANES;
        vd sum = vd_set(0.0);
        if (multiply_up(x + at, done, &product, &exponent)) {
            sum = vd_log(product);
            exponents += exponent;
        } else {
            done = 0;
        }
        for (; done < count; done += LANES)
            sum += vd_log_any(load_part(x + at + done, count - done, 1.0));
        logs += sum;
    }
    return (vd_sum(logs) + exponents * 0x1.a39ef35793c76p-33) + exponents * 0x1.62e42fee00000p-1;
}

static double count_above_(const double *x, double threshold, size_t n)
{
    vr_mask found = {0};
    size_t i = 0;
    int64_t count = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        found -= *(const vr_unaligned *)(const void *)(x + i) > vr_set(threshold);
    for (size_t j = 0; j < WIDTH; j++)
        count += found[j];
    for (; i < n; i++)
        count += x[i] > threshold;
    return (double)count;
}

static double squared_distance_(const double *a, const double *b, size_t n)
{
    vr sum[PARTS] = {0};
    size_t whole = n / LANES * LANES;
    for (size_t at = 0; at < whole; at += LANES)
        for (size_t i = 0; i < PARTS; i++) {
            size_t j = at + i * WIDTH;
            vr difference = *(const vr_unaligned *)(const void *)(a + j) -
                            *(const vr_unaligned *)(const void *)(b + j);
            sum[i] += difference * difference;
        }
    vd rest = load_part(a + whole, n - whole, 0.0) - load_part(b + whole, n - whole, 0.0);
    return vd_sum(lanes_of(sum) + rest * rest);
}

static inline double pair_product(const double *u, const double *v, size_t rank)
{
    vr sum[PARTS] = {0};
    size_t k = 0;
    for (; k + LANES <= rank; k += LANES)
        for (size_t i = 0; i < PARTS; i++)
            sum[i] += *(const vr_unaligned *)(const void *)(u + k + i * WIDTH) *
                      *(const vr_unaligned *)(const void *)(v + k + i * WIDTH);
    quarter two = fold(sum);
    double product = two[0] + two[1];
    for (; k < rank; k++)
        product += u[k] * v[k];
    return product;
}

static void ratings_(const struct rating_pairs *p, double *out)
{
    for (size_t i = 0; i < p->n; i++) {
        double rating = p->shift + pair_product(p->u + p->user[i] * p->rank,
                                                p->v + p->item[i] * p->rank, p->rank);
        rating = rating < p->lowest ? p->lowest : rating;
        out[i] = rating > p->highest ? p->highest : rating;
    }
}

/* Eight rows, one per lane: out[j] has their entries in column j. Lanes without a row have zeros.
 */
static void gather_rows(const struct dataset *data, const uint32_t *idx, size_t at, size_t count,
                        double *out)
{
    if (count < LANES)
        memset(out, 0, LANES * data->columns * sizeof *out);
    for (size_t r = 0; r < count; r++) {
        const char *row = row_at(data, idx != NULL ? idx[at + r] : at + r);
        if (data->precision == PRECISION_SINGLE)
            for (size_t j = 0; j < data->columns; j++)
                out[LANES * j + r] = ((const float *)(const void *)row)[j];
        else
            for (size_t j = 0; j < data->columns; j++)
                out[LANES * j + r] = ((const double *)(const void *)row)[j];
    }
}

static inline vd source(const double *w, const double *rows, size_t columns)
{
    vr y[PARTS] = {0};
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < PARTS; i++)
            y[i] += w[j] * vr_load(rows + LANES * j + i * WIDTH);
    return lanes_of(y);
}

/* log(1/(4 cosh^2(y/2))) = -|y| - 2 log(1 + exp(-|y|)), where again the factors 1 + exp(-|y|),
 * which lie between 1 and 2, are multiplied before the logarithm is taken. */
static double log_sources_(const struct dataset *data, const uint32_t *idx, size_t n,
                           const double *W, double *scratch)
{
    size_t K = data->columns, factors = 0;
    vd sizes = vd_set(0.0), logs = vd_set(0.0), product = vd_set(1.0);
    for (size_t at = 0; at < n; at += LANES) {
        size_t count = n - at < LANES ? n - at : LANES;
        const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
        vi there = lane < (int64_t)count;
        gather_rows(data, idx, at, count, scratch);
        for (size_t k = 0; k < K; k++) {
            vd y = vd_abs(source(W + k * K, scratch, K));
            sizes += vd_select(there, y, vd_set(0.0));
            product *= vd_select(there, 1.0 + vd_exp(-y), vd_set(1.0));
            if (++factors % FACTORS == 0) {
                logs += vd_log(product);
                product = vd_set(1.0);
            }
        }
    }
    return -vd_sum(sizes + 2.0 * (logs + vd_log(product)));
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
    .bernoulli = bernoulli_,
    .average = average_,
    .log_sum = log_sum_,
    .count_above = count_above_,
    .squared_distance = squared_distance_,
    .ratings = ratings_,
    .log_sources = log_sources_,
    .linear_gradient = linear_gradient_,
    .linear_predictor = linear_predictor_,
};
