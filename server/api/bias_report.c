/* A job against a reference posterior: numbers over all parameters, and notes on their limits. */
#include "server/api/bias_report.h"
#include "server/api/turn.h"
#include "server/base/field.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/base/text.h"
#include "server/results/posterior.h"
#include "server/store/jobfile.h"

#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_COUNT 10000

static bool read_reference(struct call *call, const char *name, struct reference *out)
{
    struct reference_row row;
    struct err_info info;
    enum err code = store_reference_get(call->app->store, call->who.user, name, &row, &info);
    if (code == ERR_NOT_FOUND) {
        struct mistakes mistakes = {0};
        char quote[FIELD_QUOTE_SIZE];
        mistake_add(&mistakes, "?reference", MISTAKE_missing,
                    "there is no reference %s; GET /v1/references lists them",
                    field_quote(name, quote));
        call_mistakes(call, &mistakes);
        return false;
    }
    if (code != ERR_OK) {
        call_fail_info(call, &info);
        return false;
    }
    bool room = call_reserve(call, json_memory(row.document, strlen(row.document)));
    if (room && (code = reference_parse_stored(row.document, out, &info)) != ERR_OK)
        call_fail_info(call, &info);
    free(row.document);
    return room && code == ERR_OK;
}

bool bias_report_reference(struct call *call, struct reference *out)
{
    const char *name = request_query(call->req, "reference");
    *out = (struct reference){0};
    if (name == NULL)
        return true;
    if (!call_turn(call))
        return false;
    bool good = read_reference(call, name, out);
    turn_end();
    return good;
}

void bias_report_release(struct reference *reference)
{
    bool large = reference->count > LARGE_COUNT;
    reference_release(reference);
    if (large)
        malloc_trim(0);
}

/* ---- over all parameters ---- */

/* Numbers of a row, without their sign. */
static double bias_number(const struct bias_row *row, size_t k)
{
    return row->bias[k];
}

static double quantile_number(const struct bias_row *row, size_t k)
{
    return fabs(row->quantile[k]);
}

static double distance_number(const struct bias_row *row, size_t k)
{
    return k == 0 ? row->wasserstein : row->wasserstein_noise;
}

/* Where a number is known of some rows only, mean and median use the rows that were not selected
 * for a large bias; the maximum uses all. `scratch` has room for one number per row. */
static json_t *spread_json(const struct bias_report *about,
                           double (*number)(const struct bias_row *row, size_t k), size_t k,
                           double *scratch)
{
    const struct bias_table *t = about->table;
    const char *worst = NULL;
    double max = NAN;
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++) {
        double value = number(&t->rows[i], k);
        if (t->rows[i].typical || number == bias_number)
            scratch[n++] = value;
        if (isnan(value) || value <= max)
            continue;
        max = value;
        worst = jobfile_name(about->file, t->rows[i].column);
    }
    struct reference_spread s = reference_spread(scratch, n);
    json_t *doc = json_object();
    json_put(&doc, "mean", json_number(s.mean));
    json_put(&doc, "median", json_number(s.median));
    json_put(&doc, "max", json_number(max));
    json_put(&doc, "worst", json_text(worst));
    return doc;
}

static void put_spreads(json_t **doc, const struct bias_report *about, double *scratch)
{
    static const char *const names[MIXING_QUANTILES] = {"q5", "q25", "q50", "q75", "q95"};
    json_t *quantiles = json_object();
    for (size_t b = 0; b < REFERENCE_BIASES; b++)
        json_put(doc, reference_bias_names[b], spread_json(about, bias_number, b, scratch));
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        json_put(&quantiles, names[q], spread_json(about, quantile_number, q, scratch));
    json_put(doc, "quantile_differences", quantiles);
    json_put(doc, "wasserstein", spread_json(about, distance_number, 0, scratch));
    json_put(doc, "wasserstein_noise", spread_json(about, distance_number, 1, scratch));
}

/* ---- notes ---- */

static void note(json_t **notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(json_t **notes, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_trim(text);
    json_add(notes, json_text(text));
}

static void note_names(json_t **notes, const struct bias_report *about)
{
    const struct bias_table *t = about->table;
    char ours[FIELD_QUOTE_SIZE], theirs[FIELD_QUOTE_SIZE];
    if (t->common == 0 && t->saved > 0)
        note(notes,
             "no parameter in common: the job has %s ..., the reference %s ...; is the reference "
             "of another model? (PUT ...?names=theta names its parameters theta[1], theta[2], ...)",
             field_quote(jobfile_name(about->file, 0), ours),
             field_quote(about->reference->names[0], theirs));
    else if (t->common < t->saved)
        note(notes, "%zu of the job's %zu parameters are not in the reference",
             t->saved - t->common, t->saved);
    if (t->common > 0 && t->common < about->reference->count)
        note(notes, "%zu of the reference's %zu parameters are not among the job's draws",
             about->reference->count - t->common, about->reference->count);
}

static void note_sizes(json_t **notes, const struct bias_table *t)
{
    if (t->measured < t->common && t->count == t->common)
        note(notes,
             "the draws of %zu of the %zu common parameters were measured: some evenly spaced, "
             "some because of a large bias; the means and variances of the others are running ones "
             "over all iterations",
             t->measured, t->common);
    else if (t->measured < t->common)
        note(notes, "%zu of the %zu common parameters were measured, evenly spaced", t->measured,
             t->common);
    if (t->measured > 0 && t->draws < t->draws_stored)
        note(notes,
             "Monte-Carlo errors, quantiles and distances come from %" PRIu64 " of %" PRIu64
             " draws, which overestimates the errors",
             t->draws, t->draws_stored);
}

static bool any_known(const double *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isnan(x[i]))
            return true;
    return false;
}

