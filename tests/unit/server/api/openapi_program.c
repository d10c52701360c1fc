/* schema/openapi.json against what the program says: enumerations, jobs, events, problems. */
#include "tests/unit/server/api/openapi_fixture.h"

static void expect_enum(const char *path, const char *const *words, size_t count)
{
    const json_t *list = json_object_get(at(path), "enum");
    cr_assert_eq(json_array_size(list), count, "%s", path);
    for (size_t i = 0; i < count; i++)
        cr_expect_str_eq(json_string_value(json_array_get(list, i)), words[i], "%s", path);
}

Test(openapi, enumerations_are_those_of_the_program)
{
#define X(name, word) word,
    static const char *const mixing[] = {MIXING_LEVEL_LIST(X)};
    static const char *const bias[] = {BIAS_LEVEL_LIST(X)};
#undef X
    static const char *const codes[] = {
#define X(name, text) #name,
        ERR_LIST(X)
#undef X
    };
    static const char *const states[] = {
#define X(name, text) #name,
        JOB_STATE_LIST(X)
#undef X
    };
    static const char *const phases[] = {
#define X(name, text) #name,
        JOB_PHASE_LIST(X)
#undef X
    };
    static const char *const kinds[] = {
#define X(name) #name,
        MISTAKE_LIST(X)
#undef X
    };
    static const char *const roles[] = {"viewer", "user", "admin"};
    expect_enum("#/components/schemas/Problem/properties/code", codes + 1,
                sizeof codes / sizeof codes[0] - 1);
    expect_enum("#/components/schemas/JobState", states, sizeof states / sizeof states[0]);
    expect_enum("#/components/schemas/JobPhase", phases, sizeof phases / sizeof phases[0]);
    expect_enum("#/components/schemas/Role", roles, 3);
    expect_enum("#/components/schemas/MixingLevel", mixing, sizeof mixing / sizeof mixing[0]);
    expect_enum("#/components/schemas/BiasLevel", bias, sizeof bias / sizeof bias[0]);
    expect_enum("#/components/schemas/Mistake/properties/kind", kinds,
                sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; i < 3; i++)
        cr_expect_str_eq(role_name((enum role)i), roles[i]);
}

/* The job that each example of a request stands for is one that the program takes. */
Test(openapi, example_jobs_are_accepted)
{
    const json_t *examples = at("#/paths/~1v1~1jobs/post/requestBody/content/application~1json/"
                                "examples");
    const char *name;
    json_t *example;
    json_object_foreach ((json_t *)(uintptr_t)examples, name, example) {
        struct mistakes mistakes = {0};
        struct job_spec spec;
        enum err code = spec_parse(&spec, json_object_get(example, "value"), NULL, &mistakes);
        cr_expect_eq(code, ERR_OK, "%s: %s %s", name, mistakes.items[0].pointer,
                     mistakes.items[0].detail);
        if (code != ERR_OK)
            continue;
        json_t *resolved = spec_resolved(&spec);
        expect_valid(at("#/components/schemas/JobRequest"), resolved, name);
        json_decref(resolved);
        spec_release(&spec);
    }
}

/* The object of a schema that may also be null, and the schema of one of its kinds. */
static const json_t *of_type(const json_t *schema, const char *type)
{
    schema = follow(schema);
    const json_t *one = json_object_get(schema, "oneOf");
    for (size_t i = 0; i < json_array_size(one); i++) {
        const json_t *found = follow(json_array_get(one, i));
        if (strcmp(text_of(found, "type"), type) == 0)
            return found;
    }
    return schema;
}

static const json_t *property_at(const char *pointer)
{
    char key[80];
    const json_t *schema = at("#/components/schemas/JobRequest");
    while (*pointer == '/' && schema != NULL) {
        size_t length = strcspn(pointer + 1, "/");
        snprintf(key, sizeof key, "%.*s", (int)length, pointer + 1);
        schema = json_object_get(json_object_get(of_type(schema, "object"), "properties"), key);
        pointer += length + 1;
    }
    return schema;
}

static void expect_same(const json_t *field, const char *key, const json_t *schema,
                        const char *name)
{
    const json_t *ours = json_object_get(field, key), *theirs = json_object_get(schema, name);
    cr_expect(ours == NULL || theirs == NULL ||
                  json_number_value(ours) == json_number_value(theirs),
              "%s of %s", key, text_of(field, "pointer"));
}

