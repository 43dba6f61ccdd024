/* Sums over pairs of basis functions, for rows whose inputs are uncertain; included by `_blocks.h`.
 *
 * With x = xhat + V z, z ~ N(0, I) of r numbers, a = ln phi at xhat and g = V' grad ln phi there, which belong to one
 * basis function and one row, and R = I + V'(Lambda_j + Lambda_k) V = L L', which belongs to the pair,
 *
 *     ln E[phi_j phi_k] = a_j + a_k - 1/2 ln |R| + 1/2 |L^-1 (g_j + g_k)|^2.
 *
 * All terms are added before the exponential: parts of it may overflow, the sum cannot.
 */

/* Exponents E [pair][panel] of the pairs [first, last); r is a constant where it is small. */
TARGET INLINE void NAME(pair_exponents)(const struct pairs *p, size_t r, size_t first, size_t last, const double *a,
                                        const double *g, double *restrict E)
{
    size_t width = 1 + r * (r + 1) / 2;
    for (size_t pair = first; pair < last; pair++, E += PANEL) {
        const double *f = p->factors + pair * width;
        const vec *a_j = (const vec *)(a + p->j[pair] * PANEL), *a_k = (const vec *)(a + p->k[pair] * PANEL);
        const vec *g_j = (const vec *)(g + p->j[pair] * r * PANEL), *g_k = (const vec *)(g + p->k[pair] * r * PANEL);
        vec e0 = a_j[0] + a_k[0] + *f, e1 = a_j[1] + a_k[1] + *f, e2 = a_j[2] + a_k[2] + *f, sum[MAX_RANK][3];
        for (size_t i = 0; i < r; i++, g_j += 3, g_k += 3) {
            vec h0 = (vec){0.0}, h1 = h0, h2 = h0;
            sum[i][0] = g_j[0] + g_k[0];
            sum[i][1] = g_j[1] + g_k[1];
            sum[i][2] = g_j[2] + g_k[2];
            for (size_t l = 0; l <= i; l++) {
                double L = *++f;
                h0 += L * sum[l][0];
                h1 += L * sum[l][1];
                h2 += L * sum[l][2];
            }
            e0 += h0 * h0;
            e1 += h1 * h1;
            e2 += h2 * h2;
        }
        NAME(store)(E, e0, e1, e2);
    }
}

/* total (s, panel) = sum over pairs of weights times E[phi_j phi_k]. */
TARGET static void NAME(sum_pairs)(const struct pairs *p, const double *weights, const double *a, const double *g,
                                   double *restrict E, double *restrict total)
{
    for (size_t i = 0; i < p->s * PANEL; i++)
        total[i] = 0.0;
    for (size_t first = 0; first < p->count; first += PAIRS) {
        size_t last = smaller(first + PAIRS, p->count);
        switch (p->r) {
        case 1: NAME(pair_exponents)(p, 1, first, last, a, g, E); break;
        case 2: NAME(pair_exponents)(p, 2, first, last, a, g, E); break;
        case 3: NAME(pair_exponents)(p, 3, first, last, a, g, E); break;
        default: NAME(pair_exponents)(p, p->r, first, last, a, g, E);
        }
        for (size_t i = 0; i < (last - first) * PANEL; i++)
            E[i] = exp_one(E[i]);
        for (size_t t = 0; t < p->s; t += TILE)
            NAME(product_tile)(weights + t * p->count + first * TILE, E, 0, last - first, 1, total + t * PANEL,
                               smaller(TILE, p->s - t));
    }
}

/* total += sum over j of sign A_j B_j, for A and B (m, panel). */
TARGET static void NAME(add_products)(const double *A, const double *B, size_t m, double sign, double *total)
{
    const vec *a = (const vec *)A, *b = (const vec *)B;
    vec t0 = (vec){0.0}, t1 = t0, t2 = t0, *t = (vec *)total;
    for (size_t j = 0; j < m; j++, a += 3, b += 3) {
        t0 += a[0] * b[0];
        t1 += a[1] * b[1];
        t2 += a[2] * b[2];
    }
    NAME(store)(total, t[0] + sign * t0, t[1] + sign * t1, t[2] + sign * t2);
}

TARGET static int NAME(spread)(const struct spread *c)
{
    const struct pairs *p = &c->pairs;
    struct pair_work w = divide_pairs(c, c->work, PANEL);
    size_t m = c->basis.m, q = c->basis.q, d = c->inputs.d, n = c->inputs.n, tiles = round_up(m);
    pack(c->basis.Ct, m, q, q, 1, w.C);
    pack(p->plain, m, q, q, 1, w.plain);
    pack(p->slopes, m * p->r, d + 1, d + 1, 1, w.slopes);
    pack(p->weights, p->s, p->count, p->count, 1, w.weights);
    for (size_t t = 0; t < p->s; t++) {
        pack(p->matrices + t * m * m, m, m, m, 1, w.matrices + t * tiles * m);
        if (p->linear)
            pack(p->linear + t * m * (d + 1), m, d + 1, d + 1, 1, w.linear + t * tiles * (d + 1));
    }
    for (size_t start = 0; start < n; start += PANEL) {
        size_t bytes = sizeof(double) * smaller(PANEL, n - start);
        NAME(map_panel)(&c->inputs, 1, start, w.Z);
        NAME(product)(w.plain, m, q, FULL, w.Z, w.a);
        NAME(product)(w.slopes, m * p->r, d + 1, FULL, w.Z, w.g);
        NAME(sum_pairs)(p, w.weights, w.a, w.g, w.E, w.total);
        NAME(respond_panel)(&c->basis, w.C, w.Z, w.Phi);
        for (size_t t = 0; t < p->s; t++) {
            NAME(product)(w.matrices + t * tiles * m, m, m, LOWER, w.Phi, w.a);
            NAME(add_products)(w.Phi, w.a, m, -1.0, w.total + t * PANEL);
            if (p->linear) {
                NAME(product)(w.linear + t * tiles * (d + 1), m, d + 1, FULL, w.Z, w.a);
                NAME(add_products)(w.Phi, w.a, m, 1.0, w.total + t * PANEL);
            }
            memcpy(c->totals + t * n + start, w.total + t * PANEL, bytes);
        }
    }
    return 0;
}
