/* Structured log lines. */
#include "server/base/log.h"
#include "server/base/clock.h"
#include "server/base/text.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 2048

static _Atomic int threshold = LOG_INFO;

void log_threshold(enum log_level level)
{
    atomic_store(&threshold, (int)level);
}

struct line {
    char text[LINE_SIZE];
    size_t used;
};

static void put(struct line *line, char c)
{
    if (line->used < LINE_SIZE - 2) /* room for the newline */
        line->text[line->used++] = c;
}

static void put_text(struct line *line, const char *text)
{
    while (*text != '\0')
        put(line, *text++);
}

static int plain(const char *value)
{
    if (*value == '\0')
        return 0;
    for (const char *p = value; *p != '\0'; p++)
        if (*p <= ' ' || *p == '"' || *p == '=' || *p == '\\' || *p >= 0x7f)
            return 0;
    return 1;
}

static void put_value(struct line *line, const char *value)
{
    if (plain(value) || line->used + 3 > LINE_SIZE) {
        put_text(line, value);
        return;
    }
    char *end =
        text_json(line->text + line->used, line->text + LINE_SIZE - 1, value, strlen(value));
    line->used = (size_t)(end - line->text);
}

void log_event(enum log_level level, const char *event, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if ((int)level > atomic_load(&threshold))
        return;
    struct line line; /* large: not cleared */
    line.used = 0;
    char now[CLOCK_TEXT_SIZE];
    clock_text(clock_wall_ms(), now);
    put_text(&line, "time=");
    put_text(&line, now);
    put_text(&line, " level=");
    put_text(&line, names[level]);
    put_text(&line, " event=");
    put_value(&line, event);
    va_list args;
    va_start(args, event);
    for (const char *key = va_arg(args, const char *); key != NULL;
         key = va_arg(args, const char *)) {
        const char *value = va_arg(args, const char *);
        put(&line, ' ');
        put_text(&line, key);
        put(&line, '=');
        put_value(&line, value != NULL ? value : "-");
    }
    va_end(args);
    line.text[line.used++] = '\n';
    /* One write per line: lines of several threads do not mix. Nothing to do if it fails. */
    ssize_t written = write(STDERR_FILENO, line.text, line.used);
    (void)written;
}
