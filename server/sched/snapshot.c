/* Snapshots and events of jobs. */
#include "server/base/json.h"
#include "server/sched/parts.h"

#include <stdlib.h>
#include <string.h>

bool sched_fill_snapshot(const struct job_run *job, struct job_snapshot *out)
{
    *out = (struct job_snapshot){
        .state = job->state,
        .phase = sched_phase(job),
        .stop_cause = job->stop_cause,
        .revision = job->revision,
        .version = job->version,
        .started_ms = job->started_ms,
        .elapsed_seconds = clock_since_seconds(&job->started),
        .total = spec_is_open(&job->spec) ? 0 : job->spec.warmup + job->iterations,
        .cpu_seconds = job->cpu_seconds,
        .rate = job->state == JOB_running ? rate_per_second(&job->rate) : 0.0,
        .head = job->head,
        .mixing = job->verdict.mixing,
        .bias = job->verdict.bias,
        .chains = job->spec.chains,
    };
    memcpy(out->reason, job->reason, sizeof out->reason);
    if (job->verdict.sentence[0] != '\0')
        out->verdict = strdup(job->verdict.sentence);
    out->chain = calloc(job->spec.chains, sizeof *out->chain);
    for (uint32_t k = 0; out->chain != NULL && k < job->spec.chains; k++) {
        const struct job_run_chain *c = &job->chains[k];
        out->chain[k] = (struct snapshot_chain){.iteration = c->iteration,
                                                .warmup = c->iteration < job->spec.warmup,
                                                .busy = c->busy,
                                                .done = c->status == CHAIN_DONE,
                                                .diverged = c->status == CHAIN_DIVERGED};
    }
    if (out->chain == NULL)
        job_snapshot_release(out);
    return out->chain != NULL;
}

bool sched_snapshot(struct sched *s, const char *id, struct job_snapshot *out)
{
    pthread_mutex_lock(&s->lock);
    const struct job_run *job = sched_find(s, id);
    bool found = job != NULL && sched_fill_snapshot(job, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool sched_state(struct sched *s, const char *id, enum job_state *state,
                 char reason[JOB_REASON_SIZE])
{
    pthread_mutex_lock(&s->lock);
    const struct job_run *job = sched_find(s, id);
    if (job != NULL) {
        *state = job->state;
        memcpy(reason, job->reason, JOB_REASON_SIZE);
    }
    pthread_mutex_unlock(&s->lock);
    return job != NULL;
}

bool sched_version(struct sched *s, const char *id, uint64_t *revision, uint64_t *version)
{
    pthread_mutex_lock(&s->lock);
    const struct job_run *job = sched_find(s, id);
    if (job != NULL) {
        *revision = job->revision;
        *version = job->version;
    }
    pthread_mutex_unlock(&s->lock);
    return job != NULL;
}

static char *event_text(const struct job_run *job, const struct job_snapshot *view)
{
    json_t *doc = json_object();
    json_put(&doc, "id", json_text(job->id));
    json_put(&doc, "state", json_text(job_state_name(view->state)));
    const char *phase = job_phase_name(view->phase);
    if (view->stop_cause != STOP_none)
        json_put(&doc, "stop_cause", json_text(stop_cause_name(view->stop_cause)));
    json_put(&doc, "phase", phase != NULL ? json_text(phase) : json_null());
    json_put(&doc, "reason", json_text(view->reason));
    json_put(&doc, "progress", progress_json(view));
    json_put(&doc, "summary", progress_summary_json(view));
    if (view->verdict != NULL) {
        json_put(&doc, "verdict", json_text(view->verdict));
        json_put(&doc, "mixing", json_text(mixing_level_name(view->mixing)));
        json_put(&doc, "bias", json_text(bias_level_name(view->bias)));
    }
    return json_write_last(doc);
}

void sched_publish(struct sched *s, struct job_run *job, enum event_kind kind)
{
    struct job_snapshot view;
    pthread_mutex_lock(&job->publish_lock);
    pthread_mutex_lock(&s->lock);
    bool filled = sched_fill_snapshot(job, &view);
    bool lab = job->lab;
    pthread_mutex_unlock(&s->lock);
    char *text = filled ? event_text(job, &view) : NULL;
    if (text != NULL)
        events_publish(s->events, kind, job->id, job->owner, lab, text);
    pthread_mutex_unlock(&job->publish_lock);
    free(text);
    if (filled)
        job_snapshot_release(&view);
}
