/* Chains in lanes: packed, moved by the kernels while nothing special happens, and put back. */
#include "core/chain/lockstep.h"
#include "core/chain/parts.h"
#include "core/kernels/kernels.h"
#include "core/model/linear_predictor.h"

#include <string.h>

#define CREW  (BUNDLES * BUNDLE_LANES) /* chains, at most */
#define SHARE 4                        /* lanes of a chain with data, at least */

/* Chains at the same iteration, in lanes. */
struct crew {
    struct chain **chains;
    size_t count, per_bundle, bundle_count;
    struct walk walk;
    struct bundle bundles[BUNDLES];
    struct rng batch[CREW / SHARE]; /* as they were, in case that the walk must be forgotten */
    /* Minibatches, where sums are bundle_sums's. */
    _Alignas(ALIGNMENT) uint32_t rows[BUNDLES][16 * CROWD_GROUPS];
    bool look;                                       /* the first iteration looks at the noise */
    double scale, beta;                              /* where a minibatch counts once */
    uint64_t until_moments;                          /* iterations, after warm-up */
    const struct linear *linear;                     /* sums are bundle_sums's; NULL: the model's */
    bool near;                                       /* its rows are in the first cache */
    _Alignas(ALIGNMENT) double centre[BUNDLE_LANES]; /* of the frame, lane by lane */
    double columns[BUNDLE_LANES * BUNDLE_LANES];
    _Alignas(ALIGNMENT) double fixed[BUNDLE_LANES]; /* of the gradient, likewise */
    double curvature[BUNDLE_LANES * BUNDLE_LANES], diagonal[BUNDLE_LANES];
};

/* ---- which chains ---- */

static size_t slots_of(const struct chain *c)
{
    size_t d = c->config.model->d;
    return c->source.model->N == 0 ? 1 : d <= SHARE ? SHARE : d <= 8 ? 8 : BUNDLE_LANES;
}

static bool fits(const struct chain *c)
{
    const struct model *m = c->source.model;
    if (c->config.sampler->lanes == NULL || m->d > BUNDLE_LANES)
        return false;
    if (m->N == 0)
        return m->d == 1 && c->moments_every == 1 && m->known != NULL && m->noise_tau > 0.0 &&
               c->config.frame == NULL;
    return !c->source.full && m->type->grad_add == NULL && m->type->grad_noise == NULL;
}

/* Whether nothing tells them apart but their numbers and where they are. */
static bool same_place(const struct chain *a, const struct chain *b)
{
    return a->source.model == b->source.model && a->config.sampler == b->config.sampler &&
           a->config.frame == b->config.frame && a->config.thin == b->config.thin &&
           a->source.batch.n == b->source.batch.n &&
           a->source.batch.replacement == b->source.batch.replacement &&
           a->source.often == b->source.often && a->source.seed == b->source.seed &&
           memcmp(a->config.params, b->config.params, sizeof a->config.params) == 0 &&
           a->head->iteration == b->head->iteration &&
           a->head->moment_count == b->head->moment_count && chain_quiet(a) == chain_quiet(b);
}

/* ---- packing ---- */

/* Lane l of a chain's generators: at which place of the bundle. */
static uint64_t *generator(struct rng bundle[2], size_t slots, size_t k, size_t l, size_t word)
{
    if (slots == 1)
        return (uint64_t *)(void *)&bundle[k % 2].s[word] + k / 2;
    return (uint64_t *)(void *)&bundle[0].s[word] + k * slots / 2 + l;
}

static void pack_rng(const struct walk *w, struct rng bundle[2], size_t k, const struct rng *rng)
{
    for (size_t word = 0; word < 4; word++)
        for (size_t l = 0; l < (w->slots + 1) / 2; l++)
            *generator(bundle, w->slots, k, l, word) = rng->s[word][l];
}

static void unpack_rng(const struct walk *w, struct rng bundle[2], size_t k, struct rng *rng)
{
    for (size_t word = 0; word < 4; word++)
        for (size_t l = 0; l < (w->slots + 1) / 2; l++)
            rng->s[word][l] = *generator(bundle, w->slots, k, l, word);
}

