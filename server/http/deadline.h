/* Absolute deadlines of connections, and the lingering close.
 *
 * libmicrohttpd has an idle timeout only: a client that sends one byte every few seconds holds its
 * connection for ever. Here each connection has a time by which its present stage (header, body,
 * reading the reply) must be complete; deadlines_tick shuts the socket down when it is not, and the
 * library then sees the end of the connection by itself.
 *
 * Lingering: closing a socket while unread bytes of a refused body arrive makes the kernel reset
 * the connection, which can destroy our reply before the client has read it. Such sockets are kept
 * half open for a moment, and what arrives is discarded. */
#ifndef BARKER_SERVER_HTTP_DEADLINE_H
#define BARKER_SERVER_HTTP_DEADLINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One per connection, in the caller's storage. */
struct deadline {
    struct deadline *prev, *next;
    int fd;
    _Atomic uint64_t at_ms; /* 0: none */
};

#define DEADLINE_LINGERERS 256

struct deadlines {
    pthread_mutex_t lock; /* everything below; held while sockets are shut down */
    struct deadline head;
    size_t count;
    size_t lingerers;
    struct {
        int fd;
        uint64_t until_ms;
    } lingering[DEADLINE_LINGERERS];
};

/* Milliseconds of the monotonic clock, from the coarse clock: a few milliseconds late. */
uint64_t deadline_now_ms(void);

void deadlines_init(struct deadlines *all);
/* No connection may be watched any more. Closes what still lingers. */
void deadlines_release(struct deadlines *all);

void deadline_watch(struct deadlines *all, struct deadline *one, int fd, uint64_t at_ms);
/* Moves the deadline; 0 takes it away. Takes no lock. */
void deadline_move(struct deadline *one, uint64_t at_ms);
/* Must be called before the descriptor is closed. With `linger`, a duplicate of it stays open
 * for up to two seconds, or until the client closes. */
void deadline_forget(struct deadlines *all, struct deadline *one, bool linger);

/* Cuts the connections that are past their deadline and empties the lingering ones. */
void deadlines_tick(struct deadlines *all, uint64_t now_ms);
size_t deadlines_count(struct deadlines *all);

#endif
