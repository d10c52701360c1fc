/* Lockstep is chain_advance, only sooner: whatever the sampler, the data, the number of chains and
 * the slices, on every instruction set, every byte is the same. */
#include "core/chain/chain_batch.h"
#include "core/kernels/kernels.h"
#include "core/model/view.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define COUNT(a)         (sizeof(a) / sizeof((a)[0]))
#define MOST_CHAINS      70
#define ROWS             300
#define KINDS            23 /* of rows that repeat themselves */
#define MOST_COORDINATES 18

enum coordinates { USERS, SHIFTED, DENSE, CONTROLLED }; /* the last: dense, with control variates */

struct job {
    const char *model;
    size_t d, n, chains;
    size_t rows;     /* 0: ROWS */
    uint32_t one_in; /* iterations have a minibatch; 0: all */
    enum precision precision;
    enum coordinates coordinates;
    double variant, noise; /* of sgbd */
    bool replacement, step_auto;
    uint64_t warmup, iterations, thin, metric_every;
    size_t capacity;
    bool some;     /* two coordinates are kept */
    bool repeat;   /* rows come again and again */
    bool infinite; /* a row is */
    bool head;     /* some rows matter so much that every estimate has them */
};

/* What a job samples. */
struct scene {
    struct dataset train, test;
    struct model *model, *view;
    struct frame *frame;
};

static void scene_view(struct scene *s, const struct job *job)
{
    double centre[16], A[16 * 16] = {0};
    struct err_info info;
    size_t d = s->model->d;
    for (size_t j = 0; j < d; j++) {
        centre[j] = 0.1 * (double)j - 0.15;
        for (size_t k = 0; k <= j; k++)
            A[j * d + k] = j == k ? 0.2 + 0.02 * (double)j : 0.03 * (double)(k + 1);
    }
    cr_assert_eq(frame_new(&s->frame, d, centre, job->coordinates == SHIFTED ? NULL : A, d, &info),
                 ERR_OK, "%s", info.message);
    cr_assert_eq(view_new(&s->view, s->model, s->frame, job->coordinates == CONTROLLED, &info),
                 ERR_OK, "%s", info.message);
}

static void repeat_row(struct dataset *data, size_t from, size_t to)
{
    for (size_t j = 0; j < data->columns; j++)
        fixture_set(data, to, j, fixture_get(data, from, j));
    fixture_set_y(data, to, data->y[from]);
}

static void scene_init(struct scene *s, const struct job *job)
{
    const struct model_type *type = model_find(job->model);
    bool data = type->data == DATA_REGRESSION;
    double params[PARAM_MAX];
    struct err_info info;
    *s = (struct scene){0};
    if (data) {
        fixture_rows(&s->train, DATA_REGRESSION, job->precision, job->rows > 0 ? job->rows : ROWS,
                     job->d, 2385);
        fixture_rows(&s->test, DATA_REGRESSION, job->precision, 23, job->d, 1702);
    }
    for (size_t i = KINDS; job->repeat && i < ROWS; i++)
        repeat_row(&s->train, i % KINDS, i);
    for (size_t j = 0; job->infinite && j < job->d; j++)
        fixture_set(&s->train, 123, j, INFINITY);
    for (size_t i = 50; job->head && i < ROWS; i += 80)
        for (size_t j = 0; j < job->d; j++)
            fixture_set(&s->train, i, j, 12.0 * fixture_get(&s->train, i, j));
    param_defaults(type->params, params);
    if (!data)
        params[0] = strcmp(job->model, "skew_normal") == 0 ? 2.385 : 0.0;
    cr_assert_eq(
        type->init(&s->model, params, data ? &s->train : NULL, data ? &s->test : NULL, &info),
        ERR_OK, "%s", info.message);
    if (job->coordinates != USERS)
        scene_view(s, job);
}

static void scene_release(struct scene *s)
{
    if (s->view != NULL)
        model_free(s->view);
    frame_free(s->frame);
    model_free(s->model);
    fixture_data_release(&s->train);
    fixture_data_release(&s->test);
}

static struct chain_config config_of(const struct scene *s, const struct job *job, size_t number)
{
    static const uint32_t some[] = {0, 2};
    struct chain_config c = {.model = s->model,
                             .view = s->view,
                             .frame = s->frame,
                             .sampler = &sampler_sgbd,
                             .step = {.kind = job->step_auto ? STEP_AUTO : STEP_CONSTANT,
                                      .value = 0.2385,
                                      .fraction = 0.2},
                             .batch_size = job->n,
                             .replacement = job->replacement,
                             .one_in = job->one_in,
                             .seed = 7,
                             .chain = (uint32_t)number + 1,
                             .warmup = job->warmup,
                             .iterations = job->iterations,
                             .thin = job->thin,
                             .save = job->some ? some : NULL,
                             .save_count = job->some ? 2 : 0,
                             .metric_every = job->metric_every,
                             .start = {.kind = START_PRIOR},
                             .draw_capacity = job->capacity};
    param_defaults(sampler_sgbd.params, c.params);
    c.params[param_find(sampler_sgbd.params, "variant")] = job->variant;
    c.params[param_find(sampler_sgbd.params, "noise")] = job->noise;
    return c;
}

