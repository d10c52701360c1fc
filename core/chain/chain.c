/* The resumable chain. */
#include "core/chain/parts.h"
#include "core/base/fingerprint.h"
#include "core/kernels/kernels.h"
#include "core/model/optimize.h"
#include "core/kernels/vmath.h"
#include "core/kernels/rng_fill.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRAW_BUFFER_BYTES ((size_t)1 << 20)
#define DRAWS_AT_LEAST \
    20 /* ... unless they take more than the next: few draws are dear to store \
        */
#define DRAW_BUFFER_MOST ((size_t)16 << 20)
#define NOISE_EVERY      256 /* iterations between two looks at the gradient noise, at least, ... */
#define NOISE_KNOWN      16384 /* ... and where it is always the same */
#define MAP_STEPS        200
#define MOMENTS_FROM     4096 /* parameters, from which on moments at every iteration are dear, ... */
#define MOMENTS_EVERY    8    /* ... as they are in a dense frame, which has to be left for them */
#define WORK_ARRAYS      9

/* ---- configuration ---- */

static const struct model *target(const struct chain_config *config)
{
    return config->view != NULL ? config->view : config->model;
}

static size_t batch_of(const struct chain_config *config)
{
    return config->batch_size == 0 ? config->model->N : config->batch_size;
}

static bool full_batch(const struct chain_config *config)
{
    return config->model->N == 0 || config->batch_size == 0 ||
           (config->batch_size == config->model->N && !config->replacement);
}

static bool adapts(const struct chain_config *config)
{
    return config->step.kind == STEP_AUTO && !config->sampler->exact;
}

static enum err check_batch(const struct chain_config *config, struct err_info *info)
{
    const struct sampler_type *sampler = config->sampler;
    size_t N = config->model->N, n = batch_of(config);
    if (N > 0 && n > N)
        return err_set(
            info, ERR_INVALID,
            "batch_size %zu is not allowed; the data have %zu rows, so it must be 1 to %zu", n, N,
            N);
    if (sampler->exact && !full_batch(config))
        return err_set(info, ERR_UNSUPPORTED,
                       "%s always uses the full batch; leave batch_size out or set it to %zu",
                       sampler->name, N);
    if (config->one_in > 1 && full_batch(config))
        return err_set(info, ERR_UNSUPPORTED,
                       "one_in %" PRIu32 " needs minibatches; with the full batch it must be 1",
                       config->one_in);
    bool uses_tau =
        (sampler->needs_tau != NULL && sampler->needs_tau(config->params)) || adapts(config);
    if (uses_tau && !full_batch(config) && n < 2)
        return err_set(
            info, ERR_UNSUPPORTED,
            "batch_size 1 does not show the gradient noise, which a corrected variant and an "
            "automatic step size need; use at least 2, or a vanilla variant with a given step");
    return ERR_OK;
}

static enum err check_step(const struct chain_config *config, struct err_info *info)
{
    const struct step_size *step = &config->step;
    enum err code = step_size_check(step, info);
    if (code != ERR_OK)
        return code;
    if (step->values != NULL && step->count != config->model->d)
        return err_set(
            info, ERR_INVALID,
            "step_size has %zu numbers, but the model has %zu parameters; give one number or one "
            "per parameter",
            step->count, config->model->d);
    if (step->kind == STEP_SCHEDULE && !config->sampler->schedule)
        return err_set(info, ERR_UNSUPPORTED, "%s takes no step-size schedule",
                       config->sampler->name);
    if (step->kind == STEP_AUTO && config->warmup < ADAPT_MIN_WARMUP)
        return err_set(
            info, ERR_INVALID,
            "an automatic step size is chosen during warm-up and needs warmup of at least %d, "
            "not %" PRIu64,
            ADAPT_MIN_WARMUP, config->warmup);
    return ERR_OK;
}

