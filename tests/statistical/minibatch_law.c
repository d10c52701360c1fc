/* The stationary law with minibatches of real rows: twelve normal observations of theta and a
 * strong prior, so that all minibatches can be written down and with them the law of the chain.
 *
 * A wrong N/n, a prior that is counted per row, a missing finite-population factor, a row that is
 * never drawn or a tau on the wrong scale each move the mean or the variance by many Monte-Carlo
 * errors (0.3 % of a standard deviation; 0.5 % of the variance). */
#include "tests/statistical/compare.h"
#include "tests/support/formula.h"

#include <stdio.h>

#define ITERATIONS  3000000
#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define ROWS        12
#define PRIOR_MEAN  2.1
#define PRIOR_SD    0.4
#define PRECISION   (ROWS + 1 / (PRIOR_SD * PRIOR_SD))
#define MAX_BATCHES 1000

static const double observed[ROWS] = {2.385, -1.2, 0.31, 1.4, 0.93,  -0.6,
                                      -1.1,  2.7,  1.13, 0.5, -0.36, 4.9};

/* Every minibatch, equally likely: its gradient is constant - PRECISION theta. */
struct batches {
    size_t count;
    double constant[MAX_BATCHES], tau[MAX_BATCHES];
};

static void add_batch(struct batches *b, const size_t *row, size_t n, bool replacement)
{
    double sum = 0, square = 0, size = (double)n;

    for (size_t i = 0; i < n; i++)
        sum += observed[row[i]];
    for (size_t i = 0; i < n; i++)
        square += pow(observed[row[i]] - sum / size, 2);
    double factor = replacement ? 1 : (ROWS - size) / (ROWS - 1);
    cr_assert_lt(b->count, MAX_BATCHES);
    b->constant[b->count] = PRIOR_MEAN / (PRIOR_SD * PRIOR_SD) + ROWS / size * sum;
    b->tau[b->count] = n > 1 ? ROWS / sqrt(size) * sqrt(square / (size - 1) * factor) : 0;
    b->count++;
}

/* All increasing (or, with replacement, all) sequences of rows that begin as given. */
static void complete(struct batches *b, size_t *row, size_t given, size_t n, bool replacement)
{
    if (given == n) {
        add_batch(b, row, n, replacement);
        return;
    }
    for (size_t i = replacement || given == 0 ? 0 : row[given - 1] + 1; i < ROWS; i++) {
        row[given] = i;
        complete(b, row, given + 1, n, replacement);
    }
}

static void all_batches(struct batches *b, size_t n, bool replacement)
{
    size_t row[ROWS];

    b->count = 0;
    complete(b, row, 0, n, replacement);
}

static double mean_of(const double *x, size_t n, double power)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += pow(x[i], power);
    return sum / (double)n;
}

struct batch_case {
    const char *sampler, *variant;
    enum formula_rule rule;
    size_t n;
    bool replacement;
    double sigma, beta;
};

/* Mean square of the noise that a Langevin variant injects. The corrected one uses a running mean
 * of tau, whose mean square is E[tau]^2 + var(tau) beta/(2 - beta); the modified one is not
 * quadratic in tau and is run with beta = 1. */
static double injected(const struct batch_case *c, const struct batches *b)
{
    double s2 = c->sigma * c->sigma, mean = mean_of(b->tau, b->count, 1), sum = 0;
    double square =
        mean * mean + (mean_of(b->tau, b->count, 2) - mean * mean) * c->beta / (2 - c->beta);

    if (!strcmp(c->variant, "vanilla"))
        return s2;
    if (!strcmp(c->variant, "extreme"))
        return 0;
    for (size_t i = 0; i < b->count; i++) {
        cr_assert_lt(b->tau[i] * c->sigma, 2, "the correction is cut off: no closed form");
        sum += pow(1 - s2 * b->tau[i] * b->tau[i] / 8, 2);
    }
    return strcmp(c->variant, "corrected") ? s2 * sum / (double)b->count
                                           : s2 - s2 * s2 * square / 4;
}

/* theta' = (1 - sigma^2/2 A) theta + (sigma^2/2) constant_S + injected; both noises are
 * uncorrelated with theta and with each other. */
static void langevin_law(const struct batch_case *c, const struct batches *b,
                         struct stationary_law *law)
{
    double half = c->sigma * c->sigma / 2, a = 1 - half * PRECISION;
    double mean = mean_of(b->constant, b->count, 1);
    double noise = mean_of(b->constant, b->count, 2) - mean * mean;

    law_normal(mean / PRECISION, (half * half * noise + injected(c, b)) / (1 - a * a), law);
    law->below = 0;
}

