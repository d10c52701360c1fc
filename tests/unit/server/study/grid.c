/* Grids: which settings they stand for, and what is wrong with those that are none. */
#include "server/study/grid.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static json_t *doc; /* what the grid borrows from */

static bool read(struct grid *grid, const char *text, struct mistakes *mistakes)
{
    struct place root = place_root(mistakes), at = place_key(&root, "grid");
    doc = json_loads(text, JSON_DECODE_ANY, NULL);
    cr_assert_not_null(doc, "%s", text);
    return grid_read(grid, &at, doc);
}

static void expect_setting(const struct grid *grid, size_t at, const char *want)
{
    json_t *setting = grid_setting(grid, at);
    char *text = json_dumps(setting, JSON_COMPACT | JSON_REAL_PRECISION(12));
    cr_expect_str_eq(text, want, "setting %zu is %s", at, text);
    free(text);
    json_decref(setting);
}

Test(grid, groups_are_products_whose_last_axis_changes_fastest)
{
    struct grid grid;
    struct mistakes none = {0};
    cr_assert(read(&grid,
                   "[{\"/a\": [1, 2], \"/b/c\": [\"x\", null, true]},"
                   " {\"/a\": {\"from\": 2, \"to\": 18, \"count\": 3}}]",
                   &none));
    cr_assert_eq(grid.count, 9);
    expect_setting(&grid, 0, "{\"/a\":1,\"/b/c\":\"x\"}");
    expect_setting(&grid, 1, "{\"/a\":1,\"/b/c\":null}");
    expect_setting(&grid, 5, "{\"/a\":2,\"/b/c\":true}");
    expect_setting(&grid, 6, "{\"/a\":2.0}");
    expect_setting(&grid, 7, "{\"/a\":6.0}");
    expect_setting(&grid, 8, "{\"/a\":18.0}");
    cr_expect_eq(grid_group_of(&grid, 5), 0);
    cr_expect_eq(grid_group_of(&grid, 6), 1);
    cr_expect_eq(grid_place(&grid, 4, 0), 1);
    cr_expect_eq(grid_place(&grid, 4, 1), 1);
    grid_release(&grid);
    json_decref(doc);
}

Test(grid, ranges_are_spaced_by_equal_factors_to_six_digits)
{
    struct grid grid;
    struct mistakes none = {0};
    cr_assert(read(&grid, "[{\"/s\": {\"from\": 0.005, \"to\": 0.0001, \"count\": 10}}]", &none));
    expect_setting(&grid, 0, "{\"/s\":0.005}");
    expect_setting(&grid, 1, "{\"/s\":0.00323739}");
    expect_setting(&grid, 9, "{\"/s\":0.0001}");
    grid_release(&grid);
    json_decref(doc);
}

Test(grid, values_are_put_where_the_pointer_leads)
{
    static const struct {
        const char *job, *setting, *want;
    } cases[] = {
        {"{\"sampler\":\"sgbd\"}", "{\"/sampler/step_size\":0.5}",
         "{\"sampler\":{\"name\":\"sgbd\",\"step_size\":0.5}}"},
        {"{}", "{\"/a/b/c\":[1]}", "{\"a\":{\"b\":{\"c\":[1]}}}"},
        {"{\"seed\":1}", "{\"/seed\":2}", "{\"seed\":2}"},
        {"{}", "{\"/a~1b/c~0d\":1}", "{\"a/b\":{\"c~d\":1}}"},
        {"{\"a\":7}", "{\"/a/b\":1}", "{\"a\":{\"b\":1}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *job = json_loads(cases[i].job, 0, NULL),
               *setting = json_loads(cases[i].setting, 0, NULL);
        grid_apply(&job, setting);
        char *text = json_dumps(job, JSON_COMPACT);
        cr_expect_str_eq(text, cases[i].want);
        free(text);
        json_decref(job);
        json_decref(setting);
    }
}

Test(grid, a_pointer_is_neither_long_nor_deep)
{
    static const struct {
        size_t segments, length; /* of each */
        bool good;
    } cases[] = {{16, 1, true},   {17, 1, false},    {1, 199, true},
                 {1, 200, false}, {65000, 0, false}, {2, 99, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grid grid;
        struct mistakes mistakes = {0};
        struct place root = place_root(&mistakes);
        size_t each = cases[i].length + 1, size = cases[i].segments * each;
        char *pointer = malloc(size + 1);
        memset(pointer, 'a', size);
        pointer[size] = '\0';
        for (size_t k = 0; k < cases[i].segments; k++)
            pointer[k * each] = '/';
        json_t *list = json_pack("[{s[i], s[]}]", pointer, 1, "/other");
        cr_expect_not(grid_read(&grid, &root, list));
        cr_expect_eq(mistakes.count, cases[i].good ? 1 : 2, "%zu x %zu: %zu mistakes",
                     cases[i].segments, cases[i].length, mistakes.count);
        if (!cases[i].good) {
            cr_expect_eq(mistakes.items[0].kind, MISTAKE_range);
            cr_expect_not_null(strstr(mistakes.items[0].detail, "at most 200 and 16"));
        }
        json_decref(list);
        free(pointer);
    }
}

Test(grid, what_is_no_grid_is_refused_at_its_place)
{
    static const struct {
        const char *text, *pointer;
    } cases[] = {
        {"{}", "/grid"},
        {"[]", "/grid"},
        {"[{}]", "/grid/0"},
        {"[{\"/a\": []}]", "/grid/0/~1a"},
        {"[{\"/a\": 3}]", "/grid/0/~1a"},
        {"[{\"a\": [3]}]", "/grid/0/a"},
        {"[{\"/\": [3]}]", "/grid/0/~1"},
        {"[{\"/a\": [1, 2, 1]}]", "/grid/0/~1a/2"},
        {"[{\"/a\": [1], \"/a/b\": [1]}]", "/grid/0/~1a~1b"},
        {"[{\"/a\": {\"from\": 1, \"to\": 2}}]", "/grid/0/~1a/count"},
        {"[{\"/a\": {\"from\": -1, \"to\": 2, \"count\": 3}}]", "/grid/0/~1a/from"},
        {"[{\"/a\": {\"from\": 1, \"to\": 1, \"count\": 3}}]", "/grid/0/~1a"},
        {"[{\"/a\": {\"from\": 1, \"to\": 2, \"count\": 10001}}]", "/grid/0/~1a/count"},
        {"[{\"/a\": [1, 2]}, {\"/a\": [3, 2]}]", "/grid/1"},
        {"[{\"/a\": {\"from\": 1, \"to\": 9, \"count\": 101}, \"/b\": {\"from\": 1, \"to\": 9, "
         "\"count\": 100}}]",
         "/grid/0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grid grid;
        struct mistakes mistakes = {0};
        cr_expect_not(read(&grid, cases[i].text, &mistakes), "%s", cases[i].text);
        cr_expect_str_eq(mistakes.items[0].pointer, cases[i].pointer, "%s: %s", cases[i].text,
                         mistakes.items[0].pointer);
        json_decref(doc);
    }
}
