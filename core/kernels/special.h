/* Special functions of the regression laws on lanes, under the rules of core/kernels/vmath.h and
 * core/kernels/vmathf.h. For the kernels.
 *
 * Stated errors (tested in tests/unit/core/kernels/special.c), relative unless said otherwise:
 * vr_hazard 2e-15 + 1e-16 z^2 for z in [-37, 1e150], vf_hazard 1e-6 + 1e-7 z^2 for z in [-13,
 * 1e30]; vr_log_normal_below 1e-15 or absolute 1e-15; vr_log_gamma 1e-15 or absolute 3e-14 on
 * [1e-10, 1e30], vr_digamma likewise on [1e-3, 1e30], and relative 1e-15 below. NaN gives NaN. */
#ifndef BARKER_CORE_KERNELS_SPECIAL_H
#define BARKER_CORE_KERNELS_SPECIAL_H

#include "core/kernels/vmathf.h"

#define LOG_SQRT_2PI     0.91893853320467274178
#define INVERSE_SQRT_2PI 0.39894228040143267794

/* (a + 1) (1 - Phi(a))/phi(a) for a >= 0 as a polynomial in t = (a - 5)/(a + 5), which runs over
 * [-1, 1): a Chebyshev series of degree 23, whose remainder is 4e-17. */
static inline vr vr_tail(vr a)
{
    static const double c[24] = {
        1.156848628291894582,       -0.2294875382521131594,    0.0777815988687376876,
        0.02507217930163879999,     -0.06617760077909630562,   0.06150504584018649875,
        -0.03802659218584138639,    0.01634823128102938102,    -0.00420129032918730683,
        0.00001953063837079078674,  0.0004570439235795365553,  -0.0001343742785571135083,
        -0.00002480583845192318977, 0.00002270961270923768178, -1.763323926573674632e-7,
        -3.2772876332088651e-6,     3.205431665258957224e-7,   4.919962331478340491e-7,
        -6.588974491108953745e-8,   -7.758520236786342685e-8,  9.092476134019146493e-9,
        1.103207115157433646e-8,    -7.073898575561588645e-10, -9.564832934712551136e-10,
    };
    vr t = (a - 5.0) / (a + 5.0), t2 = t * t;
    vr even = vr_set(c[22]), odd = vr_set(c[23]);
    for (int k = 20; k >= 0; k -= 2) {
        even = even * t2 + c[k];
        odd = odd * t2 + c[k + 1];
    }
    return even + odd * t;
}

/* The hazard of the normal law, phi(z)/(1 - Phi(z)): for z >= 0 from the tail, for z < 0 from
 * its complement. It grows like z; z is clipped where z^2 would overflow. */
static inline vr vr_hazard(vr z)
{
    vr a = vr_abs(z);
    a = vr_select(a > vr_set(1e150), vr_set(1e150), a);
    vr h = (a + 1.0) / vr_tail(a);
    vr density = INVERSE_SQRT_2PI * vr_exp(-0.5 * a * a);
    return vr_select(z < vr_set(0.0), density / (1.0 - density / h), h);
}

/* log Phi(z). */
static inline vr vr_log_normal_below(vr z)
{
    vr a = vr_abs(z);
    a = vr_select(a > vr_set(1e150), vr_set(1e150), a);
    vr h = (a + 1.0) / vr_tail(a), square = 0.5 * a * a;
    vr above = vr_log(1.0 - INVERSE_SQRT_2PI * vr_exp(-square) / h);
    vr below = -square - LOG_SQRT_2PI - vr_log(h);
    return vr_select(z < vr_set(0.0), below, above);
}

/* The same hazard; t = (a - 4)/(a + 4), degree 12, remainder 2e-9. */
static inline vf vf_hazard(vf z)
{
    static const float c[13] = {
        1.183261914f,      -0.2423996532f,  0.03509191846f,   0.07168999013f,  -0.08070863386f,
        0.04496313583f,    -0.01253524804f, -0.000730099339f, 0.001730334235f, -0.0002119454919f,
        -0.0002020173794f, 3.150467452e-5f, 1.880141553e-5f,
    };
    vf a = vf_within(vf_abs(z), 0.0f, 1e30f);
    vf t = (a - 4.0f) / (a + 4.0f), t2 = t * t;
    vf even = vf_set(c[12]), odd = vf_set(c[11]);
    for (int k = 10; k >= 2; k -= 2) {
        even = vf_horner(even, t2, c[k]);
        odd = vf_horner(odd, t2, c[k - 1]);
    }
    vf tail = vf_fused(odd, t, vf_horner(even, t2, c[0])), above = a + 1.0f;
    vf density = (float)INVERSE_SQRT_2PI * vf_exp(-0.5f * (a * a));
    vf zero = vf_set(0.0f);
    return above * vf_where_less(z, zero, density, vf_set(1.0f)) /
           vf_where_less(z, zero, vf_fused_from(density, tail, above), tail);
}

/* Recursion for 0 < x < 8: Gamma(x) = Gamma(x + 8)/P, P = x (x + 1) ... (x + 7). */
struct vr_raised {
    vr x, product, slope; /* P and dP/dx; 1 and 0 for x >= 8 */
};

static inline struct vr_raised vr_raise(vr x)
{
    vr_mask small = x < vr_set(8.0);
    vr product = x, slope = vr_set(1.0);
    for (int k = 1; k < 8; k++) {
        slope = slope * (x + (double)k) + product;
        product = product * (x + (double)k);
    }
    return (struct vr_raised){.x = vr_select(small, x + 8.0, x),
                              .product = vr_select(small, product, vr_set(1.0)),
                              .slope = vr_select(small, slope, vr_set(0.0))};
}

/* Stirling's series for x >= 8, up to x^-13 (remainder 1e-15). */
static inline vr vr_log_gamma(vr x)
{
    struct vr_raised r = vr_raise(x);
    vr v = 1.0 / r.x, w = v * v;
    vr tail = 1.0 / 156 * w - 691.0 / 360360;
    tail = tail * w + 1.0 / 1188;
    tail = tail * w - 1.0 / 1680;
    tail = tail * w + 1.0 / 1260;
    tail = tail * w - 1.0 / 360;
    tail = tail * w + 1.0 / 12;
    return ((r.x - 0.5) * vr_log(r.x) - r.x) + (LOG_SQRT_2PI + v * tail) - vr_log(r.product);
}

/* Derivative of vr_log_gamma, by the derivative of the series. */
static inline vr vr_digamma(vr x)
{
    struct vr_raised r = vr_raise(x);
    vr v = 1.0 / r.x, w = v * v;
    vr tail = 1.0 / 12 * w - 691.0 / 32760;
    tail = tail * w + 1.0 / 132;
    tail = tail * w - 1.0 / 240;
    tail = tail * w + 1.0 / 252;
    tail = tail * w - 1.0 / 120;
    tail = tail * w + 1.0 / 12;
    return (vr_log(r.x) - 0.5 * v - w * tail) - r.slope / r.product;
}

#endif
