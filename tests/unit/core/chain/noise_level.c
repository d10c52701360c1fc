/* Noise levels of chains are root mean squares, also in states of older programs. */
#include "core/base/fingerprint.h"
#include "core/chain/chain.h"
#include "models/models.h"
#include "tests/conformance/fixture.h"
#include "tests/support/toy.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* The noise of the first `looks` measurements, of which the first is at iteration `from`. */
static void noise_of(const struct model *m, uint64_t from, uint64_t looks, double *tau)
{
    struct chain_config c = toy_config(m, "sgbd", "vanilla", 0.1);
    c.batch_size = 4;
    c.warmup = from;
    c.thin = 1000;
    struct chain *chain = toy_chain(&c);
    chain_advance(chain, from + 256 * (looks - 1) + 1);
    cr_assert_eq(chain_noise(chain, tau, NULL), looks);
    chain_free(chain);
}

Test(noise_level, of_two_measurements_is_their_root_mean_square)
{
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    double *one = fixture_array(f.model->d), *two = fixture_array(f.model->d),
           *both = fixture_array(f.model->d), apart = 0.0;
    noise_of(f.model, 0, 1, one);
    noise_of(f.model, 256, 1, two);
    noise_of(f.model, 0, 2, both);
    for (size_t j = 0; j < f.model->d; j++) {
        double expected = sqrt(0.5 * (one[j] * one[j] + two[j] * two[j]));
        cr_expect_float_eq(both[j], expected, 1e-14 * expected);
        apart = fmax(apart, expected / (0.5 * (one[j] + two[j])) - 1.0);
    }
    cr_expect_gt(apart, 1e-3, "%g: the case says nothing", apart);
    free(one), free(two), free(both);
    fixture_release(&f);
}

struct header {
    char magic[8];
    uint64_t version, fingerprint, size, checksum;
};

/* A state as an older program would have saved it: sums of tau in place of sums of its squares. */
static void make_older(unsigned char *bytes, size_t size, double squares, double sum)
{
    struct header h;
    size_t found = 0;
    memcpy(&h, bytes, sizeof h);
    for (size_t at = sizeof h; at < size; at += sizeof squares)
        if (memcmp(bytes + at, &squares, sizeof squares) == 0) {
            memcpy(bytes + at, &sum, sizeof sum);
            found++;
        }
    cr_assert_eq(found, 1);
    h.version = 1;
    h.checksum =
        fingerprint_bytes(fingerprint_word(1, h.fingerprint), bytes + sizeof h, size - sizeof h);
    memcpy(bytes, &h, sizeof h);
}

/* The noise is the same everywhere, so that the sum of one is known from the other. adapts: during
 * a window of the warm-up. */
static void expect_older_is_read(bool adapts)
{
    struct fixture f;
    struct chain *older;
    struct err_info info = {0};
    f = (struct fixture){0};
    param_defaults(model_noisy_normal.params, f.params);
    toy_set(model_noisy_normal.params, f.params, "noise_scale", 1.3);
    fixture_init(&f, &model_noisy_normal);
    struct chain_config c = toy_config(f.model, "sgbd", "vanilla", 0.3);
    double count = adapts ? 20.0 : 2.0, tau = f.model->noise_tau, squares = 0.0, seen = NAN;
    c.warmup = adapts ? 1000 : 0;
    c.thin = 1000;
    c.step.kind = adapts ? STEP_AUTO : STEP_CONSTANT;
    struct chain *chain = toy_chain(&c);
    chain_advance(chain, adapts ? 20 : 16385);
    for (double k = 0.0; k < count; k++)
        squares += tau * tau;
    size_t size = chain_save_size(chain);
    unsigned char *bytes = malloc(size);
    chain_save(chain, bytes);
    make_older(bytes, size, squares, count * tau);
    cr_assert_eq(chain_load(&older, &c, bytes, size, &info), ERR_OK, "%s", info.message);
    if (adapts) { /* what is saved again has the squares */
        chain_save(older, bytes);
        make_older(bytes, size, count * tau * (count * tau / count), 0.0);
    } else {
        cr_expect_eq(chain_noise(older, &seen, NULL), 2);
        cr_expect_float_eq(seen, tau, 1e-15);
    }
    free(bytes);
    chain_free(older);
    chain_free(chain);
    fixture_release(&f);
}

Test(noise_level, sums_of_older_states_become_sums_of_squares)
{
    expect_older_is_read(false);
    expect_older_is_read(true);
}
