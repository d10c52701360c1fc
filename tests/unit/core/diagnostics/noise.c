/* The advice about step and batch is right to the last row, for every sampler of the registry. */
#include "core/diagnostics/noise.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

typedef void visit_fn(const struct noise_setting *setting, const char *name);

/* Every sampler with every choice of its first two parameters of the kind "choice". */
static void for_all_choices(visit_fn *visit)
{
    for (size_t i = 0; i < sampler_count; i++) {
        struct param_table table = samplers[i]->params;
        double params[PARAM_MAX];
        size_t variant = param_find(table, "variant"), noise = param_find(table, "noise");
        param_defaults(table, params);
        for (size_t v = 0; v == 0 || (variant < table.count && table.specs[variant].choices[v]);
             v++)
            for (size_t k = 0; k == 0 || (noise < table.count && table.specs[noise].choices[k]);
                 k++) {
                if (variant < table.count)
                    params[variant] = (double)v;
                if (noise < table.count)
                    params[noise] = (double)k;
                visit(&(struct noise_setting){.sampler = samplers[i], .params = params},
                      samplers[i]->name);
            }
    }
}

struct batch_case {
    size_t N, n;
    bool replacement;
};

static const struct batch_case batches[] = {
    {88163, 881, false}, {88163, 881, true}, {344, 34, false}, {344, 34, true},
    {12, 11, false},     {12, 12, true},     {12, 1, false},   {2, 1, false},
    {1, 1, true},        {80000, 2, false},  {7, 7, false},    {4000000000, 1000, false},
};

static const double steps[] = {1e-6, 3.1e-3, 0.02, 0.11, 0.5, 1.38, 2.9, 40.7, 1e4, 1e9};

/* K (N-n)/n without replacement, K/n with, K from the batch that was used. */
static double tau_of_batch(const struct noise_setting *s, double tau, size_t m)
{
    double N = (double)s->N, n = (double)s->n, k = (double)m;

    if (s->replacement)
        return tau * sqrt(n / k);
    return tau * sqrt((N - k) / k * n / (N - n));
}

static void check_batch(const struct noise_setting *s, const char *name, double sigma, double tau)
{
    struct noise_advice a;
    size_t least = s->sampler->needs_tau && s->sampler->needs_tau(s->params) && s->N > 1 ? 2 : 1;
    double limit = s->sampler->ceiling(s->params);

    noise_advise(&a, s, sigma, tau);
    cr_assert_leq(a.batch_size, s->N);
    if (a.batch_size == 0) {
        cr_expect(s->replacement && sigma * tau_of_batch(s, tau, s->N) > limit,
                  "%s: no batch for N %zu, n %zu, sigma %g", name, s->N, s->n, sigma);
        return;
    }
    cr_expect_leq(sigma * tau_of_batch(s, tau, a.batch_size), limit * (1 + 1e-14),
                  "%s: N %zu, n %zu, sigma %g: %zu is too small", name, s->N, s->n, sigma,
                  a.batch_size);
    cr_expect(a.batch_size == least ||
                  sigma * tau_of_batch(s, tau, a.batch_size - 1) > limit * (1 - 1e-14),
              "%s: N %zu, n %zu, sigma %g: fewer than %zu would do", name, s->N, s->n, sigma,
              a.batch_size);
    cr_expect_geq(a.batch_size, least);
    cr_expect(s->n < least || (a.step_ratio <= 1) == (a.batch_size <= s->n),
              "%s: step ratio %g and batch %zu of %zu disagree", name, a.step_ratio, a.batch_size,
              s->n);
}

static void every_batch(const struct noise_setting *setting, const char *name)
{
    for (size_t b = 0; setting->sampler->ceiling && b < COUNT(batches); b++)
        for (size_t k = 0; k < COUNT(steps); k++) {
            struct noise_setting s = *setting;
            s.N = batches[b].N;
            s.n = batches[b].n;
            s.replacement = batches[b].replacement;
            if (s.replacement || s.n < s.N)
                check_batch(&s, name, steps[k], 2.385);
        }
}

