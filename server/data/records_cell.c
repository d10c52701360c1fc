/* What a cell says. */
#include "server/data/records_parts.h"

#include "server/data/table_decimal.h"

#include <math.h>
#include <string.h>
#include <strings.h>

size_t records_unquote(char *to, size_t room, const struct cell *cell)
{
    size_t size = 0;
    for (size_t i = 0; i < cell->size && size < room; i++) {
        char next = i + 1 < cell->size ? cell->text[i + 1] : '\0';
        bool escape = cell->backslash && cell->text[i] == '\\';
        if (cell->quote != 0 && next == cell->quote && (escape || cell->text[i] == cell->quote))
            i++;
        to[size++] = cell->text[i];
    }
    return size;
}

bool records_is_missing_number(const double *numbers, size_t count, double value)
{
    for (size_t i = 0; i < count; i++)
        if (numbers[i] == value)
            return true;
    return false;
}

static bool is_word(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

static bool is_missing(const char *text, size_t size, const struct missing *missing)
{
    static const char *const words[] = {"na", "nan", ".", "null", "n/a", "-nan"};
    const struct records_options *options = missing->options;
    if (size == 0)
        return true;
    for (size_t i = 0; size <= 4 && i < sizeof words / sizeof *words; i++)
        if (is_word(text, size, words[i]))
            return true;
    for (size_t i = 0; options != NULL && i < options->missing_count; i++)
        if (size == strlen(options->missing[i]) && memcmp(text, options->missing[i], size) == 0)
            return true;
    return false;
}

static bool is_logical(const char *text, size_t size, bool *value)
{
    static const char *const words[] = {"F", "FALSE", "false", "False",
                                        "T", "TRUE",  "true",  "True"};
    for (size_t i = 0; size <= 5 && i < sizeof words / sizeof *words; i++)
        if (size == strlen(words[i]) && memcmp(text, words[i], size) == 0) {
            *value = i >= 4;
            return true;
        }
    return false;
}

static size_t count(const char *text, size_t size, char c)
{
    size_t found = 0;
    for (size_t i = 0; i < size; i++)
        found += text[i] == c;
    return found;
}

/* Whether it has only digits and such other characters, and a digit. */
static bool has_only(const char *text, size_t size, const char *others)
{
    size_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (!digit && (text[i] == '\0' || strchr(others, text[i]) == NULL))
            return false;
        digits += digit;
    }
    return digits > 0;
}

/* 0x1f, 0x1.8p3 */
static bool is_hexadecimal(const char *text, size_t size)
{
    size_t digits = 0;
    if (size < 3 || text[0] != '0' || (text[1] | 0x20) != 'x')
        return false;
    for (size_t i = 2; i < size; i++) {
        if (text[i] == '\0' || strchr("0123456789abcdefABCDEF.pP+-", text[i]) == NULL)
            return false;
        digits += text[i] != '.';
    }
    return digits > 0;
}

/* Numbers that are not allowed as numbers. */
static bool is_odd(const char *text, size_t size, size_t commas, size_t points, enum fault *fault)
{
    size_t sign = *text == '-' || *text == '+';
    const char *rest = text + sign;
    size -= sign;
    if (is_word(rest, size, "inf") || is_word(rest, size, "infinity"))
        *fault = FAULT_INFINITE;
    else if (is_hexadecimal(rest, size))
        *fault = FAULT_HEX;
    else if ((commas > 1 || (commas == 1 && points > 0)) && has_only(rest, size, ".,"))
        *fault = FAULT_GROUPS;
    else if (size + sign > TABLE_CELL_MAX && commas + points <= 1 && has_only(rest, size, ".,eE+-"))
        *fault = FAULT_LONG_NUMBER;
    else
        return false;
    return true;
}

static bool may_be_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == ',' || c == 'i' ||
           c == 'I';
}

/* CLASS_NUMBER, CLASS_ODD or CLASS_TEXT. */
static enum cell_class see_number(struct seen *seen, const char *text, size_t size, char mark)
{
    char decimal[TABLE_CELL_MAX];
    const char *from = text;
    if (!may_be_number(*text))
        return CLASS_TEXT;
    size_t commas = count(text, size, ','), points = count(text, size, '.');
    if (commas == 1 && points == 0 && size <= TABLE_CELL_MAX) {
        memcpy(decimal, text, size);
        *(char *)memchr(decimal, ',', size) = '.';
        from = decimal;
    }
    seen->mark = commas > 0 ? ',' : points > 0 ? '.' : '\0';
    if (table_decimal(from, from + size, &seen->value) != from + size)
        return is_odd(text, size, commas, points, &seen->fault) ? CLASS_ODD : CLASS_TEXT;
    seen->fault = isfinite(seen->value) ? FAULT_MARK : FAULT_RANGE;
    bool wrong = mark != 0 && seen->mark != 0 && seen->mark != mark;
    return wrong || !isfinite(seen->value) ? CLASS_ODD : CLASS_NUMBER;
}

static enum cell_class see(struct seen *seen, const char *text, size_t size, char mark,
                           const struct missing *missing)
{
    bool value;
    if (is_missing(text, size, missing))
        return CLASS_MISSING;
    if (is_logical(text, size, &value))
        return value ? CLASS_TRUE : CLASS_FALSE;
    enum cell_class class = see_number(seen, text, size, mark);
    if (class == CLASS_NUMBER &&
        records_is_missing_number(missing->numbers, missing->number_count, seen->value))
        return CLASS_MISSING;
    return class;
}

void records_see(struct seen *seen, const struct cell *cell, char mark,
                 const struct missing *missing)
{
    const char *text = cell->text;
    size_t size = cell->size;
    seen->value = 0;
    seen->mark = 0;
    if (cell->escaped) {
        size = records_unquote(seen->copy, sizeof seen->copy, cell);
        text = seen->copy;
    }
    const char *from = text, *to = text + size;
    while (cell->quote != 0 && from < to && records_is_blank(*from, 0))
        from++;
    while (cell->quote != 0 && from < to && records_is_blank(to[-1], 0))
        to--;
    seen->class = see(seen, from, (size_t)(to - from), mark, missing);
    bool text_class = seen->class == CLASS_TEXT;
    seen->text = text_class ? text : from;
    seen->size = text_class ? size : (size_t)(to - from);
}
