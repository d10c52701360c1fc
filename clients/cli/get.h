/* Get: tolerant access to JSON. Every function accepts NULL and wrong types, because a newer or
 * older daemon may send other fields. */
#ifndef BARKER_CLI_GET_H
#define BARKER_CLI_GET_H

#include "clients/cli/text.h"

#include <jansson.h>

const char *get_string(const json_t *object, const char *key); /* borrowed; "" if not a string */
double get_number(const json_t *object, const char *key);      /* NaN if not a number */
double get_number_in(const json_t *array, size_t i);           /* likewise */
json_t *get_array(const json_t *object, const char *key);      /* borrowed; NULL if not an array */
json_t *get_object(const json_t *object, const char *key);     /* borrowed; NULL if not an object */

/* The first of several keys (ends with NULL) that holds a non-empty string, or "". */
const char *get_first(const json_t *object, const char *const *keys);

/* Any value as short text: strings unchanged, numbers rounded, null as a dash, arrays "a, b",
 * objects "k=v k=v". */
void get_brief(struct text *out, const json_t *value);

/* Applies text_clean to every string inside, so that nothing in it can control the terminal. */
void get_clean(json_t *value);

#endif
