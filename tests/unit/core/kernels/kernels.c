/* Every instruction set agrees with the truth, at every length. */
#include "tests/unit/core/kernels/kernels_fixture.h"

static void expect_same(const struct array *got, const struct array *want, size_t n,
                        const char *isa, const char *what)
{
    for (size_t k = 0; k < n; k++)
        cr_assert(same(got->v[k], want->v[k]), "%s, %s, n = %zu: [%zu] is %a, not %a", isa, what, n,
                  k, got->v[k], want->v[k]);
    for (size_t k = padded(n); k < ROOM; k++)
        cr_assert_eq(got->v[k], GUARD, "%s, %s, n = %zu: wrote behind the padding at %zu", isa,
                     what, n, k);
}

/* What agrees with what is wanted, given how large the numbers behind it are, becomes it. */
static void settle(const struct kernels *k, enum precision p, struct array *got,
                   const struct array *want, const struct array *size, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (agrees_in(p, k, got->v[i], want->v[i], size->v[i]))
            got->v[i] = want->v[i];
}

/* `check` for every instruction set (the truth with itself: that catches what depends on anything
 * but the arguments), every length and every flavour of values. */
typedef void checker(const struct kernels *k, const struct kernels *base, size_t n,
                     enum flavour flavour);

static void sweep(checker *check)
{
    const struct kernels *base = truth();
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t n = 0; n <= LONGEST; n++)
            for (int flavour = 0; flavour < FLAVOURS; flavour++)
                check(*k, base, n, (enum flavour)flavour);
}

static void sweep_far(checker *check)
{
    static const size_t lengths[] = {127, 128, 129, 200, 511, 512, 513, FAR};
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (int flavour = 0; flavour < FLAVOURS; flavour++)
                check(*k, truth(), lengths[i], (enum flavour)flavour);
}

/* ---- random numbers ---- */

static void seed(struct rng *rng, size_t n)
{
    rng_seed(rng, 0x5eed5 + n, 3, RNG_JUMP);
}

static void check_bits(const struct kernels *k, const struct kernels *base, size_t n,
                       enum flavour flavour)
{
    _Alignas(ALIGNMENT) uint64_t got[ROOM] = {0}, want[ROOM] = {0};
    struct rng a, b;
    (void)flavour;
    seed(&a, n);
    seed(&b, n);
    k->rng_bits(&a, got, n);
    base->rng_bits(&b, want, n);
    cr_assert_arr_eq(got, want, n * sizeof *got, "%s, n = %zu", k->isa, n);
    cr_assert_arr_eq(&a, &b, sizeof a, "%s, n = %zu: another state", k->isa, n);
    for (size_t i = padded(n); i < ROOM; i++)
        cr_assert_eq(got[i], 0, "%s, n = %zu: wrote behind the padding", k->isa, n);
}

typedef void generator_single(struct rng *rng, float *out, size_t n);

static void check_single(const struct kernels *k, generator_single *f, generator_single *g,
                         size_t n, double size)
{
    struct singles got = {.v = {0}}, want = {.v = {0}};
    struct rng a, b;
    seed(&a, n);
    seed(&b, n);
    f(&a, got.v, n);
    g(&b, want.v, n);
    for (size_t i = 0; i < n; i++)
        cr_assert(agrees(k, (double)got.v[i], (double)want.v[i], size),
                  "%s, n = %zu: [%zu] is %a, not %a", k->isa, n, i, got.v[i], want.v[i]);
    cr_assert_arr_eq(&a, &b, sizeof a, "%s, n = %zu: another state", k->isa, n);
    for (size_t i = padded(n); i < ROOM; i++)
        cr_assert_eq(got.v[i], 0.0f, "%s, n = %zu: wrote behind the padding", k->isa, n);
}

typedef void generator(struct rng *rng, double *out, size_t n);

static void check_generator(generator *f, generator *g, const char *isa, size_t n, const char *what)
{
    struct array got = array_of(ORDINARY, 1, n), want = got;
    struct rng a, b;
    seed(&a, n);
    seed(&b, n);
    f(&a, got.v, n);
    g(&b, want.v, n);
    expect_same(&got, &want, n, isa, what);
    cr_assert_arr_eq(&a, &b, sizeof a, "%s, %s, n = %zu: another state", isa, what, n);
}

