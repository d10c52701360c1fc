/* Fast Fourier transform of complex series whose length is a power of two, for correlations.
 *
 * The forward transform leaves the frequencies in bit-reversed order and the inverse takes them in
 * that order: products of spectra are taken point by point, so they need not be sorted. In it, even
 * frequencies fill the first half and odd ones the second. The inverse is not divided by the number
 * of points. A plan is read-only after it was made: threads may share it. */
#ifndef BARKER_CORE_DIAGNOSTICS_FFT_H
#define BARKER_CORE_DIAGNOSTICS_FFT_H

#include <stddef.h>

enum { MIXING_FFT_MIN_POINTS = 16 };

struct mixing_fft;

/* Real and imaginary parts of a series or of its transform; borrowed. */
struct mixing_spectrum {
    double *re, *im;
};

/* The smallest power of two that is at least `count`. */
size_t mixing_fft_pow2(size_t count);

/* A plan for transforms of up to `max_points` points, a power of two and at least
 * MIXING_FFT_MIN_POINTS. NULL when memory is out. */
struct mixing_fft *mixing_fft_new(size_t max_points);
void mixing_fft_free(struct mixing_fft *fft);

/* In place, on `points` real and imaginary parts. `points` is a power of two between
 * MIXING_FFT_MIN_POINTS and the plan's maximum. */
void mixing_fft_forward(const struct mixing_fft *fft, struct mixing_spectrum x, size_t points);
void mixing_fft_inverse(const struct mixing_fft *fft, struct mixing_spectrum x, size_t points);

/* sum += conj(x) x: the autocorrelation of a series that ends within the first half of its
 * points. */
void mixing_fft_add_power(struct mixing_spectrum sum, struct mixing_spectrum x, size_t points);

/* sum += conj(before) x', where x' is x moved later by half of the points, which multiplies
 * frequency k by (-1)^k: the correlation of two neighbouring pieces of one series. */
void mixing_fft_add_cross(struct mixing_spectrum sum, struct mixing_spectrum before,
                          struct mixing_spectrum x, size_t points);

#endif