static void pack_chain(struct crew *crew, size_t at, const struct chain *c)
{
    const struct walk *w = &crew->walk;
    struct bundle *b = &crew->bundles[at / crew->per_bundle];
    size_t k = at % crew->per_bundle, lane = k * w->slots, bytes = w->d * sizeof(double);
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
        crew->batch[at] = c->rng[RNG_BATCH];
}

static void unpack_chain(struct crew *crew, size_t at, uint64_t done, size_t draws)
{
    const struct walk *w = &crew->walk;
    struct chain *c = crew->chains[at];
    struct bundle *b = &crew->bundles[at / crew->per_bundle];
    size_t k = at % crew->per_bundle, lane = k * w->slots, bytes = w->d * sizeof(double);
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
    if (crew->look)
        chain_count_noise(c, c->sigma);
    if (c->draws == 0 && draws > 0)
        c->first_draw = c->head->iteration / c->config.thin;
    c->draws += draws;
    c->head->iteration += done;
    c->head->moment_count = w->moment_count;
}

/* Two lanes share a generator; the first word of a pair makes the number of the even lane, the
 * second that of the odd one. A generator moves only for coordinates that there are. */
static void plan_generators(struct walk *w)
{
    for (size_t g = 0; g < LANES; g++) {
        size_t l = w->slots > 1 ? g % (w->slots / 2) : 0;
        w->first[g] = l < (w->d + 1) / 2 ? UINT64_MAX : 0;
        w->second[g] = l < w->d / 2 ? UINT64_MAX : 0;
    }
    w->whole = w->slots == w->d;
}

static void plan_frame(struct crew *crew, const struct frame *frame)
{
    struct walk *w = &crew->walk;
    if (frame == NULL)
        return;
    for (size_t lane = 0; lane < BUNDLE_LANES; lane++) {
        size_t i = lane % w->slots;
        crew->centre[lane] = frame->centre[i];
        for (size_t j = 0; frame->kind == FRAME_DENSE && j < w->d; j++)
            crew->columns[j * BUNDLE_LANES + lane] = frame->columns[j * padded(w->d) + i];
    }
    w->centre = crew->centre;
    w->columns = frame->kind == FRAME_DENSE ? crew->columns : NULL;
}

static void plan_batch(struct crew *crew, const struct gradient *source)
{
    struct walk *w = &crew->walk;
    crew->scale = gradient_scale(source);
    crew->beta = w->beta;
    w->tau_scale = gradient_tau_scale(source);
    w->share = gradient_share(source);
    w->batch = (double)source->batch.n;
}

/* Short rows of single precision and few of them. */
static const struct linear *plan_sums(const struct gradient *source)
{
    const struct linear *l = source->model->linear;
    if (l == NULL || l->data->precision != PRECISION_SINGLE || l->data->stride > 8)
        return NULL;
    size_t groups = (source->batch.n + 15) / 16 * (BUNDLE_LANES / SHARE); /* of the narrowest */
    return l->step == 0.0 && groups <= CROWD_GROUPS && l->data->N <= CROWD_ROWS ? l : NULL;
}

/* The fixed part of the gradient in lanes, where it is known to be linear. */
static void plan_fixed(struct crew *crew, const struct linear *l)
{
    struct walk *w = &crew->walk;
    if (l == NULL || l->constant == NULL)
        return;
    for (size_t lane = 0; lane < BUNDLE_LANES; lane++) {
        size_t i = lane % w->slots;
        crew->fixed[lane] = l->constant[i];
        crew->diagonal[lane] = l->curvature == NULL && i < w->d ? l->diagonal[i] : 0.0;
        for (size_t j = 0; l->curvature != NULL && j < w->d; j++)
            crew->curvature[j * BUNDLE_LANES + lane] = l->curvature[j * padded(w->d) + i];
    }
    w->fixed = crew->fixed;
    w->curvature = l->curvature != NULL ? crew->curvature : NULL;
    w->diagonal = crew->diagonal;
}

#define NEAR_BYTES 49152

static bool rows_are_near(const struct linear *l)
{
    return l != NULL && l->data->N * linear_record(l->data) * sizeof(float) <= NEAR_BYTES;
}

