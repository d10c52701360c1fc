/* schema/openapi.json and the program hold each other: routes, query parameters, roles,
 * enumerations, and what the program really answers. */
#include "server/api/api.h"
#include "server/api/problem.h"
#include "server/base/assets.h"
#include "server/base/build.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/sched/events.h"
#include "server/sched/progress.h"
#include "server/spec/describe.h"
#include "server/spec/spec.h"
#include "models/models.h"
#include "tests/support/schema.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>

static json_t *doc;

static void load(void)
{
    struct asset asset = asset_get(ASSET_openapi);
    json_error_t error;
    doc = json_loadb(asset.bytes, asset.size, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(doc, "line %d: %s", error.line, error.text);
}

static void unload(void)
{
    json_decref(doc);
}

TestSuite(openapi, .init = load, .fini = unload);

/* ---- walking ---- */

static const json_t *at(const char *path)
{
    const json_t *found = schema_resolve(doc, path);
    cr_assert_not_null(found, "%s is missing", path);
    return found;
}

/* The object itself, or what its $ref stands for. */
static const json_t *follow(const json_t *json)
{
    const char *reference = json_string_value(json_object_get(json, "$ref"));
    return reference != NULL ? at(reference) : json;
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? text : "";
}

static void lower(char *out, const char *text)
{
    do
        *out++ = (char)tolower((unsigned char)*text);
    while (*text++ != '\0');
}

static const json_t *operation_of(const struct route *route)
{
    char method[16];
    lower(method, http_method_name(route->method));
    return json_object_get(json_object_get(at("#/paths"), route->pattern), method);
}

static const char *label(const struct route *route)
{
    static char text[120];
    snprintf(text, sizeof text, "%s %s", http_method_name(route->method), route->pattern);
    return text;
}

/* The operation of every route in turn. */
typedef void visitor(const struct route *route, const json_t *operation);

static void each_route(visitor *visit)
{
    for (size_t i = 0; i < api_route_count; i++) {
        const json_t *operation = operation_of(&api_routes[i]);
        if (operation != NULL)
            visit(&api_routes[i], operation);
    }
}

static void expect_valid(const json_t *schema, const json_t *value, const char *what)
{
    struct schema_check check = {.root = doc};
    cr_expect(schema_valid(&check, schema, value), "%s: %s", what, check.why);
}

/* ---- the document as a whole ---- */

Test(openapi, it_describes_this_version)
{
    cr_expect_eq(strncmp(text_of(doc, "openapi"), "3.1.", 4), 0);
    cr_expect_str_eq(text_of(at("#/info"), "version"), BARKERD_VERSION);
}

Test(openapi, everybody_needs_a_bearer_token_unless_said_otherwise)
{
    const json_t *scheme = at("#/components/securitySchemes/bearer");
    cr_expect_str_eq(text_of(scheme, "type"), "http");
    cr_expect_str_eq(text_of(scheme, "scheme"), "bearer");
    cr_assert_eq(json_array_size(at("#/security")), 1);
    cr_expect_not_null(json_object_get(json_array_get(at("#/security"), 0), "bearer"));
}

/* Calls `visit` with every object of the document. */
static void walk(const json_t *json, void (*visit)(void *ctx, const json_t *object), void *ctx)
{
    const char *key;
    json_t *member;
    if (json_is_object(json))
        visit(ctx, json);
    json_object_foreach ((json_t *)(uintptr_t)json, key, member)
        walk(member, visit, ctx);
    for (size_t i = 0; i < json_array_size(json); i++)
        walk(json_array_get(json, i), visit, ctx);
}

static void check_reference(void *used, const json_t *object)
{
    const char *reference = json_string_value(json_object_get(object, "$ref"));
    if (reference == NULL)
        return;
    cr_expect_not_null(schema_resolve(doc, reference), "%s leads nowhere", reference);
    json_object_set_new(used, reference, json_true());
}

Test(openapi, references_lead_somewhere_and_every_component_is_used)
{
    static const char *const sections[] = {"schemas", "responses", "parameters", "examples"};
    json_t *used = json_object();
    walk(doc, check_reference, used);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const json_t *section = json_object_get(at("#/components"), sections[i]);
        const char *name;
        json_t *component;
        json_object_foreach ((json_t *)(uintptr_t)section, name, component) {
            char reference[120];
            snprintf(reference, sizeof reference, "#/components/%s/%s", sections[i], name);
            cr_expect_not_null(json_object_get(used, reference), "nobody uses %s", reference);
        }
    }
    json_decref(used);
}

/* ---- routes ---- */

Test(openapi, every_route_is_described)
{
    for (size_t i = 0; i < api_route_count; i++)
        cr_expect_not_null(operation_of(&api_routes[i]), "%s is not described",
                           label(&api_routes[i]));
}

static bool is_route(const char *path, const char *method)
{
    for (size_t i = 0; i < api_route_count; i++) {
        char name[16];
        lower(name, http_method_name(api_routes[i].method));
        if (strcmp(api_routes[i].pattern, path) == 0 && strcmp(name, method) == 0)
            return true;
    }
    return false;
}

