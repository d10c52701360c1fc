/* Making a job file and adding slices to it.
 *
 * The draws of a commit become tiles at once, cut where a tile of full height ends. A commit may
 * have few draws and a tile holds many, so tiles begin as pieces; when all draws of a full tile are
 * there and it is in more than a few pieces, they are merged. Every number is thus written once or
 * twice, however small the commits are. (Tiles of full size, filled in place, would have every
 * commit rewrite all pages of the tiles it touches: 64 times the data for one draw of a wide job.)
 * Merging is spread over the following commits, in proportion to their draws. */
#include "server/store/jobfile_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Pieces that a full tile may have unmerged: on average they fill a page, so that merging would
 * save no reading. */
enum { PIECES_KEPT = 16 };

/* Draws that are transposed at once: their rows stay in the L1 cache. */
enum { STRETCH = 16 };

/* ---- making ---- */

struct making {
    const char *job;
    const struct jobfile_meta *meta;
    struct jobfile_layout layout;
};

static enum err put_number(struct db *db, const char *key, uint64_t value, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "INSERT INTO meta (key, value) VALUES (?, ?)");
    query_text(&q, key);
    query_count(&q, value);
    return query_run(&q, info);
}

static enum err put_numbers(struct db *db, const struct jobfile_layout *l, struct err_info *info)
{
    enum err code = ERR_OK;
#define X(name, member, always) \
    if (code == ERR_OK)         \
        code = put_number(db, #name, l->member, info);
    JOBFILE_NUMBERS(X)
#undef X
    return code;
}

static enum err put_names(struct db *db, const char *sql, const char *const *names, size_t count,
                          struct err_info *info)
{
    enum err code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        struct query q;
        query_open(&q, db, sql);
        query_count(&q, i);
        query_text(&q, names[i]);
        code = query_run(&q, info);
        if (code == ERR_CONFLICT)
            code = err_set(info, ERR_INVALID, "the name %s occurs twice", names[i]);
    }
    return code;
}

static enum err put_text(struct db *db, const char *key, const char *value, struct err_info *info)
{
    struct query q;
    query_open(&q, db, "INSERT INTO meta (key, value) VALUES (?, ?)");
    query_text(&q, key);
    query_text(&q, value);
    return query_run(&q, info);
}

static enum err put_blocks(struct db *db, const struct jobfile_meta *meta, struct err_info *info)
{
    if (meta->block_count == 0)
        return ERR_OK;
    char *text = jobfile_blocks_write(meta->blocks, meta->block_count);
    enum err code = text != NULL ? put_text(db, "blocks", text, info)
                                 : err_set(info, ERR_NO_MEMORY, "no memory for names");
    free(text);
    return code;
}

static enum err put_plan(struct db *db, const struct jobfile_meta *meta, struct err_info *info)
{
    struct jobfile_long plan = jobfile_long_plan();
    struct query q;
    if (meta->plan == NULL)
        return ERR_OK;
    query_open(&q, db, "INSERT INTO meta (key, value) VALUES ('plan', ?)");
    query_blob(&q, meta->plan, jobfile_long_head(meta->plan_size));
    enum err code = query_run(&q, info);
    if (code == ERR_OK)
        code = jobfile_long_write(db, &plan, meta->plan, meta->plan_size, info);
    return code == ERR_OK ? put_text(db, "plan_document", meta->plan_document, info) : code;
}

static enum err fill(struct db *db, void *ctx, struct err_info *info)
{
    const struct making *m = ctx;
    enum err code = put_text(db, "request", m->meta->request, info);
    if (code == ERR_OK && m->meta->design != NULL)
        code = put_text(db, "design", m->meta->design, info);
    if (code == ERR_OK)
        code = put_plan(db, m->meta, info);
    if (code == ERR_OK)
        code = put_blocks(db, m->meta, info);
    if (code == ERR_OK)
        code = put_numbers(db, &m->layout, info);
    if (code == ERR_OK)
        code = put_names(db, "INSERT INTO parameter (position, name) VALUES (?, ?)", m->meta->names,
                         m->meta->width, info);
    if (code == ERR_OK)
        code = put_names(db, "INSERT INTO metric_name (metric, name) VALUES (?, ?)",
                         m->meta->metrics, m->layout.info.metric_width, info);
    return code;
}

