/* The errors of means and sds, from gradients at draws. */
#include "core/diagnostics/certificate.h"
#include "core/diagnostics/quantile.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BATCHES 20
#define HEAVY         (1.0 / 3.0) /* share of one draw in a sum of squares */
#define MATTERS       0.01        /* sds: by so much one draw may move an estimate */
#define CHANCE        3.0         /* standard errors that chance explains */
#define HIDDEN        2.0 /* how much larger a bias may be than what mean and sd show of it */
#define ALARM         0.01
#define FEW           200 /* draws: fewer give moments of fourth order only roughly */

/* One coordinate in units of its own draws, whose mean and sd are a and s: x = (theta_j - a) / s,
 * w = (S g)_j / s, and S = S_jj / s^2. */
struct column {
    size_t n;
    double *x, *w;
    double a, s, S;
};

/* Means over the draws: of x^a w^b. */
struct means {
    double w, xw, xxw, xxxw, xxx, xxxx;
    double most; /* largest share of one draw in the sum of x^4 */
};

struct terms {
    double c0, c1, c2; /* t = c0 x + (1 - c0) x^2 + c1 u1 + c2 u2; c0 is 0 or 1 */
    double centre, variance;
};

struct work {
    double *x, *w, *t, *sums;
    size_t *counts;
};

size_t certificate_batches(size_t draws, size_t chains)
{
    double all = fmax(LEAST_BATCHES, sqrt((double)(draws * chains)));
    double each = ceil(all / (double)chains);
    return each < (double)draws ? (size_t)each : draws;
}

double certificate_alarm(size_t count)
{
    return mixing_quantile_normal(1.0 - 0.5 * ALARM / (double)(count > 0 ? count : 1));
}

/* ---- one coordinate ---- */

static struct means means_of(const struct column *c)
{
    struct means m = {0};
    for (size_t i = 0; i < c->n; i++) {
        double x = c->x[i], w = c->w[i], xx = x * x;
        m.w += w;
        m.xw += x * w;
        m.xxw += xx * w;
        m.xxxw += xx * x * w;
        m.xxx += xx * x;
        m.xxxx += xx * xx;
        m.most = fmax(m.most, xx * xx);
    }
    double share = 1.0 / (double)c->n;
    return (struct means){m.w * share,   m.xw * share,   m.xxw * share,  m.xxxw * share,
                          m.xxx * share, m.xxxx * share, m.most / m.xxxx};
}

static double value(const struct column *c, const struct terms *t, size_t i)
{
    double x = c->x[i], w = c->w[i];
    return t->c0 * x + (1.0 - t->c0) * x * x + t->c1 * w + t->c2 * (x * w + c->S);
}

static void spread(const struct column *c, struct terms *t)
{
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < c->n; i++)
        sum += value(c, t, i);
    t->centre = sum / (double)c->n;
    for (size_t i = 0; i < c->n; i++)
        squares += pow(value(c, t, i) - t->centre, 2.0);
    t->variance = squares / (double)c->n;
}

/* The coefficients for both instruments, x and x^2 - 1, if E[x f] and E[(x^2 - 1) f] are f1 and
 * f2. */
static void solve(const struct column *c, const struct means *m, double f1, double f2,
                  struct terms *t)
{
    double a11 = m->xw, a12 = m->xxw, a21 = m->xxw - m->w, a22 = m->xxxw - m->xw;
    double determinant = a11 * a22 - a12 * a21;
    t->c1 = (a12 * f2 - a22 * f1) / determinant;
    t->c2 = (a21 * f1 - a11 * f2) / determinant;
    spread(c, t);
}

static struct terms smaller(const struct terms *a, const struct terms *b)
{
    return b->variance < a->variance ? *b : *a; /* a, if b is NaN */
}

static struct terms mean_terms(const struct column *c, const struct means *m)
{
    struct terms one = {.c0 = 1.0, .c1 = -1.0 / m->xw}, two = {.c0 = 1.0};
    spread(c, &one);
    if (c->n < FEW)
        return one;
    solve(c, m, 1.0, m->xxx, &two);
    return smaller(&one, &two);
}

/* `mean` is the target's in these units. One control for x^2: with k = -1 / E[x w], the squares
 * (x - mean)^2 take k ((x - mean) w + S), and 2 mean (x - mean) takes 2 mean k w. */
