/* Helpers of handlers: answers, documents, query parameters, the job that a path names. */
#include "server/api/api.h"
#include "server/api/problem.h"
#include "server/base/clock.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/store/jobfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void call_fail(struct call *call, enum err code, const char *detail)
{
    problem_reply(call->reply, code, detail, NULL);
}

void call_fail_info(struct call *call, const struct err_info *info)
{
    problem_reply(call->reply, info->code, info->message, NULL);
}

void call_mistakes(struct call *call, const struct mistakes *mistakes)
{
    char detail[80];
    snprintf(detail, sizeof detail, "%zu%s mistake%s", mistakes->count,
             mistakes->more ? " or more" : "", mistakes->count == 1 ? "" : "s");
    problem_reply(call->reply, ERR_INVALID, detail, mistakes);
}

void call_json(struct call *call, int status, json_t *doc)
{
    size_t size = 0;
    if (call->reply->status != 0) { /* there was no memory for all of it */
        json_decref(doc);
        return;
    }
    char *text = doc != NULL ? json_write(doc, &size) : NULL;
    json_decref(doc);
    call_text(call, status, text, size);
}

void call_text(struct call *call, int status, char *text, size_t size)
{
    if (text == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    call->reply->status = status;
    call->reply->content_type = "application/json";
    call->reply->body = text;
    call->reply->body_size = size;
}

void call_page(struct call *call, json_t *items, const char *next)
{
    json_t *doc = json_object();
    json_put(&doc, "items", items);
    json_put(&doc, "next", next != NULL ? json_text(next) : json_null());
    call_json(call, 200, doc);
}

void call_items(struct call *call, json_t *items)
{
    call_page(call, items, NULL);
}

void call_result(struct call *call, enum err code, json_t *doc, const struct err_info *info)
{
    if (code == ERR_OK) {
        call_json(call, 200, doc);
        return;
    }
    json_decref(doc);
    call_fail_info(call, info);
}

void call_list(struct call *call, enum err code, json_t *items, const struct err_info *info)
{
    if (code == ERR_OK) {
        call_items(call, items);
        return;
    }
    json_decref(items);
    call_fail_info(call, info);
}

json_t *call_time(uint64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];
    if (wall_ms == 0)
        return json_null();
    clock_text(wall_ms, text);
    return json_text(text);
}

void call_empty(struct call *call, int status)
{
    call->reply->status = status;
}

json_t *call_body(struct call *call)
{
    json_t *json;
    struct err_info info;
    if (!call_reserve(call, json_memory(call->req->body, call->req->body_size)))
        return NULL;
    if (json_parse(&json, call->req->body, call->req->body_size, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return NULL;
    }
    return json;
}

static bool query_mistake(struct call *call, const char *name, const char *value,
                          const char *allowed)
{
    struct mistakes mistakes = {0};
    char pointer[64], quoted[FIELD_QUOTE_SIZE];
    snprintf(pointer, sizeof pointer, "?%s", name);
    mistake_add(&mistakes, pointer, MISTAKE_range, "%s is not allowed; it must be %s",
                field_quote(value, quoted), allowed);
    call_mistakes(call, &mistakes);
    return false;
}

bool call_query_count(struct call *call, const char *name, uint64_t lo, uint64_t hi, uint64_t *out)
{
    const char *text = request_query(call->req, name);
    char allowed[80], *end;
    if (text == NULL)
        return true;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value >= lo &&
        value <= hi) {
        *out = value;
        return true;
    }
    snprintf(allowed, sizeof allowed, "a whole number from %" PRIu64 " to %" PRIu64, lo, hi);
    return query_mistake(call, name, text, allowed);
}

bool call_query_number(struct call *call, const char *name, double lo, double hi, double *out)
{
    const char *text = request_query(call->req, name);
    char allowed[80], *end;
    if (text == NULL)
        return true;
    double value = strtod(text, &end);
    bool plain = strspn(text, "0123456789.eE+-") == strlen(text) && text[0] != '\0';
    if (plain && *end == '\0' && value >= lo && value <= hi) {
        *out = value;
        return true;
    }
    snprintf(allowed, sizeof allowed, "a number from %g to %g", lo, hi);
    return query_mistake(call, name, text, allowed);
}

bool call_query_flag(struct call *call, const char *name, bool *out)
{
    static const char *const words[] = {"false", "true", NULL};
    size_t index = *out;
    bool ok = call_query_choice(call, name, words, &index);
    *out = index == 1;
    return ok;
}

bool call_query_choice(struct call *call, const char *name, const char *const *choices, size_t *out)
{
    const char *text = request_query(call->req, name);
    char allowed[200] = "one of ";
    if (text == NULL)
        return true;
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    field_list(choices, allowed + 7, sizeof allowed - 7);
    return query_mistake(call, name, text, allowed);
}

bool call_is_admin(const struct call *call)
{
    return call->who.role == ROLE_ADMIN;
}

const char *call_viewer(const struct call *call)
{
    return call_is_admin(call) ? NULL : call->who.user;
}

const char *call_query_owner(const struct call *call)
{
    const char *owner = request_query(call->req, "owner");
    if (owner == NULL)
        return call->who.user;
    return strcmp(owner, "all") == 0 ? NULL : owner;
}

bool call_job(struct call *call, struct job_row *row, bool change)
{
    return call_job_named(call, call->arg[0], row, change);
}

bool call_job_named(struct call *call, const char *id, struct job_row *row, bool change)
{
    struct err_info info;
    enum err code =
        job_id_valid(id) ? store_job_get(call->app->store, id, row, &info) : ERR_NOT_FOUND;
    bool own = code == ERR_OK && (call_is_admin(call) || strcmp(row->owner, call->who.user) == 0);
    if (code == ERR_OK && (own || (row->lab && !change)))
        return true;
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        call_fail_info(call, &info);
        return false;
    }
    bool seen = code == ERR_OK && row->lab;
    if (code == ERR_OK)
        job_row_release(row);
    if (seen)
        call_fail(call, ERR_FORBIDDEN, "only its owner may change this job");
    else
        call_fail(call, ERR_NOT_FOUND, "there is no such job, or you may not see it");
    return false;
}

bool call_jobfile(struct call *call, const char *id, struct jobfile **out)
{
    struct err_info info;
    enum err code = jobfile_open(out, call->app->store, id, &info);
    if (code == ERR_OK)
        return true;
    if (code == ERR_NOT_FOUND)
        call_fail(call, ERR_CONFLICT, "the job has no draws");
    else
        call_fail_info(call, &info);
    return false;
}
