/* The kernels of matrix factorisation: what the header says, the same bits everywhere; and the
 * sparse form of its gradient beside the dense one. */
#include "core/gradient.h"
#include "models/models.h"
#include "tests/conformance/fixture.h"
#include "tests/support/truth.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    USERS = 7,
    ITEMS = 5,
    RATINGS = 60,
    MOST_RANK = 500,
    ROOM = (USERS + ITEMS + 4) * MOST_RANK
};

/* All kinds of rows on every instruction set: less than a vector, kept in registers, too long for
 * that, any length. */
static const size_t ranks[] = {1,  2,  3,  5,  7,  8,  9,  12, 13, 15, 16, 17, 19, 20,  21,
                               24, 25, 31, 32, 33, 40, 41, 48, 49, 57, 64, 80, 81, 121, 500};
#define RANKS (sizeof ranks / sizeof ranks[0])

static double value(uint64_t i)
{
    i = (i + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    i = (i ^ (i >> 31)) * 0x94d049bb133111ebULL;
    return (double)(i >> 11) * 0x1p-52 - 1.0;
}

static void fill(double *x, size_t n, uint64_t salt)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value(salt * 100000 + i);
}

/* Users, items and ratings; theta as the model lays it out, g and squares beside it. */
struct problem {
    _Alignas(ALIGNMENT) double theta[ROOM], g[ROOM], squares[ROOM], y[RATINGS];
    uint32_t user[RATINGS], item[RATINGS], idx[RATINGS];
};

static void problem_fill(struct problem *p)
{
    fill(p->theta, ROOM, 1);
    fill(p->g, ROOM, 2);
    fill(p->squares, ROOM, 3);
    fill(p->y, RATINGS, 4);
    for (uint32_t i = 0; i < RATINGS; i++) {
        p->user[i] = i * 5 % USERS;
        p->item[i] = i * 3 % ITEMS;
        p->idx[i] = i * 7 % RATINGS;
    }
}

static struct factor_terms terms_of(struct problem *p, size_t rank, size_t n, bool listed)
{
    return (struct factor_terms){.u = p->theta,
                                 .v = p->theta + USERS * rank,
                                 .y = p->y,
                                 .user = p->user,
                                 .item = p->item,
                                 .idx = listed ? p->idx : NULL,
                                 .gu = p->g,
                                 .gv = p->g + USERS * rank,
                                 .squares_u = p->squares,
                                 .squares_v = p->squares + USERS * rank,
                                 .rank = rank,
                                 .n = n,
                                 .scale = 2.385};
}

Test(kernel_factor, every_instruction_set_gives_the_same_bits)
{
    static struct problem got, want;
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t c = 0; c < RANKS; c++)
            for (size_t n = 0; n <= RATINGS; n += 12) {
                size_t rank = ranks[c];
                problem_fill(&got);
                problem_fill(&want);
                struct factor_terms a = terms_of(&got, rank, n, n % 24 == 0);
                struct factor_terms b = terms_of(&want, rank, n, n % 24 == 0);
                (*k)->factor_terms(&a);
                truth()->factor_terms(&b);
                cr_assert_arr_eq(&got, &want, sizeof got, "%s, rank %zu, n %zu", (*k)->isa, rank,
                                 n);
            }
}

Test(kernel_factor, terms_add_up_and_leave_the_rest_alone)
{
    static struct problem p;
    static double g[ROOM], squares[ROOM];
    for (size_t c = 0; c < RANKS; c++) {
        size_t rank = ranks[c];
        problem_fill(&p);
        memcpy(g, p.g, sizeof g);
        memcpy(squares, p.squares, sizeof squares);
        struct factor_terms t = terms_of(&p, rank, RATINGS / 2, true);
        kernels->factor_terms(&t);
        for (size_t k = 0; k < t.n; k++) {
            size_t i = p.idx[k], u = p.user[i] * rank, v = (USERS + p.item[i]) * rank;
            double r = p.y[i];
            for (size_t j = 0; j < rank; j++)
                r -= p.theta[u + j] * p.theta[v + j];
            for (size_t j = 0; j < rank; j++) {
                double by_v = t.scale * r * p.theta[v + j], by_u = t.scale * r * p.theta[u + j];
                g[u + j] += by_v;
                g[v + j] += by_u;
                squares[u + j] += by_v * by_v;
                squares[v + j] += by_u * by_u;
            }
        }
        for (size_t i = 0; i < ROOM; i++) {
            cr_assert_float_eq(p.g[i], g[i], 1e-10 * (1.0 + fabs(g[i])), "rank %zu, %zu", rank, i);
            cr_assert_float_eq(p.squares[i], squares[i], 1e-10 * (1.0 + squares[i]), "%zu", i);
        }
    }
}

