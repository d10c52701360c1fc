/* Stein discrepancies with the inverse multiquadric kernel. */
#include "core/diagnostics/stein.h"
#include "core/kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define REPLICATES  999
#define NULL_POINTS 1000 /* of all points, at most, in the bootstrap */
#define TOGETHER    16   /* replicates per pass over the matrix: their signs stay in the cache */

/* Purposes of random numbers, apart from those of chains. */
enum { STREAM_SIGNS = 100, STREAM_LOCATIONS };

static enum err check_points(const struct stein_points *p, struct err_info *info)
{
    if (p->n < 2)
        return err_set(info, ERR_INVALID, "%zu draws are too few: at least 2 are needed", p->n);
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->d; j++) {
            double x = p->theta[i * p->stride + j], s = p->score[i * p->stride + j];
            if (!isfinite(x) || !isfinite(s))
                return err_set(info, ERR_INVALID,
                               "draw %zu has %g with a gradient of %g in coordinate %zu: both must "
                               "be finite",
                               i + 1, x, s, j + 1);
        }
    return ERR_OK;
}

static enum err too_large(struct err_info *info)
{
    return err_set(info, ERR_INVALID,
                   "draws or gradients are so large that their products overflow");
}

static enum err no_memory(size_t n, struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the Stein discrepancy of %zu draws", n);
}

/* The Stein kernel of two points. With r = x - y and q = 1 + |r|^2 the kernel is q^(-1/2), its
 * gradients are -r q^(-3/2) in x and +r q^(-3/2) in y, and the trace of the mixed second
 * derivatives is d q^(-3/2) - 3 |r|^2 q^(-5/2); hence
 *
 *     s(x)'s(y) q^(-1/2) + (s(x) - s(y))'r q^(-3/2) + d q^(-3/2) - 3 |r|^2 q^(-5/2).
 *
 * For a normal target s(x) - s(y) = -r: the second term is negative. */
static double stein_kernel(const struct stein_points *p, size_t i, size_t j)
{
    const double *x = p->theta + i * p->stride, *y = p->theta + j * p->stride;
    const double *sx = p->score + i * p->stride, *sy = p->score + j * p->stride;
    double scores = 0.0, cross = 0.0, square = 0.0;
    for (size_t k = 0; k < p->d; k++) {
        double r = x[k] - y[k];
        scores += sx[k] * sy[k];
        cross += (sx[k] - sy[k]) * r;
        square += r * r;
    }
    double q = 1.0 + square, root = 1.0 / sqrt(q);
    return root * (scores + (cross + (double)p->d - 3.0 * (square / q)) / q);
}

struct pair_sums {
    double all, squares; /* over ordered pairs i != j */
    double row_squares;  /* squares of the sums over j, over i */
};

static void sum_pairs(const struct stein_points *p, double *row, struct pair_sums *out)
{
    *out = (struct pair_sums){0};
    for (size_t i = 1; i < p->n; i++)
        for (size_t j = 0; j < i; j++) {
            double u = stein_kernel(p, i, j);
            row[i] += u;
            row[j] += u;
            out->squares += 2.0 * u * u;
        }
    for (size_t i = 0; i < p->n; i++) {
        out->all += row[i];
        out->row_squares += row[i] * row[i];
    }
}

/* Variance of a U-statistic of order 2 (Hoeffding 1948): (4(n-2) z1 + 2 z2) / (n(n-1)), z2 the
 * variance of the kernel, z1 the covariance of two pairs that share a point, from the triples of
 * distinct points. For draws from the target z1 is 0 and only the second term remains, for
 * which a jackknife is not consistent. */
static double squared_error(const struct pair_sums *sums, double n, double mean)
{
    double pairs = n * (n - 1.0);
    double z2 = fmax(0.0, sums->squares / pairs - mean * mean), z1 = 0.0;
    if (n > 2.0)
        z1 = (sums->row_squares - sums->squares) / (pairs * (n - 2.0)) - mean * mean;
    return sqrt((4.0 * (n - 2.0) * fmax(0.0, z1) + 2.0 * z2) / pairs);
}

/* Lower triangle of the Stein kernels of m points spread evenly over all, rows padded with
 * zeros. */
static double *null_matrix(const struct stein_points *p, size_t m)
{
    double *matrix = lanes_alloc(m * padded(m), sizeof *matrix);
    for (size_t i = 0; matrix != NULL && i < m; i++)
        for (size_t j = 0; j < i; j++)
            matrix[i * padded(m) + j] = stein_kernel(p, i * p->n / m, j * p->n / m);
    return matrix;
}

static void draw_signs(struct rng *rng, uint64_t *bits, double *sign, size_t m)
{
    kernels->rng_bits(rng, bits, m);
    for (size_t k = 0; k < m; k++)
        sign[k] = bits[k] >> 63 ? 1.0 : -1.0;
}

