/* Biases of a job against a reference, from the moments of its draws. */
#include "server/api_bias.h"
#include "server/api_measure.h"
#include "server/field.h"
#include "server/json.h"
#include "server/moments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool parse_reference(struct call *call, const char *document, struct reference *out)
{
    struct mistakes mistakes = {0};
    struct err_info info;
    json_t *json;
    if (json_parse(&json, document, strlen(document), &info) != ERR_OK) {
        call_fail_info(call, &info);
        return false;
    }
    enum err code = reference_parse(json, out, &mistakes);
    json_decref(json);
    if (code == ERR_OK)
        return true;
    call_fail(call, mistakes.count > 0 ? ERR_CORRUPT : code,
              mistakes.count > 0 ? "the stored reference cannot be read" : NULL);
    return false;
}

bool bias_reference(struct call *call, struct reference *out)
{
    const char *name = request_query(call->req, "reference");
    struct reference_row row;
    struct err_info info;
    *out = (struct reference){0};
    if (name == NULL)
        return true;
    enum err code = store_reference_get(call->app->store, call->who.user, name, &row, &info);
    if (code == ERR_NOT_FOUND) {
        struct mistakes mistakes = {0};
        char quote[FIELD_QUOTE_SIZE];
        mistake_add(&mistakes, "?reference",
                    "there is no reference %s; GET /v1/references lists them",
                    field_quote(name, quote));
        call_mistakes(call, &mistakes);
        return false;
    }
    if (code != ERR_OK) {
        call_fail_info(call, &info);
        return false;
    }
    bool good = parse_reference(call, row.document, out);
    free(row.document);
    return good;
}

/* ---- biases of all parameters ---- */

#define BLOCK_NUMBERS ((size_t)4 << 17) /* 4 MiB of draws at a time */

/* Adds the draws of one chain to the moments of the columns. */
static enum err gather_chain(struct jobfile *file, uint32_t chain, const struct measure_size *size,
                             const uint32_t *columns, size_t width, double *block,
                             struct moments *moments, struct err_info *info)
{
    size_t most = BLOCK_NUMBERS / width;
    for (uint64_t done = 0; done < size->draws;) {
        size_t n = size->draws - done < most ? (size_t)(size->draws - done) : most;
        enum err code =
            jobfile_draws(file, chain, size->first + done, n, columns, width, block, info);
        if (code != ERR_OK)
            return code;
        for (size_t k = 0; k < width; k++)
            moments_add(&moments[k], block + k * n, n);
        done += n;
    }
    return ERR_OK;
}

enum { COLUMNS_AT_ONCE = 512 };

struct bias_work {
    uint32_t columns[COLUMNS_AT_ONCE];
    size_t positions[COLUMNS_AT_ONCE]; /* in the reference */
    struct moments moments[COLUMNS_AT_ONCE];
    double *block;
    double *bias[REFERENCE_BIASES]; /* of all columns that the reference has */
    size_t count;
};

static void work_release(struct bias_work *w)
{
    if (w == NULL)
        return;
    free(w->block);
    for (size_t b = 0; b < REFERENCE_BIASES; b++)
        free(w->bias[b]);
    free(w);
}

static struct bias_work *work_new(size_t width)
{
    struct bias_work *w = calloc(1, sizeof *w);
    bool good = w != NULL && (w->block = malloc(BLOCK_NUMBERS * sizeof(double))) != NULL;
    for (size_t b = 0; b < REFERENCE_BIASES && good; b++)
        good = (w->bias[b] = malloc((width + 1) * sizeof(double))) != NULL;
    if (good)
        return w;
    work_release(w);
    return NULL;
}

static enum err bias_of_group(struct bias_work *w, struct jobfile *file,
                              const struct measure_size *size, const struct reference *reference,
                              size_t group, struct err_info *info)
{
    enum err code = ERR_OK;
    memset(w->moments, 0, sizeof w->moments);
    for (uint32_t c = 1; c <= size->chains && code == ERR_OK; c++)
        code = gather_chain(file, c, size, w->columns, group, w->block, w->moments, info);
    for (size_t k = 0; k < group && code == ERR_OK; k++, w->count++) {
        double bias[REFERENCE_BIASES];
        reference_bias(reference, w->positions[k], moments_mean(&w->moments[k]),
                       sqrt(moments_variance(&w->moments[k])), bias);
        for (size_t b = 0; b < REFERENCE_BIASES; b++)
            w->bias[b][w->count] = bias[b];
    }
    return code;
}

static enum err bias_of_all(struct bias_work *w, struct jobfile *file,
                            const struct reference *reference, struct err_info *info)
{
    struct jobfile_info about;
    struct measure_size size;
    size_t group = 0;
    jobfile_info(file, &about);
    enum err code = measure_size(file, &size, info);
    for (size_t column = 0; column < about.width && code == ERR_OK; column++) {
        size_t position = reference_find(reference, jobfile_name(file, column));
        if (position != SIZE_MAX) {
            w->columns[group] = (uint32_t)column;
            w->positions[group++] = position;
        }
        if (group == COLUMNS_AT_ONCE) {
            code = bias_of_group(w, file, &size, reference, group, info);
            group = 0;
        }
    }
    if (code == ERR_OK && group > 0)
        code = bias_of_group(w, file, &size, reference, group, info);
    return code;
}

static json_t *spread_json(double *values, size_t count)
{
    struct reference_spread s = reference_spread(values, count);
    json_t *doc = json_object();
    json_put(&doc, "mean", json_number(s.mean));
    json_put(&doc, "median", json_number(s.median));
    json_put(&doc, "max", json_number(s.max));
    return doc;
}

enum err bias_json(json_t **out, struct jobfile *file, const struct reference *reference,
                   const char *name, struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    *out = NULL;
    struct bias_work *w = work_new(about.width);
    enum err code = w != NULL ? bias_of_all(w, file, reference, info)
                              : err_set(info, ERR_NO_MEMORY, "no memory for the biases");
    if (code == ERR_OK) {
        *out = json_object();
        json_put(out, "name", json_text(name));
        json_put(out, "parameters", json_count(w->count));
        for (size_t b = 0; b < REFERENCE_BIASES; b++)
            json_put(out, reference_bias_names[b], spread_json(w->bias[b], w->count));
    }
    work_release(w);
    return code;
}
