/* A job's draws against a reference: every number against a plain computation, the Monte-Carlo
 * errors against the scatter of many jobs. */
#include "server/results/bias.h"
#include "tests/support/store.h"

#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct store_test t;

static void setup(void)
{
    store_test_init(&t);
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(bias, .init = setup, .fini = teardown);

/* ---- jobs to try ---- */

#define JOB "01hf7yat00m5x3qz"

enum { WARMUP = 20 };

static void make_job(const char *job, size_t width, uint32_t chains)
{
    char(*texts)[32] = calloc(width + 1, sizeof *texts);
    const char **names = calloc(width + 1, sizeof *names);
    for (size_t i = 0; i < width; i++) {
        snprintf(texts[i], sizeof texts[i], "theta[%zu]", i + 1);
        names[i] = texts[i];
    }
    struct jobfile_meta meta = {.request = "{}",
                                .names = names,
                                .width = width,
                                .d = width,
                                .chains = chains,
                                .thin = 1,
                                .warmup = WARMUP};
    expect_ok(jobfile_create(t.store, job, &meta, &t.info), &t.info);
    free(names);
    free(texts);
}

static void add_draws(const char *job, uint32_t chain, const double *values, size_t draws)
{
    struct jobfile_slice slice = {
        .chain = chain, .iteration = draws, .cpu_seconds = 1.0, .draws = draws, .values = values};
    expect_ok(jobfile_commit(t.store, job, &slice, 1, &t.info), &t.info);
}

static struct jobfile *open_job(const char *job)
{
    struct jobfile *file;
    expect_ok(jobfile_open(&file, t.store, job, &t.info), &t.info);
    return file;
}

struct noise {
    unsigned short state[3];
};

static struct noise seeded(size_t seed)
{
    struct noise noise = {{0x330e, (unsigned short)seed, (unsigned short)(seed >> 16)}};
    for (int i = 0; i < 20; i++)
        erand48(noise.state);
    return noise;
}

static double normal(struct noise *noise)
{
    double u = 1.0 - erand48(noise->state), angle = 2.0 * M_PI * erand48(noise->state);
    return sqrt(-2.0 * log(u)) * cos(angle);
}

/* An autoregression with mean `shift` and sd `scale`. */
static void walk(struct noise *noise, double rho, double shift, double scale, double *out, size_t n,
                 size_t stride)
{
    double x = normal(noise);
    for (size_t i = 0; i < n; i++) {
        x = rho * x + sqrt(1.0 - rho * rho) * normal(noise);
        out[i * stride] = shift + scale * x;
    }
}

/* ---- plain computations ---- */

/* The draws of one column after warm-up, all chains, sorted. */
static size_t gather(double *out, const double *const *values, uint32_t chains, size_t draws,
                     size_t width, size_t column)
{
    size_t n = 0;
    for (uint32_t c = 0; c < chains; c++)
        for (size_t i = WARMUP; i < draws; i++)
            out[n++] = values[c][i * width + column];
    moments_sort(out, n);
    return n;
}

/* W1 by the definition: every draw m times, every point n times, matched in order. */
static double distance(const double *a, size_t n, const double *b, size_t m)
{
    double sum = 0.0;
    for (size_t k = 0; k < n * m; k++)
        sum += fabs(a[k / m] - b[k / n]);
    return sum / (double)(n * m);
}

static void expect_near(double got, double wanted, double tolerance, const char *what)
{
    cr_expect(fabs(got - wanted) <= tolerance * fmax(1.0, fabs(wanted)), "%s: %.17g, not %.17g",
              what, got, wanted);
}

/* A reference of `count` parameters theta[first], ...: normal quantiles as draws. */
static struct reference normal_reference(size_t first, size_t count, double mean, double sd)
{
    struct reference r;
    double points[101];
    char name[32];
    cr_assert(reference_init(&r, count));
    for (size_t k = 0; k < COUNT(points); k++) {
        double u = ((double)k + 0.5) / (double)COUNT(points), z = 0.0;
        for (int step = 0; step < 50; step++) /* Newton for the normal quantile */
            z -= (0.5 * erfc(-z * M_SQRT1_2) - u) / (exp(-0.5 * z * z) / sqrt(2.0 * M_PI));
        points[k] = mean + sd * z;
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "theta[%zu]", first + i);
        r.names[i] = strdup(name);
        r.mean[i] = mean;
        r.sd[i] = sd;
        for (size_t q = 0; q < MIXING_QUANTILES; q++)
            r.quantile[i][q] = moments_quantile(points, COUNT(points), mixing_probability[q]);
        cr_assert(reference_set_points(&r, i, points, COUNT(points)));
    }
    cr_assert_eq(reference_index(&r), SIZE_MAX);
    return r;
}

