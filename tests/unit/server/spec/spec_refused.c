/* Jobs that are refused: where each mistake is and what it says. */
#include "tests/support/jobtext.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* One mistake, at this place, in these words (a part of them). */
struct refused {
    const char *base, *changes, *pointer, *detail;
};

static const struct refused refused[] = {
    {JOB_LOGISTIC, "'model': null", "/model",
     "is required; GET /v1/models lists the allowed names"},
    {JOB_LOGISTIC, "'sampler': 'auto_'", "/sampler",
     "did you mean \"auto\"? allowed are auto, sgbd"},
    {JOB_LOGISTIC, "'sampler': {'name': 'auto', 'step_size': 0.1}", "/sampler/step_size",
     "is not allowed with \"auto\": name the sampler that it is for"},
    {JOB_LOGISTIC, "'sampler': {}", "/sampler/name", "is required; allowed are auto, sgbd"},
    {JOB_LOGISTIC, "'data': null", "/data", "is required: the model logistic needs data"},
    {JOB_LOGISTIC, "'iteration': 5", "/iteration",
     "there is no field \"iteration\"; did you mean \"iterations\"? known are name, note, tags,"},
    {JOB_LOGISTIC, "'stop_if': {}", "/stop_if", "there is no field \"stop_if\"; known are"},
    {JOB_LOGISTIC, "'': 1", "/", "there is no field \"\""},
    {JOB_LOGISTIC, "'a/b~c': 1", "/a~1b~0c", "there is no field \"a/b~c\""},
    {JOB_LOGISTIC, "'name': 5", "/name", "must be a string, not a number"},
    {JOB_LOGISTIC, "'name': ''", "/name", "must not be empty"},
    {JOB_LOGISTIC, "'name': 'a\\u0007b'", "/name", "\"a\\x07b\" has control characters"},
    {JOB_LOGISTIC, "'name': 'a\\u0085b'", "/name", "has control characters"},
    {JOB_LOGISTIC, "'name': 'a\\nb'", "/name", "has control characters"},
    {JOB_LOGISTIC, "'note': ['x']", "/note", "must be a string, not an array"},
    {JOB_LOGISTIC, "'note': 'a\\u0001'", "/note", "has control characters"},
    {JOB_LOGISTIC, "'tags': 'paper'", "/tags", "must be an array of strings, not a string"},
    {JOB_LOGISTIC, "'tags': ['a', 5]", "/tags/1", "must be a string, not a number"},
    {JOB_LOGISTIC, "'tags': ['a', 'b', 'a']", "/tags/2", "\"a\" is in the list twice"},
    {JOB_LOGISTIC, "'tags': ['']", "/tags/0", "must not be empty"},
    {JOB_LOGISTIC,
     "'tags': ['a','b','c','d','e','f','g','h','i','j','k','l','m',"
     "'n','o','p','q','r','s','t','u']",
     "/tags", "has 21 entries; at most 20 are allowed"},
    {JOB_LOGISTIC, "'tags': ['0123456789012345678901234567890123456789012345678901234567890123é']",
     "/tags/0", "has 65 characters; at most 64 are allowed"},
    {JOB_LOGISTIC, "'model': 'logistc'", "/model",
     "\"logistc\" is not allowed; did you mean \"logistic\"? allowed are logistic, "},
    {JOB_LOGISTIC, "'model': {'name': 'weibull'}", "/model/name",
     "\"weibull\" is not allowed; allowed are logistic, "},
    {JOB_LOGISTIC, "'model': {'prior_sd': 1}", "/model/name", "is required; allowed are logistic"},
    {JOB_LOGISTIC, "'model': 5", "/model", "must be a name or an object with a name, not a number"},
    {JOB_LOGISTIC, "'model': {'name': 5}", "/model/name", "not a number"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': 0}", "/model/prior_sd",
     "0 is not allowed; it must be a number greater than 0"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': [1, 0]}", "/model/prior_sd/1",
     "greater than 0"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': []}", "/model/prior_sd", "is empty"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior_sd': '1'}", "/model/prior_sd",
     "must be a number, not a string"},
    {JOB_LOGISTIC, "'model': {'name': 'logistic', 'prior-sd': 1}", "/model/prior-sd",
     "did you mean \"prior_sd\"? known are name, prior_sd"},
    {JOB_RATINGS, "'model': {'name': 'matrix_factorization', 'rank': 2.5}", "/model/rank",
     "2.5 is not allowed; it must be a whole number of at least 1 and at most 500"},
    {JOB_RATINGS, "'model': {'name': 'matrix_factorization', 'rank': 501}", "/model/rank",
     "at most 500"},
    {JOB_TOY, "'model': {'name': 'noisy_normal', 'noise': 'gausian'}", "/model/noise",
     "\"gausian\" is not allowed; did you mean \"gaussian\"? allowed are gaussian, laplace, "
     "cauchy"},
    {JOB_TOY, "'model': {'name': 'noisy_normal', 'noise': 1}", "/model/noise",
     "must be one of the words gaussian, laplace, cauchy, not a number"},
    {JOB_TOY, "'data': {'path': 'a'}", "/data", "the model skew_normal takes no data"},
    {JOB_LOGISTIC, "'data': 'train.csv'", "/data", "must be an object, not a string"},
    {JOB_LOGISTIC, "'data': {}", "/data/path", "is required"},
    {JOB_LOGISTIC, "'data': {'path': null}", "/data/path", "is required"},
    {JOB_LOGISTIC, "'data': {'path': ''}", "/data/path", "must not be empty"},
    {JOB_LOGISTIC, "'data': {'path': 'a\\u0001'}", "/data/path", "has control characters"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'file': 1}", "/data/file", "known are path, test"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'test': false}", "/data/test", "not false"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'columns': ['x', 'x']}", "/data/columns/1",
     "\"x\" is in the list twice"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'columns': ['x', 'y']}", "/data/columns/1",
     "\"y\" is the response"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'columns': ['x', 'w'], 'weights': 'w'}",
     "/data/columns/1", "\"w\" is the weight"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'offset': 'y'}", "/data/offset",
     "\"y\" is the response; it cannot be the offset too"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'weights': 'y'}", "/data/weights",
     "\"y\" is the response; it cannot be the weights too"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'offset': 'w', 'weights': 'w'}", "/data/weights",
     "\"w\" is the offset; it cannot be the weights too"},
    {JOB_ICA, "'data': {'path': 'a', 'weights': 'w'}", "/data/weights", "does not apply"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'columns': []}", "/data/columns", "is empty"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'intercept': 1}", "/data/intercept",
     "must be true or false, not a number"},
    {JOB_ICA, "'data': {'path': 'a', 'response': 'y'}", "/data/response",
     "does not apply to the model ica, whose data are rows without a response"},
    {JOB_ICA, "'data': {'path': 'a', 'intercept': true}", "/data/intercept", "does not apply"},
    {JOB_RATINGS, "'data': {'path': 'a', 'columns': ['user']}", "/data/columns",
     "whose data are the columns user, item, rating"},
    {JOB_RATINGS, "'data': {'path': 'a', 'standardize': true}", "/data/standardize",
     "does not apply"},
    {JOB_LOGISTIC, "'data': {'path': 'a', 'precision': 'half'}", "/data/precision",
     "\"half\" is not allowed; allowed are auto, single, double"},
    {JOB_LOGISTIC, "'sampler': 'sgdb'", "/sampler", "did you mean \"sgbd\"?"},
    {JOB_LOGISTIC, "'sampler': []", "/sampler", "not an array"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'variant': 'modified'}", "/sampler/variant",
     "\"modified\" is not allowed; allowed are vanilla, corrected, extreme"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sglrw', 'variant': 'vanilla'}", "/sampler/variant",
     "known are name, step_size"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'beta': 0}", "/sampler/beta",
     "0 is not allowed; it must be a number greater than 0 and at most 1"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': 0}, 'warmup': 0", "/sampler/step_size",
     "0 is not allowed; it must be a number greater than 0"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': 'adaptive'}", "/sampler/step_size",
     "must be a number, an array of numbers, an object or \"auto\", not \"adaptive\""},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': 'slow'}, 'warmup': 0",
     "/sampler/step_size", "not \"slow\""},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': true}", "/sampler/step_size",
     "not true"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': [1, -1]}", "/sampler/step_size/1",
     "-1 is not allowed"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': []}", "/sampler/step_size",
     "is empty"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {}}", "/sampler/step_size/value",
     "is required"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'kind': 'cosine'}}",
     "/sampler/step_size/kind", "allowed are constant, schedule, auto"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'value': 1, 'gamma': 1.5}}",
     "/sampler/step_size/gamma", "1.5 is not allowed"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'value': 1, 't0': 0}}",
     "/sampler/step_size/t0", "0 is not allowed"},
    {JOB_OWN, "'precondition': 'dense'", "/precondition", "original coordinates"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'kind': 'auto', 'fraction': 3}}",
     "/sampler/step_size/fraction", "3 is not allowed"},
    {JOB_LOGISTIC, "'sampler': {'name': 'sgbd', 'step_size': {'kind': 'auto', 'value': 3}}",
     "/sampler/step_size/value", "known are kind, fraction"},
    {JOB_EXACT, "'sampler': {'name': 'mala', 'step_size': {'kind': 'auto', 'fraction': 1}}",
     "/sampler/step_size/fraction", "known are kind"},
    {JOB_EXACT, "'sampler': {'name': 'mala', 'step_size': {'value': 1}}", "/sampler/step_size",
     "mala takes no step-size schedule"},
    {JOB_LOGISTIC, "'batch_size': 0", "/batch_size", "must be a whole number from 1 to"},
    {JOB_LOGISTIC, "'batch_size': -5", "/batch_size", "not -5"},
    {JOB_LOGISTIC, "'batch_size': 2.5", "/batch_size", "not 2.5"},
    {JOB_LOGISTIC, "'batch_size': 'all'", "/batch_size",
     "\"all\" is not allowed; it must be a whole number, \"full\" or \"auto\""},
    {JOB_LOGISTIC, "'batch_size': [5]", "/batch_size", "not an array"},
    {JOB_TOY, "'batch_size': 5", "/batch_size", "the model skew_normal, which has no data"},
    {JOB_LOGISTIC, "'replacement': 'no'", "/replacement", "must be true or false, not a string"},
    {JOB_LOGISTIC, "'replacement': true, 'batch_size': 'full'", "/replacement", "must be false"},
    {JOB_EXACT, "'replacement': true", "/replacement", "must be false with a full batch"},
    {JOB_LOGISTIC, "'iterations': 0", "/iterations",
     "must be a whole number from 1 to 1000000000000, not 0"},
    {JOB_LOGISTIC, "'iterations': 1e13", "/iterations", "not 1e+13"},
    {JOB_LOGISTIC, "'iterations': 9223372036854775807", "/iterations", "not 9223372036854775807"},
    {JOB_LOGISTIC, "'iterations': 1e300", "/iterations", "not 1e+300"},
    {JOB_LOGISTIC, "'iterations': 'many'", "/iterations",
     "\"many\" is not allowed; it must be a whole number or \"auto\""},
    {JOB_LOGISTIC, "'warmup': -1", "/warmup", "must be a whole number from 0"},
    {JOB_LOGISTIC, "'warmup': 99", "/warmup",
     "must be at least 100, not 99: the automatic step size is chosen during warm-up"},
    {JOB_LOGISTIC, "'thin': 0", "/thin", "must be a whole number from 1"},
    {JOB_OWN, "'thin': 10001", "/thin",
     "must be at most the number of iterations, not 10001: of 10000 iterations none would be "
     "stored"},
    {JOB_LOGISTIC, "'chains': 'many'", "/chains", "\"many\" is not allowed"},
    {JOB_LOGISTIC, "'gradient': 'control_variate'", "/gradient", "must be an object"},
    {JOB_LOGISTIC, "'gradient': {'estimator': 'saga'}", "/gradient/estimator",
     "\"saga\" is not allowed; allowed are auto, plain, control_variate"},
    {JOB_LOGISTIC, "'gradient': {'centre': 'mean'}", "/gradient/centre", "allowed are mode, pilot"},
    {JOB_LOGISTIC, "'gradient': {'center': 'mode'}", "/gradient/center",
     "did you mean \"centre\"?"},
    {JOB_LOGISTIC, "'gradient': {'one_in': 0}", "/gradient/one_in", "1 to 128"},
    {JOB_LOGISTIC, "'gradient': {'one_in': 129}", "/gradient/one_in", "1 to 128"},
    {JOB_LOGISTIC, "'gradient': {'one_in': 'two'}", "/gradient/one_in", "must be a whole number"},
    {JOB_TOY, "'gradient': {'one_in': 2}", "/gradient/one_in", "which has no data"},
    {JOB_EXACT, "'gradient': {'one_in': 2}", "/gradient/one_in", "uses the exact gradient"},
    {JOB_TOY, "'gradient': {'estimator': 'control_variate'}", "/gradient/estimator",
     "is not allowed with the model skew_normal, which has no data"},
    {JOB_EXACT, "'gradient': {'estimator': 'control_variate'}", "/gradient/estimator",
     "is not allowed with mala, which uses the exact gradient"},
    {JOB_LOGISTIC, "'precondition': 'full'", "/precondition",
     "allowed are auto, none, diagonal, dense"},
    {JOB_LOGISTIC, "'precondition': true", "/precondition", "not true"},
    {JOB_LOGISTIC, "'target': 0.02", "/target", "must be an object, not a number"},
    {JOB_LOGISTIC, "'target': {'sd_error': 0}", "/target/sd_error", "0 is not allowed"},
    {JOB_LOGISTIC, "'target': {'mean_error': 1.5}", "/target/mean_error", "1.5 is not allowed"},
    {JOB_LOGISTIC, "'target': {'seconds': -1}", "/target/seconds", "-1 is not allowed"},
    {JOB_LOGISTIC, "'target': {'ess': 0.5}", "/target/ess", "0.5 is not allowed"},
    {JOB_LOGISTIC, "'target': {'error': 1}", "/target/error", "known are sd_error, mean_error"},
    {JOB_LOGISTIC, "'chains': 0", "/chains", "must be a whole number from 1 to 1000, not 0"},
    {JOB_LOGISTIC, "'chains': 1001", "/chains", "not 1001"},
    {JOB_LOGISTIC, "'chains': 4294967297", "/chains", "not 4294967297"},
    {JOB_LOGISTIC, "'seed': -1", "/seed", "must be a whole number from 0 to 9007199254740991"},
    {JOB_LOGISTIC, "'seed': 9007199254740992", "/seed", "not 9007199254740992"},
    {JOB_LOGISTIC, "'seed': 0.5", "/seed", "not 0.5"},
    {JOB_LOGISTIC, "'init': {'kind': 'ones'}", "/init/kind",
     "allowed are zero, prior, values, map"},
    {JOB_LOGISTIC, "'init': 'ones'", "/init", "allowed are zero, prior, values, map"},
    {JOB_LOGISTIC, "'init': {}", "/init/kind", "is required"},
    {JOB_LOGISTIC, "'init': 0", "/init", "must be an object with a kind, not a number"},
    {JOB_LOGISTIC, "'init': 'values'", "/init/values", "is required"},
    {JOB_LOGISTIC, "'init': {'kind': 'values'}", "/init/values", "is required"},
    {JOB_LOGISTIC, "'init': {'kind': 'values', 'values': 5}", "/init/values",
     "must be an array of numbers, not a number"},
    {JOB_LOGISTIC, "'init': {'kind': 'values', 'values': [1, 'a']}", "/init/values/1",
     "must be a number, not a string"},
    {JOB_LOGISTIC, "'init': {'kind': 'zero', 'values': [1]}", "/init/values", "known are kind"},
    {JOB_LOGISTIC, "'init': {'kind': 'map', 'steps': 0}", "/init/steps",
     "must be a whole number from 1 to 10000, not 0"},
    {JOB_LOGISTIC, "'save': []", "/save", "must be an object, not an array"},
    {JOB_LOGISTIC, "'save': {'params': 'theta'}", "/save/params", "not a string"},
    {JOB_LOGISTIC, "'save': {'params': ['a', 'a']}", "/save/params/1", "twice"},
    {JOB_LOGISTIC, "'save': {'parameters': []}", "/save/parameters", "known are params"},
    {JOB_LOGISTIC, "'metric_every': -1", "/metric_every", "must be a whole number from 0"},
    {JOB_LOGISTIC, "'reference': 5", "/reference", "must be a string, not a number"},
    {JOB_LOGISTIC, "'check_draws': -1", "/check_draws",
     "must be a whole number from 0 to 10000, not -1"},
    {JOB_LOGISTIC, "'check_draws': 10001", "/check_draws", "not 10001"},
    {JOB_LOGISTIC, "'check_draws': 'all'", "/check_draws", "not a string"},
    {JOB_LOGISTIC, "'stop_when': 5", "/stop_when", "must be an object, not a number"},
    {JOB_LOGISTIC, "'stop_when': {}", "/stop_when", "at least one of rhat, ess, seconds"},
    {JOB_LOGISTIC, "'stop_when': {'rhat': null}", "/stop_when", "at least one of"},
    {JOB_LOGISTIC, "'stop_when': {'rhat': 1}", "/stop_when/rhat",
     "1 is not allowed; it must be a number greater than 1 and at most 10"},
    {JOB_LOGISTIC, "'stop_when': {'rhat': 11}", "/stop_when/rhat", "11 is not allowed"},
    {JOB_LOGISTIC, "'stop_when': {'rhat': '1.01'}", "/stop_when/rhat", "not a string"},
    {JOB_LOGISTIC, "'stop_when': {'ess': 0}", "/stop_when/ess",
     "0 is not allowed; it must be a number of at least 1 and at most 100000"},
    {JOB_LOGISTIC, "'stop_when': {'ess': 100001}", "/stop_when/ess", "100001 is not allowed"},
    {JOB_LOGISTIC, "'stop_when': {'seconds': 0}", "/stop_when/seconds", "greater than 0"},
    {JOB_LOGISTIC, "'stop_when': {'seconds': -3}", "/stop_when/seconds", "-3 is not allowed"},
    {JOB_LOGISTIC, "'stop_when': {'r_hat': 1.01}", "/stop_when/r_hat", "did you mean \"rhat\"?"},
    {JOB_LOGISTIC, "'stop_when': {'ess': 100}, 'save': {'params': []}", "/stop_when",
     "save.params is empty"},
    {JOB_LOGISTIC, "'priority': 101", "/priority",
     "must be a whole number from -100 to 100, not 101"},
    {JOB_LOGISTIC, "'visibility': 'public'", "/visibility", "allowed are private, lab"},
    {JOB_LOGISTIC, "'visibility': true", "/visibility",
     "must be one of the words private, lab, not true"},
};

