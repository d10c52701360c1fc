/* The paper's experiments on its own data, against Stan's posteriors and the published figures.
 * Skipped with a message where the data are not there. */
#include "core/model/curvature.h"
#include "core/model/view.h"
#include "tests/statistical/compare.h"
#include "tests/statistical/shared.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof(*x), compare_doubles);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

struct moments_visit {
    size_t d;
    const struct shared_reference *reference;
    struct stat_batches *x, *square;
};

static void visit_moments(void *context, uint64_t draw, const double *values, size_t width)
{
    struct moments_visit *m = context;

    (void)draw;
    for (size_t j = 0; j < width; j++) {
        double z = (values[j] - m->reference->mean[j]) / m->reference->sd[j];
        stat_batches_add(&m->x[j], z);
        stat_batches_add(&m->square[j], z * z);
    }
}

/* Standardised by Stan's mean and sd: expects 0 and 1 up to four combined errors, the chain's by
 * `batches` batch means and Stan's from its effective sample sizes; five where there are so many
 * coordinates that one of them is off by four every now and then. */
static void expect_reference(struct moments_visit *m, const char *name, double largest_error)
{
    const struct shared_reference *r = m->reference;
    double errors = m->d > 20 ? COMPARE_ERRORS + 1 : COMPARE_ERRORS, wide = 0, largest = 0;

    for (size_t j = 0; j < m->d; j++) {
        double mean = m->x[j].mean, sd = sqrt(m->square[j].mean - mean * mean);
        double error = sqrt(pow(stat_batches_error(&m->x[j]), 2) + 1 / r->ess_mean[j]);
        double sd_error = sqrt(pow(stat_batches_error(&m->square[j]) / 2, 2) + 0.5 / r->ess_sd[j]);
        cr_expect_lt(fabs(mean), errors * error, "%s: mean of %zu is off by %.3f sd (+- %.3f)",
                     name, j + 1, mean, error);
        cr_expect_lt(fabs(sd - 1), errors * sd_error,
                     "%s: sd of %zu is %.3f times Stan's (+- %.3f)", name, j + 1, sd, sd_error);
        largest = fmax(largest, error);
        wide += (sd - 1) / (double)m->d;
    }
    printf("%s: sds %.4f times Stan's on average, means known to %.4f sd\n", name, 1 + wide,
           largest);
    cr_expect_lt(fabs(wide), 0.02, "%s: sds are %.4f times Stan's on average", name, 1 + wide);
    cr_expect_lt(largest, largest_error, "%s: a coordinate mixes too slowly to say anything", name);
}

static void run_reference(const struct chain_config *config, uint64_t iterations, uint64_t batches,
                          const struct shared_reference *r, const char *name, double largest_error)
{
    struct moments_visit m = {.d = config->model->d, .reference = r};
    struct chain *chain = toy_chain(config);

    m.x = calloc(m.d, sizeof(*m.x));
    m.square = calloc(m.d, sizeof(*m.square));
    for (size_t j = 0; j < m.d; j++) {
        stat_batches_init(&m.x[j], iterations / batches / config->thin);
        stat_batches_init(&m.square[j], iterations / batches / config->thin);
    }
    toy_run(chain, config->warmup, NULL, NULL);
    toy_run(chain, iterations, visit_moments, &m);
    expect_reference(&m, name, largest_error);
    free(m.x);
    free(m.square);
    chain_free(chain);
}

/* The sepsis likelihood as one binomial term per distinct row: the same function, ninety times
 * cheaper, as a model of the test's own. */
#define CELLS 2000

struct cells {
    struct model base;
    size_t count;
    double x[CELLS][4], ones[CELLS], all[CELLS];
};

static void collapse(struct cells *c, const struct dataset *data)
{
    for (size_t i = 0; i < data->N; i++) {
        const double *row = (const double *)data->x + i * data->stride;
        size_t k = 0;
        while (k < c->count && memcmp(c->x[k], row, sizeof(c->x[k])))
            k++;
        cr_assert_lt(k, CELLS);
        if (k == c->count)
            memcpy(c->x[c->count++], row, sizeof(c->x[k]));
        c->all[k]++;
        c->ones[k] += data->y[i];
    }
}

