/* The common part of all formats: blocks of draws in, pieces of a document out. */
#include "server/base/decimal.h"
#include "server/results/export_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct export_format export_sqlite = {
    .name = "sqlite",
    .content_type = "application/vnd.sqlite3",
    .ending = "sqlite",
    .help = "the whole job as a SQLite database: draws, moments, plan, checks",
};

const struct export_format *const export_formats[] = {
#define X(name) &export_##name,
    EXPORT_FORMATS(X)
#undef X
        NULL,
};

void export_choose(struct export_chain *chain, const struct export_range *range, uint64_t stored,
                   uint64_t thin)
{
    uint64_t from = range->from / thin + (range->from % thin != 0), end = range->to / thin;
    chain->first = from > 0 ? from - 1 : 0;
    end = end < stored ? end : stored;
    chain->count = end > chain->first ? (end - chain->first - 1) / range->step + 1 : 0;
}

/* ---- making and freeing ---- */

static void *copy_of(const void *bytes, size_t count, size_t size)
{
    void *copy = malloc(count > 0 ? count * size : 1);
    if (copy != NULL && count > 0)
        memcpy(copy, bytes, count * size);
    return copy;
}

void export_free(struct export *e)
{
    if (e == NULL)
        return;
    free((void *)(uintptr_t)e->plan.columns);
    free((void *)(uintptr_t)e->plan.chains);
    free(e->block.values);
    free(e->block.sorted);
    free(e->block.place);
    free(e->scratch);
    free(e);
}

/* The buffer is no larger than the longest read: most jobs are small. */
static size_t room_for(const struct export_plan *plan)
{
    uint64_t most = EXPORT_BLOCK / sizeof(double), needed = 1;
    if (plan->width > most / EXPORT_ROWS)
        most = (uint64_t)plan->width * EXPORT_ROWS;
    for (size_t c = 0; c < plan->chain_count; c++) {
        uint64_t count = plan->chains[c].count;
        uint64_t span = count > 0 ? (count - 1) * plan->step + 1 : 0;
        if (plan->width > 0 && span > most / plan->width)
            return (size_t)most;
        needed = span * plan->width > needed ? span * plan->width : needed;
    }
    return (size_t)needed;
}

uint64_t export_memory(const struct export_plan *plan)
{
    enum {
        COLUMN = 128
    }; /* bytes of a column: its position, and in formats that sort by names the parts of its name */
    return room_for(plan) * sizeof(double) + plan->width * COLUMN +
           plan->chain_count * sizeof(struct export_chain);
}

static bool take_plan(struct export *e, const struct export_plan *plan)
{
    e->plan = *plan;
    e->plan.job = e->job;
    snprintf(e->job, sizeof e->job, "%s", plan->job);
    struct export_chain *chains = copy_of(plan->chains, plan->chain_count, sizeof *chains);
    e->plan.chains = chains;
    e->plan.columns = copy_of(plan->columns, plan->width, sizeof *plan->columns);
    e->block.room = room_for(plan);
    e->block.values = malloc(e->block.room * sizeof(double));
    e->block.sorted = malloc((plan->width + 1) * sizeof *e->block.sorted);
    e->block.place = malloc((plan->width + 1) * sizeof *e->block.place);
    for (size_t c = 0; chains != NULL && plan->width == 0 && c < plan->chain_count; c++)
        chains[c].count = 0;
    return chains != NULL && e->plan.columns != NULL && e->block.values != NULL &&
           e->block.sorted != NULL && e->block.place != NULL;
}

enum err export_new(struct export **out, const struct export_format *format,
                    const struct export_plan *plan, struct err_info *info)
{
    assert(plan->step > 0 && plan->thin > 0);
    enum err code = ERR_NO_MEMORY;
    struct export *e = calloc(1, sizeof *e);
    *out = NULL;
    if (e != NULL && take_plan(e, plan)) {
        e->format = format;
        code = format->begin != NULL ? format->begin(e, info) : ERR_OK;
    }
    if (code == ERR_OK) {
        e->plan.request = NULL;
        *out = e;
        return ERR_OK;
    }
    export_free(e);
    return err_set(info, code, "no memory for a download of %zu parameters", plan->width);
}

uint64_t export_size(const struct export *e)
{
    return e->format->size != NULL ? e->format->size(e) : UINT64_MAX;
}

const struct err_info *export_error(const struct export *e)
{
    return &e->info;
}

/* ---- blocks ---- */

const char *export_name(const struct export *e, size_t column)
{
    return e->plan.source.name(e->plan.source.ctx, e->plan.columns[column]);
}

size_t export_longest_name(const struct export *e)
{
    size_t longest = 0;
    for (size_t k = 0; k < e->plan.width; k++) {
        size_t length = strlen(export_name(e, k));
        longest = length > longest ? length : longest;
    }
    return longest;
}

