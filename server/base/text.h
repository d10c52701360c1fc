/* Text from outside: valid UTF-8 or not, fit for a message, as a JSON string.
 *
 *     char buffer[TEXT_SHOWN_MAX];
 *     err_set(info, ERR_INVALID, "\"%s\" is not a number", text_shown(buffer, text, size)); */
#ifndef BARKER_SERVER_BASE_TEXT_H
#define BARKER_SERVER_BASE_TEXT_H

#include <stddef.h>

/* The bytes of the UTF-8 character that starts `text` (size > 0); 0 if there is none: overlong, a
 * surrogate, beyond U+10FFFF, cut off. */
size_t text_character(const char *text, size_t size);
/* The same, but 0 for a control character too (U+0000 to U+001F, U+007F to U+009F). */
size_t text_printable(const char *text, size_t size);

/* Takes an incomplete character off the end of a text that was cut to fit. */
void text_trim(char *text);
/* Replaces bytes that are no part of a UTF-8 character by '?'. */
void text_repair(char *text);

#define TEXT_SHOWN_MAX 48
/* Copies `text` as one line of valid UTF-8: quotes and backslashes escaped by a backslash, control
 * characters and invalid bytes as \xHH, cut to 40 bytes and then "...". Returns `out`. */
const char *text_shown(char out[TEXT_SHOWN_MAX], const char *text, size_t size);

/* Writes `text` as a JSON string, quotes included, to [to, end), which has at least 2 bytes; cut
 * between characters where it does not fit, which 6 * size + 2 bytes always do. U+FFFD stands for
 * every invalid byte. Returns the end of what was written; no NUL. */
char *text_json(char *to, const char *end, const char *text, size_t size);

#endif
