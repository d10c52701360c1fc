/* Events: what happened to jobs, numbered, in a ring; and the streams of server-sent events made
 * from it.
 *
 * Publishing is cheap and never waits for a reader. A reader whose next event is no longer in the
 * ring gets `event: reset` and continues with new events. */
#ifndef BARKER_SERVER_SCHED_EVENTS_H
#define BARKER_SERVER_SCHED_EVENTS_H

#include "server/store/store.h"

#include <sys/types.h>

/* Kinds of events, with their names in the stream. */
#define EVENT_LIST(X)                                                                  \
    X(job_state, "job.state")             /* state, name, priority or visibility */    \
    X(job_progress, "job.progress")       /* after a slice, and while it is planned */ \
    X(job_diagnostics, "job.diagnostics") /* its draws were measured */                \
    X(job_warning, "job.warning")         /* it cannot continue now */                 \
    X(queue_changed, "queue.changed")

enum event_kind {
#define X(kind, name) EVENT_##kind,
    EVENT_LIST(X)
#undef X
};

struct events;

/* `published` (may be NULL) is called after every event, outside the lock, with the job's key
 * (event_key; 0: none): it wakes streams and long polls. */
struct events *events_new(void (*published)(void *ctx, uint64_t key), void *ctx);
void events_free(struct events *events);

/* Number under which long polls for a job are parked; never 0. */
uint64_t event_key(const char *job);

/* data: JSON text without line breaks. owner NULL: every user may see it;
 * `lab`: so may the whole lab. */
void events_publish(struct events *events, enum event_kind kind, const char *job, const char *owner,
                    bool lab, const char *data);

/* The reader of a stream. */
struct event_reader {
    const char *viewer;          /* sees the events of this user and the lab's; NULL: all */
    const char *user, *token_id; /* for events_cut */
    const char *last_id;         /* the client's Last-Event-ID, or NULL */
};
/* *out is for event_stream_read and event_stream_close, which fit `struct stream` of
 * server/http/http.h. ERR_RATE when the viewer has too many streams. */
enum err event_stream_open(void **out, struct events *events, const struct event_reader *reader,
                           struct err_info *info);
/* Bytes written to `buffer`; 0: nothing now, call again after `published`; -1: the stream has
 * ended. One thread at a time per stream. */
ssize_t event_stream_read(void *stream, char *buffer, size_t size);
void event_stream_close(void *stream);

/* Ends the streams of a token, or of a user (the other is NULL): it was revoked, deleted or given
 * another role. */
void events_cut(struct events *events, const char *token_id, const char *user);

/* Ends all streams (shutdown). */
void events_close(struct events *events);
size_t events_streams(struct events *events);

#endif
