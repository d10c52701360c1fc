/* Facts about the server: health, metrics, models, samplers. */
#include "core/kernels/kernels.h"
#include "models/models.h"
#include "server/api/api.h"
#include "server/api/metrics.h"
#include "server/api/reserve.h"
#include "server/base/assets.h"
#include "server/base/build.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/results/export.h"
#include "server/spec/describe.h"

#include <gnu/libc-version.h>
#include <string.h>

static void answer_text(struct call *call, int status, const char *type, const char *text)
{
    call->reply->status = status;
    call->reply->content_type = type;
    call->reply->static_body = text;
    call->reply->body_size = strlen(text);
}

void api_health(struct call *call)
{
    answer_text(call, 200, "text/plain", "ok\n");
}

void api_ready(struct call *call)
{
    char why[200];
    if (atomic_load(&call->app->draining))
        call_fail(call, ERR_UNAVAILABLE, "the server is shutting down");
    else if (store_broken(call->app->store, why))
        call_fail(call, ERR_UNAVAILABLE, "the store does not accept changes");
    else
        answer_text(call, 200, "text/plain", "ready\n");
}

void api_prometheus(struct call *call)
{
    size_t size;
    char *page = metrics_page(call->app, &size);
    if (page == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    call->reply->status = 200;
    call->reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    call->reply->body = page;
    call->reply->body_size = size;
}

/* Below the reserve sampling pauses. */
static json_t *disk_json(const struct app *app)
{
    struct store_stats stats;
    json_t *doc = json_object();
    store_stats(app->store, &stats);
    json_put(&doc, "free_bytes", json_count(stats.free_bytes));
    json_put(&doc, "reserve_bytes", json_count((uint64_t)app->config->min_free_mb << 20));
    return doc;
}

/* As barkerd_budget_bytes of /metrics, without the maximum. */
static json_t *memory_json(const struct app *app)
{
    json_t *list = json_array();
    struct memory_use uses[MEMORY_USES];
    memory_uses(app, uses);
    for (size_t i = 0; i < MEMORY_USES; i++) {
        json_t *doc = json_object();
        json_put(&doc, "name", json_text(uses[i].name));
        json_put(&doc, "setting", json_text(uses[i].setting));
        json_put(&doc, "used_bytes", json_count(uses[i].stats.used));
        json_put(&doc, "total_bytes", json_count(uses[i].stats.total));
        json_put(&doc, "user_bytes", json_count(uses[i].stats.per_user));
        json_add(&list, doc);
    }
    return list;
}

static json_t *draws_formats_json(void)
{
    json_t *list = json_array();
    for (const struct export_format *const *f = export_formats; *f != NULL; f++) {
        json_t *doc = json_object();
        json_put(&doc, "name", json_text((*f)->name));
        json_put(&doc, "ending", json_text((*f)->ending));
        json_put(&doc, "content_type", json_text((*f)->content_type));
        json_put(&doc, "one_chain", json_boolean((*f)->one_chain));
        json_put(&doc, "help", json_text((*f)->help));
        json_add(&list, doc);
    }
    return list;
}

void api_info(struct call *call)
{
    json_t *doc = json_object(), *available = json_array(),
           *limits = config_limits(call->app->config);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        json_add(&available, json_text((*k)->isa));
    json_put(&doc, "name", json_text("barkerd"));
    json_put(&doc, "version", json_text(BARKERD_VERSION));
    json_put(&doc, "isa", json_text(kernels->isa));
    json_put(&doc, "isa_available", available);
    json_put(&doc, "libc", json_text(gnu_get_libc_version()));
    json_put(&doc, "started_at", call_time(call->app->started_ms));
    json_put(&doc, "workers", json_count((uint64_t)call->app->config->workers));
    json_put(&doc, "slice_seconds", json_number((double)call->app->config->slice_ms / 1000.0));
    json_put(&doc, "disk", disk_json(call->app));
    json_put(&doc, "memory", memory_json(call->app));
    json_put(&doc, "draws_formats", draws_formats_json());
    json_put(&limits, "body_bytes", json_count(BODY_LIMIT));
    json_put(&doc, "limits", limits);
    call_json(call, 200, doc);
}

void api_fields(struct call *call)
{
    call_items(call, describe_fields());
}

void api_samplers(struct call *call)
{
    json_t *items = json_array();
    for (size_t i = 0; i < sampler_count; i++)
        json_add(&items, describe_sampler(samplers[i]));
    call_items(call, items);
}

void api_sampler(struct call *call)
{
    const struct sampler_type *sampler = sampler_find(call->arg[0]);
    if (sampler == NULL)
        call_fail(call, ERR_NOT_FOUND, "there is no such sampler; GET /v1/samplers lists them");
    else
        call_json(call, 200, describe_sampler(sampler));
}

void api_models(struct call *call)
{
    json_t *items = json_array();
    for (size_t i = 0; i < model_count; i++)
        json_add(&items, describe_model(models[i]));
    call_items(call, items);
}

void api_model(struct call *call)
{
    const struct model_type *model = model_find(call->arg[0]);
    if (model == NULL)
        call_fail(call, ERR_NOT_FOUND, "there is no such model; GET /v1/models lists them");
    else
        call_json(call, 200, describe_model(model));
}

void api_openapi(struct call *call)
{
    struct asset asset = asset_get(ASSET_openapi);
    call->reply->status = 200;
    call->reply->content_type = "application/json";
    call->reply->static_body = asset.bytes;
    call->reply->body_size = asset.size;
}
