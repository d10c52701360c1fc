/* Requests and streams that wait. */
#include "server/http/wait.h"

#include "server/base/background.h"
#include "server/base/clock.h"
#include "server/http/deadline.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define POLL_EVERY_MS 1000

static void list_init(struct waiter *head)
{
    head->prev = head->next = head;
}

static void list_append(struct waiter *head, struct waiter *one)
{
    one->next = head;
    one->prev = head->prev;
    one->prev->next = one;
    head->prev = one;
}

static void list_remove(struct waiter *one)
{
    one->prev->next = one->next;
    one->next->prev = one->prev;
}

static size_t bucket_of(uint64_t key)
{
    return (key * 0x9e3779b97f4a7c15u) >> 56;
}

/* ---- groups, under the lock ---- */

static struct wait_group *find_group(struct wait_room *room, uint64_t key)
{
    struct wait_group *group = room->groups[bucket_of(key)];
    while (group && group->key != key)
        group = group->same_bucket;
    return group;
}

/* Finds or makes the group of a request; false: no memory. */
static bool join_group(struct wait_room *room, struct waiter *waiter)
{
    if (waiter->joined)
        return true;
    struct wait_group *group = find_group(room, waiter->group);
    if (!group) {
        group = calloc(1, sizeof *group);
        if (!group)
            return false;
        size_t bucket = bucket_of(waiter->group);
        group->key = waiter->group;
        list_init(&group->queue);
        group->same_bucket = room->groups[bucket];
        room->groups[bucket] = group;
    }
    group->members++;
    waiter->joined = group;
    return true;
}

static void leave_group(struct wait_room *room, struct wait_group *group)
{
    if (--group->members > 0)
        return;
    struct wait_group **at = &room->groups[bucket_of(group->key)];
    while (*at != group)
        at = &(*at)->same_bucket;
    *at = group->same_bucket;
    free(group);
}

static void round_append(struct wait_room *room, struct wait_group *group)
{
    group->next = &room->round;
    group->prev = room->round.prev;
    group->prev->next = group;
    room->round.prev = group;
}

static void round_remove(struct wait_group *group)
{
    group->prev->next = group->next;
    group->next->prev = group->prev;
}

/* ---- the pool ---- */

/* Queues a request that has joined its group. */
static void push_work(struct wait_room *room, struct waiter *waiter)
{
    struct wait_group *group = waiter->joined;
    list_append(&group->queue, waiter);
    if (group->queued++ == 0)
        round_append(room, group);
    room->queued++;
    pthread_cond_signal(&room->work);
}

/* Takes a request of the next group in the round that may use one more thread; NULL: none. The
 * requests of a group at its limit are taken by its own threads when they have finished. */
static struct waiter *take_work(struct wait_room *room)
{
    struct wait_group *group = room->round.next;
    while (group != &room->round && group->running >= room->config.group_threads)
        group = group->next;
    if (group == &room->round)
        return NULL;
    struct waiter *waiter = group->queue.next;
    list_remove(waiter);
    room->queued--;
    round_remove(group);
    if (--group->queued > 0)
        round_append(room, group);
    return waiter;
}

static void suspend(struct wait_room *room, struct waiter *waiter)
{
    room->suspended++;
    room->config.suspend(waiter);
}

static void leave(struct wait_room *room, size_t count)
{
    room->suspended -= count;
    if (room->suspended == 0)
        pthread_cond_broadcast(&room->idle);
}

static void resume(struct wait_room *room, struct waiter *waiter)
{
    room->config.resume(waiter);
    leave(room, 1);
}

/* A place in the pool, and the thread that has it, or has had it. */
struct seat {
    struct wait_room *room;
    size_t number;
    bool given; /* to another thread */
};

static int take_seat(struct wait_room *room, size_t number, pthread_t *thread);

/* Passes the seat of the calling thread to a new thread: its request goes on at a lower priority and
 * must not hold up others. */
static bool give_seat(void *ctx)
{
    struct seat *seat = ctx;
    pthread_t next;
    if (take_seat(seat->room, seat->number, &next) != 0)
        return false;
    pthread_mutex_lock(&seat->room->lock);
    seat->room->threads[seat->number] = next;
    seat->room->leaving++;
    pthread_mutex_unlock(&seat->room->lock);
    seat->given = true;
    pthread_setname_np(pthread_self(), "http-long");
    return true;
}

/* Under the lock, which it releases: ends a thread without a seat, which joins the one that ended
 * before it. */