struct up_context {
    enum formula_rule rule;
    const struct batches *batches;
};

static double up(const void *context, double x, double u)
{
    const struct up_context *c = context;
    const struct batches *b = c->batches;
    double sum = 0;

    for (size_t i = 0; i < b->count; i++)
        sum += formula_flip(c->rule, b->constant[i] - PRECISION * x, u, b->tau[i]);
    return sum / (double)b->count;
}

static void barker_law(const struct batch_case *c, const struct batches *b,
                       struct stationary_law *law)
{
    struct up_context context = {.rule = c->rule, .batches = b};
    struct law_kernel kernel = {.up = up,
                                .context = &context,
                                .sigma = c->sigma,
                                .lattice = c->rule == RULE_LATTICE,
                                .lo = -1.5,
                                .hi = 4,
                                .per_sigma = 20};

    law_of_kernel(&kernel, law);
}

static void run_case(const struct batch_case *c, size_t i)
{
    static struct batches b;
    struct toy toy = toy_data(observed, ROWS, 1, PRIOR_MEAN, PRIOR_SD);
    struct chain_config config = toy_config(&toy.base, c->sampler, c->variant, c->sigma);
    struct stationary_law law;
    char name[100];

    config.batch_size = c->n;
    config.replacement = c->replacement;
    config.seed += 1000 + i;
    if (c->beta > 0)
        toy_set(config.sampler->params, config.params, "beta", c->beta);
    snprintf(name, sizeof(name), "%s %s, %zu of %d rows%s, sigma %g, beta %g", c->sampler,
             c->variant ? c->variant : "", c->n, ROWS, c->replacement ? " replaced" : "", c->sigma,
             c->beta);
    all_batches(&b, c->n, c->replacement);
    if (!strcmp(c->sampler, "sgld"))
        langevin_law(c, &b, &law);
    else
        barker_law(c, &b, &law);
    compare_chain(&config, &law, ITERATIONS, name);
}

static const struct batch_case langevin_cases[] = {
    {"sgld", "vanilla", RULE_VANILLA, 1, false, 0.12, 0},
    {"sgld", "vanilla", RULE_VANILLA, 3, false, 0.15, 0},
    {"sgld", "vanilla", RULE_VANILLA, 9, false, 0.2, 0},
    {"sgld", "vanilla", RULE_VANILLA, 12, false, 0.2, 0},
    {"sgld", "vanilla", RULE_VANILLA, 2, true, 0.15, 0},
    {"sgld", "corrected", RULE_VANILLA, 3, false, 0.08, 0.1},
    {"sgld", "corrected", RULE_VANILLA, 3, false, 0.08, 1},
    {"sgld", "corrected", RULE_VANILLA, 9, false, 0.15, 0.3},
    {"sgld", "corrected", RULE_VANILLA, 2, true, 0.05, 0.1},
    {"sgld", "modified", RULE_VANILLA, 3, false, 0.08, 1},
    {"sgld", "extreme", RULE_VANILLA, 3, false, 0.2, 0},
};

Test(minibatch_law, langevin_kernels_have_their_closed_form)
{
    for (size_t i = 0; i < COUNT(langevin_cases); i++)
        run_case(&langevin_cases[i], i);
}

static const struct batch_case barker_cases[] = {
    {"sgbd", "vanilla", RULE_VANILLA, 1, false, 0.1, 0},
    {"sgbd", "vanilla", RULE_VANILLA, 3, false, 0.15, 0},
    {"sgbd", "vanilla", RULE_VANILLA, 10, false, 0.2, 0},
    {"sgbd", "vanilla", RULE_VANILLA, 12, false, 0.2, 0},
    {"sgbd", "vanilla", RULE_VANILLA, 2, true, 0.12, 0},
    {"sgbd", "corrected", RULE_CORRECTED, 3, false, 0.15, 1},
    {"sgbd", "corrected", RULE_CORRECTED, 10, false, 0.2, 1},
    {"sgbd", "corrected", RULE_CORRECTED, 2, true, 0.1, 1},
    {"sgbd", "extreme", RULE_EXTREME, 3, false, 0.12, 0},
    {"sglrw", NULL, RULE_LATTICE, 3, false, 0.11, 0},
    {"sglrw", NULL, RULE_LATTICE, 12, false, 0.15, 0},
};

Test(minibatch_law, barker_and_lattice_kernels_have_their_law)
{
    for (size_t i = 0; i < COUNT(barker_cases); i++)
        run_case(&barker_cases[i], 50 + i);
}
