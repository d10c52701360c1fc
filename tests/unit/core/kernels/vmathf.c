/* The single-precision functions of the kernels against double libm: every 509th float there is. As
 * the portable kernels have them; vmathf_emulated.c compiles this file once more. */
#include "core/kernels/vmathf.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#ifndef SUITE
#define SUITE vmathf
#endif
#define STRIDE 509

typedef vf function(vf x);
typedef double oracle(double x);

static float one(function *f, float x)
{
    return f(vf_set(x))[0];
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Units in the last place of the true value, as a float would carry it. */
static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    exponent = exponent < FLT_MIN_EXP ? FLT_MIN_EXP : exponent;
    return fabs((double)got - want) / ldexp(1.0, exponent - FLT_MANT_DIG);
}

typedef double measure(float got, double want);

/* The largest error over the floats of [low, high]. */
static double largest(function *f, oracle *truth, measure *error, float low, float high)
{
    double worst = 0.0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STRIDE) {
        float x = float_of((uint32_t)bits);
        if (!(x >= low && x <= high))
            continue;
        double e = error(one(f, x), truth((double)x));
        worst = e > worst || isnan(e) ? e : worst;
        if (isnan(e))
            break;
    }
    return worst;
}

static double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double tanh_half(double x)
{
    return tanh(0.5 * x);
}

Test(SUITE, exp_is_right_to_3_ulp_and_saturates)
{
    cr_assert_leq(largest(vf_exp, exp, ulps, -86.6f, 88.72283f), 3.0);
    cr_assert_eq(one(vf_exp, -86.7f), 0.0f);
    cr_assert_eq(one(vf_exp, -INFINITY), 0.0f);
    cr_assert_eq(one(vf_exp, 88.7229f), INFINITY);
    cr_assert_eq(one(vf_exp, INFINITY), INFINITY);
    cr_assert_eq(one(vf_exp, 0.0f), 1.0f);
    cr_assert_eq(one(vf_exp, 1e-45f), 1.0f);
}

Test(SUITE, logistic_is_right_to_4_ulp_and_bounded)
{
    cr_assert_leq(largest(vf_logistic, logistic, ulps, -86.5f, INFINITY), 4.0);
    cr_assert_gt(one(vf_logistic, -INFINITY), 2e-38f);
    cr_assert_lt(one(vf_logistic, -INFINITY), 4e-38f);
    cr_assert_eq(one(vf_logistic, INFINITY), 1.0f);
    cr_assert_eq(one(vf_logistic, 0.0f), 0.5f);
}

Test(SUITE, tanh_of_the_half_is_right_to_7_ulp)
{
    cr_assert_leq(largest(vf_tanh_half, tanh_half, ulps, -INFINITY, INFINITY), 7.0);
    cr_assert_eq(one(vf_tanh_half, 0.0f), 0.0f);
}

Test(SUITE, log_is_right_to_3_ulp_on_normal_numbers)
{
    cr_assert_leq(largest(vf_log, log, ulps, FLT_MIN, FLT_MAX), 3.0);
    cr_assert_eq(one(vf_log, INFINITY), INFINITY);
    cr_assert_eq(one(vf_log, 1.0f), 0.0f);
}

Test(SUITE, a_quarter_turn_is_right_to_3e_7)
{
    for (uint32_t k = 0; k <= 1u << 20; k++) {
        float v = (float)k * 0x1p-20f;
        vf c, s;
        vf_quarter_turn(vf_set(v), &c, &s);
        cr_assert_leq(fabs((double)c[0] - M_SQRT2 * cos(M_PI_2 * (double)v)), 3e-7, "cos at %g", v);
        cr_assert_leq(fabs((double)s[0] - M_SQRT2 * sin(M_PI_2 * (double)v)), 3e-7, "sin at %g", v);
    }
}

Test(SUITE, nan_gives_nan)
{
    vf c, s;
    static function *const functions[] = {vf_exp, vf_logistic, vf_tanh_half, vf_log};
    const float nans[] = {NAN, -NAN, float_of(0x7fc00001), float_of(0xffffffff)};
    for (size_t k = 0; k < sizeof nans / sizeof nans[0]; k++) {
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
            cr_assert(isnan(one(functions[i], nans[k])), "function %zu, NaN %zu", i, k);
        vf_quarter_turn(vf_set(nans[k]), &c, &s);
        cr_assert(isnan(c[0]) && isnan(s[0]));
    }
}

