/* JSON Schema for tests: as much of draft 2020-12 as schema/openapi.json uses. A keyword that is
 * not known here makes every value invalid, so that nothing in a schema goes unchecked. */
#ifndef BARKER_TESTS_SCHEMA_H
#define BARKER_TESTS_SCHEMA_H

#include <jansson.h>
#include <regex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `root` is the document in which references are looked up; `why` says what was wrong. */
struct schema_check {
    const json_t *root;
    char why[400];
};

static inline bool schema_valid(struct schema_check *c, const json_t *schema, const json_t *value);

/* What "#/a/b~1c" refers to, or NULL. */
static inline const json_t *schema_resolve(const json_t *root, const char *reference)
{
    char key[200];
    if (strncmp(reference, "#/", 2) != 0)
        return NULL;
    for (const char *at = reference + 1; root != NULL && *at == '/';) {
        size_t n = 0;
        for (at++; *at != '\0' && *at != '/' && n + 1 < sizeof key; at++) {
            bool escape = *at == '~' && (at[1] == '0' || at[1] == '1');
            key[n++] = escape ? (*++at == '0' ? '~' : '/') : *at;
        }
        key[n] = '\0';
        root = json_object_get(root, key);
    }
    return root;
}

__attribute__((format(printf, 3, 4))) static inline bool
schema_wrong(struct schema_check *c, const json_t *value, const char *format, ...)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT), message[200];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    snprintf(c->why, sizeof c->why, "%s: %.180s", message, text != NULL ? text : "?");
    free(text);
    return false;
}

/* ---- keywords: each judges `value` by its own argument ---- */

typedef bool schema_keyword(struct schema_check *c, const json_t *schema, const json_t *argument,
                            const json_t *value);

static inline bool schema_annotation(struct schema_check *c, const json_t *schema,
                                     const json_t *argument, const json_t *value)
{
    (void)c, (void)schema, (void)argument, (void)value;
    return true;
}

static inline bool schema_ref(struct schema_check *c, const json_t *schema, const json_t *argument,
                              const json_t *value)
{
    const json_t *target = schema_resolve(c->root, json_string_value(argument));
    (void)schema;
    if (target == NULL)
        return schema_wrong(c, argument, "a reference to nothing");
    return schema_valid(c, target, value);
}

static inline bool schema_is(const json_t *value, const char *type)
{
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value);
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    return (strcmp(type, "string") == 0 && json_is_string(value)) ||
           (strcmp(type, "boolean") == 0 && json_is_boolean(value)) ||
           (strcmp(type, "object") == 0 && json_is_object(value)) ||
           (strcmp(type, "array") == 0 && json_is_array(value)) ||
           (strcmp(type, "null") == 0 && json_is_null(value));
}

static inline bool schema_type(struct schema_check *c, const json_t *schema, const json_t *argument,
                               const json_t *value)
{
    bool found = json_is_string(argument) && schema_is(value, json_string_value(argument));
    (void)schema;
    for (size_t i = 0; i < json_array_size(argument); i++)
        found |= schema_is(value, json_string_value(json_array_get(argument, i)));
    return found || schema_wrong(c, value, "of another type");
}

static inline bool schema_enum(struct schema_check *c, const json_t *schema, const json_t *argument,
                               const json_t *value)
{
    (void)schema;
    for (size_t i = 0; i < json_array_size(argument); i++)
        if (json_equal(json_array_get(argument, i), value))
            return true;
    return schema_wrong(c, value, "not one of those listed");
}

static inline bool schema_const(struct schema_check *c, const json_t *schema,
                                const json_t *argument, const json_t *value)
{
    (void)schema;
    return json_equal(argument, value) || schema_wrong(c, value, "another constant");
}

static inline bool schema_one_of(struct schema_check *c, const json_t *schema,
                                 const json_t *argument, const json_t *value)
{
    size_t fits = 0;
    char why[sizeof c->why] = "";
    (void)schema;
    for (size_t i = 0; i < json_array_size(argument); i++) {
        fits += schema_valid(c, json_array_get(argument, i), value);
        memcpy(why, c->why, sizeof why);
    }
    return fits == 1 ||
           schema_wrong(c, value, "fits %zu of %zu; %.120s", fits, json_array_size(argument), why);
}

static inline bool schema_properties(struct schema_check *c, const json_t *schema,
                                     const json_t *argument, const json_t *value)
{
    const char *key;
    json_t *member;
    (void)schema;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        const json_t *rule = json_object_get(argument, key);
        if (rule != NULL && !schema_valid(c, rule, member))
            return false;
    }
    return true;
}

static inline bool schema_additional(struct schema_check *c, const json_t *schema,
                                     const json_t *argument, const json_t *value)
{
    const char *key;
    json_t *member;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        if (json_object_get(json_object_get(schema, "properties"), key) != NULL)
            continue;
        if (json_is_false(argument))
            return schema_wrong(c, member, "unknown member %s", key);
        if (json_is_object(argument) && !schema_valid(c, argument, member))
            return false;
    }
    return true;
}

