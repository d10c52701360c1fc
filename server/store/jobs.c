/* Jobs and their logs. */
#include "server/base/clock.h"
#include "server/store/internal.h"
#include "server/store/page.h"
#include "server/store/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err not_found(const char *id, struct err_info *info)
{
    return err_set(info, ERR_NOT_FOUND, "there is no job %.40s", id);
}

/* ---- log ---- */

#define LOG_LINES 1000 /* of one job that are kept: the newest */

static enum err trim_log(struct db *db, const char *job, uint64_t last, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "DELETE FROM log WHERE job = ? AND seq <= ?");
    query_text(&q, job);
    query_count(&q, last);
    return query_run(&q, info);
}

static enum err append_log(struct db *db, const char *job, uint64_t at_ms, const char *text,
                           struct err_info *info)
{
    struct query q;
    uint64_t seq = 0;
    query_open(&q, db,
               "INSERT INTO log (job, seq, at_ms, text) SELECT id, "
               "(SELECT coalesce(max(seq), 0) + 1 FROM log WHERE job = ?1), ?2, ?3 "
               "FROM job WHERE id = ?1 RETURNING seq");
    query_text(&q, job);
    query_count(&q, at_ms);
    query_text(&q, text);
    while (query_next(&q))
        seq = query_get_count(&q, 0);
    enum err code = query_close(&q, info);
    if (code == ERR_OK && seq == 0)
        code = not_found(job, info);
    return code == ERR_OK && seq > LOG_LINES ? trim_log(db, job, seq - LOG_LINES, info) : code;
}

/* One entry per line. */
static enum err append_lines(struct db *db, const char *job, const char *text,
                             struct err_info *info)
{
    uint64_t now = clock_wall_ms();
    enum err code = ERR_OK;
    for (const char *end; code == ERR_OK && (end = strchr(text, '\n')) != NULL; text = end + 1) {
        char *line = strndup(text, (size_t)(end - text));
        code = line != NULL ? append_log(db, job, now, line, info)
                            : err_set(info, ERR_NO_MEMORY, "no memory for a log line");
        free(line);
    }
    return code == ERR_OK ? append_log(db, job, now, text, info) : code;
}

struct log_line {
    const char *job, *text;
};

static enum err add_log(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct log_line *line = ctx;
    (void)store;
    return append_log(db, line->job, clock_wall_ms(), line->text, info);
}

enum err store_log_add(struct store *store, const char *job, const char *text,
                       struct err_info *info)
{
    struct log_line line = {.job = job, .text = text};
    return store_write_catalogue(store, add_log, &line, info);
}

enum { LOG_PAGE = 128 };

struct log_row {
    uint64_t seq, at_ms;
    char *text;
};

struct log_list {
    const char *job;
    uint64_t after;
    bool (*each)(void *ctx, uint64_t seq, uint64_t at_ms, const char *text);
    void *ctx;
};

static enum err read_log(struct db *db, void *ctx, size_t want, void *page, size_t *count,
                         struct err_info *info)
{
    struct log_list *list = ctx;
    struct log_row *rows = page;
    struct query q;
    query_open(&q, db,
               "SELECT seq, at_ms, text FROM log WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?");
    query_text(&q, list->job);
    query_count(&q, list->after);
    query_count(&q, want);
    for (*count = 0; *count < want && query_next(&q); (*count)++) {
        list->after = query_get_count(&q, 0);
        rows[*count] = (struct log_row){
            .seq = list->after, .at_ms = query_get_count(&q, 1), .text = query_dup_text(&q, 2)};
    }
    return query_close(&q, info);
}

static bool each_line(void *ctx, const void *row)
{
    const struct log_list *list = ctx;
    const struct log_row *line = row;
    return list->each(list->ctx, line->seq, line->at_ms, line->text);
}

static void release_line(void *row)
{
    free(((struct log_row *)row)->text);
}

