/* From tables to data sets (columns, intercept, standardising, precision, triplets), and the cache
 * that shares them. */
#include "tests/unit/server/data/prepare_fixture.h"

static struct table parse(const char *text)
{
    struct table table;
    struct err_info info = {0};
    struct table_source source = {
        .name = "file.csv", .bytes = text, .size = strlen(text), .budget_bytes = 1 << 20};
    cr_assert_eq(table_read(&table, &source, &info), ERR_OK, "%s", info.message);
    return table;
}

/* One preparation and everything that came of it. */
struct prepared {
    enum err code;
    struct data data;
    struct mistakes mistakes;
};

/* `test` may be NULL. */
static enum err prepare_tables(struct data *out, const struct data_spec *spec, enum data_kind kind,
                               const struct table *train, const struct table *test,
                               struct mistakes *mistakes, struct err_info *info)
{
    struct data_rows rows[2];
    struct prepare_plan plan;
    *out = (struct data){0};
    data_rows_view(&rows[0], train, "/data/path");
    data_rows_view(&rows[1], test, "/data/test");
    struct data_rows *tested = test != NULL ? &rows[1] : NULL;
    enum err code = prepare_plan(&plan, spec, kind, &rows[0], tested, mistakes, info);
    if (code != ERR_OK)
        return code;
    code = prepare_memory(out, &plan, &rows[0], tested, info);
    prepare_plan_release(&plan);
    return code;
}

static struct prepared prepare(const struct data_spec *spec, enum data_kind kind, const char *train,
                               const char *test)
{
    struct prepared p = {.code = ERR_OK};
    struct err_info info = {0};
    struct table a = parse(train), b = test != NULL ? parse(test) : (struct table){0};
    p.code = prepare_tables(&p.data, spec, kind, &a, test != NULL ? &b : NULL, &p.mistakes, &info);
    table_release(&a);
    table_release(&b);
    return p;
}

static struct prepared prepare_well(const struct data_spec *spec, enum data_kind kind,
                                    const char *train, const char *test)
{
    struct prepared p = prepare(spec, kind, train, test);
    cr_assert_eq(p.code, ERR_OK, "%s: %s", p.mistakes.items[0].pointer, p.mistakes.items[0].detail);
    cr_assert_eq(p.mistakes.count, 0);
    return p;
}

static void expect_rows(const struct dataset *d, const double *values, size_t rows, size_t columns)
{
    cr_assert_eq(d->N, rows);
    cr_assert_eq(d->columns, columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            cr_expect_eq(get(d, i, j), values[i * columns + j], "row %zu, column %zu: %.17g", i, j,
                         get(d, i, j));
}

static void expect_names(const struct data *data, const char *names)
{
    char text[200] = "";
    for (size_t k = 0; k < data->name_count; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", k > 0 ? " " : "",
                 data->names[k]);
    cr_expect_str_eq(text, names);
}

/* The one mistake that there must be: where, and what it says. */
static void expect_mistake(struct prepared *p, const char *pointer, const char *says)
{
    cr_assert_eq(p->code, ERR_INVALID);
    cr_assert_eq(p->mistakes.count, 1);
    cr_expect_str_eq(p->mistakes.items[0].pointer, pointer);
    cr_expect_not_null(strstr(p->mistakes.items[0].detail, says), "%s",
                       p->mistakes.items[0].detail);
    cr_expect_null(p->data.train.x);
    cr_expect_null(p->data.names);
}

#define TRAIN "a,y,b,c\n1.5,0,10,7\n2.5,1,20,7\n4.5,1,60,7\n"

/* ---- columns ---- */

Test(prepare, all_columns_but_the_response_are_taken_in_the_order_of_the_file)
{
    struct data_spec spec = {.response = "y"};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, NULL);
    expect_rows(&p.data.train, (double[]){1.5, 10, 7, 2.5, 20, 7, 4.5, 60, 7}, 3, 3);
    expect_names(&p.data, "a b c");
    cr_expect_eq(p.data.train.y[0], 0.0);
    cr_expect_eq(p.data.train.y[2], 1.0);
    cr_expect_eq(p.data.train.kind, DATA_REGRESSION);
    cr_expect_not(p.data.has_test);
    data_release(&p.data);
}

Test(prepare, named_columns_are_taken_in_the_order_of_the_names)
{
    char *columns[] = {"c", "a"};
    struct data_spec spec = {.response = "y", .columns = columns, .column_count = 2};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, NULL);
    expect_rows(&p.data.train, (double[]){7, 1.5, 7, 2.5, 7, 4.5}, 3, 2);
    expect_names(&p.data, "c a");
    data_release(&p.data);
}

