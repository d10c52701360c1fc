/* The order of a job's columns, the worst first, kept from one page of a list to the next: to find
 * it, all of them must be measured. A few jobs' orders are kept, the least recently used one makes
 * room. Any thread. */
#ifndef BARKER_SERVER_RESULTS_RANKING_H
#define BARKER_SERVER_RESULTS_RANKING_H

#include "server/base/job_state.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANKINGS = 8 };
#define RANKING_COLUMNS ((size_t)1 << 20) /* a longer order is not kept */

/* All columns of a job in order. Draws are only ever added, so their number says which they were.
 */
struct ranking {
    char job[JOB_ID_SIZE]; /* "": a free place */
    uint64_t draws;        /* per chain, that it rests on */
    size_t ranked;         /* columns that were measured, the first ones; 0: all */
    size_t count;
    uint32_t *at;
    uint64_t used; /* when, by the cache's own clock */
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
 * many columns, or none that rests on so many draws; UINT64_MAX: any will do. */
bool rankings_get(struct rankings *rankings, const char *job, uint64_t draws, uint32_t *at,
                  size_t count, size_t *ranked);
/* Keeps a copy of one, in the place of the job's former one; without memory, nothing. `used` is
 * ignored. */
void rankings_put(struct rankings *rankings, const struct ranking *ranking);

#endif
