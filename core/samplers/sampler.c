/* The registry of samplers. */
#include "core/samplers/sampler.h"
#include "core/kernels/kernels.h"

#include <string.h>

const struct sampler_type *const samplers[] = {
#define X(name) &sampler_##name,
    SAMPLER_LIST(X)
#undef X
};
const size_t sampler_count = sizeof samplers / sizeof samplers[0];

const struct sampler_type *sampler_find(const char *name)
{
    for (size_t i = 0; i < sampler_count; i++)
        if (strcmp(samplers[i]->name, name) == 0)
            return samplers[i];
    return NULL;
}

const struct sampler_type *sampler_approximate(void)
{
    size_t i = 0;
    while (!samplers[i]->auto_approximate)
        i++;
    return samplers[i];
}

bool sampler_needs_noise(const struct sampler_type *sampler, const double *params)
{
    return sampler->variance_ratio != NULL && !(sampler->variance_ratio(params, 1.0, 0.0) > 0.0);
}

const char *sampler_variant_name(const struct sampler_type *sampler, double choice)
{
    return sampler->params.specs[sampler->variants->param].choices[(size_t)choice];
}

size_t sampler_first_not_finite(const double *x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        if (!(x[j] - x[j] == 0.0))
            return j;
    return SIZE_MAX;
}

uint64_t sampler_thin(const struct sampler_type *sampler, uint64_t thin)
{
    return sampler->lattice && thin % 2 == 0 ? thin + 1 : thin;
}

const double *sampler_sigma(const struct sampler_step *s, size_t at)
{
    return s->one_sigma && s->d - at >= SAMPLER_BLOCK ? s->sigma : s->sigma + at;
}

void sampler_estimate(struct sampler_step *s)
{
    s->in_parts = gradient_estimate_running(s->source, s->theta, s->t, s->rng, s->g,
                                            s->want_tau ? s->tau : NULL, NULL);
}

/* When the factor falls below RESCALE_BELOW it is multiplied into the memory, where values below
 * ZERO_BELOW become 0: products and their squares are never subnormal. */
#define RESCALE_BELOW 0x1p-200
#define ZERO_BELOW    0x1p-300

/* The stored factor is 0 at the start, and in states saved by older programs. */
static double scale_of(double kept)
{
    return kept > 0.0 ? kept : 1.0;
}

/* Where batches touch few of many coordinates, the running average is `scale` times the memory:
 * multiplying this one number by 1 - beta decays all coordinates, and those that no row touches
 * need no update. Returns the weight of new values in the memory. */
static double decay_memory(double *memory, size_t d, double *scale, double beta)
{
    *scale = scale_of(*scale) * (1.0 - beta);
    if (*scale < RESCALE_BELOW) {
        for (size_t j = 0; j < padded(d); j++)
            memory[j] = memory[j] * *scale > ZERO_BELOW ? memory[j] * *scale : 0.0;
        *scale = 1.0;
    }
    return beta / *scale;
}

/* The weight 1-(1-beta)^t is updated step by step and stored after the average: pow() of libm would
 * make draws depend on the machine. */
double sampler_estimate_tau(struct sampler_step *s, double beta)
{
    double *weight = s->memory + padded(s->d), *scale = weight + 1;
    struct running_tau running = {.memory = s->memory, .beta = beta};
    if (gradient_weight(s->source, s->t, s->want_tau) > 0.0) {
        *weight += beta * (1.0 - *weight);
        if (s->source->sparse != NULL)
            running.beta = decay_memory(s->memory, s->d, scale, beta);
    }
    s->in_parts = gradient_estimate_running(s->source, s->theta, s->t, s->rng, s->g,
                                            s->want_tau ? s->tau : NULL, &running);
    return scale_of(*scale) / *weight;
}

const double *sampler_gradient(struct sampler_step *s, size_t at)
{
    if (!s->in_parts)
        return s->g + at;
    gradient_part(s->source, s->theta, at, s->g);
    return s->g;
}

size_t sampler_smooth_memory(size_t d)
{
    return padded(d) + PAD;
}
