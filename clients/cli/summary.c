#include "clients/cli/summary.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/table.h"

#include <math.h>
#include <string.h>

/* How a number is printed: at the precision of the parameter's sd (a MCSE gets one digit more),
 * as R-hat, as a count. */
enum kind { KIND_SCALED, KIND_ERROR, KIND_RHAT, KIND_COUNT, KIND_OTHER };

static const struct {
    const char *key, *title;
    enum kind kind;
    int drop;
    bool always; /* otherwise only where the daemon sent it */
} known[] = {
    {"mean", "MEAN", KIND_SCALED, 0, true},
    {"sd", "SD", KIND_SCALED, 0, true},
    {"mcse_mean", "MCSE", KIND_ERROR, 4, true},
    {"mcse_sd", "MCSE SD", KIND_ERROR, 9, false},
    {"q5", "5%", KIND_SCALED, 2, true},
    {"q25", "25%", KIND_SCALED, 7, false},
    {"q50", "50%", KIND_SCALED, 6, true},
    {"q75", "75%", KIND_SCALED, 7, false},
    {"q95", "95%", KIND_SCALED, 2, true},
    {"rhat", "R-HAT", KIND_RHAT, 0, true},
    {"ess_bulk", "ESS BULK", KIND_COUNT, 1, true},
    {"ess_tail", "ESS TAIL", KIND_COUNT, 5, true},
};

enum { KNOWN = sizeof known / sizeof *known, NAME_LIMIT = 40 };

struct shown {
    const char *key, *title;
    enum kind kind;
};

static bool is_known(const char *key)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (strcmp(known[i].key, key) == 0)
            return true;
    }
    return strcmp(key, "name") == 0;
}

/* Known columns first; any other number of the first row (the biases against a reference, say)
 * follows under its own name. */
static size_t choose(struct shown *shown, struct column *columns, const json_t *row)
{
    size_t count = 1;
    const char *key;
    json_t *value;
    columns[0] = (struct column){.title = "PARAMETER", .shrinks = true};
    for (size_t i = 0; i < KNOWN; i++) {
        if (!known[i].always && !json_object_get(row, known[i].key))
            continue;
        shown[count] = (struct shown){known[i].key, known[i].title, known[i].kind};
        columns[count++] =
            (struct column){.title = known[i].title, .right = true, .drop = known[i].drop};
    }
    json_object_foreach((json_t *)row, key, value)
    {
        if (count == TABLE_COLUMNS || is_known(key) || json_is_object(value) ||
            json_is_array(value) || json_is_string(value))
            continue;
        shown[count] = (struct shown){key, key, KIND_OTHER};
        columns[count++] = (struct column){.title = key, .right = true, .drop = 3};
    }
    return count;
}

static void add_number(struct table *table, const json_t *row, const struct shown *column)
{
    double value = get_number(row, column->key), sd = get_number(row, "sd");
    int digits = human_decimals(sd);
    char buffer[HUMAN_SIZE];
    switch (column->kind) {
    case KIND_SCALED:
        table_cell(table, human_fixed(buffer, value, digits), STYLE_PLAIN);
        break;
    case KIND_ERROR:
        table_cell(table, human_fixed(buffer, value, human_decimals(value) - 1), STYLE_DIM);
        break;
    case KIND_RHAT:
        table_cell(table, human_fixed(buffer, value, 3), job_rhat_style(value));
        break;
    case KIND_COUNT:
        table_cell(table, human_whole(buffer, value), job_ess_style(value));
        break;
    case KIND_OTHER:
        table_cell(table, human_real(buffer, value), STYLE_PLAIN);
        break;
    }
}

static void print_table(const json_t *rows, FILE *file)
{
    struct shown shown[TABLE_COLUMNS];
    struct column columns[TABLE_COLUMNS];
    size_t i, count = choose(shown, columns, json_array_get(rows, 0));
    json_t *row;
    struct table *table = table_new(columns, count);
    json_array_foreach(rows, i, row)
    {
        table_cell(table, get_string(row, "name"), STYLE_PLAIN);
        for (size_t c = 1; c < count; c++)
            add_number(table, row, &shown[c]);
    }
    table_print(table, file);
    table_free(table);
}

void summary_print(const json_t *summary, FILE *file)
{
    const json_t *rows = get_array(summary, "parameters");
    char draws[HUMAN_SIZE], chains[HUMAN_SIZE];
    if (json_array_size(rows))
        print_table(rows, file);
    fprintf(file, "%s%s draws from %s chains%s%s\n", term_style(file, STYLE_DIM),
            human_whole(draws, get_number(summary, "draws")),
            human_whole(chains, get_number(summary, "chains")),
            list_has_more(summary) ? "; more parameters with --limit N" : "", term_plain(file));
}
