/* The prior that a model states as data (model_type.prior, GET /v1/models) is the one it has. */
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct model_prior *prior_of(const struct model_type *type, const char *block)
{
    for (const struct model_prior *p = type->prior; p->block != NULL; p++)
        if (strcmp(p->block, block) == 0)
            return p;
    return NULL;
}

static size_t setting(const struct model_type *type, struct prior_number number)
{
    return number.setting != NULL ? param_find(type->params, number.setting) : SIZE_MAX;
}

static double value_of(const struct fixture *f, struct prior_number number)
{
    size_t at = setting(f->model->type, number);
    return at != SIZE_MAX ? f->params[at] : number.value;
}

/* What the prior adds to the gradient at x, up to what does not depend on its settings. */
static double prior_slope(const struct fixture *f, const struct model_prior *p, double x)
{
    double mean = value_of(f, p->mean), sd = value_of(f, p->sd);
    return p->family == PRIOR_NORMAL ? -(x - mean) / (sd * sd) : -exp(x) / mean;
}

/* Other settings of the prior change the gradient as the stated law says, in its block alone. */
static void prior_moves(const struct fixture *f, const struct model_prior *p, size_t at)
{
    struct fixture g = *f;
    size_t d = f->model->d;
    double *theta = fixture_point(f->model, 11), *one = fixture_array(d), *two = fixture_array(d);
    g.params[at] *= 2.385;
    fixture_init(&g, f->model->type);
    f->model->type->grad_fixed(f->model, theta, one, f->work);
    g.model->type->grad_fixed(g.model, theta, two, g.work);
    for (size_t i = 0; i < f->model->block_count; i++) {
        const struct model_block *b = &f->model->blocks[i];
        for (size_t j = b->offset; j < b->offset + fixture_block_length(b); j++) {
            bool its = strcmp(b->name, p->block) == 0;
            double change = its ? prior_slope(&g, p, theta[j]) - prior_slope(f, p, theta[j]) : 0;
            cr_assert(fabs(two[j] - one[j] - change) <= 1e-9 * fmax(1, fabs(one[j])),
                      "%s: the prior of %s is not as stated: %.12g, not %.12g",
                      f->model->type->name, p->block, two[j] - one[j], change);
        }
    }
    model_free(g.model);
    free(g.work);
    free(theta);
    free(one);
    free(two);
}

Test(models, every_block_has_the_prior_that_is_stated)
{
    for (size_t i = 0; i < model_count; i++) {
        const struct model_type *type = models[i];
        struct fixture f;
        fixture_model(type, PRECISION_DOUBLE, &f);
        for (size_t k = 0; k < f.model->block_count && type->data != DATA_NONE; k++)
            cr_expect_not_null(prior_of(type, f.model->blocks[k].name), "%s: block %s has no prior",
                               type->name, f.model->blocks[k].name);
        for (const struct model_prior *p = type->prior; p->block != NULL; p++) {
            const struct prior_number numbers[] = {p->mean, p->sd};
            for (size_t k = 0; k < 2; k++) {
                size_t at = setting(type, numbers[k]);
                if (at == SIZE_MAX)
                    continue;
                cr_assert_lt(at, type->params.count, "%s has no setting %s", type->name,
                             numbers[k].setting);
                prior_moves(&f, p, at);
            }
        }
        fixture_release(&f);
    }
}
