/* What a target error costs: arithmetic, and that more draws really give it. */
#include "server/results/cost.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* 1000 iterations of warm-up and 3000 after it took 8 s: 2 ms each. */
static const struct cost_setting usual = {.target = 0.05,
                                          .mcse = 0.1,
                                          .ess = 100.0,
                                          .rhat = NAN,
                                          .bias = NAN,
                                          .bias_error = NAN,
                                          .warmup = 1000.0,
                                          .after = 3000.0,
                                          .cpu_seconds = 8.0};

static void expect_near(double got, double wanted, const char *what, size_t i)
{
    cr_expect(isnan(wanted) ? isnan(got) : fabs(got - wanted) <= 1e-12 * fabs(wanted),
              "case %zu: %s is %.17g, not %.17g", i, what, got, wanted);
}

Test(cost, is_warmup_once_and_draws_in_proportion_to_what_the_bias_leaves)
{
    static const struct {
        double target, mcse, ess, bias, bias_error; /* given */
        double counted, error, needed, gradients, seconds;
        const char *reason;
    } cases[] = {
        /* no reference: (0.1 / 0.05)^2 = 4 times as many */
        {0.05, 0.1, 100, NAN, NAN, 0, 0.1, 400, 13000, 26, ""},
        /* already there: fewer would do */
        {0.2, 0.1, 100, NAN, NAN, 0, 0.1, 25, 1750, 3.5, ""},
        /* a bias of 0.03 known exactly leaves 0.0025 - 0.0009 = 0.0016: 6.25 times */
        {0.05, 0.1, 100, 0.03, 0, 0.03, sqrt(0.0109), 625, 19750, 39.5, ""},
        /* an error of 0.01 in it: 0.0009 - 0.0001 = 0.0008 is its square on average */
        {0.05, 0.1, 100, 0.03, 0.01, sqrt(0.0008), sqrt(0.0108), 100 * 0.01 / 0.0017,
         1000 + 3000 * 0.01 / 0.0017, (1000 + 3000 * 0.01 / 0.0017) / 500, ""},
        /* within two errors it is noise */
        {0.05, 0.1, 100, 0.2, 0.1, 0, 0.1, 400, 13000, 26, ""},
        /* 0.0185 of the error is the reference's: a bias of twice that would not be seen */
        {0.01, 0.005, 40000, 0.01, hypot(0.005, 0.0185), 0, 0.005, NAN, NAN, NAN,
         "the reference is known only to 0.018 posterior sd"},
        {0.04, 0.1, 100, 0.01, hypot(0.1, 0.0185), 0, 0.1, 625, 19750, 39.5, ""},
        {0.05, 0.1, 100, 0.07, 0.1, 0, 0.1, 400, 13000, 26, ""},
        /* beyond that no number of draws helps */
        {0.05, 0.1, 100, 0.5, 0.1, sqrt(0.24), sqrt(0.25), NAN, NAN, NAN, "the bias alone is 0.49"},
        {0.05, 0.1, 100, 0.05, 0, 0.05, hypot(0.05, 0.1), NAN, NAN, NAN, "target error 0.05"},
        /* nothing known */
        {0.05, NAN, NAN, NAN, NAN, 0, NAN, NAN, NAN, NAN, "not known"},
        {0.05, INFINITY, 0, NAN, NAN, 0, NAN, NAN, NAN, NAN, "not known"},
        {0.05, 0.0, 100, NAN, NAN, 0, NAN, NAN, NAN, NAN, "not known"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cost_setting s = usual;
        struct cost cost;
        s.target = cases[i].target;
        s.mcse = cases[i].mcse;
        s.ess = cases[i].ess;
        s.bias = cases[i].bias;
        s.bias_error = cases[i].bias_error;
        cost_make(&cost, &s);
        expect_near(cost.bias, cases[i].counted, "bias", i);
        expect_near(cost.error, cases[i].error, "error", i);
        expect_near(cost.ess, cases[i].needed, "ess", i);
        expect_near(cost.gradients, cases[i].gradients, "gradients", i);
        expect_near(cost.seconds, cases[i].seconds, "seconds", i);
        cr_expect(cases[i].reason[0] == '\0' ? cost.reason[0] == '\0'
                                             : strstr(cost.reason, cases[i].reason) != NULL,
                  "case %zu: %s", i, cost.reason);
    }
}

/* A job of that size has that error: the numbers fit themselves. */
Test(cost, the_promised_effective_sample_size_has_the_target_error)
{
    for (double bias = 0.0; bias < 0.05; bias += 0.012) {
        struct cost_setting s = usual;
        struct cost cost;
        s.bias = bias;
        s.bias_error = 0.0;
        cost_make(&cost, &s);
        s.mcse = 0.1 * sqrt(s.ess / cost.ess);
        cr_expect_float_eq(hypot(bias, s.mcse), s.target, 1e-12, "bias %g", bias);
    }
}

Test(cost, before_the_end_of_warmup_nothing_is_known)
{
    struct cost_setting s = usual;
    struct cost cost;
    s.after = 0.0;
    cost_make(&cost, &s);
    cr_expect(isnan(cost.seconds) && isnan(cost.gradients) && isnan(cost.ess));
    cr_expect_neq(cost.reason[0], '\0');
}

Test(cost, of_chains_in_different_places_is_not_known)
{
    static const double rhats[] = {NAN, 1.0, 1.19, 1.21, 3.1, INFINITY};
    for (size_t i = 0; i < COUNT(rhats); i++) {
        struct cost_setting s = usual;
        struct cost cost;
        bool lost = rhats[i] > 1.2;
        s.rhat = rhats[i];
        cost_make(&cost, &s);
        expect_near(cost.seconds, lost ? NAN : 26.0, "seconds", i);
        expect_near(cost.ess, lost ? NAN : 400.0, "ess", i);
        expect_near(cost.error, lost ? NAN : 0.1, "error", i);
        cr_expect_eq(strstr(cost.reason, "not mixed") != NULL, lost, "case %zu: %s", i,
                     cost.reason);
    }
}
