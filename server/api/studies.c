/* Studies: creating, listing, showing, deleting. */
#include "server/api/study.h"
#include "server/api/study_driver.h"
#include "server/api/submission.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/sched/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_LIMIT = 50, LIST_LIMIT_MAX = 100 };

/* ---- showing ---- */

static void put_result(struct call *call, const struct study_view *view, json_t *doc)
{
    const struct study_kind *kind = study_kind_find(view->row->kind);
    char reason[300] = "this server does not know this kind of study";
    json_t *result = NULL;
    if (kind != NULL && !kind->result(call, view, &result, reason, sizeof reason)) {
        json_decref(doc);
        return;
    }
    json_put(&doc, "result", result != NULL ? result : json_null());
    if (result == NULL)
        json_put(&doc, "result_reason", json_text(reason));
    call_json(call, 200, doc);
}

static void answer_study(struct call *call, const struct study_row *row, bool result, int status)
{
    struct study_view *view = calloc(1, sizeof *view);
    struct err_info info;
    if (view == NULL)
        call_fail(call, ERR_NO_MEMORY, NULL);
    else if (study_view_init(view, call->app, call_viewer(call), row, false, &info) != ERR_OK)
        call_fail_info(call, &info);
    else if (result)
        put_result(call, view, study_json(view));
    else
        call_json(call, status, study_json(view));
    if (view != NULL)
        study_view_release(view);
    free(view);
}

void study_answer(struct call *call, const struct study_row *row, int status)
{
    answer_study(call, row, false, status);
}

static bool reserve_study(struct call *call, const struct study_row *row)
{
    return call_reserve_rows(call, 1 + row->member_count) &&
           call_reserve(call, json_memory(row->request, strlen(row->request)));
}

/* The study of the route, if the caller may see it. False: answered. */
static bool find_study(struct call *call, struct study_row *row)
{
    struct err_info info;
    enum err code = ERR_NOT_FOUND;
    if (job_id_valid(call->arg[0]))
        code = store_study_get(call->app->store, call_viewer(call), call->arg[0], row, &info);
    if (code == ERR_NOT_FOUND)
        call_fail(call, ERR_NOT_FOUND, "there is no such study");
    else if (code != ERR_OK)
        call_fail_info(call, &info);
    return code == ERR_OK;
}

void api_study(struct call *call)
{
    struct study_row row;
    if (!find_study(call, &row))
        return;
    if (reserve_study(call, &row))
        answer_study(call, &row, true, 200);
    study_row_release(&row);
}

void api_study_table(struct call *call)
{
    struct study_row row;
    if (!find_study(call, &row))
        return;
    const struct study_kind *kind = study_kind_find(row.kind);
    if (kind == NULL || kind->table == NULL)
        call_fail(call, ERR_INVALID, "only a sweep has a table");
    else if (reserve_study(call, &row))
        kind->table(call, &row);
    study_row_release(&row);
}

/* ---- listing ---- */

struct list {
    struct call *call;
    struct study_view view;
    json_t *items;
    size_t limit;
    char last[JOB_ID_SIZE];
    bool more;
    enum err code;
    struct err_info info;
};

static bool list_row(void *ctx, const struct study_row *row)
{
    struct list *list = ctx;
    if (json_array_size(list->items) == list->limit) {
        list->more = true;
        return false;
    }
    if (!reserve_study(list->call, row))
        return false;
    list->code = study_view_init(&list->view, list->call->app, call_viewer(list->call), row, true,
                                 &list->info);
    if (list->code == ERR_OK)
        json_add(&list->items, study_json(&list->view));
    study_view_release(&list->view);
    memcpy(list->last, row->id, sizeof list->last);
    return list->code == ERR_OK && list->items != NULL;
}

/* owner as in GET /v1/jobs. */
static bool read_filter(struct call *call, struct study_filter *filter)
{
    const struct request *req = call->req;
    uint64_t limit = LIST_LIMIT;
    size_t kind;
    struct mistakes mistakes = {0};
    *filter = (struct study_filter){
        .viewer = call_viewer(call),
        .owner = call_query_owner(call),
        .kind = request_query(req, "kind"),
        .job = request_query(req, "job"),
        .before = request_query(req, "cursor"),
    };
    if (!call_query_count(call, "limit", 1, LIST_LIMIT_MAX, &limit) ||
        !call_query_choice(call, "kind", study_names, &kind))
        return false;
    filter->limit = (size_t)limit + 1;
    if (filter->before != NULL && !job_id_valid(filter->before))
        mistake_add(&mistakes, "?cursor", MISTAKE_range,
                    "not a cursor; use the field next of the previous page");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    return mistakes.count == 0;
}

