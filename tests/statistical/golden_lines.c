/* What the golden draws are made of: combinations of samplers, models and coordinates with fixed
 * seeds, and hashes of their draws, moments, metrics and plans. */
#include "tests/statistical/golden_lines.h"

#include "core/chain/chain_batch.h"
#include "core/plan/plan.h"
#include "core/model/view.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHAINS     3 /* behind each hash */
#define WARMUP     120
#define ITERATIONS 130
#define RANK       2 /* of a factorization: dense frames cost the square of its parameters */
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

static const struct run runs[] = {
    {2385, PRECISION_DOUBLE, STEP_CONSTANT, START_MAP, false, 1, false, true},
    {1702, PRECISION_SINGLE, STEP_AUTO, START_PRIOR, false, 1, false, false},
    {3141, PRECISION_DOUBLE, STEP_SCHEDULE, START_ZERO, true, 3, true, true},
};

static const struct coordinates {
    const char *name;
    bool frame, dense, control;
} coordinates[] = {
    {"plain", false, false, false},
    {"whitened", true, true, false},
    {"control", true, false, true},
    {"both", true, true, true},
};

static const struct asked {
    const char *name, *sampler;
    enum plan_estimator estimator;
    enum plan_centre centre;
    enum plan_precondition precondition;
    double sigma; /* 0: the plan chooses it, which takes most of its time */
} plans[] = {
    {"auto", "sgbd", ESTIMATOR_AUTO, CENTRE_MODE, PRECONDITION_AUTO, 0},
    {"pilot", "sgld", ESTIMATOR_CONTROL, CENTRE_PILOT, PRECONDITION_DENSE, 0.4},
    {"diagonal", "barker_mh", ESTIMATOR_PLAIN, CENTRE_MODE, PRECONDITION_DIAGONAL, 0.4},
};

/* ---- what is sampled ---- */

struct scene {
    struct fixture f;
    struct frame *frames[COUNT(coordinates)];
    struct model *views[COUNT(coordinates)]; /* NULL where it is refused */
};

/* Of few digits: what libm rounds otherwise somewhere else does not show. */
static double coarse(double x)
{
    return round(x * 0x1p16) * 0x1p-16;
}

static void coarse_rows(struct dataset *data)
{
    for (size_t i = 0; data->x != NULL && i < data->N; i++)
        for (size_t j = 0; j < data->columns; j++)
            fixture_set(data, i, j, coarse(fixture_get(data, i, j)));
}

static struct frame *some_frame(const struct model *m, bool dense)
{
    size_t d = m->d;
    uint64_t state = 17;
    struct frame *frame;
    struct err_info info;
    double *centre = fixture_point(m, 3), *A = fixture_array(d * d);
    for (size_t j = 0; j < d; j++) {
        centre[j] = coarse(centre[j]);
        for (size_t k = 0; k <= j; k++)
            A[j * d + k] = j == k ? 0.2 + 0.3 * fixture_uniform(&state)
                                  : 0.1 * (fixture_uniform(&state) - 0.5);
    }
    /* A scale at the end stands by itself, as regressions want it. */
    for (size_t k = 0; m->blocks[m->block_count - 1].rank == 0 && k + 1 < d; k++)
        A[(d - 1) * d + k] = 0;
    cr_assert_eq(frame_new(&frame, d, centre, dense ? A : NULL, d, &info), ERR_OK, "%s",
                 info.message);
    free(centre);
    free(A);
    return frame;
}

static void scene_init(struct scene *s, const struct model_type *type, enum precision precision)
{
    struct err_info info;
    *s = (struct scene){0};
    size_t rank = param_find(type->params, "rank");
    param_defaults(type->params, s->f.params);
    if (rank < type->params.count)
        s->f.params[rank] = RANK;
    fixture_data(&s->f, type->data, precision);
    coarse_rows(&s->f.train);
    coarse_rows(&s->f.test);
    fixture_init(&s->f, type);
    for (size_t k = 0; k < COUNT(coordinates); k++) {
        if (!coordinates[k].frame)
            continue;
        s->frames[k] = some_frame(s->f.model, coordinates[k].dense);
        enum err code =
            view_new(&s->views[k], s->f.model, s->frames[k], coordinates[k].control, &info);
        cr_assert(code == ERR_OK || code == ERR_UNSUPPORTED, "%s: %s", type->name, info.message);
        if (code != ERR_OK)
            s->views[k] = NULL;
    }
}

static void scene_release(struct scene *s)
{
    for (size_t k = 0; k < COUNT(coordinates); k++) {
        if (s->views[k] != NULL)
            model_free(s->views[k]);
        frame_free(s->frames[k]);
    }
    fixture_release(&s->f);
}

/* ---- lines of the file ---- */

/* Names of the choices of `variant`, NULL-terminated; a sampler without them has the one "-". */
static const char *const *variants_of(const struct sampler_type *sampler)
{
    static const char *const none[] = {"-", NULL};
    size_t at = param_find(sampler->params, "variant");
    return at < sampler->params.count ? sampler->params.specs[at].choices : none;
}

