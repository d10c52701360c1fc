/* barker compare: jobs side by side. */
#include "clients/cli/accuracy.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"

#include <math.h>
#include <string.h>

enum { JOBS = 8 }; /* columns; also the limit of the daemon */

/* The letter of a job in the column titles: A, B, ... */
static char letter(size_t job)
{
    return (char)('A' + job);
}

static void print_legend(const json_t *jobs)
{
    size_t i;
    json_t *job;
    json_array_foreach (jobs, i, job) {
        if (i < JOBS)
            printf("%s%c%s  %s  %s%s%s\n", term_style(stdout, STYLE_HEAD), letter(i),
                   term_plain(stdout), get_string(job, "name"), term_style(stdout, STYLE_DIM),
                   get_string(job, "id"), term_plain(stdout));
    }
    putchar('\n');
}

static void add_row(struct table *table, const json_t *jobs, const char *key)
{
    struct text cell = {0};
    render_title(&cell, key);
    table_cell(table, text_str(&cell), STYLE_DIM);
    for (size_t i = 0; i < JOBS && i < json_array_size(jobs); i++) {
        text_clear(&cell);
        render_value(&cell, key, json_object_get(json_array_get(jobs, i), key));
        table_cell(table, text_str(&cell), STYLE_PLAIN);
    }
    text_release(&cell);
}

/* The maximum over all parameters, for each job. */
static void add_reference_rows(struct table *table, const json_t *jobs)
{
    char buffer[HUMAN_SIZE];
    const json_t *first = get_object(json_array_get(jobs, 0), "reference");
    struct text title = {0};
    for (size_t n = 0; first && accuracy_title(n); n++) {
        if (!accuracy_spread(first, n))
            continue;
        text_clear(&title);
        text_addf(&title, "%s, max", accuracy_title(n));
        table_cell(table, text_str(&title), STYLE_DIM);
        for (size_t i = 0; i < JOBS && i < json_array_size(jobs); i++) {
            const json_t *reference = get_object(json_array_get(jobs, i), "reference");
            double max = get_number(accuracy_spread(reference, n), "max");
            table_cell(table, human_real(buffer, max), STYLE_PLAIN);
        }
    }
    text_release(&title);
}

/* A number inside an object of each job. */
static void add_inside_row(struct table *table, const json_t *jobs, const char *inside,
                           const char *key, const char *title)
{
    struct text cell = {0};
    if (!get_object(json_array_get(jobs, 0), inside))
        return;
    table_cell(table, title, STYLE_DIM);
    for (size_t i = 0; i < JOBS && i < json_array_size(jobs); i++) {
        const json_t *object = get_object(json_array_get(jobs, i), inside);
        text_clear(&cell);
        render_value(&cell, key, json_object_get(object, key));
        table_cell(table, text_str(&cell), STYLE_PLAIN);
    }
    text_release(&cell);
}

static bool has_rows_of_its_own(const char *key)
{
    static const char *const keys[] = {"id", "name", "reference", "cost", "energy"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(key, keys[i]) == 0)
            return true;
    }
    return false;
}

/* Notes of the daemon on a job's numbers. */
static void print_notes(const json_t *jobs)
{
    size_t i, k;
    json_t *job, *note;
    json_array_foreach (jobs, i, job) {
        const json_t *cost = get_object(job, "cost");
        if (i < JOBS && *get_string(cost, "reason"))
            printf("%c: %s\n", letter(i), get_string(cost, "reason"));
        json_array_foreach (get_array(get_object(job, "reference"), "notes"), k, note) {
            if (i < JOBS && json_is_string(note))
                printf("%s%c: %s%s\n", term_style(stdout, STYLE_DIM), letter(i),
                       json_string_value(note), term_plain(stdout));
        }
    }
}

/* One line per number, one column per job. */
static void print_jobs(const json_t *jobs)
{
    struct column columns[JOBS + 1] = {{.title = ""}};
    char titles[JOBS][2] = {{0}};
    size_t count = json_array_size(jobs) < JOBS ? json_array_size(jobs) : JOBS;
    const char *key;
    json_t *value;
    for (size_t i = 0; i < count; i++) {
        titles[i][0] = letter(i);
        columns[i + 1] = (struct column){.title = titles[i], .right = true, .shrinks = true};
    }
    struct table *table = table_new(columns, count + 1);
    json_object_foreach (json_array_get(jobs, 0), key, value) {
        if (!has_rows_of_its_own(key))
            add_row(table, jobs, key);
    }
    add_inside_row(table, jobs, "cost", "seconds", "CPU time to target error");
    add_inside_row(table, jobs, "cost", "gradients", "gradients to target error");
    add_inside_row(table, jobs, "energy", "z", "energy, z score");
    add_inside_row(table, jobs, "energy", "variance_ratio", "energy, variance ratio");
    add_reference_rows(table, jobs);
    table_print(table, stdout);
    table_free(table);
    print_notes(jobs);
}

