/* Reading job files. */
#include "server/store/jobfile.h"
#include "server/store/jobfile_parts.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening: connections are kept for the next reader ---- */

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; names != NULL && i < count; i++)
        free(names[i]);
    free(names);
}

static void discard(struct jobfile *file)
{
    db_close(file->db);
    free_names(file->names, file->layout.info.width);
    free_names(file->metric_names, file->layout.info.metric_width);
    jobfile_blocks_free(file->blocks);
    free(file->tile);
    free(file->kept);
    free(file);
}

static struct jobfile *take_idle(struct store *store, const char *job, uint64_t *purges)
{
    struct jobfile *found = NULL;
    pthread_mutex_lock(&store->pool_lock);
    *purges = store->purges;
    for (size_t i = store->idle_jobfile_count; i-- > 0 && found == NULL;) {
        if (strcmp(store->idle_jobfiles[i]->job, job) != 0)
            continue;
        found = store->idle_jobfiles[i];
        memmove(&store->idle_jobfiles[i], &store->idle_jobfiles[i + 1],
                (--store->idle_jobfile_count - i) * sizeof store->idle_jobfiles[0]);
    }
    pthread_mutex_unlock(&store->pool_lock);
    return found;
}

static enum err open_new(struct jobfile *file, struct err_info *info)
{
    char path[STORE_PATH_SIZE], label[40];
    enum err code = store_job_path(file->store, file->job, path, info);
    if (code != ERR_OK)
        return code;
    snprintf(label, sizeof label, "job file %s", file->job);
    struct db_options options = {
        .path = path, .label = label, .role = DB_READER, .cache = DB_CACHE_SMALL};
    code = db_open(&file->db, &options, info);
    if (code == ERR_NOT_FOUND)
        return err_set(info, ERR_NOT_FOUND, "there is no job file %s", file->job);
    if (code == ERR_OK)
        code = jobfile_version_check(file->db, file->job, false, info);
    return code == ERR_OK ? jobfile_layout_read(file->db, &file->layout, info) : code;
}

enum err jobfile_open(struct jobfile **out, struct store *store, const char *job,
                      struct err_info *info)
{
    *out = NULL;
    if (!job_id_valid(job))
        return err_set(info, ERR_NOT_FOUND, "\"%.40s\" is not the id of a job", job);
    uint64_t purges;
    struct jobfile *file = take_idle(store, job, &purges);
    if (file != NULL) {
        *out = file;
        return ERR_OK;
    }
    if ((file = calloc(1, sizeof *file)) == NULL)
        return err_set(info, ERR_NO_MEMORY, "job file %s: out of memory", job);
    file->store = store;
    file->purges = purges;
    memcpy(file->job, job, sizeof file->job);
    enum err code = open_new(file, info);
    if (code != ERR_OK) {
        discard(file);
        return code;
    }
    *out = file;
    return ERR_OK;
}

void jobfile_close(struct jobfile *file)
{
    if (file == NULL)
        return;
    struct store *store = file->store;
    struct jobfile *surplus = NULL;
    pthread_mutex_lock(&store->pool_lock);
    if (file->purges != store->purges || db_health(file->db) != DB_SOUND) {
        surplus = file;
    } else {
        if (store->idle_jobfile_count == STORE_IDLE_JOBFILES) {
            surplus = store->idle_jobfiles[0];
            memmove(&store->idle_jobfiles[0], &store->idle_jobfiles[1],
                    --store->idle_jobfile_count * sizeof store->idle_jobfiles[0]);
        }
        store->idle_jobfiles[store->idle_jobfile_count++] = file;
    }
    pthread_mutex_unlock(&store->pool_lock);
    if (surplus != NULL)
        discard(surplus);
}

void jobfile_keep(struct jobfile *file, void *kept)
{
    free(file->kept);
    file->kept = kept;
}

const void *jobfile_kept(const struct jobfile *file)
{
    return file->kept;
}

