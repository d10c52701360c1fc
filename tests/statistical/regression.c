/* Regressions of one covariate against quadrature of their posteriors, whose densities are written
 * down here a second time: by exact samplers in the user's coordinates and in frames, whether or
 * not these mix coefficient and scale, and by minibatches with control variates. Linear regression
 * with known noise against its conjugate posterior. */
#include "core/model/view.h"
#include "core/kernels/kernels.h"
#include "tests/statistical/compare.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS     80
#define PRIOR_SD 1.7
#define DOF      3.5

struct task {
    const char *model;
    struct toy_setting settings[5];
    enum { BINARY, COUNT, REAL } response;
    bool free;    /* a scale or dispersion is sampled, too */
    double known; /* its logarithm otherwise */
};

static const struct task tasks[] = {
    {"logistic", {{"prior_sd", PRIOR_SD, NULL}}, BINARY, false, 0},
    {"probit", {{"prior_sd", PRIOR_SD, NULL}}, BINARY, false, 0},
    {"poisson", {{"prior_sd", PRIOR_SD, NULL}}, COUNT, false, 0},
    {"linear_regression", {{"prior_sd", PRIOR_SD, NULL}, {"sigma_mean", 2, NULL}}, REAL, true, 0},
    {"student_t",
     {{"prior_sd", PRIOR_SD, NULL}, {"dof", DOF, NULL}, {"sigma_mean", 2, NULL}},
     REAL,
     true,
     0},
    {"negative_binomial", {{"prior_sd", PRIOR_SD, NULL}, {"phi_mean", 2, NULL}}, COUNT, true, 0},
    {"negative_binomial", {{"prior_sd", PRIOR_SD, NULL}, {"phi", 1, NULL}}, COUNT, false, 0},
};
#define TASKS (sizeof tasks / sizeof tasks[0])

/* ---- data ---- */

struct problem {
    const struct task *task;
    struct dataset data;
    struct model *model;
    double x[ROWS], y[ROWS], offset[ROWS];
    /* by quadrature */
    double mean[2], covariance[2][2];
};

static double response(const struct task *t, double eta, double z, double u)
{
    if (t->response == BINARY)
        return u < stat_logistic(eta);
    if (t->response == COUNT)
        return floor(exp(eta + 0.8 * z) + u);
    return eta + (u < 0.1 ? 6 : 0.9) * z;
}

static double log_term(const struct problem *p, size_t i, double theta, double psi)
{
    double eta = p->offset[i] + theta * p->x[i], y = p->y[i], mu = exp(eta), phi = exp(psi);
    double z = (y - eta) / phi;
    if (!strcmp(p->task->model, "logistic"))
        return -log1p(exp(y == 1 ? -eta : eta));
    if (!strcmp(p->task->model, "probit"))
        return log(stat_normal_cdf(y == 1 ? eta : -eta));
    if (!strcmp(p->task->model, "poisson"))
        return y * eta - mu;
    if (!strcmp(p->task->model, "linear_regression"))
        return -z * z / 2 - psi;
    if (!strcmp(p->task->model, "student_t"))
        return -(DOF + 1) / 2 * log1p(z * z / DOF) - psi;
    return lgamma(y + phi) - lgamma(phi) + y * log(mu / (mu + phi)) + phi * log(phi / (mu + phi));
}

static double log_posterior(const struct problem *p, double theta, double psi)
{
    double sum = -theta * theta / (2 * PRIOR_SD * PRIOR_SD);
    if (p->task->free)
        sum += psi - exp(psi) / 2;
    for (size_t i = 0; i < ROWS; i++)
        sum += log_term(p, i, theta, psi);
    return sum;
}

/* The trapezoidal rule, whose error for such bells falls faster than any power of the step. */
static void quadrature(struct problem *p)
{
    double h = 0.025, total = 0, peak = -INFINITY, first[2] = {0}, second[2][2] = {{0}};
    for (int pass = 0; pass < 2; pass++)
        for (double theta = -2.5; theta < 2.5; theta += h)
            for (double psi = p->task->free ? -3 : p->task->known; psi < 3;
                 psi += p->task->free ? h : 9) {
                double l = log_posterior(p, theta, psi), at[] = {theta, psi};
                if (pass == 0) {
                    peak = fmax(peak, l);
                    continue;
                }
                double w = exp(l - peak);
                total += w;
                for (int j = 0; j < 2; j++) {
                    first[j] += w * at[j];
                    for (int k = 0; k < 2; k++)
                        second[j][k] += w * at[j] * at[k];
                }
            }
    for (int j = 0; j < 2; j++)
        p->mean[j] = first[j] / total;
    for (int j = 0; j < 2; j++)
        for (int k = 0; k < 2; k++)
            p->covariance[j][k] = second[j][k] / total - p->mean[j] * p->mean[k];
}