static double cell_eta(const struct cells *c, size_t k, const double *theta)
{
    return c->x[k][0] * theta[0] + c->x[k][1] * theta[1] + c->x[k][2] * theta[2] +
           c->x[k][3] * theta[3];
}

static void cells_gradient(const struct model *m, const double *theta, double *g, void *work)
{
    const struct cells *c = (const struct cells *)m;

    (void)work;
    for (size_t j = 0; j < 4; j++)
        g[j] = -theta[j];
    for (size_t k = 0; k < c->count; k++) {
        double r = c->ones[k] - c->all[k] * stat_logistic(cell_eta(c, k, theta));
        for (size_t j = 0; j < 4; j++)
            g[j] += r * c->x[k][j];
    }
}

static double cells_log(const struct model *m, const double *theta, void *work)
{
    const struct cells *c = (const struct cells *)m;
    double sum = 0;

    (void)work;
    for (size_t j = 0; j < 4; j++)
        sum -= theta[j] * theta[j] / 2;
    for (size_t k = 0; k < c->count; k++) {
        double eta = cell_eta(c, k, theta), loss = log1p(exp(-fabs(eta)));
        sum -= c->ones[k] * (loss + fmax(0, -eta));
        sum -= (c->all[k] - c->ones[k]) * (loss + fmax(0, eta));
    }
    return sum;
}

static const struct model_type cells_type = {.name = "cells",
                                             .help = "binomial cells",
                                             .grad_fixed = cells_gradient,
                                             .log_fixed = cells_log,
                                             .start_value = toy_start};

static struct cells *sepsis_cells(const struct dataset *data)
{
    struct cells *c = calloc(1, sizeof(*c));

    c->base = (struct model){.type = &cells_type,
                             .d = 4,
                             .blocks = {{.name = "theta", .rank = 1, .shape = {4}}},
                             .block_count = 1};
    collapse(c, data);
    return c;
}

Test(real_data, sepsis_rows_and_binomial_cells_are_the_same_posterior)
{
    if (!shared_has("sepsis_train.csv"))
        return;
    struct dataset data = shared_regression("sepsis_train.csv");
    struct shared_reference r = shared_posterior("sepsis_posterior.json");
    struct model *model = toy_registered("logistic", NULL, &data, NULL);
    struct cells *cells = sepsis_cells(&data);
    double *work = lanes_alloc(model->work_bytes + 1, 1), *scratch = lanes_alloc(4, sizeof(double));
    double *theta = lanes_alloc(4, sizeof(double)), *g = lanes_alloc(4, sizeof(double));
    double expected[4], first = 0;

    cr_expect_eq(cells->count, 963);
    for (int point = 0; point < 20; point++) {
        for (size_t j = 0; j < 4; j++)
            theta[j] = r.mean[j] + 3 * r.sd[j] * sin(1.3 * point + 2 * (double)j);
        model_gradient(model, theta, g, scratch, work);
        cells_gradient(&cells->base, theta, expected, NULL);
        for (size_t j = 0; j < 4; j++)
            cr_expect_float_eq(g[j], expected[j], 1e-9 * (1e3 + fabs(expected[j])));
        double gap = model_log_density(model, theta, work) - cells_log(&cells->base, theta, NULL);
        first = point == 0 ? gap : first;
        cr_expect_float_eq(gap, first, 1e-6);
    }
    free(work);
    free(scratch);
    free(theta);
    free(g);
    free(cells);
    model_free(model);
    shared_posterior_free(&r);
    shared_free(&data);
}

Test(real_data, barker_mh_agrees_with_stan_on_sepsis_cells)
{
    if (!shared_has("sepsis_train.csv"))
        return;
    struct dataset data = shared_regression("sepsis_train.csv");
    struct shared_reference r = shared_posterior("sepsis_posterior.json");
    struct cells *cells = sepsis_cells(&data);
    struct chain_config config = toy_config(&cells->base, "barker_mh", NULL, 1);

    config.step.kind = STEP_AUTO;
    config.warmup = 20000;
    config.thin = 10;
    run_reference(&config, 200000, 50, &r, "barker_mh, sepsis cells", 0.08);
    free(cells);
    shared_posterior_free(&r);
    shared_free(&data);
}

