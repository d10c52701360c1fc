/* What every model in the registry must hold, whatever it is: a new one is covered without an edit.
 */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define POINTS 5

/* Runs `check` for every model at several points. */
static void at_points(void (*check)(const struct fixture *f, const double *theta))
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        for (uint64_t seed = 1; seed <= POINTS; seed++) {
            double *theta = fixture_point(f.model, seed);
            check(&f, theta);
            free(theta);
        }
        fixture_release(&f);
    }
}

static const char *name_of(const struct fixture *f)
{
    return f->model->type->name;
}

static double largest(const double *x, size_t n)
{
    double most = 0;
    for (size_t j = 0; j < n; j++)
        most = fmax(most, fabs(x[j]));
    return most;
}

/* |a - b| <= tolerance times the largest of either, coordinate by coordinate. */
static void close_arrays(const struct fixture *f, const char *what, const double *a,
                         const double *b, double tolerance)
{
    size_t d = f->model->d;
    double scale = fmax(largest(a, d), largest(b, d));
    for (size_t j = 0; j < d; j++)
        cr_assert(fabs(a[j] - b[j]) <= tolerance * scale, "%s: %s, coordinate %zu: %.17g and %.17g",
                  name_of(f), what, j, a[j], b[j]);
}

enum part { FIXED, BATCH };

static double log_part(const struct fixture *f, enum part part, const double *theta)
{
    const struct model *m = f->model;
    return part == FIXED ? m->type->log_fixed(m, theta, f->work)
                         : m->type->log_batch(m, theta, NULL, m->N, f->work);
}

static void grad_part(const struct fixture *f, enum part part, const double *theta, double *g)
{
    const struct model *m = f->model;
    if (part == FIXED)
        m->type->grad_fixed(m, theta, g, f->work);
    else
        m->type->grad_batch(m, theta, NULL, m->N, g, NULL, f->work);
}

/* Central difference with Richardson extrapolation: error O(h^4). */
static double difference(const struct fixture *f, enum part part, double *theta, size_t j)
{
    double at = theta[j], h = 1e-3 * fmax(1, fabs(at)), slope[2];
    for (int k = 0; k < 2; k++) {
        double step = h / (k + 1);
        theta[j] = at + step;
        double up = log_part(f, part, theta), x = theta[j];
        theta[j] = at - step;
        slope[k] = (up - log_part(f, part, theta)) / (x - theta[j]);
    }
    theta[j] = at;
    return (4 * slope[1] - slope[0]) / 3;
}

static void block_gradient(const struct fixture *f, enum part part, const struct model_block *b,
                           double *theta, const double *g)
{
    double squares = 0;
    for (size_t j = 0; j < fixture_block_length(b); j++)
        squares += g[b->offset + j] * g[b->offset + j];
    double rms = sqrt(squares / (double)fixture_block_length(b));
    for (size_t j = b->offset; j < b->offset + fixture_block_length(b); j++) {
        double slope = difference(f, part, theta, j);
        cr_assert(fabs(slope - g[j]) <= 1e-6 * fmax(fabs(g[j]), fmax(rms, 1e-3)),
                  "%s: %s part, block %s, coordinate %zu: gradient %.12g, difference %.12g",
                  name_of(f), part == FIXED ? "fixed" : "batch", b->name, j, g[j], slope);
    }
}

static void check_gradient(const struct fixture *f, const double *theta)
{
    const struct model *m = f->model;
    double *g = fixture_array(m->d), *point = fixture_array(m->d);
    memcpy(point, theta, m->d * sizeof *point);
    for (enum part part = FIXED; part <= (m->N > 0 ? BATCH : FIXED); part++) {
        grad_part(f, part, theta, g);
        for (size_t i = 0; i < m->block_count; i++)
            block_gradient(f, part, &m->blocks[i], point, g);
    }
    free(g);
    free(point);
}

Test(models, gradient_is_the_slope_of_the_log_density_in_every_block)
{
    at_points(check_gradient);
}

