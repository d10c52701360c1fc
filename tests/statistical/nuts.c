/* The no-U-turn sampler: its trajectories, which are those of the leapfrog rule in both directions;
 * which of their points it chooses; what it counts; and its law on skewed and heavy-tailed targets,
 * with errors below 0.7 % of a posterior sd, so that an error of 3 % fails. */
#include "tests/statistical/compare.h"

#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void set_depth(struct chain_config *config, double depth)
{
    toy_set(config->sampler->params, config->params, "max_treedepth", depth);
}

static struct sampler_trees trees_of(const struct chain *chain)
{
    struct sampler_trees trees;
    cr_assert(chain_trees(chain, &trees));
    return trees;
}

/* ---- trajectories ---- */

#define POINTS_MOST 1100

static double visited[POINTS_MOST];
static size_t visits;

static void quartic(const struct toy *toy, const double *theta, double *g)
{
    (void)toy;
    cr_assert_lt(visits, POINTS_MOST);
    visited[visits++] = theta[0];
    g[0] = -theta[0] - theta[0] * theta[0] * theta[0];
}

static double quartic_log(const struct model *m, const double *theta, void *work)
{
    double square = theta[0] * theta[0];
    (void)m, (void)work;
    return -square / 2 - square * square / 4;
}

/* c follows b follows a, in either direction of time: c - 2 b + a = sigma^2 g(b). */
static bool follow(double a, double b, double c, double sigma)
{
    double expected = 2 * b - a - sigma * sigma * (b + b * b * b);
    return fabs(c - expected) < 1e-12;
}

/* The points in the order of time: each half is added to one of the ends. A single point and the
 * one next to it fit both ends. Returns how many halves fit none. */
static size_t misfits(double start, double sigma, double *draw_is_a_point, double draw)
{
    double line[2 * POINTS_MOST];
    size_t low = POINTS_MOST, high = POINTS_MOST, bad = 0;
    line[low] = start;
    *draw_is_a_point = draw == start;
    for (size_t at = 0, half = 1; at < visits; at += half, half *= 2) {
        size_t n = visits - at < half ? visits - at : half;
        bool up = low == high || follow(line[high - 1], line[high], visited[at], sigma);
        bad += !up && !follow(line[low + 1], line[low], visited[at], sigma);
        for (size_t k = 0; k < n; k++) {
            double x = visited[at + k];
            line[up ? ++high : --low] = x;
            *draw_is_a_point += x == draw;
            size_t end = up ? high : low, one = up ? high - 1 : low + 1;
            size_t two = up ? high - 2 : low + 2;
            bad += high - low >= 2 && !follow(line[two], line[one], line[end], sigma);
        }
    }
    return bad;
}

Test(nuts, trajectories_obey_the_leapfrog_rule_in_both_directions_of_time)
{
    static const double sigmas[] = {0.07, 0.31, 0.8};
    struct model_type type = toy_type;
    type.log_fixed = quartic_log;
    struct toy toy = toy_make(&type, 1);
    toy.gradient = quartic;
    for (size_t k = 0; k < COUNT(sigmas); k++) {
        struct chain_config config = toy_config(&toy.base, "nuts", NULL, sigmas[k]);
        struct chain *chain = toy_chain(&config);
        chain_advance(chain, 1);
        for (int t = 0; t < 2000; t++) {
            double start = chain_theta(chain)[0], found;
            visits = 0;
            chain_advance(chain, 1);
            chain_drain(chain);
            cr_assert_eq(misfits(start, sigmas[k], &found, chain_theta(chain)[0]), 0);
            cr_assert_geq(found, 1, "the draw is no point of the trajectory");
        }
        chain_free(chain);
    }
}

/* Where the log density is constant all points have one weight and nothing turns back, so the last
 * half of 2^(D-1) points is taken, each of its points with equal probability, and the start is any
 * of the first half. In 4096 dimensions the length of the momentum is known to 1 %, and with it the
 * number of steps, whose law is that of the distance of a point of one half to one of the other. */
