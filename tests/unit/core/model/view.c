/* Frames and views: the same target in other coordinates and other parts. */
#include "core/chain/chain.h"
#include "core/kernels/kernels.h"
#include "core/model/linear_predictor.h"
#include "core/model/view.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

/* A frame around a point of the model, as different from a diagonal one as a stable one can be; but
 * a scale behind the coefficients of a regression is by itself. */
static struct frame *some_frame(const struct model *m, enum frame_kind kind)
{
    size_t d = m->d;
    struct frame *frame;
    struct err_info info;
    double *centre = fixture_point(m, 3), *A = fixture_array(d * d);
    uint64_t state = 17;
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k <= j; k++)
            A[j * d + k] = j == k ? 0.2 + 0.3 * fixture_uniform(&state)
                                  : 0.1 * (fixture_uniform(&state) - 0.5);
    for (size_t k = 0; m->blocks[m->block_count - 1].rank == 0 && k + 1 < d; k++)
        A[(d - 1) * d + k] = 0;
    cr_assert_eq(frame_new(&frame, d, centre, kind == FRAME_DENSE ? A : NULL, d, &info), ERR_OK,
                 "%s", info.message);
    free(centre);
    free(A);
    return frame;
}

struct seen {
    struct fixture f;
    struct frame *frame;
    struct model *view;
    void *work;
    double *u, *theta;
};

static bool see(struct seen *s, const struct model_type *type, enum precision precision,
                enum frame_kind kind, bool control)
{
    struct err_info info;
    fixture_model(type, precision, &s->f);
    if (control && s->f.model->N == 0) {
        fixture_release(&s->f);
        return false;
    }
    s->frame = some_frame(s->f.model, kind);
    cr_assert_eq(view_new(&s->view, s->f.model, s->frame, control, &info), ERR_OK, "%s: %s",
                 type->name, info.message);
    s->work = fixture_alloc(s->view->work_bytes, 1);
    s->u = fixture_array(s->view->d);
    s->theta = fixture_array(s->view->d);
    uint64_t state = 5;
    for (size_t j = 0; j < s->view->d; j++)
        s->u[j] = fixture_uniform(&state) - 0.5;
    frame_to_user(s->frame, s->u, s->theta);
    return true;
}

static void unsee(struct seen *s)
{
    model_free(s->view);
    frame_free(s->frame);
    free(s->work);
    free(s->u);
    free(s->theta);
    fixture_release(&s->f);
}

static void every_view(enum precision precision, void (*check)(struct seen *s, const char *what))
{
    char what[80];
    for (size_t i = 0; i < model_count; i++)
        for (int kind = FRAME_SHIFT; kind <= FRAME_DENSE; kind++)
            for (int control = 0; control < 2; control++) {
                struct seen s;
                if (!see(&s, models[i], precision, (enum frame_kind)kind, control))
                    continue;
                snprintf(what, sizeof what, "%s, %s, %s", models[i]->name,
                         kind == FRAME_DENSE ? "dense" : "shift", control ? "control" : "plain");
                check(&s, what);
                unsee(&s);
            }
}

static void close_to(const double *a, const double *b, size_t d, double tolerance, const char *what)
{
    double most = 1e-300;
    for (size_t j = 0; j < d; j++)
        most = fmax(most, fmax(fabs(a[j]), fabs(b[j])));
    for (size_t j = 0; j < d; j++)
        cr_assert(fabs(a[j] - b[j]) <= tolerance * most, "%s, coordinate %zu: %.17g and %.17g",
                  what, j, a[j], b[j]);
}

static void full_gradient(struct seen *s, double *expected, double *got)
{
    size_t d = s->view->d;
    double *g = fixture_array(d), *scratch = fixture_array(d);
    model_gradient(s->f.model, s->theta, g, scratch, s->f.work);
    frame_gradient(s->frame, g, expected);
    model_gradient(s->view, s->u, got, scratch, s->work);
    free(g);
    free(scratch);
}

static void same_gradient(struct seen *s, const char *what, double tolerance)
{
    double *expected = fixture_array(s->view->d), *got = fixture_array(s->view->d);
    full_gradient(s, expected, got);
    close_to(got, expected, s->view->d, tolerance, what);
    free(expected);
    free(got);
}

static void same_gradient_double(struct seen *s, const char *what)
{
    same_gradient(s, what, 1e-11);
}

static void same_gradient_single(struct seen *s, const char *what)
{
    same_gradient(s, what, 3e-5);
}

Test(view, full_gradient_is_that_of_the_model)
{
    every_view(PRECISION_DOUBLE, same_gradient_double);
    every_view(PRECISION_SINGLE, same_gradient_single);
}

