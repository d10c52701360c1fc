/* Reference posteriors: storing, showing, listing, deleting; from documents or from jobs. */
#include "server/api/measure.h"
#include "server/api/turn.h"
#include "server/base/clock.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/results/reference_make.h"
#include "server/sched/sched.h"
#include "server/store/jobfile.h"

#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES ((size_t)1 << 20)
#define NAME_MAX    64
#define BLOCK_MAX   32

struct reference_list {
    struct call *call;
    json_t *items;
};

static bool add_reference(void *ctx, const struct reference_row *row)
{
    struct reference_list *list = ctx;
    if (!call_reserve_rows(list->call, 1))
        return false;
    json_t *one = json_object();
    json_put(&one, "name", json_text(row->name));
    json_put(&one, "owner", json_text(row->owner));
    json_put(&one, "visibility", json_text(row->lab ? "lab" : "private"));
    json_put(&one, "created_at", call_time(row->created_ms));
    json_add(&list->items, one);
    return list->items != NULL;
}

void api_references(struct call *call)
{
    struct err_info info;
    struct reference_list list = {call, json_array()};
    enum err code = store_references(call->app->store, call->who.user, add_reference, &list, &info);
    call_list(call, code, list.items, &info);
}

void api_reference(struct call *call)
{
    struct reference_row row;
    struct err_info info;
    enum err code =
        turn_begin(REFERENCE_DOCUMENT_MAX, &info); /* the size is known once it is read */
    if (code == ERR_OK) {
        code = store_reference_get(call->app->store, call->who.user, call->arg[0], &row, &info);
        turn_end();
    }
    if (code != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    call->reply->status = 200;
    call->reply->content_type = "application/json";
    call->reply->body = row.document;
    call->reply->body_size = strlen(row.document);
}

/* The name in the path, given as "name" or as "owner/name" with the caller as the owner; otherwise
 * answers and returns NULL. */
static const char *own_name(struct call *call)
{
    const char *asked = call->arg[0];
    size_t length = strcspn(asked, "/");
    if (asked[length] == '\0')
        return asked;
    if (strlen(call->who.user) == length && memcmp(asked, call->who.user, length) == 0)
        return asked + length + 1;
    call_fail(call, ERR_FORBIDDEN, "only its owner may store or delete a reference");
    return NULL;
}

void api_reference_delete(struct call *call)
{
    struct err_info info;
    const char *name = own_name(call);
    if (name == NULL)
        return;
    if (store_reference_delete(call->app->store, call->who.user, name, &info) != ERR_OK)
        call_fail_info(call, &info);
    else
        call_empty(call, 204);
}

/* ---- storing ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

static bool name_valid(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= NAME_MAX && name[0] != '.' &&
           strspn(name, LETTERS DIGITS "_.-") == length;
}

static bool block_valid(const char *block)
{
    size_t length = strlen(block);
    return length > 0 && length <= BLOCK_MAX && strspn(block, LETTERS DIGITS "_") == length &&
           strchr(DIGITS, block[0]) == NULL;
}

/* The name, new names for the parameters (may be NULL), and the visibility of a reference. */
struct keeping {
    const char *name, *block;
    bool lab;
};

/* Stores the document as the caller's reference. */
static void keep(struct call *call, const json_t *json, const struct keeping *as)
{
    struct err_info info;
    size_t length = 0;
    struct reference_row row = {.lab = as->lab,
                                .created_ms = clock_wall_ms(),
                                .document = json_write(json, &length),
                                .more_bytes = sched_grown_bytes(call->app->sched, call->who.user)};
    memcpy(row.name, as->name, strlen(as->name) + 1);
    memcpy(row.owner, call->who.user, sizeof row.owner);
    if (row.document == NULL)
        call_fail(call, ERR_NO_MEMORY, NULL);
    else if (length > REFERENCE_DOCUMENT_MAX - 1024)
        call_fail(call, ERR_TOO_LARGE,
                  "the reference takes more than 16 MiB; give fewer digits, draws or parameters");
    else if (store_reference_put(call->app->store, &row, &info) != ERR_OK)
        call_fail_info(call, &info);
    else
        call_empty(call, 204);
    free(row.document);
}

static json_t *labels_json(const struct reference *r)
{
    json_t *labels = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_add(&labels, json_text(r->names[i]));
    return labels;
}

/* The reference as columns. With `block` the parameters are renamed to block[1], block[2], ..., and
 * `labels` keeps their former names. */
static json_t *columns_of(struct reference *reference, const char *block)
{
    json_t *labels = block != NULL ? labels_json(reference) : NULL;
    bool good = block == NULL || reference_rename(reference, block);
    json_t *doc = good ? reference_json(reference) : NULL;
    if (labels != NULL)
        json_put(&doc, "labels", labels);
    return doc;
}

/* Moments are stored unchanged. Of draws, only what a comparison needs is stored. */
static void keep_document(struct call *call, const json_t *json, const struct keeping *as)
{
    struct mistakes mistakes = {0};
    struct reference reference;
    enum err code = reference_parse(json, &reference, &mistakes);
    if (code != ERR_OK && mistakes.count > 0) {
        call_mistakes(call, &mistakes);
        return;
    }
    if (code != ERR_OK) {
        call_fail(call, code, NULL);
        return;
    }
    json_t *columns = NULL;
    bool convert = json_is_array(json) || as->block != NULL;
    if (convert)
        columns = columns_of(&reference, as->block);
    reference_release(&reference);
    if (convert && columns == NULL)
        call_fail(call, ERR_NO_MEMORY, NULL);
    else
        keep(call, convert ? columns : json, as);
    json_decref(columns);
}

/* ---- from a job ---- */

static void make_from(struct call *call, const struct job_row *row, const struct keeping *as)
{
    struct err_info info;
    struct reference reference;
    struct jobfile *file;
    char detail[160];
    if (!job_state_terminal(row->state)) {
        snprintf(detail, sizeof detail,
                 "the job is %s; a reference can be made only from a job that has ended",
                 job_state_name(row->state));
        call_fail(call, ERR_CONFLICT, detail);
        return;
    }
    if (!call_jobfile(call, row->id, &file))
        return;
    if (measure_reference(&reference, file, row, &info) == ERR_OK) {
        json_t *columns = columns_of(&reference, as->block);
        reference_release(&reference);
        if (columns != NULL)
            keep(call, columns, as);
        else
            call_fail(call, ERR_NO_MEMORY, NULL);
        json_decref(columns);
    } else {
        call_fail_info(call, &info);
    }
    jobfile_close(file);
}

static void read_job(void *context, const struct place *place, const json_t *value)
{
    const char **id = context;
    field_text(place, value, (struct field_text){.max = 64}, id);
}

static void keep_job(struct call *call, const json_t *json, const struct keeping *as)
{
    static const struct field fields[] = {{"job", read_job}, {NULL, NULL}};
    struct mistakes mistakes = {0};
    struct place root = place_root(&mistakes);
    const char *id = NULL;
    struct job_row row;
    field_object(&root, json, fields, &id);
    if (mistakes.count > 0) {
        call_mistakes(call, &mistakes);
    } else if (call_job_named(call, id, &row, false)) {
        make_from(call, &row, as);
        job_row_release(&row);
    }
}

static bool read_block(struct call *call, const char **block)
{
    struct mistakes mistakes = {0};
    char quote[FIELD_QUOTE_SIZE];
    *block = request_query(call->req, "names");
    if (*block == NULL || block_valid(*block))
        return true;
    mistake_add(&mistakes, "?names", MISTAKE_range,
                "%s is not allowed; it must be the name of the parameters, such as theta: 1 to "
                "%d of A-Z a-z 0-9 _, not beginning with a digit",
                field_quote(*block, quote), BLOCK_MAX);
    call_mistakes(call, &mistakes);
    return false;
}

static void put_body(struct call *call, const struct keeping *as)
{
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    if (field_get(json, "job") != NULL)
        keep_job(call, json, as);
    else
        keep_document(call, json, as);
    json_decref(json);
}

void api_reference_put(struct call *call)
{
    static const char *const words[] = {"private", "lab", NULL};
    size_t visibility = 0;
    struct keeping as = {0};
    if (!call_query_choice(call, "visibility", words, &visibility) || !read_block(call, &as.block))
        return;
    as.lab = visibility == 1;
    as.name = own_name(call);
    if (as.name == NULL)
        return;
    if (!name_valid(as.name)) {
        call_fail(call, ERR_INVALID, "a reference's name has 1 to 64 of A-Z a-z 0-9 _ . -");
        return;
    }
    if (call->req->body_size <= LARGE_BYTES) {
        put_body(call, &as);
    } else if (call_turn(call)) {
        put_body(call, &as);
        turn_end();
    }
}
