/* Passes over the records of a file: one that learns what the columns are, and those that give
 * values. A row that is split without anything unusual costs one comparison or two per number. */
#include "server/data/records_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK_CELLS ((size_t)1 << 16)

/* ---- opening ---- */

/* The numbers among the texts that stand for a missing value. */
static enum err read_missing(struct records *r, const struct records_options *options,
                             struct err_info *info)
{
    size_t count = options != NULL ? options->missing_count : 0, room = 0;
    r->missing.options = options;
    enum err err = count > 0 ? records_grow(&r->bytes.input, (void **)&r->missing.numbers, &room,
                                            count, sizeof *r->missing.numbers, info)
                             : ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < count; i++) {
        struct cell cell = {.text = options->missing[i], .size = strlen(options->missing[i])};
        struct missing none = {0};
        struct seen seen;
        records_see(&seen, &cell, 0, &none);
        if (seen.class == CLASS_NUMBER)
            r->missing.numbers[r->missing.number_count++] = seen.value;
    }
    return err;
}

/* What a pass needs for every column. */
static enum err make_columns(struct records *r, struct err_info *info)
{
    struct table_input *input = &r->bytes.input;
    size_t columns = r->shape.columns, rooms[2] = {0};
    enum err err = records_grow(input, (void **)&r->columns, &r->column_room, columns,
                                sizeof *r->columns, info);
    if (err == ERR_OK)
        err =
            records_grow(input, (void **)&r->roles, &r->role_room, columns, sizeof *r->roles, info);
    if (err == ERR_OK)
        err = records_grow(input, (void **)&r->record.kinds, &r->kind_room, columns, 1, info);
    if (err == ERR_OK)
        err = records_grow(input, (void **)&r->record.texts, &rooms[0], columns,
                           sizeof *r->record.texts, info);
    if (err == ERR_OK)
        err = records_grow(input, (void **)&r->block, &r->block_room, r->names_count,
                           sizeof *r->block, info);
    r->shape.roles = r->roles;
    r->shape.missing = r->missing.numbers;
    r->shape.missing_count = r->missing.number_count;
    return err;
}

enum err records_open(struct records **out, const struct table_feed *feed,
                      const struct records_options *options, struct err_info *info)
{
    *out = NULL;
    struct records *r = calloc(1, sizeof *r);
    struct timespec now;
    if (r == NULL)
        return table_no_memory(feed->name, info);
    clock_gettime(CLOCK_MONOTONIC, &now);
    r->seed = (uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)r;
    r->shape.comment = options != NULL ? options->comment : '\0';
    enum err err = table_bytes_open(&r->bytes, feed, NULL, info);
    if (err == ERR_OK)
        err = read_missing(r, options, info);
    if (err == ERR_OK)
        err = records_read_first(r, info);
    if (err == ERR_OK)
        err = make_columns(r, info);
    if (err != ERR_OK)
        records_close(r);
    else
        *out = r;
    return err;
}

void records_close(struct records *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; r->columns != NULL && i < r->shape.columns; i++)
        records_levels_release(&r->columns[i].levels, &r->bytes.input);
    free(r->columns);
    free(r->roles);
    free(r->record.kinds);
    free(r->record.texts);
    free(r->block);
    free(r->names);
    free(r->name_text);
    free(r->missing.numbers);
    free(r->mistakes.list);
    free(r->mistakes.text);
    table_bytes_release(&r->bytes);
    free(r);
}

const char *const *records_names(const struct records *r, size_t *count)
{
    *count = r->names_count;
    return (const char *const *)r->names;
}

const char *records_mistakes(const struct records *r)
{
    return r->mistakes.text != NULL ? r->mistakes.text : "";
}

static int compare_names(const void *a, const void *b, void *context)
{
    const char *const *names = context;
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    int order = strcmp(names[i], names[j]);
    return order != 0 ? order : (i > j) - (i < j);
}

