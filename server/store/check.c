/* Checks of the catalogue and of all job files: those of SQLite, and rules of the content that
 * SQLite does not know. */
#include "server/store/internal.h"
#include "server/store/users.h"

#include <stdio.h>
#include <unistd.h>

struct checking {
    struct store *store;
    void (*each)(void *ctx, const char *problem);
    void *ctx;
    const char *job;
    struct err_info *info;
    enum err code;
};

static void report(void *ctx, const char *problem)
{
    struct checking *c = ctx;
    char text[400];
    snprintf(text, sizeof text, "%s%s: %s", c->job != NULL ? "job file " : "the catalogue",
             c->job != NULL ? c->job : "", problem);
    c->each(c->ctx, text);
}

/* Rules of the rows of jobs: the request and the plan are JSON, and a job with iterations has a
 * file. */
static enum err check_rows(struct checking *c, struct db *db, struct err_info *info)
{
    struct query q;
    char text[200], path[STORE_PATH_SIZE];
    query_open(&q, db,
               "SELECT id, owner, json_valid(request) AND json_valid(coalesce(plan, '{}')), "
               "iif(json_valid(progress), json_extract(progress, '$.iteration') > 0, 0) FROM job");
    while (query_next(&q)) {
        const char *id = query_get_text(&q, 0), *owner = query_get_text(&q, 1);
        if (!user_name_valid(owner) || query_get_int(&q, 2) == 0) {
            snprintf(text, sizeof text, "the row of job %.16s is damaged: its %s", id,
                     user_name_valid(owner) ? "request or plan is not JSON"
                                            : "owner is not a user");
            report(c, text);
        }
        if (query_get_int(&q, 3) == 1 && store_job_path(c->store, id, path, NULL) == ERR_OK &&
            access(path, F_OK) != 0) {
            snprintf(text, sizeof text, "job %.16s has draws, but its file is missing", id);
            report(c, text);
        }
    }
    return query_close(&q, info);
}

static enum err check_totals(struct checking *c, struct db *db, struct err_info *info)
{
    struct query q;
    char text[200];
    query_open(&q, db,
               "WITH stored AS (SELECT owner, sum(stored_bytes) AS bytes FROM job "
               "WHERE deleted_ms = 0 GROUP BY owner) "
               "SELECT owner, coalesce(o.bytes, 0), coalesce(s.bytes, 0) FROM stored AS s "
               "FULL JOIN owner_bytes AS o USING (owner) "
               "WHERE coalesce(o.bytes, 0) <> coalesce(s.bytes, 0)");
    while (query_next(&q)) {
        snprintf(text, sizeof text, "%.32s is charged with %llu bytes, and the jobs have %llu",
                 query_get_text(&q, 0), (unsigned long long)query_get_count(&q, 1),
                 (unsigned long long)query_get_count(&q, 2));
        report(c, text);
    }
    return query_close(&q, info);
}

static bool has_row(struct checking *c, const char *job)
{
    struct db *db;
    if (store_reader_take(c->store, &db, NULL) != ERR_OK)
        return true;
    bool found = store_in_catalogue(db, job);
    store_reader_give(c->store, db);
    return found;
}

static bool check_job(void *ctx, const char *job)
{
    struct checking *c = ctx;
    struct err_info info = {0};
    c->job = job;
    if (!has_row(c, job))
        report(c, "it belongs to no job of the catalogue");
    enum err code = jobfile_check(c->store, job, report, c, &info);
    if (code == ERR_CORRUPT)
        report(c, info.message);
    else if (code != ERR_OK && code != ERR_NOT_FOUND) {
        c->code = code;
        if (c->info != NULL)
            *c->info = info;
    }
    return c->code == ERR_OK;
}

static enum err check_catalogue(struct checking *c, struct err_info *info)
{
    struct db *db;
    enum err code = store_reader_take(c->store, &db, info);
    if (code != ERR_OK)
        return code;
    code = db_check(db, true, report, c, info);
    if (code == ERR_OK)
        code = check_rows(c, db, info);
    if (code == ERR_OK)
        code = check_totals(c, db, info);
    store_reader_give(c->store, db);
    if (code == ERR_CORRUPT) {
        report(c, info != NULL ? info->message : "damaged");
        code = ERR_OK;
    }
    return code;
}

enum err store_check(struct store *store, void (*each)(void *ctx, const char *problem), void *ctx,
                     struct err_info *info)
{
    struct checking c = {.store = store, .each = each, .ctx = ctx, .info = info};
    enum err code = check_catalogue(&c, info);
    if (code == ERR_OK)
        code = store_each_jobfile(store->draws_fd, check_job, &c, info);
    return code != ERR_OK ? code : c.code;
}
