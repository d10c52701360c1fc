/* Text: a growing string buffer, and UTF-8 for terminals.
 *
 * Out of memory ends the program with a message.
 * Colour sequences (ESC [ ... m) are allowed in any text here and count as no column. */
#ifndef BARKER_CLI_TEXT_H
#define BARKER_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised: an empty buffer. */
struct text {
    char *data;
    size_t size, capacity;
};

void text_release(struct text *text);
void text_clear(struct text *text);
void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *bytes, size_t size);
void text_addf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_fill(struct text *text, char c, size_t count);
/* The content, NUL-terminated, never NULL; valid until the next change. */
const char *text_str(const struct text *text);
/* Takes the content out: the caller frees it. */
char *text_take(struct text *text);

/* Percent-encodes everything but RFC 3986's unreserved characters. */
void text_add_encoded(struct text *text, const char *string);

/* Columns on a terminal. */
size_t text_columns(const char *string);
/* Adds at most `columns` columns of the string; longer text ends in `ellipsis`. */
void text_add_cut(struct text *text, const char *string, size_t columns, const char *ellipsis);

/* Replaces in place what could control a terminal (control characters, bidirectional overrides) or
 * is not UTF-8 by '?', and line breaks and tabs by spaces. Returns whether anything changed. */
bool text_clean(char *string);

/* The smallest number of single-character changes (swaps included) from one word to the other. */
size_t text_distance(const char *a, const char *b);

void *mem_new(size_t count, size_t size); /* zeroed, never NULL */
char *mem_copy(const char *string);       /* NULL gives NULL */
void *mem_check(void *memory);            /* returns its argument; ends the program if it is NULL */

#endif