/* One that is not finite spoils its own rows and no others, on any instruction set. */
Test(kernel_factor, what_lies_behind_a_row_survives_anything)
{
    static struct problem p, before;
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t c = 0; c < RANKS; c++) {
            size_t rank = ranks[c];
            problem_fill(&p);
            p.y[p.idx[0]] = INFINITY;
            p.g[(USERS - 1) * rank] = -0.0;
            memcpy(&before, &p, sizeof p);
            struct factor_terms t = terms_of(&p, rank, 1, true);
            size_t user = p.user[p.idx[0]], item = USERS + p.item[p.idx[0]];
            (*k)->factor_terms(&t);
            for (size_t i = 0; i < ROOM; i++) {
                bool own = i / rank == user || i / rank == item;
                cr_assert(own ? !isfinite(p.g[i])
                              : memcmp(&p.g[i], &before.g[i], sizeof p.g[i]) == 0 &&
                                    memcmp(&p.squares[i], &before.squares[i], sizeof p.g[i]) == 0,
                          "%s, rank %zu: %zu is %g", (*k)->isa, rank, i, p.g[i]);
            }
        }
}

/* 3 columns, a period of 24, 100 rows: 300 numbers end inside a period. */
Test(kernel_factor, the_prior_of_a_column_is_that_of_all_its_rows)
{
    enum { COLUMNS = 3, PERIOD = 24, N = 300 };
    _Alignas(ALIGNMENT) double z[N + 1], g[N + 1], mu[PERIOD], lambda[PERIOD], sum[PERIOD],
        squares[PERIOD], first[2 * PERIOD];
    fill(z, N + 1, 5);
    for (size_t k = 0; k < PERIOD; k++) {
        mu[k] = value(900 + k % COLUMNS);
        lambda[k] = 2.0 + value(950 + k % COLUMNS);
    }
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        (*k)->factor_prior(&(struct factor_prior){.z = z + 1,
                                                  .mu = mu,
                                                  .lambda = lambda,
                                                  .g = g + 1,
                                                  .sum = sum,
                                                  .squares = squares,
                                                  .n = N,
                                                  .period = PERIOD});
        for (size_t c = 0; c < COLUMNS; c++) {
            double total = 0.0, total2 = 0.0, want = 0.0, want2 = 0.0;
            for (size_t i = c; i < PERIOD; i += COLUMNS) {
                total += sum[i];
                total2 += squares[i];
            }
            for (size_t i = c; i < N; i += COLUMNS) {
                double deviation = z[1 + i] - mu[c];
                want += deviation;
                want2 += deviation * deviation;
                cr_expect_eq(g[1 + i], -lambda[c] * deviation, "%s, %zu", (*k)->isa, i);
            }
            cr_expect_float_eq(total, want, 1e-11, "%s", (*k)->isa);
            cr_expect_float_eq(total2, want2, 1e-11, "%s", (*k)->isa);
        }
        if (k == kernels_available()) {
            memcpy(first, sum, sizeof sum);
            memcpy(first + PERIOD, squares, sizeof squares);
        }
        cr_expect_arr_eq(sum, first, sizeof sum, "%s", (*k)->isa);
        cr_expect_arr_eq(squares, first + PERIOD, sizeof squares, "%s", (*k)->isa);
    }
}

Test(kernel_factor, a_sparse_gradient_is_the_dense_one)
{
    struct fixture f;
    struct gradient source;
    fixture_model(&model_matrix_factorization, PRECISION_DOUBLE, &f);
    size_t d = f.model->d;
    double *theta = lanes_alloc(d, sizeof *theta), *sparse = lanes_alloc(d, sizeof *sparse),
           *dense = lanes_alloc(d, sizeof *dense), *tau = lanes_alloc(d, sizeof *tau);
    fill(theta, d, 6);
    cr_assert_eq(gradient_init(&source, f.model, 7, false, NULL), ERR_OK);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng a, b;
        rng_seed(&a, seed, 1, RNG_BATCH);
        b = a;
        gradient_estimate(&source, theta, &a, NULL, sparse, NULL);
        gradient_estimate(&source, theta, &b, NULL, dense, tau);
        for (size_t j = 0; j < d; j++)
            cr_expect_float_eq(sparse[j], dense[j], 1e-10 * (1.0 + fabs(dense[j])), "%zu", j);
    }
    gradient_release(&source);
    free(theta);
    free(sparse);
    free(dense);
    free(tau);
    fixture_release(&f);
}

