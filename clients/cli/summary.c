/* A job's table of parameters, shared by `summary` and `run`. */
#include "clients/cli/summary.h"
#include "clients/cli/accuracy.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/table.h"

#include <math.h>
#include <string.h>

/* How a number is printed: with the precision of the parameter's sd (one digit more for an MCSE),
 * as R-hat, as a count, with three decimals, as a time. */
enum kind {
    KIND_SCALED,
    KIND_ERROR,
    KIND_RHAT,
    KIND_COUNT,
    KIND_BIAS,
    KIND_SECONDS,
    KIND_OTHER,
    KIND_HIDDEN
};

struct known {
    const char *key, *title;
    enum kind kind;
    int drop;
    bool always; /* otherwise only if the daemon sent it */
};

static const struct known known[] = {
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
    {"certified_mean_error", "MEAN OFF", KIND_BIAS, 3, false},
    {"certified_sd_error", "SD OFF", KIND_BIAS, 3, false},
    {"ess_per_second", "ESS/S", KIND_OTHER, 8, false},
    {"mcse_q5", "", KIND_HIDDEN, 0, false},
    {"mcse_q25", "", KIND_HIDDEN, 0, false},
    {"mcse_q50", "", KIND_HIDDEN, 0, false},
    {"mcse_q75", "", KIND_HIDDEN, 0, false},
    {"mcse_q95", "", KIND_HIDDEN, 0, false},
    {"ess_per_gradient", "", KIND_HIDDEN, 0, false},
};

/* Of the row's `reference`: biases and distances, with their Monte-Carlo errors. */
static const struct known known_reference[] = {
    {"mean", "REF MEAN", KIND_SCALED, 6, false},
    {"sd", "REF SD", KIND_SCALED, 6, false},
    {"bias_mean", "BIAS", KIND_BIAS, 0, false},
    {"mcse_bias_mean", "MCSE BIAS", KIND_BIAS, 3, false},
    {"bias_variance_ratio", "VAR BIAS", KIND_BIAS, 1, false},
    {"mcse_bias_variance_ratio", "MCSE VAR", KIND_BIAS, 4, false},
    {"wasserstein", "W1", KIND_BIAS, 2, false},
    {"wasserstein_noise", "W1 NOISE", KIND_BIAS, 4, false},
};

/* Of the row's `prior`, in a job with a formula. */
static const struct known known_prior[] = {
    {"mean", "PRIOR MEAN", KIND_OTHER, 6, false},
    {"sd", "PRIOR SD", KIND_OTHER, 4, false},
};

/* Of the row's `cost`. */
static const struct known known_cost[] = {
    {"ess", "ESS NEEDED", KIND_COUNT, 3, false},
    {"seconds", "CPU NEEDED", KIND_SECONDS, 2, false},
};

enum {
    KNOWN = sizeof known / sizeof *known,
    KNOWN_REFERENCE = sizeof known_reference / sizeof *known_reference,
    KNOWN_PRIOR = sizeof known_prior / sizeof *known_prior,
    KNOWN_COST = sizeof known_cost / sizeof *known_cost
};

struct shown {
    const char *key;
    enum kind kind;
    const char *inside; /* the row's object that has it; NULL: the row */
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

/* Columns from an object of the rows, such as `reference`, which some rows may lack. */
static void choose_inside(struct choice *choice, const json_t *rows, const char *inside,
                          const struct known *which, size_t count)
{
    const json_t *object = NULL;
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row)
        object = object ? object : get_object(row, inside);
    for (i = 0; i < count; i++) {
        if (json_object_get(object, which[i].key))
            add_column(choice, (struct shown){which[i].key, which[i].kind, inside}, which[i].title,
                       which[i].drop);
    }
}

/* Known columns first; any other number of the first row follows under its own name. */
static void choose(struct choice *choice, const json_t *rows)
{
    const json_t *first = json_array_get(rows, 0);
    const char *key;
    json_t *value;
    choice->columns[0] = (struct column){.title = "PARAMETER", .shrinks = true};
    choice->count = 1;
    for (size_t i = 0; i < KNOWN; i++) {
        if (known[i].kind != KIND_HIDDEN &&
            (known[i].always || json_object_get(first, known[i].key)))
            add_column(choice, (struct shown){known[i].key, known[i].kind, NULL}, known[i].title,
                       known[i].drop);
    }
    json_object_foreach ((json_t *)first, key, value) {
        if (!is_known(key) && json_is_number(value))
            add_column(choice, (struct shown){key, KIND_OTHER, NULL}, key, 3);
    }
    choose_inside(choice, rows, "prior", known_prior, KNOWN_PRIOR);
    choose_inside(choice, rows, "reference", known_reference, KNOWN_REFERENCE);
    choose_inside(choice, rows, "cost", known_cost, KNOWN_COST);
}