static void plan_walk(struct crew *crew, const struct chain *c)
{
    struct walk *w = &crew->walk;
    const struct gradient *source = &c->source;
    *w = (struct walk){.d = c->config.model->d, .slots = slots_of(c), .t = c->head->iteration};
    c->config.sampler->lanes(c->config.params, w);
    plan_generators(w);
    if (source->model->N == 0)
        w->target = source->model->known;
    else
        plan_batch(crew, source);
    w->weight = w->rule == BARKER_CORRECTED ? c->memory[padded(w->d)] : 0.0;
    w->moments = !chain_in_warmup(c);
    crew->until_moments =
        w->moments ? c->moments_every - (w->t - c->config.warmup) % c->moments_every : UINT64_MAX;
    w->moment_count = c->head->moment_count;
    plan_frame(crew, c->config.frame);
    crew->linear = w->target == NULL ? plan_sums(source) : NULL;
    crew->near = rows_are_near(crew->linear);
    plan_fixed(crew, crew->linear);
}

static void pack(struct crew *crew, struct chain **chains, size_t count)
{
    plan_walk(crew, chains[0]);
    crew->chains = chains;
    crew->per_bundle = BUNDLE_LANES / crew->walk.slots;
    crew->count = count;
    crew->look = chain_looks(chains[0]);
    crew->bundle_count = (count + crew->per_bundle - 1) / crew->per_bundle;
    memset(crew->bundles, 0, crew->bundle_count * sizeof crew->bundles[0]);
    for (size_t at = 0; at < count; at++)
        pack_chain(crew, at, chains[at]);
}

/* ---- walking ---- */

/* The chains of a bundle are `from` to `to`. */
static size_t first_of(const struct crew *crew, size_t bundle)
{
    size_t at = bundle * crew->per_bundle;
    return at < crew->count ? at : crew->count;
}

/* For bundle_sums, side by side. */
static void draw_crowd(struct crew *crew, size_t bundle, bool ask)
{
    struct minibatch *first = &crew->chains[0]->source.batch;
    size_t apart = padded(first->n), to = first_of(crew, bundle + 1);
    const uint16_t *which = crew->linear->which;
    uint32_t *idx = crew->rows[bundle];
    for (size_t at = first_of(crew, bundle); at < to; at++, idx += apart) {
        minibatch_draw_which(first, &crew->chains[at]->rng[RNG_BATCH], which, idx);
        if (ask)
            linear_ask(crew->linear, idx, first->n);
    }
}

/* `ask`: nobody asks the memory for them later. */
static void draw_rows(struct crew *crew, size_t bundle, bool ask)
{
    struct minibatch *first = &crew->chains[0]->source.batch;
    if (crew->linear != NULL) {
        draw_crowd(crew, bundle, ask);
        return;
    }
    for (size_t at = first_of(crew, bundle); at < first_of(crew, bundle + 1); at++) {
        gradient_draw(&crew->chains[at]->source, first, &crew->chains[at]->rng[RNG_BATCH]);
        gradient_ask(&crew->chains[at]->source);
    }
}

/* The estimate itself is the kernels'; tau alone is for the look at the noise. */
static void look_at_noise(const struct walk *w, const struct bundle *b, size_t lane,
                          struct chain *c)
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

static void sum_each(const struct walk *w, struct bundle *b, size_t lane, struct chain *c,
                     bool squares)
{
    size_t bytes = w->d * sizeof(double);
    memcpy(c->before, b->theta + lane, bytes);
    gradient_parts(&c->source, c->before, c->g, squares);
    memcpy(b->fixed + lane, c->g, bytes);
    memcpy(b->sum + lane, c->source.sum, bytes);
    if (squares)
        memcpy(b->sumsq + lane, c->source.sumsq, bytes);
}

/* A chain's lanes, those left over included: what is behind d in a chain's arrays is 0 as they are.
 */
static inline void copy_lanes(double *to, const double *from, size_t slots)
{
    for (size_t i = 0; i < slots; i += SHARE)
        memcpy(to + i, from + i, SHARE * sizeof *to);
}

/* The fixed part of every chain's gradient, unless the kernels know it. */
static void take_fixed(struct crew *crew, size_t bundle)
{
    const struct walk *w = &crew->walk;
    struct bundle *b = &crew->bundles[bundle];
    size_t to = first_of(crew, bundle + 1);
    for (size_t at = first_of(crew, bundle), lane = 0; w->fixed == NULL && at < to;
         at++, lane += w->slots) {
        struct chain *c = crew->chains[at];
        const struct model *m = c->source.model;
        copy_lanes(c->before, b->theta + lane, w->slots);
        m->type->grad_fixed(m, c->before, c->g, c->source.work);
        copy_lanes(b->fixed + lane, c->g, w->slots);
    }
}