Test(SUITE, floats_and_doubles_are_turned_into_each_other_in_order)
{
    vr low, high;
    for (size_t i = 0; i < WIDTH; i++) {
        low[i] = 1.5 + (double)i;
        high[i] = -100.25 - (double)i;
    }
    vf x = vf_of_doubles(low, high);
    vr back_low = vf_low(x), back_high = vf_high(x);
    for (size_t i = 0; i < WIDTH; i++) {
        cr_assert_eq((double)x[i], low[i]);
        cr_assert_eq((double)x[WIDTH + i], high[i]);
        cr_assert_eq(back_low[i], low[i]);
        cr_assert_eq(back_high[i], high[i]);
    }
}

/* ---- fused multiply-adds ---- */

#if defined(EMULATE_FUSED) || defined(__aarch64__)

static uint32_t scramble(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352dU;
    x = (x ^ x >> 15) * 0x846ca68bU;
    return x ^ x >> 16;
}

static void expect_fused(float a, float b, float c)
{
    float got = vf_fused(vf_set(a), vf_set(b), vf_set(c))[1], want = fmaf(a, b, c);
    float less = vf_fused_from(vf_set(a), vf_set(b), vf_set(c))[2], from = fmaf(-a, b, c);
    cr_assert((isnan(got) && isnan(want)) || memcmp(&got, &want, sizeof got) == 0,
              "%a * %a + %a is %a, not %a", a, b, c, got, want);
    cr_assert((isnan(less) && isnan(from)) || memcmp(&less, &from, sizeof less) == 0,
              "%a - %a * %a is %a, not %a", c, a, b, less, from);
}

Test(SUITE, fused_multiply_adds_are_rounded_once)
{
    for (uint32_t i = 0; i < 3000000; i++)
        expect_fused(float_of(scramble(3 * i)), float_of(scramble(3 * i + 1)),
                     float_of(scramble(3 * i + 2)));
}

/* A product that is half way between two floats, and a little that tips the balance: less than
 * double precision has room for. */
Test(SUITE, fused_multiply_adds_are_right_where_double_precision_is_not)
{
    for (uint32_t i = 0; i < 200000; i++) {
        float c = float_of(0x3f800000U | (scramble(i) & 0x7fffffU));
        float half = 0x1p-24f, tip = ldexpf(1.0f + (float)(i % 7), -60 - (int)(i % 40));
        expect_fused(half, 1.0f + 0x1p-23f * (float)(i % 3), c);
        expect_fused(half + tip, 1.0f, c);
        expect_fused(0x1.000002p-12f, 0x1.fffffep-13f, c); /* half - 2^-71 */
        expect_fused(c, half, tip * c);
        expect_fused(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, tip);
        expect_fused(1.0f + 0x1p-12f, -1.0f - 0x1p-12f, -tip);
    }
}

Test(SUITE, fused_multiply_adds_are_right_at_the_ends_of_the_range)
{
    static const float x[] = {0.0f,    -0.0f,    FLT_MIN,   -FLT_MIN, 0x1p-149f, -0x3p-149f,
                              1.0f,    0x1p-75f, FLT_MAX,   -FLT_MAX, 0x1.8p-1f, 0x1p-24f,
                              0x1p64f, INFINITY, -INFINITY, NAN};
    size_t n = sizeof x / sizeof x[0];
    for (size_t i = 0; i < n * n * n; i++)
        expect_fused(x[i % n], x[i / n % n], x[i / n / n]);
    for (uint32_t i = 0; i < 300000; i++) { /* results without all their digits, nearly half way */
        float c = float_of(0x400000U | (scramble(i) & 0x3fffffU));
        expect_fused(0x1.000002p-75f, 0x1.fffffcp-76f, c);
        expect_fused(0x1.000002p-75f, 0x1.000002p-75f, -c);
    }
}
#endif