Test(prepare, an_offset_is_no_covariate_and_stays_as_it_is)
{
    struct data_spec spec = {.response = "y", .offset = "b", .standardize = true};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, "y,b,c,a\n1,-2.25,7,3\n");
    expect_names(&p.data, "a c");
    cr_expect_eq(p.data.train.columns, 2);
    cr_expect(p.data.train.offset[0] == 10 && p.data.train.offset[2] == 60);
    cr_expect_eq(p.data.test.offset[0], -2.25);
    data_release(&p.data);
    spec.offset = NULL;
    p = prepare_well(&spec, DATA_REGRESSION, TRAIN, NULL);
    cr_expect_null(p.data.train.offset);
    data_release(&p.data);
}

/* The test data need none, and theirs are no covariates. */
Test(prepare, weights_are_no_covariate_and_only_of_the_training_rows)
{
    static const char *const tests[] = {"y,c,a\n1,7,3\n", "y,b,c,a\n1,9,7,3\n"};
    for (size_t i = 0; i < 2; i++) {
        struct data_spec spec = {.response = "y", .weights = "b", .standardize = true};
        struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, tests[i]);
        expect_names(&p.data, "a c");
        cr_expect_eq(p.data.train.columns, 2);
        cr_expect(p.data.train.weight[0] == 10 && p.data.train.weight[2] == 60);
        cr_expect_null(p.data.test.weight);
        cr_expect_null(p.data.train.offset);
        data_release(&p.data);
    }
}

Test(prepare, rows_without_a_response_have_all_columns)
{
    struct data_spec spec = {0};
    struct prepared p = prepare_well(&spec, DATA_ROWS, TRAIN, NULL);
    expect_names(&p.data, "a y b c");
    cr_expect_eq(p.data.train.columns, 4);
    cr_expect_null(p.data.train.y);
    data_release(&p.data);
}

Test(prepare, the_intercept_is_a_column_of_ones_behind_the_others)
{
    char *columns[] = {"b"};
    struct data_spec spec = {
        .response = "y", .columns = columns, .column_count = 1, .intercept = true};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, "b,y\n5,0\n");
    expect_rows(&p.data.train, (double[]){10, 1, 20, 1, 60, 1}, 3, 2);
    expect_rows(&p.data.test, (double[]){5, 1}, 1, 2);
    expect_names(&p.data, "b (intercept)");
    data_release(&p.data);
}

Test(prepare, an_intercept_alone_is_a_model)
{
    char *none[] = {NULL};
    struct data_spec spec = {.response = "y", .columns = none, .intercept = true};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, NULL);
    expect_rows(&p.data.train, (double[]){1, 1, 1}, 3, 1);
    data_release(&p.data);
}

Test(prepare, test_columns_are_found_by_name)
{
    struct data_spec spec = {.response = "y"};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN,
                                     "extra,c,b,a,y\n-1,3,30,0.5,1\n-1,4,40,0.25,0\n");
    expect_rows(&p.data.test, (double[]){0.5, 30, 3, 0.25, 40, 4}, 2, 3);
    cr_expect_eq(p.data.test.y[0], 1.0);
    cr_expect(p.data.has_test);
    data_release(&p.data);
}

Test(prepare, unknown_columns_are_mistakes_all_at_once)
{
    char *columns[] = {"a", "age", "b", "weight"};
    struct data_spec spec = {.response = "y", .columns = columns, .column_count = 4};
    struct prepared p = prepare(&spec, DATA_REGRESSION, TRAIN, NULL);
    cr_expect_eq(p.code, ERR_INVALID);
    cr_assert_eq(p.mistakes.count, 2);
    cr_expect_str_eq(p.mistakes.items[0].pointer, "/data/columns/1");
    cr_expect_str_eq(p.mistakes.items[1].pointer, "/data/columns/3");
    cr_expect_not_null(strstr(p.mistakes.items[0].detail, "age"));
    cr_expect_not_null(strstr(p.mistakes.items[1].detail, "weight"));
}

