/* Studies and their members. */
#include "server/store/page.h"
#include "server/store/quota.h"
#include "server/store/studies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS                                                                                \
    "id, owner, created_ms, kind, name, request, state, lab, jobs, submitted, ended, failed, " \
    "cpu_seconds, ended_ms, data_sha256, memo"

/* Visible to its owner, and to users who may see all of its jobs that exist; one that submits its jobs
 * by itself to the lab if it has that visibility. ?1 is the viewer. */
#define VISIBLE                                                                                  \
    "state <> 'deleting' AND (?1 IS NULL OR owner = ?1 OR lab = 1 OR (state = 'fixed' AND "      \
    "EXISTS (SELECT 1 FROM study_job m JOIN job j ON j.id = m.job "                              \
    "WHERE m.study = study.id AND j.deleted_ms = 0) AND "                                        \
    "NOT EXISTS (SELECT 1 FROM study_job m JOIN job j ON j.id = m.job WHERE m.study = study.id " \
    "AND j.deleted_ms = 0 AND NOT j.lab AND j.owner <> ?1)))"

const char *const study_state_names[] = {
#define X(name) #name,
    STUDY_STATE_LIST(X)
#undef X
        NULL};

void study_row_release(struct study_row *row)
{
    for (size_t i = 0; i < row->member_count; i++)
        free(row->members[i].setting);
    free(row->members);
    free(row->kind);
    free(row->name);
    free(row->request);
    free(row->data_sha256);
    free(row->memo);
    *row = (struct study_row){0};
}

static enum err not_found(const char *id, struct err_info *info)
{
    return err_set(info, ERR_NOT_FOUND, "there is no study %.40s", id);
}

/* ---- creating ---- */

struct creation {
    const struct study_row *row;
    const struct job_row *jobs;
    size_t count;
    const struct store_room *room;
    struct idempotency_key key;
    struct idempotency_match earlier;
};

