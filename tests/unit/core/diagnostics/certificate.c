/* Certificates of means and sds: against laws whose moments are known. */
#include "core/diagnostics/certificate.h"
#include "core/base/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- draws ---- */

struct source {
    uint64_t seed, at;
};

static double uniform(struct source *s)
{
    return ((double)(rng_hash(s->seed, s->at++) >> 11) + 0.5) * 0x1p-53;
}

static double normal(struct source *s)
{
    double radius = sqrt(-2.0 * log(uniform(s)));
    return radius * cos(2.0 * M_PI * uniform(s));
}

struct sample {
    struct certificate_draws draws;
    double *theta, *score, *mean, *sd;
    uint32_t *batch;
    struct certificate_row *rows;
};

static void sample_new(struct sample *s, size_t n, size_t d)
{
    size_t each = certificate_batches(n, 1);
    *s = (struct sample){.theta = calloc(n * d, sizeof(double)),
                         .score = calloc(n * d, sizeof(double)),
                         .mean = calloc(d, sizeof(double)),
                         .sd = calloc(d, sizeof(double)),
                         .batch = calloc(n, sizeof(uint32_t)),
                         .rows = calloc(d, sizeof(struct certificate_row))};
    for (size_t i = 0; i < n; i++)
        s->batch[i] = (uint32_t)(i * each / n);
    s->draws = (struct certificate_draws){.n = n,
                                          .d = d,
                                          .theta = s->theta,
                                          .score = s->score,
                                          .batch = s->batch,
                                          .batches = each,
                                          .mean = s->mean,
                                          .sd = s->sd};
}

static void sample_free(struct sample *s)
{
    free(s->theta);
    free(s->score);
    free(s->mean);
    free(s->sd);
    free(s->batch);
    free(s->rows);
}

static void measure(struct sample *s, const double *covariance)
{
    struct err_info info;
    s->draws.covariance = covariance;
    cr_assert_eq(certificate_measure(s->rows, &s->draws, &info), ERR_OK);
}

/* ---- normal targets ---- */

/* A target with mean 1 and covariance L L' where L is lower triangular with 1.5 on the diagonal and
 * 0.6 below it once: neighbours are correlated. Draws have their mean off by `shift` sds of the first
 * factor in every factor and are `scale` times too wide. */
static void normal_sample(struct sample *s, struct source *from, size_t n, size_t d, double shift,
                          double scale)
{
    double *u = calloc(d + 1, sizeof *u);
    sample_new(s, n, d);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < d; j++)
            u[j] = shift + scale * normal(from);
        for (size_t j = 0; j < d; j++)
            s->theta[i * d + j] = 1.0 + 1.5 * u[j] + (j > 0 ? 0.6 * u[j - 1] : 0.0);
        for (size_t j = d; j-- > 0;) /* g = -L'^-1 u */
            s->score[i * d + j] = (-u[j] - (j + 1 < d ? 0.6 * s->score[i * d + j + 1] : 0.0)) / 1.5;
    }
    for (size_t j = 0; j < d; j++) {
        double below = j > 0 ? 0.6 : 0.0;
        s->mean[j] = 1.0 + shift * (1.5 + below);
        s->sd[j] = scale * sqrt(1.5 * 1.5 + below * below);
    }
    free(u);
}

static double *covariance_of(size_t d, double scale)
{
    double *S = calloc(d * d, sizeof *S);
    for (size_t j = 0; j < d; j++) {
        S[j * d + j] = scale * (2.25 + (j > 0 ? 0.36 : 0.0));
        if (j > 0)
            S[j * d + j - 1] = S[(j - 1) * d + j] = scale * 0.9;
    }
    return S;
}

/* Exact for a normal target, whatever the law of the draws, and also where the covariance has
 * another scale. */
