/* Coordinates for sampling: theta = centre + A u.
 *
 * A chain may move in u instead of theta: around a centre (usually the posterior mode) and, with a
 * dense A such that A A' is about the posterior covariance, in directions that are nearly
 * independent and of scale 1. A diagonal A needs no frame: it is a step size per coordinate.
 *
 * Immutable once made; any number of threads. Arrays over coordinates are padded and 64-byte
 * aligned as everywhere in core/. The order of all sums is fixed, so conversions give the same bits
 * on every machine. */
#ifndef BARKER_CORE_MODEL_FRAME_H
#define BARKER_CORE_MODEL_FRAME_H

#include "core/base/err.h"
#include "core/base/lanes.h"

#include <stdint.h>

enum frame_kind {
    FRAME_SHIFT, /* A = 1 */
    FRAME_DENSE, /* A lower triangular with a positive diagonal */
};

struct frame {
    enum frame_kind kind;
    size_t d;
    double *centre;  /* padded(d) */
    double *rows;    /* FRAME_DENSE: A, d rows of padded(d) numbers, zeros above the diagonal */
    double *columns; /* its transpose, of the same shape */
};

/* `A` has d rows of `stride` numbers, of which the lower triangle is read; NULL: FRAME_SHIFT.
 * ERR_INVALID when a number is not finite or the diagonal not positive; ERR_NO_MEMORY. */
enum err frame_new(struct frame **out, size_t d, const double *centre, const double *A,
                   size_t stride, struct err_info *info);
void frame_free(struct frame *frame);

/* theta = centre + A u; u and theta must not overlap. */
void frame_to_user(const struct frame *frame, const double *u, double *theta);
/* The inverse: u such that theta = centre + A u; they must not overlap. */
void frame_from_user(const struct frame *frame, const double *theta, double *u);
/* The gradient with respect to u: gu = A' g; they must not overlap. */
void frame_gradient(const struct frame *frame, const double *g, double *gu);

/* As bytes with a checksum, for machines of the same type only. frame_load: ERR_CORRUPT when they
 * are damaged. */
size_t frame_save_size(const struct frame *frame);
void frame_save(const struct frame *frame, void *bytes);
enum err frame_load(struct frame **out, const void *bytes, size_t size, struct err_info *info);

/* A hash of the frame. */
uint64_t frame_fingerprint(const struct frame *frame);

#endif
