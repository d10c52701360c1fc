/* Distance of a job from a reference posterior, as text. */
#include "clients/cli/accuracy.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/table.h"

#include <math.h>

static const struct {
    const char *key, *inside, *title; /* inside: a member of the object `key`, or NULL */
} lines[] = {
    {"bias_mean", NULL, "bias of the mean / sd"},
    {"bias_variance", NULL, "bias of the variance / sd"},
    {"bias_variance_ratio", NULL, "|variance ratio - 1|"},
    {"quantile_differences", "q5", "5% quantile / sd"},
    {"quantile_differences", "q50", "50% quantile / sd"},
    {"quantile_differences", "q95", "95% quantile / sd"},
    {"wasserstein", NULL, "Wasserstein-1 / sd"},
    {"wasserstein_noise", NULL, "  expected from noise"},
};

const char *accuracy_title(size_t n)
{
    return n < sizeof lines / sizeof *lines ? lines[n].title : NULL;
}

const json_t *accuracy_spread(const json_t *reference, size_t n)
{
    const json_t *spread = get_object(reference, lines[n].key);
    return lines[n].inside ? get_object(spread, lines[n].inside) : spread;
}

void accuracy_print(const json_t *reference, FILE *file)
{
    static const struct column columns[] = {
        {.title = ""},
        {.title = "MEAN", .right = true},
        {.title = "MEDIAN", .right = true},
        {.title = "MAX", .right = true},
        {.title = "WORST", .shrinks = true, .drop = 1},
    };
    static const char *const keys[] = {"mean", "median", "max"};
    char buffer[HUMAN_SIZE];
    size_t i;
    json_t *note;
    struct table *table = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t n = 0; accuracy_title(n); n++) {
        const json_t *spread = accuracy_spread(reference, n);
        if (!spread)
            continue;
        table_cell(table, accuracy_title(n), STYLE_DIM);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            table_cell(table, human_real(buffer, get_number(spread, keys[k])), STYLE_PLAIN);
        table_cell(table, get_string(spread, "worst"), STYLE_PLAIN);
    }
    fprintf(file, "\n%sDifference from the reference %s, %s parameters%s\n",
            term_style(file, STYLE_HEAD), get_string(reference, "name"),
            human_whole(buffer, get_number(reference, "parameters")), term_plain(file));
    table_print(table, file);
    table_free(table);
    json_array_foreach (get_array(reference, "notes"), i, note)
        fprintf(file, "%s%s%s\n", term_style(file, STYLE_DIM), json_string_value(note),
                term_plain(file));
}

void accuracy_cost(struct text *out, const json_t *cost)
{
    char seconds[HUMAN_SIZE], gradients[HUMAN_SIZE], target[HUMAN_SIZE];
    const char *worst = get_string(cost, "worst"), *reason = get_string(cost, "reason");
    human_real(target, get_number(cost, "target_error"));
    if (isnan(get_number(cost, "seconds")))
        text_addf(out, "target error %s not reached: %s", target, reason);
    else
        text_addf(out, "target error %s: %s CPU time, %s gradients in total", target,
                  human_seconds(seconds, get_number(cost, "seconds")),
                  human_count(gradients, get_number(cost, "gradients")));
    if (*worst)
        text_addf(out, " (%s)", worst);
    if (!isnan(get_number(cost, "seconds")) && *reason)
        text_addf(out, "; %s", reason);
}
