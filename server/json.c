/* Reading, building and writing JSON. */
#include "server/json.h"
#include "server/decimal.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITE_DEPTH_MAX 64

/* ---- reading ---- */

/* Offset of the bracket that opens level JSON_DEPTH_MAX + 1, or size. jansson would recurse 2048
 * deep, so the nesting is measured before it sees a byte. */
static size_t too_deep_at(const char *bytes, size_t size)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = bytes[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_DEPTH_MAX)
                return i;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return size;
}

static enum err refuse_depth(const char *bytes, size_t at, struct err_info *info)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = bytes[i] == '\n' ? 1 : column + 1;
        line += bytes[i] == '\n';
    }
    return err_set(info, ERR_MALFORMED,
                   "line %zu, column %zu: nested more than %d levels deep, which is the limit",
                   line, column, JSON_DEPTH_MAX);
}

enum err json_parse(json_t **out, const char *bytes, size_t size, struct err_info *info)
{
    json_error_t error;
    *out = NULL;
    if (size == 0)
        return err_set(info, ERR_MALFORMED, "empty; a JSON document was expected");
    size_t deep = too_deep_at(bytes, size);
    if (deep < size)
        return refuse_depth(bytes, deep, info);
    *out = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (*out != NULL)
        return ERR_OK;
    enum json_error_code code = json_error_code(&error);
    /* jansson often leaves the error empty when memory is out */
    if (code == json_error_out_of_memory || error.text[0] == '\0')
        return err_set(info, ERR_NO_MEMORY, "no memory for the document");
    if (code == json_error_null_character || code == json_error_null_byte_in_key)
        return err_set(info, ERR_MALFORMED,
                       "line %d, column %d: \\u0000 is not allowed in a string", error.line,
                       error.column);
    json_trim(error.text);
    return err_set(info, ERR_MALFORMED, "line %d, column %d: %s", error.line, error.column,
                   error.text);
}

/* ---- text ---- */

/* Length of the valid UTF-8 character at the start of text[0..left), or 0. */
static size_t character(const unsigned char *text, size_t left)
{
    static const struct {
        unsigned char lead_lo, lead_hi, second_lo, second_hi;
        size_t length;
    } forms[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    if (text[0] < 0x80)
        return 1;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        if (text[0] < forms[f].lead_lo || text[0] > forms[f].lead_hi)
            continue;
        if (left < forms[f].length || text[1] < forms[f].second_lo || text[1] > forms[f].second_hi)
            return 0;
        for (size_t k = 2; k < forms[f].length; k++)
            if ((text[k] & 0xC0) != 0x80)
                return 0;
        return forms[f].length;
    }
    return 0;
}

void json_trim(char *text)
{
    size_t length = strlen(text), start = length;
    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0 || (unsigned char)text[start - 1] < 0xC0)
        return;
    if (character((const unsigned char *)text + start - 1, length - start + 1) == 0)
        text[start - 1] = '\0';
}

static json_t *repaired(const char *text, size_t length)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    char *copy = malloc(3 * length + 1);
    if (copy == NULL)
        return NULL;
    size_t to = 0;
    for (size_t from = 0; from < length;) {
        size_t n = character((const unsigned char *)text + from, length - from);
        memcpy(copy + to, n > 0 ? text + from : replacement, n > 0 ? n : 3);
        to += n > 0 ? n : 3;
        from += n > 0 ? n : 1;
    }
    json_t *json = json_stringn(copy, to);
    free(copy);
    return json;
}

json_t *json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *json = json_string(text);
    return json != NULL ? json : repaired(text, strlen(text));
}

