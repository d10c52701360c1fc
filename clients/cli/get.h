/* Get: reading JSON that may lack anything. Every function takes NULL and wrong types in its
 * stride, because a newer or older daemon may answer with other fields than this program knows. */
#ifndef BARKER_CLI_GET_H
#define BARKER_CLI_GET_H

#include "clients/cli/text.h"

#include <jansson.h>

const char *get_string(const json_t *object,
                       const char *key);                   /* borrowed; "" when it is no string */
double get_number(const json_t *object, const char *key);  /* NaN when it is no number */
json_t *get_array(const json_t *object, const char *key);  /* borrowed; NULL when it is no array */
json_t *get_object(const json_t *object, const char *key); /* borrowed; NULL when it is no object */

/* The first of several keys (ends with NULL) that holds a non-empty string, or "". */
const char *get_first(const json_t *object, const char *const *keys);

/* Any value in a few words: strings as they are, numbers short, null as a dash, arrays "a, b",
 * objects "k=v k=v". */
void get_brief(struct text *out, const json_t *value);

/* Applies text_clean to every string inside, so that nothing in it can steer a terminal. */
void get_clean(json_t *value);

#endif