Test(prepare, mistakes_say_where_they_are)
{
    char *twice[] = {"a", "y"}, *none[] = {NULL}, *a[] = {"a"};
    struct {
        struct data_spec spec;
        const char *train, *test, *pointer, *says;
    } cases[] = {
        {{.response = "label"}, TRAIN, NULL, "/data/response", "label"},
        {{.response = "y", .columns = twice, .column_count = 2},
         TRAIN,
         NULL,
         "/data/columns/1",
         "response"},
        {{.response = "y", .offset = "exposure"}, TRAIN, NULL, "/data/offset", "exposure"},
        {{.response = "y", .offset = "a", .columns = a, .column_count = 1},
         TRAIN,
         NULL,
         "/data/columns/0",
         "offset"},
        {{.response = "y", .offset = "b"}, TRAIN, "a,c,y\n1,2,0\n", "/data/test", "b"},
        {{.response = "y", .weights = "times"}, TRAIN, NULL, "/data/weights", "times"},
        {{.response = "y", .weights = "a", .columns = a, .column_count = 1},
         TRAIN,
         NULL,
         "/data/columns/0",
         "weight"},
        {{.response = "y", .columns = none}, TRAIN, NULL, "/data/columns", "no columns"},
        {{.response = "y"}, "y\n0\n1\n", NULL, "/data/columns", "no columns"},
        {{.response = "y"}, TRAIN, "a,b,y\n1,2,0\n", "/data/test", "c"},
        {{.response = "y"}, TRAIN, "a,b,c\n1,2,3\n", "/data/test", "y"},
        {{.response = "y", .columns = a, .column_count = 1},
         TRAIN,
         "b,y\n1,0\n",
         "/data/test",
         "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct prepared p = prepare(&cases[i].spec, DATA_REGRESSION, cases[i].train, cases[i].test);
        expect_mistake(&p, cases[i].pointer, cases[i].says);
    }
}

/* ---- standardising ---- */

/* From the definition. */
static void moments(const double *x, size_t n, long double *mean, long double *sd)
{
    long double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (long double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *sd = sqrtl(squares / (long double)(n - 1));
}

Test(prepare, both_files_are_standardised_by_the_moments_of_training)
{
    static const double a[] = {1.5, 2.5, 4.5}, b[] = {10, 20, 60};
    struct data_spec spec = {.response = "y", .standardize = true, .intercept = true};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, "a,b,c,y\n100,-3,8,1\n");
    long double mean[2], sd[2];
    moments(a, 3, &mean[0], &sd[0]);
    moments(b, 3, &mean[1], &sd[1]);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_float_eq(get(&p.data.train, i, 0), (double)((a[i] - mean[0]) / sd[0]), 1e-15);
        cr_expect_float_eq(get(&p.data.train, i, 1), (double)((b[i] - mean[1]) / sd[1]), 1e-15);
        cr_expect_eq(get(&p.data.train, i, 2), 7.0, "a constant column stays as it is");
        cr_expect_eq(get(&p.data.train, i, 3), 1.0, "and so does the intercept");
    }
    cr_expect_float_eq(get(&p.data.test, 0, 0), (double)((100 - mean[0]) / sd[0]), 1e-12);
    cr_expect_float_eq(get(&p.data.test, 0, 1), (double)((-3 - mean[1]) / sd[1]), 1e-14);
    cr_expect_eq(get(&p.data.test, 0, 2), 8.0);
    cr_expect_eq(get(&p.data.test, 0, 3), 1.0);
    cr_expect_eq(p.data.train.y[1], 1.0, "the response is not a covariate");
    data_release(&p.data);
}

/* 0.1 has no exact sum: a two-pass mean would leave a tiny sd and blow the column up. */
Test(prepare, constant_columns_are_recognised_whatever_their_value)
{
    char text[4000] = "x,y\n";
    struct data_spec spec = {.response = "y", .standardize = true};
    for (int i = 0; i < 300; i++)
        strcat(text, "0.1,1\n");
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, text, NULL);
    for (size_t i = 0; i < 300; i++)
        cr_assert_eq(get(&p.data.train, i, 0), 0.1);
    data_release(&p.data);
}

Test(prepare, a_column_far_from_zero_is_standardised_accurately)
{
    struct data_spec spec = {.response = "y", .standardize = true};
    struct prepared p =
        prepare_well(&spec, DATA_REGRESSION,
                     "x,y\n1000000001,0\n1000000002,1\n1000000003,0\n1000000006,0\n", NULL);
    const double sd = sqrt(14.0 / 3.0);
    static const double deviations[] = {-2, -1, 0, 3};
    for (size_t i = 0; i < 4; i++)
        cr_expect_float_eq(get(&p.data.train, i, 0), deviations[i] / sd, 1e-9);
    data_release(&p.data);
}

