/* Reading, building and writing JSON. */
#include "server/base/json.h"
#include "server/base/decimal.h"
#include "server/base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITE_DEPTH_MAX 64
#define REPLACEMENT     "\xEF\xBF\xBD" /* U+FFFD */

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

uint64_t json_memory(const char *bytes, size_t size)
{
    enum { OBJECT = 240, ARRAY = 128, VALUE = 48, MEMBER = 96, STRING = 48 };
    uint64_t total = size;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = bytes[i];
        if (c == '"') {
            quoted = !quoted;
            total += quoted ? STRING : 0;
        } else if (quoted)
            i += c == '\\';
        else
            total += c == '{'   ? OBJECT
                     : c == '[' ? ARRAY
                     : c == ',' ? VALUE
                     : c == ':' ? MEMBER
                                : 0;
    }
    return total;
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
    text_trim(error.text);
    return err_set(info, ERR_MALFORMED, "line %d, column %d: %s", error.line, error.column,
                   error.text);
}

/* ---- text ---- */

static json_t *with_replacements(const char *text, size_t length)
{
    char *copy = malloc(3 * length + 1);
    if (copy == NULL)
        return NULL;
    size_t to = 0;
    for (size_t from = 0; from < length;) {
        size_t n = text_character(text + from, length - from);
        memcpy(copy + to, n > 0 ? text + from : REPLACEMENT, n > 0 ? n : 3);
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
    return json != NULL ? json : with_replacements(text, strlen(text));
}

/* ---- building ---- */

double json_number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_count(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static void drop_on_failure(json_t **container, int status)
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
        drop_on_failure(object, json_object_set_new(*object, key, value));
}

void json_add(json_t **array, json_t *value)
{
    if (*array == NULL)
        json_decref(value);
    else
        drop_on_failure(array, json_array_append_new(*array, value));
}

/* ---- writing ---- */

static bool make_room(struct json_out *out, size_t n)
{
    if (!out->failed && n >= out->room - out->length) {
        size_t room = 2 * out->room + n + 256;
        char *grown = realloc(out->bytes, room);
        out->failed = grown == NULL;
        out->bytes = grown != NULL ? grown : out->bytes;
        out->room = grown != NULL ? room : out->room;
    }
    return !out->failed;
}

static void append(struct json_out *out, const char *bytes, size_t n)
{
    if (!make_room(out, n))
        return;
    memcpy(out->bytes + out->length, bytes, n);
    out->length += n;
}

static void append_character(struct json_out *out, char c)
{
    append(out, &c, 1);
}

static void append_string(struct json_out *out, const char *bytes, size_t n)
{
    if (make_room(out, 6 * n + 2))
        out->length =
            (size_t)(text_json(out->bytes + out->length, out->bytes + out->room, bytes, n) -
                     out->bytes);
}

/* A real keeps its point, so that it is read back as one. */
static void append_real(struct json_out *out, double value)
{
    char digits[DECIMAL_SIZE];
    size_t length = decimal_write(value, digits);
    append(out, digits, length);
    if (memchr(digits, '.', length) == NULL && memchr(digits, 'e', length) == NULL)
        append(out, ".0", 2);
}

static void append_value(struct json_out *out, const json_t *json, int depth);

static void append_object(struct json_out *out, const json_t *json, int depth)
{
    bool first = true;
    json_t *object = (json_t *)(uintptr_t)json; /* the iterators of jansson are not const */
    append_character(out, '{');
    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at), first = false) {
        const char *key = json_object_iter_key(at);
        if (!first)
            append_character(out, ',');
        append_string(out, key, json_object_iter_key_len(at));
        append_character(out, ':');
        append_value(out, json_object_iter_value(at), depth + 1);
    }
    append_character(out, '}');
}

static void append_array(struct json_out *out, const json_t *json, int depth)
{
    append_character(out, '[');
    for (size_t i = 0; i < json_array_size(json); i++) {
        if (i > 0)
            append_character(out, ',');
        append_value(out, json_array_get(json, i), depth + 1);
    }
    append_character(out, ']');
}

static void append_integer(struct json_out *out, json_int_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, value);
    append(out, digits, (size_t)n);
}

static void append_value(struct json_out *out, const json_t *json, int depth)
{
    if (depth > WRITE_DEPTH_MAX) {
        out->failed = true;
        return;
    }
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        append_object(out, json, depth);
        return;
    case JSON_ARRAY:
        append_array(out, json, depth);
        return;
    case JSON_STRING:
        append_string(out, json_string_value(json), json_string_length(json));
        return;
    case JSON_INTEGER:
        append_integer(out, json_integer_value(json));
        return;
    case JSON_REAL:
        append_real(out, json_real_value(json));
        return;
    case JSON_TRUE:
        append(out, "true", 4);
        return;
    case JSON_FALSE:
        append(out, "false", 5);
        return;
    case JSON_NULL:
        append(out, "null", 4);
        return;
    }
}

char *json_write(const json_t *json, size_t *length)
{
    struct json_out out = {0};
    append_value(&out, json, 1);
    return json_out_finish(&out, length);
}

char *json_write_last(json_t *json)
{
    char *text = json != NULL ? json_write(json, NULL) : NULL;
    json_decref(json);
    return text;
}

/* ---- member by member ---- */

/* The comma between this and what was before it in the same container, and the key. */
static void append_key(struct json_out *out, const char *key)
{
    char last = out->length > 0 ? out->bytes[out->length - 1] : '[';
    if (last != '{' && last != '[')
        append_character(out, ',');
    if (key == NULL)
        return;
    append_string(out, key, strlen(key));
    append_character(out, ':');
}

void json_out_begin(struct json_out *out, const char *key, char bracket)
{
    append_key(out, key);
    append_character(out, bracket);
}

void json_out_end(struct json_out *out, char bracket)
{
    append_character(out, bracket);
}

void json_out_text(struct json_out *out, const char *key, const char *text)
{
    append_key(out, key);
    if (text != NULL)
        append_string(out, text, strlen(text));
    else
        append(out, "null", 4);
}

void json_out_count(struct json_out *out, const char *key, uint64_t value)
{
    append_key(out, key);
    append_integer(out, value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

void json_out_json(struct json_out *out, const char *key, json_t *value)
{
    append_key(out, key);
    if (value != NULL)
        append_value(out, value, 1);
    out->failed = out->failed || value == NULL;
    json_decref(value);
}

void json_out_raw(struct json_out *out, const char *key, const char *json)
{
    json = json != NULL && json[0] != '\0' ? json : "null";
    append_key(out, key);
    append(out, json, strlen(json));
}

char *json_out_finish(struct json_out *out, size_t *length)
{
    append_character(out, '\0');
    if (out->failed) {
        free(out->bytes);
        return NULL;
    }
    if (length != NULL)
        *length = out->length - 1;
    return out->bytes;
}