void jobfile_forget(struct store *store, const char *job)
{
    struct jobfile *gone[STORE_IDLE_JOBFILES];
    size_t count = 0, kept = 0;
    pthread_mutex_lock(&store->pool_lock);
    for (size_t i = 0; i < store->idle_jobfile_count; i++) {
        struct jobfile *file = store->idle_jobfiles[i];
        if (job == NULL || strcmp(file->job, job) == 0)
            gone[count++] = file;
        else
            store->idle_jobfiles[kept++] = file;
    }
    store->idle_jobfile_count = kept;
    pthread_mutex_unlock(&store->pool_lock);
    for (size_t i = 0; i < count; i++)
        discard(gone[i]);
}

/* ---- facts ---- */

void jobfile_info(const struct jobfile *file, struct jobfile_info *out)
{
    *out = file->layout.info;
}

/* All names of a query in order; NULL when the file does not have exactly 0..count-1. */
static char **read_names(struct db *db, const char *sql, size_t count)
{
    struct query q;
    size_t found = 0;
    char **names = calloc(count + 1, sizeof *names);
    if (names == NULL)
        return NULL;
    query_open(&q, db, sql);
    while (found < count && query_next(&q) && query_get_count(&q, 0) == found)
        names[found++] = query_dup_text(&q, 1);
    if (query_close(&q, NULL) == ERR_OK && found == count)
        return names;
    free_names(names, count);
    return NULL;
}

const char *jobfile_name(struct jobfile *file, size_t column)
{
    if (file->names == NULL)
        file->names = read_names(file->db, "SELECT position, name FROM parameter ORDER BY position",
                                 file->layout.info.width);
    return file->names != NULL && column < file->layout.info.width ? file->names[column] : "";
}

const char *jobfile_metric_name(struct jobfile *file, size_t k)
{
    if (file->metric_names == NULL)
        file->metric_names =
            read_names(file->db, "SELECT metric, name FROM metric_name ORDER BY metric",
                       file->layout.info.metric_width);
    return file->metric_names != NULL && k < file->layout.info.metric_width ? file->metric_names[k]
                                                                            : "";
}

/* "theta[3]" of a job whose coefficients have names of their own; SIZE_MAX: it is not one. */
static size_t numbered_column(const struct jobfile *file, const char *name)
{
    const struct jobfile_info *about = &file->layout.info;
    size_t number = 0;
    int length = 0;
    bool whole = sscanf(name, "theta[%9zu]%n", &number, &length) == 1 && name[length] == '\0';
    return whole && length > 0 && number >= 1 && number <= about->width && about->width == about->d
               ? number - 1
               : SIZE_MAX;
}

static bool has_design(struct jobfile *file)
{
    struct query q;
    query_open(&q, file->db, "SELECT 1 FROM meta WHERE key = 'design'");
    bool found = query_next(&q);
    return query_close(&q, NULL) == ERR_OK && found;
}

size_t jobfile_column(struct jobfile *file, const char *name)
{
    struct query q;
    size_t column = SIZE_MAX;
    query_open(&q, file->db, "SELECT position FROM parameter WHERE name = ?");
    query_text(&q, name);
    if (query_next(&q))
        column = query_get_count(&q, 0);
    if (query_close(&q, NULL) == ERR_OK && column < file->layout.info.width)
        return column;
    return has_design(file) ? numbered_column(file, name) : SIZE_MAX;
}

uint64_t jobfile_bytes(struct store *store, const char *job)
{
    char path[STORE_PATH_SIZE], wal[STORE_PATH_SIZE + 8];
    struct stat st;
    uint64_t bytes = store_file_bytes(store, job);
    if (bytes > 0 || store_job_path(store, job, path, NULL) != ERR_OK)
        return bytes;
    snprintf(wal, sizeof wal, "%s-wal", path);
    if (stat(path, &st) == 0)
        bytes += (uint64_t)st.st_size;
    if (stat(wal, &st) == 0)
        bytes += (uint64_t)st.st_size;
    return bytes;
}

