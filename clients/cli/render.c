/* Generic text output of JSON objects and lists. */
#include "clients/cli/render.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"

#include <stdint.h>
#include <string.h>

enum { KEY_COLUMNS = 12, GAP = 2 };

static bool listed(const char *words, const char *word)
{
    size_t size = strlen(word);
    for (const char *w = words; w && *w;) {
        size_t length = strcspn(w, " ");
        if (length == size && strncmp(w, word, size) == 0)
            return true;
        w += length + (w[length] ? 1 : 0);
    }
    return false;
}

static bool is_scalar(const json_t *value)
{
    return !json_is_object(value) && !json_is_array(value);
}

static bool is_list_of_objects(const json_t *value)
{
    return json_array_size(value) > 0 && json_is_object(json_array_get(value, 0));
}

struct keys {
    const char *name[TABLE_COLUMNS]; /* borrowed from the JSON or `words` */
    size_t size[TABLE_COLUMNS];
    size_t count;
};

static bool has_key(const struct keys *keys, const char *name, size_t size)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->size[i] == size && strncmp(keys->name[i], name, size) == 0)
            return true;
    }
    return false;
}

static void add_key(struct keys *keys, const char *name, size_t size)
{
    if (keys->count == TABLE_COLUMNS || has_key(keys, name, size))
        return;
    keys->name[keys->count] = name;
    keys->size[keys->count++] = size;
}

/* A column is printed if at least one row has a value in it. */
static bool occurs(const json_t *items, const char *name, size_t size)
{
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        const json_t *value = json_object_getn(item, name, size);
        if (value && !json_is_null(value))
            return true;
    }
    return false;
}

static void collect_keys(struct keys *keys, const json_t *items, const char *first,
                         const char *hidden)
{
    size_t i;
    json_t *item, *value;
    const char *name;
    for (const char *w = first; w && *w;) {
        size_t length = strcspn(w, " ");
        if (occurs(items, w, length))
            add_key(keys, w, length);
        w += length + (w[length] ? 1 : 0);
    }
    json_array_foreach (items, i, item) {
        json_object_foreach (item, name, value) {
            if (is_scalar(value) && !json_is_null(value) && !listed(hidden, name))
                add_key(keys, name, strlen(name));
        }
    }
}

static bool all_numbers(const json_t *items, const char *name, size_t size)
{
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        const json_t *value = json_object_getn(item, name, size);
        if (value && !json_is_number(value) && !json_is_null(value))
            return false;
    }
    return true;
}

static bool ends_with(const char *string, size_t size, const char *end)
{
    size_t length = strlen(end);
    return size >= length && strncmp(string + size - length, end, length) == 0;
}

/* How values are printed, by the unit at the end of the field's name. */
static const struct {
    const char *end;   /* of the name, after "_" or alone */
    const char *alone; /* title of a field whose name is only the unit */
    char *(*print)(char *out, double value);
} units[] = {{"seconds", "time", human_seconds}, {"bytes", "size", human_bytes}};

enum { UNITS = sizeof units / sizeof *units };

static size_t unit_of(const char *name, size_t size)
{
    for (size_t i = 0; i < UNITS; i++) {
        size_t end = strlen(units[i].end);
        if (ends_with(name, size, units[i].end) && (size == end || name[size - end - 1] == '_'))
            return i;
    }
    return UNITS;
}

static void add_value(struct text *out, const char *name, size_t size, const json_t *value)
{
    char buffer[HUMAN_SIZE];
    size_t unit = unit_of(name, size);
    if (json_is_number(value) && unit < UNITS)
        text_add(out, units[unit].print(buffer, json_number_value(value)));
    else
        get_brief(out, value);
}

/* "usage_seconds" gives "usage": the values have their units. */
static void add_title(struct text *out, const char *name, size_t size)
{
    size_t unit = unit_of(name, size);
    if (unit < UNITS && size == strlen(units[unit].end)) {
        text_add(out, units[unit].alone);
        return;
    }
    if (unit < UNITS)
        size -= strlen(units[unit].end) + 1;
    text_add_bytes(out, name, size);
}

void render_value(struct text *out, const char *name, const json_t *value)
{
    add_value(out, name, strlen(name), value);
}

void render_title(struct text *out, const char *name)
{
    add_title(out, name, strlen(name));
}

