/* What a sweep has found: the table of its outcomes, as JSON and as CSV; and more seeds for it. */
#include "server/api/reserve.h"
#include "server/api/study_sweep.h"
#include "server/api/turn.h"
#include "server/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 100, ROWS_MAX = 1000, PAGE = 1000 };

/* ---- gathering ---- */

struct gathering {
    const struct sweep *sweep;
    struct grid_table *table; /* NULL: references only */
    size_t ready, broken;     /* of the references */
    json_t **references;
};

static void gather_reference(struct gathering *g, uint64_t position, const char *job,
                             const char *outcome)
{
    json_t *doc = json_object();
    bool good = outcome != NULL && strstr(outcome, "\"state\":\"succeeded\"") != NULL;
    g->ready += good;
    g->broken += outcome != NULL && !good;
    json_put(&doc, "name", json_null());
    json_put(&doc, "job", json_text(job));
    json_put(&doc, "state", json_text(outcome == NULL ? "running" : good ? "ready" : "failed"));
    json_put(&doc, "setting",
             sweep_posterior(g->sweep, sweep_setting_of(g->sweep, (size_t)position)));
    json_add(g->references, doc);
}

static bool gather(void *ctx, uint64_t position, const char *job, const char *outcome)
{
    struct gathering *g = ctx;
    uint64_t first = g->sweep->references, count = g->sweep->grid.count;
    if (position < first) {
        if (g->references != NULL)
            gather_reference(g, position, job, outcome);
        return true;
    }
    json_t *doc = outcome != NULL ? json_loads(outcome, 0, NULL) : NULL;
    grid_table_add(g->table, (size_t)((position - first) % count),
                   (size_t)((position - first) / count), job, doc);
    json_decref(doc);
    return !g->table->failed;
}

/* The outcomes of the table's settings, seed by seed. */
static enum err gather_rows(struct gathering *g, struct store *store, const char *study,
                            struct err_info *info)
{
    const struct sweep *sweep = g->sweep;
    struct grid_table *t = g->table;
    enum err code = ERR_OK;
    if (t->count == sweep->grid.count)
        code = store_study_outcomes(store, study, 0, sweep_jobs(sweep), gather, g, info);
    for (uint64_t k = 0; k < sweep->seeds && t->count < sweep->grid.count && code == ERR_OK; k++)
        code =
            store_study_outcomes(store, study, sweep->references + k * sweep->grid.count + t->first,
                                 t->count, gather, g, info);
    if (code == ERR_OK && t->failed)
        code = err_set(info, ERR_NO_MEMORY, "no memory for the table");
    return code;
}

/* ---- the result ---- */

static json_t *references_json(const struct sweep *sweep, json_t *made)
{
    const char *name = json_string_value(json_object_get(sweep->request, "reference"));
    json_t *list = made, *doc;
    for (size_t r = json_array_size(made); r < sweep->references; r++) {
        doc = json_object();
        json_put(&doc, "name", json_null());
        json_put(&doc, "job", json_null());
        json_put(&doc, "state", json_text("waiting"));
        json_put(&doc, "setting", sweep_posterior(sweep, sweep_setting_of(sweep, r)));
        json_add(&list, doc);
    }
    if (name != NULL && sweep->references == 0) {
        doc = json_object();
        json_put(&doc, "name", job_id_valid(name) ? json_null() : json_text(name));
        json_put(&doc, "job", job_id_valid(name) ? json_text(name) : json_null());
        json_put(&doc, "state", json_text("ready"));
        json_put(&doc, "setting", json_object());
        json_add(&list, doc);
    }
    return list;
}

#define RHAT_MOST 1.2 /* beyond, an effective sample size means nothing */

struct counts {
    size_t complete, failed, diverged, unmixed, bias_unknown;
};

static struct counts count_rows(const struct grid_table *t)
{
    struct counts c = {0};
    for (size_t i = 0; i < t->count; i++) {
        c.complete += t->rows[i].succeeded + t->rows[i].failed == t->seeds;
        c.unmixed += grid_table_number(t, i, MEASURE_max_rhat).value > RHAT_MOST;
        c.bias_unknown += t->rows[i].succeeded > 0 &&
                          isnan(grid_table_number(t, i, MEASURE_bias_mean_mean).value);
        c.failed += t->rows[i].failed;
        c.diverged += t->rows[i].diverged;
    }
    return c;
}

static json_t *sentence_json(const struct grid_table *t, const json_t *best)
{
    char text[1200];
    struct counts c = count_rows(t);
    const char *words = json_string_value(json_object_get(best, "sentence"));
    snprintf(text, sizeof text, "%zu of %zu settings are complete%s%s", c.complete, t->count,
             words != NULL ? "; " : "", words != NULL ? words : "");
    return json_text(text);
}

