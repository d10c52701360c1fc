/* Job specifications that were damaged at random: parsed, or refused with a reason that can be
 * sent.
 */
#include "tests/support/jobtext.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char *const seeds[] = {
    "{'name': 'sepsis, corrected', 'tags': ['paper'], 'note': 'n',"
    " 'model': {'name': 'logistic', 'prior_sd': 1.0},"
    " 'data': {'path': 'a.csv', 'test': 'b.csv', 'response': 'y', 'columns': null,"
    " 'intercept': false, 'standardize': false, 'precision': 'single'},"
    " 'sampler': {'name': 'sgbd', 'variant': 'corrected', 'step_size': 0.00075,"
    " 'beta': 0.1, 'noise': 'bimodal'},"
    " 'batch_size': 881, 'replacement': false, 'iterations': 200000, 'warmup': 100000,"
    " 'thin': 10, 'chains': 4, 'seed': 123, 'init': {'kind': 'map', 'steps': 50},"
    " 'save': {'params': ['theta[1]', 'theta[2]']}, 'metric_every': 100, 'check_draws': 400,"
    " 'stop_when': {'rhat': 1.01, 'ess': 400, 'seconds': 3600},"
    " 'reference': 'r', 'priority': 0, 'visibility': 'private'}",
    "{'model': {'name': 'matrix_factorization', 'rank': 3, 'alpha': 3, 'mu0': 0,"
    " 'a0': 1, 'b0': 5}, 'data': {'path': 'r.csv'}, 'sampler': {'name': 'sgld',"
    " 'variant': 'modified', 'step_size': {'kind': 'schedule', 'value': [0.1, 0.2],"
    " 't0': 100, 'gamma': 0.6}}, 'warmup': 0}",
    "{'model': {'name': 'noisy_normal', 'noise': 'cauchy', 'noise_scale': 2},"
    " 'sampler': {'name': 'sglrw', 'step_size': {'kind': 'auto', 'fraction': 0.3}},"
    " 'init': {'kind': 'values', 'values': [1.5]}, 'batch_size': 'full'}",
    "{'model': 'ica', 'sampler': {'name': 'mala', 'step_size': [1, 2, 3]},"
    " 'data': {'path': 'x.npy', 'columns': ['a', 'b'], 'standardize': true},"
    " 'save': {'params': []}, 'init': 'prior', 'visibility': 'lab'}",
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static size_t below(uint64_t *state, size_t limit)
{
    return (size_t)(next_random(state) >> 11) % limit;
}

static json_t *junk(uint64_t *state)
{
    static const char *const texts[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "-1",
                                        "1e300",
                                        "-0.0",
                                        "9223372036854775807",
                                        "0.5",
                                        "''",
                                        "[]",
                                        "{}",
                                        "1",
                                        "2.0",
                                        "1e-320",
                                        "-9223372036854775807",
                                        "'full'",
                                        "'auto'",
                                        "'sgld'",
                                        "'logistic'",
                                        "'\\u0001\\u009f'",
                                        "[1, 'a', null]",
                                        "{'kind': 'values'}",
                                        "{'kind': 'auto'}",
                                        "{'name': 'sgbd'}",
                                        "[[[[1]]]]",
                                        "{'name': {'name': []}}",
                                        "'theta[1]'",
                                        "'\\ud83d\\ude00/~'",
                                        "[0.1, 0.1]"};
    return job_load(texts[below(state, COUNT(texts))]);
}

/* The container that is reached by walking down at random. */
static json_t *some_container(json_t *json, uint64_t *state)
{
    for (;;) {
        size_t n = json_is_object(json) ? json_object_size(json) : json_array_size(json);
        if (n == 0 || below(state, 3) == 0)
            return json;
        size_t k = below(state, n);
        json_t *child;
        if (json_is_object(json)) {
            void *iter = json_object_iter(json);
            while (k-- > 0)
                iter = json_object_iter_next(json, iter);
            child = json_object_iter_value(iter);
        } else {
            child = json_array_get(json, k);
        }
        if (!json_is_object(child) && !json_is_array(child))
            return json;
        json = child;
    }
}

