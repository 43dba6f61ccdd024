/* Both passes over a block of rows, and prediction, in one call each; included by `_kernels.c` once per instruction set.
 *
 * LANES is the number of doubles per vector, NAME(x) gives x a suffix of its own, TARGET is the attribute that selects
 * the instructions. Lanes of a vector are always different rows of the data. Rows are taken in panels of three vectors,
 * whose arrays stay in the first-level cache, and strips of many panels, whose arrays stay in the second. Everything is
 * stored panel by panel, [panel][feature][row of the panel]. Two small products of 4 x 3 vectors, which fill the sixteen
 * registers of a processor, do nearly all of the work:
 *
 * - `product`: A B for a panel B, each element of A being spread over a vector (ln Phi = C'Z and T = S^-1 Psi);
 * - `cross`: A B' summed over the rows of a strip, lanes being added up at the end (Psi Psi' and Z G').
 *
 * Since arrays are laid out here as these products want them, nothing is repacked in between, which is what makes the
 * difference to a general BLAS at these shapes.
 */
#define PANEL (3 * LANES)
#define EACH_LANE for (size_t i = 0; i < PANEL; i++)
#define vec NAME(vec_t)
typedef double vec __attribute__((vector_size(8 * LANES), may_alias));
#define loose_vec NAME(loose_vec_t)
typedef double loose_vec __attribute__((vector_size(8 * LANES), may_alias, aligned(8)));

TARGET INLINE void NAME(store)(double *out, vec a, vec b, vec c)
{
    ((vec *)out)[0] = a;
    ((vec *)out)[1] = b;
    ((vec *)out)[2] = c;
}

/* out (4, panel) = sum over k in [k0, k1) of A[k][r] B[k], or only its first rows; added to what is there if `more`. */
TARGET static void NAME(product_tile)(const double *restrict A, const double *restrict B, size_t k0, size_t k1, int more,
                                      double *restrict out, size_t rows)
{
    vec t[TILE][3], *o = (vec *)out;
    UNROLL for (size_t r = 0; r < TILE; r++)
        UNROLL for (size_t v = 0; v < 3; v++)
            t[r][v] = more && r < rows ? o[3 * r + v] : (vec){0.0};
    for (size_t k = k0; k < k1; k++) {
        const vec *b = (const vec *)(B + k * PANEL);
        vec b0 = b[0], b1 = b[1], b2 = b[2];
        UNROLL for (size_t r = 0; r < TILE; r++) {
            double a = A[k * TILE + r];
            t[r][0] += a * b0;
            t[r][1] += a * b1;
            t[r][2] += a * b2;
        }
    }
    UNROLL for (size_t r = 0; r < TILE; r++)
        if (r < rows)
            NAME(store)(out + r * PANEL, t[r][0], t[r][1], t[r][2]);
}

/* out (m, panel) = A B with A (m, depth) packed, see pack(); DEPTH rows of B at a time stay in the cache. */
TARGET static void NAME(product)(const double *A, size_t m, size_t depth, enum shape shape, const double *B, double *out)
{
    for (size_t k = 0; k < depth; k += DEPTH)
        for (size_t j = 0; j < m; j += TILE) {
            size_t k0 = shape == UPPER && k < j ? j : k;
            size_t k1 = smaller(k + DEPTH, shape == LOWER ? smaller(j + TILE, depth) : depth);
            NAME(product_tile)(A + j * depth, B, k0, k1, k > 0, out + j * PANEL, smaller(TILE, m - j));
        }
}

/* The sum of the lanes of a vector. */
TARGET INLINE double NAME(add_up)(vec t)
{
    double half[LANES / 2], sum;
    UNROLL for (size_t i = 0; i < LANES / 2; i++)
        half[i] = t[i] + t[i + LANES / 2];
    sum = half[0];
    UNROLL for (size_t i = 1; i < LANES / 2; i++)
        sum += half[i];
    return sum;
}

#if LANES == 4
/* The sums of the lanes of four vectors. */
TARGET INLINE vec NAME(add_up_four)(vec a, vec b, vec c, vec d)
{
    vec ab = SHUFFLE(a, b, 0, 4, 2, 6) + SHUFFLE(a, b, 1, 5, 3, 7);
    vec cd = SHUFFLE(c, d, 0, 4, 2, 6) + SHUFFLE(c, d, 1, 5, 3, 7);
    return SHUFFLE(ab, cd, 0, 1, 4, 5) + SHUFFLE(ab, cd, 2, 3, 6, 7);
}
#endif