static void answer_list(struct call *call, struct list *list, const struct study_filter *filter)
{
    enum err code = store_studies(call->app->store, filter, list_row, list, &list->info);
    if (code == ERR_OK)
        code = list->code;
    if (code != ERR_OK) {
        json_decref(list->items);
        call_fail_info(call, &list->info);
        return;
    }
    json_t *doc = json_object();
    json_put(&doc, "items", list->items);
    json_put(&doc, "next", list->more ? json_text(list->last) : json_null());
    call_json(call, 200, doc);
}

void api_studies(struct call *call)
{
    struct study_filter filter;
    if (!read_filter(call, &filter))
        return;
    struct list *list = calloc(1, sizeof *list);
    if (list == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    *list = (struct list){.call = call, .items = json_array(), .limit = filter.limit - 1};
    answer_list(call, list, &filter);
    free(list);
}

/* ---- creating ---- */

/* From a plan to rows that can be stored. */
struct creation {
    struct study_plan plan;
    struct study_row row;
    struct job_row jobs[STUDY_JOBS_MAX];
    struct job_run
        *runs[STUDY_JOBS_MAX]; /* the same in the scheduler, until they are given to it */
    size_t job_count;
    uint64_t bytes; /* that the new jobs will store */
};

static void creation_release(struct creation *c)
{
    for (size_t i = 0; i < c->job_count; i++)
        job_row_release(&c->jobs[i]);
    study_row_release(&c->row);
    study_plan_release(&c->plan);
    free(c);
}

static bool same_data(struct call *call, const struct creation *c, const struct job_row *row)
{
    if (c->plan.data_sha256 == NULL || strcmp(c->plan.data_sha256, row->data_sha256) == 0)
        return true;
    call_fail(
        call, ERR_DATA_CHANGED,
        "the data have changed since the job ran: its draws cannot be compared with new ones");
    return false;
}

static bool make_job(struct call *call, struct creation *c, const json_t *request,
                     struct study_member *member)
{
    struct submission sub = {0};
    struct job_row *row = &c->jobs[c->job_count];
    enum err code = submission_prepare(&sub, call, request);
    if (code == ERR_OK)
        code = submission_row(&sub, call->who.user, row);
    bool good = code == ERR_OK;
    if (sub.mistakes.count > 0)
        study_mistakes(call, &sub.mistakes);
    else if (!good)
        call_fail(call, code, sub.info.message);
    if (good) {
        c->job_count++;
        c->bytes += sub.sizes.disk_bytes;
        memcpy(member->job, row->id, sizeof member->job);
        good = same_data(call, c, row);
    }
    submission_release(&sub, call->app);
    return good;
}

/* The request as it is stored: kind and name first, then what the kind understood. */
static char *request_text(const char *kind, const char *name, json_t *rest)
{
    json_t *doc = json_object();
    json_put(&doc, "kind", json_text(kind));
    json_put(&doc, "name", json_text(name));
    if (doc != NULL && json_object_update(doc, rest) != 0) {
        json_decref(doc);
        doc = NULL;
    }
    char *text = doc != NULL ? json_write(doc, NULL) : NULL;
    json_decref(doc);
    return text;
}

static bool make_row(struct call *call, struct creation *c, const char *kind, const char *name)
{
    struct study_row *row = &c->row;
    *row = (struct study_row){.created_ms = clock_wall_ms(),
                              .kind = strdup(kind),
                              .name = strdup(name),
                              .request = request_text(kind, name, c->plan.request),
                              .state = c->plan.jobs > 0 ? STUDY_running : STUDY_fixed,
                              .lab = c->plan.lab,
                              .jobs = c->plan.jobs,
                              .memo = c->plan.memo != NULL ? json_write(c->plan.memo, NULL) : NULL,
                              .members = calloc(c->plan.count + 1, sizeof *row->members)};
    memcpy(row->owner, call->who.user, sizeof row->owner);
    submission_id(row->id, row->created_ms);
    if (row->kind != NULL && row->name != NULL && row->request != NULL && row->members != NULL &&
        (row->memo != NULL || c->plan.memo == NULL))
        return true;
    call_fail(call, ERR_NO_MEMORY, NULL);
    return false;
}

static bool make_members(struct call *call, struct creation *c)
{
    for (size_t i = 0; i < c->plan.count; i++) {
        const struct study_item *item = &c->plan.items[i];
        struct study_member *member = &c->row.members[c->row.member_count++];
        memcpy(member->job, item->existing, sizeof member->job);
        member->setting = json_write(item->setting, NULL);
        if (member->setting == NULL) {
            call_fail(call, ERR_NO_MEMORY, NULL);
            return false;
        }
        if (item->job != NULL && !make_job(call, c, item->job, member))
            return false;
    }
    return true;
}

static void answer_created(struct call *call, const char *id, bool existing)
{
    struct study_row row;
    struct err_info info;
    char location[64];
    if (store_study_get(call->app->store, call_viewer(call), id, &row, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    answer_study(call, &row, false, 201);
    study_row_release(&row);
    snprintf(location, sizeof location, "/v1/studies/%s", id);
    reply_header(call->reply, "Location", location);
    if (existing)
        reply_header(call->reply, "Idempotency-Replayed", "true");
}

/* As for a single job: all memory first, then the store, then the scheduler. */
static enum err prepare_jobs(struct app *app, struct creation *c, struct err_info *info)
{
    enum err code = ERR_OK;
    for (size_t i = 0; i < c->job_count && code == ERR_OK; i++)
        code = sched_prepare(&c->runs[i], app->sched, &c->jobs[i], info);
    return code;
}

static void give_jobs(struct app *app, struct creation *c, bool stored)
{
    for (size_t i = 0; i < c->job_count; i++) {
        if (stored)
            sched_submit(app->sched, c->runs[i]);
        else
            sched_discard(app->sched, c->runs[i]);
    }
}

static void store_creation(struct call *call, struct creation *c)
{
    struct err_info info;
    struct app *app = call->app;
    unsigned char hash[32];
    struct store_claim claim = {.hash = hash,
                                .room = submission_room(app, call->who.user, c->bytes)};
    bool existing = false;
    submission_key(call, &claim.key, hash); /* checked before */
    enum err code = submission_disk(app, &info);
    if (code == ERR_OK)
        code = prepare_jobs(app, c, &info);
    if (code == ERR_OK)
        code = store_study_create(app->store, &c->row, c->jobs, c->job_count, &claim, &existing,
                                  &info);
    give_jobs(app, c, code == ERR_OK && !existing);
    study_driver_wake(app->studies);
    if (code == ERR_OK)
        answer_created(call, c->row.id, existing);
    else
        call_fail_info(call, &info);
}

/* kind and name, which every study has. NULL: answered. */
static const struct study_kind *read_head(struct call *call, const json_t *json, const char **name)
{
    struct mistakes mistakes = {0};
    struct place root = place_root(&mistakes), at_kind = place_key(&root, "kind"),
                 at_name = place_key(&root, "name");
    size_t which = 0;
    if (!json_is_object(json))
        place_mistake(&root, MISTAKE_type, "must be an object, not %s", field_type(json));
    else if (field_get(json, "kind") == NULL)
        place_mistake(&at_kind, MISTAKE_required, "is required: the kind of study, e.g. \"%s\"",
                      study_names[0]);
    else
        field_choice(&at_kind, field_get(json, "kind"), study_names, &which);
    if (field_get(json, "name") != NULL)
        field_text(&at_name, field_get(json, "name"), (struct field_text){.max = 200}, name);
    if (mistakes.count == 0)
        return study_kinds[which];
    call_mistakes(call, &mistakes);
    return NULL;
}

static void answer_valid(struct call *call, const struct creation *c, const char *kind,
                         const char *name)
{
    json_t *doc = json_object(), *request = json_object();
    json_put(&request, "kind", json_text(kind));
    json_put(&request, "name", json_text(name));
    if (request != NULL)
        json_object_update(request, c->plan.request);
    json_put(&doc, "valid", json_true());
    json_put(&doc, "request", request);
    json_put(&doc, "jobs", json_count(c->plan.jobs > 0 ? c->plan.jobs : c->plan.count));
    call_json(call, 200, doc);
}

static void create(struct call *call, struct creation *c, const json_t *json, bool validate)
{
    const char *name = NULL;
    const struct study_kind *kind = read_head(call, json, &name);
    if (kind == NULL || !kind->parse(call, json, &c->plan))
        return;
    name = name != NULL ? name : c->plan.name;
    if (!make_row(call, c, kind->name, name) || !make_members(call, c))
        return;
    if (validate)
        answer_valid(call, c, kind->name, name);
    else
        store_creation(call, c);
}

void api_study_create(struct call *call)
{
    bool validate = false;
    if (!call_query_flag(call, "validate_only", &validate) ||
        (!validate && submission_answered(call, store_study_by_key, answer_created)))
        return;
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    struct creation *c = calloc(1, sizeof *c);
    if (c == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
    } else {
        create(call, c, json, validate);
        creation_release(c);
    }
    json_decref(json);
}
