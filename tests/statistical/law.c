/* The stationary law of a one-dimensional kernel. */
#include "tests/statistical/law.h"
#include "tests/support/stat.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a banded matrix: entry (i, j) for |i - j| <= band. */
struct banded {
    size_t n, band;
    double *at;
};

static double *entry(const struct banded *m, size_t i, size_t j)
{
    return &m->at[i * (2 * m->band + 1) + (m->band + j - i)];
}

static struct banded banded_new(size_t n, size_t band)
{
    struct banded m = {.n = n, .band = band};

    m.at = calloc(n * (2 * band + 1), sizeof(double));
    cr_assert_not_null(m.at);
    return m;
}

static double bimodal_density(double sigma, double u)
{
    return stat_normal_pdf((u / sigma - 1) / 0.1) / (0.1 * sigma);
}

/* Density of |jump| at u > 0. */
static double jump_density(const struct law_kernel *k, double u)
{
    if (k->gaussian)
        return 2 * stat_normal_pdf(u / k->sigma) / k->sigma;
    return bimodal_density(k->sigma, u);
}

/* Far out a move away from the mode has probability 0 in doubles; every state must be reached. */
static double chance_up(const struct law_kernel *k, double x, double u)
{
    return fmin(1 - 1e-16, fmax(1e-16, k->up(k->context, x, u)));
}

static struct banded transition(const struct law_kernel *k, double h, size_t n)
{
    double reach = k->lattice ? 1 : k->gaussian ? 8.5 : 1.9;
    struct banded m = banded_new(n, k->lattice ? 1 : (size_t)(reach * k->per_sigma));

    for (size_t i = 0; i < n; i++)
        for (size_t jump = 1; jump <= m.band; jump++) {
            double u = k->lattice ? k->sigma : (double)jump * h;
            double mass = k->lattice ? 1 : h * jump_density(k, u);
            if (mass < 1e-18)
                continue;
            double up = chance_up(k, k->lo + (double)i * h, u);
            if (i + jump < n)
                *entry(&m, i, i + jump) = mass * up;
            if (i >= jump)
                *entry(&m, i, i - jump) = mass * (1 - up);
        }
    return m;
}

static size_t first_in_band(const struct banded *m, size_t k)
{
    return k > m->band ? k - m->band : 0;
}

/* States are taken out from the last to the first, then the weights are put together again. */
static double *invariant(struct banded *m)
{
    double *weight = calloc(m->n, sizeof(double)), total = 0;

    for (size_t k = m->n - 1; k > 0; k--) {
        size_t first = first_in_band(m, k);
        double leave = 0;
        for (size_t j = first; j < k; j++)
            leave += *entry(m, k, j);
        for (size_t i = first; i < k; i++) {
            double share = *entry(m, i, k) /= leave;
            for (size_t j = first; share > 0 && j < k; j++)
                *entry(m, i, j) += share * *entry(m, k, j);
        }
    }
    weight[0] = 1;
    for (size_t k = 1; k < m->n; k++)
        for (size_t i = first_in_band(m, k); i < k; i++)
            weight[k] += weight[i] * *entry(m, i, k);
    for (size_t k = 0; k < m->n; k++)
        total += weight[k];
    for (size_t k = 0; k < m->n; k++)
        weight[k] /= total;
    return weight;
}

/* On a grid the cdf is smooth at the middle between two points; on a lattice it is constant there.
 */
static void summarise(const double *weight, size_t n, double lo, double h,
                      struct stationary_law *law)
{
    double below = 0;

    *law = (struct stationary_law){0};
    for (size_t k = 0; k < n; k++)
        law->mean += weight[k] * (lo + (double)k * h);
    for (size_t k = 0; k < n; k++) {
        double x = lo + (double)k * h - law->mean;
        law->variance += weight[k] * x * x;
        below += weight[k];
        if (below < 0.95 || law->below == 0) {
            law->point = lo + ((double)k + 0.5) * h;
            law->below = below;
        }
    }
    double ends = weight[0] + weight[1] + weight[n - 1] + weight[n - 2];
    cr_assert_lt(ends, 1e-7, "the law has %g at the ends %g and %g of its grid", ends, lo,
                 lo + (double)n * h);
}

void law_of_kernel(const struct law_kernel *kernel, struct stationary_law *law)
{
    struct law_kernel k = *kernel;
    double h = k.lattice ? k.sigma : k.sigma / k.per_sigma;

    k.lo = floor(k.lo / h) * h;
    size_t n = (size_t)((k.hi - k.lo) / h) + 1;
    struct banded m = transition(&k, h, n);
    double *weight = invariant(&m);
    summarise(weight, n, k.lo, h, law);
    free(weight);
    free(m.at);
}

/* The density of x and m, and the chances of every kind of iteration, jump and place. */
struct together {
    const struct law_memory *law;
    size_t n, m, first, jumps; /* points of x and m; jumps of first..first + jumps - 1 steps */
    double h, step;            /* of x and m */
    double *now, *next, *mixed, *mass, *chance;
};

static double *chances(const struct together *t, size_t kind, size_t m, size_t jump)
{
    return &t->chance[((kind * t->m + m) * t->jumps + jump) * t->n];
}

static void fill_chances(const struct together *t)
{
    const struct law_memory *law = t->law;

    for (size_t kind = 0; kind < law->kinds; kind++)
        for (size_t m = 0; m < t->m; m++)
            for (size_t jump = 0; jump < t->jumps; jump++)
                for (size_t i = 0; i < t->n; i++) {
                    double x = law->lo + (double)i * t->h, u = (double)(t->first + jump) * t->h;
                    double g = law->known(x) - law->kind[kind].slope * (x - law->centre);
                    chances(t, kind, m, jump)[i] = law->up(g, u, (double)m * t->step);
                }
}

