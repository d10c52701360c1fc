/* A short run of a few chains. */
#include "core/plan/pilot.h"
#include "core/chain/chain_batch.h"
#include "core/diagnostics/mixing.h"
#include "core/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WATCHED 128  /* coordinates whose mixing is measured */
#define DRAWS   2000 /* of one chain, at most */
#define VALUES  4e6  /* numbers that all chains store where draws of all coordinates are kept */
#define SLICE   2e-3 /* nominal seconds between two calls of go_on, about */

struct run {
    const struct pilot_setting *setting;
    struct pilot *out;
    struct chain *chains[PILOT_CHAINS];
    uint32_t watched[WATCHED];
    size_t watched_count;
    size_t width; /* numbers of a stored draw: all coordinates, or those that are watched */
    uint64_t thin;
};

static void choose_watched(struct run *run)
{
    size_t d = run->setting->target->d, count = d < WATCHED ? d : WATCHED;
    for (size_t k = 0; k < count; k++)
        run->watched[k] = (uint32_t)(k * d / count);
    run->watched_count = count;
    run->width = run->setting->keep > 0 ? d : count;
}

static uint64_t thin_of(const struct run *run)
{
    double stored = (double)run->width * run->out->chains, draws = DRAWS;
    if (run->setting->keep > 0)
        draws = fmin(draws, fmax(16.0, VALUES / stored));
    return run->setting->iterations / (uint64_t)draws + 1;
}

static void draw_start(const struct pilot_setting *s, uint32_t chain, double *theta)
{
    struct rng rng;
    size_t d = s->target->d;
    rng_seed(&rng, s->seed, chain, RNG_START);
    kernels->rng_normal(&rng, theta, d);
    for (size_t j = 0; j < d; j++)
        theta[j] = (s->centre != NULL ? s->centre[j] : 0.0) +
                   (s->scale != NULL ? s->scale[j] : 1.0) * theta[j];
}

static enum err make_chains(struct run *run, struct err_info *info)
{
    const struct pilot_setting *s = run->setting;
    double *theta = lanes_alloc(s->target->d, sizeof *theta);
    if (theta == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a pilot run");
    struct chain_config config = {.model = s->target,
                                  .sampler = s->sampler,
                                  .step = s->step,
                                  .batch_size = s->batch_size,
                                  .replacement = s->replacement,
                                  .one_in = s->one_in,
                                  .seed = s->seed,
                                  .warmup = s->warmup,
                                  .iterations = s->iterations,
                                  .thin = run->thin,
                                  .save = run->width < s->target->d ? run->watched : NULL,
                                  .save_count = run->width,
                                  .start = {.kind = START_VALUES, .values = theta},
                                  .draw_capacity = (s->warmup + s->iterations) / run->thin + 1};
    memcpy(config.params, s->params, s->sampler->params.count * sizeof config.params[0]);
    if (s->start != NULL)
        config.start = *s->start;
    enum err code = ERR_OK;
    for (uint32_t k = 0; k < run->out->chains && code == ERR_OK; k++) {
        config.chain = k + 1;
        draw_start(s, k + 1, theta);
        code = chain_new(&run->chains[k], &config, info);
    }
    free(theta);
    return code;
}

static bool all_active(const struct run *run)
{
    bool active = true;
    for (uint32_t k = 0; k < run->out->chains; k++) {
        enum chain_status status = chain_status(run->chains[k]);
        run->out->diverged = run->out->diverged || status == CHAIN_DIVERGED;
        active = active && status == CHAIN_ACTIVE;
    }
    return active;
}

/* Gradients of all chains since they began. */
static double gradients(const struct run *run)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < run->out->chains; k++) {
        struct sampler_trees trees;
        bool builds = chain_trees(run->chains[k], &trees);
        sum += builds ? trees.gradients : (double)chain_iteration(run->chains[k]);
    }
    return sum;
}

