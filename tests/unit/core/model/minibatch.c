/* Minibatches: every subset equally likely, whichever way it is drawn. */
#include "core/model/gradient.h"
#include "core/kernels/kernels.h"
#include "tests/support/stat.h"
#include "tests/support/toy.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct minibatch make_batch(size_t N, size_t n, bool replacement)
{
    struct minibatch mb;

    cr_assert(minibatch_init(&mb, N, n, replacement));
    return mb;
}

static void expect_valid(const uint32_t *idx, size_t n, size_t N, bool distinct)
{
    static uint32_t seen[300000], round;

    round++;
    for (size_t i = 0; i < n; i++) {
        cr_assert(idx[i] < N, "index %u of %zu", idx[i], N);
        cr_assert(!distinct || seen[idx[i]] != round, "index %u twice", idx[i]);
        seen[idx[i]] = round;
    }
}

/* A subset as a bit mask. */
static size_t mask(const uint32_t *idx, size_t n)
{
    size_t bits = 0;

    for (size_t i = 0; i < n; i++)
        bits |= (size_t)1 << idx[i];
    return bits;
}

/* 200 000 batches per case over at most 70 subsets: a subset that is 2 % too likely is seen. */
Test(minibatch, all_subsets_are_equally_likely)
{
    static const struct {
        size_t N, n;
    } cases[] = {{7, 1}, {7, 2}, {7, 3}, {7, 4}, {7, 6}, {8, 4}, {5, 4}, {2, 1}, {33, 1}, {33, 32}};

    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t N = cases[c].N, n = cases[c].n;
        struct minibatch mb = make_batch(N, n, false);
        uint32_t *idx = lanes_alloc(n, sizeof(*idx));
        uint64_t seen[256] = {0}, cells[256];
        size_t used = 0;
        struct rng rng;
        rng_seed(&rng, 101 + c, 1, RNG_BATCH);
        for (int t = 0; t < 200000; t++) {
            minibatch_draw(&mb, &rng, idx);
            expect_valid(idx, n, N, true);
            size_t key =
                N > 8 ? (n == 1 ? idx[0] : (size_t)__builtin_ctzll(~mask(idx, n))) : mask(idx, n);
            seen[key]++;
        }
        for (size_t k = 0; k < 256; k++)
            if (seen[k])
                cells[used++] = seen[k];
        double subsets =
            exp(lgamma((double)N + 1) - lgamma((double)n + 1) - lgamma((double)(N - n) + 1));
        cr_expect_eq(used, (size_t)(subsets + 0.5), "%zu of %zu: %zu subsets", n, N, used);
        cr_expect_gt(stat_uniform_p(cells, used), 1e-4, "%zu of %zu", n, N);
        free(idx);
        minibatch_release(&mb);
    }
}

Test(minibatch, all_sequences_are_equally_likely_with_replacement)
{
    enum { N = 5, n = 3, ALL = N * N * N };
    struct minibatch mb = make_batch(N, n, true);
    uint32_t *idx = lanes_alloc(n, sizeof(*idx));
    uint64_t seen[ALL] = {0};
    struct rng rng;

    rng_seed(&rng, 131, 1, RNG_BATCH);
    for (int t = 0; t < 400000; t++) {
        minibatch_draw(&mb, &rng, idx);
        expect_valid(idx, n, N, false);
        seen[(idx[0] * N + idx[1]) * N + idx[2]]++;
    }
    cr_expect_gt(stat_uniform_p(seen, ALL), 1e-4);
    free(idx);
    minibatch_release(&mb);
}

/* Stamps are bytes: after 255 batches they start again, and nothing may leak over that edge. Rows
 * are counted only in the batches around it. */
Test(minibatch, stays_uniform_where_the_stamps_wrap_around)
{
    enum { N = 40, n = 15, ROUNDS = 256 * 400 };
    struct minibatch mb = make_batch(N, n, false);
    uint32_t *idx = lanes_alloc(n, sizeof(*idx));
    double seen[N] = {0}, batches = 0;
    struct rng rng;

    rng_seed(&rng, 137, 1, RNG_BATCH);
    for (int t = 0; t < ROUNDS; t++) {
        minibatch_draw(&mb, &rng, idx);
        expect_valid(idx, n, N, true);
        if (t % 256 > 3 && t % 256 < 252)
            continue;
        batches++;
        for (size_t i = 0; i < n; i++)
            seen[idx[i]]++;
    }
    double p = (double)n / N;
    for (size_t i = 0; i < N; i++)
        cr_expect_lt(fabs(seen[i] - batches * p), 4.9 * sqrt(batches * p * (1 - p)), "row %zu", i);
    free(idx);
    minibatch_release(&mb);
}