/* ---- numbers ---- */

enum { WIDTH = 5, DRAWS = 320, CHAINS = 3 };

static void fill_job(double *values[CHAINS])
{
    make_job(JOB, WIDTH, CHAINS);
    for (uint32_t c = 0; c < CHAINS; c++) {
        values[c] = malloc(WIDTH * DRAWS * sizeof **values);
        for (size_t k = 0; k < WIDTH; k++) {
            struct noise noise = seeded(1000 + c * 100 + k);
            walk(&noise, 0.5, (double)k, 1.0 + (double)k / 4.0, values[c] + k, DRAWS, WIDTH);
        }
        add_draws(JOB, c + 1, values[c], DRAWS);
    }
}

Test(bias, every_number_is_that_of_the_draws)
{
    double *values[CHAINS], x[CHAINS * DRAWS];
    fill_job(values);
    struct reference r = normal_reference(2, 7, 1.5, 1.25); /* theta[2] to theta[8] */
    struct jobfile *file = open_job(JOB);
    struct bias_table table;
    struct bias_budget budget = {.draws = 1000000};
    expect_ok(bias_measure(&table, file, &r, &budget, &t.info), &t.info);
    cr_assert(table.saved == WIDTH && table.common == 4 && table.count == 4);
    cr_expect(table.draws == 900 && table.draws_stored == 900);
    for (size_t i = 0; i < table.count; i++) {
        const struct bias_row *row = &table.rows[i];
        size_t n = gather(x, (const double *const *)values, CHAINS, DRAWS, WIDTH, row->column);
        double mean = 0.0, squares = 0.0;
        cr_assert(row->column == i + 1 && row->position == i && n == 900);
        for (size_t k = 0; k < n; k++)
            mean += x[k] / (double)n;
        for (size_t k = 0; k < n; k++)
            squares += (x[k] - mean) * (x[k] - mean);
        double variance = squares / (double)(n - 1);
        expect_near(row->bias[REFERENCE_BIAS_mean], fabs(mean - 1.5) / 1.25, 1e-12, "mean");
        expect_near(row->bias[REFERENCE_BIAS_variance], fabs(variance - 1.5625) / 1.25, 1e-12,
                    "variance");
        expect_near(row->bias[REFERENCE_BIAS_variance_ratio], fabs(variance / 1.5625 - 1.0), 1e-12,
                    "ratio");
        expect_near(row->shift, (mean - 1.5) / 1.25, 1e-12, "shift");
        expect_near(row->ratio, variance / 1.5625, 1e-12, "ratio with its direction");
        for (size_t q = 0; q < MIXING_QUANTILES; q++)
            expect_near(row->quantile[q],
                        (moments_quantile(x, n, mixing_probability[q]) - r.quantile[i][q]) / 1.25,
                        1e-12, "quantile");
        expect_near(row->wasserstein, distance(x, n, r.points[i], r.point_count[i]) / 1.25, 1e-9,
                    "distance");
        cr_expect(row->error[0] > 0.0 && row->wasserstein_noise > 0.0);
        cr_expect_lt(row->ess_mean, 600.0, "they are correlated");
        expect_near(row->mcse_mean, row->error[REFERENCE_BIAS_mean], 1e-12,
                    "the reference gives no error of its own");
    }
    bias_release(&table);
    jobfile_close(file);
    reference_release(&r);
    for (size_t c = 0; c < CHAINS; c++)
        free(values[c]);
}