static inline bool schema_required(struct schema_check *c, const json_t *schema,
                                   const json_t *argument, const json_t *value)
{
    (void)schema;
    for (size_t i = 0; json_is_object(value) && i < json_array_size(argument); i++) {
        const char *key = json_string_value(json_array_get(argument, i));
        if (json_object_get(value, key) == NULL)
            return schema_wrong(c, value, "%s is missing", key);
    }
    return true;
}

static inline bool schema_items(struct schema_check *c, const json_t *schema,
                                const json_t *argument, const json_t *value)
{
    (void)schema;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!schema_valid(c, argument, json_array_get(value, i)))
            return false;
    return true;
}

static inline bool schema_min_items(struct schema_check *c, const json_t *schema,
                                    const json_t *argument, const json_t *value)
{
    bool few =
        json_is_array(value) && (json_int_t)json_array_size(value) < json_integer_value(argument);
    (void)schema;
    return !few || schema_wrong(c, value, "too few items");
}

static inline bool schema_max_items(struct schema_check *c, const json_t *schema,
                                    const json_t *argument, const json_t *value)
{
    bool many =
        json_is_array(value) && (json_int_t)json_array_size(value) > json_integer_value(argument);
    (void)schema;
    return !many || schema_wrong(c, value, "too many items");
}

static inline bool schema_minimum(struct schema_check *c, const json_t *schema,
                                  const json_t *argument, const json_t *value)
{
    (void)schema;
    return !json_is_number(value) || json_number_value(value) >= json_number_value(argument) ||
           schema_wrong(c, value, "too small");
}

static inline bool schema_exclusive_minimum(struct schema_check *c, const json_t *schema,
                                            const json_t *argument, const json_t *value)
{
    (void)schema;
    return !json_is_number(value) || json_number_value(value) > json_number_value(argument) ||
           schema_wrong(c, value, "too small");
}

static inline bool schema_maximum(struct schema_check *c, const json_t *schema,
                                  const json_t *argument, const json_t *value)
{
    (void)schema;
    return !json_is_number(value) || json_number_value(value) <= json_number_value(argument) ||
           schema_wrong(c, value, "too large");
}

/* Bytes, which is enough for the ASCII of examples. */
static inline bool schema_min_length(struct schema_check *c, const json_t *schema,
                                     const json_t *argument, const json_t *value)
{
    (void)schema;
    return !json_is_string(value) ||
           (json_int_t)json_string_length(value) >= json_integer_value(argument) ||
           schema_wrong(c, value, "too short");
}

static inline bool schema_max_length(struct schema_check *c, const json_t *schema,
                                     const json_t *argument, const json_t *value)
{
    (void)schema;
    return !json_is_string(value) ||
           (json_int_t)json_string_length(value) <= json_integer_value(argument) ||
           schema_wrong(c, value, "too long");
}

static inline bool schema_matches(const char *pattern, const char *text)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool matches = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

static inline bool schema_pattern(struct schema_check *c, const json_t *schema,
                                  const json_t *argument, const json_t *value)
{
    (void)schema;
    return !json_is_string(value) ||
           schema_matches(json_string_value(argument), json_string_value(value)) ||
           schema_wrong(c, value, "does not match %s", json_string_value(argument));
}

static inline bool schema_format(struct schema_check *c, const json_t *schema,
                                 const json_t *argument, const json_t *value)
{
    static const char time[] =
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$";
    (void)schema;
    if (strcmp(json_string_value(argument), "date-time") != 0)
        return schema_wrong(c, argument, "an unknown format");
    return !json_is_string(value) || schema_matches(time, json_string_value(value)) ||
           schema_wrong(c, value, "not a time");
}

static inline schema_keyword *schema_find(const char *name)
{
    static const struct {
        const char *name;
        schema_keyword *judge;
    } keywords[] = {
        {"$ref", schema_ref},
        {"additionalProperties", schema_additional},
        {"const", schema_const},
        {"default", schema_annotation},
        {"description", schema_annotation},
        {"enum", schema_enum},
        {"exclusiveMinimum", schema_exclusive_minimum},
        {"format", schema_format},
        {"items", schema_items},
        {"maxItems", schema_max_items},
        {"maxLength", schema_max_length},
        {"maximum", schema_maximum},
        {"minItems", schema_min_items},
        {"minLength", schema_min_length},
        {"minimum", schema_minimum},
        {"oneOf", schema_one_of},
        {"pattern", schema_pattern},
        {"properties", schema_properties},
        {"required", schema_required},
        {"type", schema_type},
    };
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return keywords[i].judge;
    return NULL;
}

static inline bool schema_valid(struct schema_check *c, const json_t *schema, const json_t *value)
{
    const char *name;
    json_t *argument;
    json_object_foreach ((json_t *)(uintptr_t)schema, name, argument) {
        schema_keyword *judge = schema_find(name);
        if (judge == NULL)
            return schema_wrong(c, schema, "the keyword %s is not known to the test", name);
        if (!judge(c, schema, argument, value))
            return false;
    }
    return true;
}

#endif
