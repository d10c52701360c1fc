/* A chain is a value: however it is cut into slices, saved, loaded, run beside others or extended,
 * every sampler (with every combination of its choices) on every model gives the same bytes. Loops
 * over the registries: a new sampler or model is covered without an edit. */
#include "tests/statistical/resume_fixture.h"

/* The k-th combination of the choices in a sampler's table; false when there are no more. */
static bool choose(struct chain_config *config, size_t k, char *name, size_t size)
{
    struct setting s = {.sampler = config->sampler};
    bool any = setting_choose(&s, k);
    memcpy(config->params, s.params, sizeof config->params);
    snprintf(name, size, "%s", s.name);
    return any;
}

typedef void check(struct combination *c);

/* Every sampler x choices x kind of step x model. */
static void for_all(check *fn, bool all_steps)
{
    static const struct {
        enum step_kind kind;
        bool per_coordinate;
    } steps[] = {
        {STEP_AUTO, false}, {STEP_CONSTANT, true}, {STEP_SCHEDULE, false}, {STEP_CONSTANT, false}};

    for (size_t m = 0; m < model_count; m++) {
        struct fixture f;
        fixture_model(models[m], m % 2 ? PRECISION_SINGLE : PRECISION_DOUBLE, &f);
        for (size_t s = 0; s < sampler_count; s++)
            for (size_t k = 0;; k++) {
                static struct combination c;
                base_config(&c, samplers[s], f.model);
                if (!choose(&c.config, k, c.name, sizeof(c.name)))
                    break;
                strcat(c.name, " on ");
                strcat(c.name, models[m]->name);
                for (size_t i = 0; i < (all_steps ? 4 : 1); i++) {
                    if (steps[i].kind == STEP_SCHEDULE && !samplers[s]->schedule)
                        continue;
                    set_step(&c, steps[i].kind, steps[i].per_coordinate);
                    fn(&c);
                }
            }
        fixture_release(&f);
    }
}

static void sliced_is_whole(struct combination *c)
{
    struct record whole = {0}, sliced = {0};

    run_whole(&c->config, &whole);
    cr_expect(whole.status == CHAIN_DONE || !c->config.sampler->bounded,
              "%s: stopped, which a bounded sampler cannot", c->name);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run_sliced(&c->config, seed, &sliced);
        expect_same(&whole, &sliced, c->name);
        record_free(&sliced);
    }
    record_free(&whole);
}

Test(resume, any_slicing_with_save_and_load_gives_the_same_bytes)
{
    for_all(sliced_is_whole, true);
}

/* Draw k is the state after iteration (k+1) thin, and moments are those of all iterations after
 * warm-up, whatever is kept. */
static void thinning_keeps_every_third(struct combination *c)
{
    struct record every = {0}, third = {0};
    size_t d = c->config.model->d, skip = WARMUP * d;
    double tolerance = 1e-9;

    c->config.save = NULL;
    c->config.save_count = 0;
    run_whole(&c->config, &third);
    c->config.thin = 1;
    run_whole(&c->config, &every);
    cr_assert_eq(third.draw_count, every.draw_count / d / 3 * d, "%s", c->name);
    for (size_t k = 0; k < third.draw_count / d; k++)
        cr_assert_eq(memcmp(third.draws + k * d, every.draws + (3 * k + 2) * d, d * sizeof(double)),
                     0, "%s: draw %zu is not the state after iteration %zu", c->name, k, 3 * k + 3);
    for (size_t j = 0; every.status == CHAIN_DONE && j < d; j++) {
        double mean = 0, square = 0;
        for (size_t i = skip + j; i < every.draw_count; i += d)
            mean += every.draws[i] / ITERATIONS;
        for (size_t i = skip + j; i < every.draw_count; i += d)
            square += (every.draws[i] - mean) * (every.draws[i] - mean) / (ITERATIONS - 1);
        cr_assert_float_eq(third.mean[j], mean, tolerance * (1 + fabs(mean)), "%s", c->name);
        cr_assert_float_eq(third.variance[j], square, tolerance * (1 + square + mean * mean), "%s",
                           c->name);
    }
    record_free(&every);
    record_free(&third);
}

Test(resume, thinning_and_moments_are_those_of_the_same_chain)
{
    for_all(thinning_keeps_every_third, false);
}

static void with_replacement(struct combination *c)
{
    c->config.replacement = true;
    c->config.thin = 1;
    c->config.save = NULL;
    c->config.save_count = 0;
    if (!c->config.sampler->exact)
        sliced_is_whole(c);
}

Test(resume, holds_with_replacement_and_without_thinning)
{
    for_all(with_replacement, false);
}

/* A chain that ended and is loaded with more iterations is the chain that was long from the start.
 */
