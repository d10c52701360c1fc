/* Time: wall clock for people, monotonic clock for durations and deadlines. */
#ifndef BARKER_SERVER_BASE_CLOCK_H
#define BARKER_SERVER_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

uint64_t clock_wall_ms(void);
uint64_t clock_mono_ms(void);
double clock_mono_seconds(void);
double clock_thread_seconds(void); /* CPU time of the calling thread */

/* A time of the monotonic clock, for the system's own waits. */
struct timespec clock_mono_at(uint64_t mono_ms);
/* Waits until the condition is signalled (true) or until this time of the monotonic clock (false).
 * A change of the wall clock neither shortens nor extends it. */
bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_mono_ms);

/* The time since an event, possibly before the start of this process: that part comes from the wall
 * clock once, and later changes of the wall clock have no effect. All zero: not begun. */
struct clock_since {
    bool begun;
    uint64_t before_ms, mono_ms;
};
void clock_since_begin(struct clock_since *since, uint64_t wall_ms); /* 0: not begun */
double clock_since_seconds(const struct clock_since *since);         /* 0.0: not begun */

#define CLOCK_TEXT_SIZE 32
/* RFC 3339, UTC, milliseconds: 2026-01-31T09:05:00.120Z. */
void clock_text(uint64_t wall_ms, char out[CLOCK_TEXT_SIZE]);

#endif