/* Everything that a chain has shown, in few numbers. */
struct trace {
    uint64_t draws, values, times, metrics, end;
};

static void add_bytes(uint64_t *digest, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i++)
        *digest = (*digest ^ p[i]) * 0x100000001b3ULL;
}

static void collect(struct chain *chain, struct trace *t)
{
    struct chain_output out;
    chain_output(chain, &out);
    cr_assert(out.draws == 0 || out.first_draw == t->draws, "draw %lu instead of %lu",
              (unsigned long)out.first_draw, (unsigned long)t->draws);
    t->draws += out.draws;
    add_bytes(&t->values, out.values, out.draws * out.width * sizeof(double));
    add_bytes(&t->times, out.metric_iteration, out.metrics * sizeof(uint64_t));
    add_bytes(&t->metrics, out.metric_values, out.metrics * 2 * out.metric_width * sizeof(double));
    chain_drain(chain);
}

/* ... and what it knows at the end. */
static void collect_last(struct chain *chain, size_t d, struct trace *t)
{
    double a[MOST_COORDINATES] = {0}, b[MOST_COORDINATES] = {0};
    size_t size = chain_save_size(chain);
    void *saved = malloc(size);
    collect(chain, t);
    uint64_t numbers[] = {chain_status(chain), chain_iteration(chain), chain_noise(chain, a, b)};
    add_bytes(&t->end, numbers, sizeof numbers);
    add_bytes(&t->end, a, sizeof a);
    add_bytes(&t->end, b, sizeof b);
    add_bytes(&t->end, chain_theta(chain), d * sizeof(double));
    chain_save(chain, saved);
    add_bytes(&t->end, saved, size);
    free(saved);
}

static struct chain *new_chain(const struct scene *s, const struct job *job, size_t number)
{
    struct chain_config config = config_of(s, job, number);
    struct chain *chain;
    struct err_info info;
    cr_assert_eq(chain_new(&chain, &config, &info), ERR_OK, "%s", info.message);
    return chain;
}

static void run_alone(const struct scene *s, const struct job *job, size_t number, struct trace *t)
{
    struct chain *chain = new_chain(s, job, number);
    while (chain_status(chain) == CHAIN_ACTIVE) {
        chain_advance(chain, UINT64_MAX);
        collect(chain, t);
    }
    collect_last(chain, s->model->d, t);
    chain_free(chain);
}

static struct chain *reload(const struct scene *s, const struct job *job, size_t number,
                            struct chain *chain)
{
    struct chain_config config = config_of(s, job, number);
    struct err_info info;
    size_t size = chain_save_size(chain);
    void *saved = malloc(size);
    chain_save(chain, saved);
    chain_free(chain);
    cr_assert_eq(chain_load(&chain, &config, saved, size, &info), ERR_OK, "%s", info.message);
    free(saved);
    return chain;
}

static bool any_active(struct chain **chains, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (chain_status(chains[k]) == CHAIN_ACTIVE)
            return true;
    return false;
}

/* In slices of many lengths; one chain is ahead of the others, and now and then one comes back from
 * storage. */
static void run_together(const struct scene *s, const struct job *job, struct trace *t)
{
    static const uint64_t slices[] = {1, 2, 37, 300, 5, 255, 256, 257, 1000};
    struct chain *chains[MOST_CHAINS];
    for (size_t k = 0; k < job->chains; k++)
        chains[k] = new_chain(s, job, k);
    if (job->chains > 2)
        chain_advance(chains[1], 3);
    for (size_t turn = 0; any_active(chains, job->chains); turn++) {
        uint64_t before = 0, after = 0;
        for (size_t k = 0; k < job->chains; k++)
            before += chain_iteration(chains[k]);
        uint64_t done = chain_batch_advance(chains, job->chains, slices[turn % COUNT(slices)]);
        for (size_t k = 0; k < job->chains; k++) {
            after += chain_iteration(chains[k]);
            collect(chains[k], &t[k]);
        }
        cr_assert_eq(done, after - before);
        size_t k = turn % job->chains;
        if (turn % 3 == 1)
            chains[k] = reload(s, job, k, chains[k]);
    }
    for (size_t k = 0; k < job->chains; k++) {
        collect_last(chains[k], s->model->d, &t[k]);
        chain_free(chains[k]);
    }
}