static enum err check_chain(const struct jobfile *file, uint32_t chain, struct err_info *info)
{
    if (chain >= 1 && chain <= file->layout.info.chains)
        return ERR_OK;
    return err_set(info, ERR_INVALID, "chain %u: the job has chains 1 to %u", chain,
                   file->layout.info.chains);
}

enum err jobfile_chain(struct jobfile *file, uint32_t chain, struct jobfile_chain *out,
                       struct err_info *info)
{
    struct jobfile_progress progress = {0};
    enum err code = check_chain(file, chain, info);
    if (code == ERR_OK)
        code = jobfile_progress_read(file->db, chain, &progress, info);
    *out = progress.chain;
    return code;
}

/* Reads all parts in one transaction: a commit between them would mix two values. */
static enum err read_long(struct jobfile *file, const struct jobfile_long *value, void **bytes,
                          size_t *size, struct err_info *info)
{
    enum err code = db_begin_read(file->db, info);
    if (code != ERR_OK)
        return code;
    code = jobfile_long_read(file->db, value, bytes, size, info);
    db_rollback(file->db);
    return code;
}

enum err jobfile_state(struct jobfile *file, uint32_t chain, void **bytes, size_t *size,
                       struct err_info *info)
{
    struct jobfile_long state = jobfile_long_state(chain);
    *bytes = NULL;
    *size = 0;
    enum err code = check_chain(file, chain, info);
    return code == ERR_OK ? read_long(file, &state, bytes, size, info) : code;
}

static enum err read_vector(struct jobfile *file, uint32_t chain, const char *kind, double *out,
                            struct err_info *info)
{
    struct query q;
    bool found = false;
    size_t size = 0, want = file->layout.info.d * sizeof *out;
    query_open(&q, file->db, "SELECT data FROM vector WHERE chain = ? AND kind = ?");
    query_int(&q, chain);
    query_text(&q, kind);
    if (query_next(&q)) {
        found = true;
        const void *data = query_get_blob(&q, 0, &size);
        if (size == want && size > 0)
            memcpy(out, data, size);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && !found)
        return err_set(info, ERR_NOT_FOUND, "chain %u has no %s yet", chain, kind);
    if (code == ERR_OK && size != want)
        return err_set(info, ERR_CORRUPT, "the %s of chain %u has %zu bytes instead of %zu", kind,
                       chain, size, want);
    return code;
}

enum err jobfile_vector(struct jobfile *file, uint32_t chain, enum jobfile_vector which,
                        double *out, struct err_info *info)
{
    static const char *const kinds[] = {[JOBFILE_MEAN] = "mean",
                                        [JOBFILE_VARIANCE] = "variance",
                                        [JOBFILE_TAU] = "tau",
                                        [JOBFILE_BEYOND] = "beyond",
                                        [JOBFILE_SIGMA] = "sigma"};
    enum err code = check_chain(file, chain, info);
    return code == ERR_OK ? read_vector(file, chain, kinds[which], out, info) : code;
}

enum err jobfile_note(struct jobfile *file, uint32_t chain, char **out, struct err_info *info)
{
    struct query q;
    *out = NULL;
    enum err code = check_chain(file, chain, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, file->db, "SELECT note FROM chain WHERE chain = ?");
    query_int(&q, chain);
    if (query_next(&q))
        *out = query_dup_text(&q, 0);
    return query_close(&q, info);
}

/* ---- plan ---- */