/* Wild bootstrap: if the points come from the target, the sum of w_i w_j u(i,j) with random signs w
 * has the law of the sum of u(i,j) in the limit (Chwialkowski, Sejdinovic, Gretton 2014, for
 * independent points). n times the statistic has a limit that does not depend on n, so m points
 * suffice for every n. Counts the replicates that reach the level. */
static size_t count_beyond(const double *matrix, size_t m, double level, struct rng *rng,
                           double *signs, uint64_t *bits)
{
    size_t width = padded(m), beyond = 0;
    for (size_t done = 0; done < REPLICATES; done += TOGETHER) {
        double total[TOGETHER] = {0};
        for (size_t r = 0; r < TOGETHER; r++)
            draw_signs(rng, bits, signs + r * width, m);
        for (size_t i = 1; i < m; i++)
            for (size_t r = 0; r < TOGETHER; r++)
                total[r] +=
                    signs[r * width + i] * kernels->dot(matrix + i * width, signs + r * width, i);
        for (size_t r = 0; r < TOGETHER && done + r < REPLICATES; r++)
            beyond += 2.0 * total[r] / (double)(m - 1) >= level;
    }
    return beyond;
}

static enum err p_value(double *out, const struct stein_points *p, double squared, uint64_t seed,
                        struct err_info *info)
{
    size_t m = p->n < NULL_POINTS ? p->n : NULL_POINTS;
    double *matrix = null_matrix(p, m);
    double *signs = lanes_alloc(TOGETHER * padded(m), sizeof *signs);
    uint64_t *bits = lanes_alloc(m, sizeof *bits);
    enum err code = matrix && signs && bits ? ERR_OK : no_memory(p->n, info);
    if (code == ERR_OK) {
        struct rng rng;
        rng_seed(&rng, seed, 0, STREAM_SIGNS);
        size_t beyond = count_beyond(matrix, m, (double)p->n * squared, &rng, signs, bits);
        *out = (double)(1 + beyond) / (double)(1 + REPLICATES);
    }
    free(matrix);
    free(signs);
    free(bits);
    return code;
}

static enum err ksd(struct stein_ksd *out, const struct stein_points *p, uint64_t seed,
                    struct err_info *info)
{
    enum err code = check_points(p, info);
    if (code != ERR_OK)
        return code;
    double *row = lanes_alloc(p->n, sizeof *row);
    if (row == NULL)
        return no_memory(p->n, info);
    struct pair_sums sums;
    sum_pairs(p, row, &sums);
    free(row);
    double n = (double)p->n;
    out->squared = sums.all / (n * (n - 1.0));
    out->value = sqrt(fmax(0.0, out->squared));
    out->error = squared_error(&sums, n, out->squared);
    if (!isfinite(out->squared) || !isfinite(out->error))
        return too_large(info);
    return p_value(&out->p_value, p, out->squared, seed, info);
}

enum err stein_ksd(struct stein_ksd *out, const struct stein_points *points, uint64_t seed,
                   struct err_info *info)
{
    const struct stein_ksd undefined = {NAN, NAN, NAN, NAN, points->n};
    *out = undefined;
    enum err code = ksd(out, points, seed, info);
    if (code != ERR_OK)
        *out = undefined;
    return code;
}

/* mean + (n-1)^(-1/2) sum_i z_i (theta_i - mean), z normal, is normal with the covariance of the
 * points, also when there are fewer of them than coordinates. */
static void draw_location(double *v, const struct stein_points *p, const double *mean,
                          const double *z)
{
    double scale = 1.0 / sqrt((double)(p->n - 1));
    for (size_t k = 0; k < p->d; k++)
        v[k] = mean[k];
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->d; k++)
            v[k] += scale * z[i] * (p->theta[i * p->stride + k] - mean[k]);
}

static void mean_of_points(double *mean, const struct stein_points *p)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->d; k++)
            mean[k] += (p->theta[i * p->stride + k] - mean[k]) / (double)(i + 1);
}

enum err stein_locations(double *v, size_t locations, const struct stein_points *points,
                         uint64_t seed, struct err_info *info)
{
    enum err code = check_points(points, info);
    if (code != ERR_OK)
        return code;
    double *mean = lanes_alloc(points->d, sizeof *mean);
    double *z = lanes_alloc(points->n, sizeof *z);
    if (mean == NULL || z == NULL)
        code = no_memory(points->n, info);
    else {
        struct rng rng;
        rng_seed(&rng, seed, 0, STREAM_LOCATIONS);
        mean_of_points(mean, points);
        for (size_t j = 0; j < locations; j++) {
            kernels->rng_normal(&rng, z, points->n);
            draw_location(v + j * points->d, points, mean, z);
        }
    }
    free(mean);
    free(z);
    return code;
}

