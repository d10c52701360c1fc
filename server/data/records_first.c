/* What the first lines say: how cells are separated, what the columns are called, whether rows have
 * names. */
#include "server/data/records_parts.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define LOOK ((size_t)64 << 10) /* bytes in which the first two lines are looked for */

/* ---- the separator ---- */

/* Behind the blank lines and comments at `p`; *lines: line feeds. */
static const char *skip_nothing(const char *p, const char *end, char comment, uint64_t *lines)
{
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *q = p;
        while (q < end && (*q == ' ' || *q == '\t' || *q == '\r'))
            q++;
        bool nothing = q == end || *q == '\n' || (comment != 0 && *p == comment);
        if (!nothing)
            break;
        *lines += newline != NULL;
        p = newline != NULL ? newline + 1 : end;
    }
    return p;
}

/* The end of the line at `p`, with line ends in quotes if those are closed. */
static const char *first_end(const char *p, const char *end)
{
    bool inside = false;
    for (const char *q = p; q < end; q++) {
        inside ^= *q == '"';
        if (*q == '\n' && !inside)
            return q;
    }
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    return newline != NULL ? newline : end;
}

static const struct missing nothing_missing = {NULL, NULL, 0};

struct line {
    size_t cells, numbers, others; /* neither numbers nor missing */
    bool first_quoted, first_number;
};

static struct line look_at(const char *p, const char *end, char separator)
{
    struct shape shape;
    struct line line = {0};
    records_shape_separator(&shape, separator);
    for (bool more = p < end; more;) {
        struct cell cell;
        struct seen seen;
        uint64_t lines = 0;
        if (separator == ' ')
            while (p < end && records_is_blank(*p, ' '))
                p++;
        p = records_take_cell(&shape, p, end, true, &cell, &lines);
        records_see(&seen, &cell, 0, &nothing_missing);
        bool number = seen.class == CLASS_NUMBER, missing = seen.class == CLASS_MISSING;
        if (line.cells++ == 0) {
            line.first_quoted = cell.quote != 0;
            line.first_number = number;
        }
        line.numbers += number;
        line.others += !number && !missing;
        if (separator == ' ') {
            while (p < end && records_is_blank(*p, ' '))
                p++;
            more = p < end && *p != '\n' && *p != '\r';
        } else {
            more = p < end && *p == separator;
            p += more;
        }
    }
    return line;
}

static bool all_numbers(const char *p, const char *end, char separator)
{
    struct line line = look_at(p, end, separator);
    return line.cells > 1 && line.numbers > 0 && line.others == 0;
}

/* The separator that makes most cells of the line. 0: it has none. Numbers with decimal commas beat
 * the number of commas. */
static char separator_of(const char *p, const char *end)
{
    static const char candidates[] = {',', '\t', ';', ' '};
    size_t best_cells = 1;
    char best = 0;
    if (all_numbers(p, end, ';'))
        return ';';
    if (all_numbers(p, end, '\t'))
        return '\t';
    for (size_t i = 0; i < sizeof candidates; i++) {
        bool blank = candidates[i] == ' '; /* only where there is nothing else */
        size_t cells = blank && best != 0 ? 0 : look_at(p, end, candidates[i]).cells;
        if (cells > best_cells) {
            best_cells = cells;
            best = candidates[i];
        }
    }
    return best;
}

/* Where the line of names has one name alone, rows may have a name and a value: "x" above "1" 2.5.
 * An unquoted 1,5 is one number. */
static char separator_below(const char *p, const char *end)
{
    char separator = separator_of(p, end);
    struct line line = look_at(p, end, separator != 0 ? separator : ',');
    bool row_name = line.first_quoted || (line.first_number && separator != ',');
    return separator != 0 && line.cells == 2 && row_name ? separator : '\0';
}

static char find_separator(const char *p, const char *end, char comment)
{
    uint64_t lines = 0;
    end = (size_t)(end - p) > LOOK ? p + LOOK : end;
    const char *to = first_end(p, end);
    char separator = separator_of(p, to);
    const char *below = skip_nothing(to, end, comment, &lines);
    if (separator == 0 && below < end)
        separator = separator_below(below, first_end(below, end));
    return separator != 0 ? separator : ',';
}

static enum err line_too_long(const struct records *r, uint64_t line, struct err_info *info)
{
    return err_set(info, ERR_TOO_LARGE, "%s, line %llu is longer than %zu bytes",
                   r->bytes.feed.name, (unsigned long long)line, TABLE_LINE_MAX);
}

