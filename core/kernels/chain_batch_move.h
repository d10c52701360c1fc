/* Kernels: moves of the chains of a batch (core/kernels/chain_batch.h), with the arithmetic of
 * core/kernels/random.h and core/kernels/move.h. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_CHAIN_BATCH_MOVE_H
#define BARKER_CORE_KERNELS_CHAIN_BATCH_MOVE_H

#include "core/kernels/kernels.h"
#include "core/kernels/move.h"
#include "core/kernels/random.h"
#include "core/kernels/special.h"

/* As many doubles as a register has floats. */
struct wide {
    vr low, high;
};

INLINE struct wide wide_load(const double *x, size_t i)
{
    return (struct wide){vr_load(x + i), vr_load(x + i + WIDTH)};
}

INLINE void wide_store(double *x, size_t i, struct wide v)
{
    *(vr *)(void *)(x + i) = v.low;
    *(vr *)(void *)(x + i + WIDTH) = v.high;
}

INLINE struct wide wide_of(vf x)
{
    return (struct wide){vf_low(x), vf_high(x)};
}

INLINE vf single_product(struct wide a, struct wide b)
{
    return vf_of_doubles(a.low * b.low, a.high * b.high);
}

/* ---- random numbers ---- */

/* The next word of generators that two lanes share. Only generators whose mask in `moves` is set
 * advance. The first word of an iteration is for the even lanes, the second for the odd ones. */
INLINE vr_bits next_word(const struct chain_batch_step *w, const uint64_t *moves, size_t p,
                         struct stream *stream)
{
    return w->whole ? next(stream) : next_masked(stream, ((const vr_bits *)(const void *)moves)[p]);
}

INLINE void lane_normals(const struct chain_batch_step *w, struct rng *rng, vf z[FPARTS])
{
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        vr_bits x = next_word(w, w->first, p, &stream), y = next_word(w, w->second, p, &stream);
        vf second;
        normal_pair(low_halves(x, y), high_halves(x, y), &z[p], &second);
        stream_store(rng, p, stream);
    }
}

INLINE void lane_uniforms(const struct chain_batch_step *w, struct rng *rng, vf u[FPARTS])
{
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        u[p] = below_one(unit_single((vfu)next_word(w, w->first, p, &stream)));
        stream_store(rng, p, stream);
    }
}

/* Two numbers per lane, from one word of the lane's own generator. */
INLINE void two_numbers(bool normal, struct stream *a, struct stream *b, size_t p,
                        vf out[2][FPARTS])
{
    vr_bits x = next(a), y = next(b);
    vfu low = low_halves(x, y), high = high_halves(x, y);
    if (normal) {
        normal_pair(low, high, &out[0][p], &out[1][p]);
    } else {
        out[0][p] = below_one(unit_single(low));
        out[1][p] = below_one(unit_single(high));
    }
}

/* `end` numbers per lane, one per iteration. The states of the generators stay in registers
 * throughout. If `end` is odd, the last word is not consumed: its second number belongs to the
 * next iteration. */
INLINE void own_numbers(bool normal, struct rng rng[2], size_t end, vf out[][2][FPARTS])
{
    for (size_t p = 0; p < PARTS; p++) {
        struct stream a = stream_of(&rng[0], p), b = stream_of(&rng[1], p);
        for (size_t k = 0; k < end / 2; k++)
            two_numbers(normal, &a, &b, p, out[k]);
        stream_store(&rng[0], p, a);
        stream_store(&rng[1], p, b);
        if (end % 2 != 0)
            two_numbers(normal, &a, &b, p, out[end / 2]);
    }
}

static __attribute__((noinline)) void own_normals(struct rng rng[2], size_t end,
                                                  vf out[][2][FPARTS])
{
    own_numbers(true, rng, end, out);
}

static __attribute__((noinline)) void own_uniforms(struct rng rng[2], size_t end,
                                                   vf out[][2][FPARTS])
{
    own_numbers(false, rng, end, out);
}

/* ---- the move ---- */

struct gradients {
    struct wide g, tau; /* tau: BARKER_CORRECTED, smoothed */
};

