/* Requests that wait while their connection is suspended: for a thread of the request pool, for a
 * wake-up by key (long polls), or for more bytes of their stream.
 *
 * One lock guards all of it and is never held while a request runs. Suspending, and the decision
 * that there is still something to wait for, happen under that lock; therefore
 *   - no wake-up is lost: a request that is about to wait passes the number of the last wake-up
 *     (wait_room_seq) from before it read the state, and reads it again if there was another since;
 *   - no connection is suspended after wait_room_close, and libmicrohttpd, which aborts when stopped
 *     with suspended connections, can then be stopped.
 * A waiting client that closes its connection is noticed within a second or so by wait_room_tick;
 * libmicrohttpd itself does not watch suspended connections.
 *
 * Requests belong to groups, by a number that the application chose (the user, say). One group does
 * not keep the others waiting: groups with queued requests take turns, a group runs on at most
 * group_threads threads at a time, and what it may queue, park and upload at a time is bounded.
 *
 * A thread that is to work for long (base/background.h) gives its seat in the pool to a new one, and
 * ends with its request.
 *
 * Lock order: this lock, then the library's own. */
#ifndef BARKER_SERVER_HTTP_WAIT_H
#define BARKER_SERVER_HTTP_WAIT_H

#include "core/base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wait_end { WAIT_WOKEN, WAIT_TIMED_OUT, WAIT_GONE };

/* One per request, in the caller's storage. `fd`, `group` and `pooled` are set by the owner before
 * it waits; `end` is the reason for which the last wait ended, for the functions that are called
 * then. */
struct waiter {
    struct waiter *prev, *next;
    uint64_t group; /* whose request it is: struct admission */
    struct wait_group
        *joined; /* its group, once it has waited or was counted; until wait_room_leave */
    uint64_t key, until_ms;
    int fd;
    bool uploads; /* counted among the uploads of its group */
    bool pooled;  /* a parked request that goes on in the pool and not on its HTTP thread */
    enum wait_end end;
};

enum wait_outcome {
    WAIT_BEGUN,  /* waits: the caller must not touch the request any more */
    WAIT_AGAIN,  /* something happened meanwhile: read the state again */
    WAIT_REFUSED /* no room, or the daemon is shutting down: answer with the present state */
};

struct wait_room_config {
    uint32_t pool_threads, queue_limit, max_parked, max_waiting, heartbeat_ms;
    uint32_t group_threads, group_queue, group_parked, group_uploads; /* of one group */
    /* Called with the lock held. */
    void (*suspend)(struct waiter *waiter);
    void (*resume)(struct waiter *waiter);
    /* Called on a pool thread without the lock; must end with wait_room_finish or WAIT_BEGUN. */
    void (*run)(struct waiter *waiter);
};

#define WAIT_BUCKETS 256

/* Counts of the requests of one group. It exists as long as one of them. */
struct wait_group {
    struct wait_group *prev, *next; /* in the round of groups with queued requests */
    struct wait_group *same_bucket;
    uint64_t key;
    size_t members; /* requests that point here, and threads that run one */
    struct waiter queue;
    size_t queued, running, parked, uploads;
};

struct wait_room {
    struct wait_room_config config;
    pthread_mutex_t lock;
    pthread_cond_t work; /* the queue has something, or the room is closed */
    pthread_cond_t idle; /* `suspended` or `leaving` became 0 */
    struct waiter streams, resting, parked[WAIT_BUCKETS];
    struct wait_group round, *groups[WAIT_BUCKETS];
    uint64_t woken[WAIT_BUCKETS]; /* the number of the last wake-up of a key in this bucket */
    _Atomic uint64_t seq;         /* wake-ups so far */
    uint64_t streams_woken;       /* the number of the last one for streams */
    size_t queued, parked_count, streams_waiting;
    size_t suspended; /* every suspended connection: queued, running, parked, streaming */
    bool draining, closed;
    uint64_t next_poll_ms;
    struct pollfd *poll; /* max_waiting of each: waiting connections, to detect closed ones */
    struct waiter **polled;
    size_t thread_count;
    pthread_t *threads; /* by seat */
    size_t leaving;     /* threads that have given their seat away */
    bool any_left;
    pthread_t left; /* the last of them that has ended; it waits for the one before */
};

enum err wait_room_init(struct wait_room *room, const struct wait_room_config *config,
                        struct err_info *info);
/* After wait_room_close has returned true. */
void wait_room_release(struct wait_room *room);

/* Read it before checking whether the request must wait. */
uint64_t wait_room_seq(struct wait_room *room);

/* Counts an upload that begins; false when its group has reached its limit. Ends with
 * wait_room_leave. */
bool wait_room_upload(struct wait_room *room, struct waiter *waiter);
/* The request is over. */
void wait_room_leave(struct wait_room *room, struct waiter *waiter);

/* Suspends the connection and gives the request to the pool; false when the queue, or that of its
 * group, is full. */
bool wait_room_enqueue(struct wait_room *room, struct waiter *waiter);
/* Called when the pool has finished the request: resumes the connection. */
void wait_room_finish(struct wait_room *room, struct waiter *waiter);

/* Parks until `key` is woken, or for `wait_ms`. A `pooled` request is suspended already and goes to
 * the pool again afterwards; any other is suspended here, and its connection goes on. */
enum wait_outcome wait_room_park(struct wait_room *room, struct waiter *waiter, uint64_t key,
                                 uint32_t wait_ms, uint64_t seq);
/* Suspends a stream that has nothing to send until the next wake-up or heartbeat. */
enum wait_outcome wait_room_stream(struct wait_room *room, struct waiter *waiter, uint64_t seq);

/* Suspends a stream until the next tick. */
enum wait_outcome wait_room_rest(struct wait_room *room, struct waiter *waiter);

void wait_room_wake_key(struct wait_room *room, uint64_t key);
void wait_room_wake_streams(struct wait_room *room);

/* Ends waits that have timed out, wakes streams for their heartbeat, finds clients that have
 * closed. */
void wait_room_tick(struct wait_room *room, uint64_t now_ms);

/* From now on no request waits: parked requests time out, streams are refused. The pool keeps
 * running. */
void wait_room_drain(struct wait_room *room);
/* Waits until nothing is suspended, then refuses everything and ends the threads. Returns false,
 * with everything as before, when something is still suspended at `deadline_ms`. */
bool wait_room_close(struct wait_room *room, uint64_t deadline_ms);

size_t wait_room_parked(struct wait_room *room);

#endif