enum err store_log(struct store *store, const char *job, uint64_t after, size_t limit,
                   bool (*each)(void *ctx, uint64_t seq, uint64_t at_ms, const char *text),
                   void *ctx, struct err_info *info)
{
    struct log_row page[LOG_PAGE];
    struct log_list lines = {job, after, each, ctx};
    struct store_list list = {page,      LOG_PAGE,     sizeof page[0], read_log,
                              each_line, release_line, &lines};
    return store_list_read(store, &list, limit, info);
}

/* ---- creating ---- */

struct creation {
    const struct job_row *row;
    const struct store_room *room;
    struct idempotency_key key;
    struct idempotency_match earlier;
};

/* What a job counts in the bytes of its owner. */
static uint64_t counted_bytes(const struct job_row *row)
{
    return row->deleted_ms == 0 ? row->stored_bytes : 0;
}

static enum err insert(struct db *db, const struct job_row *row, const struct idempotency_key *key,
                       struct err_info *info)
{
    enum err code = job_row_insert(db, row, key, info);
    return code == ERR_OK ? store_count_bytes(db, row->owner, 0, counted_bytes(row), info) : code;
}

enum err store_job_insert(struct db *db, const struct job_row *row, const char *log,
                          struct err_info *info)
{
    enum err code = insert(db, row, NULL, info);
    return code == ERR_OK ? append_log(db, row->id, row->created_ms, log, info) : code;
}

static enum err create(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct creation *c = ctx;
    char text[USER_NAME_SIZE + 20];
    enum err code = idempotency_find(db, &c->key, &c->earlier, info);
    if (code != ERR_OK || c->earlier.found)
        return code;
    code = store_check_active(store, db, c->row->owner, 1, info);
    if (code == ERR_OK)
        code = store_check_bytes(store, db, c->row->owner, c->room, info);
    if (code == ERR_OK)
        code = store_check_jobs(store, db, c->row->owner, 1, info);
    if (code == ERR_OK)
        code = insert(db, c->row, &c->key, info);
    snprintf(text, sizeof text, "submitted by %s", c->row->owner);
    return code == ERR_OK ? append_log(db, c->row->id, c->row->created_ms, text, info) : code;
}

enum err store_job_create(struct store *store, struct job_row *row, const struct store_claim *claim,
                          bool *existing, struct err_info *info)
{
    struct creation c = {.row = row,
                         .room = claim != NULL ? &claim->room : NULL,
                         .key = idempotency_of(IDEMPOTENCY_JOB, row->owner, claim)};
    enum err code = store_write_catalogue(store, create, &c, info);
    *existing = code == ERR_OK && c.earlier.found;
    if (*existing)
        memcpy(row->id, c.earlier.id, sizeof row->id);
    else if (code == ERR_OK)
        row->revision = 1;
    return code;
}

/* ---- changing ---- */

struct change {
    const struct job_row *row;
    unsigned fields;
    const char *log;
    const struct store_room *room; /* NULL: the change needs none */
    uint64_t revision;
    char owner[USER_NAME_SIZE];
    enum job_state from;
    uint64_t stored_bytes, deleted_ms; /* before it */
};

/* Whether the change takes the job out of the trash. Every other change is for jobs outside of it:
 * the caller has seen the job before, and it may have been deleted or restored since. */
static bool restores(const struct change *change)
{
    return (change->fields & JOB_SET_DELETED) && change->row->deleted_ms == 0;
}

static enum err raise_revision(struct db *db, struct change *change, struct err_info *info)
{
    struct query q;
    bool found = false;
    bool unchanged = change->fields & JOB_IF_UNCHANGED;
    query_open(&q, db,
               "UPDATE job SET revision = revision + 1 WHERE id = ? AND (deleted_ms <> 0) = ? "
               "AND (NOT ? OR revision = ?) RETURNING revision, owner, state, "
               "stored_bytes, deleted_ms");
    query_text(&q, change->row->id);
    query_int(&q, restores(change));
    query_int(&q, unchanged);
    query_count(&q, change->row->revision);
    while (query_next(&q)) {
        found = true;
        change->revision = query_get_count(&q, 0);
        query_copy_text(&q, 1, change->owner, sizeof change->owner);
        job_state_parse(query_get_text(&q, 2), &change->from);
        change->stored_bytes = query_get_count(&q, 3);
        change->deleted_ms = query_get_count(&q, 4);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && !found && unchanged && store_in_catalogue(db, change->row->id))
        return err_set(info, ERR_CONFLICT, "job %.40s was changed meanwhile", change->row->id);
    return code == ERR_OK && !found ? not_found(change->row->id, info) : code;
}