enum err records_use(struct records *r, const bool *used, struct err_info *info)
{
    size_t *order = NULL, room = 0, count = 0, first = r->shape.first;
    enum err err =
        records_grow(&r->bytes.input, (void **)&order, &room, r->names_count, sizeof *order, info);
    if (err != ERR_OK)
        return err;
    for (size_t j = 0; j < r->names_count; j++) {
        r->columns[first + j].used = used[j];
        if (used[j])
            order[count++] = j;
    }
    qsort_r(order, count, sizeof *order, compare_names, r->names);
    for (size_t i = 1; err == ERR_OK && i < count; i++) {
        const char *name = r->names[order[i]];
        char shown[TEXT_SHOWN_MAX];
        if (strcmp(r->names[order[i - 1]], name) == 0)
            err = err_set(info, ERR_MALFORMED,
                          "%s: columns %zu and %zu are both named \"%s\"; names of columns that "
                          "are used must differ",
                          r->bytes.feed.name, first + order[i - 1] + 1, first + order[i] + 1,
                          text_shown(shown, name, strlen(name)));
    }
    table_give(&r->bytes.input, room * sizeof *order);
    r->bytes.input.budget += room * sizeof *order;
    free(order);
    return err;
}

enum err records_rewind(struct records *r, const struct table_feed *feed, struct err_info *info)
{
    r->rows = 0;
    enum err err = table_bytes_rewind(&r->bytes, feed, info);
    return err == ERR_OK ? records_skip_first(r, info) : err;
}

/* ---- rows ---- */

enum step { STEP_ROW, STEP_END, STEP_LONG };

/* The next record that is not blank, and its line. */
static enum err next_record(struct records *r, uint64_t *line, enum step *step,
                            struct err_info *info)
{
    struct table_bytes *b = &r->bytes;
    for (;;) {
        const char *text = b->window + b->at, *end = b->window + b->filled;
        bool there =
            (text < end || b->ended) && records_split(&r->shape, text, end, b->ended, &r->record);
        size_t size = (size_t)((there ? r->record.next : end) - text);
        *line = r->line;
        *step = size > TABLE_LINE_MAX ? STEP_LONG : STEP_ROW;
        if (*step == STEP_LONG)
            return ERR_OK;
        if (!there) {
            size_t twice = 2 * size, window = b->feed.window_bytes;
            enum err err = table_bytes_fill(b, twice > window ? twice : window, info);
            if (err != ERR_OK)
                return err;
            continue;
        }
        b->at += size;
        r->line += r->record.lines;
        if (r->record.cells > 0)
            return ERR_OK;
        if (b->ended && b->at == b->filled) {
            *step = STEP_END;
            return ERR_OK;
        }
    }
}

static enum err changed(const struct records *r, struct err_info *info)
{
    return err_set(info, ERR_CONFLICT, "%s has changed while it was read", r->bytes.feed.name);
}

/* ---- scanning ---- */

static void set_role(struct records *r, size_t i, enum role role)
{
    r->roles[i].role = (unsigned char)role;
    if (role == ROLE_SKIPPED)
        r->record.kinds[i] = KIND_SKIPPED;
}

static enum err mistake(struct records *r, uint64_t line, size_t column, enum fault fault,
                        const struct seen *seen, struct err_info *info)
{
    struct mistake m = {.line = line, .column = column, .fault = fault};
    return records_mistake(r, &m, seen != NULL ? seen->text : "", seen != NULL ? seen->size : 0,
                           info);
}

/* A column that has more texts than are counted is not looked at any more. */
static enum err fail_levels(struct records *r, uint64_t line, size_t i, enum fault fault,
                            struct err_info *info)
{
    struct column *c = r->columns + i;
    r->level_bytes -= c->levels.text_bytes;
    records_levels_release(&c->levels, &r->bytes.input);
    set_role(r, i, ROLE_SKIPPED);
    return mistake(r, line, i, fault, NULL, info);
}

static enum err new_level(struct records *r, uint64_t line, size_t i, const struct seen *seen,
                          struct err_info *info)
{
    struct column *c = r->columns + i;
    if (seen->size > RECORDS_LEVEL_MAX)
        return mistake(r, line, i, FAULT_LONG_TEXT, seen, info);
    for (size_t at = 0, taken; at < seen->size; at += taken) {
        taken = text_character(seen->text + at, seen->size - at);
        if (taken == 0 || seen->text[at] == '\0')
            return mistake(r, line, i, taken == 0 ? FAULT_ENCODING : FAULT_NUL, seen, info);
    }
    if (c->levels.count == RECORDS_LEVELS_MAX)
        return fail_levels(r, line, i, FAULT_LEVELS, info);
    if (r->level_bytes + seen->size + 1 > RECORDS_LEVEL_BYTES_MAX)
        return fail_levels(r, line, i, FAULT_LEVEL_BYTES, info);
    r->level_bytes += seen->size + 1;
    return records_levels_add(&c->levels, &r->bytes.input, r->seed, seen->text, seen->size, info);
}

