/* Mixing measures against R's posterior on draws that both sides generate alike
 * (tests/fixtures/mixing/make_fixtures.R), and against mathematics where that is exact. */
#include "core/diagnostics/mixing.h"
#include "core/diagnostics/fft.h"
#include "core/diagnostics/quantile.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURES "tests/fixtures/mixing/"
#define MODULUS  2147483647u

enum { MAX_CHAINS = 8, MAX_LENGTH = 5100, MAX_TOTAL = MAX_CHAINS * MAX_LENGTH, ANSWERS = 19 };

static const double TOLERANCE = 1e-10;

static const char *const answer_names[ANSWERS] = {
    "mean",      "sd",       "q5",       "q25",      "q50",      "q75",      "q95",
    "mcse_mean", "mcse_sd",  "mcse_q5",  "mcse_q25", "mcse_q50", "mcse_q75", "mcse_q95",
    "rhat",      "ess_bulk", "ess_tail", "ess_mean", "ess_sd"};

struct spec {
    char kind[16];
    size_t chains, length, uneven, seed;
    double rho, p;
};

struct fixture {
    struct spec spec;
    double answers[ANSWERS];
};

/* The draws of a spec, in arrays that the struct owns. */
struct sample {
    double *draws[MAX_CHAINS];
    size_t lengths[MAX_CHAINS];
    size_t chains;
};

struct stream {
    uint64_t state;
};

static double next_uniform(struct stream *stream)
{
    stream->state = 16807 * stream->state % MODULUS;
    return (double)stream->state / (double)MODULUS;
}

static struct stream stream_of(size_t seed, size_t chain)
{
    struct stream stream = {(seed * 16 + chain) * 7919 % MODULUS + 1};
    for (int i = 0; i < 5; i++)
        next_uniform(&stream);
    return stream;
}

static double near_normal(const double u[4])
{
    return (u[0] + u[1] + u[2] + u[3] - 2.0) * sqrt(3.0);
}

/* What a kind may need of one draw: x the recursion, u its uniforms, t its place. */
struct moment {
    double x, u[8], other;
    size_t t, length, chain;
    double held; /* the value before it */
    double p;
    bool last, middle;
};

static double of_kind(const char *kind, const struct moment *d)
{
    double x = d->x, p = d->p, c = (double)d->chain;
    struct {
        const char *kind;
        double value;
    } kinds[] = {{"plain", x},
                 {"uniform", d->u[0]},
                 {"shift", x + c * p},
                 {"scale", x * (1.0 + c * p)},
                 {"cauchy", x / d->other},
                 {"square", x * x},
                 {"round", floor(x * p + 0.5) / p},
                 {"binary", x <= p ? 1.0 : 0.0},
                 {"trend", x + p * (double)d->t / (double)d->length},
                 {"offset", p + x},
                 {"narrow", x * p},
                 {"held", d->t > 0 && d->u[4] < 0.7 ? d->held : x},
                 {"alternate", (d->t % 2 == 0 ? p : -p) + x},
                 {"constant", p},
                 {"stuck", c * p},
                 {"one_stuck", d->last ? p : x},
                 {"half_stuck", d->t < d->length / 2 ? x : p},
                 {"only_middle", d->middle ? x : p},
                 {"spike", d->middle && d->last ? p : x},
                 {"nan", d->t == d->length / 3 && d->last ? NAN : x},
                 {"inf", d->t == d->length / 3 && d->last ? INFINITY : x},
                 {"minus_inf", x <= p ? -INFINITY : x},
                 {"both_inf", x <= -p  ? -INFINITY
                              : x >= p ? INFINITY
                                       : x}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind, kind) == 0)
            return kinds[i].value;
    cr_assert_fail("no such kind: %s", kind);
    return NAN;
}

static void generate_chain(const struct spec *spec, size_t chain, double *draws, size_t length)
{
    struct stream stream = stream_of(spec->seed, chain);
    double fresh = sqrt(1.0 - spec->rho * spec->rho);
    struct moment d = {
        .length = spec->length, .chain = chain, .p = spec->p, .last = chain == spec->chains - 1};
    for (size_t t = 0; t < length; t++) {
        for (int i = 0; i < 8; i++)
            d.u[i] = next_uniform(&stream);
        double e = near_normal(d.u);
        d.other = near_normal(d.u + 4);
        if (d.other == 0.0)
            d.other = 1.0;
        d.x = t == 0 ? e : spec->rho * d.x + fresh * e;
        d.t = t;
        d.middle = t == spec->length / 2;
        draws[t] = d.held = of_kind(spec->kind, &d);
    }
}