/* A job that comes back out of the trash after its study was deleted is a job like any other. */
static enum err leave_study(struct db *db, const char *job, struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "UPDATE job SET study = NULL WHERE id = ? AND study IS NOT NULL "
               "AND study NOT IN (SELECT id FROM study WHERE state <> 'deleting')");
    query_text(&q, job);
    return query_run(&q, info);
}

static enum err count_bytes(struct db *db, const struct change *change, struct err_info *info)
{
    struct job_row before = {.stored_bytes = change->stored_bytes,
                             .deleted_ms = change->deleted_ms};
    struct job_row after = before;
    if (change->fields & JOB_SET_RESULTS)
        after.stored_bytes = change->row->stored_bytes;
    if (change->fields & JOB_SET_DELETED)
        after.deleted_ms = change->row->deleted_ms;
    return store_count_bytes(db, change->owner, counted_bytes(&before), counted_bytes(&after),
                             info);
}

/* Whether a job that had ended continues. */
static bool revives(const struct change *change)
{
    return (change->fields & JOB_SET_STATE) && job_state_terminal(change->from) &&
           !job_state_terminal(change->row->state);
}

static enum err update(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct change *change = ctx;
    enum err code = raise_revision(db, change, info);
    if (code == ERR_OK && restores(change))
        code = leave_study(db, change->row->id, info);
    if (code == ERR_OK && revives(change))
        code = store_check_active(store, db, change->owner, 1, info);
    if (code == ERR_OK)
        code = job_row_update(db, change->row, change->fields, info);
    if (code == ERR_OK)
        code = count_bytes(db, change, info);
    if (code == ERR_OK)
        code = store_check_bytes(store, db, change->owner, change->room, info);
    if (code == ERR_OK && change->log != NULL)
        code = append_lines(db, change->row->id, change->log, info);
    return code;
}

enum err store_job_update(struct store *store, struct job_row *row, unsigned fields,
                          const char *log, struct err_info *info)
{
    return store_job_admit(store, row, fields, log, NULL, info);
}

enum err store_job_admit(struct store *store, struct job_row *row, unsigned fields, const char *log,
                         const struct store_room *room, struct err_info *info)
{
    if (fields & JOB_SET_DELETED)
        row->deleted_uptime_ms = row->deleted_ms != 0 ? store_uptime_ms(store) : 0;
    struct change change = {.row = row, .fields = fields, .log = log, .room = room};
    enum err code = store_write_catalogue(store, update, &change, info);
    if (code == ERR_OK)
        row->revision = change.revision;
    return code;
}

/* ---- removing ---- */

struct purge {
    struct write write;
    const char *id;
    uint64_t deleted_ms;
};

/* Only the job that the caller saw: one that was restored, or put into the trash, since then stays. */
static enum err delete_row(struct db *db, const struct purge *purge, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "DELETE FROM job WHERE id = ? AND deleted_ms = ?");
    query_text(&q, purge->id);
    query_count(&q, purge->deleted_ms);
    enum err code = query_run(&q, info);
    if (code == ERR_OK && query_changes(db) == 0)
        return store_in_catalogue(db, purge->id)
                   ? err_set(info, ERR_CONFLICT, "job %.40s was %s meanwhile", purge->id,
                             purge->deleted_ms != 0 ? "restored" : "deleted")
                   : not_found(purge->id, info);
    /* The file of an earlier purge has been removed. */
    if (code == ERR_OK) {
        query_open(&q, db, "DELETE FROM purge");
        code = query_run(&q, info);
    }
    if (code == ERR_OK) {
        query_open(&q, db, "INSERT INTO purge (job) VALUES (?)");
        query_text(&q, purge->id);
        code = query_run(&q, info);
    }
    return code;
}

