/* Rare categories and covariates with heavy tails: their rows are found by the pass over all rows,
 * and noise levels are those of all rows. */
#include "core/kernels/kernels.h"
#include "core/model/gradient.h"
#include "tests/unit/core/plan/plan_fixture.h"

enum data_of { RARE, RARE_AMONG_NORMAL, CAUCHY, EVEN };

static const size_t ones[] = {40, 10, 3}; /* rows of every rare category */

struct case_of {
    struct fixture f;
    struct plan_request request;
    struct plan *plan;
    struct model *view;
    double *u, *g, *scratch;
    void *work;
};

static double covariate(enum data_of data, size_t j, uint64_t *state)
{
    if (data == RARE)
        return j < 4 ? (double)(fixture_uniform(state) < 0.3) : 0.0;
    if (data == CAUCHY && j == 4)
        return tan(M_PI * (fixture_uniform(state) - 0.5));
    return data == RARE_AMONG_NORMAL && j >= 4 ? 0.0 : fixture_normal(state);
}

/* Seven columns and an intercept. */
static void fill(struct dataset *data, enum data_of kind, size_t N)
{
    uint64_t state = 2385;
    fixture_rows(data, DATA_REGRESSION, PRECISION_SINGLE, N, 8, 1);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < 8; j++)
            fixture_set(data, i, j, j == 7 ? 1.0 : covariate(kind, j, &state));
    for (size_t k = 0; (kind == RARE || kind == RARE_AMONG_NORMAL) && k < 3; k++)
        for (size_t c = 0; c < ones[k]; c++)
            fixture_set(data, (size_t)((double)N * fixture_uniform(&state)), 4 + k, 1.0);
    for (size_t i = 0; i < N; i++) {
        double eta = -1.0;
        for (size_t j = 0; j < 7; j++)
            eta += kind == CAUCHY && j == 4 ? 0.0 : (j % 2 ? 0.3 : -0.3) * fixture_get(data, i, j);
        fixture_set_y(data, i, fixture_uniform(&state) < 1 / (1 + exp(-eta)));
    }
}

static void view_of(struct case_of *c)
{
    struct err_info info;
    if (c->view != NULL)
        model_free(c->view);
    cr_assert_eq(plan_view(&c->view, c->plan, c->f.model, &info), ERR_OK);
}

static void begin(struct case_of *c, enum data_of data, size_t N)
{
    *c = (struct case_of){.f = {.params = {10}}};
    fill(&c->f.train, data, N);
    fixture_init(&c->f, &model_logistic);
    c->request = everything_auto(c->f.model);
    c->request.estimator = ESTIMATOR_CONTROL; /* few distinct rows would take a full batch */
    c->plan = made(&c->request);
    cr_assert(c->plan->control && c->plan->precondition == PRECONDITION_DENSE);
    view_of(c);
    c->u = fixture_array(8);
    c->g = fixture_array(8);
    c->scratch = fixture_array(8);
    c->work = fixture_alloc(c->view->work_bytes, 1);
}

static void end(struct case_of *c)
{
    model_free(c->view);
    plan_free(c->plan);
    free(c->u);
    free(c->g);
    free(c->scratch);
    free(c->work);
    fixture_release(&c->f);
}

static void draw_u(struct case_of *c, uint64_t *state)
{
    for (size_t j = 0; j < 8; j++)
        c->u[j] = fixture_normal(state);
}

/* Rows that minibatches no longer have. */
static bool in_head(struct case_of *c, uint32_t row)
{
    double size = 0.0;
    c->view->type->grad_batch(c->view, c->u, &row, 1, c->g, NULL, c->work);
    for (size_t j = 0; j < 8; j++)
        size += fabs(c->g[j]);
    return size == 0.0;
}

static bool is_rare(const struct case_of *c, size_t row)
{
    bool rare = false;
    for (size_t j = 4; j < 7; j++)
        rare = rare || fixture_get(&c->f.train, row, j) != 0.0;
    return rare;
}

/* All of them, and no other: also where all rows have few kinds. */
Test(rows_that_matter, rows_of_rare_categories_are_in_every_estimate)
{
    for (enum data_of data = RARE; data <= RARE_AMONG_NORMAL; data++) {
        struct case_of c;
        uint64_t state = 3;
        size_t rare = 0;
        begin(&c, data, 200000);
        draw_u(&c, &state);
        for (uint32_t i = 0; i < 200000; i++) {
            rare += is_rare(&c, i);
            cr_assert_eq(in_head(&c, i), is_rare(&c, i), "data %d, row %u", (int)data, i);
        }
        cr_expect_eq(c.view->fixed_terms, rare);
        cr_expect_leq(rare, 53);
        cr_expect_geq(rare, 50);
        end(&c);
    }
}

