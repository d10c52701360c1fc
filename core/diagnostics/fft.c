/* The fast Fourier transform of complex series. */
#include "core/diagnostics/fft.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Decimation in frequency forwards and in time backwards, two binary stages fused into one of radix
 * four, so that a transform of 4^k points is k passes; an odd power of two takes one binary pass
 * first (last, backwards). Real and imaginary parts are in two arrays, and two neighbours are
 * computed at once: every 64-bit machine has registers of two doubles. */

typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));

enum { MAX_LOG2 = 48 };

struct mixing_fft {
    size_t max_points;
    double *twiddle[MAX_LOG2]; /* of stages of 2^k points, see fill_twiddles; borrowed from store */
    double *store;
};

static pair load(const double *p)
{
    return *(const pair *)p;
}

static void store(double *p, pair v)
{
    *(pair *)p = v;
}

static unsigned log2_of(size_t points)
{
    return (unsigned)__builtin_ctzll(points);
}

static bool is_pow2(size_t points)
{
    return points != 0 && (points & (points - 1)) == 0;
}

size_t mixing_fft_pow2(size_t count)
{
    size_t points = 1;
    while (points < count)
        points *= 2;
    return points;
}

/* A stage of radix four multiplies by powers of w, w^2 and w^3, a quarter of the points each; one
 * of radix two by powers of w, half of the points. Radix four is used on even powers of two
 * only. */
static size_t rotations_of(size_t points)
{
    return log2_of(points) % 2 == 0 ? 3 : 1;
}

static size_t rotation_length(size_t points)
{
    return log2_of(points) % 2 == 0 ? points / 4 : points / 2;
}

static size_t twiddle_doubles(size_t points)
{
    return 2 * rotations_of(points) * rotation_length(points);
}

/* For each rotation m the cosines, then the sines of -2 pi m j / points. The integer m j is reduced
 * modulo `points` before it becomes an angle, so every entry is right to the last bit or two. */
static void fill_twiddles(double *w, size_t points)
{
    size_t length = rotation_length(points);
    for (size_t m = 1; m <= rotations_of(points); m++, w += 2 * length)
        for (size_t j = 0; j < length; j++) {
            double angle = -2.0 * M_PI * (double)(m * j % points) / (double)points;
            w[j] = cos(angle);
            w[length + j] = sin(angle);
        }
}

struct mixing_fft *mixing_fft_new(size_t max_points)
{
    assert(is_pow2(max_points) && max_points >= MIXING_FFT_MIN_POINTS);
    size_t total = 0;
    for (size_t points = 8; points <= max_points; points *= 2)
        total += twiddle_doubles(points);
    struct mixing_fft *fft = calloc(1, sizeof *fft);
    double *w = calloc(total, sizeof *w);
    if (!fft || !w) {
        free(fft);
        free(w);
        return NULL;
    }
    fft->max_points = max_points;
    fft->store = w;
    for (size_t points = 8; points <= max_points; points *= 2) {
        fft->twiddle[log2_of(points)] = w;
        fill_twiddles(w, points);
        w += twiddle_doubles(points);
    }
    return fft;
}

void mixing_fft_free(struct mixing_fft *fft)
{
    if (!fft)
        return;
    free(fft->store);
    free(fft);
}

/* With x split in halves: (a, b) -> (a + b, (a - b) w^j). */
static void forward2(const double *w, double *re, double *im, size_t half)
{
    for (size_t j = 0; j < half; j += 2) {
        pair c = load(w + j), s = load(w + half + j);
        pair ar = load(re + j), ai = load(im + j);
        pair br = load(re + half + j), bi = load(im + half + j);
        pair dr = ar - br, di = ai - bi;
        store(re + j, ar + br);
        store(im + j, ai + bi);
        store(re + half + j, dr * c - di * s);
        store(im + half + j, dr * s + di * c);
    }
}