static struct terms square_terms(const struct column *c, const struct means *m, double mean)
{
    struct terms one = {.c1 = -mean / m->xw, .c2 = -1.0 / m->xw}, two = {0};
    spread(c, &one);
    if (c->n < FEW)
        return one;
    solve(c, m, m->xxx, m->xxxx - 1.0, &two);
    return smaller(&one, &two);
}

/* ---- standard errors ---- */

/* The 97.7 % quantile of Student's law over that of the normal: the Cornish-Fisher series, whose
 * last coefficient is raised from 1.43 to 2 to make up for the terms left out. */
static double student(size_t freedom)
{
    double f = (double)freedom;
    return freedom > 0 ? 1.0 + 1.25 / f + 1.53 / (f * f) + 2.0 / (f * f * f) : NAN;
}

/* The standard error of the mean of n numbers t with mean 0: from the means of batches, but at
 * least that of independent draws. The square of the largest |t| is added, because one draw more or
 * less of that size would change the mean by as much; 9 times it where the tails are heavy. NaN:
 * fewer than two batches, or a single draw dominates the sum of squares and moves the mean by more
 * than MATTERS. */
static double error_of(const struct certificate_draws *draws, const double *t, struct work *work)
{
    double squares = 0.0, most = 0.0, between = 0.0, n = (double)draws->n;
    size_t batches = 0;
    memset(work->sums, 0, draws->batches * sizeof *work->sums);
    memset(work->counts, 0, draws->batches * sizeof *work->counts);
    for (size_t i = 0; i < draws->n; i++) {
        work->sums[draws->batch[i]] += t[i];
        work->counts[draws->batch[i]]++;
        squares += t[i] * t[i];
        most = fmax(most, fabs(t[i]));
    }
    for (size_t b = 0; b < draws->batches; b++) {
        batches += work->counts[b] > 0;
        between += work->sums[b] * work->sums[b];
    }
    bool heavy = most * most > HEAVY * squares;
    if (batches < 2 || !isfinite(squares) || (heavy && most > MATTERS * n))
        return NAN;
    between *= (double)batches / (double)(batches - 1);
    return sqrt(fmax(between, squares) + (heavy ? 9.0 : 1.0) * most * most) / n *
           student(batches - 1);
}

/* By how much the sd of n draws differs from that of the run of which they are a part, beyond what
 * chance explains for a normal law. Such a difference comes from tails that few of the n draws
 * reach. */
static double unlike(double ratio, size_t n)
{
    return fmax(0.0, fabs(ratio - 1.0) - CHANCE / sqrt(2.0 * (double)n));
}

/* ---- all together ---- */

/* False when the coordinate is constant or a number is not finite. */
static bool fill(struct column *c, const struct certificate_draws *draws, size_t j)
{
    size_t d = draws->d;
    const double *row = draws->covariance != NULL ? draws->covariance + j * d : NULL;
    double sum = 0.0, squares = 0.0, largest = 0.0, variance = draws->sd[j] * draws->sd[j];
    for (size_t i = 0; i < c->n; i++)
        sum += draws->theta[i * d + j];
    c->a = sum / (double)c->n;
    for (size_t i = 0; i < c->n; i++) {
        c->x[i] = draws->theta[i * d + j] - c->a;
        squares += c->x[i] * c->x[i];
    }
    c->s = sqrt(squares / (double)c->n);
    c->S = (row != NULL ? row[j] : variance) / (c->s * c->s);
    for (size_t i = 0; i < c->n; i++) {
        const double *g = draws->score + i * d;
        double w = row != NULL ? 0.0 : variance * g[j];
        for (size_t k = 0; row != NULL && k < d; k++)
            w += row[k] * g[k];
        c->x[i] /= c->s;
        c->w[i] = w / c->s;
        largest = fmax(largest, isnan(w) ? INFINITY : fabs(c->w[i]));
    }
    return c->s > 0.0 && isfinite(c->s) && isfinite(largest) && c->S > 0.0 && isfinite(c->S);
}

/* By Cauchy and Schwarz a bias h moves a mean by at most |h| sds and, of a normal target, an sd by
 * at most sqrt(1/2) |h|, and the mean of t by at most |h| times its sd. */
