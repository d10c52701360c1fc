/* References from jobs. */
#include "server/results/reference_make.h"
#include "core/samplers/sampler.h"
#include "server/base/json.h"
#include "server/base/text.h"
#include "server/results/summary.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS_LEAST = 100, DRAWS_NEEDED = 4 }; /* per chain */

#define RHAT_GOOD 1.01
#define ESS_GOOD  400.0

/* A reference while it is being made. */
struct making {
    struct reference *out;
    struct jobfile *file;
    size_t count; /* filled */
    struct summary_pool pool;
    bool no_memory;
};

/* ---- numbers ---- */

static void fill_row(void *context, const struct summary_row *row, const struct mixing_draws *draws)
{
    struct making *m = context;
    struct reference *r = m->out;
    const struct mixing *mixing = &row->mixing;
    size_t i = m->count++;
    r->names[i] = strdup(jobfile_name(m->file, row->column));
    r->mean[i] = moments_mean(&row->all);
    r->sd[i] = sqrt(moments_variance(&row->all));
    r->mcse_mean[i] = mixing->mcse_mean;
    r->mcse_sd[i] = mixing->mcse_sd;
    r->ess[i] = mixing->ess_bulk;
    memcpy(r->quantile[i], mixing->quantile, sizeof r->quantile[i]);
    m->no_memory = m->no_memory || r->names[i] == NULL || !summary_pool(&m->pool, draws) ||
                   !reference_set_points(r, i, m->pool.sorted, m->pool.count);
}

/* All draws must be finite. */
static enum err check_finite(const struct reference *r, struct err_info *info)
{
    for (size_t i = 0; i < r->count; i++)
        if (!isfinite(r->mean[i]) || !isfinite(r->sd[i]))
            return err_set(info, ERR_CONFLICT, "the draws of %.100s are not all finite",
                           r->names[i]);
    return ERR_OK;
}

static enum err measure(struct making *m, const struct summary_range *range,
                        struct summary_head *head, struct err_info *info)
{
    struct summary measured;
    enum err code = summary_measure(&measured, m->file, range, info);
    free(m->pool.sorted);
    if (code != ERR_OK)
        return code;
    summary_worst(&measured, m->file, head);
    if (m->no_memory)
        code = err_set(info, ERR_NO_MEMORY, "no memory for the reference");
    else if (measured.draws < DRAWS_NEEDED)
        code = err_set(info, ERR_CONFLICT,
                       "%zu draws per chain after warm-up; a reference needs at least %d",
                       measured.draws, DRAWS_NEEDED);
    else
        code = check_finite(m->out, info);
    summary_release(&measured);
    return code;
}

/* ---- facts ---- */

static enum err take_log_density(struct reference *out, struct jobfile *file, struct err_info *info)
{
    char *text = NULL;
    enum err code = jobfile_checks(file, &text, info);
    json_t *checks = code == ERR_OK && text != NULL ? json_loads(text, 0, NULL) : NULL;
    const json_t *energy = json_object_get(checks, "energy");
    out->log_density = json_number_at(energy, "mean_log_density");
    out->log_density_mcse = json_number_at(energy, "mcse");
    json_decref(checks);
    free(text);
    return code;
}

static json_t *made_by_json(const struct job_row *row)
{
    static const char *const parts[] = {"model",  "data", "sampler", "batch_size", "iterations",
                                        "warmup", "thin", "chains",  "seed"};
    json_t *request = row->request != NULL ? json_loads(row->request, 0, NULL) : NULL;
    json_t *doc = json_object();
    json_put(&doc, "job", json_text(row->id));
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        json_t *part = json_object_get(request, parts[k]);
        if (part != NULL)
            json_put(&doc, parts[k], json_incref(part));
    }
    json_t *data = json_copy(json_object_get(doc, "data")); /* without the path of the file */
    if (json_is_object(data)) {
        json_object_del(data, "path");
        json_object_del(data, "test");
        json_put(&doc, "data", data);
    } else {
        json_decref(data);
    }
    if (row->data_sha256 != NULL && row->data_sha256[0] != '\0')
        json_put(&doc, "data_sha256", json_text(row->data_sha256));
    json_decref(request);
    return doc;
}

static void add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    length += (size_t)snprintf(text + length, size - length, "%s", length > 0 ? "; " : "");
    vsnprintf(text + length, size - length, format, arguments);
    va_end(arguments);
}

/* NULL: no warning, or no memory for one. */
static char *warning_of(const struct job_row *row, const struct summary_head *head)
{
    char text[600] = "";
    const struct sampler_type *sampler = sampler_find(row->sampler);
    if (sampler == NULL || !sampler->exact)
        add(text, sizeof text,
            "made by %.40s, a sampler that is not exact: the reference may be biased itself",
            row->sampler);
    if (isnan(head->max_rhat))
        add(text, sizeof text, "it is not known whether its chains have mixed");
    else if (head->max_rhat > RHAT_GOOD)
        add(text, sizeof text, "its largest R-hat is %.3f (%.100s)", head->max_rhat, head->worst);
    if (head->min_ess_bulk < ESS_GOOD)
        add(text, sizeof text, "its smallest effective sample size is %.0f", head->min_ess_bulk);
    text_trim(text);
    return text[0] != '\0' ? strdup(text) : NULL;
}

enum err reference_make(struct reference *out, struct jobfile *file, const struct job_row *row,
                        size_t draws, struct err_info *info)
{
    struct jobfile_info about;
    struct summary_head head;
    struct making m = {.out = out, .file = file};
    jobfile_info(file, &about);
    if (about.width == 0)
        return err_set(info, ERR_CONFLICT, "the job has saved no parameters");
    if (about.width > REFERENCE_PARAMETERS_MAX)
        return err_set(info, ERR_CONFLICT, "the job has saved %zu parameters; at most %d fit",
                       about.width, REFERENCE_PARAMETERS_MAX);
    if (!reference_init(out, about.width))
        return err_set(info, ERR_NO_MEMORY, "no memory for the reference");
    size_t each = draws / (about.width * about.chains);
    struct summary_range range = {.count = about.width,
                                  .stride = 1,
                                  .max_draws = each > DRAWS_LEAST ? each : DRAWS_LEAST,
                                  .on_row = fill_row,
                                  .context = &m};
    enum err code = measure(&m, &range, &head, info);
    if (code == ERR_OK)
        code = take_log_density(out, file, info);
    if (code != ERR_OK) {
        reference_release(out);
        return code;
    }
    reference_index(out);
    out->made_by = made_by_json(row);
    out->warning = warning_of(row, &head);
    return ERR_OK;
}