static void sample_init(struct sample *sample, const struct spec *spec)
{
    cr_assert(spec->chains <= MAX_CHAINS);
    sample->chains = spec->chains;
    for (size_t c = 0; c < spec->chains; c++) {
        sample->lengths[c] = spec->length + c * spec->uneven;
        sample->draws[c] = calloc(sample->lengths[c] + 1, sizeof(double));
        generate_chain(spec, c, sample->draws[c], sample->lengths[c]);
    }
}

static void sample_release(struct sample *sample)
{
    for (size_t c = 0; c < sample->chains; c++)
        free(sample->draws[c]);
}

static struct mixing_work *work_for(size_t draws)
{
    struct mixing_work *work;
    struct err_info info;
    cr_assert_eq(mixing_work_new(&work, draws, &info), ERR_OK);
    return work;
}

static struct mixing measure_sample(const struct sample *sample, struct mixing_work *work)
{
    struct mixing mixing;
    struct mixing_draws draws = {.chains = (const double *const *)sample->draws,
                                 .lengths = sample->lengths,
                                 .chain_count = sample->chains};
    mixing_measure(&mixing, &draws, work);
    return mixing;
}

static struct mixing measure_spec(const struct spec *spec, struct mixing_work *work)
{
    struct sample sample;
    sample_init(&sample, spec);
    struct mixing mixing = measure_sample(&sample, work);
    sample_release(&sample);
    return mixing;
}

static void to_answers(const struct mixing *m, double out[ANSWERS])
{
    const double *q = m->quantile, *e = m->mcse_quantile;
    double answers[ANSWERS] = {m->mean,     m->sd,       q[0],         q[1],       q[2],
                               q[3],        q[4],        m->mcse_mean, m->mcse_sd, e[0],
                               e[1],        e[2],        e[3],         e[4],       m->rhat,
                               m->ess_bulk, m->ess_tail, m->ess_mean,  m->ess_sd};
    memcpy(out, answers, sizeof answers);
}

static bool same_bits(const struct mixing *a, const struct mixing *b)
{
    double left[ANSWERS], right[ANSWERS];
    to_answers(a, left);
    to_answers(b, right);
    return memcmp(left, right, sizeof left) == 0;
}

static bool all_finite(const double answers[ANSWERS])
{
    for (int i = 0; i < ANSWERS; i++)
        if (!isfinite(answers[i]))
            return false;
    return true;
}

/* A mean may be 0 but for rounding, so it is held against the sd. */
static bool agrees(double ours, double theirs, double scale)
{
    if (!isfinite(theirs))
        return isnan(theirs) ? isnan(ours) : ours == theirs;
    return fabs(ours - theirs) <= TOLERANCE * fmax(fabs(theirs), scale);
}

static bool parse_fixture(char *line, struct fixture *fixture)
{
    struct spec *spec = &fixture->spec;
    int used = 0;
    if (sscanf(line, "%15[^,],%zu,%zu,%zu,%lf,%lf,%zu%n", spec->kind, &spec->chains, &spec->length,
               &spec->uneven, &spec->rho, &spec->p, &spec->seed, &used) != 7)
        return false;
    char *at = line + used;
    for (int i = 0; i < ANSWERS; i++) {
        if (*at++ != ',')
            return false;
        fixture->answers[i] = strtod(at, &at);
    }
    return *at == '\n';
}

static void check_fixture(const struct fixture *fixture, struct mixing_work *work)
{
    const struct spec *s = &fixture->spec;
    struct mixing mixing = measure_spec(s, work);
    double ours[ANSWERS];
    to_answers(&mixing, ours);
    double sd = fixture->answers[1];
    for (int i = 0; i < ANSWERS; i++)
        cr_expect(agrees(ours[i], fixture->answers[i], i == 0 && isfinite(sd) ? sd : 0.0),
                  "%s of %s, %zu chains of %zu, rho %g, p %g, seed %zu: %.17g, R says %.17g",
                  answer_names[i], s->kind, s->chains, s->length, s->rho, s->p, s->seed, ours[i],
                  fixture->answers[i]);
    cr_expect_eq(mixing.reason == MIXING_OK, all_finite(ours), "%s, %zu chains of %zu: reason %s",
                 s->kind, s->chains, s->length, mixing_reason_text(mixing.reason));
}

static size_t check_table(FILE *table)
{
    struct mixing_work *work = work_for(MAX_TOTAL);
    char line[2048];
    size_t count = 0;
    cr_assert(fgets(line, sizeof line, table), "the table has no header");
    while (fgets(line, sizeof line, table)) {
        struct fixture fixture;
        cr_assert(parse_fixture(line, &fixture), "bad line: %s", line);
        check_fixture(&fixture, work);
        count++;
    }
    mixing_work_free(work);
    return count;
}