static enum err check_save(const struct chain_config *config, struct err_info *info)
{
    for (size_t k = 0; config->save != NULL && k < config->save_count; k++)
        if (config->save[k] >= config->model->d ||
            (k > 0 && config->save[k] <= config->save[k - 1]))
            return err_set(info, ERR_INVALID,
                           "saved coordinate %" PRIu32 " is out of range or out of order",
                           config->save[k]);
    return ERR_OK;
}

static bool dense(const struct chain_config *config)
{
    return config->frame != NULL && config->frame->kind == FRAME_DENSE;
}

/* A bounded sampler would walk on from infinity without ever meeting a NaN. */
static enum err check_start(const struct chain_config *config, struct err_info *info)
{
    const struct chain_start *start = &config->start;
    bool near = start->kind == START_NEAR && !dense(config);
    if (start->kind != START_VALUES && !near)
        return ERR_OK;
    if (start->values == NULL || (near && start->spread == NULL))
        return err_set(info, ERR_INVALID, "no start values are given");
    for (size_t j = 0; j < config->model->d; j++)
        if (!isfinite(start->values[j]) || (near && !isfinite(start->spread[j])))
            return err_set(info, ERR_INVALID,
                           "start value %zu is %g; start values must be finite numbers", j + 1,
                           start->values[j]);
    return ERR_OK;
}

static enum err check_view(const struct chain_config *config, struct err_info *info)
{
    const struct model *m = config->model, *v = config->view;
    if ((v == NULL) != (config->frame == NULL) ||
        (v != NULL && (v->d != m->d || v->N != m->N || config->frame->d != m->d)))
        return err_set(info, ERR_INVALID, "the view or the frame is not one of this model");
    return ERR_OK;
}

enum err chain_check(const struct chain_config *config, struct err_info *info)
{
    struct param_table table = config->sampler->params;
    if (config->thin < 1 || config->chain < 1)
        return err_set(info, ERR_INVALID, "thin and chain must be at least 1");
    if (config->warmup > UINT64_MAX / 4 || config->iterations > UINT64_MAX / 4)
        return err_set(info, ERR_INVALID, "too many iterations");
    for (size_t i = 0; i < table.count; i++) {
        if (table.specs[i].kind == PARAM_STEP)
            continue;
        struct err_info why;
        enum err code = param_check(&table.specs[i], config->params[i], &why);
        if (code != ERR_OK)
            return err_set(info, code, "%s: %s", table.specs[i].name, why.message);
    }
    enum err code = check_view(config, info);
    code = code == ERR_OK ? check_batch(config, info) : code;
    code = code == ERR_OK ? check_step(config, info) : code;
    code = code == ERR_OK ? check_save(config, info) : code;
    return code == ERR_OK ? check_start(config, info) : code;
}

static uint64_t mix_step(uint64_t h, const struct step_size *step)
{
    h = fingerprint_word(h, step->kind);
    h = fingerprint_bytes(h, &step->value, sizeof step->value);
    h = fingerprint_bytes(h, &step->t0, sizeof step->t0);
    h = fingerprint_bytes(h, &step->gamma, sizeof step->gamma);
    h = fingerprint_bytes(h, &step->fraction, sizeof step->fraction);
    return step->values != NULL ? fingerprint_bytes(h, step->values, step->count * sizeof(double))
                                : h;
}

/* Everything that the saved state depends on; the number of iterations is not among it. */
static uint64_t fingerprint(const struct chain_config *c)
{
    uint64_t h = 0x6261726b657264ULL;
    h = fingerprint_bytes(h, c->model->type->name, strlen(c->model->type->name));
    h = fingerprint_bytes(h, c->sampler->name, strlen(c->sampler->name));
    h = fingerprint_bytes(h, c->params, c->sampler->params.count * sizeof c->params[0]);
    h = mix_step(h, &c->step);
    const uint64_t numbers[] = {c->model->d,    c->model->N,     batch_of(c),
                                c->replacement, c->seed,         c->chain,
                                c->warmup,      c->thin,         c->save != NULL,
                                c->save_count,  c->metric_every, c->model->prediction_count};
    h = fingerprint_bytes(h, numbers, sizeof numbers);
    if (c->one_in > 1)
        h = fingerprint_word(h, c->one_in);
    if (c->frame != NULL)
        h = fingerprint_word(fingerprint_word(h, frame_fingerprint(c->frame)),
                             c->view->differences);
    return c->save != NULL ? fingerprint_bytes(h, c->save, c->save_count * sizeof c->save[0]) : h;
}