/* theta += +-w. Returns a mask of the lanes whose gradient is NaN. */
INLINE vfi lane_move(const struct chain_batch_step *w, enum barker_rule rule,
                     struct chain_batch_state *b, size_t i, vf z, vf u, struct gradients at)
{
    struct wide sigma = wide_load(b->sigma, i);
    vf jump = w->gaussian ? z : bimodal(z);
    vf gw = single_product(at.g, sigma) * jump;
    vfi up;
    if (rule == BARKER_VANILLA)
        up = accepted(u, gw);
    else if (rule == BARKER_CORRECTED)
        up = accepted(
            u, stretched(gw, noise_single(at.tau.low, sigma.low, at.tau.high, sigma.high) * jump));
    else
        up = gw > vf_set(0.0f);
    jump_by(b->theta, b->sigma, with_sign(jump, up), i);
    return gw != gw;
}

/* Updates the running tau, memory += beta (tau - memory), and returns it times `correction` =
 * 1/weight, which removes the bias of its start at 0. */
INLINE vr running_tau(const struct chain_batch_step *w, double *memory, vr tau, double correction)
{
    vr m = vr_load(memory);
    m = vr_fused(vr_set(w->beta), tau - m, m);
    *(vr *)(void *)memory = m;
    return m * correction;
}

INLINE void lane_moments(struct chain_batch_state *b, size_t i, vr x, double inverse)
{
    vr m = vr_load(b->mean + i), delta = x - m;
    m = vr_fused(delta, vr_set(inverse), m);
    vr_store(b->mean + i, m);
    vr_store(b->m2 + i, vr_fused(delta, x - m, vr_load(b->m2 + i)));
}

/* As vr_fused. */
INLINE vd_half half_fused(double a, vd_half b, vd_half c)
{
#if REGISTER >= 32
    return (vd_half)_mm256_fmadd_pd(_mm256_set1_pd(a), (__m256d)b, (__m256d)c);
#else
    union {
        vd_half all;
        vr part[2];
    } x = {.all = b}, sum = {.all = c};
    for (size_t i = 0; i < 2; i++)
        sum.part[i] = vr_fused(vr_set(a), x.part[i], sum.part[i]);
    return sum.all;
#endif
}

/* constant + sum of theta_j column_j in all lanes, in the order of summation of trmv_. columns
 * NULL: every coordinate times its entry of the diagonal, or times 1. */
INLINE void affine_lanes(const struct chain_batch_step *w, const double *constant,
                         const double *columns, const double *diagonal, const double *theta,
                         double *out)
{
    for (size_t at = 0; at < CHAIN_BATCH_LANES; at += 4) {
        const double *u = theta + (at & ~(w->chain_lanes - 1));
        vd_half sum = *(const vd_half *)(const void *)(constant + at);
        vd_half own = *(const vd_half *)(const void *)(theta + at);
        if (columns == NULL && diagonal != NULL)
            sum += *(const vd_half *)(const void *)(diagonal + at) * own;
        else if (columns == NULL)
            sum += own;
        for (size_t j = 0; columns != NULL && j < w->d; j++)
            sum = half_fused(
                u[j], *(const vd_half *)(const void *)(columns + j * CHAIN_BATCH_LANES + at), sum);
        *(vd_half *)(void *)(out + at) = sum;
    }
}

INLINE void batch_moments(const struct chain_batch_step *w, struct chain_batch_state *b)
{
    _Alignas(ALIGNMENT) double user[CHAIN_BATCH_LANES];
    const double *x = b->theta;
    double inverse = 1.0 / (double)w->moment_count;
    if (w->centre != NULL) {
        affine_lanes(w, w->centre, w->columns, NULL, b->theta, user);
        x = user;
    }
    for (size_t i = 0; i < CHAIN_BATCH_LANES; i += WIDTH)
        lane_moments(b, i, vr_load(x + i), inverse);
}

INLINE void all_moments(const struct chain_batch_step *w, struct chain_batch_state *batches,
                        size_t count)
{
    if (!w->moments)
        return;
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        batch_moments(w, &batches[k]);
}

/* ---- a known target ---- */

/* The noisy gradient; ratio: phi/Phi, in single precision, because its error is far below the
 * noise. */
