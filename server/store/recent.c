/* Rows of jobs that were read lately. Whoever polls a job asks for the same row again and again,
 * and going through SQLite each time would be a quarter of such a request.
 *
 * A row is good as long as nothing was committed to the catalogue since it was read. The writer
 * counts its transactions, once before each and once after it: while the count is odd, and for rows
 * that were read at another count, SQLite is asked. */
#include "server/store/internal.h"

#include <string.h>

enum { LARGEST = 64 << 10 }; /* bytes of a row; larger ones are not kept */

static struct store_recent_row *place(struct store *store, const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *id != '\0'; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return &store->recent.rows[hash % STORE_RECENT];
}

void store_recent_init(struct store *store)
{
    pthread_mutex_init(&store->recent.lock, NULL);
}

void store_recent_release(struct store *store)
{
    for (size_t i = 0; i < STORE_RECENT; i++)
        job_row_release(&store->recent.rows[i].row);
    pthread_mutex_destroy(&store->recent.lock);
}

void store_recent_changes(struct store *store)
{
    atomic_fetch_add(&store->recent.changes, 1);
}

/* Nobody waits for the lock: a thread of low priority may have it. */
bool store_recent_get(struct store *store, const char *id, struct job_row *row, uint64_t *count)
{
    *count = atomic_load(&store->recent.changes);
    if (*count % 2 != 0 || pthread_mutex_trylock(&store->recent.lock) != 0)
        return false;
    const struct store_recent_row *kept = place(store, id);
    bool found =
        kept->count == *count && strcmp(kept->row.id, id) == 0 && job_row_copy(row, &kept->row);
    pthread_mutex_unlock(&store->recent.lock);
    return found;
}

void store_recent_put(struct store *store, const struct job_row *row, uint64_t count)
{
    if (count % 2 != 0 || count != atomic_load(&store->recent.changes) ||
        job_row_bytes(row) > LARGEST || pthread_mutex_trylock(&store->recent.lock) != 0)
        return;
    struct store_recent_row *kept = place(store, row->id);
    job_row_release(&kept->row);
    if (job_row_copy(&kept->row, row))
        kept->count = count;
    pthread_mutex_unlock(&store->recent.lock);
}
