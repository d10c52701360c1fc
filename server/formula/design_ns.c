/* Natural cubic splines, column for column those of R's splines::ns(x, df).
 *
 * Cubic B-splines on knots at quantiles and four at each end of the range; the first one is left out
 * (the intercept has its place), and of the others those combinations are kept whose second
 * derivative is 0 at both ends. Those are the rows below the second of Q', where Q R are the second
 * derivatives at the ends; LINPACK's reflections decide which basis of that space it is. Everything
 * is unchanged when x is stretched and moved, so that it is done on [0, 1]. */
#include "server/formula/design_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER = 4 };

enum err spline_init(struct spline *spline, size_t df, size_t *left, struct err_info *info)
{
    *spline = (struct spline){.df = df};
    tally_init(&spline->sample, DESIGN_SAMPLE_MAX, left);
    spline->knots = calloc(df + 7, sizeof *spline->knots);
    spline->matrix = calloc((df + 3) * df, sizeof *spline->matrix);
    for (size_t i = 0; i < 2; i++)
        spline->edge[i] = calloc(2 * df, sizeof *spline->edge[i]);
    if (spline->knots == NULL || spline->matrix == NULL || spline->edge[0] == NULL ||
        spline->edge[1] == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for splines");
    return ERR_OK;
}

void spline_release(struct spline *spline)
{
    tally_release(&spline->sample);
    free(spline->knots);
    free(spline->matrix);
    free(spline->edge[0]);
    free(spline->edge[1]);
    *spline = (struct spline){0};
}

/* R's quantile of type 7: between the values at ranks floor(h) and floor(h) + 1, h = (n - 1) p. */
static double quantile(const struct tally *sample, uint64_t n, double p)
{
    double h = (double)(n - 1) * p;
    uint64_t rank = (uint64_t)h, before = 0;
    size_t i = 0;
    while (before + sample->counts[i] <= rank)
        before += sample->counts[i++];
    double low = sample->values[i];
    if (rank + 1 < before + sample->counts[i] || i + 1 == sample->count)
        return low;
    double part = h - (double)rank;
    return (1.0 - part) * low + part * sample->values[i + 1];
}

/* The interval [knots[j], knots[j + 1]) of u; the last one is closed. */
static size_t interval(const struct spline *spline, double u)
{
    size_t low = ORDER - 1, high = spline->df + 2; /* low <= j <= high */
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (spline->knots[middle] <= u)
            low = middle;
        else
            high = middle - 1;
    }
    while (low > ORDER - 1 && spline->knots[low] == spline->knots[low + 1])
        low--;
    return low;
}

/* The B-splines j - order + 1 ... j at u in interval j (de Boor's triangle). */
static void bsplines(const double *knots, size_t j, size_t order, double u, double *out)
{
    out[0] = 1.0;
    for (size_t k = 1; k < order; k++) {
        double carried = 0.0;
        for (size_t r = 0; r < k; r++) {
            double right = knots[j + 1 + r] - u, left = u - knots[j + 1 + r - k];
            double share = out[r] / (right + left);
            out[r] = carried + right * share;
            carried = left * share;
        }
        out[k] = carried;
    }
}

/* Derivative `times` of the four cubic B-splines j - 3 ... j at u: the splines of a lower order, and
 * the difference B'[i] = (k - 1) (B[i] / (t[i+k-1] - t[i]) - B[i+1] / (t[i+k] - t[i+1])) per order k. */
static void derivatives(const double *knots, size_t j, double u, size_t times, double out[ORDER])
{
    bsplines(knots, j, ORDER - times, u, out);
    for (size_t k = ORDER - times + 1; k <= ORDER; k++) {
        for (size_t r = k; r-- > 0;) {
            size_t i = j + 1 + r - k; /* the spline that out[r] will be */
            double lower = r > 0 ? out[r - 1] / (knots[i + k - 1] - knots[i]) : 0.0;
            double upper = r + 1 < k ? out[r] / (knots[i + k] - knots[i + 1]) : 0.0;
            out[r] = (double)(k - 1) * (lower - upper);
        }
    }
}

/* Householder's reflection that takes v[from..n) to a multiple of the first, as LINPACK's dqrdc
 * stores it: v becomes u, and y - u (u'y) / u[from] is y reflected. */
static void reflection(double *v, size_t from, size_t n)
{
    double norm = 0.0;
    for (size_t i = from; i < n; i++)
        norm += v[i] * v[i];
    norm = sqrt(norm);
    if (v[from] < 0.0)
        norm = -norm;
    for (size_t i = from; i < n; i++)
        v[i] /= norm;
    v[from] += 1.0;
}

static void reflect(const double *u, size_t from, size_t n, double *y)
{
    double dot = 0.0;
    for (size_t i = from; i < n; i++)
        dot += u[i] * y[i];
    dot /= u[from];
    for (size_t i = from; i < n; i++)
        y[i] -= dot * u[i];
}