static void check_uniform(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    (void)flavour;
    check_generator(k->rng_uniform, base->rng_uniform, k->isa, n, "rng_uniform");
    check_single(k, k->rng_uniform_single, base->rng_uniform_single, n, 0.0);
}

static void check_normal(const struct kernels *k, const struct kernels *base, size_t n,
                         enum flavour flavour)
{
    (void)flavour;
    check_generator(k->rng_normal, base->rng_normal, k->isa, n, "rng_normal");
    check_single(k, k->rng_normal_single, base->rng_normal_single, n, 3.0);
}

Test(kernels, random_numbers_are_the_same_everywhere)
{
    sweep(check_bits);
    sweep(check_uniform);
    sweep(check_normal);
}

/* ---- moves ---- */

static double jump_of(const struct barker_move *m, size_t j)
{
    return m->gaussian ? (double)m->z[j] : 1.0 + 0.1 * (double)m->z[j];
}

/* Whether the sign of a jump is a matter of rounding: u is that near its probability. */
static bool close_call(const struct barker_move *m, size_t j)
{
    double w = m->sigma[j] * jump_of(m, j), x = m->g[j] * w;
    double t = m->rule == BARKER_CORRECTED ? m->tau_factor * m->tau[j] * fabs(w) / 1.702 : 0.0;
    double p = t < 1.0 ? 1.0 / (1.0 + exp(-x / sqrt(1.0 - t * t))) : x > 0.0;
    return m->rule != BARKER_EXTREME && fabs((double)m->u[j] - p) <= 1e-6;
}

/* After the truth has moved m->theta. */
static void expect_moved(const struct kernels *k, const struct barker_move *m,
                         const struct array *before, const struct array *got)
{
    for (size_t j = 0; j < m->n; j++) {
        double want = m->theta[j], size = fabs(m->sigma[j] * jump_of(m, j));
        double other = close_call(m, j) ? 2.0 * before->v[j] - want : want;
        cr_assert(agrees(k, got->v[j], want, size) || agrees(k, got->v[j], other, size),
                  "%s, barker, n = %zu: [%zu] is %a, not %a", k->isa, m->n, j, got->v[j], want);
    }
    for (size_t j = padded(m->n); j < ROOM; j++)
        cr_assert_eq(got->v[j], GUARD, "%s, barker, n = %zu: wrote at %zu", k->isa, m->n, j);
}

static void check_barker(const struct kernels *k, const struct kernels *base, size_t n,
                         enum flavour flavour)
{
    struct array g = array_of(flavour, 1, n), tau = positive(flavour, 2, n),
                 sigma = positive(flavour == SPECIAL ? ORDINARY : flavour, 3, n),
                 jumps = array_of(ORDINARY, 4, n), flips = uniforms(5, n);
    struct singles z = singles_of(&jumps), u = singles_of(&flips);
    for (int rule = BARKER_VANILLA; rule <= BARKER_EXTREME; rule++)
        for (int gaussian = 0; gaussian < 2; gaussian++) {
            struct array got = array_of(ORDINARY, 6, n), want = got, before = got;
            struct barker_move m = {.rule = (enum barker_rule)rule,
                                    .gaussian = gaussian,
                                    .n = n,
                                    .theta = got.v,
                                    .g = g.v,
                                    .tau = rule == BARKER_CORRECTED ? tau.v : NULL,
                                    .tau_factor = 1.07,
                                    .sigma = sigma.v,
                                    .z = z.v,
                                    .u = u.v};
            size_t bad = k->barker(&m);
            m.theta = want.v;
            cr_assert_eq(base->barker(&m), bad);
            expect_moved(k, &m, &before, &got);
        }
}

static void check_langevin(const struct kernels *k, const struct kernels *base, size_t n,
                           enum flavour flavour)
{
    struct array g = array_of(flavour, 1, n), tau = positive(flavour, 2, n),
                 sigma = positive(flavour, 3, n), noise = array_of(ORDINARY, 4, n);
    struct singles z = singles_of(&noise);
    for (int rule = LANGEVIN_VANILLA; rule <= LANGEVIN_EXTREME; rule++) {
        bool needs_tau = rule == LANGEVIN_CORRECTED || rule == LANGEVIN_MODIFIED;
        struct array got = array_of(ORDINARY, 6, n), want = got;
        struct langevin_move m = {.rule = (enum langevin_rule)rule,
                                  .n = n,
                                  .theta = got.v,
                                  .g = g.v,
                                  .tau = needs_tau ? tau.v : NULL,
                                  .tau_factor = 1.07,
                                  .sigma = sigma.v,
                                  .z = z.v};
        size_t bad = k->langevin(&m);
        m.theta = want.v;
        cr_assert_eq(base->langevin(&m), bad);
        expect_same(&got, &want, n, k->isa, "langevin");
    }
}

