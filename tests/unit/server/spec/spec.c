/* Job specifications: what is accepted and how it is resolved, what is refused and where. */
#include "tests/support/jobtext.h"

#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* ---- accepted ---- */

/* What a field becomes in the resolved job. */
struct accepted {
    const char *base, *changes, *pointer, *resolved;
};

static const struct accepted accepted[] = {
    {JOB_LOGISTIC, "", "/name", "'logistic, sgbd'"},
    {JOB_LOGISTIC, "", "/note", "''"},
    {JOB_LOGISTIC, "", "/tags", "[]"},
    {JOB_LOGISTIC, "", "/model", "{'name': 'logistic', 'prior_sd': 1.0}"},
    {JOB_LOGISTIC, "", "/data",
     "{'path': 'train.csv', 'test': null, 'response': 'y', 'offset': null, 'weights': null,"
     " 'columns': null, 'intercept': false, 'standardize': false, 'precision': 'auto'}"},
    {JOB_LOGISTIC, "", "/sampler",
     "{'name': 'sgbd', 'step_size': 'auto', 'beta': 0.1, 'noise': 'bimodal'}"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'variant': 'corrected'}", "/sampler/variant",
     "'corrected'"},
    {JOB_LOGISTIC, "'batch_size': 10", "/sampler/variant", "'corrected'"},
    {JOB_LOGISTIC, "", "/gradient", "{'estimator': 'auto', 'centre': 'mode', 'one_in': 'auto'}"},
    {JOB_LOGISTIC, "", "/precondition", "'auto'"},
    {JOB_LOGISTIC, "", "/batch_size", "'auto'"},
    {JOB_LOGISTIC, "", "/replacement", "false"},
    {JOB_LOGISTIC, "", "/iterations", "'auto'"},
    {JOB_LOGISTIC, "", "/warmup", "'auto'"},
    {JOB_LOGISTIC, "", "/thin", "'auto'"},
    {JOB_LOGISTIC, "", "/chains", "'auto'"},
    {JOB_LOGISTIC, "", "/target",
     "{'sd_error': 0.02, 'mean_error': 0.02, 'ess': null, 'seconds': 60.0}"},
    {JOB_LOGISTIC, "", "/seed", "123"},
    {JOB_LOGISTIC, "", "/init", "{'kind': 'auto'}"},
    {JOB_OWN, "", "/gradient", "{'estimator': 'plain', 'centre': 'mode', 'one_in': 1}"},
    {JOB_OWN, "", "/precondition", "'none'"},
    {JOB_OWN, "", "/batch_size", "null"},
    {JOB_OWN, "", "/iterations", "10000"},
    {JOB_OWN, "", "/warmup", "5000"},
    {JOB_OWN, "", "/thin", "1"},
    {JOB_OWN, "", "/chains", "4"},
    {JOB_OWN, "", "/init", "{'kind': 'zero'}"},
    {JOB_OWN, "'iterations': 'auto'", "/warmup", "'auto'"},
    {JOB_OWN, "'iterations': 'auto'", "/thin", "1"},
    {JOB_OWN, "'iterations': 'auto'", "/init", "{'kind': 'auto'}"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': 0.2}, 'precondition': 'dense'",
     "/init", "{'kind': 'auto'}"},
    {JOB_LOGISTIC,
     "'sampler': {'name': 'sgbd', 'step_size': 0.2}, 'precondition': 'dense', 'init': 'prior'",
     "/init", "{'kind': 'prior'}"},
    {JOB_OWN, "'init': 'auto'", "/init", "{'kind': 'auto'}"},
    {JOB_OWN, "'chains': 'auto'", "/chains", "'auto'"},
    {JOB_OWN, "'sampler': {'name': 'sgbd', 'step_size': 0.25}", "/precondition", "'none'"},
    {JOB_LOGISTIC, "'gradient': {'estimator': 'control_variate', 'centre': 'pilot'}", "/gradient",
     "{'estimator': 'control_variate', 'centre': 'pilot', 'one_in': 'auto'}"},
    {JOB_LOGISTIC, "'gradient': {}", "/gradient/estimator", "'auto'"},
    {JOB_LOGISTIC, "'gradient': {'one_in': 16}", "/gradient/one_in", "16"},
    {JOB_LOGISTIC, "'gradient': {'one_in': null}", "/gradient/one_in", "'auto'"},
    {JOB_LOGISTIC, "'gradient': {'one_in': 'auto'}, 'batch_size': 10", "/gradient/one_in", "1"},
    {JOB_OWN, "'gradient': {'one_in': 3}, 'batch_size': 10", "/gradient/one_in", "3"},
    {JOB_TOY, "", "/gradient/one_in", "1"},
    {JOB_EXACT, "", "/gradient/one_in", "1"},
    {JOB_LOGISTIC, "'precondition': 'diagonal'", "/precondition", "'diagonal'"},
    {JOB_LOGISTIC, "'target': {'sd_error': 0.1}", "/target",
     "{'sd_error': 0.1, 'mean_error': 0.02, 'ess': null, 'seconds': 60.0}"},
    {JOB_LOGISTIC, "'target': {'ess': 400, 'seconds': null}", "/target",
     "{'sd_error': 0.02, 'mean_error': 0.02, 'ess': 400.0, 'seconds': null}"},
    {JOB_TOY, "", "/gradient/estimator", "'plain'"},
    {JOB_TOY, "", "/precondition", "'auto'"},
    {JOB_EXACT, "", "/precondition", "'auto'"},
    {JOB_EXACT, "", "/iterations", "'auto'"},
    {JOB_EXACT, "", "/gradient/estimator", "'plain'"},
    {JOB_EXACT, "", "/gradient/one_in", "1"},
    {JOB_EXACT, "'sampler': {'name': 'mala', 'step_size': 0.5}", "/precondition", "'none'"},
    {JOB_EXACT, "'precondition': 'dense'", "/precondition", "'dense'"},
    {JOB_EXACT, "'batch_size': 'auto'", "/batch_size", "'full'"},
    {JOB_LOGISTIC, "", "/save", "{'params': null}"},
    {JOB_LOGISTIC, "", "/metric_every", "null"},
    {JOB_LOGISTIC, "", "/reference", "null"},
    {JOB_LOGISTIC, "", "/check_draws", "400"},
    {JOB_LOGISTIC, "", "/stop_when", "null"},
    {JOB_LOGISTIC, "", "/priority", "0"},
    {JOB_LOGISTIC, "", "/visibility", "'private'"},
    {JOB_TOY, "", "/data", "null"},
    {JOB_TOY, "", "/batch_size", "'full'"},
    {JOB_TOY, "'sampler': 'sglrw'", "/name", "'skew_normal, sglrw'"},
    {JOB_EXACT, "", "/name", "'logistic, mala'"},
    {JOB_LOGISTIC, "'sampler': null", "/sampler", "{'name': 'auto'}"},
    {JOB_LOGISTIC, "'sampler': null", "/name", "'logistic'"},
    {JOB_LOGISTIC, "'sampler': 'auto'", "/sampler", "{'name': 'auto'}"},
    {JOB_LOGISTIC, "'sampler': {'name': 'auto', 'step_size': null}", "/batch_size", "'auto'"},
    {JOB_LOGISTIC, "'sampler': {'name': 'auto'}", "/precondition", "'auto'"},
    {JOB_TOY, "'sampler': 'auto'", "/iterations", "'auto'"},
    {JOB_EXACT, "", "/batch_size", "'full'"},
    {JOB_ICA, "", "/data/response", "null"},
    {JOB_RATINGS, "", "/data/response", "null"},
    {JOB_RATINGS, "", "/init/kind", "'auto'"},
    {JOB_RATINGS, "'sampler': {'name': 'sgbd', 'step_size': 1}", "/init/kind", "'prior'"},
    {JOB_LOGISTIC, "'name': 'Säpsis, korrigiert 😀'", "/name", "'Säpsis, korrigiert 😀'"},
    {JOB_LOGISTIC, "'note': 'two\\nlines\\t.'", "/note", "'two\\nlines\\t.'"},
    {JOB_LOGISTIC, "'tags': ['paper', 'w 1']", "/tags", "['paper', 'w 1']"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': 2.385}", "/model/prior_sd", "2.385"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': 3}", "/model/prior_sd", "3.0"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': null}", "/model/prior_sd", "1.0"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': [1, 2.385]}", "/model/prior_sd",
     "[1.0, 2.385]"},
    {JOB_RATINGS, "'model': {'name': 'matrix_factorization', 'rank': 7.0}", "/model/rank", "7"},
    {JOB_TOY, "'model': {'name': 'noisy_normal', 'noise': 'cauchy'}", "/model/noise", "'cauchy'"},
    {JOB_LOGISTIC, "'data': {'path': 'a/b.csv', 'test': 'c.csv'}", "/data/test", "'c.csv'"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'response': 'died'}", "/data/response", "'died'"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'columns': ['age', 'sex']}", "/data/columns",
     "['age', 'sex']"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'columns': [], 'intercept': true}", "/data/columns",
     "[]"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'intercept': true}", "/data/intercept", "true"},
    {JOB_ICA, "'data': {'path': 'a', 'standardize': true}", "/data/standardize", "true"},
    {JOB_RATINGS, "'data': {'path': 'a', 'intercept': false}", "/data/intercept", "false"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'precision': 'single'}", "/data/precision", "'single'"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'variant': 'corrected'}", "/name",
     "'logistic, sgbd corrected'"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': 0.00075}", "/sampler/step_size",
     "0.00075"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': [0.1, 2, 3e-3]}", "/sampler/step_size",
     "[0.1, 2.0, 0.003]"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'value': 0.5}}", "/sampler/step_size",
     "{'kind': 'schedule', 'value': 0.5, 't0': 1000.0, 'gamma': 0.55}"},
    {JOB_LOGISTIC,
     "'sampler': {'name': 'sgld', 'step_size': {'kind': 'schedule', 'value': [1, 2],"
     " 't0': 50, 'gamma': 1}}",
     "/sampler/step_size", "{'kind': 'schedule', 'value': [1.0, 2.0], 't0': 50.0, 'gamma': 1.0}"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'kind': 'auto'}}",
     "/sampler/step_size", "'auto'"},
    {JOB_EXACT, "'sampler': {'name': 'mala', 'step_size': {'kind': 'auto'}}", "/sampler/step_size",
     "'auto'"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'kind': 'auto', 'fraction': 0.3}}",
     "/sampler/step_size", "{'kind': 'auto', 'fraction': 0.3}"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'kind': 'constant', 'value': 0.3}}",
     "/sampler/step_size", "0.3"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'beta': 1}", "/sampler/beta", "1.0"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'noise': 'gaussian'}", "/sampler/noise",
     "'gaussian'"},
    {JOB_LOGISTIC, "'batch_size': 881", "/batch_size", "881"},
    {JOB_LOGISTIC, "'batch_size': 'full'", "/batch_size", "'full'"},
    {JOB_LOGISTIC, "'batch_size': 1e3", "/batch_size", "1000"},
    {JOB_TOY, "'batch_size': 'full'", "/batch_size", "'full'"},
    {JOB_LOGISTIC, "'replacement': true", "/replacement", "true"},
    {JOB_LOGISTIC, "'iterations': 1e3", "/iterations", "1000"},
    {JOB_LOGISTIC, "'iterations': 2e5", "/warmup", "'auto'"},
    {JOB_OWN, "'iterations': 2e5", "/warmup", "100000"},
    {JOB_OWN, "'iterations': 11", "/warmup", "100"},
    {JOB_LOGISTIC, "'iterations': 11, 'sampler': {'name': 'sgbd', 'step_size': 1}", "/warmup", "5"},
    {JOB_LOGISTIC, "'warmup': 100", "/warmup", "100"},
    {JOB_LOGISTIC, "'warmup': 0, 'sampler': {'name': 'sgbd', 'step_size': 1}", "/warmup", "0"},
    {JOB_LOGISTIC, "'thin': 10000", "/thin", "10000"},
    {JOB_LOGISTIC, "'chains': 1", "/chains", "1"},
    {JOB_LOGISTIC, "'seed': 9007199254740991", "/seed", "9007199254740991"},
    {JOB_LOGISTIC, "'seed': 0", "/seed", "0"},
    {JOB_LOGISTIC, "'init': {'kind': 'prior'}", "/init", "{'kind': 'prior'}"},
    {JOB_LOGISTIC, "'init': 'prior'", "/init", "{'kind': 'prior'}"},
    {JOB_LOGISTIC, "'init': {'kind': 'values', 'values': [1, -2.5]}", "/init",
     "{'kind': 'values', 'values': [1.0, -2.5]}"},
    {JOB_LOGISTIC, "'init': {'kind': 'map'}", "/init", "{'kind': 'map', 'steps': 200}"},
    {JOB_LOGISTIC, "'init': 'map'", "/init", "{'kind': 'map', 'steps': 200}"},
    {JOB_LOGISTIC, "'init': {'kind': 'map', 'steps': 17}", "/init/steps", "17"},
    {JOB_LOGISTIC, "'save': {'params': ['theta[2]', 'theta[1]']}", "/save/params",
     "['theta[2]', 'theta[1]']"},
    {JOB_LOGISTIC, "'save': {'params': []}", "/save/params", "[]"},
    {JOB_LOGISTIC, "'save': {}", "/save/params", "null"},
    {JOB_LOGISTIC, "'metric_every': 0", "/metric_every", "0"},
    {JOB_LOGISTIC, "'reference': 'stan'", "/reference", "'stan'"},
    {JOB_LOGISTIC, "'check_draws': 0", "/check_draws", "0"},
    {JOB_LOGISTIC, "'check_draws': 10000", "/check_draws", "10000"},
    {JOB_LOGISTIC, "'stop_when': null", "/stop_when", "null"},
    {JOB_LOGISTIC, "'stop_when': {'rhat': 1.01}", "/stop_when",
     "{'rhat': 1.01, 'ess': null, 'seconds': null}"},
    {JOB_LOGISTIC, "'stop_when': {'rhat': 1.01, 'ess': 400, 'seconds': 3600}", "/stop_when",
     "{'rhat': 1.01, 'ess': 400.0, 'seconds': 3600.0}"},
    {JOB_LOGISTIC, "'stop_when': {'seconds': 0.5, 'ess': null}", "/stop_when/seconds", "0.5"},
    {JOB_LOGISTIC, "'stop_when': {'seconds': 9}, 'save': {'params': []}", "/stop_when/seconds",
     "9.0"},
    {JOB_LOGISTIC, "'priority': -100", "/priority", "-100"},
    {JOB_LOGISTIC, "'priority': 100", "/priority", "100"},
    {JOB_LOGISTIC, "'visibility': 'lab'", "/visibility", "'lab'"},
};