static void inverse2(const double *w, double *re, double *im, size_t half)
{
    for (size_t j = 0; j < half; j += 2) {
        pair c = load(w + j), s = load(w + half + j);
        pair ar = load(re + j), ai = load(im + j);
        pair dr = load(re + half + j), di = load(im + half + j);
        pair br = dr * c + di * s, bi = di * c - dr * s;
        store(re + j, ar + br);
        store(im + j, ai + bi);
        store(re + half + j, ar - br);
        store(im + half + j, ai - bi);
    }
}

/* With x split in quarters, d = x0 - x2 and e = x1 - x3: (x0 + x1 + x2 + x3, (x0 - x1 + x2 - x3)
 * w^2j, (d - ie) w^j, (d + ie) w^3j). */
static void forward4(const double *w, double *re, double *im, size_t q)
{
    for (size_t j = 0; j < q; j += 2) {
        const double *v = w + j;
        pair r0 = load(re + j), r1 = load(re + q + j), r2 = load(re + 2 * q + j);
        pair i0 = load(im + j), i1 = load(im + q + j), i2 = load(im + 2 * q + j);
        pair r3 = load(re + 3 * q + j), i3 = load(im + 3 * q + j);
        pair ar = r0 + r2, ai = i0 + i2, br = r1 + r3, bi = i1 + i3;
        pair dr = r0 - r2, di = i0 - i2, er = r1 - r3, ei = i1 - i3;
        pair fr = ar - br, fi = ai - bi, gr = dr + ei, gi = di - er, hr = dr - ei, hi = di + er;
        pair c1 = load(v), s1 = load(v + q), c2 = load(v + 2 * q), s2 = load(v + 3 * q);
        pair c3 = load(v + 4 * q), s3 = load(v + 5 * q);
        store(re + j, ar + br);
        store(im + j, ai + bi);
        store(re + q + j, fr * c2 - fi * s2);
        store(im + q + j, fr * s2 + fi * c2);
        store(re + 2 * q + j, gr * c1 - gi * s1);
        store(im + 2 * q + j, gr * s1 + gi * c1);
        store(re + 3 * q + j, hr * c3 - hi * s3);
        store(im + 3 * q + j, hr * s3 + hi * c3);
    }
}

/* The inverse of forward4, without the division by four. */
static void inverse4(const double *w, double *re, double *im, size_t q)
{
    for (size_t j = 0; j < q; j += 2) {
        const double *v = w + j;
        pair r0 = load(re + j), r1 = load(re + q + j), r2 = load(re + 2 * q + j);
        pair i0 = load(im + j), i1 = load(im + q + j), i2 = load(im + 2 * q + j);
        pair r3 = load(re + 3 * q + j), i3 = load(im + 3 * q + j);
        pair c1 = load(v), s1 = load(v + q), c2 = load(v + 2 * q), s2 = load(v + 3 * q);
        pair c3 = load(v + 4 * q), s3 = load(v + 5 * q);
        pair fr = r1 * c2 + i1 * s2, fi = i1 * c2 - r1 * s2;
        pair gr = r2 * c1 + i2 * s1, gi = i2 * c1 - r2 * s1;
        pair hr = r3 * c3 + i3 * s3, hi = i3 * c3 - r3 * s3;
        pair ar = r0 + fr, ai = i0 + fi, br = r0 - fr, bi = i0 - fi;
        pair dr = gr + hr, di = gi + hi, er = hi - gi, ei = gr - hr;
        store(re + j, ar + dr);
        store(im + j, ai + di);
        store(re + q + j, br + er);
        store(im + q + j, bi + ei);
        store(re + 2 * q + j, ar - dr);
        store(im + 2 * q + j, ai - di);
        store(re + 3 * q + j, br - er);
        store(im + 3 * q + j, bi - ei);
    }
}

