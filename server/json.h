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
#ifndef BARKER_SERVER_JSON_H
#define BARKER_SERVER_JSON_H

#include "core/err.h"

#include <jansson.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 16 /* of a document that we accept */

/* Parses one object or array. ERR_MALFORMED with line and column: not JSON, not UTF-8, a key twice
 * in one object, a number beyond the range of its type, deeper than JSON_DEPTH_MAX, anything after
 * the end. */
enum err json_parse(json_t **out, const char *bytes, size_t size, struct err_info *info);

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

/* The same for an object with further members at its end whose values are JSON text already, from
 * json_write; NULL and "" stand for null. The object has a member of its own. */
struct json_member {
    const char *key; /* without anything to escape */
    const char *text;
};
char *json_write_with(const json_t *object, const struct json_member *more, size_t count,
                      size_t *length);

/* Takes an incomplete UTF-8 character off the end of a text that was cut to fit. */
void json_trim(char *text);

#endif