/* A model in the coordinates of a frame at a reference's means, whitened by the curvature there. */
struct whitened {
    struct frame *frame;
    struct model *view;
};

static struct whitened whiten(const struct model *model, const struct shared_reference *r)
{
    struct whitened w;
    size_t d = model->d;
    double *at = lanes_alloc(d, sizeof *at), *H = lanes_alloc(d * padded(d), sizeof *H),
           *A = lanes_alloc(d * padded(d), sizeof *A);
    void *work = lanes_alloc(model->work_bytes, 1);

    memcpy(at, r->mean, d * sizeof *at);
    model->type->hessian(model, at, H, work);
    cr_assert_eq(curvature_whiten(H, d, A), 0);
    cr_assert_eq(frame_new(&w.frame, d, at, A, padded(d), NULL), ERR_OK);
    cr_assert_eq(view_new(&w.view, model, w.frame, false, NULL), ERR_OK);
    free(at), free(H), free(A), free(work);
    return w;
}

static void whitened_release(struct whitened *w)
{
    model_free(w->view);
    frame_free(w->frame);
}

/* In whitened coordinates, where draws are nearly independent: 4 errors are 0.04 sd, of which most
 * is Stan's. */
Test(real_data, barker_mh_agrees_with_stan_on_sepsis)
{
    if (!shared_has("sepsis_train.csv"))
        return;
    struct dataset data = shared_regression("sepsis_train.csv");
    struct shared_reference r = shared_posterior("sepsis_posterior.json");
    struct model *model = toy_registered("logistic", NULL, &data, NULL);
    struct whitened w = whiten(model, &r);
    struct chain_config config = toy_config(model, "barker_mh", NULL, 1.6);

    config.view = w.view;
    config.frame = w.frame;
    config.warmup = 2000;
    config.start = (struct chain_start){.kind = START_VALUES, .values = r.mean};
    run_reference(&config, 100000, 50, &r, "barker_mh, sepsis", 0.011);
    whitened_release(&w);
    model_free(model);
    shared_posterior_free(&r);
    shared_free(&data);
}

/* In the user's coordinates, which mix slowly here; but the average over 101 sds is known well. */
Test(real_data, barker_mh_agrees_with_stan_on_arrhythmia)
{
    if (!shared_has("arrhythmia_train.csv"))
        return;
    struct dataset data = shared_regression("arrhythmia_train.csv");
    struct shared_reference r = shared_posterior("arrhythmia_posterior.json");
    struct model *model = toy_registered("logistic", NULL, &data, NULL);
    struct chain_config config = toy_config(model, "barker_mh", NULL, 1);

    config.step.kind = STEP_AUTO;
    config.warmup = 40000;
    config.thin = 10;
    run_reference(&config, 400000, 50, &r, "barker_mh, arrhythmia", 0.045);
    model_free(model);
    shared_posterior_free(&r);
    shared_free(&data);
}

struct energy_visit {
    const struct frame *frame;
    struct stat_batches u[4], square;
};

