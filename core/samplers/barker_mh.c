/* The Metropolis-adjusted Barker proposal (Livingstone & Zanella 2022), full batch: exact. */
#include "core/samplers/metropolis.h"
#include "core/kernels/kernels.h"
#include "core/kernels/vmath.h"

#include <string.h>

static const struct param_spec specs[] = {
    {.name = "step_size",
     .kind = PARAM_STEP,
     .help = "size sigma of a jump in one coordinate: a number, one per coordinate, or auto (tuned "
             "during warm-up to accept 40 % of the proposals)"},
};

static void propose(const double *x, const double *gx, const double *sigma, const float *z,
                    const float *u, double *y, size_t d)
{
    memcpy(y, x, d * sizeof *y);
    kernels->barker(&(struct barker_move){
        .rule = BARKER_VANILLA, .n = d, .theta = y, .g = gx, .sigma = sigma, .z = z, .u = u});
}

/* The jump sizes are symmetric, so only the sign probabilities remain:
 * log p(gy, x-y) - log p(gx, y-x), p the logistic function of the product. */
static double log_ratio(const double *x, const double *gx, const double *y, const double *gy,
                        const double *sigma, size_t d)
{
    (void)sigma;
    vd sum = vd_set(0.0);
    for (size_t j = 0; j < d; j += LANES) {
        vd jump = vd_load(y + j) - vd_load(x + j);
        sum += vd_log_logistic(-jump * vd_load(gy + j)) - vd_log_logistic(jump * vd_load(gx + j));
    }
    return vd_sum(sum);
}

static size_t step(struct sampler_step *s)
{
    static const struct metropolis kind = {
        .target = 0.40, .propose = propose, .log_ratio = log_ratio};
    return metropolis_step(&kind, s);
}

const struct sampler_type sampler_barker_mh = {
    .name = "barker_mh",
    .help = "Metropolis-adjusted Barker proposal: exact, full batch, for reference posteriors",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .step = step,
    METROPOLIS_HOOKS,
};
