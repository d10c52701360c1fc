/* Gradients at draws: of all rows exactly, of blocks of rows without a bias. */
#include "core/diagnostics/scores.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>

struct world {
    struct fixture f;
    struct scores scores;
    double *centre, *theta, *g, *exact, *scratch;
};

/* Leaves the last column at 1 in every `apart`-th row, and at 0 elsewhere. */
static void make_rare(struct dataset *data, size_t apart)
{
    double *x = (double *)(uintptr_t)data->x;
    for (size_t i = 0; i < data->N; i++)
        x[i * data->stride + 3] = i % apart == 0;
}

static void begin(struct world *w, size_t rows, size_t apart, size_t blocks)
{
    struct err_info info;
    *w = (struct world){.f = {.params = {1.5}}};
    fixture_rows(&w->f.train, DATA_REGRESSION, PRECISION_DOUBLE, rows, 4, 404);
    if (apart > 0)
        make_rare(&w->f.train, apart);
    fixture_init(&w->f, &model_logistic);
    w->centre = fixture_array(4);
    w->theta = fixture_array(4);
    w->g = fixture_array(4);
    w->exact = fixture_array(4);
    w->scratch = fixture_array(4);
    for (size_t j = 0; j < 4; j++) {
        w->centre[j] = 0.1 * (double)j;
        w->theta[j] = 0.3 - 0.2 * (double)j;
    }
    model_gradient(w->f.model, w->theta, w->exact, w->scratch, w->f.work);
    cr_assert_eq(scores_init(&w->scores, w->f.model, w->centre, blocks, 7, &info), ERR_OK);
}

static void end(struct world *w)
{
    scores_release(&w->scores);
    free(w->centre);
    free(w->theta);
    free(w->g);
    free(w->exact);
    free(w->scratch);
    fixture_release(&w->f);
}

/* Every block comes once in a round, so that the mean of a round is exact. */
Test(scores, the_mean_of_all_blocks_is_the_gradient)
{
    for (size_t blocks = 1; blocks <= 60; blocks += 19) {
        struct world w;
        double mean[4] = {0}, most = 0.0;
        begin(&w, 1000, 0, blocks);
        cr_expect_leq(w.scores.head_count, 20);
        for (size_t k = 0; k < blocks; k++) {
            scores_at(&w.scores, 3 * blocks + k, w.theta, w.g);
            for (size_t j = 0; j < 4; j++) {
                mean[j] += w.g[j] / (double)blocks;
                most = fmax(most, fabs(w.g[j] - w.exact[j]));
            }
        }
        for (size_t j = 0; j < 4; j++)
            cr_expect_float_eq(mean[j], w.exact[j], 1e-9 * 1000, "%zu blocks: %g, not %g", blocks,
                               mean[j], w.exact[j]);
        if (blocks > 1)
            cr_expect_gt(most, 0.1, "blocks differ");
        end(&w);
    }
}

/* The rare column's share of the gradient, which blocks without these rows would miss, is exact. */
Test(scores, rows_of_a_rare_category_are_read_at_every_draw)
{
    struct world w;
    size_t blocks = 10, apart = 997;
    double mean[4] = {0}, others = 0.0;
    begin(&w, 8000, apart, blocks);
    cr_expect_leq(w.scores.head_count, 40, "%zu rows", w.scores.head_count);
    for (size_t k = 0; k < blocks; k++) {
        scores_at(&w.scores, k, w.theta, w.g);
        cr_expect_float_eq(w.g[3], w.exact[3], 1e-9, "draw %zu: %g, not %g", k, w.g[3], w.exact[3]);
        others = fmax(others, fabs(w.g[0] - w.exact[0]));
        for (size_t j = 0; j < 4; j++)
            mean[j] += w.g[j] / (double)blocks;
    }
    cr_expect_gt(others, 0.1, "blocks differ");
    for (size_t j = 0; j < 4; j++)
        cr_expect_float_eq(mean[j], w.exact[j], 1e-8 * 8000, "%g, not %g", mean[j], w.exact[j]);
    end(&w);
}

Test(scores, blocks_keep_the_passes_within_what_is_allowed)
{
    cr_expect_eq(scores_blocks(2000, 2000), 1);
    cr_expect_eq(scores_blocks(2000, 1999), 3);
    cr_expect_eq(scores_blocks(2000, 20), 200);
}