/* The stage of four points, whose twiddle factors are 1. */
static void forward_last(double *re, double *im, size_t points)
{
    for (size_t i = 0; i < points; i += 4) {
        double ar = re[i] + re[i + 2], ai = im[i] + im[i + 2];
        double br = re[i + 1] + re[i + 3], bi = im[i + 1] + im[i + 3];
        double dr = re[i] - re[i + 2], di = im[i] - im[i + 2];
        double er = re[i + 1] - re[i + 3], ei = im[i + 1] - im[i + 3];
        re[i] = ar + br, im[i] = ai + bi;
        re[i + 1] = ar - br, im[i + 1] = ai - bi;
        re[i + 2] = dr + ei, im[i + 2] = di - er;
        re[i + 3] = dr - ei, im[i + 3] = di + er;
    }
}

static void inverse_first(double *re, double *im, size_t points)
{
    for (size_t i = 0; i < points; i += 4) {
        double ar = re[i] + re[i + 1], ai = im[i] + im[i + 1];
        double br = re[i] - re[i + 1], bi = im[i] - im[i + 1];
        double dr = re[i + 2] + re[i + 3], di = im[i + 2] + im[i + 3];
        double er = im[i + 3] - im[i + 2], ei = re[i + 2] - re[i + 3];
        re[i] = ar + dr, im[i] = ai + di;
        re[i + 1] = br + er, im[i + 1] = bi + ei;
        re[i + 2] = ar - dr, im[i + 2] = ai - di;
        re[i + 3] = br - er, im[i + 3] = bi - ei;
    }
}

void mixing_fft_forward(const struct mixing_fft *fft, struct mixing_spectrum x, size_t points)
{
    assert(is_pow2(points) && points >= MIXING_FFT_MIN_POINTS && points <= fft->max_points);
    size_t size = points;
    if (log2_of(points) % 2 == 1) {
        forward2(fft->twiddle[log2_of(points)], x.re, x.im, points / 2);
        size /= 2;
    }
    for (; size > 4; size /= 4)
        for (size_t at = 0; at < points; at += size)
            forward4(fft->twiddle[log2_of(size)], x.re + at, x.im + at, size / 4);
    forward_last(x.re, x.im, points);
}

void mixing_fft_inverse(const struct mixing_fft *fft, struct mixing_spectrum x, size_t points)
{
    assert(is_pow2(points) && points >= MIXING_FFT_MIN_POINTS && points <= fft->max_points);
    bool odd = log2_of(points) % 2 == 1;
    size_t widest = odd ? points / 2 : points;
    inverse_first(x.re, x.im, points);
    for (size_t size = 16; size <= widest; size *= 4)
        for (size_t at = 0; at < points; at += size)
            inverse4(fft->twiddle[log2_of(size)], x.re + at, x.im + at, size / 4);
    if (odd)
        inverse2(fft->twiddle[log2_of(points)], x.re, x.im, points / 2);
}

void mixing_fft_add_power(struct mixing_spectrum sum, struct mixing_spectrum x, size_t points)
{
    for (size_t k = 0; k < points; k += 2) {
        pair re = load(x.re + k), im = load(x.im + k);
        store(sum.re + k, load(sum.re + k) + (re * re + im * im));
    }
}

static void add_product(struct mixing_spectrum sum, struct mixing_spectrum a,
                        struct mixing_spectrum b, size_t from, size_t to, double sign)
{
    pair factor = {sign, sign};
    for (size_t k = from; k < to; k += 2) {
        pair ar = load(a.re + k), ai = load(a.im + k), br = load(b.re + k), bi = load(b.im + k);
        store(sum.re + k, load(sum.re + k) + factor * (ar * br + ai * bi));
        store(sum.im + k, load(sum.im + k) + factor * (ar * bi - ai * br));
    }
}

void mixing_fft_add_cross(struct mixing_spectrum sum, struct mixing_spectrum before,
                          struct mixing_spectrum x, size_t points)
{
    add_product(sum, before, x, 0, points / 2, 1.0);
    add_product(sum, before, x, points / 2, points, -1.0);
}