static void sum_at_once(struct crew *crew, size_t bundle, size_t next, bool squares)
{
    struct bundle *b = &crew->bundles[bundle];
    size_t from = first_of(crew, bundle), to = first_of(crew, bundle + 1);
    struct crowd_rows rows = {.chains = to - from,
                              .n = crew->chains[from]->source.batch.n,
                              .idx = crew->rows[bundle],
                              .next = crew->rows[next]};
    if (next != bundle)
        rows.next_chains = first_of(crew, next + 1) - first_of(crew, next);
    take_fixed(crew, bundle);
    kernels->bundle_sums(crew->linear, &rows, b, squares);
}

/* `next`: the bundle whose rows are to be asked for meanwhile; itself: none. */
static void sum_terms(struct crew *crew, size_t bundle, size_t next, bool look)
{
    const struct walk *w = &crew->walk;
    struct bundle *b = &crew->bundles[bundle];
    size_t from = first_of(crew, bundle), to = first_of(crew, bundle + 1);
    bool squares = look || w->rule == BARKER_CORRECTED;
    if (crew->linear != NULL)
        sum_at_once(crew, bundle, next, squares);
    for (size_t at = from, lane = 0; at < to; at++, lane += w->slots) {
        if (crew->linear == NULL)
            sum_each(w, b, lane, crew->chains[at], squares);
        if (look)
            look_at_noise(w, b, lane, crew->chains[at]);
    }
}

/* The rows of the next bundle are on their way while this one works: asked for at once, or bit by
 * bit by the kernel that sums. `drawn`: those of the first are known; `again`: the next iteration
 * will want some. */
static void sum_rows(struct crew *crew, bool drawn, bool again, bool look)
{
    size_t last = crew->bundle_count - 1;
    if (!drawn)
        draw_rows(crew, 0, true);
    for (size_t k = 0; k <= last; k++) {
        size_t next = k < last ? k + 1 : 0;
        bool more = last > 0 && (k < last || again);
        if (more)
            draw_rows(crew, next, false);
        sum_terms(crew, k, more && !crew->near ? next : k, look);
    }
}

/* What an iteration is to do beside moving: weigh its rows, if it has any, and count. */
static void plan_iteration(struct crew *crew, double weight)
{
    struct walk *w = &crew->walk;
    w->scale = weight * crew->scale;
    w->idle = weight == 0.0;
    w->beta = w->idle ? 0.0 : crew->beta;
    w->moments = --crew->until_moments == 0;
    if (w->moments)
        crew->until_moments = crew->chains[0]->moments_every;
    walk_on(w);
}

static bool walk_by_rows(struct crew *crew, uint64_t n, bool look)
{
    struct walk *w = &crew->walk;
    const struct gradient *source = &crew->chains[0]->source;
    double weight = gradient_weight(source, w->t, look), next;
    bool drawn = false, well = true;
    for (uint64_t t = 1; t <= n && well; t++, weight = next, look = false) {
        next = t < n ? gradient_weight(source, w->t + t, false) : 0.0;
        plan_iteration(crew, weight);
        if (weight > 0.0)
            sum_rows(crew, drawn, next > 0.0, look);
        for (size_t k = 0; weight == 0.0 && k < crew->bundle_count; k++)
            take_fixed(crew, k);
        drawn = crew->bundle_count > 1 && weight > 0.0 && next > 0.0;
        well = kernels->bundle_step(w, crew->bundles, crew->bundle_count);
    }
    w->t += n;
    return well;
}

