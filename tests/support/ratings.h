/* A factorisation of made-up ratings. */
#ifndef BARKER_TESTS_SUPPORT_RATINGS_H
#define BARKER_TESTS_SUPPORT_RATINGS_H

#include "models/models.h"

#include <criterion/criterion.h>
#include <math.h>

enum { RATINGS_COUNT = 900 };

/* Of items only the first `rated` have ratings. The data are those of the last call. */
static inline struct model *ratings_model(uint32_t users, uint32_t items, uint32_t rated,
                                          size_t rank)
{
    static uint32_t user[RATINGS_COUNT], item[RATINGS_COUNT];
    static double y[RATINGS_COUNT];
    static struct dataset data;
    double params[PARAM_MAX];
    struct model *m;
    for (uint32_t i = 0; i < RATINGS_COUNT; i++) {
        user[i] = i * 7 % users;
        item[i] = i * 11 % rated;
        y[i] = 3.0 + sin(i);
    }
    data = (struct dataset){.kind = DATA_TRIPLETS,
                            .N = RATINGS_COUNT,
                            .user = user,
                            .item = item,
                            .y = y,
                            .users = users,
                            .items = items};
    param_defaults(model_matrix_factorization.params, params);
    params[param_find(model_matrix_factorization.params, "rank")] = (double)rank;
    cr_assert_eq(model_matrix_factorization.init(&m, params, &data, NULL, NULL), ERR_OK);
    return m;
}

#endif
