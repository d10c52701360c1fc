/* Rare categories and covariates with heavy tails: everything is left to the plan, and means and
 * sds are those of the posterior, by answers that use neither minibatches nor control variates. */
#include "core/chain/chain_batch.h"
#include "core/model/frame.h"
#include "core/plan/plan.h"
#include "tests/conformance/fixture.h"
#include "tests/statistical/compare.h"

#include <string.h>

enum { D = 8, COMMON = 4, CHAINS = 4, RARE = 3 };

/* Means in units of sds from the centre, and sds, along the coordinates; with their errors. */
struct answer {
    double mean[D], sd[D], mean_error, sd_error;
};

struct job {
    struct fixture f;
    double params[PARAM_MAX];
    struct plan *plan;
    struct model *view;
};

static void responses(struct dataset *data, const double *beta, uint64_t *state)
{
    for (size_t i = 0; i < data->N; i++) {
        double eta = 0.0;
        for (size_t j = 0; j < D; j++)
            eta += beta[j] * fixture_get(data, i, j);
        fixture_set_y(data, i, fixture_uniform(state) < 1 / (1 + exp(-eta)));
    }
}

/* ones: rows of each rare category; the last column is the intercept. */
static void rare_rows(struct dataset *data, size_t N, bool normal, const size_t ones[RARE])
{
    static const double beta[D] = {0.3, -0.3, 0.3, -0.3, 0.3, -0.3, 0.3, -1.0};
    uint64_t state = 404;
    fixture_rows(data, DATA_REGRESSION, PRECISION_SINGLE, N, D, 1);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < D; j++)
            fixture_set(data, i, j,
                        j == D - 1    ? 1.0
                        : j >= COMMON ? 0.0
                        : normal      ? fixture_normal(&state)
                                      : (double)(fixture_uniform(&state) < 0.3));
    for (size_t k = 0; k < RARE; k++)
        for (size_t c = 0; c < ones[k]; c++)
            fixture_set(data, (size_t)((double)N * fixture_uniform(&state)), COMMON + k, 1.0);
    responses(data, beta, &state);
}

static void cauchy_rows(struct dataset *data, size_t N)
{
    static const double beta[D] = {0.3, -0.3, 0.3, -0.3, 0.3, -0.3, 0.001, -1.0};
    uint64_t state = 404;
    fixture_rows(data, DATA_REGRESSION, PRECISION_SINGLE, N, D, 1);
    for (size_t i = 0; i < N; i++) {
        fixture_set(data, i, D - 2, tan(M_PI * (fixture_uniform(&state) - 0.5)));
        fixture_set(data, i, D - 1, 1.0);
    }
    responses(data, beta, &state);
}

static void job_begin(struct job *job)
{
    struct err_info info = {0};
    job->f.params[0] = 10.0; /* prior_sd */
    fixture_init(&job->f, &model_logistic);
    param_defaults(sampler_sgbd.params, job->params);
    struct plan_request request = {.model = job->f.model,
                                   .estimator = ESTIMATOR_CONTROL,
                                   .sampler = &sampler_sgbd,
                                   .params = job->params,
                                   .variant_open = true,
                                   .step = {.kind = STEP_AUTO, .fraction = STEP_FRACTION},
                                   .batch_size = 64, /* few distinct rows would take all */
                                   .warmup = PLAN_AUTO,
                                   .iterations = 1000000 / COMPARE_SHORTER,
                                   .thin = PLAN_AUTO,
                                   .chains = CHAINS,
                                   .view = &job->view,
                                   .seed = 20};
    cr_assert_eq(plan_make(&job->plan, &request, &info), ERR_OK, "%s", info.message);
    cr_assert(job->plan->control && job->plan->batch_size > 0, "the case says nothing");
    cr_assert_gt(job->view->fixed_terms, 0);
}

static void job_end(struct job *job)
{
    model_free(job->view);
    plan_free(job->plan);
    fixture_release(&job->f);
}

