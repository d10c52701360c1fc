/* barker diagnostics: the verdict on a job and its evidence. */
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"
#include "clients/cli/render.h"

#include <math.h>
#include <string.h>

enum { HISTORY_ROWS = 12 };

static const struct option diagnostics_options[] = {
    {"params", 0, "A,B", "autocorrelation and history of these saved parameters"},
    {"order", 0, "worst|declared",
     "worst (the default): largest step size / noise tolerance first"},
    {"limit", 'n', "N", "at most N parameters (20)"},
    {NULL, 0, NULL, NULL},
};

static void head(const char *title)
{
    printf("\n%s%s%s\n", term_style(stdout, STYLE_HEAD), title, term_plain(stdout));
}

static enum style level_style(const char *level)
{
    if (strcmp(level, "strong") == 0 || strcmp(level, "poor") == 0)
        return STYLE_BAD;
    return strcmp(level, "mild") == 0 || strcmp(level, "fair") == 0 ? STYLE_WARN : STYLE_PLAIN;
}

/* ---- verdict ---- */

static void print_evidence(const json_t *bias)
{
    static const struct column columns[] = {{.title = "CHECK"}, {.title = "BIAS"}, {.title = ""}};
    const json_t *list = get_array(bias, "evidence");
    size_t i;
    json_t *item;
    if (!json_array_size(list))
        return;
    putchar('\n');
    struct table *table = table_new(columns, 3);
    json_array_foreach (list, i, item) {
        const char *level = get_string(item, "level");
        table_cell(table, get_string(item, "check"), STYLE_PLAIN);
        table_cell(table, level, level_style(level));
        table_cell(table, get_string(item, "text"), STYLE_PLAIN);
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_target(const json_t *verdict)
{
    const json_t *target = get_object(verdict, "target");
    struct text line = {0};
    text_addf(&line, "%s%s", json_is_true(json_object_get(target, "met")) ? "met, " : "",
              get_string(target, "text"));
    render_field("target", text_str(&line), stdout);
    text_release(&line);
}

static void print_efficiency(const json_t *efficiency)
{
    struct text line = {0};
    char ess[HUMAN_SIZE], time[HUMAN_SIZE], second[HUMAN_SIZE], gradient[HUMAN_SIZE];
    const char *reason = get_string(efficiency, "reason");
    if (*reason)
        text_add(&line, reason);
    else
        text_addf(&line, "smallest bulk ESS %s in %s CPU time: %s per second, %s per gradient",
                  human_whole(ess, get_number(efficiency, "min_ess_bulk")),
                  human_seconds(time, get_number(efficiency, "cpu_seconds")),
                  human_real(second, get_number(efficiency, "ess_per_second")),
                  human_real(gradient, get_number(efficiency, "ess_per_gradient")));
    render_field("efficiency", text_str(&line), stdout);
    text_release(&line);
}

/* Of samplers that build trees. */
static void print_trees(const json_t *chains)
{
    struct text line = {0};
    double divergences = 0, hits = 0;
    char diverged[HUMAN_SIZE], ended[HUMAN_SIZE];
    size_t i;
    json_t *chain;
    json_array_foreach (chains, i, chain) {
        divergences += get_number(chain, "divergences");
        hits += get_number(chain, "tree_limit_hits");
    }
    if (i == 0 || !isfinite(divergences))
        return;
    text_addf(&line, "%s transitions diverged, %s ended at the limit of their depth",
              human_whole(diverged, divergences), human_whole(ended, hits));
    render_field("trees", text_str(&line), stdout);
    text_release(&line);
}

/* ---- checks ---- */

static void print_stein(const json_t *checks, const char *key, const char *title)
{
    const json_t *part = get_object(checks, key);
    struct text line = {0};
    char value[HUMAN_SIZE], error[HUMAN_SIZE], p[HUMAN_SIZE], draws[HUMAN_SIZE];
    if (!part)
        return;
    text_addf(&line, "%s", human_real(value, get_number(part, "value")));
    if (isfinite(get_number(part, "squared"))) /* if it is negative, the value is 0 */
        text_addf(&line, " (squared %s %s %s)", human_real(value, get_number(part, "squared")),
                  human_plus_minus(), human_real(error, get_number(part, "error")));
    text_addf(&line, " at %s draws", human_whole(draws, get_number(part, "draws")));
    if (isfinite(get_number(part, "p_value")))
        text_addf(&line, ", p %s", human_real(p, get_number(part, "p_value")));
    render_field(title, text_str(&line), stdout);
    text_release(&line);
}

static void print_energy(const json_t *checks)
{
    const json_t *part = get_object(checks, "energy");
    struct text line = {0};
    char mean[HUMAN_SIZE], error[HUMAN_SIZE], ratio[HUMAN_SIZE], ratio_error[HUMAN_SIZE];
    if (!part)
        return;
    text_addf(&line, "mean log density %s %s %s",
              human_real(mean, get_number(part, "mean_log_density")), human_plus_minus(),
              human_real(error, get_number(part, "mcse")));
    if (isfinite(get_number(part, "ratio")))
        text_addf(&line, ", energy ratio %s %s %s (normal posterior: 1)",
                  human_real(ratio, get_number(part, "ratio")), human_plus_minus(),
                  human_real(ratio_error, get_number(part, "ratio_error")));
    render_field("energy", text_str(&line), stdout);
    text_release(&line);
}

/* "means within 0.008 sd (theta[3])", and how many are not certified. */
static void add_certified(struct text *line, const json_t *part, const char *what, double unit,
                          const char *after)
{
    char bound[HUMAN_SIZE], open[HUMAN_SIZE];
    double certified = get_number(part, "certified");
    if (isfinite(certified))
        text_addf(line, "%s within %s %s (%s)", what, human_real(bound, unit * certified), after,
                  get_string(part, "parameter"));
    else
        text_addf(line, "%s not", what);
    if (get_number(part, "not_resolved") > 0.0 && isfinite(certified))
        text_addf(line, ", %s not", human_whole(open, get_number(part, "not_resolved")));
}

static void print_certificate(const json_t *checks)
{
    const json_t *part = get_object(checks, "certificate"), *mean = get_object(part, "mean");
    struct text line = {0};
    char draws[HUMAN_SIZE];
    if (mean) {
        add_certified(&line, mean, "means", 1.0, "sd");
        text_add(&line, "; ");
        add_certified(&line, get_object(part, "sd"), "sds", 100.0, "%");
        text_addf(&line, "; %s gradients over all data%s",
                  human_whole(draws, get_number(part, "draws")),
                  strcmp(get_string(part, "form"), "diagonal") == 0
                      ? ", by variances alone, which is weaker"
                      : "");
        render_field("certified", text_str(&line), stdout);
    } else if (part) {
        text_addf(&line, "not: %s", get_string(part, "reason"));
        render_field("certified", text_str(&line), stdout);
    }
    text_release(&line);
}

static void print_checks(const json_t *answer)
{
    const json_t *checks = get_object(answer, "checks");
    print_certificate(checks);
    print_stein(checks, "ksd", "Stein");
    print_stein(checks, "fssd", "FSSD");
    print_energy(checks);
    render_field("checks", get_string(checks, "reason"), stdout);
    render_field("checks", get_string(answer, "checks_reason"), stdout);
}

/* ---- tables ---- */

static const struct {
    const char *key, *title;
    int drop;
} numbers[] = {
    {"step_size", "STEP", 0},
    {"tolerance", "TOLERANCE", 0},
    {"step_ratio", "RATIO", 0},
    {"beyond", "BEYOND", 0},
    {"variance_ratio", "VAR X", 0},
    {"batch_size_needed", "BATCH", 1},
    {"tau", "TAU", 2},
    {"mean", "MEAN", 3},
    {"variance", "VARIANCE", 4},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers, MOMENTS = 2 };

/* Whether the chains move in whitened coordinates. Step sizes and noise then refer to these, and
 * the mean and variance of a parameter do not belong in the same row. */
static bool has_coordinates(const json_t *rows)
{
    const json_t *first = json_array_get(rows, 0);
    const char *coordinate = get_string(first, "coordinate");
    return *coordinate && strcmp(coordinate, get_string(first, "name")) != 0;
}

static void print_parameters(const json_t *answer)
{
    const json_t *rows = get_array(answer, "parameters");
    bool other = has_coordinates(rows);
    size_t count = other ? NUMBERS - MOMENTS : NUMBERS;
    struct column columns[NUMBERS + 1] = {
        {.title = other ? "COORDINATE" : "PARAMETER", .shrinks = true}};
    char buffer[HUMAN_SIZE];
    size_t i;
    json_t *row;
    for (size_t k = 0; k < count; k++)
        columns[k + 1] =
            (struct column){.title = numbers[k].title, .right = true, .drop = numbers[k].drop};
    struct table *table = table_new(columns, count + 1);
    json_array_foreach (rows, i, row) {
        table_cell(table, get_string(row, other ? "coordinate" : "name"), STYLE_PLAIN);
        for (size_t k = 0; k < count; k++) {
            double value = get_number(row, numbers[k].key);
            bool beyond = strcmp(numbers[k].key, "step_ratio") == 0 && value > 1.0;
            bool share = strcmp(numbers[k].key, "beyond") == 0;
            table_cell(table, share ? human_percent(buffer, value) : human_real(buffer, value),
                       beyond ? STYLE_WARN : STYLE_PLAIN);
        }
    }
    table_print(table, stdout);
    table_free(table);
    if (list_has_more(answer))
        printf("%smore parameters with --limit N%s\n", term_style(stdout, STYLE_DIM),
               term_plain(stdout));
}

/* The latest entry and some earlier ones, evenly spaced. */
static void print_history(const json_t *history)
{
    static const struct column columns[] = {
        {.title = "DRAWS", .right = true},    {.title = "TIME", .right = true},
        {.title = "R-HAT", .right = true},    {.title = "ESS BULK", .right = true},
        {.title = "ESS TAIL", .right = true}, {.title = "WORST"}};
    size_t count = json_array_size(get_array(history, "draws"));
    size_t step = (count + HISTORY_ROWS - 1) / HISTORY_ROWS;
    char buffer[HUMAN_SIZE];
    if (count == 0)
        return;
    head("History");
    struct table *table = table_new(columns, 6);
    for (size_t i = (count - 1) % step; i < count; i += step) {
        double rhat = get_number_in(get_array(history, "max_rhat"), i);
        double bulk = get_number_in(get_array(history, "min_ess_bulk"), i);
        double tail = get_number_in(get_array(history, "min_ess_tail"), i);
        const char *worst = json_string_value(json_array_get(get_array(history, "worst"), i));
        table_cell(table, human_whole(buffer, get_number_in(get_array(history, "draws"), i)),
                   STYLE_PLAIN);
        table_cell(table, human_seconds(buffer, get_number_in(get_array(history, "seconds"), i)),
                   STYLE_PLAIN);
        table_cell(table, human_fixed(buffer, rhat, 3), job_rhat_style(rhat));
        table_cell(table, human_whole(buffer, bulk), job_ess_style(bulk));
        table_cell(table, human_whole(buffer, tail), job_ess_style(tail));
        table_cell(table, worst, STYLE_PLAIN);
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_details(const json_t *details)
{
    static const size_t lags[] = {1, 2, 5, 10, 20, 50, 100, 200};
    enum { LAGS = sizeof lags / sizeof *lags };
    struct column columns[LAGS + 2] = {{.title = "PARAMETER", .shrinks = true},
                                       {.title = "CHAIN", .right = true}};
    char titles[LAGS][16], buffer[HUMAN_SIZE];
    size_t i, c;
    json_t *one, *chain;
    if (!json_array_size(details))
        return;
    head("Autocorrelation, by lag in stored draws");
    for (size_t k = 0; k < LAGS; k++) {
        snprintf(titles[k], sizeof titles[k], "%zu", lags[k]);
        columns[k + 2] = (struct column){.title = titles[k], .right = true};
    }
    struct table *table = table_new(columns, LAGS + 2);
    json_array_foreach (details, i, one) {
        json_array_foreach (get_array(one, "autocorrelation"), c, chain) {
            table_cell(table, get_string(one, "name"), STYLE_PLAIN);
            table_cell(table, human_whole(buffer, get_number(chain, "chain")), STYLE_PLAIN);
            for (size_t k = 0; k < LAGS; k++)
                table_cell(table,
                           human_fixed(buffer, get_number_in(get_array(chain, "lags"), lags[k]), 3),
                           STYLE_PLAIN);
        }
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_answer(const json_t *answer)
{
    const json_t *verdict = get_object(answer, "verdict");
    render_field("verdict", get_string(verdict, "sentence"), stdout);
    print_target(verdict);
    render_field("noise", get_string(get_object(answer, "noise"), "text"), stdout);
    print_efficiency(get_object(answer, "efficiency"));
    print_trees(get_array(answer, "chains"));
    print_checks(answer);
    print_evidence(get_object(verdict, "bias"));
    if (json_array_size(get_array(answer, "parameters"))) {
        head("Step sizes and gradient noise");
        print_parameters(answer);
    }
    print_history(get_object(answer, "history"));
    print_details(get_array(answer, "details"));
}

/* With --json only the given options are sent, and the reply is printed unchanged. */
static int diagnostics(struct cli *cli)
{
    struct response response = {0};
    struct route route;
    const char *order = cli_option(cli, "order"), *limit = cli_option(cli, "limit");
    int code = jobs_route(cli, "/diagnostics", &route);
    if (code)
        return code;
    route_query(&route, "params", cli_option(cli, "params"));
    route_query(&route, "order", order ? order : cli->json ? NULL : "worst");
    route_query(&route, "limit", limit ? limit : cli->json ? NULL : "20");
    code = cli_get(cli, &route, &response);
    if (!code && cli->json)
        cli_print_json(&response);
    else if (!code)
        print_answer(response.json);
    response_release(&response);
    return code;
}

const struct command cmd_diagnostics = {
    .name = "diagnostics",
    .args = "ID",
    .help = "show the verdict on a job and its evidence",
    .more =
        "Mixing and bias are separate: R-hat and effective sample sizes measure only mixing. "
        "TOLERANCE is the largest step size that the gradient noise allows, RATIO the step size / "
        "tolerance, BEYOND the share of proposals beyond the tolerance, VAR X the factor by which "
        "the noise inflates the conditional variance of a coordinate, BATCH the smallest batch "
        "size that allows this step size. With a dense preconditioner, step sizes and noise refer "
        "to whitened coordinates, whose posterior sd is about 1.\nWorks while the job runs; the "
        "Stein and energy checks are computed when it ends.",
    .options = diagnostics_options,
    .run = diagnostics,
};
