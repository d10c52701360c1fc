/* The sds of coordinates, where the curvature at one point does not describe them.
 *
 * Around x = 0 with curvature H, steps of covariance D and gradient noise of covariance k H (that
 * of a batch), the draws of a chain have the covariance H^-1 + c D, where c comes from k and from
 * the kind of step: D H (c D) + (c D) H D = 2 c D H D for every H. So steps and noise add the same
 * amount to the variance of a coordinate whatever its correlations, and the relative error is the
 * same everywhere when steps are proportional to marginal sds. The sds given the other coordinates,
 * from the diagonal of H, may be much smaller: the vectors of a factorisation can rotate together.
 *
 * A short run estimates single sds badly, but all of them together determine how sds depend on
 * scales: as a power, fitted by linear regression of their logarithms. */
#include "core/plan/planning.h"

#include <math.h>

#define WIDTH_MOST  1.25  /* mean square ratio of a run's sds to those by the curvature */
#define APART_MOST  0.05  /* mean square of the logarithms of these ratios: about 25 % each */
#define WIDTH_DRAWS 500.0 /* effective draws that suffice, all coordinates together, ... */
#define WIDTH_LEAST 5.0   /* ... and of each */
#define LINE_DRAWS  50.0  /* weight, in draws, of the regression in the estimate of an sd */

static bool diagonal(const struct planning *p)
{
    return p->plan->precondition == PRECONDITION_DIAGONAL;
}

static double ratio_at(const struct planning *p, size_t j)
{
    return p->pilot.sd[j] / (diagonal(p) ? p->width[j] : 1.0);
}

double planning_draws(const struct planning *p)
{
    double draws = (double)p->pilot.iterations * p->pilot.chains / p->pilot.slowest;
    return p->pilot.diverged || !isfinite(draws) ? 0.0 : draws;
}

double planning_width(const struct planning *p)
{
    double width = 0.0;
    for (size_t j = 0; j < p->model->d; j++)
        width += ratio_at(p, j) * ratio_at(p, j) / (double)p->model->d;
    return width;
}

/* Whether the ratios of sds vary by more than APART_MOST and the Monte-Carlo error. */
static bool scales_disagree(const struct planning *p, double draws)
{
    double squares = 0.0, d = (double)p->model->d;
    for (size_t j = 0; j < p->model->d; j++)
        squares += pow(log(fmax(ratio_at(p, j), 1e-3)), 2.0) / d;
    return squares > APART_MOST + 0.5 / draws;
}

bool planning_scales_are_wrong(const struct planning *p)
{
    double draws = planning_draws(p), width = planning_width(p);
    if (p->plan->precondition == PRECONDITION_NONE || !(draws > WIDTH_LEAST) ||
        !(draws * (double)p->model->d > WIDTH_DRAWS) || !(width > 0.0))
        return false;
    return width > WIDTH_MOST || width < 1.0 / WIDTH_MOST ||
           (diagonal(p) && scales_disagree(p, draws));
}

/* ---- scales and sds ---- */

struct line {
    double count, x, y, xx, xy; /* sums */
};

static void line_add(struct line *line, double x, double y)
{
    line->count += 1.0;
    line->x += x;
    line->y += y;
    line->xx += x * x;
    line->xy += x * y;
}

/* The slope, limited to 0..1; 1 where all scales are equal. */
static double line_slope(const struct line *line)
{
    double spread = line->xx - line->x * line->x / line->count;
    double slope = (line->xy - line->x * line->y / line->count) / spread;
    return spread > 1e-9 * line->count ? fmin(1.0, fmax(0.0, slope)) : 1.0;
}

bool planning_widths(struct planning *p)
{
    double draws = planning_draws(p);
    struct line line = {0};
    if (!diagonal(p) || !(draws * (double)p->model->d > WIDTH_DRAWS))
        return false;
    for (size_t j = 0; j < p->model->d; j++)
        if (p->pilot.sd[j] > 0.0)
            line_add(&line, log(p->scale[j]), log(p->pilot.sd[j]));
    if (!(line.count > 0.0))
        return false;
    double slope = line_slope(&line), x = line.x / line.count, y = line.y / line.count;
    for (size_t j = 0; j < p->model->d; j++) {
        double sd = p->pilot.sd[j], guess = exp(y + slope * (log(p->scale[j]) - x));
        p->width[j] = sqrt((draws * sd * sd + LINE_DRAWS * guess * guess) / (draws + LINE_DRAWS));
    }
    planning_note(p,
                  "precondition: sds of a pilot run, on average %.2g times those that the "
                  "curvature gives each "
                  "coordinate given the others, and growing with the power %.2g of these",
                  exp(y - x), slope);
    return true;
}
