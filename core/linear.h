/* The linear predictor, once for all regression models: one pass over gathered rows that gives
 * eta_i = offset_i + x_i' theta, turns it into the residual r_i = d log p(y_i | eta_i) / d eta, and
 * sums r_i x_i (and its squares). A row is touched once.
 *
 * The law of y given eta is a `link` of core/law.h. Where it has a parameter psi beside eta, that
 * is known, or one more element of theta behind the coefficients, whose terms are summed in the
 * same pass. */
#ifndef BARKER_CORE_LINEAR_H
#define BARKER_CORE_LINEAR_H

#include "core/dataset.h"
#include "core/law.h"

#include <stdbool.h>

struct linear {
    enum link link;
    double psi, dof;
    double step;                /* psi is psi + step theta[columns]; 0: it is known */
    const struct dataset *data; /* borrowed */
    void *turned;               /* linear_turn; NULL: the rows are the data's */
    const uint16_t *which;      /* row i is row which[i] of the data; NULL: row i. Borrowed */
    uint32_t
        *ones; /* LINK_LOGISTIC: bit i of them is y_i, which keeps the responses in the cache */
    float *y;  /* other links: responses to rows of single precision */
    /* eta_i = offset_i + x_i' theta: N numbers of the data's precision; NULL: none. */
    const void *offset;
    float *own_offset;       /* where it lies when it is not borrowed */
    bool difference;         /* linear_difference */
    bool straight;           /* linear_straighten */
    void *there, *there_psi; /* NULL: none, or in the: */
    void *weight;            /* likewise */
    const char *tail;        /* linear_pack; NULL: none */
    size_t tail_bytes;       /* between the tails of rows */
    /* Where the rest of the model's gradient is constant + sum of theta_j times row j of curvature,
     * d rows of padded(d), or theta_j times diagonal_j: these. NULL: nobody says. Borrowed. */
    const double *constant, *curvature, *diagonal;
};

/* All that a row of single precision has beside its covariates, in one place. Weights are for a psi
 * that is known. */
enum { TAIL_OFFSET, TAIL_THERE, TAIL_Y, TAIL_THERE_PSI, TAIL, TAIL_WEIGHT = TAIL_THERE_PSI };

/* With the data's offset. `free`: psi is theta[columns] whatever the law says. False when there is
 * no memory. */
bool linear_init(struct linear *l, const struct dataset *data, const struct law *law, bool free);
void linear_release(struct linear *l);

/* LINK_LOGISTIC, not too many rows, no offsets: from here on rows are kept times 2 y - 1, so that
 * nobody has to look for their responses. The same bits, sooner; nothing happens where it does not
 * pay. False when there is no memory. */
bool linear_turn(struct linear *l);

static inline const void *linear_rows(const struct linear *l)
{
    return l->turned != NULL ? l->turned : l->data->x;
}

/* Control variates around theta = 0: from here on terms are those at (eta_i, psi) less those at
 * (offset_i, the psi of step 0). The residuals there (LINK_LOGISTIC: the probabilities) are worked
 * out once, as are the slopes in psi where it is free: `there` and `there_psi`, arrays like
 * `offset`, which must be there. False when there is no memory. */
bool linear_difference(struct linear *l);

/* Of such terms, where psi is known: from here on residuals are r_i + weight_i x_i' theta. The
 * weights are an array like `offset`, which linear_release frees. */
void linear_straighten(struct linear *l, void *weight);

/* Elements from row to row once they are packed: short rows (4 or 8) and their tails are one
 * record.
 */
static inline size_t linear_record(const struct dataset *data)
{
    return data->stride <= 8 ? 2 * data->stride : data->stride;
}

/* Rows of single precision, with offsets: what a row has beside its covariates moves into a tail of
 * four floats: behind a short row, in the padding of a long one, which must have room for it, or,
 * for long rows, in `tails`, four per row, unless NULL. `rows` are the data's, linear_record apart,
 * to be written to. Both must outlive l. */
void linear_pack(struct linear *l, float *rows, float *tails);

/* Sums over the rows idx[0..n), or 0..n-1 when idx is NULL. Rows are those before `which`. */
struct linear_batch {
    const double *theta; /* columns, and psi if it is free; this and the sums: padded to PAD, with
                          * zeros, or NaN in the wake of what is not finite */
    const uint32_t *idx;
    size_t n;
    /* Unless 0: the rows of the call to come stand at idx + padded(n), both lists whole, and the
     * memory is asked for rows so many places before they are read; the call before has asked for
     * the first of these. At most padded(n), and not with `which`. */
    size_t ahead;
    double *sum, *sumsq; /* sumsq may be NULL */
    void *work;          /* linear_work_bytes, 64-byte aligned */
};

size_t linear_work_bytes(const struct linear *l);

/* Rows of single precision are multiplied and summed in single precision, up to 512 terms at a
 * time; these sums are added up in double precision. An error of the sum is at most 1e-5 of the sum
 * of the absolute terms, in practice 1e-6; of differences, as they are before they are taken. */
void linear_gradient(const struct linear *l, const struct linear_batch *batch);

/* Asks the memory for what linear_gradient will read of these rows, unless it is near or
 * linear_gradient asks for it itself. */
void linear_ask(const struct linear *l, const uint32_t *idx, size_t n);

/* The same of rows that will be wanted later, short or long, near or far: into the second cache. */
void linear_ask_early(const struct linear *l, const uint32_t *idx, size_t n);

static inline __attribute__((always_inline)) void linear_prefetch(const void *p, bool early)
{
    if (early)
        __builtin_prefetch(p, 0, 2);
    else
        __builtin_prefetch(p);
}

/* Responses of LINK_LOGISTIC, a bit each, that are looked at and too many for the caches. */
static inline bool linear_far_responses(const struct linear *l)
{
    return l->link == LINK_LOGISTIC && !l->difference && l->turned == NULL &&
           l->data->N > (size_t)1 << 25;
}

static inline bool linear_tails_apart(const struct linear *l)
{
    return l->tail != NULL && l->tail_bytes == TAIL * sizeof(float);
}

/* Whether something belongs to a row and lies elsewhere, far away. */
static inline bool linear_has_beside(const struct linear *l)
{
    bool numbers = l->link != LINK_LOGISTIC || l->offset != NULL || l->there != NULL;
    return linear_far_responses(l) || (l->tail != NULL ? linear_tails_apart(l) : numbers);
}

/* Asks for it; `early`: into the second cache. */
static inline __attribute__((always_inline)) void linear_ask_beside(const struct linear *l,
                                                                    uint32_t row, bool early)
{
    size_t size = dataset_real_bytes(l->data);
    if (linear_far_responses(l))
        linear_prefetch(l->ones + row / 32, early);
    if (linear_tails_apart(l))
        linear_prefetch(l->tail + row * l->tail_bytes, early);
    if (l->tail != NULL)
        return;
    if (l->link != LINK_LOGISTIC)
        linear_prefetch(l->y != NULL ? (const void *)(l->y + row) : l->data->y + row, early);
    if (l->offset != NULL)
        linear_prefetch((const char *)l->offset + row * size, early);
    if (l->there != NULL)
        linear_prefetch((const char *)l->there + row * size, early);
    if (l->there_psi != NULL)
        linear_prefetch((const char *)l->there_psi + row * size, early);
    if (l->weight != NULL)
        linear_prefetch((const char *)l->weight + row * size, early);
}

/* eta of the rows, the data's offset included, in double precision: n numbers, anywhere. */
void linear_predictor(const struct dataset *data, const double *theta, const uint32_t *idx,
                      size_t n, double *eta);

#endif
