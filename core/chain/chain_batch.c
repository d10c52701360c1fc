/* Chain batches: chains are packed into vector lanes, advanced by the kernels for as long as
 * chain_quiet_iterations allows, and unpacked. */
#include "core/chain/chain_batch.h"
#include "core/chain/parts.h"
#include "core/kernels/kernels.h"
#include "core/model/linear_predictor.h"

#include <string.h>

#define CHAINS_MOST (CHAIN_BATCHES * CHAIN_BATCH_LANES) /* chains, at most */
#define LANES_LEAST 4                                   /* lanes of a chain with data, at least */

/* Chains at the same iteration, packed into lanes. */
struct chain_batch_group {
    struct chain **chains;
    size_t count, per_batch, batch_count;
    struct chain_batch_step step;
    struct chain_batch_state batches[CHAIN_BATCHES];
    struct rng rng_before[CHAINS_MOST / LANES_LEAST]; /* before the run, to undo it */
    /* Minibatches, where chain_batch_sums sums them. */
    _Alignas(ALIGNMENT) uint32_t rows[CHAIN_BATCHES][16 * CHAIN_BATCH_GROUPS];
    bool measures_noise;         /* the first iteration measures the noise */
    double scale, beta;          /* of the step, for a minibatch of weight 1 */
    uint64_t until_moments;      /* iterations, after warm-up */
    const struct linear *linear; /* for chain_batch_sums; NULL: the model sums, chain by chain */
    bool rows_in_l1;             /* its rows fit into the L1 cache and need no prefetch */
    _Alignas(ALIGNMENT) double centre[CHAIN_BATCH_LANES]; /* of the frame, lane by lane */
    double columns[CHAIN_BATCH_LANES * CHAIN_BATCH_LANES];
    _Alignas(ALIGNMENT) double fixed[CHAIN_BATCH_LANES]; /* of the gradient, likewise */
    double curvature[CHAIN_BATCH_LANES * CHAIN_BATCH_LANES], diagonal[CHAIN_BATCH_LANES];
};

/* ---- which chains ---- */

static size_t chain_lanes_of(const struct chain *c)
{
    size_t d = c->config.model->d;
    return c->source.model->N == 0 ? 1
           : d <= LANES_LEAST      ? LANES_LEAST
           : d <= 8                ? 8
                                   : CHAIN_BATCH_LANES;
}

static bool can_be_batched(const struct chain *c)
{
    const struct model *m = c->source.model;
    if (c->config.sampler->chain_batch == NULL || m->d > CHAIN_BATCH_LANES)
        return false;
    if (m->N == 0)
        return m->d == 1 && c->moments_every == 1 && m->known != NULL && m->noise_tau > 0.0 &&
               c->config.frame == NULL;
    return !c->source.full && m->type->grad_add == NULL && m->type->grad_noise == NULL;
}

/* Whether two chains are at the same iteration and differ only in number and position. */
static bool may_share_batch(const struct chain *a, const struct chain *b)
{
    return a->source.model == b->source.model && a->config.sampler == b->config.sampler &&
           a->config.frame == b->config.frame && a->config.thin == b->config.thin &&
           a->source.batch.n == b->source.batch.n &&
           a->source.batch.replacement == b->source.batch.replacement &&
           a->source.chance == b->source.chance && a->source.seed == b->source.seed &&
           memcmp(a->config.params, b->config.params, sizeof a->config.params) == 0 &&
           a->head->iteration == b->head->iteration &&
           a->head->moment_count == b->head->moment_count &&
           chain_quiet_iterations(a) == chain_quiet_iterations(b);
}

/* ---- packing ---- */

/* Where the state of lane l of a chain's generator is stored in the batch. */
static uint64_t *generator_word(struct rng batch[2], size_t chain_lanes, size_t k, size_t l,
                                size_t word)
{
    if (chain_lanes == 1)
        return (uint64_t *)(void *)&batch[k % 2].s[word] + k / 2;
    return (uint64_t *)(void *)&batch[0].s[word] + k * chain_lanes / 2 + l;
}

static void pack_rng(const struct chain_batch_step *w, struct rng batch[2], size_t k,
                     const struct rng *rng)
{
    for (size_t word = 0; word < 4; word++)
        for (size_t l = 0; l < (w->chain_lanes + 1) / 2; l++)
            *generator_word(batch, w->chain_lanes, k, l, word) = rng->s[word][l];
}

