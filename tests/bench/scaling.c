/* What an effective draw costs as the data grow, for `make bench-efficiency`: logistic regression
 * on made-up rows, everything left to the plan, sixteen chains in lockstep on one thread.
 *
 *     bench-scaling ROWS COLUMNS
 *
 * prints one JSON object. */
#include "core/kernels/kernels.h"
#include "core/chain/chain_batch.h"
#include "core/diagnostics/mixing.h"
#include "core/plan/plan.h"
#include "models/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)1 << 21)
#define CHAINS    16
#define COLUMNS   256

static void die(const char *what)
{
    fprintf(stderr, "bench-scaling: %s\n", what);
    exit(1);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In huge pages, as the daemon keeps its data. */
static void *array(size_t bytes)
{
    bytes = (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, bytes);
    if (p == NULL)
        die("no memory");
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

/* Uniform in (-1, 1). */
static double covariate(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(*state >> 11) + 0.5) * 0x1p-52 - 1.0;
}

/* Columns of different scales, the last one constant; coefficients between -1 and 1 over them. */
static void make_rows(struct dataset *data, size_t N, size_t d)
{
    size_t stride = dataset_stride(d, PRECISION_SINGLE);
    float *x = array(N * stride * sizeof *x);
    double *y = array(N * sizeof *y), beta[COLUMNS];
    uint64_t state = 2385;
    for (size_t j = 0; j < d; j++)
        beta[j] = covariate(&state);
    for (size_t i = 0; i < N; i++) {
        double eta = 0.0;
        for (size_t j = 0; j < d; j++) {
            double z = j + 1 < d ? covariate(&state) : 1.0;
            x[i * stride + j] = (float)(z * (double)(1 + j % 7));
            eta += beta[j] * z;
        }
        y[i] = 0.5 * (covariate(&state) + 1.0) < 1.0 / (1.0 + exp(-eta));
    }
    *data = (struct dataset){.kind = DATA_REGRESSION,
                             .precision = PRECISION_SINGLE,
                             .N = N,
                             .columns = d,
                             .stride = stride,
                             .x = x,
                             .y = y};
}

static struct plan *make_plan(const struct model *model, const double *params)
{
    struct plan_request request = {
        .model = model,
        .sampler = &sampler_sgbd,
        .params = params,
        .step = {.kind = STEP_AUTO, .fraction = STEP_FRACTION},
        .batch_size = PLAN_AUTO,
        .warmup = PLAN_AUTO,
        .iterations = PLAN_AUTO,
        .thin = PLAN_AUTO,
        .chains = CHAINS,
        .target = {.sd_error = 0.02, .mean_error = 0.02, .seconds = 60.0},
        .seed = 1,
    };
    struct plan *plan;
    struct err_info info;
    if (plan_make(&plan, &request, &info) != ERR_OK)
        die(info.message);
    return plan;
}

static void make_chains(struct chain **chains, struct chain_config config, const struct plan *plan)
{
    struct err_info info;
    plan_apply(plan, &config);
    for (uint32_t k = 0; k < CHAINS; k++) {
        config.chain = k + 1;
        config.draw_capacity = (size_t)((config.warmup + config.iterations) / config.thin + 1);
        if (chain_new(&chains[k], &config, &info) != ERR_OK)
            die(info.message);
    }
}

/* The smallest bulk ESS over the coordinates. */
static double worst_ess(struct chain **chains, uint64_t skip, size_t d)
{
    struct chain_output out;
    struct mixing_work *work;
    chain_output(chains[0], &out);
    size_t length = out.draws - (size_t)skip, lengths[CHAINS];
    double *columns = malloc(CHAINS * length * sizeof *columns), worst = INFINITY;
    const double *starts[CHAINS];
    if (columns == NULL || mixing_work_new(&work, CHAINS * length, NULL) != ERR_OK)
        die("no memory");
    for (size_t j = 0; j < d; j++) {
        struct mixing measured;
        for (size_t k = 0; k < CHAINS; k++) {
            chain_output(chains[k], &out);
            for (size_t i = 0; i < length; i++)
                columns[k * length + i] = out.values[(i + skip) * out.width + j];
            starts[k] = columns + k * length;
            lengths[k] = length;
        }
        mixing_measure(
            &measured,
            &(struct mixing_draws){
                .chains = starts, .lengths = lengths, .chain_count = CHAINS, .stride = 1},
            work);
        worst = fmin(worst, measured.ess_bulk);
    }
    mixing_work_free(work);
    free(columns);
    return worst;
}

int main(int argc, char **argv)
{
    size_t N = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
    size_t d = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    struct dataset data;
    struct model *model, *view;
    struct err_info info;
    struct chain *chains[CHAINS];
    double params[PARAM_MAX];
    if (N < 100 || d < 1 || d > COLUMNS)
        die("usage: bench-scaling ROWS COLUMNS");
    make_rows(&data, N, d);
    param_defaults(model_logistic.params, params);
    if (model_logistic.init(&model, params, &data, NULL, &info) != ERR_OK)
        die(info.message);
    struct chain_config config = {.model = model, .sampler = &sampler_sgbd, .seed = 1};
    param_defaults(sampler_sgbd.params, config.params);
    double start = seconds();
    struct plan *plan = make_plan(model, config.params);
    if (plan_view(&view, plan, model, &info) != ERR_OK)
        die(info.message);
    double planned = seconds() - start;
    config.view = view;
    make_chains(chains, config, plan);
    start = seconds();
    chain_batch_advance(chains, CHAINS, plan->warmup);
    double warm = seconds() - start;
    start = seconds();
    chain_batch_advance(chains, CHAINS, plan->iterations);
    double sampled = seconds() - start;
    double ess = worst_ess(chains, plan->warmup / plan->thin, d);
    printf("{\"rows\": %zu, \"columns\": %zu, \"batch\": %llu, \"one_in\": %u, \"sigma\": %g, "
           "\"control\": %s, \"iterations\": %llu, \"isa\": \"%s\", \"centre_seconds\": %g, "
           "\"plan_seconds\": %g, "
           "\"warmup_seconds\": %g, \"sampling_seconds\": %g, \"ess\": %g, "
           "\"us_per_iteration\": %g, \"us_per_effective_draw\": %g}\n",
           N, d, (unsigned long long)plan->batch_size, (unsigned)plan->one_in, plan->sigma_asked,
           plan->control ? "true" : "false", (unsigned long long)plan->iterations, kernels->isa,
           plan->centre.seconds, planned, warm, sampled, ess,
           1e6 * sampled / (double)plan->iterations / CHAINS, 1e6 * sampled / ess);
    for (size_t k = 0; k < CHAINS; k++)
        chain_free(chains[k]);
    model_free(view);
    plan_free(plan);
    model_free(model);
    free((void *)(uintptr_t)data.x);
    free((void *)(uintptr_t)data.y);
    return 0;
}
