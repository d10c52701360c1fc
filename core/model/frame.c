/* Frames: triangular products in a fixed order. */
#include "core/model/frame.h"
#include "core/base/fingerprint.h"
#include "core/kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct frame *allocate(enum frame_kind kind, size_t d)
{
    struct frame *f = calloc(1, sizeof *f);
    size_t square = kind == FRAME_DENSE ? d * padded(d) : 0;
    if (f == NULL)
        return NULL;
    *f = (struct frame){.kind = kind, .d = d, .centre = lanes_alloc(d, sizeof(double))};
    if (square > 0) {
        f->rows = lanes_alloc(square, sizeof(double));
        f->columns = lanes_alloc(square, sizeof(double));
    }
    if (f->centre != NULL && (square == 0 || (f->rows != NULL && f->columns != NULL)))
        return f;
    frame_free(f);
    return NULL;
}

void frame_free(struct frame *f)
{
    if (f == NULL)
        return;
    free(f->centre);
    free(f->rows);
    free(f->columns);
    free(f);
}

static enum err check_numbers(size_t d, const double *centre, const double *A, size_t stride,
                              struct err_info *info)
{
    for (size_t j = 0; j < d; j++) {
        if (!isfinite(centre[j]))
            return err_set(info, ERR_INVALID, "coordinate %zu of the centre is %g", j + 1,
                           centre[j]);
        for (size_t k = 0; A != NULL && k <= j; k++)
            if (!isfinite(A[j * stride + k]) || (k == j && !(A[j * stride + k] > 0.0)))
                return err_set(info, ERR_INVALID, "element (%zu, %zu) of the scale matrix is %g",
                               j + 1, k + 1, A[j * stride + k]);
    }
    return ERR_OK;
}

enum err frame_new(struct frame **out, size_t d, const double *centre, const double *A,
                   size_t stride, struct err_info *info)
{
    enum err code = check_numbers(d, centre, A, stride, info);
    if (code != ERR_OK)
        return code;
    struct frame *f = allocate(A != NULL ? FRAME_DENSE : FRAME_SHIFT, d);
    if (f == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a frame of %zu parameters", d);
    size_t p = padded(d);
    memcpy(f->centre, centre, d * sizeof *centre);
    for (size_t j = 0; A != NULL && j < d; j++)
        for (size_t k = 0; k <= j; k++)
            f->rows[j * p + k] = f->columns[k * p + j] = A[j * stride + k];
    *out = f;
    return ERR_OK;
}

void frame_to_user(const struct frame *f, const double *u, double *theta)
{
    if (f->kind == FRAME_DENSE) {
        kernels->trmv(f->columns, u, f->centre, f->d, TRIANGLE_LOWER, theta);
        return;
    }
    for (size_t j = 0; j < f->d; j++)
        theta[j] = f->centre[j] + u[j];
}

/* Forward substitution; elements of u that are not yet known are zero in the dot products. */
void frame_from_user(const struct frame *f, const double *theta, double *u)
{
    size_t d = f->d, p = padded(d);
    memset(u, 0, p * sizeof *u);
    for (size_t j = 0; j < d; j++) {
        const double *row = f->rows + j * p;
        double known = f->kind == FRAME_DENSE ? kernels->dot(row, u, j) : 0.0;
        u[j] = theta[j] - f->centre[j] - known;
        if (f->kind == FRAME_DENSE)
            u[j] /= row[j];
    }
}

void frame_gradient(const struct frame *f, const double *g, double *gu)
{
    if (f->kind == FRAME_DENSE)
        kernels->trmv(f->rows, g, NULL, f->d, TRIANGLE_UPPER, gu);
    else
        memcpy(gu, g, f->d * sizeof *gu);
}

/* ---- as bytes ---- */

struct saved {
    char magic[8];
    uint64_t kind, d, checksum;
};

#define MAGIC "BRKFRAME"

static size_t triangle(const struct frame *f)
{
    return f->kind == FRAME_DENSE ? f->d * (f->d + 1) / 2 : 0;
}

size_t frame_save_size(const struct frame *f)
{
    return sizeof(struct saved) + (f->d + triangle(f)) * sizeof(double);
}

static uint64_t checksum(const struct saved *saved, const void *numbers, size_t size)
{
    uint64_t h = fingerprint_word(fingerprint_word(1, saved->kind), saved->d);
    return fingerprint_bytes(h, numbers, size);
}

/* The centre, then the rows of the triangle. */
void frame_save(const struct frame *f, void *bytes)
{
    struct saved saved = {.kind = f->kind, .d = f->d};
    char *numbers = (char *)bytes + sizeof saved, *at = numbers + f->d * sizeof(double);
    memcpy(saved.magic, MAGIC, sizeof saved.magic);
    memcpy(numbers, f->centre, f->d * sizeof(double));
    for (size_t j = 0; f->kind == FRAME_DENSE && j < f->d; j++) {
        memcpy(at, f->rows + j * padded(f->d), (j + 1) * sizeof(double));
        at += (j + 1) * sizeof(double);
    }
    saved.checksum = checksum(&saved, numbers, frame_save_size(f) - sizeof saved);
    memcpy(bytes, &saved, sizeof saved);
}

static void read_triangle(struct frame *f, const char *at)
{
    size_t p = padded(f->d);
    for (size_t j = 0; j < f->d; j++, at += j * sizeof(double)) {
        memcpy(f->rows + j * p, at, (j + 1) * sizeof(double));
        for (size_t k = 0; k <= j; k++)
            f->columns[k * p + j] = f->rows[j * p + k];
    }
}

static bool is_intact(const struct saved *saved, const void *bytes, size_t size)
{
    struct frame shape = {.kind = (enum frame_kind)saved->kind, .d = (size_t)saved->d};
    return memcmp(saved->magic, MAGIC, sizeof saved->magic) == 0 && saved->kind <= FRAME_DENSE &&
           saved->d < size && triangle(&shape) < size && frame_save_size(&shape) == size &&
           saved->checksum ==
               checksum(saved, (const char *)bytes + sizeof *saved, size - sizeof *saved);
}

enum err frame_load(struct frame **out, const void *bytes, size_t size, struct err_info *info)
{
    struct saved saved = {0};
    if (size >= sizeof saved)
        memcpy(&saved, bytes, sizeof saved);
    if (size < sizeof saved || !is_intact(&saved, bytes, size))
        return err_set(info, ERR_CORRUPT,
                       "saved frame: these %zu bytes are not a frame, or are damaged", size);
    struct frame *f = allocate((enum frame_kind)saved.kind, (size_t)saved.d);
    if (f == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a frame of %zu parameters",
                       (size_t)saved.d);
    const char *numbers = (const char *)bytes + sizeof saved;
    memcpy(f->centre, numbers, f->d * sizeof(double));
    if (f->kind == FRAME_DENSE)
        read_triangle(f, numbers + f->d * sizeof(double));
    *out = f;
    return ERR_OK;
}

uint64_t frame_fingerprint(const struct frame *f)
{
    uint64_t h = fingerprint_word(f->kind, f->d);
    h = fingerprint_bytes(h, f->centre, f->d * sizeof(double));
    return f->kind == FRAME_DENSE
               ? fingerprint_bytes(h, f->rows, f->d * padded(f->d) * sizeof(double))
               : h;
}