static void expect_same(const struct job *job)
{
    struct scene s;
    scene_init(&s, job);
    cr_assert(!job->head || s.view->fixed_terms > 0, "d %zu: no row matters enough", job->d);
    for (const struct kernels *const *isa = kernels_available(); *isa != NULL; isa++) {
        struct trace alone[MOST_CHAINS] = {0}, together[MOST_CHAINS] = {0};
        cr_assert(kernels_choose((*isa)->isa));
        for (size_t k = 0; k < job->chains; k++)
            run_alone(&s, job, k, &alone[k]);
        run_together(&s, job, together);
        for (size_t k = 0; k < job->chains; k++)
            cr_assert(memcmp(&alone[k], &together[k], sizeof alone[k]) == 0,
                      "%s, %s d %zu n %zu, variant %g, noise %g, coordinates %d, thin %lu: chain "
                      "%zu of %zu",
                      (*isa)->isa, job->model, job->d, job->n, job->variant, job->noise,
                      (int)job->coordinates, (unsigned long)job->thin, k + 1, job->chains);
    }
    scene_release(&s);
}

static struct job logistic_job(void)
{
    return (struct job){.model = "logistic",
                        .d = 4,
                        .n = 30,
                        .chains = 5,
                        .warmup = 20,
                        .iterations = 600,
                        .thin = 10,
                        .capacity = 1000};
}

Test(chain_batch, every_variant_and_law_of_the_jump_gives_the_same_bytes)
{
    for (int variant = 0; variant < 3; variant++)
        for (int noise = 0; noise < 2; noise++)
            for (int toy = 0; toy < 3; toy++) {
                static const char *const names[] = {"logistic", "skew_normal", "noisy_normal"};
                struct job job = logistic_job();
                job.model = names[toy];
                job.d = toy > 0 ? 1 : 4;
                job.n = toy > 0 ? 0 : 30;
                job.chains = toy > 0 ? 19 : 6;
                job.variant = variant;
                job.noise = noise;
                expect_same(&job);
            }
}

/* Rows of more than 16 MB, whose batches a chain draws ahead: side by side where they are small,
 * one by one where they are not, and the second chain by itself until it is where the others are.
 */
Test(chain_batch, rows_from_far_away_give_the_same_bytes)
{
    static const struct {
        size_t rows, d, n;
    } cases[] = {{280000, 12, 8}, {280000, 12, 200}, {1100000, 4, 30}, {1100000, 4, 200}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct job job = logistic_job();
        job.rows = cases[c].rows;
        job.d = cases[c].d;
        job.n = cases[c].n;
        job.variant = (double)(c % 2);
        job.iterations = 150;
        expect_same(&job);
    }
}

Test(chain_batch, every_number_of_coordinates_gives_the_same_bytes)
{
    for (size_t d = 1; d <= MOST_COORDINATES; d++)
        for (int precision = 0; precision < 2; precision++) {
            struct job job = logistic_job();
            job.d = d;
            job.variant = (double)(d % 2);
            job.precision = precision == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE;
            job.iterations = 300;
            expect_same(&job);
        }
}

Test(chain_batch, every_number_of_chains_gives_the_same_bytes)
{
    for (size_t chains = 1; chains <= 20; chains++) {
        struct job job = logistic_job();
        job.chains = chains;
        job.iterations = 300;
        expect_same(&job);
    }
    static const size_t many[] = {1, 2, 15, 16, 17, 64, 70};
    for (size_t i = 0; i < COUNT(many); i++) {
        struct job job = logistic_job();
        job.model = "skew_normal";
        job.d = 1;
        job.n = 0;
        job.chains = many[i];
        expect_same(&job);
    }
}

Test(chain_batch, every_batch_gives_the_same_bytes)
{
    static const size_t sizes[] = {1, 2, 10, 16, 17, 64, 100, 149, 151, 299, 300};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int replacement = 0; replacement < 2; replacement++) {
            struct job job = logistic_job();
            job.n = sizes[i];
            job.variant = sizes[i] > 1 && i % 2 == 0 ? 1.0 : 0.0;
            job.replacement = replacement == 1;
            job.iterations = 290;
            expect_same(&job);
        }
}