Test(nuts, all_points_of_the_last_half_are_equally_likely_where_nothing_differs)
{
    enum { D = 4096, DEPTH = 4, HALF = 1 << (DEPTH - 1), DRAWS = 4000 };
    static double slope[D], before[D];
    static uint64_t seen[2 * HALF];
    const double sigma = 0.3;
    struct model_type type = toy_type;
    struct toy toy = toy_make(&type, D);
    toy.slope = slope;
    toy.prior_sd = 1e150;
    struct chain_config config = toy_config(&toy.base, "nuts", NULL, sigma);
    set_depth(&config, DEPTH);
    struct chain *chain = toy_chain(&config);
    double chi2 = 0;
    for (int t = 0; t < DRAWS; t++) {
        double square = 0;
        memcpy(before, chain_theta(chain), sizeof before);
        cr_assert_eq(chain_advance(chain, 1), 1);
        chain_drain(chain);
        for (size_t j = 0; j < D; j++)
            square += pow((chain_theta(chain)[j] - before[j]) / sigma, 2);
        long steps = lround(sqrt(square / D));
        cr_assert(steps >= 1 && steps < 2 * HALF, "%ld steps", steps);
        seen[steps]++;
    }
    for (size_t k = 1; k < 2 * HALF; k++) {
        double expected = (double)DRAWS * (double)(k < HALF ? k : 2 * HALF - k) / (HALF * HALF);
        chi2 += pow((double)seen[k] - expected, 2) / expected;
    }
    cr_expect_gt(stat_chi2_tail(chi2, 2 * HALF - 2), 1e-4, "chi-square %.1f", chi2);
    struct sampler_trees trees = trees_of(chain);
    cr_expect_eq(trees.limit_hits, DRAWS);
    cr_expect_eq(trees.divergences, 0);
    cr_expect_eq(trees.gradients, 1 + DRAWS * (2 * HALF - 1), "the start, then each transition");
    chain_free(chain);
}

/* On a normal target of this many dimensions a trajectory turns back after about a half-circle:
 * momentum and position are orthogonal at all times, so half the period pi is where it turns. With
 * n steps of sigma, 1 + n points of the trajectory, n sigma lies between a quarter and a whole
 * period, 1.5 to 2 pi, and most often it is 2^k - 1 with one k. */
Test(nuts, trajectories_end_where_they_turn_back)
{
    enum { D = 1000, DRAWS = 300 };
    static const double sigmas[] = {0.05, 0.08, 0.11, 0.15};
    for (size_t k = 0; k < COUNT(sigmas); k++) {
        struct toy toy = toy_make(&toy_type, D);
        toy.gradient = NULL;
        struct chain_config config = toy_config(&toy.base, "nuts", NULL, sigmas[k]);
        config.warmup = 50;
        struct chain *chain = toy_chain(&config);
        toy_run(chain, 50, NULL, NULL);
        double before = trees_of(chain).gradients;
        toy_run(chain, DRAWS, NULL, NULL);
        double length = sigmas[k] * (trees_of(chain).gradients - before) / DRAWS;
        cr_expect(length > 1.5 && length < 6.4, "sigma %g: length %g", sigmas[k], length);
        cr_expect_eq(trees_of(chain).limit_hits, 0);
        chain_free(chain);
    }
}

/* ---- what ends a tree ---- */

static double funnel_log(const struct model *m, const double *theta, void *work)
{
    double width = ((const struct toy *)m)->constant, v = width * theta[0];
    double z = theta[1] * exp(-v);
    (void)work;
    return -theta[0] * theta[0] / 2 - v - z * z / 2;
}

static void funnel(const struct toy *toy, const double *theta, double *g)
{
    double width = toy->constant, z = theta[1] * exp(-width * theta[0]);
    g[0] = -theta[0] + width * (z * z - 1);
    g[1] = -z * exp(-width * theta[0]);
}

static struct toy funnel_of(struct model_type *type, double width)
{
    *type = toy_type;
    type->log_fixed = funnel_log;
    struct toy toy = toy_make(type, 2);
    toy.gradient = funnel;
    toy.constant = width;
    return toy;
}

Test(nuts, divergences_are_counted_after_warm_up_and_stop_nothing)
{
    struct model_type type;
    struct toy toy = funnel_of(&type, 3);
    struct chain_config config = toy_config(&toy.base, "nuts", NULL, 0.5);
    config.warmup = 3000;
    config.iterations = 3000;
    struct chain *chain = toy_chain(&config);
    toy_run(chain, 3000, NULL, NULL);
    cr_expect_eq(trees_of(chain).divergences, 0, "none of the warm-up");
    cr_expect(isnan(chain_acceptance(chain)));
    toy_run(chain, 3000, NULL, NULL);
    cr_expect_eq(chain_status(chain), CHAIN_DONE);
    cr_expect_gt(trees_of(chain).divergences, 30);
    cr_expect_lt(trees_of(chain).divergences, 3000);
    chain_free(chain);
}