/* What a linear predictor says of the rest of the gradient is what grad_fixed does. */
static void expect_fixed(const struct model *m, const double *u, void *work, const char *what)
{
    const struct linear *l = m->linear;
    size_t d = m->d;
    double *g = fixture_array(d);
    m->type->grad_fixed(m, u, g, work);
    cr_assert(l->constant != NULL || l->free_psi || m->fixed_terms > 0, "%s says nothing", what);
    cr_assert(l->constant == NULL || m->fixed_terms == 0, "%s: the head is not linear", what);
    for (size_t j = 0; l->constant != NULL && j < d; j++) {
        double said = l->constant[j], size = fabs(said);
        for (size_t k = 0; k < d; k++) {
            double term = u[k] * (l->curvature != NULL ? l->curvature[k * padded(d) + j]
                                  : j == k             ? l->diagonal[j]
                                                       : 0.0);
            said += term;
            size += fabs(term);
        }
        double allowed = l->curvature != NULL ? 1e-15 * size : 0.0; /* it may be fused */
        cr_assert(fabs(said - g[j]) <= allowed, "%s, %zu: %a, not %a", what, j, g[j], said);
    }
    free(g);
}

static void same_fixed(struct seen *s, const char *what)
{
    static const double sd[FIXTURE_COLUMNS] = {0.5, 2.385, 1.7, 11.0, 0.3};
    struct err_info info;
    if (s->view->linear == NULL)
        return;
    expect_fixed(s->view, s->u, s->work, what);
    expect_fixed(s->f.model, s->theta, s->f.work, what);
    if (s->f.model->type->set_list == NULL)
        return;
    cr_assert_eq(s->f.model->type->set_list(s->f.model, 0, sd, FIXTURE_COLUMNS, &info), ERR_OK);
    expect_fixed(s->f.model, s->theta, s->f.work, what);
}

Test(view, what_is_said_of_the_fixed_part_is_the_fixed_part)
{
    every_view(PRECISION_DOUBLE, same_fixed);
    every_view(PRECISION_SINGLE, same_fixed);
}

static void same_density(struct seen *s, const char *what)
{
    cr_expect_eq(model_log_density(s->view, s->u, s->work),
                 model_log_density(s->f.model, s->theta, s->f.work), "%s", what);
}

Test(view, log_density_is_that_of_the_model)
{
    every_view(PRECISION_DOUBLE, same_density);
}

static bool is_linearised(const struct seen *s)
{
    const struct linear *l = s->f.model->linear;
    return s->view->differences && s->frame->kind == FRAME_DENSE && l != NULL && l->step == 0;
}

/* The gradient of a term in the frame's coordinates, at the centre and so far along a direction. */
static void term_along(struct seen *s, uint32_t row, const double *direction, double far,
                       double *out)
{
    const struct model *m = s->f.model;
    double *u = fixture_array(m->d), *theta = fixture_array(m->d), *g = fixture_array(m->d);
    for (size_t j = 0; j < m->d; j++)
        u[j] = far * direction[j];
    frame_to_user(s->frame, u, theta);
    m->type->grad_batch(m, theta, &row, 1, g, NULL, s->f.work);
    frame_gradient(s->frame, g, out);
    free(u);
    free(theta);
    free(g);
}

/* What a dense view takes from a difference: a line in x'u, whose slope is that of a chord over
 * sqrt(3) sds of x'u to either side, or twice that at the centre. */
static void straighten(struct seen *s, uint32_t row, double *out)
{
    size_t d = s->view->d;
    const struct linear *l = s->f.model->linear;
    const struct dataset *data = l->data;
    double *x = fixture_array(d), *transformed = fixture_array(d);
    double *low = fixture_array(d), *high = fixture_array(d), square = 0, along = 0;
    double eta = data->offset != NULL ? data->offset[row] : 0, weight;
    size_t at = 0;
    for (size_t j = 0; j < d; j++)
        x[j] = ((const double *)data->x)[row * data->stride + j];
    frame_gradient(s->frame, x, transformed);
    for (size_t j = 0; j < d; j++) {
        square += transformed[j] * transformed[j];
        along += transformed[j] * s->u[j];
    }
    term_along(s, row, transformed, -sqrt(3 / square), low);
    term_along(s, row, transformed, sqrt(3 / square), high);
    for (size_t j = 0; j < d; j++) {
        eta += x[j] * s->frame->centre[j];
        at = fabs(transformed[j]) > fabs(transformed[at]) ? j : at;
    }
    struct law law = {.link = l->link, .psi = l->psi, .dof = l->dof};
    kernels->law(&law, LAW_WEIGHT, &eta, data->y + row, &weight, 1);
    weight = fmin((low[at] - high[at]) / transformed[at] / (2 * sqrt(3 * square)), 2 * weight);
    for (size_t j = 0; j < d; j++)
        out[j] += along * weight * transformed[j];
    free(x);
    free(transformed);
    free(low);
    free(high);
}