Test(prepare, a_single_row_is_left_as_it_is)
{
    struct data_spec spec = {.response = "y", .standardize = true};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, "x,y\n3.25,1\n", NULL);
    cr_expect_eq(get(&p.data.train, 0, 0), 3.25);
    data_release(&p.data);
}

/* ---- precision ---- */

Test(prepare, data_are_single_only_where_nothing_is_lost)
{
    char *exact_column[] = {"a"};
    static const char exact[] = "a,b,y\n0.5,3,0\n16777216,-1e10,1\n",
                      inexact[] = "a,b,y\n0.5,0.1,0\n2,3,1\n",
                      odd_response[] = "a,b,y\n0.5,3,0.1\n2,3,0.3\n";
    static const struct {
        const char *train;
        enum data_precision asked;
        bool standardize;
        enum precision got;
    } cases[] = {
        {exact, DATA_AUTO, false, PRECISION_SINGLE},
        {exact, DATA_DOUBLE, false, PRECISION_DOUBLE},
        {exact, DATA_SINGLE, false, PRECISION_SINGLE},
        {inexact, DATA_AUTO, false, PRECISION_DOUBLE},
        {inexact, DATA_SINGLE, false, PRECISION_SINGLE},
        {odd_response, DATA_AUTO, false, PRECISION_SINGLE},
        {TRAIN, DATA_AUTO, false, PRECISION_SINGLE},
        {TRAIN, DATA_AUTO, true, PRECISION_DOUBLE},
        {"a,b,y\n16777217,1,0\n1,2,1\n", DATA_AUTO, false, PRECISION_DOUBLE},
        {"a,b,y\n1e39,1,0\n1,2,1\n", DATA_AUTO, false, PRECISION_DOUBLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = {
            .response = "y", .precision = cases[i].asked, .standardize = cases[i].standardize};
        struct prepared p = prepare_well(&spec, DATA_REGRESSION, cases[i].train, NULL);
        cr_expect_eq(p.data.train.precision, cases[i].got, "case %zu", i);
        data_release(&p.data);
    }
    struct data_spec spec = {.response = "y", .columns = exact_column, .column_count = 1};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, inexact, NULL);
    cr_expect_eq(p.data.train.precision, PRECISION_SINGLE, "b is not used");
    data_release(&p.data);
}

Test(prepare, asking_for_single_rounds_to_the_nearest)
{
    struct data_spec spec = {.response = "y", .precision = DATA_SINGLE};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, "a,y\n0.1,0\n16777217,1\n", NULL);
    expect_rows(&p.data.train, (double[]){(double)0.1f, 16777216.0}, 2, 1);
    data_release(&p.data);
}

Test(prepare, test_rows_have_the_precision_of_training_and_lose_nothing_either)
{
    struct data_spec spec = {.response = "y"};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, "a,y\n0.5,0\n", "a,y\n0.25,1\n");
    cr_expect_eq(p.data.test.precision, PRECISION_SINGLE);
    data_release(&p.data);
    p = prepare_well(&spec, DATA_REGRESSION, "a,y\n0.5,0\n", "a,y\n0.1,1\n");
    cr_expect_eq(p.data.test.precision, p.data.train.precision);
    cr_expect_eq(get(&p.data.test, 0, 0), 0.1, "%.17g", get(&p.data.test, 0, 0));
    data_release(&p.data);
}

/* ---- layout ---- */

Test(prepare, rows_are_aligned_and_padded_with_zeros)
{
    char text[600] = "y";
    struct data_spec spec = {.response = "y"};
    for (int j = 0; j < 11; j++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",x%d", j);
    for (int i = 0; i < 3; i++) {
        strcat(text, "\n1");
        for (int j = 0; j < 11; j++)
            strcat(text, i == 1 ? ",0.1" : ",2");
    }
    for (int precision = DATA_SINGLE; precision <= DATA_DOUBLE; precision++) {
        spec.precision = (enum data_precision)precision;
        struct prepared p = prepare_well(&spec, DATA_REGRESSION, text, NULL);
        const struct dataset *d = &p.data.train;
        cr_expect_eq((uintptr_t)d->x % ALIGNMENT, 0);
        cr_expect_eq((uintptr_t)d->y % ALIGNMENT, 0);
        cr_expect_eq(d->stride, 16);
        for (size_t i = 0; i < 3; i++)
            for (size_t j = 11; j < d->stride; j++)
                cr_expect_eq(get(d, i, j), 0.0);
        size_t cell = precision == DATA_SINGLE ? sizeof(float) : sizeof(double);
        cr_expect_eq(p.data.bytes, 3 * d->stride * cell + 3 * sizeof(double));
        data_release(&p.data);
    }
}