/* Advances all chains by n iterations, or until the time is over. */
static enum err advance_by(struct run *run, uint64_t n, struct err_info *info)
{
    const struct pilot_setting *s = run->setting;
    struct pilot *out = run->out;
    uint64_t slice = 1, now;
    for (; n > 0 && all_active(run); n -= now) {
        double before = out->seconds;
        now = slice < n ? slice : n;
        chain_batch_advance(run->chains, out->chains, now);
        out->seconds = s->pass * gradients(run);
        if (s->go_on != NULL && !s->go_on(s->ctx))
            return err_set(info, ERR_UNAVAILABLE, "interrupted during a pilot run");
        if (s->seconds > 0.0 && out->seconds >= s->seconds)
            break;
        if (out->seconds - before < SLICE)
            slice *= 2;
    }
    return ERR_OK;
}

static enum err advance(struct run *run, struct err_info *info)
{
    uint64_t warmup = run->setting->warmup, done;
    double before = 0.0, chains = run->out->chains;
    enum err code = advance_by(run, warmup, info);
    done = chain_iteration(run->chains[0]);
    if (code == ERR_OK && done == warmup && all_active(run)) {
        before = gradients(run);
        code = advance_by(run, run->setting->iterations, info);
        done = chain_iteration(run->chains[0]) - warmup;
    }
    run->out->passes = done > 0 ? (gradients(run) - before) / ((double)done * chains) : 1.0;
    return code;
}

/* ---- results ---- */

/* Mean, sd and energy from the running moments of all coordinates. */
static void read_moments(struct run *run, double *mean, double *variance)
{
    const struct pilot_setting *s = run->setting;
    struct pilot *out = run->out;
    size_t d = s->target->d;
    double energies = 0.0, squares = 0.0, chains = out->chains;
    memset(out->mean, 0, d * sizeof *out->mean);
    memset(out->sd, 0, d * sizeof *out->sd);
    for (uint32_t k = 0; k < out->chains; k++) {
        double energy = 0.0;
        chain_moments(run->chains[k], mean, variance);
        for (size_t j = 0; j < d; j++) {
            double scale = s->scale != NULL ? s->scale[j] : 1.0;
            double from = mean[j] - (s->centre != NULL ? s->centre[j] : 0.0);
            energy += (variance[j] + from * from) / (scale * scale) / (double)d;
            out->mean[j] += mean[j] / chains;
            out->sd[j] += (variance[j] + mean[j] * mean[j]) / chains;
        }
        energies += energy;
        squares += energy * energy;
    }
    for (size_t j = 0; j < d; j++)
        out->sd[j] = sqrt(fmax(0.0, out->sd[j] - out->mean[j] * out->mean[j]));
    out->energy = energies / chains;
    out->energy_error =
        sqrt(fmax(0.0, squares / chains - out->energy * out->energy) / fmax(1.0, chains - 1.0));
}

static void read_noise(struct run *run, double *tau, double *beyond)
{
    struct pilot *out = run->out;
    double seen = 0.0;
    memset(out->tau, 0, out->d * sizeof *out->tau);
    for (uint32_t k = 0; k < out->chains; k++) {
        if (chain_noise(run->chains[k], tau, beyond) == 0)
            continue;
        seen += 1.0;
        for (size_t j = 0; j < out->d; j++) {
            out->tau[j] += (tau[j] * tau[j] - out->tau[j]) / seen;
            out->beyond = fmax(out->beyond, beyond[j]);
        }
    }
    for (size_t j = 0; j < out->d; j++)
        out->tau[j] = sqrt(out->tau[j]);
}

/* Where the draws after warm-up begin, and how many there are in every chain. */
static size_t draws_of(const struct run *run, const double **values)
{
    size_t least = SIZE_MAX, skip = (size_t)(run->setting->warmup / run->thin);
    for (uint32_t k = 0; k < run->out->chains; k++) {
        struct chain_output out;
        chain_output(run->chains[k], &out);
        values[k] = out.values + skip * out.width;
        size_t count = out.draws > skip ? out.draws - skip : 0;
        least = count < least ? count : least;
    }
    return least;
}

