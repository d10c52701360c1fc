/* The verdict says what the numbers say, in every situation a job can be in. */
#include "server/diagnose/verdict.h"
#include "server/base/json.h"
#include "server/diagnose/tolerance.h"
#include "tests/support/store.h"

#include <inttypes.h>
#include <math.h>

static struct store_test t;

static void setup(void)
{
    store_test_init(&t);
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(verdict, .init = setup, .fini = teardown);

/* ---- jobs to judge ---- */

static char id[JOB_ID_SIZE];
static size_t made; /* jobs */

#define SEPSIS_MODEL \
    "\"model\":{\"name\":\"logistic\"},\"data\":{\"path\":\"a.csv\",\"response\":\"y\"},"
#define REST          "\"iterations\":20000,\"warmup\":1000,\"chains\":4,\"seed\":7}"
#define JOB(sampler)  "{" SEPSIS_MODEL "\"batch_size\":881,\"sampler\":{" sampler "}," REST
#define FULL(sampler) "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"sampler\":{" sampler "}," REST

static const char barker[] = JOB("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01");
static const char barker_full[] =
    FULL("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01");
static const char barker_all_rows[] =
    "{" SEPSIS_MODEL "\"batch_size\":88163,\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\","
    "\"step_size\":0.01}," REST;
static const char langevin[] = JOB("\"name\":\"sgld\",\"step_size\":0.01");
static const char corrected[] =
    JOB("\"name\":\"sgbd\",\"variant\":\"corrected\",\"step_size\":0.01");
static const char extreme[] = JOB("\"name\":\"sgld\",\"variant\":\"extreme\",\"step_size\":0.01");
static const char extreme_full[] =
    FULL("\"name\":\"sgld\",\"variant\":\"extreme\",\"step_size\":0.01");
static const char gaussian[] =
    FULL("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"noise\":\"gaussian\",\"step_size\":0.01");
static const char lattice[] = JOB("\"name\":\"sglrw\",\"step_size\":0.01");
static const char lattice_apart[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"init\":{\"kind\":\"prior\"},"
    "\"sampler\":{\"name\":\"sglrw\",\"step_size\":0.01}," REST;
static const char lattice_full[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"init\":{\"kind\":\"zero\"},"
    "\"sampler\":{\"name\":\"sglrw\",\"step_size\":0.01}," REST;
static const char lattice_auto[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"init\":{\"kind\":\"auto\"},"
    "\"precondition\":\"none\",\"gradient\":{\"estimator\":\"plain\"},"
    "\"sampler\":{\"name\":\"sglrw\",\"step_size\":0.01}," REST;
static const char cauchy[] =
    "{\"model\":{\"name\":\"noisy_normal\",\"noise\":\"cauchy\",\"noise_scale\":5},"
    "\"sampler\":{\"name\":\"sgld\",\"step_size\":0.01}," REST;
static const char cauchy_barker[] =
    "{\"model\":{\"name\":\"noisy_normal\",\"noise\":\"cauchy\",\"noise_scale\":5},"
    "\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01}," REST;
static const char exact[] = FULL("\"name\":\"barker_mh\"");
static const char toy[] = "{\"model\":{\"name\":\"noisy_normal\",\"noise_scale\":5},"
                          "\"sampler\":{\"name\":\"sgld\",\"step_size\":0.01}," REST;
static const char one_row[] =
    "{" SEPSIS_MODEL "\"batch_size\":1,\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\","
    "\"step_size\":0.01}," REST;
static const char decreasing[] =
    JOB("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":{\"kind\":\"schedule\","
        "\"value\":0.01,\"t0\":1000,\"gamma\":1}");
static const char with_reference[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"reference\":\"stan\","
    "\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01}," REST;

/* A job of d parameters theta[1..d], all alike but for the first. Zero means the usual. */
struct world {
    const char *request;
    size_t d, width;
    uint32_t chains;
    uint64_t iteration; /* of every chain */
    size_t draws;       /* stored, of every chain; after warm-up they are draws - 1000 / thin */
    uint64_t thin;
    double tau, sigma, beyond, variance; /* NaN variance: 0, a constant */
    double first_tau, first_variance;
    uint32_t diverged; /* chain */
    const char *checks;
    const char *plan; /* its document */
    double spread;    /* of the stored draws, which are a sweep over [-1, 1] times this */
};

static struct world usual(struct world w)
{
    w.request = w.request != NULL ? w.request : barker;
    w.d = w.d > 0 ? w.d : 4;
    w.width = w.width == SIZE_MAX ? 0 : w.width > 0 ? w.width : w.d;
    w.chains = w.chains > 0 ? w.chains : 4;
    w.iteration = w.iteration > 0 ? w.iteration : 11000;
    w.thin = w.thin > 0 ? w.thin : 10;
    w.draws = w.draws > 0 ? w.draws : (size_t)(w.iteration / w.thin);
    w.sigma = w.sigma > 0.0 ? w.sigma : 0.01;
    w.variance = isnan(w.variance) ? 0.0 : w.variance > 0.0 ? w.variance : 0.01;
    return w;
}

static void create(const struct world *w)
{
    char(*texts)[32] = calloc(w->width + 1, sizeof *texts);
    const char **names = calloc(w->width + 1, sizeof *names);
    struct model_block block = {.name = "theta", .rank = 1, .shape = {w->d}};
    for (size_t i = 0; i < w->width; i++) {
        snprintf(texts[i], sizeof texts[i], "theta[%zu]", i + 1);
        names[i] = texts[i];
    }
    struct jobfile_meta meta = {.request = w->request,
                                .names = names,
                                .width = w->width,
                                .d = w->d,
                                .N = strstr(w->request, "noisy_normal") != NULL ? 0 : 88163,
                                .chains = w->chains,
                                .thin = w->thin,
                                .warmup = 1000,
                                .blocks = &block,
                                .block_count = 1,
                                .plan = w->plan,
                                .plan_document = w->plan,
                                .plan_size = w->plan != NULL ? strlen(w->plan) : 0};
    expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
    free(names);
    free(texts);
}

static void fill(double *out, size_t d, double all, double first)
{
    for (size_t j = 0; j < d; j++)
        out[j] = all;
    out[0] = first > 0.0 ? first : all;
}

static void commit(const struct world *w, uint32_t chain)
{
    uint64_t state = 1, after = w->iteration > 1000 ? w->iteration - 1000 : 0;
    double *block = calloc(5 * w->d, sizeof *block);
    double *values = calloc(w->draws * w->width + 1, sizeof *values);
    double *mean = block, *variance = block + w->d, *tau = block + 2 * w->d;
    double *beyond = block + 3 * w->d, *sigma = block + 4 * w->d;
    fill(variance, w->d, w->variance, w->first_variance);
    fill(tau, w->d, w->tau, w->first_tau);
    fill(beyond, w->d, w->beyond, 0.0);
    fill(sigma, w->d, w->sigma, 0.0);
    for (size_t i = 0; i < w->draws * w->width; i++)
        values[i] = w->spread * sin((double)(i / w->width) * 2.385 + (double)chain);
    struct jobfile_slice slice = {.chain = chain,
                                  .iteration = w->iteration,
                                  .status = w->diverged == chain ? CHAIN_DIVERGED : CHAIN_ACTIVE,
                                  .cpu_seconds = 2.5,
                                  .state = &state,
                                  .state_size = sizeof state,
                                  .draws = w->draws,
                                  .values = values,
                                  .moment_count = after,
                                  .mean = after > 0 ? mean : NULL,
                                  .variance = after > 0 ? variance : NULL,
                                  .noise_count = w->tau > 0.0 && after > 0 ? 1 + after / 64 : 0,
                                  .tau = w->tau > 0.0 && after > 0 ? tau : NULL,
                                  .beyond = w->tau > 0.0 && after > 0 ? beyond : NULL,
                                  .sigma = sigma};
    expect_ok(jobfile_commit(t.store, id, &slice, &t.info), &t.info);
    free(values);
    free(block);
}

static void parse(struct job_spec *out, const char *request)
{
    struct mistakes mistakes = {0};
    json_t *json = json_loads(request, 0, NULL);
    cr_assert_not_null(json, "%s", request);
    enum err code = spec_parse(out, json, NULL, &mistakes);
    cr_assert_eq(code, ERR_OK, "%s", mistakes.count > 0 ? mistakes.items[0].detail : "");
    json_decref(json);
}

/* Summaries that a job may have. */
static const struct summary_head good = {1.004, 2310.7, 1980.2, "theta[2]", 4, 1000};
static const struct summary_head slow = {1.08, 85.0, 60.0, "theta[1]", 4, 1000};
static const struct summary_head few = {NAN, NAN, NAN, "", 4, 0};

static const char *text_at(const json_t *doc, const char *part, const char *key)
{
    const json_t *object = part != NULL ? json_object_get(doc, part) : doc;
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static json_t *judge(struct world w, struct verdict_context c)
{
    struct job_spec spec;
    struct jobfile *file;
    json_t *doc = NULL;
    struct verdict verdict;
    w = usual(w);
    store_test_id(++made, id);
    create(&w);
    for (uint32_t chain = 1; chain <= w.chains; chain++)
        commit(&w, chain);
    if (w.checks != NULL)
        expect_ok(jobfile_checks_put(t.store, id, w.checks, &t.info), &t.info);
    parse(&spec, w.request);
    c.spec = &spec;
    c.iterations = c.iterations > 0 ? c.iterations : 20000;
    c.store = t.store;
    c.owner = "alice";
    expect_ok(jobfile_open(&file, t.store, id, &t.info), &t.info);
    expect_ok(verdict_make(&verdict, &doc, file, &c, &t.info), &t.info);
    jobfile_close(file);
    spec_release(&spec);
    cr_expect_str_eq(verdict.sentence, text_at(doc, NULL, "sentence"));
    cr_expect_str_eq(mixing_level_name(verdict.mixing), text_at(doc, "mixing", "level"));
    cr_expect_str_eq(bias_level_name(verdict.bias), text_at(doc, "bias", "level"));
    return doc;
}

static json_t *evidence_of(const json_t *doc, const char *check)
{
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(json_object_get(doc, "bias"), "evidence"), i, item)
        if (strcmp(text_at(item, NULL, "check"), check) == 0)
            return item;
    return NULL;
}

static double number_of(const json_t *doc, const char *check, const char *key)
{
    const json_t *value = json_object_get(evidence_of(doc, check), key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* ---- every situation ---- */

struct situation {
    const char *name;
    struct world world;
    struct verdict_context context;
    const char *mixing, *bias; /* levels */
    const char *says[4];       /* in the sentence */
    const char * not ;         /* what must not be in it */
};

static void expect_situation(const struct situation *s)
{
    json_t *doc = judge(s->world, s->context);
    const char *sentence = text_at(doc, NULL, "sentence");
    cr_expect_str_eq(text_at(doc, "mixing", "level"), s->mixing, "%s: %s", s->name, sentence);
    cr_expect_str_eq(text_at(doc, "bias", "level"), s->bias, "%s: %s", s->name, sentence);
    for (size_t i = 0; i < 4 && s->says[i] != NULL; i++)
        cr_expect(strstr(sentence, s->says[i]) != NULL, "%s: no \"%s\" in \"%s\"", s->name,
                  s->says[i], sentence);
    if (s->not != NULL)
        cr_expect(strstr(sentence, s->not ) == NULL, "%s: \"%s\" in \"%s\"", s->name, s->not,
                  sentence);
    cr_expect_lt(strlen(sentence), VERDICT_SIZE);
    json_decref(doc);
}

#define RUNNING JOB_running
static const struct situation mixing_situations[] = {
    {"warm-up",
     {.iteration = 320, .draws = 32},
     {.head = few, .state = RUNNING},
     "unknown",
     "unknown",
     {"mixing: unknown (the slowest chain has done 320 of 1000 warm-up iterations); bias: "
      "unknown; ",
      "not known: the gradient noise (looked at after warm-up), "},
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
     "none seen",
     {"mixing: unknown (3 draws of each chain are too few)",
      "how steady the gradient noise is (looked at 4 times)"},
     NULL},
    {"no draws stored",
     {.width = SIZE_MAX, .draws = 1100, .tau = 20.0},
     {.head = few, .state = JOB_succeeded},
     "unknown",
     "none seen",
     {"unknown (no draws are stored)", "checks (no draws are stored)"},
     NULL},
    {"not looked at yet",
     {.tau = 20.0},
     {.head = few, .state = RUNNING},
     "unknown",
     "none seen",
     {"mixing: unknown (not measured yet)"},
     NULL},
    {"good",
     {.tau = 20.0},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"mixing: good (largest R-hat 1.004, smallest ESS 2311 bulk, 1980 tail); bias: none seen "
      "(step size 0.14 x the noise tolerance",
      "not known: the Stein and energy checks (made when it ends)"},
     "more"},
    {"numbers are rounded as everywhere else",
     {.tau = 20.0},
     {.head = {1.9049, 39.7, 80.4, "theta[2]", 4, 1000}, .state = RUNNING},
     "poor",
     "none seen",
     {"(largest R-hat 1.905: theta[2], smallest ESS 40 bulk, 80 tail)"},
     NULL},
    {"no R-hat is made larger than it is",
     {.tau = 20.0},
     {.head = {1.0000001, 2310, 1980, "theta[2]", 4, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"good (largest R-hat 1.000,"},
     NULL},
    {"R-hat just above the bound is not rounded down to it",
     {.tau = 20.0},
     {.head = {1.0102, 2310, 1980, "theta[2]", 4, 1000}, .state = RUNNING},
     "fair",
     "none seen",
     {"fair (largest R-hat 1.011: theta[2]"},
     NULL},
    {"an ESS just below the bound is not rounded up to it",
     {.tau = 20.0},
     {.head = {1.001, 399.9, 500, "theta[2]", 4, 1000}, .state = RUNNING},
     "fair",
     "none seen",
     {"smallest ESS 399 bulk"},
     NULL},
    {"the tail counts",
     {.tau = 20.0},
     {.head = {1.001, 900, 90, "theta[2]", 4, 1000}, .state = RUNNING},
     "poor",
     "none seen",
     {"smallest ESS 900 bulk, 90 tail"},
     NULL},
    /* R-hat 1.08 needs (1.08^2 - 1) / (1.01^2 - 1) = 8.279 times the 10000 iterations: 72786
     * more of each of 4 chains. */
    {"slow, and it goes on long enough",
     {.tau = 20.0},
     {.head = slow, .state = RUNNING, .rate = 8000.0, .iterations = 200000},
     "poor",
     "none seen",
     {"poor (largest R-hat 1.080: theta[1], smallest ESS 85 bulk, 60 tail), about 36 s more;"},
     "extend"},
    {"slow, and it ends before",
     {.tau = 20.0},
     {.head = slow, .state = RUNNING, .rate = 8000.0},
     "poor",
     "none seen",
     {"about 36 s more, but it ends before: extend it by about 63000 iterations (31 s)"},
     NULL},
    {"slow, at an unknown speed",
     {.tau = 20.0},
     {.head = slow, .state = JOB_paused, .rate = NAN, .iterations = 200000},
     "poor",
     "none seen",
     {"about 73000 iterations more;"},
     "NaN"},
    {"slow, and over",
     {.tau = 20.0},
     {.head = slow, .state = JOB_succeeded, .rate = 8000.0},
     "poor",
     "none seen",
     {", extend it by about 73000 iterations (66 s of processor time)"},
     "more"},
    {"vague",
     {.tau = 20.0},
     {.head = {1.2, 20, 20, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
     "poor",
     "none seen",
     {"extend it by at least 210000 iterations"},
     NULL},
    {"in different places",
     {.tau = 20.0},
     {.head = {3.1, 2.4, 9, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
     "poor",
     "none seen",
     {"(largest R-hat 3.100: theta[1]", "no telling how long it takes"},
     "extend"},
    {"standing still at different places",
     {.tau = 20.0},
     {.head = {INFINITY, NAN, NAN, "theta[3]", 4, 1000}, .state = RUNNING},
     "poor",
     "none seen",
     {"every chain stands still at a value of its own: theta[3]"},
     NULL},
    {"one constant",
     {.tau = 20.0, .variance = NAN, .first_variance = 0.01, .d = 2},
     {.head = {1.004, 2310, 1980, "theta[1]", 2, 1000}, .state = RUNNING},
     "poor",
     "none seen",
     {", and theta[2] does not move"},
     NULL},
    {"all constant",
     {.tau = 20.0, .variance = NAN},
     {.head = few, .state = RUNNING},
     "poor",
     "none seen",
     {"mixing: poor (no parameter moves)"},
     NULL},
    {"one chain",
     {.tau = 20.0, .chains = 1},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: whether chains from other starts agree (there is one), "},
     NULL},
    {"many parameters, of which some are looked at",
     {.tau = 20.0, .d = 2000, .draws = 106},
     {.head = {1.004, 2310, 1980, "theta[2]", 100, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"over 100 of 2000 parameters"},
     NULL},
    {"few parameters saved",
     {.tau = 20.0, .d = 20, .width = 3},
     {.head = {1.004, 2310, 1980, "theta[2]", 3, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"not known: mixing of the 17 parameters that are not saved, "},
     "over 3"},
    {"diverged",
     {.tau = 20.0, .diverged = 2},
     {.head = good, .state = JOB_failed},
     "unknown",
     "unknown",
     {"diverged: chain 2 at iteration 11001; its draws are no sample of the posterior; mixing and "
      "bias: not judged"},
     "good"},
    {"failed otherwise",
     {.tau = 20.0},
     {.head = slow, .state = JOB_failed, .rate = 8000.0},
     "poor",
     "none seen",
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
     "none seen",
     {"unknown (1 draw of each chain is too few)"},
     NULL},
    {"values that overflow when they are added up",
     {.tau = 20.0, .variance = INFINITY},
     {.head = few, .state = JOB_succeeded},
     "unknown",
     "none seen",
     {"unknown (the values are too large to be added up)"},
     "yet"},
    {"chains on lattices of their own",
     {.request = lattice_apart, .sigma = 0.06},
     {.head = {1.026, 560, 544, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
     "fair",
     "mild",
     {"and each chain is on a lattice of its own: take a smaller step size"},
     "extend"},
    {"chains on fine lattices that are short",
     {.request = lattice_apart, .sigma = 0.02},
     {.head = {1.026, 560, 544, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000.0},
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

#define CHECKS(ksd, energy) "{\"ksd\":" ksd ",\"fssd\":null,\"energy\":" energy "}"
#define KSD(p)              "{\"value\":0.045,\"squared\":0.002,\"error\":0.001,\"p_value\":" p ",\"draws\":312}"
#define ENERGY(ratio, z)                                                                    \
    "{\"mean_log_density\":-123.5,\"mcse\":0.1,\"sd\":1.5,\"draws\":300,"                   \
    "\"mode_log_density\":-121,\"expected\":-123,\"ratio\":" ratio ",\"ratio_error\":0.02," \
    "\"z\":" z "}"

#define PLAN(sd_error, energy, mcse, ess)                                                          \
    "{\"state\":\"ready\",\"target_met\":false,\"target\":{\"sd_error\":0.02,\"mean_error\":0.02," \
    "\"ess\":" ess "},\"checks\":{\"sd_error\":" sd_error                                          \
    ",\"mean_error\":0.04,\"energy\":" energy ",\"energy_half\":0.89,\"energy_mcse\":" mcse "}}"

static const struct situation bias_situations[] = {
    /* sigma tau = 24 of a Langevin step that overshoots: 1 + 24^2 / 4. */
    {"Langevin on a coordinate that is too thin for it",
     {.request = langevin, .tau = 20.0, .first_tau = 2400.0, .beyond = 0.25, .variance = 25.0},
     {.head = good, .state = RUNNING},
     "good",
     "strong",
     {"bias: strong (step size 12 x the noise tolerance of theta[1], 25 % of all proposals "
      "beyond, beyond stability: expect the variance of theta[1] inflated, about 145 x or more)"},
     "step size itself"},
    /* sigma tau = 4 by itself, 0.9953 sigma / sd of the marginal. */
    {"Barker among correlated coordinates",
     {.request = barker, .tau = 400.0, .beyond = 0.75, .variance = 0.01},
     {.head = good, .state = RUNNING},
     "good",
     "mild",
     {"bias: mild (step size 2.9 x the noise tolerance of theta[1], 75 % of all proposals beyond: "
      "expect the variance of theta[1] inflated, about 1.26 x (thin directions up to 2.8 x))"},
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
     {"bias: none seen (step size 0.29 x the noise tolerance, steps of at most 0.1 sd)"},
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
      "not known: the bias of means (noise that is not symmetric"},
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
     {"bias: none seen (no gradient noise, steps of at most 0.1 sd)"},
     NULL},
    {"all rows in every batch",
     {.request = barker_all_rows},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: none seen (no gradient noise, steps of at most 0.1 sd)"},
     "looked at"},
    {"all rows in every batch, before warm-up ends",
     {.request = barker_all_rows, .iteration = 500},
     {.head = few, .state = RUNNING},
     "unknown",
     "none seen",
     {"bias: none seen (no gradient noise)"},
     "looked at"},
    {"a noise that is nothing next to the step",
     {.request = corrected, .tau = 1e-20},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"bias: none seen (step size "},
     "()"},
    {"full batch, before the sds are known",
     {.request = barker_full},
     {.head = {1.1, 30, 30, "theta[1]", 4, 1000}, .state = RUNNING, .iterations = 9000000},
     "poor",
     "none seen",
     {"bias: none seen (no gradient noise); not known: the Stein and energy checks (made when it "
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
     {"bias: none seen (no gradient noise, steps of at most 0.6 sd)"},
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
     {.head = {1.004, 2310, 1980, "theta[1]", 1, 1000}, .state = RUNNING},
     "good",
     "strong",
     {"bias: strong (the gradient noise has no variance, and moves of sgld take it in as it is)"},
     "tolerance"},
    {"noise without a variance and bounded moves",
     {.request = cauchy_barker, .tau = 5.0, .d = 1},
     {.head = {1.004, 2310, 1980, "theta[1]", 1, 1000}, .state = RUNNING},
     "good",
     "none seen",
     {"not known: what gradient noise without a variance does"},
     "tolerance"},
    {"draws so far out that the error of their energy hides it",
     {.request = barker_full,
      .checks = CHECKS("null", "{\"ratio\":38844,\"ratio_error\":31077,\"z\":1.25,\"draws\":400}")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "strong",
     {"bias: strong (energy 38844 +- 31077 x that of a normal posterior: no posterior has that)"},
     NULL},
    {"an energy that is large whatever its error",
     {.request = barker_full,
      .checks = CHECKS("null", "{\"ratio\":40,\"ratio_error\":30,\"z\":1.3,\"draws\":400}")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"bias: mild (energy 40 +- 30"},
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
     {"at half of it (+- 0.02): expect sds off by about 21 %)"},
     "none seen"},
    {"half a step that tells nothing",
     {.request = barker_full, .plan = PLAN("0.01", "8", "9.1", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: ", "what half the step size gives (the plan's runs are too short to tell)"},
     "agrees"},
    {"half a step that is far away, though nobody can be sure",
     {.request = barker_full, .plan = PLAN("0.01", "0.7", "0.2", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: ", "what half the step size gives (the plan's runs are too short to tell)"},
     "agrees"},
    {"half a step that was not tried",
     {.request = barker_full, .plan = PLAN("0.01", "null", "null", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"what half the step size gives (the plan's runs are too short to tell)"},
     "agrees"},
    {"artificial noise",
     {.request = toy, .tau = 100.0, .d = 1},
     {.head = {1.004, 2310, 1980, "theta[1]", 1, 1000}, .state = RUNNING},
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
     {"bias: none by construction once it mixes"},
     "not known"},
    {"checks that find nothing",
     {.request = barker_full, .checks = CHECKS(KSD("0.34"), ENERGY("1.02", "1.1"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"energy 1.02 +- 0.02, Stein p 0.34", "not known: biases too small for 312 draws to show"},
     "checks"},
    {"a Stein discrepancy that is too large",
     {.request = barker_full, .checks = CHECKS(KSD("0.004"), ENERGY("1.02", "1.1"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"bias: mild (Stein discrepancy 0.045 at 312 draws, p 0.004: they are not from the target)"},
     NULL},
    {"too much energy, by itself at most mild",
     {.request = barker_full, .checks = CHECKS(KSD("0.34"), ENERGY("1.91", "40.0"))},
     {.head = good, .state = JOB_succeeded},
     "good",
     "mild",
     {"energy 1.91 +- 0.02 x that of a normal posterior: directions that are too wide, or a "
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
     {"energy 129 +- 36 x that of a normal posterior: directions that are too wide, or a "
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
      .checks = CHECKS(KSD("0.001"), "null")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "strong",
     {"(step size 12 x", "; Stein discrepancy"},
     NULL},
    {"checks that could not be made",
     {.request = barker_full,
      .checks =
          "{\"ksd\":null,\"energy\":null,\"reason\":\"only part of the parameters is saved\"}"},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"not known: the Stein and energy checks (only part of the parameters is saved)"},
     NULL},
    {"checks of draws that have not mixed",
     {.request = barker_full, .checks = CHECKS(KSD("0.001"), ENERGY("0.3", "-40.0"))},
     {.head = {1.4, 9, 9, "theta[1]", 4, 1000}, .state = JOB_succeeded, .rate = 8000},
     "poor",
     "none seen",
     {"not known: the Stein and energy checks (the chains have not mixed), the bias of the step "
      "size itself"},
     "energy 0.3"},
    {"the first part of a long reason",
     {.request = barker_full,
      .checks = "{\"ksd\":null,\"energy\":null,\"reason\":\"no time: a pass takes 9 s\"}"},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"the Stein and energy checks (no time)"},
     "pass"},
    {"draws of a decreasing step size",
     {.request = decreasing, .tau = 20.0},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"what weights would change (steps decrease, draws count alike)"},
     NULL},
    {"a reference that is gone",
     {.request = with_reference},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"not known: the distance from reference stan (it is gone, or cannot be read)"},
     NULL},
};

Test(verdict, bias_is_judged_in_every_situation)
{
    for (size_t i = 0; i < sizeof bias_situations / sizeof bias_situations[0]; i++)
        expect_situation(&bias_situations[i]);
}

/* 2310.7 effective draws of the worst: two errors of its mean are 0.0416 sd. */
static const struct situation target_situations[] = {
    {"a bias that is expected",
     {.plan = PLAN("0.05", "null", "null", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"target not met: sds are expected within 5 % (asked for: 2 %), means within 0.04 sd (0.02)"},
     NULL},
    {"a bias that nobody knows",
     {.plan = PLAN("null", "null", "null", "null")},
     {.head = good, .state = RUNNING},
     "good",
     "none seen",
     {"target not met: the bias of the sds is not known in advance, means within 0.04 sd (0.02)"},
     "nan"},
    {"means that are not known well enough",
     {.plan = PLAN("0.01", "null", "null", "null")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not met: means are known to +- 0.042 sd, 0.02 was asked for"},
     NULL},
    {"effective draws take the place of the error of the means",
     {.plan = PLAN("0.05", "null", "null", "2400")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not met: sds are expected within 5 % (asked for: 2 %)"},
     "means"},
    {"fewer effective draws than were asked for",
     {.plan = PLAN("0.01", "null", "null", "4000")},
     {.head = good, .state = JOB_succeeded},
     "good",
     "none seen",
     {"target not met: 2311 effective draws, 4000 were asked for"},
     "means"},
};

Test(verdict, targets_are_judged_by_what_was_asked_for)
{
    for (size_t i = 0; i < sizeof target_situations / sizeof target_situations[0]; i++)
        expect_situation(&target_situations[i]);
}

/* ---- the numbers behind the words ---- */

static void expect_near(double got, double want, const char *what)
{
    cr_expect(fabs(got - want) <= 1e-9 * fabs(want), "%s is %.12g, not %.12g", what, got, want);
}

Test(verdict, the_numbers_behind_a_noise_verdict_are_given)
{
    json_t *doc = judge((struct world){.tau = 400.0, .beyond = 0.75, .variance = 0.01},
                        (struct verdict_context){.head = good, .state = JOB_running});
    double ceiling = sampler_sgbd.ceiling((const double[PARAM_MAX]){0.0});
    cr_expect_str_eq(text_at(evidence_of(doc, "noise"), NULL, "parameter"), "theta[1]");
    expect_near(number_of(doc, "noise", "tau"), 400.0, "tau");
    expect_near(number_of(doc, "noise", "step_size"), 0.01, "step_size");
    expect_near(number_of(doc, "noise", "tolerance"), ceiling / 400.0, "tolerance");
    expect_near(number_of(doc, "noise", "step_ratio"), 4.0 / ceiling, "step_ratio");
    expect_near(number_of(doc, "noise", "beyond_all"), 0.75, "beyond_all");
    json_decref(doc);
}

/* Langevin: by itself 5 = 1 + s^2/4 with s = 4; of the marginal variance it adds to what is left of
 * it, after the step of this stiffness has amplified it. */
Test(verdict, marginal_inflation_of_langevin_follows_the_closed_form)
{
    json_t *doc =
        judge((struct world){.request = langevin, .tau = 400.0, .beyond = 1.0, .variance = 0.01},
              (struct verdict_context){.head = good, .state = JOB_running});
    double c = (88163.0 - 881.0) / 881.0, H = 400.0 * 400.0 / c;
    double added = (5.0 / (1.0 - 1e-4 * H / 4.0) - 1.0) / H;
    expect_near(number_of(doc, "noise", "variance_ratio"), 5.0, "variance_ratio");
    /* four sample variances pool to a little less: 4 (n - 1) / (4 n - 1) */
    cr_expect_float_eq(number_of(doc, "noise", "marginal_variance_ratio"), 0.01 / (0.01 - added),
                       1e-4);
    json_decref(doc);
}

/* sigma_0 (1 + 11000/1000)^-1 */
Test(verdict, a_schedule_is_judged_where_it_stands)
{
    json_t *doc = judge((struct world){.request = decreasing, .tau = 400.0},
                        (struct verdict_context){.head = good, .state = JOB_running});
    expect_near(number_of(doc, "noise", "step_size"), 0.01 / 12.0, "step_size");
    json_decref(doc);
}

Test(verdict, times_to_target_follow_from_r_hat_and_ess)
{
    json_t *doc = judge((struct world){.tau = 20.0},
                        (struct verdict_context){.head = {1.0, 100.0, 80.0, "theta[1]", 4, 1000},
                                                 .state = JOB_running,
                                                 .rate = 8000.0});
    const json_t *mixing = json_object_get(doc, "mixing");
    double iterations = json_number_value(json_object_get(mixing, "iterations_to_target"));
    double seconds = json_number_value(json_object_get(mixing, "seconds_to_target"));
    expect_near(iterations, 10000.0 * (400.0 / 80.0 - 1.0), "iterations");
    expect_near(seconds, iterations * 4.0 / 8000.0, "seconds");
    json_decref(doc);
}

/* ---- references ---- */

/* The stored draws sweep a sine of amplitude 1 evenly: mean 0, sd 0.7071. */
static json_t *judge_reference(const char *document)
{
    struct reference_row row = {
        .name = "stan", .owner = "alice", .document = (char *)(uintptr_t)document};
    expect_ok(store_reference_put(t.store, &row, &t.info), &t.info);
    return judge((struct world){.request = with_reference, .d = 1, .spread = 1.0, .variance = 0.5},
                 (struct verdict_context){.head = {1.004, 2310, 1980, "theta[1]", 1, 1000},
                                          .state = JOB_running});
}

static const struct {
    const char *document, *level, *says;
} references[] = {
    {"{\"names\":[\"theta[1]\"],\"mean\":[0],\"sd\":[0.7071]}", "none seen",
     "reference stan: means within "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0.21],\"sd\":[0.7071]}", "mild",
     "against reference stan the mean of theta[1] is off by 0.3 +- "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0.7071],\"sd\":[0.7071]}", "strong",
     "against reference stan the mean of theta[1] is off by 1 +- "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0],\"sd\":[0.64]}", "mild",
     "against reference stan the variance of theta[1] is off by 22 +- "},
    {"{\"names\":[\"theta[1]\"],\"mean\":[0],\"sd\":[0.2]}", "strong",
     "against reference stan the variance of theta[1] is 12.5 x the reference's"},
    {"{\"names\":[\"beta[1]\"],\"mean\":[0],\"sd\":[0.2]}", "none seen",
     "the distance from reference stan (no parameter in common)"},
};

Test(verdict, a_reference_counts)
{
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++) {
        json_t *doc = judge_reference(references[i].document);
        const char *sentence = text_at(doc, NULL, "sentence");
        cr_expect_str_eq(text_at(doc, "bias", "level"), references[i].level, "%s: %s",
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
    expect_ok(store_reference_put(t.store, &row, &t.info), &t.info);
    json_t *doc = judge((struct world){.request = with_reference,
                                       .spread = 1.0,
                                       .variance = 0.5,
                                       .checks = CHECKS(KSD("0.34"), ENERGY("1.1", "1.0"))},
                        (struct verdict_context){.head = good, .state = JOB_succeeded});
    cr_expect_str_eq(text_at(doc, "bias", "level"), "strong");
    cr_expect(strstr(json_string_value(json_object_get(evidence_of(doc, "reference"), "text")),
                     "against reference stan (1 of 4 parameters) the mean") != NULL);
    cr_expect(strstr(text_at(doc, NULL, "sentence"),
                     "mean log density 4 +- 0.1 below the reference's, as if every variance were "
                     "3 x the target's") != NULL,
              "%s", text_at(doc, NULL, "sentence"));
    expect_near(number_of(doc, "energy", "reference_difference"), -4.0, "difference");
    json_decref(doc);
}

/* ---- bounds ---- */

Test(verdict, a_sentence_that_does_not_fit_is_cut_between_characters)
{
    struct words w = {0};
    for (int i = 0; i < 300; i++)
        words_add(&w, "\xc3\xa4\xc3\xb6 ");
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
        struct words w = {0};
        words_add_duration(&w, durations[i].seconds);
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
        struct words w = {0};
        words_add_number(&w, numbers[i].value, numbers[i].digits);
        cr_expect_str_eq(w.text, numbers[i].text);
    }
}

Test(verdict, advice_is_rounded_up_to_two_digits)
{
    cr_expect_eq(words_round_up(0.3), 1);
    cr_expect_eq(words_round_up(99.0), 99);
    cr_expect_eq(words_round_up(123456.0), 130000);
    cr_expect_eq(words_round_up(1e300), (uint64_t)1e18);
}