static enum err make(struct store *store, struct db *db, struct making *m, struct err_info *info)
{
    const struct asset steps[] = {
#define X(name, path) asset_get(ASSET_##name),
        ASSET_JOBFILE_LIST(X)
#undef X
    };
    uint64_t version = 0;
    enum err code = db_version(db, &version, info);
    if (code == ERR_OK && version != 0)
        return err_set(info, ERR_CONFLICT, "job %s has a file already", m->job);
    if (code == ERR_OK)
        code = db_migrate(db, steps, sizeof steps / sizeof steps[0], fill, m, info);
    if (code == ERR_OK && fsync(store->draws_fd) != 0)
        code = err_set(info, ERR_IO, "the directory of job files cannot be synced: %m");
    return code;
}

/* A commit writes whole pages: small pages are for small commits, large ones for jobs where a draw,
 * a state or moments fill them. */
static enum db_pages pages_for(const struct jobfile_layout *l)
{
    return l->info.width * sizeof(double) >= 65536 ? DB_PAGES_64K : DB_PAGES_16K;
}

static enum err run_make(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct making *m = ctx;
    struct store_file *file;
    (void)db;
    enum err code = store_check_room(store, info);
    if (code == ERR_OK)
        code = store_file_make(store, m->job, pages_for(&m->layout), &file, info);
    if (code != ERR_OK)
        return code;
    code = make(store, file->db, m, info);
    store_file_measure(store, file);
    store_file_written(store, file);
    /* A file without a version is not complete: the next attempt continues with it. */
    return code;
}

enum err jobfile_create(struct store *store, const char *job, const struct jobfile_meta *meta,
                        struct err_info *info)
{
    struct making m = {.job = job, .meta = meta, .layout = jobfile_layout_choose(meta)};
    struct write write = {.kind = WRITE_ALONE, .job = job, .run = run_make, .ctx = &m};
    if (meta->chains == 0)
        return err_set(info, ERR_INVALID, "a job has at least 1 chain");
    return store_write(store, &write, info);
}

/* ---- draws ---- */

struct slice_writer {
    struct db *db;
    const struct jobfile_slice *slice;
    struct jobfile_layout layout;
    struct jobfile_progress progress; /* before this slice */
    double *tile;                     /* a buffer for one tile */
};

static enum err insert_tile(struct slice_writer *w, size_t block, uint64_t first, size_t draws,
                            struct err_info *info)
{
    struct query q;
    query_open(&q, w->db,
               "INSERT INTO tile (chain, block, first, draws, data) VALUES (?, ?, ?, ?, ?)");
    query_int(&q, w->slice->chain);
    query_count(&q, block);
    query_count(&q, first);
    query_count(&q, draws);
    query_blob(&q, w->tile, draws * jobfile_block_columns(&w->layout, block) * sizeof *w->tile);
    enum err code = query_run(&q, info);
    if (code == ERR_CONFLICT)
        code = err_set(info, ERR_CORRUPT, "chain %u: draw %llu is stored already", w->slice->chain,
                       (unsigned long long)first);
    return code;
}

/* Row-major `rows` of `columns` neighbours, `width` apart, column by column. A function of its own,
 * because only then the compiler keeps the innermost loop in registers: it takes a third of the
 * time. */
__attribute__((noinline)) static void transpose(const double *restrict from, size_t width,
                                                size_t rows, size_t columns, double *restrict to)
{
    for (size_t at = 0, end; at < rows; at = end) {
        end = rows - at < STRETCH ? rows : at + STRETCH;
        for (size_t k = 0; k < columns; k++)
            for (size_t i = at; i < end; i++)
                to[k * rows + i] = from[i * width + k];
    }
}