static void check_lattice(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    struct array g = array_of(flavour, 1, n), sigma = positive(flavour, 3, n),
                 flips = uniforms(5, n);
    struct array got = array_of(ORDINARY, 6, n), want = got;
    struct singles u = singles_of(&flips);
    size_t bad = k->lattice(got.v, g.v, sigma.v, u.v, n);
    cr_assert_eq(base->lattice(want.v, g.v, sigma.v, u.v, n), bad);
    expect_same(&got, &want, n, k->isa, "lattice");
}

Test(kernels, moves_are_the_same_everywhere)
{
    sweep(check_barker);
    sweep_far(check_barker);
    sweep(check_langevin);
    sweep(check_lattice);
}

/* ---- sums over draws and rows ---- */

static void check_moments(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    struct array mean = array_of(flavour, 1, n), m2 = positive(flavour, 2, n),
                 x = array_of(flavour, 3, n);
    struct array want_mean = mean, want_m2 = m2, size = mean, size2 = m2;
    for (size_t i = 0; i < n; i++) {
        size.v[i] = fabs(mean.v[i]) + fabs(x.v[i]);
        size2.v[i] = m2.v[i] + size.v[i] * size.v[i];
    }
    k->moments(mean.v, m2.v, x.v, 7.0, n);
    base->moments(want_mean.v, want_m2.v, x.v, 7.0, n);
    settle(k, PRECISION_DOUBLE, &mean, &want_mean, &size, n);
    settle(k, PRECISION_DOUBLE, &m2, &want_m2, &size2, n);
    expect_same(&mean, &want_mean, n, k->isa, "moments: mean");
    expect_same(&m2, &want_m2, n, k->isa, "moments: m2");
}

/* How large the numbers behind estimates are. What is left of a variance has lost digits, of which
 * a root has half as many. */
static void estimate_sizes(const struct batch_sums *b, struct array *g, struct array *tau)
{
    for (size_t i = 0; i < b->n; i++) {
        g->v[i] = fabs(g->v[i]) + fabs(b->scale * b->sum[i]);
        tau->v[i] = 1.0 + b->tau_scale * sqrt(b->sumsq[i]);
        if (!isfinite(b->sum[i] * b->sum[i] + b->sumsq[i])) /* what overflows is for all the same */
            tau->v[i] = 0.0;
    }
}

static void check_estimate(const struct kernels *k, const struct kernels *base, size_t n,
                           enum flavour flavour)
{
    struct array sum = array_of(flavour, 1, n), sumsq = positive(flavour, 2, n);
    struct batch_sums sums = {sum.v, sumsq.v, 100.07, 2.385, 34.0, 1.0 / 34.0, n, NULL};
    for (int with_tau = 0; with_tau < 2; with_tau++) {
        struct array g = array_of(flavour, 3, n), tau = array_of(ORDINARY, 4, n);
        struct array want_g = g, want_tau = tau, size_g = g, size_tau = tau;
        estimate_sizes(&sums, &size_g, &size_tau);
        k->estimate(&sums, g.v, with_tau ? tau.v : NULL, NULL);
        base->estimate(&sums, want_g.v, with_tau ? want_tau.v : NULL, NULL);
        settle(k, PRECISION_DOUBLE, &g, &want_g, &size_g, n);
        settle(k, PRECISION_SINGLE, &tau, &want_tau, &size_tau, n);
        expect_same(&g, &want_g, n, k->isa, "estimate: g");
        expect_same(&tau, &want_tau, n, k->isa, "estimate: tau");
    }
}