static void problem_init(struct problem *p, const struct task *task)
{
    struct rng rng;
    _Alignas(ALIGNMENT) double z[2 * ROWS + PAD], u[ROWS + PAD];
    double *rows = lanes_alloc(ROWS * 4, sizeof *rows);
    *p = (struct problem){.task = task};
    rng_seed(&rng, 41, 1, RNG_START);
    kernels->rng_normal(&rng, z, 2 * ROWS);
    kernels->rng_uniform(&rng, u, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        p->x[i] = rows[4 * i] = z[i];
        p->offset[i] = 0.5 * sin((double)i);
        p->y[i] = response(task, p->offset[i] + 0.6 * p->x[i], z[ROWS + i], u[i]);
    }
    p->data = (struct dataset){.kind = DATA_REGRESSION,
                               .precision = PRECISION_DOUBLE,
                               .N = ROWS,
                               .columns = 1,
                               .stride = 4,
                               .x = rows,
                               .y = p->y,
                               .offset = p->offset};
    p->model = toy_registered(task->model, task->settings, &p->data, NULL);
    cr_assert_eq(p->model->d, 1 + (size_t)task->free);
    quadrature(p);
}

static void problem_release(struct problem *p)
{
    model_free(p->model);
    free((void *)(uintptr_t)p->data.x);
}

/* ---- chains against it ---- */

struct sums {
    const struct problem *p;
    struct stat_batches x[2], square[2];
};

static void visit(void *context, uint64_t draw, const double *values, size_t width)
{
    struct sums *s = context;
    (void)draw;
    for (size_t j = 0; j < width; j++) {
        double from = values[j] - s->p->mean[j];
        stat_batches_add(&s->x[j], values[j]);
        stat_batches_add(&s->square[j], from * from);
    }
}

/* A chain whose step makes sds larger by `inflation`, to first order, which `bias` allows for. Would
 * fail if a mean or an sd were wrong by 3 %. */
struct run {
    uint64_t iterations;
    double inflation, bias;
};

static void expect_number(const struct stat_batches *b, double expected, double sd, double bias,
                          const char *name)
{
    double error = stat_batches_error(b) / sd, off = (b->mean - expected) / sd;

    cr_expect_lt(fabs(off), COMPARE_ERRORS * error + bias, "%s: off by %.4f (+- %.4f)", name, off,
                 error);
    cr_expect_lt(4 * error / sqrt(COMPARE_SHORTER) + bias, 0.03, "%s: too few draws: +- %.4f", name,
                 error);
}

static void expect_law(const struct problem *p, struct chain_config *config, struct run run,
                       const char *how)
{
    uint64_t n = run.iterations / COMPARE_SHORTER;
    struct sums s = {.p = p};
    char name[120];
    config->start = (struct chain_start){.kind = START_VALUES, .values = p->mean};
    struct chain *chain = toy_chain(config);
    for (size_t j = 0; j < p->model->d; j++) {
        stat_batches_init(&s.x[j], n / COMPARE_BATCHES);
        stat_batches_init(&s.square[j], n / COMPARE_BATCHES);
    }
    toy_run(chain, n / 100, NULL, NULL);
    toy_run(chain, n, visit, &s);
    cr_expect_eq(chain_status(chain), CHAIN_ACTIVE, "%s: the chain stopped", p->task->model);
    for (size_t j = 0; j < p->model->d; j++) {
        double variance = p->covariance[j][j], wide = pow(1 + run.inflation, 2);
        snprintf(name, sizeof name, "%s, %s: mean %zu", p->task->model, how, j);
        expect_number(&s.x[j], p->mean[j], sqrt(variance), run.bias, name);
        snprintf(name, sizeof name, "%s, %s: half the variance %zu", p->task->model, how, j);
        expect_number(&s.square[j], wide * variance, 2 * variance, run.bias, name);
    }
    chain_free(chain);
}

