/* Data files: listing, previews, uploading, deleting. */
#include "server/api/api.h"
#include "server/api/turn.h"
#include "server/base/background.h"
#include "server/base/budget.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/data/rows.h"

#include <stdlib.h>
#include <string.h>

#define UPLOAD_MS       (3600 * 1000)
#define PREVIEW_ROWS    10
#define PREVIEW_BYTES   ((uint64_t)1 << 30) /* of a file, unpacked, that are read */
#define PREVIEW_VALUES  ((size_t)100000)    /* that are shown */
#define PREVIEW_WAIT_MS 10000
#define NAMES_BYTES     ((size_t)64 << 20) /* for names: more than the columns of any job need */
#define WINDOW_BYTES    ((size_t)64 << 10)
#define VALUE_BYTES     80 /* of a number in a JSON document, with its text */

static json_t *time_of(struct timespec t)
{
    return call_time((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000);
}

struct file_list {
    struct call *call;
    json_t *items;
};

static bool add_entry(void *ctx, const struct data_file_entry *entry)
{
    struct file_list *list = ctx;
    if (!call_reserve_rows(list->call, 1))
        return false;
    json_t *one = json_object();
    json_put(&one, "name", json_text(entry->path));
    json_put(&one, "shared", json_boolean(!entry->own));
    json_put(&one, "bytes", json_count(entry->size));
    json_put(&one, "modified_at", time_of(entry->modified));
    json_add(&list->items, one);
    return list->items != NULL;
}

void api_datasets(struct call *call)
{
    struct err_info info;
    struct file_list list = {call, json_array()};
    enum err code = data_file_list(call->app->root, call->who.user, add_entry, &list, &info);
    call_list(call, code, list.items, &info);
}

static json_t *preview_json(const struct table *t)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < t->rows; i++) {
        json_t *row = json_array();
        for (size_t j = 0; j < t->columns; j++)
            json_add(&row, json_number(t->values[i * t->columns + j]));
        json_add(&rows, row);
    }
    return rows;
}

static json_t *table_json(const struct table *t)
{
    json_t *doc = json_object(), *columns = json_array();
    for (size_t j = 0; j < t->columns; j++)
        json_add(&columns, json_text(t->names[j]));
    json_put(&doc, "header", json_boolean(t->header));
    json_put(&doc, "columns", columns);
    json_put(&doc, "preview", preview_json(t));
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

/* ---- previews ---- */

/* Memory for requests that a preview has taken. */
struct preview_memory {
    struct call *call;
    size_t taken;
    bool refused;
};

/* Waits for the first bytes only: two previews that each hold memory and wait for more would wait
 * for each other. */
static enum err take_memory(void *context, size_t bytes, struct err_info *info)
{
    struct preview_memory *m = context;
    enum err code = call_take_within(m->call, bytes, m->taken == 0 ? PREVIEW_WAIT_MS : 0, info);
    m->refused = code != ERR_OK;
    m->taken += code == ERR_OK ? bytes : 0;
    return code;
}

static void give_memory(void *context, size_t bytes)
{
    struct preview_memory *m = context;
    call_give(m->call, bytes);
    m->taken -= bytes;
}

/* The document is in memory as values and as text. */
static enum err take_document(struct preview_memory *m, const struct table *t,
                              struct err_info *info)
{
    size_t bytes = (t->rows * t->columns + t->columns) * VALUE_BYTES;
    for (size_t j = 0; j < t->columns; j++)
        bytes += 2 * strlen(t->names[j]);
    return take_memory(m, bytes, info);
}

/* The first rows; of a file beyond PREVIEW_BYTES the rows are not counted. */
static enum err read_table(struct preview_memory *m, struct data_file_reader *reader, size_t rows,
                           json_t **doc, struct err_info *info)
{
    struct table_feed feed = {.read = data_rows_feed,
                              .context = reader,
                              .name = reader->file->path,
                              .budget_bytes = NAMES_BYTES,
                              .window_bytes = WINDOW_BYTES,
                              .most_bytes = PREVIEW_BYTES,
                              .memory = {take_memory, give_memory, m}};
    struct table table;
    bool whole;
    enum err code = table_preview(&table, &feed, rows, PREVIEW_VALUES, &whole, info);
    if (code == ERR_OK)
        code = take_document(m, &table, info);
    if (code == ERR_OK) {
        *doc = table_json(&table);
        if (whole)
            json_put(doc, "rows", json_count(table.rows_total));
    } else if (!m->refused &&
               (code == ERR_MALFORMED || code == ERR_UNSUPPORTED || code == ERR_TOO_LARGE)) {
        *doc = json_object(); /* the file exists, but cannot be read as a table */
        json_put(doc, "problem", json_text(info->message));
        code = ERR_OK;
    }
    table_release(&table);
    return code;
}

static void show(struct call *call, const struct data_file *file, size_t rows)
{
    struct preview_memory memory = {.call = call};
    struct data_file_reader reader;
    char sha256[DATA_FILE_SHA256_HEX];
    struct err_info info;
    json_t *doc = NULL;
    bool hash = file->size <= PREVIEW_BYTES;
    enum err code = data_file_reader_init(&reader, file, hash, &info);
    if (code == ERR_OK) {
        code = read_table(&memory, &reader, rows, &doc, &info);
        if (code == ERR_OK && hash)
            code = data_rows_drain(&reader, &info);
        data_file_reader_end(&reader, hash ? sha256 : NULL);
    }
    if (code == ERR_OK) {
        if (hash)
            json_put(&doc, "sha256", json_text(sha256));
        answer_file(call, file, doc);
    } else {
        json_decref(doc);
        call_fail_info(call, &info);
    }
    give_memory(&memory, memory.taken);
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
    if (call_turn(call)) {
        background_enter();
        show(call, &file, (size_t)rows);
        turn_end();
    }
    data_file_close(&file);
}

/* ---- uploading: the body is written to disk as it arrives ---- */

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

/* Uploads leave disk space for running jobs, as submissions do. */
static enum err bound(struct call *call, struct err_info *info)
{
    struct owner_totals totals;
    struct upload_bounds bounds = {.files = (uint64_t)call->app->config->user_files,
                                   .free_bytes =
                                       2 * ((uint64_t)call->app->config->min_free_mb << 20)};
    enum err code = store_owner_totals(call->app->store, call->who.user, &totals, info);
    bounds.bytes = totals.most_stored_bytes;
    if (code == ERR_OK)
        code = upload_bound(call->upload, &bounds, info);
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