Test(mixing, agrees_with_the_stored_answers_of_posterior)
{
    FILE *table = fopen(FIXTURES "answers.csv", "r");
    cr_assert(table, "no " FIXTURES "answers.csv: run the tests from the top directory");
    size_t count = check_table(table);
    fclose(table);
    cr_expect_geq(count, 300);
}

Test(mixing, agrees_with_posterior_live_on_other_seeds)
{
    if (system("Rscript -e 'q(status = packageVersion(\"posterior\")[, 1:2] != \"1.4\")' "
               ">/dev/null 2>&1") != 0) {
        printf(
            "skipped: mixing measures against live R: Rscript with posterior 1.4 is not there\n");
        fflush(stdout);
        return;
    }
    FILE *table = popen("Rscript " FIXTURES "make_fixtures.R 5000 2>/dev/null", "r");
    cr_assert(table);
    size_t count = check_table(table);
    cr_assert_eq(pclose(table), 0);
    cr_expect_geq(count, 300);
}

/* Reasons of samples that lack something, one by one. */
Test(mixing, says_why_a_measure_is_undefined)
{
    static const struct {
        struct spec spec;
        enum mixing_reason reason;
    } cases[] = {
        {{"plain", 4, 100, 0, 1, 0.5, 0}, MIXING_OK},
        {{"plain", 4, 6, 0, 1, 0.5, 0}, MIXING_OK},
        {{"plain", 4, 5, 0, 1, 0.5, 0}, MIXING_TOO_FEW},
        {{"plain", 4, 3, 0, 1, 0.5, 0}, MIXING_TOO_FEW},
        {{"plain", 4, 1, 0, 1, 0.5, 0}, MIXING_TOO_FEW},
        {{"plain", 4, 0, 0, 1, 0.5, 0}, MIXING_TOO_FEW},
        {{"plain", 4, 0, 50, 1, 0.5, 0}, MIXING_TOO_FEW},
        {{"plain", 0, 0, 0, 1, 0.5, 0}, MIXING_TOO_FEW},
        {{"nan", 4, 100, 0, 1, 0.5, 0}, MIXING_NOT_FINITE},
        {{"nan", 4, 2, 0, 1, 0.5, 0}, MIXING_NOT_FINITE},
        {{"inf", 4, 100, 0, 1, 0.5, 0}, MIXING_NOT_FINITE},
        {{"narrow", 4, 100, 0, 1, 0.5, 1e160}, MIXING_NOT_FINITE},
        {{"narrow", 4, 100, 0, 1, 0.5, 1e307}, MIXING_NOT_FINITE},
        {{"constant", 4, 100, 0, 1, 0.5, 2.385}, MIXING_CONSTANT},
        {{"stuck", 4, 100, 0, 1, 0.5, 2.385}, MIXING_STUCK},
        {{"binary", 4, 100, 0, 1, 0.5, 0}, MIXING_TIED},
        {{"narrow", 4, 100, 0, 1, 0.5, 1e-9}, MIXING_TIED},
    };
    struct mixing_work *work = work_for(400);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mixing mixing = measure_spec(&cases[i].spec, work);
        cr_expect_eq(mixing.reason, cases[i].reason, "%s x %g, %zu chains of %zu: %s",
                     cases[i].spec.kind, cases[i].spec.p, cases[i].spec.chains,
                     cases[i].spec.length, mixing_reason_text(mixing.reason));
    }
    mixing_work_free(work);
}

Test(mixing, nan_leaves_nothing_and_infinity_leaves_the_ranks)
{
    struct mixing_work *work = work_for(400);
    struct mixing nan = measure_spec(&(struct spec){"nan", 4, 100, 0, 1, 0.5, 0}, work);
    struct mixing inf = measure_spec(&(struct spec){"inf", 4, 100, 0, 1, 0.5, 0}, work);
    double answers[ANSWERS];
    to_answers(&nan, answers);
    for (int i = 0; i < ANSWERS; i++)
        cr_expect(isnan(answers[i]), "%s = %g", answer_names[i], answers[i]);
    cr_expect(isfinite(inf.rhat) && isfinite(inf.ess_bulk));
    cr_expect(isnan(inf.ess_tail) && isnan(inf.mcse_mean) && isnan(inf.sd));
    mixing_work_free(work);
}

