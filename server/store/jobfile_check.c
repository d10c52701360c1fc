/* Checks of the content of a job file beyond those of SQLite. */
#include "core/chain/chain.h"
#include "server/store/jobfile_parts.h"

#include <stdio.h>
#include <stdlib.h>

struct checker {
    struct db *db;
    struct jobfile_layout layout;
    void (*each)(void *ctx, const char *problem);
    void *ctx;
};

static void problem(const struct checker *c, uint64_t chain, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "chain %llu: %s", (unsigned long long)chain, what);
    c->each(c->ctx, text);
}

static enum err check_block(const struct checker *c, uint64_t chain, size_t block, uint64_t draws,
                            struct err_info *info)
{
    struct query q;
    uint64_t next = 0;
    size_t row = jobfile_block_columns(&c->layout, block) * sizeof(double);
    bool whole = true;
    query_open(&q, c->db,
               "SELECT first, draws, length(data) FROM tile WHERE chain = ? AND block = ? "
               "ORDER BY first");
    query_count(&q, chain);
    query_count(&q, block);
    while (query_next(&q)) {
        uint64_t n = query_get_count(&q, 1);
        whole = whole && query_get_count(&q, 0) == next && query_get_count(&q, 2) == n * row;
        next += n;
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && (!whole || next != draws))
        problem(c, chain, "the stored draws do not match their count");
    return code;
}

static enum err count_rows(struct db *db, const char *sql, uint64_t chain, uint64_t *out,
                           struct err_info *info)
{
    struct query q;
    *out = 0;
    query_open(&q, db, sql);
    query_count(&q, chain);
    if (query_next(&q))
        *out = query_get_count(&q, 0);
    return query_close(&q, info);
}

static enum err check_state(const struct checker *c, uint32_t chain, struct err_info *info)
{
    void *bytes;
    size_t size;
    struct jobfile_long state = jobfile_long_state(chain);
    enum err code = jobfile_long_read(c->db, &state, &bytes, &size, info);
    if (code == ERR_CORRUPT || (bytes != NULL && chain_saved_check(bytes, size, NULL) != ERR_OK)) {
        problem(c, chain, "its saved state is damaged: the chain cannot continue");
        code = ERR_OK;
    }
    free(bytes);
    return code;
}

static enum err check_chain(const struct checker *c, uint32_t chain, struct err_info *info)
{
    struct jobfile_progress p;
    uint64_t metrics, vectors;
    enum err code = jobfile_progress_read(c->db, chain, &p, info);
    for (size_t b = 0; code == ERR_OK && b < jobfile_blocks(&c->layout); b++)
        code = check_block(c, chain, b, p.chain.draws, info);
    if (code == ERR_OK)
        code =
            count_rows(c->db, "SELECT count(*) FROM metric WHERE chain = ?", chain, &metrics, info);
    if (code == ERR_OK && metrics != p.chain.metrics * c->layout.info.metric_width)
        problem(c, chain, "the stored metrics do not match their count");
    if (code == ERR_OK)
        code = count_rows(c->db,
                          "SELECT count(*) FROM vector WHERE chain = ? AND length(data) <> 8 * "
                          "(SELECT value FROM meta WHERE key = 'd')",
                          chain, &vectors, info);
    if (code == ERR_OK && vectors > 0)
        problem(c, chain, "a vector does not have one number per parameter");
    return code == ERR_OK ? check_state(c, chain, info) : code;
}

static enum err check_names(const struct checker *c, struct err_info *info)
{
    struct query q;
    uint64_t count = 0;
    query_open(&q, c->db, "SELECT count(*) FROM parameter");
    if (query_next(&q))
        count = query_get_count(&q, 0);
    enum err code = query_close(&q, info);
    if (code == ERR_OK && count != c->layout.info.width)
        c->each(c->ctx, "it does not have one name per column");
    return code;
}

static enum err check_history(const struct checker *c, struct err_info *info)
{
    struct query q;
    uint64_t version, points = 0, wrong = 0;
    enum err code = db_version(c->db, &version, info);
    if (code != ERR_OK || version < JOBFILE_WITH_HISTORY)
        return code;
    query_open(&q, c->db,
               "SELECT count(*), count(*) FILTER (WHERE length(rhat) <> length(ess_bulk) OR "
               "iteration > (SELECT coalesce(sum(iteration), 0) FROM chain)) FROM history");
    if (query_next(&q)) {
        points = query_get_count(&q, 0);
        wrong = query_get_count(&q, 1);
    }
    code = query_close(&q, info);
    if (code == ERR_OK && (points > JOBFILE_HISTORY || wrong > 0))
        c->each(c->ctx, "the history of its summaries does not match its chains");
    return code;
}

static enum err check(struct checker *c, const char *job, struct err_info *info)
{
    enum err code = db_check(c->db, true, c->each, c->ctx, info);
    if (code == ERR_OK)
        code = jobfile_version_check(c->db, job, false, info);
    if (code == ERR_OK)
        code = jobfile_layout_read(c->db, &c->layout, info);
    if (code == ERR_OK)
        code = check_names(c, info);
    /* One snapshot: a commit between two queries would look like a gap. */
    if (code == ERR_OK)
        code = db_begin_read(c->db, info);
    for (uint32_t chain = 1; code == ERR_OK && chain <= c->layout.info.chains; chain++)
        code = check_chain(c, chain, info);
    if (code == ERR_OK)
        code = check_history(c, info);
    db_rollback(c->db);
    return code;
}

enum err jobfile_check(struct store *store, const char *job,
                       void (*each)(void *ctx, const char *problem), void *ctx,
                       struct err_info *info)
{
    char path[STORE_PATH_SIZE];
    struct checker c = {.each = each, .ctx = ctx};
    enum err code = store_job_path(store, job, path, info);
    if (code != ERR_OK)
        return code;
    struct db_options options = {
        .path = path, .label = "the file", .role = DB_READER, .cache = DB_CACHE_SMALL};
    code = db_open(&c.db, &options, info);
    if (code == ERR_OK)
        code = check(&c, job, info);
    db_close(c.db);
    return code;
}