Test(rows_that_matter, leverage_points_are_and_rows_that_are_alike_are_not)
{
    struct case_of c;
    uint64_t state = 3;
    double least = INFINITY, most = 0.0;
    begin(&c, CAUCHY, 50000);
    draw_u(&c, &state);
    cr_expect_geq(c.view->fixed_terms, 3);
    cr_expect_leq(c.view->fixed_terms, 100);
    for (uint32_t i = 0; i < 50000; i++) {
        double x = fabs(fixture_get(&c.f.train, i, 4));
        bool head = in_head(&c, i);
        least = head ? fmin(least, x) : least;
        most = head ? most : fmax(most, x);
    }
    cr_expect_gt(least, 0.3 * most, "rows of %g and more, and none of %g", least, most);
    end(&c);
    begin(&c, EVEN, 50000);
    cr_expect_eq(c.view->fixed_terms, 0);
    end(&c);
}

/* The mean over many minibatches is the gradient of all rows, and the full batch has it exactly. */
static void expect_unbiased(struct case_of *c, const double *exact, uint32_t one_in)
{
    enum { TIMES = 20000 };
    struct gradient gs;
    struct err_info info;
    struct rng rng[RNG_PURPOSES];
    double mean[8] = {0}, square[8] = {0};
    cr_assert_eq(gradient_init(&gs, c->view, 16, false, &info), ERR_OK);
    gradient_set_skip(&gs, one_in, 3);
    for (uint64_t p = 0; p < RNG_PURPOSES; p++)
        rng_seed(&rng[p], 1, 1, p);
    for (uint64_t t = 1; t <= TIMES; t++) {
        gradient_estimate_running(&gs, c->u, t, rng, c->g, NULL, NULL);
        for (size_t j = 0; j < 8; j++) {
            mean[j] += c->g[j] / TIMES;
            square[j] += c->g[j] * c->g[j] / TIMES;
        }
    }
    for (size_t j = 0; j < 8; j++) {
        double error = sqrt((square[j] - mean[j] * mean[j]) / TIMES) + 1e-4 / sqrt(TIMES);
        cr_expect_float_eq(mean[j], exact[j], 4.0 * error + 2e-5, "one in %u, %zu: %g, not %g",
                           one_in, j, mean[j], exact[j]);
    }
    gradient_release(&gs);
}

Test(rows_that_matter, the_estimate_is_unbiased)
{
    for (enum data_of data = RARE; data <= CAUCHY; data++) {
        struct case_of c;
        uint64_t state = 3;
        double theta[PAD] __attribute__((aligned(ALIGNMENT))) = {0}, *exact = fixture_array(8);
        begin(&c, data, 50000);
        cr_assert_gt(c.view->fixed_terms, 0);
        draw_u(&c, &state);
        frame_to_user(c.plan->frame, c.u, theta);
        model_gradient(c.f.model, theta, c.g, c.scratch, c.f.work);
        frame_gradient(c.plan->frame, c.g, exact);
        model_gradient(c.view, c.u, c.g, c.scratch, c.work);
        for (size_t j = 0; j < 8; j++)
            cr_expect_float_eq(c.g[j], exact[j], 1e-4, "all rows: %g, not %g", c.g[j], exact[j]);
        memcpy(exact, c.g, 8 * sizeof *exact);
        expect_unbiased(&c, exact, 1);
        expect_unbiased(&c, exact, 5);
        free(exact);
        end(&c);
    }
}

Test(rows_that_matter, every_instruction_set_with_fused_operations_finds_the_same)
{
    const char *before = kernels->isa;
    struct case_of c;
    uint64_t state = 3;
    double first[8];
    size_t head = 0;
    begin(&c, CAUCHY, 20000);
    draw_u(&c, &state);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        if (!(*k)->fused)
            continue;
        kernels_choose((*k)->isa);
        view_of(&c);
        model_gradient(c.view, c.u, c.g, c.scratch, c.work);
        if (head == 0) {
            head = c.view->fixed_terms;
            memcpy(first, c.g, sizeof first);
        }
        cr_expect_eq(c.view->fixed_terms, head);
        cr_expect_arr_eq(c.g, first, sizeof first, "%s", (*k)->isa);
    }
    cr_assert_gt(head, 0);
    kernels_choose(before);
    end(&c);
}

/* By all rows at many normal draws. */
Test(rows_that_matter, noise_levels_are_those_of_all_rows_and_many_draws)
{
    enum { POINTS = 2500 };
    for (enum data_of data = RARE; data <= EVEN; data++) {
        struct case_of c;
        uint64_t state = 7;
        double square[8] = {0}, *squares = fixture_array(8);
        size_t N = 10000;
        begin(&c, data, N);
        for (int k = 0; k < POINTS; k++) {
            draw_u(&c, &state);
            c.view->type->grad_batch(c.view, c.u, NULL, N, c.g, squares, c.work);
            for (size_t j = 0; j < 8; j++)
                square[j] += squares[j] / (double)N / POINTS;
        }
        for (size_t j = 0; j < 8; j++)
            cr_expect_float_eq(c.view->term_rms[j], sqrt(square[j]), 0.1 * sqrt(square[j]),
                               "data %d, %zu: %g, not %g", (int)data, j, c.view->term_rms[j],
                               sqrt(square[j]));
        free(squares);
        end(&c);
    }
}