static void add_bounds(struct certificate_row *row, double mean_spread, double sd_spread)
{
    double mean = isnan(row->mean_error) ? 0.0 : row->mean_error;
    double h = hypot(mean, isnan(row->sd_error) ? 0.0 : sqrt(2.0) * row->sd_error);
    row->mean_bound = fabs(row->mean_error) + 2.0 * row->mean_se + HIDDEN * h * mean_spread;
    row->sd_bound = fabs(row->sd_error) + 2.0 * row->sd_se + HIDDEN * h * sd_spread;
}

/* The sd of n numbers with mean 0. */
static double spread_of(const double *t, size_t n)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        squares += t[i] * t[i];
    return sqrt(squares / (double)n);
}

static void keep(double *error, double *se, double error_found, double se_found)
{
    bool resolved = isfinite(error_found) && isfinite(se_found);
    *error = resolved ? error_found : NAN;
    *se = resolved ? se_found : NAN;
}

/* Both return the sd of t, in the units of the error. */
static double judge_mean(struct certificate_row *row, const struct certificate_draws *draws,
                         size_t j, const struct column *c, const struct terms *mean,
                         struct work *work)
{
    double sd = draws->sd[j];
    if (!(mean->variance < 1.0)) /* that of x */
        return NAN;
    for (size_t i = 0; i < c->n; i++)
        work->t[i] = value(c, mean, i) - mean->centre;
    keep(&row->mean_error, &row->mean_se, (draws->mean[j] - c->a - c->s * mean->centre) / sd,
         error_of(draws, work->t, work) * c->s / sd);
    return spread_of(work->t, c->n) * c->s / sd;
}

/* The variance is E x^2 - (E x)^2 under the target; half its relative error is that of the sd. */
static double judge_sd(struct certificate_row *row, const struct certificate_draws *draws, size_t j,
                       const struct column *c, const struct terms *mean, struct work *work)
{
    const struct means m = means_of(c);
    const struct terms square = square_terms(c, &m, mean->centre);
    double variance = square.centre - mean->centre * mean->centre;
    if (!(square.variance < m.xxxx - 1.0) || !(m.most < HEAVY) || !(variance > 0.0))
        return NAN;
    double ratio = draws->sd[j] / (c->s * sqrt(variance));
    for (size_t i = 0; i < c->n; i++)
        work->t[i] = 0.5 * ratio / variance *
                     (value(c, &square, i) - square.centre -
                      2.0 * mean->centre * (value(c, mean, i) - mean->centre));
    keep(&row->sd_error, &row->sd_se, ratio - 1.0,
         error_of(draws, work->t, work) + unlike(draws->sd[j] / c->s, c->n));
    return spread_of(work->t, c->n);
}

static void judge(struct certificate_row *row, const struct certificate_draws *draws, size_t j,
                  struct work *work)
{
    struct column c = {.n = draws->n, .x = work->x, .w = work->w};
    *row = (struct certificate_row){NAN, NAN, NAN, NAN, NAN, NAN};
    if (draws->n < CERTIFICATE_DRAWS || !(draws->sd[j] > 0.0) || !fill(&c, draws, j))
        return;
    const struct means m = means_of(&c);
    const struct terms mean = mean_terms(&c, &m);
    double mean_spread = judge_mean(row, draws, j, &c, &mean, work);
    double sd_spread = judge_sd(row, draws, j, &c, &mean, work);
    add_bounds(row, mean_spread, sd_spread);
}

enum err certificate_measure(struct certificate_row *rows, const struct certificate_draws *draws,
                             struct err_info *info)
{
    size_t n = draws->n + 1, batches = draws->batches + 1;
    double *numbers = malloc((3 * n + batches) * sizeof *numbers);
    struct work work = {.counts = malloc(batches * sizeof *work.counts)};
    if (numbers == NULL || work.counts == NULL) {
        free(numbers);
        free(work.counts);
        return err_set(info, ERR_NO_MEMORY, "no memory for a certificate of %zu draws", draws->n);
    }
    work.x = numbers;
    work.w = numbers + n;
    work.t = numbers + 2 * n;
    work.sums = numbers + 3 * n;
    for (size_t j = 0; j < draws->d; j++)
        judge(&rows[j], draws, j, &work);
    free(numbers);
    free(work.counts);
    return ERR_OK;
}