Test(openapi, everything_described_is_a_route)
{
    const char *path, *method;
    json_t *item, *operation;
    json_object_foreach ((json_t *)(uintptr_t)at("#/paths"), path, item) {
        json_object_foreach (item, method, operation)
            cr_expect(is_route(path, method), "there is no route %s %s", method, path);
    }
}

static void check_words(const struct route *route, const json_t *operation)
{
    static json_t *seen;
    seen = seen != NULL ? seen : json_object();
    const char *id = text_of(operation, "operationId");
    const json_t *tags = json_object_get(operation, "tags");
    bool known = false;
    cr_expect_gt(strlen(text_of(operation, "summary")), 5, "%s has no summary", label(route));
    cr_expect(id[0] != '\0' && json_object_get(seen, id) == NULL, "%s: operationId \"%s\"",
              label(route), id);
    json_object_set_new(seen, id, json_true());
    cr_expect_eq(json_array_size(tags), 1, "%s has not one tag", label(route));
    for (size_t i = 0; i < json_array_size(at("#/tags")); i++)
        known |= strcmp(text_of(json_array_get(at("#/tags"), i), "name"),
                        json_string_value(json_array_get(tags, 0))) == 0;
    cr_expect(known, "the tag of %s is not declared", label(route));
}

Test(openapi, every_operation_has_a_summary_a_tag_and_an_id_of_its_own)
{
    each_route(check_words);
}

static void check_security(const struct route *route, const json_t *operation)
{
    const json_t *security = json_object_get(operation, "security");
    if (route->flags & ROUTE_OPEN)
        cr_expect(json_is_array(security) && json_array_size(security) == 0,
                  "%s is open but not described so", label(route));
    else
        cr_expect_null(security, "%s needs a token as any other", label(route));
    cr_expect_str_eq(text_of(operation, "x-role"), role_name(route->role), "%s", label(route));
}

Test(openapi, open_routes_and_roles_are_those_of_the_table)
{
    each_route(check_security);
}

/* ---- parameters ---- */

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = words; (p = strstr(p, word)) != NULL; p += length)
        if ((p == words || p[-1] == ' ') && (p[length] == ' ' || p[length] == '\0'))
            return true;
    return false;
}

static size_t count_words(const char *words)
{
    size_t n = words[0] != '\0';
    for (; *words != '\0'; words++)
        n += *words == ' ';
    return n;
}

static void check_parameters(const struct route *route, const json_t *operation)
{
    const json_t *list = json_object_get(operation, "parameters");
    size_t query = 0, path = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = follow(json_array_get(list, i));
        const char *name = text_of(p, "name"), *in = text_of(p, "in");
        char braced[80];
        snprintf(braced, sizeof braced, "{%s}", name);
        query += strcmp(in, "query") == 0;
        path += strcmp(in, "path") == 0;
        if (strcmp(in, "query") == 0)
            cr_expect(has_word(route->query, name), "%s does not take ?%s", label(route), name);
        if (strcmp(in, "path") == 0)
            cr_expect(strstr(route->pattern, braced) != NULL &&
                          json_is_true(json_object_get(p, "required")),
                      "%s: path parameter %s", label(route), name);
        cr_expect_gt(strlen(text_of(p, "description")), 3, "%s: %s", label(route), name);
        cr_expect_not_null(json_object_get(p, "schema"), "%s: %s", label(route), name);
    }
    cr_expect_eq(query, count_words(route->query), "%s takes ?%s", label(route), route->query);
    cr_expect_eq(path, strchr(route->pattern, '{') != NULL ? 1 : 0, "%s", label(route));
}

Test(openapi, parameters_are_exactly_those_of_the_table)
{
    each_route(check_parameters);
}

/* ---- bodies and responses ---- */

static void check_body(const struct route *route, const json_t *operation)
{
    const json_t *body = json_object_get(operation, "requestBody");
    const json_t *json = json_object_get(json_object_get(body, "content"), "application/json");
    if (route->flags & ROUTE_JSON)
        cr_expect_not_null(json_object_get(json, "schema"), "%s has no JSON body", label(route));
    if (route->method == HTTP_PUT)
        cr_expect_not_null(body, "%s has no body", label(route));
    if (body == NULL)
        return;
    cr_expect(json_is_true(json_object_get(body, "required")), "%s", label(route));
    cr_expect(route->method == HTTP_PUT || (route->flags & ROUTE_JSON), "%s takes no body",
              label(route));
}

Test(openapi, routes_with_a_body_describe_it)
{
    each_route(check_body);
}

static bool answers(const json_t *operation, const char *status)
{
    return json_object_get(json_object_get(operation, "responses"), status) != NULL;
}

static void expect_answers(const struct route *route, const json_t *operation, const char *statuses)
{
    char status[4] = "";
    for (; *statuses != '\0'; statuses += strlen(status) + (statuses[3] == ' ')) {
        snprintf(status, sizeof status, "%.3s", statuses);
        cr_expect(answers(operation, status), "%s can answer %s", label(route), status);
    }
}

