/* Nothing but a model and its data: what `auto` chooses must give the posterior, and predict no
 * worse than the paper's hand-tuned runs. Skipped with a message where the data are not there. */
#include "core/chain/chain_batch.h"
#include "core/plan/plan.h"
#include "tests/conformance/fixture.h"
#include "tests/statistical/compare.h"
#include "tests/statistical/shared.h"

#include <stdlib.h>

#define MOST_CHAINS 16

/* A job with everything left to the plan. */
struct job {
    struct model *model;
    double params[PARAM_MAX];
    struct plan_request request;
    struct plan *plan;
    struct model *view;
    struct chain *chains[MOST_CHAINS];
    double metric; /* the last average, of the first metric */
    /* Of an exact sampler every iteration counts, where moments of chains skip some. */
    double draws, sum[PAD], square[PAD];
};

/* length: of the chains after a warm-up of as many iterations. */
static void job_begin_with(struct job *job, const struct sampler_type *sampler,
                           const struct model_type *type, const struct dataset *train,
                           const struct dataset *test, uint32_t chains, struct plan_target target,
                           uint64_t length)
{
    struct err_info info = {0};
    double model_params[PARAM_MAX];
    *job = (struct job){0};
    param_defaults(type->params, model_params);
    cr_assert_eq(type->init(&job->model, model_params, train, test, &info), ERR_OK, "%s",
                 info.message);
    param_defaults(sampler->params, job->params);
    job->request = (struct plan_request){.model = job->model,
                                         .sampler = sampler,
                                         .params = job->params,
                                         .variant_open = true,
                                         .step = {.kind = STEP_AUTO, .fraction = STEP_FRACTION},
                                         .batch_size = sampler->exact ? 0 : PLAN_AUTO,
                                         .warmup = length,
                                         .iterations = length,
                                         .thin = PLAN_AUTO,
                                         .chains = chains,
                                         .target = target,
                                         .seed = 20};
    cr_assert_eq(plan_make(&job->plan, &job->request, &info), ERR_OK, "%s", info.message);
    cr_assert_eq(plan_view(&job->view, job->plan, job->model, &info), ERR_OK, "%s", info.message);
}

static void job_begin(struct job *job, const struct model_type *type, const struct dataset *train,
                      const struct dataset *test, uint32_t chains, struct plan_target target,
                      uint64_t length)
{
    job_begin_with(job, &sampler_sgbd, type, train, test, chains, target, length);
}

static void job_chains(struct job *job, uint64_t metric_every)
{
    struct err_info info = {0};
    struct chain_config config = {.model = job->model,
                                  .view = job->view,
                                  .sampler = job->request.sampler,
                                  .seed = job->request.seed,
                                  .metric_every = metric_every};
    memcpy(config.params, job->params, sizeof config.params);
    plan_apply(job->plan, &config);
    config.iterations /= COMPARE_SHORTER;
    if (config.sampler->exact)
        config.thin = 1;
    else
        config.thin = config.iterations + config.warmup; /* moments are enough here */
    for (uint32_t k = 0; k < job->request.chains; k++) {
        config.chain = k + 1;
        cr_assert_eq(chain_new(&job->chains[k], &config, &info), ERR_OK, "%s", info.message);
    }
}

static void add_draws(struct job *job, const struct chain_output *out)
{
    for (size_t r = 0; r < out->draws; r++) {
        if (out->first_draw + r < job->plan->warmup)
            continue;
        job->draws++;
        for (size_t j = 0; j < out->width; j++) {
            double from = out->values[r * out->width + j] - job->plan->frame->centre[j];
            job->sum[j] += from;
            job->square[j] += from * from;
        }
    }
}

static void job_run(struct job *job, uint64_t metric_every)
{
    uint32_t chains = job->request.chains;
    job_chains(job, metric_every);
    while (chain_batch_advance(job->chains, chains, 5000) > 0)
        for (uint32_t k = 0; k < chains; k++) {
            struct chain_output out;
            chain_output(job->chains[k], &out);
            if (out.metrics > 0)
                job->metric = out.metric_values[(2 * out.metrics - 1) * out.metric_width];
            if (job->request.sampler->exact)
                add_draws(job, &out);
            chain_drain(job->chains[k]);
        }
    for (uint32_t k = 0; k < chains; k++)
        cr_expect_eq(chain_status(job->chains[k]), CHAIN_DONE);
}

