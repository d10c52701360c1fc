/* GET /v1/jobs/{id}/summary: statistics of the draws of each parameter. */
#include "server/api/bias_report.h"
#include "server/api/query_list.h"
#include "server/api/turn.h"
#include "server/api/parameter_json.h"
#include "server/store/jobfile.h"
#include "server/base/json.h"
#include "server/results/ranking.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1000, LIMIT_MAX = 10000, RANKED_MAX = 20000 };

static struct rankings kept = RANKINGS_INIT;

/* The request, and the parts of the reply. */
struct request_for_summary {
    const char *job;
    struct jobfile *file;
    struct jobfile_info about;
    struct extent extent;
    struct reference reference;
    struct query_numbers columns; /* all that are listed, in order */
    uint64_t limit, cursor;
    bool worst;
    size_t ranked; /* columns on which the order is based, if not all; 0: all */
    double target; /* NaN: none */
    struct summary page;
    struct certified certified;
    json_t *design;          /* of a job with a formula */
    struct bias_row *biases; /* of the page, with a reference */
    struct bias_table whole; /* of the first page, with a reference */
};

static bool has_reference(const struct request_for_summary *r)
{
    return r->reference.count > 0;
}

/* Numbers over all parameters are part of the first page only: they may take as long as a page. */
static bool is_first(const struct request_for_summary *r)
{
    return r->cursor == 0;
}

/* ---- the worst first ---- */

/* Appends the columns that were not ranked. */
static void append_unranked(struct query_numbers *columns, size_t ranked, size_t stride,
                            size_t width)
{
    for (size_t k = 0; k < width; k++)
        if (k % stride != 0)
            columns->at[ranked++] = (uint32_t)k;
    columns->count = ranked;
}

/* Sorts the columns. With many columns, only some draws are used; with very many, only some
 * columns are ranked, and the others follow in the order of declaration. */
static enum err rank_columns(struct request_for_summary *r, struct err_info *info)
{
    struct summary all;
    enum err code;
    size_t count = r->columns.count, stride = 1;
    if (count == r->about.width && count > RANKED_MAX) {
        stride = (count + RANKED_MAX - 1) / RANKED_MAX;
        count = (count + stride - 1) / stride;
    }
    size_t draws = measure_draws_at_once(&r->extent, count);
    if (stride > 1)
        code = measure_stride(&all, r->file, count, stride, draws, info);
    else
        code = measure_columns(&all, r->file, r->columns.at, count, draws, info);
    if (code != ERR_OK)
        return code;
    measure_sort(&all);
    for (size_t i = 0; i < all.count; i++)
        r->columns.at[i] = (uint32_t)all.rows[i].column;
    if (stride > 1) {
        r->ranked = all.count;
        append_unranked(&r->columns, all.count, stride, r->about.width);
    }
    summary_release(&all);
    return ERR_OK;
}

/* All pages of a list use the order of its first page, even if draws are added. A new list is
 * ranked again if there are new draws. */
static enum err order_columns(struct request_for_summary *r, struct err_info *info)
{
    bool all = r->columns.count == r->about.width; /* the client did not choose parameters */
    uint64_t draws = is_first(r) ? r->extent.draws : UINT64_MAX;
    if (all && rankings_get(&kept, r->job, draws, r->columns.at, r->columns.count, &r->ranked))
        return ERR_OK;
    enum err code = rank_columns(r, info);
    if (code == ERR_OK && all) {
        struct ranking ranking = {.draws = r->extent.draws,
                                  .ranked = r->ranked,
                                  .count = r->columns.count,
                                  .at = r->columns.at};
        snprintf(ranking.job, sizeof ranking.job, "%s", r->job);
        rankings_put(&kept, &ranking);
    }
    return code;
}

/* ---- the reply ---- */

static enum err read_design(struct request_for_summary *r, struct err_info *info)
{
    char *text;
    enum err code = jobfile_design(r->file, &text, info);
    if (code == ERR_OK && text != NULL)
        code = json_parse(&r->design, text, strlen(text), info);
    free(text);
    return code;
}

/* Priors have the order of the parameters, but only saved ones are listed. */
static const json_t *find_prior(const struct request_for_summary *r, size_t column,
                                const char *name)
{
    const json_t *all = json_object_get(r->design, "priors");
    for (size_t i = column; i < json_array_size(all); i++) {
        const json_t *prior = json_array_get(all, i);
        const char *called = json_string_value(json_object_get(prior, "name"));
        if (called != NULL && strcmp(called, name) == 0)
            return prior;
    }
    return NULL;
}

static json_t *rows_json(const struct request_for_summary *r)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < r->page.count; i++) {
        const struct summary_row *measured = &r->page.rows[i];
        struct parameter_facts row = {.name = jobfile_name(r->file, measured->column),
                                      .mixing = &measured->mixing,
                                      .certified = &r->certified,
                                      .column = measured->column,
                                      .reference = has_reference(r) ? &r->reference : NULL,
                                      .bias = has_reference(r) ? &r->biases[i] : NULL,
                                      .extent = &r->extent,
                                      .target = r->target};
        row.prior = find_prior(r, measured->column, row.name);
        json_add(&rows, parameter_json(&row));
    }
    return rows;
}

static json_t *next_json(const struct request_for_summary *r, uint64_t end)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, end);
    return end < r->columns.count ? json_text(text) : json_null();
}

