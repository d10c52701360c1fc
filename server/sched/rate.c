/* Iterations per second of a job. */
#include "server/sched/rate.h"

#include <string.h>

static void add(struct rate *rate, uint64_t now_ms, uint64_t iterations)
{
    if (rate->count == RATE_POINTS) {
        memmove(rate->points, rate->points + 1, (RATE_POINTS - 1) * sizeof rate->points[0]);
        rate->count--;
    }
    rate->points[rate->count].at_ms = now_ms;
    rate->points[rate->count++].iterations = iterations;
}

void rate_begin(struct rate *rate, uint64_t now_ms, uint64_t iterations)
{
    if (rate->count == 0)
        add(rate, now_ms, iterations);
}

/* The first point is the start of work and never moves. The last one moves until it is far
 * enough from the one before it. */
void rate_add(struct rate *rate, uint64_t now_ms, uint64_t iterations)
{
    if (rate->count > 1 && now_ms - rate->points[rate->count - 2].at_ms < RATE_APART_MS)
        rate->count--;
    add(rate, now_ms, iterations);
}

double rate_per_second(const struct rate *rate)
{
    if (rate->count < 2)
        return 0.0;
    size_t last = rate->count - 1;
    uint64_t ms = rate->points[last].at_ms - rate->points[0].at_ms;
    uint64_t done = rate->points[last].iterations - rate->points[0].iterations;
    return ms > 0 ? 1000.0 * (double)done / (double)ms : 0.0;
}