static void leave_pool(struct wait_room *room)
{
    bool any = room->any_left;
    pthread_t before = room->left;
    room->any_left = true;
    room->left = pthread_self();
    room->leaving--;
    pthread_cond_broadcast(&room->idle);
    pthread_cond_signal(&room->work); /* its group may use another thread now */
    pthread_mutex_unlock(&room->lock);
    if (any)
        pthread_join(before, NULL);
}

static void carry_out(struct wait_room *room, struct waiter *waiter)
{
    struct wait_group *group = waiter->joined; /* outlives the request */
    group->members++;
    group->running++;
    pthread_mutex_unlock(&room->lock);
    room->config.run(waiter);
    pthread_mutex_lock(&room->lock);
    group->running--;
    leave_group(room, group);
}

static void *pool_thread(void *arg)
{
    struct seat *seat = arg;
    struct wait_room *room = seat->room;
    struct waiter *waiter;
    pthread_setname_np(pthread_self(), "http-pool");
    background_before(give_seat, seat);
    pthread_mutex_lock(&room->lock);
    while (!seat->given && ((waiter = take_work(room)) != NULL || !room->closed)) {
        if (waiter != NULL)
            carry_out(room, waiter);
        else
            pthread_cond_wait(&room->work, &room->lock);
    }
    if (seat->given)
        leave_pool(room);
    else
        pthread_mutex_unlock(&room->lock);
    free(seat);
    return NULL;
}

static int take_seat(struct wait_room *room, size_t number, pthread_t *thread)
{
    struct seat *seat = malloc(sizeof *seat);
    if (seat == NULL)
        return ENOMEM;
    *seat = (struct seat){.room = room, .number = number};
    int rc = pthread_create(thread, NULL, pool_thread, seat);
    if (rc != 0)
        free(seat);
    return rc;
}

static void end_threads(struct wait_room *room)
{
    pthread_mutex_lock(&room->lock);
    room->closed = true;
    pthread_cond_broadcast(&room->work);
    while (room->leaving > 0)
        pthread_cond_wait(&room->idle, &room->lock);
    pthread_mutex_unlock(&room->lock);
    for (size_t i = 0; i < room->thread_count; i++)
        pthread_join(room->threads[i], NULL);
    if (room->any_left)
        pthread_join(room->left, NULL);
    room->any_left = false;
    room->thread_count = 0;
}

static void init_members(struct wait_room *room, const struct wait_room_config *config)
{
    memset(room, 0, sizeof *room);
    room->config = *config;
    pthread_mutex_init(&room->lock, NULL);
    pthread_cond_init(&room->work, NULL);
    pthread_cond_init(&room->idle, NULL);
    room->round.prev = room->round.next = &room->round;
    list_init(&room->streams);
    list_init(&room->resting);
    for (size_t i = 0; i < WAIT_BUCKETS; i++)
        list_init(&room->parked[i]);
}

enum err wait_room_init(struct wait_room *room, const struct wait_room_config *config,
                        struct err_info *info)
{
    init_members(room, config);
    room->poll = calloc(config->max_waiting, sizeof *room->poll);
    room->polled = calloc(config->max_waiting, sizeof(struct waiter *));
    room->threads = calloc(config->pool_threads, sizeof *room->threads);
    enum err err = ERR_OK;
    if (!room->poll || !room->polled || !room->threads)
        err = err_set(info, ERR_NO_MEMORY, "no memory for %u connections", config->max_waiting);
    while (!err && room->thread_count < config->pool_threads) {
        int rc = take_seat(room, room->thread_count, &room->threads[room->thread_count]);
        if (rc)
            err = err_set(info, ERR_UNAVAILABLE, "thread %zu of the request pool: %s",
                          room->thread_count + 1, strerror(rc));
        else
            room->thread_count++;
    }
    if (err) {
        end_threads(room);
        wait_room_release(room);
    }
    return err;
}

void wait_room_release(struct wait_room *room)
{
    free(room->poll);
    free(room->polled);
    free(room->threads);
    pthread_cond_destroy(&room->work);
    pthread_cond_destroy(&room->idle);
    pthread_mutex_destroy(&room->lock);
}

uint64_t wait_room_seq(struct wait_room *room)
{
    return atomic_load(&room->seq);
}

bool wait_room_upload(struct wait_room *room, struct waiter *waiter)
{
    pthread_mutex_lock(&room->lock);
    waiter->uploads =
        join_group(room, waiter) && waiter->joined->uploads < room->config.group_uploads;
    if (waiter->uploads)
        waiter->joined->uploads++;
    pthread_mutex_unlock(&room->lock);
    return waiter->uploads;
}