Test(spec, a_wrong_field_is_the_only_mistake_and_says_where_and_why)
{
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct job_spec spec;
        struct mistakes mistakes = {0};
        json_t *json = job_make(refused[i].base, refused[i].changes);
        enum err code = spec_parse(&spec, json, NULL, &mistakes);
        cr_expect_eq(code, ERR_INVALID, "{%s}: %s", refused[i].changes, err_name(code));
        job_expect_only(&mistakes, refused[i].pointer, refused[i].detail, refused[i].changes);
        json_decref(json);
    }
}

Test(spec, texts_are_measured_in_characters_up_to_their_limit)
{
    static const struct {
        const char *field;
        size_t max;
    } cases[] = {{"name", 200}, {"note", 2000}, {"reference", 97}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t over = 0; over < 2; over++) {
            char text[8100] = "";
            for (size_t k = 0; k < cases[i].max + over; k++)
                strcat(text, "ß");
            struct job_spec spec;
            struct mistakes mistakes = {0};
            json_t *json = job_load(JOB_LOGISTIC);
            json_object_set_new(json, cases[i].field, json_string(text));
            enum err code = spec_parse(&spec, json, NULL, &mistakes);
            cr_expect_eq(code, over ? ERR_INVALID : ERR_OK, "%s", cases[i].field);
            if (code == ERR_OK)
                spec_release(&spec);
            json_decref(json);
        }
}

