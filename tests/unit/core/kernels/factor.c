/* The kernels of matrix factorisation: what the header says, the same bits everywhere; and the
 * sparse form of its gradient beside the dense one. */
#include "core/model/gradient.h"
#include "core/kernels/kernels.h"
#include "core/samplers/sampler.h"
#include "models/models.h"
#include "tests/conformance/fixture.h"
#include "tests/support/ratings.h"
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

enum { COLUMNS = 3, PERIOD = 24, ENTRIES = 300 };

struct prior {
    _Alignas(ALIGNMENT) double g[ENTRIES + 1];
    _Alignas(ALIGNMENT) double sum[PERIOD], squares[PERIOD];
};

/* The entries from..to of a side; z is never aligned. */
static void prior_of(const struct kernels *k, const double *z, const double *mu,
                     const double *lambda, size_t from, size_t to, struct prior *out)
{
    k->factor_prior(&(struct factor_prior){.z = z + 1 + from,
                                           .mu = mu,
                                           .lambda = lambda,
                                           .g = out->g + 1 + from,
                                           .sum = out->sum,
                                           .squares = out->squares,
                                           .n = to - from,
                                           .period = PERIOD,
                                           .phase = from % PERIOD});
}

static void prior_columns(double *mu, double *lambda)
{
    for (size_t k = 0; k < PERIOD; k++) {
        mu[k] = value(900 + k % COLUMNS);
        lambda[k] = 2.0 + value(950 + k % COLUMNS);
    }
}

/* 3 columns, a period of 24, 100 rows: 300 numbers end inside a period. */
Test(kernel_factor, the_prior_of_a_column_is_that_of_all_its_rows)
{
    static double z[ENTRIES + 1], mu[PERIOD], lambda[PERIOD];
    struct prior first, got;
    fill(z, ENTRIES + 1, 5);
    prior_columns(mu, lambda);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        got = (struct prior){0};
        prior_of(*k, z, mu, lambda, 0, ENTRIES, &got);
        for (size_t c = 0; c < COLUMNS; c++) {
            double total = 0.0, total2 = 0.0, want = 0.0, want2 = 0.0;
            for (size_t i = c; i < PERIOD; i += COLUMNS) {
                total += got.sum[i];
                total2 += got.squares[i];
            }
            for (size_t i = c; i < ENTRIES; i += COLUMNS) {
                double deviation = z[1 + i] - mu[c];
                want += deviation;
                want2 += deviation * deviation;
                cr_expect_eq(got.g[1 + i], -lambda[c] * deviation, "%s, %zu", (*k)->isa, i);
            }
            cr_expect_float_eq(total, want, 1e-11, "%s", (*k)->isa);
            cr_expect_float_eq(total2, want2, 1e-11, "%s", (*k)->isa);
        }
        if (k == kernels_available())
            first = got;
        cr_expect_arr_eq(&got, &first, sizeof got, "%s", (*k)->isa);
    }
}

