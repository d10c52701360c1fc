/* Grids: read with all their mistakes, counted, and made setting by setting. */
#include "server/study/grid.h"
#include "server/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an axis ---- */

static double range_value(const struct grid_axis *axis, size_t i)
{
    char text[32];
    double share = axis->count > 1 ? (double)i / (double)(axis->count - 1) : 0.0;
    double value = axis->from * pow(axis->to / axis->from, share);
    if (i == 0 || i + 1 == axis->count)
        return i == 0 ? axis->from : axis->to;
    snprintf(text, sizeof text, "%.6g", value);
    return strtod(text, NULL);
}

json_t *grid_axis_value(const struct grid_axis *axis, size_t i)
{
    if (axis->list != NULL)
        return json_incref(json_array_get(axis->list, i));
    return json_number(range_value(axis, i));
}

struct range {
    double from, to;
    int64_t count;
};

static void read_end(const struct place *place, const json_t *json, double *out)
{
    double value;
    if (!field_number(place, json, &value))
        return;
    if (value > 0.0)
        *out = value;
    else
        place_mistake(place, MISTAKE_range,
                      "%g is not allowed; values are spaced by equal factors "
                      "and must be above 0",
                      value);
}

static void read_from(void *ctx, const struct place *place, const json_t *json)
{
    read_end(place, json, &((struct range *)ctx)->from);
}

static void read_to(void *ctx, const struct place *place, const json_t *json)
{
    read_end(place, json, &((struct range *)ctx)->to);
}

static void read_count(void *ctx, const struct place *place, const json_t *json)
{
    field_integer(place, json, 2, GRID_SETTINGS_MAX, &((struct range *)ctx)->count);
}

static size_t mistakes_at(const struct place *place)
{
    return place->mistakes->count + place->mistakes->more;
}

static bool read_range(struct grid_axis *out, const struct place *place, const json_t *json)
{
    static const struct field fields[] = {
        {"from", read_from}, {"to", read_to}, {"count", read_count}, {NULL, NULL}};
    static const char *const names[] = {"from", "to", "count"};
    struct range range = {0};
    size_t before = mistakes_at(place);
    field_object(place, json, fields, &range);
    for (size_t i = 0; i < 3; i++) {
        struct place at = place_key(place, names[i]);
        if (field_get(json, names[i]) == NULL)
            place_mistake(&at, MISTAKE_required,
                          "is required: a range is {\"from\", \"to\", \"count\"}");
    }
    if (mistakes_at(place) > before)
        return false;
    out->from = range.from;
    out->to = range.to;
    out->count = (size_t)range.count;
    for (size_t i = 1; i < out->count; i++) {
        if (range_value(out, i) != range_value(out, i - 1))
            continue;
        place_mistake(place, MISTAKE_conflict,
                      "%zu values from %g to %g are not distinct to six digits", out->count,
                      out->from, out->to);
        return false;
    }
    return true;
}

static bool read_list(struct grid_axis *out, const struct place *place, const json_t *json)
{
    size_t n = json_array_size(json), before = mistakes_at(place);
    json_t *seen = json_object();
    if (n < 1 || n > GRID_SETTINGS_MAX)
        place_mistake(place, MISTAKE_range, "has %zu values; a list has 1 to %d", n,
                      GRID_SETTINGS_MAX);
    for (size_t i = 0; i < n && n <= GRID_SETTINGS_MAX; i++) {
        struct place at = place_item(place, i);
        char *text = json_dumps(json_array_get(json, i), JSON_COMPACT | JSON_ENCODE_ANY);
        if (text != NULL && json_object_get(seen, text) != NULL)
            place_mistake(&at, MISTAKE_conflict, "%.60s is in the list twice", text);
        else if (text != NULL)
            json_object_set_new(seen, text, json_true());
        free(text);
    }
    json_decref(seen);
    *out = (struct grid_axis){.pointer = out->pointer, .list = json, .count = n};
    return mistakes_at(place) == before;
}

static bool read_axis(struct grid_axis *out, const struct place *place, const json_t *json)
{
    if (json_is_array(json))
        return read_list(out, place, json);
    if (json_is_object(json))
        return read_range(out, place, json);
    place_mistake(place, MISTAKE_type,
                  "must be a list of values or {\"from\", \"to\", \"count\"}, not %s",
                  field_type(json));
    return false;
}

