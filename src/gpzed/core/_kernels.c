/* The three loops over a block that NumPy cannot fuse: exponential, quadratic map, gradient.
 *
 * Everything else in an evaluation is a matrix product. Each loop is compiled for several instruction sets and
 * the best one is chosen when the library is used; `fastmath.py` has the same in NumPy for where this file could
 * not be compiled.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* e^x = 2^k e^r with x = k ln 2 + r, |r| <= ln(2)/2; e^r by a Taylor polynomial of degree 12 (truncation error 2e-16);
 * 2^k is put together from its bits. Without branches, so that compilers vectorise it. Arguments below -708 give 0
 * (no subnormal numbers, which are slow and carry no information here); above 709 they give e^709; NaN stays NaN.
 */
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

#define INLINE static inline __attribute__((always_inline))

INLINE void exp_loop(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = exp_one(x[i]);
}

/* Rows x_k x_l, k <= l, of the quadratic map; X has d rows of n numbers. */
INLINE void products_loop(const double *restrict X, double *restrict out, size_t d, size_t n)
{
    for (size_t k = 0; k < d; k++)
        for (size_t l = k; l < d; l++, out += n) {
            const double *restrict a = X + k * n, *restrict b = X + l * n;
            for (size_t i = 0; i < n; i++)
                out[i] = a[i] * b[i];
        }
}

/* T <- (u g' - w s' - T) o Psi, all of m rows of n numbers. */
INLINE void gradient_loop(double *restrict T, const double *restrict Psi, const double *restrict u,
                          const double *restrict w, const double *restrict g, const double *restrict s, size_t m,
                          size_t n)
{
    for (size_t j = 0; j < m; j++) {
        double *restrict t = T + j * n;
        const double *restrict p = Psi + j * n;
        for (size_t i = 0; i < n; i++)
            t[i] = (u[j] * g[i] - w[j] * s[i] - t[i]) * p[i];
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#define TARGET_512 __attribute__((target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#define TARGET_256 __attribute__((target("avx2,fma")))
#define HAS_512                                                                                                        \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#define HAS_256 (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define DISPATCH(name, loop, parameters, arguments)                                                                    \
    TARGET_512 static void loop##_512 parameters { loop arguments; }                                                   \
    TARGET_256 static void loop##_256 parameters { loop arguments; }                                                   \
    void name parameters                                                                                               \
    {                                                                                                                  \
        if (HAS_512)                                                                                                   \
            loop##_512 arguments;                                                                                      \
        else if (HAS_256)                                                                                              \
            loop##_256 arguments;                                                                                      \
        else                                                                                                           \
            loop arguments;                                                                                            \
    }
#else
#define DISPATCH(name, loop, parameters, arguments)                                                                    \
    void name parameters { loop arguments; }
#endif

DISPATCH(gpzed_exp, exp_loop, (double *x, size_t n), (x, n))
DISPATCH(gpzed_products, products_loop, (const double *X, double *out, size_t d, size_t n), (X, out, d, n))
DISPATCH(gpzed_gradient, gradient_loop,
         (double *T, const double *Psi, const double *u, const double *w, const double *g, const double *s, size_t m,
          size_t n),
         (T, Psi, u, w, g, s, m, n))