static const char *some_key(json_t *object, uint64_t *state)
{
    static const char *const keys[] = {"name",      "kind", "values",    "iterations",
                                       "x",         "a/b",  "~",         "variant",
                                       "step_size", "data", "itrations", "ß"};
    size_t n = json_object_size(object);
    if (n == 0 || below(state, 4) == 0)
        return keys[below(state, COUNT(keys))];
    void *iter = json_object_iter(object);
    for (size_t k = below(state, n); k > 0; k--)
        iter = json_object_iter_next(object, iter);
    return json_object_iter_key(iter);
}

static void mutate(json_t *json, uint64_t *state)
{
    json_t *container = some_container(json, state);
    size_t n = json_array_size(container);
    if (json_is_object(container)) {
        char key[256];
        snprintf(key, sizeof key, "%s", some_key(container, state));
        if (below(state, 3) == 0)
            json_object_del(container, key);
        else
            json_object_set_new(container, key, junk(state));
    } else if (n > 0 && below(state, 2) == 0) {
        json_array_set_new(container, below(state, n), junk(state));
    } else {
        json_array_append_new(container, junk(state));
    }
}

/* A mistake points to something in the document or to a missing member of something in it, and can
 * be sent. */
static void expect_sound(const struct mistake *mistake, const json_t *json, const char *text)
{
    char parent[sizeof mistake->pointer];
    snprintf(parent, sizeof parent, "%s", mistake->pointer);
    char *last = strrchr(parent, '/');
    if (last != NULL)
        *last = '\0';
    cr_assert_not_null(job_at(json, parent), "%s: %s", mistake->pointer, text);
    cr_assert_neq(mistake->detail[0], '\0');
    json_t *detail = json_string(mistake->detail);
    cr_assert_not_null(detail, "not UTF-8: %s", mistake->detail);
    json_decref(detail);
}

/* Whether it was accepted. */
static bool parse_anything(const json_t *json)
{
    struct job_spec spec;
    struct mistakes mistakes = {0};
    char *text = json_write(json, NULL);
    enum err code = spec_parse(&spec, json, NULL, &mistakes);
    if (code == ERR_OK) {
        cr_assert_eq(mistakes.count, 0);
        job_round_trip(&spec);
        spec_release(&spec);
    } else {
        cr_assert_eq(code, ERR_INVALID);
        cr_assert_gt(mistakes.count, 0);
        for (size_t i = 0; i < mistakes.count; i++)
            expect_sound(&mistakes.items[i], json, text);
    }
    free(text);
    return code == ERR_OK;
}

Test(spec, mutated_documents_parse_or_are_refused_with_a_reason, .timeout = 600)
{
    uint64_t state = 2385;
    size_t good = 0;
    for (int i = 0; i < 20000; i++) {
        json_t *json = job_load(seeds[below(&state, COUNT(seeds))]);
        for (size_t k = below(&state, 4); k > 0; k--)
            mutate(json, &state);
        good += parse_anything(json);
        json_decref(json);
    }
    cr_expect_gt(good, 2000, "only %zu were accepted: the mutations are too wild", good);
    cr_expect_lt(good, 18000, "%zu were accepted: the mutations are too tame", good);
}

Test(spec, mutated_bytes_parse_or_are_refused_with_a_reason, .timeout = 600)
{
    static const char bytes[] = "{}[]\",:0123456789.eE-+truefalsn \\u\x80\xff\n";
    uint64_t state = 1702;
    for (int i = 0; i < 20000; i++) {
        char text[2048];
        struct err_info info = {0};
        json_t *json;
        json_t *seed = job_load(seeds[below(&state, COUNT(seeds))]);
        char *good = json_write(seed, NULL);
        snprintf(text, sizeof text, "%s", good);
        size_t length = strlen(text);
        for (size_t k = 1 + below(&state, 3); k > 0; k--)
            text[below(&state, length)] = bytes[below(&state, sizeof bytes)];
        enum err code = json_parse(&json, text, length, &info);
        if (code == ERR_OK)
            parse_anything(json);
        else
            cr_assert(code == ERR_MALFORMED && info.message[0] != '\0');
        json_decref(json);
        json_decref(seed);
        free(good);
    }
}