void wait_room_leave(struct wait_room *room, struct waiter *waiter)
{
    if (!waiter->joined)
        return;
    pthread_mutex_lock(&room->lock);
    waiter->joined->uploads -= waiter->uploads;
    leave_group(room, waiter->joined);
    pthread_mutex_unlock(&room->lock);
    waiter->joined = NULL;
}

bool wait_room_enqueue(struct wait_room *room, struct waiter *waiter)
{
    pthread_mutex_lock(&room->lock);
    bool taken = !room->closed && room->queued < room->config.queue_limit &&
                 join_group(room, waiter) && waiter->joined->queued < room->config.group_queue;
    if (taken) {
        suspend(room, waiter);
        push_work(room, waiter);
    }
    pthread_mutex_unlock(&room->lock);
    return taken;
}

void wait_room_finish(struct wait_room *room, struct waiter *waiter)
{
    pthread_mutex_lock(&room->lock);
    resume(room, waiter);
    pthread_mutex_unlock(&room->lock);
}

enum wait_outcome wait_room_park(struct wait_room *room, struct waiter *waiter, uint64_t key,
                                 uint32_t wait_ms, uint64_t seq)
{
    enum wait_outcome outcome = WAIT_BEGUN;
    size_t bucket = bucket_of(key);
    pthread_mutex_lock(&room->lock);
    if (room->draining || room->parked_count >= room->config.max_parked ||
        !join_group(room, waiter) || waiter->joined->parked >= room->config.group_parked) {
        outcome = WAIT_REFUSED;
    } else if (room->woken[bucket] > seq) {
        outcome = WAIT_AGAIN;
    } else {
        waiter->key = key;
        waiter->until_ms = deadline_now_ms() + wait_ms;
        list_append(&room->parked[bucket], waiter);
        room->parked_count++;
        waiter->joined->parked++;
        if (!waiter->pooled)
            suspend(room, waiter);
    }
    pthread_mutex_unlock(&room->lock);
    return outcome;
}

enum wait_outcome wait_room_stream(struct wait_room *room, struct waiter *waiter, uint64_t seq)
{
    enum wait_outcome outcome = WAIT_BEGUN;
    pthread_mutex_lock(&room->lock);
    if (room->draining) {
        outcome = WAIT_REFUSED;
    } else if (room->streams_woken > seq) {
        outcome = WAIT_AGAIN;
    } else {
        waiter->end = WAIT_WOKEN;
        waiter->until_ms = deadline_now_ms() + room->config.heartbeat_ms;
        list_append(&room->streams, waiter);
        room->streams_waiting++;
        suspend(room, waiter);
    }
    pthread_mutex_unlock(&room->lock);
    return outcome;
}

enum wait_outcome wait_room_rest(struct wait_room *room, struct waiter *waiter)
{
    pthread_mutex_lock(&room->lock);
    enum wait_outcome outcome = room->draining ? WAIT_REFUSED : WAIT_BEGUN;
    if (outcome == WAIT_BEGUN) {
        waiter->end = WAIT_WOKEN;
        list_append(&room->resting, waiter);
        suspend(room, waiter);
    }
    pthread_mutex_unlock(&room->lock);
    return outcome;
}

static void unpark(struct wait_room *room, struct waiter *waiter, enum wait_end end)
{
    list_remove(waiter);
    room->parked_count--;
    waiter->joined->parked--;
    waiter->end = end;
    if (waiter->pooled && end != WAIT_GONE)
        push_work(room, waiter);
    else
        resume(room, waiter);
}

void wait_room_wake_key(struct wait_room *room, uint64_t key)
{
    size_t bucket = bucket_of(key);
    struct waiter *head = &room->parked[bucket], *next;
    pthread_mutex_lock(&room->lock);
    room->woken[bucket] = atomic_fetch_add(&room->seq, 1) + 1;
    for (struct waiter *one = head->next; one != head; one = next) {
        next = one->next;
        if (one->key == key)
            unpark(room, one, WAIT_WOKEN);
    }
    pthread_mutex_unlock(&room->lock);
}

/* Thousands of streams may wait; they are resumed without the lock, which would block all other
 * requests for that long. No other thread can reach them once they are off the list, and they
 * count as suspended until the last is resumed. */
