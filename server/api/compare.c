/* GET /v1/compare: the numbers of several jobs side by side. */
#include "server/api/bias_report.h"
#include "server/api/query_list.h"
#include "server/api/parameter_json.h"
#include "server/api/turn.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/base/sentence.h"
#include "server/results/posterior.h"
#include "server/store/jobfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_MIN = 2, JOBS_MAX = 8, LIMIT = 100, LIMIT_MAX = 1000 };

/* One of the jobs. */
struct side {
    struct job_row row;
    bool known; /* the row must be released */
    struct jobfile *file;
    uint32_t *columns; /* of the common parameters */
    struct extent extent;
    struct summary_head worst;
    struct summary summary;
    struct certified certified;
    struct bias_row *biases; /* of the common parameters, with a reference */
    struct bias_table whole; /* with a reference */
    json_t *energy;          /* with a reference */
};

struct comparison {
    struct side sides[JOBS_MAX];
    size_t count;
    struct reference reference;
    size_t common;           /* parameters that all jobs have, up to the limit */
    bool more;               /* there are others beyond the limit */
    double target;           /* target error; NaN: none */
    struct sentence differs; /* "": all jobs have the same posterior */
};

static bool has_reference(const struct comparison *c)
{
    return c->reference.count > 0;
}

static void comparison_release(struct comparison *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct side *s = &c->sides[i];
        if (s->known)
            job_row_release(&s->row);
        if (s->file != NULL)
            jobfile_close(s->file);
        free(s->columns);
        summary_release(&s->summary);
        certified_release(&s->certified);
        free(s->biases);
        bias_release(&s->whole);
        json_decref(s->energy);
    }
    bias_report_release(&c->reference);
}

/* ---- of one posterior ---- */

/* How the first job whose posterior is not that of job A differs from it; "" when none does. */
static void find_difference(struct comparison *c)
{
    for (size_t i = 1; i < c->count && c->differs.length == 0; i++) {
        struct sentence how = {0};
        if (posterior_differs(&c->sides[0].row, &c->sides[i].row, &how))
            sentence_add(&c->differs, "jobs %s and %s have different posteriors: %s",
                         c->sides[0].row.id, c->sides[i].row.id, how.text);
    }
}

static bool may_share_reference(struct call *call, const struct comparison *c)
{
    struct mistakes mistakes = {0};
    if (c->differs.length == 0 || request_query(call->req, "reference") == NULL)
        return true;
    mistake_add(&mistakes, "?reference", MISTAKE_conflict,
                "%s; one reference cannot be right for both. Compare them without a reference, or "
                "each with its own in its summary",
                c->differs.text);
    call_mistakes(call, &mistakes);
    return false;
}

/* ---- which jobs ---- */

static bool refuse_jobs(struct call *call, const char *why)
{
    struct mistakes mistakes = {0};
    mistake_add(&mistakes, "?jobs", MISTAKE_range,
                "%s; it must be %d to %d ids of jobs, separated by commas", why, JOBS_MIN,
                JOBS_MAX);
    call_mistakes(call, &mistakes);
    return false;
}

static bool names_job_twice(const struct query_names *ids)
{
    for (size_t i = 1; i < ids->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(ids->items[i], ids->items[k]) == 0)
                return true;
    return false;
}

static bool open_side(struct call *call, struct side *s, const char *id)
{
    char detail[160], quote[FIELD_QUOTE_SIZE];
    struct err_info info;
    if (!call_job_named(call, id, &s->row, false))
        return false;
    s->known = true;
    enum err code = jobfile_open(&s->file, call->app->store, id, &info);
    if (code == ERR_OK)
        return true;
    snprintf(detail, sizeof detail, "the job %s has no draws", field_quote(id, quote));
    if (code == ERR_NOT_FOUND)
        call_fail(call, ERR_CONFLICT, detail);
    else
        call_fail_info(call, &info);
    return false;
}