/* Sums and squares of a batch against single terms: the gradient of a term in the user's
 * coordinates, less that at the centre with control variates, transformed into the frame's. */
static void term(struct seen *s, uint32_t row, double *out)
{
    const struct model *m = s->f.model;
    double *here = fixture_array(m->d), *at_centre = fixture_array(m->d);
    m->type->grad_batch(m, s->theta, &row, 1, here, NULL, s->f.work);
    if (s->view->differences)
        m->type->grad_batch(m, s->frame->centre, &row, 1, at_centre, NULL, s->f.work);
    for (size_t j = 0; j < m->d; j++)
        here[j] -= at_centre[j];
    frame_gradient(s->frame, here, out);
    if (is_linearised(s))
        straighten(s, row, out);
    free(here);
    free(at_centre);
}

/* The same, of a row that grad_fixed may have already. */
static void term_of_minibatch(struct seen *s, uint32_t row, double *out)
{
    size_t d = s->view->d;
    double *alone = fixture_array(d), size = 0.0;
    s->view->type->grad_batch(s->view, s->u, &row, 1, alone, NULL, s->work);
    for (size_t j = 0; j < d; j++)
        size += fabs(alone[j]);
    if (s->view->fixed_terms > 0 && size == 0.0)
        memset(out, 0, d * sizeof *out);
    else
        term(s, row, out);
    free(alone);
}

static bool has_own_squares(const struct seen *s)
{
    return s->frame->kind == FRAME_SHIFT || s->f.model->type->view != NULL;
}

static void same_terms(struct seen *s, const char *what)
{
    enum { SOME = 33 };
    size_t d = s->view->d;
    if (s->view->N == 0)
        return;
    uint32_t idx[SOME];
    double *sum = fixture_array(d), *squares = fixture_array(d), *one = fixture_array(d);
    double *expected = fixture_array(d), *expected_squares = fixture_array(d);
    for (uint32_t k = 0; k < SOME; k++) {
        idx[k] = (k * 7 + 3) % (uint32_t)s->view->N;
        term_of_minibatch(s, idx[k], one);
        for (size_t j = 0; j < d; j++) {
            expected[j] += one[j];
            expected_squares[j] += one[j] * one[j];
        }
    }
    s->view->type->grad_batch(s->view, s->u, idx, SOME, sum, NULL, s->work);
    close_to(sum, expected, d, 1e-11, what);
    s->view->type->grad_batch(s->view, s->u, idx, SOME, sum, squares, s->work);
    close_to(sum, expected, d, 1e-11, what);
    if (has_own_squares(s))
        close_to(squares, expected_squares, d, 1e-10, what);
    free(sum);
    free(squares);
    free(one);
    free(expected);
    free(expected_squares);
}

Test(view, terms_are_those_of_the_model_or_differences_of_them)
{
    every_view(PRECISION_DOUBLE, same_terms);
}

/* Largest sd of a term times N at u, in the coordinates of the frame; NaN: terms are not there. */
static double noise_of(const struct model *view, const double *u, void *work)
{
    double *sum = fixture_array(view->d), *squares = fixture_array(view->d), most = 0;
    double N = (double)view->N;
    view->type->grad_batch(view, u, NULL, view->N, sum, squares, work);
    for (size_t j = 0; j < view->d; j++)
        most = fmax(most, sqrt(N * squares[j] - sum[j] * sum[j]));
    free(sum);
    free(squares);
    return most;
}