/* Means and sds of the planned chains. */
static void sample(struct job *job, double *mean, double *sd)
{
    struct chain *chains[CHAINS];
    struct err_info info;
    double m[D], v[D];
    struct chain_config config = {
        .model = job->f.model, .view = job->view, .sampler = &sampler_sgbd, .seed = 20};
    memcpy(config.params, job->params, sizeof config.params);
    plan_apply(job->plan, &config);
    config.thin = config.iterations + config.warmup; /* moments are enough here */
    for (uint32_t k = 0; k < CHAINS; k++) {
        config.chain = k + 1;
        cr_assert_eq(chain_new(&chains[k], &config, &info), ERR_OK, "%s", info.message);
    }
    while (chain_batch_advance(chains, CHAINS, 5000) > 0)
        for (uint32_t k = 0; k < CHAINS; k++)
            chain_drain(chains[k]);
    memset(mean, 0, D * sizeof *mean);
    memset(sd, 0, D * sizeof *sd);
    for (uint32_t k = 0; k < CHAINS; k++) {
        chain_moments(chains[k], m, v);
        for (size_t j = 0; j < D; j++) {
            mean[j] += m[j] / CHAINS;
            sd[j] += (v[j] + m[j] * m[j]) / CHAINS;
        }
        chain_free(chains[k]);
    }
    for (size_t j = 0; j < D; j++)
        sd[j] = sqrt(sd[j] - mean[j] * mean[j]);
}

/* Two sds of Monte-Carlo error at four, of both answers, and what a plan tolerates. */
static void compare(struct job *job, const struct answer *a, const char *what)
{
    double mean[D], sd[D], looser = COMPARE_ERRORS / 4.0;
    double ess = job->plan->checks.ess;
    sample(job, mean, sd);
    for (size_t j = 0; j < D; j++) {
        double off = (mean[j] - a->mean[j]) / a->sd[j], ratio = sd[j] / a->sd[j];
        double mc = hypot(1.0 / sqrt(ess), a->mean_error);
        double mc_sd = hypot(1.0 / sqrt(ess), a->sd_error);
        cr_expect_lt(fabs(off), (0.02 + 3.0 * mc) * looser, "%s: mean of %zu is off by %.4f sd",
                     what, j, off);
        cr_expect_lt(fabs(ratio - 1.0), (0.02 + 3.0 * mc_sd) * looser,
                     "%s: sd of %zu is %.4f times", what, j, ratio);
    }
}

/* ---- answers ---- */

/* A distinct row, and how often it comes with either response. */
struct kind {
    double x[D], ones, zeros;
};

static size_t kinds_of(const struct dataset *data, struct kind *kinds, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < data->N; i++) {
        double x[D];
        size_t k = 0;
        for (size_t j = 0; j < D; j++)
            x[j] = fixture_get(data, i, j);
        while (k < count && memcmp(kinds[k].x, x, sizeof x) != 0)
            k++;
        if (k == count) {
            cr_assert_lt(count, most);
            memcpy(kinds[count++].x, x, sizeof x);
        }
        kinds[k].ones += data->y[i];
        kinds[k].zeros += 1.0 - data->y[i];
    }
    return count;
}

static double density(const struct kind *kinds, size_t count, const double *theta)
{
    double sum = 0.0;
    for (size_t k = 0; k < count; k++) {
        double eta = 0.0;
        for (size_t j = 0; j < D; j++)
            eta += kinds[k].x[j] * theta[j];
        double low = log1p(exp(-fabs(eta))) + fmax(eta, 0.0); /* -log Pr(0) */
        sum += kinds[k].ones * eta - (kinds[k].ones + kinds[k].zeros) * low;
    }
    for (size_t j = 0; j < D; j++)
        sum -= theta[j] * theta[j] / 200.0;
    return sum;
}