Test(spec, fields_are_resolved_as_stated)
{
    for (size_t i = 0; i < COUNT(accepted); i++) {
        struct job_spec spec;
        json_t *json = job_make(accepted[i].base, accepted[i].changes);
        json_t *expected = job_load(accepted[i].resolved);
        job_parse(&spec, json);
        json_t *resolved = spec_resolved(&spec);
        const json_t *found = job_at(resolved, accepted[i].pointer);
        char *text = found != NULL ? json_write(found, NULL) : NULL;
        cr_expect(found != NULL && json_equal(found, expected), "{%s} %s: %s", accepted[i].changes,
                  accepted[i].pointer, text);
        free(text);
        json_decref(resolved);
        json_decref(expected);
        json_decref(json);
        spec_release(&spec);
    }
}

/* Programs go by the kind, not by the words. */
Test(spec, every_mistake_says_its_kind)
{
    static const struct {
        const char *changes;
        enum mistake_kind kind;
    } cases[] = {
        {"'model': null", MISTAKE_required},
        {"'data': {}", MISTAKE_required},
        {"'itertions': 1", MISTAKE_unknown},
        {"'iterations': []", MISTAKE_type},
        {"'name': 5", MISTAKE_type},
        {"'iterations': 0", MISTAKE_range},
        {"'tags': ['']", MISTAKE_range},
        {"'model': {'name': 'logistic', 'prior_sd': -1}", MISTAKE_range},
        {"'sampler': 'sgdb'", MISTAKE_choice},
        {"'thin': 20, 'iterations': 10", MISTAKE_conflict},
        {"'chains': 1000001", MISTAKE_range},
        {"'iterations': 2000, 'warmup': 100", MISTAKE_limit},
    };
    const struct job_limits limits = {.max_iterations = 2000};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct job_spec spec;
        struct mistakes mistakes = {0};
        json_t *json = job_make(JOB_LOGISTIC, cases[i].changes);
        cr_expect_eq(spec_parse(&spec, json, &limits, &mistakes), ERR_INVALID);
        cr_expect_eq(mistakes.items[0].kind, cases[i].kind, "{%s}: %s, %s", cases[i].changes,
                     mistake_kind_name(mistakes.items[0].kind), mistakes.items[0].detail);
        json_decref(json);
    }
}