static void check_full(const struct fixture *f, const double *theta)
{
    const struct model *m = f->model;
    double *g = fixture_array(m->d), *scratch = fixture_array(m->d), *parts = fixture_array(m->d);
    grad_part(f, FIXED, theta, parts);
    double log_density = log_part(f, FIXED, theta);
    if (m->N > 0) {
        grad_part(f, BATCH, theta, scratch);
        for (size_t j = 0; j < m->d; j++)
            parts[j] += scratch[j];
        log_density += log_part(f, BATCH, theta);
    }
    model_gradient(m, theta, g, scratch, f->work);
    close_arrays(f, "gradient", g, parts, 0);
    cr_assert(model_log_density(m, theta, f->work) == log_density);
    cr_assert(isfinite(log_density));
    free(g);
    free(scratch);
    free(parts);
}

Test(models, full_gradient_and_log_density_are_both_parts)
{
    at_points(check_full);
}

/* The rows in an order that is none, cut into pieces of 1, 2, ... */
static void check_partition(const struct fixture *f, const double *theta)
{
    const struct model *m = f->model;
    if (m->N == 0)
        return;
    double *whole = fixture_array(m->d), *whole_squares = fixture_array(m->d),
           *sum = fixture_array(m->d), *squares = fixture_array(m->d), *piece = fixture_array(m->d),
           *piece_squares = fixture_array(m->d), log_sum = 0;
    uint32_t *idx = fixture_alloc(m->N, sizeof *idx);
    for (size_t i = 0; i < m->N; i++)
        idx[i] = (uint32_t)((i * 17 + 5) % m->N);
    m->type->grad_batch(m, theta, NULL, m->N, whole, whole_squares, f->work);
    for (size_t at = 0, n = 1; at < m->N; at += n, n++) {
        n = n < m->N - at ? n : m->N - at;
        m->type->grad_batch(m, theta, idx + at, n, piece, piece_squares, f->work);
        log_sum += m->type->log_batch(m, theta, idx + at, n, f->work);
        for (size_t j = 0; j < m->d; j++) {
            sum[j] += piece[j];
            squares[j] += piece_squares[j];
        }
    }
    close_arrays(f, "sums over a partition", sum, whole, 1e-13);
    close_arrays(f, "squares over a partition", squares, whole_squares, 1e-13);
    cr_assert_float_eq(log_sum, log_part(f, BATCH, theta), 1e-12 * fabs(log_sum));
    double *arrays[] = {whole, whole_squares, sum, squares, piece, piece_squares};
    for (size_t i = 0; i < 6; i++)
        free(arrays[i]);
    free(idx);
}

Test(models, batches_of_a_partition_add_up_to_the_full_sum)
{
    at_points(check_partition);
}

/* Row 3 twice, as with replacement. */
static const uint32_t some[] = {3, 40, 3, 60, 0, 11, 27, 28, 29, 30, 31, 32, 33};
#define SOME (sizeof some / sizeof some[0])

static void check_squares(const struct fixture *f, const double *theta)
{
    const struct model *m = f->model;
    if (m->N == 0)
        return;
    double *sum = fixture_array(m->d), *squares = fixture_array(m->d), *alone = fixture_array(m->d),
           *sum_of = fixture_array(m->d), *squares_of = fixture_array(m->d);
    for (size_t k = 0; k < SOME; k++) {
        m->type->grad_batch(m, theta, some + k, 1, alone, NULL, f->work);
        for (size_t j = 0; j < m->d; j++) {
            sum_of[j] += alone[j];
            squares_of[j] += alone[j] * alone[j];
        }
    }
    m->type->grad_batch(m, theta, some, SOME, sum, squares, f->work);
    close_arrays(f, "sum", sum, sum_of, 1e-13);
    close_arrays(f, "sum of squares", squares, squares_of, 1e-13);
    m->type->grad_batch(m, theta, some, SOME, sum_of, NULL, f->work);
    close_arrays(f, "sum without squares", sum, sum_of, 0);
    double *arrays[] = {sum, squares, alone, sum_of, squares_of};
    for (size_t i = 0; i < 5; i++)
        free(arrays[i]);
}

