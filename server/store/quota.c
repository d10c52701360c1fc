/* Use and quotas of an owner: unfinished jobs and stored bytes. */
#include "server/store/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err read_quotas(const struct store *store, struct db *db, const char *owner,
                            struct owner_totals *out, struct err_info *info)
{
    struct query q;
    uint64_t jobs = 0, mb = 0;
    query_open(&q, db,
               "SELECT json_extract(quotas, '$.active_jobs'), json_extract(quotas, '$.stored_mb') "
               "FROM user WHERE name = ?");
    query_text(&q, owner);
    if (query_next(&q)) {
        jobs = query_get_count(&q, 0); /* 0 for NULL */
        mb = query_get_count(&q, 1);
    }
    out->most_active_jobs = jobs > 0 ? jobs : store->user_active_jobs;
    out->most_stored_bytes = mb > 0 ? mb << 20 : store->user_stored_bytes;
    return query_close(&q, info);
}

enum err store_read_count(struct db *db, const char *sql, const char *owner, uint64_t *out,
                          struct err_info *info)
{
    struct query q;
    query_open(&q, db, sql);
    query_text(&q, owner);
    *out = query_next(&q) ? query_get_count(&q, 0) : 0;
    return query_close(&q, info);
}

/* SQLite's query planner does not know the statistics and would scan all jobs of the owner. The
 * condition must be written as in the index. */
static enum err count_active(struct db *db, const char *owner, uint64_t *out, struct err_info *info)
{
    return store_read_count(db,
                            "SELECT count(*) FROM job INDEXED BY job_active "
                            "WHERE owner = ? AND deleted_ms = 0 "
                            "AND state IN ('queued', 'running', 'paused', 'cancelling')",
                            owner, out, info);
}

enum err store_read_totals(const struct store *store, struct db *db, const char *owner,
                           struct owner_totals *out, struct err_info *info)
{
    enum err code = count_active(db, owner, &out->active_jobs, info);
    if (code == ERR_OK)
        code = store_read_count(db, "SELECT bytes FROM owner_bytes WHERE owner = ?", owner,
                                &out->stored_bytes, info);
    if (code == ERR_OK)
        code = store_reference_totals(db, owner, out, info);
    return code == ERR_OK ? read_quotas(store, db, owner, out, info) : code;
}

enum err store_count_bytes(struct db *db, const char *owner, uint64_t before, uint64_t after,
                           struct err_info *info)
{
    struct query q;
    if (before == after)
        return ERR_OK;
    query_open(&q, db,
               "INSERT INTO owner_bytes VALUES (?1, ?2) "
               "ON CONFLICT DO UPDATE SET bytes = bytes + ?2");
    query_text(&q, owner);
    query_int(&q, (int64_t)(after - before));
    return query_run(&q, info);
}

uint64_t store_changes(const struct store *store)
{
    return atomic_load(&store->changes);
}

enum err store_owner_totals(struct store *store, const char *owner, struct owner_totals *out,
                            struct err_info *info)
{
    struct db *db;
    *out = (struct owner_totals){0};
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    code = store_read_totals(store, db, owner, out, info);
    store_reader_give(store, db);
    return code;
}

enum err store_check_active(struct store *store, struct db *db, const char *owner, size_t more,
                            struct err_info *info)
{
    struct owner_totals t = {0};
    enum err code = count_active(db, owner, &t.active_jobs, info);
    if (code == ERR_OK)
        code = read_quotas(store, db, owner, &t, info);
    if (code != ERR_OK ||
        (t.active_jobs <= t.most_active_jobs && more <= t.most_active_jobs - t.active_jobs))
        return code;
    return err_set(info, ERR_QUOTA,
                   "%s has %llu unfinished jobs and may have %llu: %zu more cannot be accepted",
                   owner, (unsigned long long)t.active_jobs, (unsigned long long)t.most_active_jobs,
                   more);
}

enum err store_check_bytes(struct store *store, struct db *db, const char *owner,
                           const struct store_room *room, struct err_info *info)
{
    struct owner_totals t = {0};
    if (room == NULL)
        return ERR_OK;
    enum err code = store_read_totals(store, db, owner, &t, info);
    uint64_t used = t.stored_bytes + room->uncounted, most = t.most_stored_bytes;
    if (code != ERR_OK || (used <= most && room->bytes <= most - used))
        return code;
    if (room->bytes >> 20 == 0)
        return err_set(info, ERR_QUOTA,
                       "with this job %s has %llu MB of %llu MB in use: delete other jobs first",
                       owner, (unsigned long long)used >> 20, (unsigned long long)most >> 20);
    return err_set(info, ERR_QUOTA,
                   "the job would store about %llu MB; %s has %llu MB of %llu MB in use: delete "
                   "jobs, thin more or save fewer parameters",
                   (unsigned long long)room->bytes >> 20, owner, (unsigned long long)used >> 20,
                   (unsigned long long)most >> 20);
}

/* An upper bound of the number of jobs of an owner: an exact count would scan all of them at every
 * submission. Jobs that were not stored after all, or have been removed, may be included. */
struct store_job_count {
    char owner[USER_NAME_SIZE];
    uint64_t most;
    struct store_job_count *next;
};

static struct store_job_count *job_count(struct store *store, const char *owner)
{
    struct store_job_count *count = store->job_counts;
    while (count != NULL && strcmp(count->owner, owner) != 0)
        count = count->next;
    if (count != NULL || (count = malloc(sizeof *count)) == NULL)
        return count;
    *count = (struct store_job_count){.most = UINT64_MAX, .next = store->job_counts};
    snprintf(count->owner, sizeof count->owner, "%s", owner);
    store->job_counts = count;
    return count;
}

void store_job_counts_free(struct store *store)
{
    for (struct store_job_count *next; store->job_counts != NULL; store->job_counts = next) {
        next = store->job_counts->next;
        free(store->job_counts);
    }
}

enum err store_check_jobs(struct store *store, struct db *db, const char *owner, size_t more,
                          struct err_info *info)
{
    struct store_job_count *count = job_count(store, owner);
    uint64_t most = store->user_jobs, exact = 0;
    if (count == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to count the jobs of %s", owner);
    if (count->most > most || more > most - count->most) {
        enum err code =
            store_read_count(db, "SELECT count(*) FROM job WHERE owner = ?", owner, &exact, info);
        if (code != ERR_OK)
            return code;
        count->most = exact;
    }
    if (count->most > most || more > most - count->most)
        return err_set(info, ERR_QUOTA,
                       "%s has %llu jobs, with those that have ended or are in the trash, and may "
                       "have %llu: delete some",
                       owner, (unsigned long long)exact, (unsigned long long)most);
    count->most += more;
    return ERR_OK;
}
