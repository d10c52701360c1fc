/* Separated text. Two readers of a line: a fast one that accepts only well-formed rows of numbers,
 * and a slow one that splits a line into cells, for the first line and for messages about lines
 * that the fast one refused. */
#include "server/data/table_parts.h"

#include "server/base/text.h"
#include "server/data/table_decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A cell without the blanks around it; a quoted one without its quotes, inner quotes doubled. */
struct cell {
    const char *text;
    size_t size;
    bool quoted;
    const char *fault; /* what is wrong with its quotes, or NULL */
};

static bool is_blank(char c, char separator)
{
    return c == ' ' || (c == '\t' && separator != '\t');
}

/* Returns the end of the line that starts at `line`, before its LF or CRLF. */
static const char *line_end(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    if (newline == NULL)
        newline = end;
    return newline > line && newline[-1] == '\r' ? newline - 1 : newline;
}

static const char *next_line(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    return newline == NULL ? end : newline + 1;
}

/* Returns the end of the last line that is not blank; `text` if there is none. */
const char *table_csv_trim(const char *text, const char *end)
{
    const char *p = end;
    while (p > text && memchr(" \t\r\n", p[-1], 4) != NULL)
        p--;
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    return p == text ? text : newline != NULL ? newline : end;
}

static const char *closing_quote(const char *p, const char *end)
{
    while ((p = memchr(p, '"', (size_t)(end - p))) != NULL && p + 1 < end && p[1] == '"')
        p += 2;
    return p;
}

/* Takes the cell at `p` and returns where it ends: at a separator or at `end`. */
static const char *take_cell(const char *p, const char *end, char separator, struct cell *cell)
{
    while (p < end && is_blank(*p, separator))
        p++;
    *cell = (struct cell){.text = p, .quoted = p < end && *p == '"'};
    if (cell->quoted) {
        const char *close = closing_quote(p + 1, end);
        if (close == NULL) {
            cell->size = (size_t)(end - p);
            cell->fault = "its quote is not closed on the same line";
            return end;
        }
        cell->text = p + 1;
        cell->size = (size_t)(close - cell->text);
        for (p = close + 1; p < end && is_blank(*p, separator); p++)
            ;
        if (p == end || *p == separator)
            return p;
        cell->text--;
        cell->fault = "there is text after the closing quote";
    }
    const char *stop = memchr(p, separator, (size_t)(end - p));
    stop = stop != NULL ? stop : end;
    for (p = stop; p > cell->text && is_blank(p[-1], separator); p--)
        ;
    cell->size = (size_t)(p - cell->text);
    if (!cell->quoted && memchr(cell->text, '"', cell->size) != NULL)
        cell->fault = "a name with quotes in it must be quoted";
    return stop;
}

/* The cells of a line, from left to right; `at` is NULL after the last. */
struct cells {
    const char *at, *end;
    char separator;
};

static bool next_cell(struct cells *cells, struct cell *cell)
{
    if (cells->at == NULL)
        return false;
    const char *stop = take_cell(cells->at, cells->end, cells->separator, cell);
    cells->at = stop < cells->end ? stop + 1 : NULL;
    return true;
}

static size_t count_cells(struct cells cells)
{
    struct cell cell;
    size_t count = 0;
    while (next_cell(&cells, &cell))
        count++;
    return count;
}

/* The separator that is most frequent outside quotes; a single column has none and any will do. */
static char find_separator(const char *line, const char *end)
{
    static const char candidates[] = {',', '\t', ';'};
    size_t counts[sizeof candidates] = {0}, best = 0;
    bool inside = false;
    for (; line < end; line++) {
        inside ^= *line == '"';
        for (size_t i = 0; i < sizeof candidates; i++)
            counts[i] += !inside && *line == candidates[i];
    }
    for (size_t i = 1; i < sizeof candidates; i++)
        if (counts[i] > counts[best])
            best = i;
    return candidates[best];
}

static bool is_number(const struct cell *cell, double *value)
{
    const char *end = cell->text + cell->size;
    return !cell->quoted && table_decimal(cell->text, end, value) == end;
}

/* Text that is meant as a number but is not allowed as one: NaN, NA, inf. */
static bool is_meant_as_number(const struct cell *cell)
{
    static const char *const words[] = {"nan", "na", "n/a",  "null", "none",     "inf",
                                        ".",   "?",  "-nan", "-inf", "infinity", "-infinity"};
    double value;
    if (cell->quoted)
        return false;
    if (cell->size == 0 || is_number(cell, &value))
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (cell->size == strlen(words[i]) && strncasecmp(cell->text, words[i], cell->size) == 0)
            return true;
    bool sign = *cell->text == '-' || *cell->text == '+';
    return cell->size > 2u + sign && strncasecmp(cell->text + sign, "0x", 2) == 0;
}