static void call(visit *fn, void *ctx, struct line *line, const char *first, const char *second,
                 const char *where)
{
    int n = snprintf(line->key, KEY_SIZE, "%s %s %s %s %" PRIu64, first, second,
                     line->scene->f.model->type->name, where, line->run->seed);
    cr_assert_lt(n, KEY_SIZE);
    fn(line, ctx);
}

static void every_sampler(struct line *line, visit *fn, void *ctx)
{
    for (size_t k = 0; k < COUNT(coordinates); k++)
        for (size_t s = 0; s < sampler_count; s++) {
            const char *const *names = variants_of(samplers[s]);
            line->coordinates = k;
            line->sampler = samplers[s];
            for (line->variant = 0; names[line->variant] != NULL; line->variant++)
                call(fn, ctx, line, samplers[s]->name, names[line->variant], coordinates[k].name);
        }
}

void golden_for_all(const struct model_type *type, visit *fn, void *ctx)
{
    for (size_t r = 0; r < COUNT(runs); r++) {
        struct scene scene;
        scene_init(&scene, type, runs[r].precision);
        struct line line = {.scene = &scene, .run = &runs[r]};
        every_sampler(&line, fn, ctx);
        line = (struct line){
            .what = SUMMARY, .scene = &scene, .run = &runs[r], .sampler = &sampler_sgbd};
        call(fn, ctx, &line, "summary", "-", coordinates[0].name);
        for (size_t k = 0; r == 0 && k < COUNT(plans); k++) {
            line =
                (struct line){.what = PLAN, .scene = &scene, .run = &runs[r], .asked = &plans[k]};
            call(fn, ctx, &line, "plan", plans[k].name, "-");
        }
        scene_release(&scene);
    }
}

/* ---- hashes ---- */

#define SEED_OF_HASH 0xcbf29ce484222325ULL /* FNV-1a */

static void add_bytes(uint64_t *hash, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i++)
        *hash = (*hash ^ p[i]) * 0x100000001b3ULL;
}

static void add_number(uint64_t *hash, uint64_t number)
{
    add_bytes(hash, &number, sizeof number);
}

/* A NaN is a NaN: its sign is the compiler's choice. */
static void add_doubles(uint64_t *hash, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double value = isnan(x[i]) ? (double)NAN : x[i];
        add_bytes(hash, &value, sizeof value);
    }
}

static struct chain_config config_of(const struct line *line)
{
    const struct run *run = line->run;
    const struct model *model = line->scene->f.model;
    const struct coordinates *c = &coordinates[line->coordinates];
    struct param_table table = line->sampler->params;
    bool full = model->N == 0 || line->sampler->exact;
    /* Binary moves show a gradient only where steps are large; Langevin ones diverge there. */
    double sigma = (c->dense ? 0.05 : 0.02) * (line->sampler->bounded ? 4 : 1);
    sigma *= model->N == 0 ? 5 : 1;
    struct chain_config config = {
        .model = model,
        .view = line->scene->views[line->coordinates],
        .frame = line->scene->frames[line->coordinates],
        .sampler = line->sampler,
        .step =
            {.kind = run->step, .value = sigma, .t0 = 30, .gamma = 0.55, .fraction = STEP_FRACTION},
        .batch_size = full ? 0 : 7,
        .replacement = run->replacement && !full,
        .one_in = full ? 1 : run->one_in,
        .seed = run->seed,
        .warmup = WARMUP,
        .iterations = ITERATIONS,
        .thin = 3,
        .metric_every = line->what == SUMMARY ? 7 : 0,
        .start = {.kind = c->dense && run->start == START_PRIOR ? START_NEAR : run->start},
    };
    param_defaults(table, config.params);
    for (size_t i = 0; run->other && i < table.count; i++)
        if (table.specs[i].kind == PARAM_CHOICE)
            config.params[i] = table.specs[i].choices[1] != NULL ? 1 : 0;
    size_t at = param_find(table, "variant");
    if (at < table.count)
        config.params[at] = (double)line->variant;
    return config;
}

/* Of draws, or of metrics. */
static void collect(struct chain *chain, enum what what, uint64_t *hash)
{
    struct chain_output out;
    chain_output(chain, &out);
    for (size_t i = 0; what == SUMMARY && i < out.metrics; i++) {
        add_number(hash, out.metric_iteration[i]);
        add_doubles(hash, out.metric_values + i * 2 * out.metric_width, 2 * out.metric_width);
    }
    if (what == DRAWS)
        add_doubles(hash, out.values, out.draws * out.width);
    chain_drain(chain);
}

