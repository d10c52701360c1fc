/* Requests of plans, and the chains that plans describe. */
#ifndef BARKER_TESTS_PLAN_FIXTURE_H
#define BARKER_TESTS_PLAN_FIXTURE_H

#include "core/plan/plan.h"
#include "core/model/view.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static double params[PARAM_MAX];

static inline struct plan_request everything_auto(const struct model *m)
{
    const struct sampler_type *sampler = &sampler_sgbd;
    param_defaults(sampler->params, params);
    params[param_find(sampler->params, "variant")] = BARKER_CORRECTED;
    return (struct plan_request){.model = m,
                                 .sampler = sampler,
                                 .params = params,
                                 .step = {.kind = STEP_AUTO, .fraction = STEP_FRACTION},
                                 .batch_size = PLAN_AUTO,
                                 .warmup = PLAN_AUTO,
                                 .iterations = PLAN_AUTO,
                                 .thin = PLAN_AUTO,
                                 .chains = 4,
                                 .target = {.ess = 1000},
                                 .seed = 2385};
}

static inline struct plan *made(const struct plan_request *r)
{
    struct plan *plan = NULL;
    struct err_info info = {0};
    cr_assert_eq(plan_make(&plan, r, &info), ERR_OK, "%s", info.message);
    return plan;
}

static inline bool says(const struct plan *plan, const char *text)
{
    for (size_t i = 0; i < plan->why_count; i++)
        if (strstr(plan->why[i], text) != NULL)
            return true;
    return false;
}

/* The chain that a plan describes; it must be accepted as it is. */
static inline struct chain *chain_of(const struct plan *plan, const struct plan_request *r,
                                     struct model **view)
{
    struct err_info info = {0};
    struct chain *chain = NULL;
    cr_assert_eq(plan_view(view, plan, r->model, &info), ERR_OK, "%s", info.message);
    struct chain_config config = {.model = r->model,
                                  .view = *view,
                                  .sampler = r->sampler,
                                  .seed = r->seed,
                                  .chain = 1,
                                  .replacement = r->replacement};
    memcpy(config.params, r->params, r->sampler->params.count * sizeof config.params[0]);
    plan_apply(plan, &config);
    cr_assert_eq(chain_new(&chain, &config, &info), ERR_OK, "%s: %s", r->model->type->name,
                 info.message);
    return chain;
}

static inline void runs(const struct plan *plan, const struct plan_request *r)
{
    struct model *view = NULL;
    struct chain *chain = chain_of(plan, r, &view);
    chain_advance(chain, 50);
    cr_expect_neq(chain_status(chain), CHAIN_DIVERGED, "%s", r->model->type->name);
    chain_free(chain);
    if (view != NULL)
        model_free(view);
}

static inline void logistic(struct fixture *f, size_t N, size_t columns)
{
    *f = (struct fixture){.params = {1.5}};
    fixture_rows(&f->train, DATA_REGRESSION, PRECISION_DOUBLE, N, columns, 404);
    fixture_init(f, &model_logistic);
}

#endif