/* Skips what is before the first line, until that is in the window. */
static enum err reach_first(struct records *r, struct err_info *info)
{
    struct table_bytes *b = &r->bytes;
    bool started = false;
    r->line = 1;
    for (size_t wanted = LOOK + 3;; wanted = LOOK + 2 * table_bytes_unread(b)) {
        enum err err = table_bytes_fill(b, wanted, info);
        if (err != ERR_OK)
            return err;
        const char *text = b->window + b->at, *end = b->window + b->filled;
        if (!started)
            text = table_csv_start(text, end);
        started = true;
        b->at = (size_t)(text - b->window);
        uint64_t lines = 0;
        const char *first = skip_nothing(text, end, r->shape.comment, &lines);
        if (first == end && b->ended)
            return err_set(info, ERR_MALFORMED,
                           b->brought > 0 ? "%s has only blank lines" : "%s is empty",
                           b->feed.name);
        if (first == end) { /* an unfinished line may be a comment: taken when it is whole */
            const char *newline = memrchr(text, '\n', (size_t)(end - text));
            if (newline == NULL && table_bytes_unread(b) > TABLE_LINE_MAX)
                return line_too_long(r, r->line, info);
            if (newline != NULL) {
                const char *to = newline + 1;
                lines = 0;
                skip_nothing(text, to, r->shape.comment, &lines);
                r->line += lines;
                b->at = (size_t)(to - b->window);
            }
            continue;
        }
        r->line += lines;
        b->at = (size_t)(first - b->window);
        return table_bytes_fill(b, 2 * LOOK, info);
    }
}

/* ---- names ---- */

/* The first record and the one below it; that has no cells where the file ends. */
struct two {
    const char *text, *end; /* of the first */
    struct record first, second;
    const char *second_text;
};

static enum err take_two(struct records *r, struct two *two, struct err_info *info)
{
    struct table_bytes *b = &r->bytes;
    struct shape shape = r->shape;
    shape.columns = 0;
    for (size_t wanted = b->feed.window_bytes;; wanted = 2 * table_bytes_unread(b) + 1) {
        enum err err = table_bytes_fill(b, wanted, info);
        if (err != ERR_OK)
            return err;
        const char *p = b->window + b->at, *end = b->window + b->filled;
        two->text = p;
        bool first = records_split(&shape, p, end, b->ended, &two->first);
        bool second = first;
        two->second = (struct record){.next = two->first.next};
        while (second && two->second.cells == 0 && two->second.next < end) {
            two->second_text = two->second.next;
            second = records_split(&shape, two->second_text, end, b->ended, &two->second);
        }
        bool whole = second && (two->second.cells > 0 || b->ended);
        size_t size = (size_t)((first ? two->first.next : end) - p);
        size_t rest = (size_t)(end - p) - size;
        if (size > TABLE_LINE_MAX || (!whole && rest > TABLE_LINE_MAX))
            return line_too_long(r, r->line + (size > TABLE_LINE_MAX ? 0 : two->first.lines), info);
        if (whole)
            return ERR_OK;
    }
}

static void next_cell(const struct shape *shape, const char **p, const char *end, struct cell *cell)
{
    uint64_t lines = 0;
    const char *at = *p;
    while (shape->separator == ' ' && at < end && records_is_blank(*at, ' '))
        at++;
    *p = records_take_cell(shape, at, end, true, cell, &lines);
    *p += *p < end && *p[0] == shape->separator && shape->separator != ' ';
}

/* Pandas calls columns 0, 1, 2, ... that were not given a name, and writes nothing above the index. */
static bool is_counted(const struct shape *shape, const struct two *two)
{
    const char *p = two->text;
    for (size_t i = 0; i < two->first.cells; i++) {
        struct cell cell;
        char number[24] = "";
        next_cell(shape, &p, two->first.next, &cell);
        if (i > 0)
            snprintf(number, sizeof number, "%zu", i - 1);
        if (cell.size != strlen(number) || memcmp(cell.text, number, cell.size) != 0)
            return false;
    }
    return two->first.cells > 1;
}

/* Numbers are no names, unless all of them are quoted and the next line has other cells. */
static bool is_header(const struct records *r, const struct two *two)
{
    const char *p = two->text;
    size_t numbers = 0, quoted = 0;
    if (is_counted(&r->shape, two))
        return true;
    for (size_t i = 0; i < two->first.cells; i++) {
        struct cell cell;
        struct seen seen;
        next_cell(&r->shape, &p, two->first.next, &cell);
        records_see(&seen, &cell, 0, &r->missing);
        if (seen.class != CLASS_NUMBER && seen.class != CLASS_ODD && seen.class != CLASS_MISSING)
            return true;
        numbers += seen.class != CLASS_MISSING;
        quoted += cell.quote != 0;
    }
    if (numbers == 0)
        return true;
    if (quoted < two->first.cells)
        return false;
    p = two->second_text;
    for (size_t i = 0; i < two->second.cells; i++) {
        struct cell cell;
        next_cell(&r->shape, &p, two->second.next, &cell);
        if (cell.quote == 0)
            return true;
    }
    return false;
}