static void collect_end(struct chain *chain, const struct line *line, uint64_t *hash)
{
    size_t d = line->scene->f.model->d;
    double *x = fixture_array(d), *y = fixture_array(d);
    add_number(hash, (uint64_t)chain_status(chain));
    if (line->what == SUMMARY) {
        add_number(hash, chain_moments(chain, x, y));
        add_doubles(hash, x, d);
        add_doubles(hash, y, d);
        chain_step(chain, x, NULL);
        add_doubles(hash, x, d);
    }
    free(x);
    free(y);
}

static bool active(struct chain **chains)
{
    for (size_t k = 0; k < CHAINS; k++)
        if (chain_status(chains[k]) == CHAIN_ACTIVE)
            return true;
    return false;
}

/* Slices so that chains alone and in lockstep stop at different places. */
static void advance(struct chain **chains, enum way way)
{
    if (way == LOCKSTEP)
        chain_batch_advance(chains, CHAINS, 89);
    for (size_t k = 0; way == ALONE && k < CHAINS; k++)
        chain_advance(chains[k], UINT64_MAX);
}

static uint64_t hash_of_chains(const struct line *line, enum way way)
{
    struct chain_config config = config_of(line);
    struct chain *chains[CHAINS] = {0};
    uint64_t hashes[CHAINS], hash = SEED_OF_HASH;
    struct err_info info;
    if (coordinates[line->coordinates].frame && config.view == NULL)
        return NONE;
    for (uint32_t k = 0; k < CHAINS; k++) {
        config.chain = k + 1;
        enum err code = chain_new(&chains[k], &config, &info);
        cr_assert(code == ERR_OK || (k == 0 && code == ERR_UNSUPPORTED), "%s: %s", line->key,
                  info.message);
        if (code != ERR_OK)
            return NONE;
        hashes[k] = SEED_OF_HASH;
    }
    while (active(chains)) {
        advance(chains, way);
        for (size_t k = 0; k < CHAINS; k++)
            collect(chains[k], line->what, &hashes[k]);
    }
    for (size_t k = 0; k < CHAINS; k++) {
        collect_end(chains[k], line, &hashes[k]);
        add_number(&hash, hashes[k]);
        chain_free(chains[k]);
    }
    return hash;
}

static void add_optional(uint64_t *hash, const double *x, size_t n)
{
    add_number(hash, x != NULL);
    if (x != NULL)
        add_doubles(hash, x, n);
}

/* What chains get of a plan, not what it says about itself. */
static uint64_t hash_of_content(const struct plan *plan)
{
    uint64_t hash = SEED_OF_HASH;
    const uint64_t numbers[] = {plan->d,
                                plan->control,
                                plan->variant,
                                plan->recentred,
                                plan->one_in,
                                (uint64_t)plan->precondition,
                                (uint64_t)plan->step.kind,
                                plan->batch_size,
                                plan->warmup,
                                plan->iterations,
                                plan->thin,
                                (uint64_t)plan->start.kind,
                                plan->frame != NULL};
    add_bytes(&hash, numbers, sizeof numbers);
    add_doubles(&hash, &plan->step.value, 1);
    add_doubles(&hash, &plan->sigma_asked, 1);
    add_optional(&hash, plan->sigma, plan->d);
    add_optional(&hash, plan->start.values, plan->d);
    add_optional(&hash, plan->start.spread, plan->d);
    if (plan->frame != NULL) {
        add_doubles(&hash, plan->frame->centre, plan->d);
        add_optional(&hash, plan->frame->rows, plan->d * padded(plan->d));
    }
    return hash;
}

static uint64_t hash_of_plan(const struct line *line)
{
    const struct asked *asked = line->asked;
    const struct sampler_type *sampler = sampler_find(asked->sampler);
    double params[PARAM_MAX];
    struct err_info info;
    struct plan *plan;
    cr_assert_not_null(sampler, "no sampler %s", asked->sampler);
    param_defaults(sampler->params, params);
    struct plan_request request = {
        .model = line->scene->f.model,
        .sampler = sampler,
        .params = params,
        .variant_open = true,
        .estimator = asked->estimator,
        .centre = asked->centre,
        .precondition = asked->precondition,
        .step = {.kind = asked->sigma > 0 ? STEP_CONSTANT : STEP_AUTO,
                 .value = asked->sigma,
                 .fraction = STEP_FRACTION},
        .batch_size = sampler->exact ? 0 : PLAN_AUTO,
        .warmup = PLAN_AUTO,
        .iterations = PLAN_AUTO,
        .thin = PLAN_AUTO,
        .chains = 4,
        .target = {.ess = 100},
        .seed = line->run->seed,
    };
    enum err code = plan_make(&plan, &request, &info);
    cr_assert(code == ERR_OK || code == ERR_UNSUPPORTED, "%s: %s", line->key, info.message);
    if (code != ERR_OK)
        return NONE;
    uint64_t hash = hash_of_content(plan);
    plan_free(plan);
    return hash;
}

uint64_t golden_hash_of(const struct line *line, enum way way)
{
    return line->what == PLAN ? hash_of_plan(line) : hash_of_chains(line, way);
}