static void unpack_rng(const struct chain_batch_step *w, struct rng batch[2], size_t k,
                       struct rng *rng)
{
    for (size_t word = 0; word < 4; word++)
        for (size_t l = 0; l < (w->chain_lanes + 1) / 2; l++)
            rng->s[word][l] = *generator_word(batch, w->chain_lanes, k, l, word);
}

static void pack_chain(struct chain_batch_group *group, size_t at, const struct chain *c)
{
    const struct chain_batch_step *w = &group->step;
    struct chain_batch_state *b = &group->batches[at / group->per_batch];
    size_t k = at % group->per_batch, lane = k * w->chain_lanes, bytes = w->d * sizeof(double);
    memcpy(b->theta + lane, c->theta, bytes);
    memcpy(b->sigma + lane, c->sigma, bytes);
    memcpy(b->mean + lane, c->mean, bytes);
    memcpy(b->m2 + lane, c->m2, bytes);
    if (w->rule == BARKER_CORRECTED)
        memcpy(b->tau + lane, c->memory, bytes);
    pack_rng(w, b->jump, k, &c->rng[RNG_JUMP]);
    pack_rng(w, b->flip, k, &c->rng[RNG_FLIP]);
    pack_rng(w, b->noise, k, &c->rng[RNG_GRADIENT]);
    if (w->target == NULL)
        group->rng_before[at] = c->rng[RNG_BATCH];
}

static void unpack_chain(struct chain_batch_group *group, size_t at, uint64_t done, size_t draws)
{
    const struct chain_batch_step *w = &group->step;
    struct chain *c = group->chains[at];
    struct chain_batch_state *b = &group->batches[at / group->per_batch];
    size_t k = at % group->per_batch, lane = k * w->chain_lanes, bytes = w->d * sizeof(double);
    memcpy(c->theta, b->theta + lane, bytes);
    memcpy(c->mean, b->mean + lane, bytes);
    memcpy(c->m2, b->m2 + lane, bytes);
    if (w->rule == BARKER_CORRECTED) {
        memcpy(c->memory, b->tau + lane, bytes);
        c->memory[padded(w->d)] = w->weight;
    }
    unpack_rng(w, b->jump, k, &c->rng[RNG_JUMP]);
    if (w->rule != BARKER_EXTREME)
        unpack_rng(w, b->flip, k, &c->rng[RNG_FLIP]);
    if (w->target != NULL)
        unpack_rng(w, b->noise, k, &c->rng[RNG_GRADIENT]);
    if (group->measures_noise)
        chain_count_noise(c, c->sigma);
    if (c->draws == 0 && draws > 0)
        c->first_draw = c->head->iteration / c->config.thin;
    c->draws += draws;
    c->head->iteration += done;
    c->head->moment_count = w->moment_count;
}

/* Two lanes share a generator; its first word gives the number of the even lane, the second that
 * of the odd one. A generator advances only for coordinates below d. */
static void set_generators(struct chain_batch_step *w)
{
    for (size_t g = 0; g < LANES; g++) {
        size_t l = w->chain_lanes > 1 ? g % (w->chain_lanes / 2) : 0;
        w->first[g] = l < (w->d + 1) / 2 ? UINT64_MAX : 0;
        w->second[g] = l < w->d / 2 ? UINT64_MAX : 0;
    }
    w->whole = w->chain_lanes == w->d;
}

static void copy_frame(struct chain_batch_group *group, const struct frame *frame)
{
    struct chain_batch_step *w = &group->step;
    if (frame == NULL)
        return;
    for (size_t lane = 0; lane < CHAIN_BATCH_LANES; lane++) {
        size_t i = lane % w->chain_lanes;
        group->centre[lane] = frame->centre[i];
        for (size_t j = 0; frame->kind == FRAME_DENSE && j < w->d; j++)
            group->columns[j * CHAIN_BATCH_LANES + lane] = frame->columns[j * padded(w->d) + i];
    }
    w->centre = group->centre;
    w->columns = frame->kind == FRAME_DENSE ? group->columns : NULL;
}

static void set_batch(struct chain_batch_group *group, const struct gradient *source)
{
    struct chain_batch_step *w = &group->step;
    group->scale = gradient_scale(source);
    group->beta = w->beta;
    w->tau_scale = gradient_tau_scale(source);
    w->share = gradient_share(source);
    w->batch = (double)source->batch.n;
}

