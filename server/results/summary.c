/* Summaries of draws. */
#include "server/results/summary.h"
#include "server/base/json.h"
#include "server/results/extent.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_DRAWS ((size_t)8 << 20) /* held at a time */
#define WORK_BYTES  200               /* per draw of a column while it is measured */

/* Draws after warm-up that every chain has: `count` of them from the first one, every
 * `step`-th used. */
struct window {
    uint64_t first;
    size_t count, step, used;
};

static struct window window_of(const struct extent *extent, size_t max_draws)
{
    size_t count = (size_t)extent->draws;
    size_t step = max_draws > 0 && count > max_draws ? (count + max_draws - 1) / max_draws : 1;
    return (struct window){
        .first = extent->first, .count = count, .step = step, .used = count / step};
}

/* Draws of a chain that are read at a time: all, or as many as fit into a block, a multiple of the
 * step when they are thinned. */
static size_t piece_of(const struct window *w)
{
    size_t all = w->used * w->step, most = BLOCK_DRAWS / w->step * w->step;
    if (w->step == 1 || all <= BLOCK_DRAWS)
        return all;
    return most > 0 ? most : w->step;
}

/* One block of columns: all chains side by side, block[(chain * columns + k) * used + i]. */
static enum err read_block(struct jobfile *file, uint32_t chains, const struct window *w,
                           const uint32_t *columns, size_t count, double *raw, double *block,
                           struct summary_row *rows, struct err_info *info)
{
    size_t length = w->used * w->step, most = piece_of(w);
    for (uint32_t c = 0; c < chains; c++) {
        double *to = block + (size_t)c * count * w->used;
        double *from = w->step == 1 ? to : raw;
        for (size_t at = 0, n; at < length; at += n) {
            n = length - at < most ? length - at : most;
            enum err code =
                jobfile_draws(file, c + 1, w->first + at, n, columns, count, from, info);
            if (code != ERR_OK)
                return code;
            for (size_t k = 0; k < count; k++) {
                moments_add(&rows[k].all, from + k * n, n);
                for (size_t i = 0; w->step > 1 && i < n / w->step; i++)
                    to[k * w->used + at / w->step + i] = raw[k * n + i * w->step];
            }
        }
    }
    return ERR_OK;
}

struct buffers {
    double *raw, *block;
    uint32_t *columns;
    const double **starts;
    size_t *lengths;
    struct mixing_work *work;
    size_t block_columns;
};

/* The k-th of the `count` columns in the block. */
static void measure_column(struct summary_row *row, const struct summary_range *range,
                           uint32_t chains, size_t count, size_t k, const struct window *w,
                           struct buffers *b)
{
    for (uint32_t c = 0; c < chains; c++) {
        b->starts[c] = b->block + ((size_t)c * count + k) * w->used;
        b->lengths[c] = w->used;
    }
    struct mixing_draws draws = {.chains = b->starts, .lengths = b->lengths, .chain_count = chains};
    mixing_measure(&row->mixing, &draws, b->work);
    if (range->on_row != NULL)
        range->on_row(range->context, row, &draws);
}

static void buffers_release(struct buffers *b)
{
    free(b->raw);
    free(b->block);
    free(b->columns);
    free(b->starts);
    free(b->lengths);
    mixing_work_free(b->work);
}

/* How many columns are in memory at a time. */
static size_t columns_of(const struct window *w, uint32_t chains, size_t columns)
{
    size_t kept = w->used * chains, most = (kept > w->count ? kept : w->count) + 1;
    size_t fit = BLOCK_DRAWS / most;
    fit = fit < columns ? fit : columns;
    return fit > 0 ? fit : 1;
}

static size_t raw_draws(const struct window *w)
{
    return w->step > 1 ? piece_of(w) : 0;
}

uint64_t summary_memory(const struct extent *extent, size_t columns, size_t max_draws)
{
    struct window w = window_of(extent, max_draws);
    uint64_t kept = (uint64_t)w.used * extent->chains;
    return columns_of(&w, extent->chains, columns) * (kept + raw_draws(&w)) * sizeof(double) +
           kept * WORK_BYTES + columns * sizeof(struct summary_row);
}