static enum err read_mixing(struct run *run, struct err_info *info)
{
    struct pilot *out = run->out;
    const double *values[PILOT_CHAINS], *columns[PILOT_CHAINS];
    size_t count = draws_of(run, values), lengths[PILOT_CHAINS], width = run->width;
    out->slowest = out->slowest_sd = NAN;
    if (count < 8)
        return ERR_OK;
    struct mixing_work *work = NULL;
    enum err code = mixing_work_new(&work, count * out->chains, info);
    double *series = malloc(count * out->chains * sizeof *series);
    if (code == ERR_OK && series == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for a pilot run");
    for (size_t c = 0; c < run->watched_count && code == ERR_OK; c++) {
        size_t column = width < out->d ? c : run->watched[c];
        for (uint32_t k = 0; k < out->chains; k++) {
            columns[k] = series + k * count;
            lengths[k] = count;
            for (size_t i = 0; i < count; i++)
                series[k * count + i] = values[k][i * width + column];
        }
        struct mixing mixing;
        mixing_measure(&mixing,
                       &(struct mixing_draws){
                           .chains = columns, .lengths = lengths, .chain_count = out->chains},
                       work);
        double iterations = (double)run->thin * (double)(count * out->chains);
        double each = iterations / fmin(mixing.ess_mean, mixing.ess_bulk);
        if (!(each <= out->slowest)) /* true for the first, when slowest is NaN */
            out->slowest = each;
        if (!(iterations / mixing.ess_sd <= out->slowest_sd))
            out->slowest_sd = iterations / mixing.ess_sd;
    }
    free(series);
    mixing_work_free(work);
    return code;
}

static enum err keep_draws(struct run *run, struct err_info *info)
{
    struct pilot *out = run->out;
    const double *values[PILOT_CHAINS];
    size_t count = draws_of(run, values), each = run->setting->keep / out->chains, d = out->d;
    each = each < count ? each : count;
    if (each == 0)
        return ERR_OK;
    out->draws = malloc(each * out->chains * d * sizeof *out->draws);
    if (out->draws == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the draws of a pilot run");
    for (uint32_t k = 0; k < out->chains; k++)
        for (size_t i = 0; i < each; i++)
            memcpy(out->draws + (k * each + i) * d,
                   values[k] + (2 * i + 1) * count / (2 * each) * d, d * sizeof *out->draws);
    out->kept = each;
    return ERR_OK;
}

static enum err measure(struct run *run, struct err_info *info)
{
    struct pilot *out = run->out;
    double *work = lanes_alloc(2 * padded(out->d), sizeof *work);
    if (work == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a pilot run");
    uint64_t done = chain_iteration(run->chains[0]);
    out->iterations = done > run->setting->warmup ? done - run->setting->warmup : 0;
    enum err code = ERR_OK;
    if (!out->diverged && out->iterations >= 16) {
        read_moments(run, work, work + padded(out->d));
        read_noise(run, work, work + padded(out->d));
        code = read_mixing(run, info);
        code = code == ERR_OK ? keep_draws(run, info) : code;
    }
    free(work);
    return code;
}

enum err pilot_run(struct pilot *out, const struct pilot_setting *setting, struct err_info *info)
{
    struct run run = {.setting = setting, .out = out};
    size_t d = setting->target->d;
    uint32_t chains = setting->chains < 2 ? 2 : setting->chains;
    *out = (struct pilot){.d = d,
                          .chains = chains > PILOT_CHAINS ? PILOT_CHAINS : chains,
                          .slowest = NAN,
                          .slowest_sd = NAN,
                          .energy = NAN,
                          .energy_error = NAN};
    out->mean = calloc(3 * d, sizeof *out->mean);
    if (out->mean == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a pilot run");
    out->sd = out->mean + d;
    out->tau = out->sd + d;
    choose_watched(&run);
    run.thin = thin_of(&run);
    enum err code = make_chains(&run, info);
    code = code == ERR_OK ? advance(&run, info) : code;
    code = code == ERR_OK ? measure(&run, info) : code;
    for (uint32_t k = 0; k < out->chains; k++)
        chain_free(run.chains[k]);
    if (code != ERR_OK)
        pilot_release(out);
    return code;
}

void pilot_release(struct pilot *pilot)
{
    free(pilot->mean);
    free(pilot->draws);
    *pilot = (struct pilot){0};
}