Test(mixing, longer_chains_are_cut_to_the_shortest)
{
    struct mixing_work *work = work_for(4 * 75);
    struct mixing even = measure_spec(&(struct spec){"plain", 4, 75, 0, 3, 0.7, 0}, work);
    struct mixing uneven = measure_spec(&(struct spec){"plain", 4, 75, 11, 3, 0.7, 0}, work);
    cr_expect_eq(uneven.draws_per_chain, 75);
    cr_expect_eq(uneven.chains, 4);
    cr_expect(same_bits(&even, &uneven));
    mixing_work_free(work);
}

Test(mixing, a_stride_looks_at_every_kth_draw)
{
    static const size_t lengths[] = {1, 2, 9, 10, 11, 99, 100, 101, 250};
    struct mixing_work *work = work_for(4 * 50);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        struct sample sample;
        sample_init(&sample, &(struct spec){"plain", 4, lengths[k], 0, 3, 0.7, 0});
        size_t stride = mixing_stride(lengths[k], 50), kept = (lengths[k] + stride - 1) / stride;
        cr_expect(kept <= 50 && (stride == 1 || (lengths[k] + stride - 2) / (stride - 1) > 50));
        struct mixing_draws draws = {.chains = (const double *const *)sample.draws,
                                     .lengths = sample.lengths,
                                     .chain_count = 4,
                                     .stride = stride};
        struct mixing strided;
        mixing_measure(&strided, &draws, work);
        for (size_t c = 0; c < 4; c++) {
            sample.lengths[c] = kept;
            for (size_t i = 0; i < kept; i++)
                sample.draws[c][i] = sample.draws[c][i * stride];
        }
        struct mixing copied = measure_sample(&sample, work);
        cr_expect_eq(strided.draws_per_chain, kept);
        cr_expect(same_bits(&strided, &copied));
        sample_release(&sample);
    }
    mixing_work_free(work);
}

/* Another parameter, another sample size and a larger workspace in between change no bit. */
Test(mixing, answers_depend_on_the_draws_alone)
{
    const struct spec spec = {"cauchy", 3, 301, 0, 5, 0.95, 0},
                      between = {"square", 2, 64, 0, 6, 0, 0};
    struct mixing_work *small = work_for(903), *large = work_for(20000);
    struct mixing first = measure_spec(&spec, small);
    measure_spec(&between, small);
    struct mixing again = measure_spec(&spec, small), elsewhere = measure_spec(&spec, large);
    cr_expect(same_bits(&first, &again));
    cr_expect(same_bits(&first, &elsewhere));
    mixing_work_free(small);
    mixing_work_free(large);
}

Test(mixing, signed_zeros_are_ties)
{
    struct mixing_work *work = work_for(400);
    struct sample sample;
    sample_init(&sample, &(struct spec){"round", 4, 100, 0, 1, 0.5, 1.0});
    struct mixing plus = measure_sample(&sample, work);
    size_t zeros = 0;
    for (size_t i = 0; i < 100; i += 2)
        if (sample.draws[1][i] == 0.0) {
            sample.draws[1][i] = -0.0;
            zeros++;
        }
    struct mixing minus = measure_sample(&sample, work);
    cr_expect_gt(zeros, 5);
    cr_expect(same_bits(&plus, &minus));
    sample_release(&sample);
    mixing_work_free(work);
}

static double direct_autocovariance(const double *x, size_t n, size_t lag)
{
    double mean = 0.0, sum = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i + lag < n; i++)
        sum += (x[i] - mean) * (x[i + lag] - mean);
    return sum / (double)n;
}

/* Lengths around every power of two, windows shorter and longer than the chain. */
Test(mixing, autocorrelation_is_that_of_the_definition)
{
    static const size_t lengths[] = {2, 3, 5, 7, 8, 9, 16, 17, 31, 64, 100, 129, 500, 1023};
    struct mixing_work *work = work_for(2048);
    double *x = calloc(2048, sizeof *x), *out = calloc(2048, sizeof *out);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t n = lengths[k], lags[] = {0, 1, n / 7, n / 2, n - 1};
        generate_chain(&(struct spec){"square", 1, n, 0, k + 1, 0.9, 0}, 0, x, n);
        for (size_t l = 0; l < sizeof lags / sizeof *lags; l++) {
            mixing_autocorrelation(x, n, lags[l], out, work);
            for (size_t t = 0; t <= lags[l]; t++)
                cr_expect_float_eq(out[t],
                                   direct_autocovariance(x, n, t) / direct_autocovariance(x, n, 0),
                                   1e-13, "n %zu, up to lag %zu: lag %zu", n, lags[l], t);
        }
    }
    free(x);
    free(out);
    mixing_work_free(work);
}