/* The predictor for chain_batch_sums, which takes a few short rows of single precision; or NULL. */
static const struct linear *sums_predictor(const struct gradient *source)
{
    const struct linear *l = source->model->linear;
    if (l == NULL || l->data->precision != PRECISION_SINGLE || l->data->stride > 8)
        return NULL;
    /* Groups of 16 rows of a chain batch with as many chains as possible. */
    size_t groups = (source->batch.n + 15) / 16 * (CHAIN_BATCH_LANES / LANES_LEAST);
    return !l->free_psi && groups <= CHAIN_BATCH_GROUPS && l->data->N <= CHAIN_BATCH_ROWS ? l
                                                                                          : NULL;
}

/* The fixed part of the gradient, copied to every chain's lanes, where it is known to be linear. */
static void copy_fixed_part(struct chain_batch_group *group, const struct linear *l)
{
    struct chain_batch_step *w = &group->step;
    if (l == NULL || l->constant == NULL)
        return;
    for (size_t lane = 0; lane < CHAIN_BATCH_LANES; lane++) {
        size_t i = lane % w->chain_lanes;
        group->fixed[lane] = l->constant[i];
        group->diagonal[lane] = l->curvature == NULL && i < w->d ? l->diagonal[i] : 0.0;
        for (size_t j = 0; l->curvature != NULL && j < w->d; j++)
            group->curvature[j * CHAIN_BATCH_LANES + lane] = l->curvature[j * padded(w->d) + i];
    }
    w->fixed = group->fixed;
    w->curvature = l->curvature != NULL ? group->curvature : NULL;
    w->diagonal = group->diagonal;
}

static bool rows_fit_l1(const struct linear *l)
{
    return l != NULL && l->data->N * linear_record(l->data) * sizeof(float) <= CACHE_L1_BYTES;
}

static void set_step(struct chain_batch_group *group, const struct chain *c)
{
    struct chain_batch_step *w = &group->step;
    const struct gradient *source = &c->source;
    *w = (struct chain_batch_step){
        .d = c->config.model->d, .chain_lanes = chain_lanes_of(c), .t = c->head->iteration};
    c->config.sampler->chain_batch(c->config.params, w);
    set_generators(w);
    if (source->model->N == 0)
        w->target = source->model->known;
    else
        set_batch(group, source);
    w->weight = w->rule == BARKER_CORRECTED ? c->memory[padded(w->d)] : 0.0;
    w->moments = !chain_in_warmup(c);
    group->until_moments =
        w->moments ? c->moments_every - (w->t - c->config.warmup) % c->moments_every : UINT64_MAX;
    w->moment_count = c->head->moment_count;
    copy_frame(group, c->config.frame);
    group->linear = w->target == NULL ? sums_predictor(source) : NULL;
    group->rows_in_l1 = rows_fit_l1(group->linear);
    copy_fixed_part(group, group->linear);
}

static void pack(struct chain_batch_group *group, struct chain **chains, size_t count)
{
    set_step(group, chains[0]);
    group->chains = chains;
    group->per_batch = CHAIN_BATCH_LANES / group->step.chain_lanes;
    group->count = count;
    group->measures_noise = chain_measures_noise(chains[0]);
    group->batch_count = (count + group->per_batch - 1) / group->per_batch;
    memset(group->batches, 0, group->batch_count * sizeof group->batches[0]);
    for (size_t at = 0; at < count; at++)
        pack_chain(group, at, chains[at]);
}

/* ---- advancing ---- */

/* Batch k has the chains first_chain_of(k) to first_chain_of(k + 1) - 1. */
static size_t first_chain_of(const struct chain_batch_group *group, size_t batch)
{
    size_t at = batch * group->per_batch;
    return at < group->count ? at : group->count;
}

/* Minibatches of all chains of a batch in the layout of chain_batch_sums. */
static void draw_side_by_side(struct chain_batch_group *group, size_t batch, bool prefetch)
{
    struct minibatch *first = &group->chains[0]->source.batch;
    size_t apart = padded(first->n), to = first_chain_of(group, batch + 1);
    const uint16_t *row_map = group->linear->row_map;
    uint32_t *idx = group->rows[batch];
    for (size_t at = first_chain_of(group, batch); at < to; at++, idx += apart) {
        minibatch_draw_mapped(first, &group->chains[at]->rng[RNG_BATCH], row_map, idx);
        if (prefetch)
            linear_prefetch(group->linear, idx, first->n);
    }
}