void render_list(const json_t *items, const char *first, const char *hidden, FILE *file)
{
    struct keys keys = {0};
    struct column columns[TABLE_COLUMNS] = {0};
    struct text titles[TABLE_COLUMNS] = {0}, cell = {0};
    size_t i;
    json_t *item;
    collect_keys(&keys, items, first, hidden);
    if (!keys.count)
        return;
    for (size_t c = 0; c < keys.count; c++) {
        bool numbers = all_numbers(items, keys.name[c], keys.size[c]);
        add_title(&titles[c], keys.name[c], keys.size[c]);
        columns[c] = (struct column){.title = text_str(&titles[c]),
                                     .right = numbers,
                                     .shrinks = !numbers,
                                     .drop = c < 2 ? 0 : (int)c};
    }
    struct table *table = table_new(columns, keys.count);
    json_array_foreach (items, i, item) {
        for (size_t c = 0; c < keys.count; c++) {
            const json_t *value = json_object_getn(item, keys.name[c], keys.size[c]);
            text_clear(&cell);
            add_value(&cell, keys.name[c], keys.size[c], value);
            table_cell(table, text_str(&cell), STYLE_PLAIN);
        }
    }
    table_print(table, file);
    table_free(table);
    for (size_t c = 0; c < keys.count; c++)
        text_release(&titles[c]);
    text_release(&cell);
}

/* Bytes of the longest prefix that fits `columns`, broken at a blank if there is one. */
static size_t fitting(const char *string, size_t columns)
{
    struct text part = {0};
    text_add_cut(&part, string, columns, "");
    size_t bytes = part.size, whole = strlen(string);
    const char *blank = bytes < whole ? strrchr(text_str(&part), ' ') : NULL;
    if (blank && blank > text_str(&part) && string[bytes] != ' ')
        bytes = (size_t)(blank - text_str(&part));
    text_release(&part);
    return bytes ? bytes : whole;
}

static void print_field(const char *key, const char *value, size_t key_room, FILE *file)
{
    size_t key_columns = text_columns(key), room = term_columns(file);
    size_t indent = (key_columns > key_room ? key_columns : key_room) + GAP;
    size_t columns = room > indent + 8 ? room - indent : SIZE_MAX;
    fprintf(file, "%s%s%s%*s", term_style(file, STYLE_DIM), key, term_plain(file),
            (int)(indent - key_columns), "");
    while (*value) {
        size_t bytes = fitting(value, columns);
        fprintf(file, "%.*s\n", (int)bytes, value);
        value += bytes;
        value += strspn(value, " ");
        if (*value)
            fprintf(file, "%*s", (int)indent, "");
    }
}

void render_field(const char *key, const char *value, FILE *file)
{
    if (*value)
        print_field(key, value, KEY_COLUMNS, file);
}

static void render_inner_lists(const json_t *object, const char *hidden, FILE *file)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)object, name, value) {
        if (!is_list_of_objects(value) || listed(hidden, name))
            continue;
        struct text title = {0};
        add_title(&title, name, strlen(name));
        fprintf(file, "\n%s%s%s\n", term_style(file, STYLE_HEAD), text_str(&title),
                term_plain(file));
        text_release(&title);
        render_list(value, NULL, NULL, file);
    }
}

static bool is_field(const char *name, const json_t *value, const char *hidden)
{
    return !json_is_null(value) && !is_list_of_objects(value) && !listed(hidden, name);
}

void render_object(const json_t *object, const char *hidden, FILE *file)
{
    const char *name;
    json_t *value;
    size_t key_room = KEY_COLUMNS;
    struct text key = {0}, line = {0};
    json_object_foreach ((json_t *)object, name, value) {
        if (is_field(name, value, hidden) && strlen(name) > key_room)
            key_room = strlen(name);
    }
    json_object_foreach ((json_t *)object, name, value) {
        if (!is_field(name, value, hidden))
            continue;
        text_clear(&key);
        text_clear(&line);
        add_title(&key, name, strlen(name));
        add_value(&line, name, strlen(name), value);
        if (line.size)
            print_field(text_str(&key), text_str(&line), key_room, file);
    }
    text_release(&key);
    text_release(&line);
    render_inner_lists(object, hidden, file);
}
