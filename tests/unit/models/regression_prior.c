/* Priors that are set one by one: means, sds, an intercept at the means of the columns, scales. */
#include "core/model/frame.h"
#include "core/model/linear_prior.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <math.h>

#define COLUMNS 4

static const double precision[COLUMNS] = {0.5, 2.0, 0.3, 0.0},
                    mean[COLUMNS] = {0.2, -1.0, 3.0, 0.0};
/* (theta_4 + 1.5 theta_1 - 0.7 theta_2 + 0.1 theta_3 - 0.4) / 2 */
static const double along[COLUMNS] = {0.75, -0.35, 0.05, 0.5};

static const struct linear_prior priors[] = {
    {.precision = precision,
     .mean = mean,
     .along = along,
     .along_mean = 0.2,
     .scale = {SCALE_HALF_T, 1.7}},
    {.precision = precision,
     .along = along,
     .along_mean = -0.3,
     .scale = {SCALE_INVERSE_ROOT, 1.2}},
    {.precision = (const double[COLUMNS]){0.5, 2.0, 0.3, 1.1},
     .mean = mean,
     .scale = {SCALE_EXPONENTIAL, 0.8}},
};
enum { PRIORS = sizeof priors / sizeof priors[0] };

struct world {
    struct fixture f;
    size_t d;
    double *theta, *g, *scratch;
};

static void begin(struct world *w, const struct model_type *type, const struct linear_prior *prior)
{
    struct err_info info;
    *w = (struct world){.f = {.params = {1.5, 0.0, 2.0}}};
    fixture_rows(&w->f.train, DATA_REGRESSION, PRECISION_DOUBLE, 60, COLUMNS, 404);
    fixture_init(&w->f, type);
    w->d = w->f.model->d;
    w->theta = fixture_array(w->d);
    w->g = fixture_array(w->d);
    w->scratch = fixture_array(w->d);
    for (size_t j = 0; j < w->d; j++)
        w->theta[j] = 0.3 - 0.25 * (double)j;
    cr_assert_eq(type->set_prior(w->f.model, prior, &info), ERR_OK);
}

static void end(struct world *w)
{
    free(w->theta);
    free(w->g);
    free(w->scratch);
    fixture_release(&w->f);
}

static double density(const struct linear_prior *p, const double *theta)
{
    double sum = 0.0, all = -p->along_mean;
    for (size_t j = 0; j < COLUMNS; j++) {
        double from = theta[j] - (p->mean != NULL ? p->mean[j] : 0.0);
        sum -= 0.5 * p->precision[j] * from * from;
        all += p->along != NULL ? p->along[j] * theta[j] : 0.0;
    }
    return sum - (p->along != NULL ? 0.5 * all * all : 0.0);
}

static const struct model_type *const types[] = {&model_logistic, &model_linear_regression,
                                                 &model_poisson};
enum { TYPES = sizeof types / sizeof types[0] };

/* Up to a constant, which a second point shows. */
Test(regression_prior, the_density_is_that_of_its_formula)
{
    for (size_t k = 0; k < TYPES * PRIORS; k++) {
        struct world w;
        const struct linear_prior *p = &priors[k % PRIORS];
        begin(&w, types[k / PRIORS], p);
        const struct model_type *type = w.f.model->type;
        double first = type->log_fixed(w.f.model, w.theta, w.f.work) - density(p, w.theta);
        for (size_t j = 0; j < COLUMNS; j++)
            w.theta[j] += 0.7 * (double)j - 1.0;
        double second = type->log_fixed(w.f.model, w.theta, w.f.work) - density(p, w.theta);
        cr_expect_float_eq(first, second, 1e-12, "%s, prior %zu", type->name, k % PRIORS);
        end(&w);
    }
}

Test(regression_prior, gradient_and_hessian_are_its_derivatives)
{
    for (size_t k = 0; k < TYPES * PRIORS; k++) {
        struct world w;
        begin(&w, types[k / PRIORS], &priors[k % PRIORS]);
        const struct model *m = w.f.model;
        double h = 1e-5, *H = fixture_array(w.d * padded(w.d)), *other = fixture_array(w.d);
        m->type->hessian(m, w.theta, H, w.f.work);
        for (size_t j = 0; j < w.d; j++) {
            double at = w.theta[j];
            w.theta[j] = at + h;
            double up = m->type->log_fixed(m, w.theta, w.f.work);
            model_gradient(m, w.theta, other, w.scratch, w.f.work);
            w.theta[j] = at - h;
            double down = m->type->log_fixed(m, w.theta, w.f.work);
            model_gradient(m, w.theta, w.g, w.scratch, w.f.work);
            w.theta[j] = at;
            for (size_t i = 0; i < COLUMNS && j < COLUMNS; i++)
                cr_expect_float_eq(H[i * padded(w.d) + j], (w.g[i] - other[i]) / (2.0 * h), 1e-4,
                                   "%s, prior %zu: H[%zu,%zu]", m->type->name, k % PRIORS, i, j);
            m->type->grad_fixed(m, w.theta, w.g, w.f.work);
            cr_expect_float_eq(w.g[j], (up - down) / (2.0 * h), 1e-7, "%s, prior %zu: g[%zu]",
                               m->type->name, k % PRIORS, j);
        }
        free(H);
        free(other);
        end(&w);
    }
}

static double normal_factor(double x, double precision_of_x)
{
    return sqrt(precision_of_x / (2.0 * M_PI)) * exp(-0.5 * precision_of_x * x * x);
}

/* With its constants, the density is that of normal variables: of the sum, instead of the one
 * coefficient without a prior. */
