/* Terminal: size, colours, and an area that is redrawn in place. */
#include "clients/cli/term.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const codes[] = {
#define X(name, code) code,
    STYLE_LIST(X)
#undef X
};

static bool utf8, colours;
static volatile sig_atomic_t hidden_on = -1; /* descriptor of the terminal whose cursor is hidden */

void term_init(void)
{
    /* LC_CTYPE only: numbers keep the decimal point. */
    setlocale(LC_CTYPE, "");
    utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");
    colours = !(none && *none) && !(kind && strcmp(kind, "dumb") == 0);
    atexit(term_restore);
}

void term_no_color(void)
{
    colours = false;
}

bool term_utf8(void)
{
    return utf8;
}

const char *term_ellipsis(void)
{
    return utf8 ? "\u2026" : "~";
}

bool term_is_terminal(FILE *file)
{
    return isatty(fileno(file)) == 1;
}

bool term_reader_left(FILE *file)
{
    struct pollfd end = {.fd = fileno(file), .events = POLLOUT};
    return poll(&end, 1, 0) > 0 && (end.revents & POLLERR);
}

static size_t window(FILE *file, bool columns)
{
    struct winsize size = {0};
    const char *fallback = getenv(columns ? "COLUMNS" : "LINES");
    if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && (columns ? size.ws_col : size.ws_row) > 0)
        return columns ? size.ws_col : size.ws_row;
    long value = fallback ? strtol(fallback, NULL, 10) : 0;
    return value > 0 ? (size_t)value : columns ? 80 : 24;
}

size_t term_columns(FILE *file)
{
    return term_is_terminal(file) ? window(file, true) : SIZE_MAX;
}

size_t term_rows(FILE *file)
{
    return term_is_terminal(file) ? window(file, false) : 0;
}

const char *term_style(FILE *file, enum style style)
{
    return colours && term_is_terminal(file) ? codes[style] : "";
}

const char *term_plain(FILE *file)
{
    return colours && term_is_terminal(file) ? "\033[0m" : "";
}

void term_add(struct text *out, FILE *file, enum style style, const char *string)
{
    const char *start = term_style(file, style);
    text_add(out, start);
    text_add(out, string);
    if (*start)
        text_add(out, term_plain(file));
}

static void repeat(struct text *out, const char *string, size_t count)
{
    while (count--)
        text_add(out, string);
}

void term_bar(struct text *out, FILE *file, double done, size_t columns, enum style style)
{
    done = isfinite(done) ? fmin(fmax(done, 0), 1) : 0;
    size_t full = (size_t)(done * (double)columns + 1e-9);
    text_add(out, term_style(file, style));
    repeat(out, utf8 ? "\u2501" : "#", full);
    text_add(out, term_plain(file));
    text_add(out, term_style(file, STYLE_DIM));
    /* Without colours the rest needs another character. */
    repeat(out, utf8 ? "\u2500" : ".", columns - full);
    text_add(out, term_plain(file));
}

static void put(FILE *file, const char *string, size_t size)
{
    while (size) {
        ssize_t wrote = write(fileno(file), string, size);
        if (wrote <= 0)
            return;
        string += wrote;
        size -= (size_t)wrote;
    }
}

/* The frame is written at once, and each line overwrites the old one and clears its own rest, so
 * that the screen does not flicker. */
void live_draw(struct live *live, FILE *file, const char *frame)
{
    struct text out = {0};
    size_t lines = 0;
    text_add(&out, "\033[?25l");
    if (live->lines)
        text_addf(&out, "\r\033[%zuA", live->lines);
    for (const char *line = frame; *line; lines++) {
        const char *end = strchr(line, '\n');
        size_t size = end ? (size_t)(end - line) : strlen(line);
        text_add_bytes(&out, line, size);
        text_add(&out, "\033[K\r\n");
        line += size + (end ? 1 : 0);
    }
    text_add(&out, "\033[J");
    fflush(file);
    hidden_on = fileno(file);
    put(file, text_str(&out), out.size);
    live->lines = lines;
    text_release(&out);
}

void live_end(struct live *live, FILE *file)
{
    static const char rest[] = "\r\033[K"; /* the terminal may have echoed ^C */
    if (live->lines)
        put(file, rest, sizeof rest - 1);
    term_restore();
    live->lines = 0;
}

void term_restore(void)
{
    static const char show[] = "\033[?25h";
    if (hidden_on < 0)
        return;
    if (write(hidden_on, show, sizeof show - 1) < 0)
        return;
    hidden_on = -1;
}