static void add_number(struct table *table, const json_t *row, const struct shown *column)
{
    const json_t *from = column->inside ? get_object(row, column->inside) : row;
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
        table_cell(table, human_whole(buffer, value),
                   column->inside ? STYLE_PLAIN : job_ess_style(value));
        break;
    case KIND_BIAS:
        table_cell(table, human_fixed(buffer, value, 3),
                   strstr(column->key, "bias") == column->key ? STYLE_PLAIN : STYLE_DIM);
        break;
    case KIND_SECONDS:
        table_cell(table, human_seconds(buffer, value), STYLE_PLAIN);
        break;
    case KIND_OTHER:
    case KIND_HIDDEN:
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

/* The cost so far, and the cost of the target error. */
static void print_cost(const json_t *summary, FILE *file)
{
    const json_t *efficiency = get_object(summary, "efficiency"), *cost;
    char seconds[HUMAN_SIZE], gradient[HUMAN_SIZE], cpu[HUMAN_SIZE];
    if (efficiency && !isnan(get_number(efficiency, "ess_per_second")))
        fprintf(file, "%s%s CPU time; smallest bulk ESS: %s per second, %s per gradient%s\n",
                term_style(file, STYLE_DIM),
                human_seconds(cpu, get_number(efficiency, "cpu_seconds")),
                human_real(seconds, get_number(efficiency, "ess_per_second")),
                human_real(gradient, get_number(efficiency, "ess_per_gradient")), term_plain(file));
    if ((cost = get_object(summary, "cost"))) {
        struct text line = {0};
        accuracy_cost(&line, cost);
        fprintf(file, "%s\n", text_str(&line));
        text_release(&line);
    }
}

/* "low ~ age + smoke, 185 of 189 rows; left out for missing values: 3 in age, 1 in lwt; yes counts
 * as 1". */
static void print_design(const json_t *design, FILE *file)
{
    const json_t *response = get_object(design, "response"),
                 *levels = get_array(response, "levels");
    double rows = get_number(design, "rows"), complete = get_number(design, "complete");
    char count[HUMAN_SIZE];
    const char *column, *between = "; left out for missing values: ";
    json_t *missing;
    fprintf(file, "%s, ", get_string(design, "formula"));
    if (complete < rows)
        fprintf(file, "%s of ", human_whole(count, complete));
    fprintf(file, "%s rows", human_whole(count, rows));
    json_object_foreach ((json_t *)get_object(design, "missing"), column, missing) {
        fprintf(file, "%s%s in %s", between, human_whole(count, json_number_value(missing)),
                column);
        between = ", ";
    }
    if (json_array_size(levels) == 2)
        fprintf(file, "; %s counts as 1", json_string_value(json_array_get(levels, 1)));
    fputc('\n', file);
}

void summary_print(const json_t *summary, FILE *file)
{
    const json_t *rows = get_array(summary, "parameters"), *reference;
    char draws[HUMAN_SIZE], stored[HUMAN_SIZE], chains[HUMAN_SIZE];
    bool part = !isnan(get_number(summary, "draws_stored"));
    if (get_object(summary, "design"))
        print_design(get_object(summary, "design"), file);
    if (json_array_size(rows))
        print_table(rows, file);
    fprintf(file, "%s%s%s%s draws from %s chains%s%s\n", term_style(file, STYLE_DIM),
            human_whole(draws, get_number(summary, "draws")), part ? " of " : "",
            part ? human_whole(stored, get_number(summary, "draws_stored")) : "",
            human_whole(chains, get_number(summary, "chains")),
            list_has_more(summary) ? "; more parameters with --limit N" : "", term_plain(file));
    print_cost(summary, file);
    if ((reference = get_object(summary, "reference")))
        accuracy_print(reference, file);
}