/* ---- memory ---- */

static size_t take(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return here;
}

static bool looks_at_noise(const struct chain_config *c)
{
    if (c->sampler->beyond == NULL)
        return false;
    return c->model->N > 0 ? !full_batch(c) && batch_of(c) >= 2 : target(c)->noise_tau > 0.0;
}

static bool has_metrics(const struct chain_config *c)
{
    return c->metric_every > 0 && c->model->prediction_count > 0;
}

static struct layout layout(const struct chain_config *c)
{
    size_t d = c->model->d, array = padded(d) * sizeof(double), at = 0;
    size_t memory = c->sampler->memory != NULL ? c->sampler->memory(c->params, d) : 0;
    struct layout l;
    take(&at, sizeof(struct head));
    l.rng = take(&at, RNG_PURPOSES * sizeof(struct rng));
    l.theta = take(&at, array);
    l.sigma = take(&at, array);
    l.limit = take(&at, adapts(c) ? array : 0);
    l.memory = take(&at, memory * sizeof(double));
    l.mean = take(&at, array);
    l.m2 = take(&at, array);
    l.tau = take(&at, looks_at_noise(c) ? array : 0);
    l.beyond = take(&at, looks_at_noise(c) ? array : 0);
    l.adapt = take(&at, adapts(c) ? ADAPT_ARRAYS * array : 0);
    l.average = take(&at, has_metrics(c) ? padded(c->model->prediction_count) * sizeof(double) : 0);
    l.total = at;
    return l;
}

static size_t width_of(const struct chain_config *c)
{
    return c->save != NULL ? c->save_count : c->model->d;
}

static size_t capacity_of(const struct chain_config *c)
{
    if (c->draw_capacity > 0)
        return c->draw_capacity;
    size_t width = width_of(c), bytes = sizeof(double) * (width > 0 ? width : 1);
    size_t fit = DRAW_BUFFER_BYTES / bytes, most = DRAW_BUFFER_MOST / bytes;
    if (fit < DRAWS_AT_LEAST)
        fit = most < DRAWS_AT_LEAST ? most : DRAWS_AT_LEAST;
    return fit > 0 ? fit : 1;
}

static size_t metric_width(const struct model_type *type)
{
    size_t n = 0;
    while (type->metrics[n] != NULL)
        n++;
    return n;
}

size_t chain_memory_bytes(const struct chain_config *c)
{
    size_t array = padded(c->model->d) * sizeof(double);
    size_t batch = full_batch(c) ? 0 : gradient_batch_bytes(target(c), batch_of(c), c->replacement);
    return layout(c).total + (WORK_ARRAYS + 3) * array + target(c)->work_bytes +
           c->model->work_bytes + batch + capacity_of(c) * width_of(c) * sizeof(double) +
           padded(c->model->prediction_count) * sizeof(double);
}

static void point_into_state(struct chain *c)
{
    const struct layout *l = &c->layout;
    unsigned char *s = c->state;
    c->head = (struct head *)(void *)s;
    c->rng = (struct rng *)(void *)(s + l->rng);
    struct {
        double **p;
        size_t at;
    } parts[] = {{&c->theta, l->theta},        {&c->sigma, l->sigma},
                 {&c->limit, l->limit},        {&c->memory, l->memory},
                 {&c->mean, l->mean},          {&c->m2, l->m2},
                 {&c->tau_sum, l->tau},        {&c->beyond_sum, l->beyond},
                 {&c->adapt.arrays, l->adapt}, {&c->average, l->average}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i].p = (double *)(void *)(s + parts[i].at);
    const struct chain_config *config = &c->config;
    c->adapt.d = config->model->d;
    c->adapt.warmup = config->warmup;
    c->adapt.fraction = config->step.fraction;
    c->adapt.bounded = config->sampler->bounded;
    c->adapt.ceiling = adapts(config) ? config->sampler->ceiling(config->params) : 0.0;
    c->adapt.window = &c->head->window;
    c->adapt.sigma = c->sigma;
    c->adapt.limit = c->limit;
}

