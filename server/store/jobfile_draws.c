/* Reading draws: of every tile, the pages that hold the wanted columns. */
#include "server/base/clock.h"
#include "server/store/jobfile_parts.h"

#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_MS 100  /* a read transaction is renewed after so long */
#define CLOSE_BYTES 4096 /* of a page: columns that are read together */

struct draw_reader {
    struct jobfile *file;
    uint32_t chain;
    uint64_t first;
    size_t count;
    const uint32_t *columns; /* NULL: all */
    size_t column_count;
    double *out;
    struct blob_reader blob;
};

static uint32_t column_at(const struct draw_reader *r, size_t k)
{
    return r->columns != NULL ? r->columns[k] : (uint32_t)k;
}

/* One stored tile or piece of one. */
struct piece {
    int64_t id;
    uint64_t first;
    size_t draws;
};

static enum err gap(const struct draw_reader *r, uint64_t pos, struct err_info *info)
{
    return err_set(info, ERR_CORRUPT, "job file %s: chain %u: draw %llu is missing or incomplete",
                   r->file->job, r->chain, (unsigned long long)pos);
}

/* `run` neighbouring columns from the k-th wanted one on; n draws from `pos` on. */
static enum err read_run(struct draw_reader *r, const struct piece *piece, size_t column, size_t k,
                         size_t run, uint64_t pos, size_t n, struct err_info *info)
{
    double *out = r->out + k * r->count + (pos - r->first);
    size_t skip = (size_t)(pos - piece->first), row = piece->draws * sizeof *out;
    /* Neighbouring columns are read at once when they are so close that every page is read anyway;
     * longer ones are read each to its destination, which saves a copy. */
    bool together = run > 1 && row <= CLOSE_BYTES;
    enum err code = ERR_OK;
    if (together)
        code = blob_reader_read(&r->blob, column * row, r->file->tile, run * row, info);
    for (size_t j = 0; j < run && code == ERR_OK; j++, out += r->count) {
        if (together)
            memcpy(out, r->file->tile + j * piece->draws + skip, n * sizeof *out);
        else
            code = blob_reader_read(&r->blob, (column + j) * row + skip * sizeof *out, out,
                                    n * sizeof *out, info);
    }
    return code;
}

/* The wanted columns k0..k1-1, all of one block. */
static enum err read_piece(struct draw_reader *r, const struct piece *piece, size_t block,
                           size_t k0, size_t k1, uint64_t pos, size_t n, struct err_info *info)
{
    const struct jobfile_layout *l = &r->file->layout;
    size_t base = block * l->tile_columns, size;
    enum err code = blob_reader_row(&r->blob, piece->id, &size, info);
    if (code == ERR_OK && size != piece->draws * jobfile_block_columns(l, block) * sizeof(double))
        code = gap(r, piece->first, info);
    for (size_t k = k0, run; k < k1 && code == ERR_OK; k += run) {
        for (run = 1; k + run < k1 && column_at(r, k + run) == column_at(r, k) + run;)
            run++;
        code = read_run(r, piece, column_at(r, k) - base, k, run, pos, n, info);
    }
    return code;
}

/* Reads on from *pos until the end or until the snapshot is old enough. */
static enum err read_snapshot(struct draw_reader *r, size_t block, size_t k0, size_t k1,
                              uint64_t *pos, struct err_info *info)
{
    uint64_t end = r->first + r->count, until_ms = clock_mono_ms() + SNAPSHOT_MS;
    enum err code = ERR_OK;
    struct query q;
    query_open(&q, r->file->db,
               "SELECT id, first, draws FROM tile WHERE chain = ?1 AND block = ?2 AND first >= "
               "coalesce((SELECT max(first) FROM tile WHERE chain = ?1 AND block = ?2 "
               "AND first <= ?3), ?3) AND first < ?4 ORDER BY first");
    query_int(&q, r->chain);
    query_count(&q, block);
    query_count(&q, *pos);
    query_count(&q, end);
    while (code == ERR_OK && *pos < end && query_next(&q)) {
        struct piece piece = {.id = query_get_int(&q, 0),
                              .first = query_get_count(&q, 1),
                              .draws = query_get_count(&q, 2)};
        if (piece.first > *pos || piece.draws > r->file->layout.tile_draws ||
            piece.draws <= *pos - piece.first) {
            code = gap(r, *pos, info);
            break;
        }
        uint64_t stop = piece.first + piece.draws < end ? piece.first + piece.draws : end;
        code = read_piece(r, &piece, block, k0, k1, *pos, (size_t)(stop - *pos), info);
        *pos = stop;
        if (clock_mono_ms() >= until_ms)
            break;
    }
    enum err read = query_close(&q, info);
    return code != ERR_OK ? code : read;
}

/* Stored draws never change, so a long read may renew its snapshot, which lets the writer truncate
 * the WAL. */
static enum err read_block(struct draw_reader *r, size_t block, size_t k0, size_t k1,
                           struct err_info *info)
{
    uint64_t pos = r->first, end = r->first + r->count;
    while (pos < end) {
        uint64_t from = pos;
        enum err code = db_begin_read(r->file->db, info);
        if (code != ERR_OK)
            return code;
        code = read_snapshot(r, block, k0, k1, &pos, info);
        blob_reader_release(&r->blob);
        db_rollback(r->file->db);
        if (code == ERR_OK && pos == from)
            code = gap(r, pos, info);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

static enum err check_columns(const struct draw_reader *r, struct err_info *info)
{
    size_t width = r->file->layout.info.width;
    if (r->columns == NULL)
        return ERR_OK;
    for (size_t k = 0; k < r->column_count; k++)
        if (r->columns[k] >= width || (k > 0 && r->columns[k] <= r->columns[k - 1]))
            return err_set(info, ERR_INVALID, "column %u: columns must be increasing and below %zu",
                           r->columns[k], width);
    return ERR_OK;
}

static enum err prepare(struct draw_reader *r, struct err_info *info)
{
    const struct jobfile_layout *l = &r->file->layout;
    struct jobfile_chain stored;
    enum err code = jobfile_chain(r->file, r->chain, &stored, info);
    if (code == ERR_OK)
        code = jobfile_check_range("draws", r->chain, r->first, r->count, stored.draws, info);
    if (code == ERR_OK)
        code = check_columns(r, info);
    if (code == ERR_OK && r->file->tile == NULL &&
        (r->file->tile = malloc(l->tile_draws * l->tile_columns * sizeof(double))) == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for a tile of draws");
    return code;
}

enum err jobfile_draws(struct jobfile *file, uint32_t chain, uint64_t first, size_t count,
                       const uint32_t *columns, size_t column_count, double *out,
                       struct err_info *info)
{
    struct draw_reader r = {.file = file,
                            .chain = chain,
                            .first = first,
                            .count = count,
                            .columns = columns,
                            .column_count =
                                columns != NULL ? column_count : file->layout.info.width,
                            .out = out};
    enum err code = prepare(&r, info);
    if (code != ERR_OK || count == 0)
        return code;
    blob_reader_init(&r.blob, file->db, "tile", "data");
    for (size_t k0 = 0, k1; k0 < r.column_count && code == ERR_OK; k0 = k1) {
        size_t block = column_at(&r, k0) / file->layout.tile_columns;
        for (k1 = k0 + 1; k1 < r.column_count; k1++)
            if (column_at(&r, k1) / file->layout.tile_columns != block)
                break;
        code = read_block(&r, block, k0, k1, info);
    }
    return code;
}