/* Means and variances of all draws, whatever the budget; the rest from every k-th. */
Test(bias, a_small_budget_thins_draws_and_then_parameters)
{
    double *values[CHAINS];
    fill_job(values);
    struct reference r = normal_reference(1, WIDTH, 1.5, 1.25);
    struct jobfile *file = open_job(JOB);
    struct bias_table all, some;
    static const struct {
        size_t draws, count, used;
    } cases[] = {{WIDTH * CHAINS * 300, WIDTH, 900},
                 {WIDTH * CHAINS * 299, WIDTH, 450},
                 {WIDTH * CHAINS * 100, WIDTH, 300},
                 {3 * CHAINS * 100, 3, 300},
                 {CHAINS * 100, 1, 300},
                 {1, 1, 300}};
    expect_ok(bias_measure(&all, file, &r, &(struct bias_budget){.draws = 1000000}, &t.info),
              &t.info);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bias_budget budget = {.draws = cases[i].draws};
        expect_ok(bias_measure(&some, file, &r, &budget, &t.info), &t.info);
        cr_assert_eq(some.count, cases[i].count, "case %zu: %zu", i, some.count);
        cr_expect_eq(some.draws, cases[i].used, "case %zu: %zu", i, (size_t)some.draws);
        cr_expect(some.common == WIDTH && some.draws_stored == 900);
        for (size_t k = 0; k < some.count; k++) {
            const struct bias_row *row = &some.rows[k], *whole = &all.rows[row->column];
            cr_expect_eq(row->bias[0], whole->bias[0]);
            cr_expect_eq(row->bias[2], whole->bias[2]);
            cr_expect(row->error[0] > 0.0 && fabs(row->wasserstein - whole->wasserstein) < 0.2);
        }
        bias_release(&some);
    }
    atomic_bool halt = true;
    struct bias_budget halted = {.draws = 1000000, .halt = &halt};
    expect_err(bias_measure(&some, file, &r, &halted, &t.info), ERR_UNAVAILABLE);
    bias_release(&all);
    jobfile_close(file);
    reference_release(&r);
    for (size_t c = 0; c < CHAINS; c++)
        free(values[c]);
}

/* 40 parameters, room for 8: 4 evenly spread, 2 with the largest shifts, 2 with the largest ratios,
 * by running moments that here differ from the draws on purpose. */