static void point_into_work(struct chain *c)
{
    double **parts[WORK_ARRAYS] = {&c->g,          &c->tau,        &c->scratch[0],
                                   &c->scratch[1], &c->scratch[2], &c->scratch[3],
                                   &c->before,     &c->sigma_now,  &c->user};
    for (size_t i = 0; i < WORK_ARRAYS; i++)
        *parts[i] = c->work + i * padded(c->config.model->d);
}

static bool allocate_buffers(struct chain *c)
{
    const struct chain_config *config = &c->config;
    c->width = width_of(config);
    c->capacity = capacity_of(config);
    c->values = lanes_alloc(c->capacity * c->width, sizeof *c->values);
    if (!has_metrics(config))
        return c->values != NULL;
    c->metric_width = metric_width(config->model->type);
    c->prediction = lanes_alloc(config->model->prediction_count, sizeof *c->prediction);
    c->work_user = lanes_alloc(config->model->work_bytes, 1);
    c->metric_iteration = calloc(METRIC_CAPACITY, sizeof *c->metric_iteration);
    c->metric_values = calloc(METRIC_CAPACITY * 2 * c->metric_width, sizeof *c->metric_values);
    return c->values && c->prediction && c->work_user && c->metric_iteration && c->metric_values;
}

static bool copy_save(struct chain *c, const struct chain_config *config)
{
    c->config.save = NULL;
    if (config->save == NULL)
        return true;
    c->save = malloc((config->save_count + 1) * sizeof *c->save);
    if (c->save == NULL)
        return false;
    memcpy(c->save, config->save, config->save_count * sizeof *c->save);
    c->config.save = c->save;
    return true;
}

/* A chain with everything but its state's contents. */
static enum err allocate(struct chain **out, const struct chain_config *config,
                         struct err_info *info)
{
    enum err code = chain_check(config, info);
    if (code != ERR_OK)
        return code;
    struct chain *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a chain");
    c->config = *config;
    c->fingerprint = fingerprint(config);
    c->layout = layout(config);
    c->state = lanes_alloc(c->layout.total, 1);
    c->work = lanes_alloc(WORK_ARRAYS * padded(config->model->d), sizeof *c->work);
    if (c->state && c->work && copy_save(c, config) && allocate_buffers(c))
        code = gradient_init(&c->source, target(config), batch_of(config),
                             config->replacement && !full_batch(config), info);
    else
        code = err_set(info, ERR_NO_MEMORY, "no memory for a chain of %zu parameters",
                       config->model->d);
    if (code != ERR_OK) {
        chain_free(c);
        return code;
    }
    gradient_seldom(&c->source, config->one_in, config->seed);
    point_into_state(c);
    point_into_work(c);
    c->user_at = UINT64_MAX;
    size_t rare = config->model->d / 8, least = config->model->N > 0 ? NOISE_EVERY : NOISE_KNOWN;
    c->noise_every = looks_at_noise(config) ? (rare > least ? rare : least) : 0;
    c->one_sigma = config->step.kind != STEP_AUTO && config->step.values == NULL;
    bool dear = dense(config) || config->model->d >= MOMENTS_FROM;
    c->moments_every = dear ? MOMENTS_EVERY : 1;
    *out = c;
    return ERR_OK;
}

void chain_free(struct chain *c)
{
    if (c == NULL)
        return;
    gradient_release(&c->source);
    free(c->state);
    free(c->work);
    free(c->save);
    free(c->values);
    free(c->prediction);
    free(c->work_user);
    free(c->metric_iteration);
    free(c->metric_values);
    free(c);
}