Test(prepare, what_was_released_is_empty)
{
    struct data_spec spec = {.response = "y"};
    struct prepared p = prepare_well(&spec, DATA_REGRESSION, TRAIN, TRAIN);
    data_release(&p.data);
    cr_expect_null(p.data.train.x);
    cr_expect_eq(p.data.bytes, 0);
    data_release(&p.data);
}

/* ---- triplets ---- */

static void expect_triplets(const struct dataset *d, const unsigned *triplets, size_t n)
{
    cr_assert_eq(d->kind, DATA_TRIPLETS);
    cr_assert_eq(d->N, n);
    for (size_t i = 0; i < n; i++) {
        cr_expect_eq(d->user[i], triplets[3 * i], "user of %zu", i);
        cr_expect_eq(d->item[i], triplets[3 * i + 1], "item of %zu", i);
        cr_expect_eq(d->y[i], (double)triplets[3 * i + 2], "rating of %zu", i);
    }
}

Test(prepare, triplets_count_from_zero_inside_and_from_one_outside)
{
    struct data_spec spec = {0};
    struct prepared p =
        prepare_well(&spec, DATA_TRIPLETS, "user,item,rating\n1,1,5\n3,2,4\n2,7,1\n",
                     "user,item,rating\n9,1,3\n");
    expect_triplets(&p.data.train, (unsigned[]){0, 0, 5, 2, 1, 4, 1, 6, 1}, 3);
    cr_expect_eq(p.data.train.users, 3);
    cr_expect_eq(p.data.train.items, 7);
    expect_triplets(&p.data.test, (unsigned[]){8, 0, 3}, 1);
    cr_expect_eq(p.data.test.users, 9);
    data_release(&p.data);
}

Test(prepare, triplets_are_found_by_name_or_by_position_without_a_header)
{
    struct data_spec spec = {0};
    struct prepared p =
        prepare_well(&spec, DATA_TRIPLETS, "time,rating,item,user\n99,5,2,1\n99,4,3,4\n", NULL);
    expect_triplets(&p.data.train, (unsigned[]){0, 1, 5, 3, 2, 4}, 2);
    data_release(&p.data);
    p = prepare_well(&spec, DATA_TRIPLETS, "1,2,5\n4,3,4\n", "1,1,1\n");
    expect_triplets(&p.data.train, (unsigned[]){0, 1, 5, 3, 2, 4}, 2);
    data_release(&p.data);
}

Test(prepare, ratings_may_be_any_numbers)
{
    struct data_spec spec = {0};
    struct prepared p = prepare_well(&spec, DATA_TRIPLETS, "user,item,rating\n1,1,-2.385\n", NULL);
    cr_expect_eq(p.data.train.y[0], -2.385);
    data_release(&p.data);
}

Test(prepare, indices_that_are_none_are_named_with_their_row)
{
    static const char *const bad[] = {"0", "-1", "1.5", "1e-3", "10000001", "1e300"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int item = 0; item < 2; item++) {
            struct data_spec spec = {0};
            char text[120];
            snprintf(text, sizeof text, "user,item,rating\n1,1,3\n%s,%s,3\n", item ? "2" : bad[i],
                     item ? bad[i] : "2");
            struct prepared p = prepare(&spec, DATA_TRIPLETS, text, NULL);
            expect_mistake(&p, "/data/path", "row 2: ");
            p = prepare(&spec, DATA_TRIPLETS, "user,item,rating\n1,1,3\n", text);
            expect_mistake(&p, "/data/test", "row 2: ");
        }
}

Test(prepare, triplets_without_their_columns_are_mistakes)
{
    static const struct {
        const char *train, *test, *pointer, *says;
    } cases[] = {
        {"user,item\n1,1\n", NULL, "/data/path", "rating"},
        {"user,item,score\n1,1,1\n", NULL, "/data/path", "rating"},
        {"1,2,3,4\n", NULL, "/data/path", "4 columns"},
        {"1,2\n", NULL, "/data/path", "2 columns"},
        {"1,2,3\n", "user,rating\n1,1\n", "/data/test", "item"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = {0};
        struct prepared p = prepare(&spec, DATA_TRIPLETS, cases[i].train, cases[i].test);
        expect_mistake(&p, cases[i].pointer, cases[i].says);
    }
}