Test(bias, of_very_many_parameters_the_worst_are_looked_at_and_the_rest_by_running_moments)
{
    enum { N = 150, W = 40 };
    static const size_t looked[] = {0, 7, 10, 17, 20, 23, 30, 33};
    double *values = malloc(N * W * sizeof *values), mean[W], variance[W];
    struct noise noise = seeded(5);
    for (size_t k = 0; k < W; k++) {
        walk(&noise, 0.0, 0.0, 1.0, values + k, N, W);
        mean[k] = k == 17 ? -9.0 : k == 33 ? 5.0 : 0.01 * (double)k;
        variance[k] = k == 7 ? 6.0 : k == 23 ? 0.1 : 1.0 + 0.001 * (double)k;
    }
    variance[11] = NAN;
    make_job(JOB, W, 2);
    for (uint32_t c = 1; c <= 2; c++) {
        struct jobfile_slice slice = {.chain = c,
                                      .iteration = N,
                                      .draws = N,
                                      .values = values,
                                      .moment_count = N - WARMUP,
                                      .mean = mean,
                                      .variance = variance};
        expect_ok(jobfile_commit(t.store, JOB, &slice, 1, &t.info), &t.info);
    }
    struct reference r = normal_reference(1, W, 0.0, 1.0);
    struct jobfile *file = open_job(JOB);
    struct bias_table table;
    struct bias_head head;
    struct bias_budget budget = {.draws = 2 * 100 * 8};
    expect_ok(bias_measure(&table, file, &r, &budget, &t.info), &t.info);
    cr_assert(table.count == W && table.common == W && table.measured == COUNT(looked));
    for (size_t k = 0, i = 0; k < W; k++) {
        const struct bias_row *row = &table.rows[k];
        bool at = i < COUNT(looked) && looked[i] == k;
        i += at;
        cr_assert_eq(row->column, k);
        cr_expect_eq(row->measured, at, "parameter %zu", k);
        cr_expect_eq(row->typical, k % 10 == 0, "parameter %zu", k);
        if (at)
            cr_expect(row->error[0] > 0.0 && row->wasserstein > 0.0 && row->bias[0] < 1.0);
        else
            cr_expect(isnan(row->error[0]) && isnan(row->wasserstein) && row->shift == mean[k] &&
                      (k == 11 || fabs(row->ratio - variance[k]) < 0.02));
    }
    expect_ok(bias_head_of(&head, file, &r, &budget, &t.info), &t.info);
    cr_expect(head.common == W && head.measured == COUNT(looked));
    bias_release(&table);
    jobfile_close(file);
    reference_release(&r);
    free(values);
}

Test(bias, what_is_not_known_is_nan)
{
    enum { N = 60, W = 4 };
    double *values = calloc(N * W, sizeof *values);
    struct noise noise = seeded(3);
    for (size_t k = 0; k < W; k++)
        walk(&noise, 0.2, 0.0, 1.0, values + k, N, W);
    for (size_t i = 0; i < N; i++)
        values[i * W + 1] = 2.385; /* a constant */
    values[40 * W + 2] = NAN;
    make_job(JOB, W, 2);
    add_draws(JOB, 1, values, N);
    add_draws(JOB, 2, values, N);
    struct reference r = normal_reference(1, W, 0.0, 1.0);
    r.sd[3] = 0.0; /* a constant for the reference */
    struct jobfile *file = open_job(JOB);
    struct bias_table table;
    expect_ok(bias_measure(&table, file, &r, &(struct bias_budget){.draws = 10000}, &t.info),
              &t.info);
    cr_assert_eq(table.count, W);
    const struct bias_row *good = &table.rows[0], *constant = &table.rows[1],
                          *broken = &table.rows[2], *point = &table.rows[3];
    cr_expect(isfinite(good->bias[0] + good->error[0] + good->wasserstein));
    cr_expect_float_eq(constant->bias[0], 2.385, 1e-12);
    cr_expect(isnan(constant->error[0]) && isfinite(constant->wasserstein) &&
              isnan(constant->wasserstein_noise));
    cr_expect(isnan(broken->bias[0]) && isnan(broken->wasserstein) && isnan(broken->quantile[2]));
    cr_expect(isnan(point->bias[0]) && isnan(point->wasserstein) && isnan(point->quantile[2]));
    bias_release(&table);

    for (size_t i = 0; i < W; i++) {
        free(r.points[i]);
        r.points[i] = NULL;
    }
    expect_ok(bias_measure(&table, file, &r, &(struct bias_budget){.draws = 10000}, &t.info),
              &t.info);
    cr_expect(isnan(table.rows[0].wasserstein) && isfinite(table.rows[0].bias[0]));
    bias_release(&table);
    jobfile_close(file);
    reference_release(&r);
    free(values);
}