/* Over all chains. */
static void job_moments(const struct job *job, double *mean, double *variance)
{
    size_t d = job->model->d;
    for (size_t j = 0; j < d && job->draws > 0; j++) {
        mean[j] = job->plan->frame->centre[j] + job->sum[j] / job->draws;
        variance[j] = job->square[j] / job->draws - pow(job->sum[j] / job->draws, 2);
    }
    if (job->draws > 0)
        return;
    double *m = malloc(d * sizeof *m), *v = malloc(d * sizeof *v), chains = job->request.chains;
    memset(mean, 0, d * sizeof *mean);
    memset(variance, 0, d * sizeof *variance);
    for (uint32_t k = 0; k < job->request.chains; k++) {
        chain_moments(job->chains[k], m, v);
        for (size_t j = 0; j < d; j++) {
            mean[j] += m[j] / chains;
            variance[j] += (v[j] + m[j] * m[j]) / chains;
        }
    }
    for (size_t j = 0; j < d; j++)
        variance[j] -= mean[j] * mean[j];
    free(m), free(v);
}

static void job_end(struct job *job)
{
    for (uint32_t k = 0; k < job->request.chains; k++)
        chain_free(job->chains[k]);
    if (job->view != NULL)
        model_free(job->view);
    plan_free(job->plan);
    model_free(job->model);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The posterior of sepsis_train.csv by tests/bench/quadrature.py, right to 0.001 sd. */
static const double sepsis_mean[4] = {-0.04426308607, 0.17250700586, -0.02221446547, 5.61241463337},
                    sepsis_sd[4] = {0.00091873202, 0.02639301366, 0.01728775313, 0.07638553734};

/* Every mean within `mean_error` sds, every sd within the share `sd_error`. */
static void expect_moments(const struct job *job, const double *mean, const double *sd,
                           double mean_error, double sd_error)
{
    double m[PAD], v[PAD], looser = COMPARE_ERRORS / 4.0;
    job_moments(job, m, v);
    for (size_t j = 0; j < job->model->d; j++) {
        double off = (m[j] - mean[j]) / sd[j], ratio = sqrt(v[j]) / sd[j];
        cr_expect_lt(fabs(off), mean_error * looser, "%s: mean of %zu is off by %.4f sd",
                     job->request.sampler->name, j + 1, off);
        cr_expect_lt(fabs(ratio - 1.0), sd_error * looser, "%s: sd of %zu is %.4f times the exact",
                     job->request.sampler->name, j + 1, ratio);
    }
}

/* 40 000 effective draws leave an error of 0.005 sd and 0.35 %, the step one of 0.7 %. */
Test(automatic, sepsis_has_every_mean_within_a_fiftieth_of_an_sd_and_every_sd_within_2_percent)
{
    if (!shared_has("sepsis_train.csv"))
        return;
    struct dataset train = shared_regression("sepsis_train.csv");
    struct job job;
    job_begin(&job, &model_logistic, &train, NULL, 16, (struct plan_target){.ess = 40000},
              PLAN_AUTO);
    cr_expect(job.plan->within_target);
    cr_expect(job.plan->control);
    cr_expect_lt(job.plan->batch_size, 100, "%zu", (size_t)job.plan->batch_size);
    job_run(&job, 0);
    expect_moments(&job, sepsis_mean, sepsis_sd, 0.02, 0.02);
    job_end(&job);
    shared_free(&train);
}

/* Exact samplers with nothing but their name, and so many draws that four errors are 0.03 sd and
 * 2 %. */
Test(automatic, sepsis_by_exact_samplers_is_the_posterior)
{
    if (!shared_has("sepsis_train.csv"))
        return;
    struct dataset train = shared_regression("sepsis_train.csv");
    for (size_t k = 0; k < sampler_count; k++) {
        struct job job;
        if (!samplers[k]->exact)
            continue;
        job_begin_with(&job, samplers[k], &model_logistic, &train, NULL, 4,
                       (struct plan_target){.ess = 20000}, PLAN_AUTO);
        cr_expect(job.plan->within_target, "%s", samplers[k]->name);
        cr_expect_eq(job.plan->precondition, PRECONDITION_DENSE);
        job_run(&job, 0);
        expect_moments(&job, sepsis_mean, sepsis_sd, 0.03, 0.021);
        job_end(&job);
    }
    shared_free(&train);
}

/* Two hundred thousand rows without repeats: a plan reads some in one of several iterations. The
 * answer is the trapezoidal rule in whitened coordinates. */
enum { MANY = 200000, REACH = 6 };

static double log_posterior(const struct dataset *data, const double *theta)
{
    double sum = -(theta[0] * theta[0] + theta[1] * theta[1]) / 2;
    for (size_t i = 0; i < data->N; i++) {
        double eta = theta[0] * fixture_get(data, i, 0) + theta[1] * fixture_get(data, i, 1);
        sum -= log1p(exp(data->y[i] == 1 ? -eta : eta));
    }
    return sum;
}

static void quadrature(const struct dataset *data, const struct frame *frame, double *mean,
                       double *sd)
{
    double top = log_posterior(data, frame->centre), mass = 0, first[2] = {0}, second[2] = {0};
    for (int a = -REACH; a <= REACH; a++)
        for (int b = -REACH; b <= REACH; b++) {
            _Alignas(ALIGNMENT) double u[PAD] = {a, b}, at[PAD];
            if (a * a + b * b > REACH * REACH)
                continue;
            frame_to_user(frame, u, at);
            double weight = exp(log_posterior(data, at) - top);
            mass += weight;
            for (int j = 0; j < 2; j++) {
                first[j] += weight * (at[j] - frame->centre[j]);
                second[j] += weight * pow(at[j] - frame->centre[j], 2);
            }
        }
    for (int j = 0; j < 2; j++) {
        mean[j] = frame->centre[j] + first[j] / mass;
        sd[j] = sqrt(second[j] / mass - pow(first[j] / mass, 2));
    }
}

/* Of the two percent that are asked for, the plan spends half on steps and noise, and says so; the
 * rest is four errors of 60 000 effective draws. */
Test(automatic, rows_in_few_iterations_cost_no_more_accuracy_than_the_plan_says)
{
    struct dataset data;
    struct job job;
    double mean[PAD], sd[PAD];
    fixture_rows(&data, DATA_REGRESSION, PRECISION_SINGLE, MANY, 2, 5);
    job_begin(&job, &model_logistic, &data, NULL, 16, (struct plan_target){.ess = 60000},
              PLAN_AUTO);
    cr_assert_gt(job.plan->one_in, 4, "the case says nothing");
    cr_expect_lt(job.plan->checks.sd_error, 0.01);
    quadrature(&data, job.plan->frame, mean, sd);
    job_run(&job, 0);
    expect_moments(&job, mean, sd, 0.018, job.plan->checks.sd_error + 0.012);
    job_end(&job);
    fixture_data_release(&data);
}

/* 2000 effective draws: an error of 0.022 sd for each mean, and 0.018 sd on average if nothing else
 * is wrong. Ratios of variances have errors of 3 %, their median over 101 coordinates one below
 * 1 %; the steps make it 1.02. */
Test(automatic, arrhythmia_has_its_means_and_variances_without_any_setting)
{
    if (!shared_has("arrhythmia_train.csv") ||
        !shared_has("../references/arrhythmia_posterior.json"))
        return;
    struct dataset train = shared_regression("arrhythmia_train.csv");
    struct shared_reference r = shared_posterior("arrhythmia_posterior.json");
    struct job job;
    job_begin(&job, &model_logistic, &train, NULL, 4, (struct plan_target){.ess = 2000}, PLAN_AUTO);
    job_run(&job, 0);
    double mean[101], ratio[101], error = 0.0;
    job_moments(&job, mean, ratio);
    for (size_t j = 0; j < r.d; j++) {
        error += fabs(mean[j] - r.mean[j]) / r.sd[j] / (double)r.d;
        ratio[j] /= r.sd[j] * r.sd[j];
    }
    qsort(ratio, r.d, sizeof *ratio, compare_doubles);
    double looser = COMPARE_ERRORS / 4.0, middle = ratio[r.d / 2];
    cr_expect_lt(error, 0.03 * looser, "means are off by %.4f sd", error);
    cr_expect_lt(fabs(middle - 1.01), 0.04 * looser, "variance ratio %.4f", middle);
    job_end(&job);
    shared_posterior_free(&r);
    shared_free(&train);
}

/* The paper's best hand-tuned runs on this split: -11.734 for the ergodic mean. */
Test(automatic, meg_predicts_as_well_as_the_best_hand_tuned_run)
{
    if (!shared_has("meg_train.csv"))
        return;
    struct dataset train = shared_rows("meg_train.csv"), test = shared_rows("meg_test.csv");
    struct job job;
    job_begin(&job, &model_ica, &train, &test, 1, (struct plan_target){.ess = 100, .seconds = 60},
              PLAN_AUTO);
    cr_expect(job.plan->centre.converged);
    job_run(&job, 100);
    cr_expect_gt(job.metric, -11.738, "log likelihood %.5f", job.metric);
    job_end(&job);
    shared_free(&train), shared_free(&test);
}

/* The paper's best: 0.970 after 5000 iterations, the second half averaged. A mode is no centre
 * here, which the plan must notice by itself and admit that it cannot meet its target. */
Test(automatic, movielens_predicts_as_well_as_the_best_hand_tuned_run)
{
    if (!shared_has("movielens_u1_train.csv"))
        return;
    struct dataset train = shared_ratings("movielens_u1_train.csv"),
                   test = shared_ratings("movielens_u1_test.csv");
    struct job job;
    job_begin(&job, &model_matrix_factorization, &train, &test, 1, (struct plan_target){.ess = 8},
              2500);
    cr_expect_not(job.plan->within_target);
    cr_expect_not(job.plan->control);
    cr_expect_not(job.plan->centre.converged);
    job_run(&job, 20);
    cr_expect_lt(job.metric, 0.97 * (COMPARE_SHORTER > 1 ? 1.3 : 1.0), "rMSE %.4f", job.metric);
    job_end(&job);
    shared_free(&train), shared_free(&test);
}
