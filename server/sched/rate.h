/* How fast a job gets on: iterations per second over the recent past.
 *
 * Progress comes in lumps, when a slice of a chain has ended, and several slices may end together:
 * so the time counts from when the first of them began, and what ends together is one point. Pure;
 * times are given. */
#ifndef BARKER_SERVER_SCHED_RATE_H
#define BARKER_SERVER_SCHED_RATE_H

#include <stddef.h>
#include <stdint.h>

#define RATE_POINTS   16  /* of recent progress */
#define RATE_APART_MS 200 /* closer ones are one */

/* Zeroed: nothing is known yet. */
struct rate {
    struct {
        uint64_t at_ms, iterations;
    } points[RATE_POINTS];
    size_t count;
};

/* A slice begins; only the first one since the rate was zeroed, as for a pause, counts. */
void rate_begin(struct rate *rate, uint64_t now_ms, uint64_t iterations);
/* `iterations` are done by now, in all. */
void rate_add(struct rate *rate, uint64_t now_ms, uint64_t iterations);
/* Iterations per second; 0: not known. */
double rate_per_second(const struct rate *rate);

#endif