INLINE vr known_part(const struct known_target *t, vr theta, vr ratio, vr z)
{
    return (t->alpha * ratio - theta) + t->noise_sd * z;
}

/* phi/Phi at alpha theta. */
INLINE vf known_ratio(const struct known_target *t, struct wide theta)
{
    return vf_hazard(-vf_of_doubles(t->alpha * theta.low, t->alpha * theta.high));
}

INLINE struct wide known_at(const struct known_target *t, struct wide theta, vf ratio, vf z)
{
    struct wide r = wide_of(ratio), noise = wide_of(z);
    return (struct wide){known_part(t, theta.low, r.low, noise.low),
                         known_part(t, theta.high, r.high, noise.high)};
}

static void known_gradient_(const struct known_target *target, const double *theta, const float *z,
                            double *g)
{
    struct wide at = wide_load(theta, 0);
    vr first = known_at(target, at, known_ratio(target, at), vf_load(z)).low;
    memset(g, 0, PAD * sizeof *g);
    g[0] = first[0];
}

#define RUN 16 /* iterations whose random numbers are generated at once */

/* Random numbers of a batch for RUN iterations, starting at an even one. */
struct random_numbers {
    vf noise[RUN / 2][2][FPARTS], z[RUN / 2][2][FPARTS], u[RUN / 2][2][FPARTS];
};

/* Fills the iterations before `end`. */
INLINE void known_random_numbers(enum barker_rule rule, struct chain_batch_state *b, size_t end,
                                 struct random_numbers *s)
{
    own_normals(b->noise, end, s->noise);
    own_normals(b->jump, end, s->z);
    if (rule != BARKER_EXTREME)
        own_uniforms(b->flip, end, s->u);
}

INLINE vfi known_move(const struct chain_batch_step *w, enum barker_rule rule,
                      struct chain_batch_state *b, const struct random_numbers *s, size_t t,
                      const vf ratio[FPARTS], double correction)
{
    vfi bad = {0};
    for (size_t p = 0, i = 0; p < FPARTS; p++, i += FLOATS) {
        struct wide theta = wide_load(b->theta, i);
        struct gradients at = {.g =
                                   known_at(w->target, theta, ratio[p], s->noise[t / 2][t % 2][p])};
        if (rule == BARKER_CORRECTED) {
            vr tau = vr_set(w->target->noise_sd);
            at.tau.low = running_tau(w, b->tau + i, tau, correction);
            at.tau.high = running_tau(w, b->tau + i + WIDTH, tau, correction);
        }
        bad |= lane_move(w, rule, b, i, s->z[t / 2][t % 2][p], s->u[t / 2][t % 2][p], at);
    }
    return bad;
}

/* Each stage runs over all batches before the next stage starts, so that the latencies from
 * theta to its gradient overlap. */
INLINE vfi known_iteration(const struct chain_batch_step *w, enum barker_rule rule,
                           struct chain_batch_state *batches, size_t count,
                           const struct random_numbers *s, size_t t)
{
    vf ratio[CHAIN_BATCHES][FPARTS];
    vfi bad = {0};
    double correction = 1.0 / w->weight;
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        for (size_t p = 0; p < FPARTS; p++)
            ratio[k][p] = known_ratio(w->target, wide_load(batches[k].theta, p * FLOATS));
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        bad |= known_move(w, rule, &batches[k], &s[k], t, ratio[k], correction);
    all_moments(w, batches, count);
    return bad;
}

INLINE bool known_run(struct chain_batch_step *w, enum barker_rule rule,
                      struct chain_batch_state *batches, size_t count, uint64_t n)
{
    struct random_numbers s[CHAIN_BATCHES];
    vfi bad = {0};
    for (uint64_t left = n, run; left > 0; left -= run) {
        size_t from = w->t % 2;
        run = left < RUN - from ? left : RUN - from;
#pragma GCC unroll 1
        for (size_t k = 0; k < count; k++)
            known_random_numbers(rule, &batches[k], from + run, &s[k]);
        for (size_t t = from; t < from + run; t++) {
            chain_batch_next(w);
            bad |= known_iteration(w, rule, batches, count, s, t);
        }
        w->t += run;
    }
    return !vf_any(bad);
}

