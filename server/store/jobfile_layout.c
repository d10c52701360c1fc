/* The layout of a job file. */
#include "server/store/jobfile_parts.h"

#include <stdio.h>
#include <string.h>

struct jobfile_layout jobfile_layout_choose(const struct jobfile_meta *meta)
{
    struct jobfile_layout l = {.info = {.width = meta->width,
                                        .d = meta->d,
                                        .N = meta->N,
                                        .chains = meta->chains,
                                        .thin = meta->thin > 0 ? meta->thin : 1,
                                        .warmup = meta->warmup}};
    while (meta->metrics != NULL && meta->metrics[l.info.metric_width] != NULL)
        l.info.metric_width++;
    l.tile_columns = meta->width < TILE_COLUMNS ? meta->width : TILE_COLUMNS;
    if (l.tile_columns == 0)
        l.tile_columns = 1;
    l.tile_draws = TILE_DRAWS;
    while (l.tile_draws * l.tile_columns > TILE_VALUES)
        l.tile_draws /= 2;
    return l;
}

size_t jobfile_blocks(const struct jobfile_layout *l)
{
    return (l->info.width + l->tile_columns - 1) / l->tile_columns;
}

size_t jobfile_block_columns(const struct jobfile_layout *l, size_t block)
{
    size_t left = l->info.width - block * l->tile_columns;
    return left < l->tile_columns ? left : l->tile_columns;
}

static bool plausible(const struct jobfile_layout *l)
{
    return l->info.chains > 0 && l->info.thin > 0 && l->info.width <= INT32_MAX &&
           l->info.d <= INT32_MAX && l->tile_columns > 0 && l->tile_columns <= TILE_COLUMNS_MOST &&
           l->tile_draws > 0 && l->tile_draws <= TILE_DRAWS &&
           l->tile_draws * l->tile_columns <= TILE_VALUES;
}

/* True if the number exists in files of all versions and is in range. */
static bool take_number(struct jobfile_layout *l, const char *key, uint64_t value)
{
#define X(name, member, always)                   \
    if (strcmp(key, #name) == 0) {                \
        l->member = (__typeof__(l->member))value; \
        return always && l->member == value;      \
    }
    JOBFILE_NUMBERS(X)
#undef X
    return false;
}

enum err jobfile_layout_read(struct db *db, struct jobfile_layout *out, struct err_info *info)
{
    struct query q;
#define X(name, member, always) +always
    size_t found = 0, wanted = 0 JOBFILE_NUMBERS(X);
#undef X
    *out = (struct jobfile_layout){0};
    query_open(&q, db,
               "SELECT key, value FROM meta "
               "WHERE key NOT IN ('request', 'blocks', 'plan', 'plan_document', 'design')");
    while (query_next(&q))
        found += take_number(out, query_get_text(&q, 0), query_get_count(&q, 1));
    enum err code = query_close(&q, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, db, "SELECT count(*) FROM metric_name");
    if (query_next(&q))
        out->info.metric_width = query_get_count(&q, 0);
    code = query_close(&q, info);
    if (code == ERR_OK && (found != wanted || !plausible(out)))
        code = err_set(info, ERR_CORRUPT, "the job file lacks a valid description of its layout");
    return code;
}

enum err jobfile_progress_read(struct db *db, uint32_t chain, struct jobfile_progress *out,
                               struct err_info *info)
{
    struct query q;
    *out = (struct jobfile_progress){0};
    query_open(&q, db,
               "SELECT iteration, draws, metrics, status, cpu_seconds, moment_count, noise_count, "
               "packed FROM chain WHERE chain = ?");
    query_int(&q, chain);
    if (query_next(&q))
        *out = (struct jobfile_progress){.chain = {.iteration = query_get_count(&q, 0),
                                                   .draws = query_get_count(&q, 1),
                                                   .metrics = query_get_count(&q, 2),
                                                   .status = (uint32_t)query_get_count(&q, 3),
                                                   .cpu_seconds = query_get_real(&q, 4),
                                                   .moment_count = query_get_count(&q, 5),
                                                   .noise_count = query_get_count(&q, 6)},
                                         .packed = query_get_count(&q, 7)};
    const struct jobfile_chain *c = &out->chain;
    enum err code = query_close(&q, info);
    if (code == ERR_OK && (c->iteration > INT64_MAX || c->draws > INT64_MAX ||
                           c->metrics > INT64_MAX || out->packed > INT64_MAX))
        code = err_set(info, ERR_CORRUPT,
                       "chain %u: %lld iterations and %lld draws cannot have been stored", chain,
                       (long long)c->iteration, (long long)c->draws);
    return code;
}

enum err jobfile_version_check(struct db *db, const char *job, bool writer, struct err_info *info)
{
    const struct asset steps[] = {
#define X(name, path) asset_get(ASSET_##name),
        ASSET_JOBFILE_LIST(X)
#undef X
    };
    const size_t count = sizeof steps / sizeof steps[0];
    uint64_t version = 0;
    enum err code = db_version(db, &version, info);
    if (code != ERR_OK)
        return code;
    if (version == 0)
        return err_set(info, ERR_NOT_FOUND, "there is no job file %s", job);
    if (version > count)
        return err_set(info, ERR_UNSUPPORTED,
                       "job file %s has version %llu; this program reads up to version %zu", job,
                       (unsigned long long)version, count);
    if (version < count && writer)
        return db_migrate(db, steps, count, NULL, NULL, info);
    return ERR_OK;
}