static bool open_sides(struct call *call, struct comparison *c)
{
    const char *text = request_query(call->req, "jobs");
    struct query_names ids;
    if (text == NULL)
        return refuse_jobs(call, "is missing");
    if (!query_names_split(&ids, text)) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return false;
    }
    bool good = ids.count >= JOBS_MIN && ids.count <= JOBS_MAX && !names_job_twice(&ids);
    if (!good)
        refuse_jobs(call, ids.count > JOBS_MAX   ? "names too many jobs"
                          : ids.count < JOBS_MIN ? "names too few jobs"
                                                 : "names a job twice");
    for (size_t i = 0; i < ids.count && good; i++) {
        c->count = i + 1;
        good = open_side(call, &c->sides[i], ids.items[i]);
    }
    query_names_release(&ids);
    if (good)
        find_difference(c);
    return good;
}

/* ---- which parameters ---- */

/* Finds a parameter of the first job in the others; false when one does not have it. */
static bool find_in_all_sides(struct comparison *c, uint32_t column)
{
    const char *name = jobfile_name(c->sides[0].file, column);
    c->sides[0].columns[c->common] = column;
    for (size_t i = 1; i < c->count; i++) {
        size_t there = jobfile_column(c->sides[i].file, name);
        if (there == SIZE_MAX)
            return false;
        c->sides[i].columns[c->common] = (uint32_t)there;
    }
    return true;
}

static bool find_common(struct call *call, struct comparison *c, size_t limit)
{
    struct query_numbers wanted;
    for (size_t i = 0; i < c->count; i++) {
        c->sides[i].columns = calloc(limit + 1, sizeof *c->sides[i].columns);
        if (c->sides[i].columns == NULL) {
            call_fail(call, ERR_NO_MEMORY, NULL);
            return false;
        }
    }
    if (!query_parameters(call, c->sides[0].file, SIZE_MAX, limit, &wanted))
        return false;
    for (size_t k = 0; k < wanted.count && c->common <= limit; k++)
        c->common += find_in_all_sides(c, wanted.at[k]);
    c->more = c->common > limit;
    c->common = c->more ? limit : c->common;
    query_numbers_release(&wanted);
    return true;
}

/* ---- numbers ---- */

static struct bias_report side_report(struct call *call, const struct comparison *c,
                                      const struct side *s)
{
    return (struct bias_report){.name = request_query(call->req, "reference"),
                                .reference = &c->reference,
                                .file = s->file,
                                .row = &s->row,
                                .table = &s->whole};
}

