/* Kernels: a few chains in the lanes of a bundle (core/kernels/bundle.h), with the arithmetic of
 * core/kernels/random.h and core/kernels/move.h. A part of core/kernels/kernels.c. */
#ifndef BARKER_CORE_KERNELS_LOCKSTEP_H
#define BARKER_CORE_KERNELS_LOCKSTEP_H

#include "core/kernels/linear.h"
#include "core/kernels/move.h"
#include "core/kernels/random.h"
#include "core/kernels/special.h"

/* Doubles of as many lanes as a register has floats. */
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

/* The next word of generators that two lanes share, those that `moves` names: the first word is for
 * the even lanes, the second for the odd ones. */
INLINE vr_bits next_word(const struct walk *w, const uint64_t *moves, size_t p,
                         struct stream *stream)
{
    return w->whole ? next(stream) : next_masked(stream, ((const vr_bits *)(const void *)moves)[p]);
}

INLINE void lane_normals(const struct walk *w, struct rng *rng, vf z[FPARTS])
{
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        vr_bits x = next_word(w, w->first, p, &stream), y = next_word(w, w->second, p, &stream);
        vf second;
        normal_pair(low_halves(x, y), high_halves(x, y), &z[p], &second);
        keep(rng, p, stream);
    }
}

INLINE void lane_uniforms(const struct walk *w, struct rng *rng, vf u[FPARTS])
{
    for (size_t p = 0; p < PARTS; p++) {
        struct stream stream = stream_of(rng, p);
        u[p] = below_one(unit_single((vfu)next_word(w, w->first, p, &stream)));
        keep(rng, p, stream);
    }
}

/* Two numbers per lane, from a word of its own generator. */
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

/* `end` numbers per lane, for as many iterations, which the generators' states spend in registers.
 * A word of which only the first number is wanted stays the next. */
