/* Vectorised exponential for contiguous float64 arrays, in place.
 *
 * x = k ln 2 + r with |r| <= ln(2)/2; e^r by a Taylor polynomial of degree 12 (truncation error 2e-16);
 * 2^k is put together from its bits. Written without branches so that compilers vectorise it. Arguments below
 * -708 give 0 (no subnormal numbers, which are slow and carry no information here); above 709 they give
 * e^709; NaN stays NaN.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) double exp_one(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer in the low bits */
    double v = x < -708.0 ? -708.0 : x;
    v = v > 709.0 ? 709.0 : v;
    double t = v * 1.4426950408889634 + shift;
    double k = t - shift;
    double r = (v - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    /* pairs of terms first (Estrin), so that consecutive operations do not wait for each other */
    double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double a0 = 1.0 + r, a2 = 0.5 + r * (1.0 / 6.0);
    double a4 = 1.0 / 24.0 + r * (1.0 / 120.0), a6 = 1.0 / 720.0 + r * (1.0 / 5040.0);
    double a8 = 1.0 / 40320.0 + r * (1.0 / 362880.0), a10 = 1.0 / 3628800.0 + r * (1.0 / 39916800.0);
    double p = (a0 + a2 * r2) + (a4 + a6 * r2) * r4 + (a8 + a10 * r2 + r4 * (1.0 / 479001600.0)) * r8;
    int64_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < -708.0 ? 0.0 : p * scale;
}

#define EXP_LOOP                        \
    for (size_t i = 0; i < n; i++)      \
        x[i] = exp_one(x[i]);

static void exp_default(double *x, size_t n) { EXP_LOOP }

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512"))) static void exp_avx512(double *x, size_t n) { EXP_LOOP }
__attribute__((target("avx2,fma"))) static void exp_avx2(double *x, size_t n) { EXP_LOOP }

void gpzed_exp(double *x, size_t n)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        exp_avx512(x, n);
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        exp_avx2(x, n);
    else
        exp_default(x, n);
}
#else
void gpzed_exp(double *x, size_t n) { exp_default(x, n); }
#endif