Test(noise, advised_batch_meets_the_tolerance_and_one_row_less_does_not)
{
    for_all_choices(every_batch);
}

Test(noise, tau_of_other_batches_follows_from_one)
{
    static const double params[PARAM_MAX] = {0};

    for (size_t b = 0; b < COUNT(batches); b++) {
        struct noise_setting s = {&sampler_sgld,          params, batches[b].N, batches[b].n,
                                  batches[b].replacement, 1};
        if (!s.replacement && s.n == s.N) {
            cr_expect(isnan(noise_tau_at(&s, 0, 3)));
            continue;
        }
        for (size_t m = 1; m <= s.N; m = m * 3 + 1)
            cr_expect_float_eq(noise_tau_at(&s, 0.71, m), tau_of_batch(&s, 0.71, m), 1e-12);
        cr_expect_float_eq(noise_tau_at(&s, 0.71, s.n), 0.71, 1e-15);
        cr_expect(isnan(noise_tau_at(&s, 0.71, 0)) && isnan(noise_tau_at(&s, 0.71, s.N + 1)));
        cr_expect(isnan(noise_tau_at(&s, NAN, s.N)));
        if (!s.replacement)
            cr_expect_eq(noise_tau_at(&s, INFINITY, s.N), 0);
    }
}

static void largest_step(const struct noise_setting *s, const char *name)
{
    static const double taus[] = {3e-7, 0.43, 1.9, 17, 6e5};

    for (size_t k = 0; s->sampler->ceiling && k < COUNT(taus); k++) {
        struct noise_advice a, at;
        noise_advise(&a, s, 0.37, taus[k]);
        cr_expect_eq(a.batch_size, 0, "%s: artificial noise has no batch", name);
        cr_expect_float_eq(a.step_ratio, 0.37 / a.step_size, 1e-12 * a.step_ratio);
        noise_advise(&at, s, a.step_size * 0.999, taus[k]);
        cr_expect_leq(at.step_ratio, 1);
        cr_expect_leq(s->sampler->beyond(s->params, a.step_size * 0.999, taus[k]), 0.01,
                      "%s: more than 1 %% of the proposals lie beyond", name);
        cr_expect_geq(s->sampler->beyond(s->params, a.step_size * 1.001, taus[k]), 0.01, "%s",
                      name);
    }
}

Test(noise, advised_step_is_where_one_proposal_in_a_hundred_lies_beyond_the_tolerance)
{
    for_all_choices(largest_step);
}

static void limits(const struct noise_setting *setting, const char *name)
{
    struct noise_setting s = *setting;
    struct noise_advice a;
    bool extreme =
        s.sampler->params.count > 1 && s.params[0] == (s.sampler == &sampler_sgbd ? 2 : 3);

    if (s.sampler->exact)
        return;
    s.N = 1000;
    s.n = 10;
    noise_advise(&a, &s, 0.5, 0);
    cr_expect(a.step_ratio == 0 && isinf(a.step_size), "%s", name);
    cr_expect_eq(a.batch_size, s.sampler->needs_tau && s.sampler->needs_tau(s.params) ? 2U : 1U,
                 "%s", name);
    cr_expect_float_eq(a.variance_ratio, extreme ? 0 : 1, 1e-7, "%s: %.17g", name,
                       a.variance_ratio);
    noise_advise(&a, &s, 0.5, INFINITY);
    cr_expect(isinf(a.step_ratio) && a.step_size == 0 && isinf(a.variance_ratio), "%s", name);
    cr_expect_eq(a.batch_size, 1000, "%s: the full batch has no noise", name);
    s.replacement = true;
    noise_advise(&a, &s, 0.5, INFINITY);
    cr_expect_eq(a.batch_size, 0, "%s", name);
    noise_advise(&a, &s, 0.5, NAN);
    cr_expect(isnan(a.step_ratio) && isnan(a.step_size) && isnan(a.variance_ratio), "%s", name);
    cr_expect_eq(a.batch_size, 0, "%s", name);
    s.replacement = false;
    s.n = 1000;
    noise_advise(&a, &s, 0.5, 0);
    cr_expect(a.batch_size == 0 && a.step_ratio == 0, "%s: a full batch tells nothing", name);
}