void export_cut(struct export *e)
{
    struct export_chain *chains = (struct export_chain *)(uintptr_t)e->plan.chains;
    uint64_t shortest = UINT64_MAX;
    for (size_t c = 0; c < e->plan.chain_count; c++)
        shortest = chains[c].count < shortest ? chains[c].count : shortest;
    for (size_t c = 0; c < e->plan.chain_count; c++)
        chains[c].count = shortest;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The source requires increasing columns; the client may have named them in another order. */
static void arrange(struct export *e, size_t column, size_t columns)
{
    struct export_block *b = &e->block;
    const uint32_t *wanted = e->plan.columns + column;
    bool increasing = true;
    if (b->loaded && b->column == column && b->columns == columns)
        return;
    memcpy(b->sorted, wanted, columns * sizeof *wanted);
    for (size_t k = 0; k < columns; k++) {
        b->place[k] = k;
        increasing = increasing && (k == 0 || wanted[k] > wanted[k - 1]);
    }
    if (increasing)
        return;
    qsort(b->sorted, columns, sizeof *b->sorted, by_value);
    for (size_t k = 0; k < columns; k++) {
        const uint32_t *found =
            bsearch(&wanted[k], b->sorted, columns, sizeof *b->sorted, by_value);
        b->place[k] = (size_t)(found - b->sorted);
    }
}

/* Tiles hold a multiple of EXPORT_ROWS draws: blocks that end with them are read faster. */
static uint64_t trimmed(uint64_t first, uint64_t count)
{
    uint64_t surplus = (first + count) % EXPORT_ROWS;
    return surplus < count ? count - surplus : count;
}

static enum export_next load(struct export *e, size_t chain, uint64_t draw, size_t column,
                             size_t columns)
{
    struct export_block *b = &e->block;
    const struct export_chain *from = &e->plan.chains[chain];
    uint64_t step = e->plan.step, left = from->count - draw;
    uint64_t fit = (b->room / columns - 1) / step + 1;
    if (e->block_read)
        return EXPORT_LATER;
    e->block_read = true;
    arrange(e, column, columns);
    b->chain = chain;
    b->first = draw;
    b->count = left <= fit ? left : step > 1 ? fit : trimmed(from->first + draw, fit);
    b->span = (size_t)((b->count - 1) * step + 1);
    b->column = column;
    b->columns = columns;
    b->loaded = e->plan.source.draws(e->plan.source.ctx, from->chain, from->first + draw * step,
                                     b->span, b->sorted, columns, b->values, &e->info) == ERR_OK;
    return b->loaded ? EXPORT_MORE : EXPORT_FAILED;
}

static bool holds(const struct export_block *b, size_t chain, uint64_t draw, size_t column)
{
    return b->loaded && b->chain == chain && draw - b->first < b->count &&
           column - b->column < b->columns;
}

enum export_next export_load_rows(struct export *e, size_t chain, uint64_t draw)
{
    return holds(&e->block, chain, draw, 0) ? EXPORT_MORE : load(e, chain, draw, 0, e->plan.width);
}

enum export_next export_load_column(struct export *e, size_t chain, uint64_t draw, size_t column)
{
    if (holds(&e->block, chain, draw, column))
        return EXPORT_MORE;
    uint64_t span = (e->plan.chains[chain].count - 1) * e->plan.step + 1;
    size_t columns = span < e->block.room ? e->block.room / (size_t)span : 1;
    size_t left = e->plan.width - column;
    return load(e, chain, draw, column, columns < left ? columns : left);
}

/* ---- pieces ---- */

char *export_put_count(char *to, uint64_t value)
{
    char digits[20];
    size_t n = 0;
    do
        digits[sizeof digits - ++n] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    memcpy(to, digits + sizeof digits - n, n);
    return to + n;
}

char *export_put_text(char *to, const char *text)
{
    size_t n = strlen(text);
    memcpy(to, text, n);
    return to + n;
}

char *export_put_rows(struct export *e, char *to, uint64_t end,
                      char *(*begin)(const struct export *e, char *to))
{
    struct export_position *at = &e->at;
    const char *limit = to + EXPORT_PIECE - EXPORT_ROW_BEGIN - DECIMAL_SIZE;
    uint64_t loaded = e->block.first + e->block.count;
    end = end < loaded ? end : loaded;
    while (at->draw < end && to < limit) {
        if (at->column == 0)
            to = begin(e, to);
        *to++ = ',';
        to += decimal_write(export_value(e, at->draw, at->column), to);
        if (++at->column == e->plan.width) {
            *to++ = '\n';
            at->column = 0;
            at->draw++;
        }
    }
    return to;
}

/* One piece into the buffer, or beside it when there might be too little room. Returns the bytes
 * that went into the buffer. */
static size_t append(struct export *e, char *to, size_t room, enum export_next *next)
{
    bool direct = room >= EXPORT_PIECE;
    char *begin = direct ? to : e->spill, *end = begin;
    *next = e->format->next(e, &end);
    size_t written = (size_t)(end - begin);
    if (!direct && *next == EXPORT_MORE && written > 0) {
        e->text = e->spill;
        e->text_size = written;
        written = 0;
    }
    return written;
}

static size_t send_text(struct export *e, char *to, size_t room)
{
    size_t n = e->text_size < room ? e->text_size : room;
    memcpy(to, e->text, n);
    e->text += n;
    e->text_size -= n;
    return n;
}

ssize_t export_read(struct export *e, char *buffer, size_t size)
{
    size_t used = 0;
    enum export_next next = e->failed ? EXPORT_FAILED : EXPORT_MORE;
    e->block_read = false;
    while (next == EXPORT_MORE && used < size) {
        if (e->text_size > 0)
            used += send_text(e, buffer + used, size - used);
        else
            used += append(e, buffer + used, size - used, &next);
    }
    e->failed = e->failed || next == EXPORT_FAILED;
    if (used > 0)
        return (ssize_t)used;
    return e->failed ? -2 : -1;
}
