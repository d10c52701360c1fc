/* Reference draws as posteriordb keeps them: a list of equally long chains,
 *
 *     [{"theta[1]": [...], "theta[2]": [...]}, ...]
 *
 * What is not finite is null. */
#include "server/results/export_parts.h"

#include <stdlib.h>

enum { CHAIN, COLUMN, NUMBERS, OVER };

static enum err begin(struct export *e, struct err_info *info)
{
    export_cut(e);
    e->scratch = malloc(export_json_scratch(e));
    return e->scratch != NULL ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory");
}

static char *put_chain(struct export *e, char *to)
{
    bool first = e->at.chain == 0, last = e->at.chain == e->plan.chain_count;
    e->at.state = last ? OVER : COLUMN;
    e->at.column = 0;
    to = export_put_text(to, first ? "[" : "");
    return export_put_text(to, last ? "]\n" : first ? "{" : ",\n{");
}

static char *put_column(struct export *e, char *to)
{
    if (e->at.column == e->plan.width) {
        e->at.chain++;
        e->at.state = CHAIN;
        return export_put_text(to, "}");
    }
    export_say_string(e, e->at.column > 0 ? "," : "", export_name(e, e->at.column), ":[");
    e->at.state = NUMBERS;
    e->at.draw = 0;
    return to;
}

static enum export_next put_numbers(struct export *e, char **to)
{
    if (e->at.draw < e->plan.chains[e->at.chain].count)
        return export_json_numbers(e, to);
    *to = export_put_text(*to, "]");
    e->at.column++;
    e->at.state = COLUMN;
    return EXPORT_MORE;
}

static enum export_next next(struct export *e, char *to, size_t *written)
{
    enum export_next result = EXPORT_MORE;
    char *end = to;
    if (e->at.state == OVER)
        return EXPORT_END;
    if (e->at.state == NUMBERS)
        result = put_numbers(e, &end);
    else
        end = e->at.state == CHAIN ? put_chain(e, to) : put_column(e, to);
    *written = (size_t)(end - to);
    return result;
}

const struct export_format export_posteriordb = {
    .name = "posteriordb",
    .content_type = "application/json",
    .ending = "json",
    .help = "JSON as in posteriordb: a list of chains, each an object of columns",
    .begin = begin,
    .next = next,
};