/* out[r][c] += sum over panels of A[r] B[c], for 4 x 3 rows of A and B. Rows beyond the last are read, not stored. */
TARGET static void NAME(cross_tile)(const double *restrict a, size_t step_a, size_t rows_a, const double *restrict b,
                                    size_t step_b, size_t rows_b, size_t panels, double *restrict out, size_t stride_a,
                                    size_t stride_b)
{
    vec t[TILE][3];
    UNROLL for (size_t r = 0; r < TILE; r++)
        UNROLL for (size_t c = 0; c < 3; c++)
            t[r][c] = (vec){0.0};
    for (size_t panel = 0; panel < panels; panel++, a += step_a, b += step_b)
        UNROLL for (size_t i = 0; i < PANEL; i += LANES) {
            vec b0 = *(const vec *)(b + i), b1 = *(const vec *)(b + PANEL + i), b2 = *(const vec *)(b + 2 * PANEL + i);
            UNROLL for (size_t r = 0; r < TILE; r++) {
                vec v = *(const vec *)(a + r * PANEL + i);
                t[r][0] += v * b0;
                t[r][1] += v * b1;
                t[r][2] += v * b2;
            }
        }
#if LANES == 4
    if (rows_a == TILE && rows_b == 3 && stride_a == 1) {
        UNROLL for (size_t c = 0; c < 3; c++) {
            loose_vec *o = (loose_vec *)(out + c * stride_b);
            *o += NAME(add_up_four)(t[0][c], t[1][c], t[2][c], t[3][c]);
        }
        return;
    }
#endif
    double sums[TILE][3];
    UNROLL for (size_t r = 0; r < TILE; r++)
        UNROLL for (size_t c = 0; c < 3; c++)
            sums[r][c] = NAME(add_up)(t[r][c]);
    for (size_t r = 0; r < rows_a; r++)
        for (size_t c = 0; c < rows_b; c++)
            out[r * stride_a + c * stride_b] += sums[r][c];
}

/* out += A B' over the rows of a strip; of a symmetric product only one triangle, A being the later row (and a little
 * more). It is fastest with stride_a 1. */
TARGET static void NAME(cross)(struct strip A, struct strip B, int is_symmetric, double *out, size_t stride_a,
                               size_t stride_b)
{
    for (size_t first = 0; first < A.rows; first += 2 * TILE) { /* eight rows of A stay in the first-level cache */
        size_t last = smaller(A.rows, first + 2 * TILE);
        for (size_t l = 0; l < (is_symmetric ? last : B.rows); l += 3)
            for (size_t j = first; j < last; j += TILE)
                if (!is_symmetric || l < j + TILE)
                    NAME(cross_tile)(A.data + j * PANEL, A.stride, smaller(TILE, A.rows - j), B.data + l * PANEL,
                                     B.stride, smaller(3, B.rows - l), A.panels, out + j * stride_a + l * stride_b,
                                     stride_a, stride_b);
    }
}

/* Z (q, panel) = [1, x_k, x_k x_l (k <= l)], or [1, x_k, x_k^2]; rows beyond the data are those of x = 0. */
TARGET static void NAME(map_panel)(const struct inputs *c, size_t is_full, size_t start, double *restrict Z)
{
    size_t rows = start < c->n ? smaller(PANEL, c->n - start) : 0;
    EACH_LANE Z[i] = 1.0;
    for (size_t k = 0; k < c->d; k++) {
        const double *x = c->Xt + (ptrdiff_t)k * c->stride_feature + (ptrdiff_t)start * c->stride_row;
        double *restrict z = Z + (k + 1) * PANEL;
        if (rows == PANEL && c->stride_row == 1)
            EACH_LANE z[i] = x[i];
        else
            EACH_LANE z[i] = i < rows ? x[(ptrdiff_t)i * c->stride_row] : 0.0;
    }
    vec *out = (vec *)(Z + (c->d + 1) * PANEL);
    for (size_t k = 0; k < c->d; k++) {
        const vec *a = (const vec *)(Z + (k + 1) * PANEL);
        vec a0 = a[0], a1 = a[1], a2 = a[2];
        for (size_t l = k; l < (is_full ? c->d : k + 1); l++, a += 3, out += 3)
            NAME(store)((double *)out, a0 * a[0], a1 * a[1], a2 * a[2]);
    }
}

