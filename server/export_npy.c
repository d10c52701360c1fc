/* A NumPy array of doubles, axes chain, draw, parameter. Its shape is rectangular: chains are cut
 * to the shortest. */
#include "server/export_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are sent as they are in memory");

enum { HEAD, ROWS };
#define HEAD_SIZE 256

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

static size_t put_numbers(struct export *e, char *to)
{
    const struct export_block *b = &e->block;
    struct export_position *at = &e->at;
    const char *begin = to, *limit = to + EXPORT_PIECE;
    while (at->draw < b->first + b->count && to < limit) {
        const double *row = b->values + (at->draw - b->first) * e->plan.step;
        for (; at->column < e->plan.width && to < limit; at->column++, to += sizeof *row)
            memcpy(to, row + b->place[at->column] * b->span, sizeof *row);
        if (at->column == e->plan.width) {
            at->column = 0;
            at->draw++;
        }
    }
    return (size_t)(to - begin);
}

static enum export_next next(struct export *e, char *to, size_t *written)
{
    struct export_position *at = &e->at;
    if (at->state == HEAD) {
        at->state = ROWS;
        *written = make_head(e, to);
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
        *written = put_numbers(e, to);
    return next;
}

const struct export_format export_npy = {
    .name = "npy",
    .content_type = "application/octet-stream",
    .ending = "npy",
    .begin = begin,
    .size = size,
    .next = next,
};