static json_t *cautions_json(const struct grid_table *t, const struct gathering *g, bool complete,
                             bool ruled, bool best)
{
    json_t *list = json_array();
    struct counts c = count_rows(t);
    char text[200];
    if (!complete)
        json_add(&list, json_text("provisional: not all jobs have ended"));
    if (c.failed > 0) {
        snprintf(text, sizeof text,
                 "%zu jobs did not succeed, %zu of them because a chain diverged; they are in no "
                 "measure",
                 c.failed, c.diverged);
        json_add(&list, json_text(text));
    }
    if (c.unmixed > 0) {
        snprintf(text, sizeof text,
                 "settings with an R-hat above %g, whose ESS and biases mean little: %zu",
                 RHAT_MOST, c.unmixed);
        json_add(&list, json_text(text));
    }
    if (g->broken > 0)
        json_add(&list, json_text("an exact job failed: biases against it are not known"));
    if (c.bias_unknown > 0 && g->broken == 0 &&
        json_is_string(json_object_get(g->sweep->request, "reference"))) {
        snprintf(text, sizeof text,
                 "settings with biases that are not known, because the reference cannot be read or "
                 "has none of their parameters: %zu",
                 c.bias_unknown);
        json_add(&list, json_text(text));
    }
    if (ruled && !best && c.complete > 0)
        json_add(&list, json_text("no setting keeps the bounds of `best`"));
    if (t->seeds == 1)
        json_add(&list, json_text("one seed: the spread between runs is not known"));
    return list;
}

static json_t *result_json(struct gathering *g, const struct study_row *row, size_t limit,
                           json_t *references)
{
    const struct grid_table *t = g->table;
    const json_t *rule = json_object_get(g->sweep->request, "best");
    json_t *doc = json_object(), *best = grid_table_best(t, rule);
    bool complete = row->ended == row->jobs;
    json_put(&doc, "complete", json_boolean(complete));
    json_put(&doc, "sentence", sentence_json(t, best));
    json_put(&doc, "cautions",
             cautions_json(t, g, complete, json_is_object(rule), json_is_object(best)));
    json_put(&doc, "settings", json_count(t->count));
    json_put(&doc, "columns", grid_table_columns(t));
    json_put(&doc, "rows", grid_table_rows_json(t, limit));
    json_put(&doc, "best", best);
    json_put(&doc, "references", references_json(g->sweep, references));
    return doc;
}

/* In a turn, so that requests which wait for theirs lend what they hold. */
static bool reserve(struct call *call, uint64_t bytes)
{
    struct err_info info;
    if (call_take_lent(call, bytes, &info) == ERR_OK)
        return true;
    call_fail_info(call, &info);
    return false;
}

/* The table of settings first .. first + count - 1, in a turn. False: answered. */
static bool gather_table(struct gathering *g, struct call *call, const char *study, size_t first,
                         size_t count)
{
    struct grid_table_size size = {.first = first,
                                   .count = count,
                                   .seeds = (size_t)g->sweep->seeds,
                                   .params = sweep_params(g->sweep)};
    struct err_info info;
    if (!reserve(call, grid_table_bytes(&size)))
        return false;
    enum err code = grid_table_init(g->table, &g->sweep->grid, &size, &info);
    if (code == ERR_OK)
        code = gather_rows(g, call->app->store, study, &info);
    if (code != ERR_OK)
        call_fail_info(call, &info);
    return code == ERR_OK;
}

/* Beside the rows: the rivals of the best, and what the grid is measured against. */
static uint64_t rest_bytes(const struct sweep *sweep)
{
    enum { RIVAL = 64, REFERENCE = 1200 };
    const struct grid *grid = &sweep->grid;
    uint64_t settings = sweep->references > 1 ? grid_setting_bytes(grid, 0, grid->count) : 0;
    return grid->count * RIVAL + sweep->references * REFERENCE + settings;
}

static bool find_result(struct gathering *g, struct call *call, const struct study_view *view,
                        size_t limit, json_t **out)
{
    const struct sweep *sweep = g->sweep;
    json_t *references = json_array();
    g->references = &references;
    bool good = reserve(call, rest_bytes(sweep)) &&
                gather_table(g, call, view->row->id, 0, sweep->grid.count) &&
                reserve(call, grid_table_rows_bytes(g->table, limit));
    if (!good) {
        json_decref(references);
        return false;
    }
    *out = result_json(g, view->row, limit, references);
    if (*out == NULL)
        call_fail(call, ERR_NO_MEMORY, "no memory for the result");
    return *out != NULL;
}

