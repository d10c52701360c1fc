/* Progress as JSON. */
#include "server/sched/progress.h"
#include "server/base/json.h"

#include <math.h>
#include <stdlib.h>

void job_snapshot_release(struct job_snapshot *snapshot)
{
    free(snapshot->chain);
    free(snapshot->verdict);
}

static const char *phase(const struct snapshot_chain *c)
{
    return c->done ? "done" : c->warmup ? "warmup" : "sampling";
}

static const char *chain_state(const struct snapshot_chain *c, enum job_state job)
{
    if (c->diverged)
        return "diverged";
    if (c->done)
        return "done";
    if (c->busy)
        return "running";
    return job == JOB_paused ? "paused" : job_state_terminal(job) ? "stopped" : "waiting";
}

static json_t *chains_json(const struct job_snapshot *snapshot)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < snapshot->chains; k++) {
        const struct snapshot_chain *c = &snapshot->chain[k];
        json_t *one = json_object();
        json_put(&one, "chain", json_count(k + 1));
        json_put(&one, "iteration", json_count(c->iteration));
        json_put(&one, "total", json_count(snapshot->total));
        json_put(&one, "phase", json_text(phase(c)));
        json_put(&one, "state", json_text(chain_state(c, snapshot->state)));
        json_add(&list, one);
    }
    return list;
}

json_t *progress_json(const struct job_snapshot *snapshot)
{
    uint64_t done = 0, total = snapshot->total * snapshot->chains;
    for (uint32_t k = 0; k < snapshot->chains; k++)
        done += snapshot->chain[k].iteration;
    double elapsed = snapshot->elapsed_seconds;
    double rate = snapshot->rate;
    if (job_state_terminal(snapshot->state)) /* of the whole run */
        rate = elapsed > 0.0 ? (double)done / elapsed : 0.0;
    double eta =
        snapshot->rate > 0.0 ? (double)(total > done ? total - done : 0) / snapshot->rate : NAN;
    if (job_state_terminal(snapshot->state) && done < total)
        eta = NAN;
    json_t *doc = json_object();
    json_put(&doc, "iteration", json_count(done));
    json_put(&doc, "total", json_count(total));
    json_put(&doc, "fraction", json_number(total > 0 ? (double)done / (double)total : NAN));
    json_put(&doc, "iterations_per_second", json_number(rate > 0.0 ? rate : NAN));
    json_put(&doc, "elapsed_seconds", json_number(elapsed));
    json_put(&doc, "eta_seconds", json_number(done == total && total > 0 ? 0.0 : eta));
    json_put(&doc, "cpu_seconds", json_number(snapshot->cpu_seconds));
    json_put(&doc, "chains", chains_json(snapshot));
    return doc;
}

json_t *progress_summary_json(const struct job_snapshot *snapshot)
{
    json_t *doc = json_object();
    summary_head_put(&doc, &snapshot->head);
    return doc;
}