Test(noise, none_unbounded_and_unknown_have_defined_answers)
{
    for_all_choices(limits);
}

/* What comes seldom is noise of its own, which no batch but the full one ends. */
Test(noise, no_batch_is_advised_where_iterations_without_one_add_to_it)
{
    double params[PARAM_MAX];
    struct noise_advice always, seldom;
    param_defaults(sampler_sgbd.params, params);
    noise_advise(&always, &(struct noise_setting){&sampler_sgbd, params, 500, 5, false, 1}, 2, 3);
    noise_advise(&seldom, &(struct noise_setting){&sampler_sgbd, params, 500, 5, false, 2}, 2, 3);
    cr_expect_gt(always.batch_size, 5);
    cr_expect_eq(seldom.batch_size, 0);
    cr_expect_eq(seldom.step_ratio, always.step_ratio);
}

Test(noise, exact_samplers_have_none)
{
    static const double params[PARAM_MAX] = {0};
    struct noise_setting s = {&sampler_barker_mh, params, 500, 500, false, 1};
    struct noise_advice a;

    noise_advise(&a, &s, 0.3, 0);
    cr_expect(a.step_ratio == 0 && isinf(a.step_size) && a.batch_size == 0 &&
              a.variance_ratio == 1);
}

/* A coordinate's noise only ever widens the law, and the wider the noise the more. */
static void grows(const struct noise_setting *s, const char *name)
{
    double last = -1;

    for (double tau = 0; s->sampler->variance_ratio && tau < 100; tau = tau * 1.3 + 0.01) {
        double ratio = s->sampler->variance_ratio(s->params, 0.1, tau);
        cr_expect_geq(ratio, last * (1 - 1e-9), "%s: %.9g after %.9g at tau %g", name, ratio, last,
                      tau);
        cr_expect_float_eq(s->sampler->variance_ratio(s->params, 0.025, 4 * tau), ratio,
                           1e-12 * ratio, "%s depends on more than sigma tau", name);
        last = ratio;
    }
    cr_expect_eq(s->sampler->variance_ratio == NULL, s->sampler->exact);
}

Test(noise, variance_ratio_grows_with_sigma_tau_and_depends_on_nothing_else)
{
    for_all_choices(grows);
}

struct pair_case {
    double correlation, sigma[2], sd[2];
    size_t N, n;
    bool replacement;
    double allowed;
};

static void multiply(double a[2][2], double b[2][2], bool transposed, double out[2][2])
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            out[i][j] = a[i][0] * (transposed ? b[j][0] : b[0][j]) +
                        a[i][1] * (transposed ? b[j][1] : b[1][j]);
}

/* Covariance of theta' = A theta + N(0, D + c/4 D H D), A = I - D H / 2, after 2^48 steps, by
 * doubling: the law of vanilla SGLD on a normal target with precision H whose gradient noise has
 * covariance c H. */
static void langevin_covariance(double H[2][2], const double D[2], double c, double S[2][2])
{
    double A[2][2], half[2][2], more[2][2], square[2][2];

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            A[i][j] = (i == j) - D[i] * H[i][j] / 2;
            S[i][j] = (i == j ? D[i] : 0) + c / 4 * D[i] * H[i][j] * D[j];
        }
    for (int round = 0; round < 48; round++) {
        multiply(A, S, false, half);
        multiply(half, A, true, more);
        multiply(A, A, false, square);
        memcpy(A, square, sizeof(square));
        for (int k = 0; k < 4; k++)
            S[k / 2][k % 2] += more[k / 2][k % 2];
    }
}

