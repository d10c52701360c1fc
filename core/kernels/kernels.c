/* The hot loops, written once with vector types and compiled per instruction set: KERNELS is the
 * name of the table that this compilation defines, KERNELS_ISA its name as a string. The loops are
 * in headers of this folder that no other source includes. */
#include "core/kernels/kernels.h"
#include "core/kernels/inverse.h"
#include "core/kernels/index.h"
#include "core/kernels/factor.h"
#include "core/kernels/linear.h"
#include "core/kernels/linear_counted.h"
#include "core/kernels/chain_batch_move.h"
#include "core/kernels/chain_batch_sums.h"
#include "core/kernels/metric.h"
#include "core/kernels/move.h"
#include "core/kernels/random.h"
#include "core/kernels/sources.h"

extern const struct kernels KERNELS;

const struct kernels KERNELS = {
    .isa = KERNELS_ISA,
    .fused = VF_FUSES,
    .rng_bits = rng_bits_,
    .rng_uniform = rng_uniform_,
    .rng_normal = rng_normal_,
    .rng_uniform_single = rng_uniform_single_,
    .rng_normal_single = rng_normal_single_,
    .rng_normal_pair = rng_normal_pair_,
    .barker = barker_,
    .langevin = langevin_,
    .lattice = lattice_,
    .moments = moments_,
    .estimate = estimate_,
    .smooth = smooth_,
    .prior_gradient = prior_gradient_,
    .dot = dot_,
    .trmv = trmv_,
    .syrk = syrk_,
    .bernoulli_log = bernoulli_log_,
    .average = average_,
    .log_sum = log_sum_,
    .count_above = count_above_,
    .law = law_,
    .squared_distance = squared_distance_,
    .ratings = ratings_,
    .factor_prior = factor_prior_,
    .factor_terms = factor_terms_,
    .log_sources = log_sources_,
    .source_gradient = source_gradient_,
    .invert = invert_,
    .add_transposed = add_transposed_,
    .rows = rows_,
    .distinct_rows = distinct_rows_,
    .chain_batch_sums = chain_batch_sums_,
    .chain_batch_move = chain_batch_move_,
    .chain_batch_run = chain_batch_run_,
    .known_gradient = known_gradient_,
    .linear_gradient = linear_gradient_,
    .counted_sums = counted_sums_,
    .linear_centre = linear_centre_,
    .linear_predictor = linear_predictor_,
};
