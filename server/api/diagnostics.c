/* GET /v1/jobs/{id}/diagnostics: the verdict with its numbers, and what the chains record
 * besides their draws: running moments of every parameter, gradient noise, step sizes,
 * efficiency, and the history of R-hat and effective sample sizes. */
#include "server/api/api.h"
#include "server/api/details.h"
#include "server/api/measure.h"
#include "server/api/parameter_json.h"
#include "server/api/turn.h"
#include "server/base/json.h"
#include "server/diagnose/checkup.h"
#include "server/diagnose/tolerance.h"
#include "server/diagnose/verdict.h"
#include "server/results/chain_moments.h"
#include "server/sched/sched.h"
#include "server/spec/spec.h"
#include "server/store/jobfile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1000, LIMIT_MAX = 10000 };

/* The request, and the sources of the reply. */
struct diagnosis {
    const struct job_row *row;
    struct jobfile *file;
    struct jobfile_info about;
    struct job_spec spec;
    struct chain_moments chains;
    struct tolerance tolerance;
    struct tolerance_head noise;
    struct jobfile_history history;
    struct summary_head worst;
    struct extent extent;
    struct query_numbers columns; /* of the details */
    bool details, worst_first;
    uint64_t from, limit;
};

static void diagnosis_release(struct diagnosis *d)
{
    spec_release(&d->spec);
    chain_moments_release(&d->chains);
    jobfile_history_release(&d->history);
}

static enum err diagnosis_read(struct diagnosis *d, struct app *app, struct err_info *info)
{
    measure_head(app, d->row, &d->worst);
    enum err code = extent_read(&d->extent, d->file, info);
    if (code == ERR_OK)
        code = chain_moments_read(&d->chains, d->file, info);
    if (code == ERR_OK)
        code = jobfile_history(d->file, &d->history, info);
    if (code != ERR_OK)
        return code;
    tolerance_init(&d->tolerance, &d->chains, &d->spec, d->about.N);
    tolerance_head(&d->tolerance, &d->noise);
    return ERR_OK;
}

/* ---- verdict ---- */

static double stored_number(const char *document, const char *key)
{
    json_t *json = document != NULL ? json_loads(document, 0, NULL) : NULL;
    double number = json_number_at(json, key);
    json_decref(json);
    return number;
}

/* The latest checkup. A checkup that ended a job by stop_when covered all parameters; any other
 * last checkup covers only a part of very many. */
static struct summary_head head_of(const struct diagnosis *d, enum job_state state, bool early)
{
    bool last = state == JOB_succeeded || state == JOB_cancelled;
    enum checkup_depth depth = early ? CHECKUP_EVERY : last ? CHECKUP_FINAL : CHECKUP_LIVE;
    struct summary_head head = d->worst;
    head.parameters = checkup_columns(d->about.width, depth);
    return head;
}

/* The sentence is the one that the job shows. The document is computed again, from draws that
 * may be a few seconds newer. */
static enum err verdict_json(json_t **out, struct app *app, struct diagnosis *d,
                             struct err_info *info)
{
    const struct job_row *row = d->row;
    struct job_snapshot view = {0};
    bool live = sched_snapshot(app->sched, row->id, &view);
    bool early = row->stop_cause == STOP_stop_when;
    struct verdict verdict;
    const char *stored = row->verdict != NULL ? row->verdict : "";
    struct verdict_context context = {
        .spec = &d->spec,
        .iterations = d->spec.iterations,
        .head = head_of(d, live ? view.state : row->state, early),
        .state = live ? view.state : row->state,
        .rate = live ? view.rate : stored_number(row->progress, "iterations_per_second"),
        .stopped_early = early,
        .store = app->store,
        .owner = row->owner,
    };
    enum err code = verdict_make(&verdict, out, d->file, &context, info);
    const char *sentence = view.verdict != NULL ? view.verdict : stored;
    if (code == ERR_OK && sentence[0] != '\0')
        json_put(out, "sentence", json_text(sentence));
    job_snapshot_release(&view);
    return code;
}

/* ---- noise ---- */

