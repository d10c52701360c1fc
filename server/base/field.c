/* Readers of single fields, and of objects by their table of fields. */
#include "server/base/field.h"
#include "server/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 64 /* in one object */

/* ---- places ---- */

struct place place_root(struct mistakes *mistakes)
{
    return (struct place){.mistakes = mistakes};
}

struct place place_key(const struct place *parent, const char *key)
{
    return (struct place){.mistakes = parent->mistakes, .parent = parent, .key = key};
}

struct place place_item(const struct place *parent, size_t index)
{
    return (struct place){.mistakes = parent->mistakes, .parent = parent, .index = index};
}

static void append(char *out, size_t size, size_t *length, char c)
{
    if (*length + 1 < size)
        out[(*length)++] = c;
}

/* A key in the form of RFC 6901: ~ as ~0, / as ~1. */
static void append_key(char *out, size_t size, size_t *length, const char *key)
{
    for (; *key != '\0'; key++) {
        bool escaped = *key == '~' || *key == '/';
        append(out, size, length, escaped ? '~' : *key);
        if (escaped)
            append(out, size, length, *key == '~' ? '0' : '1');
    }
}

static void pointer_text(const struct place *place, char *out, size_t size, size_t *length)
{
    if (place->parent == NULL)
        return;
    pointer_text(place->parent, out, size, length);
    append(out, size, length, '/');
    char number[24];
    snprintf(number, sizeof number, "%zu", place->index);
    append_key(out, size, length, place->key != NULL ? place->key : number);
}

void place_mistake(const struct place *place, enum mistake_kind kind, const char *format, ...)
{
    char pointer[sizeof((struct mistake *)0)->pointer], detail[sizeof((struct mistake *)0)->detail];
    size_t length = 0;
    pointer_text(place, pointer, sizeof pointer, &length);
    pointer[length] = '\0';
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    mistake_add(place->mistakes, pointer, kind, "%s", detail);
}

/* ---- parts of messages ---- */

