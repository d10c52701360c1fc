/* Nothing but a model and its data: what `auto` chooses must give the posterior that Stan gives,
 * and predict no worse than the paper's hand-tuned runs. Skipped with a message where the data are
 * not there. */
#include "core/chain/chain_batch.h"
#include "core/plan/plan.h"
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
    config.thin = config.iterations + config.warmup; /* moments are enough here */
    for (uint32_t k = 0; k < job->request.chains; k++) {
        config.chain = k + 1;
        cr_assert_eq(chain_new(&job->chains[k], &config, &info), ERR_OK, "%s", info.message);
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
            chain_drain(job->chains[k]);
        }
    for (uint32_t k = 0; k < chains; k++)
        cr_expect_eq(chain_status(job->chains[k]), CHAIN_DONE);
}

/* Over all chains. */
static void job_moments(const struct job *job, double *mean, double *variance)
{
    size_t d = job->model->d;
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

/* Stan's means are known to 0.007 sd: 40 000 effective draws leave room for that. Measured: largest
 * error of a mean 0.011 sd, of an sd 1.9 %. */
Test(automatic, sepsis_has_every_mean_within_a_fiftieth_of_an_sd_and_every_sd_within_2_percent)
{
    if (!shared_has("sepsis_train.csv") || !shared_has("../references/sepsis_posterior.json"))
        return;
    struct dataset train = shared_regression("sepsis_train.csv");
    struct shared_reference r = shared_posterior("sepsis_posterior.json");
    struct job job;
    job_begin(&job, &model_logistic, &train, NULL, 16, (struct plan_target){.ess = 40000},
              PLAN_AUTO);
    cr_expect(job.plan->within_target);
    cr_expect(job.plan->control);
    cr_expect_lt(job.plan->batch_size, 100, "%zu", (size_t)job.plan->batch_size);
    job_run(&job, 0);
    double mean[4], variance[4], looser = COMPARE_ERRORS / 4.0;
    job_moments(&job, mean, variance);
    for (size_t j = 0; j < 4; j++) {
        double error = fabs(mean[j] - r.mean[j]) / r.sd[j], ratio = sqrt(variance[j]) / r.sd[j];
        cr_expect_lt(error, 0.02 * looser, "mean of %zu is off by %.4f sd", j + 1, error);
        cr_expect_lt(fabs(ratio - 1.0), 0.02 * looser, "sd of %zu is %.4f times Stan's", j + 1,
                     ratio);
    }
    job_end(&job);
    shared_posterior_free(&r);
    shared_free(&train);
}

/* Exact samplers with nothing but their name: 10 000 effective draws are within 0.01 sd and 0.7 % of
 * the posterior, and Stan's own means within 0.007 sd. */
Test(automatic, sepsis_by_exact_samplers_agrees_with_stan)
{
    if (!shared_has("sepsis_train.csv") || !shared_has("../references/sepsis_posterior.json"))
        return;
    struct dataset train = shared_regression("sepsis_train.csv");
    struct shared_reference r = shared_posterior("sepsis_posterior.json");
    double looser = COMPARE_ERRORS / 4.0;
    for (size_t k = 0; k < sampler_count; k++) {
        struct job job;
        if (!samplers[k]->exact)
            continue;
        job_begin_with(&job, samplers[k], &model_logistic, &train, NULL, 4,
                       (struct plan_target){.ess = 10000}, PLAN_AUTO);
        cr_expect(job.plan->within_target, "%s", samplers[k]->name);
        cr_expect_eq(job.plan->precondition, PRECONDITION_DENSE);
        job_run(&job, 0);
        double mean[4], variance[4];
        job_moments(&job, mean, variance);
        for (size_t j = 0; j < 4; j++) {
            double error = fabs(mean[j] - r.mean[j]) / r.sd[j], ratio = sqrt(variance[j]) / r.sd[j];
            cr_expect_lt(error, 0.045 * looser, "%s: mean of %zu is off by %.4f sd",
                         samplers[k]->name, j + 1, error);
            cr_expect_lt(fabs(ratio - 1.0), 0.03 * looser, "%s: sd of %zu is %.4f times Stan's",
                         samplers[k]->name, j + 1, ratio);
        }
        job_end(&job);
    }
    shared_posterior_free(&r);
    shared_free(&train);
}

/* Measured: mean error of the means 0.015 sd, median ratio of the variances 1.02. */
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
    cr_expect_lt(error, 0.1 * looser, "means are off by %.3f sd", error);
    cr_expect(middle > 1.0 - 0.1 * looser && middle < 1.0 + 0.1 * looser, "variance ratio %.3f",
              middle);
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
