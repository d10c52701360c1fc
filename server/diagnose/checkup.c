/* Looking at a job between its slices and at its end. */
#include "server/diagnose/checkup.h"
#include "server/diagnose/audit.h"
#include "server/base/clock.h"
#include "server/base/json.h"
#include "server/base/text.h"
#include "server/base/log.h"
#include "server/results/extent.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_DRAWS    400000  /* looked at while a job runs */
#define FINAL_DRAWS   4000000 /* and at its end: about a second */
#define LEAST_DRAWS   1000    /* per chain, whatever the budget ... */
#define WIDE_DRAWS    250     /* ... unless more than FINAL_COLUMNS are looked at */
#define FINAL_COLUMNS 2000
#define ESS_DRAWS     4.0 /* draws per effective draw that stop_when asks for: enough to see them */
#define AUDIT_SHARE   0.05 /* of the job's processor time ... */
#define AUDIT_LEAST   2.0  /* ... but at least and at most so many seconds */
#define AUDIT_MOST    30.0

/* ---- which draws ---- */

struct look {
    struct jobfile *file;
    struct jobfile_info about;
    const struct checkup_job *job;
    enum checkup_depth depth;
    struct checkup *out;
    struct summary_range range;
    struct jobfile_history_point point;
    size_t every; /* every so many columns one is watched */
    double rhat[JOBFILE_WATCHED], ess_bulk[JOBFILE_WATCHED];
};

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Steps between columns, so that the watched ones are among those of the final look. */
static size_t final_stride(size_t width)
{
    return width > FINAL_COLUMNS ? divide_up(width, FINAL_COLUMNS) : 1;
}

static size_t watch_stride(size_t width)
{
    size_t stride = final_stride(width);
    return width > 0 ? stride * divide_up(width, stride * JOBFILE_WATCHED) : 1;
}

static size_t draws_per_chain(const struct look *l, size_t columns)
{
    size_t budget = l->depth == CHECKUP_LIVE ? LIVE_DRAWS : FINAL_DRAWS;
    size_t share = budget / (columns > 0 ? columns : 1);
    size_t draws = (share < SUMMARY_COLUMN_DRAWS ? share : SUMMARY_COLUMN_DRAWS) / l->about.chains;
    double wanted = ESS_DRAWS * l->job->spec->stop_when.ess / (double)l->about.chains;
    size_t least = columns > FINAL_COLUMNS ? WIDE_DRAWS : LEAST_DRAWS;
    draws = draws > least ? draws : least;
    return (double)draws < wanted ? (size_t)wanted : draws;
}

static size_t stride_of(size_t width, enum checkup_depth depth)
{
    switch (depth) {
    case CHECKUP_LIVE:
        return watch_stride(width);
    case CHECKUP_FINAL:
        return final_stride(width);
    case CHECKUP_EVERY:
        break;
    }
    return 1;
}

size_t checkup_columns(size_t width, enum checkup_depth depth)
{
    return divide_up(width, stride_of(width, depth));
}

static void choose_range(struct look *l)
{
    size_t width = l->about.width;
    l->every = watch_stride(width);
    l->range = (struct summary_range){
        .count = FINAL_COLUMNS, .stride = stride_of(width, l->depth), .halt = l->job->halt};
    l->range.max_draws = draws_per_chain(l, checkup_columns(width, l->depth));
}

/* ---- looking ---- */

static enum err read_progress(struct look *l, struct err_info *info)
{
    struct extent extent;
    enum err code = extent_read(&extent, l->file, info);
    l->point.draws = extent.draws;
    l->point.iteration = extent.iterations;
    l->out->slowest = extent.slowest;
    return code;
}

static void watch(struct look *l, const struct summary_row *row)
{
    size_t k = row->column / l->every;
    if (row->column % l->every != 0 || k >= JOBFILE_WATCHED)
        return;
    l->rhat[k] = row->mixing.rhat;
    l->ess_bulk[k] = row->mixing.ess_bulk;
}

static double worse(double a, double b, double sign)
{
    return isnan(a) || sign * b > sign * a ? b : a;
}

/* What one block of columns adds to what is known. */
static void merge(struct look *l, const struct summary *summary)
{
    struct summary_head *head = &l->out->head, more;
    summary_worst(summary, l->file, &more);
    if (!isnan(more.max_rhat) && !(more.max_rhat <= head->max_rhat))
        memcpy(head->worst, more.worst, sizeof head->worst);
    head->max_rhat = worse(head->max_rhat, more.max_rhat, 1.0);
    head->min_ess_bulk = worse(head->min_ess_bulk, more.min_ess_bulk, -1.0);
    head->min_ess_tail = worse(head->min_ess_tail, more.min_ess_tail, -1.0);
    head->parameters += more.parameters;
    head->draws = more.draws;
    for (size_t i = 0; i < summary->count; i++) {
        const struct mixing *m = &summary->rows[i].mixing;
        l->out->undefined += isnan(m->rhat) || isnan(m->ess_bulk) || isnan(m->ess_tail);
        watch(l, &summary->rows[i]);
    }
}