static enum err scan_text(struct records *r, uint64_t line, size_t i, const struct seen *seen,
                          struct err_info *info)
{
    struct column *c = r->columns + i;
    struct level *level = NULL;
    if (seen->size <= RECORDS_LEVEL_MAX)
        level = records_levels_find(&c->levels, r->seed, seen->text, seen->size);
    if (level == NULL)
        return new_level(r, line, i, seen, info);
    level->rows++;
    return ERR_OK;
}

/* The column is one of text. What its cells were before is known only if all were missing. */
static enum err become_text(struct records *r, uint64_t line, size_t i, const struct seen *seen,
                            struct err_info *info)
{
    struct column *c = r->columns + i;
    c->text = true;
    c->mixed = c->numbers + c->odd + c->logical[0] + c->logical[1] > 0;
    set_role(r, i, c->mixed ? ROLE_SKIPPED : ROLE_TEXT);
    if (c->mixed)
        return r->again ? changed(r, info) : ERR_OK;
    return scan_text(r, line, i, seen, info);
}

static void add_number(struct column *c, double value)
{
    c->numbers++;
    c->least = value < c->least ? value : c->least;
    c->most = value > c->most ? value : c->most;
    c->whole = c->whole && (fabs(value) >= 0x1p52 || (double)(int64_t)value == value);
}

static enum err scan_number(struct records *r, uint64_t line, size_t i, const struct seen *seen,
                            struct err_info *info)
{
    struct column *c = r->columns + i;
    if (c->logical[0] + c->logical[1] > 0)
        return become_text(r, line, i, seen, info);
    if (seen->class == CLASS_ODD)
        return mistake(r, line, i, seen->fault, seen, info);
    if (c->mark == 0 && seen->mark != 0) {
        c->mark = r->roles[i].mark = seen->mark;
        c->mark_line = line;
    }
    add_number(c, seen->value);
    return ERR_OK;
}

static enum err scan_cell(struct records *r, uint64_t line, size_t i, struct err_info *info)
{
    struct column *c = r->columns + i;
    const struct cell *cell = r->record.texts + i;
    struct seen seen;
    if (cell->trailed) {
        struct mistake m = {.line = line, .column = i, .fault = FAULT_TRAILED};
        return records_mistake(r, &m, cell->text, cell->size, info);
    }
    records_see(&seen, cell, c->mark, &r->missing);
    if (seen.class == CLASS_MISSING) {
        c->missing++;
        return ERR_OK;
    }
    if (r->roles[i].role == ROLE_TEXT)
        return scan_text(r, line, i, &seen, info);
    if (seen.class == CLASS_NUMBER || seen.class == CLASS_ODD)
        return scan_number(r, line, i, &seen, info);
    if (seen.class == CLASS_TEXT || c->numbers + c->odd > 0)
        return become_text(r, line, i, &seen, info);
    c->logical[seen.class == CLASS_TRUE]++;
    set_role(r, i, ROLE_LOGICAL); /* not read as a number at once */
    return ERR_OK;
}

static enum err scan_row(struct records *r, uint64_t line, struct err_info *info)
{
    const struct record *record = &r->record;
    size_t columns = r->shape.columns, first = r->shape.first;
    enum err err = ERR_OK;
    if (record->open > 0 && record->open <= columns)
        return mistake(r, line, record->open - 1, FAULT_OPEN, NULL, info);
    if (record->cells != columns) {
        struct mistake m = {
            .line = line, .column = SIZE_MAX, .fault = FAULT_CELLS, .number = record->cells};
        return records_mistake(r, &m, "", 0, info);
    }
    for (size_t i = first; i < columns && err == ERR_OK; i++) {
        if (record->kinds[i] == KIND_NUMBER)
            add_number(r->columns + i, record->values[i - first]);
        else if (record->kinds[i] == KIND_CELL)
            err = scan_cell(r, line, i, info);
    }
    return err;
}