static enum err remove_row(struct store *store, const struct purge *purge, struct err_info *info)
{
    enum err code = db_begin(store->db, info);
    if (code == ERR_OK)
        code = delete_row(store->db, purge, info);
    if (code == ERR_OK)
        code = db_commit(store->db, info);
    else
        db_rollback(store->db);
    atomic_fetch_add(&store->changes, 1);
    store_note_health(store, store->db, true);
    return code;
}

static enum err remove_file(struct store *store, const char *id, struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    enum err code = store_job_path(store, id, path, info);
    if (code != ERR_OK)
        return code;
    store_file_drop(store, id);
    pthread_mutex_lock(&store->pool_lock);
    store->purges++; /* readers in use are not returned to the pool */
    pthread_mutex_unlock(&store->pool_lock);
    jobfile_forget(store, id);
    struct stat st;
    uint64_t bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    code = db_unlink(path, info);
    if (code == ERR_OK && fsync(store->draws_fd) != 0)
        code = err_set(info, ERR_IO, "the removal of job %s cannot be synced: %m", id);
    pthread_mutex_lock(&store->lock);
    store->stats.file_bytes -= bytes < store->stats.file_bytes ? bytes : store->stats.file_bytes;
    pthread_mutex_unlock(&store->lock);
    return code;
}

static enum err run_purge(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct purge *purge = ctx;
    (void)db;
    /* The file is being copied: other operations run first, and then this one is tried again. */
    if (store_file_pinned(store, purge->id)) {
        purge->write.again = true;
        return ERR_OK;
    }
    enum err code = remove_row(store, purge, info);
    if (code == ERR_NO_SPACE && store_reserve_release(store))
        code = remove_row(store, purge, info);
    return code == ERR_OK ? remove_file(store, purge->id, info) : code;
}

enum err store_job_purge(struct store *store, const char *id, uint64_t deleted_ms,
                         struct err_info *info)
{
    struct purge purge = {
        .write = {.kind = WRITE_ALONE, .run = run_purge}, .id = id, .deleted_ms = deleted_ms};
    purge.write.ctx = &purge;
    return store_write(store, &purge.write, info);
}

/* ---- reading ---- */

static enum err get(struct db *db, const char *id, bool deleted, struct job_row *row,
                    struct err_info *info)
{
    struct query q;
    bool found = false;
    enum err code = ERR_OK;
    query_open(&q, db, "SELECT " JOB_ROW_SELECT " FROM job WHERE id = ? AND (deleted_ms <> 0) = ?");
    query_text(&q, id);
    query_int(&q, deleted);
    if (query_next(&q)) {
        found = true;
        code = job_row_read(&q, row, info);
    }
    enum err read = query_close(&q, info);
    code = code != ERR_OK ? code : read;
    if (code != ERR_OK)
        job_row_release(row);
    return code == ERR_OK && !found ? not_found(id, info) : code;
}

static enum err read_job(struct store *store, const char *id, bool deleted, struct job_row *row,
                         struct err_info *info)
{
    struct db *db;
    *row = (struct job_row){0};
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    code = get(db, id, deleted, row, info);
    store_reader_give(store, db);
    return code;
}

enum err store_job_get(struct store *store, const char *id, struct job_row *row,
                       struct err_info *info)
{
    return read_job(store, id, false, row, info);
}

enum err store_job_get_trashed(struct store *store, const char *id, struct job_row *row,
                               struct err_info *info)
{
    return read_job(store, id, true, row, info);
}

enum err store_job_by_key(struct store *store, const char *owner, const char *idempotency_key,
                          const unsigned char body_hash[32], char id[JOB_ID_SIZE],
                          struct err_info *info)
{
    struct idempotency_key key = {IDEMPOTENCY_JOB, owner, idempotency_key, body_hash};
    return idempotency_read(store, &key, id, info);
}

/* One query in variants that use different indexes: an optional condition cannot use one. `study` is the
 * last column of the row, so only the lists that need it read it. */