static void visit_energy(void *context, uint64_t draw, const double *values, size_t width)
{
    struct energy_visit *e = context;
    _Alignas(ALIGNMENT) double theta[PAD] = {0}, u[PAD];

    (void)draw;
    memcpy(theta, values, width * sizeof *values);
    frame_from_user(e->frame, theta, u);
    for (size_t j = 0; j < 4; j++)
        stat_batches_add(&e->u[j], u[j]);
    stat_batches_add(&e->square, (u[0] * u[0] + u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / 4);
}

/* Plain minibatches in whitened coordinates have a noise of about sqrt(N/n) in every direction, and
 * the law is the posterior, wider by what that noise does to a small step: a fifth in variance. One
 * response in eleven is 1, so the noise is skewed: it moves means a little, and the variance by up
 * to a percent. */
Test(real_data, sepsis_v_sgbd_has_the_posterior_but_for_its_noise)
{
    if (!shared_has("sepsis_train.csv"))
        return;
    const double sigma = 0.1, n = 881;
    struct dataset data = shared_regression("sepsis_train.csv");
    struct shared_reference r = shared_posterior("sepsis_posterior.json");
    struct model *model = toy_registered("logistic", NULL, &data, NULL);
    struct whitened w = whiten(model, &r);
    struct chain_config config = toy_config(model, "sgbd", "vanilla", sigma);
    struct energy_visit e = {.frame = w.frame};
    double N = (double)data.N, tau = sqrt(N / n * (N - n) / (N - 1));
    double ratio = config.sampler->variance_ratio(config.params, sigma, tau);
    const uint64_t iterations = 2000000;

    config.view = w.view;
    config.frame = w.frame;
    config.batch_size = (size_t)n;
    config.thin = 20;
    config.start = (struct chain_start){.kind = START_VALUES, .values = r.mean};
    for (size_t j = 0; j < 4; j++)
        stat_batches_init(&e.u[j], iterations / 20 / 100);
    stat_batches_init(&e.square, iterations / 20 / 100);
    struct chain *chain = toy_chain(&config);
    toy_run(chain, 2000, NULL, NULL);
    toy_run(chain, iterations, visit_energy, &e);
    for (size_t j = 0; j < 4; j++) {
        double error = hypot(stat_batches_error(&e.u[j]), 1 / sqrt(r.ess_mean[j]));
        cr_expect_lt(fabs(e.u[j].mean), 4 * error + 0.03, "direction %zu: %.4f (+- %.4f)", j + 1,
                     e.u[j].mean, error);
        cr_expect_lt(error, 0.03);
    }
    double energy = e.square.mean / ratio, error = stat_batches_error(&e.square) / ratio;
    printf("sepsis v-SGBD: variance %.4f, expected %.4f (+- %.4f)\n", e.square.mean, ratio,
           error * ratio);
    cr_expect_lt(fabs(energy - 1), 4 * error + 0.01,
                 "the variance is %.4f times the expected one (+- %.4f)", energy, error);
    cr_expect_lt(error, 0.01);
    chain_free(chain);
    whitened_release(&w);
    model_free(model);
    shared_posterior_free(&r);
    shared_free(&data);
}

/* What the paper reports of one arrhythmia run. */
struct figures {
    double bias, ratio, loss; /* mean |standardised bias|, median var ratio, test log-loss */
};

#define SEEDS 8

static struct figures arrhythmia_run(const struct model *model, const struct shared_reference *r,
                                     const char *sampler, const char *variant, double sigma,
                                     uint64_t seed)
{
    struct chain_config config = toy_config(model, sampler, variant, sigma);
    double mean[101], variance[101];
    struct figures f = {0};

    config.seed = seed;
    config.batch_size = 34;
    config.warmup = config.iterations = 50000;
    config.thin = 50000;
    config.metric_every = 20;
    struct chain *chain = toy_chain(&config);
    while (chain_status(chain) == CHAIN_ACTIVE) {
        struct chain_output out;
        chain_advance(chain, 1000);
        chain_output(chain, &out);
        if (out.metrics > 0)
            f.loss = out.metric_values[(out.metrics - 1) * 2 * out.metric_width + out.metric_width];
        chain_drain(chain);
    }
    cr_assert_eq(chain_status(chain), CHAIN_DONE);
    chain_moments(chain, mean, variance);
    for (size_t j = 0; j < r->d; j++) {
        f.bias += fabs(mean[j] - r->mean[j]) / r->sd[j] / (double)r->d;
        variance[j] /= r->sd[j] * r->sd[j];
    }
    f.ratio = median(variance, r->d);
    chain_free(chain);
    return f;
}

/* The published number is one more run of the same kind: it must lie within four standard
 * deviations of the runs of our seeds (at least the rounding of what was published). */
static void expect_published(const double *runs, double published, double rounding,
                             const char *what, const char *name)
{
    double mean = 0, square = 0;

    for (size_t i = 0; i < SEEDS; i++)
        mean += runs[i] / SEEDS;
    for (size_t i = 0; i < SEEDS; i++)
        square += pow(runs[i] - mean, 2) / (SEEDS - 1);
    double spread = sqrt(square * (1 + 1.0 / SEEDS) + rounding * rounding / 3);
    printf("%s: %s %.4f (sd of a run %.4f), published %.3f\n", name, what, mean, sqrt(square),
           published);
    cr_expect_lt(fabs(mean - published), 4 * spread, "%s: %s is %.4f +- %.4f, published %.3f", name,
                 what, mean, spread, published);
}

static void expect_figures(const char *sampler, const char *variant, double sigma,
                           struct figures published)
{
    if (!shared_has("arrhythmia_train.csv"))
        return;
    struct dataset train = shared_regression("arrhythmia_train.csv");
    struct dataset test = shared_regression("arrhythmia_test.csv");
    struct shared_reference r = shared_posterior("arrhythmia_posterior.json");
    struct model *model = toy_registered("logistic", NULL, &train, &test);
    double bias[SEEDS], ratio[SEEDS], loss[SEEDS];
    char name[40];

    cr_assert_eq(r.d, 101);
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct figures f = arrhythmia_run(model, &r, sampler, variant, sigma, 100 + i);
        bias[i] = f.bias;
        ratio[i] = f.ratio;
        loss[i] = f.loss;
    }
    snprintf(name, sizeof(name), "%s %s", sampler, variant);
    expect_published(bias, published.bias, 0.005, "mean bias", name);
    expect_published(ratio, published.ratio, 0.005, "median variance ratio", name);
    expect_published(loss, published.loss, 0.0005, "log-loss", name);
    model_free(model);
    shared_posterior_free(&r);
    shared_free(&train);
    shared_free(&test);
}