static bool chain_batch_run_(struct chain_batch_step *w, struct chain_batch_state *batches,
                             size_t count, uint64_t n)
{
    switch (w->rule) {
    case BARKER_VANILLA:
        return known_run(w, BARKER_VANILLA, batches, count, n);
    case BARKER_CORRECTED:
        return known_run(w, BARKER_CORRECTED, batches, count, n);
    case BARKER_EXTREME:
        break;
    }
    return known_run(w, BARKER_EXTREME, batches, count, n);
}

/* ---- gradients as fixed part and sums over rows ---- */

/* As estimate_ and smooth_ in core/kernels/move.h. */
INLINE vr part_tau(const struct chain_batch_step *w, struct chain_batch_state *b, size_t i,
                   double correction)
{
    double unbiased = 1.0 / (w->batch - 1.0);
    vr s = vr_load(b->sum + i);
    vr variance = vr_fused(s * -w->share, s, vr_load(b->sumsq + i)) * unbiased;
    return running_tau(w, b->tau + i, w->tau_scale * vr_sqrt(usable_variance(variance)),
                       correction);
}

INLINE vr part_gradient(const struct chain_batch_step *w, const struct chain_batch_state *b,
                        size_t i)
{
    return vr_fused(vr_set(w->scale), vr_load(b->sum + i), vr_load(b->fixed + i));
}

INLINE struct gradients part_at(const struct chain_batch_step *w, enum barker_rule rule, bool skip,
                                struct chain_batch_state *b, size_t i, double correction)
{
    struct gradients at = {0};
    if (skip) {
        at.g = wide_load(b->fixed, i);
        at.tau = wide_load(b->tau, i);
        at.tau.low *= correction;
        at.tau.high *= correction;
        return at;
    }
    at.g = (struct wide){part_gradient(w, b, i), part_gradient(w, b, i + WIDTH)};
    if (rule == BARKER_CORRECTED)
        at.tau =
            (struct wide){part_tau(w, b, i, correction), part_tau(w, b, i + WIDTH, correction)};
    return at;
}

INLINE vfi part_move(const struct chain_batch_step *w, enum barker_rule rule, bool skip,
                     struct chain_batch_state *b, const vf z[FPARTS], const vf u[FPARTS],
                     double correction)
{
    vfi bad = {0};
    if (w->fixed != NULL)
        affine_lanes(w, w->fixed, w->curvature, w->diagonal, b->theta, b->fixed);
    for (size_t p = 0, i = 0; p < FPARTS; p++, i += FLOATS) {
        struct gradients at = part_at(w, rule, skip, b, i, correction);
        bad |= lane_move(w, rule, b, i, z[p], u[p], at);
    }
    return bad;
}

/* Each stage runs over all batches before the next, as in known_iteration. */
INLINE bool part_step(const struct chain_batch_step *w, enum barker_rule rule, bool skip,
                      struct chain_batch_state *batches, size_t count)
{
    vf z[CHAIN_BATCHES][FPARTS], u[CHAIN_BATCHES][FPARTS];
    vfi bad = {0};
    double correction = 1.0 / w->weight;
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        lane_normals(w, batches[k].jump, z[k]);
#pragma GCC unroll 1
    for (size_t k = 0; rule != BARKER_EXTREME && k < count; k++)
        lane_uniforms(w, batches[k].flip, u[k]);
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        bad |= part_move(w, rule, skip, &batches[k], z[k], u[k], correction);
    all_moments(w, batches, count);
    return !vf_any(bad);
}

INLINE bool rule_step(const struct chain_batch_step *w, bool skip,
                      struct chain_batch_state *batches, size_t count)
{
    switch (w->rule) {
    case BARKER_VANILLA:
        return part_step(w, BARKER_VANILLA, skip, batches, count);
    case BARKER_CORRECTED:
        return part_step(w, BARKER_CORRECTED, skip, batches, count);
    case BARKER_EXTREME:
        break;
    }
    return part_step(w, BARKER_EXTREME, skip, batches, count);
}

static bool chain_batch_move_(const struct chain_batch_step *w, struct chain_batch_state *batches,
                              size_t count)
{
    return w->skip ? rule_step(w, true, batches, count) : rule_step(w, false, batches, count);
}

#endif
