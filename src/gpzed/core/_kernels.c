/* What happens to a block between two matrix products, in one pass over memory each.
 *
 * Arrays over rows are stored features first: row j of a matrix holds basis function j for all n objects. Work goes
 * by strips of columns that stay in the cache. Each loop is compiled for several instruction sets and the best one is
 * chosen when the library is used; `fastmath.py` has the same, readable, in NumPy, for where this file could not be
 * compiled.
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
#define STRIP 512

INLINE size_t strip_end(size_t start, size_t n) { return start + STRIP < n ? start + STRIP : n; }

/* x <- e^x */
INLINE void exp_loop(double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = exp_one(x[i]);
}

/* Z <- [1, x_k, x_k x_l (k <= l)], or [1, x_k, x_k^2]. */
INLINE void quadratic_loop(const double *restrict X, double *restrict Z, size_t d, size_t n, size_t is_full)
{
    for (size_t i = 0; i < n; i++)
        Z[i] = 1.0;
    for (size_t i = 0; i < d * n; i++)
        Z[n + i] = X[i];
    double *restrict out = Z + (d + 1) * n;
    for (size_t k = 0; k < d; k++)
        for (size_t l = k; l < (is_full ? d : k + 1); l++, out += n) {
            const double *restrict a = X + k * n, *restrict b = X + l * n;
            for (size_t i = 0; i < n; i++)
                out[i] = a[i] * b[i];
        }
}

/* ln Phi -> Phi, and log_beta <- Phi' u + b. */
INLINE void respond_loop(double *restrict Phi, const double *restrict u, const double *restrict b,
                         double *restrict log_beta, size_t m, size_t n)
{
    for (size_t start = 0; start < n; start += STRIP) {
        size_t end = strip_end(start, n);
        for (size_t i = start; i < end; i++)
            log_beta[i] = b[0];
        for (size_t j = 0; j < m; j++) {
            double *restrict phi = Phi + j * n;
            for (size_t i = start; i < end; i++) {
                phi[i] = exp_one(phi[i]);
                log_beta[i] += u[j] * phi[i];
            }
        }
    }
}

/* delta, g and G of Eq. C.6-C.7 from T = S^-1 Psi; see backward_terms in fastmath.py. T becomes G. */
INLINE void backward_loop(double *restrict T, const double *restrict Psi, const double *restrict u,
                          const double *restrict w, const double *restrict y, const double *restrict c,
                          const double *restrict sqrt_B, double *restrict g, double *restrict delta, size_t M, size_t m,
                          size_t n)
{
    for (size_t start = 0; start < n; start += STRIP) {
        size_t end = strip_end(start, n);
        for (size_t i = start; i < end; i++) {
            g[i] = 0.0;
            delta[i] = -sqrt_B[i] * y[i];
        }
        for (size_t j = 0; j < M; j++) {
            const double *restrict t = T + j * n, *restrict p = Psi + j * n;
            for (size_t i = start; i < end; i++) {
                g[i] += t[i] * p[i];
                delta[i] += w[j] * p[i];
            }
        }
        for (size_t i = start; i < end; i++)
            g[i] = 0.5 * (c[i] - delta[i] * delta[i] - g[i]) / sqrt_B[i];
        for (size_t j = 0; j < m; j++) {
            double *restrict t = T + j * n;
            const double *restrict p = Psi + j * n;
            for (size_t i = start; i < end; i++)
                t[i] = (u[j] * g[i] - w[j] * delta[i] - t[i]) * p[i];
        }
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
DISPATCH(gpzed_quadratic, quadratic_loop, (const double *X, double *Z, size_t d, size_t n, size_t is_full),
         (X, Z, d, n, is_full))
DISPATCH(gpzed_respond, respond_loop,
         (double *Phi, const double *u, const double *b, double *log_beta, size_t m, size_t n),
         (Phi, u, b, log_beta, m, n))
DISPATCH(gpzed_backward, backward_loop,
         (double *T, const double *Psi, const double *u, const double *w, const double *y, const double *c,
          const double *sqrt_B, double *g, double *delta, size_t M, size_t m, size_t n),
         (T, Psi, u, w, y, c, sqrt_B, g, delta, M, m, n))
