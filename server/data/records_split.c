/* Records and cells. A cell is taken once if it is a number as most are, and cells that nobody uses
 * are only passed. Nothing is known of a record that the window cuts: it is split again when there
 * is more of it. */
#include "server/data/records_parts.h"

#include "server/data/table_decimal.h"

#include <math.h>
#include <string.h>

void records_shape_separator(struct shape *shape, char separator)
{
    shape->separator = separator;
    memset(shape->stops, 0, sizeof shape->stops);
    shape->stops[(unsigned char)separator] = true;
    shape->stops['\t'] |= separator == ' ';
    shape->stops['\n'] = true;
}

static bool stops(const struct shape *shape, char c)
{
    return shape->stops[(unsigned char)c];
}

const char *records_line_end(const char *p, const char *end, bool last, bool *more)
{
    if (p == end || (*p == '\r' && p + 1 == end)) {
        *more = !last;
        return last ? end : NULL;
    }
    if (*p == '\n')
        return p + 1;
    return *p == '\r' && p[1] == '\n' ? p + 2 : NULL;
}

static const char *skip_blanks(const char *p, const char *end, char separator)
{
    while (p < end && records_is_blank(*p, separator))
        p++;
    return p;
}

/* The rest of a cell from `p`, up to a separator or the end of the line. */
static const char *take_plain(const struct shape *shape, const char *p, const char *end, bool last,
                              struct cell *cell)
{
    while (p < end && !stops(shape, *p))
        p++;
    if (p == end && !last)
        return NULL;
    if ((p == end || *p == '\n') && p > cell->text && p[-1] == '\r')
        p--;
    const char *to = p;
    while (to > cell->text && records_is_blank(to[-1], shape->separator))
        to--;
    cell->size = (size_t)(to - cell->text);
    return p;
}

/* Whether a cell may end at `p`, behind its quote and blanks; *more: that is not known. */
static bool may_end(const struct shape *shape, const char *p, const char *end, bool last,
                    bool *more)
{
    *more = false;
    return (p < end && stops(shape, *p)) || records_line_end(p, end, last, more) != NULL;
}

/* The quote that closes a cell; `end`: there is none so far. */
static const char *closing_quote(const char *p, const char *end, struct cell *cell)
{
    for (; p < end; p++) {
        bool escape = cell->backslash && *p == '\\' && p + 1 < end && p[1] == cell->quote;
        bool doubled = *p == cell->quote && p + 1 < end && p[1] == cell->quote;
        if (*p == cell->quote && !doubled)
            return p;
        if (*p == '\n' && cell->quote == '\'')
            return end;
        cell->escaped |= escape || doubled;
        p += escape || doubled;
    }
    return end;
}

static const char *take_quoted(const struct shape *shape, const char *p, const char *end, bool last,
                               struct cell *cell, uint64_t *lines)
{
    cell->quote = '"';
    cell->backslash = shape->separator == ' ';
    const char *close = closing_quote(p + 1, end, cell);
    cell->text = p + 1;
    cell->size = (size_t)(close - cell->text);
    if (!last && end - close < 2) /* it may be doubled */
        return NULL;
    for (const char *at = cell->text; (at = memchr(at, '\n', (size_t)(close - at))) != NULL; at++)
        ++*lines;
    cell->open = close == end;
    if (cell->open)
        return end;
    bool more;
    p = shape->separator == ' ' ? close + 1 : skip_blanks(close + 1, end, shape->separator);
    if (may_end(shape, p, end, last, &more))
        return p;
    if (more)
        return NULL;
    cell->trailed = true;
    struct cell rest = {.text = p};
    return take_plain(shape, p, end, last, &rest);
}

/* 'text' is quoted if it ends within its line where a cell may end: not in 'tis. */
static const char *take_apostrophes(const struct shape *shape, const char *p, const char *end,
                                    bool last, struct cell *cell)
{
    cell->quote = '\'';
    const char *close = closing_quote(p + 1, end, cell);
    if (close == end && !last && memchr(p, '\n', (size_t)(end - p)) == NULL)
        return NULL;
    if (close < end) {
        bool more;
        const char *to = skip_blanks(close + 1, end, shape->separator);
        cell->text = p + 1;
        cell->size = (size_t)(close - cell->text);
        if (may_end(shape, to, end, last, &more))
            return shape->separator == ' ' ? close + 1 : to;
        if (more)
            return NULL;
        if (shape->separator == ' ' && to > close + 1)
            return close + 1;
    }
    *cell = (struct cell){.text = p};
    return take_plain(shape, p, end, last, cell);
}