Test(certificate, normal_targets_are_certified_exactly)
{
    static const struct {
        size_t d;
        double shift, scale, covariance;
    } cases[] = {{1, 0.0, 1.0, 1.0},   {1, 0.1, 1.1, 1.21}, {1, -0.2, 0.7, 1.0},
                 {4, 0.1, 1.0, 1.0},   {4, 0.1, 1.3, 1.69}, {50, 0.05, 1.1, 1.21},
                 {50, 0.0, 0.9, 0.81}, {4, 0.3, 1.3, 1.0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct source from = {.seed = 41 + i};
        struct sample s;
        double *S = covariance_of(cases[i].d, cases[i].covariance);
        normal_sample(&s, &from, 1000, cases[i].d, cases[i].shift, cases[i].scale);
        measure(&s, S);
        for (size_t j = 0; j < cases[i].d; j++) {
            double mean = (s.mean[j] - 1.0) / s.sd[j];
            cr_expect_lt(fabs(s.rows[j].mean_error - mean), 1e-3, "case %zu, mean %zu: %g not %g",
                         i, j, s.rows[j].mean_error, mean);
            cr_expect_lt(fabs(s.rows[j].sd_error - (cases[i].scale - 1.0)), 2e-3,
                         "case %zu, sd %zu: %g not %g", i, j, s.rows[j].sd_error,
                         cases[i].scale - 1.0);
            cr_expect_lt(s.rows[j].mean_se, 1e-3);
            cr_expect_lt(s.rows[j].sd_se, 2e-3);
        }
        free(S);
        sample_free(&s);
    }
}

/* ---- skewed and heavy-tailed targets ---- */

enum family { LOG_GAMMA, STUDENT };

/* A target of one dimension, and draws of it that are `noise` sds of normal noise too wide and
 * shifted by `shift` sds. LOG_GAMMA: the logarithm of a gamma variable of shape a, to which rows
 * of rare categories are close. STUDENT: with a degrees of freedom. */
struct skewed {
    enum family family;
    double a, shift, noise;
    size_t n;
};

static double exact_mean(const struct skewed *c)
{
    double digamma = -0.57721566490153286;
    for (double k = 1.0; k < c->a; k += 1.0)
        digamma += 1.0 / k;
    return c->family == LOG_GAMMA ? digamma : 0.0;
}

static double exact_variance(const struct skewed *c)
{
    double trigamma = M_PI * M_PI / 6.0;
    for (double k = 1.0; k < c->a; k += 1.0)
        trigamma -= 1.0 / (k * k);
    return c->family == LOG_GAMMA ? trigamma : c->a / (c->a - 2.0);
}

static double exact_draw(const struct skewed *c, struct source *from)
{
    double sum = 0.0, z = c->family == STUDENT ? normal(from) : 0.0;
    for (double k = 0.0; k < c->a; k += 1.0)
        sum += c->family == LOG_GAMMA ? -log(uniform(from)) : pow(normal(from), 2.0);
    return c->family == LOG_GAMMA ? log(sum) : z / sqrt(sum / c->a);
}

static double score_at(const struct skewed *c, double x)
{
    return c->family == LOG_GAMMA ? c->a - exp(x) : -(c->a + 1.0) * x / (c->a + x * x);
}

static struct certificate_row skewed_row(const struct skewed *c, uint64_t seed)
{
    struct source from = {.seed = seed};
    struct sample s;
    double sd = sqrt(exact_variance(c));
    sample_new(&s, c->n, 1);
    for (size_t i = 0; i < c->n; i++) {
        double x = exact_draw(c, &from);
        s.theta[i] = x + sd * (c->shift + c->noise * normal(&from));
        s.score[i] = score_at(c, s.theta[i]);
    }
    s.mean[0] = exact_mean(c) + sd * c->shift;
    s.sd[0] = sd * sqrt(1.0 + c->noise * c->noise);
    measure(&s, NULL);
    struct certificate_row row = s.rows[0];
    sample_free(&s);
    return row;
}

/* What happens over many seeds, as shares of the seeds. */
struct rates {
    double resolved_mean, resolved_sd;
    double found_mean, found_sd; /* resolved, and more than two standard errors from 0 */
    double mean, sd;             /* averages of the resolved estimates */
};

static struct rates rates_of(const struct skewed *c)
{
    enum { SEEDS = 300 };
    struct rates r = {0};
    for (uint64_t k = 0; k < SEEDS; k++) {
        struct certificate_row row = skewed_row(c, 1000 + k);
        if (!isnan(row.mean_error)) {
            r.resolved_mean += 1.0 / SEEDS;
            r.mean += row.mean_error / SEEDS;
            r.found_mean += (fabs(row.mean_error) > 2.0 * row.mean_se) / (double)SEEDS;
        }
        if (!isnan(row.sd_error)) {
            r.resolved_sd += 1.0 / SEEDS;
            r.sd += row.sd_error / SEEDS;
            r.found_sd += (fabs(row.sd_error) > 2.0 * row.sd_se) / (double)SEEDS;
        }
    }
    r.mean /= r.resolved_mean;
    r.sd /= r.resolved_sd;
    return r;
}

/* Two standard errors should be exceeded in 5 % of 300 seeds; 9 % is three errors of that share. */
Test(certificate, no_bias_is_invented)
{
    static const struct skewed cases[] = {
        {LOG_GAMMA, 1, 0.0, 0.0, 400},  {LOG_GAMMA, 3, 0.0, 0.0, 400},
        {LOG_GAMMA, 3, 0.0, 0.0, 64},   {LOG_GAMMA, 20, 0.0, 0.0, 64},
        {LOG_GAMMA, 20, 0.0, 0.0, 400}, {LOG_GAMMA, 1, 0.0, 0.0, 2000},
        {STUDENT, 3, 0.0, 0.0, 400},    {STUDENT, 3, 0.0, 0.0, 2000},
        {STUDENT, 5, 0.0, 0.0, 400},    {STUDENT, 10, 0.0, 0.0, 2000}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rates r = rates_of(&cases[i]);
        cr_expect_leq(r.found_mean, 0.09, "case %zu: means, %g", i, r.found_mean);
        cr_expect_leq(r.found_sd, 0.09, "case %zu: sds, %g", i, r.found_sd);
    }
}

Test(certificate, a_tenth_of_an_sd_is_found)
{
    static const struct skewed cases[] = {{LOG_GAMMA, 1, 0.1, 0.0, 400},
                                          {LOG_GAMMA, 3, -0.1, 0.0, 400},
                                          {LOG_GAMMA, 20, 0.1, 0.0, 400},
                                          {STUDENT, 10, -0.1, 0.0, 400}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rates r = rates_of(&cases[i]);
        cr_expect_gt(r.found_mean, 0.9, "case %zu: found in %g", i, r.found_mean);
        cr_expect_lt(fabs(r.mean - cases[i].shift), 0.015, "case %zu: %g", i, r.mean);
    }
}

/* Noise of 0.45 sds makes sds larger by 9.7 %; to first order in a skewed target, more. */
Test(certificate, too_wide_chains_are_found)
{
    static const struct skewed cases[] = {{LOG_GAMMA, 3, 0.0, 0.45, 400},
                                          {LOG_GAMMA, 20, 0.0, 0.45, 400},
                                          {LOG_GAMMA, 200, 0.0, 0.45, 400}};
    static const double allowed[] = {0.08, 0.02, 0.01};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rates r = rates_of(&cases[i]);
        cr_expect_gt(r.found_sd, 0.7, "case %zu: found in %g", i, r.found_sd);
        cr_expect_lt(fabs(r.sd - 0.0966), allowed[i], "case %zu: %g", i, r.sd);
        cr_expect_lt(fabs(r.mean), 0.02, "case %zu: mean %g", i, r.mean);
    }
}

