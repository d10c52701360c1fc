/* Studies as text: their jobs, and what each kind has found. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"
#include "clients/cli/study.h"

#include <math.h>
#include <string.h>

static const struct column job_columns[] = {
    {.title = "JOB"},
    {.title = "SETTING", .shrinks = true},
    {.title = "STATE"},
    {.title = "DONE", .right = true},
    {.title = "R-HAT", .right = true, .drop = 1},
    {.title = "ESS BULK", .right = true, .drop = 2},
    {.title = "REASON", .shrinks = true, .drop = 3},
};

static void print_jobs(const json_t *jobs)
{
    size_t i;
    json_t *job;
    struct table *table = table_new(job_columns, sizeof job_columns / sizeof *job_columns);
    json_array_foreach (jobs, i, job) {
        const json_t *summary = get_object(job, "summary");
        double rhat = get_number(summary, "max_rhat"), ess = get_number(summary, "min_ess_bulk");
        struct text setting = {0};
        char buffer[HUMAN_SIZE];
        get_brief(&setting, json_object_get(job, "setting"));
        table_cell(table, get_string(job, "id"), STYLE_PLAIN);
        table_cell(table, text_str(&setting), STYLE_PLAIN);
        table_cell(table, get_string(job, "state"), job_style(job));
        table_cell(table,
                   human_percent(buffer, get_number(get_object(job, "progress"), "fraction")),
                   STYLE_PLAIN);
        table_cell(table, human_fixed(buffer, rhat, 3), job_rhat_style(rhat));
        table_cell(table, human_whole(buffer, ess), job_ess_style(ess));
        table_cell(table, get_string(job, "reason"), STYLE_DIM);
        text_release(&setting);
    }
    table_print(table, stdout);
    table_free(table);
}

static const struct column ladder_columns[] = {
    {.title = "PARAMETER", .shrinks = true},
    {.title = "MEAN", .right = true},
    {.title = "SD", .right = true},
    {.title = "MEAN AT 0", .right = true},
    {.title = "SE", .right = true, .drop = 3},
    {.title = "SD AT 0", .right = true},
    {.title = "SE", .right = true, .drop = 3},
    {.title = "MEAN BIAS", .right = true},
    {.title = "SE", .right = true, .drop = 2},
    {.title = "Z", .right = true, .drop = 1},
    {.title = "SD BIAS", .right = true},
    {.title = "SE", .right = true, .drop = 2},
    {.title = "Z", .right = true, .drop = 1},
};

static void cell(struct table *table, double value, int decimals, enum style style)
{
    char buffer[HUMAN_SIZE];
    table_cell(table, human_fixed(buffer, value, decimals), style);
}

/* Prints the value and its error, with the precision of the error. */
static void cell_pair(struct table *table, const json_t *numbers, const char *key,
                      const char *error_key)
{
    double error = get_number(numbers, error_key);
    int decimals = human_decimals(error) - 1;
    cell(table, get_number(numbers, key), decimals, STYLE_PLAIN);
    cell(table, error, decimals, STYLE_DIM);
}

static void cell_bias(struct table *table, const json_t *numbers, bool biased)
{
    double z = get_number(numbers, "z");
    cell_pair(table, numbers, "difference", "difference_error");
    cell(table, z, 1, biased && fabs(z) > 2 ? STYLE_BAD : STYLE_PLAIN);
}

static const json_t *at_factor_1(const json_t *row)
{
    size_t i;
    json_t *side;
    json_array_foreach (get_array(row, "factors"), i, side) {
        if (get_number(side, "factor") == 1.0)
            return side;
    }
    return NULL;
}