Test(real_data, arrhythmia_v_sgbd_has_the_published_figures)
{
    expect_figures("sgbd", "vanilla", 0.25, (struct figures){0.55, 2.86, 0.480});
}

Test(real_data, arrhythmia_c_sgbd_has_the_published_figures)
{
    expect_figures("sgbd", "corrected", 0.22, (struct figures){0.44, 1.77, 0.470});
}

Test(real_data, arrhythmia_e_sgbd_has_the_published_figures)
{
    expect_figures("sgbd", "extreme", 0.07, (struct figures){0.43, 0.31, 0.452});
}

Test(real_data, arrhythmia_v_sgld_has_the_published_figures)
{
    expect_figures("sgld", "vanilla", 0.14, (struct figures){0.53, 2.07, 0.488});
}

/* The metric of the ergodic average at the end of a run; NaN when the chain diverged. */
static double final_metric(const struct chain_config *config)
{
    struct chain *chain = toy_chain(config);
    double metric = NAN;

    while (chain_status(chain) == CHAIN_ACTIVE) {
        struct chain_output out;
        chain_advance(chain, 500);
        chain_output(chain, &out);
        if (out.metrics > 0)
            metric = out.metric_values[(2 * out.metrics - 1) * out.metric_width];
        chain_drain(chain);
    }
    if (chain_status(chain) == CHAIN_DIVERGED)
        metric = NAN;
    chain_free(chain);
    return metric;
}

/* Ergodic rMSE: published 0.970, 1.03, 1.06 and 1.07, one run each; here the first six seeds,
 * chosen by nothing. A start is drawn from the prior and decides much: v-SGBD's figure differs
 * between starts with a standard deviation of 0.009 (seeds 1 to 12: mean 0.975, 0.962 to 0.993), so
 * its mean over the starts is what is held to 0.985; Langevin diverges within 40 iterations from
 * most of them (of the seeds 1 to 40 v-SGLD from 29, e-SGLD from 26), which counts as worse than
 * any figure. The two Langevin variants can only be told apart where both arrive. */
enum { MOVIELENS_SEEDS = 6 };

