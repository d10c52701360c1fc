/* Column-oriented JSON:
 *
 *     {"job", "parameters": [names], "warmup": bool,
 *      "chains": [{"chain": 1, "iterations": [...], "values": {"theta[1]": [...], ...}}]}
 *
 * and reference draws as posteriordb keeps them, a list of equally long chains:
 *
 *     [{"theta[1]": [...], "theta[2]": [...]}, ...]
 *
 * Values that are not finite are null. */
#include "server/base/decimal.h"
#include "server/base/text.h"
#include "server/results/export_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD, NAMES, CHAIN, LIST, ITERATIONS, COLUMN, NUMBERS, OVER }; /* LIST: posteriordb */

#define NUMBERS_END (EXPORT_PIECE - DECIMAL_SIZE - 4) /* no number begins beyond */

static size_t scratch_size(const struct export *e)
{
    return 6 * export_longest_name(e) + 16;
}

static enum err begin(struct export *e, struct err_info *info)
{
    e->scratch = malloc(scratch_size(e));
    return e->scratch != NULL ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory");
}

static enum err begin_list(struct export *e, struct err_info *info)
{
    export_cut(e);
    e->at.state = LIST;
    return begin(e, info);
}

/* A string with what comes before and after it, a few bytes each. */
static void add_string(struct export *e, const char *before, const char *text, const char *after)
{
    char *to = export_put_text(e->scratch, before);
    to = text_json(to, e->scratch + scratch_size(e), text, strlen(text));
    to = export_put_text(to, after);
    e->text = e->scratch;
    e->text_size = (size_t)(to - e->text);
}

static char *put_head(struct export *e, char *to)
{
    to = export_put_text(to, "{\"job\":\"");
    to = export_put_text(to, e->plan.job);
    e->at.state = NAMES;
    return export_put_text(to, "\",\"parameters\":[");
}

static char *put_names(struct export *e, char *to)
{
    struct export_position *at = &e->at;
    if (at->column < e->plan.width) {
        add_string(e, at->column > 0 ? "," : "", export_name(e, at->column), "");
        at->column++;
        return to;
    }
    at->column = 0;
    at->state = CHAIN;
    to = export_put_text(to, "],\"warmup\":");
    to = export_put_text(to, e->plan.warmup ? "true" : "false");
    return export_put_text(to, ",\"chains\":[");
}

static char *put_chain(struct export *e, char *to)
{
    struct export_position *at = &e->at;
    if (at->chain == e->plan.chain_count) {
        at->state = OVER;
        return export_put_text(to, "]}\n");
    }
    to = export_put_text(to, at->chain > 0 ? ",{\"chain\":" : "{\"chain\":");
    to = export_put_count(to, e->plan.chains[at->chain].chain);
    at->state = ITERATIONS;
    at->draw = 0;
    return export_put_text(to, ",\"iterations\":[");
}

static char *put_list(struct export *e, char *to)
{
    bool first = e->at.chain == 0, last = e->at.chain == e->plan.chain_count;
    e->at.state = last ? OVER : COLUMN;
    e->at.column = 0;
    to = export_put_text(to, first ? "[" : "");
    return export_put_text(to, last ? "]\n" : first ? "{" : ",\n{");
}

static char *put_iterations(struct export *e, char *to)
{
    struct export_position *at = &e->at;
    const struct export_chain *chain = &e->plan.chains[at->chain];
    const char *limit = to + NUMBERS_END;
    for (; at->draw < chain->count && to < limit; at->draw++) {
        if (at->draw > 0)
            *to++ = ',';
        uint64_t stored = chain->first + at->draw * e->plan.step;
        to = export_put_count(to, (stored + 1) * e->plan.thin);
    }
    if (at->draw < chain->count)
        return to;
    at->state = COLUMN;
    at->column = 0;
    return export_put_text(to, "],\"values\":{");
}

static char *put_column(struct export *e, char *to)
{
    struct export_position *at = &e->at;
    if (at->column == e->plan.width) {
        bool list = e->format == &export_posteriordb;
        at->chain++;
        at->state = list ? LIST : CHAIN;
        return export_put_text(to, list ? "}" : "}}");
    }
    add_string(e, at->column > 0 ? "," : "", export_name(e, at->column), ":[");
    at->state = NUMBERS;
    at->draw = 0;
    return to;
}

static char *put_numbers(struct export *e, char *to)
{
    struct export_position *at = &e->at;
    uint64_t end = e->block.first + e->block.count;
    const char *limit = to + NUMBERS_END;
    for (; at->draw < end && to < limit; at->draw++) {
        double value = export_value(e, at->draw, at->column);
        if (at->draw > 0)
            *to++ = ',';
        if (isfinite(value))
            to += decimal_write(value, to);
        else
            to = export_put_text(to, "null");
    }
    return to;
}

static enum export_next next_numbers(struct export *e, char **to)
{
    struct export_position *at = &e->at;
    if (at->draw < e->plan.chains[at->chain].count) {
        enum export_next next = export_load_column(e, at->chain, at->draw, at->column);
        if (next == EXPORT_MORE)
            *to = put_numbers(e, *to);
        return next;
    }
    *(*to)++ = ']';
    at->column++;
    at->state = COLUMN;
    return EXPORT_MORE;
}

static enum export_next next(struct export *e, char **to)
{
    static char *(*const put[])(struct export * e, char *to) = {
        [HEAD] = put_head, [NAMES] = put_names,           [CHAIN] = put_chain,
        [LIST] = put_list, [ITERATIONS] = put_iterations, [COLUMN] = put_column};
    if (e->at.state == OVER)
        return EXPORT_END;
    if (e->at.state == NUMBERS)
        return next_numbers(e, to);
    *to = put[e->at.state](e, *to);
    return EXPORT_MORE;
}

const struct export_format export_json = {
    .name = "json",
    .content_type = "application/json",
    .ending = "json",
    .help = "one JSON document: chains, their iterations and values by parameter",
    .shown = true,
    .begin = begin,
    .next = next,
};

const struct export_format export_posteriordb = {
    .name = "posteriordb",
    .content_type = "application/json",
    .ending = "json",
    .help = "JSON as in posteriordb: a list of chains, each an object of columns",
    .begin = begin_list,
    .next = next,
};