const char *field_type(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

const char *field_quote(const char *text, char *out)
{
    char shown[TEXT_SHOWN_MAX];
    snprintf(out, FIELD_QUOTE_SIZE, "\"%s\"", text_shown(shown, text, strlen(text)));
    return out;
}

#define WORD_MAX 40

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Letters to insert, delete, replace or exchange with the next one. SIZE_MAX for long words. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t n = strnlen(a, WORD_MAX), m = strnlen(b, WORD_MAX);
    size_t rows[3][WORD_MAX], *before = rows[0], *last = rows[1], *row = rows[2];
    if (n == WORD_MAX || m == WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = smallest(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smallest(row[j], row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}

/* "did you mean \"x\"? " when one of the NULL-terminated names is near, else "". Returns out. */
#define HINT_SIZE 96
static const char *hint_at(const char *text, const char *const *names, char *out)
{
    size_t best = strlen(text) / 3 + 1;
    const char *near = NULL;
    for (; *names != NULL; names++) {
        size_t distance = edit_distance(text, *names);
        if (distance < best || (distance == best && near == NULL)) {
            best = distance;
            near = *names;
        }
    }
    if (near == NULL)
        out[0] = '\0';
    else
        snprintf(out, HINT_SIZE, "did you mean \"%s\"? ", near);
    return out;
}

const char *field_list(const char *const *names, char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; names[i] != NULL && length < size; i++)
        length +=
            (size_t)snprintf(out + length, size - length, "%s%s", i > 0 ? ", " : "", names[i]);
    text_trim(out);
    return out;
}

/* ---- objects ---- */

const json_t *field_get(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_null(value) ? NULL : value;
}

static void refuse_unknown(const struct place *place, const json_t *json, const char *const *names)
{
    const char *key;
    json_t *value, *object = (json_t *)(uintptr_t)json;
    json_object_foreach (object, key, value) {
        const char *const *known = names;
        while (*known != NULL && strcmp(*known, key) != 0)
            known++;
        if (*known != NULL)
            continue;
        if (place->mistakes->count == MISTAKES_MAX) {
            place->mistakes->more = true; /* skip the cost of a good message */
            return;
        }
        char quoted[FIELD_QUOTE_SIZE], hint[HINT_SIZE], list[240];
        struct place at = place_key(place, key);
        place_mistake(&at, MISTAKE_unknown, "there is no field %s; %sknown are %s",
                      field_quote(key, quoted), hint_at(key, names, hint),
                      field_list(names, list, sizeof list));
    }
}

bool field_object(const struct place *place, const json_t *json, const struct field *fields,
                  void *context)
{
    const char *names[NAMES_MAX + 1];
    size_t count = 0;
    if (!json_is_object(json)) {
        place_mistake(place, MISTAKE_type, "must be an object, not %s", field_type(json));
        return false;
    }
    for (; count < NAMES_MAX && fields[count].name != NULL; count++)
        names[count] = fields[count].name;
    names[count] = NULL;
    refuse_unknown(place, json, names);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = field_get(json, names[i]);
        struct place at = place_key(place, names[i]);
        if (value != NULL && fields[i].read != NULL)
            fields[i].read(context, &at, value);
    }
    return true;
}

/* ---- values ---- */

bool field_boolean(const struct place *place, const json_t *json, bool *out)
{
    if (!json_is_boolean(json)) {
        place_mistake(place, MISTAKE_type, "must be true or false, not %s", field_type(json));
        return false;
    }
    *out = json_is_true(json);
    return true;
}

static void refuse_integer(const struct place *place, const json_t *json, int64_t lo, int64_t hi)
{
    char found[48];
    if (json_is_integer(json))
        snprintf(found, sizeof found, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
    else if (json_is_real(json))
        snprintf(found, sizeof found, "%.10g", json_real_value(json));
    else
        snprintf(found, sizeof found, "%s", field_type(json));
    place_mistake(place, json_is_number(json) ? MISTAKE_range : MISTAKE_type,
                  "must be a whole number from %" PRId64 " to %" PRId64 ", not %s", lo, hi, found);
}

bool field_integer(const struct place *place, const json_t *json, int64_t lo, int64_t hi,
                   int64_t *out)
{
    int64_t value = 0;
    bool whole = json_is_integer(json);
    if (whole) {
        value = json_integer_value(json);
    } else if (json_is_real(json)) {
        double real = json_real_value(json);
        whole = fabs(real) < 0x1p53 && real == floor(real);
        value = whole ? (int64_t)real : 0;
    }
    if (!whole || value < lo || value > hi) {
        refuse_integer(place, json, lo, hi);
        return false;
    }
    *out = value;
    return true;
}

bool field_number(const struct place *place, const json_t *json, double *out)
{
    if (!json_is_number(json)) {
        place_mistake(place, MISTAKE_type, "must be a number, not %s", field_type(json));
        return false;
    }
    *out = json_number_value(json);
    return true;
}

bool field_choice(const struct place *place, const json_t *json, const char *const *choices,
                  size_t *out)
{
    char list[200], quoted[FIELD_QUOTE_SIZE], hint[HINT_SIZE];
    field_list(choices, list, sizeof list);
    if (!json_is_string(json)) {
        place_mistake(place, MISTAKE_type, "must be one of the words %s, not %s", list,
                      field_type(json));
        return false;
    }
    const char *word = json_string_value(json);
    for (size_t i = 0; choices[i] != NULL; i++)
        if (strcmp(choices[i], word) == 0) {
            *out = i;
            return true;
        }
    place_mistake(place, MISTAKE_choice, "%s is not allowed; %sallowed are %s",
                  field_quote(word, quoted), hint_at(word, choices, hint), list);
    return false;
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static bool has_control(const char *text, bool lines)
{
    size_t n = 1;
    for (; *text != '\0' && n > 0; text += n)
        n = lines && strchr("\n\r\t", *text) != NULL ? 1 : text_printable(text, strlen(text));
    return n == 0;
}

bool field_text(const struct place *place, const json_t *json, struct field_text rule,
                const char **out)
{
    char quoted[FIELD_QUOTE_SIZE];
    if (!json_is_string(json)) {
        place_mistake(place, MISTAKE_type, "must be a string, not %s", field_type(json));
        return false;
    }
    const char *text = json_string_value(json);
    size_t length = characters(text);
    if (length == 0 && !rule.may_be_empty)
        place_mistake(place, MISTAKE_range, "must not be empty");
    else if (length > rule.max)
        place_mistake(place, MISTAKE_range, "has %zu characters; at most %zu are allowed", length,
                      rule.max);
    else if (has_control(text, rule.lines))
        place_mistake(place, MISTAKE_range, "%s has control characters, which are not allowed",
                      field_quote(text, quoted));
    else {
        *out = text;
        return true;
    }
    return false;
}