/* In blocks, so that memory stays bounded however many parameters there are. */
static enum err measure(struct look *l, struct err_info *info)
{
    size_t step = l->range.count * l->range.stride;
    for (size_t first = 0; first == 0 || first < l->about.width; first += step) {
        struct summary summary;
        l->range.first = first;
        enum err code = summary_measure(&summary, l->file, &l->range, info);
        if (code != ERR_OK)
            return code;
        merge(l, &summary);
        summary_release(&summary);
        if (l->depth == CHECKUP_EVERY && !checkup_enough(l->out, l->job))
            break;
    }
    return ERR_OK;
}

static void write_history(struct look *l)
{
    struct jobfile_history_point *p = &l->point;
    uint64_t now = clock_wall_ms(), start = l->job->started_ms;
    struct err_info info;
    p->seconds = start > 0 && now > start ? (double)(now - start) / 1000.0 : 0.0;
    p->max_rhat = l->out->head.max_rhat;
    p->min_ess_bulk = l->out->head.min_ess_bulk;
    p->min_ess_tail = l->out->head.min_ess_tail;
    p->worst = l->out->head.worst;
    p->watched = divide_up(l->about.width, l->every);
    p->stride = l->every;
    p->rhat = l->rhat;
    p->ess_bulk = l->ess_bulk;
    bool partial = l->depth == CHECKUP_EVERY && !checkup_enough(l->out, l->job);
    if (p->draws == 0 || partial)
        return; /* nothing to tell before the end of warm-up, or not the whole of it */
    if (jobfile_history_add(l->job->store, l->job->id, p, &info) != ERR_OK)
        log_event(LOG_WARN, "history.lost", "job", l->job->id, "reason", info.message, NULL);
}

static enum err look(struct look *l, struct err_info *info)
{
    for (size_t k = 0; k < JOBFILE_WATCHED; k++)
        l->rhat[k] = l->ess_bulk[k] = NAN;
    *l->out = (struct checkup){.head = SUMMARY_HEAD_UNKNOWN};
    jobfile_info(l->file, &l->about);
    choose_range(l);
    enum err code = read_progress(l, info);
    if (code == ERR_OK)
        code = measure(l, info);
    if (code != ERR_OK)
        return code;
    write_history(l);
    return ERR_OK;
}

