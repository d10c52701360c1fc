/* Deadlines against slow clients. */
#include "server/http/deadline.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINGER_MS 2000

uint64_t deadline_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void deadlines_init(struct deadlines *all)
{
    *all = (struct deadlines){.head.fd = -1};
    all->head.prev = all->head.next = &all->head;
    pthread_mutex_init(&all->lock, NULL);
}

void deadlines_release(struct deadlines *all)
{
    assert(all->count == 0);
    for (size_t i = 0; i < all->lingerers; i++)
        close(all->lingering[i].fd);
    pthread_mutex_destroy(&all->lock);
}

void deadline_watch(struct deadlines *all, struct deadline *one, int fd, uint64_t at_ms)
{
    one->fd = fd;
    deadline_move(one, at_ms);
    pthread_mutex_lock(&all->lock);
    one->next = &all->head;
    one->prev = all->head.prev;
    one->prev->next = one;
    all->head.prev = one;
    all->count++;
    pthread_mutex_unlock(&all->lock);
}

void deadline_move(struct deadline *one, uint64_t at_ms)
{
    atomic_store_explicit(&one->at_ms, at_ms, memory_order_relaxed);
}

static void linger(struct deadlines *all, int fd)
{
    if (all->lingerers == DEADLINE_LINGERERS)
        return;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return;
    shutdown(copy, SHUT_WR);
    all->lingering[all->lingerers].fd = copy;
    all->lingering[all->lingerers].until_ms = deadline_now_ms() + LINGER_MS;
    all->lingerers++;
}

void deadline_forget(struct deadlines *all, struct deadline *one, bool lingering)
{
    pthread_mutex_lock(&all->lock);
    one->prev->next = one->next;
    one->next->prev = one->prev;
    all->count--;
    if (lingering)
        linger(all, one->fd);
    pthread_mutex_unlock(&all->lock);
}

/* True when the client has closed its side. Takes a bounded number of bytes per tick, so that a
 * client that never stops sending cannot hold the thread. */
static bool drained(int fd)
{
    char waste[16384];
    for (int i = 0; i < 64; i++) {
        ssize_t got = recv(fd, waste, sizeof waste, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (got < 0)
            return false;
    }
    return false;
}

static void tick_lingering(struct deadlines *all, uint64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->lingerers; i++) {
        if (drained(all->lingering[i].fd) || now_ms >= all->lingering[i].until_ms)
            close(all->lingering[i].fd);
        else
            all->lingering[kept++] = all->lingering[i];
    }
    all->lingerers = kept;
}

void deadlines_tick(struct deadlines *all, uint64_t now_ms)
{
    pthread_mutex_lock(&all->lock);
    for (struct deadline *one = all->head.next; one != &all->head; one = one->next) {
        uint64_t at_ms = atomic_load_explicit(&one->at_ms, memory_order_relaxed);
        if (at_ms == 0 || now_ms < at_ms)
            continue;
        /* Fails when the owner reached the next stage in this very moment. */
        if (atomic_compare_exchange_strong(&one->at_ms, &at_ms, 0))
            shutdown(one->fd, SHUT_RDWR);
    }
    tick_lingering(all, now_ms);
    pthread_mutex_unlock(&all->lock);
}

size_t deadlines_count(struct deadlines *all)
{
    pthread_mutex_lock(&all->lock);
    size_t count = all->count;
    pthread_mutex_unlock(&all->lock);
    return count;
}
