/* Small helpers around jansson: reading bytes from outside strictly, building documents without a
 * check after every line, writing them with the fewest digits.
 *
 * Building: json_put and json_add take over the value, and on any failure (also of the call that
 * made the value) free the whole container and set it to NULL, after which they do nothing. So a
 * builder is a row of calls and its result is the document or NULL: out of memory.
 *
 *     json_t *job = json_object();
 *     json_put(&job, "name", json_text(name));
 *     json_put(&job, "mean", json_number(mean));
 *     return job;
 *
 * Threads: call json_object_seed(0) before the first one starts; a document has one owner. */
#ifndef BARKER_SERVER_BASE_JSON_H
#define BARKER_SERVER_BASE_JSON_H

#include "core/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 16 /* of an accepted document */

/* Parses one object or array. ERR_MALFORMED with line and column: not JSON, not UTF-8, a key twice
 * in one object, a number beyond the range of its type, deeper than JSON_DEPTH_MAX, anything after
 * the end. */
enum err json_parse(json_t **out, const char *bytes, size_t size, struct err_info *info);

/* About how many bytes json_parse would allocate for such a text: jansson takes 200 for an empty
 * object. Counts without parsing; never less than the size of the text. */
uint64_t json_memory(const char *bytes, size_t size);

/* The member of an object as a number; NaN when there is none, or it is no number. */
double json_number_at(const json_t *object, const char *key);

/* A real, or null when it is not finite. */
json_t *json_number(double value);
/* A string, with U+FFFD for every byte that is not part of valid UTF-8; null when text is NULL. */
json_t *json_text(const char *text);
/* An unsigned number; above 2^63 - 1, which JSON libraries cannot hold, that. */
json_t *json_count(uint64_t value);

void json_put(json_t **object, const char *key, json_t *value);
void json_add(json_t **array, json_t *value);

/* The document as compact text, in the order of insertion, reals with as few of 15 to 17 digits as
 * read back as the same number. For free(); `length` (may be NULL) is without the final NUL. NULL:
 * out of memory, or nested deeper than 64. */
char *json_write(const json_t *json, size_t *length);
/* The same for a document that is not needed any more: it is released. NULL gives NULL. */
char *json_write_last(json_t *json);

/* Text that is written member by member without building a document, in a quarter of the time.
 * Starts as {0}; `key` is NULL in arrays and at the top. On any failure the rest does nothing, and
 * json_out_finish gives NULL.
 *
 *     struct json_out out = {0};
 *     json_out_begin(&out, NULL, '{');
 *     json_out_text(&out, "name", name);
 *     json_out_end(&out, '}');
 *     return json_out_finish(&out, NULL); */
struct json_out {
    char *bytes;
    size_t length, room;
    bool failed;
};
void json_out_begin(struct json_out *out, const char *key, char bracket);
void json_out_end(struct json_out *out, char bracket);
/* As json_text and json_count. */
void json_out_text(struct json_out *out, const char *key, const char *text);
void json_out_count(struct json_out *out, const char *key, uint64_t value);
/* Takes over the value; NULL is a failure. */
void json_out_json(struct json_out *out, const char *key, json_t *value);
/* JSON text, from json_write, as it is; NULL and "" stand for null. */
void json_out_raw(struct json_out *out, const char *key, const char *json);
/* For free(); `length` (may be NULL) is without the final NUL. */
char *json_out_finish(struct json_out *out, size_t *length);

#endif