/* Everything that a scan finds is forgotten but which columns are text if it is the second one. */
static void begin_scan(struct records *r)
{
    char mark = r->missing.options != NULL ? r->missing.options->decimal : '\0';
    if (mark == 0 && r->shape.separator != ';')
        mark = '.';
    for (size_t i = 0; i < r->shape.columns; i++) {
        struct column *c = r->columns + i;
        records_levels_release(&c->levels, &r->bytes.input);
        *c = (struct column){.used = c->used,
                             .text = r->again && c->text,
                             .whole = true,
                             .mark = mark,
                             .least = INFINITY,
                             .most = -INFINITY};
        r->roles[i] = (struct role_of){.mark = mark};
        set_role(r, i, !c->used ? ROLE_SKIPPED : c->text ? ROLE_TEXT : ROLE_NUMBER);
    }
    memset(r->block, 0, r->block_room * sizeof *r->block);
    r->record.values = r->block;
    r->rows = r->level_bytes = 0;
    r->scanned = false;
    r->mistakes.count = r->mistakes.lasting = 0;
    if (r->mistakes.text != NULL)
        r->mistakes.text[0] = '\0';
}

/* Thousands with points and decimal commas are told apart only by all columns together. */
static enum err check_marks(struct records *r, struct err_info *info)
{
    bool comma = false;
    enum err err = ERR_OK;
    if (r->missing.options != NULL && r->missing.options->decimal != 0)
        return ERR_OK;
    for (size_t i = 0; i < r->shape.columns; i++)
        comma |= r->columns[i].used && !r->columns[i].text && r->columns[i].mark == ',';
    for (size_t i = 0; comma && err == ERR_OK && i < r->shape.columns; i++) {
        const struct column *c = r->columns + i;
        if (c->used && !c->text && c->mark == '.')
            err = mistake(r, c->mark_line, i, FAULT_TWO_MARKS, NULL, info);
    }
    return err;
}

static enum err state_logical(struct records *r, struct column *c, struct column_facts *facts,
                              struct err_info *info)
{
    static const char *const words[] = {"FALSE", "TRUE"};
    for (size_t value = 0; value < 2; value++) {
        if (c->logical[value] == 0)
            continue;
        enum err err = records_levels_add(&c->levels, &r->bytes.input, r->seed, words[value],
                                          strlen(words[value]), info);
        if (err != ERR_OK)
            return err;
        c->levels.list[c->levels.count - 1].rows = c->logical[value];
    }
    facts->kind = COLUMN_LOGICAL;
    return ERR_OK;
}

static enum err state_facts(struct records *r, struct column_facts *facts, struct err_info *info)
{
    enum err err = ERR_OK;
    for (size_t j = 0; err == ERR_OK && j < r->names_count; j++) {
        struct column *c = r->columns + r->shape.first + j;
        if (!c->used)
            continue;
        facts[j].missing = c->missing;
        if (c->text) {
            facts[j].kind = COLUMN_TEXT;
        } else if (c->logical[0] + c->logical[1] > 0) {
            err = state_logical(r, c, facts + j, info);
        } else {
            facts[j].kind = COLUMN_NUMBER;
            facts[j].least = c->numbers > 0 ? c->least : 0;
            facts[j].most = c->numbers > 0 ? c->most : 0;
            facts[j].whole = c->numbers > 0 && c->whole;
        }
        if (err == ERR_OK)
            err = records_levels_finish(&c->levels, &r->bytes.input, facts + j, info);
    }
    if (err != ERR_OK)
        records_facts_release(facts, r->names_count);
    return err;
}

static enum err scan_rows(struct records *r, struct err_info *info)
{
    for (;;) {
        uint64_t line;
        enum step step;
        enum err err = next_record(r, &line, &step, info);
        if (err == ERR_OK && step == STEP_LONG)
            return mistake(r, line, SIZE_MAX, FAULT_LONG_LINE, NULL, info);
        if (err != ERR_OK || step == STEP_END)
            return err;
        if (++r->rows > TABLE_ROWS_MAX)
            return err_set(info, ERR_TOO_LARGE, "%s has more than the %zu rows allowed",
                           r->bytes.feed.name, TABLE_ROWS_MAX);
        err = scan_row(r, line, info);
        if (err != ERR_OK)
            return err;
    }
}