/* Sizes around which the way of drawing changes. Counts of cells of rows are sums over batches of
 * hypergeometric (or binomial) numbers. */
Test(minibatch, rows_are_equally_likely_for_larger_sizes)
{
    static const struct {
        size_t N, n;
        bool replacement;
    } cases[] = {{344, 34, false},   {344, 173, false},   {344, 300, false},
                 {1000, 999, false}, {88163, 881, false}, {250000, 2, false},
                 {65537, 64, false}, {344, 34, true},     {1000, 1000, true}};

    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t N = cases[c].N, n = cases[c].n;
        struct minibatch mb = make_batch(N, n, cases[c].replacement);
        uint32_t *idx = lanes_alloc(n, sizeof(*idx));
        enum { CELLS = 43 };
        double count[CELLS] = {0}, rounds = 3e6 / (double)n;
        struct rng rng;
        rng_seed(&rng, 151 + c, 1, RNG_BATCH);
        for (int t = 0; t < (int)rounds; t++) {
            minibatch_draw(&mb, &rng, idx);
            expect_valid(idx, n, N, !cases[c].replacement);
            for (size_t i = 0; i < n; i++)
                count[idx[i] * CELLS / N]++;
        }
        for (size_t k = 0; k < CELLS; k++) {
            size_t size = 0; /* rows in this cell */
            for (size_t i = 0; i < N; i++)
                size += i * CELLS / N == k;
            double p = (double)size / (double)N, total = (double)(int)rounds * (double)n;
            double finite = cases[c].replacement ? 1 : (double)(N - n) / (double)(N - 1);
            cr_expect_lt(fabs(count[k] - total * p), 4.9 * sqrt(total * p * (1 - p) * finite),
                         "%zu of %zu, cell %zu", n, N, k);
        }
        free(idx);
        minibatch_release(&mb);
    }
}

Test(minibatch, depends_on_the_generator_alone)
{
    struct minibatch a = make_batch(500, 40, false), b = make_batch(500, 40, false);
    uint32_t *x = lanes_alloc(40, sizeof(*x)), *y = lanes_alloc(40, sizeof(*y));
    struct rng rng, copy;

    rng_seed(&rng, 3, 1, RNG_BATCH);
    for (int t = 0; t < 300; t++)
        minibatch_draw(&a, &rng, x);
    for (int t = 0; t < 1000; t++) {
        copy = rng;
        minibatch_draw(&a, &rng, x);
        minibatch_draw(&b, &copy, y);
        cr_assert_eq(memcmp(x, y, 40 * sizeof(*x)), 0, "batch %d depends on those before it", t);
        cr_assert_eq(memcmp(&rng, &copy, sizeof(rng)), 0);
    }
    free(x);
    free(y);
    minibatch_release(&a);
    minibatch_release(&b);
}

/* The same batches with a stamp per row, however many rows there are. */
static struct minibatch make_stamped(size_t N, size_t n)
{
    struct minibatch mb = make_batch(N, n, false);

    cr_assert(mb.seen != NULL && mb.stamp == NULL, "%zu of %zu: no table", n, N);
    free(mb.seen);
    mb.seen = NULL;
    mb.few = false;
    mb.stamp = calloc(N, 1);
    return mb;
}

/* Batches up to a 128th of the rows, so that some have repeats to be rejected; and, to meet the
 * edge, rounds that end. */
Test(minibatch, rows_are_the_same_with_a_table_as_with_stamps)
{
    static const struct {
        size_t N, n;
        int rounds;
    } cases[] = {{600, 2, 4000},     {5000, 30, 4000},      {88163, 30, 4000}, {88163, 40, 4000},
                 {1000003, 999, 60}, {10000000, 100, 2000}, {300000, 1000, 60}};

    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t N = cases[c].N, n = cases[c].n;
        struct minibatch table = make_batch(N, n, false), stamped = make_stamped(N, n);
        uint32_t *a = lanes_alloc(n, sizeof(*a)), *b = lanes_alloc(n, sizeof(*b));
        struct rng one, other;
        rng_seed(&one, 149 + c, 1, RNG_BATCH);
        other = one;
        for (int t = 0; t < cases[c].rounds; t++) {
            if (t == 30) /* and the first rounds come again */
                table.round = UINT32_MAX - 5;
            minibatch_draw(&table, &one, a);
            minibatch_draw(&stamped, &other, b);
            cr_assert_eq(memcmp(a, b, n * sizeof(*a)), 0, "%zu of %zu, batch %d", n, N, t);
            cr_assert_eq(memcmp(&one, &other, sizeof(one)), 0, "%zu of %zu, batch %d", n, N, t);
        }
        free(a);
        free(b);
        minibatch_release(&table);
        minibatch_release(&stamped);
    }
}