/* Those of the rows of the batch and no others; rows lie across the end of a word of bits. */
Test(kernel_factor, a_batch_says_which_coordinates_it_touches)
{
    enum { FIRST = 500, WORDS = (FIRST + ROOM) / LANES / 64 + 2 };
    static struct problem p;
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t c = 0; c < RANKS; c++) {
            size_t rank = ranks[c];
            uint64_t bits[WORDS] = {0}, want[WORDS] = {0};
            problem_fill(&p);
            struct factor_terms t = terms_of(&p, rank, 3, true);
            t.touched = bits;
            t.first_u = FIRST;
            t.first_v = FIRST + USERS * rank;
            (*k)->factor_terms(&t);
            for (size_t i = 0; i < 2 * t.n; i++) {
                size_t rating = p.idx[i / 2];
                size_t row =
                    i % 2 ? t.first_v + p.item[rating] * rank : t.first_u + p.user[rating] * rank;
                for (size_t j = row; j < row + rank; j++)
                    want[j / LANES / 64] |= UINT64_C(1) << j / LANES % 64;
            }
            cr_assert_arr_eq(bits, want, sizeof bits, "%s, rank %zu", (*k)->isa, rank);
        }
}

/* 13 words of bits; again and again, since the sums must be zero each time. */
Test(kernel_factor, a_sparse_estimate_with_its_noise_is_the_dense_one_bit_for_bit)
{
    enum { MANY_USERS = 170, MANY_ITEMS = 130, MANY = 900, RANK = 21, N_BATCH = 40 };
    static uint32_t user[MANY], item[MANY];
    static double y[MANY];
    double params[PARAM_MAX];
    struct model *m;
    struct gradient source;
    for (uint32_t i = 0; i < MANY; i++) {
        user[i] = i * 7 % MANY_USERS;
        item[i] = i * 11 % MANY_ITEMS;
        y[i] = 3.0 + value(i);
    }
    struct dataset data = {.kind = DATA_TRIPLETS,
                           .N = MANY,
                           .user = user,
                           .item = item,
                           .y = y,
                           .users = MANY_USERS,
                           .items = MANY_ITEMS};
    param_defaults(model_matrix_factorization.params, params);
    params[param_find(model_matrix_factorization.params, "rank")] = RANK;
    cr_assert_eq(model_matrix_factorization.init(&m, params, &data, NULL, NULL), ERR_OK);
    size_t d = m->d;
    double *theta = lanes_alloc(d, sizeof *theta), *arrays[4];
    for (size_t k = 0; k < 4; k++)
        arrays[k] = lanes_alloc(d, sizeof(double));
    double *g = arrays[0], *tau = arrays[1], *want_g = arrays[2], *want_tau = arrays[3];
    fill(theta, d, 6);
    cr_assert_eq(gradient_init(&source, m, N_BATCH, false, NULL), ERR_OK);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng rng;
        rng_seed(&rng, seed, 1, RNG_BATCH);
        if (seed % 5 == 0) /* leaves what it likes in the scratch arrays */
            gradient_exact(&source, theta, g);
        gradient_estimate(&source, theta, &rng, NULL, g, tau);
        gradient_parts(&source, theta, want_g, true);
        kernels->estimate(&(struct batch_sums){.sum = source.sum,
                                               .sumsq = source.sumsq,
                                               .scale = gradient_scale(&source),
                                               .tau_scale = gradient_tau_scale(&source),
                                               .count = N_BATCH,
                                               .share = gradient_share(&source),
                                               .n = d},
                          want_g, want_tau, NULL);
        cr_assert_arr_eq(g, want_g, d * sizeof *g, "seed %lu", seed);
        cr_assert_arr_eq(tau, want_tau, d * sizeof *tau, "seed %lu", seed);
    }
    gradient_release(&source);
    model_free(m);
    free(theta);
    for (size_t k = 0; k < 4; k++)
        free(arrays[k]);
}