static void print_rows(const json_t *rows)
{
    size_t i;
    json_t *row;
    struct table *table = table_new(ladder_columns, sizeof ladder_columns / sizeof *ladder_columns);
    json_array_foreach (rows, i, row) {
        const json_t *mean = get_object(row, "mean"), *sd = get_object(row, "sd");
        const json_t *here = at_factor_1(row);
        int decimals = human_decimals(get_number(here, "sd"));
        bool biased = json_is_true(json_object_get(row, "biased"));
        table_cell(table, get_string(row, "name"), STYLE_PLAIN);
        cell(table, get_number(here, "mean"), decimals, STYLE_PLAIN);
        cell(table, get_number(here, "sd"), decimals, STYLE_PLAIN);
        cell_pair(table, mean, "extrapolated", "error");
        cell_pair(table, sd, "extrapolated", "error");
        cell_bias(table, mean, biased);
        cell_bias(table, sd, biased);
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_ladder(const json_t *result)
{
    size_t i;
    json_t *caution;
    render_field("result", get_string(result, "sentence"), stdout);
    json_array_foreach (get_array(result, "cautions"), i, caution)
        render_field("caution", json_string_value(caution), stdout);
    putchar('\n');
    print_rows(get_array(result, "parameters"));
    puts("MEAN BIAS: relative to step size 0, in posterior sds; SD BIAS: 0.1 means 10 % too large");
}

/* ---- sweep ---- */

static const struct column sweep_columns[] = {
    {.title = "SETTING", .shrinks = true},        {.title = "DONE", .right = true},
    {.title = "R-HAT", .right = true, .drop = 3}, {.title = "ESS MEDIAN", .right = true},
    {.title = "SE", .right = true, .drop = 4},    {.title = "ESS MIN", .right = true, .drop = 1},
    {.title = "ESS/S", .right = true, .drop = 2}, {.title = "MEAN BIAS", .right = true},
    {.title = "SE", .right = true, .drop = 4},    {.title = "VAR RATIO", .right = true},
    {.title = "SE", .right = true, .drop = 4},
};

/* "sampler/step_size=0.1 batch_size=10" */
static void setting_text(struct text *out, const json_t *setting)
{
    const char *pointer;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)setting, pointer, value) {
        const char *last = strrchr(pointer, '/');
        text_addf(out, "%s%s=", out->size ? " " : "", last ? last + 1 : pointer);
        get_brief(out, value);
    }
}

static double measure(const json_t *row, const char *name, const char *part)
{
    return get_number(get_object(get_object(row, "measures"), name), part);
}

static void cell_measure(struct table *table, const json_t *row, const char *name, bool error)
{
    char buffer[HUMAN_SIZE];
    double value = measure(row, name, "value"), se = measure(row, name, "error");
    int decimals = isfinite(se) ? human_decimals(se) - 1 : 3;
    decimals = decimals < 0 ? 0 : decimals;
    table_cell(table,
               fabs(value) >= 10000 ? human_count(buffer, value)
                                    : human_fixed(buffer, value, value >= 100 ? 0 : decimals),
               STYLE_PLAIN);
    if (error)
        table_cell(table, human_fixed(buffer, se, value >= 100 ? 0 : decimals), STYLE_DIM);
}

static void sweep_row(struct table *table, const json_t *row, bool best)
{
    struct text setting = {0}, done = {0};
    char buffer[HUMAN_SIZE];
    double failed = get_number(row, "failed");
    double rhat = measure(row, "max_rhat", "value");
    setting_text(&setting, get_object(row, "setting"));
    text_addf(&done, "%.0f", get_number(row, "succeeded"));
    if (failed > 0)
        text_addf(&done, ", %.0f failed", failed);
    table_cell(table, text_str(&setting), best ? STYLE_GOOD : STYLE_PLAIN);
    table_cell(table, text_str(&done), failed > 0 ? STYLE_BAD : STYLE_PLAIN);
    table_cell(table, human_fixed(buffer, rhat, 3), job_rhat_style(rhat));
    cell_measure(table, row, "ess_median", true);
    cell_measure(table, row, "ess_min", false);
    cell_measure(table, row, "ess_min_per_second", false);
    cell_measure(table, row, "bias_mean_mean", true);
    cell_measure(table, row, "variance_ratio_median", true);
    text_release(&setting);
    text_release(&done);
}

static void print_sentences(const json_t *result)
{
    size_t i;
    json_t *caution;
    render_field("result", get_string(result, "sentence"), stdout);
    json_array_foreach (get_array(result, "cautions"), i, caution)
        render_field("caution", json_string_value(caution), stdout);
    putchar('\n');
}

static void print_sweep(const json_t *result)
{
    size_t i;
    json_t *row;
    json_t *rows = get_array(result, "rows");
    double best = get_number(get_object(result, "best"), "index");
    double settings = get_number(result, "settings");
    struct table *table = table_new(sweep_columns, sizeof sweep_columns / sizeof *sweep_columns);
    print_sentences(result);
    json_array_foreach (rows, i, row)
        sweep_row(table, row, get_number(row, "index") == best);
    table_print(table, stdout);
    table_free(table);
    if (settings > (double)json_array_size(rows))
        report_note("%.0f settings more: --limit N, or `barker study table`",
                    settings - (double)json_array_size(rows));
}

