/* The ring of events and its streams. */
#include "server/sched/events.h"
#include "server/base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING         4096
#define STREAMS_EACH 16 /* per viewer */
#define STREAMS_ALL  3000
#define PING_MS      14000
#define STREAM_START ":ok\nretry: 3000\n\n"

static const char *const names[] = {
#define X(kind, name) name,
    EVENT_LIST(X)
#undef X
};

struct event {
    uint64_t id;
    char owner[USER_NAME_SIZE]; /* "": every user may see it */
    bool lab;
    char *text; /* as it is sent */
    size_t size;
};

struct stream {
    struct events *events;
    char viewer[USER_NAME_SIZE]; /* "": sees all */
    char user[USER_NAME_SIZE], token_id[9];
    bool cut;
    uint64_t next; /* id of the next event to send */
    uint64_t sent_ms;
    char *pending; /* a copy of what is being sent */
    size_t pending_size, pending_at;
    struct stream *before, *after;
};

struct events {
    pthread_mutex_t lock;
    struct event ring[RING];
    uint64_t first, next; /* ids kept: first .. next-1 */
    bool closed;
    struct stream *readers;
    size_t reader_count;
    void (*published)(void *ctx, uint64_t key);
    void *ctx;
};

/* Ids start at the time of the start, so that those of an earlier process are always smaller than
 * ours and get a reset. */
struct events *events_new(void (*published)(void *ctx, uint64_t key), void *ctx)
{
    struct events *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    pthread_mutex_init(&e->lock, NULL);
    e->first = e->next = clock_wall_ms() * 1000;
    e->published = published;
    e->ctx = ctx;
    return e;
}

void events_free(struct events *e)
{
    if (e == NULL)
        return;
    for (size_t i = 0; i < RING; i++)
        free(e->ring[i].text);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

uint64_t event_key(const char *job)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (; *job != '\0'; job++)
        h = (h ^ (unsigned char)*job) * 0x100000001b3ULL;
    return h | 1;
}

void events_publish(struct events *e, enum event_kind kind, const char *job, const char *owner,
                    bool lab, const char *data)
{
    char *text = NULL;
    pthread_mutex_lock(&e->lock);
    uint64_t id = e->next;
    int size = asprintf(&text, "id: %" PRIu64 "\nevent: %s\ndata: %s\n\n", id, names[kind], data);
    if (size >= 0) {
        struct event *slot = &e->ring[id % RING];
        free(slot->text);
        *slot = (struct event){.id = id, .lab = lab, .text = text, .size = (size_t)size};
        snprintf(slot->owner, sizeof slot->owner, "%s", owner != NULL ? owner : "");
        e->next++;
        if (e->next - e->first > RING)
            e->first = e->next - RING;
    }
    pthread_mutex_unlock(&e->lock);
    if (e->published != NULL)
        e->published(e->ctx, job != NULL ? event_key(job) : 0);
}

static bool visible(const struct event *event, const char *viewer)
{
    return viewer[0] == '\0' || event->owner[0] == '\0' || event->lab ||
           strcmp(event->owner, viewer) == 0;
}

static void set_pending(struct stream *r, const char *text, size_t size)
{
    r->pending = malloc(size);
    if (r->pending == NULL)
        return; /* tried again at the next wake-up */
    memcpy(r->pending, text, size);
    r->pending_size = size;
    r->pending_at = 0;
}

/* Under the lock: finds the next event to send, if there is one. */
static void find_pending(struct stream *r, uint64_t now)
{
    struct events *e = r->events;
    if (r->next < e->first) {
        char reset[80];
        r->next = e->next;
        int size = snprintf(reset, sizeof reset, "id: %" PRIu64 "\nevent: reset\ndata: {}\n\n",
                            e->next - 1);
        set_pending(r, reset, (size_t)size);
        return;
    }
    for (; r->next < e->next; r->next++) {
        const struct event *event = &e->ring[r->next % RING];
        if (!visible(event, r->viewer))
            continue;
        set_pending(r, event->text, event->size);
        if (r->pending != NULL)
            r->next++;
        return;
    }
    if (now - r->sent_ms >= PING_MS)
        set_pending(r, ": ping\n\n", 8);
}

