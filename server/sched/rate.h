/* How fast a job gets on: iterations per second over the recent past.
 *
 * Progress comes in lumps, when a slice of a chain has ended, and several slices may end together:
 * so the time counts from when the first of them began, and what ends together is one point. Pure;
 * times are given. */
#ifndef BARKER_SERVER_SCHED_RATE_H
#define BARKER_SERVER_SCHED_RATE_H

#include <stddef.h>
#include <stdint.h>

#define PACE_POINTS   16  /* of recent progress */
#define PACE_APART_MS 200 /* closer ones are one */

/* Zeroed: nothing is known yet. */
struct pace {
    struct {
        uint64_t at_ms, iterations;
    } points[PACE_POINTS];
    size_t count;
};

/* A slice begins; only the first one since the pace was zeroed, as for a pause, counts. */
void pace_begin(struct pace *pace, uint64_t now_ms, uint64_t iterations);
/* `iterations` are done by now, in all. */
void pace_note(struct pace *pace, uint64_t now_ms, uint64_t iterations);
/* Iterations per second; 0: not known. */
double pace_rate(const struct pace *pace);

#endif
