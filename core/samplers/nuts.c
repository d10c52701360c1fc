/* The no-U-turn sampler (Hoffman & Gelman 2014), full batch: exact. As in Stan: points of a
 * trajectory are chosen by multinomial weights (Betancourt 2017), the last half is preferred to the
 * first, and a trajectory ends where it turns back, also between its halves.
 *
 * In coordinates divided by their scales the momentum r is standard normal and both halves of a
 * leapfrog step take the step size sigma_j = epsilon scale_j:
 *
 *     r += sigma g / 2,    theta += sigma r,    r += sigma g / 2
 *
 * so that sigma alone is the step size and the metric. */
#include "core/samplers/exact.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <string.h>

enum { STEP_SIZE, TARGET_ACCEPT, MAX_TREEDEPTH };

#define DEPTH_MOST  12
#define DEPTH_LEAST 4   /* however costly a gradient is */
#define COST_MOST   1e9 /* of a transition, in units of struct model.term_cost: about a second */

static const struct param_spec specs[] = {
    [STEP_SIZE] = {.name = "step_size",
                   .kind = PARAM_STEP,
                   .help = "size sigma of a leapfrog step: a number, one per coordinate, or auto "
                           "(tuned during warm-up, with the scale of every coordinate)"},
    [TARGET_ACCEPT] = {.name = "target_accept",
                       .kind = PARAM_REAL,
                       .fallback = 0.8,
                       .lo = 0.5,
                       .hi = 0.999,
                       .help = "average acceptance statistic that an automatic step size is tuned "
                               "to; nearer to 1 means shorter steps and fewer divergences"},
    [MAX_TREEDEPTH] = {.name = "max_treedepth",
                       .kind = PARAM_INT,
                       .fallback = 10,
                       .lo = 1,
                       .hi = DEPTH_MOST,
                       .help = "a transition takes less than 2^max_treedepth leapfrog steps; less "
                               "deep where that would take more than about a second"},
};

/* ---- memory ---- */

/* The flat memory: numbers, then arrays over coordinates. */
enum {
    STARTED,
    LOG_DENSITY,
    LOG_EPSILON,
    CENTRE,    /* of dual averaging: the value that log epsilon is shrunk towards */
    TUNED,     /* transitions since the scales last changed */
    SHORTFALL, /* average of target - acceptance statistic */
    AVERAGE,   /* of log epsilon */
    WINDOW,    /* length of this window */
    IN_WINDOW, /* transitions of it done */
    GRADIENTS, /* since the start */
    COUNTED,   /* transitions since the end of warm-up, and of these: */
    ACCEPTED,  /* sum of acceptance statistics */
    DIVERGENCES,
    LIMIT_HITS, /* ended by the depth limit */
    NUMBERS = PAD
};

static size_t memory(const double *params, size_t d)
{
    (void)params;
    return NUMBERS + exact_memory(d);
}

static double acceptance(const double *m)
{
    return m[COUNTED] > 0.0 ? m[ACCEPTED] / m[COUNTED] : __builtin_nan("");
}

static void adapted_sigma(const double *m, size_t d, double *sigma)
{
    exact_sigma(m[LOG_EPSILON], m + NUMBERS, d, sigma);
}

static void tree_counts(const double *m, struct sampler_trees *out)
{
    *out = (struct sampler_trees){
        .divergences = m[DIVERGENCES], .limit_hits = m[LIMIT_HITS], .gradients = m[GRADIENTS]};
}

/* The depth at which a trajectory ends. A job can stop between transitions only, so none may take
 * much longer than a second. */
static unsigned depth_limit(const double *params, double pass_cost)
{
    unsigned limit = (unsigned)params[MAX_TREEDEPTH];
    while (limit > DEPTH_LEAST && pass_cost * (double)(1u << limit) > COST_MOST)
        limit--;
    return limit;
}

/* ---- trajectories ---- */

/* An end of the trajectory. */
struct end {
    double *theta, *r, *g, log_density;
};

/* Points that follow each other in time. first and last are momenta of its ends, in the direction
 * in which the trajectory grows at present. theta, g and log_density are those of the point that is
 * chosen among its points. */
struct tree {
    double *first, *last, *sum; /* sum of all momenta */
    double *theta, *g, log_density;
    double log_weight; /* log of the sum of exp(H_0 - H) */
};

