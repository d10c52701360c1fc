/* Tolerant access to JSON. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"

#include <math.h>
#include <string.h>
#include <stdlib.h>

const char *get_string(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static double number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double get_number(const json_t *object, const char *key)
{
    return number(json_object_get(object, key));
}

double get_number_in(const json_t *array, size_t i)
{
    return number(json_array_get(array, i));
}

json_t *get_array(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_array(value) ? value : NULL;
}

json_t *get_object(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_object(value) ? value : NULL;
}

const char *get_first(const json_t *object, const char *const *keys)
{
    for (; *keys; keys++) {
        const char *value = get_string(object, *keys);
        if (*value)
            return value;
    }
    return "";
}

static void brief_array(struct text *out, const json_t *array)
{
    size_t i;
    json_t *item;
    json_array_foreach (array, i, item) {
        text_add(out, i ? ", " : "");
        get_brief(out, item);
    }
}

static void brief_object(struct text *out, const json_t *object)
{
    bool first = true;
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        if (json_is_null(value))
            continue;
        text_addf(out, "%s%s=%s", first ? "" : " ", key, json_is_object(value) ? "{" : "");
        get_brief(out, value);
        text_add(out, json_is_object(value) ? "}" : "");
        first = false;
    }
}

void get_brief(struct text *out, const json_t *value)
{
    char number[HUMAN_SIZE];
    if (json_is_string(value))
        text_add(out, json_string_value(value));
    else if (json_is_integer(value))
        text_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        text_add(out, human_real(number, json_real_value(value)));
    else if (json_is_boolean(value))
        text_add(out, json_is_true(value) ? "yes" : "no");
    else if (json_is_array(value))
        brief_array(out, value);
    else if (json_is_object(value))
        brief_object(out, value);
    else
        text_add(out, human_dash());
}

static void clean_string(json_t *value)
{
    char *copy = mem_copy(json_string_value(value));
    if (text_clean(copy))
        json_string_set(value, copy);
    free(copy);
}

/* Line by line: a mistake in a formula has a caret below its place. */
static void clean_lines(json_t *value)
{
    char *copy = mem_copy(json_string_value(value)), *line = copy, *end;
    struct text clean = {0};
    do {
        end = strchr(line, '\n');
        if (end)
            *end = '\0';
        text_clean(line);
        text_add(&clean, line);
        text_add(&clean, end ? "\n" : "");
        line = end ? end + 1 : line;
    } while (end);
    json_string_set(value, text_str(&clean));
    text_release(&clean);
    free(copy);
}

void get_clean(json_t *value)
{
    size_t i;
    const char *key;
    json_t *inner;
    if (json_is_string(value))
        clean_string(value);
    json_array_foreach (value, i, inner)
        get_clean(inner);
    if (json_is_object(value)) {
        json_object_foreach (value, key, inner) {
            if (json_is_string(inner) && strcmp(key, "detail") == 0)
                clean_lines(inner);
            else
                get_clean(inner);
        }
    }
}