/* In one pass or one after the other, with tau itself or without. */
static void check_running(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    struct array sum = array_of(flavour, 1, n), sumsq = positive(flavour, 2, n);
    struct batch_sums sums = {sum.v, sumsq.v, 100.07, 2.385, 34.0, 1.0 / 34.0, n, NULL};
    for (int with_tau = 0; with_tau < 2; with_tau++) {
        struct array g = array_of(flavour, 3, n), tau = array_of(ORDINARY, 4, n),
                     memory = positive(ORDINARY, 5, n);
        struct array want_g = g, want_tau = tau, want_memory = memory;
        struct array size_g = g, size_tau = tau;
        estimate_sizes(&sums, &size_g, &size_tau);
        k->estimate(&sums, g.v, with_tau ? tau.v : NULL, &(struct running_tau){memory.v, 0.107});
        base->estimate(&sums, want_g.v, want_tau.v, NULL);
        base->smooth(&(struct running_tau){want_memory.v, 0.107}, want_tau.v, n);
        settle(k, PRECISION_DOUBLE, &g, &want_g, &size_g, n);
        settle(k, PRECISION_SINGLE, &tau, &want_tau, &size_tau, n);
        for (size_t i = 0; i < n; i++)
            size_tau.v[i] = 3.0 * (3.0 + size_tau.v[i]);
        settle(k, PRECISION_SINGLE, &memory, &want_memory, &size_tau, n);
        expect_same(&g, &want_g, n, k->isa, "running estimate: g");
        if (with_tau)
            expect_same(&tau, &want_tau, n, k->isa, "running estimate: tau");
        expect_same(&memory, &want_memory, n, k->isa, "running estimate: memory");
    }
}

static void expect_added(const struct array *memory, const struct array *before,
                         const struct array *tau, const uint64_t touched[WORDS], size_t n,
                         const char *isa)
{
    for (size_t i = 0; i < n; i++) {
        double sd = fmin(fmax(tau->v[i] / 2.385, sqrt(FLT_MIN)), sqrt(FLT_MAX));
        bool there = touched[i / LANES / 64] >> i / LANES % 64 & 1;
        double want = before->v[i] + (there ? 0.107 * 2.385 * sd : 0.0);
        cr_assert(fabs(memory->v[i] - want) <= (there ? 2e-7 * want : 0.0),
                  "%s: memory %zu is %g, not %g", isa, i, memory->v[i], want);
    }
}

/* Of sums that are zero but for some eights, said or not said: the same, and said ones are zero
 * afterwards. The running estimate is added to where they are. */
static void check_touched(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    struct array sum = array_of(flavour, 1, n), sumsq = positive(flavour, 2, n);
    const struct array none = {0}, before = positive(ORDINARY, 5, n);
    struct batch_sums sums = {sum.v, sumsq.v, 100.07, 2.385, 34.0, 1.0 / 34.0, n, NULL};
    const uint64_t nothing[WORDS] = {0};
    uint64_t touched[WORDS] = {0}, bits[WORDS];
    for (size_t i = 0; i < n; i++) {
        size_t eight = i / LANES;
        bool there = eight % 3 != 1;
        touched[eight / 64] |= (uint64_t)there << eight % 64;
        sum.v[i] = there ? sum.v[i] : 0.0;
        sumsq.v[i] = there && i % LANES != 3 ? sumsq.v[i] : 0.0;
    }
    for (int what = 1; what < 4; what++) {
        struct array said = sum, said_squares = sumsq, memory = before, want_memory = before;
        struct array g = array_of(flavour, 3, n), tau = array_of(ORDINARY, 4, n);
        struct array want_g = g, want_tau = tau, spare = g, size_g = g, size_tau = tau;
        for (size_t i = 0; i < n; i++) /* what is not touched keeps the sign of a zero */
            g.v[i] = want_g.v[i] += 0.0;
        memcpy(bits, touched, sizeof bits);
        k->estimate(
            &(struct batch_sums){said.v, said_squares.v, 100.07, 2.385, 34.0, 1.0 / 34.0, n, bits},
            g.v, what & 1 ? tau.v : NULL, what & 2 ? &(struct running_tau){memory.v, 0.107} : NULL);
        k->estimate(&sums, want_g.v, want_tau.v, NULL);
        expect_same(&g, &want_g, n, k->isa, "touched: g");
        if (what & 1)
            expect_same(&tau, &want_tau, n, k->isa, "touched: tau");
        expect_same(&said, &none, n, k->isa, "touched: sums");
        expect_same(&said_squares, &none, n, k->isa, "touched: squares");
        cr_expect_arr_eq(bits, nothing, sizeof bits, "%s: bits are left", k->isa);
        expect_added(&memory, &before, &want_tau, what & 2 ? touched : nothing, n, k->isa);
        said = sum;
        said_squares = sumsq;
        memcpy(bits, touched, sizeof bits);
        base->estimate(
            &(struct batch_sums){said.v, said_squares.v, 100.07, 2.385, 34.0, 1.0 / 34.0, n, bits},
            spare.v, NULL, &(struct running_tau){want_memory.v, 0.107});
        estimate_sizes(&sums, &size_g, &size_tau);
        settle(k, PRECISION_SINGLE, &memory, &want_memory, &size_tau, n);
        if (what & 2)
            expect_same(&memory, &want_memory, n, k->isa, "touched: memory");
    }
}