/* ---- start ---- */

static void start_near(struct chain *c, const struct chain_start *start)
{
    size_t d = c->config.model->d;
    double *z = c->scratch[0];
    rng_normal(&c->rng[RNG_START], z, d);
    memset(z + d, 0, (padded(d) - d) * sizeof *z);
    if (dense(&c->config))
        frame_to_user(c->config.frame, z, c->user);
    for (size_t j = 0; !dense(&c->config) && j < d; j++)
        c->user[j] = start->values[j] + start->spread[j] * z[j];
}

static enum err start_value(struct chain *c, const struct chain_start *start, struct err_info *info)
{
    const struct model *m = c->config.model;
    enum start_kind kind = start->kind == START_MAP ? m->type->start : start->kind;
    if (start->kind == START_VALUES)
        memcpy(c->user, start->values, m->d * sizeof *c->user);
    else if (start->kind == START_NEAR)
        start_near(c, start);
    else
        m->type->start_value(m, kind, &c->rng[RNG_START], c->user, c->scratch[0]);
    if (c->config.frame != NULL)
        frame_from_user(c->config.frame, c->user, c->theta);
    else
        memcpy(c->theta, c->user, m->d * sizeof *c->theta);
    if (start->kind != START_MAP)
        return ERR_OK;
    struct optimum result;
    return optimize_mode(&c->source, c->theta, start->map_steps ? start->map_steps : MAP_STEPS,
                         &result, info);
}

static void first_step_size(struct chain *c, const struct step_size *step)
{
    size_t d = c->config.model->d;
    if (adapts(&c->config)) {
        gradient_estimate(&c->source, c->theta, &c->rng[RNG_BATCH], &c->rng[RNG_GRADIENT], c->g,
                          c->tau);
        adapt_begin(&c->adapt, c->theta, c->g, c->tau);
    } else if (step->kind != STEP_AUTO) {
        for (size_t j = 0; j < d; j++)
            c->sigma[j] = step->values != NULL ? step->values[j] : step->value;
    }
}

enum err chain_new(struct chain **out, const struct chain_config *config, struct err_info *info)
{
    struct chain *c;
    enum err code = allocate(&c, config, info);
    if (code != ERR_OK)
        return code;
    for (uint64_t p = 0; p < RNG_PURPOSES; p++)
        rng_seed(&c->rng[p], config->seed, config->chain, p);
    code = start_value(c, &config->start, info);
    if (code != ERR_OK) {
        chain_free(c);
        return code;
    }
    first_step_size(c, &config->step);
    c->config.step.values = NULL;
    c->config.start = (struct chain_start){0};
    *out = c;
    return ERR_OK;
}

/* ---- advancing ---- */

static const double *sigma_of_iteration(struct chain *c, uint64_t t)
{
    const struct step_size *step = &c->config.step;
    if (step->kind != STEP_SCHEDULE)
        return c->sigma;
    /* (1 + t/t0)^(-gamma), by our own exp and log so that every machine gets the same bits. */
    double factor = vd_exp(-step->gamma * vd_log(vd_set(1.0 + (double)t / step->t0)))[0];
    for (size_t j = 0; j < c->config.model->d; j++)
        c->sigma_now[j] = factor * c->sigma[j];
    return c->sigma_now;
}

bool chain_looks(const struct chain *c)
{
    uint64_t t = c->head->iteration, warmup = c->config.warmup;
    return t >= warmup && c->noise_every > 0 && (t - warmup) % c->noise_every == 0;
}

void chain_count_noise(struct chain *c, const double *sigma)
{
    const struct sampler_type *sampler = c->config.sampler;
    c->head->noise_count++;
    for (size_t j = 0; j < c->config.model->d; j++) {
        c->tau_sum[j] += c->tau[j];
        c->beyond_sum[j] += sampler->beyond(c->config.params, sigma[j], c->tau[j]);
    }
}