/* ---- building ---- */

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_count(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static void settle(json_t **container, int status)
{
    if (status == 0)
        return;
    json_decref(*container);
    *container = NULL;
}

void json_put(json_t **object, const char *key, json_t *value)
{
    if (*object == NULL)
        json_decref(value);
    else
        settle(object, json_object_set_new(*object, key, value));
}

void json_add(json_t **array, json_t *value)
{
    if (*array == NULL)
        json_decref(value);
    else
        settle(array, json_array_append_new(*array, value));
}

/* ---- writing ---- */

struct text {
    char *bytes;
    size_t length, room;
    bool failed;
};

static void append(struct text *t, const char *bytes, size_t n)
{
    if (t->failed)
        return;
    if (n >= t->room - t->length) {
        size_t room = 2 * t->room + n + 1;
        char *grown = realloc(t->bytes, room);
        if (grown == NULL) {
            t->failed = true;
            return;
        }
        t->bytes = grown;
        t->room = room;
    }
    memcpy(t->bytes + t->length, bytes, n);
    t->length += n;
}

static void append_character(struct text *t, char c)
{
    append(t, &c, 1);
}

/* The two-character escape of c, or NULL. */
static const char *short_escape(char c)
{
    static const char *const escapes[] = {
        ['"'] = "\\\"", ['\\'] = "\\\\", ['\b'] = "\\b", ['\f'] = "\\f",
        ['\n'] = "\\n", ['\r'] = "\\r",  ['\t'] = "\\t"};
    unsigned char u = (unsigned char)c;
    return u < sizeof escapes / sizeof escapes[0] ? escapes[u] : NULL;
}

static void append_string(struct text *t, const char *bytes, size_t n)
{
    append_character(t, '"');
    for (size_t from = 0, to; from < n; from = to) {
        to = from;
        while (to < n && (unsigned char)bytes[to] >= 0x20 && short_escape(bytes[to]) == NULL)
            to++;
        append(t, bytes + from, to - from);
        if (to == n)
            break;
        char code[7];
        snprintf(code, sizeof code, "\\u%04x", (unsigned)(unsigned char)bytes[to]);
        const char *escape = short_escape(bytes[to]) != NULL ? short_escape(bytes[to]) : code;
        append(t, escape, strlen(escape));
        to++;
    }
    append_character(t, '"');
}

/* 15 digits give back most numbers that people write, 17 give back every double. */
/* A real keeps its point, so that it is read back as one. */
static void append_real(struct text *t, double value)
{
    char digits[DECIMAL_SIZE];
    size_t length = decimal_write(value, digits);
    append(t, digits, length);
    if (memchr(digits, '.', length) == NULL && memchr(digits, 'e', length) == NULL)
        append(t, ".0", 2);
}

static void append_value(struct text *t, const json_t *json, int depth);

static void append_object(struct text *t, const json_t *json, int depth)
{
    bool first = true;
    json_t *object = (json_t *)(uintptr_t)json; /* the iterators of jansson are not const */
    append_character(t, '{');
    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at), first = false) {
        const char *key = json_object_iter_key(at);
        if (!first)
            append_character(t, ',');
        append_string(t, key, json_object_iter_key_len(at));
        append_character(t, ':');
        append_value(t, json_object_iter_value(at), depth + 1);
    }
    append_character(t, '}');
}

static void append_array(struct text *t, const json_t *json, int depth)
{
    append_character(t, '[');
    for (size_t i = 0; i < json_array_size(json); i++) {
        if (i > 0)
            append_character(t, ',');
        append_value(t, json_array_get(json, i), depth + 1);
    }
    append_character(t, ']');
}

static void append_integer(struct text *t, json_int_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, value);
    append(t, digits, (size_t)n);
}

static void append_value(struct text *t, const json_t *json, int depth)
{
    if (depth > WRITE_DEPTH_MAX) {
        t->failed = true;
        return;
    }
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        append_object(t, json, depth);
        return;
    case JSON_ARRAY:
        append_array(t, json, depth);
        return;
    case JSON_STRING:
        append_string(t, json_string_value(json), json_string_length(json));
        return;
    case JSON_INTEGER:
        append_integer(t, json_integer_value(json));
        return;
    case JSON_REAL:
        append_real(t, json_real_value(json));
        return;
    case JSON_TRUE:
        append(t, "true", 4);
        return;
    case JSON_FALSE:
        append(t, "false", 5);
        return;
    case JSON_NULL:
        append(t, "null", 4);
        return;
    }
}

static char *finish_text(struct text *t, size_t *length)
{
    append_character(t, '\0');
    if (t->failed) {
        free(t->bytes);
        return NULL;
    }
    if (length != NULL)
        *length = t->length - 1;
    return t->bytes;
}

char *json_write(const json_t *json, size_t *length)
{
    struct text t = {0};
    append_value(&t, json, 1);
    return finish_text(&t, length);
}

static void append_member(struct text *t, const struct json_member *m)
{
    const char *text = m->text != NULL && m->text[0] != '\0' ? m->text : "null";
    append(t, ",\"", 2);
    append(t, m->key, strlen(m->key));
    append(t, "\":", 2);
    append(t, text, strlen(text));
}

char *json_write_with(const json_t *object, const struct json_member *more, size_t count,
                      size_t *length)
{
    struct text t = {0};
    assert(json_object_size(object) > 0);
    append_value(&t, object, 1);
    if (!t.failed)
        t.length--; /* the brace */
    for (size_t i = 0; i < count; i++)
        append_member(&t, &more[i]);
    append_character(&t, '}');
    return finish_text(&t, length);
}