Test(spec, a_document_that_is_no_object_is_refused_as_a_whole)
{
    struct job_spec spec;
    struct mistakes mistakes = {0};
    json_t *json = job_load("[1]");
    cr_expect_eq(spec_parse(&spec, json, NULL, &mistakes), ERR_INVALID);
    job_expect_only(&mistakes, "", "must be an object, not an array", "[1]");
    json_decref(json);
}

Test(spec, an_empty_object_lacks_a_model)
{
    struct job_spec spec;
    struct mistakes mistakes = {0};
    json_t *json = json_object();
    cr_expect_eq(spec_parse(&spec, json, NULL, &mistakes), ERR_INVALID);
    cr_assert_eq(mistakes.count, 1);
    cr_expect_str_eq(mistakes.items[0].pointer, "/model");
    json_decref(json);
}

Test(spec, all_mistakes_are_reported_at_once)
{
    static const char *const pointers[] = {
        "/colour",       "/name",       "/tags/0",    "/model/prior_sd", "/model/sd",
        "/data/path",    "/data/test",  "/data/rows", "/sampler/beta",   "/sampler/variant",
        "/batch_size",   "/iterations", "/warmup",    "/thin",           "/chains",
        "/seed",         "/init/kind",  "/save",      "/metric_every",   "/reference",
        "/priority",     "/visibility", "/note",      "/replacement",    "/check_draws",
        "/stop_when/ess"};
    struct job_spec spec;
    struct mistakes mistakes = {0};
    json_t *json =
        job_load("{'colour': 1, 'name': 1, 'note': 1, 'tags': [1],"
                 " 'model': {'name': 'logistic', 'prior_sd': -1, 'sd': 1},"
                 " 'data': {'test': 1, 'rows': 1},"
                 " 'sampler': {'name': 'sgbd', 'beta': 2, 'variant': 'best'},"
                 " 'batch_size': 0, 'replacement': 0, 'iterations': -1, 'warmup': -1, 'thin': -1,"
                 " 'chains': -1, 'seed': -1, 'init': {'kind': 'one'}, 'save': 1,"
                 " 'metric_every': -1, 'reference': 1, 'priority': 1000, 'visibility': 'all',"
                 " 'check_draws': 1.5, 'stop_when': {'ess': -1}}");
    cr_expect_eq(spec_parse(&spec, json, NULL, &mistakes), ERR_INVALID);
    cr_expect_eq(mistakes.count, COUNT(pointers));
    cr_expect_not(mistakes.more);
    for (size_t i = 0; i < COUNT(pointers); i++) {
        size_t k = 0;
        while (k < mistakes.count && strcmp(mistakes.items[k].pointer, pointers[i]) != 0)
            k++;
        cr_expect_lt(k, mistakes.count, "%s is not reported", pointers[i]);
    }
    json_decref(json);
}