INLINE void own_numbers(bool normal, struct rng rng[2], size_t end, vf out[][2][FPARTS])
{
    for (size_t p = 0; p < PARTS; p++) {
        struct stream a = stream_of(&rng[0], p), b = stream_of(&rng[1], p);
        for (size_t k = 0; k < end / 2; k++)
            two_numbers(normal, &a, &b, p, out[k]);
        keep(&rng[0], p, a);
        keep(&rng[1], p, b);
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

/* theta += +-w; the lanes whose gradient is NaN are marked. */
INLINE vfi lane_move(const struct walk *w, enum barker_rule rule, struct bundle *b, size_t i, vf z,
                     vf u, struct gradients at)
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
    jump_by(b->theta, b->sigma, turned(jump, up), i);
    return gw != gw;
}

INLINE vr running_tau(const struct walk *w, double *memory, vr tau, double correction)
{
    vr m = vr_load(memory);
    m = vr_fused(vr_set(w->beta), tau - m, m);
    *(vr *)(void *)memory = m;
    return m * correction;
}

INLINE void lane_moments(struct bundle *b, size_t i, vr x, double inverse)
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

/* constant + theta_j column_j in all lanes, in the order of triangle_; columns NULL: each
 * coordinate alone, times its number of the diagonal, or 1. */
INLINE void affine_lanes(const struct walk *w, const double *constant, const double *columns,
                         const double *diagonal, const double *theta, double *out)
{
    for (size_t at = 0; at < BUNDLE_LANES; at += 4) {
        const double *u = theta + (at & ~(w->slots - 1));
        vd_half sum = *(const vd_half *)(const void *)(constant + at);
        vd_half own = *(const vd_half *)(const void *)(theta + at);
        if (columns == NULL && diagonal != NULL)
            sum += *(const vd_half *)(const void *)(diagonal + at) * own;
        else if (columns == NULL)
            sum += own;
        for (size_t j = 0; columns != NULL && j < w->d; j++)
            sum = half_fused(
                u[j], *(const vd_half *)(const void *)(columns + j * BUNDLE_LANES + at), sum);
        *(vd_half *)(void *)(out + at) = sum;
    }
}

INLINE void bundle_moments(const struct walk *w, struct bundle *b)
{
    _Alignas(ALIGNMENT) double user[BUNDLE_LANES];
    const double *x = b->theta;
    double inverse = 1.0 / (double)w->moment_count;
    if (w->centre != NULL) {
        affine_lanes(w, w->centre, w->columns, NULL, b->theta, user);
        x = user;
    }
    for (size_t i = 0; i < BUNDLE_LANES; i += WIDTH)
        lane_moments(b, i, vr_load(x + i), inverse);
}

INLINE void all_moments(const struct walk *w, struct bundle *bundles, size_t count)
{
    if (!w->moments)
        return;
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        bundle_moments(w, &bundles[k]);
}

/* ---- a known target ---- */

/* phi/Phi in single precision: what is lost is far below the noise. */
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

#define TURNS 16 /* iterations whose random numbers are made at a time */

/* What a bundle needs for them, the first of which is even. */
struct supply {
    vf noise[TURNS / 2][2][FPARTS], z[TURNS / 2][2][FPARTS], u[TURNS / 2][2][FPARTS];
};

/* For those before `end`. */
INLINE void known_supply(enum barker_rule rule, struct bundle *b, size_t end, struct supply *s)
{
    own_normals(b->noise, end, s->noise);
    own_normals(b->jump, end, s->z);
    if (rule != BARKER_EXTREME)
        own_uniforms(b->flip, end, s->u);
}

INLINE vfi known_move(const struct walk *w, enum barker_rule rule, struct bundle *b,
                      const struct supply *s, size_t t, const vf ratio[FPARTS], double correction)
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

/* Step by step rather than bundle by bundle: the long way from theta to its gradient is then walked
 * by several bundles at once. */
INLINE vfi known_turn(const struct walk *w, enum barker_rule rule, struct bundle *bundles,
                      size_t count, const struct supply *s, size_t t)
{
    vf ratio[BUNDLES][FPARTS];
    vfi bad = {0};
    double correction = 1.0 / w->weight;
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        for (size_t p = 0; p < FPARTS; p++)
            ratio[k][p] = known_ratio(w->target, wide_load(bundles[k].theta, p * FLOATS));
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        bad |= known_move(w, rule, &bundles[k], &s[k], t, ratio[k], correction);
    all_moments(w, bundles, count);
    return bad;
}

INLINE bool known_walk(struct walk *w, enum barker_rule rule, struct bundle *bundles, size_t count,
                       uint64_t n)
{
    struct supply s[BUNDLES];
    vfi bad = {0};
    for (uint64_t left = n, turns; left > 0; left -= turns) {
        size_t from = w->t % 2;
        turns = left < TURNS - from ? left : TURNS - from;
#pragma GCC unroll 1
        for (size_t k = 0; k < count; k++)
            known_supply(rule, &bundles[k], from + turns, &s[k]);
        for (size_t t = from; t < from + turns; t++) {
            walk_on(w);
            bad |= known_turn(w, rule, bundles, count, s, t);
        }
        w->t += turns;
    }
    return !vf_any(bad);
}

static bool bundle_walk_(struct walk *w, struct bundle *bundles, size_t count, uint64_t n)
{
    switch (w->rule) {
    case BARKER_VANILLA:
        return known_walk(w, BARKER_VANILLA, bundles, count, n);
    case BARKER_CORRECTED:
        return known_walk(w, BARKER_CORRECTED, bundles, count, n);
    case BARKER_EXTREME:
        break;
    }
    return known_walk(w, BARKER_EXTREME, bundles, count, n);
}

/* ---- gradients in parts ---- */

/* As estimate_ and smooth_. */
INLINE vr part_tau(const struct walk *w, struct bundle *b, size_t i, double correction)
{
    double unbiased = 1.0 / (w->batch - 1.0);
    vr s = vr_load(b->sum + i);
    vr variance = vr_fused(s * -w->share, s, vr_load(b->sumsq + i)) * unbiased;
    return running_tau(w, b->tau + i, w->tau_scale * vr_sqrt(usable_variance(variance)),
                       correction);
}

INLINE vr part_gradient(const struct walk *w, const struct bundle *b, size_t i)
{
    return vr_fused(vr_set(w->scale), vr_load(b->sum + i), vr_load(b->fixed + i));
}

INLINE struct gradients part_at(const struct walk *w, enum barker_rule rule, bool idle,
                                struct bundle *b, size_t i, double correction)
{
    struct gradients at = {0};
    if (idle) {
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

INLINE vfi part_move(const struct walk *w, enum barker_rule rule, bool idle, struct bundle *b,
                     const vf z[FPARTS], const vf u[FPARTS], double correction)
{
    vfi bad = {0};
    if (w->fixed != NULL)
        affine_lanes(w, w->fixed, w->curvature, w->diagonal, b->theta, b->fixed);
    for (size_t p = 0, i = 0; p < FPARTS; p++, i += FLOATS) {
        struct gradients at = part_at(w, rule, idle, b, i, correction);
        bad |= lane_move(w, rule, b, i, z[p], u[p], at);
    }
    return bad;
}

/* Step by step, as known_turn. */
INLINE bool part_step(const struct walk *w, enum barker_rule rule, bool idle,
                      struct bundle *bundles, size_t count)
{
    vf z[BUNDLES][FPARTS], u[BUNDLES][FPARTS];
    vfi bad = {0};
    double correction = 1.0 / w->weight;
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        lane_normals(w, bundles[k].jump, z[k]);
#pragma GCC unroll 1
    for (size_t k = 0; rule != BARKER_EXTREME && k < count; k++)
        lane_uniforms(w, bundles[k].flip, u[k]);
#pragma GCC unroll 1
    for (size_t k = 0; k < count; k++)
        bad |= part_move(w, rule, idle, &bundles[k], z[k], u[k], correction);
    all_moments(w, bundles, count);
    return !vf_any(bad);
}

INLINE bool rule_step(const struct walk *w, bool idle, struct bundle *bundles, size_t count)
{
    switch (w->rule) {
    case BARKER_VANILLA:
        return part_step(w, BARKER_VANILLA, idle, bundles, count);
    case BARKER_CORRECTED:
        return part_step(w, BARKER_CORRECTED, idle, bundles, count);
    case BARKER_EXTREME:
        break;
    }
    return part_step(w, BARKER_EXTREME, idle, bundles, count);
}

static bool bundle_step_(const struct walk *w, struct bundle *bundles, size_t count)
{
    return w->idle ? rule_step(w, true, bundles, count) : rule_step(w, false, bundles, count);
}

/* ---- sums over the rows of several chains ---- */

/* Groups of rows, those of the first chain first: step by step rather than chain by chain. */
struct crowd {
    size_t groups, count; /* of a chain, of all */
    _Alignas(ALIGNMENT) uint32_t here[16 * CROWD_GROUPS], next[16 * CROWD_GROUPS]; /* eighths */
    struct line theta[BUNDLE_LANES / 4], x[4 * CROWD_GROUPS], r[CROWD_GROUPS];
    struct link_rows link[CROWD_GROUPS];
};

/* How far from the first the rows of some groups lie, in eighths of bytes, of which the processor
 * makes addresses without further ado. CROWD_ROWS of them can be told apart. */
INLINE void count_eighths(struct kind kind, bool tails, const uint32_t *idx, size_t count,
                          uint32_t *eighths)
{
#pragma GCC unroll 1
    for (size_t i = 0; i < 16 * count; i += FLOATS) {
        vfu row = *(const vfu *)(const void *)(idx + i);
        *(vfu *)(void *)(eighths + i) = row << (row_shift(kind, tails) - 3);
    }
}

INLINE void crowd_begin(struct kind kind, struct crowd *c, bool tails,
                        const struct crowd_rows *rows, const struct bundle *b)
{
    c->groups = (rows->n + 15) / 16;
    c->count = rows->chains * c->groups;
    count_eighths(kind, tails, rows->idx, c->count, c->here);
    count_eighths(kind, tails, rows->next, rows->next_chains * c->groups, c->next);
#pragma GCC unroll 1
    for (size_t k = 0; k < rows->chains; k++)
        c->theta[k] = theta_line(kind, b->theta + 4 * kind.quarters * k);
}

INLINE void crowd_fill(struct kind kind, struct crowd *c, const struct linear *l, bool tails,
                       const uint32_t *idx)
{
#pragma GCC unroll 1
    for (size_t q = 0; q < c->count; q++) {
        struct places p = {linear_rows(l), 0, idx + 16 * q, 0, &c->here[16 * q]};
        places_load(kind, l, tails, p, &c->x[4 * kind.quarters * q], &c->link[q]);
    }
}

/* What belongs to the rows of a group that comes later, and lies elsewhere. Apart, and seldom: its
 * loops take registers from everyone else's. */
static __attribute__((noinline)) void crowd_ask_beside(const struct linear *l,
                                                       const uint32_t *eighths, unsigned shift)
{
    for (size_t k = 0; l->offset != NULL && k < 16; k++)
        __builtin_prefetch((const float *)l->offset + (eighths[k] >> shift));
    for (size_t k = 0; l->there != NULL && k < 16; k++)
        __builtin_prefetch((const float *)l->there + (eighths[k] >> shift));
}

/* The rows of a group that comes later. */
INLINE void crowd_ask(struct kind kind, const struct linear *l, bool tails, const uint32_t *eighths)
{
    struct places p = {linear_rows(l), 0, NULL, 0, eighths};
    for (size_t k = 0; k < 16; k++)
        __builtin_prefetch(place(p, k));
    if (l->offset != NULL || l->there != NULL)
        crowd_ask_beside(l, eighths, row_shift(kind, tails) - 3);
}

INLINE void crowd_residuals(struct kind kind, struct crowd *c, const struct linear *l, bool tails,
                            const struct crowd_rows *rows)
{
    const struct line *theta = c->theta;
    size_t asked = rows->next_chains * c->groups, last = rows->n % 16;
    struct link_call call;
    link_begin(&call, l, NULL);
#pragma GCC unroll 1
    for (size_t q = 0, left = c->groups; q < c->count; q++) {
        struct line eta = group_predict(kind, &c->x[4 * kind.quarters * q], *theta);
        if (q < asked)
            crowd_ask(kind, l, tails, &c->next[16 * q]);
        c->r[q] = link_slopes(kind.real, kind.logistic, &call, eta, &c->link[q]).eta;
        if (--left == 0) {
            left = c->groups;
            theta++;
        }
    }
    for (size_t q = c->groups - 1; last != 0 && q < c->count; q += c->groups)
        c->r[q] = cut_off(kind.real, c->r[q], last);
}

/* As total_add to zeros and total_fold. */
INLINE void crowd_fold(struct kind kind, struct line x, double *sum)
{
    const size_t half = LANES / 2;
    vr total[2 * FPARTS];
    for (size_t i = 0; i < FPARTS; i++) {
        total[2 * i] = vf_low(x.part[i]) + vr_set(0.0);
        total[2 * i + 1] = vf_high(x.part[i]) + vr_set(0.0);
    }
    for (size_t i = 0; i < PARTS; i++)
        total[i] += total[PARTS + i];
    if (kind.quarters == 1 && WIDTH > half) {
        vd_half both[2];
        memcpy(both, total, sizeof both);
        *(vd_half *)(void *)sum = both[0] + both[1];
    } else if (kind.quarters == 1) {
        for (size_t i = 0; i * WIDTH < half; i++)
            vr_store(sum + i * WIDTH, total[i] + total[PARTS / 2 + i]);
    } else {
        for (size_t i = 0; i < PARTS; i++)
            vr_store(sum + i * WIDTH, total[i]);
    }
}

INLINE void crowd_add(struct kind kind, const struct crowd *c, const struct crowd_rows *rows,
                      struct bundle *b, bool squares)
{
    size_t lines = 4 * kind.quarters, q = 0;
#pragma GCC unroll 1
    for (size_t k = 0; k < rows->chains; k++) {
        struct line_sums sums = {0};
#pragma GCC unroll 1
        for (size_t end = q + c->groups; q < end; q++) {
            struct line_sums group = group_terms(kind, &c->x[q * lines], c->r[q], squares);
            sums.sum = line_add(kind.real, sums.sum, group.sum);
            if (squares)
                sums.square = line_add(kind.real, sums.square, group.square);
        }
        crowd_fold(kind, sums.sum, b->sum + k * lines);
        if (squares)
            crowd_fold(kind, sums.square, b->sumsq + k * lines);
    }
}

INLINE void crowd_sums(struct kind kind, const struct linear *l, bool tails,
                       const struct crowd_rows *rows, struct bundle *b, bool squares)
{
    struct crowd c;
    crowd_begin(kind, &c, tails, rows, b);
    crowd_fill(kind, &c, l, tails, rows->idx);
    crowd_residuals(kind, &c, l, tails, rows);
    if (squares)
        crowd_add(kind, &c, rows, b, true);
    else
        crowd_add(kind, &c, rows, b, false);
}

/* Short rows of a logistic regression. Where they are nothing but themselves (linear_turn), or
 * straightened differences, the compiler is told, so that loops have no questions to ask. */
INLINE void narrow_sums(const struct linear *l, const struct crowd_rows *rows, struct bundle *b,
                        bool squares)
{
    const struct kind kind = {PRECISION_SINGLE, PRECISION_SINGLE, 1, true};
    struct linear bare = {.link = LINK_LOGISTIC, .data = l->data, .turned = l->turned};
    struct linear straight = {.link = LINK_LOGISTIC,
                              .data = l->data,
                              .tail = l->tail,
                              .difference = true,
                              .straight = true};
    if (l->turned != NULL)
        crowd_sums(kind, &bare, false, rows, b, squares);
    else if (l->tail != NULL && l->straight)
        crowd_sums(kind, &straight, true, rows, b, squares);
    else
        crowd_sums(kind, l, l->tail != NULL, rows, b, squares);
}

static void bundle_sums_(const struct linear *l, const struct crowd_rows *rows, struct bundle *b,
                         bool squares)
{
    const enum precision p = PRECISION_SINGLE;
    bool logistic = l->link == LINK_LOGISTIC, narrow = l->data->stride == 4,
         tails = l->tail != NULL;
    if (logistic && narrow)
        narrow_sums(l, rows, b, squares);
    else if (logistic)
        crowd_sums((struct kind){p, p, 2, true}, l, tails, rows, b, squares);
    else if (narrow)
        crowd_sums((struct kind){p, p, 1, false}, l, tails, rows, b, squares);
    else
        crowd_sums((struct kind){p, p, 2, false}, l, tails, rows, b, squares);
}

#endif