bool sweep_result(struct call *call, const struct study_view *view, json_t **out, char *reason,
                  size_t size)
{
    struct sweep sweep;
    struct grid_table table = {0};
    struct err_info info;
    uint64_t limit = ROWS;
    struct gathering g = {.sweep = &sweep, .table = &table};
    (void)reason;
    (void)size;
    if (!call_query_count(call, "limit", 1, ROWS_MAX, &limit) || !call_turn(call))
        return false;
    bool good = sweep_read(&sweep, view->request, &info) == ERR_OK;
    if (good) {
        good = find_result(&g, call, view, (size_t)limit, out);
        grid_table_release(&table);
        sweep_release(&sweep);
    } else {
        call_fail_info(call, &info);
    }
    turn_end();
    return good;
}

/* ---- the table ---- */

static void answer_csv(struct call *call, const struct grid_table *t)
{
    size_t size = 0;
    if (!reserve(call, grid_table_csv_bytes(t)))
        return;
    char *text = grid_table_csv(t, &size);
    if (text == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    call_text(call, 200, text, size);
    call->reply->content_type = "text/csv; charset=utf-8";
}

static void answer_page(struct call *call, const struct grid_table *t, size_t total)
{
    char next[24];
    if (!reserve(call, grid_table_rows_bytes(t, SIZE_MAX)))
        return;
    json_t *doc = json_object();
    snprintf(next, sizeof next, "%zu", t->first + t->count);
    json_put(&doc, "items", grid_table_rows_json(t, SIZE_MAX));
    json_put(&doc, "columns", grid_table_columns(t));
    json_put(&doc, "next", t->first + t->count < total ? json_text(next) : json_null());
    call_json(call, 200, doc);
}

static void answer_table(struct call *call, const struct study_row *row, const struct sweep *sweep,
                         bool csv, uint64_t first, uint64_t limit)
{
    struct grid_table t = {0};
    struct gathering g = {.sweep = sweep, .table = &t};
    size_t all = sweep->grid.count, from = first < all ? (size_t)first : all;
    size_t count = csv ? all : all - from < limit ? all - from : (size_t)limit;
    if (!call_turn(call))
        return;
    if (gather_table(&g, call, row->id, csv ? 0 : from, count)) {
        if (csv)
            answer_csv(call, &t);
        else
            answer_page(call, &t, all);
    }
    grid_table_release(&t);
    turn_end();
}

void sweep_table(struct call *call, const struct study_row *row)
{
    static const char *const formats[] = {"json", "csv", NULL};
    size_t format = 0;
    uint64_t limit = PAGE, cursor = 0;
    struct err_info info;
    struct sweep sweep;
    if (!call_query_choice(call, "format", formats, &format) ||
        !call_query_count(call, "limit", 1, PAGE, &limit) ||
        !call_query_count(call, "cursor", 0, UINT32_MAX, &cursor))
        return;
    json_t *request = json_loads(row->request, 0, NULL);
    enum err code = sweep_read(&sweep, request, &info);
    if (code == ERR_OK) {
        answer_table(call, row, &sweep, format == 1, cursor, limit);
        sweep_release(&sweep);
    } else {
        call_fail_info(call, &info);
    }
    json_decref(request);
}

/* ---- more seeds ---- */

bool sweep_extend(struct call *call, const struct study_row *row, uint64_t seeds, uint64_t *jobs,
                  char **request)
{
    struct mistakes mistakes = {0};
    struct err_info info;
    struct sweep sweep;
    json_t *doc = json_loads(row->request, 0, NULL);
    if (sweep_read(&sweep, doc, &info) != ERR_OK) {
        json_decref(doc);
        call_fail_info(call, &info);
        return false;
    }
    sweep.seeds += seeds;
    *jobs = sweep_jobs(&sweep);
    if (*jobs > STUDY_POSITIONS_MAX)
        mistake_add(&mistakes, "/seeds", MISTAKE_limit, "that would be %llu jobs; %d are allowed",
                    (unsigned long long)*jobs, STUDY_POSITIONS_MAX);
    if (sweep_has_axis(&sweep, "/seed"))
        mistake_add(&mistakes, "/seeds", MISTAKE_conflict, "the grid sets /seed");
    json_put(&doc, "seeds", json_count(sweep.seeds));
    sweep_release(&sweep);
    *request = json_write_last(doc);
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    else if (*request == NULL)
        call_fail(call, ERR_NO_MEMORY, NULL);
    return mistakes.count == 0 && *request != NULL;
}
