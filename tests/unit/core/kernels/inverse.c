/* Inverses: right, refused when there is none, and of the same bits on every instruction set. */
#include "core/kernels/kernels.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static double uniform(void)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(state >> 12) + 0.5) * 0x1p-52;
}

static double *array(size_t n)
{
    double *p = lanes_alloc(n, sizeof *p);
    cr_assert_not_null(p);
    return p;
}

struct problem {
    struct inverse inverse;
    double *A, *out;
};

static void problem(struct problem *p, size_t n)
{
    size_t lanes = (n + LANES - 1) / LANES * LANES;
    p->A = array(n * n);
    p->out = array(n * n);
    p->inverse = (struct inverse){.n = n,
                                  .A = p->A,
                                  .rows = array(n * lanes),
                                  .pivot = array(n),
                                  .column = array(n),
                                  .open = lanes_alloc(n, sizeof(uint64_t)),
                                  .order = lanes_alloc(n, sizeof(uint32_t))};
}

static void problem_release(struct problem *p)
{
    free(p->A);
    free(p->out);
    free(p->inverse.rows);
    free(p->inverse.pivot);
    free(p->inverse.column);
    free(p->inverse.open);
    free(p->inverse.order);
}

/* Zeros down the diagonal: no elimination without exchanges gets past them. */
static void awkward(double *A, size_t n, double size)
{
    state = n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            A[i * n + j] = i == j && n > 1 ? 0.0 : size * (2.0 * uniform() - 1.0);
}

/* Largest entry of A A^-1 - I, the inverse transposed being in `out`. */
static double residual(const struct problem *p, double scale)
{
    size_t n = p->inverse.n;
    double worst = 0.0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            long double sum = i == k ? -scale : 0.0;
            for (size_t j = 0; j < n; j++)
                sum += (long double)p->A[i * n + j] * p->out[k * n + j];
            worst = fmax(worst, (double)fabsl(sum / scale));
        }
    return worst;
}

Test(kernel_inverse, product_with_the_matrix_is_the_identity)
{
    static const double sizes[] = {1.0, 1e-140, 1e140};
    for (size_t n = 1; n <= 40; n++)
        for (size_t s = 0; s < 3; s++) {
            struct problem p;
            problem(&p, n);
            awkward(p.A, n, sizes[s]);
            cr_assert(kernels->invert(&p.inverse), "n = %zu", n);
            kernels->add_transposed(&p.inverse, 11.0, p.out);
            cr_assert_leq(residual(&p, 11.0), 1e-11, "n = %zu: %g", n, residual(&p, 11.0));
            problem_release(&p);
        }
}

Test(kernel_inverse, what_is_there_is_added_to)
{
    struct problem p;
    problem(&p, 3);
    memcpy(p.A, (double[]){0, 2, 0, 0, 0, 4, 8, 0, 0}, 9 * sizeof *p.A);
    for (size_t j = 0; j < 9; j++)
        p.out[j] = 10.0;
    cr_assert(kernels->invert(&p.inverse));
    kernels->add_transposed(&p.inverse, 3.0, p.out);
    const double want[9] = {10, 11.5, 10, 10, 10, 10.75, 10.375, 10, 10};
    cr_assert_arr_eq(p.out, want, sizeof want);
    problem_release(&p);
}

Test(kernel_inverse, the_product_of_the_pivots_is_the_determinant_but_for_its_sign)
{
    struct problem p;
    problem(&p, 9);
    for (size_t i = 0; i < 9; i++) /* rows of a triangle, the last first: determinant 1.5^9 */
        for (size_t j = 0; j < 9; j++)
            p.A[i * 9 + j] = j == 8 - i ? 1.5 : j < 8 - i ? 0.25 * (double)(i + j) : 0.0;
    cr_assert(kernels->invert(&p.inverse));
    double product = 1.0;
    for (size_t k = 0; k < 16; k++)
        product *= p.inverse.pivot[k];
    cr_assert_float_eq(fabs(product), pow(1.5, 9), 1e-13 * pow(1.5, 9));
    problem_release(&p);
}

/* An inverse of a Hilbert matrix is known in whole numbers; its condition is 1.5e10 for n = 8. */
Test(kernel_inverse, ill_conditioned_matrices_lose_no_more_than_their_condition)
{
    static const double corner[] = {64, -2016, 20160, -92400, 221760, -288288, 192192, -51480};
    struct problem p;
    problem(&p, 8);
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 8; j++)
            p.A[i * 8 + j] = 1.0 / (double)(i + j + 1);
    cr_assert(kernels->invert(&p.inverse));
    kernels->add_transposed(&p.inverse, 1.0, p.out);
    for (size_t j = 0; j < 8; j++)
        cr_assert_float_eq(p.out[j], corner[j], 1.5e10 * DBL_EPSILON * fabs(corner[j]), "%zu: %g",
                           j, p.out[j]);
    problem_release(&p);
}

Test(kernel_inverse, matrices_without_an_inverse_are_refused)
{
    static const double matrices[][9] = {
        {0},
        {1, 2, 3, 2, 4, 6, 0, 0, 1},
        {1, 0, 0, 0, 1, 0, 0, 0, 0},
        {1, 0, 0, 0, 1, 0, 0, 0, 1e-310},
        {1, 0, 0, 0, NAN, 0, 0, 0, 1},
        {INFINITY, 0, 0, 0, 1, 0, 0, 0, 1},
        {1, 1, 1, 1, 1, 1, 1, 1, 1},
    };
    struct problem p;
    problem(&p, 3);
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
            memcpy(p.A, matrices[i], sizeof matrices[i]);
            cr_assert_not((*k)->invert(&p.inverse), "%s: matrix %zu", (*k)->isa, i);
        }
    problem_release(&p);
}

Test(kernel_inverse, every_instruction_set_gives_the_same_bits)
{
    for (size_t n = 1; n <= 70; n++) {
        struct problem p;
        double *want = array(n * n);
        problem(&p, n);
        awkward(p.A, n, 1.0);
        for (const struct kernels *const *k = kernels_available(); *k != NULL; k++) {
            memset(p.out, 0, n * n * sizeof *p.out);
            cr_assert((*k)->invert(&p.inverse));
            (*k)->add_transposed(&p.inverse, 2.385, p.out);
            if (k == kernels_available())
                memcpy(want, p.out, n * n * sizeof *want);
            cr_assert_arr_eq(p.out, want, n * n * sizeof *want, "%s, n = %zu", (*k)->isa, n);
        }
        free(want);
        problem_release(&p);
    }
}