/* Where it is, in the user's coordinates; converted once per iteration at most. */
static const double *user_position(struct chain *c)
{
    if (c->config.frame == NULL)
        return c->theta;
    if (c->user_at != c->head->iteration)
        frame_to_user(c->config.frame, c->theta, c->user);
    c->user_at = c->head->iteration;
    return c->user;
}

static void keep_draw(struct chain *c)
{
    const double *theta = user_position(c);
    double *row = c->values + c->draws * c->width;
    if (c->draws == 0)
        c->first_draw = c->head->iteration / c->config.thin - 1;
    if (c->save == NULL)
        memcpy(row, theta, c->width * sizeof *row);
    else
        for (size_t k = 0; k < c->width; k++)
            row[k] = theta[c->save[k]];
    c->draws++;
}

static void keep_metrics(struct chain *c)
{
    const struct model *m = c->config.model;
    size_t width = c->metric_width;
    double *draw = c->metric_values + 2 * width * c->metrics, *average = draw + width;
    c->metric_iteration[c->metrics++] = c->head->iteration;
    m->type->predict(m, user_position(c), c->prediction, c->work_user);
    m->type->score(m, c->prediction, draw, c->work_user);
    if (c->head->iteration <= c->config.warmup) {
        for (size_t k = 0; k < width; k++)
            average[k] = NAN;
        return;
    }
    double weight = 1.0 / (double)++c->head->average_count;
    kernels->average(c->average, c->prediction, weight, m->prediction_count);
    m->type->score(m, c->average, average, c->work_user);
}

static void iterate(struct chain *c)
{
    const struct chain_config *config = &c->config;
    size_t d = config->model->d;
    uint64_t t = c->head->iteration;
    bool warmup = t < config->warmup, adapting = warmup && adapts(config);
    bool noise = chain_looks(c);
    const double *sigma = sigma_of_iteration(c, t);
    if (adapting)
        memcpy(c->before, c->theta, d * sizeof *c->theta);
    c->source.first = t % 2 == 0;
    struct sampler_step s = {
        .d = d,
        .params = config->params,
        .theta = c->theta,
        .sigma = sigma,
        .one_sigma = c->one_sigma,
        .memory = c->memory,
        .t = t,
        .warmup = warmup,
        .warmup_total = config->warmup,
        .adapt = config->step.kind == STEP_AUTO,
        .source = &c->source,
        .rng = c->rng,
        .g = c->g,
        .tau = c->tau,
        .want_tau = adapting || noise,
        .scratch = {c->scratch[0], c->scratch[1], c->scratch[2], c->scratch[3]},
    };
    size_t bad = config->sampler->step(&s);
    if (bad != SIZE_MAX) {
        c->head->status = CHAIN_DIVERGED;
        c->head->diverged_at = t + 1;
        c->head->diverged_coordinate = bad;
        return;
    }
    c->head->iteration = t + 1;
    if (adapting)
        adapt_update(&c->adapt, t + 1, c->before, c->g, c->tau, c->theta);
    if (!warmup && (t + 1 - config->warmup) % c->moments_every == 0)
        kernels->moments(c->mean, c->m2, user_position(c), (double)++c->head->moment_count, d);
    if (noise)
        chain_count_noise(c, sigma);
    if ((t + 1) % config->thin == 0)
        keep_draw(c);
    if (has_metrics(config) && (t + 1) % config->metric_every == 0)
        keep_metrics(c);
}

void chain_set_iterations(struct chain *c, uint64_t iterations)
{
    c->config.iterations = iterations;
}

uint64_t chain_advance(struct chain *c, uint64_t n)
{
    uint64_t start = c->head->iteration;
    for (uint64_t i = 0; i < n && chain_status(c) == CHAIN_ACTIVE; i++) {
        if (c->draws == c->capacity || c->metrics == METRIC_CAPACITY)
            break;
        iterate(c);
    }
    return c->head->iteration - start;
}

