/* The plain C of `make bench` does the work that it is compared for: its gradients, and the squares
 * of their terms, are those of the models. */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>

int yardstick_main(int argc, char **argv);
#define main yardstick_main
#include "tests/bench/plain.c"
#undef main

enum { ROWS = 83, COLUMNS = 5, USERS = 9, ITEMS = 14, RANK = 3 };

static struct state *open_at_a_point(const char *model, bool corrected)
{
    struct workload workload = {
        .d = COLUMNS, .chains = 1, .corrected = corrected, .single = false, .sigma = 0.1};
    uint64_t point = 1702;
    snprintf(workload.model, sizeof workload.model, "%s", model);
    workload.N = strcmp(model, "skew_normal") == 0 ? 0 : ROWS;
    if (strcmp(model, "factorization") == 0) {
        workload.users = USERS;
        workload.items = ITEMS;
        workload.d = RANK;
    }
    worker_open(&workload);
    for (size_t j = 0; j < states[0].d; j++)
        states[0].theta[j] += 0.4 * fixture_normal(&point);
    return &states[0];
}

/* A model of ours on the same data. */
static void model_on_its_data(struct fixture *f, const struct model_type *type)
{
    *f = (struct fixture){.train = {.kind = type->data}};
    param_defaults(type->params, f->params);
    if (type->data == DATA_TRIPLETS) {
        fixture_triplets(&f->train, ROWS, USERS, ITEMS, 1);
        memcpy((void *)(uintptr_t)f->train.user, user, ROWS * sizeof *user);
        memcpy((void *)(uintptr_t)f->train.item, item, ROWS * sizeof *item);
        f->params[param_find(type->params, "rank")] = RANK;
    } else if (type->data != DATA_NONE) {
        fixture_rows(&f->train, type->data, PRECISION_DOUBLE, ROWS, COLUMNS, 1);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < COLUMNS; j++)
                fixture_set(&f->train, i, j, x[i * COLUMNS + j]);
    }
    for (size_t i = 0; f->train.y != NULL && i < ROWS; i++)
        fixture_set_y(&f->train, i, y[i]);
    fixture_init(f, type);
}

/* Ratings are centred by their mean in ours, and made up around zero in the yardstick. */
static void centre_ratings(void)
{
    double mean = 0.0;
    for (size_t i = 0; i < ROWS; i++)
        mean += y[i] / ROWS;
    for (size_t i = 0; i < ROWS; i++)
        y[i] -= mean;
}

static void close_to(const double *a, const double *b, size_t n, const char *what)
{
    for (size_t j = 0; j < n; j++)
        cr_assert_float_eq(a[j], b[j], 1e-11 * (1 + fabs(b[j])), "%s %zu: %.17g, ours %.17g", what,
                           j, a[j], b[j]);
}

static void compare(const char *name, const struct model_type *type)
{
    struct state *s = open_at_a_point(name, type->data != DATA_NONE);
    struct fixture f;
    model_on_its_data(&f, type);
    cr_assert_eq(s->d, f.model->d);
    double *theta = fixture_array(s->d), *g = fixture_array(s->d), *scratch = fixture_array(s->d);
    memcpy(theta, s->theta, s->d * sizeof *theta);
    struct random before = s->random;
    if (type->data == DATA_TRIPLETS)
        centre_ratings();
    gradient(s, w.N);
    if (w.N > 0)
        add_batch(s, w.N);
    else
        s->g[0] -= normal(&before);
    model_gradient(f.model, theta, g, scratch, f.work);
    close_to(s->g, g, s->d, name);
    if (w.corrected) {
        type->grad_batch(f.model, theta, NULL, ROWS, g, scratch, f.work);
        close_to(s->squares, scratch, s->d, "square");
    }
    free(theta);
    free(g);
    free(scratch);
    fixture_release(&f);
    worker_close();
}

Test(yardstick, logistic_gradient_is_that_of_the_model)
{
    compare("logistic", &model_logistic);
}

Test(yardstick, factorization_gradient_is_that_of_the_model)
{
    compare("factorization", &model_matrix_factorization);
}

Test(yardstick, ica_gradient_is_that_of_the_model)
{
    compare("ica", &model_ica);
}

Test(yardstick, skew_normal_gradient_is_that_of_the_model)
{
    compare("skew_normal", &model_skew_normal);
}

Test(yardstick, a_batch_has_different_rows)
{
    struct workload workload = {.model = "logistic", .N = 50, .d = 2, .n = 20, .chains = 1};
    worker_open(&workload);
    uint64_t seen_in_any = 0;
    for (int round = 0; round < 40; round++) {
        uint64_t seen = 0;
        draw_batch(&states[0].random);
        for (size_t k = 0; k < w.n; k++)
            seen |= UINT64_C(1) << row_of(k);
        cr_assert_eq(__builtin_popcountll(seen), 20);
        seen_in_any |= seen;
    }
    cr_assert_eq(__builtin_popcountll(seen_in_any), 50);
    worker_close();
}

Test(yardstick, the_iteration_samples_its_target)
{
    struct workload workload = {.model = "skew_normal", .d = 1, .chains = 1, .sigma = 0.2};
    worker_open(&workload);
    worker_run("", 1, 2000000);
    double mean = states[0].mean[0], variance = states[0].m2[0] / 2e6;
    /* Skew normal with a = 1: mean 0.5642, variance 0.6817; batch means give 0.01 for the error. */
    cr_assert_float_eq(mean, 0.5642, 0.03, "%g", mean);
    cr_assert_float_eq(variance, 0.6817, 0.06, "%g", variance);
    worker_close();
}