/* Both factors of the Stein feature of a point at a location:
 * s k + grad k = a s - b (theta - v). */
static void feature(const struct stein_points *p, size_t i, const double *v, double *a, double *b)
{
    double q = 1.0;
    for (size_t k = 0; k < p->d; k++) {
        double r = p->theta[i * p->stride + k] - v[k];
        q += r * r;
    }
    *a = 1.0 / sqrt(q);
    *b = *a / q;
}

/* Mean feature at one location, and its squared length as return value. */
static double mean_feature(double *mean, const struct stein_points *p, const double *v)
{
    double a, b, square = 0.0;
    for (size_t k = 0; k < p->d; k++)
        mean[k] = 0.0;
    for (size_t i = 0; i < p->n; i++) {
        feature(p, i, v, &a, &b);
        for (size_t k = 0; k < p->d; k++)
            mean[k] += a * p->score[i * p->stride + k] - b * (p->theta[i * p->stride + k] - v[k]);
    }
    for (size_t k = 0; k < p->d; k++) {
        mean[k] /= (double)p->n;
        square += mean[k] * mean[k];
    }
    return square;
}

/* Adds to left_out[i] what sum_j |a_j|^2 loses when point i is left out, of one location: with f
 * the point's feature the mean without it is m - (f - m) / (n-1). */
static void leave_out(double *left_out, const struct stein_points *p, const double *v,
                      const double *mean)
{
    double a, b, others = (double)(p->n - 1);
    for (size_t i = 0; i < p->n; i++) {
        feature(p, i, v, &a, &b);
        for (size_t k = 0; k < p->d; k++) {
            double f = a * p->score[i * p->stride + k] - b * (p->theta[i * p->stride + k] - v[k]);
            double without = mean[k] - (f - mean[k]) / others;
            left_out[i] += without * without;
        }
    }
}

/* Jackknife: the values without one point each, in place. */
static double jackknife(double *value, size_t n, double scale)
{
    double mean = 0.0, squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        value[i] = sqrt(value[i] * scale);
        mean += value[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        squares += (value[i] - mean) * (value[i] - mean);
    return sqrt(squares * (double)(n - 1) / (double)n);
}

static void fssd(struct stein_fssd *out, const struct stein_points *p, const double *v,
                 double *mean, double *left_out)
{
    double sum = 0.0, scale = 1.0 / ((double)p->d * (double)out->locations);
    for (size_t j = 0; j < out->locations; j++) {
        sum += mean_feature(mean, p, v + j * p->d);
        leave_out(left_out, p, v + j * p->d, mean);
    }
    out->value = sqrt(sum * scale);
    out->error = jackknife(left_out, p->n, scale);
}

enum err stein_fssd_at(struct stein_fssd *out, const struct stein_points *points, const double *v,
                       size_t locations, struct err_info *info)
{
    const struct stein_fssd undefined = {NAN, NAN, locations, points->n};
    *out = undefined;
    enum err code = check_points(points, info);
    if (code != ERR_OK)
        return code;
    if (locations < 1)
        return err_set(info, ERR_INVALID, "0 locations are too few: at least 1 is needed");
    double *mean = lanes_alloc(points->d, sizeof *mean);
    double *left_out = lanes_alloc(points->n, sizeof *left_out);
    if (mean == NULL || left_out == NULL)
        code = no_memory(points->n, info);
    else
        fssd(out, points, v, mean, left_out);
    free(mean);
    free(left_out);
    if (code == ERR_OK && (!isfinite(out->value) || !isfinite(out->error))) {
        *out = undefined;
        code = too_large(info);
    }
    return code;
}

enum err stein_fssd(struct stein_fssd *out, const struct stein_points *points, size_t locations,
                    uint64_t seed, struct err_info *info)
{
    *out = (struct stein_fssd){NAN, NAN, locations, points->n};
    size_t count;
    double *v = NULL;
    if (!__builtin_mul_overflow(locations, points->d, &count))
        v = lanes_alloc(count, sizeof *v);
    if (v == NULL)
        return no_memory(points->n, info);
    enum err code = stein_locations(v, locations, points, seed, info);
    if (code == ERR_OK)
        code = stein_fssd_at(out, points, v, locations, info);
    free(v);
    return code;
}

void stein_rescale(double *theta, double *score, size_t n, size_t d, size_t stride,
                   const double *scale)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++) {
            bool usable = isfinite(scale[j]) && scale[j] > 0.0;
            theta[i * stride + j] /= usable ? scale[j] : 1.0;
            score[i * stride + j] *= usable ? scale[j] : 1.0;
        }
}