Test(spec, more_mistakes_than_fit_are_counted_as_more)
{
    struct job_spec spec;
    struct mistakes mistakes = {0};
    json_t *json = job_load(JOB_LOGISTIC), *values = json_array();
    for (int i = 0; i < 5000; i++)
        json_add(&values, json_text("x"));
    json_t *init = json_object();
    json_put(&init, "kind", json_text("values"));
    json_put(&init, "values", values);
    json_object_set_new(json, "init", init);
    for (int i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        json_object_set_new(json, key, json_true());
    }
    cr_expect_eq(spec_parse(&spec, json, NULL, &mistakes), ERR_INVALID);
    cr_expect_eq(mistakes.count, MISTAKES_MAX);
    cr_expect(mistakes.more);
    json_decref(json);
}

Test(spec, long_keys_are_cut_between_characters)
{
    for (size_t shift = 0; shift < 4; shift++) {
        struct job_spec spec;
        struct mistakes mistakes = {0};
        char key[1200] = "abc";
        key[shift] = '\0';
        for (int i = 0; i < 250; i++)
            strcat(key, "😀");
        json_t *json = job_load(JOB_LOGISTIC);
        json_object_set_new(json, key, json_true());
        cr_expect_eq(spec_parse(&spec, json, NULL, &mistakes), ERR_INVALID);
        json_t *pointer = json_string(mistakes.items[0].pointer);
        json_t *detail = json_string(mistakes.items[0].detail);
        cr_expect(pointer != NULL && detail != NULL, "no longer UTF-8");
        cr_expect_lt(strlen(mistakes.items[0].detail), sizeof mistakes.items[0].detail);
        json_decref(pointer);
        json_decref(detail);
        json_decref(json);
    }
}
