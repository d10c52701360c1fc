/* Users, their roles, quotas and use; the caller itself. */
#include "server/api/api.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/data/data_root.h"
#include "server/sched/events.h"
#include "server/sched/sched.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- quotas ---- */

/* Quotas that a user may have in place of the setting of the same name with user_ before it. */
static const struct quota {
    const char *name;
    int64_t highest;
} quotas[] = {{"active_jobs", 1000000}, {"stored_mb", 1073741824}};
enum { QUOTAS = sizeof quotas / sizeof quotas[0] };

/* Sets own[k] to quota k of the user, or to 0 where the user has none. */
static void parse_quotas(const char *text, int64_t own[QUOTAS])
{
    json_t *doc = json_loads(text, 0, NULL);
    for (size_t i = 0; i < QUOTAS; i++)
        own[i] = json_integer_value(json_object_get(doc, quotas[i].name));
    json_decref(doc);
}

static void write_quotas(const int64_t own[QUOTAS], char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "{");
    for (size_t i = 0; i < QUOTAS; i++)
        if (own[i] > 0)
            used += (size_t)snprintf(out + used, size - used, "%s\"%s\": %" PRId64,
                                     used > 1 ? ", " : "", quotas[i].name, own[i]);
    snprintf(out + used, size - used, "}");
}

/* The user's own quotas; where there are none, those of `usual`, or null if it is NULL. */
static json_t *quotas_json(const char *text, const int64_t *usual)
{
    int64_t own[QUOTAS];
    json_t *doc = json_object();
    parse_quotas(text, own);
    for (size_t i = 0; i < QUOTAS; i++)
        json_put(&doc, quotas[i].name,
                 own[i] > 0      ? json_integer(own[i])
                 : usual != NULL ? json_integer(usual[i])
                                 : json_null());
    return doc;
}

/* Adds how much of the quotas the user has used. */
static enum err put_usage(struct app *app, const char *user, json_t **doc, struct err_info *info)
{
    struct owner_totals totals;
    enum err code = store_owner_totals(app->store, user, &totals, info);
    if (code != ERR_OK)
        return code;
    json_t *usage = json_object();
    struct data_usage uploads;
    uint64_t bytes = totals.stored_bytes + sched_grown_bytes(app->sched, user);
    data_file_usage(app->root, user, &uploads);
    json_put(&usage, "active_jobs", json_count(totals.active_jobs));
    json_put(&usage, "stored_bytes", json_count(bytes));
    json_put(&usage, "references", json_count(totals.references));
    json_put(&usage, "uploads", json_count(uploads.files));
    json_put(&usage, "upload_bytes", json_count(uploads.bytes));
    json_put(doc, "usage", usage);
    return ERR_OK;
}

/* ---- the caller ---- */

void api_me(struct call *call)
{
    const struct config *config = call->app->config;
    const int64_t usual[QUOTAS] = {config->user_active_jobs, config->user_stored_mb};
    struct user_row row = {.quotas = "{}"};
    struct err_info info;
    auth_user_get(call->app->auth, call->who.user, &row);
    json_t *doc = json_object();
    json_put(&doc, "user", json_text(call->who.user));
    json_put(&doc, "role", json_text(role_name(call->who.role)));
    json_put(&doc, "token_id", json_text(call->who.token_id));
    json_put(&doc, "quotas", quotas_json(row.quotas, usual));
    enum err code = put_usage(call->app, call->who.user, &doc, &info);
    call_result(call, code, doc, &info);
}

/* ---- showing ---- */

static json_t *user_json(const struct user_row *row)
{
    json_t *one = json_object();
    json_put(&one, "name", json_text(row->name));
    json_put(&one, "role", json_text(role_name(row->role)));
    json_put(&one, "created_at", call_time(row->created_ms));
    json_put(&one, "quotas", quotas_json(row->quotas, NULL));
    return one;
}

enum { LIST_LIMIT = 100, LIST_LIMIT_MAX = 500 };

struct user_list {
    struct app *app;
    json_t *items;
    size_t limit;
    char last[USER_NAME_SIZE]; /* of the page */
    bool more;
    enum err code;
    struct err_info *info;
};

static bool add_user(void *ctx, const struct user_row *row)
{
    struct user_list *list = ctx;
    list->more = json_array_size(list->items) == list->limit;
    if (list->more)
        return false;
    json_t *one = user_json(row);
    list->code = put_usage(list->app, row->name, &one, list->info);
    json_add(&list->items, one);
    memcpy(list->last, row->name, sizeof list->last);
    return list->items != NULL && list->code == ERR_OK;
}

