/* Chains of a factorisation that has more coordinates than are taken at a time. */
#include "core/chain/chain.h"
#include "core/base/fingerprint.h"
#include "core/kernels/kernels.h"
#include "tests/support/ratings.h"
#include "tests/support/toy.h"

#include <assert.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USERS = 60, ITEMS = 50, RANK = 21, BATCH = 30, UNRATED = ITEMS - 1 };

/* 2394 coordinates, in three parts. The last item has no rating. */
static struct model *make_model(void)
{
    struct model *m = ratings_model(USERS, ITEMS, UNRATED, RANK);
    cr_assert_gt(m->d, 2 * MODEL_PART);
    return m;
}

static struct chain_config config_of(const struct model *m, const char *sampler, double beta,
                                     uint32_t one_in)
{
    struct chain_config config = toy_config(m, sampler, "corrected", 0.02);
    toy_set(config.sampler->params, config.params, "beta", beta);
    config.batch_size = BATCH;
    config.one_in = one_in;
    config.start.kind = START_PRIOR;
    return config;
}

struct saved {
    size_t size;
    unsigned char *bytes;
};

static struct saved save(const struct chain *chain)
{
    struct saved s = {.size = chain_save_size(chain)};
    s.bytes = malloc(s.size);
    cr_assert_not_null(s.bytes);
    chain_save(chain, s.bytes);
    return s;
}

static struct chain *load(const struct chain_config *config, struct saved s)
{
    struct chain *chain;
    struct err_info info = {0};
    cr_assert_eq(chain_load(&chain, config, s.bytes, s.size, &info), ERR_OK, "%s", info.message);
    return chain;
}

static void advance(struct chain *chain, uint64_t n)
{
    while (n-- > 0) {
        chain_advance(chain, 1);
        chain_drain(chain);
    }
}

static struct saved run(const struct chain_config *config, uint64_t slice, uint64_t total)
{
    struct chain *chain = toy_chain(config);
    for (uint64_t t = 0; t < total; t += slice) {
        struct saved s = save(chain);
        chain_free(chain);
        chain = load(config, s);
        free(s.bytes);
        advance(chain, slice < total - t ? slice : total - t);
    }
    struct saved end = save(chain);
    chain_free(chain);
    return end;
}

/* For longer than the common factor of the running noise lasts, which is 60 iterations here. */
Test(factor_chain, slices_and_instruction_sets_change_no_bit)
{
    static const char *const names[] = {"sgbd", "sgld"};
    struct model *m = make_model();
    const char *before = kernels->isa;
    for (size_t i = 0; i < 2; i++)
        for (uint32_t one_in = 1; one_in <= 4; one_in += 3) {
            struct chain_config config = config_of(m, names[i], 0.9, one_in);
            kernels_choose(before);
            struct saved whole = run(&config, 150, 150);
            for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
                if (!(*k)->fused)
                    continue;
                kernels_choose((*k)->isa);
                struct saved sliced = run(&config, 13, 150);
                cr_expect_eq(sliced.size, whole.size);
                cr_expect_arr_eq(sliced.bytes, whole.bytes, whole.size, "%s, %s, one in %u",
                                 names[i], (*k)->isa, one_in);
                free(sliced.bytes);
            }
            free(whole.bytes);
        }
    kernels_choose(before);
    model_free(m);
}

/* A coordinate of the third part, whose block has its gradient where that of all others was. */
Test(factor_chain, nan_is_found_where_it_is)
{
    enum { BAD = (USERS + UNRATED) * RANK + 5 };
    struct model *m = make_model();
    struct gradient source;
    struct rng rng[RNG_PURPOSES];
    size_t p = padded(m->d);
    double *block = lanes_alloc(5 * p + PAD, sizeof *block), params[PARAM_MAX];
    static_assert(BAD > 2 * MODEL_PART, "it is in another part");
    param_defaults(sampler_sgbd.params, params);
    toy_choose(sampler_sgbd.params, params, "variant", "corrected");
    cr_assert_eq(gradient_init(&source, m, BATCH, false, NULL), ERR_OK);
    for (uint64_t k = 0; k < RNG_PURPOSES; k++)
        rng_seed(&rng[k], 3, 1, k);
    struct sampler_step s = {.d = m->d,
                             .params = params,
                             .theta = block,
                             .sigma = block + p,
                             .g = block + 2 * p,
                             .tau = block + 3 * p,
                             .memory = block + 4 * p,
                             .source = &source,
                             .rng = rng};
    for (size_t j = 0; j < m->d; j++) {
        s.theta[j] = 0.01 * (double)(j % 17);
        block[p + j] = 0.02;
    }
    cr_expect_eq(sampler_sgbd.step(&s), SIZE_MAX);
    s.theta[BAD] = NAN;
    cr_expect_eq(sampler_sgbd.step(&s), BAD);
    gradient_release(&source);
    free(block);
    model_free(m);
}

struct header {
    char magic[8];
    uint64_t version, fingerprint, size, checksum;
};

static uint64_t version_of(struct saved s)
{
    struct header h;
    memcpy(&h, s.bytes, sizeof h);
    return h.version;
}

/* As if an older program had written it. */
static void make_older(struct saved s)
{
    struct header h;
    memcpy(&h, s.bytes, sizeof h);
    h.version = 1;
    h.checksum = fingerprint_bytes(fingerprint_word(1, h.fingerprint), s.bytes + sizeof h,
                                   s.size - sizeof h);
    memcpy(s.bytes, &h, sizeof h);
}

/* Older programs know no factor behind the running noise and no sums of squares of the noise, must
 * not read chains that have them, and wrote chains without. */
Test(factor_chain, older_chains_are_read_and_older_programs_refuse)
{
    struct model *m = make_model();
    struct chain_config config = config_of(m, "sgbd", 0.3, 1);
    struct saved first = run(&config, 1, 0);
    cr_expect_eq(version_of(first), 3);
    make_older(first);
    struct chain *chain = load(&config, first);
    advance(chain, 20);
    struct saved end = save(chain), want = run(&config, 20, 20);
    cr_expect_eq(end.size, want.size);
    cr_expect_arr_eq(end.bytes, want.bytes, want.size);
    chain_free(chain);
    toy_choose(config.sampler->params, config.params, "variant", "vanilla");
    struct saved plain = run(&config, 20, 20);
    cr_expect_eq(version_of(plain), 3);
    free(first.bytes);
    free(end.bytes);
    free(want.bytes);
    free(plain.bytes);
    model_free(m);
}
