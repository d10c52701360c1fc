/* Data files: listing, looking inside, uploading, deleting. */
#include "server/api/api.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/data/rows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define UPLOAD_MS     (3600 * 1000)
#define PREVIEW_ROWS  10
#define PREVIEW_BYTES ((size_t)1 << 30)
#define LARGE_BYTES   ((uint64_t)16 << 20)
#define LARGE_AT_ONCE \
    2 /* files of this size are looked into at a time: each is in memory whole \
       */

static json_t *time_of(struct timespec t)
{
    return call_time((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000);
}

static bool add_entry(void *ctx, const struct data_file_entry *entry)
{
    json_t **items = ctx, *one = json_object();
    json_put(&one, "name", json_text(entry->path));
    json_put(&one, "shared", json_boolean(!entry->own));
    json_put(&one, "bytes", json_count(entry->size));
    json_put(&one, "modified_at", time_of(entry->modified));
    json_add(items, one);
    return *items != NULL;
}

void api_datasets(struct call *call)
{
    struct err_info info;
    json_t *items = json_array();
    enum err code = data_file_list(call->app->root, call->who.user, add_entry, &items, &info);
    call_list(call, code, items, &info);
}

static json_t *preview_json(const struct table *t, size_t most)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < t->rows && i < most; i++) {
        json_t *row = json_array();
        for (size_t j = 0; j < t->columns; j++)
            json_add(&row, json_number(t->values[i * t->columns + j]));
        json_add(&rows, row);
    }
    return rows;
}

static json_t *table_json(const struct table *t, size_t rows)
{
    json_t *doc = json_object(), *columns = json_array();
    for (size_t j = 0; j < t->columns; j++)
        json_add(&columns, json_text(t->names[j]));
    json_put(&doc, "header", json_boolean(t->header));
    json_put(&doc, "columns", columns);
    json_put(&doc, "preview", preview_json(t, rows));
    return doc;
}

static void answer_file(struct call *call, const struct data_file *file, json_t *doc)
{
    json_put(&doc, "name", json_text(file->path));
    json_put(&doc, "shared", json_boolean(!file->own));
    json_put(&doc, "bytes", json_count(file->size));
    json_put(&doc, "modified_at", time_of(file->modified));
    call_json(call, 200, doc);
}

/* Of a file that is too large to be read within a request, the beginning: no rows are counted,
 * and there is no hash. */
static void show_beginning(struct call *call, const struct data_file *file, size_t rows)
{
    struct data_rows start;
    struct err_info info;
    json_t *doc = NULL;
    enum err code = data_rows_open(&start, file, file->path, "", PREVIEW_BYTES, &info);
    if (code == ERR_OK) {
        code = data_rows_next(&start, &info);
        doc = code == ERR_OK ? table_json(start.table, rows) : NULL;
        data_rows_close(&start);
    }
    if (code == ERR_MALFORMED || code == ERR_UNSUPPORTED) {
        doc = json_object();
        json_put(&doc, "problem", json_text(info.message));
    } else if (code != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    answer_file(call, file, doc);
}

static void show(struct call *call, const struct data_file *file, size_t rows)
{
    char *bytes, sha256[DATA_FILE_SHA256_HEX];
    size_t size;
    struct err_info info;
    struct table table;
    if (data_file_read(file, PREVIEW_BYTES, &bytes, &size, sha256, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    struct table_source source = {
        .name = file->path, .bytes = bytes, .size = size, .budget_bytes = PREVIEW_BYTES};
    enum err code = table_peek(&table, &source, rows, &info);
    free(bytes);
    json_t *doc = code == ERR_OK ? table_json(&table, rows) : json_object();
    if (code == ERR_OK) {
        json_put(&doc, "rows", json_count(table.rows_total));
        table_release(&table);
    } else {
        json_put(&doc, "problem", json_text(info.message)); /* it is there, but no job can use it */
    }
    json_put(&doc, "sha256", json_text(sha256));
    answer_file(call, file, doc);
}

void api_dataset(struct call *call)
{
    struct data_file file;
    struct err_info info;
    uint64_t rows = PREVIEW_ROWS;
    if (!call_query_count(call, "rows", 0, 1000, &rows))
        return;
    if (data_file_open(call->app->root, call->who.user, call->arg[0], &file, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    static atomic_uint large;
    bool huge = file.size > PREVIEW_BYTES, heavy = !huge && file.size > LARGE_BYTES;
    if (huge)
        show_beginning(call, &file, (size_t)rows);
    else if (heavy && atomic_fetch_add(&large, 1) >= LARGE_AT_ONCE)
        call_fail(call, ERR_UNAVAILABLE, "other large files are being read; try again later");
    else
        show(call, &file, (size_t)rows);
    if (heavy)
        atomic_fetch_sub(&large, 1);
    data_file_close(&file);
}

/* ---- uploading: the body goes to disk as it comes ---- */

static enum err write_upload(void *ctx, const char *bytes, size_t size, struct err_info *info)
{
    struct call *call = ctx;
    return upload_write(call->upload, bytes, size, info);
}

static void abort_upload(void *ctx)
{
    struct call *call = ctx;
    upload_abort(call->upload);
    call->upload = NULL;
}

/* Jobs that run have the last of the disk to themselves, as they have at submissions. */
static enum err bound(struct call *call, struct err_info *info)
{
    struct owner_totals totals;
    uint64_t reserve = 2 * ((uint64_t)call->app->config->min_free_mb << 20);
    enum err code = store_owner_totals(call->app->store, call->who.user, &totals, info);
    if (code == ERR_OK)
        code = upload_bound(call->upload, totals.most_stored_bytes, reserve, info);
    if (code != ERR_OK)
        abort_upload(call);
    return code;
}

enum err api_dataset_begin(struct call *call, struct admission *plan, struct err_info *info)
{
    uint64_t limit = (uint64_t)call->app->config->upload_mb << 20;
    enum err code =
        upload_begin(&call->upload, call->app->root, call->who.user, call->arg[0], limit, info);
    if (code == ERR_OK)
        code = bound(call, info);
    if (code != ERR_OK)
        return code;
    plan->body_limit = limit;
    plan->body_deadline_ms = UPLOAD_MS;
    plan->sink = (struct body_sink){.ctx = call, .write = write_upload, .abort = abort_upload};
    return ERR_OK;
}

void api_dataset_put(struct call *call)
{
    struct upload_result result;
    struct err_info info;
    struct upload *upload = call->upload;
    call->upload = NULL;
    if (upload_commit(upload, &result, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    json_t *doc = json_object();
    json_put(&doc, "name", json_text(call->arg[0]));
    json_put(&doc, "bytes", json_count(result.size));
    json_put(&doc, "sha256", json_text(result.sha256));
    call_json(call, 201, doc);
}

void api_dataset_delete(struct call *call)
{
    struct err_info info;
    if (data_file_delete(call->app->root, call->who.user, call->arg[0], &info) != ERR_OK)
        call_fail_info(call, &info);
    else
        call_empty(call, 204);
}