Test(models, sums_of_squares_are_those_of_single_terms)
{
    at_points(check_squares);
}

static void check_null_index(const struct fixture *f, const double *theta)
{
    const struct model *m = f->model;
    if (m->N == 0)
        return;
    double *a = fixture_array(m->d), *b = fixture_array(m->d);
    uint32_t idx[37];
    for (uint32_t i = 0; i < 37; i++)
        idx[i] = i;
    m->type->grad_batch(m, theta, NULL, 37, a, NULL, f->work);
    m->type->grad_batch(m, theta, idx, 37, b, NULL, f->work);
    close_arrays(f, "no index list", a, b, 1e-14);
    double log_a = m->type->log_batch(m, theta, NULL, 37, f->work);
    cr_assert_float_eq(log_a, m->type->log_batch(m, theta, idx, 37, f->work), 1e-13 * fabs(log_a));
    free(a);
    free(b);
}

Test(models, no_index_list_means_the_first_terms)
{
    at_points(check_null_index);
}

/* An output array whose content is garbage and whose padding is zero. */
static double *dirty(size_t d)
{
    double *x = fixture_array(d);
    for (size_t j = 0; j < d; j++)
        x[j] = 1e9 + (double)j;
    return x;
}

static void padding_is_zero(const struct fixture *f, const char *what, const double *x)
{
    for (size_t j = f->model->d; j < padded(f->model->d); j++)
        cr_assert(x[j] == 0, "%s: %s writes %g into its padding", name_of(f), what, x[j]);
}

static void check_outputs(const struct fixture *f, const double *theta)
{
    const struct model *m = f->model;
    double *a[] = {dirty(m->d), dirty(m->d), dirty(m->d)},
           *b[] = {fixture_array(m->d), fixture_array(m->d), fixture_array(m->d)};
    for (int round = 0; round < 2; round++) {
        double **out = round == 0 ? a : b;
        memset(f->work, round == 0 ? 0xff : 0x2a, m->work_bytes);
        m->type->grad_fixed(m, theta, out[0], f->work);
        memset(f->work, round == 0 ? 0xff : 0x2a, m->work_bytes);
        if (m->N > 0)
            m->type->grad_batch(m, theta, some, SOME, out[1], out[2], f->work);
        for (size_t i = 0; i < (m->N > 0 ? 3u : 1u); i++)
            padding_is_zero(f, "a gradient", out[i]);
    }
    for (size_t i = 0; i < (m->N > 0 ? 3u : 1u); i++)
        cr_assert(memcmp(a[i], b[i], m->d * sizeof *a[i]) == 0,
                  "%s: output %zu depends on what was in it or in the work area", name_of(f), i);
    for (size_t i = 0; i < 3; i++) {
        free(a[i]);
        free(b[i]);
    }
}

Test(models, outputs_are_overwritten_and_padding_stays_zero)
{
    at_points(check_outputs);
}

Test(models, work_area_carries_nothing_into_a_log_density_or_a_metric)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        const struct model *m = f.model;
        double *theta = fixture_point(m, 4), *q = calloc(m->prediction_count + 1, sizeof *q);
        double log_density[2], metrics[2][MODEL_METRICS] = {{0}};
        for (int round = 0; round < 2; round++) {
            memset(f.work, round == 0 ? 0xff : 0x2a, m->work_bytes);
            log_density[round] = model_log_density(m, theta, f.work);
            memset(f.work, round == 0 ? 0xff : 0x2a, m->work_bytes);
            if (m->prediction_count > 0) {
                m->type->predict(m, theta, q, f.work);
                m->type->score(m, q, metrics[round], f.work);
            }
        }
        cr_assert(log_density[0] == log_density[1], "%s", models[i]->name);
        cr_assert(memcmp(metrics[0], metrics[1], sizeof metrics[0]) == 0, "%s", models[i]->name);
        free(theta);
        free(q);
        fixture_release(&f);
    }
}