static bool any_points(const struct reference *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->points[i] != NULL)
            return true;
    return false;
}

static void note_gaps(json_t **notes, const struct reference *r)
{
    if (!any_known(r->mcse_mean, r->count))
        note(notes, "the reference gives no Monte-Carlo errors of its own: they count as 0");
    if (!any_points(r))
        note(notes, "the reference has no draws: Wasserstein distances are not known");
    if (r->warning != NULL && r->warning[0] != '\0')
        note(notes, "the reference: %s", r->warning);
}

static void note_difference(json_t **notes, const json_t *made_by, const json_t *request,
                            const char *part)
{
    struct sentence how = {0};
    if (posterior_part_differs(request, made_by, part, &how))
        note(notes, "the reference was made with another %s (%s, in the reference)",
             strcmp(part, "data") == 0 ? "preparation of the data" : "model", how.text);
}

static void note_origin(json_t **notes, const struct bias_report *about)
{
    const json_t *made_by = about->reference->made_by;
    const char *sha = json_string_value(json_object_get(made_by, "data_sha256"));
    const char *job = json_string_value(json_object_get(made_by, "job"));
    json_t *request = about->row->request != NULL ? json_loads(about->row->request, 0, NULL) : NULL;
    if (job != NULL && strcmp(job, about->row->id) == 0)
        note(notes, "the reference was made from this job itself: it cannot show its bias");
    if (posterior_data_differ(about->row->data_sha256, sha))
        note(notes, "the reference was made from other data than this job's");
    note_difference(notes, made_by, request, "model");
    note_difference(notes, made_by, request, "data");
    json_decref(request);
}

json_t *bias_report_json(const struct bias_report *about)
{
    const struct bias_table *t = about->table;
    json_t *doc = json_object(), *notes = json_array();
    double *scratch = malloc((t->count + 1) * sizeof *scratch);
    if (scratch == NULL) {
        json_decref(doc);
        json_decref(notes);
        return NULL;
    }
    json_put(&doc, "name", json_text(about->name));
    json_put(&doc, "parameters", json_count(t->common));
    json_put(&doc, "looked_at", json_count(t->measured));
    json_put(&doc, "draws", json_count(t->draws));
    put_spreads(&doc, about, scratch);
    note_names(&notes, about);
    note_sizes(&notes, t);
    note_gaps(&notes, about->reference);
    note_origin(&notes, about);
    json_put(&doc, "notes", notes);
    free(scratch);
    return doc;
}

/* ---- the log density ---- */

static const char *energy_reason(const struct reference *r, const json_t *energy, double mean)
{
    const char *reason = json_string_value(json_object_get(energy, "reason"));
    if (isnan(r->log_density))
        return "the reference has no mean log density";
    if (!isnan(mean))
        return NULL;
    return reason != NULL ? reason
                          : "the job has no mean log density; it is computed when a job ends";
}

/* In a normal posterior the mean log density is that of the mode minus half the sum over
 * directions of variance / target variance. */
static json_t *energy_json(const struct reference *r, const json_t *energy, double d)
{
    double mean = json_number_at(energy, "mean_log_density");
    double mcse = json_number_at(energy, "mcse");
    double difference = mean - r->log_density;
    double error = isnan(r->log_density_mcse) ? mcse : hypot(mcse, r->log_density_mcse);
    const char *reason = energy_reason(r, energy, mean);
    json_t *doc = json_object();
    json_put(&doc, "mean_log_density", json_number(mean));
    json_put(&doc, "mcse", json_number(mcse));
    json_put(&doc, "reference_mean", json_number(r->log_density));
    json_put(&doc, "reference_mcse", json_number(r->log_density_mcse));
    json_put(&doc, "difference", json_number(difference));
    json_put(&doc, "z", json_number(difference / error));
    json_put(&doc, "variance_ratio", json_number(1.0 - 2.0 * difference / d));
    if (reason != NULL)
        json_put(&doc, "reason", json_text(reason));
    return doc;
}

enum err bias_report_energy(json_t **out, const struct bias_report *about, struct err_info *info)
{
    struct jobfile_info size;
    char *text = NULL;
    *out = NULL;
    enum err code = jobfile_checks(about->file, &text, info);
    if (code != ERR_OK)
        return code;
    jobfile_info(about->file, &size);
    json_t *checks = text != NULL ? json_loads(text, 0, NULL) : NULL;
    *out = energy_json(about->reference, json_object_get(checks, "energy"), (double)size.d);
    json_decref(checks);
    free(text);
    return ERR_OK;
}