/* Copies a name with one blank for line ends, tabs and blanks behind them; what is wrong with it, or NULL. */
static const char *copy_name(char *to, size_t *size, const struct cell *cell)
{
    static const char *const bad = "a name must be UTF-8 without control characters";
    char name[2 * TABLE_NAME_MAX + 2];
    size_t length = records_unquote(name, sizeof name, cell);
    bool after_gap = false;
    *size = 0;
    if (cell->open)
        return "its quote is not closed";
    if (cell->trailed)
        return "there is text after the closing quote";
    for (size_t i = 0, taken; i < length; i += taken) {
        bool gap = name[i] == '\n' || name[i] == '\r' || name[i] == '\t';
        bool blank = gap || (name[i] == ' ' && after_gap);
        after_gap = blank;
        taken = blank ? 1 : text_printable(name + i, length - i);
        if (taken == 0)
            return bad;
        if (!blank) {
            memcpy(to + *size, name + i, taken);
            *size += taken;
        } else if (*size > 0 && to[*size - 1] != ' ') {
            to[(*size)++] = ' ';
        }
        if (*size > TABLE_NAME_MAX)
            return "a name is too long";
    }
    return NULL;
}

static enum err read_names(struct records *r, const struct two *two, struct err_info *info)
{
    const char *p = two->text;
    char *text = r->name_text;
    size_t unnamed = r->header ? r->shape.columns - two->first.cells : 0;
    for (size_t i = unnamed; i < r->shape.columns; i++) {
        struct cell cell = {0};
        size_t size = 0;
        if (r->header)
            next_cell(&r->shape, &p, two->first.next, &cell);
        const char *fault = r->header ? copy_name(text, &size, &cell) : NULL;
        char shown[TEXT_SHOWN_MAX];
        if (fault != NULL)
            return err_set(info, ERR_MALFORMED,
                           "%s, line %llu, column %zu: \"%s\" is not a column name: %s",
                           r->bytes.feed.name, (unsigned long long)r->line, i + 1,
                           text_shown(shown, cell.text, cell.size), fault);
        if (i < r->shape.first)
            continue;
        if (size == 0)
            size = (size_t)snprintf(text, sizeof "V100000", "V%zu", i - r->shape.first + 1);
        text[size] = '\0';
        r->names[i - r->shape.first] = text;
        text += size + 1;
    }
    return ERR_OK;
}

/* Where the first name is empty, or is missing, the first cells of all rows are names. */
static void find_row_names(struct records *r, const struct two *two)
{
    struct cell cell;
    const char *p = two->text;
    size_t names = two->first.cells, cells = two->second.cells;
    next_cell(&r->shape, &p, two->first.next, &cell);
    bool one_more = r->header && cells == names + 1;
    r->shape.columns = names + one_more;
    r->shape.first = one_more || (r->header && names > 1 && cell.size == 0);
}

static uint64_t hash_first(const struct two *two)
{
    return XXH3_64bits(two->text, (size_t)(two->first.next - two->text));
}

static void pass_first(struct records *r, const struct two *two)
{
    if (!r->header)
        return;
    r->bytes.at = (size_t)(two->first.next - r->bytes.window);
    r->line += two->first.lines;
}

enum err records_read_first(struct records *r, struct err_info *info)
{
    struct two two = {0};
    struct table_bytes *b = &r->bytes;
    bool npy;
    enum err err = table_bytes_fill(b, TABLE_NPY_HEAD, info);
    if (err != ERR_OK)
        return err;
    b->input.bytes = b->window;
    b->input.end = b->window + b->filled;
    err = table_recognise(&b->input, &npy, info);
    if (err == ERR_OK && npy)
        err = err_set(info, ERR_UNSUPPORTED, "%s is NPY, which is not read as text", b->feed.name);
    if (err == ERR_OK)
        err = reach_first(r, info);
    if (err != ERR_OK)
        return err;
    records_shape_separator(
        &r->shape, find_separator(b->window + b->at, b->window + b->filled, r->shape.comment));
    err = take_two(r, &two, info);
    if (err != ERR_OK)
        return err;
    r->header = is_header(r, &two);
    if (r->header && two.second.cells == 0)
        return err_set(info, ERR_MALFORMED, "%s has a header but no rows", b->feed.name);
    find_row_names(r, &two);
    r->names_count = r->shape.columns - r->shape.first;
    if (r->names_count > TABLE_COLUMNS_MAX)
        return err_set(info, ERR_TOO_LARGE, "%s has %zu columns; at most %zu are allowed",
                       b->feed.name, r->names_count, TABLE_COLUMNS_MAX);
    err = records_grow(&b->input, (void **)&r->names, &r->name_room, r->names_count,
                       sizeof *r->names, info);
    if (err == ERR_OK)
        err = records_grow(&b->input, (void **)&r->name_text, &r->name_text_room,
                           (size_t)(two.first.next - two.text) + TABLE_NAME_MAX + 8 +
                               r->shape.columns * sizeof "V100000",
                           1, info);
    if (err == ERR_OK)
        err = read_names(r, &two, info);
    r->header_hash = r->header ? hash_first(&two) : 0;
    pass_first(r, &two);
    return err;
}

enum err records_skip_first(struct records *r, struct err_info *info)
{
    struct two two = {0};
    enum err err = reach_first(r, info);
    if (err == ERR_OK)
        err = take_two(r, &two, info);
    if (err == ERR_OK && r->header && hash_first(&two) != r->header_hash)
        err = err_set(info, ERR_CONFLICT, "%s has changed while it was read", r->bytes.feed.name);
    if (err == ERR_OK)
        pass_first(r, &two);
    return err;
}
