/* A client of a stream of events. */
#ifndef BARKER_TESTS_EVENTS_FIXTURE_H
#define BARKER_TESTS_EVENTS_FIXTURE_H

#include "server/sched/events.h"
#include "tests/support/clock_shift.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING  4096
#define HELLO ":ok\nretry: 3000\n\n"
#define JOB   "01hq3m8x7k5n2p9r"

extern struct events *events;

/* ---- a client ---- */

struct client {
    void *stream;
    char *text; /* of the last read */
    size_t size, room;
    bool ended;
};

static inline enum err try_open(struct client *c, const char *viewer, const char *last_id)
{
    struct err_info info = {0};
    *c = (struct client){.size = 0};
    struct event_reader reader = {.viewer = viewer, .user = "", .token_id = "", .last_id = last_id};
    return event_stream_open(&c->stream, events, &reader, &info);
}

static inline void open_stream(struct client *c, const char *viewer, const char *last_id)
{
    cr_assert_eq(try_open(c, viewer, last_id), ERR_OK);
}

static inline void close_stream(struct client *c)
{
    event_stream_close(c->stream);
    free(c->text);
}

static inline void make_room(struct client *c, size_t more)
{
    if (c->size + more < c->room)
        return;
    c->room = 2 * (c->size + more);
    c->text = realloc(c->text, c->room);
    cr_assert_not_null(c->text);
}

/* What comes until there is nothing more, in pieces of at most `piece` bytes, in place of what was
 * read before. */
static inline const char *read_pieces(struct client *c, size_t piece)
{
    ssize_t got;
    c->size = 0;
    do {
        make_room(c, piece);
        got = event_stream_read(c->stream, c->text + c->size, piece);
        c->size += got > 0 ? (size_t)got : 0;
        cr_assert_lt(c->size, (size_t)1 << 24, "the stream has no end");
    } while (got > 0);
    c->ended = got == -1;
    c->text[c->size] = '\0';
    return c->text;
}

static inline const char *read_all(struct client *c)
{
    return read_pieces(c, 500);
}

/* Past the greeting. */
static inline void open_greeted(struct client *c, const char *viewer, const char *last_id)
{
    char hello[sizeof HELLO];
    open_stream(c, viewer, last_id);
    ssize_t got = event_stream_read(c->stream, hello, sizeof HELLO - 1);
    cr_assert_eq(got, (ssize_t)sizeof HELLO - 1);
}

static inline void publish(const char *data)
{
    events_publish(events, EVENT_job_progress, JOB, NULL, false, data);
}

/* The number of the first event in a text. */
static inline uint64_t id_in(const char *text)
{
    const char *at = strstr(text, "id: ");
    cr_assert_not_null(at, "no id in \"%s\"", text);
    return strtoull(at + 4, NULL, 10);
}

static inline size_t occurrences(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* Publishes one event and takes it back: its number. */
static inline uint64_t last_id(void)
{
    struct client c;
    open_greeted(&c, NULL, NULL);
    publish("{}");
    uint64_t id = id_in(read_all(&c));
    close_stream(&c);
    return id;
}

#endif
