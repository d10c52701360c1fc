/* Memory of requests: taken from the budget of the user before it is used, given back when the
 * request is done. */
#include "server/api/api.h"
#include "server/api/reserve.h"
#include "server/data/memory_cache.h"

#define WAIT_MS 5000 /* of a handler on the pool, for memory that other requests will give back */

/* On open routes, which have no user, memory is charged to the address. */
static const char *account(const struct call *call)
{
    return call->who.user[0] != '\0' ? call->who.user : call->req->client;
}

static void add(struct call *call, uint64_t bytes)
{
    call->reserved += bytes;
    if (call->reserved > call->most_reserved)
        call->most_reserved = call->reserved;
}

enum err call_take_within(struct call *call, uint64_t bytes, uint32_t wait_ms,
                          struct err_info *info)
{
    enum err code = budget_take(call->app->request_memory, account(call), bytes, wait_ms, info);
    if (code == ERR_OK)
        add(call, bytes);
    return code;
}

/* A request that holds as much as it asks for does not wait: others like it would wait for it. */
static uint32_t patience(const struct call *call, uint64_t bytes)
{
    return call->route->flags & ROUTE_POOL && call->reserved < bytes ? WAIT_MS : 0;
}

enum err call_take(struct call *call, uint64_t bytes, struct err_info *info)
{
    return call_take_within(call, bytes, patience(call, bytes), info);
}

enum err call_take_lent(struct call *call, uint64_t bytes, struct err_info *info)
{
    enum err code = budget_take_lent(call->app->request_memory, account(call), bytes,
                                     patience(call, bytes), info);
    if (code == ERR_OK)
        add(call, bytes);
    return code;
}

void call_lend(struct call *call)
{
    budget_lend(call->app->request_memory, account(call), call->reserved);
}

void call_lend_end(struct call *call)
{
    budget_lend_end(call->app->request_memory, account(call), call->reserved);
}

void call_give(struct call *call, uint64_t bytes)
{
    budget_give(call->app->request_memory, account(call), bytes);
    call->reserved -= bytes;
}

enum err api_reserve(void *ctx, struct request *req, uint64_t bytes, struct err_info *info)
{
    (void)ctx;
    return call_take_within(req->app, bytes, 0, info);
}

void api_reserve_end(struct call *call)
{
    budget_give(call->app->request_memory, account(call), call->reserved);
    call->reserved = 0;
}

bool call_reserve(struct call *call, uint64_t bytes)
{
    struct err_info info;
    if (call_take(call, bytes, &info) == ERR_OK)
        return true;
    call_fail_info(call, &info);
    return false;
}

bool call_reserve_rows(struct call *call, uint64_t rows)
{
    enum { ROW_BYTES = 2048 }; /* a document of some fields, and its text */
    return call_reserve(call, rows * ROW_BYTES);
}

void memory_uses(const struct app *app, struct memory_use out[MEMORY_USES])
{
    out[0] = (struct memory_use){.name = "requests", .setting = "request_memory_mb"};
    budget_stats(app->request_memory, &out[0].stats);
    out[1] = (struct memory_use){.name = "data", .setting = "data_memory_mb"};
    memory_cache_budget(app->cache, &out[1].stats);
    out[2] = (struct memory_use){.name = "chains", .setting = "chain_memory_mb"};
    budget_stats(app->chain_memory, &out[2].stats);
}