static const struct pair_case pairs[] = {
    {0, {0.1, 0.1}, {1, 1}, 88163, 881, false, 0.01},
    {0.97, {0.1, 0.2}, {1, 2}, 88163, 881, false, 0.03},
    {-0.9, {0.05, 0.03}, {1, 0.1}, 88163, 881, true, 0.03},
    {0.8, {0.001, 0.0013}, {1, 1.4}, 100000000, 100, false, 1e-3},
};

/* At the covariance that theory gives, the announced marginal ratio is the true one, although the
 * variance given the other coordinate is inflated many times more. */
Test(noise, marginal_ratio_sees_through_correlation)
{
    static const double params[PARAM_MAX] = {0};

    for (size_t k = 0; k < COUNT(pairs); k++) {
        const struct pair_case *p = &pairs[k];
        double N = (double)p->N, n = (double)p->n, c = (p->replacement ? N : N - n) / n;
        double D[2], H[2][2], S[2][2], r = p->correlation;
        for (int i = 0; i < 2; i++) {
            D[i] = p->sigma[i] * p->sigma[i];
            for (int j = 0; j < 2; j++)
                H[i][j] = (i == j ? 1 : -r) / (1 - r * r) / p->sd[i] / p->sd[j];
        }
        langevin_covariance(H, D, c, S);
        for (int i = 0; i < 2; i++) {
            struct noise_setting s = {&sampler_sgld, params, p->N, p->n, p->replacement, 1};
            double tau = sqrt(c * H[i][i]), truth = S[i][i] / p->sd[i] / p->sd[i];
            double said = noise_marginal_ratio(&s, p->sigma[i], tau, S[i][i]);
            cr_expect_gt(truth, 1.05);
            cr_expect_float_eq(said / truth, 1, p->allowed, "case %zu: %.4f, not %.4f", k, said,
                               truth);
            struct noise_advice a;
            noise_advise(&a, &s, p->sigma[i], tau);
            cr_expect_leq(said, a.variance_ratio * 1.01);
            if (fabs(r) > 0.5)
                cr_expect_gt(a.variance_ratio - 1, 2 * (truth - 1));
        }
    }
}

Test(noise, marginal_ratio_has_defined_limits)
{
    static const double params[PARAM_MAX] = {0};
    struct noise_setting langevin = {&sampler_sgld, params, 10000, 100, false, 1};
    struct noise_setting barker = {&sampler_sgbd, params, 10000, 100, false, 1}, s;
    double tau = sqrt(99.0); /* curvature 1 */

    cr_expect(isinf(noise_marginal_ratio(&langevin, 2, tau, 7)), "2 sds are beyond stability");
    cr_expect(isfinite(noise_marginal_ratio(&barker, 2, tau, 7)));
    cr_expect_float_eq(noise_marginal_ratio(&barker, 0.3, 0, 7), 1, 1e-7);
    cr_expect(isinf(noise_marginal_ratio(&barker, 0.3, INFINITY, 7)));
    cr_expect(isnan(noise_marginal_ratio(&barker, 0.3, NAN, 7)));
    cr_expect(isnan(noise_marginal_ratio(&barker, 0.3, tau, NAN)));
    cr_expect(isnan(noise_marginal_ratio(&barker, 0.3, tau, -1)));
    s = barker;
    s.sampler = &sampler_mala;
    cr_expect_eq(noise_marginal_ratio(&s, 0.3, tau, 7), 1);
    s = barker;
    s.N = 0;
    cr_expect_eq(noise_marginal_ratio(&s, 0.3, tau, 7),
                 sampler_sgbd.variance_ratio(params, 0.3, tau));
    cr_expect_float_eq(noise_marginal_ratio(&barker, 0.3, tau, 0),
                       sampler_sgbd.variance_ratio(params, 0.3, tau), 1e-12);
    cr_expect_float_eq(noise_marginal_ratio(&barker, 0.3, tau, 1e9), 1, 1e-6);
}