static bool is_header(struct cells cells)
{
    struct cell cell;
    while (next_cell(&cells, &cell))
        if (!is_meant_as_number(&cell))
            return true;
    return false;
}

/* Why the text is not a valid name, or NULL. */
static const char *name_fault(const char *text, size_t size)
{
    if (size == 0)
        return "a name must not be empty";
    if (size > TABLE_NAME_MAX)
        return "a name is too long";
    for (size_t i = 0, length; i < size; i += length) {
        length = text_printable(text + i, size - i);
        if (length == 0)
            return "a name must be UTF-8 without control characters";
    }
    return NULL;
}

/* Copies the name to `out`, with doubled quotes made single; returns the byte after its NUL. */
static char *copy_name(char *out, const struct cell *cell)
{
    for (size_t i = 0; i < cell->size; i++) {
        *out++ = cell->text[i];
        if (cell->quoted && cell->text[i] == '"')
            i++;
    }
    *out = '\0';
    return out + 1;
}

static enum err read_header(struct csv *csv, struct cells cells, struct err_info *info)
{
    struct table *table = csv->table;
    size_t text_bytes = (size_t)(cells.end - cells.at) + table->columns;
    enum err err = table_allocate_names(table, csv->input, text_bytes, info);
    if (err != ERR_OK)
        return err;
    char *text = table->name_text;
    struct cell cell;
    for (size_t i = 0; next_cell(&cells, &cell); i++) {
        const char *fault = cell.fault != NULL ? cell.fault : name_fault(cell.text, cell.size);
        char buffer[TEXT_SHOWN_MAX];
        if (fault != NULL)
            return err_set(
                info, ERR_MALFORMED, "%s, line 1, column %zu: \"%s\" is not a column name: %s",
                csv->input->name, i + 1, text_shown(buffer, cell.text, cell.size), fault);
        table->names[i] = text;
        text = copy_name(text, &cell);
    }
    return table_sort_names(table, info);
}

static const char *separator_name(char separator)
{
    return separator == ',' ? "commas" : separator == ';' ? "semicolons" : "tabs";
}

static enum err line_too_long(const struct csv *csv, size_t number, struct err_info *info)
{
    return err_set(info, ERR_TOO_LARGE, "%s, line %zu is longer than %zu bytes", csv->input->name,
                   number, TABLE_LINE_MAX);
}

static bool line_is_blank(const char *line, const char *end)
{
    while (line < end && (*line == ' ' || *line == '\t'))
        line++;
    return line == end;
}

static enum err explain_cell(const struct csv *csv, size_t number, size_t column,
                             const struct cell *cell, struct err_info *info)
{
    const struct table *table = csv->table;
    char place[200], name[TEXT_SHOWN_MAX], text[TEXT_SHOWN_MAX];
    double value;
    if (table->header)
        text_shown(name, table->names[column], strlen(table->names[column]));
    snprintf(place, sizeof place, "line %zu, column %zu%s%s%s", number, column + 1,
             table->header ? " (" : "", table->header ? name : "", table->header ? ")" : "");
    if (cell->size == 0)
        return err_set(info, ERR_MALFORMED, "%s, %s: the cell is empty; a number is expected",
                       csv->input->name, place);
    text_shown(text, cell->text, cell->size);
    if (cell->size > TABLE_CELL_MAX)
        return err_set(info, ERR_MALFORMED,
                       "%s, %s: \"%s\" is longer than the %zu bytes of a number", csv->input->name,
                       place, text, TABLE_CELL_MAX);
    const char *cell_end = cell->text + cell->size;
    bool number_like = table_decimal(cell->text, cell_end, &value) == cell_end;
    if (cell->quoted && number_like)
        return err_set(info, ERR_MALFORMED,
                       "%s, %s holds a quoted number (\"%s\"); write numbers without quotes",
                       csv->input->name, place, text);
    if (cell->quoted)
        return err_set(info, ERR_MALFORMED,
                       "%s, %s holds text (\"%s\"); write categories as numbers, such as 0 and 1, "
                       "or remove the column from the file",
                       csv->input->name, place, text);
    if (number_like)
        return err_set(info, ERR_MALFORMED, "%s, %s: \"%s\" is beyond the range of a double",
                       csv->input->name, place, text);
    return err_set(info, ERR_MALFORMED,
                   "%s, %s: \"%s\" is not a number; expected are decimal numbers such as -1.5e3, "
                   "separated by %s",
                   csv->input->name, place, text, separator_name(csv->separator));
}