Test(mixing, autocorrelation_of_a_constant_chain_is_undefined)
{
    double x[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, broken[] = {0.1, NAN, 2.0, 3.0}, out[4];
    struct mixing_work *work = work_for(10);
    mixing_autocorrelation(x, 7, 3, out, work);
    for (int t = 0; t <= 3; t++)
        cr_expect(isnan(out[t]));
    mixing_autocorrelation(broken, 4, 3, out, work);
    for (int t = 0; t <= 3; t++)
        cr_expect(isnan(out[t]));
    mixing_work_free(work);
}

Test(mixing, fourier_transform_is_that_of_the_definition_and_inverts)
{
    for (size_t points = MIXING_FFT_MIN_POINTS; points <= 512; points *= 2) {
        struct mixing_fft *fft = mixing_fft_new(1024);
        double re[512], im[512], start[512];
        generate_chain(&(struct spec){"plain", 1, points, 0, points, 0.2, 0}, 0, start, points);
        for (size_t i = 0; i < points; i++) {
            re[i] = start[i];
            im[i] = start[points - 1 - i] * 0.7;
        }
        mixing_fft_forward(fft, (struct mixing_spectrum){re, im}, points);
        for (size_t at = 0; at < points; at += 5) {
            size_t k = 0;
            for (size_t bit = 1; bit < points; bit *= 2)
                k = 2 * k + (at & bit ? 1 : 0);
            double sum_re = 0.0, sum_im = 0.0;
            for (size_t i = 0; i < points; i++) {
                double angle = -2.0 * M_PI * (double)(i * k % points) / (double)points;
                double a = start[i], b = start[points - 1 - i] * 0.7;
                sum_re += a * cos(angle) - b * sin(angle);
                sum_im += a * sin(angle) + b * cos(angle);
            }
            cr_expect_float_eq(re[at], sum_re, 1e-12 * (double)points);
            cr_expect_float_eq(im[at], sum_im, 1e-12 * (double)points);
        }
        mixing_fft_inverse(fft, (struct mixing_spectrum){re, im}, points);
        for (size_t i = 0; i < points; i++) {
            cr_expect_float_eq(re[i] / (double)points, start[i], 1e-14);
            cr_expect_float_eq(im[i] / (double)points, start[points - 1 - i] * 0.7, 1e-14);
        }
        mixing_fft_free(fft);
    }
}

Test(mixing, normal_quantile_inverts_the_distribution_function)
{
    for (double x = -37.0; x <= 0.0; x += 0.0625) {
        double p = 0.5 * erfc(-x / sqrt(2.0));
        cr_expect_float_eq(mixing_quantile_normal(p), x, 4e-15 * fmax(1.0, -x), "x = %g", x);
    }
    cr_expect_float_eq(mixing_quantile_normal(0.975), 1.9599639845400545, 1e-15);
    cr_expect_eq(mixing_quantile_normal(0.75), -mixing_quantile_normal(0.25));
}

/* Closed forms where one shape is 1; R's qbeta elsewhere. */
Test(mixing, beta_quantile_is_right_for_small_and_large_shapes)
{
    static const double p[] = {0.01, 0.1586553, 0.5, 0.8413447, 0.99};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        for (double shape = 1.0; shape < 1e7; shape *= 3.7) {
            double power = pow(p[i], 1.0 / shape), tail = -expm1(log1p(-p[i]) / shape);
            double error = 1e-13 + 1e-17 * shape;
            cr_expect_float_eq(mixing_quantile_beta(p[i], shape, 1.0), power, error * power);
            cr_expect_float_eq(mixing_quantile_beta(p[i], 1.0, shape), tail, error * tail);
        }
    static const struct {
        double p, a, b, x;
    } known[] = {{0.1586553, 21, 381, 0.041217627138297457},
                 {0.8413447, 20001.5, 1.8e5, 0.10067758385284953},
                 {0.8413447, 3.25, 3.25, 0.69549800049899291}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        cr_expect_float_eq(mixing_quantile_beta(known[i].p, known[i].a, known[i].b), known[i].x,
                           1e-13);
    cr_expect(isnan(mixing_quantile_beta(0.5, NAN, 2.0)));
}

Test(mixing, a_workspace_of_nothing_or_of_everything_is_refused)
{
    struct mixing_work *work;
    struct err_info info;
    cr_expect_eq(mixing_work_new(&work, 0, &info), ERR_INVALID);
    cr_expect_null(work);
    cr_expect_eq(mixing_work_new(&work, SIZE_MAX, &info), ERR_NO_MEMORY);
    cr_expect_null(work);
}
