/* Jobs as text, and short ways to parse them, for the tests of specifications. Header-only: each
 * suite is a program of its own. A failure ends the test with a message. */
#ifndef BARKER_TESTS_JOBTEXT_H
#define BARKER_TESTS_JOBTEXT_H

#include "models/models.h"
#include "server/base/json.h"
#include "server/spec/spec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOB_LOGISTIC                                        \
    "{'model': 'logistic', 'sampler': 'sgbd', 'seed': 123," \
    " 'data': {'path': 'train.csv'}}"
/* With a step size of one's own, hence the settings around it are not the daemon's to choose. */
#define JOB_OWN                                                         \
    "{'model': 'logistic', 'seed': 123, 'data': {'path': 'train.csv'}," \
    " 'sampler': {'name': 'sgbd', 'step_size': {'kind': 'auto', 'fraction': 0.2}}}"
#define JOB_ICA                                        \
    "{'model': 'ica', 'sampler': 'sgld', 'seed': 123," \
    " 'data': {'path': 'rows.npy'}}"
#define JOB_RATINGS                                        \
    "{'model': 'matrix_factorization', 'sampler': 'sgbd'," \
    " 'seed': 123, 'data': {'path': 'ratings.csv'}}"
#define JOB_TOY "{'model': 'skew_normal', 'sampler': 'sgbd', 'seed': 123}"
#define JOB_EXACT                                           \
    "{'model': 'logistic', 'sampler': 'mala', 'seed': 123," \
    " 'data': {'path': 'train.csv'}}"

/* JSON in which ' stands for ", so that it can be read in a C string. */
static inline json_t *job_load(const char *text)
{
    char quoted[4096];
    json_error_t error;
    cr_assert_lt((size_t)snprintf(quoted, sizeof quoted, "%s", text), sizeof quoted);
    for (char *c = quoted; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *json = json_loads(quoted, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    cr_assert_not_null(json, "%s: %s", text, error.text);
    return json;
}

/* The base job with some fields replaced or added; one that is null counts as left out. */
static inline json_t *job_make(const char *base, const char *changes)
{
    char text[4096];
    json_t *json = job_load(base);
    snprintf(text, sizeof text, "{%s}", changes);
    json_t *other = job_load(text);
    cr_assert_eq(json_object_update(json, other), 0);
    json_decref(other);
    return json;
}

/* The value at an RFC 6901 pointer, or NULL. */
static inline const json_t *job_at(const json_t *json, const char *pointer)
{
    while (*pointer == '/' && json != NULL) {
        char key[1024];
        size_t n = 0;
        for (pointer++; *pointer != '\0' && *pointer != '/' && n + 1 < sizeof key; pointer++) {
            bool escaped = *pointer == '~';
            pointer += escaped;
            key[n++] = !escaped ? *pointer : *pointer == '0' ? '~' : '/';
        }
        key[n] = '\0';
        json = json_is_array(json) ? json_array_get(json, strtoul(key, NULL, 10))
                                   : json_object_get(json, key);
    }
    return json;
}

static inline void job_show(const struct mistakes *mistakes, char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < mistakes->count && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, "[%s: %s] ",
                                   mistakes->items[i].pointer, mistakes->items[i].detail);
}

static inline void job_parse(struct job_spec *spec, const json_t *json)
{
    struct mistakes mistakes = {0};
    char text[2000];
    enum err code = spec_parse(spec, json, NULL, &mistakes);
    job_show(&mistakes, text, sizeof text);
    cr_assert_eq(code, ERR_OK, "%s: %s", err_name(code), text);
    cr_assert_eq(mistakes.count, 0);
}

static inline void job_expect_only(const struct mistakes *mistakes, const char *pointer,
                                   const char *detail, const char *what)
{
    char text[4000];
    job_show(mistakes, text, sizeof text);
    cr_assert_eq(mistakes->count, 1, "%s: %s", what, text);
    cr_expect_str_eq(mistakes->items[0].pointer, pointer, "%s: %s", what, text);
    cr_expect_not_null(strstr(mistakes->items[0].detail, detail), "%s: %s", what, text);
}

static inline bool job_same_numbers(const struct job_spec *a, const struct job_spec *b)
{
    return memcmp(a->model_params, b->model_params, sizeof a->model_params) == 0 &&
           memcmp(a->sampler_params, b->sampler_params, sizeof a->sampler_params) == 0 &&
           a->step.kind == b->step.kind && a->step.value == b->step.value &&
           a->step.count == b->step.count && a->step.t0 == b->step.t0 &&
           a->step.gamma == b->step.gamma && a->step.fraction == b->step.fraction &&
           a->batch_size == b->batch_size && a->batch_default == b->batch_default &&
           a->metric_every == b->metric_every && a->metric_default == b->metric_default &&
           a->start == b->start && a->start_auto == b->start_auto && a->step_own == b->step_own &&
           a->estimator == b->estimator && a->centre == b->centre &&
           a->precondition == b->precondition && a->iterations == b->iterations &&
           a->warmup == b->warmup && a->thin == b->thin && a->chains_auto == b->chains_auto &&
           memcmp(&a->target, &b->target, sizeof a->target) == 0 && a->map_steps == b->map_steps &&
           a->seed == b->seed;
}

/* The resolved job, through text, gives the same spec and the same resolved job. */
static inline void job_round_trip(const struct job_spec *spec)
{
    struct job_spec again;
    struct err_info info = {0};
    json_t *resolved = spec_resolved(spec), *read = NULL;
    cr_assert_not_null(resolved);
    size_t length;
    char *text = json_write(resolved, &length);
    cr_assert_not_null(text);
    cr_assert_eq(json_parse(&read, text, length, &info), ERR_OK, "%s: %s", text, info.message);
    job_parse(&again, read);
    json_t *twice = spec_resolved(&again);
    cr_expect(json_equal(resolved, twice), "%s", text);
    cr_expect(job_same_numbers(spec, &again), "%s", text);
    json_decref(twice);
    json_decref(read);
    json_decref(resolved);
    free(text);
    spec_release(&again);
}

/* A job for this model and sampler with the choice `c` of the first choice in the sampler's table.
 */
static inline json_t *job_combination(const struct model_type *model,
                                      const struct sampler_type *sampler, size_t c)
{
    json_t *json = json_object(), *settings = json_object();
    json_put(&settings, "name", json_text(sampler->name));
    if (sampler->params.specs[0].kind == PARAM_CHOICE)
        json_put(&settings, sampler->params.specs[0].name,
                 json_text(sampler->params.specs[0].choices[c]));
    json_put(&json, "model", json_text(model->name));
    json_put(&json, "sampler", settings);
    if (model->data != DATA_NONE)
        json_put(&json, "data", json_pack("{s:s, s:s}", "path", "a.csv", "test", "b.csv"));
    return json;
}

static inline size_t job_choices(const struct sampler_type *sampler)
{
    const struct param_spec *first = &sampler->params.specs[0];
    size_t n = 0;
    while (first->kind == PARAM_CHOICE && first->choices[n] != NULL)
        n++;
    return n > 0 ? n : 1;
}

#endif
