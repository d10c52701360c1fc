/* Render: generic text output of JSON objects and lists. Commands with known fields print their own
 * tables; all other replies are printed by this module. */
#ifndef BARKER_CLI_RENDER_H
#define BARKER_CLI_RENDER_H

#include "clients/cli/table.h"

#include <jansson.h>

/* A list of objects as a table. `first` names the columns to begin with ("id name state"), in this
 * order; other scalar fields follow in the order of the daemon; fields named in `hidden` are left
 * out. Both may be NULL. */
void render_list(const json_t *items, const char *first, const char *hidden, FILE *file);

/* An object as "key  value" lines; lists of objects inside it as tables below; nulls left out.
 * Fields named in `hidden` (or NULL) are left out. */
void render_object(const json_t *object, const char *hidden, FILE *file);

/* The short text of a value, formatted by the unit at the end of its field name; and the field name
 * without the unit. */
void render_value(struct text *out, const char *name, const json_t *value);
void render_title(struct text *out, const char *name);

/* One "key  value" line, the key padded to the usual width. Empty values are left out. The value
 * may have colours; on a terminal it is wrapped at the width. */
void render_field(const char *key, const char *value, FILE *file);

#endif