static enum err fill_matrix(struct spline *spline, struct err_info *info)
{
    size_t df = spline->df, n = df + 2; /* B-splines but the first */
    double *u = calloc(3 * (n + 1), sizeof *u);
    if (u == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for splines");
    double *v = u + n + 1, *y = v + n + 1;
    for (size_t end = 0; end < 2; end++) {
        double four[ORDER], at = (double)end;
        size_t j = interval(spline, at);
        derivatives(spline->knots, j, at, 2, four);
        memcpy((end == 0 ? u : v) + j - 3, four, sizeof four); /* from spline j - 3 on */
    }
    u++; /* without the first */
    v++;
    reflection(u, 0, n);
    reflect(u, 0, n, v);
    reflection(v, 1, n);
    for (size_t i = 0; i < n; i++) {
        memset(y, 0, n * sizeof *y);
        y[i] = 1.0;
        reflect(u, 0, n, y);
        reflect(v, 1, n, y);
        memcpy(spline->matrix + (i + 1) * df, y + 2, df * sizeof *y);
    }
    free(u - 1);
    return ERR_OK;
}

static void combine(const struct spline *spline, size_t j, const double four[ORDER], double *out)
{
    memset(out, 0, spline->df * sizeof *out);
    for (size_t r = 0; r < ORDER; r++) {
        const double *row = spline->matrix + (j - 3 + r) * spline->df;
        for (size_t c = 0; c < spline->df; c++)
            out[c] += four[r] * row[c];
    }
}

static enum err place_knots(struct spline *spline, const struct formula_variable *variable,
                            struct err_info *info)
{
    const struct tally *sample = &spline->sample;
    size_t df = spline->df;
    if (sample->count <= df)
        return design_fail(info, ERR_INVALID,
                           "%.200s: there are only %zu different values; df must be less",
                           variable->label, sample->count);
    uint64_t n = 0;
    for (size_t i = 0; i < sample->count; i++)
        n += sample->counts[i];
    double lowest = sample->values[0], highest = sample->values[sample->count - 1];
    spline->lowest = lowest;
    spline->width = highest - lowest;
    if (!isfinite(spline->width))
        return design_fail(info, ERR_INVALID, "%.200s: values from %g to %g are too far apart",
                           variable->label, lowest, highest);
    for (size_t i = 0; i < ORDER; i++)
        spline->knots[df + 3 + i] = 1.0;
    size_t equal = 1;
    for (size_t i = 1; i < df; i++) {
        double x = quantile(sample, n, (double)i / (double)df);
        double u = (x - lowest) / spline->width;
        equal = u == spline->knots[i + 2] ? equal + 1 : 1;
        spline->knots[i + 3] = u;
        if (u <= 0.0 || u >= 1.0 || equal == ORDER)
            return design_fail(
                info, ERR_INVALID, "%.200s: so many rows have the value %.15g that %s; lower df",
                variable->label, x,
                equal == ORDER ? "four knots fall on it" : "a knot falls on the edge");
    }
    return ERR_OK;
}

enum err spline_end(struct spline *spline, const struct formula_variable *variable,
                    struct err_info *info)
{
    enum err err = tally_end(&spline->sample);
    if (err == ERR_TOO_LARGE)
        return design_fail(
            info, err,
            "%.200s: more different values than %d, which are kept for the quantiles; "
            "use poly, or round them",
            variable->label, DESIGN_SAMPLE_MAX);
    if (err != ERR_OK)
        return design_fail(info, err, "no memory for the values of %.200s", variable->label);
    if ((err = place_knots(spline, variable, info)) != ERR_OK ||
        (err = fill_matrix(spline, info)) != ERR_OK)
        return err;
    for (size_t end = 0; end < 2; end++) {
        double four[ORDER], at = (double)end;
        size_t j = interval(spline, at);
        bsplines(spline->knots, j, ORDER, at, four);
        combine(spline, j, four, spline->edge[end]);
        derivatives(spline->knots, j, at, 1, four);
        combine(spline, j, four, spline->edge[end] + spline->df);
    }
    tally_release(&spline->sample);
    return ERR_OK;
}

void spline_fill(const struct spline *spline, double x, double *out)
{
    double u = (x - spline->lowest) / spline->width;
    if (u < 0.0 || u > 1.0) { /* straight on */
        const double *edge = spline->edge[u > 1.0];
        double beyond = u > 1.0 ? u - 1.0 : u;
        for (size_t c = 0; c < spline->df; c++)
            out[c] = edge[c] + beyond * edge[spline->df + c];
        return;
    }
    double four[ORDER];
    size_t j = interval(spline, u);
    bsplines(spline->knots, j, ORDER, u, four);
    combine(spline, j, four, out);
}