Test(regression_prior, the_density_has_its_constants)
{
    struct world w;
    begin(&w, &model_logistic, &priors[0]);
    double want = 1.0, sum = -0.2;
    for (size_t j = 0; j < COLUMNS; j++) {
        sum += along[j] * w.theta[j];
        want *= j < 3 ? normal_factor(w.theta[j] - mean[j], precision[j]) : along[3];
    }
    want *= normal_factor(sum, 1.0);
    cr_expect_float_eq(w.f.model->type->log_fixed(w.f.model, w.theta, w.f.work), log(want), 1e-12);
    end(&w);
}

static double half_t(double x)
{
    return 4.0 / (M_PI * sqrt(3.0)) / pow(1.0 + x * x / 3.0, 2.0);
}

Test(regression_prior, scales_have_their_laws)
{
    struct scale_prior t = {SCALE_HALF_T, 1.7}, root = {SCALE_INVERSE_ROOT, 0.6},
                       exponential = {SCALE_EXPONENTIAL, 2.5};
    for (double psi = -6.0; psi < 6.0; psi += 0.37) {
        double x = exp(psi), tau = 1.0 / sqrt(x);
        cr_expect_float_eq(scale_prior_log(&t, psi), log(half_t(x / 1.7) / 1.7 * x), 1e-12);
        cr_expect_float_eq(scale_prior_log(&root, psi),
                           log(2.0 * normal_factor(tau, 1.0 / 0.36) * 0.5 * tau), 1e-10);
        cr_expect_float_eq(scale_prior_log(&exponential, psi), log(x / 2.5) - x / 2.5, 1e-10);
        for (size_t k = 0; k < PRIORS; k++) {
            const struct scale_prior *p = &priors[k].scale;
            double h = 1e-4, up = scale_prior_log(p, psi + h), down = scale_prior_log(p, psi - h);
            cr_expect_float_eq(scale_prior_slope(p, psi), (up - down) / (2.0 * h),
                               1e-6 * (1.0 + fabs(up)));
            up = scale_prior_slope(p, psi + h);
            down = scale_prior_slope(p, psi - h);
            cr_expect_float_eq(scale_prior_curvature(p, psi), (down - up) / (2.0 * h),
                               1e-6 * (1.0 + fabs(up)));
        }
    }
    cr_expect_eq(scale_prior_slope(&t, 700.0), -3.0, "far out");
}

/* The views of both kinds of frames have the gradient of the model, also as differences. */
Test(regression_prior, views_have_the_gradient_of_the_model)
{
    for (size_t k = 0; k < 4 * TYPES * PRIORS; k++) {
        struct world w;
        struct err_info info;
        struct frame *frame;
        struct model *view;
        bool dense = k % 2 != 0, control = k / 2 % 2 != 0;
        begin(&w, types[k / 4 / PRIORS], &priors[k / 4 % PRIORS]);
        size_t d = w.d, p = padded(d);
        double *A = fixture_array(d * p), *centre = fixture_array(d), *gu = fixture_array(d),
               *user = fixture_array(d), *want = fixture_array(d), *space = fixture_array(d);
        for (size_t i = 0; i < d; i++) {
            centre[i] = 0.1 * (double)i - 0.2;
            for (size_t j = i < COLUMNS ? 0 : i; j <= i; j++)
                A[i * p + j] = i == j ? 0.4 + 0.1 * (double)i : 0.05 * (double)(i + j) - 0.1;
        }
        cr_assert_eq(frame_new(&frame, d, centre, dense ? A : NULL, p, &info), ERR_OK);
        cr_assert_eq(w.f.model->type->view(&view, w.f.model, frame, control, &info), ERR_OK);
        frame_to_user(frame, w.theta, user);
        model_gradient(w.f.model, user, w.g, w.scratch, w.f.work);
        frame_gradient(frame, w.g, want);
        void *work = lanes_alloc(view->work_bytes, 1);
        view->type->grad_fixed(view, w.theta, gu, work);
        view->type->grad_batch(view, w.theta, NULL, view->N, space, NULL, work);
        for (size_t j = 0; j < d; j++)
            cr_expect_float_eq(gu[j] + space[j], want[j], 1e-9 * (1.0 + fabs(want[j])),
                               "%s, prior %zu, dense %d, control %d: %zu", w.f.model->type->name,
                               k / 4 % PRIORS, dense, control, j);
        free(work);
        model_free(view);
        frame_free(frame);
        free(A);
        free(centre);
        free(gu);
        free(user);
        free(want);
        free(space);
        end(&w);
    }
}

/* The mean and sd of the sum, and the mean of a coefficient, within four Monte-Carlo errors. */
Test(regression_prior, draws_follow_it)
{
    enum { DRAWS = 20000 };
    struct world w;
    struct rng rng;
    double sum = 0.0, squares = 0.0, second = 0.0;
    begin(&w, &model_linear_regression, &priors[0]);
    rng_seed(&rng, 5, 0, RNG_START);
    for (int i = 0; i < DRAWS; i++) {
        w.f.model->type->start_value(w.f.model, START_PRIOR, &rng, w.theta, w.scratch);
        double z = -0.2;
        for (size_t j = 0; j < COLUMNS; j++)
            z += along[j] * w.theta[j];
        sum += z / DRAWS;
        squares += z * z / DRAWS;
        second += w.theta[1] / DRAWS;
    }
    cr_expect_float_eq(sum, 0.0, 4.0 / sqrt(DRAWS));
    cr_expect_float_eq(squares, 1.0, 4.0 * sqrt(2.0 / DRAWS));
    cr_expect_float_eq(second, -1.0, 4.0 * sqrt(0.5 / DRAWS));
    end(&w);
}