static void extended_is_long(struct combination *c)
{
    struct record whole = {0}, extended = {0};
    struct chain_config shorter = c->config;

    run_whole(&c->config, &whole);
    shorter.iterations = ITERATIONS / 3;
    struct chain *chain = toy_chain(&shorter);
    while (chain_status(chain) == CHAIN_ACTIVE) {
        chain_advance(chain, 50);
        collect(chain, &extended);
    }
    cr_assert_eq(chain_advance(chain, 10), 0, "a chain that is done goes on");
    chain = reload(chain, &shorter);
    cr_assert_neq(chain_status(chain), CHAIN_ACTIVE);
    chain = reload(chain, &c->config);
    while (chain_status(chain) == CHAIN_ACTIVE) {
        chain_advance(chain, 50);
        collect(chain, &extended);
    }
    finish(chain, &extended, c->config.model->d);
    chain_free(chain);
    expect_same(&whole, &extended, c->name);
    record_free(&whole);
    record_free(&extended);
}

Test(resume, an_extended_run_equals_one_that_was_long_from_the_start)
{
    for_all(extended_is_long, false);
}

/* Four chains one after the other, then in turns, then each on its own thread. */
#define CHAINS 4

struct thread {
    pthread_t id;
    struct chain *chain;
    struct record record;
    size_t d;
};

static void *run_thread(void *context)
{
    struct thread *t = context;

    while (chain_status(t->chain) == CHAIN_ACTIVE) {
        chain_advance(t->chain, 11);
        collect(t->chain, &t->record);
    }
    finish(t->chain, &t->record, t->d);
    return NULL;
}

static void threads_change_nothing(struct combination *c)
{
    struct record alone[CHAINS] = {0};
    struct thread threads[CHAINS] = {0};

    for (uint32_t k = 0; k < CHAINS; k++) {
        struct chain_config config = c->config;
        config.chain = k + 1;
        run_whole(&config, &alone[k]);
        threads[k].chain = toy_chain(&config);
        threads[k].d = config.model->d;
    }
    for (size_t k = CHAINS; k-- > 0;)
        cr_assert_eq(pthread_create(&threads[k].id, NULL, run_thread, &threads[k]), 0);
    for (size_t k = 0; k < CHAINS; k++)
        pthread_join(threads[k].id, NULL);
    for (size_t k = 0; k < CHAINS; k++) {
        expect_same(&alone[k], &threads[k].record, c->name);
        if (k > 0 && alone[k].status == CHAIN_DONE)
            cr_assert_neq(memcmp(alone[k].mean, alone[0].mean, alone[0].d * sizeof(double)), 0,
                          "%s: two chains are the same", c->name);
    }
    for (size_t k = 0; k < CHAINS; k++) {
        record_free(&alone[k]);
        record_free(&threads[k].record);
        chain_free(threads[k].chain);
    }
}

Test(resume, neither_threads_nor_other_chains_change_a_chain)
{
    for_all(threads_change_nothing, false);
}

/* With fused multiply-adds each gives the bytes of the truth; without, at least its own again, in
 * slices and whole. */
static void every_isa_is_the_same(struct combination *c)
{
    struct record first = {0}, other = {0};

    cr_assert(kernels_choose(truth()->isa));
    run_whole(&c->config, &first);
    for (const struct kernels *const *isa = kernels_available(); *isa != NULL; isa++) {
        cr_assert(kernels_choose((*isa)->isa));
        if (!has_the_bits_of_the_truth(*isa)) {
            sliced_is_whole(c);
        } else if (*isa != truth()) {
            run_whole(&c->config, &other);
            expect_same(&first, &other, (*isa)->isa);
            record_free(&other);
        }
    }
    record_free(&first);
}

Test(resume, every_instruction_set_gives_the_same_bytes)
{
    for_all(every_isa_is_the_same, true);
}

/* Every sampler x choices x model, seen in a frame, with control variates and without. */
static void for_all_views(check *fn, bool dense, bool control)
{
    for (size_t m = 0; m < model_count; m++) {
        static struct combination c;
        struct fixture f;
        struct model *view;
        fixture_model(models[m], m % 2 ? PRECISION_DOUBLE : PRECISION_SINGLE, &f);
        if (control && f.model->N == 0) {
            fixture_release(&f);
            continue;
        }
        struct frame *frame = frame_for(f.model, dense);
        cr_assert_eq(view_new(&view, f.model, frame, control, NULL), ERR_OK);
        for (size_t s = 0; s < sampler_count; s++)
            for (size_t k = 0;; k++) {
                base_config(&c, samplers[s], f.model);
                if (!choose(&c.config, k, c.name, sizeof(c.name)))
                    break;
                snprintf(c.name + strlen(c.name), 60, " on a view of %s", models[m]->name);
                c.config.view = view;
                c.config.frame = frame;
                c.config.start.kind = dense ? START_NEAR : START_MAP;
                set_step(&c, STEP_CONSTANT, false);
                fn(&c);
            }
        model_free(view);
        frame_free(frame);
        fixture_release(&f);
    }
}

Test(resume, holds_in_the_coordinates_of_a_frame)
{
    for_all_views(sliced_is_whole, true, false);
    for_all_views(every_isa_is_the_same, true, false);
}

Test(resume, holds_with_control_variates)
{
    for_all_views(sliced_is_whole, false, true);
    for_all_views(sliced_is_whole, true, true);
    for_all_views(every_isa_is_the_same, true, true);
}
