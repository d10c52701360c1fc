/* How the rows of fields.h are read, written, released, and get their defaults. */
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 32 /* in one object */

static void *member(struct job_spec *spec, const struct job_field *row)
{
    return (char *)spec + row->offset;
}

static const void *const_member(const struct job_spec *spec, const struct job_field *row)
{
    return (const char *)spec + row->offset;
}

/* Integers have 4 or 8 bytes, choices are enums of 4 bytes. */
static void store(struct job_spec *spec, const struct job_field *row, int64_t value)
{
    uint32_t narrow = (uint32_t)value;
    memcpy(member(spec, row), row->size == 4 ? (void *)&narrow : (void *)&value, row->size);
}

static int64_t load(const struct job_spec *spec, const struct job_field *row)
{
    uint32_t narrow;
    int64_t value;
    memcpy(row->size == 4 ? (void *)&narrow : (void *)&value, const_member(spec, row), row->size);
    return row->size == 4 ? (int64_t)narrow : value;
}

/* ---- defaults ---- */

void rows_default(struct parse *p, const struct job_field *rows)
{
    for (const struct job_field *row = rows; row->name != NULL; row++)
        switch (row->kind) {
        case FIELD_text:
            if (row->lo == 0)
                parse_copy(p, member(p->spec, row), "");
            break;
        case FIELD_integer:
        case FIELD_choice:
            store(p->spec, row, (int64_t)row->fallback);
            break;
        case FIELD_number:
            *(double *)member(p->spec, row) = row->fallback;
            break;
        case FIELD_boolean:
            *(bool *)member(p->spec, row) = row->fallback != 0;
            break;
        case FIELD_own:
            if (row->rows != NULL)
                rows_default(p, row->rows);
            break;
        }
}

void rows_release(struct job_spec *spec, const struct job_field *rows)
{
    for (const struct job_field *row = rows; row->name != NULL; row++)
        if (row->kind == FIELD_text)
            free(*(char **)member(spec, row));
        else if (row->rows != NULL)
            rows_release(spec, row->rows);
}

/* ---- reading ---- */

static void read_text(struct parse *p, const struct job_field *row, const struct place *place,
                      const json_t *json)
{
    struct field_text rule = {.max = (size_t)row->hi,
                              .may_be_empty = row->lo == 0,
                              .lines = (row->flags & FIELD_LINES) != 0};
    const char *text;
    if (field_text(place, json, rule, &text))
        parse_copy(p, member(p->spec, row), text);
}

static void read_integer(struct parse *p, const struct job_field *row, const struct place *place,
                         const json_t *json)
{
    int64_t value;
    uint64_t count;
    if ((row->flags & FIELD_AUTO) != 0 && json_is_string(json)) {
        if (parse_open_count(place, json, row->lo, row->hi, &count))
            store(p->spec, row, (int64_t)count);
    } else if (field_integer(place, json, (int64_t)row->lo, (int64_t)row->hi, &value)) {
        store(p->spec, row, value);
    }
}

static void read_row(void *context, const struct place *place, const json_t *json)
{
    struct parse *p = context;
    const struct job_field *row = p->rows;
    size_t word;
    while (strcmp(row->name, place->key) != 0)
        row++;
    struct param_spec rule = {.name = row->name,
                              .kind = PARAM_REAL,
                              .lo = row->lo,
                              .lo_open = (row->flags & FIELD_OPEN) != 0,
                              .hi = row->hi};
    switch (row->kind) {
    case FIELD_text:
        read_text(p, row, place, json);
        break;
    case FIELD_integer:
        read_integer(p, row, place, json);
        break;
    case FIELD_number:
        parse_number(place, json, &rule, member(p->spec, row));
        break;
    case FIELD_boolean:
        field_boolean(place, json, member(p->spec, row));
        break;
    case FIELD_choice:
        if (field_choice(place, json, row->words, &word))
            store(p->spec, row, (int64_t)word);
        break;
    case FIELD_own:
        if (row->read != NULL)
            row->read(p, place, json);
        else
            rows_read(p, place, json, row->rows, 0);
        break;
    }
}

bool rows_read(struct parse *p, const struct place *place, const json_t *json,
               const struct job_field *rows, unsigned only)
{
    struct field fields[ROWS_MAX + 1] = {0};
    const struct job_field *outer = p->rows;
    size_t count = 0;
    for (const struct job_field *row = rows; row->name != NULL && count < ROWS_MAX; row++)
        if ((row->flags & only) == only)
            fields[count++] = (struct field){row->name, read_row};
    p->rows = rows;
    bool object = field_object(place, json, fields, p);
    p->rows = outer;
    return object;
}

/* ---- writing ---- */

static json_t *write_row(const struct job_spec *spec, const struct job_field *row)
{
    const void *at = const_member(spec, row);
    switch (row->kind) {
    case FIELD_text:
        return json_text(*(char *const *)at);
    case FIELD_integer:
        return (row->flags & FIELD_AUTO) != 0 ? write_open_count((uint64_t)load(spec, row))
                                              : json_integer(load(spec, row));
    case FIELD_number:
        return (row->flags & FIELD_NONE) != 0 && *(const double *)at <= 0.0
                   ? json_null()
                   : json_number(*(const double *)at);
    case FIELD_boolean:
        return json_boolean(*(const bool *)at);
    case FIELD_choice:
        return json_text(row->words[load(spec, row)]);
    case FIELD_own:
        return row->write != NULL ? row->write(spec) : rows_write(spec, row->rows);
    }
    return NULL;
}

json_t *rows_write(const struct job_spec *spec, const struct job_field *rows)
{
    json_t *out = json_object();
    for (const struct job_field *row = rows; row->name != NULL; row++)
        json_put(&out, row->name, write_row(spec, row));
    return out;
}
