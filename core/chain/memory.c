/* What a chain is made of: its flat state, its scratch and its buffers. */
#include "core/chain/parts.h"

#include <stdlib.h>
#include <string.h>

#define DRAW_BUFFER_BYTES ((size_t)1 << 20)
/* Storing has a cost per drain, so the buffer holds at least this many draws, up to
 * DRAW_BUFFER_MOST bytes. */
#define DRAWS_AT_LEAST   20
#define DRAW_BUFFER_MOST ((size_t)16 << 20)
#define NOISE_EVERY      256   /* least iterations between two measurements of gradient noise */
#define NOISE_KNOWN      16384 /* the same where the noise is constant */
#define MOMENTS_FROM     4096  /* parameters from which moments are updated less often */
#define MOMENTS_EVERY    8     /* iterations, then and in a dense frame */
#define WORK_ARRAYS      9

static size_t take(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return here;
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
    l.limit = take(&at, config_adapts(c) ? array : 0);
    l.memory = take(&at, memory * sizeof(double));
    l.mean = take(&at, array);
    l.m2 = take(&at, array);
    l.tau = take(&at, config_noise_seen(c) ? array : 0);
    l.beyond = take(&at, config_noise_seen(c) ? array : 0);
    l.adapt = take(&at, config_adapts(c) ? ADAPT_ARRAYS * array : 0);
    l.average =
        take(&at, config_has_metrics(c) ? padded(c->model->prediction_count) * sizeof(double) : 0);
    l.total = at;
    return l;
}

static size_t sampler_scratch(const struct chain_config *c)
{
    return c->sampler->scratch != NULL
               ? c->sampler->scratch(c->params, c->model->d, config_pass_cost(c))
               : 0;
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

size_t chain_state_bytes(const struct chain_config *c)
{
    return layout(c).total;
}

size_t chain_memory_bytes(const struct chain_config *c)
{
    size_t array = padded(c->model->d) * sizeof(double);
    size_t batch = config_full_batch(c)
                       ? 0
                       : gradient_batch_bytes(config_target(c), config_batch(c), c->replacement);
    return layout(c).total + (WORK_ARRAYS + 3) * array + config_target(c)->work_bytes +
           c->model->work_bytes + batch +
           (sampler_scratch(c) + capacity_of(c) * width_of(c) +
            padded(c->model->prediction_count)) *
               sizeof(double);
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
                 {&c->tau_squares, l->tau},    {&c->beyond_sum, l->beyond},
                 {&c->adapt.arrays, l->adapt}, {&c->average, l->average}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i].p = (double *)(void *)(s + parts[i].at);
    const struct chain_config *config = &c->config;
    c->adapt.d = config->model->d;
    c->adapt.warmup = config->warmup;
    c->adapt.fraction = config->step.fraction;
    c->adapt.bounded = config->sampler->bounded;
    c->adapt.ceiling = config_adapts(config) ? config->sampler->ceiling(config->params) : 0.0;
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
    c->sampler_work = c->work + WORK_ARRAYS * padded(c->config.model->d);
}

static bool allocate_buffers(struct chain *c)
{
    const struct chain_config *config = &c->config;
    c->width = width_of(config);
    c->capacity = capacity_of(config);
    c->values = lanes_alloc(c->capacity * c->width, sizeof *c->values);
    if (!config_has_metrics(config))
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

enum err chain_allocate(struct chain **out, const struct chain_config *config,
                        struct err_info *info)
{
    enum err code = chain_check(config, info);
    if (code != ERR_OK)
        return code;
    struct chain *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a chain");
    c->config = *config;
    c->fingerprint = config_fingerprint(config);
    c->layout = layout(config);
    c->state = lanes_alloc(c->layout.total, 1);
    c->work = lanes_alloc(WORK_ARRAYS * padded(config->model->d) + sampler_scratch(config),
                          sizeof *c->work);
    if (c->state && c->work && copy_save(c, config) && allocate_buffers(c))
        code = gradient_init(&c->source, config_target(config), config_batch(config),
                             config->replacement && !config_full_batch(config), info);
    else
        code = err_set(info, ERR_NO_MEMORY, "no memory for a chain of %zu parameters",
                       config->model->d);
    if (code != ERR_OK) {
        chain_free(c);
        return code;
    }
    gradient_set_skip(&c->source, config->one_in, config->seed);
    point_into_state(c);
    point_into_work(c);
    c->user_at = UINT64_MAX;
    /* A measurement calls sampler->beyond for every parameter, which takes as long as some
     * moves. */
    size_t rare = config->model->d / 8, least = config->model->N > 0 ? NOISE_EVERY : NOISE_KNOWN;
    c->noise_every = config_noise_seen(config) ? (rare > least ? rare : least) : 0;
    c->one_sigma = config->step.kind != STEP_AUTO && config->step.values == NULL;
    bool far_apart = config->sampler->tree_counts != NULL; /* successive positions */
    bool costly = (config_dense(config) && !far_apart) || config->model->d >= MOMENTS_FROM;
    c->moments_every = costly ? MOMENTS_EVERY : 1;
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
