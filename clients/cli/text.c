/* A growing string buffer, and UTF-8 for terminals. */
#include "clients/cli/text.h"
#include "clients/cli/exit.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static _Noreturn void out_of_memory(void)
{
    fputs("barker: out of memory\n", stderr);
    exit(EXIT_LOCAL);
}

void *mem_check(void *memory)
{
    if (!memory)
        out_of_memory();
    return memory;
}

void *mem_new(size_t count, size_t size)
{
    return mem_check(calloc(count ? count : 1, size));
}

char *mem_copy(const char *string)
{
    return string ? mem_check(strdup(string)) : NULL;
}

void text_release(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

void text_clear(struct text *text)
{
    text->size = 0;
    if (text->data)
        text->data[0] = '\0';
}

static void reserve(struct text *text, size_t more)
{
    if (more > SIZE_MAX / 4 || text->size > SIZE_MAX / 4)
        out_of_memory();
    size_t need = text->size + more + 1;
    if (need <= text->capacity)
        return;
    size_t capacity = text->capacity ? text->capacity : 64;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (!data)
        out_of_memory();
    text->data = data;
    text->capacity = capacity;
}

void text_add_bytes(struct text *text, const char *bytes, size_t size)
{
    reserve(text, size);
    if (size)
        memcpy(text->data + text->size, bytes, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_addf(struct text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0)
        out_of_memory();
    reserve(text, (size_t)size);
    vsnprintf(text->data + text->size, (size_t)size + 1, format, again);
    va_end(again);
    text->size += (size_t)size;
}

void text_fill(struct text *text, char c, size_t count)
{
    reserve(text, count);
    memset(text->data + text->size, c, count);
    text->size += count;
    text->data[text->size] = '\0';
}

const char *text_str(const struct text *text)
{
    return text->data ? text->data : "";
}

char *text_take(struct text *text)
{
    char *data = text->data ? text->data : mem_copy("");
    *text = (struct text){0};
    return data;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void text_add_encoded(struct text *text, const char *string)
{
    for (const char *c = string; *c; c++) {
        if (is_unreserved(*c))
            text_add_bytes(text, c, 1);
        else
            text_addf(text, "%%%02X", (unsigned)(unsigned char)*c);
    }
}

/* Decodes one character; returns its bytes, or 0 for what is not UTF-8 (overlong forms, surrogates
 * and numbers beyond Unicode included). */
static size_t decode(const char *string, uint32_t *code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)string;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    size_t size = s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
    if (!size || s[0] >= 0xf8)
        return 0;
    uint32_t value = s[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (s[i] & 0x3fu);
    }
    if (value < smallest[size] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code = value;
    return size;
}

/* wcwidth knows only characters of the locale; others are counted as one column. */
static size_t code_columns(uint32_t code)
{
    int columns = wcwidth((wchar_t)code);
    return columns < 0 ? 1 : (size_t)columns;
}

static size_t colour_bytes(const char *s)
{
    if (s[0] != '\033' || s[1] != '[')
        return 0;
    const char *end = strchr(s, 'm');
    return end ? (size_t)(end - s) + 1 : 0;
}

/* The next unit of a text: a colour sequence, a character, or one stray byte. */
static size_t next_unit(const char *s, size_t *columns)
{
    uint32_t code;
    size_t bytes = colour_bytes(s);
    *columns = 0;
    if (bytes)
        return bytes;
    bytes = decode(s, &code);
    *columns = bytes ? code_columns(code) : 1;
    return bytes ? bytes : 1;
}

size_t text_columns(const char *string)
{
    size_t total = 0, columns;
    for (const char *s = string; *s; total += columns)
        s += next_unit(s, &columns);
    return total;
}

void text_add_cut(struct text *text, const char *string, size_t columns, const char *ellipsis)
{
    if (text_columns(string) <= columns) {
        text_add(text, string);
        return;
    }
    size_t mark = text_columns(ellipsis), used = 0, width;
    bool marked = mark > columns;
    for (const char *s = string; *s;) {
        size_t bytes = next_unit(s, &width);
        if (colour_bytes(s)) { /* colour sequences are kept after the cut, so that a colour ends */
            text_add_bytes(text, s, bytes);
        } else if (!marked && used + width + mark <= columns) {
            text_add_bytes(text, s, bytes);
            used += width;
        } else if (!marked) {
            text_add(text, ellipsis);
            marked = true;
        }
        s += bytes;
    }
}

static bool steers_terminal(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029;
}

bool text_clean(char *string)
{
    char *out = string;
    bool changed = false;
    for (char *s = string; *s;) {
        uint32_t code = 0;
        size_t bytes = decode(s, &code);
        if (bytes && !steers_terminal(code)) {
            memmove(out, s, bytes);
            out += bytes;
        } else {
            bool is_space = *s == '\n' || *s == '\t' || *s == '\r';
            *out++ = is_space ? ' ' : '?';
            changed = true;
        }
        s += bytes ? bytes : 1;
    }
    *out = '\0';
    return changed;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t text_distance(const char *a, const char *b)
{
    enum { MAX = 32 };
    size_t n = strlen(a), m = strlen(b), d[MAX + 1][MAX + 1];
    if (n > MAX || m > MAX)
        return MAX;
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = smaller(smaller(d[i - 1][j], d[i][j - 1]) + 1,
                              d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = smaller(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}
