/* A NumPy array of doubles, axes chain, draw, parameter. Its shape is rectangular: chains are cut
 * to the shortest. */
#include "server/results/export_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are sent as they are in memory");

enum { HEAD, ROWS };
#define HEAD_SIZE 256

enum { STRETCH = 16 };

static size_t make_head(const struct export *e, char head[HEAD_SIZE])
{
    static const char magic[8] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
    int length =
        snprintf(head + 10, HEAD_SIZE - 10,
                 "{'descr': '<f8', 'fortran_order': False, 'shape': (%zu, %" PRIu64 ", %zu), }",
                 e->plan.chain_count, e->plan.chains[0].count, e->plan.width);
    size_t size = (10 + (size_t)length + 1 + 63) / 64 * 64;
    memcpy(head, magic, sizeof magic);
    head[8] = (char)((size - 10) & 0xFF);
    head[9] = (char)((size - 10) >> 8);
    memset(head + 10 + length, ' ', size - 10 - (size_t)length);
    head[size - 1] = '\n';
    return size;
}

static enum err begin(struct export *e, struct err_info *info)
{
    (void)info;
    export_cut(e);
    return ERR_OK;
}

static uint64_t size(const struct export *e)
{
    char head[HEAD_SIZE];
    return make_head(e, head) +
           e->plan.chain_count * e->plan.chains[0].count * e->plan.width * sizeof(double);
}

/* Whole rows from the current position, column by column, in blocks that stay in the L1 cache. */
static void put_rows(const struct export *e, size_t rows, char *to)
{
    const struct export_block *b = &e->block;
    size_t width = e->plan.width, step = (size_t)e->plan.step;
    const double *from = b->values + (e->at.draw - b->first) * step;
    for (size_t at = 0, end; at < rows; at = end) {
        end = rows - at < STRETCH ? rows : at + STRETCH;
        for (size_t k = 0; k < width; k++) {
            const double *column = from + b->place[k] * b->span;
            for (size_t i = at; i < end; i++)
                memcpy(to + (i * width + k) * sizeof *column, column + i * step, sizeof *column);
        }
    }
}

/* The rest of a row that is partly written or does not fit as a whole, as far as the buffer
 * allows. */
static size_t put_columns(const struct export *e, size_t room, char *to)
{
    const struct export_block *b = &e->block;
    const double *row = b->values + (e->at.draw - b->first) * e->plan.step;
    size_t left = e->plan.width - e->at.column, n = left < room ? left : room;
    for (size_t k = 0; k < n; k++)
        memcpy(to + k * sizeof *row, row + b->place[e->at.column + k] * b->span, sizeof *row);
    return n;
}

static size_t put_numbers(struct export *e, char *to)
{
    struct export_position *at = &e->at;
    size_t room = EXPORT_PIECE / sizeof(double), width = e->plan.width, written = 0;
    uint64_t end = e->block.first + e->block.count;
    while (at->draw < end && written < room) {
        size_t rows = at->column == 0 ? (room - written) / width : 0, n;
        char *next = to + written * sizeof(double);
        rows = rows < end - at->draw ? rows : (size_t)(end - at->draw);
        if (rows > 0)
            put_rows(e, rows, next);
        n = rows > 0 ? rows * width : put_columns(e, room - written, next);
        at->draw += (at->column + n) / width;
        at->column = (at->column + n) % width;
        written += n;
    }
    return written * sizeof(double);
}

static enum export_next next(struct export *e, char **to)
{
    struct export_position *at = &e->at;
    if (at->state == HEAD) {
        at->state = ROWS;
        *to += make_head(e, *to);
        return EXPORT_MORE;
    }
    if (at->draw == e->plan.chains[0].count) {
        at->draw = 0;
        at->chain++;
    }
    if (at->chain == e->plan.chain_count || e->plan.chains[0].count == 0)
        return EXPORT_END;
    enum export_next next = export_load_rows(e, at->chain, at->draw);
    if (next == EXPORT_MORE)
        *to += put_numbers(e, *to);
    return next;
}

const struct export_format export_npy = {
    .name = "npy",
    .content_type = "application/octet-stream",
    .ending = "npy",
    .help = "NumPy array of doubles: chains x draws x parameters",
    .begin = begin,
    .size = size,
    .next = next,
};
