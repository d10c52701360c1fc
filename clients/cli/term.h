/* Terminal: size, colours, and an area that is redrawn in place.
 *
 * Colours and live areas exist only on a terminal; in a pipe the same calls give plain text. */
#ifndef BARKER_CLI_TERM_H
#define BARKER_CLI_TERM_H

#include "clients/cli/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define STYLE_LIST(X)   \
    X(PLAIN, "")        \
    X(HEAD, "\033[1m")  \
    X(DIM, "\033[2m")   \
    X(GOOD, "\033[32m") \
    X(WARN, "\033[33m") \
    X(BAD, "\033[31m")  \
    X(BUSY, "\033[36m")

enum style {
#define X(name, code) STYLE_##name,
    STYLE_LIST(X)
#undef X
};

/* Reads the locale's character set and NO_COLOR; once, before anything is printed. */
void term_init(void);
void term_no_color(void);
bool term_utf8(void);
const char *term_ellipsis(void);

bool term_is_terminal(FILE *file);
/* Whether the other end of a pipe is closed (`| head`). */
bool term_reader_left(FILE *file);
/* Columns and rows; a pipe has no limits (columns SIZE_MAX, rows 0). */
size_t term_columns(FILE *file);
size_t term_rows(FILE *file);

/* The sequence that starts a style, or "" where `file` has no colours. */
const char *term_style(FILE *file, enum style style);
/* The sequence that ends every style, or "". */
const char *term_plain(FILE *file);
void term_add(struct text *out, FILE *file, enum style style, const char *string);

/* A bar of `columns` columns: `done` of 1, in one of two styles. */
void term_bar(struct text *out, FILE *file, double done, size_t columns, enum style style);

/* An area of lines redrawn in place. Zero-initialised: nothing drawn yet. */
struct live {
    size_t lines;
};
/* Replaces what was drawn before by `frame` (lines that end in \n and fit the width). */
void live_draw(struct live *live, FILE *file, const char *frame);
/* Keeps the last frame and shows the cursor again. */
void live_end(struct live *live, FILE *file);
/* Shows the cursor if it is hidden. Safe in a signal handler. */
void term_restore(void);

#endif
