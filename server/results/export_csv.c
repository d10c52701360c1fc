/* A table for data frames and R's posterior: .chain,.iteration,.draw,"theta[1]",... */
#include "server/results/export_parts.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD, NAMES, ROWS };

_Static_assert(3 * 20 + 2 <= EXPORT_ROW_BEGIN, "three counts with commas between them");

static enum err begin(struct export *e, struct err_info *info)
{
    e->scratch = malloc(2 * export_longest_name(e) + 4);
    return e->scratch != NULL ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory");
}

/* A name is written without quotes only if every reader reads the same text. */
static bool needs_quotes(const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] !=
           '\0';
}

static void add_name(struct export *e, const char *name)
{
    bool quotes = needs_quotes(name);
    char *to = e->scratch;
    *to++ = ',';
    if (quotes)
        *to++ = '"';
    for (; *name != '\0'; name++) {
        if (*name == '"')
            *to++ = '"';
        *to++ = *name;
    }
    if (quotes)
        *to++ = '"';
    e->text = e->scratch;
    e->text_size = (size_t)(to - e->text);
}

static char *put_prefix(const struct export *e, char *to)
{
    const struct export_position *at = &e->at;
    to = export_put_count(to, e->plan.chains[at->chain].chain);
    *to++ = ',';
    to = export_put_count(to, at->draw + 1);
    *to++ = ',';
    return export_put_count(to, at->total + at->draw + 1);
}

static enum export_next next_rows(struct export *e, char **to)
{
    struct export_position *at = &e->at;
    while (at->chain < e->plan.chain_count && at->draw == e->plan.chains[at->chain].count) {
        at->total += at->draw;
        at->draw = 0;
        at->chain++;
    }
    if (at->chain == e->plan.chain_count)
        return EXPORT_END;
    enum export_next next = export_load_rows(e, at->chain, at->draw);
    if (next == EXPORT_MORE)
        *to = export_put_rows(e, *to, UINT64_MAX, put_prefix);
    return next;
}

static enum export_next next(struct export *e, char **to)
{
    if (e->at.state == HEAD) {
        e->at.state = NAMES;
        *to = export_put_text(*to, ".chain,.iteration,.draw");
        return EXPORT_MORE;
    }
    if (e->at.state == ROWS)
        return next_rows(e, to);
    if (e->at.column < e->plan.width) {
        add_name(e, export_name(e, e->at.column++));
        return EXPORT_MORE;
    }
    e->at.state = ROWS;
    e->at.column = 0;
    *(*to)++ = '\n';
    return EXPORT_MORE;
}

const struct export_format export_csv = {
    .name = "csv",
    .content_type = "text/csv; charset=utf-8; header=present",
    .ending = "csv",
    .help = "table with one row per draw: chain, iteration, parameters",
    .begin = begin,
    .next = next,
};