void api_users(struct call *call)
{
    struct err_info info;
    uint64_t limit = LIST_LIMIT;
    struct user_page page = {.after = request_query(call->req, "cursor")};
    if (!call_query_count(call, "limit", 1, LIST_LIMIT_MAX, &limit) ||
        !call_reserve_rows(call, limit))
        return;
    page.limit = (size_t)limit + 1;
    struct user_list list = {
        .app = call->app, .items = json_array(), .limit = (size_t)limit, .info = &info};
    enum err code = store_users(call->app->store, &page, add_user, &list, &info);
    if (code == ERR_OK)
        code = list.code;
    if (code == ERR_OK) {
        call_page(call, list.items, list.more ? list.last : NULL);
        return;
    }
    json_decref(list.items);
    call_fail_info(call, &info);
}

/* ---- making and changing ---- */

bool call_user_name(const struct place *place, const json_t *value, const char **out)
{
    if (!field_text(place, value, (struct field_text){.max = USER_NAME_SIZE - 1}, out))
        return false;
    if (user_name_valid(*out))
        return true;
    place_mistake(place, MISTAKE_range, "must be 1 to %d characters of a-z 0-9 _ -",
                  USER_NAME_SIZE - 1);
    return false;
}

bool call_role(const struct place *place, const json_t *value, size_t *out)
{
    static const char *const words[] = {"viewer", "user", "admin", NULL};
    return field_choice(place, value, words, out);
}

struct user_request {
    const char *name;
    size_t role;
    bool role_given, quotas_given;
    int64_t own[QUOTAS];
};

static void read_name(void *ctx, const struct place *place, const json_t *value)
{
    struct user_request *r = ctx;
    call_user_name(place, value, &r->name);
}

static void read_role(void *ctx, const struct place *place, const json_t *value)
{
    struct user_request *r = ctx;
    r->role_given = call_role(place, value, &r->role);
}

static void read_active_jobs(void *ctx, const struct place *place, const json_t *value)
{
    field_integer(place, value, 1, quotas[0].highest, &((struct user_request *)ctx)->own[0]);
}

static void read_stored_mb(void *ctx, const struct place *place, const json_t *value)
{
    field_integer(place, value, 1, quotas[1].highest, &((struct user_request *)ctx)->own[1]);
}

static void read_quotas(void *ctx, const struct place *place, const json_t *value)
{
    static const struct field fields[] = {
        {"active_jobs", read_active_jobs}, {"stored_mb", read_stored_mb}, {NULL, NULL}};
    struct user_request *r = ctx;
    r->quotas_given = field_object(place, value, fields, r);
}

static const struct field user_fields[] = {
    {"name", read_name}, {"role", read_role}, {"quotas", read_quotas}, {NULL, NULL}};

/* Fields that are not given stay unchanged for an existing user. */
static void put_user(struct call *call, const struct user_request *r)
{
    struct err_info info;
    struct user_change change;
    char own[sizeof change.row.quotas];
    enum role role = (enum role)r->role;
    struct user_wish wish = {.name = r->name, .role = r->role_given ? &role : NULL};
    if (r->quotas_given) {
        write_quotas(r->own, own, sizeof own);
        wish.quotas = own;
    }
    if (auth_user_put(call->app->auth, &call->who, &wish, &change, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    if (change.role_changed)
        events_cut(call->app->events, NULL, r->name); /* clients open them again */
    json_t *doc = user_json(&change.row);
    if (put_usage(call->app, r->name, &doc, &info) != ERR_OK) {
        json_decref(doc);
        call_fail_info(call, &info);
        return;
    }
    call_json(call, 201, doc);
}

void api_user_put(struct call *call)
{
    struct user_request r = {0};
    struct mistakes mistakes = {0};
    json_t *json = call_body(call);
    if (json == NULL)
        return;
    struct place root = place_root(&mistakes);
    field_object(&root, json, user_fields, &r);
    if (mistakes.count == 0 && r.name == NULL)
        mistake_add(&mistakes, "/name", MISTAKE_required, "is required");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else
        put_user(call, &r);
    json_decref(json);
}

void api_user_delete(struct call *call)
{
    struct err_info info;
    bool purge = false;
    if (!call_query_flag(call, "purge", &purge))
        return;
    call_change_end(call);
    if (!user_name_valid(call->arg[0]))
        call_fail(call, ERR_NOT_FOUND, "there is no such user");
    else if (auth_user_delete(call->app->auth, &call->who, call->arg[0], purge, &info) != ERR_OK) {
        call_fail_info(call, &info);
    } else {
        events_cut(call->app->events, NULL, call->arg[0]);
        call_empty(call, 204);
    }
}
