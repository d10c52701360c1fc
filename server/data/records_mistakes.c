/* Mistakes of a file, reported together. */
#include "server/data/records_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_MAX_BYTES = 320 }; /* of one mistake in a message */

static bool is_void(const struct records *r, const struct mistake *mistake)
{
    return records_fault_is_odd(mistake->fault) && r->columns[mistake->column].text;
}

/* Drops the mistakes of columns that have become text. */
static void clean(struct records *r)
{
    struct mistakes *m = &r->mistakes;
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!is_void(r, m->list + i))
            m->list[kept++] = m->list[i];
    m->count = kept;
}

enum err records_mistake(struct records *r, const struct mistake *mistake, const char *text,
                         size_t size, struct err_info *info)
{
    struct mistakes *m = &r->mistakes;
    bool odd = records_fault_is_odd(mistake->fault);
    size_t most = RECORDS_MISTAKES_KEPT - (odd ? RECORDS_MISTAKES_MAX : 0);
    uint64_t same = odd ? r->columns[mistake->column].odd++ : m->lasting++;
    if (same >= RECORDS_MISTAKES_MAX)
        return ERR_OK;
    if (m->count >= most)
        clean(r);
    if (m->count >= most)
        return ERR_OK;
    if (m->count == m->room) {
        size_t wanted = m->room > 0 ? 2 * m->room : RECORDS_MISTAKES_MAX;
        enum err err = records_grow(&r->bytes.input, (void **)&m->list, &m->room,
                                    wanted < RECORDS_MISTAKES_KEPT ? wanted : RECORDS_MISTAKES_KEPT,
                                    sizeof *m->list, info);
        if (err != ERR_OK)
            return err;
    }
    m->list[m->count] = *mistake;
    text_shown(m->list[m->count++].text, text, size);
    return ERR_OK;
}

static void print_cells(const struct records *r, char *to, size_t size, const struct mistake *m)
{
    size_t columns = r->shape.columns;
    char names[40] = "", separated[20];
    char c = r->shape.separator;
    snprintf(separated, sizeof separated, "%s",
             c == ','    ? "commas"
             : c == ';'  ? "semicolons"
             : c == '\t' ? "tabs"
                         : "blanks");
    if (r->shape.first > 0)
        snprintf(names, sizeof names, " (with its name)");
    snprintf(to, size, "has %" PRIu64 " cell%s instead of %zu%s, separated by %s", m->number,
             m->number == 1 ? "" : "s", columns, names, separated);
}

static void print_fault(const struct records *r, char *to, size_t size, const struct mistake *m)
{
    const char *text = m->text;
    bool comma = m->column != SIZE_MAX && r->columns[m->column].mark == ',';
    switch (m->fault) {
    case FAULT_MARK:
        snprintf(to, size, "\"%s\" has a decimal %s where a %s is expected", text,
                 comma ? "point" : "comma", comma ? "comma" : "point");
        return;
    case FAULT_GROUPS:
        snprintf(to, size, "\"%s\" is not a number: separators of thousands are not read", text);
        return;
    case FAULT_INFINITE:
        snprintf(to, size, "\"%s\" is not finite", text);
        return;
    case FAULT_HEX:
        snprintf(to, size, "\"%s\" is hexadecimal; write decimal numbers", text);
        return;
    case FAULT_RANGE:
        snprintf(to, size, "\"%s\" is beyond the range of a double", text);
        return;
    case FAULT_LONG_NUMBER:
        snprintf(to, size, "\"%s\" is longer than the %zu bytes of a number", text, TABLE_CELL_MAX);
        return;
    case FAULT_CELLS:
        print_cells(r, to, size, m);
        return;
    case FAULT_OPEN:
        snprintf(to, size, "its quote is not closed");
        return;
    case FAULT_TRAILED:
        snprintf(to, size, "there is text after the closing quote of \"%s\"", text);
        return;
    case FAULT_ENCODING:
        snprintf(to, size, "\"%s\" is not UTF-8", text);
        return;
    case FAULT_NUL:
        snprintf(to, size, "\"%s\" has a NUL byte", text);
        return;
    case FAULT_LONG_TEXT:
        snprintf(to, size, "\"%s\" is longer than the %zu bytes of a level", text,
                 RECORDS_LEVEL_MAX);
        return;
    case FAULT_LEVELS:
        snprintf(to, size, "a column of text has at most %zu different ones; this is another",
                 RECORDS_LEVELS_MAX);
        return;
    case FAULT_LEVEL_BYTES:
        snprintf(to, size, "the different texts of all columns have more than %zu bytes",
                 RECORDS_LEVEL_BYTES_MAX);
        return;
    case FAULT_LONG_LINE:
        snprintf(to, size, "is longer than %zu bytes; a quote may not be closed", TABLE_LINE_MAX);
        return;
    case FAULT_TWO_MARKS:
        snprintf(to, size,
                 "a decimal point where other columns have decimal commas; separators of thousands "
                 "are not read");
        return;
    }
}