/* Until the draw that finds no room any more. */
static uint64_t until_full(const struct chain *c, uint64_t most)
{
    uint64_t thin = c->config.thin, room = c->capacity - c->draws;
    uint64_t next = thin - c->head->iteration % thin;
    if (room == 0 || c->metrics == METRIC_CAPACITY)
        return 0;
    if (next >= most || room - 1 > (most - next) / thin)
        return most;
    return next + (room - 1) * thin;
}

uint64_t chain_quiet(const struct chain *c)
{
    const struct chain_config *config = &c->config;
    uint64_t t = c->head->iteration, warmup = config->warmup;
    if (chain_status(c) != CHAIN_ACTIVE || config->step.kind == STEP_SCHEDULE)
        return 0;
    uint64_t quiet = (t < warmup ? warmup : warmup + config->iterations) - t;
    if (t < warmup && adapts(config))
        return 0;
    if (t >= warmup && c->noise_every > 0) {
        uint64_t looks = c->noise_every - (t - warmup) % c->noise_every;
        quiet = quiet < looks ? quiet : looks;
    }
    if (has_metrics(config)) {
        uint64_t metrics = config->metric_every - 1 - t % config->metric_every;
        quiet = quiet < metrics ? quiet : metrics;
    }
    return until_full(c, quiet);
}

/* ---- what it knows ---- */

enum chain_status chain_status(const struct chain *c)
{
    if (c->head->status == CHAIN_DIVERGED)
        return CHAIN_DIVERGED;
    uint64_t total = c->config.warmup + c->config.iterations;
    return c->head->iteration >= total ? CHAIN_DONE : CHAIN_ACTIVE;
}

uint64_t chain_iteration(const struct chain *c)
{
    return c->head->iteration;
}

bool chain_in_warmup(const struct chain *c)
{
    return c->head->iteration < c->config.warmup;
}

void chain_divergence(const struct chain *c, uint64_t *iteration, size_t *coordinate)
{
    *iteration = c->head->diverged_at;
    *coordinate = (size_t)c->head->diverged_coordinate;
}

void chain_output(const struct chain *c, struct chain_output *out)
{
    *out = (struct chain_output){
        .first_draw = c->first_draw,
        .draws = c->draws,
        .width = c->width,
        .values = c->values,
        .metrics = c->metrics,
        .metric_width = c->metric_width,
        .metric_iteration = c->metric_iteration,
        .metric_values = c->metric_values,
    };
}

void chain_drain(struct chain *c)
{
    c->draws = 0;
    c->metrics = 0;
}

uint64_t chain_moments(const struct chain *c, double *mean, double *variance)
{
    uint64_t count = c->head->moment_count;
    for (size_t j = 0; j < c->config.model->d; j++) {
        mean[j] = count > 0 ? c->mean[j] : NAN;
        variance[j] = count > 1 ? c->m2[j] / (double)(count - 1) : NAN;
    }
    return count;
}

uint64_t chain_noise(const struct chain *c, double *tau, double *beyond)
{
    double count = (double)c->head->noise_count;
    for (size_t j = 0; c->noise_every > 0 && j < c->config.model->d; j++) {
        if (tau != NULL)
            tau[j] = c->tau_sum[j] / count;
        if (beyond != NULL)
            beyond[j] = c->beyond_sum[j] / count;
    }
    return c->head->noise_count;
}

void chain_step(const struct chain *c, double *sigma, enum step_limit *limits)
{
    const struct chain_config *config = &c->config;
    size_t d = config->model->d;
    bool exact = config->step.kind == STEP_AUTO && config->sampler->exact;
    if (sigma != NULL && exact)
        config->sampler->adapted_sigma(c->memory, d, sigma);
    else if (sigma != NULL)
        memcpy(sigma, c->sigma, d * sizeof *sigma);
    for (size_t j = 0; limits != NULL && j < d; j++) {
        if (config->step.kind != STEP_AUTO)
            limits[j] = STEP_GIVEN;
        else if (chain_in_warmup(c))
            limits[j] = STEP_ADAPTING;
        else
            limits[j] = exact ? STEP_BY_ACCEPTANCE : (enum step_limit)c->limit[j];
    }
}

