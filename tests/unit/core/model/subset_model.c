/* A model on some of its rows, against the model. */
#include "core/model/subset_model.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static void place(const struct fixture *f, double *theta)
{
    struct rng rng;
    double *scratch = fixture_array(f->model->d);
    rng_seed(&rng, 7, 1, RNG_START);
    f->model->type->start_value(f->model, START_PRIOR, &rng, theta, scratch);
    free(scratch);
}

static struct model *subset_of(const struct fixture *f, size_t rows)
{
    struct model *subset = NULL;
    struct err_info info = {0};
    cr_assert_eq(subset_model_new(&subset, f->model, rows, &info), ERR_OK, "%s", info.message);
    return subset;
}

static void expect_close(double a, double b, const char *what, size_t j)
{
    cr_expect_float_eq(a, b, 1e-9 * (1.0 + fabs(b)), "%s[%zu]: %.15g, not %.15g", what, j, a, b);
}

Test(subset_model, of_all_rows_is_the_model)
{
    for (size_t k = 0; k < model_count; k++) {
        struct fixture f;
        fixture_model(models[k], PRECISION_DOUBLE, &f);
        size_t d = f.model->d, N = f.model->N;
        if (N > 0) {
            struct model *subset = subset_of(&f, N);
            double *theta = fixture_array(d), *g = fixture_array(d), *h = fixture_array(d),
                   *scratch = fixture_array(d);
            place(&f, theta);
            model_gradient(f.model, theta, g, scratch, f.work);
            model_gradient(subset, theta, h, scratch, f.work);
            for (size_t j = 0; j < d; j++)
                expect_close(h[j], g[j], models[k]->name, j);
            expect_close(model_log_density(subset, theta, f.work),
                         model_log_density(f.model, theta, f.work), models[k]->name, 0);
            model_free(subset);
            free(theta), free(g), free(h), free(scratch);
        }
        fixture_release(&f);
    }
}

/* Every third of 60 rows counts three times, in sums, squares and densities; terms asked for by
 * index are the model's own. */
Test(subset_model, a_row_stands_for_its_neighbours)
{
    struct fixture f = {.params = {1.5}};
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 60, 5, 404);
    fixture_init(&f, &model_logistic);
    struct model *subset = subset_of(&f, 20);
    uint32_t rows[20], some[] = {4, 59, 7};
    for (uint32_t i = 0; i < 20; i++)
        rows[i] = 3 * i;
    size_t d = f.model->d;
    const struct model_type *whole = f.model->type, *part = subset->type;
    double *theta = fixture_array(d), *sums[4];
    for (size_t k = 0; k < 4; k++)
        sums[k] = fixture_array(d);
    place(&f, theta);
    whole->grad_batch(f.model, theta, rows, 20, sums[0], sums[1], f.work);
    part->grad_batch(subset, theta, NULL, subset->N, sums[2], sums[3], f.work);
    for (size_t j = 0; j < d; j++) {
        expect_close(sums[2][j], 3.0 * sums[0][j], "sum", j);
        expect_close(sums[3][j], 3.0 * sums[1][j], "squares", j);
    }
    expect_close(part->log_batch(subset, theta, NULL, subset->N, f.work),
                 3.0 * whole->log_batch(f.model, theta, rows, 20, f.work), "log", 0);
    whole->grad_batch(f.model, theta, some, 3, sums[0], NULL, f.work);
    part->grad_batch(subset, theta, some, 3, sums[2], NULL, f.work);
    cr_expect_arr_eq(sums[2], sums[0], d * sizeof *sums[0]);
    cr_expect_eq(subset->full_terms, f.model->N / 3);
    for (size_t k = 0; k < 4; k++)
        free(sums[k]);
    free(theta);
    model_free(subset);
    fixture_release(&f);
}