static enum err write_draws(struct slice_writer *w, struct err_info *info)
{
    enum err code = ERR_OK;
    size_t height = w->layout.tile_draws, blocks = jobfile_blocks(&w->layout),
           width = w->layout.info.width;
    for (size_t from = 0, draws; from < w->slice->draws && code == ERR_OK; from += draws) {
        uint64_t first = w->slice->first_draw + from;
        size_t left = w->slice->draws - from, room = height - (size_t)(first % height);
        draws = left < room ? left : room;
        for (size_t block = 0; block < blocks && code == ERR_OK; block++) {
            const double *values = w->slice->values + from * width + block * w->layout.tile_columns;
            transpose(values, width, draws, jobfile_block_columns(&w->layout, block), w->tile);
            code = insert_tile(w, block, first, draws, info);
        }
    }
    return code;
}

/* ---- merging ---- */

static enum err count_pieces(struct slice_writer *w, size_t block, uint64_t first, size_t *count,
                             struct err_info *info)
{
    struct query q;
    *count = 0;
    query_open(&q, w->db,
               "SELECT count(*) FROM tile WHERE chain = ? AND block = ? AND first BETWEEN ? AND ?");
    query_int(&q, w->slice->chain);
    query_count(&q, block);
    query_count(&q, first);
    query_count(&q, first + w->layout.tile_draws - 1);
    if (query_next(&q))
        *count = query_get_count(&q, 0);
    return query_close(&q, info);
}

/* Copies one piece to its place in the full tile. */
static bool place_piece(struct slice_writer *w, size_t columns, size_t at, size_t draws,
                        const double *data, size_t size)
{
    size_t height = w->layout.tile_draws;
    if (draws == 0 || draws > height - at || size != draws * columns * sizeof *data)
        return false;
    for (size_t k = 0; k < columns; k++)
        memcpy(w->tile + k * height + at, data + k * draws, draws * sizeof *data);
    return true;
}

static enum err read_pieces(struct slice_writer *w, size_t block, uint64_t first,
                            struct err_info *info)
{
    struct query q;
    size_t at = 0, size, columns = jobfile_block_columns(&w->layout, block);
    bool whole = true;
    query_open(&q, w->db,
               "SELECT first, draws, data FROM tile WHERE chain = ? AND block = ? "
               "AND first BETWEEN ? AND ? ORDER BY first");
    query_int(&q, w->slice->chain);
    query_count(&q, block);
    query_count(&q, first);
    query_count(&q, first + w->layout.tile_draws - 1);
    while (whole && query_next(&q)) {
        size_t draws = query_get_count(&q, 1);
        const double *data = query_get_blob(&q, 2, &size);
        whole =
            query_get_count(&q, 0) == first + at && place_piece(w, columns, at, draws, data, size);
        at += draws;
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && (!whole || at != w->layout.tile_draws))
        code =
            err_set(info, ERR_CORRUPT, "chain %u: the draws from %llu on are missing or incomplete",
                    w->slice->chain, (unsigned long long)first);
    return code;
}

static enum err merge(struct slice_writer *w, size_t block, uint64_t first, struct err_info *info)
{
    struct query q;
    enum err code = read_pieces(w, block, first, info);
    if (code != ERR_OK)
        return code;
    query_open(&q, w->db,
               "DELETE FROM tile WHERE chain = ? AND block = ? AND first BETWEEN ? AND ?");
    query_int(&q, w->slice->chain);
    query_count(&q, block);
    query_count(&q, first);
    query_count(&q, first + w->layout.tile_draws - 1);
    code = query_run(&q, info);
    return code == ERR_OK ? insert_tile(w, block, first, w->layout.tile_draws, info) : code;
}

/* Gives complete tiles their final form, at most about twice as much as the slice brings: enough to
 * keep up, without any commit that writes much more than its own draws. */
