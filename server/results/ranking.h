/* A cache of column orders, worst first, so that the pages of a list share one order: computing
 * it measures all columns. A few jobs are cached; the least recently used one is evicted. Any
 * thread. */
#ifndef BARKER_SERVER_RESULTS_RANKING_H
#define BARKER_SERVER_RESULTS_RANKING_H

#include "server/base/job_state.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANKINGS = 8 };
#define RANKING_COLUMNS ((size_t)1 << 20) /* a longer order is not cached */

/* All columns of a job in order. Draws are only ever added, so their number identifies them. */
struct ranking {
    char job[JOB_ID_SIZE]; /* "": an unused entry */
    uint64_t draws;        /* per chain, on which it is based */
    size_t ranked;         /* columns that were measured, the first ones; 0: all */
    size_t count;
    uint32_t *at;
    uint64_t used; /* time of last use, by the cache's own counter */
};

struct rankings {
    pthread_mutex_t lock;
    uint64_t clock;
    struct ranking places[RANKINGS];
};
#define RANKINGS_INIT                     \
    {                                     \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* Copies the job's order into `at`, which has room for `count` columns. False: there is none of so
 * many columns, or none based on so many draws; UINT64_MAX: any number. */
bool rankings_get(struct rankings *rankings, const char *job, uint64_t draws, uint32_t *at,
                  size_t count, size_t *ranked);
/* Stores a copy, replacing the job's earlier order; does nothing without memory. `used` is
 * ignored. */
void rankings_put(struct rankings *rankings, const struct ranking *ranking);

#endif