static enum err buffers_init(struct buffers *b, uint32_t chains, const struct window *w,
                             size_t columns, struct err_info *info)
{
    size_t kept = w->used * chains;
    *b = (struct buffers){.block_columns = columns_of(w, chains, columns)};
    b->block = malloc(b->block_columns * (kept + 1) * sizeof(double));
    b->raw = malloc(b->block_columns * (raw_draws(w) + 1) * sizeof(double));
    b->columns = malloc(b->block_columns * sizeof *b->columns);
    b->starts = malloc(chains * sizeof *b->starts);
    b->lengths = malloc(chains * sizeof *b->lengths);
    enum err code = mixing_work_new(&b->work, w->used > 0 ? w->used * chains : 1, info);
    if (code == ERR_OK && b->block && b->raw && b->columns && b->starts && b->lengths)
        return ERR_OK;
    buffers_release(b);
    return err_set(info, ERR_NO_MEMORY, "no memory for a summary of %zu draws", w->used * chains);
}

static uint32_t column_at(const struct summary_range *range, size_t k)
{
    return range->columns != NULL ? range->columns[k]
                                  : (uint32_t)(range->first + k * range->stride);
}

static size_t count_columns(const struct summary_range *range, size_t width)
{
    if (range->columns != NULL)
        return range->count;
    size_t columns = width > range->first ? width - range->first : 0;
    columns = (columns + range->stride - 1) / range->stride;
    return columns < range->count ? columns : range->count;
}

static enum err measure_all(struct summary *out, struct jobfile *file,
                            const struct summary_range *range, const struct window *w,
                            struct buffers *b, struct err_info *info)
{
    for (size_t at = 0; at < out->count; at += b->block_columns) {
        size_t n = out->count - at < b->block_columns ? out->count - at : b->block_columns;
        for (size_t k = 0; k < n; k++)
            b->columns[k] = column_at(range, at + k);
        enum err code =
            read_block(file, out->chains, w, b->columns, n, b->raw, b->block, out->rows + at, info);
        if (code != ERR_OK)
            return code;
        for (size_t k = 0; k < n; k++) {
            if (range->halt != NULL && atomic_load(range->halt))
                return err_set(info, ERR_UNAVAILABLE, "the server is shutting down");
            out->rows[at + k].column = b->columns[k];
            measure_column(&out->rows[at + k], range, out->chains, n, k, w, b);
        }
    }
    return ERR_OK;
}

/* ---- the latest summary, cached with the open file ---- */

#define KEPT_ROWS 100

/* Draws are only added, so the window identifies them. */
struct kept {
    struct window window;
    size_t first, stride, count;
    struct summary_row rows[KEPT_ROWS];
};

static bool may_keep(const struct summary *summary, const struct summary_range *range)
{
    return range->columns == NULL && range->on_row == NULL && summary->count <= KEPT_ROWS;
}

static bool find_kept(struct summary *out, const struct jobfile *file,
                      const struct summary_range *range, const struct window *w)
{
    const struct kept *k = jobfile_kept(file);
    if (k == NULL || !may_keep(out, range) || k->first != range->first ||
        k->stride != range->stride || k->count != out->count || k->window.first != w->first ||
        k->window.count != w->count || k->window.step != w->step)
        return false;
    memcpy(out->rows, k->rows, out->count * sizeof *out->rows);
    return true;
}

static void keep(const struct summary *summary, struct jobfile *file,
                 const struct summary_range *range, const struct window *w)
{
    struct kept *k = may_keep(summary, range) ? malloc(sizeof *k) : NULL;
    if (k == NULL)
        return;
    *k = (struct kept){
        .window = *w, .first = range->first, .stride = range->stride, .count = summary->count};
    memcpy(k->rows, summary->rows, summary->count * sizeof *k->rows);
    jobfile_keep(file, k);
}

static enum err measure_now(struct summary *out, struct jobfile *file,
                            const struct summary_range *range, const struct window *w,
                            struct err_info *info)
{
    struct buffers b;
    enum err code = buffers_init(&b, out->chains, w, out->count, info);
    if (code != ERR_OK)
        return code;
    code = measure_all(out, file, range, w, &b, info);
    buffers_release(&b);
    if (code == ERR_OK)
        keep(out, file, range, w);
    return code;
}