enum err checkup_look(struct checkup *out, const struct checkup_job *job, enum checkup_depth depth,
                      struct err_info *info)
{
    struct look l = {.job = job, .depth = depth, .out = out};
    enum err code = jobfile_open(&l.file, job->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = look(&l, info);
    jobfile_close(l.file);
    return code;
}

/* ---- good enough ---- */

bool checkup_enough(const struct checkup *c, const struct checkup_job *job)
{
    const struct stop_when *stop = &job->spec->stop_when;
    const struct summary_head *head = &c->head;
    if (stop->rhat == 0.0 && stop->ess == 0.0)
        return false;
    if (c->undefined > 0 || head->draws < CHECKUP_DRAWS || c->slowest < job->spec->warmup)
        return false;
    if (stop->rhat > 0.0 && !(head->max_rhat <= stop->rhat))
        return false;
    return stop->ess == 0.0 || fmin(head->min_ess_bulk, head->min_ess_tail) >= stop->ess;
}

bool checkup_time_up(const struct stop_when *stop, uint64_t started_ms)
{
    uint64_t now = clock_wall_ms();
    return stop->seconds > 0.0 && started_ms > 0 && now > started_ms &&
           (double)(now - started_ms) >= 1000.0 * stop->seconds;
}

void checkup_reason(const struct checkup *c, const struct checkup_job *job, bool time,
                    char out[JOB_REASON_SIZE])
{
    const struct stop_when *stop = &job->spec->stop_when;
    char rhat[60] = "", ess[80] = "";
    if (stop->rhat > 0.0)
        snprintf(rhat, sizeof rhat, "largest R-hat %.4f <= %.6g", c->head.max_rhat, stop->rhat);
    if (stop->ess > 0.0)
        snprintf(ess, sizeof ess, "smallest bulk and tail ESS %.0f >= %.6g",
                 floor(fmin(c->head.min_ess_bulk, c->head.min_ess_tail)), stop->ess);
    if (time)
        snprintf(rhat, sizeof rhat, "%.6g s of wall clock are over", stop->seconds);
    bool both = !time && rhat[0] != '\0' && ess[0] != '\0';
    snprintf(out, JOB_REASON_SIZE,
             "stopped early: %s%s%s after %" PRIu64 " of %" PRIu64 " iterations per chain", rhat,
             both ? " and " : "", time ? "" : ess, c->slowest, job->spec->warmup + job->iterations);
}

/* ---- the verdict ---- */

static enum err make_verdict(const struct summary_head *head, const struct checkup_job *job,
                             struct verdict *out, struct err_info *info)
{
    struct verdict_context context = {.spec = job->spec,
                                      .iterations = job->iterations,
                                      .head = *head,
                                      .state = job->state,
                                      .rate = job->rate,
                                      .stopped_early = job->stopped_early,
                                      .store = job->store,
                                      .owner = job->owner};
    struct jobfile *file;
    enum err code = jobfile_open(&file, job->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = verdict_make(out, NULL, file, &context, info);
    jobfile_close(file);
    return code;
}

void checkup_verdict(const struct summary_head *head, const struct checkup_job *job,
                     struct verdict *out)
{
    struct err_info info;
    enum err code = make_verdict(head, job, out, &info);
    if (code != ERR_OK)
        *out = (struct verdict){0};
    if (code != ERR_OK && code != ERR_NOT_FOUND)
        log_event(LOG_WARN, "verdict.failed", "job", job->id, "reason", info.message, NULL);
}

/* ---- the checks ---- */

static void store_checks(const struct checkup_job *job, const json_t *doc)
{
    struct err_info info;
    char *text = doc != NULL ? json_write(doc, NULL) : NULL;
    if (text == NULL || jobfile_checks_put(job->store, job->id, text, &info) != ERR_OK)
        log_event(LOG_WARN, "checks.lost", "job", job->id, "reason",
                  text != NULL ? info.message : "no memory", NULL);
    free(text);
}

static void store_nothing(const struct checkup_job *job, const char *why)
{
    json_t *doc = audit_nothing(why);
    store_checks(job, doc);
    json_decref(doc);
}

bool checkup_audit_due(const struct checkup_job *job)
{
    struct jobfile *file;
    struct jobfile_info about;
    struct err_info info;
    char *stored = NULL, why[120] = "";
    if (jobfile_open(&file, job->store, job->id, &info) != ERR_OK)
        return false;
    jobfile_info(file, &about);
    bool fresh = jobfile_checks(file, &stored, &info) != ERR_OK || stored != NULL;
    jobfile_close(file);
    free(stored);
    if (fresh)
        return false;
    if (job->spec->check_draws == 0)
        snprintf(why, sizeof why, "switched off: check_draws is 0");
    else if (about.width < about.d)
        snprintf(why, sizeof why,
                 "only %zu of %zu parameters are saved; gradients need all of them", about.width,
                 about.d);
    if (why[0] != '\0')
        store_nothing(job, why);
    return why[0] == '\0';
}

/* The plan has been at the mode, and has tried half the step size. */
static void use_plan(const struct plan *plan, struct audit_budget *budget)
{
    budget->mode_known = plan->centre.sought && plan->centre.converged;
    budget->mode = plan->centre.log_density;
    if (plan->frame != NULL && plan->precondition == PRECONDITION_DENSE)
        budget->frame = plan->frame;
    budget->pilot = plan->checks.energy_half;
    budget->pilot_mcse = plan->checks.energy_mcse;
}

static enum err run_audit(const struct checkup_job *job, const struct model *model, double ess,
                          json_t **doc, struct err_info *info)
{
    double seconds = AUDIT_SHARE * job->cpu_seconds;
    struct audit_budget budget = {.draws = job->spec->check_draws,
                                  .seconds = fmin(fmax(seconds, AUDIT_LEAST), AUDIT_MOST),
                                  .ess = ess,
                                  .seed = job->spec->seed,
                                  .pilot = NAN,
                                  .pilot_mcse = NAN,
                                  .halt = job->halt};
    if (job->plan != NULL)
        use_plan(job->plan, &budget);
    struct jobfile *file;
    enum err code = jobfile_open(&file, job->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = audit_run(doc, file, model, &budget, info);
    jobfile_close(file);
    return code;
}

enum err checkup_audit(const struct checkup_job *job, const struct model *model,
                       const struct err_info *why, double ess)
{
    struct err_info info = {.message = ""};
    json_t *doc = NULL;
    enum err code = ERR_INTERNAL;
    if (model == NULL)
        info = *why;
    else
        code = run_audit(job, model, ess, &doc, &info);
    if (code != ERR_OK && job->halt != NULL && atomic_load(job->halt))
        return ERR_UNAVAILABLE;
    if (code == ERR_OK && data_broken(job->data))
        code = err_set(&info, ERR_UNAVAILABLE, "the data could not be read");
    if (code == ERR_OK) {
        store_checks(job, doc);
    } else {
        log_event(LOG_WARN, "checks.failed", "job", job->id, "reason", info.message, NULL);
        store_nothing(job, info.message);
    }
    json_decref(doc);
    return ERR_OK;
}
