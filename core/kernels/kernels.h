/* The hot loops, as a table filled per instruction set.
 *
 * core/kernels/kernels.c is one source compiled once per instruction set (Makefile:
 * KERNEL_ISAS). The best one that the machine supports is chosen before main, or the one that
 * the environment variable BARKER_ISA names. All that are `fused` give the same bits. The others
 * agree among themselves and differ from the fused ones in the last digits; their draws have the
 * same law.
 *
 * Arrays are 64-byte aligned and padded to PAD; loops run over the padding, whose results are not
 * used. */
#ifndef BARKER_CORE_KERNELS_KERNELS_H
#define BARKER_CORE_KERNELS_KERNELS_H

#include "core/kernels/chain_batch.h"
#include "core/kernels/counted_rows.h"
#include "core/kernels/linear_rows.h"
#include "core/base/rng.h"

#include <stdbool.h>

/* theta_j += b_j w_j, b_j = +-1, w_j = sigma_j z_j (gaussian) or sigma_j (1 + 0.1 z_j); z
 * normal, u uniform (BARKER_EXTREME: unused). Signs have the right probability to 1e-6. A NaN in
 * g is reported; the coordinates are moved all the same. */
struct barker_move {
    enum barker_rule rule;
    bool gaussian;
    size_t n;
    double *theta;
    const double *g, *sigma;
    const double *tau; /* BARKER_CORRECTED only; tau_j is tau_factor times this */
    double tau_factor;
    const float *z, *u;
};

enum langevin_rule { LANGEVIN_VANILLA, LANGEVIN_CORRECTED, LANGEVIN_MODIFIED, LANGEVIN_EXTREME };

struct langevin_move {
    enum langevin_rule rule;
    size_t n;
    double *theta;
    const double *g, *sigma;
    const double *tau; /* as above: LANGEVIN_CORRECTED and _MODIFIED only */
    double tau_factor;
    const float *z; /* LANGEVIN_EXTREME: unused */
};

/* out_i = shift + u_a'v_b with a = user[i] and b = item[i], rows of `rank` numbers, clipped to
 * [lowest, highest]. */
struct rating_pairs {
    const double *u, *v;
    const uint32_t *user, *item;
    size_t rank, n;
    double shift, lowest, highest;
};

/* Gradients of the log densities of sources: sum_kj = sum over rows x of -tanh(y_k/2) x_j, y = W x,
 * and sumsq (may be NULL) the sum of the squares. In the precision of the data within a block of
 * rows, blocks are added up in double. */
struct source_terms {
    const struct dataset *data;
    const uint32_t *idx; /* the rows, n of them; NULL: 0..n-1 */
    size_t n;
    const double *W;      /* one row of data->columns numbers per source */
    const double *centre; /* likewise: sums are of differences from the terms there; NULL: plain */
    double *sum, *sumsq;
    void *scratch; /* source_scratch_bytes, 64-byte aligned */
};

#define SOURCE_BLOCK 128

static inline size_t source_lanes(size_t columns)
{
    return (columns + 15) / 16 * 16;
}

static inline size_t source_block_rows(size_t columns)
{
    size_t rows = 4096 / columns / 8 * 8; /* 16 KiB of floats */
    return rows > SOURCE_BLOCK ? SOURCE_BLOCK : rows < 16 ? 16 : rows;
}

static inline size_t source_scratch_bytes(size_t columns)
{
    size_t lanes = source_lanes(columns), block = source_block_rows(columns) * columns;
    return (4 * columns * lanes + (lanes + 16) + 2 * (block + 16)) * sizeof(double);
}

/* A square matrix A and the memory for inverting it. */
struct inverse {
    size_t n;
    const double *A; /* n rows of n numbers */
    double *rows;    /* n rows of n numbers rounded up to LANES, 64-byte aligned */
    double *pivot;   /* n rounded up: |det A| is the product of their absolute values */
    double *column;  /* n: scratch */
    uint64_t *open;  /* n: scratch */
    uint32_t *order; /* n */
};

/* Sums over a minibatch of `count` rows, for n coordinates. */
struct batch_sums {
    double *sum, *sumsq; /* sumsq: only for tau */
    double scale, tau_scale, count;
    double share; /* factor of sum^2 in tau, see `estimate`: 1/count where every iteration has a
                   * batch */
    size_t n;
    /* Where sums may differ from zero: bit k stands for the LANES coordinates from LANES k on. The
     * kernel that reads the sums sets them, sumsq and the bits to zero. NULL: sums may differ from
     * zero anywhere, and are not changed. */
    uint64_t *touched;
};

/* A running estimate of tau in `memory`, m <- (1-beta) m + beta tau. With batch_sums.touched it is
 * m <- m + beta tau, so that coordinates without terms do not change: the caller keeps the decay as
 * one factor of all of m. Then tau is right to 1e-7 for sds per term from 1e-19 to 1e19, and other
 * sds are clipped to this range. */
struct running_tau {
    double *memory;
    double beta;
};

