/* Combines chains, parameter by parameter. */
#include "server/results/chain_moments.h"
#include "core/chain/chain.h"

#include <math.h>
#include <stdlib.h>

void chain_moments_release(struct chain_moments *c)
{
    free(c->moments);
    free(c->tau);
    *c = (struct chain_moments){0};
}

static bool init(struct chain_moments *c, const struct jobfile_info *about)
{
    size_t d = about->d;
    double *block = calloc(5 * d + 1, sizeof *block);
    *c = (struct chain_moments){.d = d,
                                .chains = about->chains,
                                .moments = calloc(d + 1, sizeof *c->moments),
                                .tau = block,
                                .slowest = UINT64_MAX};
    if (block == NULL || c->moments == NULL)
        return false;
    c->beyond = block + d;
    c->sigma = block + 2 * d;
    c->sigma_lo = block + 3 * d;
    c->sigma_hi = block + 4 * d;
    return true;
}

static void add_moments(struct chain_moments *c, double n, const double *mean,
                        const double *variance)
{
    for (size_t j = 0; j < c->d; j++) {
        double squares = n > 1.0 ? variance[j] * (n - 1.0) : 0.0;
        moments_merge(&c->moments[j],
                      &(struct moments){.count = n, .mean = mean[j], .squares = squares});
    }
}

static void add_noise(struct chain_moments *c, double n, const double *tau, const double *beyond)
{
    double all = c->noise_count + n;
    for (size_t j = 0; j < c->d; j++) {
        double square = c->tau[j] * c->tau[j];
        c->tau[j] = sqrt(square + (tau[j] * tau[j] - square) * n / all);
        c->beyond[j] += (beyond[j] - c->beyond[j]) * n / all;
    }
    c->noise_count = all;
}

static void add_sigma(struct chain_moments *c, const double *sigma)
{
    bool first = c->sigma_count++ == 0;
    for (size_t j = 0; j < c->d; j++) {
        c->sigma[j] += (sigma[j] - c->sigma[j]) / c->sigma_count;
        c->sigma_lo[j] = first || sigma[j] < c->sigma_lo[j] ? sigma[j] : c->sigma_lo[j];
        c->sigma_hi[j] = first || sigma[j] > c->sigma_hi[j] ? sigma[j] : c->sigma_hi[j];
    }
}

static void add_progress(struct chain_moments *c, uint32_t chain,
                         const struct jobfile_chain *progress)
{
    c->slowest = progress->iteration < c->slowest ? progress->iteration : c->slowest;
    c->iterations += progress->iteration;
    c->cpu_seconds += progress->cpu_seconds;
    if (progress->status == CHAIN_DIVERGED && c->diverged == 0) {
        c->diverged = chain;
        c->diverged_at = progress->iteration + 1;
    }
}

/* Reads an optional vector; *there: whether it exists. */
static enum err read_vector(struct jobfile *file, uint32_t chain, enum jobfile_vector which,
                            double *out, bool *there, struct err_info *info)
{
    enum err code = jobfile_vector(file, chain, which, out, info);
    *there = *there && code == ERR_OK;
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

/* The counts are read before the vectors: a slice that is saved in between leaves a weight slightly
 * out of date, which does not matter. `pair` has room for 2 d numbers. */
static enum err add_chain(struct chain_moments *c, struct jobfile *file, uint32_t chain,
                          double *pair, struct err_info *info)
{
    struct jobfile_chain progress = {0};
    enum err code = jobfile_chain(file, chain, &progress, info);
    bool moments = progress.moment_count > 0, noise = progress.noise_count > 0, sigma = true;
    if (code == ERR_OK)
        add_progress(c, chain, &progress);
    if (code == ERR_OK && moments)
        code = read_vector(file, chain, JOBFILE_MEAN, pair, &moments, info);
    if (code == ERR_OK && moments)
        code = read_vector(file, chain, JOBFILE_VARIANCE, pair + c->d, &moments, info);
    if (code == ERR_OK && moments)
        add_moments(c, (double)progress.moment_count, pair, pair + c->d);
    if (code == ERR_OK && noise)
        code = read_vector(file, chain, JOBFILE_TAU, pair, &noise, info);
    if (code == ERR_OK && noise)
        code = read_vector(file, chain, JOBFILE_BEYOND, pair + c->d, &noise, info);
    if (code == ERR_OK && noise)
        add_noise(c, (double)progress.noise_count, pair, pair + c->d);
    if (code == ERR_OK)
        code = read_vector(file, chain, JOBFILE_SIGMA, pair, &sigma, info);
    if (code == ERR_OK && sigma)
        add_sigma(c, pair);
    return code;
}

enum err chain_moments_read(struct chain_moments *c, struct jobfile *file, struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    double *pair = malloc((2 * about.d + 1) * sizeof *pair);
    enum err code = ERR_OK;
    if (!init(c, &about) || pair == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for %zu parameters", about.d);
    for (uint32_t chain = 1; chain <= about.chains && code == ERR_OK; chain++)
        code = add_chain(c, file, chain, pair, info);
    free(pair);
    if (code != ERR_OK)
        chain_moments_release(c);
    return code;
}