/* Phi (m + k, panel) from Z (Eq. 3.2). */
TARGET static void NAME(respond_panel)(const struct basis *b, const double *C, const double *Z, double *restrict Phi)
{
    NAME(product)(C, b->m, b->q, FULL, Z, Phi);
    for (size_t i = 0; i < b->m * PANEL; i++)
        Phi[i] = exp_one(Phi[i]);
    memcpy(Phi + b->m * PANEL, Z, b->k * PANEL * sizeof(double));
}

/* ln beta = u' Phi + b of a panel (Eq. 5.10). */
TARGET static void NAME(noise_panel)(const struct noise *noise, size_t m, const double *Phi, double *log_beta)
{
    const vec *p = (const vec *)Phi;
    vec s0 = noise->b - (vec){0.0}, s1 = s0, s2 = s0;
    for (size_t j = 0; j < m; j++, p += 3) {
        s0 += noise->u[j] * p[0];
        s1 += noise->u[j] * p[1];
        s2 += noise->u[j] * p[2];
    }
    NAME(store)(log_beta, s0, s1, s2);
}

/* Psi = B^1/2 Phi of a panel, with B^1/2 as its last row; 0 beyond the data. Returns 1 if beta is out of bounds. */
TARGET static int NAME(scale_panel)(const struct targets *c, double max_log_beta, size_t M, size_t start, size_t rows,
                                    double *restrict Psi, double *restrict log_beta, double *log_det)
{
    size_t bad = 0;
    double *restrict sqrt_B = Psi + M * PANEL;
    for (size_t i = 0; i < rows; i++)
        bad += !(log_beta[i] < max_log_beta && log_beta[i] > -max_log_beta); /* NaN, too */
    if (bad)
        return 1;
    EACH_LANE sqrt_B[i] = exp_one(log_beta[i]);
    if (c->v)
        for (size_t i = 0; i < rows; i++) {
            log_beta[i] -= log1p(sqrt_B[i] * c->v[start + i]);
            sqrt_B[i] /= 1.0 + sqrt_B[i] * c->v[start + i]; /* B = 1 / (1 / beta + v) */
        }
    for (size_t i = 0; i < rows; i++) {
        *log_det += c->c[start + i] * log_beta[i];
        sqrt_B[i] *= c->omega[start + i];
    }
    EACH_LANE sqrt_B[i] = i < rows ? sqrt(sqrt_B[i]) : 0.0;
    vec *p = (vec *)Psi, s0 = p[3 * M], s1 = p[3 * M + 1], s2 = p[3 * M + 2];
    for (size_t j = 0; j < M; j++, p += 3)
        NAME(store)((double *)p, p[0] * s0, p[1] * s1, p[2] * s2);
    return 0;
}

/* Add A x to vectors of partial sums, for A (m, panel). */
TARGET static void NAME(add_rows)(const double *restrict A, size_t m, const double *restrict x, double *restrict sums)
{
    const vec *a = (const vec *)A, *b = (const vec *)x;
    vec *s = (vec *)sums, b0 = b[0], b1 = b[1], b2 = b[2];
    for (size_t j = 0; j < m; j++, a += 3)
        s[j] += a[0] * b0 + a[1] * b1 + a[2] * b2;
}

/* out[j] += the sum of the lanes of sums[j], which become 0. */
TARGET static void NAME(add_lanes)(double *restrict sums, size_t m, double *restrict out)
{
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < LANES; i++)
            out[j] += sums[j * LANES + i];
}