static long double log_of_bernoulli(double eta, double y)
{
    long double z = y == 1.0 ? eta : -eta;
    return z > 0 ? -log1pl(expl(-z)) : z - log1pl(expl(z));
}

static void check_bernoulli_log(const struct kernels *k, const struct kernels *base, size_t n,
                                enum flavour flavour)
{
    struct array eta = array_of(flavour, 1, n), y = array_of(ORDINARY, 2, n);
    long double sum = 0;
    for (size_t i = 0; i < n; i++) {
        y.v[i] = y.v[i] > 0.0;
        eta.v[i] *= flavour == ORDINARY ? 300.0 : 1.0;
        sum += log_of_bernoulli(eta.v[i], y.v[i]);
    }
    double got = k->bernoulli_log(eta.v, y.v, n), want = base->bernoulli_log(eta.v, y.v, n);
    cr_assert(same(got, want), "%s, bernoulli_log, n = %zu: %a, not %a", k->isa, n, got, want);
    if (flavour == ORDINARY)
        cr_assert(fabsl(got - sum) <= 1e-15L * (long double)n + 1e-15L * fabsl(sum),
                  "%s, bernoulli_log, n = %zu: %.17g, not %.17Lg", k->isa, n, got, sum);
}

static void check_dot(const struct kernels *k, const struct kernels *base, size_t n,
                      enum flavour flavour)
{
    struct array a = array_of(flavour, 1, n), b = array_of(flavour, 2, n);
    double got = k->dot(a.v, b.v, n), want = base->dot(a.v, b.v, n);
    cr_assert(same(got, want), "%s, dot, n = %zu: %a, not %a", k->isa, n, got, want);
}

Test(kernels, sums_and_curves_are_the_same_everywhere)
{
    sweep(check_moments);
    sweep(check_estimate);
    sweep(check_running);
    sweep(check_touched);
    sweep_far(check_running);
    sweep_far(check_touched);
    sweep(check_bernoulli_log);
    sweep(check_dot);
}

/* ---- held-out metrics ---- */

/* These take arrays that begin anywhere and end exactly: the first number is left out, and what
 * follows the last one must survive. */
static void expect_same_and_no_more(const struct array *got, const struct array *want,
                                    const struct array *before, size_t n, const char *isa,
                                    const char *what)
{
    for (size_t k = 0; k < ROOM; k++) {
        bool inside = k >= 1 && k <= n;
        cr_assert(same(got->v[k], inside ? want->v[k] : before->v[k]),
                  "%s, %s, n = %zu: [%zu] is %a, not %a", isa, what, n, k, got->v[k],
                  inside ? want->v[k] : before->v[k]);
    }
}

static void check_average(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    struct array x = array_of(flavour, 1, n + 1), got = array_of(flavour, 2, n + 1), before = got,
                 want = got;
    k->average(got.v + 1, x.v + 1, 1.0 / 7.0, n);
    base->average(want.v + 1, x.v + 1, 1.0 / 7.0, n);
    expect_same_and_no_more(&got, &want, &before, n, k->isa, "average");
}

static void check_scores(const struct kernels *k, const struct kernels *base, size_t n,
                         enum flavour flavour)
{
    struct array a = array_of(flavour, 1, n + 1), b = array_of(flavour, 2, n + 1);
    double got = k->squared_distance(a.v + 1, b.v + 1, n),
           want = base->squared_distance(a.v + 1, b.v + 1, n);
    cr_assert(same(got, want), "%s, squared_distance, n = %zu: %a, not %a", k->isa, n, got, want);
    cr_assert_eq(k->count_above(a.v + 1, 0.5, n), base->count_above(a.v + 1, 0.5, n), "%s, %zu",
                 k->isa, n);
    for (int sign = 0; sign < 2; sign++) {
        got = k->log_sum(a.v + 1, n);
        want = base->log_sum(a.v + 1, n);
        cr_assert(same(got, want), "%s, log_sum, n = %zu: %a, not %a", k->isa, n, got, want);
        a = positive(flavour, 1, n + 1);
    }
}