/* A page with all parameters contains the worst one, from the same draws as its rows. */
static void find_worst(struct call *call, const struct job_row *row,
                       const struct request_for_summary *r, struct summary_head *out)
{
    struct summary_head page;
    measure_head(call->app, row, out);
    summary_worst(&r->page, r->file, &page);
    if (r->page.count == r->about.width && page.worst[0] != '\0')
        *out = page;
}

static void put_job_parts(json_t **doc, struct call *call, const struct job_row *row,
                          const struct request_for_summary *r)
{
    struct summary_head worst;
    struct bias_report about = {.name = request_query(call->req, "reference"),
                                .reference = &r->reference,
                                .file = r->file,
                                .row = row,
                                .table = &r->whole};
    find_worst(call, row, r, &worst);
    json_put(doc, "efficiency", job_efficiency_json(&worst, &r->extent));
    if (!isnan(r->target))
        json_put(doc, "cost",
                 job_cost_json(r->target, &worst, &r->extent, r->file,
                               has_reference(r) ? &r->whole : NULL));
    if (has_reference(r))
        json_put(doc, "reference", bias_report_json(&about));
}

static json_t *summary_json(struct call *call, const struct job_row *row,
                            const struct request_for_summary *r)
{
    uint64_t used = (uint64_t)r->page.draws * r->page.chains;
    json_t *doc = json_object();
    if (r->design != NULL && is_first(r))
        json_put(&doc, "design", json_deep_copy(r->design));
    json_put(&doc, "draws", json_count(used));
    json_put(&doc, "chains", json_count(r->page.chains));
    if (r->page.draws < r->extent.draws)
        json_put(&doc, "draws_stored", json_count(r->extent.draws * r->extent.chains));
    json_put(&doc, "parameters", rows_json(r));
    json_put(&doc, "saved", json_count(r->about.width));
    json_put(&doc, "parameters_total", json_count(r->about.d));
    json_put(&doc, "next", next_json(r, r->cursor + r->page.count));
    if (r->ranked > 0)
        json_put(&doc, "ranked", json_count(r->ranked));
    if (is_first(r))
        put_job_parts(&doc, call, row, r);
    return doc;
}

/* The rows of one page: as many as requested, or fewer when there are very many draws. */
static enum err measure_page(struct request_for_summary *r, struct err_info *info)
{
    uint64_t from = r->cursor < r->columns.count ? r->cursor : r->columns.count;
    uint64_t left = r->columns.count - from, most = measure_columns_at_once(&r->extent);
    const uint32_t *columns = r->columns.at + from;
    left = left < r->limit ? left : r->limit;
    left = left < most ? left : most;
    r->biases = calloc(left + 1, sizeof *r->biases);
    if (r->biases == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the biases");
    struct bias_meter meter = {.file = r->file, .reference = &r->reference, .rows = r->biases};
    enum err code = has_reference(r)
                        ? measure_against(&r->page, &meter, columns, (size_t)left, 0, info)
                        : measure_columns(&r->page, r->file, columns, (size_t)left, 0, info);
    if (code == ERR_OK && left == 0)
        r->page.draws = (size_t)r->extent.draws;
    return code;
}

static enum err measure(struct request_for_summary *r, struct err_info *info)
{
    enum err code = extent_read(&r->extent, r->file, info);
    if (code == ERR_OK)
        code = certified_read(&r->certified, r->file, info);
    if (code == ERR_OK)
        code = read_design(r, info);
    if (code == ERR_OK && r->worst && r->extent.draws > 0)
        code = order_columns(r, info);
    if (code == ERR_OK && has_reference(r) && is_first(r))
        code = measure_biases(&r->whole, r->file, &r->reference, 1, info);
    if (code == ERR_OK)
        code = measure_page(r, info);
    return code;
}

static void answer(struct call *call, const struct job_row *row, struct request_for_summary *r)
{
    struct err_info info;
    enum err code = turn_begin(certified_memory(r->about.d), &info);
    if (code == ERR_OK) {
        code = measure(r, &info);
        if (code == ERR_OK)
            call_json(call, 200, summary_json(call, row, r));
        turn_end();
    }
    if (code != ERR_OK)
        call_fail_info(call, &info);
    summary_release(&r->page);
    certified_release(&r->certified);
    json_decref(r->design);
    bias_release(&r->whole);
    free(r->biases);
}

void api_summary(struct call *call)
{
    static const char *const orders[] = {"declared", "worst", NULL};
    struct request_for_summary r = {.limit = LIMIT, .target = NAN};
    struct job_row row;
    size_t order = 0;
    if (!call_query_count(call, "limit", 1, LIMIT_MAX, &r.limit) ||
        !call_query_count(call, "cursor", 0, UINT32_MAX, &r.cursor) ||
        !call_query_choice(call, "order", orders, &order) ||
        !call_query_number(call, "target_error", COST_TARGET_MIN, COST_TARGET_MAX, &r.target) ||
        !call_job(call, &row, false))
        return;
    r.worst = order == 1;
    r.job = row.id;
    if (call_jobfile(call, row.id, &r.file)) {
        jobfile_info(r.file, &r.about);
        if (query_parameters(call, r.file, SIZE_MAX, LIMIT_MAX, &r.columns) &&
            call_reserve(call, MEASURE_ROW_BYTES *
                                   (r.limit < r.columns.count ? r.limit : r.columns.count)) &&
            bias_report_reference(call, &r.reference))
            answer(call, &row, &r);
        query_numbers_release(&r.columns);
        bias_report_release(&r.reference);
        jobfile_close(r.file);
    }
    job_row_release(&row);
}