/* n numbers z, row after row, with a normal prior N(mu, 1/lambda) per column: g = -lambda (z - mu),
 * and z - mu and its square are added to `sum` and `squares` of the column. These four arrays
 * repeat their columns to fill `period` elements, a multiple of LANES and of the number of columns;
 * z[0] belongs to element `phase`. Nothing need be aligned. */
struct factor_prior {
    const double *z, *mu, *lambda;
    double *g, *sum, *squares;
    size_t n, period, phase;
};

#define FACTOR_RANK_MOST 505 /* a longer row may overlap more than 64 blocks of LANES */

/* For the ratings idx[0..n) (NULL: 0..n-1) of user a and item b, r = y - u_a'v_b: adds scale r v_b
 * to gu_a and scale r u_a to gv_b, and the squares of these to squares_u and squares_v unless NULL.
 * Rows have `rank` numbers; up to `rank` numbers after the last row of every array may be read and
 * written back unchanged. */
struct factor_terms {
    const double *u, *v, *y;
    const uint32_t *user, *item, *idx;
    double *gu, *gv, *squares_u, *squares_v;
    size_t rank, n;
    double scale;
    /* As in struct batch_sums: bits to set, unless NULL, for a rank of at most FACTOR_RANK_MOST;
     * the word after them is written to. gu_0 and gv_0 are coordinates first_u and first_v. */
    uint64_t *touched;
    size_t first_u, first_v;
};

/* Which elements of row j of a matrix are not zero: those from j on (TRIANGLE_LOWER: the rows are
 * the columns of a lower triangular one), those up to j, or all. */
enum triangle { TRIANGLE_LOWER, TRIANGLE_UPPER, TRIANGLE_NONE };

#define SYRK_ROWS     32 /* rows per call of syrk, at most */
#define ROW_DRAW_MOST 32 /* rows per call of distinct_rows, at most */

struct kernels {
    const char *isa;
    bool fused; /* fused multiply-adds round once */
    /* Each fills out[0..n) and may write up to the next multiple of PAD: `out` must be 64-byte
     * aligned and padded. Numbers: 64 random bits; uniform in (0,1), never 0 or 1; standard
     * normal. */
    void (*rng_bits)(struct rng *rng, uint64_t *out, size_t n);
    void (*rng_uniform)(struct rng *rng, double *out, size_t n);
    void (*rng_normal)(struct rng *rng, double *out, size_t n);
    /* The same in single precision, quicker: uniform on a grid of 2^-31 (coarser where a float is
     * coarser), normal with tails to 6.6; their laws are right to 1e-7. */
    void (*rng_uniform_single)(struct rng *rng, float *out, size_t n);
    void (*rng_normal_single)(struct rng *rng, float *out, size_t n);
    void (*rng_normal_pair)(struct rng *rng, float *out); /* two, from a word of lane 0 */
    /* Moves return the first coordinate whose g is NaN (langevin: whose theta is no longer finite),
     * or SIZE_MAX. */
    size_t (*barker)(const struct barker_move *move);
    size_t (*langevin)(const struct langevin_move *move);
    /* theta_j += +-sigma_j with Pr(+) = clip(1/2 + g_j sigma_j / 4, 0, 1). */
    size_t (*lattice)(double *theta, const double *g, const double *sigma, const float *u,
                      size_t n);
    /* Welford's update with the count-th value: mean and sum of squared deviations. */
    void (*moments)(double *mean, double *m2, const double *x, double count, size_t n);
    /* g += scale * sum, where g holds the fixed part on entry; and tau = tau_scale *
     * sqrt((sumsq - share sum^2) / (count - 1)), which is stored in `tau` and added to the running
     * estimate. Either may be NULL. */
    void (*estimate)(const struct batch_sums *sums, double *g, double *tau,
                     const struct running_tau *running);
    /* memory += beta (tau - memory). */
    void (*smooth)(const struct running_tau *running, const double *tau, size_t n);
    /* The gradient of a normal prior: g = -precision * theta, padding included. */
    void (*prior_gradient)(double *g, const double *theta, double precision, size_t n);
    double (*dot)(const double *a, const double *b, size_t n);
    /* out = base + sum of x_j times row j of `matrix`, d rows of padded(d) numbers; base may be
     * NULL. Rows whose part in a block of the result is zero by `kind` are skipped. */
    void (*trmv)(const double *matrix, const double *x, const double *base, size_t d,
                 enum triangle kind, double *out);
    /* Lower triangle of a matrix += the sum of weight_i x_i x_i' over n <= SYRK_ROWS rows, whole
     * registers at a time: values above the diagonal are undefined. Rows of x and of the matrix are
     * aligned and `stride` numbers apart; x is zero after its columns. */
    void (*syrk)(double *matrix, size_t stride, const double *x, const double *weight, size_t n,
                 size_t columns);