/* Where the rows are many and each says little, next to nothing is left to be wrong about. */
Test(view, differences_of_rows_that_say_little_have_next_to_no_noise)
{
    static const struct model_type *const types[] = {&model_logistic, &model_probit,
                                                     &model_poisson};
    struct err_info info;
    for (size_t i = 0; i < 3; i++)
        for (int p = 0; p < 2; p++) {
            struct seen s;
            struct model *shifted;
            cr_assert(
                see(&s, types[i], p ? PRECISION_SINGLE : PRECISION_DOUBLE, FRAME_DENSE, true));
            size_t d = s.view->d;
            double *A = fixture_array(d * padded(d)), *at_centre = fixture_array(d);
            for (size_t j = 0; j < d * padded(d); j++)
                A[j] = 0.02 * s.frame->rows[j];
            struct frame *small, *shift;
            cr_assert_eq(frame_new(&small, d, s.frame->centre, A, padded(d), &info), ERR_OK);
            cr_assert_eq(frame_new(&shift, d, s.frame->centre, NULL, 0, &info), ERR_OK);
            model_free(s.view);
            cr_assert_eq(view_new(&s.view, s.f.model, small, true, &info), ERR_OK);
            cr_assert_eq(view_new(&shifted, s.f.model, shift, true, &info), ERR_OK);
            frame_to_user(small, s.u, at_centre);
            for (size_t j = 0; j < d; j++)
                at_centre[j] -= small->centre[j];
            double scale = 0;
            for (size_t j = 0; j < d; j++)
                scale = fmax(scale, small->rows[j * padded(d) + j]);
            double ours = noise_of(s.view, s.u, s.work);
            double before = scale * noise_of(shifted, at_centre, s.work);
            cr_expect(ours < 0.1 * before, "%s: noise %g, of plain differences about %g",
                      types[i]->name, ours, before);
            model_free(shifted);
            frame_free(small);
            frame_free(shift);
            free(A);
            free(at_centre);
            unsee(&s);
        }
}

static double length(const double *x, size_t d)
{
    double square = 0;
    for (size_t j = 0; j < d; j++)
        square += x[j] * x[j];
    return sqrt(square);
}

/* However far a frame says that draws go: a posterior that little but the prior holds is not
 * normal, and never gets where a row's residual is steep. */
Test(view, near_the_centre_no_row_is_left_with_more_than_its_difference)
{
    static const struct model_type *const types[] = {&model_logistic, &model_probit,
                                                     &model_poisson};
    struct err_info info;
    for (size_t i = 0; i < 3; i++) {
        struct seen s;
        struct frame *wide, *shift;
        struct model *shifted;
        cr_assert(see(&s, types[i], PRECISION_DOUBLE, FRAME_DENSE, true));
        size_t d = s.view->d;
        double *A = fixture_array(d * padded(d)), *at_centre = fixture_array(d);
        double *left = fixture_array(d), *user = fixture_array(d), *difference = fixture_array(d);
        for (size_t j = 0; j < d * padded(d); j++)
            A[j] = 30 * s.frame->rows[j];
        cr_assert_eq(frame_new(&wide, d, s.frame->centre, A, padded(d), &info), ERR_OK);
        cr_assert_eq(frame_new(&shift, d, s.frame->centre, NULL, 0, &info), ERR_OK);
        model_free(s.view);
        cr_assert_eq(view_new(&s.view, s.f.model, wide, true, &info), ERR_OK);
        cr_assert_eq(view_new(&shifted, s.f.model, shift, true, &info), ERR_OK);
        for (size_t j = 0; j < d; j++)
            s.u[j] *= 1e-6;
        frame_to_user(wide, s.u, at_centre);
        for (size_t j = 0; j < d; j++)
            at_centre[j] -= wide->centre[j];
        for (uint32_t row = 0; row < s.view->N; row++) {
            s.view->type->grad_batch(s.view, s.u, &row, 1, left, NULL, s.work);
            shifted->type->grad_batch(shifted, at_centre, &row, 1, user, NULL, s.work);
            frame_gradient(wide, user, difference);
            cr_assert(length(left, d) <= 1.01 * length(difference, d) + 1e-12,
                      "%s, row %u: %g, the difference is %g", types[i]->name, row, length(left, d),
                      length(difference, d));
        }
        model_free(shifted);
        frame_free(wide);
        frame_free(shift);
        free(A);
        free(at_centre);
        free(left);
        free(user);
        free(difference);
        unsee(&s);
    }
}

/* Where the terms of a dense view come in groups, tau is estimated with fewer degrees of freedom:
 * right on average over batches. */
