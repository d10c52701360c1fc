/* Values of the larger fields, read and written: copies, lists, numbers under a rule. */
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <stdlib.h>
#include <string.h>

void parse_copy(struct parse *parse, char **slot, const char *text)
{
    free(*slot);
    *slot = strdup(text);
    if (*slot == NULL)
        parse->failure = ERR_NO_MEMORY;
}

bool parse_given(const struct parse *parse, const char *name)
{
    return field_get(parse->json, name) != NULL;
}

bool parse_wrong(const struct mistakes *mistakes, const char *pointer)
{
    size_t length = strlen(pointer);
    for (size_t i = 0; i < mistakes->count; i++)
        if (strncmp(mistakes->items[i].pointer, pointer, length) == 0)
            return true;
    return false;
}

bool parse_open_count(const struct place *place, const json_t *json, double lo, double hi,
                      uint64_t *out)
{
    char quoted[FIELD_QUOTE_SIZE];
    const char *word = json_string_value(json);
    int64_t value = -1; /* PLAN_AUTO */
    if (word != NULL && strcmp(word, "auto") != 0) {
        place_mistake(place, MISTAKE_choice,
                      "%s is not allowed; it must be a whole number or \"auto\"",
                      field_quote(word, quoted));
        return false;
    }
    if (word == NULL && !field_integer(place, json, (int64_t)lo, (int64_t)hi, &value))
        return false;
    *out = (uint64_t)value;
    return true;
}

bool parse_number(const struct place *place, const json_t *json, const struct param_spec *rule,
                  double *out)
{
    struct err_info why;
    double value;
    if (!field_number(place, json, &value))
        return false;
    if (param_check(rule, value, &why) != ERR_OK) {
        place_mistake(place, MISTAKE_range, "%s", why.message);
        return false;
    }
    *out = value;
    return true;
}

void parse_numbers(struct parse *parse, const struct place *place, const json_t *json,
                   const struct param_spec *rule, double **out, size_t *count)
{
    size_t n = json_array_size(json), wrong = 0;
    if (!json_is_array(json)) {
        place_mistake(place, MISTAKE_type, "must be an array of numbers, not %s", field_type(json));
        return;
    }
    double *values = calloc(n + 1, sizeof *values);
    if (values == NULL) {
        parse->failure = ERR_NO_MEMORY;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct place at = place_item(place, i);
        wrong += !parse_number(&at, json_array_get(json, i), rule, &values[i]);
    }
    if (wrong > 0) {
        free(values);
        return;
    }
    *out = values;
    *count = n;
}

/* Adds one name to a list, unless it is wrong or in the list already. */
static bool take_name(struct parse *parse, const struct place *place, const json_t *json,
                      size_t max_characters, json_t *seen, char **out)
{
    char quoted[FIELD_QUOTE_SIZE];
    const char *text;
    if (!field_text(place, json, (struct field_text){.max = max_characters}, &text))
        return false;
    if (json_object_get(seen, text) != NULL) {
        place_mistake(place, MISTAKE_conflict, "%s is in the list twice",
                      field_quote(text, quoted));
        return false;
    }
    if (json_object_set_new(seen, text, json_true()) != 0)
        parse->failure = ERR_NO_MEMORY;
    parse_copy(parse, out, text);
    return true;
}

void parse_names(struct parse *parse, const struct place *place, const json_t *json,
                 struct name_rule rule, char ***out, size_t *count)
{
    size_t n = json_array_size(json), wrong = 0;
    if (!json_is_array(json)) {
        place_mistake(place, MISTAKE_type, "must be an array of strings, not %s", field_type(json));
        return;
    }
    if (n > rule.max_count) {
        place_mistake(place, MISTAKE_range, "has %zu entries; at most %zu are allowed", n,
                      rule.max_count);
        return;
    }
    char **names = calloc(n + 1, sizeof *names);
    json_t *seen = json_object();
    if (names == NULL || seen == NULL)
        parse->failure = ERR_NO_MEMORY;
    for (size_t i = 0; i < n && parse->failure == ERR_OK; i++) {
        struct place at = place_item(place, i);
        wrong +=
            !take_name(parse, &at, json_array_get(json, i), rule.max_characters, seen, &names[i]);
    }
    json_decref(seen);
    if (wrong > 0 || parse->failure != ERR_OK) {
        spec_names_free(names, n);
        return;
    }
    *out = names;
    *count = n;
}

void spec_names_free(char **names, size_t count)
{
    for (size_t i = 0; names != NULL && i < count; i++)
        free(names[i]);
    free(names);
}

json_t *write_open_count(uint64_t count)
{
    return count == PLAN_AUTO ? json_text("auto") : json_count(count);
}

json_t *write_names(char *const *names, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(&array, json_text(names[i]));
    return array;
}

json_t *write_numbers(const double *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(&array, json_number(values[i]));
    return array;
}