/* ---- mamba ---- */

static const struct column mamba_columns[] = {
    {.title = "STEP SIZE", .right = true},
    {.title = "STATE"},
    {.title = "ROUNDS", .right = true},
    {.title = "ITERATIONS", .right = true, .drop = 2},
    {.title = "FSSD", .right = true},
    {.title = "SE", .right = true, .drop = 3},
    {.title = "VARIANCE CHECK", .right = true},
    {.title = "SE", .right = true, .drop = 3},
    {.title = "REASON", .shrinks = true, .drop = 1},
};

static void print_mamba(const json_t *result)
{
    size_t i;
    json_t *arm;
    char buffer[HUMAN_SIZE];
    struct table *table = table_new(mamba_columns, sizeof mamba_columns / sizeof *mamba_columns);
    print_sentences(result);
    json_array_foreach (get_array(result, "arms"), i, arm) {
        json_t *scores = get_array(arm, "scores");
        size_t n = json_array_size(scores);
        const json_t *last = n ? json_array_get(scores, n - 1) : NULL;
        bool chosen = strcmp(get_string(arm, "state"), "chosen") == 0;
        table_cell(table, human_real(buffer, get_number(arm, "step_size")),
                   chosen ? STYLE_GOOD : STYLE_PLAIN);
        table_cell(table, get_string(arm, "state"), chosen ? STYLE_GOOD : STYLE_PLAIN);
        table_cell(table, human_whole(buffer, (double)n), STYLE_PLAIN);
        table_cell(table, human_whole(buffer, get_number(arm, "iterations")), STYLE_PLAIN);
        cell_pair(table, last, "fssd", "fssd_error");
        cell_pair(table, last, "variance_check", "variance_check_error");
        table_cell(table, get_string(arm, "reason"), STYLE_DIM);
    }
    table_print(table, stdout);
    table_free(table);
    puts("VARIANCE CHECK: 1 under the posterior, larger where variances are too large");
}

/* ---- a study ---- */

static void print_progress(const json_t *study)
{
    struct text line = {0};
    char buffer[HUMAN_SIZE];
    const json_t *progress = get_object(study, "progress");
    double left = get_number(progress, "eta_seconds");
    text_addf(&line, "%s", human_percent(buffer, get_number(progress, "fraction")));
    text_addf(&line, ", %.0f of %.0f jobs", get_number(progress, "ended"),
              get_number(progress, "jobs"));
    if (get_number(progress, "failed") > 0)
        text_addf(&line, ", %.0f without success", get_number(progress, "failed"));
    if (left > 0)
        text_addf(&line, ", %s left", human_seconds(buffer, left));
    render_field("progress", text_str(&line), stdout);
    text_release(&line);
}

void study_print(const json_t *study)
{
    struct text state = {0};
    const json_t *result = get_object(study, "result");
    const char *name = get_string(study, "name"), *id = get_string(study, "id");
    printf("%s%s%s\n", term_style(stdout, STYLE_HEAD), *name ? name : id, term_plain(stdout));
    render_field("id", id, stdout);
    render_field("kind", get_string(study, "kind"), stdout);
    render_field("owner", get_string(study, "owner"), stdout);
    term_add(&state, stdout, job_style(study), get_string(study, "state"));
    text_addf(&state, ": %s", get_string(study, "reason"));
    render_field("state", text_str(&state), stdout);
    text_release(&state);
    print_progress(study);
    if (json_array_size(get_array(study, "jobs"))) {
        putchar('\n');
        print_jobs(get_array(study, "jobs"));
    }
    putchar('\n');
    if (!result)
        render_field("result", get_string(study, "result_reason"), stdout);
    else if (strcmp(get_string(study, "kind"), "ladder") == 0)
        print_ladder(result);
    else if (strcmp(get_string(study, "kind"), "sweep") == 0 && get_array(result, "rows"))
        print_sweep(result);
    else if (strcmp(get_string(study, "kind"), "mamba") == 0 && get_array(result, "arms"))
        print_mamba(result);
    else
        render_object(result, NULL, stdout);
}
