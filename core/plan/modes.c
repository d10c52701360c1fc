/* Other modes than the centre. Searches start from draws of the prior and far from the centre, each
 * with its mirror image at the centre, so that in one dimension both sides are searched. The chains
 * then start around the modes in cyclic order, and chains that stay apart raise R-hat. A mode that
 * no search and no chain reaches stays unknown, and the plan says how many searches there were. */
#include "core/kernels/kernels.h"
#include "core/model/optimize.h"
#include "core/plan/planning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEARCHES    8    /* four pairs of mirror images */
#define STEPS       200  /* of a search, at most */
#define GAIN        1e-2 /* of log density of a last step, as for the centre */
#define SECONDS     0.1  /* nominal, or as many as the centre took; ... */
#define LIMIT_SHARE 0.1  /* ... and no more than this share of the limit */
#define PARAMETERS  100  /* at most: with more, SEARCHES would find few of the modes */
#define FAR         6.0  /* scales */
#define APART       1.0  /* squared distance in units of the curvature, beyond rounding */
#define VALLEY      0.1  /* of log density between two modes */
#define NEGLIGIBLE  12.0 /* log densities below the highest mode's */
#define BETTER      0.5  /* log densities by which an end must be higher to replace a mode */

struct seek {
    struct planning *p;
    double before, until; /* nominal seconds */
    const struct optimum *live;
    bool interrupted, over;
};

static double seek_seconds(const struct seek *s, const struct optimum *o)
{
    const struct model *m = s->p->model;
    return s->before + (double)(o->gradients - o->hessians) * cost_gradient(m) +
           (double)o->densities * cost_density(m) + (double)o->hessians * cost_hessian(m);
}

static bool seek_goes_on(void *ctx)
{
    struct seek *s = ctx;
    s->interrupted = s->interrupted || !planning_goes_on(s->p);
    s->over = s->over || seek_seconds(s, s->live) > s->until;
    return !s->interrupted && !s->over;
}

/* ---- where searches start ---- */

static void first_of_pair(struct planning *p, int k, struct rng *rng, double *theta, double *work)
{
    const struct model *m = p->model;
    if (k % 4 == 0) {
        m->type->start_value(m, START_PRIOR, rng, theta, work);
        return;
    }
    kernels->rng_normal(rng, theta, m->d);
    for (size_t j = 0; j < m->d; j++)
        theta[j] = p->theta[j] + FAR * p->scale[j] * theta[j];
}

static void mirror(const struct planning *p, const double *first, double *theta)
{
    for (size_t j = 0; j < p->model->d; j++)
        theta[j] = 2.0 * p->theta[j] - first[j];
}

/* ---- whether two ends of searches are two modes ---- */

static double squared_distance(const struct planning *p, const double *a, const double *b)
{
    double sum = 0.0;
    size_t d = p->model->d, stride = padded(d);
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k < d && p->H != NULL; k++)
            sum += (a[j] - b[j]) * p->H[j * stride + k] * (a[k] - b[k]);
    for (size_t j = 0; j < d && p->H == NULL; j++)
        sum += pow((a[j] - b[j]) / p->scale[j], 2.0);
    return sum;
}

/* Along the segment between them the log density falls below that of both. */
static bool valley_between(struct planning *p, const double *a, const double *b, double lower,
                           double *work)
{
    double least = INFINITY;
    for (int k = 1; k < 8; k++) {
        for (size_t j = 0; j < p->model->d; j++)
            work[j] = a[j] + (b[j] - a[j]) * k / 8.0;
        least = fmin(least, gradient_log_density(&p->source, work));
    }
    p->seconds += 7.0 * cost_density(p->model);
    return !(least >= lower - VALLEY);
}

/* The known mode to which the end of a search belongs; `mode_count`: to none. */
static uint32_t mode_of(struct planning *p, const double *theta, double density, double *work)
{
    uint32_t k;
    for (k = 0; k < p->mode_count; k++) {
        const double *mode = p->modes + k * p->model->d;
        double lower = fmin(density, p->mode_density[k]);
        if (!(squared_distance(p, theta, mode) > APART) ||
            !valley_between(p, theta, mode, lower, work))
            break;
    }
    return k;
}

static void set_mode(struct planning *p, uint32_t k, const double *theta, double density)
{
    memcpy(p->modes + k * p->model->d, theta, p->model->d * sizeof *theta);
    p->mode_density[k] = density;
}

/* An earlier search may have ended at a saddle point: no valley separates it from this end, which
 * is higher and replaces it. */
