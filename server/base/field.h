/* Reads a JSON document field by field: type first, then range; every mistake has its place.
 *
 * An object is described by a table of fields, each with a function that reads its value. A
 * reader that reports a mistake returns false and does not change *out. A field that is null
 * counts as absent. */
#ifndef BARKER_SERVER_BASE_FIELD_H
#define BARKER_SERVER_BASE_FIELD_H

#include "server/base/mistake.h"

#include <jansson.h>
#include <stdint.h>

/* A place in the document: a chain of keys and indices from the root, on the caller's stack. */
struct place {
    struct mistakes *mistakes;  /* borrowed */
    const struct place *parent; /* borrowed; NULL: the document */
    const char *key;            /* borrowed; NULL: `index` */
    size_t index;
};

struct place place_root(struct mistakes *mistakes);
struct place place_key(const struct place *parent, const char *key);
struct place place_item(const struct place *parent, size_t index);

/* Notes a mistake at this place, printf style. */
void place_mistake(const struct place *place, enum mistake_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The member of an object, or NULL when there is none or it is null. */
const json_t *field_get(const json_t *json, const char *key);

/* `read` may be NULL: the field is allowed, and read elsewhere. */
struct field {
    const char *name;
    void (*read)(void *context, const struct place *place, const json_t *value);
};

/* Calls the readers of all fields that are present, in table order. Unknown fields are mistakes,
 * whose message names the nearest known field. False only when `json` is not an object. The
 * table ends with a NULL name. */
bool field_object(const struct place *place, const json_t *json, const struct field *fields,
                  void *context);

bool field_boolean(const struct place *place, const json_t *json, bool *out);
/* A real that is whole and below 2^53 counts as an integer: 1e3 is one. */
bool field_integer(const struct place *place, const json_t *json, int64_t lo, int64_t hi,
                   int64_t *out);
bool field_number(const struct place *place, const json_t *json, double *out);
/* Index in a NULL-terminated list of words. */
bool field_choice(const struct place *place, const json_t *json, const char *const *choices,
                  size_t *out);

/* A text of 1 (0 when `may_be_empty`) to `max` characters without control characters; `lines`
 * allows line breaks and tabs. *out is borrowed from the document. */
struct field_text {
    size_t max;
    bool may_be_empty, lines;
};
bool field_text(const struct place *place, const json_t *json, struct field_text rule,
                const char **out);

/* "a string", "an object", ...: what was found, for messages. */
const char *field_type(const json_t *json);
/* Text for messages: in quotes, then as text_shown. `out` has FIELD_QUOTE_SIZE
 * bytes. Returns out. */
#define FIELD_QUOTE_SIZE 56
const char *field_quote(const char *text, char *out);
/* "a, b, c" of a NULL-terminated list, cut to fit. Returns out. */
const char *field_list(const char *const *names, char *out, size_t size);

#endif
