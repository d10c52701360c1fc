/* How fast a job gets on. */
#include "server/sched/rate.h"

#include <string.h>

static void add(struct pace *pace, uint64_t now_ms, uint64_t iterations)
{
    if (pace->count == PACE_POINTS) {
        memmove(pace->points, pace->points + 1, (PACE_POINTS - 1) * sizeof pace->points[0]);
        pace->count--;
    }
    pace->points[pace->count].at_ms = now_ms;
    pace->points[pace->count++].iterations = iterations;
}

void pace_begin(struct pace *pace, uint64_t now_ms, uint64_t iterations)
{
    if (pace->count == 0)
        add(pace, now_ms, iterations);
}

/* The first point is where work began and is never moved; the last one moves on until it is far
 * enough from the one before. */
void pace_note(struct pace *pace, uint64_t now_ms, uint64_t iterations)
{
    if (pace->count > 1 && now_ms - pace->points[pace->count - 2].at_ms < PACE_APART_MS)
        pace->count--;
    add(pace, now_ms, iterations);
}

double pace_rate(const struct pace *pace)
{
    if (pace->count < 2)
        return 0.0;
    size_t last = pace->count - 1;
    uint64_t ms = pace->points[last].at_ms - pace->points[0].at_ms;
    uint64_t done = pace->points[last].iterations - pace->points[0].iterations;
    return ms > 0 ? 1000.0 * (double)done / (double)ms : 0.0;
}