static void movielens_rmse(const struct model *model, uint64_t seed, double rmse[4])
{
    static const struct {
        const char *sampler, *variant;
        double sigma;
    } cases[4] = {{"sgbd", "vanilla", 0.0223},
                  {"sgbd", "extreme", 0.005},
                  {"sgld", "vanilla", 0.011},
                  {"sgld", "extreme", 0.0105}};
    static const uint32_t saved[1] = {0};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct chain_config config =
            toy_config(model, cases[i].sampler, cases[i].variant, cases[i].sigma);
        config.seed = seed;
        config.batch_size = 800;
        config.warmup = config.iterations = 2500;
        config.metric_every = 5;
        config.save = saved;
        config.save_count = 1;
        config.start.kind = START_PRIOR;
        rmse[i] = final_metric(&config);
        if (isnan(rmse[i]))
            rmse[i] = INFINITY;
    }
    printf("movielens seed %lu: v-SGBD %.4f, e-SGBD %.4f, v-SGLD %.4f, e-SGLD %.4f\n", seed,
           rmse[0], rmse[1], rmse[2], rmse[3]);
}

Test(real_data, movielens_rmse_has_the_published_order)
{
    double sum = 0.0;
    size_t both_arrive = 0;

    if (!shared_has("movielens_u1_train.csv"))
        return;
    struct dataset train = shared_ratings("movielens_u1_train.csv");
    struct dataset test = shared_ratings("movielens_u1_test.csv");
    struct model *model = toy_registered("matrix_factorization", NULL, &train, &test);
    cr_assert_eq(model->d, 52580);
    for (uint64_t seed = 1; seed <= MOVIELENS_SEEDS; seed++) {
        double rmse[4];
        movielens_rmse(model, seed, rmse);
        sum += rmse[0];
        cr_expect(rmse[0] < rmse[1] && rmse[1] < rmse[2] && rmse[1] < rmse[3],
                  "seed %lu: %.4f %.4f %.4f %.4f", seed, rmse[0], rmse[1], rmse[2], rmse[3]);
        if (!isfinite(rmse[2]) || !isfinite(rmse[3]))
            continue;
        both_arrive++;
        cr_expect_leq(rmse[2], rmse[3], "seed %lu: %.4f %.4f", seed, rmse[2], rmse[3]);
    }
    cr_expect_leq(sum / MOVIELENS_SEEDS, 0.985, "v-SGBD: %.4f", sum / MOVIELENS_SEEDS);
    cr_expect_geq(both_arrive, 1);
    model_free(model);
    shared_free(&train);
    shared_free(&test);
}

/* A run's figure has an sd of 0.001. It says little of the scale of the sources: ica.c. */
Test(real_data, ica_reaches_the_published_log_likelihood)
{
    static const struct {
        const char *sampler, *variant;
        double sigma;
    } cases[] = {{"sgbd", "vanilla", 0.01128},   {"sgbd", "corrected", 0.0085},
                 {"sgbd", "extreme", 0.00846},   {"sgld", "vanilla", 0.00705},
                 {"sgld", "corrected", 0.00705}, {"sgld", "extreme", 0.00635}};

    if (!shared_has("meg_train.csv"))
        return;
    struct dataset train = shared_rows("meg_train.csv"), test = shared_rows("meg_test.csv");
    struct model *model = toy_registered("ica", NULL, &train, &test);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct chain_config config =
            toy_config(model, cases[i].sampler, cases[i].variant, cases[i].sigma);
        config.batch_size = 100;
        config.warmup = config.iterations = 20000;
        config.thin = 1000;
        config.metric_every = 100;
        config.start.kind = model->type->start;
        double loglik = final_metric(&config);
        printf("ica %s %s: %.4f\n", cases[i].sampler, cases[i].variant, loglik);
        cr_expect_lt(fabs(loglik - -11.735), 0.006, "%s %s: %.4f", cases[i].sampler,
                     cases[i].variant, loglik);
    }
    model_free(model);
    shared_free(&train);
    shared_free(&test);
}
