/* Checkups of a job between its slices and at its end. */
#include "server/diagnose/checkup.h"
#include "server/diagnose/audit.h"
#include "server/diagnose/certify.h"
#include "server/base/json.h"
#include "server/base/text.h"
#include "server/base/log.h"
#include "server/results/extent.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_DRAWS    400000  /* draws measured while a job runs, ... */
#define FINAL_DRAWS   4000000 /* ... and at its end: about a second */
#define LEAST_DRAWS   1000    /* per chain, whatever the budget ... */
#define WIDE_DRAWS    250     /* ... unless more than FINAL_COLUMNS are measured */
#define FINAL_COLUMNS 2000
#define ESS_DRAWS     4.0 /* draws measured per effective draw of stop_when, enough for such an ESS */
/* A fifth of the job's processor time for all checks, but at least so many seconds, and for audits
 * at most so many. */
#define AUDIT_SHARE    0.05
#define CERTIFY_SHARE  0.15
#define CHECKS_LEAST   2.0
#define AUDIT_MOST     30.0
#define ITERATION_COST 20.0 /* units of work beside rows and coordinates */

/* ---- which draws ---- */

struct checkup_run {
    struct jobfile *file;
    struct jobfile_info about;
    const struct checkup_job *job;
    enum checkup_depth depth;
    struct checkup *out;
    struct summary_range range;
    struct jobfile_history_point point;
    size_t every; /* stride of the columns in the history */
    double rhat[JOBFILE_WATCHED], ess_bulk[JOBFILE_WATCHED];
};

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Stride of the columns of the final checkup, chosen so that those of the history are among
 * them. */
static size_t final_stride(size_t width)
{
    return width > FINAL_COLUMNS ? divide_up(width, FINAL_COLUMNS) : 1;
}

static size_t watch_stride(size_t width)
{
    size_t stride = final_stride(width);
    return width > 0 ? stride * divide_up(width, stride * JOBFILE_WATCHED) : 1;
}

static size_t draws_per_chain(const struct checkup_run *l, size_t columns)
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

static void choose_range(struct checkup_run *l)
{
    size_t width = l->about.width;
    l->every = watch_stride(width);
    l->range = (struct summary_range){
        .count = FINAL_COLUMNS, .stride = stride_of(width, l->depth), .halt = l->job->halt};
    l->range.max_draws = draws_per_chain(l, checkup_columns(width, l->depth));
}

/* ---- measuring ---- */

static enum err read_progress(struct checkup_run *l, struct err_info *info)
{
    struct extent extent;
    enum err code = extent_read(&extent, l->file, info);
    l->point.draws = extent.draws;
    l->point.iteration = extent.iterations;
    l->out->slowest = extent.slowest;
    return code;
}

static void watch(struct checkup_run *l, const struct summary_row *row)
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

/* Merges one block of columns into the results. */
static void merge_block(struct checkup_run *l, const struct summary *summary)
{
    struct summary_head *head = &l->out->head, more;
    summary_worst(summary, l->file, &more);
    if (!isnan(more.max_rhat) && !(more.max_rhat <= head->max_rhat))
        memcpy(head->worst, more.worst, sizeof head->worst);
    head->max_rhat = worse(head->max_rhat, more.max_rhat, 1.0);
    head->min_ess_bulk = worse(head->min_ess_bulk, more.min_ess_bulk, -1.0);
    head->min_ess_tail = worse(head->min_ess_tail, more.min_ess_tail, -1.0);
    head->max_mcse_sd = worse(head->max_mcse_sd, more.max_mcse_sd, 1.0);
    head->parameters += more.parameters;
    head->draws = more.draws;
    for (size_t i = 0; i < summary->count; i++) {
        const struct mixing *m = &summary->rows[i].mixing;
        l->out->undefined += isnan(m->rhat) || isnan(m->ess_bulk) || isnan(m->ess_tail);
        watch(l, &summary->rows[i]);
    }
}