/* A field that is in the table is in the schema with its bounds and words, and the other way. */
Test(openapi, job_requests_have_the_fields_of_the_table)
{
    json_t *fields = describe_fields(), *tops = json_object(), *field, *word;
    size_t i, k;
    json_array_foreach (fields, i, field) {
        const char *pointer = text_of(field, "pointer");
        const json_t *schema = property_at(pointer);
        cr_assert_not_null(schema, "%s is not in JobRequest", pointer);
        expect_valid(at("#/components/schemas/Field"), field, pointer);
        if (strrchr(pointer, '/') == pointer)
            json_object_set_new(tops, pointer + 1, json_true());
        const json_t *number = of_type(schema, "integer");
        expect_same(field, "minimum", number, "minimum");
        expect_same(field, "exclusive_minimum", number, "exclusiveMinimum");
        expect_same(field, "maximum", number, "maximum");
        expect_same(field, "max_length", schema, "maxLength");
        json_array_foreach (json_object_get(field, "choices"), k, word)
            cr_expect(json_equal(json_array_get(json_object_get(schema, "enum"), k), word), "%s",
                      pointer);
    }
    const char *name;
    json_object_foreach ((json_t *)(uintptr_t)at("#/components/schemas/JobRequest/properties"),
                         name, field)
        cr_expect_not_null(json_object_get(tops, name), "%s is in JobRequest only", name);
    json_decref(tops);
    json_decref(fields);
}

/* Every pair of model and sampler with nothing but defaults. */
Test(openapi, resolved_jobs_fit_the_schema_of_requests)
{
    for (size_t m = 0; m < model_count; m++)
        for (size_t k = 0; k < sampler_count; k++) {
            struct mistakes mistakes = {0};
            struct job_spec spec;
            json_t *request =
                json_pack("{s:s, s:s}", "model", models[m]->name, "sampler", samplers[k]->name);
            if (models[m]->data != DATA_NONE)
                json_object_set_new(request, "data", json_pack("{s:s}", "path", "a.csv"));
            cr_assert_eq(spec_parse(&spec, request, NULL, &mistakes), ERR_OK);
            json_t *resolved = spec_resolved(&spec);
            expect_valid(at("#/components/schemas/JobRequest"), resolved, models[m]->name);
            json_decref(resolved);
            json_decref(request);
            spec_release(&spec);
        }
}

Test(openapi, descriptions_of_samplers_and_models_fit)
{
    for (size_t i = 0; i < sampler_count; i++) {
        json_t *sampler = describe_sampler(samplers[i]);
        expect_valid(at("#/components/schemas/Sampler"), sampler, samplers[i]->name);
        json_decref(sampler);
    }
    for (size_t i = 0; i < model_count; i++) {
        json_t *model = describe_model(models[i]);
        expect_valid(at("#/components/schemas/Model"), model, models[i]->name);
        json_decref(model);
    }
}

Test(openapi, events_are_named)
{
    static const char *const events[] = {
#define X(kind, name) name,
        EVENT_LIST(X)
#undef X
    };
    const json_t *route = json_object_get(json_object_get(at("#/paths"), "/v1/events"), "get");
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        cr_expect_not_null(strstr(text_of(route, "description"), events[i]),
                           "the description of GET /v1/events does not name %s", events[i]);
}

Test(openapi, progress_fits)
{
    struct snapshot_chain chains[] = {{.iteration = 120, .warmup = true, .busy = true},
                                      {.iteration = 300, .done = true},
                                      {.iteration = 7, .diverged = true},
                                      {.iteration = 0, .warmup = true}};
    struct job_snapshot views[] = {
        {.state = JOB_queued,
         .total = 300,
         .chains = 4,
         .chain = chains,
         .head = {.max_rhat = NAN, .min_ess_bulk = NAN}},
        {.state = JOB_paused,
         .total = 300,
         .started_ms = 1,
         .elapsed_seconds = 12.5,
         .rate = 41.5,
         .head = {.max_rhat = 1.02, .min_ess_bulk = 85.5, .worst = "theta[1]"},
         .chains = 4,
         .chain = chains},
        {.state = JOB_failed,
         .total = 0,
         .chains = 0,
         .head = {.max_rhat = INFINITY, .min_ess_bulk = 0}},
    };
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        json_t *progress = progress_json(&views[i]), *head = progress_summary_json(&views[i]);
        expect_valid(at("#/components/schemas/Progress"), progress, "progress");
        expect_valid(at("#/components/schemas/Headline"), head, "headline");
        json_decref(progress);
        json_decref(head);
    }
}

Test(openapi, problems_fit)
{
    struct mistakes mistakes = {0};
    mistake_add(&mistakes, "/sampler/step_size", MISTAKE_range, "-1 is not allowed");
    mistake_add(&mistakes, "?limit", MISTAKE_range, "\"x\" is not allowed");
    for (int code = ERR_OK + 1; code <= ERR_INTERNAL; code++) {
        struct reply reply = {.status = 0};
        problem_reply(&reply, (enum err)code, code % 2 ? "in detail" : NULL,
                      code % 3 ? &mistakes : NULL);
        json_t *problem = json_loads(reply.body, 0, NULL);
        expect_valid(at("#/components/schemas/Problem"), problem, err_name((enum err)code));
        json_decref(problem);
        free(reply.body);
        for (size_t i = 0; i < reply.header_count; i++)
            free(reply.headers[i].value);
    }
}