/* `prefetch`: prefetch rows for chain_batch_sums here, because no earlier call of it does. */
static void draw_rows(struct chain_batch_group *group, size_t batch, bool prefetch)
{
    struct minibatch *first = &group->chains[0]->source.batch;
    if (group->linear != NULL) {
        draw_side_by_side(group, batch, prefetch);
        return;
    }
    for (size_t at = first_chain_of(group, batch); at < first_chain_of(group, batch + 1); at++) {
        gradient_draw(&group->chains[at]->source, first, &group->chains[at]->rng[RNG_BATCH]);
        gradient_prefetch(&group->chains[at]->source);
    }
}

/* The kernels compute the estimate; tau is computed here for the measurement of the noise. */
static void measure_noise(const struct chain_batch_step *w, const struct chain_batch_state *b,
                          size_t lane, struct chain *c)
{
    const struct gradient *gs = &c->source;
    memcpy(gs->sum, b->sum + lane, w->d * sizeof(double));
    memcpy(gs->sumsq, b->sumsq + lane, w->d * sizeof(double));
    kernels->estimate(&(struct batch_sums){.sum = gs->sum,
                                           .sumsq = gs->sumsq,
                                           .scale = w->scale,
                                           .tau_scale = w->tau_scale,
                                           .count = w->batch,
                                           .share = w->share,
                                           .n = w->d},
                      c->g, c->tau, NULL);
}

static void sum_chain(const struct chain_batch_step *w, struct chain_batch_state *b, size_t lane,
                      struct chain *c, bool squares)
{
    size_t bytes = w->d * sizeof(double);
    memcpy(c->before, b->theta + lane, bytes);
    gradient_sums(&c->source, c->before, c->g, squares);
    memcpy(b->fixed + lane, c->g, bytes);
    memcpy(b->sum + lane, c->source.sum, bytes);
    if (squares)
        memcpy(b->sumsq + lane, c->source.sumsq, bytes);
}

/* Copies all lanes of a chain: those beyond d are 0, as is the padding of a chain's arrays. */
static inline void copy_lanes(double *to, const double *from, size_t chain_lanes)
{
    for (size_t i = 0; i < chain_lanes; i += LANES_LEAST)
        memcpy(to + i, from + i, LANES_LEAST * sizeof *to);
}

/* The fixed part of every chain's gradient, unless the kernels know it. */
static void compute_fixed_parts(struct chain_batch_group *group, size_t batch)
{
    const struct chain_batch_step *w = &group->step;
    struct chain_batch_state *b = &group->batches[batch];
    size_t to = first_chain_of(group, batch + 1);
    for (size_t at = first_chain_of(group, batch), lane = 0; w->fixed == NULL && at < to;
         at++, lane += w->chain_lanes) {
        struct chain *c = group->chains[at];
        const struct model *m = c->source.model;
        copy_lanes(c->before, b->theta + lane, w->chain_lanes);
        m->type->grad_fixed(m, c->before, c->g, c->source.work);
        copy_lanes(b->fixed + lane, c->g, w->chain_lanes);
    }
}

static void sum_batch(struct chain_batch_group *group, size_t batch, size_t next, bool squares)
{
    struct chain_batch_state *b = &group->batches[batch];
    size_t from = first_chain_of(group, batch), to = first_chain_of(group, batch + 1);
    struct chain_batch_rows rows = {.chains = to - from,
                                    .n = group->chains[from]->source.batch.n,
                                    .idx = group->rows[batch],
                                    .next = group->rows[next]};
    if (next != batch)
        rows.next_chains = first_chain_of(group, next + 1) - first_chain_of(group, next);
    compute_fixed_parts(group, batch);
    kernels->chain_batch_sums(group->linear, &rows, b, squares);
}

