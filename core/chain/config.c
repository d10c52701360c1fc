/* What a configuration means, and whether it can be run. */
#include "core/base/fingerprint.h"
#include "core/chain/parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const struct model *config_target(const struct chain_config *config)
{
    return config->view != NULL ? config->view : config->model;
}

size_t config_batch(const struct chain_config *config)
{
    return config->batch_size == 0 ? config->model->N : config->batch_size;
}

bool config_full_batch(const struct chain_config *config)
{
    return config->model->N == 0 || config->batch_size == 0 ||
           (config->batch_size == config->model->N && !config->replacement);
}

bool config_adapts(const struct chain_config *config)
{
    return config->step.kind == STEP_AUTO && !config->sampler->exact;
}

bool config_dense(const struct chain_config *config)
{
    return config->frame != NULL && config->frame->kind == FRAME_DENSE;
}

bool config_noise_seen(const struct chain_config *c)
{
    if (c->sampler->beyond == NULL)
        return false;
    return c->model->N > 0 ? !config_full_batch(c) && config_batch(c) >= 2
                           : config_target(c)->noise_tau > 0.0;
}

bool config_has_metrics(const struct chain_config *c)
{
    return c->metric_every > 0 && c->model->prediction_count > 0;
}

/* A dense frame is multiplied with positions and gradients; eight of its numbers take one unit. */
double config_pass_cost(const struct chain_config *c)
{
    const struct model *target = config_target(c);
    double d = (double)target->d, terms = (double)target->full_terms * target->term_cost;
    return terms + d + (config_dense(c) ? 2.0 * d * d / 8.0 : 0.0);
}

static enum err check_batch(const struct chain_config *config, struct err_info *info)
{
    const struct sampler_type *sampler = config->sampler;
    size_t N = config->model->N, n = config_batch(config);
    if (N > 0 && n > N)
        return err_set(
            info, ERR_INVALID,
            "batch_size %zu is not allowed; the data have %zu rows, so it must be 1 to %zu", n, N,
            N);
    if (sampler->exact && !config_full_batch(config))
        return err_set(info, ERR_UNSUPPORTED,
                       "%s always uses the full batch; leave batch_size out or set it to %zu",
                       sampler->name, N);
    if (config->one_in > 1 && config_full_batch(config))
        return err_set(info, ERR_UNSUPPORTED,
                       "one_in %" PRIu32 " needs minibatches; with the full batch it must be 1",
                       config->one_in);
    bool uses_tau =
        (sampler->needs_tau != NULL && sampler->needs_tau(config->params)) || config_adapts(config);
    if (uses_tau && !config_full_batch(config) && n < 2)
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

/* Start values must be finite: a bounded sampler that starts at infinity never produces a NaN. */
static enum err check_start(const struct chain_config *config, struct err_info *info)
{
    const struct chain_start *start = &config->start;
    bool several = start->kind == START_NEAR && start->count > 1;
    bool near = start->kind == START_NEAR && !config_dense(config);
    size_t d = config->model->d;
    if (start->kind != START_VALUES && !near && !several)
        return ERR_OK;
    if (start->values == NULL || (near && start->spread == NULL))
        return err_set(info, ERR_INVALID, "no start values are given");
    for (size_t j = 0; j < (several ? start->count : 1) * d; j++)
        if (!isfinite(start->values[j]) || (near && !isfinite(start->spread[j % d])))
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

uint64_t config_fingerprint(const struct chain_config *c)
{
    uint64_t h = 0x6261726b657264ULL; /* "barkerd" */
    h = fingerprint_bytes(h, c->model->type->name, strlen(c->model->type->name));
    h = fingerprint_bytes(h, c->sampler->name, strlen(c->sampler->name));
    h = fingerprint_bytes(h, c->params, c->sampler->params.count * sizeof c->params[0]);
    h = mix_step(h, &c->step);
    const uint64_t numbers[] = {c->model->d,    c->model->N,     config_batch(c),
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
