/* The plan of a job as a JSON document, and its limits. */
#include "server/spec/plan_document.h"
#include "server/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *write_out(json_t *doc)
{
    char *text = doc != NULL ? json_write(doc, NULL) : NULL;
    json_decref(doc);
    return text;
}

char *planning_pending(const struct job_spec *spec)
{
    if (!spec_needs_plan(spec))
        return NULL;
    json_t *doc = json_object();
    json_put(&doc, "state", json_text("pending"));
    json_put(&doc, "auto", spec_open_names(spec));
    return write_out(doc);
}

/* ---- the document ---- */

/* The settings that a plan may choose, from the resolved job. */
static json_t *chosen_json(const struct job_spec *asked, const struct job_spec *settled)
{
    static const char *const names[] = {"gradient", "precondition", "batch_size", "iterations",
                                        "warmup",   "thin",         "chains"};
    json_t *job = spec_resolved(settled), *out = json_object();
    const json_t *sampler = json_object_get(job, "sampler");
    if (asked->sampler_open)
        json_put(&out, "sampler", json_text(settled->sampler->name));
    json_put(&out, "step_size", json_incref(json_object_get(sampler, "step_size")));
    if (json_object_get(sampler, "variant") != NULL)
        json_put(&out, "variant", json_incref(json_object_get(sampler, "variant")));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        json_put(&out, names[i], json_incref(json_object_get(job, names[i])));
    json_decref(job);
    return out;
}

static json_t *centre_json(const struct plan_centre_facts *c)
{
    if (!c->sought)
        return json_null();
    json_t *out = json_object();
    json_put(&out, "converged", json_boolean(c->converged));
    json_put(&out, "steps", json_count(c->steps));
    json_put(&out, "passes", json_count(c->passes));
    json_put(&out, "log_density", json_number(c->log_density));
    json_put(&out, "gradient_norm", json_number(c->gradient_norm));
    json_put(&out, "seconds", json_number(c->seconds));
    json_put(&out, "searches", json_count(c->searches));
    json_put(&out, "modes", json_count(c->modes));
    return out;
}

static json_t *checks_json(const struct plan_checks *c)
{
    json_t *out = json_object();
#define X(name, help) json_put(&out, #name, json_number(c->name));
    PLAN_CHECK_LIST(X)
#undef X
    return out;
}

char *planning_document(const struct plan *plan, const struct job_spec *asked,
                        const struct job_spec *settled)
{
    json_t *doc = json_object(), *why = json_array(), *job = spec_resolved(asked);
    for (size_t i = 0; i < plan->why_count; i++)
        json_add(&why, json_text(plan->why[i]));
    json_put(&doc, "state", json_text("ready"));
    json_put(&doc, "auto", spec_open_names(asked));
    json_put(&doc, "chosen", chosen_json(asked, settled));
    json_put(&doc, "why", why);
    json_put(&doc, "target_met", json_boolean(plan->within_target));
    json_put(&doc, "target", json_incref(json_object_get(job, "target")));
    json_put(&doc, "centre", centre_json(&plan->centre));
    json_put(&doc, "checks", checks_json(&plan->checks));
    json_decref(job);
    return write_out(doc);
}

char *planning_log(const char *document)
{
    json_t *doc = json_loads(document, 0, NULL), *line;
    const json_t *why = json_object_get(doc, "why");
    size_t i, size = 1, used = 0;
    json_array_foreach (why, i, line)
        size += strlen(json_string_value(line)) + 10;
    char *text = size > 1 ? malloc(size) : NULL;
    if (text != NULL)
        json_array_foreach (why, i, line)
            used += (size_t)snprintf(text + used, size - used, "%splan: %s", i > 0 ? "\n" : "",
                                     json_string_value(line));
    json_decref(doc);
    return text;
}

/* ---- limits ---- */

static void add_why(struct plan *plan, const char *format, uint64_t value, uint64_t bound)
{
    if (plan->why_count < PLAN_WHY_MAX)
        snprintf(plan->why[plan->why_count++], PLAN_WHY_LENGTH, format, value, bound);
}

void planning_fit(struct plan *plan, const struct job_spec *asked, size_t width,
                  uint64_t most_bytes, uint64_t most_iterations)
{
    double row = (double)width * (double)asked->chains * sizeof(double);
    if (asked->iterations == PLAN_AUTO && most_iterations > 0 &&
        plan->warmup + plan->iterations > most_iterations) {
        plan->iterations = most_iterations > plan->warmup ? most_iterations - plan->warmup : 1;
        add_why(plan,
                "%" PRIu64 " iterations: a chain may run at most %" PRIu64 ", warm-up included",
                plan->iterations, most_iterations);
    }
    double draws = (double)(plan->warmup + plan->iterations) / (double)plan->thin;
    if (!(row * draws > (double)most_bytes))
        return;
    if (asked->thin == PLAN_AUTO) {
        double thin = ceil(row * draws * (double)plan->thin / (double)most_bytes);
        plan->thin = thin < (double)plan->iterations ? sampler_thin(asked->sampler, (uint64_t)thin)
                                                     : plan->iterations;
        add_why(plan,
                "one iteration in %" PRIu64 " is stored: there is room for at most %" PRIu64
                " MB of draws",
                plan->thin, most_bytes >> 20);
    } else if (asked->iterations == PLAN_AUTO) {
        double fit = (double)most_bytes / row * (double)plan->thin - (double)plan->warmup;
        plan->iterations = fit > (double)plan->thin ? (uint64_t)fit : plan->thin;
        add_why(plan, "%" PRIu64 " iterations: there is room for at most %" PRIu64 " MB of draws",
                plan->iterations, most_bytes >> 20);
    }
}

/* ---- reading a stored document ---- */

static size_t count_at(const json_t *doc, const char *name)
{
    double count = json_number_at(doc, name);
    return count > 0.0 ? (size_t)count : 0;
}

void planning_facts(const char *document, struct planning_facts *out)
{
    json_t *doc = document != NULL ? json_loads(document, 0, NULL) : NULL;
    const json_t *centre = json_object_get(doc, "centre"), *checks = json_object_get(doc, "checks"),
                 *target = json_object_get(doc, "target");
    const char *state = json_string_value(json_object_get(doc, "state"));
    bool converged = json_is_true(json_object_get(centre, "converged"));
    *out = (struct planning_facts){
        .ready = state != NULL && strcmp(state, "ready") == 0,
        .target_met = json_is_true(json_object_get(doc, "target_met")),
        .mode_log_density = converged ? json_number_at(centre, "log_density") : NAN,
        .searches = count_at(centre, "searches"),
        .modes = count_at(centre, "modes"),
        .energy = json_number_at(checks, "energy"),
        .energy_half = json_number_at(checks, "energy_half"),
        .energy_mcse = json_number_at(checks, "energy_mcse"),
        .sd_error = json_number_at(checks, "sd_error"),
        .mean_error = json_number_at(checks, "mean_error"),
        .ess = json_number_at(checks, "ess"),
        .target_sd_error = json_number_at(target, "sd_error"),
        .target_mean_error = json_number_at(target, "mean_error"),
        .target_ess = json_number_at(target, "ess"),
    };
    json_decref(doc);
}