/* With short rows and long ones, in both precisions, and whoever adds the fixed part. */
Test(chain_batch, iterations_without_rows_give_the_same_bytes)
{
    static const uint32_t one_in[] = {2, 5, 16, 128};
    static const size_t d[] = {1, 4, 7, 16};
    for (size_t i = 0; i < COUNT(one_in); i++)
        for (enum coordinates c = USERS; c <= CONTROLLED; c++)
            for (int variant = 0; variant < 3; variant++) {
                struct job job = logistic_job();
                job.one_in = one_in[i];
                job.coordinates = c;
                job.variant = variant;
                job.d = d[(i + (size_t)variant) % COUNT(d)];
                job.precision = (i + c) % 2 == 0 ? PRECISION_SINGLE : PRECISION_DOUBLE;
                job.chains = 1 + (i + c) % 2 * 8;
                job.iterations = 290;
                expect_same(&job);
            }
}

Test(chain_batch, every_frame_gives_the_same_bytes)
{
    static const size_t d[] = {1, 2, 3, 4, 5, 8, 11, 16};
    for (enum coordinates c = SHIFTED; c <= CONTROLLED; c++)
        for (size_t i = 0; i < COUNT(d); i++) {
            struct job job = logistic_job();
            job.coordinates = c;
            job.d = d[i];
            job.variant = (double)(i % 2);
            job.iterations = 300;
            expect_same(&job);
        }
    struct job toy = logistic_job();
    toy.model = "skew_normal";
    toy.d = 1;
    toy.n = 0;
    toy.coordinates = DENSE;
    expect_same(&toy);
}

Test(chain_batch, rows_that_repeat_themselves_give_the_same_bytes)
{
    static const size_t d[] = {2, 4, 6, 8, 16};
    for (enum coordinates c = SHIFTED; c <= CONTROLLED; c++)
        for (size_t i = 0; i < COUNT(d); i++) {
            struct job job = logistic_job();
            job.coordinates = c;
            job.d = d[i];
            job.variant = (double)(i % 2);
            job.iterations = 300;
            job.repeat = true;
            expect_same(&job);
        }
}

Test(chain_batch, rows_that_every_estimate_has_give_the_same_bytes)
{
    static const size_t d[] = {2, 4, 6, 8, 16};
    for (int precision = 0; precision < 2; precision++)
        for (int repeat = 0; repeat < 2; repeat++)
            for (size_t i = 0; i < COUNT(d); i++) {
                struct job job = logistic_job();
                job.coordinates = CONTROLLED;
                job.precision = precision ? PRECISION_DOUBLE : PRECISION_SINGLE;
                job.d = d[i];
                job.n = i % 2 == 0 ? 30 : 16;
                job.one_in = i % 2 == 0 ? 0 : 7;
                job.variant = (double)(i % 2);
                job.iterations = 300;
                job.repeat = repeat;
                job.head = true;
                expect_same(&job);
            }
}

Test(chain_batch, thinning_buffers_metrics_and_adaptation_give_the_same_bytes)
{
    static const struct {
        uint64_t warmup, thin, metric_every;
        size_t capacity;
        bool step_auto, some;
    } cases[] = {
        {0, 1, 0, 1000, false, false}, {0, 1, 0, 7, false, true},
        {50, 3, 0, 2, false, false},   {0, 7, 10, 5, false, false},
        {33, 2, 1, 9, false, true},    {200, 10, 0, 100, true, false},
        {200, 4, 50, 3, true, true},   {0, 1000, 0, 1, false, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int variant = 0; variant < 2; variant++) {
            struct job job = logistic_job();
            job.warmup = cases[i].warmup;
            job.thin = cases[i].thin;
            job.metric_every = cases[i].metric_every;
            job.capacity = cases[i].capacity;
            job.step_auto = cases[i].step_auto;
            job.some = cases[i].some;
            job.variant = variant;
            expect_same(&job);
        }
}

/* A row of infinite covariates makes a gradient NaN as soon as it is drawn. */
Test(chain_batch, a_chain_that_diverges_stops_where_it_would_alone_and_the_others_go_on)
{
    struct job job = logistic_job();
    struct trace alone[MOST_CHAINS] = {0}, together[MOST_CHAINS] = {0};
    struct scene s;
    size_t diverged = 0;
    job.chains = 9;
    job.n = 2;
    job.iterations = 250;
    job.infinite = true;
    scene_init(&s, &job);
    for (size_t k = 0; k < job.chains; k++)
        run_alone(&s, &job, k, &alone[k]);
    run_together(&s, &job, together);
    for (size_t k = 0; k < job.chains; k++) {
        struct chain *chain = new_chain(&s, &job, k);
        chain_advance(chain, UINT64_MAX);
        diverged += chain_status(chain) == CHAIN_DIVERGED;
        chain_free(chain);
        cr_expect(memcmp(&alone[k], &together[k], sizeof alone[k]) == 0, "chain %zu", k + 1);
    }
    cr_assert(diverged > 1 && diverged < job.chains, "%zu of %zu", diverged, job.chains);
    scene_release(&s);
}