static enum err read_meta(struct jobfile *file, const char *key, void **out, size_t *size,
                          struct err_info *info)
{
    struct query q;
    query_open(&q, file->db, "SELECT value FROM meta WHERE key = ?");
    query_text(&q, key);
    bool there = query_next(&q);
    const void *value = there ? query_get_blob(&q, 0, size) : NULL;
    *out = there ? calloc(*size + 1, 1) : NULL;
    if (*out != NULL && *size > 0)
        memcpy(*out, value, *size);
    enum err code = query_close(&q, info);
    if (code == ERR_OK && !there)
        code = err_set(info, ERR_NOT_FOUND, "job file %s has no %s", file->job, key);
    else if (code == ERR_OK && *out == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for the plan of a job");
    return code;
}

enum err jobfile_plan(struct jobfile *file, struct jobfile_plan *out, struct err_info *info)
{
    void *document = NULL, *request = NULL;
    size_t size;
    *out = (struct jobfile_plan){0};
    struct jobfile_long plan = jobfile_long_plan();
    enum err code = read_long(file, &plan, &out->bytes, &out->size, info);
    if (code == ERR_OK && out->bytes == NULL)
        code = err_set(info, ERR_NOT_FOUND, "job file %s has no plan", file->job);
    if (code == ERR_OK)
        code = read_meta(file, "plan_document", &document, &size, info);
    if (code == ERR_OK)
        code = read_meta(file, "request", &request, &size, info);
    out->document = document;
    out->request = request;
    if (code != ERR_OK)
        jobfile_plan_release(out);
    return code;
}

static enum err read_document(struct jobfile *file, const char *key, char **out,
                              struct err_info *info)
{
    void *document = NULL;
    size_t size;
    enum err code = read_meta(file, key, &document, &size, info);
    *out = document;
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

enum err jobfile_plan_document(struct jobfile *file, char **out, struct err_info *info)
{
    return read_document(file, "plan_document", out, info);
}

enum err jobfile_design(struct jobfile *file, char **out, struct err_info *info)
{
    return read_document(file, "design", out, info);
}

void jobfile_plan_release(struct jobfile_plan *plan)
{
    free(plan->bytes);
    free(plan->document);
    free(plan->request);
    *plan = (struct jobfile_plan){0};
}

/* ---- metrics ---- */

enum err jobfile_check_range(const char *what, uint32_t chain, uint64_t first, size_t count,
                             uint64_t stored, struct err_info *info)
{
    if (first <= stored && count <= stored - first)
        return ERR_OK;
    return err_set(info, ERR_INVALID, "chain %u: %zu %s from %llu on, but only %llu are stored",
                   chain, count, what, (unsigned long long)first, (unsigned long long)stored);
}

static enum err read_metrics(struct jobfile *file, uint32_t chain, uint64_t first, size_t count,
                             uint64_t *iterations, double *values, struct err_info *info)
{
    struct query q;
    size_t width = file->layout.info.metric_width, n = 0;
    bool whole = true;
    query_open(&q, file->db,
               "SELECT record, metric, iteration, draw, average FROM metric "
               "WHERE chain = ? AND record >= ? AND record < ? ORDER BY record, metric");
    query_int(&q, chain);
    query_count(&q, first);
    query_count(&q, first + count);
    for (; whole && n < count * width && query_next(&q); n++) {
        size_t i = n / width, k = n % width;
        whole = query_get_count(&q, 0) == first + i && query_get_count(&q, 1) == k;
        iterations[i] = query_get_count(&q, 2);
        values[2 * width * i + k] = query_get_real(&q, 3);
        values[2 * width * i + width + k] = query_get_real(&q, 4);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && (!whole || n != count * width))
        code = err_set(info, ERR_CORRUPT, "chain %u: metric records are missing", chain);
    return code;
}

enum err jobfile_metrics(struct jobfile *file, uint32_t chain, uint64_t first, size_t count,
                         uint64_t *iterations, double *values, struct err_info *info)
{
    struct jobfile_chain stored;
    enum err code = jobfile_chain(file, chain, &stored, info);
    if (code == ERR_OK)
        code = jobfile_check_range("metric records", chain, first, count, stored.metrics, info);
    if (code != ERR_OK || count == 0 || file->layout.info.metric_width == 0)
        return code;
    return read_metrics(file, chain, first, count, iterations, values, info);
}