/* The error in a line that the fast reader did not accept. */
static enum err explain_line(const struct csv *csv, const char *line, size_t number,
                             struct err_info *info)
{
    const char *end = line_end(line, csv->end);
    size_t columns = csv->table->columns;
    if ((size_t)(end - line) > TABLE_LINE_MAX)
        return line_too_long(csv, number, info);
    if (line_is_blank(line, end))
        return err_set(info, ERR_MALFORMED,
                       "%s, line %zu is blank; blank lines are allowed only at the end",
                       csv->input->name, number);
    struct cells cells = {line, end, csv->separator};
    size_t count = count_cells(cells);
    if (count != columns)
        return err_set(info, ERR_MALFORMED,
                       "%s, line %zu has %zu cell%s where line 1 has %zu (separated by %s)",
                       csv->input->name, number, count, count == 1 ? "" : "s", columns,
                       separator_name(csv->separator));
    struct cell cell;
    for (size_t i = 0; next_cell(&cells, &cell); i++) {
        double value;
        if (!is_number(&cell, &value) || !isfinite(value))
            return explain_cell(csv, number, i, &cell, info);
    }
    return err_set(info, ERR_INTERNAL, "%s, line %zu could not be read", csv->input->name, number);
}

static inline const char *skip_blanks(const char *p, const char *end, char separator)
{
    while (p < end && is_blank(*p, separator))
        p++;
    return p;
}

/* Reads one row of numbers; returns the start of the next line, NULL if the line is anything else.
 * A cell is read twice only when it is wrong. */
static const char *read_row(const struct csv *csv, const char *p, double *row, bool *exact)
{
    size_t columns = csv->table->columns;
    const char *line = p, *end = csv->end;
    char separator = csv->separator;
    bool single = true;
    for (size_t i = 0; i < columns; i++) {
        double value;
        p = table_decimal(skip_blanks(p, end, separator), end, &value);
        if (p == NULL || !isfinite(value))
            return NULL;
        row[i] = value;
        single &= table_is_single(value);
        p = skip_blanks(p, end, separator);
        if (i + 1 == columns)
            break;
        if (p == end || *p++ != separator)
            return NULL;
    }
    *exact &= single;
    if ((size_t)(p - line) > TABLE_LINE_MAX)
        return NULL;
    p += p < end && *p == '\r';
    if (p == end)
        return p;
    return *p == '\n' ? p + 1 : NULL;
}

enum err table_csv_rows(struct csv *csv, const char **text, size_t rows, struct err_info *info)
{
    struct table *table = csv->table;
    const char *at = *text, *next;
    for (; rows > 0 && at < csv->end; rows--, at = next, table->rows++, table->rows_total++) {
        double *row = table->values + table->rows * table->columns;
        next = read_row(csv, at, row, &table->single_exact);
        if (next == NULL)
            return explain_line(csv, at, table->rows_total + 1 + table->header, info);
    }
    *text = at;
    return ERR_OK;
}

/* A cell and what follows it take two bytes at least, so the size of the text bounds the number of
 * cells: for short lines under a wide first one, memory for all lines times all columns is not
 * allocated, and reading fails before it is needed. */
size_t table_csv_possible(const struct csv *csv, size_t bytes)
{
    return (bytes + 1) / 2 / csv->table->columns + 1;
}

static enum err read_first_line(struct csv *csv, const char *line, struct err_info *info)
{
    struct table *table = csv->table;
    const char *end = line_end(line, csv->end);
    if ((size_t)(end - line) > TABLE_LINE_MAX)
        return line_too_long(csv, 1, info);
    if (line_is_blank(line, end))
        return err_set(info, ERR_MALFORMED, "%s, line 1 is blank; names or numbers are expected",
                       csv->input->name);
    csv->separator = find_separator(line, end);
    struct cells cells = {line, end, csv->separator};
    table->columns = count_cells(cells);
    if (table->columns > TABLE_COLUMNS_MAX)
        return err_set(info, ERR_TOO_LARGE, "%s has %zu columns; at most %zu are allowed",
                       csv->input->name, table->columns, TABLE_COLUMNS_MAX);
    table->header = is_header(cells);
    return table->header ? read_header(csv, cells, info)
                         : table_number_columns(table, csv->input, info);
}

const char *table_csv_start(const char *text, const char *end)
{
    return end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

enum err table_csv_first(struct csv *csv, const char **text, struct err_info *info)
{
    if (*text == csv->end)
        return err_set(info, ERR_MALFORMED, "%s has only blank lines", csv->input->name);
    enum err err = read_first_line(csv, *text, info);
    if (err == ERR_OK && csv->table->header)
        *text = next_line(*text, csv->end);
    return err;
}
