/* Log lines: one per event, whatever a client put into the values. */
#include "server/base/log.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What was written to standard error while it pointed into a file of our own. */
struct capture {
    int file, saved;
    char *text;
    size_t size;
};

static void capture_begin(struct capture *c)
{
    char name[] = "/tmp/barker-log-XXXXXX";
    c->file = mkstemp(name);
    cr_assert_geq(c->file, 0);
    unlink(name);
    c->saved = dup(STDERR_FILENO);
    fcntl(c->file, F_SETFL, O_APPEND);
    dup2(c->file, STDERR_FILENO);
}

static void capture_end(struct capture *c)
{
    dup2(c->saved, STDERR_FILENO);
    close(c->saved);
    c->size = (size_t)lseek(c->file, 0, SEEK_END);
    c->text = calloc(c->size + 1, 1);
    cr_assert_not_null(c->text);
    cr_assert_eq(pread(c->file, c->text, c->size, 0), (ssize_t)c->size);
    close(c->file);
}

static size_t count(const char *text, char c)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == c;
    return n;
}

/* Takes a logfmt value at *at apart, undoing the escapes; false when it has not the shape of one.
 */
static bool take_value(const char **at, char *out, size_t size)
{
    const char *p = *at;
    size_t n = 0;
    bool quoted = *p == '"';
    for (p += quoted; *p != '\0' && (quoted ? *p != '"' : *p != ' ' && *p != '\n'); p++) {
        unsigned c = (unsigned char)*p;
        if (c < ' ' || c == 0x7f || (!quoted && (c == '"' || c == '=' || c == '\\')))
            return false;
        if (c == '\\' && p[1] == 'u') {
            if (sscanf(p + 2, "%4x", &c) != 1)
                return false;
            p += 5;
        } else if (c == '\\') {
            static const char letters[] = "bfnrt";
            const char *letter = strchr(letters, *++p);
            c = (unsigned char)(letter != NULL ? "\b\f\n\r\t"[letter - letters] : *p);
        }
        if (n + 1 < size)
            out[n++] = (char)c;
    }
    out[n] = '\0';
    *at = p + quoted;
    return !quoted || *p == '"';
}

struct pair {
    char key[32], value[2048];
};

/* All key=value pairs of one line; their number, or 0 when the line is not well formed. */
static size_t take_line(const char *line, struct pair *pairs, size_t most)
{
    size_t n = 0;
    while (n < most && isalpha((unsigned char)*line)) {
        size_t length = strcspn(line, "= \n");
        if (line[length] != '=' || length >= sizeof pairs[n].key)
            return 0;
        snprintf(pairs[n].key, sizeof pairs[n].key, "%.*s", (int)length, line);
        line += length + 1;
        if (!take_value(&line, pairs[n].value, sizeof pairs[n].value))
            return 0;
        n++;
        if (*line == ' ')
            line++;
    }
    return strcmp(line, "\n") == 0 ? n : 0;
}

static size_t log_one(const char *value, struct pair *pairs, size_t most)
{
    struct capture c;
    capture_begin(&c);
    log_event(LOG_WARN, "request", "path", value, "status", "404", NULL);
    capture_end(&c);
    cr_expect_eq(count(c.text, '\n'), 1, "%s", c.text);
    size_t n = take_line(c.text, pairs, most);
    cr_expect_gt(n, 0, "not a log line: %s", c.text);
    free(c.text);
    return n;
}

/* time, level, event, then ours; the value comes back as it was given and the pair behind it is
 * still there. */
static void expect_value(const char *value)
{
    static const char *const keys[] = {"time", "level", "event", "path", "status"};
    struct pair pairs[8];
    cr_assert_eq(log_one(value, pairs, 8), 5, "\"%s\"", value);
    for (size_t i = 0; i < 5; i++)
        cr_expect_str_eq(pairs[i].key, keys[i]);
    cr_expect_str_eq(pairs[1].value, "warn");
    cr_expect_str_eq(pairs[2].value, "request");
    cr_expect_str_eq(pairs[3].value, value);
    cr_expect_str_eq(pairs[4].value, "404");
}

