/* Checks a spec against the model that was made from its data. */
#include "server/spec/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DENSE_MAX \
    1900 /* parameters; with more, half a matrix would exceed the largest value of the store */

uint64_t spec_multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* One per cent of the data, but not so few rows that the gradient is mostly noise. */
static size_t default_batch(size_t N)
{
    size_t n = N / 100 > 100 ? N / 100 : 100;
    return n < N ? n : N;
}

/* An open batch size is bounded like the default. */
static size_t batch_of(const struct job_spec *spec, size_t N)
{
    if (spec->batch_size == PLAN_AUTO)
        return default_batch(N);
    return spec->batch_size == 0 ? N : (size_t)spec->batch_size;
}

static void bind_batch(struct job_spec *spec, const struct model *model, struct spec_bound *out)
{
    if (spec->batch_default) {
        size_t n = default_batch(model->N);
        spec->batch_size = n == model->N ? 0 : n;
        spec->batch_default = false;
    }
    out->n = batch_of(spec, model->N);
}

/* Chains in lockstep are cheap: those of small models with a linear predictor, or without data. */
#define LOCKSTEP_D      8
#define LOCKSTEP_CHAINS 16
#define OTHER_CHAINS    4
#define WIDE_D \
    4096              /* with so many parameters an iteration is slow, so few chains run
                              * ... */
#define WIDE_CHAINS 2 /* ... but two, so that they can be compared */

static void bind_chains(struct job_spec *spec, const struct model *model, uint64_t limit)
{
    if (!spec->chains_auto)
        return;
    bool lockstep = model->d <= LOCKSTEP_D && (model->N == 0 || model->type->view != NULL) &&
                    !spec->sampler->exact;
    uint32_t chains = lockstep ? LOCKSTEP_CHAINS : model->d > WIDE_D ? WIDE_CHAINS : OTHER_CHAINS;
    spec->chains = limit > 0 && limit < chains ? (uint32_t)limit : chains;
    spec->chains_auto = false;
}

/* One twentieth of the work, in hundreds of iterations; ten evaluations of the test data cost
 * little more than reading them. */
#define METRIC_SHARE 0.05
#define METRIC_TIMES 10

static uint64_t default_metric_every(const struct job_spec *spec, const struct model *model,
                                     size_t n)
{
    double rows = (double)n / fmax(1.0, spec->one_in);
    double iteration = rows * model->term_cost + (double)model->d;
    double least = ceil(model->metric_cost / (METRIC_SHARE * iteration) / 100.0);
    double most = floor((double)spec->iterations / METRIC_TIMES / 100.0);
    return 100 * (uint64_t)fmax(1.0, fmin(least, most));
}

void spec_bind_metrics(struct job_spec *spec, const struct model *model)
{
    if (!spec->metric_default || spec->batch_size == PLAN_AUTO || spec->iterations == PLAN_AUTO)
        return; /* a bound spec may be in use by other threads and must not be written */
    spec->metric_every = default_metric_every(spec, model, batch_of(spec, model->N));
    spec->metric_default = false;
}

static void check_replacement(const struct job_spec *spec, const struct spec_bound *bound,
                              const struct place *root)
{
    struct place at = place_key(root, "replacement");
    if (spec->replacement && bound->n == bound->N)
        place_mistake(&at, MISTAKE_conflict,
                      "must be false when the batch is all %zu rows; set batch_size below that",
                      bound->N);
}

static void check_one_in(const struct job_spec *spec, const struct spec_bound *bound,
                         const struct place *root)
{
    struct place gradient = place_key(root, "gradient"), at = place_key(&gradient, "one_in");
    if (spec->one_in > 1 && spec->batch_size != PLAN_AUTO && bound->n == bound->N)
        place_mistake(&at, MISTAKE_conflict,
                      "must be 1 when the batch is all %zu rows; set batch_size below that",
                      bound->N);
}

static void check_dimension(const struct model *model, uint64_t limit, const struct place *root)
{
    struct place at = place_key(root, "model");
    if (limit > 0 && model->d > limit)
        place_mistake(&at, MISTAKE_limit,
                      "%s has %zu parameters with these data, more than the limit of %" PRIu64,
                      model->type->name, model->d, limit);
}

