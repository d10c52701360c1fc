/* A long run of a one-dimensional chain against a law: mean, variance and 95 % point within four
 * Monte-Carlo standard errors, by 100 batch means. */
#ifndef BARKER_TESTS_COMPARE_H
#define BARKER_TESTS_COMPARE_H

#include "tests/statistical/law.h"
#include "tests/support/stat.h"
#include "tests/support/toy.h"

#define COMPARE_BATCHES 100

/* Under the sanitizers a chain is slow and memory is the question, not the law. */
#ifdef __SANITIZE_ADDRESS__
#define COMPARE_SHORTER 20
#define COMPARE_ERRORS  12.0
#else
#define COMPARE_SHORTER 1
#define COMPARE_ERRORS  4.0
#endif

struct compare {
    const struct stationary_law *law;
    struct stat_batches x, square, below;
};

static inline void compare_visit(void *context, uint64_t draw, const double *values, size_t width)
{
    struct compare *c = context;
    double x = values[0], d = x - c->law->mean;

    (void)draw, (void)width;
    stat_batches_add(&c->x, x);
    stat_batches_add(&c->square, d * d);
    stat_batches_add(&c->below, x <= c->law->point);
}

static inline void compare_number(const struct stat_batches *b, double expected, const char *what,
                                  const char *name)
{
    double error = stat_batches_error(b), z = (b->mean - expected) / error;

    cr_expect_lt(fabs(z), COMPARE_ERRORS, "%s: %s is %.5f, the law has %.5f: %.1f errors of %.5f",
                 name, what, b->mean, expected, z, error);
}

/* Runs `iterations` (fewer under the sanitizers) after a hundredth of them as burn-in. */
static inline void compare_chain(const struct chain_config *config,
                                 const struct stationary_law *law, uint64_t iterations,
                                 const char *name)
{
    struct compare c = {.law = law};
    struct chain *chain = toy_chain(config);

    iterations /= COMPARE_SHORTER;
    stat_batches_init(&c.x, iterations / COMPARE_BATCHES);
    stat_batches_init(&c.square, iterations / COMPARE_BATCHES);
    stat_batches_init(&c.below, iterations / COMPARE_BATCHES);
    toy_run(chain, iterations / 100, NULL, NULL);
    toy_run(chain, iterations, compare_visit, &c);
    cr_expect_eq(chain_status(chain), CHAIN_ACTIVE, "%s: the chain stopped", name);
    compare_number(&c.x, law->mean, "mean", name);
    compare_number(&c.square, law->variance, "variance", name);
    if (law->below > 0)
        compare_number(&c.below, law->below, "share below the 95 % point", name);
    chain_free(chain);
}

#endif