static enum err insert_study(struct db *db, const struct creation *c, struct err_info *info)
{
    const struct study_row *row = c->row;
    struct query q;
    query_open(&q, db,
               "INSERT INTO study (id, owner, created_ms, kind, name, request, state, lab, jobs, "
               "data_sha256, memo, idempotency_key, body_hash) "
               "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    query_text(&q, row->id);
    query_text(&q, row->owner);
    query_count(&q, row->created_ms);
    query_text(&q, row->kind);
    query_text(&q, row->name);
    query_text(&q, row->request);
    query_text(&q, study_state_names[row->state]);
    query_int(&q, row->lab);
    query_count(&q, row->jobs);
    query_text(&q, row->data_sha256);
    query_text(&q, row->memo);
    query_text(&q, c->key.key);
    query_blob(&q, c->key.key != NULL ? c->key.hash : NULL, 32);
    enum err code = query_run(&q, info);
    if (code == ERR_CONFLICT)
        err_set(info, ERR_CONFLICT, "there is a study %s already", row->id);
    return code;
}

static enum err insert_jobs(struct db *db, const struct creation *c, struct err_info *info)
{
    enum err code = ERR_OK;
    for (size_t i = 0; i < c->count && code == ERR_OK; i++) {
        char text[USER_NAME_SIZE + JOB_ID_SIZE + 40];
        snprintf(text, sizeof text, "submitted by %s for study %s", c->row->owner, c->row->id);
        code = store_job_insert(db, &c->jobs[i], text, info);
    }
    return code;
}

static enum err insert_member(struct db *db, const struct study_row *row, size_t position,
                              struct err_info *info)
{
    const struct study_member *member = &row->members[position];
    struct query q;
    query_open(&q, db,
               "INSERT INTO study_job (study, position, job, setting) "
               "SELECT ?1, ?2, id, ?4 FROM job WHERE id = ?3 AND deleted_ms = 0");
    query_text(&q, row->id);
    query_count(&q, position);
    query_text(&q, member->job);
    query_text(&q, member->setting);
    enum err code = query_run(&q, info);
    if (code == ERR_OK && query_changes(db) == 0)
        code = err_set(info, ERR_CONFLICT, "job %.16s has been deleted meanwhile", member->job);
    return code;
}

enum err store_check_under_way(struct db *db, const char *owner, struct err_info *info)
{
    uint64_t count = 0;
    enum err code =
        store_read_count(db,
                         "SELECT count(*) FROM study INDEXED BY study_active WHERE owner = ? AND "
                         "state IN ('running', 'paused', 'cancelling', 'deleting')",
                         owner, &count, info);
    if (code != ERR_OK || count < STUDIES_UNDER_WAY)
        return code;
    return err_set(info, ERR_QUOTA,
                   "%s has %llu studies under way, paused ones included, and may have %d: wait for "
                   "one to end, or cancel one",
                   owner, (unsigned long long)count, STUDIES_UNDER_WAY);
}

static enum err check_studies(struct store *store, struct db *db, const char *owner,
                              struct err_info *info)
{
    uint64_t count = 0;
    enum err code =
        store_read_count(db, "SELECT count(*) FROM study WHERE owner = ?", owner, &count, info);
    if (code != ERR_OK || count < store->user_studies)
        return code;
    return err_set(info, ERR_QUOTA, "%s has %llu studies and may have %llu: delete some", owner,
                   (unsigned long long)count, (unsigned long long)store->user_studies);
}

static enum err create(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct creation *c = ctx;
    enum err code = idempotency_find(db, &c->key, &c->earlier, info);
    if (code != ERR_OK || c->earlier.found)
        return code;
    code = store_check_active(store, db, c->row->owner, c->count, info);
    if (code == ERR_OK)
        code = store_check_bytes(store, db, c->row->owner, c->room, info);
    if (code == ERR_OK)
        code = store_check_jobs(store, db, c->row->owner, c->count, info);
    if (code == ERR_OK)
        code = check_studies(store, db, c->row->owner, info);
    if (code == ERR_OK && c->row->state != STUDY_fixed)
        code = store_check_under_way(db, c->row->owner, info);
    if (code == ERR_OK)
        code = insert_study(db, c, info);
    if (code == ERR_OK)
        code = insert_jobs(db, c, info);
    for (size_t i = 0; i < c->row->member_count && code == ERR_OK; i++)
        code = insert_member(db, c->row, i, info);
    return code;
}

enum err store_study_create(struct store *store, struct study_row *row, struct job_row *jobs,
                            size_t count, const struct store_claim *claim, bool *existing,
                            struct err_info *info)
{
    struct creation c = {.row = row,
                         .jobs = jobs,
                         .count = count,
                         .room = claim != NULL ? &claim->room : NULL,
                         .key = idempotency_of(IDEMPOTENCY_STUDY, row->owner, claim)};
    enum err code = store_write_catalogue(store, create, &c, info);
    *existing = code == ERR_OK && c.earlier.found;
    if (*existing)
        memcpy(row->id, c.earlier.id, sizeof row->id);
    for (size_t i = 0; i < count && code == ERR_OK && !*existing; i++)
        jobs[i].revision = 1;
    return code;
}

enum err store_study_by_key(struct store *store, const char *owner, const char *idempotency_key,
                            const unsigned char body_hash[32], char id[JOB_ID_SIZE],
                            struct err_info *info)
{
    struct idempotency_key key = {IDEMPOTENCY_STUDY, owner, idempotency_key, body_hash};
    return idempotency_read(store, &key, id, info);
}

/* ---- removing ---- */

static enum err remove_study(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const char *id = ctx;
    struct query q;
    (void)store;
    query_open(&q, db, "DELETE FROM study WHERE id = ?");
    query_text(&q, id);
    enum err code = query_run(&q, info);
    return code == ERR_OK && query_changes(db) == 0 ? not_found(id, info) : code;
}

enum err store_study_delete(struct store *store, const char *id, struct err_info *info)
{
    return store_write_catalogue(store, remove_study, (void *)(uintptr_t)id, info);
}

/* ---- reading ---- */

static bool read_state(struct query *q, int column, enum study_state *out)
{
    for (size_t i = 0; study_state_names[i] != NULL; i++) {
        if (strcmp(study_state_names[i], query_get_text(q, column)) != 0)
            continue;
        *out = (enum study_state)i;
        return true;
    }
    return false;
}

static enum err read_head(struct query *q, struct study_row *row, struct err_info *info)
{
    query_copy_text(q, 0, row->id, sizeof row->id);
    query_copy_text(q, 1, row->owner, sizeof row->owner);
    row->created_ms = query_get_count(q, 2);
    row->kind = query_dup_text(q, 3);
    row->name = query_dup_text(q, 4);
    row->request = query_dup_text(q, 5);
    row->lab = query_get_int(q, 7) == 1;
    row->jobs = query_get_count(q, 8);
    row->submitted = query_get_count(q, 9);
    row->ended = query_get_count(q, 10);
    row->failed = query_get_count(q, 11);
    row->cpu_seconds = query_get_real(q, 12);
    row->ended_ms = query_get_count(q, 13);
    row->data_sha256 = query_dup_text(q, 14);
    row->memo = query_dup_text(q, 15);
    if (read_state(q, 6, &row->state))
        return ERR_OK;
    return err_set(info, ERR_CORRUPT, "study %s is in the unknown state \"%.20s\"", row->id,
                   query_get_text(q, 6));
}

static enum err read_members(struct db *db, struct study_row *row, struct err_info *info)
{
    struct query q;
    row->members = calloc(STUDY_JOBS_MAX, sizeof *row->members);
    if (row->members == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the jobs of study %s", row->id);
    query_open(&q, db,
               "SELECT job, setting, position, goal FROM study_job INDEXED BY study_job_open "
               "WHERE study = ? AND outcome IS NULL ORDER BY position");
    query_text(&q, row->id);
    while (row->member_count < STUDY_JOBS_MAX && query_next(&q)) {
        struct study_member *member = &row->members[row->member_count++];
        query_copy_text(&q, 0, member->job, sizeof member->job);
        member->setting = query_dup_text(&q, 1);
        member->position = query_get_count(&q, 2);
        member->goal = query_get_count(&q, 3);
    }
    return query_close(&q, info);
}

/* Deleted since the query. */
static bool is_gone(const struct study_row *row)
{
    return row->state == STUDY_fixed && row->member_count == 0;
}

#define GET(condition) "SELECT " COLUMNS " FROM study WHERE id = ?2 AND " condition

static enum err get(struct db *db, const char *viewer, bool any, const char *id,
                    struct study_row *row, struct err_info *info)
{
    struct query q;
    bool found = false;
    enum err code = ERR_OK;
    query_open(&q, db, any ? GET("?1 IS NULL") : GET(VISIBLE));
    query_text(&q, viewer);
    query_text(&q, id);
    if (query_next(&q)) {
        found = true;
        code = read_head(&q, row, info);
    }
    enum err closed = query_close(&q, info);
    code = code == ERR_OK ? closed : code;
    if (code == ERR_OK)
        code = found ? read_members(db, row, info) : not_found(id, info);
    if (code == ERR_OK && is_gone(row))
        code = not_found(id, info);
    if (code != ERR_OK)
        study_row_release(row);
    return code;
}

static enum err read_one(struct store *store, const char *viewer, bool any, const char *id,
                         struct study_row *row, struct err_info *info)
{
    struct db *db;
    *row = (struct study_row){0};
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    code = get(db, viewer, any, id, row, info);
    store_reader_give(store, db);
    return code;
}

enum err store_study_get(struct store *store, const char *viewer, const char *id,
                         struct study_row *row, struct err_info *info)
{
    return read_one(store, viewer, false, id, row, info);
}

enum err store_study_get_any(struct store *store, const char *id, struct study_row *row,
                             struct err_info *info)
{
    return read_one(store, NULL, true, id, row, info);
}

/* One query, with the part that decides which index it walks exchanged. */
#define LIST(path)                                                                             \
    "SELECT " COLUMNS " FROM study WHERE " path " AND id < ?2 AND (?3 IS NULL OR owner = ?3) " \
    "AND (?4 IS NULL OR kind = ?4) AND (?5 IS NULL OR "                                        \
    "EXISTS (SELECT 1 FROM study_job WHERE study = study.id AND job = ?5)) AND " VISIBLE       \
    " ORDER BY id DESC LIMIT ?6"

enum { STUDY_PAGE = 32 };

struct study_list {
    const struct study_filter *filter;
    char last[JOB_ID_SIZE]; /* "" before the first page */
    bool (*each)(void *ctx, const struct study_row *row);
    void *ctx;
};

static enum err read_page(struct db *db, void *ctx, size_t want, void *page, size_t *count,
                          struct err_info *info)
{
    struct study_list *list = ctx;
    const struct study_filter *f = list->filter;
    struct study_row *rows = page;
    struct query q;
    query_open(&q, db, f->owner != NULL ? LIST("owner = ?3") : LIST("true"));
    query_text(&q, f->viewer);
    query_text(&q, store_list_before(list->last, f->before));
    query_text(&q, f->owner);
    query_text(&q, f->kind);
    query_text(&q, f->job);
    query_count(&q, want);
    enum err code = ERR_OK;
    for (*count = 0; code == ERR_OK && *count < want && query_next(&q);) {
        rows[*count] = (struct study_row){0};
        code = read_head(&q, &rows[(*count)++], info);
    }
    if (*count > 0)
        memcpy(list->last, rows[*count - 1].id, sizeof list->last);
    enum err closed = query_close(&q, info);
    code = code == ERR_OK ? closed : code;
    for (size_t i = 0; i < *count && code == ERR_OK; i++)
        code = read_members(db, &rows[i], info);
    return code;
}

static bool each_study(void *ctx, const void *row)
{
    const struct study_list *list = ctx;
    const struct study_row *study = row;
    return is_gone(study) || list->each(list->ctx, study); /* deleted since the query */
}

static void release_study(void *row)
{
    study_row_release(row);
}

enum err store_studies(struct store *store, const struct study_filter *filter,
                       bool (*each)(void *ctx, const struct study_row *row), void *ctx,
                       struct err_info *info)
{
    struct study_row page[STUDY_PAGE];
    struct study_list studies = {.filter = filter, .each = each, .ctx = ctx};
    struct store_list list = {page,       STUDY_PAGE,    sizeof page[0], read_page,
                              each_study, release_study, &studies};
    return store_list_read(store, &list, filter->limit, info);
}