/* Measures in blocks, so that memory stays bounded for any number of parameters. */
static enum err measure(struct checkup_run *l, struct err_info *info)
{
    size_t step = l->range.count * l->range.stride;
    for (size_t first = 0; first == 0 || first < l->about.width; first += step) {
        struct summary summary;
        l->range.first = first;
        enum err code = summary_measure(&summary, l->file, &l->range, info);
        if (code != ERR_OK)
            return code;
        merge_block(l, &summary);
        summary_release(&summary);
        if (l->depth == CHECKUP_EVERY && !checkup_enough(l->out, l->job))
            break;
    }
    return ERR_OK;
}

static void write_history(struct checkup_run *l)
{
    struct jobfile_history_point *p = &l->point;
    struct err_info info;
    p->seconds = l->job->seconds;
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
        return; /* no draws after warm-up yet, or only some columns were measured */
    if (jobfile_history_add(l->job->store, l->job->id, p, &info) != ERR_OK)
        log_event(LOG_WARN, "history.lost", "job", l->job->id, "reason", info.message, NULL);
}

static enum err run(struct checkup_run *l, struct err_info *info)
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

enum err checkup_measure(struct checkup *out, const struct checkup_job *job,
                         enum checkup_depth depth, struct err_info *info)
{
    struct checkup_run l = {.job = job, .depth = depth, .out = out};
    enum err code = jobfile_open(&l.file, job->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = run(&l, info);
    jobfile_close(l.file);
    return code;
}

/* ---- stop_when ---- */

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

bool checkup_time_up(const struct stop_when *stop, double seconds)
{
    return stop->seconds > 0.0 && seconds >= stop->seconds;
}

bool checkup_slow(double cpu_seconds, double most_seconds)
{
    return most_seconds > 0.0 && cpu_seconds >= most_seconds;
}

void checkup_reason(const struct checkup *c, const struct checkup_job *job, bool time,
                    char out[JOB_REASON_SIZE])
{
    const struct stop_when *stop = &job->spec->stop_when;
    char rhat[120] = "", ess[80] = "";
    if (stop->rhat > 0.0)
        snprintf(rhat, sizeof rhat, "largest R-hat %.4f <= %.6g", c->head.max_rhat, stop->rhat);
    if (stop->ess > 0.0)
        snprintf(ess, sizeof ess, "smallest bulk and tail ESS %.0f >= %.6g",
                 floor(fmin(c->head.min_ess_bulk, c->head.min_ess_tail)), stop->ess);
    if (time && checkup_slow(job->cpu_seconds, job->most_seconds))
        snprintf(rhat, sizeof rhat,
                 "the limit of %.3g s of processor time is reached (target.seconds is %.6g)",
                 job->most_seconds, job->spec->target.seconds);
    else if (time)
        snprintf(rhat, sizeof rhat, "the limit of %.6g s is reached (stop_when.seconds)",
                 stop->seconds);
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

/* Takes ownership of both documents. */
static void store_checks(const struct checkup_job *job, json_t *doc, json_t *certificate,
                         const double *certified)
{
    struct err_info info;
    json_put(&doc, "certificate", certificate);
    char *text = doc != NULL ? json_write_last(doc) : NULL;
    if (text == NULL || jobfile_checks_put(job->store, job->id, text, certified, &info) != ERR_OK)
        log_event(LOG_WARN, "checks.lost", "job", job->id, "reason",
                  text != NULL ? info.message : "no memory", NULL);
    free(text);
}

static void store_nothing(const struct checkup_job *job, const char *brief, const char *why)
{
    store_checks(job, audit_nothing(brief, why), certify_nothing(why, why), NULL);
}

bool checkup_audit_due(const struct checkup_job *job)
{
    struct jobfile *file;
    struct jobfile_info about;
    struct err_info info;
    char *stored = NULL, why[120] = "";
    const char *brief = "";
    if (jobfile_open(&file, job->store, job->id, &info) != ERR_OK)
        return false;
    jobfile_info(file, &about);
    bool fresh = jobfile_checks(file, &stored, &info) != ERR_OK || stored != NULL;
    jobfile_close(file);
    free(stored);
    if (fresh)
        return false;
    if (job->spec->check_draws == 0) {
        brief = "switched off";
        snprintf(why, sizeof why, "switched off: check_draws is 0");
    } else if (about.width < about.d) {
        brief = "not all parameters are saved";
        snprintf(why, sizeof why,
                 "only %zu of %zu parameters are saved; gradients need all of them", about.width,
                 about.d);
    }
    if (why[0] != '\0')
        store_nothing(job, brief, why);
    return why[0] == '\0';
}

/* The plan has found the mode and has run pilot chains at half the step size. */
static void use_plan(const struct plan *plan, struct audit_budget *budget)
{
    budget->mode_known = plan->centre.sought && plan->centre.converged;
    budget->mode = plan->centre.log_density;
    if (plan->frame != NULL && plan->precondition == PRECONDITION_DENSE)
        budget->frame = plan->frame;
    budget->pilot = plan->checks.energy_half;
    budget->pilot_mcse = plan->checks.energy_mcse;
}

/* The cost of the job's iterations, in units of moving one coordinate. */
static double units_of(const struct checkup_job *job, const struct model *model, double iterations)
{
    const struct job_spec *spec = job->spec;
    double full = (double)model->full_terms, n = (double)spec->batch_size;
    double rows = spec->batch_size == 0 || n > full ? full : n / fmax(1.0, spec->one_in);
    return iterations * (rows * fmax(model->term_cost, 1.0) + (double)model->d + ITERATION_COST);
}

/* The results of both kinds of checks. */
struct findings {
    json_t *audit, *certificate;
    double *certified;
};

static enum err run_certify(const struct checkup_job *job, struct jobfile *file,
                            const struct model *model, double ess, struct findings *out,
                            struct err_info *info)
{
    struct extent extent;
    enum err code = extent_read(&extent, file, info);
    if (code != ERR_OK)
        return code;
    double units = units_of(job, model, (double)extent.iterations);
    double seconds = CERTIFY_SHARE * fmax(job->cpu_seconds, job->seconds);
    struct certify_budget budget = {.units = CERTIFY_SHARE * units,
                                    .seconds = fmax(seconds, CHECKS_LEAST),
                                    .ess = ess,
                                    .seed = job->spec->seed,
                                    .frame = job->plan != NULL ? job->plan->frame : NULL,
                                    .halt = job->halt};
    return certify_run(&out->certificate, &out->certified, file, model, &budget, info);
}

static enum err run_audit(const struct checkup_job *job, struct jobfile *file,
                          const struct model *model, double ess, struct findings *out,
                          struct err_info *info)
{
    double seconds = AUDIT_SHARE * job->cpu_seconds;
    struct audit_budget budget = {.draws = job->spec->check_draws,
                                  .seconds = fmin(fmax(seconds, CHECKS_LEAST), AUDIT_MOST),
                                  .ess = ess,
                                  .seed = job->spec->seed,
                                  .pilot = NAN,
                                  .pilot_mcse = NAN,
                                  .halt = job->halt};
    if (job->plan != NULL)
        use_plan(job->plan, &budget);
    return audit_run(&out->audit, file, model, &budget, info);
}

static enum err run_checks(const struct checkup_job *job, const struct model *model, double ess,
                           struct findings *out, struct err_info *info)
{
    struct jobfile *file;
    enum err code = jobfile_open(&file, job->store, job->id, info);
    if (code != ERR_OK)
        return code;
    code = run_certify(job, file, model, ess, out, info);
    if (code == ERR_OK)
        code = run_audit(job, file, model, ess, out, info);
    jobfile_close(file);
    return code;
}

enum err checkup_audit(const struct checkup_job *job, const struct model *model,
                       const struct err_info *why, double ess)
{
    struct err_info info = {.message = ""};
    struct findings found = {0};
    enum err code = ERR_INTERNAL;
    if (model == NULL)
        info = *why;
    else
        code = run_checks(job, model, ess, &found, &info);
    bool halted = code != ERR_OK && job->halt != NULL && atomic_load(job->halt);
    if (code == ERR_OK && data_broken(job->data))
        code = err_set(&info, ERR_UNAVAILABLE, "the data could not be read");
    if (code == ERR_OK) {
        store_checks(job, found.audit, found.certificate, found.certified);
    } else {
        json_decref(found.audit);
        json_decref(found.certificate);
    }
    free(found.certified);
    if (halted)
        return ERR_UNAVAILABLE;
    if (code != ERR_OK) {
        log_event(LOG_WARN, "checks.failed", "job", job->id, "reason", info.message, NULL);
        store_nothing(job, "not possible", info.message);
    }
    return ERR_OK;
}
