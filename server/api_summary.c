/* GET /v1/jobs/{id}/summary: what the draws say about each parameter. */
#include "server/api_bias.h"
#include "server/api_measure.h"
#include "server/api_pick.h"
#include "server/jobfile.h"
#include "server/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT = 1000, LIMIT_MAX = 10000, RANKED_MAX = 20000 };

/* What was asked for, and the answer on its way. */
struct request_for_summary {
    struct jobfile *file;
    struct jobfile_info about;
    struct measure_size size;
    struct reference reference;
    struct pick columns; /* all that are listed, in their order */
    uint64_t limit, cursor;
    bool worst;
};

/* ---- the worst first ---- */

/* Puts the columns into order. With many columns a part of the draws decides, or with very many a
 * part of the columns. */
static enum err rank_columns(struct request_for_summary *r, struct err_info *info)
{
    struct summary all;
    enum err code;
    size_t count = r->columns.count, stride = 1;
    if (count == r->about.width && count > RANKED_MAX) {
        stride = (count + RANKED_MAX - 1) / RANKED_MAX;
        count = (count + stride - 1) / stride;
    }
    size_t draws = measure_draws_at_once(&r->size, count);
    if (stride > 1)
        code = measure_stride(&all, r->file, count, stride, draws, info);
    else
        code = measure_columns(&all, r->file, r->columns.at, count, draws, info);
    if (code != ERR_OK)
        return code;
    measure_sort(&all);
    for (size_t i = 0; i < all.count; i++)
        r->columns.at[i] = (uint32_t)all.rows[i].column;
    r->columns.count = all.count;
    summary_release(&all);
    return ERR_OK;
}

/* ---- the answer ---- */

static json_t *rows_json(const struct request_for_summary *r, const struct summary *summary)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < summary->count; i++) {
        const struct summary_row *row = &summary->rows[i];
        json_add(&rows,
                 measure_row_json(jobfile_name(r->file, row->column), &row->mixing, &r->reference));
    }
    return rows;
}

static json_t *next_json(const struct request_for_summary *r, uint64_t end)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, end);
    return end < r->columns.count ? json_text(text) : json_null();
}

static json_t *summary_json(const struct request_for_summary *r, const struct summary *summary)
{
    uint64_t used = (uint64_t)summary->draws * summary->chains;
    json_t *doc = json_object();
    json_put(&doc, "draws", json_count(used));
    json_put(&doc, "chains", json_count(summary->chains));
    if (summary->draws < r->size.draws)
        json_put(&doc, "draws_stored", json_count(r->size.draws * r->size.chains));
    json_put(&doc, "parameters", rows_json(r, summary));
    json_put(&doc, "saved", json_count(r->about.width));
    json_put(&doc, "parameters_total", json_count(r->about.d));
    json_put(&doc, "next", next_json(r, r->cursor + summary->count));
    return doc;
}

/* The rows of one page: as many as were asked for, or fewer when there are very many draws. */
static enum err measure_page(struct request_for_summary *r, struct summary *out,
                             struct err_info *info)
{
    uint64_t from = r->cursor < r->columns.count ? r->cursor : r->columns.count;
    uint64_t left = r->columns.count - from, most = measure_columns_at_once(&r->size);
    left = left < r->limit ? left : r->limit;
    left = left < most ? left : most;
    enum err code = measure_columns(out, r->file, r->columns.at + from, (size_t)left, 0, info);
    if (code == ERR_OK && left == 0)
        out->draws = (size_t)r->size.draws;
    return code;
}

static void answer(struct call *call, struct request_for_summary *r)
{
    struct err_info info;
    struct summary page;
    json_t *bias = NULL;
    enum err code = measure_size(r->file, &r->size, &info);
    if (code == ERR_OK && r->worst && r->size.draws > 0)
        code = rank_columns(r, &info);
    if (code == ERR_OK && r->reference.count > 0)
        code =
            bias_json(&bias, r->file, &r->reference, request_query(call->req, "reference"), &info);
    if (code == ERR_OK)
        code = measure_page(r, &page, &info);
    if (code != ERR_OK) {
        json_decref(bias);
        call_fail_info(call, &info);
        return;
    }
    json_t *doc = summary_json(r, &page);
    if (r->reference.count > 0)
        json_put(&doc, "reference", bias);
    summary_release(&page);
    call_json(call, 200, doc);
}

void api_summary(struct call *call)
{
    static const char *const orders[] = {"declared", "worst", NULL};
    struct request_for_summary r = {.limit = LIMIT};
    struct job_row row;
    size_t order = 0;
    if (!call_query_count(call, "limit", 1, LIMIT_MAX, &r.limit) ||
        !call_query_count(call, "cursor", 0, UINT32_MAX, &r.cursor) ||
        !call_query_choice(call, "order", orders, &order) || !call_job(call, &row, false))
        return;
    r.worst = order == 1;
    if (call_jobfile(call, row.id, &r.file)) {
        jobfile_info(r.file, &r.about);
        if (pick_parameters(call, r.file, SIZE_MAX, LIMIT_MAX, &r.columns) &&
            bias_reference(call, &r.reference))
            answer(call, &r);
        pick_release(&r.columns);
        reference_release(&r.reference);
        jobfile_close(r.file);
    }
    job_row_release(&row);
}