static enum err measure_common(struct comparison *c, struct side *s, struct err_info *info)
{
    size_t draws = measure_draws_at_once(&s->extent, c->common * c->count);
    s->biases = calloc(c->common + 1, sizeof *s->biases);
    if (s->biases == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the biases");
    struct bias_meter meter = {.file = s->file, .reference = &c->reference, .rows = s->biases};
    if (!has_reference(c))
        return measure_columns(&s->summary, s->file, s->columns, c->common, draws, info);
    return measure_against(&s->summary, &meter, s->columns, c->common, draws, info);
}

static enum err measure_side(struct call *call, struct comparison *c, struct side *s,
                             struct err_info *info)
{
    struct bias_report about = side_report(call, c, s);
    measure_head(call->app, &s->row, &s->worst);
    enum err code = extent_read(&s->extent, s->file, info);
    if (code == ERR_OK)
        code = certified_read(&s->certified, s->file, info);
    if (code == ERR_OK)
        code = measure_common(c, s, info);
    if (code == ERR_OK && has_reference(c))
        code = measure_biases(&s->whole, s->file, &c->reference, c->count, info);
    if (code == ERR_OK && has_reference(c))
        code = bias_report_energy(&s->energy, &about, info);
    return code;
}

static void put_job(json_t **doc, const struct side *s)
{
    json_t *request = s->row.request != NULL ? json_loads(s->row.request, 0, NULL) : NULL;
    json_put(doc, "id", json_text(s->row.id));
    json_put(doc, "name", json_text(s->row.name));
    json_put(doc, "owner", json_text(s->row.owner));
    json_put(doc, "state", json_text(job_state_name(s->row.state)));
    json_put(doc, "model", json_text(s->row.model));
    json_put(doc, "sampler", json_text(s->row.sampler));
    json_t *batch = json_object_get(request, "batch_size");
    json_put(doc, "batch_size", batch != NULL ? json_incref(batch) : json_null());
    json_decref(request);
}

static json_t *side_json(struct call *call, const struct comparison *c, const struct side *s)
{
    struct bias_report about = side_report(call, c, s);
    double ess = s->worst.min_ess_bulk;
    json_t *doc = json_object();
    put_job(&doc, s);
    json_put(&doc, "chains", json_count(s->extent.chains));
    json_put(&doc, "draws", json_count(s->extent.draws * s->extent.chains));
    json_put(&doc, "iterations", json_count(s->extent.iterations));
    json_put(&doc, "cpu_seconds", json_number(s->extent.cpu_seconds));
    json_put(&doc, "max_rhat", json_number(s->worst.max_rhat));
    json_put(&doc, "min_ess_bulk", json_number(ess));
    json_put(&doc, "worst", s->worst.worst[0] != '\0' ? json_text(s->worst.worst) : json_null());
    const char *reason = parameter_efficiency_put(&doc, ess, &s->extent);
    if (reason != NULL)
        json_put(&doc, "reason", json_text(reason));
    if (!isnan(c->target))
        json_put(&doc, "cost",
                 job_cost_json(c->target, &s->worst, &s->extent, s->file,
                               has_reference(c) ? &s->whole : NULL));
    if (has_reference(c)) {
        json_put(&doc, "energy", json_incref(s->energy));
        json_put(&doc, "reference", bias_report_json(&about));
    }
    return doc;
}

static json_t *compared_json(const struct comparison *c, size_t k)
{
    json_t *doc = json_object(), *rows = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const struct side *s = &c->sides[i];
        struct parameter_facts row = {.mixing = &s->summary.rows[k].mixing,
                                      .certified = &s->certified,
                                      .column = s->columns[k],
                                      .reference = has_reference(c) ? &c->reference : NULL,
                                      .bias = has_reference(c) ? &s->biases[k] : NULL,
                                      .extent = &s->extent,
                                      .target = c->target};
        json_add(&rows, parameter_json(&row));
    }
    json_put(&doc, "name", json_text(jobfile_name(c->sides[0].file, c->sides[0].columns[k])));
    json_put(&doc, "jobs", rows);
    return doc;
}

static uint64_t memory(const struct comparison *c)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct jobfile_info about;
        jobfile_info(c->sides[i].file, &about);
        bytes += certified_memory(about.d);
    }
    return bytes;
}

static void answer(struct call *call, struct comparison *c)
{
    struct err_info info;
    json_t *doc = json_object(), *jobs = json_array(), *parameters = json_array();
    const char *reference = request_query(call->req, "reference");
    for (size_t i = 0; i < c->count; i++) {
        if (measure_side(call, c, &c->sides[i], &info) != ERR_OK) {
            json_decref(doc);
            json_decref(jobs);
            json_decref(parameters);
            call_fail_info(call, &info);
            return;
        }
        json_add(&jobs, side_json(call, c, &c->sides[i]));
    }
    for (size_t k = 0; k < c->common; k++)
        json_add(&parameters, compared_json(c, k));
    json_put(&doc, "jobs", jobs);
    json_put(&doc, "reference", json_text(reference));
    json_put(&doc, "parameters", parameters);
    json_put(&doc, "more", json_boolean(c->more));
    json_put(&doc, "differs", c->differs.length > 0 ? json_text(c->differs.text) : json_null());
    call_json(call, 200, doc);
}

static void answer_in_turn(struct call *call, struct comparison *c)
{
    struct err_info info;
    if (turn_begin(memory(c), &info) != ERR_OK) {
        call_fail_info(call, &info);
        return;
    }
    answer(call, c);
    turn_end();
}

void api_compare(struct call *call)
{
    struct comparison *c = calloc(1, sizeof *c);
    uint64_t limit = LIMIT;
    if (c == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    c->target = NAN;
    if (call_query_count(call, "limit", 1, LIMIT_MAX, &limit) &&
        call_query_number(call, "target_error", COST_TARGET_MIN, COST_TARGET_MAX, &c->target) &&
        open_sides(call, c) && may_share_reference(call, c) &&
        bias_report_reference(call, &c->reference) && find_common(call, c, (size_t)limit) &&
        call_reserve(call, c->common * c->count * MEASURE_ROW_BYTES))
        answer_in_turn(call, c);
    comparison_release(c);
    free(c);
}