static void together_init(struct together *t, const struct law_memory *law)
{
    double total = 0;

    *t = (struct together){.law = law,
                           .n = (size_t)((law->hi - law->lo) / law->sigma * law->per_sigma) + 1,
                           .m = law->cells,
                           .first = (size_t)ceil(0.4 * law->per_sigma),
                           .h = law->sigma / law->per_sigma,
                           .step = law->most / (double)(law->cells - 1)};
    t->jumps = (size_t)(1.6 * law->per_sigma) - t->first + 1;
    t->mass = calloc(t->jumps, sizeof(double));
    t->chance = calloc(law->kinds * t->m * t->jumps * t->n, sizeof(double));
    t->now = calloc(3 * t->m * t->n, sizeof(double));
    cr_assert(t->mass && t->chance && t->now);
    t->next = t->now + t->m * t->n;
    t->mixed = t->next + t->m * t->n;
    for (size_t jump = 0; jump < t->jumps; jump++)
        total += t->mass[jump] = bimodal_density(law->sigma, (double)(t->first + jump) * t->h);
    for (size_t jump = 0; jump < t->jumps; jump++)
        t->mass[jump] /= total;
    fill_chances(t);
}

/* The running tau after an iteration of this kind: shared out to the two nearest points. */
static void remember(struct together *t, const struct law_iteration *kind)
{
    double beta = kind->rows ? t->law->beta : 0;

    memset(t->mixed, 0, t->m * t->n * sizeof(double));
    for (size_t m = 0; m < t->m; m++)
        for (size_t i = 0; i < t->n; i++) {
            double tau = kind->tau * fabs(t->law->lo + (double)i * t->h - t->law->centre);
            double at = (1 - beta) * (double)m + beta * tau / t->step;
            size_t k = at < (double)(t->m - 1) ? (size_t)at : t->m - 2;
            double part = fmin(1, at - (double)k), weight = kind->share * t->now[m * t->n + i];
            if (weight < 1e-30)
                continue;
            t->mixed[k * t->n + i] += (1 - part) * weight;
            t->mixed[(k + 1) * t->n + i] += part * weight;
        }
}

/* What would leave the grid stays at its end. */
static void jump_on(struct together *t, size_t kind)
{
    for (size_t m = 0; m < t->m; m++)
        for (size_t jump = 0; jump < t->jumps; jump++) {
            const double *up = chances(t, kind, m, jump), *from = t->mixed + m * t->n;
            double *to = t->next + m * t->n, mass = t->mass[jump];
            size_t far = t->first + jump, n = t->n;
            for (size_t i = 0; i < n - far; i++)
                to[i + far] += mass * from[i] * up[i];
            for (size_t i = n - far; i < n; i++)
                to[n - 1] += mass * from[i] * up[i];
            for (size_t i = far; i < n; i++)
                to[i - far] += mass * from[i] * (1 - up[i]);
            for (size_t i = 0; i < far; i++)
                to[0] += mass * from[i] * (1 - up[i]);
        }
}

/* Returns how much of the mass has moved elsewhere. */
static double advance(struct together *t)
{
    double moved = 0, *old = t->now;

    memset(t->next, 0, t->m * t->n * sizeof(double));
    for (size_t kind = 0; kind < t->law->kinds; kind++) {
        remember(t, &t->law->kind[kind]);
        jump_on(t, kind);
    }
    for (size_t i = 0; i < t->m * t->n; i++)
        moved += fabs(t->next[i] - t->now[i]);
    t->now = t->next;
    t->next = old;
    return moved;
}

void law_with_memory(const struct law_memory *memory, struct stationary_law *law)
{
    struct together t;
    size_t most = 3000;

    together_init(&t, memory);
    double *first = t.now, *weight = calloc(t.n, sizeof(double));
    t.now[(t.m / 4) * t.n + t.n / 2] = 1;
    while (advance(&t) > 1e-7)
        cr_assert_gt(most--, 0, "the law has not been found");
    for (size_t m = 0; m < t.m; m++)
        for (size_t i = 0; i < t.n; i++)
            weight[i] += t.now[m * t.n + i];
    summarise(weight, t.n, memory->lo, t.h, law);
    free(weight);
    free(first);
    free(t.mass);
    free(t.chance);
}

void law_of_langevin(const struct law_langevin *l, struct stationary_law *law)
{
    size_t n = (size_t)((l->hi - l->lo) / l->h) + 1;
    struct banded m = banded_new(n, n - 1);

    for (size_t i = 0; i < n; i++) {
        double x = l->lo + (double)i * l->h, mean = x + l->drift(l->context, x);
        for (size_t j = 0; j < n; j++)
            if (j != i)
                *entry(&m, i, j) =
                    fmax(1e-300,
                         l->h / l->sd * stat_normal_pdf((l->lo + (double)j * l->h - mean) / l->sd));
    }
    double *weight = invariant(&m);
    summarise(weight, n, l->lo, l->h, law);
    free(weight);
    free(m.at);
}

void law_normal(double mean, double variance, struct stationary_law *law)
{
    *law = (struct stationary_law){.mean = mean,
                                   .variance = variance,
                                   .point = mean + stat_normal_quantile(0.95) * sqrt(variance),
                                   .below = 0.95};
}