Test(models, single_precision_data_give_nearly_the_same_gradient)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture wide, narrow;
        fixture_model(models[i], PRECISION_DOUBLE, &wide);
        fixture_model(models[i], PRECISION_SINGLE, &narrow);
        double *theta = fixture_point(wide.model, 3), *a = fixture_array(wide.model->d),
               *b = fixture_array(wide.model->d), *scratch = fixture_array(wide.model->d);
        model_gradient(wide.model, theta, a, scratch, wide.work);
        model_gradient(narrow.model, theta, b, scratch, narrow.work);
        close_arrays(&wide, "single against double precision", a, b, 1e-6);
        double log_a = model_log_density(wide.model, theta, wide.work);
        cr_assert_float_eq(log_a, model_log_density(narrow.model, theta, narrow.work),
                           1e-6 * fabs(log_a));
        double *arrays[] = {theta, a, b, scratch};
        for (size_t k = 0; k < 4; k++)
            free(arrays[k]);
        fixture_release(&wide);
        fixture_release(&narrow);
    }
}

Test(models, blocks_tile_the_coordinates_and_names_round_trip)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        size_t next = 0;
        for (size_t b = 0; b < f.model->block_count; b++) {
            cr_assert_eq(f.model->blocks[b].offset, next, "%s: block %s", models[i]->name,
                         f.model->blocks[b].name);
            next += fixture_block_length(&f.model->blocks[b]);
        }
        cr_assert_eq(next, f.model->d);
        for (size_t j = 0; j < f.model->d; j++) {
            char name[64], cut[4];
            int length = model_parameter_name(f.model, j, name, sizeof name);
            cr_assert(length > 0 && (size_t)length == strlen(name));
            cr_assert_eq(model_parameter_index(f.model, name), j, "%s", name);
            cr_assert_eq(model_parameter_name(f.model, j, cut, sizeof cut), length);
        }
        fixture_release(&f);
    }
}

Test(models, names_of_nothing_are_refused)
{
    static const char *const bad[] = {"",           "theta",     "theta[0]",
                                      "theta[6]",   "theta[1",   "theta[1]]",
                                      "theta[01]",  "theta[+1]", "theta[ 1]",
                                      "theta[1,1]", "theta[-1]", "theta[1] ",
                                      "thet[1]",    "thetas[1]", "theta[1.0]",
                                      "theta[]",    "[1]",       "theta[18446744073709551617]"};
    struct fixture f;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    cr_assert_eq(model_parameter_index(f.model, "theta[5]"), 4);
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
        cr_assert_eq(model_parameter_index(f.model, bad[k]), SIZE_MAX, "%s", bad[k]);
    fixture_release(&f);
}

static void draw_start(const struct model *m, enum start_kind kind, uint64_t seed, double *theta)
{
    double *scratch = fixture_array(m->d);
    struct rng rng;
    rng_seed(&rng, seed, 1, RNG_START);
    m->type->start_value(m, kind, &rng, theta, scratch);
    free(scratch);
}

Test(models, start_values_are_usable_and_belong_to_their_seed)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        size_t bytes = f.model->d * sizeof(double);
        double *a = dirty(f.model->d), *b = fixture_array(f.model->d),
               *g = fixture_array(f.model->d), *scratch = fixture_array(f.model->d);
        for (enum start_kind kind = START_ZERO; kind <= START_PRIOR; kind++) {
            draw_start(f.model, kind, 7, a);
            draw_start(f.model, kind, 7, b);
            cr_assert(memcmp(a, b, bytes) == 0, "%s", models[i]->name);
            padding_is_zero(&f, "the start value", a);
            cr_assert(isfinite(model_log_density(f.model, a, f.work)), "%s", models[i]->name);
            model_gradient(f.model, a, g, scratch, f.work);
            cr_assert(isfinite(largest(g, f.model->d)), "%s", models[i]->name);
            draw_start(f.model, kind, 8, b);
            cr_assert((memcmp(a, b, bytes) == 0) == (kind == START_ZERO), "%s", models[i]->name);
        }
        double *arrays[] = {a, b, g, scratch};
        for (size_t k = 0; k < 4; k++)
            free(arrays[k]);
        fixture_release(&f);
    }
}