static bool check_step(const struct job_spec *spec, const struct model *model,
                       const struct place *root)
{
    struct place sampler = place_key(root, "sampler"), at = place_key(&sampler, "step_size");
    if (spec->step.values == NULL || spec->step.count == model->d)
        return true;
    place_mistake(&at, MISTAKE_conflict,
                  "has %zu numbers, but the model has %zu parameters; give one number or one "
                  "per parameter",
                  spec->step.count, model->d);
    return false;
}

static void check_start(const struct job_spec *spec, const struct model *model,
                        const struct place *root)
{
    struct place init = place_key(root, "init"), at = place_key(&init, "values");
    if (spec->start == START_VALUES && spec->start_count != model->d)
        place_mistake(&at, MISTAKE_conflict,
                      "has %zu numbers, but the model has %zu parameters; give one for each",
                      spec->start_count, model->d);
}

/* Whether the model supports the chosen gradient estimator and preconditioner. */
static void check_devices(const struct job_spec *spec, const struct model *model,
                          const struct place *root)
{
    struct place gradient = place_key(root, "gradient"),
                 estimator = place_key(&gradient, "estimator"),
                 precondition = place_key(root, "precondition");
    if (spec->estimator == ESTIMATOR_CONTROL && model->type->view == NULL &&
        model->type->grad_difference == NULL)
        place_mistake(&estimator, MISTAKE_conflict,
                      "the model %s has no control variates; allowed are auto, plain",
                      model->type->name);
    if (spec->precondition == PRECONDITION_DENSE && model->d > DENSE_MAX)
        place_mistake(&precondition, MISTAKE_limit,
                      "\"dense\" is not allowed with %zu parameters, at most %d are allowed; use "
                      "\"diagonal\"",
                      model->d, DENSE_MAX);
}

/* ---- what is saved ---- */

/* "U[1..943,1..20], mu_U[1..20]", cut to fit. */
static const char *parameter_names(const struct model *model, char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < model->block_count && length < size; i++) {
        const struct model_block *b = &model->blocks[i];
        char shape[64] = "";
        if (b->rank == 1)
            snprintf(shape, sizeof shape, "[1..%zu]", b->shape[0]);
        else if (b->rank == 2)
            snprintf(shape, sizeof shape, "[1..%zu,1..%zu]", b->shape[0], b->shape[1]);
        length += (size_t)snprintf(out + length, size - length, "%s%s%s", i > 0 ? ", " : "",
                                   b->name, shape);
    }
    return out;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static enum err bind_save(const struct job_spec *spec, const struct model *model,
                          const struct place *root, struct spec_bound *out)
{
    struct place save = place_key(root, "save"), params = place_key(&save, "params");
    char quoted[FIELD_QUOTE_SIZE], names[200];
    out->width = spec->save_all ? model->d : spec->save_count;
    if (spec->save_all)
        return ERR_OK;
    out->save = calloc(spec->save_count + 1, sizeof *out->save);
    if (out->save == NULL)
        return ERR_NO_MEMORY;
    for (size_t i = 0; i < spec->save_count; i++) {
        struct place at = place_item(&params, i);
        size_t index = model_parameter_index(model, spec->save_names[i]);
        if (index == SIZE_MAX)
            place_mistake(&at, MISTAKE_missing, "there is no parameter %s; the model has %s",
                          field_quote(spec->save_names[i], quoted),
                          parameter_names(model, names, sizeof names));
        else
            out->save[i] = (uint32_t)index;
    }
    qsort(out->save, spec->save_count, sizeof *out->save, ascending);
    return ERR_OK;
}

static void check_storage(const struct job_spec *spec, const struct spec_bound *bound,
                          uint64_t limit, const struct place *root)
{
    struct place at = place_key(root, "save");
    if (spec->iterations == PLAN_AUTO || spec->thin == PLAN_AUTO || spec->warmup == PLAN_AUTO)
        return; /* a plan keeps within the limit */
    uint64_t draws = spec_multiply((spec->warmup + spec->iterations) / spec->thin, spec->chains);
    uint64_t bytes = spec_multiply(spec_multiply(draws, bound->width), sizeof(double));
    if (limit > 0 && bytes > limit)
        place_mistake(&at, MISTAKE_limit,
                      "%" PRIu64 " draws of %zu parameters are %.3g MB, more than the limit of "
                      "%.3g MB; raise thin, or save fewer parameters",
                      draws, bound->width, (double)bytes / 1e6, (double)limit / 1e6);
}

