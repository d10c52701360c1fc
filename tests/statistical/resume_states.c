/* Saved states of chains: damaged ones and those of another configuration are refused. */
#include "tests/statistical/resume_fixture.h"

Test(resume, a_state_of_another_frame_is_refused)
{
    static struct combination c;
    struct fixture f;
    struct err_info info;
    fixture_model(model_find("logistic"), PRECISION_DOUBLE, &f);
    struct frame *shift = frame_for(f.model, false), *dense = frame_for(f.model, true);
    struct model *views[3];
    struct frame *frames[3] = {shift, shift, dense};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(view_new(&views[i], f.model, frames[i], i > 0, NULL), ERR_OK);
    base_config(&c, sampler_find("sgbd"), f.model);
    set_step(&c, STEP_CONSTANT, false);
    param_defaults(c.config.sampler->params, c.config.params);
    for (size_t i = 0; i < 4; i++) {
        c.config.view = i < 3 ? views[i] : NULL;
        c.config.frame = i < 3 ? frames[i] : NULL;
        struct chain *chain = toy_chain(&c.config), *copy = NULL;
        size_t size = chain_save_size(chain);
        void *bytes = malloc(size);
        chain_save(chain, bytes);
        for (size_t k = 0; k < 4; k++) {
            c.config.view = k < 3 ? views[k] : NULL;
            c.config.frame = k < 3 ? frames[k] : NULL;
            enum err e = chain_load(&copy, &c.config, bytes, size, &info);
            cr_expect_eq(e, k == i ? ERR_OK : ERR_CONFLICT, "state %zu with %zu", i, k);
            if (e == ERR_OK)
                chain_free(copy);
        }
        free(bytes);
        chain_free(chain);
    }
    for (size_t i = 0; i < 3; i++)
        model_free(views[i]);
    frame_free(shift);
    frame_free(dense);
    fixture_release(&f);
}

Test(resume, a_diverged_chain_stays_diverged_and_keeps_what_it_had)
{
    static const double slope[1] = {1e306};
    struct toy toy = toy_make(&toy_type, 1);
    toy.slope = slope;
    struct chain_config config = toy_config(&toy.base, "sgld", "vanilla", 100);
    struct record whole = {0}, sliced = {0};

    config.thin = 1;
    run_whole(&config, &whole);
    cr_expect_eq(whole.status, CHAIN_DIVERGED);
    run_sliced(&config, 5, &sliced);
    expect_same(&whole, &sliced, "diverged");
    record_free(&whole);
    record_free(&sliced);
}

/* A small state of a configuration that uses everything: memory, adaptation, noise. */
static void small_state(struct fixture *f, struct combination *c, unsigned char **bytes,
                        size_t *size)
{
    fixture_model(model_find("noisy_normal"), PRECISION_DOUBLE, f);
    base_config(c, sampler_find("sgbd"), f->model);
    param_defaults(c->config.sampler->params, c->config.params);
    toy_choose(c->config.sampler->params, c->config.params, "variant", "corrected");
    set_step(c, STEP_AUTO, false);
    c->config.draw_capacity = 1000;
    struct chain *chain = toy_chain(&c->config);
    chain_advance(chain, WARMUP + 5);
    chain_drain(chain);
    *size = chain_save_size(chain);
    *bytes = malloc(*size + 1);
    chain_save(chain, *bytes);
    chain_free(chain);
}

static enum err try_load(const struct chain_config *config, const unsigned char *bytes, size_t size,
                         struct err_info *info)
{
    struct chain *chain = NULL;
    enum err e = chain_load(&chain, config, bytes, size, info);

    if (e == ERR_OK)
        chain_free(chain);
    return e;
}

Test(resume, every_damaged_byte_is_noticed)
{
    static struct combination c;
    struct fixture f;
    struct err_info info;
    unsigned char *bytes;
    size_t size;

    small_state(&f, &c, &bytes, &size);
    cr_assert_eq(try_load(&c.config, bytes, size, &info), ERR_OK);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            cr_assert_eq(try_load(&c.config, bytes, size, &info), ERR_CORRUPT, "byte %zu bit %d", i,
                         bit);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    for (size_t cut = 0; cut < size; cut++)
        cr_assert_eq(try_load(&c.config, bytes, cut, &info), ERR_CORRUPT, "%zu bytes", cut);
    bytes[size] = 0;
    cr_expect_eq(try_load(&c.config, bytes, size + 1, &info), ERR_CORRUPT);
    cr_expect_eq(try_load(&c.config, (const unsigned char *)"", 0, &info), ERR_CORRUPT);
    cr_expect_gt(strlen(info.message), 10);
    free(bytes);
    fixture_release(&f);
}

Test(resume, a_state_of_another_configuration_is_refused)
{
    static struct combination c;
    struct fixture f, g;
    struct err_info info;
    unsigned char *bytes;
    size_t size;

    small_state(&f, &c, &bytes, &size);
    fixture_model(model_find("skew_normal"), PRECISION_DOUBLE, &g);
    struct chain_config base = c.config, other[12];
    size_t n = sizeof(other) / sizeof(other[0]);
    for (size_t i = 0; i < n; i++)
        other[i] = base;
    other[0].seed++;
    other[1].chain++;
    other[2].warmup += 10;
    other[3].thin++;
    other[4].model = g.model;
    other[5].sampler = sampler_find("sglrw");
    other[6].step.fraction = 0.3;
    other[7].step.kind = STEP_CONSTANT;
    toy_choose(base.sampler->params, other[8].params, "variant", "vanilla");
    toy_choose(base.sampler->params, other[9].params, "noise", "gaussian");
    toy_set(base.sampler->params, other[10].params, "beta", 0.2);
    other[11].save = c.save;
    other[11].save_count = 0;
    for (size_t i = 0; i < n; i++)
        cr_expect_eq(try_load(&other[i], bytes, size, &info), ERR_CONFLICT, "change %zu", i);
    base.iterations *= 10;
    base.draw_capacity = 3;
    cr_expect_eq(try_load(&base, bytes, size, &info), ERR_OK, "%s", info.message);
    free(bytes);
    fixture_release(&f);
    fixture_release(&g);
}
