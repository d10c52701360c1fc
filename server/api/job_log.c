/* GET /v1/jobs/{id}/log: the lines of a job's log. Other results:
 * draws.c, job_summary.c, compare.c, diagnostics.c, plots.c. */
#include "server/api/api.h"
#include "server/base/json.h"

#include <inttypes.h>
#include <stdio.h>

enum { LIMIT = 100, LIMIT_MAX = 1000 };

struct log_page {
    json_t *items;
    uint64_t limit, count, last;
    bool more;
};

static bool add_line(void *ctx, uint64_t seq, uint64_t at_ms, const char *text)
{
    struct log_page *page = ctx;
    page->more = page->count == page->limit;
    if (page->more)
        return false;
    json_t *line = json_object();
    json_put(&line, "seq", json_count(seq));
    json_put(&line, "at", call_time(at_ms));
    json_put(&line, "text", json_text(text));
    json_add(&page->items, line);
    page->last = seq;
    page->count++;
    return page->items != NULL;
}

static void answer_log(struct call *call, const char *id, uint64_t after, uint64_t limit)
{
    struct log_page page = {.items = json_array(), .limit = limit};
    struct err_info info;
    char next[24];
    if (store_log(call->app->store, id, after, (size_t)limit + 1, add_line, &page, &info) !=
        ERR_OK) {
        json_decref(page.items);
        call_fail_info(call, &info);
        return;
    }
    json_t *doc = json_object();
    snprintf(next, sizeof next, "%" PRIu64, page.last);
    json_put(&doc, "items", page.items);
    json_put(&doc, "next", page.more ? json_text(next) : json_null());
    call_json(call, 200, doc);
}

void api_log(struct call *call)
{
    uint64_t after = 0, limit = LIMIT;
    struct job_row row;
    if (!call_query_count(call, "after", 0, INT64_MAX, &after) ||
        !call_query_count(call, "cursor", 0, INT64_MAX, &after) ||
        !call_query_count(call, "limit", 1, LIMIT_MAX, &limit) || !call_reserve_rows(call, limit) ||
        !call_job(call, &row, false))
        return;
    answer_log(call, row.id, after, limit);
    job_row_release(&row);
}