double chain_acceptance(const struct chain *c)
{
    const struct sampler_type *sampler = c->config.sampler;
    return sampler->acceptance != NULL ? sampler->acceptance(c->memory) : NAN;
}

const double *chain_theta(const struct chain *c)
{
    return c->theta;
}

/* ---- save and load ---- */

struct saved {
    char magic[8];
    uint64_t version, fingerprint, size, checksum;
};

#define MAGIC   "BRKCHAIN"
#define VERSION 1
#define VERSION_FADING \
    2 /* a running tau is to be multiplied by the factor behind it (core/samplers/sampler.c) */

/* Who can read it: no chain has more to it than it must. */
static uint64_t version_of(const struct chain *c)
{
    const struct sampler_type *sampler = c->config.sampler;
    bool running = sampler->needs_tau != NULL && sampler->needs_tau(c->config.params);
    return running && c->source.sparse != NULL ? VERSION_FADING : VERSION;
}

size_t chain_save_size(const struct chain *c)
{
    return sizeof(struct saved) + c->layout.total;
}

void chain_save(const struct chain *c, void *bytes)
{
    struct saved saved = {
        .version = version_of(c), .fingerprint = c->fingerprint, .size = c->layout.total};
    memcpy(saved.magic, MAGIC, sizeof saved.magic);
    saved.checksum = fingerprint_bytes(fingerprint_word(saved.version, c->fingerprint), c->state,
                                       c->layout.total);
    memcpy(bytes, &saved, sizeof saved);
    memcpy((unsigned char *)bytes + sizeof saved, c->state, c->layout.total);
}

enum err chain_saved_check(const void *bytes, size_t size, struct err_info *info)
{
    struct saved saved;
    if (size < sizeof saved)
        return err_set(info, ERR_CORRUPT, "saved chain: %zu bytes are too few", size);
    memcpy(&saved, bytes, sizeof saved);
    if (memcmp(saved.magic, MAGIC, sizeof saved.magic) != 0)
        return err_set(info, ERR_CORRUPT, "saved chain: these bytes are no chain");
    if (saved.version < VERSION || saved.version > VERSION_FADING)
        return err_set(info, ERR_CORRUPT,
                       "saved chain: version %" PRIu64 ", this program reads %d to %d",
                       saved.version, VERSION, VERSION_FADING);
    if (saved.size != size - sizeof saved ||
        saved.checksum != fingerprint_bytes(fingerprint_word(saved.version, saved.fingerprint),
                                            (const unsigned char *)bytes + sizeof saved,
                                            size - sizeof saved))
        return err_set(info, ERR_CORRUPT, "saved chain: damaged (length or checksum)");
    return ERR_OK;
}

static enum err check_saved(const struct chain *c, const void *bytes, size_t size,
                            struct err_info *info)
{
    struct saved saved;
    enum err code = chain_saved_check(bytes, size, info);
    if (code != ERR_OK)
        return code;
    memcpy(&saved, bytes, sizeof saved);
    if (saved.fingerprint != c->fingerprint || saved.size != c->layout.total)
        return err_set(info, ERR_CONFLICT, "saved chain: belongs to another configuration");
    return ERR_OK;
}

enum err chain_load(struct chain **out, const struct chain_config *config, const void *bytes,
                    size_t size, struct err_info *info)
{
    struct chain *c;
    enum err code = allocate(&c, config, info);
    if (code != ERR_OK)
        return code;
    code = check_saved(c, bytes, size, info);
    if (code != ERR_OK) {
        chain_free(c);
        return code;
    }
    memcpy(c->state, (const unsigned char *)bytes + sizeof(struct saved), c->layout.total);
    c->config.step.values = NULL;
    c->config.start = (struct chain_start){0};
    *out = c;
    return ERR_OK;
}