/* The variance of a Student target with 3 degrees of freedom rests on draws that are rarer than
 * those at hand. */
Test(certificate, heavy_tails_are_not_resolved)
{
    struct rates r = rates_of(&(struct skewed){STUDENT, 3, 0.0, 0.0, 400});
    cr_expect_lt(r.resolved_sd, 0.5, "resolved in %g", r.resolved_sd);
}

/* ---- errors ---- */

/* Every draw eight times in a row is no more than one eighth of the draws. */
Test(certificate, dependent_draws_have_the_error_of_independent_ones)
{
    enum { REPEATS = 8, DISTINCT = 250 };
    struct skewed target = {LOG_GAMMA, 3, 0.0, 0.0, DISTINCT};
    struct source from = {.seed = 7};
    struct sample one, many;
    sample_new(&one, DISTINCT, 1);
    sample_new(&many, DISTINCT * REPEATS, 1);
    for (size_t i = 0; i < many.draws.n; i++) {
        if (i % REPEATS == 0)
            one.theta[i / REPEATS] = exact_draw(&target, &from);
        many.theta[i] = one.theta[i / REPEATS];
        many.score[i] = one.score[i / REPEATS] = score_at(&target, many.theta[i]);
    }
    one.mean[0] = many.mean[0] = exact_mean(&target);
    one.sd[0] = many.sd[0] = sqrt(exact_variance(&target));
    measure(&one, NULL);
    measure(&many, NULL);
    double ratio = many.rows[0].mean_se / one.rows[0].mean_se;
    cr_expect(ratio > 0.65 && ratio < 1.5, "ratio %g", ratio);
    sample_free(&one);
    sample_free(&many);
}