struct trajectory {
    struct sampler_step *s;
    const double *sigma;
    struct end end[2]; /* backward, forward */
    struct tree all;
    struct tree part[DEPTH_MOST]; /* binary counter of the trees of the half that is being built */
    size_t parts;
    double energy, accepted, steps; /* H_0; sums over the leapfrog steps */
    bool diverged;
};

#define END_ARRAYS  3
#define TREE_ARRAYS 5

/* While a half of depth k is built, at most k + 1 trees stand side by side. */
static size_t scratch(const double *params, size_t d, double pass_cost)
{
    return (2 * END_ARRAYS + (1 + depth_limit(params, pass_cost)) * TREE_ARRAYS) * padded(d);
}

static double *next_array(double **at, size_t d)
{
    double *here = *at;
    *at += padded(d);
    return here;
}

static void trajectory_init(struct trajectory *t, struct sampler_step *s, const double *sigma)
{
    double *at = s->work;
    unsigned limit = depth_limit(s->params, s->pass_cost);
    *t = (struct trajectory){.s = s, .sigma = sigma};
    for (size_t k = 0; k < 2; k++) {
        t->end[k].theta = next_array(&at, s->d);
        t->end[k].r = next_array(&at, s->d);
        t->end[k].g = next_array(&at, s->d);
    }
    for (size_t k = 0; k <= limit; k++) {
        struct tree *tree = k < limit ? &t->part[k] : &t->all;
        tree->first = next_array(&at, s->d);
        tree->last = next_array(&at, s->d);
        tree->sum = next_array(&at, s->d);
        tree->theta = next_array(&at, s->d);
        tree->g = next_array(&at, s->d);
    }
}

static void copy(double *to, const double *from, size_t d)
{
    memcpy(to, from, padded(d) * sizeof *to);
}

static void swap(double **a, double **b)
{
    double *was = *a;
    *a = *b;
    *b = was;
}

static double uniform(struct sampler_step *s)
{
    _Alignas(ALIGNMENT) double u[PAD];
    kernels->rng_uniform(&s->rng[RNG_FLIP], u, 1);
    return u[0];
}

static double kinetic(const double *r, size_t d)
{
    return 0.5 * kernels->dot(r, r, d);
}

/* y += factor sigma x. */
static void add_scaled(double *y, double factor, const double *sigma, const double *x, size_t d)
{
    for (size_t j = 0; j < d; j += LANES)
        vd_store(y + j, vd_load(y + j) + factor * vd_load(sigma + j) * vd_load(x + j));
}

/* One step; `direction` is 1 or -1. Returns H - H_0. */
static double leapfrog(struct trajectory *t, struct end *z, double direction)
{
    size_t d = t->s->d;
    add_scaled(z->r, 0.5 * direction, t->sigma, z->g, d);
    add_scaled(z->theta, direction, t->sigma, z->r, d);
    z->log_density = gradient_exact_density(t->s->source, z->theta, z->g);
    add_scaled(z->r, 0.5 * direction, t->sigma, z->g, d);
    t->s->memory[GRADIENTS] += 1.0;
    return kinetic(z->r, d) - z->log_density - t->energy;
}

/* The forward end: the current point with a new momentum. */
static void draw_momentum(struct trajectory *t)
{
    struct sampler_step *s = t->s;
    struct end *z = &t->end[1];
    kernels->rng_normal(&s->rng[RNG_JUMP], z->r, s->d);
    memset(z->r + s->d, 0, (padded(s->d) - s->d) * sizeof *z->r);
    copy(z->theta, s->theta, s->d);
    copy(z->g, exact_arrays(s->memory + NUMBERS, s->d).g, s->d);
    z->log_density = s->memory[LOG_DENSITY];
    t->energy = kinetic(z->r, s->d) - z->log_density;
}

/* The tree of depth 0. */
static void tree_of_point(struct tree *tree, const struct end *z, double log_weight, size_t d)
{
    copy(tree->first, z->r, d);
    copy(tree->last, z->r, d);
    copy(tree->sum, z->r, d);
    copy(tree->theta, z->theta, d);
    copy(tree->g, z->g, d);
    tree->log_density = z->log_density;
    tree->log_weight = log_weight;
}

