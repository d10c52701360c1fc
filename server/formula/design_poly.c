/* Orthogonal polynomials, one degree per pass; and scale(), which is the first of them.
 *
 * R's poly takes a QR decomposition of the powers of x - mean(x); its columns are the polynomials
 * that are orthogonal over the rows, with a positive leading coefficient. The same ones follow from
 *
 *     p[k+1] = (t - alpha[k]) p[k] - norm2[k] / norm2[k-1] p[k-1],
 *     norm2[k] = sum p[k]^2,  alpha[k] = sum t p[k]^2 / norm2[k]
 *
 * (Stieltjes), which needs no more memory than the coefficients. t is centred and within [-1, 1], so
 * that no power of it leaves the range of a double. */
#include "server/formula/design_parts.h"

#include <math.h>
#include <stdlib.h>

enum err polynomial_init(struct polynomial *poly, size_t degree, struct err_info *info)
{
    *poly = (struct polynomial){.degree = degree};
    poly->distinct = calloc(degree + 1, sizeof *poly->distinct);
    poly->alpha = calloc(degree + 1, sizeof *poly->alpha);
    poly->norm2 = calloc(degree + 1, sizeof *poly->norm2);
    poly->scale = calloc(degree + 1, sizeof *poly->scale);
    if (poly->distinct == NULL || poly->alpha == NULL || poly->norm2 == NULL || poly->scale == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for polynomials");
    return ERR_OK;
}

void polynomial_release(struct polynomial *poly)
{
    free(poly->distinct);
    free(poly->alpha);
    free(poly->norm2);
    free(poly->scale);
    *poly = (struct polynomial){0};
}

bool polynomial_known(const struct polynomial *poly)
{
    return poly->stage > poly->degree;
}

static void look_first(struct polynomial *poly, double x)
{
    if (poly->n == 0)
        poly->first = poly->lowest = poly->highest = x;
    poly->n++;
    poly->lowest = x < poly->lowest ? x : poly->lowest;
    poly->highest = x > poly->highest ? x : poly->highest;
    design_sum_add(&poly->sum, x - poly->first);
    if (poly->distinct_count > poly->degree)
        return;
    for (size_t i = 0; i < poly->distinct_count; i++)
        if (poly->distinct[i] == x)
            return;
    poly->distinct[poly->distinct_count++] = x;
}

/* p[k] and p[k-1] are brought to k + 1. */
static void raise_degree(const struct polynomial *poly, size_t k, double t, double *p,
                         double *before)
{
    double ratio = k > 0 ? poly->norm2[k] / poly->norm2[k - 1] : 0.0;
    double next = (t - poly->alpha[k]) * *p - ratio * *before;
    *before = *p;
    *p = next;
}

void polynomial_look(struct polynomial *poly, double x)
{
    if (polynomial_known(poly))
        return;
    if (poly->stage == 0) {
        look_first(poly, x);
        return;
    }
    double t = (x - poly->centre) / poly->width, p = 1.0, before = 0.0;
    for (size_t k = 0; k < poly->stage; k++)
        raise_degree(poly, k, t, &p, &before);
    design_sum_add(&poly->sum, p * p);
    design_sum_add(&poly->product, t * p * p);
}

static enum err end_first(struct polynomial *poly, const struct formula_variable *variable,
                          struct err_info *info)
{
    const char *label = variable->label;
    if (poly->distinct_count <= poly->degree && variable->kind == VARIABLE_SCALE)
        return design_fail(info, ERR_INVALID,
                           "%.200s: there is nothing to scale where all values are equal", label);
    if (poly->distinct_count <= poly->degree)
        return design_fail(
            info, ERR_INVALID,
            "%.200s: there are only %zu different values; the degree must be less than that", label,
            poly->distinct_count);
    poly->centre = poly->first + design_sum_value(&poly->sum) / (double)poly->n;
    poly->width = fmax(poly->highest - poly->centre, poly->centre - poly->lowest);
    if (!isfinite(poly->centre) || !isfinite(poly->width))
        return design_fail(info, ERR_INVALID, "%.200s: values from %g to %g are too far apart",
                           label, poly->lowest, poly->highest);
    poly->norm2[0] = (double)poly->n;
    return ERR_OK;
}

static enum err end_degree(struct polynomial *poly, const struct formula_variable *variable,
                           struct err_info *info)
{
    size_t k = poly->stage;
    double norm2 = design_sum_value(&poly->sum);
    /* Below this the polynomial is made of the rounding errors of the one before. */
    if (!(norm2 > 1e-26 * poly->norm2[k - 1]))
        return design_fail(
            info, ERR_INVALID,
            "%.200s: the values are too close together for degree %zu; lower the degree",
            variable->label, k);
    poly->norm2[k] = norm2;
    poly->alpha[k] = design_sum_value(&poly->product) / norm2;
    poly->scale[k] = 1.0 / sqrt(norm2);
    if (variable->kind == VARIABLE_SCALE)
        poly->scale[k] *= sqrt((double)poly->n - 1.0);
    return ERR_OK;
}

enum err polynomial_end(struct polynomial *poly, const struct formula_variable *variable,
                        struct err_info *info)
{
    if (polynomial_known(poly))
        return ERR_OK;
    enum err err =
        poly->stage == 0 ? end_first(poly, variable, info) : end_degree(poly, variable, info);
    poly->sum = poly->product = (struct design_sum){0.0, 0.0};
    poly->stage++;
    return err;
}

void polynomial_fill(const struct polynomial *poly, double x, double *out)
{
    double t = (x - poly->centre) / poly->width, p = 1.0, before = 0.0;
    for (size_t k = 0; k < poly->degree; k++) {
        raise_degree(poly, k, t, &p, &before);
        out[k] = p * poly->scale[k + 1];
    }
}
