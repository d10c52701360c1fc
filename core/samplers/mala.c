/* The Metropolis-adjusted Langevin algorithm (Roberts & Tweedie 1996), full batch: exact. */
#include "core/samplers/metropolis.h"
#include "core/kernels/kernels.h"

#include <string.h>

static const struct param_spec specs[] = {
    {.name = "step_size",
     .kind = PARAM_STEP,
     .help = "sd sigma of the proposal noise: a number, one per coordinate, or auto (tuned during "
             "warm-up to accept 57.4 % of the proposals)"},
};

static void propose(const double *x, const double *gx, const double *sigma, const float *z,
                    const float *u, double *y, size_t d)
{
    (void)u;
    memcpy(y, x, d * sizeof *y);
    kernels->langevin(&(struct langevin_move){
        .rule = LANGEVIN_VANILLA, .n = d, .theta = y, .g = gx, .sigma = sigma, .z = z});
}

/* Both proposal densities are normal with sd sigma around a drifted mean. */
static double log_ratio(const double *x, const double *gx, const double *y, const double *gy,
                        const double *sigma, size_t d)
{
    double sum = 0.0;
    for (size_t j = 0; j < d; j++) {
        double half = 0.5 * sigma[j] * sigma[j];
        double forth = (y[j] - x[j] - half * gx[j]) / sigma[j];
        double back = (x[j] - y[j] - half * gy[j]) / sigma[j];
        sum += 0.5 * (forth * forth - back * back);
    }
    return sum;
}

/* The most efficient acceptance rate in many dimensions is 0.574 (Roberts & Rosenthal 1998). */
static size_t step(struct sampler_step *s)
{
    static const struct metropolis kind = {
        .target = 0.574, .propose = propose, .log_ratio = log_ratio};
    return metropolis_step(&kind, s);
}

const struct sampler_type sampler_mala = {
    .name = "mala",
    .help = "Metropolis-adjusted Langevin algorithm: exact, full batch",
    .params = {specs, sizeof specs / sizeof specs[0]},
    .auto_exact = true,
    .step = step,
    METROPOLIS_HOOKS,
};
