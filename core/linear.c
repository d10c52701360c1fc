/* The linear predictor, through the kernel table. */
#include "core/linear.h"
#include "core/kernels.h"

void linear_gradient(const struct dataset *data, const double *theta, const uint32_t *idx, size_t n,
                     linear_residual *residual, const void *model, double *sum, double *sumsq)
{
    kernels->linear_gradient(data, theta, idx, n, residual, model, sum, sumsq);
}

void linear_predictor(const struct dataset *data, const double *theta, const uint32_t *idx,
                      size_t n, double *eta)
{
    kernels->linear_predictor(data, theta, idx, n, eta);
}
