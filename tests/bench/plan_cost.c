/* Nominal times of plans (core/plan/cost.h) beside measured ones: plans and iterations of several
 * models and sizes, on one thread.
 *
 *     make build/release/bench-plan_cost && BARKER_ISA=avx2 build/release/bench-plan_cost */
#include "core/kernels/kernels.h"
#include "core/chain/chain_batch.h"
#include "core/model/gradient.h"
#include "core/plan/cost.h"
#include "core/plan/plan.h"
#include "tests/conformance/fixture.h"

#include <string.h>
#include <time.h>

#define CHAINS 4
#define LEAST  0.1 /* seconds of a measurement */

static const struct shape {
    const char *model;
    size_t rows, columns; /* triplets: ratings; users and items are those of MovieLens */
    enum precision precision;
} shapes[] = {
    {"logistic", 1000, 4, PRECISION_SINGLE},
    {"logistic", 100000, 4, PRECISION_SINGLE},
    {"logistic", 50000, 20, PRECISION_SINGLE},
    {"logistic", 100000, 20, PRECISION_SINGLE},
    {"logistic", 1000000, 20, PRECISION_SINGLE},
    {"logistic", 400, 100, PRECISION_DOUBLE},
    {"logistic", 50000, 100, PRECISION_SINGLE},
    {"probit", 20000, 10, PRECISION_DOUBLE},
    {"poisson", 20000, 10, PRECISION_DOUBLE},
    {"linear_regression", 20000, 10, PRECISION_DOUBLE},
    {"student_t", 20000, 10, PRECISION_DOUBLE},
    {"negative_binomial", 20000, 10, PRECISION_DOUBLE},
    {"softmax", 20000, 10, PRECISION_DOUBLE},
    {"ica", 20000, 10, PRECISION_DOUBLE},
    {"matrix_factorization", 80000, 0, PRECISION_DOUBLE},
    {"skew_normal", 0, 0, PRECISION_DOUBLE},
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make_model(struct fixture *f, const struct shape *shape)
{
    const struct model_type *type = model_find(shape->model);
    *f = (struct fixture){0};
    param_defaults(type->params, f->params);
    if (type->data == DATA_TRIPLETS)
        fixture_triplets(&f->train, shape->rows, 943, 1682, 1);
    else if (type->data != DATA_NONE)
        fixture_rows(&f->train, type->data, shape->precision, shape->rows, shape->columns, 5);
    fixture_init(f, type);
}

static void show(const char *what, double nominal, double measured)
{
    printf(" | %s %9.3g us %5.2f", what, 1e6 * measured, nominal / measured);
}

static void passes(const struct fixture *f)
{
    struct err_info info;
    struct gradient source;
    const struct model *m = f->model;
    double *theta = fixture_point(m, 1), *g = fixture_array(m->d), start, gradient, density;
    size_t count = 0;
    if (gradient_init(&source, m, m->N, false, &info) != ERR_OK)
        fixture_fail(info.message);
    for (start = seconds(); seconds() - start < LEAST; count++)
        gradient_exact(&source, theta, g);
    gradient = (seconds() - start) / (double)count;
    count = 0;
    for (start = seconds(); seconds() - start < LEAST; count++)
        gradient_log_density(&source, theta);
    density = (seconds() - start) / (double)count;
    show("gradient", cost_gradient(m), gradient);
    show("density", cost_density(m), density);
    gradient_release(&source);
    free(theta), free(g);
}

static double iteration(const struct plan *plan, const struct plan_request *r,
                        const struct model *view)
{
    struct err_info info;
    struct chain *chains[CHAINS];
    struct chain_config config = {
        .model = r->model, .view = view, .sampler = r->sampler, .seed = 1};
    memcpy(config.params, r->params, r->sampler->params.count * sizeof config.params[0]);
    plan_apply(plan, &config);
    config.warmup = config.step.kind == STEP_AUTO ? 100 : 0;
    config.iterations = config.thin = UINT64_C(1) << 40;
    config.draw_capacity = 1;
    for (uint32_t k = 0; k < CHAINS; k++) {
        config.chain = k + 1;
        if (chain_new(&chains[k], &config, &info) != ERR_OK)
            fixture_fail(info.message);
    }
    chain_batch_advance(chains, CHAINS, config.warmup + 1);
    uint64_t done = 0, n = 1;
    double start = seconds();
    for (; seconds() - start < LEAST; n *= 2)
        done += chain_batch_advance(chains, CHAINS, n);
    double each = (seconds() - start) / (double)done;
    for (uint32_t k = 0; k < CHAINS; k++)
        chain_free(chains[k]);
    return each;
}

static void plans(const struct fixture *f, const char *sampler)
{
    double params[PARAM_MAX];
    struct err_info info;
    struct plan *plan;
    struct model *view = NULL;
    struct plan_request r = {.model = f->model,
                             .sampler = sampler_find(sampler),
                             .params = params,
                             .step = {.kind = STEP_AUTO, .fraction = STEP_FRACTION},
                             .batch_size = PLAN_AUTO,
                             .warmup = PLAN_AUTO,
                             .iterations = PLAN_AUTO,
                             .thin = PLAN_AUTO,
                             .chains = CHAINS,
                             .target = {.ess = 1000, .seconds = 60},
                             .view = &view,
                             .seed = 1};
    param_defaults(r.sampler->params, params);
    double start = seconds();
    if (plan_make(&plan, &r, &info) != ERR_OK)
        fixture_fail(info.message);
    double took = seconds() - start, each = iteration(plan, &r, view);
    double length = (double)(plan->warmup + plan->iterations) * CHAINS;
    printf(" | %s", sampler);
    show("iteration", plan->checks.iteration_seconds, each);
    show("plan", plan->checks.seconds - length * plan->checks.iteration_seconds, took);
    if (view != NULL)
        model_free(view);
    plan_free(plan);
}

/* Measured times, each followed by the nominal time over it. */
int main(void)
{
    printf("%s\n", kernels->isa);
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        struct fixture f;
        make_model(&f, &shapes[k]);
        printf("%-20s %7zu %4zu", shapes[k].model, shapes[k].rows, f.model->d);
        passes(&f);
        plans(&f, "sgbd");
        plans(&f, "mala");
        plans(&f, "nuts");
        printf("\n");
        fflush(stdout);
        fixture_release(&f);
    }
    return 0;
}