Test(bias, a_job_without_draws_or_common_parameters_is_no_failure)
{
    struct bias_table table;
    struct bias_head head;
    struct bias_budget budget = {.draws = 10000};
    make_job(JOB, 3, 2);
    struct jobfile *file = open_job(JOB);
    struct reference r = normal_reference(1, 3, 0.0, 1.0), other = normal_reference(7, 3, 0.0, 1.0);
    expect_ok(bias_measure(&table, file, &r, &budget, &t.info), &t.info);
    cr_expect(table.count == 3 && isnan(table.rows[0].bias[0]) && table.draws == 0);
    bias_release(&table);
    expect_ok(bias_head_of(&head, file, &r, &budget, &t.info), &t.info);
    cr_expect(isnan(head.mean.bias) && isnan(head.mean.beyond) && head.mean.name[0] == '\0');
    expect_ok(bias_head_of(&head, file, &other, &budget, &t.info), &t.info);
    cr_expect(head.saved == 3 && head.common == 0 && head.measured == 0 && isnan(head.mean.bias));
    expect_err(bias_head(&head, file, "[1", &budget, &t.info), ERR_CORRUPT);
    expect_err(bias_head(&head, file, "{\"names\": 3}", &budget, &t.info), ERR_CORRUPT);
    jobfile_close(file);
    reference_release(&r);
    reference_release(&other);
}

/* ---- the worst ---- */

/* theta[2] has the largest bias but few effective draws; theta[3] has one that is beyond noise. */
Test(bias, the_worst_is_the_one_that_noise_does_not_explain)
{
    enum { N = 2000, W = 3 };
    double *values = calloc(N * W, sizeof *values);
    struct noise noise = seeded(11);
    walk(&noise, 0.0, 0.0, 1.0, values, N, W);
    walk(&noise, 0.98, -0.2, 1.0, values + 1, N, W);
    walk(&noise, 0.0, 0.3, 1.2, values + 2, N, W);
    make_job(JOB, W, 1);
    add_draws(JOB, 1, values, N);
    struct jobfile *file = open_job(JOB);
    struct bias_head head;
    struct bias_budget budget = {.draws = 100000};
    static const char *const document =
        "{\"names\": [\"theta[1]\", \"theta[2]\", \"theta[3]\", \"rest\"], \"mean\": [0, 0, 0, 0],"
        "\"sd\": [1, 1, 1, 1], \"log_density\": {\"mean\": -12.5, \"mcse\": 0.25}}";
    expect_ok(bias_head(&head, file, document, &budget, &t.info), &t.info);
    double z = sqrt(4.0 + 2.0 * log(3.0));
    cr_expect(head.saved == 3 && head.common == 3 && head.measured == 3);
    cr_expect_str_eq(head.mean.name, "theta[3]");
    cr_expect_float_eq(head.mean.bias, 0.3, 0.1);
    cr_expect_float_eq(head.mean.value, head.mean.bias, 0.0);
    cr_expect_float_eq(head.mean.error, 1.2 / sqrt(N), 0.005);
    cr_expect_float_eq(head.mean.beyond, head.mean.bias - z * head.mean.error, 1e-12);
    cr_expect_str_eq(head.variance_ratio.name, "theta[3]");
    cr_expect_float_eq(head.variance_ratio.value, 1.44, 0.15);
    cr_expect_float_eq(head.variance_ratio.bias, head.variance_ratio.value - 1.0, 1e-12);
    cr_expect(head.log_density == -12.5 && head.log_density_mcse == 0.25);
    expect_ok(bias_head(&head, file,
                        "{\"names\": [\"theta[1]\", \"theta[2]\"], \"mean\": [0, 0],"
                        "\"sd\": [1, 1]}",
                        &budget, &t.info),
              &t.info);
    cr_expect_eq(head.mean.beyond, 0.0, "all of it may be noise");
    cr_expect_gt(head.mean.bias, 0.35);
    cr_expect_str_eq(head.mean.name, "theta[2]", "the largest then");
    cr_expect(isnan(head.log_density) && isnan(head.log_density_mcse));
    jobfile_close(file);
    free(values);
}

/* ---- Monte-Carlo errors ---- */

struct scatter {
    double sum, squares, error;
};

static void scatter_add(struct scatter *s, double value, double error)
{
    s->sum += value;
    s->squares += value * value;
    s->error += error * error;
}