static void keep_draw(struct crew *crew, size_t at, size_t draw)
{
    const struct walk *w = &crew->walk;
    struct chain *c = crew->chains[at];
    const struct bundle *b = &crew->bundles[at / crew->per_bundle];
    const double *theta = b->theta + at % crew->per_bundle * w->slots;
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

static bool known_walk(struct crew *crew, uint64_t n, bool look)
{
    for (size_t at = 0; look && at < crew->count; at++)
        crew->chains[at]->tau[0] = crew->walk.target->noise_sd;
    return kernels->bundle_walk(&crew->walk, crew->bundles, crew->bundle_count, n);
}

static void forget(struct crew *crew)
{
    for (size_t at = 0; crew->walk.target == NULL && at < crew->count; at++)
        crew->chains[at]->rng[RNG_BATCH] = crew->batch[at];
}

/* `n` quiet iterations; false, with the chains as they were, when a gradient was NaN. */
static bool walk(struct crew *crew, uint64_t n)
{
    uint64_t thin = crew->chains[0]->config.thin, from = crew->chains[0]->head->iteration;
    size_t draws = 0;
    for (uint64_t done = 0, turn; done < n; done += turn) {
        uint64_t next = thin - (from + done) % thin;
        bool look = crew->look && done == 0, known = crew->walk.target != NULL;
        turn = next < n - done ? next : n - done;
        if (!(known ? known_walk(crew, turn, look) : walk_by_rows(crew, turn, look))) {
            forget(crew);
            return false;
        }
        for (size_t at = 0; turn == next && at < crew->count; at++)
            keep_draw(crew, at, draws);
        draws += turn == next;
    }
    for (size_t at = 0; at < crew->count; at++)
        unpack_chain(crew, at, n, draws);
    return true;
}

/* ---- chains that stand at the same place ---- */

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

/* What comes next when it is not quiet: a single iteration, or all that adapt the step size. */
static uint64_t special(const struct chain *c)
{
    bool adapts = c->config.step.kind == STEP_AUTO && chain_in_warmup(c);
    return adapts ? c->config.warmup - c->head->iteration : 1;
}

static uint64_t advance_together(struct chain **chains, size_t count, uint64_t n)
{
    struct crew crew;
    uint64_t all = 0;
    for (uint64_t left = n, turn, done; left > 0; left -= turn) {
        count = keep_active(chains, count);
        if (count == 0)
            break;
        uint64_t quiet = chain_quiet(chains[0]);
        turn = quiet > 0 ? quiet : special(chains[0]);
        turn = turn < left ? turn : left;
        if (quiet > 0)
            pack(&crew, chains, count);
        if (quiet > 0 && walk(&crew, turn))
            done = turn * count;
        else
            done = advance_each(chains, count, turn);
        all += done;
        if (done == 0)
            break;
    }
    return all;
}

/* Rows from far away are most of an iteration, and a chain by itself asks for the next ones sooner:
 * unless there are but a few of them, and others to share the moves with. */
#define MANY_SHORT 100 /* rows that share lines, of a batch; long ones: AHEAD_ROWS */

static bool better_alone(const struct chain *c, size_t members)
{
    const struct linear *l = c->source.model->linear;
    if (c->source.ahead == NULL)
        return false;
    return members == 1 ||
           c->source.batch.n >= (dataset_short_rows(l->data) ? MANY_SHORT : AHEAD_ROWS);
}

#define WINDOW 256 /* chains that are sorted at a time */

/* Chains `from` on that stand where that one does. */
static uint64_t advance_crew(struct chain **chains, size_t count, size_t from, bool *done,
                             uint64_t n)
{
    struct chain *crew[CREW];
    size_t most = BUNDLES * (BUNDLE_LANES / slots_of(chains[from])), members = 0;
    for (size_t k = from; k < count && members < most; k++) {
        if (done[k] || !same_place(chains[from], chains[k]))
            continue;
        crew[members++] = chains[k];
        done[k] = true;
    }
    return better_alone(chains[from], members) ? advance_each(crew, members, n)
                                               : advance_together(crew, members, n);
}

static uint64_t advance_window(struct chain **chains, size_t count, uint64_t n)
{
    bool done[WINDOW] = {false};
    uint64_t all = 0;
    for (size_t k = 0; k < count; k++) {
        if (done[k])
            continue;
        all +=
            fits(chains[k]) ? advance_crew(chains, count, k, done, n) : chain_advance(chains[k], n);
    }
    return all;
}

uint64_t lockstep_advance(struct chain **chains, size_t count, uint64_t n)
{
    uint64_t all = 0;
    for (size_t from = 0; from < count; from += WINDOW)
        all += advance_window(chains + from, count - from < WINDOW ? count - from : WINDOW, n);
    return all;
}