Test(spec, a_seed_that_is_not_given_is_drawn_and_fits_any_json_reader)
{
    uint64_t seen[3];
    for (size_t i = 0; i < 3; i++) {
        struct job_spec spec;
        json_t *json = job_make(JOB_TOY, "'seed': null");
        job_parse(&spec, json);
        seen[i] = spec.seed;
        cr_expect_lt(spec.seed, UINT64_C(1) << 53);
        spec_release(&spec);
        json_decref(json);
    }
    cr_expect(seen[0] != seen[1] && seen[1] != seen[2]);
}

/* ---- limits ---- */

Test(spec, quotas_are_checked_without_data)
{
    static const struct {
        const char *changes, *pointer, *detail;
        uint64_t max_iterations, max_chains;
    } cases[] = {
        {"'iterations': 1000, 'warmup': 500", NULL, NULL, 1500, 0},
        {"'iterations': 1000, 'warmup': 501", "/iterations",
         "warmup 501 and iterations 1000 together exceed the limit of 1500 per chain", 1500, 0},
        {"'iterations': 1001", "/iterations", "warmup 500 and iterations 1001", 1500, 0},
        {"'iterations': 'auto', 'warmup': 1500", NULL, NULL, 1500, 0},
        {"'iterations': 'auto', 'warmup': 1501", "/iterations", "exceed the limit of 1500", 1500,
         0},
        {"'chains': 8", NULL, NULL, 0, 8},
        {"'chains': 9", "/chains", "must be a whole number from 1 to 8, not 9", 0, 8},
        {"'name': 'a'", NULL, NULL, 0, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct job_spec spec;
        struct mistakes mistakes = {0};
        json_t *json = job_make(JOB_OWN, cases[i].changes);
        const struct job_limits limits = {.max_iterations = cases[i].max_iterations,
                                          .max_chains = cases[i].max_chains};
        enum err code = spec_parse(&spec, json, &limits, &mistakes);
        cr_expect_eq(code == ERR_OK, cases[i].pointer == NULL, "{%s}", cases[i].changes);
        if (code == ERR_OK)
            spec_release(&spec);
        else
            job_expect_only(&mistakes, cases[i].pointer, cases[i].detail, cases[i].changes);
        json_decref(json);
    }
}

/* ---- round trip ---- */

Test(spec, resolved_jobs_parse_to_the_same_spec_for_every_model_and_sampler)
{
    for (size_t m = 0; m < model_count; m++)
        for (size_t s = 0; s < sampler_count; s++)
            for (size_t c = 0; c < job_choices(samplers[s]); c++) {
                struct job_spec spec;
                json_t *json = job_combination(models[m], samplers[s], c);
                job_parse(&spec, json);
                job_round_trip(&spec);
                spec_release(&spec);
                json_decref(json);
            }
}

Test(spec, resolved_jobs_parse_to_the_same_spec_for_every_form_of_a_field)
{
    for (size_t i = 0; i < COUNT(accepted); i++) {
        struct job_spec spec;
        json_t *json = job_make(accepted[i].base, accepted[i].changes);
        job_parse(&spec, json);
        job_round_trip(&spec);
        spec_release(&spec);
        json_decref(json);
    }
}

/* Settings of the tables at odd values within their bounds, so that nothing is lost in between. */
Test(spec, every_setting_of_every_table_survives_the_round_trip)
{
    for (size_t m = 0; m < model_count; m++) {
        struct job_spec spec;
        json_t *json = job_combination(models[m], samplers[m % sampler_count], 0);
        job_parse(&spec, json);
        struct param_table table = models[m]->params;
        for (size_t i = 0; i < table.count; i++) {
            const struct param_spec *p = &table.specs[i];
            if (p->kind == PARAM_REAL)
                spec.model_params[i] = fmin(p->hi, 1.0 / 3 + (double)i);
            else if (p->kind == PARAM_INT)
                spec.model_params[i] = fmin(p->hi, fmax(p->lo, 7));
        }
        job_round_trip(&spec);
        spec_release(&spec);
        json_decref(json);
    }
}

/* Rules that are younger than a job do not make it unreadable. */
Test(spec, what_was_accepted_once_can_be_read_for_good)
{
    static const char request[] =
        "{\"model\":\"logistic\",\"data\":{\"path\":\"a.csv\"},\"precondition\":\"diagonal\","
        "\"sampler\":{\"name\":\"sgbd\",\"step_size\":{\"kind\":\"auto\",\"fraction\":0.2}}}";
    struct job_spec spec;
    struct err_info info = {0};
    struct mistakes mistakes = {0};
    json_t *json = json_loads(request, 0, NULL);
    cr_expect_neq(spec_parse(&spec, json, NULL, &mistakes), ERR_OK);
    cr_expect_eq(spec_stored(&spec, request, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(spec.precondition, PRECONDITION_DIAGONAL);
    spec_release(&spec);
    json_decref(json);
}
