/* The grid of a sweep: a list of groups, each the product of its axes. An axis is a JSON pointer into
 * a job with the values it takes: a list, or {"from", "to", "count"} for numbers spaced by equal
 * factors (rounded to six digits, so that what is shown is what was run).
 *
 * Settings are numbered from 0: those of the first group, then those of the second; the last axis of
 * a group changes fastest. They are made one at a time and never kept. Pure. */
#ifndef BARKER_SERVER_STUDY_GRID_H
#define BARKER_SERVER_STUDY_GRID_H

#include "server/base/field.h"

#include <jansson.h>
#include <stddef.h>

#define GRID_GROUPS_MAX   64
#define GRID_AXES_MAX     16
#define GRID_SETTINGS_MAX 10000
#define GRID_POINTER_MAX  200 /* bytes of a pointer */
#define GRID_SEGMENTS_MAX 16  /* of a pointer: each makes the job one level deeper */

struct grid_axis {
    const char *pointer; /* borrowed, as the values */
    const json_t *list;  /* NULL: the range */
    double from, to;
    size_t count;
};

struct grid_group {
    struct grid_axis axes[GRID_AXES_MAX];
    size_t axis_count;
    size_t first, count; /* its settings */
};

struct grid {
    struct grid_group *groups; /* owned */
    size_t group_count, count;
};

/* Borrows from `json`. False: there are mistakes; nothing is to be released then. */
bool grid_read(struct grid *out, const struct place *place, const json_t *json);
void grid_release(struct grid *grid);

/* An axis of its own, for other kinds of studies: a list or a range of positive numbers. */
bool grid_axis_numbers(struct grid_axis *out, const struct place *place, const json_t *json,
                       size_t most);
json_t *grid_axis_value(const struct grid_axis *axis, size_t i);

size_t grid_group_of(const struct grid *grid, size_t setting);
/* Which value an axis of the setting's group has. */
size_t grid_place(const struct grid *grid, size_t setting, size_t axis);
/* {"/sampler/step_size": 0.1, ...}; NULL: no memory. */
json_t *grid_setting(const struct grid *grid, size_t setting);
/* Memory of the settings first .. first + count - 1 as documents with their text, at most. */
uint64_t grid_setting_bytes(const struct grid *grid, size_t first, size_t count);

/* Puts values into a job: a missing parent is made an object, and one that is only a name (as in
 * "sampler": "sgbd") an object with that name. NULL in *job: no memory. */
void grid_apply(json_t **job, const json_t *setting);

#endif