/* sd of the values over the root mean square of the errors that were claimed. */
static double scatter_ratio(const struct scatter *s, double n)
{
    return sqrt((s->squares - s->sum * s->sum / n) / (n - 1.0) / (s->error / n));
}

/* 600 jobs of 2 chains of 500 draws against references of their own finite precision. The ratio has
 * a relative error of 1/sqrt(1200) = 0.03 from the scatter; ESS estimates add some more. */
Test(bias, errors_are_the_scatter_of_many_jobs)
{
    enum { JOBS = 600, N = 500 };
    static const double rhos[] = {0.0, 0.6};
    make_job(JOB, 1, 2);
    struct jobfile *file = open_job(JOB);
    struct mixing_work *work;
    expect_ok(mixing_work_new(&work, 2 * N, &t.info), &t.info);
    for (size_t which = 0; which < COUNT(rhos); which++) {
        struct scatter shift = {0}, ratio = {0}, variance = {0};
        double distance_sum = 0.0, noise_sum = 0.0;
        struct reference r = normal_reference(1, 1, 1.0, 2.0);
        for (uint32_t job = 0; job < JOBS; job++) {
            double x[2][N];
            size_t lengths[2] = {N, N};
            const double *starts[2] = {x[0], x[1]};
            struct noise noise = seeded(100000 * (which + 1) + job);
            struct summary_row row = {0};
            for (size_t c = 0; c < 2; c++) {
                walk(&noise, rhos[which], 1.0, 2.0, x[c], N, 1);
                moments_add(&row.all, x[c], N);
            }
            /* a reference that is itself an estimate, from 3000 independent draws */
            r.mcse_mean[0] = 2.0 / sqrt(3000.0);
            r.mcse_sd[0] = 2.0 / sqrt(6000.0);
            r.ess[0] = 3000.0;
            r.mean[0] = 1.0 + r.mcse_mean[0] * normal(&noise);
            r.sd[0] = 2.0 + r.mcse_sd[0] * normal(&noise);
            struct mixing_draws draws = {.chains = starts, .lengths = lengths, .chain_count = 2};
            struct bias_row out;
            struct bias_meter meter = {.file = file, .reference = &r, .rows = &out};
            mixing_measure(&row.mixing, &draws, work);
            bias_measure_row(&meter, &row, &draws);
            bias_meter_release(&meter);
            scatter_add(&shift, out.shift, out.error[REFERENCE_BIAS_mean]);
            scatter_add(&ratio, out.ratio, out.error[REFERENCE_BIAS_variance_ratio]);
            double signed_variance = (out.ratio - 1.0) * r.sd[0];
            scatter_add(&variance, signed_variance, out.error[REFERENCE_BIAS_variance]);
            cr_assert(fabs(fabs(signed_variance) - out.bias[REFERENCE_BIAS_variance]) < 1e-12);
            distance_sum += out.wasserstein;
            noise_sum += out.wasserstein_noise;
        }
        cr_expect_float_eq(scatter_ratio(&shift, JOBS), 1.0, 0.12, "rho %g: mean %g", rhos[which],
                           scatter_ratio(&shift, JOBS));
        cr_expect_float_eq(scatter_ratio(&ratio, JOBS), 1.0, 0.12, "rho %g: ratio %g", rhos[which],
                           scatter_ratio(&ratio, JOBS));
        cr_expect_float_eq(scatter_ratio(&variance, JOBS), 1.0, 0.12, "rho %g: variance %g",
                           rhos[which], scatter_ratio(&variance, JOBS));
        /* The points are exact here, so the noise, which expects 3000 draws of them, is an upper
         * bound; by 1/sqrt(1 + ess/3000) it is at most 15 % too large. */
        double share = distance_sum / noise_sum;
        cr_expect(share > 0.80 && share < 1.08, "rho %g: distance over noise %g", rhos[which],
                  share);
        reference_release(&r);
    }
    mixing_work_free(work);
    jobfile_close(file);
}