static const struct {
    const char *key, *title;
    int drop;
    bool bias; /* in the row's `reference` object */
} numbers[] = {
    {"mean", "MEAN", 0, false},         {"sd", "SD", 0, false},
    {"bias_mean", "BIAS", 1, true},     {"bias_variance_ratio", "VAR BIAS", 4, true},
    {"wasserstein", "W1", 5, true},     {"rhat", "R-HAT", 3, false},
    {"ess_bulk", "ESS BULK", 2, false},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void add_number(struct table *table, const json_t *row, size_t n)
{
    const json_t *from = numbers[n].bias ? get_object(row, "reference") : row;
    double value = get_number(from, numbers[n].key);
    char buffer[HUMAN_SIZE];
    if (strcmp(numbers[n].key, "ess_bulk") == 0)
        table_cell(table, human_whole(buffer, value), job_ess_style(value));
    else if (strcmp(numbers[n].key, "rhat") == 0)
        table_cell(table, human_fixed(buffer, value, 3), job_rhat_style(value));
    else if (numbers[n].bias)
        table_cell(table, human_fixed(buffer, value, 3), STYLE_PLAIN);
    else
        table_cell(table, human_fixed(buffer, value, human_decimals(get_number(row, "sd"))),
                   STYLE_PLAIN);
}

static bool is_shown(const json_t *parameters, size_t n)
{
    size_t k;
    json_t *parameter;
    if (!numbers[n].bias)
        return true;
    json_array_foreach (parameters, k, parameter) {
        const json_t *row = json_array_get(get_array(parameter, "jobs"), 0);
        if (json_object_get(get_object(row, "reference"), numbers[n].key))
            return true;
    }
    return false;
}

static struct table *parameter_table(const json_t *parameters, size_t jobs)
{
    struct column columns[TABLE_COLUMNS] = {{.title = "PARAMETER", .shrinks = true}};
    struct text titles[TABLE_COLUMNS] = {{0}};
    size_t count = 1;
    for (size_t n = 0; n < NUMBERS; n++) {
        for (size_t i = 0; is_shown(parameters, n) && i < jobs && count < TABLE_COLUMNS; i++) {
            text_addf(&titles[count], "%s %c", numbers[n].title, letter(i));
            columns[count] = (struct column){
                .title = text_str(&titles[count]), .right = true, .drop = numbers[n].drop};
            count++;
        }
    }
    struct table *table = table_new(columns, count);
    for (size_t i = 0; i < count; i++)
        text_release(&titles[i]);
    return table;
}

static void print_parameters(const json_t *parameters, size_t jobs)
{
    size_t k;
    json_t *parameter;
    jobs = jobs < JOBS ? jobs : JOBS;
    if (!json_array_size(parameters))
        return;
    struct table *table = parameter_table(parameters, jobs);
    json_array_foreach (parameters, k, parameter) {
        const json_t *rows = get_array(parameter, "jobs");
        table_cell(table, get_string(parameter, "name"), STYLE_PLAIN);
        for (size_t n = 0; n < NUMBERS; n++) {
            for (size_t i = 0; is_shown(parameters, n) && i < jobs; i++)
                add_number(table, json_array_get(rows, i), n);
        }
    }
    putchar('\n');
    table_print(table, stdout);
    table_free(table);
}

static void print_comparison(const json_t *comparison)
{
    const json_t *jobs = get_array(comparison, "jobs");
    const char *differs = get_string(comparison, "differs");
    if (*differs)
        printf("%s%s%s\n\n", term_style(stdout, STYLE_WARN), differs, term_plain(stdout));
    print_legend(jobs);
    print_jobs(jobs);
    print_parameters(get_array(comparison, "parameters"), json_array_size(jobs));
    if (json_is_true(json_object_get(comparison, "more")))
        printf("%smore parameters with --limit N%s\n", term_style(stdout, STYLE_DIM),
               term_plain(stdout));
}

static const struct option compare_options[] = {
    {"reference", 0, "NAME", "measure bias relative to this reference posterior"},
    {"target-error", 0, "E", "cost of estimating the means to E posterior sds"},
    {"limit", 'n', "N", "at most N parameters (100)"},
    {NULL, 0, NULL, NULL},
};

static int compare_route(struct cli *cli, struct route *route)
{
    struct text jobs = {0};
    char **ids = NULL;
    int code = jobs_resolve_all(cli, &ids);
    if (code)
        return code;
    for (size_t i = 0; i < cli->arg_count; i++)
        text_addf(&jobs, "%s%s", i ? "," : "", ids[i]);
    route_start(route, "/v1/compare");
    route_query(route, "jobs", text_str(&jobs));
    route_query(route, "reference", cli_option(cli, "reference"));
    route_query(route, "target_error", cli_option(cli, "target-error"));
    route_query(route, "limit", cli_option(cli, "limit"));
    text_release(&jobs);
    jobs_free_ids(ids, cli->arg_count);
    return EXIT_OK;
}

static int compare(struct cli *cli)
{
    struct response response = {0};
    struct route route;
    int code = compare_route(cli, &route);
    if (!code)
        code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        print_comparison(response.json);
    response_release(&response);
    return code;
}

const struct command cmd_compare = {
    .name = "compare",
    .args = "A B [MORE...]",
    .help = "compare the results of several jobs",
    .more =
        "With --reference, also the bias of each job in sds of the reference (BIAS and VAR "
        "BIAS as in "
        "`barker help summary`; energy: the mean log density at the draws relative to that of "
        "the reference, if both are known). With --target-error, the total cost for each job; "
        "empty if the bias alone exceeds the target.\n\n"
        "Jobs of different posteriors (another model, prior, preparation or content of the data) "
        "are compared with a warning in the first line, and not against one reference.",
    .options = compare_options,
    .run = compare,
};