#define LIST(path)                                                                        \
    "SELECT " JOB_ROW_SELECT " FROM job " path " AND id < ?1 AND (deleted_ms <> 0) = ?2 " \
    "AND (?3 IS NULL OR owner = ?3 OR lab) AND (?4 IS NULL OR owner = ?4) "               \
    "AND (?5 IS NULL OR state = ?5) AND (?6 IS NULL OR model = ?6) "                      \
    "AND (?7 IS NULL OR sampler = ?7) "                                                   \
    "AND (?8 IS NULL OR EXISTS (SELECT 1 FROM json_each("                                 \
    "CASE WHEN json_valid(tags) THEN tags ELSE '[]' END) WHERE value = ?8)) "             \
    "AND (?9 IS NULL OR instr(lower(name), lower(?9)) OR instr(id, lower(?9))) "          \
    "AND (NOT ?10 OR state IN ('queued', 'running', 'paused', 'cancelling')) "            \
    "ORDER BY id DESC LIMIT ?11"

static const char *listed_sql(const struct job_filter *f)
{
    if (f->active)
        return LIST(
            "WHERE state IN ('queued', 'running', 'paused', 'cancelling') AND study IS NULL");
    if (f->owner != NULL)
        return LIST("INDEXED BY job_listed_owner WHERE owner = ?4 AND study IS NULL");
    if (f->state != NULL)
        return LIST("INDEXED BY job_listed_state WHERE state = ?5 AND study IS NULL");
    return LIST("INDEXED BY job_listed WHERE study IS NULL");
}

static const char *list_sql(const struct job_filter *f)
{
    if (f->deleted)
        return LIST("WHERE deleted_ms <> 0");
    if (f->study != NULL)
        return LIST("WHERE id IN (SELECT job FROM study_job WHERE study = ?12)");
    if (f->listed)
        return listed_sql(f);
    if (f->active)
        return LIST("WHERE state IN ('queued', 'running', 'paused', 'cancelling')");
    if (f->owner != NULL)
        return LIST("WHERE owner = ?4");
    if (f->state != NULL)
        return LIST("WHERE state = ?5");
    return LIST("WHERE true");
}

struct job_list {
    const struct job_filter *filter;
    char last[JOB_ID_SIZE]; /* "" before the first page */
    bool (*each)(void *ctx, const struct job_row *row);
    void *ctx;
};

static enum err read_page(struct db *db, void *ctx, size_t want, void *page, size_t *count,
                          struct err_info *info)
{
    struct job_list *list = ctx;
    const struct job_filter *f = list->filter;
    struct job_row *rows = page;
    struct query q;
    enum err code = ERR_OK;
    query_open(&q, db, list_sql(f));
    query_text(&q, store_list_before(list->last, f->before));
    query_int(&q, f->deleted);
    query_text(&q, f->viewer);
    query_text(&q, f->owner);
    query_text(&q, f->state);
    query_text(&q, f->model);
    query_text(&q, f->sampler);
    query_text(&q, f->tag);
    query_text(&q, f->q);
    query_int(&q, f->active);
    query_count(&q, want);
    if (f->study != NULL && !f->deleted)
        query_text(&q, f->study);
    for (*count = 0; code == ERR_OK && *count < want && query_next(&q);)
        code = job_row_read(&q, &rows[(*count)++], info);
    if (*count > 0)
        memcpy(list->last, rows[*count - 1].id, sizeof list->last);
    enum err read = query_close(&q, info);
    return code != ERR_OK ? code : read;
}

static bool each_job(void *ctx, const void *row)
{
    const struct job_list *list = ctx;
    return list->each(list->ctx, row);
}

static void release_job(void *row)
{
    job_row_release(row);
}

enum err store_jobs(struct store *store, const struct job_filter *filter,
                    bool (*each)(void *ctx, const struct job_row *row), void *ctx,
                    struct err_info *info)
{
    struct job_row page[STORE_JOBS_READ];
    struct job_list jobs = {.filter = filter, .each = each, .ctx = ctx};
    struct store_list list = {page,     STORE_JOBS_READ, sizeof page[0], read_page,
                              each_job, release_job,     &jobs};
    return store_list_read(store, &list, filter->limit != 0 ? filter->limit : SIZE_MAX, info);
}