static json_t *noise_json(const struct diagnosis *d)
{
    const struct tolerance_head *h = &d->noise;
    bool known = h->worst != SIZE_MAX;
    struct sentence text = {0};
    char name[MODEL_NAME_SIZE] = "";
    json_t *doc = json_object();
    tolerance_advise(&d->tolerance, h, d->file, &text);
    if (known)
        tolerance_name(&d->tolerance, d->file, h->worst, name, sizeof name);
    json_put(&doc, "text", json_text(text.text));
    json_put(&doc, "worst", known ? json_text(name) : json_null());
    json_put(&doc, "step_ratio", json_number(known ? h->at_worst.step_ratio : NAN));
    json_put(&doc, "beyond", json_number(known ? d->chains.beyond[h->worst] : NAN));
    json_put(&doc, "variance_ratio", json_number(known ? h->at_worst.variance_ratio : NAN));
    json_put(&doc, "step_size", json_number(known ? h->at_worst.step_size : NAN));
    json_put(&doc, "batch_size",
             known && h->at_worst.batch_size > 0 ? json_count(h->at_worst.batch_size)
                                                 : json_null());
    json_put(&doc, "coordinates_beyond", known ? json_count(h->beyond) : json_null());
    json_put(&doc, "iterations", json_number(d->chains.noise_count));
    if (!known)
        json_put(&doc, "reason", json_text(tolerance_reason(d->tolerance.state)));
    return doc;
}

/* ---- parameters ---- */

static json_t *diagnosed_json(const struct diagnosis *d, size_t j)
{
    const struct chain_moments *c = &d->chains;
    bool noise = c->noise_count > 0.0, sigma = c->sigma_count > 0;
    struct noise_advice advice;
    char name[MODEL_NAME_SIZE];
    json_t *doc = json_object();
    tolerance_at(&d->tolerance, j, &advice);
    json_put(&doc, "index", json_count(j + 1));
    json_put(&doc, "name", json_text(jobfile_parameter(d->file, j, name, sizeof name)));
    json_put(&doc, "mean", json_number(moments_mean(&c->moments[j])));
    json_put(&doc, "variance", json_number(moments_variance(&c->moments[j])));
    json_put(&doc, "coordinate",
             json_text(tolerance_name(&d->tolerance, d->file, j, name, sizeof name)));
    json_put(&doc, "tau", json_number(noise ? c->tau[j] : NAN));
    json_put(&doc, "beyond", json_number(noise ? c->beyond[j] : NAN));
    json_put(&doc, "step_size", json_number(sigma ? c->sigma[j] : NAN));
    json_put(&doc, "step_size_min", json_number(sigma ? c->sigma_lo[j] : NAN));
    json_put(&doc, "step_size_max", json_number(sigma ? c->sigma_hi[j] : NAN));
    json_put(&doc, "tolerance", json_number(advice.step_size));
    json_put(&doc, "step_ratio", json_number(advice.step_ratio));
    json_put(&doc, "batch_size_needed",
             advice.batch_size > 0 ? json_count(advice.batch_size) : json_null());
    json_put(&doc, "variance_ratio", json_number(advice.variance_ratio));
    return doc;
}

struct rank {
    double noise; /* sigma tau */
    size_t j;
};

static int larger_step_ratio_first(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    if (x->noise < y->noise || x->noise > y->noise)
        return x->noise > y->noise ? -1 : 1;
    return (x->j > y->j) - (x->j < y->j);
}

/* The order of the parameters; NULL: no memory. The step ratio is sigma tau over a constant. */
static struct rank *rank_parameters(const struct diagnosis *d)
{
    const struct chain_moments *c = &d->chains;
    struct rank *order = malloc((c->d + 1) * sizeof *order);
    for (size_t j = 0; order != NULL && j < c->d; j++) {
        double noise = c->sigma[j] * c->tau[j];
        order[j] = (struct rank){.noise = isnan(noise) ? -1.0 : noise, .j = j};
    }
    if (order != NULL && d->worst_first)
        qsort(order, c->d, sizeof *order, larger_step_ratio_first);
    return order;
}

static json_t *page_json(const struct diagnosis *d, json_t **next)
{
    json_t *list = json_array();
    struct rank *order = rank_parameters(d);
    char text[24];
    uint64_t total = d->chains.d;
    uint64_t end = d->from < total && total - d->from > d->limit ? d->from + d->limit : total;
    for (uint64_t j = d->from; j < end; j++)
        json_add(&list, order != NULL ? diagnosed_json(d, order[j].j) : NULL);
    snprintf(text, sizeof text, "%" PRIu64, end);
    *next = end < total ? json_text(text) : json_null();
    free(order);
    return list;
}

/* Why something is null for every parameter. */
static json_t *reasons_json(const struct diagnosis *d)
{
    const struct chain_moments *c = &d->chains;
    json_t *doc = json_object();
    double iterations = c->moments[0].count;
    if (iterations < 1.0)
        json_put(&doc, "mean", json_text("no chain is past its warm-up yet"));
    if (iterations < 2.0)
        json_put(&doc, "variance", json_text("fewer than 2 iterations after warm-up"));
    if (d->tolerance.state != TOLERANCE_KNOWN) {
        const char *reason = tolerance_reason(d->tolerance.state);
        json_put(&doc, "tau", json_text(reason));
        json_put(&doc, "step_ratio", json_text(reason));
    }
    if (c->sigma_count == 0)
        json_put(&doc, "step_size", json_text("no chain has run yet"));
    return doc;
}