/* A gradient of 10^9 units: 16 of them are more than a slice, but a trajectory needs some points. */
Test(nuts, costly_gradients_make_shallow_trees)
{
    static const struct {
        double cost, gradients;
    } cases[] = {{1, 1023}, {0.9e6, 1023}, {3e6, 255}, {1e9, 15}};
    static const double slope[1];
    for (size_t k = 0; k < COUNT(cases); k++) {
        struct toy toy = toy_make(&toy_type, 1);
        toy.slope = slope;
        toy.prior_sd = 1e150;
        toy.base.full_terms = 1;
        toy.base.term_cost = cases[k].cost;
        struct chain_config config = toy_config(&toy.base, "nuts", NULL, 0.1);
        struct chain *chain = toy_chain(&config);
        toy_run(chain, 10, NULL, NULL);
        cr_expect_eq(trees_of(chain).gradients, 1 + 10 * cases[k].gradients, "%g: %g",
                     cases[k].cost, trees_of(chain).gradients);
        chain_free(chain);
    }
}

Test(nuts, acceptance_reaches_the_target_that_is_asked_for)
{
    static const double targets[] = {0.6, 0.8, 0.95};
    static const size_t dimensions[] = {2, 30};
    for (size_t k = 0; k < COUNT(targets); k++)
        for (size_t i = 0; i < COUNT(dimensions); i++) {
            struct toy toy = toy_make(&toy_type, dimensions[i]);
            toy.gradient = NULL;
            struct chain_config config = toy_auto_config(&toy.base, "nuts", 3000);
            toy_set(config.sampler->params, config.params, "target_accept", targets[k]);
            struct chain *chain = toy_chain(&config);
            toy_run(chain, 3000, NULL, NULL);
            toy_run(chain, 10000, NULL, NULL);
            cr_expect_float_eq(chain_acceptance(chain), targets[k], 0.05, "%g in %zu: %.3f",
                               targets[k], dimensions[i], chain_acceptance(chain));
            chain_free(chain);
        }
}

/* ---- laws ---- */

#define DRAWS 400000

/* Numbers of the draws, centred so that each is 0 on average and has about unit variance. */
struct law_sums {
    size_t numbers;
    void (*measure)(const double *theta, double *numbers);
    struct stat_batches sums[8];
};

static void visit_law(void *context, uint64_t draw, const double *values, size_t width)
{
    struct law_sums *law = context;
    double numbers[8];
    (void)draw, (void)width;
    law->measure(values, numbers);
    for (size_t k = 0; k < law->numbers; k++)
        stat_batches_add(&law->sums[k], numbers[k]);
}

static void expect_law(const struct model *model, struct law_sums *law, const double *expected,
                       const char *name)
{
    struct chain_config config = toy_auto_config(model, "nuts", 2000);
    char what[40];
    struct chain *chain = toy_chain(&config);
    for (size_t k = 0; k < law->numbers; k++)
        stat_batches_init(&law->sums[k], DRAWS / COMPARE_SHORTER / COMPARE_BATCHES);
    toy_run(chain, config.warmup, NULL, NULL);
    toy_run(chain, DRAWS / COMPARE_SHORTER, visit_law, law);
    for (size_t k = 0; k < law->numbers; k++) {
        snprintf(what, sizeof what, "number %zu", k);
        compare_number(&law->sums[k], expected[k], what, name);
        cr_expect_lt(stat_batches_error(&law->sums[k]), 0.007 * sqrt(COMPARE_SHORTER),
                     "%s: error of number %zu: %.4f", name, k, stat_batches_error(&law->sums[k]));
    }
    chain_free(chain);
}

/* Width 0.5: x is normal given v with sd exp(v / 2). */
static void measure_funnel(const double *theta, double *numbers)
{
    double z = theta[1] * exp(-0.5 * theta[0]);
    numbers[0] = theta[0];
    numbers[1] = theta[0] * theta[0];
    numbers[2] = theta[0] < stat_normal_quantile(0.05);
    numbers[3] = z * z;
    numbers[4] = z * theta[0];
    numbers[5] = fabs(theta[1]) < 0.1;
}

Test(nuts, law_of_a_funnel)
{
    struct model_type type;
    struct toy toy = funnel_of(&type, 0.5);
    struct law_sums law = {.numbers = 6, .measure = measure_funnel};
    double near = 0, h = 1e-3;
    for (double v = -8; v < 8; v += h)
        near += h * stat_normal_pdf(v) * (2 * stat_normal_cdf(0.1 * exp(-0.5 * v)) - 1);
    expect_law(&toy.base, &law, (double[]){0, 1, 0.05, 1, 0, near}, "funnel");
}