enum err records_scan(struct records *r, struct column_facts *facts, uint64_t *rows, bool *again,
                      struct err_info *info)
{
    memset(facts, 0, r->names_count * sizeof *facts);
    *again = false;
    begin_scan(r);
    enum err err = scan_rows(r, info);
    if (err == ERR_OK)
        err = check_marks(r, info);
    if (err == ERR_OK)
        err = records_report(r, info);
    *rows = r->rows;
    for (size_t i = 0; err == ERR_OK && i < r->shape.columns; i++)
        *again |= r->columns[i].mixed;
    r->again = *again;
    if (err != ERR_OK || *again)
        return err;
    r->scanned = true;
    r->scanned_rows = r->rows;
    for (size_t i = 0; i < r->shape.columns; i++) {
        const struct column *c = r->columns + i;
        bool logical = c->logical[0] + c->logical[1] > 0;
        set_role(r, i,
                 !c->used  ? ROLE_SKIPPED
                 : c->text ? ROLE_TEXT
                 : logical ? ROLE_LOGICAL
                           : ROLE_NUMBER);
    }
    return state_facts(r, facts, info);
}

void records_facts_release(struct column_facts *facts, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        free(facts[j].levels);
        free(facts[j].level_rows);
        facts[j] = (struct column_facts){0};
    }
}

/* ---- values ---- */

/* The value of a cell that is no plain number; false: the scan did not see it. */
static bool value_of(const struct records *r, size_t i, double *value)
{
    const struct column *c = r->columns + i;
    const struct level *level = NULL;
    struct seen seen;
    records_see(&seen, r->record.texts + i, c->mark, &r->missing);
    *value = seen.class == CLASS_MISSING ? (double)NAN : seen.value;
    if (seen.class == CLASS_MISSING)
        return true;
    if (r->roles[i].role == ROLE_NUMBER)
        return seen.class == CLASS_NUMBER;
    if (r->roles[i].role == ROLE_TEXT)
        level = records_levels_find(&c->levels, r->seed, seen.text, seen.size);
    else if (seen.class == CLASS_FALSE)
        level = records_levels_find(&c->levels, r->seed, "FALSE", strlen("FALSE"));
    else if (seen.class == CLASS_TRUE)
        level = records_levels_find(&c->levels, r->seed, "TRUE", strlen("TRUE"));
    *value = level != NULL ? level->position : 0;
    return level != NULL;
}

static bool read_values(struct records *r, const struct column_facts *facts)
{
    const struct record *record = &r->record;
    size_t columns = r->shape.columns, first = r->shape.first;
    if (record->cells != columns || record->open > 0)
        return false;
    for (size_t i = first; i < columns; i++) {
        if (record->kinds[i] != KIND_CELL)
            continue;
        assert(facts[i - first].level_count == r->columns[i].levels.count);
        if (record->texts[i].trailed || !value_of(r, i, &record->values[i - first]))
            return false;
    }
    (void)facts;
    return true;
}

enum err records_next(struct records *r, const struct column_facts *facts, const double **values,
                      size_t *count, struct err_info *info)
{
    assert(r->scanned);
    size_t rows = BLOCK_CELLS / r->names_count;
    rows = rows > 0 ? rows : 1;
    *count = 0;
    enum err err = records_grow(&r->bytes.input, (void **)&r->block, &r->block_room,
                                rows * r->names_count, sizeof *r->block, info);
    for (; err == ERR_OK && *count < rows; ++*count) {
        uint64_t line;
        enum step step;
        r->record.values = r->block + *count * r->names_count;
        err = next_record(r, &line, &step, info);
        if (err == ERR_OK && step == STEP_END)
            break;
        bool same =
            err == ERR_OK && step == STEP_ROW && r->rows < r->scanned_rows && read_values(r, facts);
        if (err == ERR_OK && !same)
            err = changed(r, info);
        r->rows++;
    }
    *values = r->block;
    if (err == ERR_OK && *count == 0 && r->rows != r->scanned_rows)
        err = changed(r, info);
    return err;
}