static void take_end(struct planning *p, const double *theta, double density, double *work)
{
    uint32_t k = mode_of(p, theta, density, work);
    if (k == PLANNING_MODES)
        return;
    if (k == p->mode_count)
        set_mode(p, p->mode_count++, theta, density);
    else if (density > p->mode_density[k] + BETTER)
        set_mode(p, k, theta, density);
}

/* ---- the searches ---- */

/* Only lack of memory and an interruption are errors, not a start without a finite density. */
static enum err search(struct planning *p, struct seek *s, double *theta, double *work,
                       struct err_info *info)
{
    struct optimum top = {0};
    struct optimize_limits limits = {
        .max_steps = STEPS, .enough = GAIN, .go_on = seek_goes_on, .ctx = s};
    s->before = p->seconds;
    s->live = &top;
    enum err code = optimize_mode_within(&p->source, theta, &limits, &top, info);
    s->live = NULL;
    p->seconds = seek_seconds(s, &top);
    if (s->interrupted)
        return err_set(info, ERR_UNAVAILABLE, "interrupted during the search for other modes");
    if (code != ERR_OK || s->over || !top.converged)
        return code == ERR_NO_MEMORY ? code : ERR_OK;
    p->plan->centre.searches++;
    take_end(p, theta, top.log_density, work);
    return ERR_OK;
}

static enum err search_all(struct planning *p, struct seek *s, struct err_info *info)
{
    size_t stride = padded(p->model->d);
    double *first = lanes_alloc(3 * stride, sizeof *first);
    struct rng rng;
    enum err code = ERR_OK;
    if (first == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory to look for modes");
    double *theta = first + stride, *work = theta + stride;
    rng_seed(&rng, p->request->seed ^ 0x6d6f646573ULL /* "modes" */, 0, RNG_START);
    for (int k = 0; k < SEARCHES && code == ERR_OK && !s->over; k++) {
        if (k % 2 == 0)
            first_of_pair(p, k, &rng, first, work);
        if (k % 2 == 0)
            memcpy(theta, first, p->model->d * sizeof *theta);
        else
            mirror(p, first, theta);
        code = search(p, s, theta, work, info);
    }
    free(first);
    return code;
}

/* The highest mode becomes the centre and the first; those of negligible density are dropped. */
static enum err settle(struct planning *p, struct err_info *info)
{
    size_t d = p->model->d;
    uint32_t best = 0, kept = 0;
    bool moved = p->mode_density[0] > p->plan->centre.log_density;
    for (uint32_t k = 1; k < p->mode_count; k++)
        if (p->mode_density[k] > p->mode_density[best] + BETTER)
            best = k;
    double top = p->mode_density[best];
    if (best > 0 || moved) {
        memcpy(p->theta, p->modes + best * d, d * sizeof *p->theta);
        if (best > 0)
            set_mode(p, best, p->modes, p->mode_density[0]);
        set_mode(p, 0, p->theta, top);
        p->plan->centre.log_density = top;
    }
    for (uint32_t k = 0; k < p->mode_count; k++)
        if (p->mode_density[k] > top - NEGLIGIBLE) {
            memmove(p->modes + kept * d, p->modes + k * d, d * sizeof *p->modes);
            p->mode_density[kept++] = p->mode_density[k];
        }
    p->mode_count = kept;
    return best > 0 || moved ? planning_scale(p, info) : ERR_OK;
}

enum err planning_modes(struct planning *p, struct err_info *info)
{
    struct plan_centre_facts *facts = &p->plan->centre;
    double limit = p->request->target.seconds, most = fmax(SECONDS, facts->seconds);
    struct seek s = {.p = p};
    s.until = p->seconds + (limit > 0.0 ? fmin(most, LIMIT_SHARE * limit) : most);
    if (p->model->d > PARAMETERS)
        return ERR_OK;
    planning_report(p, "looking for other modes");
    set_mode(p, p->mode_count++, p->theta, facts->log_density);
    enum err code = search_all(p, &s, info);
    code = code == ERR_OK ? settle(p, info) : code;
    facts->modes = p->mode_count;
    if (p->mode_count > 1)
        planning_note(p,
                      "modes: %u, by %u searches from elsewhere; chains start around each in turn",
                      (unsigned)p->mode_count, (unsigned)facts->searches);
    else if (facts->searches > 0)
        planning_note(p, "modes: no other one was found by %u searches from elsewhere",
                      (unsigned)facts->searches);
    return code;
}
