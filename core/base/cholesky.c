/* Cholesky factors, row by row (Golub & Van Loan, section 4.2). */
#include "core/base/cholesky.h"

#include <math.h>

/* Not the kernels' dot product: rows of a stored matrix need not be aligned. Four sums let the
 * processor overlap the additions. */
static double dot(const double *a, const double *b, size_t n)
{
    double s[4] = {0.0, 0.0, 0.0, 0.0};
    size_t k = 0;
    for (; k + 4 <= n; k += 4)
        for (size_t i = 0; i < 4; i++)
            s[i] += a[k + i] * b[k + i];
    for (; k < n; k++)
        s[0] += a[k] * b[k];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

bool cholesky_factor(double *a, size_t d, size_t stride)
{
    for (size_t i = 0; i < d; i++) {
        double *row = a + i * stride;
        for (size_t j = 0; j < i; j++)
            row[j] = (row[j] - dot(row, a + j * stride, j)) / a[j * stride + j];
        double pivot = row[i] - dot(row, row, i);
        /* A pivot of the size of its row's rounding error is treated as not positive. */
        if (!(pivot > 1e-14 * row[i]) || !isfinite(pivot))
            return false;
        row[i] = sqrt(pivot);
    }
    return true;
}

void cholesky_solve(const double *L, size_t d, size_t stride, double *x)
{
    for (size_t i = 0; i < d; i++)
        x[i] = (x[i] - dot(L + i * stride, x, i)) / L[i * stride + i];
    for (size_t i = d; i-- > 0;) {
        x[i] /= L[i * stride + i];
        for (size_t j = 0; j < i; j++)
            x[j] -= L[i * stride + j] * x[i];
    }
}

static void swap(double *a, double *b)
{
    double t = *a;
    *a = *b;
    *b = t;
}

/* Fills the upper triangle by symmetry and reverses the order of rows and columns. */
static void fill_and_reverse(double *H, size_t d, size_t stride)
{
    for (size_t i = 0; i < d; i++)
        for (size_t j = i + 1; j < d; j++)
            H[i * stride + j] = H[j * stride + i];
    for (size_t i = 0; i < d / 2; i++)
        for (size_t j = 0; j < d; j++)
            swap(&H[i * stride + j], &H[(d - 1 - i) * stride + (d - 1 - j)]);
    if (d % 2 == 1)
        for (size_t j = 0; j < d / 2; j++)
            swap(&H[d / 2 * stride + j], &H[d / 2 * stride + (d - 1 - j)]);
}

/* With the coordinates in reverse order, J H J = L L', H^-1 is (J L^-T J)(J L^-T J)', and reversing
 * rows and columns turns the upper triangular L^-T into a lower triangular matrix. */
bool cholesky_whiten(double *H, size_t d, size_t stride, double *A)
{
    fill_and_reverse(H, d, stride);
    if (!cholesky_factor(H, d, stride))
        return false;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < stride; j++)
            A[i * stride + j] = 0.0;
    for (size_t c = 0; c < d; c++) { /* column c of L^-1 is row d-1-c of A in reverse order */
        double *row = A + (d - 1 - c) * stride;
        for (size_t i = c; i < d; i++) {
            double sum = i == c ? 1.0 : 0.0;
            for (size_t k = c; k < i; k++)
                sum -= H[i * stride + k] * row[d - 1 - k];
            row[d - 1 - i] = sum / H[i * stride + i];
        }
    }
    return true;
}
