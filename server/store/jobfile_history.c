/* The history of a job's summaries, and the checks made at its end. */
#include "server/store/jobfile_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing the history ---- */

/* Every how many positions a point is kept once there are `latest` + 1 of them: with the latest,
 * which is always kept, no more than JOBFILE_HISTORY. It follows from the number alone, so no state
 * is needed. */
static uint64_t spacing(uint64_t latest)
{
    uint64_t every = 1;
    while (latest / every >= JOBFILE_HISTORY - 1)
        every *= 2;
    return every;
}

/* Position of the next point: after the latest, or the same when the chains have not advanced. */
static enum err next_position(struct db *db, uint64_t iteration, uint64_t *out,
                              struct err_info *info)
{
    struct query q;
    *out = 0;
    query_open(&q, db, "SELECT position, iteration FROM history ORDER BY position DESC LIMIT 1");
    if (query_next(&q))
        *out = query_get_count(&q, 0) + (query_get_count(&q, 1) != iteration);
    return query_close(&q, info);
}

static enum err drop_points(struct db *db, uint64_t position, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "DELETE FROM history WHERE position % ? <> 0 OR position >= ?");
    query_count(&q, spacing(position));
    query_count(&q, position);
    return query_run(&q, info);
}

static enum err insert_point(struct db *db, uint64_t position,
                             const struct jobfile_history_point *p, struct err_info *info)
{
    static const double none = 0.0; /* an empty blob is not NULL */
    struct query q;
    query_open(&q, db,
               "INSERT INTO history (position, draws, iteration, seconds, max_rhat, min_ess_bulk, "
               "min_ess_tail, worst, stride, rhat, ess_bulk) "
               "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    query_count(&q, position);
    query_count(&q, p->draws);
    query_count(&q, p->iteration);
    query_real(&q, isfinite(p->seconds) ? p->seconds : 0.0);
    query_real(&q, p->max_rhat);
    query_real(&q, p->min_ess_bulk);
    query_real(&q, p->min_ess_tail);
    query_text(&q, p->worst != NULL ? p->worst : "");
    query_count(&q, p->stride);
    query_blob(&q, p->watched > 0 ? p->rhat : &none, p->watched * sizeof *p->rhat);
    query_blob(&q, p->watched > 0 ? p->ess_bulk : &none, p->watched * sizeof *p->ess_bulk);
    return query_run(&q, info);
}

static enum err run_add(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct jobfile_history_point *point = ctx;
    uint64_t position;
    (void)store;
    enum err code = next_position(db, point->iteration, &position, info);
    if (code == ERR_OK)
        code = drop_points(db, position, info);
    return code == ERR_OK ? insert_point(db, position, point, info) : code;
}

enum err jobfile_history_add(struct store *store, const char *job,
                             const struct jobfile_history_point *point, struct err_info *info)
{
    struct jobfile_history_point copy = *point;
    struct write write = {.kind = WRITE_FILE, .job = job, .run = run_add, .ctx = &copy};
    if (point->watched > JOBFILE_WATCHED)
        return err_set(info, ERR_INVALID, "%zu watched columns; at most %d are kept",
                       point->watched, JOBFILE_WATCHED);
    return store_write(store, &write, info);
}

/* ---- writing the checks ---- */

#define PUT_CERTIFIED                                          \
    "INSERT INTO vector (chain, kind, data) VALUES (0, ?, ?) " \
    "ON CONFLICT (chain, kind) DO UPDATE SET data = excluded.data"
#define DROP_CERTIFIED "DELETE FROM vector WHERE chain = 0 AND kind = ?"

static const char *const certified_kinds[JOBFILE_CERTIFIED] = {"mean_error", "mean_bound",
                                                               "sd_error", "sd_bound"};

struct checks {
    const char *document;
    const double *certified;
};

/* The numbers of a job as a whole are vectors of chain 0. */
static enum err put_certified(struct db *db, const double *certified, struct err_info *info)
{
    struct query q;
    struct jobfile_layout layout;
    enum err code = jobfile_layout_read(db, &layout, info);
    for (size_t k = 0; k < JOBFILE_CERTIFIED && code == ERR_OK; k++) {
        query_open(&q, db, certified != NULL ? PUT_CERTIFIED : DROP_CERTIFIED);
        query_text(&q, certified_kinds[k]);
        if (certified != NULL)
            query_blob(&q, certified + k * layout.info.d, layout.info.d * sizeof *certified);
        code = query_run(&q, info);
    }
    return code;
}

static enum err run_put(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    const struct checks *checks = ctx;
    struct query q;
    (void)store;
    query_open(&q, db,
               "INSERT INTO checks (id, iteration, document) "
               "VALUES (1, (SELECT coalesce(sum(iteration), 0) FROM chain), ?) "
               "ON CONFLICT (id) DO UPDATE SET iteration = excluded.iteration, "
               "document = excluded.document");
    query_text(&q, checks->document);
    enum err code = query_run(&q, info);
    return code == ERR_OK ? put_certified(db, checks->certified, info) : code;
}

enum err jobfile_checks_put(struct store *store, const char *job, const char *document,
                            const double *certified, struct err_info *info)
{
    struct checks checks = {document, certified};
    struct write write = {.kind = WRITE_FILE, .job = job, .run = run_put, .ctx = &checks};
    return store_write(store, &write, info);
}

/* ---- reading ---- */

/* The version may have grown since the file was opened. */
static enum err has_history(struct jobfile *file, bool *out, struct err_info *info)
{
    uint64_t version = 0;
    enum err code = db_version(file->db, &version, info);
    *out = version >= JOBFILE_WITH_HISTORY;
    return code;
}

static enum err allocate(struct jobfile_history *h, size_t count, struct err_info *info)
{
    h->points = calloc(count + 1, sizeof *h->points);
    h->worst = calloc(count + 1, sizeof *h->worst);
    h->values = calloc(2 * count * h->watched + 1, sizeof *h->values);
    if (h->points != NULL && h->worst != NULL && h->values != NULL)
        return ERR_OK;
    return err_set(info, ERR_NO_MEMORY, "no memory for the history of a job");
}

static enum err read_shape(struct jobfile *file, struct jobfile_history *h, size_t *count,
                           struct err_info *info)
{
    struct query q;
    *count = 0;
    query_open(&q, file->db,
               "SELECT length(rhat), stride, (SELECT count(*) FROM history) FROM history "
               "ORDER BY position DESC LIMIT 1");
    if (query_next(&q)) {
        h->watched = (size_t)(query_get_count(&q, 0) / sizeof(double));
        h->stride = (size_t)query_get_count(&q, 1);
        *count = (size_t)query_get_count(&q, 2);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && (h->watched > JOBFILE_WATCHED || *count > JOBFILE_HISTORY))
        code = err_set(info, ERR_CORRUPT, "job file %s: the history is too large", file->job);
    return code;
}

/* Copies a blob of the watched columns, or gives NULL when its size differs. */
static const double *take_values(struct query *q, int column, const struct jobfile_history *h,
                                 double *to)
{
    size_t size;
    const void *data = query_get_blob(q, column, &size);
    if (size == 0 || size != h->watched * sizeof *to)
        return NULL;
    memcpy(to, data, size);
    return to;
}

static void take_point(struct query *q, struct jobfile_history *h)
{
    struct jobfile_history_point *p = &h->points[h->count];
    double *values = h->values + 2 * h->count * h->watched;
    *p = (struct jobfile_history_point){.draws = query_get_count(q, 0),
                                        .iteration = query_get_count(q, 1),
                                        .seconds = query_get_real(q, 2),
                                        .max_rhat = query_get_real(q, 3),
                                        .min_ess_bulk = query_get_real(q, 4),
                                        .min_ess_tail = query_get_real(q, 5),
                                        .worst = h->worst[h->count],
                                        .stride = (size_t)query_get_count(q, 7)};
    query_copy_text(q, 6, h->worst[h->count], sizeof h->worst[0]);
    h->count++;
    if (p->stride != h->stride)
        return;
    p->rhat = take_values(q, 8, h, values);
    p->ess_bulk = take_values(q, 9, h, values + h->watched);
    p->watched = p->rhat != NULL && p->ess_bulk != NULL ? h->watched : 0;
}

static enum err read_points(struct jobfile *file, struct jobfile_history *h, size_t count,
                            struct err_info *info)
{
    struct query q;
    query_open(&q, file->db,
               "SELECT draws, iteration, seconds, max_rhat, min_ess_bulk, min_ess_tail, worst, "
               "stride, rhat, ess_bulk FROM history ORDER BY position");
    while (h->count < count && query_next(&q))
        take_point(&q, h);
    return query_close(&q, info);
}

/* One snapshot: the writer may drop points between two statements. */
static enum err read_history(struct jobfile *file, struct jobfile_history *h, struct err_info *info)
{
    size_t count;
    enum err code = db_begin_read(file->db, info);
    if (code != ERR_OK)
        return code;
    code = read_shape(file, h, &count, info);
    if (code == ERR_OK)
        code = allocate(h, count, info);
    if (code == ERR_OK)
        code = read_points(file, h, count, info);
    db_rollback(file->db);
    return code;
}

enum err jobfile_history(struct jobfile *file, struct jobfile_history *out, struct err_info *info)
{
    bool there;
    *out = (struct jobfile_history){0};
    enum err code = has_history(file, &there, info);
    if (code == ERR_OK && there)
        code = read_history(file, out, info);
    if (code != ERR_OK)
        jobfile_history_release(out);
    return code;
}

void jobfile_history_release(struct jobfile_history *history)
{
    free(history->points);
    free(history->worst);
    free(history->values);
    *history = (struct jobfile_history){0};
}

#define FRESH "iteration = (SELECT coalesce(sum(iteration), 0) FROM chain)"

enum err jobfile_checks(struct jobfile *file, char **out, struct err_info *info)
{
    struct query q;
    bool there;
    *out = NULL;
    enum err code = has_history(file, &there, info);
    if (code != ERR_OK || !there)
        return code;
    query_open(&q, file->db, "SELECT document FROM checks WHERE " FRESH);
    if (query_next(&q))
        *out = query_dup_text(&q, 0);
    code = query_close(&q, info);
    if (code != ERR_OK) {
        free(*out);
        *out = NULL;
    }
    return code;
}

/* Errors of checks that are no longer valid stay in the file until the next checks. */
static enum err read_certified(struct jobfile *file, double *out, size_t *found,
                               struct err_info *info)
{
    enum err code = ERR_OK;
    size_t size, d = file->layout.info.d;
    *found = 0;
    for (size_t k = 0; k < JOBFILE_CERTIFIED && code == ERR_OK; k++) {
        struct query q;
        query_open(&q, file->db,
                   "SELECT data FROM vector WHERE chain = 0 AND kind = ? "
                   "AND EXISTS (SELECT 1 FROM checks WHERE " FRESH ")");
        query_text(&q, certified_kinds[k]);
        const void *data = query_next(&q) ? query_get_blob(&q, 0, &size) : NULL;
        if (data != NULL && size == d * sizeof *out) {
            memcpy(out + k * d, data, size);
            ++*found;
        }
        code = query_close(&q, info);
    }
    return code;
}

enum err jobfile_certified(struct jobfile *file, double **out, struct err_info *info)
{
    bool there;
    size_t found = 0;
    *out = NULL;
    enum err code = has_history(file, &there, info);
    if (code != ERR_OK || !there)
        return code;
    double *numbers = malloc((JOBFILE_CERTIFIED * file->layout.info.d + 1) * sizeof *numbers);
    if (numbers == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the certified errors of a job");
    code = db_begin_read(file->db, info);
    if (code == ERR_OK)
        code = read_certified(file, numbers, &found, info);
    db_rollback(file->db);
    if (code == ERR_OK && found == JOBFILE_CERTIFIED)
        *out = numbers;
    else
        free(numbers);
    return code;
}