/* What a diagonal covariance sees of correlated coordinates is less, but it invents nothing. */
Test(certificate, a_diagonal_covariance_finds_nothing_in_exact_draws)
{
    size_t found = 0, resolved = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct source from = {.seed = seed};
        struct sample s;
        normal_sample(&s, &from, 400, 10, 0.0, 1.0);
        measure(&s, NULL);
        for (size_t j = 0; j < 10; j++) {
            resolved += isnan(s.rows[j].mean_error) ? 0 : 1;
            found += fabs(s.rows[j].mean_error) > 2.0 * s.rows[j].mean_se;
        }
        sample_free(&s);
    }
    cr_expect_gt(resolved, 350);
    cr_expect_lt((double)found, 0.09 * (double)resolved, "%zu of %zu", found, resolved);
}

Test(certificate, nothing_is_said_without_grounds)
{
    struct source from = {.seed = 3};
    struct sample s;
    normal_sample(&s, &from, CERTIFICATE_DRAWS - 1, 2, 0.0, 1.0);
    measure(&s, NULL);
    cr_expect(isnan(s.rows[0].mean_error) && isnan(s.rows[0].sd_error), "too few draws");
    sample_free(&s);

    normal_sample(&s, &from, 400, 2, 0.0, 1.0);
    s.score[2 * 17 + 1] = NAN;
    measure(&s, NULL);
    cr_expect(!isnan(s.rows[0].mean_error), "a NaN elsewhere");
    cr_expect(isnan(s.rows[1].mean_error) && isnan(s.rows[1].sd_error), "a NaN");
    sample_free(&s);

    normal_sample(&s, &from, 400, 1, 0.0, 1.0);
    s.score[17] = 300.0;
    measure(&s, NULL);
    cr_expect(isnan(s.rows[0].mean_error), "one draw decides");
    sample_free(&s);

    normal_sample(&s, &from, 400, 1, 0.0, 1.0);
    for (size_t i = 0; i < 400; i++)
        s.score[i] = normal(&from);
    measure(&s, NULL);
    cr_expect(isnan(s.rows[0].mean_error) && isnan(s.rows[0].sd_error),
              "gradients that have nothing to do with the draws");
    sample_free(&s);

    normal_sample(&s, &from, 400, 1, 0.0, 1.0);
    for (size_t i = 0; i < 400; i++)
        s.theta[i] = 2.385;
    measure(&s, NULL);
    cr_expect(isnan(s.rows[0].mean_error), "a constant");
    sample_free(&s);
}

/* Draws without the far left hundredth are no shift and no wrong width: the estimates are off
 * by more than their standard errors, the bounds hold. */
Test(certificate, bounds_hold_for_biases_of_other_shapes)
{
    struct skewed target = {LOG_GAMMA, 1, 0.0, 0.0, 4000};
    size_t held = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct source from = {.seed = seed};
        struct sample s;
        double mean = 0.0, square = 0.0;
        sample_new(&s, target.n, 1);
        for (size_t i = 0; i < target.n; i++) {
            do
                s.theta[i] = exact_draw(&target, &from);
            while (s.theta[i] < -4.0);
            s.score[i] = score_at(&target, s.theta[i]);
            mean += s.theta[i] / (double)target.n;
            square += s.theta[i] * s.theta[i] / (double)target.n;
        }
        s.mean[0] = mean;
        s.sd[0] = sqrt(square - mean * mean);
        measure(&s, NULL);
        double off = (mean - exact_mean(&target)) / s.sd[0];
        double wide = s.sd[0] / sqrt(exact_variance(&target)) - 1.0;
        held += s.rows[0].mean_bound >= fabs(off) && s.rows[0].sd_bound >= fabs(wide);
        sample_free(&s);
    }
    cr_expect_geq(held, 19);
}

Test(certificate, batches_and_alarms)
{
    cr_expect_eq(certificate_batches(100, 4), 5);
    cr_expect_eq(certificate_batches(1000, 4), 16);
    cr_expect_eq(certificate_batches(2, 1), 2);
    cr_expect_eq(certificate_batches(10, 64), 1);
    cr_expect_float_eq(certificate_alarm(1), 2.5758293035489, 1e-10);
    cr_expect_gt(certificate_alarm(1000000), 5.0);
}
