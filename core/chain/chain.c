/* The resumable chain: start values, iterations, and access to its results. */
#include "core/chain/parts.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"
#include "core/model/optimize.h"

#include <math.h>
#include <string.h>

#define MAP_STEPS 200

/* ---- start ---- */

static void draw_start_value(struct chain *c, const struct chain_start *start)
{
    size_t d = c->config.model->d;
    double *z = c->scratch[0];
    kernels->rng_normal(&c->rng[RNG_START], z, d);
    memset(z + d, 0, (padded(d) - d) * sizeof *z);
    bool dense = config_dense(&c->config), several = start->count > 1;
    size_t point = several ? (c->config.chain - 1) % start->count : 0;
    for (size_t j = 0; start->wide > 0.0 && j < d; j++)
        z[j] *= start->wide;
    if (dense)
        frame_to_user(c->config.frame, z, c->user);
    for (size_t j = 0; j < d; j++)
        if (!dense)
            c->user[j] = start->values[point * d + j] + start->spread[j] * z[j];
        else if (several)
            c->user[j] += start->values[point * d + j] - c->config.frame->centre[j];
}

static enum err start_value(struct chain *c, const struct chain_start *start, struct err_info *info)
{
    const struct model *m = c->config.model;
    enum start_kind kind = start->kind == START_MAP ? m->type->start : start->kind;
    if (start->kind == START_VALUES)
        memcpy(c->user, start->values, m->d * sizeof *c->user);
    else if (start->kind == START_NEAR)
        draw_start_value(c, start);
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
    if (config_adapts(&c->config)) {
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
    enum err code = chain_allocate(&c, config, info);
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
    /* (1 + t/t0)^(-gamma), without pow() of libm, whose last bits depend on the machine. */
    double factor = vd_exp(-step->gamma * vd_log(vd_set(1.0 + (double)t / step->t0)))[0];
    for (size_t j = 0; j < c->config.model->d; j++)
        c->sigma_now[j] = factor * c->sigma[j];
    return c->sigma_now;
}

bool chain_measures_noise(const struct chain *c)
{
    uint64_t t = c->head->iteration, warmup = c->config.warmup;
    return t >= warmup && c->noise_every > 0 && (t - warmup) % c->noise_every == 0;
}

void chain_count_noise(struct chain *c, const double *sigma)
{
    const struct sampler_type *sampler = c->config.sampler;
    c->head->noise_count++;
    for (size_t j = 0; j < c->config.model->d; j++) {
        c->tau_squares[j] += c->tau[j] * c->tau[j];
        c->beyond_sum[j] += sampler->beyond(c->config.params, sigma[j], c->tau[j]);
    }
}

/* The position in the user's coordinates; converted at most once per iteration. */
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
    bool warmup = t < config->warmup, adapting = warmup && config_adapts(config);
    bool noise = chain_measures_noise(c);
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
        .work = c->sampler_work,
        .pass_cost = config_pass_cost(config),
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
    if (config_has_metrics(config) && (t + 1) % config->metric_every == 0)
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

/* Iterations until the draw buffer is full, at most `most`. */
static uint64_t iterations_until_full(const struct chain *c, uint64_t most)
{
    uint64_t thin = c->config.thin, room = c->capacity - c->draws;
    uint64_t next = thin - c->head->iteration % thin;
    if (room == 0 || c->metrics == METRIC_CAPACITY)
        return 0;
    if (next >= most || room - 1 > (most - next) / thin)
        return most;
    return next + (room - 1) * thin;
}

uint64_t chain_quiet_iterations(const struct chain *c)
{
    const struct chain_config *config = &c->config;
    uint64_t t = c->head->iteration, warmup = config->warmup;
    if (chain_status(c) != CHAIN_ACTIVE || config->step.kind == STEP_SCHEDULE)
        return 0;
    uint64_t quiet = (t < warmup ? warmup : warmup + config->iterations) - t;
    if (t < warmup && config_adapts(config))
        return 0;
    if (t >= warmup && c->noise_every > 0) {
        uint64_t until_noise = c->noise_every - (t - warmup) % c->noise_every;
        quiet = quiet < until_noise ? quiet : until_noise;
    }
    if (config_has_metrics(config)) {
        uint64_t metrics = config->metric_every - 1 - t % config->metric_every;
        quiet = quiet < metrics ? quiet : metrics;
    }
    return iterations_until_full(c, quiet);
}

/* ---- status and results ---- */

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
            tau[j] = sqrt(c->tau_squares[j] / count);
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

bool chain_trees(const struct chain *c, struct sampler_trees *out)
{
    const struct sampler_type *sampler = c->config.sampler;
    if (sampler->tree_counts == NULL)
        return false;
    sampler->tree_counts(c->memory, out);
    return true;
}

const double *chain_theta(const struct chain *c)
{
    return c->theta;
}