static void average_tau(struct seen *s, const char *what)
{
    enum { SOME = 24, BATCHES = 400 };
    size_t d = s->view->d;
    if (s->view->N == 0 || has_own_squares(s))
        return;
    double *sum = fixture_array(d), *squares = fixture_array(d), *one = fixture_array(d);
    double *mean = fixture_array(d), *exact = fixture_array(d), *variance = fixture_array(d);
    double N = (double)s->view->N, ratio = 0;
    for (uint32_t i = 0; i < s->view->N; i++) {
        term(s, i, one);
        for (size_t j = 0; j < d; j++) {
            mean[j] += one[j] / N;
            exact[j] += one[j] * one[j];
        }
    }
    uint64_t state = 11;
    for (int b = 0; b < BATCHES; b++) {
        uint32_t idx[SOME];
        for (size_t k = 0; k < SOME; k++)
            idx[k] = (uint32_t)(N * fixture_uniform(&state));
        s->view->type->grad_batch(s->view, s->u, idx, SOME, sum, squares, s->work);
        for (size_t j = 0; j < d; j++)
            variance[j] += (squares[j] - sum[j] * sum[j] / SOME) / (SOME - 1) / BATCHES;
    }
    double count = 0; /* of coordinates that the data touch */
    for (size_t j = 0; j < d; j++) {
        double true_variance = exact[j] / N - mean[j] * mean[j];
        ratio += true_variance > 1e-12 ? variance[j] / true_variance : 0;
        count += true_variance > 1e-12;
    }
    ratio /= count;
    cr_expect(fabs(ratio - 1) < 0.05, "%s: average variance of a term %g times the true one", what,
              ratio);
    free(sum);
    free(squares);
    free(one);
    free(mean);
    free(exact);
    free(variance);
}

Test(view, noise_of_grouped_terms_is_right_on_average)
{
    every_view(PRECISION_DOUBLE, average_tau);
}

Test(frame, coordinates_go_there_and_back)
{
    struct fixture f;
    fixture_model(&model_ica, PRECISION_DOUBLE, &f);
    for (int kind = FRAME_SHIFT; kind <= FRAME_DENSE; kind++) {
        struct frame *frame = some_frame(f.model, (enum frame_kind)kind);
        double *u = fixture_array(f.model->d), *theta = fixture_array(f.model->d);
        double *back = fixture_array(f.model->d), *at = fixture_point(f.model, 8);
        frame_from_user(frame, at, u);
        frame_to_user(frame, u, theta);
        close_to(theta, at, f.model->d, 1e-13, "there and back");
        frame_from_user(frame, theta, back);
        close_to(back, u, f.model->d, 1e-12, "back again");
        free(u);
        free(theta);
        free(back);
        free(at);
        frame_free(frame);
    }
    fixture_release(&f);
}

Test(frame, bytes_are_the_frame_or_refused)
{
    struct fixture f;
    struct err_info info;
    fixture_model(&model_logistic, PRECISION_DOUBLE, &f);
    for (int kind = FRAME_SHIFT; kind <= FRAME_DENSE; kind++) {
        struct frame *frame = some_frame(f.model, (enum frame_kind)kind), *again = NULL;
        size_t size = frame_save_size(frame);
        unsigned char *bytes = malloc(size);
        frame_save(frame, bytes);
        cr_assert_eq(frame_load(&again, bytes, size, &info), ERR_OK, "%s", info.message);
        cr_expect_eq(frame_fingerprint(again), frame_fingerprint(frame));
        _Alignas(ALIGNMENT) double g[PAD] = {0, 1, 2, 3, 4}, a[PAD] = {0}, b[PAD] = {0};
        frame_gradient(frame, g, a);
        frame_gradient(again, g, b);
        cr_expect_arr_eq(a, b, sizeof a);
        frame_free(again);
        for (size_t at = 0; at < size; at++) {
            bytes[at] ^= 4;
            cr_expect_eq(frame_load(&again, bytes, size, &info), ERR_CORRUPT, "byte %zu", at);
            bytes[at] ^= 4;
        }
        for (size_t cut = 0; cut < size; cut += 7)
            cr_expect_eq(frame_load(&again, bytes, cut, &info), ERR_CORRUPT, "%zu bytes", cut);
        free(bytes);
        frame_free(frame);
    }
    fixture_release(&f);
}

Test(frame, a_matrix_that_cannot_be_one_is_refused)
{
    static const double bad[][4] = {
        {0, 0, 0, 1}, {1, 0, 0, -1}, {1, 0, NAN, 1}, {INFINITY, 0, 0, 1}};
    double centre[PAD] = {0};
    struct frame *frame;
    struct err_info info;
    for (size_t i = 0; i < 4; i++)
        cr_expect_eq(frame_new(&frame, 2, centre, bad[i], 2, &info), ERR_INVALID, "%zu", i);
    centre[1] = NAN;
    cr_expect_eq(frame_new(&frame, 2, centre, NULL, 0, &info), ERR_INVALID);
}

Test(view, control_variates_need_data)
{
    struct fixture f;
    struct err_info info;
    struct model *view;
    fixture_model(&model_skew_normal, PRECISION_DOUBLE, &f);
    struct frame *frame = some_frame(f.model, FRAME_SHIFT);
    cr_expect_eq(view_new(&view, f.model, frame, true, &info), ERR_UNSUPPORTED);
    frame_free(frame);
    fixture_release(&f);
}