/* `next`: the batch whose rows are prefetched at the same time; next == batch: none. */
static void sum_terms(struct chain_batch_group *group, size_t batch, size_t next, bool measure)
{
    const struct chain_batch_step *w = &group->step;
    struct chain_batch_state *b = &group->batches[batch];
    size_t from = first_chain_of(group, batch), to = first_chain_of(group, batch + 1);
    bool squares = measure || w->rule == BARKER_CORRECTED;
    if (group->linear != NULL)
        sum_batch(group, batch, next, squares);
    for (size_t at = from, lane = 0; at < to; at++, lane += w->chain_lanes) {
        if (group->linear == NULL)
            sum_chain(w, b, lane, group->chains[at], squares);
        if (measure)
            measure_noise(w, b, lane, group->chains[at]);
    }
}

/* The rows of the next batch are prefetched while this one is summed: all at once, or a few at a
 * time by the kernel. `drawn`: the rows of batch 0 are drawn already; `again`: the next iteration
 * has minibatches, too. */
static void sum_rows(struct chain_batch_group *group, bool drawn, bool again, bool measure)
{
    size_t last = group->batch_count - 1;
    if (!drawn)
        draw_rows(group, 0, true);
    for (size_t k = 0; k <= last; k++) {
        size_t next = k < last ? k + 1 : 0;
        bool more = last > 0 && (k < last || again);
        if (more)
            draw_rows(group, next, false);
        sum_terms(group, k, more && !group->rows_in_l1 ? next : k, measure);
    }
}

/* Sets what an iteration does besides moving: the weight of its rows, and the counts. */
static void begin_iteration(struct chain_batch_group *group, double weight)
{
    struct chain_batch_step *w = &group->step;
    w->scale = weight * group->scale;
    w->skip = weight == 0.0;
    w->beta = w->skip ? 0.0 : group->beta;
    w->moments = --group->until_moments == 0;
    if (w->moments)
        group->until_moments = group->chains[0]->moments_every;
    chain_batch_next(w);
}

static bool advance_by_rows(struct chain_batch_group *group, uint64_t n, bool measure)
{
    struct chain_batch_step *w = &group->step;
    const struct gradient *source = &group->chains[0]->source;
    double weight = gradient_weight(source, w->t, measure), next;
    bool drawn = false, no_nan = true;
    for (uint64_t t = 1; t <= n && no_nan; t++, weight = next, measure = false) {
        next = t < n ? gradient_weight(source, w->t + t, false) : 0.0;
        begin_iteration(group, weight);
        if (weight > 0.0)
            sum_rows(group, drawn, next > 0.0, measure);
        for (size_t k = 0; weight == 0.0 && k < group->batch_count; k++)
            compute_fixed_parts(group, k);
        drawn = group->batch_count > 1 && weight > 0.0 && next > 0.0;
        no_nan = kernels->chain_batch_move(w, group->batches, group->batch_count);
    }
    w->t += n;
    return no_nan;
}

static void keep_draw(struct chain_batch_group *group, size_t at, size_t draw)
{
    const struct chain_batch_step *w = &group->step;
    struct chain *c = group->chains[at];
    const struct chain_batch_state *b = &group->batches[at / group->per_batch];
    const double *theta = b->theta + at % group->per_batch * w->chain_lanes;
    double *row = c->values + (c->draws + draw) * c->width;
    if (c->config.frame != NULL) {
        memcpy(c->before, theta, w->d * sizeof *theta);
        frame_to_user(c->config.frame, c->before, c->user);
        c->user_at = UINT64_MAX;
        theta = c->user;
    }
    for (size_t k = 0; k < c->width; k++)
        row[k] = theta[c->save != NULL ? c->save[k] : k];
}

static bool run_known_target(struct chain_batch_group *group, uint64_t n, bool measure)
{
    for (size_t at = 0; measure && at < group->count; at++)
        group->chains[at]->tau[0] = group->step.target->noise_sd;
    return kernels->chain_batch_run(&group->step, group->batches, group->batch_count, n);
}

static void restore_generators(struct chain_batch_group *group)
{
    for (size_t at = 0; group->step.target == NULL && at < group->count; at++)
        group->chains[at]->rng[RNG_BATCH] = group->rng_before[at];
}

/* Runs n <= chain_quiet_iterations() iterations. False, with the chains unchanged, when a gradient
 * is NaN. */
