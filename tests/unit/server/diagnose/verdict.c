/* The verdict says what the numbers say, in every situation a job can be in: mixing, targets, words. */
#include "tests/unit/server/diagnose/verdict_world.h"

static const struct situation mixing_situations[] = {
    {"warm-up",
     {.iteration = 320, .draws = 32},
     {.head = few, .state = RUNNING},
     "unknown",
     "unknown",
     {"mixing: unknown (the slowest chain has done 320 of 1000 warm-up iterations); bias: "
      "unknown; ",
      "not known: the gradient noise (measured after warm-up), "},
     NULL},
    {"ended in warm-up",
     {.iteration = 320, .draws = 32},
     {.head = few, .state = JOB_cancelled},
     "unknown",
     "unknown",
     {"it ended after 320 of 1000 warm-up iterations", "cancelled after 320 of 21000 iterations"},
     NULL},
    {"too few draws",
     {.iteration = 1030, .draws = 103, .tau = 20.0},
     {.head = few, .state = RUNNING},
     "unknown",
     "unknown",
     {"mixing: unknown (3 draws of each chain are too few)",
      "how steady the gradient noise is (measured 4 times)"},
     NULL},
    {"no draws stored",
     {.width = SIZE_MAX, .draws = 1100, .tau = 20.0},
     {.head = few, .state = JOB_succeeded},
     "unknown",
     "unknown",
     {"unknown (no draws are stored)", "checks (no draws are stored)"},
     NULL},
    {"not measured yet",
     {.tau = 20.0},
     {.head = few, .state = RUNNING},
     "unknown",
     "unknown",
     {"mixing: unknown (not measured yet)"},
     NULL},
    {"good",
     {.tau = 20.0},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"mixing: good (largest R-hat 1.004, smallest ESS 2311 bulk, 1980 tail); bias: no check found "
      "a bias "
      "(step size 0.14 x the noise tolerance",
      "not known: the certificate, Stein and energy checks (made when it ends)"},
     "more"},
    {"numbers are rounded as everywhere else",
     {.tau = 20.0},
     {.head = {1.9049, 39.7, 80.4, NAN, "theta[2]", 4, 1000}, .state = RUNNING},
     "poor",
     "unknown",
     {"(largest R-hat 1.905: theta[2], smallest ESS 40 bulk, 80 tail)"},
     NULL},
    {"no R-hat is made larger than it is",
     {.tau = 20.0},
     {.head = {1.0000001, 2310, 1980, NAN, "theta[2]", 4, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"good (largest R-hat 1.000,"},
     NULL},
    {"R-hat just above the bound is not rounded down to it",
     {.tau = 20.0},
     {.head = {1.0102, 2310, 1980, NAN, "theta[2]", 4, 1000}, .state = RUNNING},
     "fair",
     "none seen",
     {"fair (largest R-hat 1.011: theta[2]"},
     NULL},
    {"an ESS just below the bound is not rounded up to it",
     {.tau = 20.0},
     {.head = {1.001, 399.9, 500, NAN, "theta[2]", 4, 1000}, .state = RUNNING},
     "fair",
     "none seen",
     {"smallest ESS 399 bulk"},
     NULL},
    {"the tail counts",
     {.tau = 20.0},
     {.head = {1.001, 900, 90, NAN, "theta[2]", 4, 1000}, .state = RUNNING},
     "poor",
     "unknown",
     {"smallest ESS 900 bulk, 90 tail"},
     NULL},
    /* R-hat 1.08 needs (1.08^2 - 1) / (1.01^2 - 1) = 8.279 times the 10000 iterations: 72786
     * more of each of 4 chains. */
    {"slow, and it goes on long enough",
     {.tau = 20.0},
     {.head = slow, .state = RUNNING, .rate = 8000.0, .iterations = 200000},
     "poor",
     "unknown",
     {"poor (largest R-hat 1.080: theta[1], smallest ESS 85 bulk, 60 tail), about 36 s more;"},
     "extend"},
    {"slow, and it ends before",
     {.tau = 20.0},
     {.head = slow, .state = RUNNING, .rate = 8000.0},
     "poor",
     "unknown",
     {"about 36 s more, but it ends before: extend it by about 63000 iterations (31 s)"},
     NULL},
    {"slow, at an unknown speed",
     {.tau = 20.0},
     {.head = slow, .state = JOB_paused, .rate = NAN, .iterations = 200000},
     "poor",
     "unknown",
     {"about 73000 iterations more;"},
     "NaN"},
    {"slow, and over",
     {.tau = 20.0},
     {.head = slow, .state = JOB_succeeded, .rate = 8000.0},
     "poor",
     "unknown",
     {", extend it by about 73000 iterations (66 s of processor time)"},
     "more"},
    {"vague",
     {.tau = 20.0},
     {.head = {1.2, 20, 20, NAN, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
     "poor",
     "unknown",
     {"extend it by at least 210000 iterations"},
     NULL},
    {"in different places",
     {.tau = 20.0},
     {.head = {3.1, 2.4, 9, NAN, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
     "poor",
     "unknown",
     {"(largest R-hat 3.100: theta[1]", "how long it takes cannot be estimated"},
     "extend"},
    {"standing still at different places",
     {.tau = 20.0},
     {.head = {INFINITY, NAN, NAN, NAN, "theta[3]", 4, 1000}, .state = RUNNING},
     "poor",
     "unknown",
     {"each chain stays at a different value: theta[3]"},
     NULL},
    {"one constant",
     {.tau = 20.0, .variance = NAN, .first_variance = 0.01, .d = 2},
     {.head = {1.004, 2310, 1980, NAN, "theta[1]", 2, 1000}, .state = RUNNING},
     "poor",
     "unknown",
     {", and theta[2] does not move"},
     NULL},
    {"all constant",
     {.tau = 20.0, .variance = NAN},
     {.head = few, .state = RUNNING},
     "poor",
     "unknown",
     {"mixing: poor (no parameter moves)"},
     NULL},
    {"one chain",
     {.tau = 20.0, .chains = 1},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: whether chains from other starts agree (there is one), "},
     NULL},
    {"many parameters, of which some are measured",
     {.tau = 20.0, .d = 2000, .draws = 106},
     {.head = {1.004, 2310, 1980, NAN, "theta[2]", 100, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"over 100 of 2000 parameters"},
     NULL},
    {"few parameters saved",
     {.tau = 20.0, .d = 20, .width = 3},
     {.head = {1.004, 2310, 1980, NAN, "theta[2]", 3, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"not known: mixing of the 17 parameters that are not saved, "},
     "over 3"},
    {"diverged",
     {.tau = 20.0, .diverged = 2},
     {.head = good, .state = JOB_failed},
     "unknown",
     "unknown",
     {"diverged: chain 2 at iteration 11001; its draws are not from the posterior; mixing and "
      "bias: not judged"},
     "good"},
    {"failed otherwise",
     {.tau = 20.0},
     {.head = slow, .state = JOB_failed, .rate = 8000.0},
     "poor",
     "unknown",
     {"failed after 11000 of 21000 iterations", "(made only when a job succeeds)"},
     "extend"},
    {"cancelled",
     {.tau = 20.0},
     {.head = good, .state = JOB_cancelled},
     "good",
     "none seen",
     {"; cancelled after 11000 of 21000 iterations"},
     NULL},
    {"stopped early",
     {.tau = 20.0},
     {.head = good, .state = JOB_succeeded, .stopped_early = true},
     "good",
     "none seen",
     {"; stopped early by stop_when after 11000 of 21000 iterations, which biases the estimates "
      "slightly"},
     NULL},
    {"stopped by the clock",
     {.tau = 20.0},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"; stopped early by stop_when after 11000 of 21000 iterations"},
     "slightly"},
    {"one draw",
     {.tau = 20.0, .iteration = 1010},
     {.head = few, .state = JOB_succeeded},
     "unknown",
     "unknown",
     {"unknown (1 draw of each chain is too few)"},
     NULL},
    {"values that overflow when they are added up",
     {.tau = 20.0, .variance = INFINITY},
     {.head = few, .state = JOB_succeeded},
     "unknown",
     "unknown",
     {"unknown (the values are too large to be added up)"},
     "yet"},
    {"chains on lattices of their own",
     {.request = lattice_apart, .sigma = 0.06},
     {.head = {1.026, 560, 544, NAN, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
     "fair",
     "mild",
     {"and each chain is on a lattice of its own: take a smaller step size"},
     "extend"},
    {"chains on fine lattices that are short",
     {.request = lattice_apart, .sigma = 0.02},
     {.head = {1.026, 560, 544, NAN, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
     "fair",
     "none seen",
     {"extend it by about"},
     "lattice"},
    {"at its end",
     {.tau = 20.0},
     {.head = good, .state = JOB_succeeded, .iterations = 10000},
     "good",
     "none seen",
     {"good"},
     "stopped"},
};

Test(verdict, mixing_is_judged_in_every_situation)
{
    for (size_t i = 0; i < sizeof mixing_situations / sizeof mixing_situations[0]; i++)
        expect_situation(&mixing_situations[i]);
}

/* 2310.7 effective draws of the worst: two errors of its mean are 0.0416 sd. */
static const struct summary_head many = {1.002, 90000, 80000, NAN, "theta[2]", 4, 1000};
static const struct summary_head fewer = {1.006, 330, 350, 0.05, "theta[2]", 4, 1000};

static const struct situation target_situations[] = {
    {"a bias that is expected",
     {.plan = PLAN("0.05", "null", "null", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"target not certified before the job ends, expected to be missed: sds are expected within 5 "
      "% "
      "(asked for: 2 %), means within 0.04 sd (0.02)"},
     NULL},
    {"a bias that nobody knows",
     {.plan = PLAN("null", "null", "null", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"expected to be missed: the bias of the sds is not known in advance, means within 0.04 sd "
      "(0.02)"},
     "nan"},
    {"a target that is expected to be met",
     {.plan = PLAN_MET},
     {.head = many, .state = RUNNING},
     "good",
     "none seen",
     {"the certificate, Stein and energy checks (made when it ends)"},
     "target"},
    {"means that are not known well enough",
     {.plan = PLAN("0.01", "null", "null", "null")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not met: means are known to ± 0.042 sd, 0.02 was asked for"},
     NULL},
    {"fewer effective draws than were asked for",
     {.plan = PLAN("0.01", "null", "null", "4000")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not met: 2311 effective draws, 4000 were asked for"},
     "means"},
    {"as expected, but not certified",
     {.plan = PLAN_MET},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not certified: not made"},
     NULL},
    {"a certificate that is within the target",
     {.plan = PLAN_MET, .checks = CERTIFIED(MEAN_FINE, SD_FINE, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"certified: means within 0.008 sd, sds within 0.7 %"},
     "target"},
    {"a certificate counts, and what a plan expected does not",
     {.plan = PLAN("0.01", "null", "null", "null"),
      .checks = CERTIFIED(MEAN_FINE, SD_FINE, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"certified: means within 0.008 sd, sds within 0.7 %"},
     "target"},
    {"a certificate of sds that are not within the target",
     {.plan = PLAN_MET, .checks = CERTIFIED(MEAN_FINE, SD_OFF, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "mild",
     {"target missed: the sd of theta[2] is off by -8 ± 1 % (asked for: 2 %)"},
     NULL},
    {"a certificate of a mean that is off",
     {.plan = PLAN_MET, .checks = CERTIFIED(MEAN_OFF("0.16"), SD_FINE, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "mild",
     {"target missed: the mean of theta[3] is off by 0.16 ± 0.01 sd (asked for: 0.02)"},
     NULL},
    {"a mean that is no further off than so few draws may be",
     {.plan = PLAN_MET, .checks = CERTIFIED(MEAN_OFF("0.08"), SD_FINE, "dense")},
     {.head = fewer, .state = JOB_succeeded},
     "fair",
     "none seen",
     {"off by 0.08 ± 0.01 sd (asked for: 0.02), as so few draws may be by chance: extend the job"},
     NULL},
    {"a certificate that is not sharp enough",
     {.plan = PLAN_MET, .checks = CERTIFIED(MEAN_FINE, SD_VAGUE, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not certified: the sd of theta[3] is only known to be within 5 % (asked for: 2 %)"},
     NULL},
    {"a certificate with gaps",
     {.plan = PLAN_MET, .checks = CERTIFIED(MEAN_FINE, SD_OPEN, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not certified: the error of the sd of theta[1] is not resolved, nor are 1 more"},
     NULL},
    {"an exact sampler needs no certificate",
     {.request = exact, .plan = PLAN_MET},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"bias: none by construction once the chains have mixed; not known: "},
     "target"},
    {"sds that are known worse than means",
     {.request = exact, .plan = PLAN_MET},
     {.head = {1.002, 90000, 80000, 0.02, "theta[2]", 4, 1000}, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not met: sds are known to ± 4 %, 2 % was asked for"},
     NULL},
    {"an approximate sampler and several modes",
     {.plan = PLAN_MODES, .checks = CERTIFIED(MEAN_FINE, SD_FINE, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not certified: the posterior has 2 modes or more"},
     "other modes"},
    {"an exact sampler that finds its way between modes",
     {.request = exact, .plan = PLAN_MODES},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"bias: none by construction once the chains have mixed"},
     "modes"},
    {"more modes than chains",
     {.request = exact, .plan = PLAN_MODES, .chains = 1},
     {.head = many, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not certified: 2 modes were found, and there is 1 chain"},
     NULL},
    {"chains that stay at their modes",
     {.request = exact, .plan = PLAN_MODES},
     {.head = {1.7, 6, 6, NAN, "theta[2]", 4, 1000}, .state = JOB_succeeded},
     "poor",
     "unknown",
     {"; the plan found 2 modes, and chains that start around one may not reach the others"},
     NULL},
    {"an exact sampler that a certificate contradicts",
     {.request = exact, .plan = PLAN_MET, .checks = CERTIFIED(MEAN_OFF("0.16"), SD_FINE, "dense")},
     {.head = many, .state = JOB_succeeded},
     "good",
     "unknown",
     {"target not certified: to first order the mean of theta[3] is off by 0.16"},
     "missed"},
    {"chains that have not mixed",
     {.plan = PLAN_MET, .checks = CERTIFIED(MEAN_FINE, SD_FINE, "dense")},
     {.head = {1.2, 9000, 9000, NAN, "theta[2]", 4, 1000}, .state = JOB_succeeded},
     "poor",
     "unknown",
     {"target not met: the chains have not mixed"},
     NULL},
};

/* Before the job ends nothing is known; after it the target is met where no text says otherwise. */
static void expect_met(const struct situation *s)
{
    json_t *doc = verdict_of(s->world, s->context);
    const json_t *target = json_object_get(doc, "target"), *met = json_object_get(target, "met");
    bool missed = strstr(verdict_text(doc, NULL, "sentence"), "; target ") != NULL;
    if (s->context.state == JOB_running)
        cr_expect(json_is_null(met), "%s", s->name);
    else
        cr_expect_eq(json_is_true(met), !missed, "%s", s->name);
    cr_expect(verdict_text(doc, "target", "text")[0] != '\0', "%s", s->name);
    json_decref(doc);
}

Test(verdict, targets_are_judged_by_what_was_asked_for)
{
    for (size_t i = 0; i < sizeof target_situations / sizeof target_situations[0]; i++)
        expect_situation(&target_situations[i]);
    for (size_t i = 0; i < sizeof target_situations / sizeof target_situations[0]; i++)
        expect_met(&target_situations[i]);
}

Test(verdict, times_to_target_follow_from_r_hat_and_ess)
{
    json_t *doc =
        verdict_of((struct world){.tau = 20.0},
                   (struct verdict_context){.head = {1.0, 100.0, 80.0, NAN, "theta[1]", 4, 1000},
                                            .state = JOB_running,
                                            .rate = 8000.0});
    const json_t *mixing = json_object_get(doc, "mixing");
    double iterations = json_number_value(json_object_get(mixing, "iterations_to_target"));
    double seconds = json_number_value(json_object_get(mixing, "seconds_to_target"));
    expect_near(iterations, 10000.0 * (400.0 / 80.0 - 1.0), "iterations");
    expect_near(seconds, iterations * 4.0 / 8000.0, "seconds");
    json_decref(doc);
}

/* ---- bounds ---- */

Test(verdict, a_sentence_that_does_not_fit_is_cut_between_characters)
{
    struct sentence w = {0};
    for (int i = 0; i < 300; i++)
        sentence_add(&w, "\xc3\xa4\xc3\xb6 ");
    cr_expect_lt(strlen(w.text), sizeof w.text);
    cr_expect_eq(w.length, strlen(w.text));
    json_t *text = json_string(w.text);
    cr_expect_not_null(text, "not UTF-8");
    json_decref(text);
}

static const struct {
    double seconds;
    const char *text;
} durations[] = {
    {0.0, "less than 1 s"},
    {0.98, "less than 1 s"},
    {1.4, "1 s"},
    {40.2, "40 s"},
    {89.0, "89 s"},
    {91.0, "2 min"},
    {3600.0, "60 min"},
    {7300.0, "2 h"},
    {200000.0, "2 days"},
    {9e9, "more than a year"},
    {INFINITY, "more than a year"},
};

Test(verdict, durations_are_said_in_words)
{
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        struct sentence w = {0};
        sentence_add_duration(&w, durations[i].seconds);
        cr_expect_str_eq(w.text, durations[i].text);
    }
}

static const struct {
    double value;
    int digits;
    const char *text;
} numbers[] = {
    {0.0451, 2, "0.045"}, {1.94, 2, "1.9"}, {14.6, 1, "15"},   {9.7, 1, "10"},
    {99.4, 2, "99"},      {99.8, 2, "100"}, {129.3, 2, "129"}, {-99.8, 2, "-100"},
};

Test(verdict, numbers_are_said_without_powers_of_ten)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sentence w = {0};
        sentence_add_number(&w, numbers[i].value, numbers[i].digits);
        cr_expect_str_eq(w.text, numbers[i].text);
    }
}

Test(verdict, advice_is_rounded_up_to_two_digits)
{
    cr_expect_eq(sentence_round_up(0.3), 1);
    cr_expect_eq(sentence_round_up(99.0), 99);
    cr_expect_eq(sentence_round_up(123456.0), 130000);
    cr_expect_eq(sentence_round_up(1e300), (uint64_t)1e18);
}
