/* Orders of columns. */
#include "server/results/ranking.h"

#include <stdlib.h>
#include <string.h>

static struct ranking *find(struct rankings *rankings, const char *job)
{
    for (size_t i = 0; i < RANKINGS; i++)
        if (strcmp(rankings->places[i].job, job) == 0)
            return &rankings->places[i];
    return NULL;
}

static struct ranking *least_used(struct rankings *rankings)
{
    struct ranking *least = &rankings->places[0];
    for (size_t i = 1; i < RANKINGS; i++)
        if (rankings->places[i].used < least->used)
            least = &rankings->places[i];
    return least;
}

bool rankings_get(struct rankings *rankings, const char *job, uint64_t draws, uint32_t *at,
                  size_t count, size_t *ranked)
{
    pthread_mutex_lock(&rankings->lock);
    struct ranking *kept = find(rankings, job);
    bool found =
        kept != NULL && kept->count == count && (kept->draws == draws || draws == UINT64_MAX);
    if (found) {
        memcpy(at, kept->at, count * sizeof *at);
        *ranked = kept->ranked;
        kept->used = ++rankings->clock;
    }
    pthread_mutex_unlock(&rankings->lock);
    return found;
}

void rankings_put(struct rankings *rankings, const struct ranking *ranking)
{
    if (ranking->count == 0 || ranking->count > RANKING_COLUMNS)
        return;
    uint32_t *copy = malloc(ranking->count * sizeof *copy);
    if (copy == NULL)
        return;
    memcpy(copy, ranking->at, ranking->count * sizeof *copy);
    pthread_mutex_lock(&rankings->lock);
    struct ranking *place = find(rankings, ranking->job);
    if (place == NULL)
        place = least_used(rankings);
    uint32_t *old = place->at;
    *place = *ranking;
    place->at = copy;
    place->used = ++rankings->clock;
    pthread_mutex_unlock(&rankings->lock);
    free(old);
}