bool grid_axis_numbers(struct grid_axis *out, const struct place *place, const json_t *json,
                       size_t most)
{
    *out = (struct grid_axis){0};
    bool good = read_axis(out, place, json);
    for (size_t i = 0; i < json_array_size(json) && good; i++) {
        struct place at = place_item(place, i);
        double value;
        if (!field_number(&at, json_array_get(json, i), &value))
            good = false;
        else if (!(value > 0.0)) {
            place_mistake(&at, MISTAKE_range, "%g is not allowed; it must be above 0", value);
            good = false;
        }
    }
    if (good && (out->count < 2 || out->count > most)) {
        place_mistake(place, MISTAKE_range, "has %zu values; 2 to %zu are allowed", out->count,
                      most);
        good = false;
    }
    return good;
}

/* ---- groups ---- */

/* Whether one pointer is the other or leads into it. */
static bool overlap(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), n = na < nb ? na : nb;
    const char *longer = na < nb ? b : a;
    return strncmp(a, b, n) == 0 && (longer[n] == '\0' || longer[n] == '/');
}

static size_t segments_of(const char *pointer)
{
    size_t n = 0;
    for (; *pointer != '\0'; pointer++)
        n += *pointer == '/';
    return n;
}

static bool check_form(const struct place *place, const char *pointer)
{
    size_t length = strlen(pointer), segments = segments_of(pointer);
    if (pointer[0] != '/' || pointer[1] == '\0') {
        place_mistake(place, MISTAKE_unknown,
                      "is no place in a job; a pointer is like /sampler/step_size");
        return false;
    }
    if (length <= GRID_POINTER_MAX && segments <= GRID_SEGMENTS_MAX)
        return true;
    place_mistake(place, MISTAKE_range,
                  "has %zu characters and %zu segments; a pointer has at most %d and %d", length,
                  segments, GRID_POINTER_MAX, GRID_SEGMENTS_MAX);
    return false;
}

static bool check_pointer(const struct grid_group *group, const struct place *place,
                          const char *pointer)
{
    bool good = check_form(place, pointer);
    for (size_t k = 0; k < group->axis_count && good; k++) {
        if (!overlap(group->axes[k].pointer, pointer))
            continue;
        place_mistake(place, MISTAKE_conflict, "%s and %s set the same place",
                      group->axes[k].pointer, pointer);
        good = false;
    }
    return good;
}

static void read_group(struct grid_group *group, const struct place *place, const json_t *json)
{
    const char *pointer;
    json_t *values;
    *group = (struct grid_group){.count = 1};
    if (!json_is_object(json) || json_object_size(json) == 0) {
        place_mistake(place, json_is_object(json) ? MISTAKE_required : MISTAKE_type,
                      "must be an object of pointers with their values, e.g. "
                      "{\"/sampler/step_size\": [0.1, 0.2]}");
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)json, pointer, values) {
        struct place at = place_key(place, pointer);
        struct grid_axis axis = {.pointer = pointer};
        bool good = check_pointer(group, &at, pointer);
        if (!read_axis(&axis, &at, values) || !good)
            continue;
        if (group->axis_count == GRID_AXES_MAX) {
            place_mistake(place, MISTAKE_limit, "has more than %d pointers", GRID_AXES_MAX);
            return;
        }
        axis.pointer = pointer;
        group->axes[group->axis_count++] = axis;
        group->count *= axis.count;
        if (group->count > GRID_SETTINGS_MAX) {
            place_mistake(place, MISTAKE_limit, "has more than %d settings", GRID_SETTINGS_MAX);
            return;
        }
    }
}