/* The no-U-turn criterion: the momenta at both ends still point along the sum x + y of all. */
static bool not_turned(const double *first, const double *last, const double *x, const double *y,
                       size_t d)
{
    return kernels->dot(first, x, d) + kernels->dot(first, y, d) > 0.0 &&
           kernels->dot(last, x, d) + kernels->dot(last, y, d) > 0.0;
}

/* log(exp a + exp b). */
static double log_sum(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return high + exact_log(1.0 + exact_exp(low - high));
}

/* Appends b to a. Inside a half all points are chosen by their weights; between the halves the new
 * one is preferred, which keeps the stationary law and moves further (biased progressive sampling).
 * False where the points turn back: all of them, or one tree and the nearest point of the other. */
static bool append(struct trajectory *t, struct tree *a, struct tree *b, bool prefer)
{
    size_t d = t->s->d;
    bool goes_on = not_turned(a->first, b->last, a->sum, b->sum, d) &&
                   not_turned(a->first, b->first, a->sum, b->first, d) &&
                   not_turned(a->last, b->last, b->sum, a->last, d);
    double total = log_sum(a->log_weight, b->log_weight);
    if (uniform(t->s) < exact_chance(b->log_weight - (prefer ? a->log_weight : total))) {
        swap(&a->theta, &b->theta);
        swap(&a->g, &b->g);
        a->log_density = b->log_density;
    }
    for (size_t j = 0; j < d; j += LANES)
        vd_store(a->sum + j, vd_load(a->sum + j) + vd_load(b->sum + j));
    swap(&a->last, &b->last);
    a->log_weight = total;
    return goes_on;
}

/* Energies that are wrong by more than this are those of an unstable step (as in Stan). */
#define ERROR_MOST 1000.0

static bool add_point(struct trajectory *t, size_t side)
{
    double error = leapfrog(t, &t->end[side], side == 1 ? 1.0 : -1.0);
    t->steps += 1.0;
    t->diverged = !(error - error == 0.0) || error > ERROR_MOST;
    if (t->diverged)
        return false;
    t->accepted += exact_chance(-error);
    tree_of_point(&t->part[t->parts++], &t->end[side], -error, t->s->d);
    return true;
}

/* 2^depth further points as part[0]; false: they turn back or diverge, and none of them may be
 * chosen. As in a binary counter, two trees of equal size are joined as soon as both exist. */
static bool add_half(struct trajectory *t, size_t side, unsigned depth)
{
    t->parts = 0;
    for (unsigned n = 1; n <= 1u << depth; n++) {
        if (!add_point(t, side))
            return false;
        for (unsigned rest = n; rest % 2 == 0; rest /= 2, t->parts--)
            if (!append(t, &t->part[t->parts - 2], &t->part[t->parts - 1], false))
                return false;
    }
    return true;
}

/* Doubles the trajectory until it turns back; false: until it is at its limit. */
static bool grow(struct trajectory *t)
{
    unsigned limit = depth_limit(t->s->params, t->s->pass_cost);
    size_t before = 1;
    for (unsigned depth = 0; depth < limit; depth++) {
        size_t side = uniform(t->s) > 0.5;
        if (side != before)
            swap(&t->all.first, &t->all.last);
        before = side;
        if (!add_half(t, side, depth) || !append(t, &t->all, &t->part[0], true))
            return true;
    }
    return false;
}

/* ---- the step size ---- */

#define SEARCH_AT 0.8 /* acceptance of one leapfrog step */

static double try_epsilon(struct sampler_step *s, double epsilon, const void *context)
{
    struct trajectory t;
    double *sigma = s->scratch[3];
    (void)context;
    exact_sigma(exact_log(epsilon), s->memory + NUMBERS, s->d, sigma);
    trajectory_init(&t, s, sigma);
    draw_momentum(&t);
    return exact_chance(-leapfrog(&t, &t.end[1], 1.0));
}

/* Dual averaging (Nesterov 2009; Hoffman & Gelman 2014, section 3.2) with Stan's constants. It
 * shrinks towards 10 epsilon, because long steps that fail cost fewer gradients than short ones. */
#define GAMMA 0.05
#define T0    10.0
#define KAPPA 0.75

static void start_tuning(struct sampler_step *s)
{
    double *m = s->memory, epsilon = exact_search(s, SEARCH_AT, try_epsilon, NULL);
    m[LOG_EPSILON] = exact_log(epsilon);
    m[CENTRE] = exact_log(10.0 * epsilon);
    m[TUNED] = m[SHORTFALL] = m[AVERAGE] = 0.0;
}