/* NaN in any coordinate must be seen by whoever looks at the gradient and the log density. */
Test(models, nan_is_never_hidden)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        size_t d = f.model->d;
        double *theta = fixture_point(f.model, 2), *g = fixture_array(d),
               *scratch = fixture_array(d);
        for (size_t j = 0; j < d; j += 1 + d / 31) {
            double kept = theta[j], sum = 0;
            theta[j] = NAN;
            model_gradient(f.model, theta, g, scratch, f.work);
            for (size_t k = 0; k < d; k++)
                sum += g[k];
            cr_assert(isnan(sum), "%s: gradient with NaN in coordinate %zu", models[i]->name, j);
            double log_density = model_log_density(f.model, theta, f.work);
            cr_assert(isnan(log_density) || log_density == -INFINITY,
                      "%s: log density %g with NaN in coordinate %zu", models[i]->name, log_density,
                      j);
            theta[j] = kept;
        }
        free(theta);
        free(g);
        free(scratch);
        fixture_release(&f);
    }
}

Test(models, metrics_are_named_and_finite_where_there_are_test_data)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        size_t named = 0;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        while (models[i]->metrics[named] != NULL)
            named++;
        cr_assert_eq(named > 0, f.model->prediction_count > 0, "%s", models[i]->name);
        cr_assert_eq(named > 0, f.model->metric_cost > 0, "%s", models[i]->name);
        cr_assert_eq(f.model->N > 0, f.model->term_cost > 0, "%s", models[i]->name);
        cr_assert_leq(f.model->full_terms, f.model->N, "%s", models[i]->name);
        cr_assert_eq(f.model->N > 0, f.model->full_terms > 0, "%s", models[i]->name);
        if (named > 0) {
            double *theta = fixture_point(f.model, 6);
            double *q = malloc(f.model->prediction_count * sizeof *q);
            double metrics[MODEL_METRICS + 1] = {[MODEL_METRICS] = 2.385};
            metrics[named] = 2.385;
            models[i]->predict(f.model, theta, q, f.work);
            models[i]->score(f.model, q, metrics, f.work);
            for (size_t k = 0; k < named; k++)
                cr_assert(isfinite(metrics[k]), "%s: %s", models[i]->name, models[i]->metrics[k]);
            cr_assert(metrics[named] == 2.385);
            free(theta);
            free(q);
        }
        fixture_release(&f);
    }
}

Test(models, tables_describe_themselves)
{
    for (size_t i = 0; i < model_count; i++) {
        struct param_table table = models[i]->params;
        double values[PARAM_MAX];
        cr_assert(model_find(models[i]->name) == models[i]);
        cr_assert(models[i]->help != NULL && models[i]->help[0] != '\0');
        cr_assert(models[i]->start == START_ZERO || models[i]->start == START_PRIOR);
        cr_assert_leq(table.count, PARAM_MAX);
        param_defaults(table, values);
        for (size_t k = 0; k < table.count; k++) {
            struct err_info info;
            cr_assert(table.specs[k].help != NULL && table.specs[k].help[0] != '\0');
            cr_assert_eq(param_check(&table.specs[k], values[k], &info), ERR_OK, "%s.%s: %s",
                         models[i]->name, table.specs[k].name, info.message);
            cr_assert_eq(param_find(table, table.specs[k].name), k);
        }
    }
    cr_assert_null(model_find("logistics"));
}

static void refused(const struct model_type *type, const double *params,
                    const struct dataset *train, const struct dataset *test, const char *words)
{
    struct model *m = NULL;
    struct err_info info = {0};
    enum err code = type->init(&m, params, train, test, &info);
    cr_assert_neq(code, ERR_OK, "%s takes data with %s", type->name, words);
    cr_assert_null(m);
    cr_assert_eq(code, info.code);
    cr_assert(strncmp(info.message, type->name, strlen(type->name)) == 0, "%s", info.message);
    cr_assert(strstr(info.message, words) != NULL, "'%s' does not say '%s'", info.message, words);
}

