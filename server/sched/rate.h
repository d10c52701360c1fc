/* Iterations per second of a job over the recent past.
 *
 * Progress arrives in steps, at the end of a slice, and several slices may end together. So time
 * counts from the start of the first slice, and steps that are close in time are one point.
 * Pure; times are arguments. */
#ifndef BARKER_SERVER_SCHED_RATE_H
#define BARKER_SERVER_SCHED_RATE_H

#include <stddef.h>
#include <stdint.h>

#define RATE_POINTS   16  /* of recent progress */
#define RATE_APART_MS 200 /* closer points are merged */

/* Zeroed: nothing is known yet. */
struct rate {
    struct {
        uint64_t at_ms, iterations;
    } points[RATE_POINTS];
    size_t count;
};

/* A slice begins. Only the first one since the rate was zeroed (at a pause, for example) has an
 * effect. */
void rate_begin(struct rate *rate, uint64_t now_ms, uint64_t iterations);
/* `iterations` are done so far, in total. */
void rate_add(struct rate *rate, uint64_t now_ms, uint64_t iterations);
/* Iterations per second; 0: not known. */
double rate_per_second(const struct rate *rate);

#endif
