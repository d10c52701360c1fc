/* Text from outside, made fit for a message: one line of valid UTF-8 of bounded length.
 *
 *     char buffer[QUOTED_MAX];
 *     err_set(info, ERR_INVALID, "\"%s\" is not a number", quoted(buffer, text, size)); */
#ifndef BARKER_SERVER_BASE_QUOTED_H
#define BARKER_SERVER_BASE_QUOTED_H

#include <stddef.h>

#define QUOTED_MAX 48

/* Copies `text` with quotes and backslashes escaped by a backslash, control characters and invalid
 * bytes as \xHH, cut to 40 bytes and then "...". Returns `out`. */
const char *quoted(char out[QUOTED_MAX], const char *text, size_t size);

/* The bytes of the character that starts `text` (size > 0); 0 if it is no valid UTF-8 (overlong, a
 * surrogate, cut off) or a control character. */
size_t quoted_character(const char *text, size_t size);

#endif