/* However short the pieces and wherever in a period they begin. */
Test(kernel_factor, a_prior_in_pieces_is_the_whole_one_bit_for_bit)
{
    static double z[ENTRIES + 1], mu[PERIOD], lambda[PERIOD];
    fill(z, ENTRIES + 1, 5);
    prior_columns(mu, lambda);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
        struct prior whole = {0};
        prior_of(*k, z, mu, lambda, 0, ENTRIES, &whole);
        for (size_t step = 1; step <= ENTRIES; step++) {
            struct prior got = {0};
            for (size_t from = 0, to; from < ENTRIES; from = to) {
                to = from + step < ENTRIES ? from + step : ENTRIES;
                prior_of(*k, z, mu, lambda, from, to, &got);
            }
            cr_assert_arr_eq(&got, &whole, sizeof got, "%s, %zu at a time", (*k)->isa, step);
        }
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

enum { N_BATCH = 40, A0 = 1, B0 = 5 };

/* Of 6384 coordinates, in 13 words of bits and seven parts, and of 3600, whose hyperparameters lie
 * in several parts. */
static const struct shape {
    uint32_t users, items;
    size_t rank;
} shapes[] = {{170, 130, 21}, {3, 2, 400}};

#define SHAPES (sizeof shapes / sizeof *shapes)

struct sparse {
    struct model *model;
    struct gradient source;
    size_t d;
    double *theta, *g, *tau, *want_g, *want_tau;
};

static void sparse_make(struct sparse *s, struct shape shape)
{
    s->model = ratings_model(shape.users, shape.items, shape.items, shape.rank);
    s->d = s->model->d;
    double **arrays[] = {&s->theta, &s->g, &s->tau, &s->want_g, &s->want_tau};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        *arrays[k] = lanes_alloc(s->d, sizeof(double));
    fill(s->theta, s->d, 6);
    cr_assert_eq(gradient_init(&s->source, s->model, N_BATCH, false, NULL), ERR_OK);
}

static void sparse_free(struct sparse *s)
{
    gradient_release(&s->source);
    model_free(s->model);
    free(s->theta);
    free(s->g);
    free(s->tau);
    free(s->want_g);
    free(s->want_tau);
}

/* Again and again, since the sums must be zero each time. */
Test(kernel_factor, a_sparse_estimate_with_its_noise_is_the_dense_one_bit_for_bit)
{
    struct sparse s;
    sparse_make(&s, shapes[0]);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng rng;
        rng_seed(&rng, seed, 1, RNG_BATCH);
        if (seed % 5 == 0) /* leaves what it likes in the scratch arrays */
            gradient_exact(&s.source, s.theta, s.g);
        gradient_estimate(&s.source, s.theta, &rng, NULL, s.g, s.tau);
        gradient_sums(&s.source, s.theta, s.want_g, true);
        kernels->estimate(&(struct batch_sums){.sum = s.source.sum,
                                               .sumsq = s.source.sumsq,
                                               .scale = gradient_scale(&s.source),
                                               .tau_scale = gradient_tau_scale(&s.source),
                                               .count = N_BATCH,
                                               .share = gradient_share(&s.source),
                                               .n = s.d},
                          s.want_g, s.want_tau, NULL);
        cr_assert_arr_eq(s.g, s.want_g, s.d * sizeof *s.g, "seed %lu", seed);
        cr_assert_arr_eq(s.tau, s.want_tau, s.d * sizeof *s.tau, "seed %lu", seed);
    }
    sparse_free(&s);
}

/* While what is before a part moves on; every third is left half way. */
static void expect_parts(struct shape shape)
{
    struct sparse s;
    sparse_make(&s, shape);
    double *kept = lanes_alloc(s.d, sizeof *kept), *memory = lanes_alloc(s.d, sizeof *memory),
           *want_memory = lanes_alloc(s.d, sizeof *memory);
    memcpy(kept, s.theta, s.d * sizeof *kept);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng rng[RNG_PURPOSES], again[RNG_PURPOSES];
        for (uint64_t p = 0; p < RNG_PURPOSES; p++)
            rng_seed(&rng[p], seed, 1, p);
        memcpy(again, rng, sizeof rng);
        fill(memory, s.d, 7);
        fill(want_memory, s.d, 7);
        cr_assert_not(gradient_estimate_running(&s.source, s.theta, 3, again, s.want_g, s.want_tau,
                                                &(struct running_tau){want_memory, 0.3}));
        cr_assert(gradient_estimate_running(&s.source, s.theta, 3, rng, s.g, NULL,
                                            &(struct running_tau){memory, 0.3}));
        for (size_t from = 0; from < s.d && (seed % 3 != 0 || from < 2000); from += MODEL_PART) {
            size_t n = s.d - from < MODEL_PART ? s.d - from : MODEL_PART;
            gradient_part(&s.source, s.theta, from, s.g);
            cr_assert_arr_eq(s.g, s.want_g + from, n * sizeof *s.g, "seed %lu, %zu", seed, from);
            for (size_t j = from; j < from + n; j++)
                s.theta[j] += 0.5;
        }
        if (seed % 3 != 0)
            cr_assert_arr_eq(memory, want_memory, s.d * sizeof *memory, "seed %lu", seed);
        memcpy(s.theta, kept, s.d * sizeof *kept);
    }
    free(kept);
    free(memory);
    free(want_memory);
    sparse_free(&s);
}

Test(kernel_factor, an_estimate_in_parts_is_the_one_at_once_bit_for_bit)
{
    for (size_t k = 0; k < SHAPES; k++)
        expect_parts(shapes[k]);
}

