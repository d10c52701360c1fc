/* Details of single parameters. */
#include "core/diagnostics/mixing.h"
#include "server/api/details.h"
#include "server/base/json.h"
#include "server/results/extent.h"

#include <math.h>
#include <stdlib.h>

#define DRAWS_PER_REQUEST ((size_t)2000000) /* about half a second */
#define DRAWS_LEAST       ((size_t)1000)

/* Working memory for one chain of one parameter. */
struct chain_work {
    struct jobfile *file;
    struct jobfile_info about;
    size_t most; /* draws of one chain */
    double *draws, values[DETAILS_LAGS + 1];
    struct mixing_work *work;
};

static enum err chain_work_init(struct chain_work *b, struct jobfile *file, size_t columns,
                                struct err_info *info)
{
    *b = (struct chain_work){.file = file};
    jobfile_info(file, &b->about);
    size_t share = DRAWS_PER_REQUEST / ((columns > 0 ? columns : 1) * (size_t)b->about.chains);
    b->most = share > DRAWS_LEAST ? share : DRAWS_LEAST;
    b->draws = malloc(b->most * sizeof *b->draws);
    if (b->draws == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu draws", b->most);
    return mixing_work_new(&b->work, b->most, info);
}

static void chain_work_release(struct chain_work *b)
{
    free(b->draws);
    mixing_work_free(b->work);
}

/* The latest draws of a chain after warm-up, into b->draws. */
static enum err read_chain(struct chain_work *b, uint32_t chain, uint32_t column, size_t *count,
                           struct err_info *info)
{
    struct jobfile_chain progress;
    enum err code = jobfile_chain(b->file, chain, &progress, info);
    if (code != ERR_OK)
        return code;
    uint64_t after = extent_after(&b->about, progress.draws);
    *count = after < b->most ? (size_t)after : b->most;
    if (*count == 0)
        return ERR_OK;
    return jobfile_draws(b->file, chain, progress.draws - *count, *count, &column, 1, b->draws,
                         info);
}

static json_t *lags_json(struct chain_work *b, size_t count, const char **reason)
{
    if (count < 2) {
        *reason = "fewer than 2 draws after warm-up";
        return json_null();
    }
    size_t lags = count > DETAILS_LAGS ? DETAILS_LAGS : count - 1;
    mixing_autocorrelation(b->draws, count, lags, b->values, b->work);
    if (isnan(b->values[0])) {
        *reason = "the chain is constant, or not finite";
        return json_null();
    }
    json_t *list = json_array();
    for (size_t k = 0; k <= lags; k++)
        json_add(&list, json_number(b->values[k]));
    return list;
}

static enum err chain_json(json_t **list, struct chain_work *b, uint32_t chain, uint32_t column,
                           struct err_info *info)
{
    size_t count;
    const char *reason = NULL;
    enum err code = read_chain(b, chain, column, &count, info);
    if (code != ERR_OK)
        return code;
    json_t *doc = json_object();
    json_put(&doc, "chain", json_count(chain));
    json_put(&doc, "draws", json_count(count));
    json_put(&doc, "lags", lags_json(b, count, &reason));
    if (reason != NULL)
        json_put(&doc, "reason", json_text(reason));
    json_add(list, doc);
    return ERR_OK;
}

/* The history of a watched column; null for other columns. */
static json_t *history_json(const struct jobfile_history *h, uint32_t column)
{
    json_t *doc = json_object(), *rhat = json_array(), *ess = json_array();
    size_t at = h->stride > 0 && column % h->stride == 0 ? column / h->stride : SIZE_MAX;
    for (size_t i = 0; i < h->count && at < h->watched; i++) {
        const struct jobfile_history_point *p = &h->points[i];
        bool there = at < p->watched;
        json_add(&rhat, json_number(there ? p->rhat[at] : NAN));
        json_add(&ess, json_number(there ? p->ess_bulk[at] : NAN));
    }
    json_put(&doc, "rhat", rhat);
    json_put(&doc, "ess_bulk", ess);
    if (doc == NULL || at < h->watched)
        return doc;
    json_decref(doc);
    return json_null();
}

enum err details_json(json_t **out, struct jobfile *file, const struct jobfile_history *history,
                      const struct query_numbers *columns, struct err_info *info)
{
    struct chain_work b;
    json_t *list = json_array();
    enum err code = chain_work_init(&b, file, columns->count, info);
    for (size_t k = 0; k < columns->count && code == ERR_OK; k++) {
        json_t *one = json_object(), *chains = json_array();
        for (uint32_t c = 1; c <= b.about.chains && code == ERR_OK; c++)
            code = chain_json(&chains, &b, c, columns->at[k], info);
        json_put(&one, "name", json_text(jobfile_name(file, columns->at[k])));
        json_put(&one, "autocorrelation", chains);
        json_put(&one, "history", history_json(history, columns->at[k]));
        json_add(&list, one);
    }
    chain_work_release(&b);
    if (code == ERR_OK)
        *out = list;
    else
        json_decref(list);
    return code;
}
