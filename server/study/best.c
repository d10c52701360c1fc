/* Which setting of a sweep is the best by a stated rule. */
#include "server/base/json.h"
#include "server/base/sentence.h"
#include "server/study/grid_table.h"

#include <math.h>
#include <string.h>

static bool within(const struct grid_table *t, size_t row, const json_t *bounds, bool most)
{
    const char *name;
    json_t *bound;
    json_object_foreach ((json_t *)(uintptr_t)bounds, name, bound) {
        size_t k = grid_table_measure(t, name);
        double value = k != SIZE_MAX ? grid_table_number(t, row, k).value : NAN;
        double limit = json_number_value(bound);
        if (!(most ? value <= limit : value >= limit)) /* not known: not kept */
            return false;
    }
    return true;
}

struct contest {
    const struct grid_table *table;
    const json_t *rule;
    size_t measure;
    double sign; /* 1: the largest value is the best */
};

static bool competes(const struct contest *c, size_t row)
{
    return !isnan(grid_table_number(c->table, row, c->measure).value) &&
           within(c->table, row, json_object_get(c->rule, "at_most"), true) &&
           within(c->table, row, json_object_get(c->rule, "at_least"), false);
}

/* Within two standard errors of the difference; errors that are not known count as 0. */
static bool rivals(struct estimate_pair a, struct estimate_pair b)
{
    double ea = isnan(a.error) ? 0.0 : a.error, eb = isnan(b.error) ? 0.0 : b.error;
    return fabs(a.value - b.value) <= 2.0 * hypot(ea, eb);
}

static void say_bounds(struct sentence *text, const json_t *bounds, const char *words)
{
    const char *name;
    json_t *bound;
    json_object_foreach ((json_t *)(uintptr_t)bounds, name, bound)
        sentence_add(text, ", %s %s %g", name, words, json_number_value(bound));
}

static json_t *sentence_json(const struct contest *c, size_t row, size_t others, size_t rows)
{
    struct sentence text = {0};
    struct estimate_pair x = grid_table_number(c->table, row, c->measure);
    json_t *setting = grid_setting(c->table->grid, c->table->first + row);
    char *shown = setting != NULL ? json_write(setting, NULL) : NULL;
    const char *by =
        json_string_value(json_object_get(c->rule, c->sign > 0 ? "maximize" : "minimize"));
    sentence_add(&text, "setting %zu %.300s has the %s %s, %.4g", c->table->first + row,
                 shown != NULL ? shown : "", c->sign > 0 ? "largest" : "smallest", by, x.value);
    if (!isnan(x.error))
        sentence_add(&text, " ± %.2g", x.error);
    sentence_add(&text, ", of %zu settings", rows);
    say_bounds(&text, json_object_get(c->rule, "at_most"), "at most");
    say_bounds(&text, json_object_get(c->rule, "at_least"), "at least");
    if (others > 0)
        sentence_add(&text, "; %zu other%s within two standard errors of it", others,
                     others == 1 ? " is" : "s are");
    json_decref(setting);
    free(shown);
    return json_text(text.text);
}

static json_t *winner_json(const struct contest *c, size_t row, size_t rows)
{
    struct estimate_pair best = grid_table_number(c->table, row, c->measure);
    json_t *doc = json_object(), *near = json_array();
    for (size_t i = 0; i < c->table->count; i++)
        if (i != row && competes(c, i) && rivals(best, grid_table_number(c->table, i, c->measure)))
            json_add(&near, json_count(c->table->first + i));
    json_put(&doc, "by",
             json_incref(json_object_get(c->rule, c->sign > 0 ? "maximize" : "minimize")));
    json_put(&doc, "index", json_count(c->table->first + row));
    json_put(&doc, "value", json_number(best.value));
    json_put(&doc, "error", json_number(best.error));
    json_put(&doc, "sentence", sentence_json(c, row, json_array_size(near), rows));
    json_put(&doc, "rivals", near);
    json_put(&doc, "rows", json_count(rows));
    return doc;
}

json_t *grid_table_best(const struct grid_table *table, const json_t *rule)
{
    const char *most = json_string_value(json_object_get(rule, "maximize"));
    const char *least = json_string_value(json_object_get(rule, "minimize"));
    const char *by = most != NULL ? most : least;
    struct contest c = {.table = table, .rule = rule, .sign = most != NULL ? 1.0 : -1.0};
    size_t best = SIZE_MAX, rows = 0;
    c.measure = by != NULL ? grid_table_measure(table, by) : SIZE_MAX;
    for (size_t i = 0; c.measure != SIZE_MAX && i < table->count; i++) {
        if (!competes(&c, i))
            continue;
        rows++;
        if (best == SIZE_MAX || c.sign * grid_table_number(table, i, c.measure).value >
                                    c.sign * grid_table_number(table, best, c.measure).value)
            best = i;
    }
    return best != SIZE_MAX ? winner_json(&c, best, rows) : json_null();
}