/* Two independent t variables with 3 degrees of freedom, around 5 and on scale 3: the distribution
 * function is 1/2 + (u / (1 + u^2) + atan u) / pi, u = t / sqrt 3. */
static double student_log(const struct model *m, const double *theta, void *work)
{
    double sum = 0;
    (void)work;
    for (size_t j = 0; j < m->d; j++)
        sum -= 2 * log1p(pow((theta[j] - 5) / 3, 2) / 3);
    return sum;
}

static void student(const struct toy *toy, const double *theta, double *g)
{
    for (size_t j = 0; j < toy->base.d; j++) {
        double t = (theta[j] - 5) / 3;
        g[j] = -4 * t / (3 + t * t) / 3;
    }
}

static double student_share(double x)
{
    double u = (x - 5) / 3 / sqrt(3);
    return 0.5 + (u / (1 + u * u) + atan(u)) / M_PI;
}

static void measure_student(const double *theta, double *numbers)
{
    for (size_t j = 0; j < 2; j++) {
        numbers[4 * j] = theta[j] < -3;
        numbers[4 * j + 1] = theta[j] < 5;
        numbers[4 * j + 2] = theta[j] < 8;
        numbers[4 * j + 3] = fabs(theta[j] - 5) / 3;
    }
}

Test(nuts, law_of_heavy_tails)
{
    struct model_type type = toy_type;
    type.log_fixed = student_log;
    struct toy toy = toy_make(&type, 2);
    toy.gradient = student;
    struct law_sums law = {.numbers = 8, .measure = measure_student};
    double share[4] = {student_share(-3), 0.5, student_share(8), 2 * sqrt(3) / M_PI}, all[8];
    for (size_t k = 0; k < 8; k++)
        all[k] = share[k % 4];
    expect_law(&toy.base, &law, all, "t of 3 degrees");
}

/* Logistic regression of 8 rows with two coefficients, by summing over a grid. */
#define ROWS 8

static const double x_of[ROWS] = {-2.1, -1.3, -0.8, -0.2, 0.3, 1.1, 1.9, 3.2};
static const double y_of[ROWS] = {0, 0, 1, 0, 0, 1, 1, 1};

static double logistic_log(const struct model *m, const double *theta, void *work)
{
    double sum = -(theta[0] * theta[0] + theta[1] * theta[1]) / 2 / 9;
    (void)m, (void)work;
    for (size_t i = 0; i < ROWS; i++) {
        double eta = theta[0] + theta[1] * x_of[i];
        sum += log(stat_logistic(y_of[i] > 0 ? eta : -eta));
    }
    return sum;
}

static void logistic(const struct toy *toy, const double *theta, double *g)
{
    (void)toy;
    g[0] = -theta[0] / 9;
    g[1] = -theta[1] / 9;
    for (size_t i = 0; i < ROWS; i++) {
        double rest = y_of[i] - stat_logistic(theta[0] + theta[1] * x_of[i]);
        g[0] += rest;
        g[1] += rest * x_of[i];
    }
}

static void measure_logistic(const double *theta, double *numbers)
{
    numbers[0] = theta[0];
    numbers[1] = theta[1] / 2;
    numbers[2] = theta[0] * theta[0] / 2;
    numbers[3] = pow(theta[1] - 2, 2) / 2;
    numbers[4] = theta[0] * (theta[1] - 2) / 2;
    numbers[5] = theta[1] < 1;
    numbers[6] = theta[1] > 4;
}

Test(nuts, law_of_a_small_logistic_regression)
{
    struct model_type type = toy_type;
    type.log_fixed = logistic_log;
    struct toy toy = toy_make(&type, 2);
    toy.gradient = logistic;
    struct law_sums law = {.numbers = 7, .measure = measure_logistic};
    double total = 0, expected[7] = {0}, numbers[8], h = 0.02;
    for (double a = -12 + h / 2; a < 12; a += h)
        for (double b = -8 + h / 2; b < 16; b += h) {
            double theta[2] = {a, b}, weight = exp(logistic_log(&toy.base, theta, NULL));
            measure_logistic(theta, numbers);
            total += weight;
            for (size_t k = 0; k < 7; k++)
                expected[k] += weight * numbers[k];
        }
    for (size_t k = 0; k < 7; k++)
        expected[k] /= total;
    expect_law(&toy.base, &law, expected, "logistic regression");
}
