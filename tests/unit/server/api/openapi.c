/* schema/openapi.json and the program hold each other: routes, query parameters, roles,
 * enumerations, and what the program really answers. */
#include "tests/unit/server/api/openapi_fixture.h"

json_t *doc;

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