static void check_twice(const struct grid *grid, const struct place *place)
{
    json_t *seen = json_object();
    for (size_t s = 0; s < grid->count; s++) {
        json_t *setting = grid_setting(grid, s);
        char *text = setting != NULL ? json_dumps(setting, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        size_t g = grid_group_of(grid, s);
        struct place at = place_item(place, g);
        const json_t *other = text != NULL ? json_object_get(seen, text) : NULL;
        if (other != NULL && !mistake_at(place->mistakes, ""))
            place_mistake(&at, MISTAKE_conflict, "group %lld has the setting %.120s too",
                          (long long)json_integer_value(other), text);
        else if (text != NULL)
            json_object_set_new(seen, text, json_integer((json_int_t)g));
        free(text);
        json_decref(setting);
        if (other != NULL)
            s = grid->groups[g].first + grid->groups[g].count - 1; /* one mistake a group */
    }
    json_decref(seen);
}

bool grid_read(struct grid *out, const struct place *place, const json_t *json)
{
    size_t n = json_array_size(json), before = mistakes_at(place);
    *out = (struct grid){0};
    if (!json_is_array(json) || n < 1 || n > GRID_GROUPS_MAX) {
        place_mistake(place, json_is_array(json) ? MISTAKE_range : MISTAKE_type,
                      "must be a list of 1 to %d groups", GRID_GROUPS_MAX);
        return false;
    }
    out->groups = calloc(n, sizeof *out->groups);
    if (out->groups == NULL) {
        place_mistake(place, MISTAKE_limit, "does not fit into memory");
        return false;
    }
    for (; out->group_count < n; out->group_count++) {
        struct grid_group *group = &out->groups[out->group_count];
        struct place at = place_item(place, out->group_count);
        read_group(group, &at, json_array_get(json, out->group_count));
        group->first = out->count;
        out->count += group->count;
    }
    if (mistakes_at(place) == before && out->count > GRID_SETTINGS_MAX)
        place_mistake(place, MISTAKE_limit, "has %zu settings; %d are allowed", out->count,
                      GRID_SETTINGS_MAX);
    if (mistakes_at(place) == before)
        check_twice(out, place);
    if (mistakes_at(place) == before)
        return true;
    grid_release(out);
    return false;
}

void grid_release(struct grid *grid)
{
    free(grid->groups);
    *grid = (struct grid){0};
}

/* ---- settings ---- */

size_t grid_group_of(const struct grid *grid, size_t setting)
{
    size_t g = 0;
    while (g + 1 < grid->group_count && setting >= grid->groups[g + 1].first)
        g++;
    return g;
}

size_t grid_place(const struct grid *grid, size_t setting, size_t axis)
{
    const struct grid_group *group = &grid->groups[grid_group_of(grid, setting)];
    size_t at = setting - group->first;
    for (size_t k = group->axis_count; k-- > axis + 1;)
        at /= group->axes[k].count;
    return at % group->axes[axis].count;
}

json_t *grid_setting(const struct grid *grid, size_t setting)
{
    const struct grid_group *group = &grid->groups[grid_group_of(grid, setting)];
    json_t *doc = json_object();
    for (size_t k = 0; k < group->axis_count; k++)
        json_put(&doc, group->axes[k].pointer,
                 grid_axis_value(&group->axes[k], grid_place(grid, setting, k)));
    return doc;
}

static uint64_t axis_bytes(const struct grid_axis *axis)
{
    enum { MEMBER = 96, NUMBER = 2 * 24 + 48 }; /* as jansson has them; a number with its text */
    uint64_t most = NUMBER;
    for (size_t i = 0; i < json_array_size(axis->list); i++) {
        uint64_t text = 2 * json_dumpb(json_array_get(axis->list, i), NULL, 0, JSON_ENCODE_ANY);
        most = text > most ? text : most;
    }
    return MEMBER + 3 * strlen(axis->pointer) + most;
}

uint64_t grid_setting_bytes(const struct grid *grid, size_t first, size_t count)
{
    enum { OBJECT = 240 };
    uint64_t bytes = 0;
    size_t end = first + count;
    for (size_t g = 0; g < grid->group_count; g++) {
        const struct grid_group *group = &grid->groups[g];
        size_t from = group->first > first ? group->first : first,
               to = group->first + group->count < end ? group->first + group->count : end;
        uint64_t each = OBJECT;
        for (size_t k = 0; k < group->axis_count && from < to; k++)
            each += axis_bytes(&group->axes[k]);
        bytes += from < to ? (to - from) * each : 0;
    }
    return bytes;
}

/* One segment of a pointer with its escapes undone; the rest of the pointer. */
static const char *segment(const char *pointer, char *out, size_t size)
{
    size_t n = 0;
    for (pointer++; *pointer != '\0' && *pointer != '/'; pointer++) {
        char c = *pointer;
        if (c == '~' && (pointer[1] == '0' || pointer[1] == '1'))
            c = *++pointer == '0' ? '~' : '/';
        if (n + 1 < size)
            out[n++] = c;
    }
    out[n] = '\0';
    return pointer;
}

/* The member as an object. NULL: no memory. */
static json_t *descend(json_t *parent, const char *key)
{
    json_t *child = json_object_get(parent, key), *made = NULL;
    if (json_is_object(child))
        return child;
    made = json_object();
    if (json_is_string(child))
        json_put(&made, "name", json_incref(child));
    return made != NULL && json_object_set_new(parent, key, made) == 0 ? made : NULL;
}

static bool put_at(json_t *job, const char *pointer, json_t *value)
{
    char key[200];
    json_t *at = job;
    for (pointer = segment(pointer, key, sizeof key); *pointer == '/' && at != NULL;
         pointer = segment(pointer, key, sizeof key))
        at = descend(at, key);
    return at != NULL && json_object_set(at, key, value) == 0;
}

void grid_apply(json_t **job, const json_t *setting)
{
    const char *pointer;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)setting, pointer, value) {
        if (*job == NULL || put_at(*job, pointer, value))
            continue;
        json_decref(*job);
        *job = NULL;
    }
}
