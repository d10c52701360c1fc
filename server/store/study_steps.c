/* Steps of studies that submit their jobs by themselves: each is one transaction that checks the state
 * it was decided on. */
#include "server/base/clock.h"
#include "server/store/quota.h"
#include "server/store/studies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err changed(const char *study, struct err_info *info)
{
    return err_set(info, ERR_CONFLICT, "study %.40s has changed meanwhile", study);
}

/* A statement that must change the study: when it changes nothing, the study is not as it was. */
static enum err run_step(struct query *q, struct db *db, const char *study, struct err_info *info)
{
    enum err code = query_run(q, info);
    return code == ERR_OK && query_changes(db) == 0 ? changed(study, info) : code;
}

/* ---- one job more ---- */

struct addition {
    const char *study;
    const struct study_member *member;
    const struct job_row *job;
    const char *outcome;
    const struct store_room *room;
};

static enum err count_position(struct db *db, const struct addition *a, struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "UPDATE study SET submitted = submitted + 1, ended = ended + ?3, "
               "failed = failed + ?3, data_sha256 = coalesce(data_sha256, ?4) "
               "WHERE id = ?1 AND submitted = ?2 AND jobs > ?2 AND state = 'running'");
    query_text(&q, a->study);
    query_count(&q, a->member->position);
    query_int(&q, a->job == NULL);
    query_text(&q, a->job != NULL ? a->job->data_sha256 : NULL);
    return run_step(&q, db, a->study, info);
}

static enum err check_quotas(struct store *store, struct db *db, const struct addition *a,
                             struct err_info *info)
{
    const char *owner = a->job->owner;
    enum err code = store_check_active(store, db, owner, 1, info);
    if (code == ERR_OK)
        code = store_check_bytes(store, db, owner, a->room, info);
    return code == ERR_OK ? store_check_jobs(store, db, owner, 1, info) : code;
}

static enum err insert_job(struct store *store, struct db *db, const struct addition *a,
                           struct err_info *info)
{
    char text[USER_NAME_SIZE + JOB_ID_SIZE + 40];
    snprintf(text, sizeof text, "submitted by %s for study %s", a->job->owner, a->study);
    enum err code = check_quotas(store, db, a, info);
    return code == ERR_OK ? store_job_insert(db, a->job, text, info) : code;
}

static enum err add(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct addition *a = ctx;
    struct query q;
    enum err code = count_position(db, a, info);
    if (code == ERR_OK && a->job != NULL)
        code = insert_job(store, db, a, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db,
               "INSERT INTO study_job (study, position, job, setting, outcome, goal) "
               "VALUES (?, ?, ?, ?, ?, ?)");
    query_text(&q, a->study);
    query_count(&q, a->member->position);
    query_text(&q, a->job != NULL ? a->job->id : "");
    query_text(&q, a->member->setting);
    query_text(&q, a->job != NULL ? NULL : a->outcome);
    query_count(&q, a->member->goal);
    return query_run(&q, info);
}

enum err store_study_add(struct store *store, const char *study, const struct study_member *member,
                         const struct job_row *job, const char *outcome,
                         const struct store_room *room, struct err_info *info)
{
    struct addition a = {study, member, job, outcome, room};
    return store_write_catalogue(store, add, &a, info);
}

/* ---- outcomes ---- */

struct ending {
    const char *study;
    const struct study_outcome *outcome;
};

static enum err end(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct ending *e = ctx;
    struct query q;
    (void)store;
    query_open(&q, db,
               "UPDATE study_job SET outcome = ?3, goal = ?4 "
               "WHERE study = ?1 AND position = ?2 AND outcome IS NULL");
    query_text(&q, e->study);
    query_count(&q, e->outcome->position);
    query_text(&q, e->outcome->text);
    query_count(&q, e->outcome->goal);
    enum err code = run_step(&q, db, e->study, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db,
               "UPDATE study SET ended = ended + 1, failed = failed + ?2, "
               "cpu_seconds = cpu_seconds + ?3 WHERE id = ?1");
    query_text(&q, e->study);
    query_int(&q, e->outcome->failed);
    query_real(&q, e->outcome->cpu_seconds);
    return query_run(&q, info);
}

enum err store_study_outcome(struct store *store, const char *study,
                             const struct study_outcome *outcome, struct err_info *info)
{
    struct ending e = {study, outcome};
    return store_write_catalogue(store, end, &e, info);
}

enum { OUTCOME_PAGE = 64 };

struct outcome_row {
    uint64_t position;
    char job[JOB_ID_SIZE];
    char *text;
};

static enum err read_outcomes(struct store *store, const char *study, uint64_t first,
                              uint64_t count, struct outcome_row *rows, size_t *read,
                              struct err_info *info)
{
    struct db *db;
    struct query q;
    *read = 0;
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db,
               "SELECT position, job, outcome FROM study_job "
               "WHERE study = ? AND position >= ? AND position < ? ORDER BY position LIMIT ?");
    query_text(&q, study);
    query_count(&q, first);
    query_count(&q, first + count);
    query_count(&q, OUTCOME_PAGE);
    for (; *read < OUTCOME_PAGE && query_next(&q); (*read)++) {
        rows[*read].position = query_get_count(&q, 0);
        query_copy_text(&q, 1, rows[*read].job, sizeof rows->job);
        rows[*read].text = query_dup_text(&q, 2);
    }
    code = query_close(&q, info);
    store_reader_give(store, db);
    return code;
}