static void print_mistake(const struct records *r, char *to, size_t size, const struct mistake *m)
{
    char fault[200], shown[TEXT_SHOWN_MAX];
    print_fault(r, fault, sizeof fault, m);
    if (m->column == SIZE_MAX) {
        snprintf(to, size, "line %" PRIu64 " %s", m->line, fault);
    } else if (m->column < r->shape.first || !r->header) {
        snprintf(to, size, "line %" PRIu64 ", column %zu: %s", m->line, m->column + 1, fault);
    } else {
        const char *name = r->names[m->column - r->shape.first];
        snprintf(to, size, "line %" PRIu64 ", column %zu (%s): %s", m->line, m->column + 1,
                 text_shown(shown, name, strlen(name)), fault);
    }
}

/* As many mistakes as fit, and how many there are more; one at least, cut if it must be. */
static void print_all(const struct records *r, uint64_t total, char *to, size_t size)
{
    size_t length = 0;
    uint64_t printed = 0;
    for (size_t i = 0; i < r->mistakes.count && printed < RECORDS_MISTAKES_MAX; i++) {
        char line[LINE_MAX_BYTES];
        if (is_void(r, r->mistakes.list + i))
            continue;
        print_mistake(r, line, sizeof line, r->mistakes.list + i);
        size_t rest = printed + 1 < total ? sizeof "\nand 18446744073709551615 more" : 1;
        if (printed > 0 && length + 1 + strlen(line) + rest > size)
            break;
        length +=
            (size_t)snprintf(to + length, size - length, "%s%s", printed > 0 ? "\n" : "", line);
        length = length < size ? length : size - 1;
        printed++;
    }
    if (printed < total)
        snprintf(to + length, size - length, "%sand %" PRIu64 " more", printed > 0 ? "\n" : "",
                 total - printed);
}

enum err records_report(struct records *r, struct err_info *info)
{
    struct mistakes *m = &r->mistakes;
    size_t size = (size_t)(RECORDS_MISTAKES_MAX + 1) * LINE_MAX_BYTES;
    uint64_t total = m->lasting;
    char message[sizeof info->message];
    for (size_t i = 0; i < r->shape.columns; i++)
        if (!r->columns[i].text)
            total += r->columns[i].odd;
    if (total == 0)
        return ERR_OK;
    enum err err = records_grow(&r->bytes.input, (void **)&m->text, &m->text_room, size, 1, info);
    if (err != ERR_OK)
        return err;
    const char *name = r->bytes.feed.name;
    size_t prefix = strlen(name) + 2;
    print_all(r, total, m->text, size);
    print_all(r, total, message,
              prefix < sizeof message / 2 ? sizeof message - prefix : sizeof message / 2);
    return err_set(info, ERR_MALFORMED, "%s: %s", name, message);
}