/* A random walk of Metropolis with jumps in the shape of the frame. */
static void metropolis(const struct job *job, struct answer *a)
{
    enum { ITERATIONS = 3000000 / COMPARE_SHORTER, MOST = 128 };
    static struct kind kinds[MOST];
    size_t count = kinds_of(&job->f.train, kinds, MOST);
    double theta[PAD] __attribute__((aligned(ALIGNMENT))) = {0}, z[D], proposal[D], square[D] = {0};
    const double *A = job->plan->frame->rows;
    uint64_t state = 77;
    *a = (struct answer){.mean_error = 0.005 * sqrt(COMPARE_SHORTER),
                         .sd_error = 0.005 * sqrt(COMPARE_SHORTER)};
    memcpy(theta, job->plan->frame->centre, D * sizeof *theta);
    double here = density(kinds, count, theta);
    for (size_t t = 0; t < ITERATIONS; t++) {
        for (size_t j = 0; j < D; j++)
            z[j] = 0.67 * fixture_normal(&state);
        for (size_t j = 0; j < D; j++) {
            proposal[j] = theta[j];
            for (size_t k = 0; k <= j; k++)
                proposal[j] += A[j * padded(D) + k] * z[k];
        }
        double there = density(kinds, count, proposal);
        if (log(fixture_uniform(&state)) < there - here) {
            memcpy(theta, proposal, sizeof proposal);
            here = there;
        }
        for (size_t j = 0; j < D; j++) {
            double from = theta[j] - job->plan->frame->centre[j];
            a->mean[j] += from / ITERATIONS;
            square[j] += from * from / ITERATIONS;
        }
    }
    for (size_t j = 0; j < D; j++) {
        a->sd[j] = sqrt(square[j] - a->mean[j] * a->mean[j]);
        a->mean[j] += job->plan->frame->centre[j];
    }
}

/* 40, 10 and 3 of 200 000 rows, among rows of few kinds. */
Test(rows_that_matter, rare_categories_have_their_means_and_sds)
{
    static const size_t ones[RARE] = {40, 10, 3};
    struct job job = {0};
    struct answer a;
    rare_rows(&job.f.train, 200000, false, ones);
    job_begin(&job);
    metropolis(&job, &a);
    compare(&job, &a, "rare categories");
    job_end(&job);
}

/* Importance sampling from a normal law around the centre, wider by a half, in pairs on both sides,
 * with the full log density. */
static void importance(const struct job *job, size_t pairs, struct answer *a)
{
    const struct model *m = job->f.model;
    double theta[PAD] __attribute__((aligned(ALIGNMENT))) = {0};
    double u[PAD] __attribute__((aligned(ALIGNMENT))) = {0}, sum[D] = {0}, square[D] = {0};
    double total = 0.0, squares = 0.0, top = NAN;
    const double wide = 1.25;
    uint64_t state = 77;
    for (size_t t = 0; t < 2 * pairs; t++) {
        double log_proposal = 0.0;
        for (size_t j = 0; j < D; j++) {
            u[j] = t % 2 == 0 ? wide * fixture_normal(&state) : -u[j];
            log_proposal -= 0.5 * u[j] * u[j] / (wide * wide);
        }
        frame_to_user(job->plan->frame, u, theta);
        double log_weight = model_log_density(m, theta, job->f.work) - log_proposal;
        top = t == 0 ? log_weight : top;
        double weight = exp(log_weight - top);
        total += weight;
        squares += weight * weight;
        for (size_t j = 0; j < D; j++) {
            double from = theta[j] - job->plan->frame->centre[j];
            sum[j] += weight * from;
            square[j] += weight * from * from;
        }
    }
    double ess = total * total / squares;
    *a = (struct answer){.mean_error = 1.0 / sqrt(ess), .sd_error = 1.0 / sqrt(ess)};
    for (size_t j = 0; j < D; j++) {
        double mean = sum[j] / total;
        a->sd[j] = sqrt(square[j] / total - mean * mean);
        a->mean[j] = job->plan->frame->centre[j] + mean;
    }
}

Test(rows_that_matter, leverage_points_of_a_cauchy_covariate_do_no_harm)
{
    struct job job = {0};
    struct answer a;
    cauchy_rows(&job.f.train, 100000);
    job_begin(&job);
    importance(&job, 8000 / COMPARE_SHORTER, &a);
    compare(&job, &a, "a Cauchy covariate");
    job_end(&job);
}

Test(rows_that_matter, a_category_of_thirty_in_a_million_has_its_mean_and_sd)
{
    static const size_t ones[RARE] = {30, 30, 300};
    struct job job = {0};
    struct answer a;
    rare_rows(&job.f.train, 1000000, true, ones);
    job_begin(&job);
    importance(&job, 1500 / COMPARE_SHORTER, &a);
    compare(&job, &a, "thirty in a million");
    job_end(&job);
}