static void tune_epsilon(struct sampler_step *s, double accept)
{
    double *m = s->memory, k = ++m[TUNED], weight = exact_exp(-KAPPA * exact_log(k));
    m[SHORTFALL] += (s->params[TARGET_ACCEPT] - accept - m[SHORTFALL]) / (k + T0);
    m[LOG_EPSILON] = m[CENTRE] - m[SHORTFALL] * __builtin_sqrt(k) / GAMMA;
    m[AVERAGE] += weight * (m[LOG_EPSILON] - m[AVERAGE]);
}

#define FIRST_WINDOW 10.0
#define TERM_SHARE   0.1 /* of the warm-up, after the last window; at least TERM_LEAST */
#define TERM_LEAST   50.0

/* Windows of doubling length, the last one stretched to its end. They begin at once, unlike Stan's,
 * because their scales are right during the approach to the mode too. */
static void adapt(struct sampler_step *s, double accept)
{
    double *m = s->memory, t = (double)s->t + 1.0, total = (double)s->warmup_total;
    double term = TERM_SHARE * total > TERM_LEAST ? TERM_SHARE * total : TERM_LEAST;
    struct exact_arrays a = exact_arrays(m + NUMBERS, s->d);
    tune_epsilon(s, accept);
    if (t >= total)
        m[LOG_EPSILON] = m[AVERAGE];
    if (t > total - term)
        return;
    exact_window_add(a, s->theta, ++m[IN_WINDOW], s->d);
    bool last = t + 1.0 > total - term;
    if (!last && (m[IN_WINDOW] < m[WINDOW] || t + 2.0 * m[WINDOW] > total - term))
        return;
    exact_window_end(a, s->d);
    m[WINDOW] *= 2.0;
    m[IN_WINDOW] = 0.0;
    start_tuning(s);
}

/* ---- a transition ---- */

static size_t begin(struct sampler_step *s, struct exact_arrays a)
{
    double *m = s->memory;
    size_t bad = exact_begin(s, a.g, &m[LOG_DENSITY]);
    if (bad != SIZE_MAX)
        return bad;
    m[GRADIENTS] = 1.0;
    for (size_t j = 0; j < s->d; j++)
        a.scale[j] = 1.0;
    m[WINDOW] = FIRST_WINDOW;
    m[STARTED] = 1.0;
    if (s->adapt)
        start_tuning(s);
    return SIZE_MAX;
}

static void count(double *m, const struct trajectory *t, double accept, bool turned)
{
    m[COUNTED] += 1.0;
    m[ACCEPTED] += accept;
    m[DIVERGENCES] += t->diverged ? 1.0 : 0.0;
    m[LIMIT_HITS] += turned ? 0.0 : 1.0;
}

static size_t step(struct sampler_step *s)
{
    double *m = s->memory, *sigma = s->scratch[3];
    struct exact_arrays a = exact_arrays(m + NUMBERS, s->d);
    struct trajectory t;
    if (m[STARTED] == 0.0) {
        size_t bad = begin(s, a);
        if (bad != SIZE_MAX)
            return bad;
    }
    if (s->adapt)
        adapted_sigma(m, s->d, sigma);
    trajectory_init(&t, s, s->adapt ? sigma : s->sigma);
    draw_momentum(&t);
    copy(t.end[0].theta, t.end[1].theta, s->d);
    copy(t.end[0].r, t.end[1].r, s->d);
    copy(t.end[0].g, t.end[1].g, s->d);
    tree_of_point(&t.all, &t.end[1], 0.0, s->d);
    bool turned = grow(&t);
    copy(s->theta, t.all.theta, s->d);
    copy(a.g, t.all.g, s->d);
    m[LOG_DENSITY] = t.all.log_density;
    double accept = t.accepted / t.steps;
    if (s->warmup && s->adapt)
        adapt(s, accept);
    else if (!s->warmup)
        count(m, &t, accept, turned);
    return SIZE_MAX;
}

const struct sampler_type sampler_nuts = {
    .name = "nuts",
    .help = "no-U-turn sampler: exact, full batch, long moves by the gradient",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .exact = true,
    .auto_exact = true,
    .step = step,
    .memory = memory,
    .scratch = scratch,
    .acceptance = acceptance,
    .adapted_sigma = adapted_sigma,
    .tree_counts = tree_counts,
};