static void check_ratings(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    static const size_t ranks[] = {1, 7, 8, 20};
    uint32_t user[LONGEST + 1], item[LONGEST + 1];
    struct array u = array_of(flavour, 1, LONGEST), v = array_of(flavour, 2, LONGEST);
    for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
        struct array got = array_of(ORDINARY, 3, n), before = got, want = got;
        for (size_t i = 0; i < n; i++) {
            user[i] = (uint32_t)(scramble(i) % (LONGEST / ranks[r]));
            item[i] = (uint32_t)(scramble(i + 500) % (LONGEST / ranks[r]));
        }
        struct rating_pairs pairs = {u.v, v.v, user, item, ranks[r], n, 3.53, 1.0, 5.0};
        k->ratings(&pairs, got.v + 1);
        base->ratings(&pairs, want.v + 1);
        expect_same_and_no_more(&got, &want, &before, n, k->isa, "ratings");
    }
}

Test(kernels, metrics_are_the_same_everywhere)
{
    sweep(check_average);
    sweep(check_scores);
    sweep(check_ratings);
}

/* ---- rows of data ---- */

/* Rows of n columns, at most a line of them; against a sum term by term, too. */
static void check_squares(const struct kernels *k, const struct kernels *base, size_t n,
                          enum flavour flavour)
{
    enum { WIDE = 72 };
    static _Alignas(ALIGNMENT) double x[SYRK_ROWS * WIDE], got[WIDE * WIDE], want[WIDE * WIDE];
    struct array weight = array_of(flavour, 3, SYRK_ROWS);
    size_t rows = n % (SYRK_ROWS + 1);
    for (size_t i = 0; i < SYRK_ROWS; i++)
        for (size_t j = 0; j < WIDE; j++)
            x[i * WIDE + j] = j < n ? value(flavour, 11 + i, j) : 0.0;
    memset(got, 0, sizeof got);
    memset(want, 0, sizeof want);
    k->syrk(got, WIDE, x, weight.v, rows, n);
    base->syrk(want, WIDE, x, weight.v, rows, n);
    for (size_t j = 0; j < WIDE; j++)
        for (size_t c = 0; c <= j; c++) {
            double size = 0.0, sum = 0.0;
            for (size_t i = 0; j < n && i < rows; i++) {
                double term = weight.v[i] * x[i * WIDE + j] * x[i * WIDE + c];
                sum += term;
                size += fabs(term);
            }
            double here = got[j * WIDE + c];
            cr_assert(agrees_in(PRECISION_DOUBLE, k, here, want[j * WIDE + c], size),
                      "%s, syrk, n = %zu: [%zu, %zu] is %a, not %a", k->isa, n, j, c, here,
                      want[j * WIDE + c]);
            cr_assert(!isfinite(size) || fabs(here - sum) <= 1e-14 * size,
                      "%s, syrk, n = %zu: [%zu, %zu] is %a, not %a", k->isa, n, j, c, here, sum);
        }
}

Test(kernels, squares_are_the_same_everywhere_and_right)
{
    sweep(check_squares);
}

static void check_log_sources(const struct kernels *k, const struct kernels *base, size_t n,
                              enum flavour flavour)
{
    static const size_t widths[] = {1, 5, 8};
    _Alignas(ALIGNMENT) double scratch[8 * LANES];
    uint32_t idx[LONGEST] = {0};
    struct rows r;
    pick(idx, n, LONGEST);
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int precision = PRECISION_SINGLE; precision <= PRECISION_DOUBLE; precision++) {
            struct array W = array_of(flavour, 7, widths[w] * widths[w]);
            rows_fill(&r, LONGEST, widths[w], (enum precision)precision, flavour);
            for (int list = 0; list < 2; list++) {
                const uint32_t *rows = list ? idx : NULL;
                double got = k->log_sources(&r.data, rows, n, W.v, scratch),
                       want = base->log_sources(&r.data, rows, n, W.v, scratch);
                cr_assert(agrees_in(PRECISION_DOUBLE, k, got, want, fabs(want)),
                          "%s, log_sources, n = %zu: %a, not %a", k->isa, n, got, want);
            }
        }
}

Test(kernels, densities_of_sources_are_the_same_everywhere)
{
    sweep(check_log_sources);
}
