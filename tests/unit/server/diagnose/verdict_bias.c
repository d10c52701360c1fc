/* The verdict on bias says what the evidence says. */
#include "tests/unit/server/diagnose/verdict_world.h"

static const struct situation bias_situations[] = {
    /* sigma tau = 24 of a Langevin step that overshoots: 1 + 24^2 / 4. */
    {"Langevin on a coordinate that is too thin for it",
     {.request = langevin, .tau = 20.0, .first_tau = 2400.0, .beyond = 0.25, .variance = 25.0},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"bias: strong (step size 12 x the noise tolerance of theta[1], 25 % of all proposals "
      "beyond, unstable: expect the variance of theta[1] inflated, about 145 x or more)"},
     "step size itself"},
    /* sigma tau = 4 by itself, 0.9953 sigma / sd of the marginal. */
    {"Barker among correlated coordinates",
     {.request = barker, .tau = 400.0, .beyond = 0.75, .variance = 0.01},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"bias: mild (step size 2.9 x the noise tolerance of theta[1], 75 % of all proposals beyond: "
      "expect the variance of theta[1] inflated, about 1.26 x (narrow directions up to 2.8 x))"},
     NULL},
    {"no more than the coordinate by itself",
     {.request = barker, .tau = 100.0, .variance = 1e-6},
     {.head = few, .state = RUNNING},
     "unknown",
     "mild",
     {"step size 0.72 x the noise tolerance of theta[1]: expect the variance of theta[1] inflated, "
      "up to about 1.22 x)"},
     "thin"},
    {"a corrected variant within its tolerance",
     {.request = corrected, .tau = 40.0},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: no check found a bias (step size 0.29 x the noise tolerance, steps of at most 0.1 "
      "sd)"},
     "too narrow"},
    {"a corrected variant that works hard",
     {.request = corrected, .tau = 100.0},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"step size 0.72 x the noise tolerance of theta[1]: expect the variance of theta[1] inflated, "
      "up to about 1.0",
      "not known: whether correlated parameters come out too narrow (the correction treats each "
      "alone)"},
     "fails"},
    {"a corrected variant beyond its tolerance",
     {.request = corrected, .tau = 400.0, .beyond = 1.0},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"the correction fails there, the variance of theta[1] may be up to about 2.5 x"},
     "treats each alone"},
    {"extreme: too narrow",
     {.request = extreme, .tau = 100.0},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"the spread of this variant is that of the gradient noise: expect the variance of theta[1] "
      "to be at most about 0.25 x the target's"},
     "step size itself"},
    {"extreme: too wide",
     {.request = extreme, .tau = 400.0, .beyond = 1.0},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"step size 2 x the noise tolerance of theta[1]", "up to about 4 x"},
     NULL},
    {"extreme: as wide as it should be",
     {.request = extreme, .tau = 203.0},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"step size 1.02 x the noise tolerance of theta[1]; means may be off, too",
      "not known: the bias of means (asymmetric gradient noise"},
     "none seen"},
    {"extreme without noise",
     {.request = extreme_full},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"its draws stay near a mode"},
     NULL},
    {"full batch",
     {.request = barker_full},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: no check found a bias (no gradient noise, steps of at most 0.1 sd)"},
     NULL},
    {"all rows in every batch",
     {.request = barker_all_rows},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: no check found a bias (no gradient noise, steps of at most 0.1 sd)"},
     "(measured"},
    {"all rows in every batch, before warm-up ends",
     {.request = barker_all_rows, .iteration = 500},
     {.head = few, .state = RUNNING},
     "unknown",
     "unknown",
     {"bias: unknown until the chains have mixed"},
     "(measured"},
    {"a noise that is nothing next to the step",
     {.request = corrected, .tau = 1e-20},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: no check found a bias (step size "},
     "()"},
    {"full batch, before the sds are known",
     {.request = barker_full},
     {.head = {1.1, 30, 30, NAN, "theta[1]", 4, 1000}, .state = RUNNING, .iterations = 9000000},
     "poor",
     "unknown",
     {"bias: unknown until the chains have mixed; not known: the certificate, Stein and energy "
      "checks (made when it "
      "ends), the bias of the step size itself"},
     NULL},
    /* 2 / (1 + sqrt(1 - 8 * 0.131 * 0.49)) */
    {"full batch, large steps",
     {.request = barker_full, .sigma = 0.07},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"step size 0.7 x the sd of theta[1], which by itself makes its variance about 1.18 x the "
      "target's"},
     NULL},
    {"full batch, gaussian jumps, whose fourth moment is three times as large",
     {.request = gaussian, .sigma = 0.05},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"about 1.28 x the target's"},
     NULL},
    {"full batch, larger steps than the posterior",
     {.request = barker_full, .sigma = 0.13},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"step size 1.3 x the sd of theta[1], too large to resolve it"},
     NULL},
    {"lattice walk, not clipped",
     {.request = lattice, .tau = 50.0},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"step size 0.64 x the noise tolerance"},
     NULL},
    {"lattice walk, whose variance is right at any step",
     {.request = lattice_apart, .sigma = 0.06, .thin = 5},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: no check found a bias (no gradient noise, steps of at most 0.6 sd)"},
     "variance"},
    /* 2 * 0.6 / sqrt(12 * 4) */
    {"lattice walk, of which only every second point is stored",
     {.request = lattice_apart, .sigma = 0.06, .thin = 10},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"bias: mild (step size 0.6 x the sd of theta[1]: draws of a chain lie 1.2 sd apart, which "
      "puts quantiles off by about 0.2 sd)"},
     "variance"},
    {"lattice walks from one start",
     {.request = lattice_full, .sigma = 0.06, .thin = 5},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"draws of a chain lie 0.6 sd apart, which puts quantiles off by about 0.2 sd"},
     "variance"},
    {"lattice walks that no centre sets apart",
     {.request = lattice_auto, .sigma = 0.06, .thin = 5},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"draws of a chain lie 0.6 sd apart, which puts quantiles off by about 0.2 sd"},
     "variance"},
    {"lattice walk between three points",
     {.request = lattice_apart, .sigma = 0.1414, .thin = 5},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"step size 1.4 x the sd of theta[1], too large to resolve it"},
     NULL},
    {"noise without a variance that moves take in",
     {.request = cauchy, .tau = 5.0, .d = 1},
     {.head = {1.004, 2310, 1980, NAN, "theta[1]", 1, 1000}, .state = RUNNING},
     "good",
     "strong",
     {"bias: strong (the gradient noise has infinite variance, and moves of sgld are not bounded)"},
     "tolerance"},
    {"noise without a variance and bounded moves",
     {.request = cauchy_barker, .tau = 5.0, .d = 1},
     {.head = {1.004, 2310, 1980, NAN, "theta[1]", 1, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"not known: the effect of gradient noise with infinite variance"},
     "tolerance"},
    {"draws so far out that the error of their energy hides it",
     {.request = barker_full,
      .checks = CHECKS("null", "{\"ratio\":38844,\"ratio_error\":31077,\"z\":1.25,\"draws\":400}")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "strong",
     {"bias: strong (energy 38844 ± 31077 x that of a normal posterior: no posterior has that)"},
     NULL},
    {"an energy that is large whatever its error",
     {.request = barker_full,
      .checks = CHECKS("null", "{\"ratio\":40,\"ratio_error\":30,\"z\":1.3,\"draws\":400}")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"bias: mild (energy 40 ± 30"},
     NULL},
    {"half a step that tells something",
     {.request = barker_full, .plan = PLAN("0.01", "0.9", "0.02", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"half the step size agrees to 6 %"},
     NULL},
    {"a plan that expects more than was asked for",
     {.request = barker_full, .plan = PLAN("0.21", "0.9", "0.02", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"at half of it (± 0.02): expect sds off by about 21 %)"},
     "none seen"},
    {"half a step that tells nothing",
     {.request = barker_full, .plan = PLAN("0.01", "8", "9.1", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: ", "the effect of half the step size (the plan's runs are too short to tell)"},
     "agrees"},
    {"half a step that is far away, though nobody can be sure",
     {.request = barker_full, .plan = PLAN("0.01", "0.7", "0.2", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: ", "the effect of half the step size (the plan's runs are too short to tell)"},
     "agrees"},
    {"half a step that was not tried",
     {.request = barker_full, .plan = PLAN("0.01", "null", "null", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"the effect of half the step size (the plan's runs are too short to tell)"},
     "agrees"},
    {"artificial noise",
     {.request = toy, .tau = 100.0, .d = 1},
     {.head = {1.004, 2310, 1980, NAN, "theta[1]", 1, 1000}, .state = RUNNING},
     "good",
     "mild",
     {"step size 0.5 x the noise tolerance of theta[1]: expect the variance of theta[1] inflated, "
      "up to about 1.25 x)"},
     NULL},
    {"batches of one row",
     {.request = one_row},
     {.head = few, .state = RUNNING},
     "unknown",
     "unknown",
     {"bias: unknown; not known: the gradient noise (batches of one row do not show it)"},
     NULL},
    {"exact sampler",
     {.request = exact},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: none by construction once the chains have mixed; not known: other modes (all chains "
      "started around "
      "one point)"},
     "check"},
    {"checks that find nothing",
     {.request = barker_full, .checks = CHECKS(KSD("0.34"), ENERGY("1.02", "1.1"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"bias: no check found a bias (", "energy 1.02 ± 0.02, Stein p 0.34",
      "biases too small for 312 draws to show",
      "not known: errors of means and sds (not certified: the checks are of an older version)"},
     "Stein and energy checks"},
    {"one small p-value",
     {.request = barker_full, .checks = CHECKS(KSD("0.004"), ENERGY("1.02", "1.1"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"Stein p 0.004"},
     "mild"},
    {"a Stein discrepancy that is too large for chance",
     {.request = barker_full, .checks = CHECKS(KSD_BEYOND, ENERGY("1.02", "1.1"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"bias: mild (Stein discrepancy 0.1 at 312 draws, p 0.001: they are not from the target)"},
     NULL},
    {"too much energy, by itself at most mild",
     {.request = barker_full, .checks = CHECKS(KSD("0.34"), ENERGY("1.91", "40.0"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"energy 1.91 ± 0.02 x that of a normal posterior: directions that are too wide, or a "
      "posterior that is not normal"},
     NULL},
    {"too little energy",
     {.request = barker_full, .checks = CHECKS(KSD("0.34"), ENERGY("0.31", "-40.0"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"too narrow"},
     NULL},
    {"energy within its error",
     {.request = barker_full, .checks = CHECKS(KSD("0.34"), ENERGY("1.08", "2.9"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"energy 1.08"},
     NULL},
    {"a discrepancy that could be chance is not called small",
     {.request = barker_full, .checks = CHECKS(KSD("0.02"), "null")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"Stein p 0.02"},
     NULL},
    {"an energy with a large error",
     {.request = barker_full,
      .checks = CHECKS("null", "{\"ratio\":129.28,\"ratio_error\":36.2,\"z\":3.5,\"draws\":312}")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"energy 129 ± 36 x that of a normal posterior: directions that are too wide, or a "
      "posterior that is not log-concave (those have at most 2)"},
     "e+"},
    {"an energy that a log-concave posterior may have, to within its error",
     {.request = barker_full,
      .checks = CHECKS("null", "{\"ratio\":2.2,\"ratio_error\":0.1,\"z\":12,\"draws\":312}")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"or a posterior that is not normal"},
     "concave"},
    {"two things wrong: the stronger first",
     {.request = langevin,
      .tau = 2400.0,
      .beyond = 1.0,
      .variance = 25.0,
      .checks = CHECKS(KSD_BEYOND, "null")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "strong",
     {"(step size 12 x", "; Stein discrepancy"},
     NULL},
    {"checks that could not be made",
     {.request = barker_full,
      .checks = "{\"ksd\":null,\"energy\":null,\"reason\":\"only 2 of 5 parameters are "
                "saved\",\"brief\":\"not "
                "all parameters are saved\"}"},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"the Stein and energy checks (not all parameters are saved)"},
     NULL},
    {"checks of draws that have not mixed",
     {.request = barker_full, .checks = CHECKS(KSD("0.001"), ENERGY("0.3", "-40.0"))},
     {.head = {1.4, 9, 9, NAN, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000},
     "poor",
     "unknown",
     {"bias: unknown until the chains have mixed; not known: the Stein and energy checks (the "
      "chains have not mixed), the bias of the step size itself"},
     "energy 0.3"},
    {"an exact sampler that has not mixed",
     {.request = exact},
     {.head = slow, .state = RUNNING, .rate = 8000},
     "poor",
     "unknown",
     {"bias: none by construction once the chains have mixed"},
     "modes"},
    {"a certificate",
     {.request = barker_full, .checks = CERTIFIED(MEAN_FINE, SD_FINE, "dense")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"bias: no check found a bias (certified: means within 0.008 sd, sds within 0.7 %, no "
      "gradient "
      "noise"},
     "weaker"},
    {"a certificate from variances alone",
     {.request = barker_full, .checks = CERTIFIED(MEAN_FINE, SD_FINE, "diagonal")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"(certified: means within 0.008 sd, sds within 0.7 % by variances alone, which is weaker,"},
     NULL},
    {"a certificate that finds a bias",
     {.request = barker_full, .checks = CERTIFIED(MEAN_OFF("0.16"), SD_OFF, "dense")},
     {.head = {1.002, 90000, 80000, NAN, "theta[2]", 4, 1000}, .state = JOB_succeeded},
     "good",
     "mild",
     {"bias: mild (the mean of theta[3] is off by 0.16 ± 0.01 sd, the sd of theta[2] is off by -8 "
      "± 1 %)"},
     "certified"},
    {"a certificate that finds a large bias",
     {.request = barker_full, .checks = CERTIFIED(MEAN_OFF("-0.71"), SD_FINE, "dense")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "strong",
     {"bias: strong (the mean of theta[3] is off by -0.71 ± 0.01 sd)"},
     "certified"},
    {"Monte-Carlo error is no bias",
     {.request = barker_full, .checks = CERTIFIED(MEAN_OFF("0.045"), SD_FINE, "dense")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"bias: no check found a bias (certified: means within 0.18 sd"},
     NULL},
    {"an exact sampler with a certificate",
     {.request = exact, .checks = CERTIFIED(MEAN_FINE, SD_FINE, "dense")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"bias: none by construction once the chains have mixed (certified: means within 0.008 sd, "
      "sds within 0.7 "
      "%)"},
     NULL},
    {"an exact sampler that the certificate contradicts",
     {.request = exact, .checks = CERTIFIED(MEAN_OFF("0.71"), SD_FINE, "dense")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "unknown",
     {"once the chains cover the posterior; the mean of theta[3] is off by 0.71 ± 0.01 sd to first "
      "order, a sign that the chains have not covered the posterior"},
     "mild"},
    {"a certificate that leaves sds open",
     {.request = barker_full, .checks = CERTIFIED(MEAN_FINE, SD_OPEN, "dense")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"sds within 0.7 %",
      "not known: errors of the sds of 2 of 4 parameters (not certified: the gradients do not "
      "resolve them)"},
     NULL},
    {"a certificate that could not be made",
     {.request = barker_full,
      .checks = "{\"ksd\":null,\"energy\":null,\"brief\":\"x\",\"certificate\":{\"reason\":\"y\","
                "\"brief\":\"too little time\"}}"},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"errors of means and sds (not certified: too little time)"},
     NULL},
    {"checks of an older version, without a brief reason",
     {.request = barker_full,
      .checks = "{\"ksd\":null,\"energy\":null,\"reason\":\"no time: a pass takes 9 s\"}"},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"the Stein and energy checks (not possible)"},
     "pass"},
    {"draws of a decreasing step size",
     {.request = decreasing, .tau = 20.0},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"the effect of weights (step sizes decrease, all draws count equally)"},
     NULL},
    {"a reference that is gone",
     {.request = with_reference},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: the distance from reference stan (it was deleted or cannot be read)"},
     NULL},
};

Test(verdict, bias_is_judged_in_every_situation)
{
    for (size_t i = 0; i < sizeof bias_situations / sizeof bias_situations[0]; i++)
        expect_situation(&bias_situations[i]);
}

/* ---- the numbers behind the words ---- */

Test(verdict, the_numbers_behind_a_noise_verdict_are_given)
{
    json_t *doc = verdict_of((struct world){.tau = 400.0, .beyond = 0.75, .variance = 0.01},
                             (struct verdict_context){.head = good, .state = JOB_running});
    double ceiling = sampler_sgbd.ceiling((const double[PARAM_MAX]){0.0});
    cr_expect_str_eq(verdict_text(verdict_evidence_of(doc, "noise"), NULL, "parameter"),
                     "theta[1]");
    expect_near(verdict_number(doc, "noise", "tau"), 400.0, "tau");
    expect_near(verdict_number(doc, "noise", "step_size"), 0.01, "step_size");
    expect_near(verdict_number(doc, "noise", "tolerance"), ceiling / 400.0, "tolerance");
    expect_near(verdict_number(doc, "noise", "step_ratio"), 4.0 / ceiling, "step_ratio");
    expect_near(verdict_number(doc, "noise", "beyond_all"), 0.75, "beyond_all");
    json_decref(doc);
}

/* Langevin: by itself 5 = 1 + s^2/4 with s = 4; of the marginal variance it adds to what is left of
 * it, after the step of this stiffness has amplified it. */
Test(verdict, marginal_inflation_of_langevin_follows_the_closed_form)
{
    json_t *doc = verdict_of(
        (struct world){.request = langevin, .tau = 400.0, .beyond = 1.0, .variance = 0.01},
        (struct verdict_context){.head = good, .state = JOB_running});
    double c = (88163.0 - 881.0) / 881.0, H = 400.0 * 400.0 / c;
    double added = (5.0 / (1.0 - 1e-4 * H / 4.0) - 1.0) / H;
    expect_near(verdict_number(doc, "noise", "variance_ratio"), 5.0, "variance_ratio");
    /* four sample variances pool to a little less: 4 (n - 1) / (4 n - 1) */
    cr_expect_float_eq(verdict_number(doc, "noise", "marginal_variance_ratio"),
                       0.01 / (0.01 - added), 1e-4);
    json_decref(doc);
}

/* sigma_0 (1 + 11000/1000)^-1 */
Test(verdict, a_schedule_is_judged_where_it_stands)
{
    json_t *doc = verdict_of((struct world){.request = decreasing, .tau = 400.0},
                             (struct verdict_context){.head = good, .state = JOB_running});
    expect_near(verdict_number(doc, "noise", "step_size"), 0.01 / 12.0, "step_size");
    json_decref(doc);
}

/* ---- references ---- */

/* The stored draws sweep a sine of amplitude 1 evenly: mean 0, sd 0.7071. */
static json_t *judge_reference(const char *document)
{
    struct reference_row row = {
        .name = "stan", .owner = "alice", .document = (char *)(uintptr_t)document};
    expect_ok(store_reference_put(verdict_test.store, &row, &verdict_test.info),
              &verdict_test.info);
    return verdict_of(
        (struct world){.request = with_reference, .d = 1, .spread = 1.0, .variance = 0.5},
        (struct verdict_context){.head = {1.004, 2310, 1980, NAN, "theta[1]", 1, 1000},
                                 .state = JOB_running});
}

static const struct {
    const char *document, *level, *says;
} references[] = {
    {"{\"names\":[\"theta[1]\"],\"mean\":[0],\"sd\":[0.7071]}", "none seen",
     "reference stan: means within "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0.21],\"sd\":[0.7071]}", "mild",
     "against reference stan the mean of theta[1] is off by 0.3 ± "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0.7071],\"sd\":[0.7071]}", "strong",
     "against reference stan the mean of theta[1] is off by 1 ± "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0],\"sd\":[0.64]}", "mild",
     "against reference stan the variance of theta[1] is off by 22 ± "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0],\"sd\":[0.2]}", "strong",
     "against reference stan the variance of theta[1] is 12.5 x the reference's"},
    {"{\"names\":[\"beta[1]\"],\"mean\":[0],\"sd\":[0.2]}", "none seen",
     "the distance from reference stan (no parameter in common)"},
};

Test(verdict, a_reference_counts)
{
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
        json_t *doc = judge_reference(references[i].document);
        const char *sentence = verdict_text(doc, NULL, "sentence");
        cr_expect_str_eq(verdict_text(doc, "bias", "level"), references[i].level, "%s: %s",
                         references[i].document, sentence);
        cr_expect(strstr(sentence, references[i].says) != NULL, "no \"%s\" in \"%s\"",
                  references[i].says, sentence);
        json_decref(doc);
    }
}

/* 2 (-119.5 + 123.5) / 4 = 2 more than 1: energies count fully against a reference that has one. */
Test(verdict, the_energy_of_a_reference_counts_fully)
{
    struct reference_row row = {
        .name = "stan",
        .owner = "alice",
        .document = (char *)(uintptr_t) "{\"names\":[\"theta[1]\"],\"mean\":[0],\"sd\":[0.7071],"
                                        "\"log_density\":{\"mean\":-119.5,\"mcse\":0.05}}"};
    expect_ok(store_reference_put(verdict_test.store, &row, &verdict_test.info),
              &verdict_test.info);
    json_t *doc = verdict_of((struct world){.request = with_reference,
                                            .spread = 1.0,
                                            .variance = 0.5,
                                            .checks = CHECKS(KSD("0.34"), ENERGY("1.1", "1.0"))},
                             (struct verdict_context){.head = good, .state = JOB_succeeded});
    cr_expect_str_eq(verdict_text(doc, "bias", "level"), "strong");
    cr_expect(
        strstr(json_string_value(json_object_get(verdict_evidence_of(doc, "reference"), "text")),
               "against reference stan (1 of 4 parameters) the mean") != NULL);
    cr_expect(strstr(verdict_text(doc, NULL, "sentence"),
                     "mean log density 4 ± 0.1 below the reference's, as if every variance were "
                     "3 x the target's") != NULL,
              "%s", verdict_text(doc, NULL, "sentence"));
    expect_near(verdict_number(doc, "energy", "reference_difference"), -4.0, "difference");
    json_decref(doc);
}
