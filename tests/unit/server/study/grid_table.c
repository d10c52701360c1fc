/* Tables of sweeps: what is reserved for them is what they take, or a little more. */
#include "server/study/grid_table.h"
#include "server/base/json.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { SETTINGS = 200, SEEDS = 2 };

static struct grid grid;
static json_t *doc; /* what the grid borrows from */

static void setup(void)
{
    struct mistakes none = {0};
    struct place root = place_root(&none);
    doc = json_loads("[{\"/sampler/step_size\": {\"from\": 0.1, \"to\": 1.7, \"count\": 100},"
                     "  \"/init\": [\"prior\", {\"kind\": \"values\", \"values\": [0.5, 0.25]}]}]",
                     0, NULL);
    cr_assert(grid_read(&grid, &root, doc));
    cr_assert_eq(grid.count, SETTINGS);
}

static void teardown(void)
{
    grid_release(&grid);
    json_decref(doc);
}

TestSuite(grid_table, .init = setup, .fini = teardown);

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* An outcome with all measures, so many others and so many parameters, with names that are long. */
static json_t *outcome(size_t extra, size_t params)
{
    json_t *measures = json_object(), *parameters = json_object();
    char name[200];
    for (size_t k = 0; k < MEASURES; k++)
        json_object_set_new(measures, measure_names[k], json_pack("[ff]", -1.0 / 3e-200, 1e-7 / 3));
    for (size_t k = 0; k < extra; k++) {
        snprintf(name, sizeof name, "the_%090zu_of_a_metric_draw", k);
        json_object_set_new(measures, name, json_pack("[ff]", 1.0 / 3, 1e-7 / 3));
    }
    for (size_t p = 0; p < params; p++) {
        json_t *list = json_array();
        for (size_t k = 0; k < PARAMETER_MEASURES; k++)
            json_array_append_new(list, json_pack("[ff]", 1.0 / 3, 1e-7 / 3));
        snprintf(name, sizeof name, "a_parameter_with_a_name[%zu]", p + 1);
        json_object_set_new(parameters, name, list);
    }
    return json_pack("{s:s, s:o, s:o}", "state", "succeeded", "measures", measures, "parameters",
                     parameters);
}

static void fill(struct grid_table *t, size_t extra, size_t params)
{
    json_t *one = outcome(extra, params);
    for (size_t s = 0; s < SETTINGS; s++)
        for (size_t k = 0; k < SEEDS; k++)
            grid_table_add(t, s, k, "0123456789abcdef", one);
    json_decref(one);
    cr_assert_not(t->failed);
}

static void expect_enough(const char *what, uint64_t reserved, size_t used)
{
    cr_expect_geq(reserved, used, "%s: %zu bytes used, %zu reserved", what, used, (size_t)reserved);
    cr_expect(used == 0 || reserved < 4 * used + 100000, "%s: %zu bytes used, %zu reserved", what,
              used, (size_t)reserved);
}

static void check(size_t extra, size_t params)
{
    struct grid_table_size size = {.count = SETTINGS, .seeds = SEEDS, .params = params};
    struct grid_table t;
    size_t before = in_use(), length;
    cr_assert_eq(grid_table_init(&t, &grid, &size, NULL), ERR_OK);
    fill(&t, extra, params);
    size_t used = in_use() - before;
    cr_expect_geq(grid_table_bytes(&size), used, "%zu parameters: %zu bytes used, %zu reserved",
                  params, used, (size_t)grid_table_bytes(&size));
    before = in_use();
    json_t *rows = grid_table_rows_json(&t, SIZE_MAX);
    char *text = json_write(rows, &length);
    expect_enough("rows", grid_table_rows_bytes(&t, SIZE_MAX), in_use() - before);
    cr_expect_lt(grid_table_rows_bytes(&t, 3), grid_table_rows_bytes(&t, SETTINGS) / 50);
    json_decref(rows);
    free(text);
    text = grid_table_csv(&t, &length);
    expect_enough("csv", grid_table_csv_bytes(&t), 2 * length);
    free(text);
    grid_table_release(&t);
}

Test(grid_table, what_is_reserved_is_what_it_takes)
{
    check(0, 1);
    check(4, OUTCOME_PARAMS_DEFAULT);
    check(GRID_TABLE_EXTRA_MAX, OUTCOME_PARAMS_MAX);
}

Test(grid_table, parameters_beyond_what_was_reserved_are_not_shown)
{
    struct grid_table_size size = {.count = SETTINGS, .seeds = SEEDS, .params = 2};
    struct grid_table t;
    cr_assert_eq(grid_table_init(&t, &grid, &size, NULL), ERR_OK);
    fill(&t, 0, 5);
    json_t *row = grid_table_row_json(&t, 7);
    cr_expect_eq(json_object_size(json_object_get(row, "parameters")), 2);
    json_decref(row);
    grid_table_release(&t);
}