/* First pass. */
TARGET static int NAME(forward)(const struct forward *c)
{
    struct work w = divide(&c->basis, c->work, PANEL);
    size_t m = c->basis.m, M = m + c->basis.k, n = c->inputs.n;
    double *Psi = c->kept ? align(c->kept) : w.Psi.data;
    ALIGNED double log_beta[PANEL], sqrt_B_y[PANEL];
    pack(c->basis.Ct, m, c->basis.q, c->basis.q, 1, w.C);
    memset(w.lanes, 0, M * LANES * sizeof(double));
    for (size_t start = 0; start < n; start += w.Psi.panels * PANEL) {
        size_t panels = smaller(w.Psi.panels, (n - start + PANEL - 1) / PANEL);
        for (size_t panel = 0; panel < panels; panel++) {
            size_t first = start + panel * PANEL, rows = smaller(PANEL, n - first);
            double *P = Psi + panel * w.Psi.stride;
            NAME(map_panel)(&c->inputs, c->basis.is_full, first, w.Z.data);
            NAME(respond_panel)(&c->basis, w.C, w.Z.data, P);
            NAME(noise_panel)(&c->noise, m, P, log_beta);
            if (NAME(scale_panel)(&c->targets, c->noise.max_log_beta, M, first, rows, P, log_beta, c->log_det))
                return 1;
            EACH_LANE sqrt_B_y[i] = i < rows ? P[M * PANEL + i] * c->targets.y[first + i] : 0.0;
            NAME(add_rows)(P, M, sqrt_B_y, w.lanes);
        }
        struct strip S = {Psi, M, w.Psi.stride, panels};
        NAME(cross)(S, S, 1, c->PhiT_B_Phi, 1, M);
        Psi += c->kept ? panels * w.Psi.stride : 0;
    }
    NAME(add_lanes)(w.lanes, M, c->PhiT_B_y);
    for (size_t j = 0; j < M; j++)
        for (size_t l = 0; l < j; l++)
            c->PhiT_B_Phi[j * M + l] = c->PhiT_B_Phi[l * M + j];
    return 0;
}

/* G = dL / d ln Phi (Eq. C.7) and g / B^1/2 (Eq. C.6) of a panel from T = S^-1 Psi. */
TARGET static void NAME(backward_panel)(const struct backward *c, size_t start, const double *restrict T,
                                        const double *restrict Psi, double *restrict G, double *restrict g)
{
    const struct targets *targets = &c->targets;
    size_t m = c->basis.m, M = m + c->basis.k, rows = smaller(PANEL, c->inputs.n - start);
    const double *restrict sqrt_B = Psi + M * PANEL;
    ALIGNED double delta[PANEL];
    const vec *p = (const vec *)Psi, *t = (const vec *)T;
    vec d0 = (vec){0.0}, d1 = d0, d2 = d0, g0 = d0, g1 = d0, g2 = d0;
    for (size_t j = 0; j < M; j++, p += 3, t += 3) {
        g0 += t[0] * p[0];
        g1 += t[1] * p[1];
        g2 += t[2] * p[2];
        d0 += c->w[j] * p[0];
        d1 += c->w[j] * p[1];
        d2 += c->w[j] * p[2];
    }
    NAME(store)(g, g0, g1, g2);
    NAME(store)(delta, d0, d1, d2);
    for (size_t i = 0; i < PANEL; i++) {
        double s = i < rows ? sqrt_B[i] : 1.0;
        delta[i] -= i < rows ? s * targets->y[start + i] : delta[i];
        g[i] = i < rows ? 0.5 * (targets->c[start + i] - delta[i] * delta[i] - g[i]) / s : 0.0;
        if (targets->v && i < rows)
            g[i] *= 1.0 - targets->v[start + i] * s * s / targets->omega[start + i]; /* d ln B / d ln beta */
        *c->sum_g += i < rows ? g[i] * s : 0.0;
        *c->misfit += delta[i] * delta[i];
    }
    const vec *gv = (const vec *)g, *dv = (const vec *)delta;
    vec *out = (vec *)G;
    g0 = gv[0], g1 = gv[1], g2 = gv[2], d0 = dv[0], d1 = dv[1], d2 = dv[2];
    p = (const vec *)Psi, t = (const vec *)T;
    for (size_t j = 0; j < m; j++, p += 3, t += 3, out += 3) {
        double u = c->noise.u[j], w = c->w[j];
        NAME(store)((double *)out, (u * g0 - w * d0 - t[0]) * p[0], (u * g1 - w * d1 - t[1]) * p[1],
                    (u * g2 - w * d2 - t[2]) * p[2]);
    }
}