const char *records_take_cell(const struct shape *shape, const char *p, const char *end, bool last,
                              struct cell *cell, uint64_t *lines)
{
    p = skip_blanks(p, end, shape->separator);
    *cell = (struct cell){.text = p};
    if (p < end && *p == '"')
        return take_quoted(shape, p, end, last, cell, lines);
    if (p < end && *p == '\'')
        return take_apostrophes(shape, p, end, last, cell);
    return take_plain(shape, p, end, last, cell);
}

/* A blank line or a comment: behind it. NULL: neither, or not known. */
static const char *take_nothing(const struct shape *shape, const char *p, const char *end,
                                bool last, bool *more)
{
    if (p < end && shape->comment != 0 && *p == shape->comment) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        *more = newline == NULL && !last;
        return newline != NULL ? newline + 1 : last ? end : NULL;
    }
    return records_line_end(skip_blanks(p, end, shape->separator), end, last, more);
}

/* A number at `p` with a decimal comma at `comma`: behind it, NULL where that is not known. */
static const char *take_comma(const char *p, const char *comma, const char *end, double *value)
{
    char copy[TABLE_CELL_MAX];
    size_t size = (size_t)(end - p) < sizeof copy ? (size_t)(end - p) : sizeof copy;
    if ((size_t)(comma - p) >= size)
        return NULL;
    memcpy(copy, p, size);
    copy[comma - p] = '.';
    const char *to = table_decimal(copy, copy + size, value);
    return to == NULL || to == copy + size ? NULL : p + (to - copy);
}

/* A number without quotes as the fast reader has it, which any cell must pass that is KIND_NUMBER. */
static inline const char *take_number(const struct shape *shape, struct role_of role, const char *p,
                                      const char *end, double *value)
{
    if (p < end && records_is_blank(*p, shape->separator))
        p = skip_blanks(p, end, shape->separator);
    const char *to = table_decimal(p, end, value);
    if (role.mark == ',' && to != NULL && to < end && *to == ',' && shape->separator != ',')
        to = take_comma(p, to, end, value);
    if (to == NULL || to == end || !isfinite(*value))
        return NULL;
    if (!stops(shape, *to) && (*to != '\r' || to + 1 == end || to[1] != '\n'))
        return NULL;
    if (role.mark != '.' && memchr(p, '.', (size_t)(to - p)) != NULL)
        return NULL;
    if (shape->missing_count > 0 &&
        records_is_missing_number(shape->missing, shape->missing_count, *value))
        return NULL;
    return to;
}

/* Takes cell `i`; where it ends, NULL: not known. */
static inline const char *take(const struct shape *shape, size_t i, const char *p, const char *end,
                               bool last, struct record *record)
{
    struct role_of role = {ROLE_SKIPPED, 0};
    if (i < shape->columns)
        role = shape->roles[i];
    if (role.role == ROLE_NUMBER) {
        double value;
        const char *to = take_number(shape, role, p, end, &value);
        if (to != NULL) {
            record->kinds[i] = KIND_NUMBER;
            record->values[i - shape->first] = value;
            return to;
        }
    }
    struct cell cell;
    p = records_take_cell(shape, p, end, last, &cell, &record->lines);
    if (p == NULL)
        return NULL;
    if (role.role != ROLE_SKIPPED) {
        record->kinds[i] = KIND_CELL;
        record->texts[i] = cell;
    }
    if (cell.open && record->open == 0)
        record->open = i + 1;
    return p;
}

bool records_split(const struct shape *shape, const char *text, const char *end, bool last,
                   struct record *record)
{
    bool more = false;
    record->cells = record->lines = record->open = 0;
    record->next = take_nothing(shape, text, end, last, &more);
    if (more)
        return false;
    const char *p = text, *next = record->next;
    if (shape->separator == ' ')
        p = skip_blanks(p, end, ' ');
    for (size_t i = 0; next == NULL; i++) {
        p = take(shape, i, p, end, last, record);
        if (p == NULL)
            return false;
        record->cells = i + 1;
        if (p < end && *p == shape->separator && *p != ' ') {
            p++;
            continue;
        }
        if (shape->separator == ' ')
            p = skip_blanks(p, end, ' ');
        next = records_line_end(p, end, last, &more);
        if (more)
            return false;
    }
    record->next = next;
    record->lines += next > text && next[-1] == '\n' && record->open == 0;
    return true;
}