static void check_responses(const struct route *route, const json_t *operation)
{
    const char *status;
    json_t *response;
    size_t good = 0;
    json_object_foreach ((json_t *)(uintptr_t)json_object_get(operation, "responses"), status,
                         response) {
        const json_t *content = json_object_get(follow(response), "content");
        bool success = status[0] == '2' || status[0] == '3';
        good += success;
        cr_expect_gt(strlen(text_of(follow(response), "description")), 2, "%s %s", label(route),
                     status);
        if (!success)
            cr_expect_not_null(json_object_get(content, "application/problem+json"),
                               "%s %s is no problem document", label(route), status);
    }
    cr_expect_gt(good, 0, "%s never succeeds", label(route));
    cr_expect(answers(operation, "default"), "%s", label(route));
    if (!(route->flags & ROUTE_OPEN))
        expect_answers(route, operation, "401 429");
    if (route->role > ROLE_VIEWER)
        expect_answers(route, operation, "403");
    if (route->query[0] != '\0')
        expect_answers(route, operation, "422");
    if (route->flags & ROUTE_JSON)
        expect_answers(route, operation, "400 413 415 422");
    if (route->flags & ROUTE_WRITE)
        expect_answers(route, operation, "503");
}

Test(openapi, every_operation_says_what_it_answers)
{
    each_route(check_responses);
}

/* ---- examples ---- */

static size_t examples_checked;

static void check_media(const json_t *media, const char *what)
{
    const json_t *schema = json_object_get(media, "schema");
    const json_t *one = json_object_get(media, "example");
    const char *name;
    json_t *example;
    if (one != NULL) {
        expect_valid(schema, one, what);
        examples_checked++;
    }
    json_object_foreach ((json_t *)(uintptr_t)json_object_get(media, "examples"), name, example) {
        expect_valid(schema, json_object_get(follow(example), "value"), what);
        examples_checked++;
    }
}

static void check_contents(const json_t *holder, const struct route *route)
{
    const char *type;
    json_t *media;
    json_object_foreach ((json_t *)(uintptr_t)json_object_get(holder, "content"), type, media) {
        bool named = json_object_get(json_object_get(media, "schema"), "$ref") != NULL;
        bool has =
            json_object_get(media, "example") != NULL || json_object_get(media, "examples") != NULL;
        if (strcmp(type, "application/json") == 0 && named)
            cr_expect(has, "%s has no example", label(route));
        check_media(media, label(route));
    }
}

static void check_examples(const struct route *route, const json_t *operation)
{
    const char *status;
    json_t *response;
    check_contents(json_object_get(operation, "requestBody"), route);
    json_object_foreach ((json_t *)(uintptr_t)json_object_get(operation, "responses"), status,
                         response)
        check_contents(follow(response), route);
}

Test(openapi, every_example_is_valid)
{
    each_route(check_examples);
    cr_expect_gt(examples_checked, 40);
}

/* ---- what the program says ---- */

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

/* ---- the judge itself ---- */

Test(openapi, the_schemas_refuse_what_is_wrong)
{
    static const struct {
        const char *schema, *value;
    } cases[] = {
        {"JobRequest", "{}"},
        {"JobRequest", "{\"model\": \"a\", \"sampler\": \"b\", \"chain\": 4}"},
        {"JobRequest", "{\"model\": \"a\", \"sampler\": \"b\", \"chains\": 0}"},
        {"JobRequest", "{\"model\": \"a\", \"sampler\": \"b\", \"chains\": 1.5}"},
        {"JobRequest", "{\"model\": \"a\", \"sampler\": \"b\", \"visibility\": \"public\"}"},
        {"JobRequest", "{\"model\": 7, \"sampler\": \"b\"}"},
        {"JobRequest", "{\"model\": \"a\", \"sampler\": \"b\", \"tags\": \"paper\"}"},
        {"StepSize", "0"},
        {"StepSize", "[]"},
        {"StepSize", "\"automatic\""},
        {"StepSize", "{\"kind\": \"schedule\"}"},
        {"StepSize", "{\"value\": 0.1, \"gamma\": 1.5}"},
        {"InitChoice", "\"values\""},
        {"InitChoice", "{\"kind\": \"map\", \"steps\": 10001}"},
        {"Extension", "{\"iterations\": 0}"},
        {"Progress", "{\"iteration\": 1}"},
        {"User",
         "{\"name\": \"Ada\", \"role\": \"user\", \"created_at\": \"2026-01-01T00:00:00.000Z\"}"},
        {"User", "{\"name\": \"ada\", \"role\": \"user\", \"created_at\": \"yesterday\"}"},
        {"TicketRequest", "{\"ticket\": \"\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schema_check check = {.root = doc};
        char path[80];
        snprintf(path, sizeof path, "#/components/schemas/%s", cases[i].schema);
        json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
        cr_assert_not_null(value, "%s", cases[i].value);
        cr_expect_not(schema_valid(&check, at(path), value), "%s", cases[i].value);
        json_decref(value);
    }
}