/* Second pass. */
TARGET static int NAME(backward)(const struct backward *c)
{
    struct work w = divide(&c->basis, c->work, PANEL);
    size_t m = c->basis.m, M = m + c->basis.k, n = c->inputs.n;
    double *P = c->kept ? align((double *)c->kept) : w.Psi.data, log_det = 0.0;
    ALIGNED double g[PANEL];
    pack(c->basis.Ct, m, c->basis.q, c->basis.q, 1, w.C);
    pack(c->inverse ? c->inverse : c->whitener, M, M, M, 1, w.inverse);
    if (!c->inverse)
        pack(c->whitener, M, M, 1, M, w.transpose);
    memset(w.lanes, 0, M * LANES * sizeof(double));
    for (size_t start = 0; start < n; start += w.G.panels * PANEL) {
        struct strip G = w.G, Z = w.Z;
        G.panels = Z.panels = smaller(w.G.panels, (n - start + PANEL - 1) / PANEL);
        for (size_t panel = 0; panel < G.panels; panel++, P += c->kept ? w.Psi.stride : 0) {
            size_t first = start + panel * PANEL;
            double *z = Z.data + panel * Z.stride;
            NAME(map_panel)(&c->inputs, c->basis.is_full, first, z);
            if (!c->kept) {
                NAME(respond_panel)(&c->basis, w.C, z, P);
                NAME(noise_panel)(&c->noise, m, P, g);
                if (NAME(scale_panel)(&c->targets, c->noise.max_log_beta, M, first, smaller(PANEL, n - first), P, g,
                                      &log_det))
                    return 1;
            }
            if (c->inverse)
                NAME(product)(w.inverse, M, M, FULL, P, w.T);
            else { /* S^-1 = W'W */
                NAME(product)(w.inverse, M, M, LOWER, P, w.half);
                NAME(product)(w.transpose, M, M, UPPER, w.half, w.T);
            }
            NAME(backward_panel)(c, first, w.T, P, G.data + panel * G.stride, g);
            NAME(add_rows)(P, m, g, w.lanes);
        }
        NAME(cross)(G, Z, 0, c->ZT_G, 1, m);
    }
    NAME(add_lanes)(w.lanes, m, c->PhiT_g);
    return 0;
}

/* Moments, Eq. 5.8-5.10. */
TARGET static int NAME(predict)(const struct predict *c)
{
    struct work w = divide(&c->basis, c->work, PANEL);
    size_t m = c->basis.m, M = m + c->basis.k, n = c->inputs.n;
    ALIGNED double mean[PANEL], nu[PANEL], log_beta[PANEL];
    pack(c->basis.Ct, m, c->basis.q, c->basis.q, 1, w.C);
    pack(c->whitener, M, M, M, 1, w.inverse);
    for (size_t start = 0; start < n; start += PANEL) {
        NAME(map_panel)(&c->inputs, c->basis.is_full, start, w.Z.data);
        NAME(respond_panel)(&c->basis, w.C, w.Z.data, w.half);
        NAME(noise_panel)(&c->noise, m, w.half, log_beta);
        NAME(product)(w.inverse, M, M, LOWER, w.half, w.T);
        const vec *p = (const vec *)w.half, *t = (const vec *)w.T;
        vec m0 = (vec){0.0}, m1 = m0, m2 = m0, n0 = m0, n1 = m0, n2 = m0;
        for (size_t j = 0; j < M; j++, p += 3, t += 3) {
            m0 += c->w[j] * p[0];
            m1 += c->w[j] * p[1];
            m2 += c->w[j] * p[2];
            n0 += t[0] * t[0];
            n1 += t[1] * t[1];
            n2 += t[2] * t[2];
        }
        NAME(store)(mean, m0, m1, m2);
        NAME(store)(nu, n0, n1, n2);
        for (size_t i = 0; i < smaller(PANEL, n - start); i++) {
            double most = c->noise.max_log_beta, l = log_beta[i] > most ? most : log_beta[i];
            c->moments[start + i] = mean[i];
            c->moments[n + start + i] = nu[i];
            c->moments[2 * n + start + i] = exp_one(l < -most ? most : -l);
        }
    }
    return 0;
}

#include "_pairs.h"
#include "_rows.h"
#include "_heads.h"
#include "_quick.h"
#include "_network.h"
#include "_descent.h"
#include "_coverage.h"
#include "_points.h"
#include "_mixtures.h"
#include "_merge.h"

#undef PANEL
#undef EACH_LANE
#undef vec
#undef loose_vec
