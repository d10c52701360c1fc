/* Events: what happened to jobs, numbered, in a ring; and the stream of server-sent events made
 * from it.
 *
 * Publishing is cheap and never waits for a reader. A reader that falls out of the ring, or comes
 * back with a number that the ring no longer has, gets `event: reset` and goes on from now. */
#ifndef BARKER_SERVER_SCHED_EVENTS_H
#define BARKER_SERVER_SCHED_EVENTS_H

#include "server/http/http.h"
#include "server/store/store.h"

struct events;

/* `published` (may be NULL) is called after every event, outside the lock, with the job's key
 * (event_key; 0: none): it wakes streams and long polls. */
struct events *events_new(void (*published)(void *ctx, uint64_t key), void *ctx);
void events_free(struct events *events);

/* Number under which long polls for a job are parked; never 0. */
uint64_t event_key(const char *job);

/* type: "job.state" ...; data: JSON text without line breaks. owner NULL: everybody may see it;
 * `lab`: so may the whole lab. */
void events_publish(struct events *events, const char *type, const char *job, const char *owner,
                    bool lab, const char *data);

/* Fills reply with a stream for this viewer (NULL: sees all). last_id: the client's Last-Event-ID
 * or NULL. ERR_RATE when the viewer has too many streams. */
enum err events_stream(struct events *events, const char *viewer, const char *last_id,
                       struct reply *reply, struct err_info *info);

/* Whose stream it is, for events_cut: right after events_stream. */
void events_signed(struct reply *reply, const char *user, const char *token_id);
/* Ends the streams of a token, or of a user (the other is NULL): it was revoked, deleted or given
 * another role. */
void events_cut(struct events *events, const char *token_id, const char *user);

/* Ends all streams (shutdown). */
void events_close(struct events *events);
size_t events_streams(struct events *events);

#endif