enum err store_study_outcomes(struct store *store, const char *study, uint64_t first,
                              uint64_t count,
                              bool (*each)(void *ctx, uint64_t position, const char *job,
                                           const char *outcome),
                              void *ctx, struct err_info *info)
{
    struct outcome_row rows[OUTCOME_PAGE];
    for (bool more = count > 0; more;) {
        size_t read;
        enum err code = read_outcomes(store, study, first, count, rows, &read, info);
        bool wanted = code == ERR_OK;
        for (size_t i = 0; i < read; i++) {
            wanted = wanted && each(ctx, rows[i].position, rows[i].job, rows[i].text);
            free(rows[i].text);
        }
        if (code != ERR_OK)
            return code;
        uint64_t next = read > 0 ? rows[read - 1].position + 1 : first;
        count -= next - first;
        first = next;
        more = wanted && read == OUTCOME_PAGE && count > 0;
    }
    return ERR_OK;
}

/* ---- the study as a whole ---- */

struct turning {
    const char *study;
    const struct study_change *change;
};

static enum err set_state(struct db *db, const struct turning *t, struct err_info *info)
{
    const struct study_change *c = t->change;
    struct query q;
    bool over = c->to >= STUDY_succeeded;
    query_open(&q, db,
               "UPDATE study SET state = ?3, memo = coalesce(?4, memo), "
               "jobs = CASE WHEN ?5 > 0 THEN ?5 ELSE jobs END, ended_ms = ?6, "
               "request = coalesce(?7, request) "
               "WHERE id = ?1 AND state = ?2");
    query_text(&q, t->study);
    query_text(&q, study_state_names[c->from]);
    query_text(&q, study_state_names[c->to]);
    query_text(&q, c->memo);
    query_count(&q, c->jobs);
    query_count(&q, over ? clock_wall_ms() : 0);
    query_text(&q, c->request);
    return run_step(&q, db, t->study, info);
}

/* Members of a study whose outcomes went are counted again. */
static enum err count_again(struct db *db, const char *study, uint64_t reopened,
                            struct err_info *info)
{
    struct query q;
    query_open(&q, db, "UPDATE study SET ended = ended - ?2 WHERE id = ?1");
    query_text(&q, study);
    query_count(&q, reopened);
    return query_run(&q, info);
}

static enum err want_more(struct db *db, const struct turning *t, struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "UPDATE study_job SET outcome = NULL, goal = goal + ?2 WHERE study = ?1 "
               "AND goal > 0 AND json_extract(outcome, '$.state') = 'succeeded'");
    query_text(&q, t->study);
    query_count(&q, t->change->more);
    enum err code = query_run(&q, info);
    return code == ERR_OK ? count_again(db, t->study, query_changes(db), info) : code;
}

static enum err reopen(struct db *db, const struct turning *t, uint64_t position,
                       struct err_info *info)
{
    struct query q;
    query_open(&q, db,
               "UPDATE study_job SET outcome = NULL, goal = ?3 "
               "WHERE study = ?1 AND position = ?2 AND outcome IS NOT NULL");
    query_text(&q, t->study);
    query_count(&q, position);
    query_count(&q, t->change->goal);
    enum err code = run_step(&q, db, t->study, info);
    return code == ERR_OK ? count_again(db, t->study, 1, info) : code;
}

/* A study that had ended counts among those under way again. */
static enum err check_owner(struct db *db, const char *study, struct err_info *info)
{
    struct query q;
    char owner[USER_NAME_SIZE] = "";
    query_open(&q, db, "SELECT owner FROM study WHERE id = ?");
    query_text(&q, study);
    if (query_next(&q))
        query_copy_text(&q, 0, owner, sizeof owner);
    enum err code = query_close(&q, info);
    return code == ERR_OK ? store_check_under_way(db, owner, info) : code;
}

static enum err turn(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct turning *t = ctx;
    (void)store;
    bool again = t->change->from >= STUDY_succeeded && t->change->to == STUDY_running;
    enum err code = again ? check_owner(db, t->study, info) : ERR_OK;
    if (code == ERR_OK)
        code = set_state(db, t, info);
    if (code == ERR_OK && t->change->more > 0)
        code = want_more(db, t, info);
    for (size_t i = 0; i < t->change->reopened_count && code == ERR_OK; i++)
        code = reopen(db, t, t->change->reopened[i], info);
    return code;
}

enum err store_study_change(struct store *store, const char *study,
                            const struct study_change *change, struct err_info *info)
{
    struct turning t = {study, change};
    return store_write_catalogue(store, turn, &t, info);
}

/* ---- which ones have something to do ---- */

enum err store_studies_active(struct store *store,
                              bool (*each)(void *ctx, const char *id, const char *owner), void *ctx,
                              struct err_info *info)
{
    struct db *db;
    struct query q;
    char id[JOB_ID_SIZE], owner[USER_NAME_SIZE];
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db,
               "SELECT id, owner FROM study INDEXED BY study_active "
               "WHERE state IN ('running', 'paused', 'cancelling', 'deleting') ORDER BY id");
    for (bool more = true; more && query_next(&q);) {
        query_copy_text(&q, 0, id, sizeof id);
        query_copy_text(&q, 1, owner, sizeof owner);
        more = each(ctx, id, owner);
    }
    code = query_close(&q, info);
    store_reader_give(store, db);
    return code;
}
