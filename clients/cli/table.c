/* Tables that fit the terminal. */
#include "clients/cli/table.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = 2, SMALLEST = 6 };

struct cell {
    char *string;
    enum style style;
};

struct table {
    struct column columns[TABLE_COLUMNS];
    char *titles[TABLE_COLUMNS];
    size_t column_count;
    struct cell *cells;
    size_t count, capacity;
};

struct layout {
    size_t width[TABLE_COLUMNS];
    bool shown[TABLE_COLUMNS];
};

struct table *table_new(const struct column *columns, size_t count)
{
    struct table *table = mem_new(1, sizeof *table);
    table->column_count = count < TABLE_COLUMNS ? count : TABLE_COLUMNS;
    for (size_t i = 0; i < table->column_count; i++) {
        table->columns[i] = columns[i];
        table->columns[i].title = table->titles[i] = mem_copy(columns[i].title);
    }
    return table;
}

void table_free(struct table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->column_count; i++)
        free(table->titles[i]);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].string);
    free(table->cells);
    free(table);
}

void table_cell(struct table *table, const char *string, enum style style)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        struct cell *cells = mem_new(capacity, sizeof *cells);
        if (table->count)
            memcpy(cells, table->cells, table->count * sizeof *cells);
        free(table->cells);
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[table->count++] = (struct cell){mem_copy(string ? string : ""), style};
}

size_t table_rows(const struct table *table)
{
    return table->column_count ? table->count / table->column_count : 0;
}

static size_t total_width(const struct table *table, const struct layout *layout)
{
    size_t total = 0, shown = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        if (layout->shown[i]) {
            total += layout->width[i];
            shown++;
        }
    }
    return total + (shown ? (shown - 1) * GAP : 0);
}

static void measure(const struct table *table, struct layout *layout)
{
    for (size_t i = 0; i < table->column_count; i++) {
        layout->shown[i] = true;
        layout->width[i] = text_columns(table->columns[i].title);
    }
    for (size_t i = 0; i < table->count; i++) {
        size_t c = i % table->column_count, width = text_columns(table->cells[i].string);
        if (width > layout->width[c])
            layout->width[c] = width;
    }
}

/* Shrinks the widest column that may shrink, down to a readable minimum. */
static void shrink(const struct table *table, struct layout *layout, size_t room, size_t smallest)
{
    while (total_width(table, layout) > room) {
        size_t widest = TABLE_COLUMNS;
        for (size_t i = 0; i < table->column_count; i++) {
            if (layout->shown[i] && table->columns[i].shrinks && layout->width[i] > smallest &&
                (widest == TABLE_COLUMNS || layout->width[i] > layout->width[widest]))
                widest = i;
        }
        if (widest == TABLE_COLUMNS)
            return;
        layout->width[widest]--;
    }
}

/* Drops all columns of the highest rank together: one quantile of a pair is of no use. */
static bool drop_some(const struct table *table, struct layout *layout)
{
    int highest = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        if (layout->shown[i] && table->columns[i].drop > highest)
            highest = table->columns[i].drop;
    }
    for (size_t i = 0; i < table->column_count; i++)
        layout->shown[i] = layout->shown[i] && (!highest || table->columns[i].drop < highest);
    return highest > 0;
}

/* Shrinks a little before dropping a column; drops a column before shrinking to the minimum. */
static void fit(const struct table *table, struct layout *layout, size_t room)
{
    struct layout whole = *layout;
    for (;;) {
        shrink(table, layout, room, 3 * SMALLEST);
        if (total_width(table, layout) <= room)
            return;
        if (!drop_some(table, &whole))
            break;
        *layout = whole;
    }
    shrink(table, layout, room, SMALLEST);
}

static void add_cell(struct text *line, FILE *file, const struct column *column, size_t width,
                     const char *string, enum style style, bool last)
{
    struct text cut = {0};
    text_add_cut(&cut, string, width, term_ellipsis());
    size_t used = text_columns(text_str(&cut)), space = width > used ? width - used : 0;
    if (column->right)
        text_fill(line, ' ', space);
    term_add(line, file, style, text_str(&cut));
    if (!column->right && !last)
        text_fill(line, ' ', space);
    if (!last)
        text_fill(line, ' ', GAP);
    text_release(&cut);
}

static void print_row(const struct table *table, const struct layout *layout, FILE *file,
                      const struct cell *cells, size_t room)
{
    struct text line = {0}, cut = {0};
    size_t last = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        if (layout->shown[i])
            last = i;
    }
    for (size_t i = 0; i < table->column_count; i++) {
        if (!layout->shown[i])
            continue;
        const char *string = cells ? cells[i].string : table->columns[i].title;
        enum style style = cells ? cells[i].style : STYLE_HEAD;
        add_cell(&line, file, &table->columns[i], layout->width[i], string, style, i == last);
    }
    /* Columns that may not shrink can be too wide for a very narrow window. */
    text_add_cut(&cut, text_str(&line), room, term_ellipsis());
    fprintf(file, "%s\n", text_str(&cut));
    text_release(&line);
    text_release(&cut);
}

void table_print(const struct table *table, FILE *file)
{
    struct layout layout = {0};
    size_t room = term_columns(file);
    measure(table, &layout);
    if (total_width(table, &layout) > room)
        fit(table, &layout, room);
    print_row(table, &layout, file, NULL, room);
    for (size_t row = 0; row < table_rows(table); row++)
        print_row(table, &layout, file, table->cells + row * table->column_count, room);
}