static void in_frame(const struct problem *p, struct chain_config config, bool mixed, bool control,
                     struct run run, const char *how)
{
    size_t d = p->model->d;
    _Alignas(ALIGNMENT) double centre[PAD] = {p->mean[0] + 0.03, p->mean[1] - 0.05};
    double a = sqrt(p->covariance[0][0]);
    double A[4] = {a, 0, mixed ? 0.4 * sqrt(p->covariance[1][1]) : 0, sqrt(p->covariance[1][1])};
    struct frame *frame;
    struct model *view;
    cr_assert_eq(frame_new(&frame, d, centre, A, d, NULL), ERR_OK);
    cr_assert_eq(view_new(&view, p->model, frame, control, NULL), ERR_OK);
    config.view = view;
    config.frame = frame;
    expect_law(p, &config, run, how);
    model_free(view);
    frame_free(frame);
}

static const struct run exact = {300000, 0, 0};

Test(regression, exact_samplers_have_the_posterior_of_the_definition)
{
    for (size_t t = 0; t < TASKS; t++) {
        struct problem p;
        double steps[2];
        problem_init(&p, &tasks[t]);
        struct chain_config config = toy_config(p.model, "barker_mh", NULL, 1);
        for (size_t j = 0; j < p.model->d; j++)
            steps[j] = 1.8 * sqrt(p.covariance[j][j]);
        config.step.values = steps;
        config.step.count = p.model->d;
        expect_law(&p, &config, exact, "user's coordinates");
        problem_release(&p);
    }
}

Test(regression, frames_leave_the_posterior_as_it_is)
{
    for (size_t t = 0; t < TASKS; t++) {
        struct problem p;
        problem_init(&p, &tasks[t]);
        struct chain_config config = toy_config(p.model, "mala", NULL, 1.2);
        in_frame(&p, config, false, t % 2 == 0, exact, "dense frame");
        if (p.task->free)
            in_frame(&p, config, true, t % 2 == 0, exact, "frame that mixes scale and coefficient");
        problem_release(&p);
    }
}

/* Minibatches of half of the rows: with a fifth, sds of log scales are 5 % too large, because the
 * noise of squared residuals is far from normal. */
Test(regression, control_variates_leave_the_posterior_as_it_is)
{
    for (size_t t = 0; t < TASKS; t++) {
        struct problem p;
        problem_init(&p, &tasks[t]);
        struct chain_config config = toy_config(p.model, "sgbd", "corrected", 0.3);
        config.batch_size = ROWS / 2;
        in_frame(&p, config, false, true, (struct run){1500000, 0.131 * 0.3 * 0.3, 0.005},
                 "control variates");
        problem_release(&p);
    }
}

/* y ~ N(X theta, s^2), theta ~ N(0, v): precision X'X/s^2 + 1/v, mean precision^-1 X'y/s^2. */
Test(regression, known_noise_gives_the_conjugate_posterior)
{
    static const struct task task = {
        "linear_regression", {{"prior_sd", PRIOR_SD, NULL}, {"sigma", 1.3, NULL}}, REAL, false, 0};
    struct problem p;
    double precision = 1 / (PRIOR_SD * PRIOR_SD), pull = 0, noise = 1.3 * 1.3;
    problem_init(&p, &task);
    for (size_t i = 0; i < ROWS; i++) {
        precision += p.x[i] * p.x[i] / noise;
        pull += p.x[i] * (p.y[i] - p.offset[i]) / noise;
    }
    p.mean[0] = pull / precision;
    p.covariance[0][0] = 1 / precision;
    _Alignas(ALIGNMENT) double at[PAD] = {p.mean[0]}, g[PAD], scratch[PAD], H[PAD];
    void *work = lanes_alloc(p.model->work_bytes, 1);
    model_gradient(p.model, at, g, scratch, work);
    cr_expect_float_eq(g[0], 0, 1e-11 * precision);
    p.model->type->hessian(p.model, at, H, work);
    cr_expect_float_eq(H[0], precision, 1e-12 * precision);
    struct chain_config config = toy_config(p.model, "barker_mh", NULL, 1.8 / sqrt(precision));
    expect_law(&p, &config, exact, "conjugate");
    config = toy_config(p.model, "sgld", "corrected", 0.2);
    config.batch_size = ROWS / 5;
    in_frame(&p, config, false, true, (struct run){3000000, 0.125 * 0.2 * 0.2, 0.003},
             "conjugate, control variates");
    free(work);
    problem_release(&p);
}