/* ---- chains, efficiency, history, checks ---- */

/* The note of a chain (acceptance, what set its step sizes, its trees) with its counts. */
static enum err chain_json(struct jobfile *file, uint32_t chain, json_t **list,
                           struct err_info *info)
{
    struct jobfile_chain progress;
    char *note = NULL;
    enum err code = jobfile_chain(file, chain, &progress, info);
    if (code == ERR_OK)
        code = jobfile_note(file, chain, &note, info);
    if (code != ERR_OK)
        return code;
    json_t *facts = note != NULL ? json_loads(note, 0, NULL) : NULL, *doc = json_object();
    json_put(&doc, "chain", json_count(chain));
    json_put(&doc, "iteration", json_count(progress.iteration));
    json_put(&doc, "cpu_seconds", json_number(progress.cpu_seconds));
    json_put(&doc, "moment_iterations", json_count(progress.moment_count));
    json_put(&doc, "noise_iterations", json_count(progress.noise_count));
    if (facts != NULL && doc != NULL)
        json_object_update_missing(doc, facts);
    json_decref(facts);
    free(note);
    json_add(list, doc);
    return ERR_OK;
}

static enum err chains_json(json_t **out, const struct diagnosis *d, struct err_info *info)
{
    enum err code = ERR_OK;
    json_t *list = json_array();
    for (uint32_t c = 1; c <= d->about.chains && code == ERR_OK; c++)
        code = chain_json(d->file, c, &list, info);
    if (code == ERR_OK)
        *out = list;
    else
        json_decref(list);
    return code;
}

/* Cost until the R-hat and the effective sample sizes of a good verdict. */
static json_t *cost_json(const struct diagnosis *d, const json_t *verdict)
{
    const json_t *mixing = json_object_get(verdict, "mixing");
    double iterations = json_number_at(mixing, "iterations_to_target");
    json_t *doc = json_object();
    json_put(&doc, "rhat", json_number(VERDICT_RHAT));
    json_put(&doc, "ess", json_number(VERDICT_ESS));
    json_put(&doc, "iterations", json_number(iterations));
    json_put(&doc, "gradients",
             json_number(iterations * (double)d->about.chains *
                         ((double)d->extent.gradients / (double)d->extent.iterations)));
    json_put(&doc, "seconds", json_incref(json_object_get(mixing, "seconds_to_target")));
    if (isnan(iterations))
        json_put(&doc, "reason",
                 json_text("R-hat or the effective sample sizes are not known, or "
                           "the chains disagree"));
    return doc;
}

/* The efficiency for the parameter that mixes worst; warm-up counts as cost. */
static json_t *efficiency_json(const struct diagnosis *d, const json_t *verdict)
{
    const struct summary_head *w = &d->worst;
    const struct extent *e = &d->extent;
    json_t *doc = json_object();
    summary_head_put(&doc, w);
    json_put(&doc, "cpu_seconds", json_number(e->cpu_seconds));
    json_put(&doc, "gradients", json_count(e->gradients));
    const char *reason = parameter_efficiency_put(&doc, w->min_ess_bulk, e);
    json_put(&doc, "cost_to_target", cost_json(d, verdict));
    if (reason != NULL)
        json_put(&doc, "reason", json_text(reason));
    return doc;
}

static json_t *history_json(const struct jobfile_history *h)
{
    json_t *doc = json_object(), *draws = json_array(), *iterations = json_array(),
           *seconds = json_array(), *rhat = json_array(), *bulk = json_array(),
           *tail = json_array(), *worst = json_array();
    for (size_t i = 0; i < h->count; i++) {
        const struct jobfile_history_point *p = &h->points[i];
        json_add(&draws, json_count(p->draws));
        json_add(&iterations, json_count(p->iteration));
        json_add(&seconds, json_number(p->seconds));
        json_add(&rhat, json_number(p->max_rhat));
        json_add(&bulk, json_number(p->min_ess_bulk));
        json_add(&tail, json_number(p->min_ess_tail));
        json_add(&worst, p->worst[0] != '\0' ? json_text(p->worst) : json_null());
    }
    json_put(&doc, "draws", draws);
    json_put(&doc, "iterations", iterations);
    json_put(&doc, "seconds", seconds);
    json_put(&doc, "max_rhat", rhat);
    json_put(&doc, "min_ess_bulk", bulk);
    json_put(&doc, "min_ess_tail", tail);
    json_put(&doc, "worst", worst);
    return doc;
}