/* ---- a setting that is a list ---- */

enum err spec_list(const struct job_spec *spec, struct model *model, struct err_info *info)
{
    return spec->model_list == NULL
               ? ERR_OK
               : spec->model->set_list(model, spec->model_list_at, spec->model_list,
                                       spec->model_list_count, info);
}

void spec_list_pointer(const struct job_spec *spec, char *out, size_t size)
{
    snprintf(out, size, "/model/%s", spec->model->params.specs[spec->model_list_at].name);
}

/* ---- entry point ---- */

/* spec_parse and this file have made the checks of chain_check already, with pointers for messages,
 * except for the batch size. */
static void check_chain(const struct job_spec *spec, const struct spec_bound *bound,
                        const struct model *model, bool step_fits, const struct place *root)
{
    struct chain_config config;
    struct err_info info = {0};
    struct place at = place_key(root, "batch_size");
    spec_chain_config(spec, bound, model, 1, &config);
    config.save = NULL;
    config.one_in = 1;
    config.start = (struct chain_start){
        .kind = START_ZERO}; /* its numbers are finite, but their count may be wrong */
    if (!step_fits)
        config.step = (struct step_size){.kind = STEP_CONSTANT, .value = 1.0};
    if (chain_check(&config, &info) != ERR_OK)
        place_mistake(&at, MISTAKE_conflict, "%s", info.message);
}

enum err spec_bind(struct job_spec *spec, const struct model *model,
                   const struct job_limits *limits, struct spec_bound *out,
                   struct mistakes *mistakes)
{
    static const struct job_limits none = {0};
    struct place root = place_root(mistakes);
    limits = limits != NULL ? limits : &none;
    *out = (struct spec_bound){.d = model->d, .N = model->N};
    bind_batch(spec, model, out);
    bind_chains(spec, model, limits->max_chains);
    spec_bind_metrics(spec, model);
    check_dimension(model, limits->max_dimension, &root);
    check_replacement(spec, out, &root);
    check_one_in(spec, out, &root);
    bool step_fits = check_step(spec, model, &root);
    check_start(spec, model, &root);
    check_devices(spec, model, &root);
    enum err code = bind_save(spec, model, &root, out);
    check_storage(spec, out, limits->max_draws_bytes, &root);
    check_chain(spec, out, model, step_fits, &root);
    if (code == ERR_OK && mistakes->count > 0)
        code = ERR_INVALID;
    if (code != ERR_OK)
        spec_bound_release(out);
    return code;
}

void spec_bound_release(struct spec_bound *bound)
{
    free(bound->save);
    *bound = (struct spec_bound){0};
}

#define MODEST_WARMUP     1000
#define MODEST_ITERATIONS 10000

static uint64_t known_count(uint64_t count, uint64_t otherwise)
{
    return count == PLAN_AUTO ? otherwise : count;
}

void spec_chain_config(const struct job_spec *spec, const struct spec_bound *bound,
                       const struct model *model, uint32_t chain, struct chain_config *out)
{
    *out = (struct chain_config){
        .model = model,
        .sampler = spec->sampler,
        .step = spec->step,
        .batch_size = spec->batch_size == PLAN_AUTO ? bound->n : (size_t)spec->batch_size,
        .replacement = spec->replacement,
        .one_in = spec->batch_size == PLAN_AUTO ? 1 : spec->one_in,
        .seed = spec->seed,
        .chain = chain,
        .warmup = known_count(spec->warmup, MODEST_WARMUP),
        .iterations = known_count(spec->iterations, MODEST_ITERATIONS),
        .thin = known_count(spec->thin, 1),
        .save = bound->save,
        .save_count = bound->save != NULL ? bound->width : 0,
        .metric_every = spec->metric_every,
        .start = {.kind = spec->start, .values = spec->start_values, .map_steps = spec->map_steps},
    };
    for (size_t i = 0; i < PARAM_MAX; i++)
        out->params[i] = spec->sampler_params[i];
}