static enum err pack(struct slice_writer *w, uint64_t draws, uint64_t *packed,
                     struct err_info *info)
{
    size_t height = w->layout.tile_draws, blocks = jobfile_blocks(&w->layout);
    size_t tile = height * w->layout.tile_columns,
           budget = 2 * w->slice->draws * w->layout.info.width + tile;
    uint64_t complete = draws / height * blocks;
    enum err code = ERR_OK;
    for (*packed = w->progress.packed; code == ERR_OK && *packed < complete && budget >= tile;) {
        size_t block = (size_t)(*packed % blocks), pieces;
        uint64_t first = *packed / blocks * height;
        code = count_pieces(w, block, first, &pieces, info);
        if (code == ERR_OK && pieces > PIECES_KEPT) {
            code = merge(w, block, first, info);
            budget -= tile;
        }
        ++*packed;
    }
    return code;
}

/* ---- the rest of a slice ---- */

static enum err write_metric(struct slice_writer *w, size_t i, size_t k, struct err_info *info)
{
    const struct jobfile_slice *s = w->slice;
    const double *values = s->metric_values + 2 * s->metric_width * i;
    struct query q;
    query_open(&q, w->db,
               "INSERT INTO metric (chain, record, metric, iteration, draw, average) "
               "VALUES (?, ?, ?, ?, ?, ?)");
    query_int(&q, s->chain);
    query_count(&q, w->progress.chain.metrics + i);
    query_count(&q, k);
    query_count(&q, s->metric_iteration[i]);
    query_real(&q, values[k]);
    query_real(&q, values[s->metric_width + k]);
    return query_run(&q, info);
}

static enum err write_metrics(struct slice_writer *w, struct err_info *info)
{
    enum err code = ERR_OK;
    for (size_t i = 0; i < w->slice->metrics; i++)
        for (size_t k = 0; k < w->slice->metric_width && code == ERR_OK; k++)
            code = write_metric(w, i, k, info);
    return code;
}

static enum err write_vector(struct slice_writer *w, const char *kind, const double *values,
                             struct err_info *info)
{
    struct query q;
    if (values == NULL)
        return ERR_OK;
    query_open(&q, w->db,
               "INSERT INTO vector (chain, kind, data) VALUES (?, ?, ?) "
               "ON CONFLICT (chain, kind) DO UPDATE SET data = excluded.data");
    query_int(&q, w->slice->chain);
    query_text(&q, kind);
    query_blob(&q, values, w->layout.info.d * sizeof *values);
    return query_run(&q, info);
}

static enum err write_vectors(struct slice_writer *w, struct err_info *info)
{
    const struct jobfile_slice *s = w->slice;
    enum err code = write_vector(w, "mean", s->mean, info);
    if (code == ERR_OK)
        code = write_vector(w, "variance", s->variance, info);
    if (code == ERR_OK)
        code = write_vector(w, "tau", s->tau, info);
    if (code == ERR_OK)
        code = write_vector(w, "beyond", s->beyond, info);
    if (code == ERR_OK)
        code = write_vector(w, "sigma", s->sigma, info);
    return code;
}

static enum err write_state(struct slice_writer *w, struct err_info *info)
{
    const struct jobfile_slice *s = w->slice;
    struct jobfile_long state = jobfile_long_state(s->chain);
    struct query q;
    if (s->state == NULL)
        return ERR_OK;
    query_open(&q, w->db,
               "INSERT INTO state (chain, bytes) VALUES (?, ?) "
               "ON CONFLICT (chain) DO UPDATE SET bytes = excluded.bytes");
    query_int(&q, s->chain);
    query_blob(&q, s->state, jobfile_long_head(s->state_size));
    enum err code = query_run(&q, info);
    return code == ERR_OK ? jobfile_long_write(w->db, &state, s->state, s->state_size, info) : code;
}