static enum err put_checks(json_t **doc, const struct diagnosis *d, struct err_info *info)
{
    char *text = NULL;
    enum err code = jobfile_checks(d->file, &text, info);
    json_t *checks = text != NULL ? json_loads(text, 0, NULL) : NULL;
    free(text);
    if (code != ERR_OK)
        return code;
    bool ended = job_state_terminal(d->row->state);
    json_put(doc, "checks", checks != NULL ? checks : json_null());
    if (checks == NULL)
        json_put(doc, "checks_reason",
                 json_text(d->row->state == JOB_succeeded ? "the checks were not run"
                           : ended ? "the checks run when a job succeeds, and this one did not"
                                   : "the checks run when the job ends"));
    return ERR_OK;
}

/* ---- the reply ---- */

static enum err fill_document(json_t **doc, struct app *app, struct diagnosis *d,
                              struct err_info *info)
{
    json_t *verdict = NULL, *chains = NULL, *details = NULL, *next;
    enum err code = verdict_json(&verdict, app, d, info);
    if (code != ERR_OK)
        return code;
    json_put(doc, "verdict", json_incref(verdict));
    json_put(doc, "efficiency", efficiency_json(d, verdict));
    json_decref(verdict);
    json_put(doc, "noise", noise_json(d));
    code = put_checks(doc, d, info);
    json_put(doc, "history", history_json(&d->history));
    if (code == ERR_OK && d->details)
        code = details_json(&details, d->file, &d->history, &d->columns, info);
    if (code == ERR_OK && d->details)
        json_put(doc, "details", details);
    if (code == ERR_OK)
        code = chains_json(&chains, d, info);
    if (code == ERR_OK)
        json_put(doc, "chains", chains);
    json_put(doc, "parameters", page_json(d, &next));
    json_put(doc, "parameters_total", json_count(d->about.d));
    json_put(doc, "reasons", reasons_json(d));
    json_put(doc, "next", next);
    return code;
}

/* Of every parameter of the model, saved or not: running numbers of all chains, for the verdict and
 * for the page, and their order. */
#define PARAMETER_BYTES 192u

/* In a turn, because its size is known once it is read. */
static enum err reference_bytes(struct app *app, const struct diagnosis *d, uint64_t *bytes,
                                struct err_info *info)
{
    struct reference_row reference;
    enum err code =
        store_reference_get(app->store, d->row->owner, d->spec.reference, &reference, info);
    *bytes = code == ERR_OK ? json_memory(reference.document, strlen(reference.document)) : 0;
    if (code == ERR_OK)
        free(reference.document);
    return code == ERR_NOT_FOUND || code == ERR_CONFLICT ? ERR_OK : code;
}

static enum err fill_with_reference(json_t **doc, struct app *app, struct diagnosis *d,
                                    struct err_info *info)
{
    uint64_t bytes = 0;
    enum err code = d->spec.reference != NULL ? reference_bytes(app, d, &bytes, info) : ERR_OK;
    if (code == ERR_OK)
        code = turn_begin(bytes, info);
    if (code != ERR_OK)
        return code;
    code = diagnosis_read(d, app, info);
    if (code == ERR_OK)
        code = fill_document(doc, app, d, info);
    turn_end();
    return code;
}

static void answer(struct call *call, struct diagnosis *d)
{
    struct err_info info;
    json_t *doc = json_object();
    enum err code = spec_stored(&d->spec, d->row->request, &info);
    if (code == ERR_OK) {
        uint64_t document = d->spec.reference != NULL ? REFERENCE_DOCUMENT_MAX : 0;
        code = turn_begin(document + d->about.d * PARAMETER_BYTES, &info);
        if (code == ERR_OK) {
            code = fill_with_reference(&doc, call->app, d, &info);
            turn_end();
        }
        diagnosis_release(d);
    }
    call_result(call, code, doc, &info);
}

void api_diagnostics(struct call *call)
{
    static const char *const orders[] = {"declared", "worst", NULL};
    struct diagnosis d = {.limit = LIMIT};
    struct job_row row;
    size_t order = 0;
    if (!call_query_count(call, "limit", 1, LIMIT_MAX, &d.limit) ||
        !call_query_count(call, "cursor", 0, UINT32_MAX, &d.from) ||
        !call_query_choice(call, "order", orders, &order) || !call_job(call, &row, false))
        return;
    d.row = &row;
    d.worst_first = order == 1;
    d.details = request_query(call->req, "params") != NULL;
    if (call_jobfile(call, row.id, &d.file)) {
        jobfile_info(d.file, &d.about);
        size_t rows = d.limit < d.about.width ? (size_t)d.limit : d.about.width;
        if ((!d.details || query_parameters(call, d.file, 0, DETAILS_PARAMETERS, &d.columns)) &&
            call_reserve(call, rows * MEASURE_ROW_BYTES))
            answer(call, &d);
        query_numbers_release(&d.columns);
        jobfile_close(d.file);
    }
    job_row_release(&row);
}
