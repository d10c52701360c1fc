/* The document schema/openapi.json and ways to walk through it. */
#ifndef BARKER_TESTS_OPENAPI_FIXTURE_H
#define BARKER_TESTS_OPENAPI_FIXTURE_H

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

extern json_t *doc;

/* ---- walking ---- */

static inline const json_t *at(const char *path)
{
    const json_t *found = schema_resolve(doc, path);
    cr_assert_not_null(found, "%s is missing", path);
    return found;
}

/* The object itself, or what its $ref stands for. */
static inline const json_t *follow(const json_t *json)
{
    const char *reference = json_string_value(json_object_get(json, "$ref"));
    return reference != NULL ? at(reference) : json;
}

static inline const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? text : "";
}

static inline void expect_valid(const json_t *schema, const json_t *value, const char *what)
{
    struct schema_check check = {.root = doc};
    cr_expect(schema_valid(&check, schema, value), "%s: %s", what, check.why);
}

#endif