/* Of the rows from `z` on, whose means and log precisions are at `mu` and `l`. */
static void expect_prior(const struct sparse *s, size_t rank, size_t rows, size_t z, size_t mu,
                         size_t l)
{
    for (size_t k = 0; k < rank; k++) {
        double lambda = exp(s->theta[l + k]), mean = s->theta[mu + k], sum = 0.0, squares = 0.0;
        for (size_t i = 0; i < rows; i++) {
            double deviation = s->theta[z + i * rank + k] - mean;
            sum += deviation;
            squares += deviation * deviation;
            cr_assert_float_eq(s->g[z + i * rank + k], -lambda * deviation, 1e-12, "%zu, %zu", i,
                               k);
        }
        cr_assert_float_eq(s->g[mu + k], lambda * (sum - mean), 1e-10, "%zu", k);
        double want = 0.5 * (double)(rows + 1) + A0 - lambda * (0.5 * (squares + mean * mean) + B0);
        cr_assert_float_eq(s->g[l + k], want, 1e-10, "%zu", k);
    }
}

Test(kernel_factor, the_fixed_part_of_many_coordinates_is_that_of_the_definition)
{
    for (size_t k = 0; k < SHAPES; k++) {
        struct sparse s;
        sparse_make(&s, shapes[k]);
        size_t rank = shapes[k].rank, users = shapes[k].users, items = shapes[k].items,
               mu = (users + items) * rank;
        s.model->type->grad_fixed(s.model, s.theta, s.g, s.source.work);
        expect_prior(&s, rank, users, 0, mu, mu + 2 * rank);
        expect_prior(&s, rank, items, users * rank, mu + rank, mu + 3 * rank);
        sparse_free(&s);
    }
}

/* As programs that knew no common factor left it. */
static void make_older(double *memory, size_t p)
{
    for (size_t j = 0; j < p; j++)
        memory[j] *= memory[p + 1];
    memory[p + 1] = 0.0;
}

/* The noise as the moves see it is the average of what it was, seen or not seen, for any weight and
 * for longer than the common factor of all of it lasts. */
Test(kernel_factor, the_running_noise_of_sparse_batches_is_the_average)
{
    static const double betas[] = {0.1, 0.75, 0.999, 1.0};
    struct sparse s;
    sparse_make(&s, shapes[0]);
    size_t p = padded(s.d);
    double *memory = lanes_alloc(p + PAD, sizeof *memory),
           *unseen = lanes_alloc(p + PAD, sizeof *memory),
           *average = lanes_alloc(p, sizeof *average);
    for (size_t b = 0; b < sizeof betas / sizeof *betas; b++) {
        struct rng rng[RNG_PURPOSES], again[RNG_PURPOSES];
        double weight = 0.0, beta = betas[b];
        for (uint64_t k = 0; k < RNG_PURPOSES; k++)
            rng_seed(&rng[k], 5, 1, k);
        memcpy(again, rng, sizeof rng);
        memset(memory, 0, (p + PAD) * sizeof *memory);
        memset(unseen, 0, (p + PAD) * sizeof *memory);
        memset(average, 0, p * sizeof *average);
        struct sampler_step step = {.d = s.d,
                                    .theta = s.theta,
                                    .memory = memory,
                                    .source = &s.source,
                                    .rng = rng,
                                    .g = s.g,
                                    .tau = s.tau,
                                    .want_tau = true};
        struct sampler_step other = step;
        other.memory = unseen;
        other.rng = again;
        other.want_tau = false;
        for (uint64_t t = 0; t < 300; t++) {
            if (t == 20) {
                make_older(memory, p);
                make_older(unseen, p);
            }
            step.t = other.t = t;
            double factor = sampler_estimate_tau(&step, beta);
            cr_assert_eq(sampler_estimate_tau(&other, beta), factor);
            for (size_t from = 0; from < s.d; from += SAMPLER_BLOCK)
                sampler_gradient(&other, from);
            cr_assert_arr_eq(unseen, memory, (p + PAD) * sizeof *memory, "beta %g, %lu", beta, t);
            weight += beta * (1.0 - weight);
            for (size_t j = 0; j < s.d; j++) {
                average[j] += beta * (s.tau[j] - average[j]);
                double want = average[j] / weight, got = factor * memory[j];
                cr_assert(fabs(got - want) <= 3e-7 * want + 1e-12,
                          "beta %g, iteration %lu, coordinate %zu: %g, not %g", beta, t, j, got,
                          want);
            }
        }
    }
    free(memory);
    free(unseen);
    free(average);
    sparse_free(&s);
}