/* The first n different rows that words of 32 bits stand for, one word after the other. */
static void rows_of_words(const uint32_t *word, size_t N, size_t n, uint32_t *idx)
{
    for (size_t done = 0; done < n; word++) {
        uint64_t product = (uint64_t)*word * N;
        bool taken = (uint32_t)product < (UINT64_C(1) << 32) % N;
        for (size_t k = 0; k < done && !taken; k++)
            taken = idx[k] == product >> 32;
        if (!taken)
            idx[done++] = (uint32_t)(product >> 32);
    }
}

/* Whether few words are rejected or many, in one portion of them or several. */
Test(minibatch, rows_are_those_of_the_words_one_by_one)
{
    static const struct {
        size_t N, n;
    } cases[] = {{88163, 881}, {10000000, 1000}, {2863311531, 300}, {3000000001, 3000}};
    enum { DOUBLES = 8192 };
    static _Alignas(64) uint64_t bits[DOUBLES];
    for (const struct kernels *const *isa = kernels_available(); *isa != NULL; isa++)
        for (size_t c = 0; c < COUNT(cases); c++) {
            size_t n = cases[c].n;
            struct minibatch mb = make_batch(cases[c].N, n, false);
            uint32_t *idx = lanes_alloc(n, sizeof *idx), *want = lanes_alloc(n, sizeof *want);
            struct rng rng, other;
            rng_seed(&rng, 163 + c, 1, RNG_BATCH);
            other = rng;
            for (int t = 0; t < 50; t++) {
                struct rng copy = rng;
                kernels->rng_bits(&copy, bits, DOUBLES);
                rows_of_words((const uint32_t *)(const void *)bits, cases[c].N, n, want);
                cr_assert(kernels_choose("portable"));
                minibatch_draw(&mb, &other, idx);
                cr_assert(kernels_choose((*isa)->isa));
                minibatch_draw(&mb, &rng, idx);
                cr_assert_eq(memcmp(&rng, &other, sizeof rng), 0, "%s, %zu", (*isa)->isa, n);
                cr_assert_eq(memcmp(idx, want, n * sizeof *idx), 0, "%s, %zu of %zu, batch %d",
                             (*isa)->isa, n, cases[c].N, t);
            }
            free(idx);
            free(want);
            minibatch_release(&mb);
        }
}

/* Also where the kernels have a short cut for few rows. */
Test(minibatch, every_instruction_set_draws_the_same_rows_or_what_stands_for_them)
{
    static const size_t N[] = {5000, 88163}, n[] = {1, 12, 13, 16, 28, 29, 30, 32, 33, 100, 4000};
    for (size_t c = 0; c < 2 * COUNT(N) * COUNT(n); c++) {
        size_t rows = N[c / 2 % COUNT(N)], many = n[c / 2 / COUNT(N)];
        uint16_t *row_map = lanes_alloc(rows, sizeof *row_map);
        uint32_t *idx = lanes_alloc(many, sizeof *idx), *want = lanes_alloc(many, sizeof *want);
        for (size_t i = 0; i < rows; i++)
            row_map[i] = (uint16_t)(i * 40503 >> 4);
        for (const struct kernels *const *isa = kernels_available(); *isa != NULL; isa++) {
            struct minibatch a = make_batch(rows, many, c % 2), b = make_batch(rows, many, c % 2);
            struct rng one, other;
            rng_seed(&one, 17, 1, RNG_BATCH);
            other = one;
            for (int t = 0; t < 500; t++) {
                cr_assert(kernels_choose("portable"));
                minibatch_draw(&a, &one, want);
                cr_assert(kernels_choose((*isa)->isa));
                memset(idx, 0xff, padded(many) * sizeof *idx);
                minibatch_draw_mapped(&b, &other, row_map, idx);
                for (size_t k = 0; k < many; k++)
                    cr_assert_eq(idx[k], row_map[want[k]], "%s, %zu of %zu", (*isa)->isa, many,
                                 rows);
                for (size_t k = many; k < padded(many); k++)
                    cr_assert_leq(idx[k], UINT16_MAX, "%s, behind %zu", (*isa)->isa, many);
            }
            cr_assert(memcmp(&one, &other, sizeof one) == 0, "%s, %zu", (*isa)->isa, many);
            minibatch_release(&a);
            minibatch_release(&b);
        }
        free(row_map);
        free(idx);
        free(want);
    }
}

Test(minibatch, a_table_does_not_grow_with_the_data)
{
    cr_expect_eq(minibatch_bytes(10000, 30, false), minibatch_bytes(10000000, 30, false));
    cr_expect_lt(minibatch_bytes(10000000, 30, false), 30000);
    cr_expect_eq(minibatch_bytes(10000, 9000, false) - minibatch_bytes(10000, 9000, true), 10000);
}