static enum err write_progress(struct slice_writer *w, uint64_t packed, struct err_info *info)
{
    const struct jobfile_slice *s = w->slice;
    const struct jobfile_chain *was = &w->progress.chain;
    struct query q;
    query_open(&q, w->db,
               "INSERT INTO chain (chain, iteration, status, cpu_seconds, draws, metrics, packed, "
               "moment_count, noise_count, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
               "ON CONFLICT (chain) DO UPDATE SET iteration = excluded.iteration, "
               "status = excluded.status, cpu_seconds = excluded.cpu_seconds, "
               "draws = excluded.draws, metrics = excluded.metrics, packed = excluded.packed, "
               "moment_count = excluded.moment_count, noise_count = excluded.noise_count, "
               "note = coalesce(excluded.note, note)");
    query_int(&q, s->chain);
    query_count(&q, s->iteration);
    query_int(&q, s->status);
    query_real(&q, was->cpu_seconds + s->cpu_seconds);
    query_count(&q, was->draws + s->draws);
    query_count(&q, was->metrics + s->metrics);
    query_count(&q, packed);
    query_count(&q, s->mean != NULL ? s->moment_count : was->moment_count);
    query_count(&q, s->tau != NULL ? s->noise_count : was->noise_count);
    query_text(&q, s->note);
    return query_run(&q, info);
}

/* ---- commit ---- */

static enum err check_slice(const struct slice_writer *w, struct err_info *info)
{
    const struct jobfile_slice *s = w->slice;
    const struct jobfile_info *i = &w->layout.info;
    if (s->chain < 1 || s->chain > i->chains)
        return err_set(info, ERR_INVALID, "chain %u: the job has chains 1 to %u", s->chain,
                       i->chains);
    if (s->metrics > 0 && s->metric_width != i->metric_width)
        return err_set(info, ERR_INVALID, "a record of %zu metrics: the job has %zu",
                       s->metric_width, i->metric_width);
    if (s->first_draw != w->progress.chain.draws)
        return err_set(info, ERR_CORRUPT,
                       "chain %u: the slice begins with draw %llu, but %llu are stored", s->chain,
                       (unsigned long long)s->first_draw,
                       (unsigned long long)w->progress.chain.draws);
    return ERR_OK;
}

static enum err write_slice(struct slice_writer *w, struct err_info *info)
{
    uint64_t packed = w->progress.packed;
    enum err code = ERR_OK;
    if (w->slice->draws > 0 && w->layout.info.width > 0) {
        code = write_draws(w, info);
        if (code == ERR_OK)
            code = pack(w, w->slice->first_draw + w->slice->draws, &packed, info);
    }
    if (code == ERR_OK)
        code = write_metrics(w, info);
    if (code == ERR_OK)
        code = write_vectors(w, info);
    if (code == ERR_OK)
        code = write_state(w, info);
    return code == ERR_OK ? write_progress(w, packed, info) : code;
}

struct commit {
    struct write write;
    const struct jobfile_slice *slices;
    size_t count;
};

static enum err commit_one(struct slice_writer *w, const struct jobfile_slice *slice,
                           struct err_info *info)
{
    w->slice = slice;
    enum err code = jobfile_progress_read(w->db, slice->chain, &w->progress, info);
    if (code == ERR_OK)
        code = check_slice(w, info);
    return code == ERR_OK ? write_slice(w, info) : code;
}

static enum err run_commit(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct commit *commit = ctx;
    struct slice_writer w = {.db = db};
    (void)store;
    enum err code = jobfile_layout_read(db, &w.layout, info);
    if (code != ERR_OK)
        return code;
    w.tile = malloc(w.layout.tile_draws * w.layout.tile_columns * sizeof *w.tile);
    if (w.tile == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a tile of draws");
    commit->write.bytes = 0;
    for (size_t i = 0; i < commit->count && code == ERR_OK; i++) {
        const struct jobfile_slice *slice = &commit->slices[i];
        code = commit_one(&w, slice, info);
        commit->write.bytes += slice->state_size + slice->draws * w.layout.info.width * 8;
    }
    free(w.tile);
    return code;
}

enum err jobfile_commit(struct store *store, const char *job, const struct jobfile_slice *slices,
                        size_t count, struct err_info *info)
{
    struct commit commit = {.write = {.kind = WRITE_FILE, .job = job, .run = run_commit},
                            .slices = slices,
                            .count = count};
    commit.write.ctx = &commit;
    return store_write(store, &commit.write, info);
}
