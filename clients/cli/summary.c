/* A job's table of parameters, shared by `summary` and `run`. */
#include "clients/cli/summary.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"

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

enum { KNOWN = sizeof known / sizeof *known };

struct shown {
    const char *key;
    enum kind kind;
    bool reference; /* in the row's `reference` object */
};

struct choice {
    struct shown shown[TABLE_COLUMNS];
    struct column columns[TABLE_COLUMNS];
    size_t count;
};

static void add_column(struct choice *choice, struct shown shown, const char *title, int drop)
{
    if (choice->count == TABLE_COLUMNS)
        return;
    choice->shown[choice->count] = shown;
    choice->columns[choice->count++] = (struct column){.title = title, .right = true, .drop = drop};
}

static bool is_known(const char *key)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (strcmp(known[i].key, key) == 0)
            return true;
    }
    return strcmp(key, "name") == 0;
}

/* What a reference posterior says about the parameter, and how far off we are. */
static void choose_reference(struct choice *choice, const json_t *reference)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)reference, key, value) {
        bool mean = strcmp(key, "mean") == 0, sd = strcmp(key, "sd") == 0;
        if (!json_is_object(value) && !json_is_array(value) && !json_is_string(value))
            add_column(choice, (struct shown){key, mean || sd ? KIND_SCALED : KIND_OTHER, true},
                       mean ? "REF MEAN"
                       : sd ? "REF SD"
                            : key,
                       3);
    }
}

/* Known columns first; any other number of the first row follows under its own name. */
static void choose(struct choice *choice, const json_t *rows)
{
    const json_t *first = json_array_get(rows, 0), *reference = NULL;
    size_t i;
    const char *key;
    json_t *value, *row;
    choice->columns[0] = (struct column){.title = "PARAMETER", .shrinks = true};
    choice->count = 1;
    for (i = 0; i < KNOWN; i++) {
        if (known[i].always || json_object_get(first, known[i].key))
            add_column(choice, (struct shown){known[i].key, known[i].kind, false}, known[i].title,
                       known[i].drop);
    }
    json_object_foreach ((json_t *)first, key, value) {
        if (!is_known(key) && json_is_number(value))
            add_column(choice, (struct shown){key, KIND_OTHER, false}, key, 3);
    }
    json_array_foreach (rows, i, row)
        reference = reference ? reference : get_object(row, "reference");
    choose_reference(choice, reference);
}

static void add_number(struct table *table, const json_t *row, const struct shown *column)
{
    const json_t *from = column->reference ? get_object(row, "reference") : row;
    double value = get_number(from, column->key), sd = get_number(row, "sd");
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
    struct choice choice;
    size_t i;
    json_t *row;
    choose(&choice, rows);
    struct table *table = table_new(choice.columns, choice.count);
    json_array_foreach (rows, i, row) {
        table_cell(table, get_string(row, "name"), STYLE_PLAIN);
        for (size_t c = 1; c < choice.count; c++)
            add_number(table, row, &choice.shown[c]);
    }
    table_print(table, file);
    table_free(table);
}

void summary_print(const json_t *summary, FILE *file)
{
    const json_t *rows = get_array(summary, "parameters"), *reference;
    char draws[HUMAN_SIZE], chains[HUMAN_SIZE];
    if (json_array_size(rows))
        print_table(rows, file);
    fprintf(file, "%s%s draws from %s chains%s%s\n", term_style(file, STYLE_DIM),
            human_whole(draws, get_number(summary, "draws")),
            human_whole(chains, get_number(summary, "chains")),
            list_has_more(summary) ? "; more parameters with --limit N" : "", term_plain(file));
    if ((reference = get_object(summary, "reference"))) {
        fprintf(file, "\n%sAgainst the reference%s\n", term_style(file, STYLE_HEAD),
                term_plain(file));
        render_object(reference, NULL, file);
    }
}