static void refuse_data(const struct model_type *type, struct fixture *f)
{
    struct dataset bad = f->train, none = {.kind = DATA_NONE};
    refused(type, f->params, NULL, NULL, "needs data");
    refused(type, f->params, &none, NULL, "nothing");
    bad.N = 0;
    refused(type, f->params, &bad, NULL, "no rows");
    refused(type, f->params, &f->train, &bad, "test data have no rows");
    bad = f->train;
    bad.N = (size_t)UINT32_MAX + 7;
    refused(type, f->params, &bad, NULL, "4294967302 rows");
    if (type->data == DATA_ROWS || type->data == DATA_REGRESSION) {
        bad = f->train;
        bad.columns = 0;
        refused(type, f->params, &bad, NULL, "no columns");
        bad.columns = FIXTURE_COLUMNS - 1;
        bad.stride = dataset_stride(bad.columns, bad.precision);
        refused(type, f->params, &f->train, &bad, "test data have 4 columns, the training data 5");
    }
    if (type->data == DATA_REGRESSION || type->data == DATA_TRIPLETS) {
        bad = f->train;
        bad.y = NULL;
        refused(type, f->params, &bad, NULL,
                type->data == DATA_TRIPLETS ? "no rating column" : "no response column");
        fixture_set_y(&f->train, 16, -INFINITY);
        refused(type, f->params, &f->train, NULL, "row 17 of the training data is -inf");
        fixture_set_y(&f->train, 16, 1);
        fixture_set_y(&f->test, 2, NAN);
        refused(type, f->params, &f->train, &f->test, "row 3 of the test data is nan");
        fixture_set_y(&f->test, 2, 1);
    }
}

Test(models, bad_data_are_refused_with_words)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        if (models[i]->data != DATA_NONE) {
            refuse_data(models[i], &f);
        } else {
            struct dataset rows;
            fixture_rows(&rows, DATA_ROWS, PRECISION_DOUBLE, 3, 2, 1);
            refused(models[i], f.params, &rows, NULL, "takes nothing");
            fixture_data_release(&rows);
        }
        fixture_release(&f);
    }
}

Test(models, settings_outside_their_range_are_refused_by_name)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        for (size_t k = 0; k < models[i]->params.count; k++) {
            double kept = f.params[k];
            f.params[k] = NAN;
            refused(models[i], f.params, f.train.N > 0 ? &f.train : NULL, NULL,
                    models[i]->params.specs[k].name);
            f.params[k] = kept;
        }
        fixture_release(&f);
    }
}

Test(models, noise_has_the_sd_it_announces)
{
    for (size_t i = 0; i < model_count; i++) {
        struct fixture f;
        fixture_model(models[i], PRECISION_DOUBLE, &f);
        cr_assert_eq(models[i]->grad_noise != NULL, f.model->noise_tau > 0, "%s", models[i]->name);
        if (models[i]->grad_noise != NULL) {
            const size_t rounds = 200000;
            double *g = fixture_array(f.model->d);
            double *scratch = fixture_array(2 * padded(f.model->d)), sum = 0, squares = 0;
            struct rng rng;
            rng_seed(&rng, 5, 1, RNG_GRADIENT);
            for (size_t t = 0; t < rounds; t++) {
                memset(g, 0, padded(f.model->d) * sizeof *g);
                models[i]->grad_noise(f.model, &rng, g, scratch);
                padding_is_zero(&f, "the noise", g);
                sum += g[0];
                squares += g[0] * g[0];
            }
            double n = (double)rounds, tau = f.model->noise_tau;
            /* 4.5 standard errors; the default noise is normal: se of the sd is sd/sqrt(2n) */
            cr_assert_float_eq(sum / n, 0, 4.5 * tau / sqrt(n), "%s", models[i]->name);
            cr_assert_float_eq(sqrt(squares / n), tau, 4.5 * tau / sqrt(2 * n), "%s",
                               models[i]->name);
            free(g);
            free(scratch);
        }
        fixture_release(&f);
    }
}