    /* For held-out metrics. Arrays need be neither aligned nor padded here, and nothing is written
     * after the n-th number. */
    /* Sum of the log probabilities of the responses y_i, 0 or 1, when the log odds of 1 are eta_i:
     * right to 1e-15 for each. */
    double (*bernoulli_log)(const double *eta, const double *y, size_t n);
    /* mean_i += weight (x_i - mean_i). */
    void (*average)(double *mean, const double *x, double weight, size_t n);
    /* Sum of log x_i, right to 2e-16 n + 5e-16 S, S = sum of |log x_i| (1e-13 S with subnormal
     * numbers among them); -infinity when one is 0, NaN when one is negative or NaN. */
    double (*log_sum)(const double *x, size_t n);
    double (*count_above)(const double *x, double threshold, size_t n);
    /* out_i = a quantity of the law of the i-th row. out may be eta. */
    void (*law)(const struct law *law, enum law_quantity what, const double *eta, const double *y,
                double *out, size_t n);
    double (*squared_distance)(const double *a, const double *b, size_t n);
    void (*ratings)(const struct rating_pairs *pairs, double *out);
    void (*factor_prior)(const struct factor_prior *prior);
    void (*factor_terms)(const struct factor_terms *terms);
    /* Sum of log(1/(4 cosh^2(y/2))) over the entries y of W x, of the rows x that idx[0..n) names,
     * or 0..n-1 when idx is NULL; W has one row of data->columns numbers per entry. Absolute error
     * at most 1e-15 per entry, beside that of y itself. scratch: LANES numbers per column. */
    double (*log_sources)(const struct dataset *data, const uint32_t *idx, size_t n,
                          const double *W, double *scratch);
    void (*source_gradient)(const struct source_terms *terms);
    /* Inverts A, with partial pivoting. False when a pivot is no normal number: A is singular, or
     * not finite where it matters. */
    bool (*invert)(const struct inverse *inverse);
    /* out_kj += scale (A^-1)_jk, after invert; out has n rows of n numbers. */
    void (*add_transposed)(const struct inverse *inverse, double scale, double *out);

    /* out[k] = word k times N / 2^32, of the two 32-bit words in each of the next `count` numbers
     * of the generator, a multiple of LANES. False, with the generator unchanged, when the lower
     * half of a product is less than `uneven`: then some words must be redrawn. */
    bool (*rows)(struct rng *rng, size_t count, uint32_t N, uint32_t uneven, uint32_t *out);
    /* Draws ROW_DRAW_MOST rows in the same way and stores the first n, mapped by `row_map` unless
     * it is NULL; other valid rows fill `out` up to a multiple of PAD. False, with the generator
     * unchanged, when a word must be redrawn or a quick check does not show that the rows are
     * distinct. NULL: not available with this instruction set. */
    bool (*distinct_rows)(struct rng *rng, uint32_t N, uint32_t uneven, size_t n,
                          const uint16_t *row_map, uint32_t *out);
    /* sum and, with `squares`, sumsq of the batch, with the bits of linear_gradient for each chain.
     * Only for rows of single precision whose stride is 4 or 8 and equals chain_lanes, and a known
     * psi. Indices are those after `row_map`. */
    void (*chain_batch_sums)(const struct linear *l, const struct chain_batch_rows *rows,
                             struct chain_batch_state *batch, bool squares);
    /* One iteration of batches whose gradients are in parts, after chain_batch_next; n iterations
     * of batches with a known target. False when a gradient was NaN: the batches are then
     * undefined. */
    bool (*chain_batch_move)(const struct chain_batch_step *step, struct chain_batch_state *batches,
                             size_t count);
    bool (*chain_batch_run)(struct chain_batch_step *step, struct chain_batch_state *batches,
                            size_t count, uint64_t n);
    /* g[0] = gradient of the target with its noise, z normal; the rest of PAD numbers 0. */
    void (*known_gradient)(const struct known_target *target, const double *theta, const float *z,
                           double *g);
    void (*linear_gradient)(const struct linear *l, const struct linear_batch *batch);
    /* Sums over all rows, in double precision. Returns the log density; 0 without pass->log. */
    double (*counted_sums)(const struct counted_rows *rows, const struct counted_pass *pass);
    /* The arrays at_centre and at_centre_psi of linear_difference, for every row; psi: NULL where
     * it is known. */
    void (*linear_centre)(const struct linear *l, void *at_centre, void *psi);
    void (*linear_predictor)(const struct dataset *data, const double *theta, const uint32_t *idx,
                             size_t n, double *eta);
};

extern const struct kernels *kernels; /* never NULL */

/* One of the two numbers that the next word of lane 0 yields. `first`: the first number, and the
 * generator does not advance; otherwise the second, and it does. Two iterations that need one
 * number each thus share a word. The rest of PAD numbers is 0. */
void rng_uniform_of_two(struct rng *rng, bool first, float *out);
void rng_normal_of_two(struct rng *rng, bool first, float *out);

/* Instruction sets compiled in and supported by this machine, best first, NULL-terminated. On
 * x86_64 the last is "emulated", the portable one with fused multiply-adds computed in software:
 * the bits of AVX2 on any machine, slowly. */
const struct kernels *const *kernels_available(void);
/* Chooses one by name. False when it is not available. Before any chain runs. */
bool kernels_choose(const char *isa);

#endif