static void resume_streams(struct wait_room *room, struct waiter *first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct waiter *next = first->next;
        room->config.resume(first);
        first = next;
    }
    pthread_mutex_lock(&room->lock);
    leave(room, count);
    pthread_mutex_unlock(&room->lock);
}

void wait_room_wake_streams(struct wait_room *room)
{
    pthread_mutex_lock(&room->lock);
    room->streams_woken = atomic_fetch_add(&room->seq, 1) + 1;
    struct waiter *first = room->streams.next;
    size_t count = room->streams_waiting;
    list_init(&room->streams);
    room->streams_waiting = 0;
    pthread_mutex_unlock(&room->lock);
    if (count > 0)
        resume_streams(room, first, count);
}

static void end_stream_wait(struct wait_room *room, struct waiter *waiter, enum wait_end end)
{
    list_remove(waiter);
    room->streams_waiting--;
    waiter->end = end;
    resume(room, waiter);
}

static void tick_parked(struct wait_room *room, uint64_t now_ms)
{
    for (size_t i = 0; i < WAIT_BUCKETS; i++) {
        struct waiter *head = &room->parked[i], *next;
        for (struct waiter *one = head->next; one != head; one = next) {
            next = one->next;
            if (room->draining || now_ms >= one->until_ms)
                unpark(room, one, WAIT_TIMED_OUT);
        }
    }
}

/* Streams wait equally long and are appended, so that the first has waited longest. */
static void tick_streams(struct wait_room *room, uint64_t now_ms)
{
    while (room->streams_waiting > 0 && now_ms >= room->streams.next->until_ms)
        end_stream_wait(room, room->streams.next, WAIT_TIMED_OUT);
}

static void end_rest(struct wait_room *room, struct waiter *waiter, enum wait_end end)
{
    list_remove(waiter);
    waiter->end = end;
    resume(room, waiter);
}

static void end_rests(struct wait_room *room)
{
    while (room->resting.next != &room->resting)
        end_rest(room, room->resting.next, WAIT_WOKEN);
}

static size_t list_for_poll(struct wait_room *room, struct waiter *head, size_t count)
{
    for (struct waiter *one = head->next; one != head && count < room->config.max_waiting;
         one = one->next) {
        room->poll[count] = (struct pollfd){.fd = one->fd, .events = POLLRDHUP};
        room->polled[count++] = one;
    }
    return count;
}

static void find_gone(struct wait_room *room)
{
    size_t streams = list_for_poll(room, &room->streams, 0),
           rests = list_for_poll(room, &room->resting, streams), all = rests;
    for (size_t i = 0; i < WAIT_BUCKETS; i++)
        all = list_for_poll(room, &room->parked[i], all);
    if (all == 0 || poll(room->poll, all, 0) <= 0)
        return;
    for (size_t i = 0; i < all; i++) {
        if (room->poll[i].revents == 0)
            continue;
        if (i < streams)
            end_stream_wait(room, room->polled[i], WAIT_GONE);
        else if (i < rests)
            end_rest(room, room->polled[i], WAIT_GONE);
        else
            unpark(room, room->polled[i], WAIT_GONE);
    }
}

void wait_room_tick(struct wait_room *room, uint64_t now_ms)
{
    pthread_mutex_lock(&room->lock);
    tick_parked(room, now_ms);
    tick_streams(room, now_ms);
    if (now_ms >= room->next_poll_ms) {
        room->next_poll_ms = now_ms + POLL_EVERY_MS;
        find_gone(room);
    }
    end_rests(room);
    pthread_mutex_unlock(&room->lock);
}

void wait_room_drain(struct wait_room *room)
{
    pthread_mutex_lock(&room->lock);
    room->draining = true;
    tick_parked(room, 0);
    end_rests(room);
    pthread_mutex_unlock(&room->lock);
    wait_room_wake_streams(room);
}

bool wait_room_close(struct wait_room *room, uint64_t deadline_ms)
{
    pthread_mutex_lock(&room->lock);
    room->draining = true;
    for (bool more = true; room->suspended > 0 && more;)
        more = clock_wait(&room->idle, &room->lock, deadline_ms);
    bool idle = room->suspended == 0;
    room->closed = idle;
    pthread_mutex_unlock(&room->lock);
    if (idle)
        end_threads(room);
    return idle;
}

size_t wait_room_parked(struct wait_room *room)
{
    pthread_mutex_lock(&room->lock);
    size_t parked = room->parked_count;
    pthread_mutex_unlock(&room->lock);
    return parked;
}