Test(log, values_come_back_as_they_were_given)
{
    static const char *const values[] = {
        "/v1/jobs",
        "",
        " ",
        "two words",
        "a=b",
        "ends in a backslash \\",
        "\\",
        "\\\\\"",
        "she said \"no\"",
        "caf\xc3\xa9 \xe2\x82\xac",
        "-",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        expect_value(values[i]);
}

Test(log, nothing_that_a_client_sends_forges_a_line_or_a_pair)
{
    static const char *const attacks[] = {
        "x\ntime=2026-01-01T00:00:00.000Z level=info event=login user=admin",
        "x\r\ntime=2026-01-01T00:00:00.000Z level=info event=login",
        "x\" status=200 user=\"admin",
        "x status=200",
        "x\\\" status=200 user=\\\"admin",
        "\x1b[2J\x1b[31mred\x1b]0;title\x07",
        "tab\there",
        "bell\a\b\f\v",
        "\x7f\x01",
    };
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++)
        expect_value(attacks[i]);
}

Test(log, every_byte_of_the_control_range_is_escaped)
{
    for (int byte = 1; byte < 256; byte++) {
        char value[4] = {'a', (char)byte, 'b', '\0'};
        if (byte < 0x80)
            expect_value(value);
        else
            cr_expect_eq(log_one(value, (struct pair[8]){{"", ""}}, 8), 5, "byte %d", byte);
    }
}

Test(log, the_event_itself_is_escaped_too)
{
    struct capture c;
    struct pair pairs[8];
    capture_begin(&c);
    log_event(LOG_ERROR, "two\nlines", NULL);
    capture_end(&c);
    cr_expect_eq(take_line(c.text, pairs, 8), 3, "%s", c.text);
    cr_expect_str_eq(pairs[2].value, "two\nlines");
    free(c.text);
}

Test(log, a_missing_value_is_a_dash)
{
    struct pair pairs[8];
    cr_assert_eq(log_one(NULL, pairs, 8), 5);
    cr_expect_str_eq(pairs[3].value, "-");
}

/* However long the value, there is one line, it ends, and it is not endless. */
Test(log, long_values_are_cut_within_the_line)
{
    static const char fill[] = {'a', '"', '\n', '\\', '\x01'};
    for (size_t f = 0; f < sizeof fill; f++)
        for (size_t length = 1900; length < 2100; length += 1) {
            char value[4096] = {0};
            struct capture c;
            memset(value, fill[f], length);
            capture_begin(&c);
            log_event(LOG_INFO, "request", "path", value, "status", "404", NULL);
            capture_end(&c);
            cr_assert_eq(count(c.text, '\n'), 1, "length %zu", length);
            cr_assert_leq(c.size, 2048);
            cr_assert_eq(c.text[c.size - 1], '\n');
            free(c.text);
        }
}

Test(log, the_time_is_rfc_3339_in_utc)
{
    struct pair pairs[8];
    int year, month, day, hour, minute, second, ms, end = 0;
    log_one("x", pairs, 8);
    int got = sscanf(pairs[0].value, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &year, &month, &day, &hour,
                     &minute, &second, &ms, &end);
    cr_expect(got == 7 && pairs[0].value[end] == '\0', "%s", pairs[0].value);
}

Test(log, only_levels_up_to_the_threshold_are_written)
{
    static const enum log_level levels[] = {LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG};
    for (size_t limit = 0; limit < 4; limit++) {
        struct capture c;
        log_threshold(levels[limit]);
        capture_begin(&c);
        for (size_t i = 0; i < 4; i++)
            log_event(levels[i], "something", NULL);
        capture_end(&c);
        cr_expect_eq(count(c.text, '\n'), limit + 1, "limit %zu: %s", limit, c.text);
        free(c.text);
    }
}

Test(log, debug_is_not_written_at_first)
{
    struct capture c;
    capture_begin(&c);
    log_event(LOG_DEBUG, "detail", NULL);
    log_event(LOG_INFO, "something", NULL);
    capture_end(&c);
    cr_expect_null(strstr(c.text, "detail"));
    cr_expect_not_null(strstr(c.text, "level=info event=something"));
    free(c.text);
}

static void *chatter(void *name)
{
    for (int i = 0; i < 300; i++)
        log_event(LOG_INFO, "tick", "who", name, "text", "a longer value, with blanks", NULL);
    return NULL;
}

Test(log, lines_of_several_threads_do_not_mix)
{
    static char names[4][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    struct capture c;
    size_t lines = 0;
    capture_begin(&c);
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, chatter, names[i]), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    capture_end(&c);
    for (char *at = c.text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, lines++) {
        struct pair pairs[8];
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)(end - at + 1), at);
        cr_assert_eq(take_line(line, pairs, 8), 5, "%s", line);
    }
    cr_expect_eq(lines, 4 * 300);
    free(c.text);
}