ssize_t event_stream_read(void *stream, char *buffer, size_t size)
{
    struct stream *r = stream;
    size_t used = 0;
    uint64_t now = clock_mono_ms();
    while (used < size) {
        if (r->pending == NULL) {
            pthread_mutex_lock(&r->events->lock);
            bool closed = r->events->closed || r->cut;
            if (!closed)
                find_pending(r, now);
            pthread_mutex_unlock(&r->events->lock);
            if (closed && used == 0)
                return -1;
            if (r->pending == NULL)
                break;
        }
        size_t rest = r->pending_size - r->pending_at,
               part = rest < size - used ? rest : size - used;
        memcpy(buffer + used, r->pending + r->pending_at, part);
        used += part;
        r->pending_at += part;
        r->sent_ms = now;
        if (r->pending_at == r->pending_size) {
            free(r->pending);
            r->pending = NULL;
        }
    }
    return (ssize_t)used;
}

void event_stream_close(void *stream)
{
    struct stream *r = stream;
    struct events *e = r->events;
    pthread_mutex_lock(&e->lock);
    if (r->before != NULL)
        r->before->after = r->after;
    else
        e->readers = r->after;
    if (r->after != NULL)
        r->after->before = r->before;
    e->reader_count--;
    pthread_mutex_unlock(&e->lock);
    free(r->pending);
    free(r);
}

/* A client that names an event in the ring continues after it; any other begins with a reset. */
static uint64_t resume_at(const struct events *e, const char *last_id)
{
    if (last_id == NULL)
        return e->next;
    char *end;
    uint64_t id = strtoull(last_id, &end, 10);
    if (*last_id == '\0' || *end != '\0' || id >= e->next || id + 1 < e->first)
        return 0;
    return id + 1;
}

enum err event_stream_open(void **out, struct events *e, const struct event_reader *reader,
                           struct err_info *info)
{
    struct stream *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for another stream");
    r->events = e;
    r->sent_ms = clock_mono_ms();
    snprintf(r->viewer, sizeof r->viewer, "%s", reader->viewer != NULL ? reader->viewer : "");
    snprintf(r->user, sizeof r->user, "%s", reader->user);
    snprintf(r->token_id, sizeof r->token_id, "%s", reader->token_id);
    set_pending(r, STREAM_START, sizeof STREAM_START - 1);
    pthread_mutex_lock(&e->lock);
    size_t own = 0;
    for (const struct stream *other = e->readers; other != NULL; other = other->after)
        own += strcmp(other->viewer, r->viewer) == 0;
    bool full = e->reader_count >= STREAMS_ALL || (reader->viewer != NULL && own >= STREAMS_EACH);
    if (!full) {
        r->next = resume_at(e, reader->last_id);
        r->after = e->readers;
        if (e->readers != NULL)
            e->readers->before = r;
        e->readers = r;
        e->reader_count++;
    }
    pthread_mutex_unlock(&e->lock);
    if (full) {
        free(r->pending);
        free(r);
        return err_set(info, ERR_RATE,
                       "too many event streams are open; close one (at most %d per user)",
                       STREAMS_EACH);
    }
    *out = r;
    return ERR_OK;
}

void events_cut(struct events *e, const char *token_id, const char *user)
{
    pthread_mutex_lock(&e->lock);
    for (struct stream *r = e->readers; r != NULL; r = r->after)
        r->cut |= (token_id != NULL && strcmp(r->token_id, token_id) == 0) ||
                  (user != NULL && strcmp(r->user, user) == 0);
    pthread_mutex_unlock(&e->lock);
    if (e->published != NULL)
        e->published(e->ctx, 0);
}

void events_close(struct events *e)
{
    pthread_mutex_lock(&e->lock);
    e->closed = true;
    pthread_mutex_unlock(&e->lock);
}

size_t events_streams(struct events *e)
{
    pthread_mutex_lock(&e->lock);
    size_t count = e->reader_count;
    pthread_mutex_unlock(&e->lock);
    return count;
}