enum err summary_measure(struct summary *out, struct jobfile *file,
                         const struct summary_range *range, struct err_info *info)
{
    struct jobfile_info about;
    struct extent extent;
    jobfile_info(file, &about);
    *out = (struct summary){.chains = about.chains};
    out->count = count_columns(range, about.width);
    enum err code = extent_read(&extent, file, info);
    if (code != ERR_OK)
        return code;
    const struct window w = window_of(&extent, range->max_draws);
    out->draws = w.used;
    out->rows = calloc(out->count + 1, sizeof *out->rows);
    if (out->rows == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a summary of %zu parameters",
                       out->count);
    if (!find_kept(out, file, range, &w))
        code = measure_now(out, file, range, &w, info);
    if (code != ERR_OK)
        summary_release(out);
    return code;
}

void summary_release(struct summary *summary)
{
    free(summary->rows);
    *summary = (struct summary){0};
}

bool summary_pool(struct summary_pool *pool, const struct mixing_draws *draws)
{
    pool->count = 0;
    for (size_t c = 0; c < draws->chain_count; c++)
        pool->count += draws->lengths[c];
    if (pool->count > pool->room) {
        free(pool->sorted);
        pool->sorted = malloc(pool->count * sizeof *pool->sorted);
        pool->room = pool->sorted != NULL ? pool->count : 0;
        if (pool->sorted == NULL)
            return false;
    }
    double *to = pool->sorted;
    for (size_t c = 0; c < draws->chain_count; to += draws->lengths[c++])
        if (draws->lengths[c] > 0)
            memcpy(to, draws->chains[c], draws->lengths[c] * sizeof *to);
    if (pool->count > 0)
        moments_sort(pool->sorted, pool->count);
    return true;
}

void summary_worst(const struct summary *summary, struct jobfile *file, struct summary_head *head)
{
    size_t worst = SIZE_MAX;
    *head = (struct summary_head)SUMMARY_HEAD_UNKNOWN;
    head->parameters = summary->count;
    head->draws = summary->draws;
    for (size_t k = 0; k < summary->count; k++) {
        const struct mixing *m = &summary->rows[k].mixing;
        if (!isnan(m->rhat) && !(m->rhat <= head->max_rhat)) {
            head->max_rhat = m->rhat;
            worst = summary->rows[k].column;
        }
        if (!isnan(m->ess_bulk) && !(m->ess_bulk >= head->min_ess_bulk))
            head->min_ess_bulk = m->ess_bulk;
        if (!isnan(m->ess_tail) && !(m->ess_tail >= head->min_ess_tail))
            head->min_ess_tail = m->ess_tail;
        if (m->sd > 0.0 && m->mcse_sd >= 0.0 && !(m->mcse_sd / m->sd <= head->max_mcse_sd))
            head->max_mcse_sd = m->mcse_sd / m->sd;
    }
    if (worst != SIZE_MAX)
        snprintf(head->worst, sizeof head->worst, "%s", jobfile_name(file, worst));
}

void summary_head_put(json_t **doc, const struct summary_head *head)
{
    json_put(doc, "max_rhat", json_number(head->max_rhat));
    json_put(doc, "min_ess_bulk", json_number(head->min_ess_bulk));
    json_put(doc, "min_ess_tail", json_number(head->min_ess_tail));
    json_put(doc, "max_mcse_sd", json_number(head->max_mcse_sd));
    json_put(doc, "worst", head->worst[0] != '\0' ? json_text(head->worst) : json_null());
}

void summary_head_read(struct summary_head *out, const char *document)
{
    json_t *json = document != NULL ? json_loads(document, 0, NULL) : NULL;
    const char *worst = json_string_value(json_object_get(json, "worst"));
    *out = (struct summary_head)SUMMARY_HEAD_UNKNOWN;
    out->max_rhat = json_number_at(json, "max_rhat");
    out->min_ess_bulk = json_number_at(json, "min_ess_bulk");
    out->min_ess_tail = json_number_at(json, "min_ess_tail");
    out->max_mcse_sd = json_number_at(json, "max_mcse_sd");
    snprintf(out->worst, sizeof out->worst, "%s", worst != NULL ? worst : "");
    json_decref(json);
}