static bool advance(struct chain_batch_group *group, uint64_t n)
{
    uint64_t thin = group->chains[0]->config.thin, from = group->chains[0]->head->iteration;
    size_t draws = 0;
    for (uint64_t done = 0, run; done < n; done += run) {
        uint64_t next = thin - (from + done) % thin;
        bool measure = group->measures_noise && done == 0, known = group->step.target != NULL;
        run = next < n - done ? next : n - done;
        if (!(known ? run_known_target(group, run, measure)
                    : advance_by_rows(group, run, measure))) {
            restore_generators(group);
            return false;
        }
        for (size_t at = 0; run == next && at < group->count; at++)
            keep_draw(group, at, draws);
        draws += run == next;
    }
    for (size_t at = 0; at < group->count; at++)
        unpack_chain(group, at, n, draws);
    return true;
}

/* ---- groups of chains at the same iteration ---- */

static uint64_t advance_each(struct chain **chains, size_t count, uint64_t n)
{
    uint64_t done = 0;
    for (size_t k = 0; k < count; k++)
        done += chain_advance(chains[k], n);
    return done;
}

static size_t keep_active(struct chain **chains, size_t count)
{
    size_t active = 0;
    for (size_t k = 0; k < count; k++)
        if (chain_status(chains[k]) == CHAIN_ACTIVE)
            chains[active++] = chains[k];
    return active;
}

/* Iterations to leave to chain_advance: one, or all that are left of an adapting warm-up. */
static uint64_t iterations_alone(const struct chain *c)
{
    bool adapts = c->config.step.kind == STEP_AUTO && chain_in_warmup(c);
    return adapts ? c->config.warmup - c->head->iteration : 1;
}

static uint64_t advance_together(struct chain **chains, size_t count, uint64_t n)
{
    struct chain_batch_group group;
    uint64_t all = 0;
    for (uint64_t left = n, run, done; left > 0; left -= run) {
        count = keep_active(chains, count);
        if (count == 0)
            break;
        uint64_t quiet = chain_quiet_iterations(chains[0]);
        run = quiet > 0 ? quiet : iterations_alone(chains[0]);
        run = run < left ? run : left;
        if (quiet > 0)
            pack(&group, chains, count);
        if (quiet > 0 && advance(&group, run))
            done = run * count;
        else
            done = advance_each(chains, count, run);
        all += done;
        if (done == 0)
            break;
    }
    return all;
}

/* With many rows per minibatch, cache misses take most of the time, and chains are faster alone,
 * because each then prefetches further ahead. With few rows, sharing the cost of the moves saves
 * more. */
#define MANY_SHORT 100 /* rows that are many, if shorter than a cache line; else AHEAD_ROWS are */

static bool faster_alone(const struct chain *c, size_t members)
{
    const struct linear *l = c->source.model->linear;
    if (c->source.ahead == NULL)
        return false;
    return members == 1 ||
           c->source.batch.n >= (dataset_short_rows(l->data) ? MANY_SHORT : AHEAD_ROWS);
}

#define SORTED_MOST 256 /* chains that are sorted into groups at a time */

/* Advances chain `from` and those after it that can be grouped with it. */
static uint64_t advance_group(struct chain **chains, size_t count, size_t from, bool *done,
                              uint64_t n)
{
    struct chain *group[CHAINS_MOST];
    size_t most = CHAIN_BATCHES * (CHAIN_BATCH_LANES / chain_lanes_of(chains[from])), members = 0;
    for (size_t k = from; k < count && members < most; k++) {
        if (done[k] || !may_share_batch(chains[from], chains[k]))
            continue;
        group[members++] = chains[k];
        done[k] = true;
    }
    return faster_alone(chains[from], members) ? advance_each(group, members, n)
                                               : advance_together(group, members, n);
}

static uint64_t advance_window(struct chain **chains, size_t count, uint64_t n)
{
    bool done[SORTED_MOST] = {false};
    uint64_t all = 0;
    for (size_t k = 0; k < count; k++) {
        if (done[k])
            continue;
        all += can_be_batched(chains[k]) ? advance_group(chains, count, k, done, n)
                                         : chain_advance(chains[k], n);
    }
    return all;
}

uint64_t chain_batch_advance(struct chain **chains, size_t count, uint64_t n)
{
    uint64_t all = 0;
    for (size_t from = 0; from < count; from += SORTED_MOST)
        all += advance_window(chains + from,
                              count - from < SORTED_MOST ? count - from : SORTED_MOST, n);
    return all;
}
