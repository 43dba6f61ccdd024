/* Expected basis functions, and sums over pairs of them, for rows each of which has an uncertainty of its own; included
 * by `_blocks.h`. The formulas are those of `_pairs.h`; here R belongs to a pair and a row, and V is lower triangular.
 */

#define TRIANGLE(i, l) ((i) * ((i) + 1) / 2 + (l))

/* From R - I in its lower triangle (the sum of the two given, or of one if they are the same) and g: exponent += 1/2
 * g'R^-1 g and |R|. With `z`, R^-1 g is left there. d is a constant where it is small. */
TARGET INLINE void NAME(complete_square)(size_t d, const double *one, const double *two, const double *g_one,
                                         const double *g_two, double *restrict exponent, double *restrict det, double *z)
{
    for (size_t v = 0; v < 3; v++) {
        const vec *A = (const vec *)one + v, *B = (const vec *)two + v, *a = (const vec *)g_one + v;
        const vec *b = (const vec *)g_two + v;
        vec L[MAX_RANK * (MAX_RANK + 1) / 2], scaled[MAX_RANK], inverse[MAX_RANK], t[MAX_RANK];
        vec product = (vec){0.0} + 1.0, square = (vec){0.0};
        UNROLL for (size_t i = 0; i < d; i++) {
            t[i] = a[3 * i];
            if (two)
                t[i] += b[3 * i];
            UNROLL for (size_t l = 0; l < i; l++) { /* R = L D L' */
                vec sum = A[3 * TRIANGLE(i, l)];
                if (two)
                    sum += B[3 * TRIANGLE(i, l)];
                UNROLL for (size_t h = 0; h < l; h++)
                    sum -= scaled[h] * L[TRIANGLE(l, h)];
                scaled[l] = sum;
                L[TRIANGLE(i, l)] = sum * inverse[l];
            }
            vec pivot = A[3 * TRIANGLE(i, i)] + 1.0;
            if (two)
                pivot += B[3 * TRIANGLE(i, i)];
            UNROLL for (size_t l = 0; l < i; l++) {
                pivot -= scaled[l] * L[TRIANGLE(i, l)];
                t[i] -= L[TRIANGLE(i, l)] * t[l];
            }
            inverse[i] = 1.0 / pivot;
            product *= pivot;
            square += t[i] * t[i] * inverse[i];
        }
        ((vec *)exponent)[v] += 0.5 * square;
        ((vec *)det)[v] = product;
        if (!z)
            continue;
        UNROLL for (size_t i = d; i-- > 0;) {
            vec sum = t[i] * inverse[i];
            UNROLL for (size_t h = i + 1; h < d; h++)
                sum -= L[TRIANGLE(h, i)] * ((vec *)z)[3 * h + v];
            ((vec *)z)[3 * i + v] = sum;
        }
    }
}

/* VLV [j][triangle][panel] and g [j][d][panel] of basis function j from its Lambda and the slopes of ln phi. */
TARGET INLINE void NAME(turn)(size_t d, const double *Lambda, const double *V, const double *slope,
                              double *restrict VLV, double *restrict g)
{
    for (size_t v = 0; v < 3; v++) {
        const vec *U = (const vec *)V + v, *s = (const vec *)slope + v;
        for (size_t i = 0; i < d; i++) {
            vec LV[MAX_RANK], sum = (vec){0.0};
            for (size_t a = 0; a < d; a++) {
                LV[a] = (vec){0.0};
                for (size_t b = i; b < d; b++)
                    LV[a] += Lambda[a * d + b] * U[3 * TRIANGLE(b, i)];
            }
            for (size_t l = 0; l <= i; l++) {
                vec element = (vec){0.0};
                for (size_t a = l; a < d; a++)
                    element += U[3 * TRIANGLE(a, l)] * LV[a];
                ((vec *)VLV)[3 * TRIANGLE(i, l) + v] = element;
            }
            for (size_t a = i; a < d; a++)
                sum += U[3 * TRIANGLE(a, i)] * s[3 * a];
            ((vec *)g)[3 * i + v] = sum;
        }
    }
}

/* E[phi_j] in Phi, and what a linear mean function adds to the totals: E[x phi_j] = (xhat + V R^-1 g) E[phi_j]. */
TARGET INLINE void NAME(expect_panel)(const struct rows *c, size_t d, const struct row_work *w)
{
    const struct pairs *p = &c->pairs;
    size_t triangle = d * (d + 1) / 2;
    for (size_t j = 0; j < c->m; j++) {
        double *phi = w->Phi + j * PANEL, *g = w->g + j * d * PANEL, *VLV = w->VLV + j * triangle * PANEL;
        NAME(turn)(d, c->Lambda + j * d * d, w->V, w->slope + j * d * PANEL, VLV, g);
        memcpy(phi, w->a + j * PANEL, PANEL * sizeof(double));
        NAME(complete_square)(d, VLV, NULL, g, NULL, phi, w->det, p->linear ? w->z : NULL);
        EACH_LANE phi[i] = exp_one(phi[i]) / sqrt(w->det[i]);
        if (!p->linear)
            continue;
        for (size_t a = 0; a < d; a++) {
            double shift[PANEL];
            EACH_LANE shift[i] = 0.0;
            for (size_t h = 0; h <= a; h++)
                EACH_LANE shift[i] += w->V[TRIANGLE(a, h) * PANEL + i] * w->z[h * PANEL + i];
            EACH_LANE shift[i] *= phi[i];
            for (size_t t = 0; t < p->s; t++) {
                double weight = p->linear[(t * c->m + j) * d + a];
                EACH_LANE w->total[t * PANEL + i] += weight * shift[i];
            }
        }
    }
}

/* total (s, panel) += sum over pairs of weights times E[phi_j phi_k]. */
TARGET INLINE void NAME(add_row_pairs)(const struct rows *c, size_t d, const struct row_work *w)
{
    const struct pairs *p = &c->pairs;
    size_t triangle = d * (d + 1) / 2;
    for (size_t first = 0; first < p->count; first += PAIRS) {
        size_t last = smaller(first + PAIRS, p->count);
        for (size_t pair = first; pair < last; pair++) {
            size_t j = (size_t)p->j[pair], k = (size_t)p->k[pair];
            double *E = w->E + (pair - first) * PANEL;
            EACH_LANE E[i] = w->a[j * PANEL + i] + w->a[k * PANEL + i];
            NAME(complete_square)(d, w->VLV + j * triangle * PANEL, w->VLV + k * triangle * PANEL, w->g + j * d * PANEL,
                                  w->g + k * d * PANEL, E, w->det + (pair - first) * PANEL, NULL);
        }
        for (size_t i = 0; i < (last - first) * PANEL; i++)
            w->E[i] = exp_one(w->E[i]) / sqrt(w->det[i]);
        for (size_t t = 0; t < p->s; t += TILE)
            NAME(product_tile)(w->weights + t * p->count + first * TILE, w->E, 0, last - first, 1, w->total + t * PANEL,
                               smaller(TILE, p->s - t));
    }
}

TARGET INLINE void NAME(sum_row_panel)(const struct rows *c, size_t d, const struct row_work *w)
{
    NAME(expect_panel)(c, d, w);
    NAME(add_row_pairs)(c, d, w);
}

TARGET static int NAME(rows)(const struct rows *c)
{
    const struct pairs *p = &c->pairs;
    struct row_work w = divide_rows(c, c->work, PANEL);
    size_t m = c->m, d = c->inputs.d, n = c->inputs.n, q = 1 + d + d * (d + 1) / 2, tiles = round_up(m);
    pack(p->plain, m, q, q, 1, w.plain);
    pack(p->slopes, m * d, d + 1, d + 1, 1, w.slopes);
    pack(p->weights, p->s, p->count, p->count, 1, w.weights);
    for (size_t t = 0; t < p->s; t++)
        pack(p->matrices + t * m * m, m, m, m, 1, w.matrices + t * tiles * m);
    for (size_t start = 0; start < n; start += PANEL) {
        size_t rows = smaller(PANEL, n - start), bytes = sizeof(double) * rows;
        NAME(map_panel)(&c->inputs, 1, start, w.Z);
        NAME(product)(w.plain, m, q, FULL, w.Z, w.a);
        NAME(product)(w.slopes, m * d, d + 1, FULL, w.Z, w.slope);
        for (size_t h = 0; h < d * (d + 1) / 2; h++)
            EACH_LANE w.V[h * PANEL + i] = i < rows ? c->V[h * n + start + i] : 0.0;
        for (size_t i = 0; i < p->s * PANEL; i++)
            w.total[i] = 0.0;
        switch (d) {
        case 4: NAME(sum_row_panel)(c, 4, &w); break;
        case 5: NAME(sum_row_panel)(c, 5, &w); break;
        case 6: NAME(sum_row_panel)(c, 6, &w); break;
        default: NAME(sum_row_panel)(c, d, &w);
        }
        for (size_t t = 0; t < p->s; t++) {
            NAME(product)(w.matrices + t * tiles * m, m, m, LOWER, w.Phi, w.a);
            NAME(add_products)(w.Phi, w.a, m, -1.0, w.total + t * PANEL);
            memcpy(c->totals + t * n + start, w.total + t * PANEL, bytes);
        }
        for (size_t j = 0; j < m; j++)
            memcpy(c->Phi + j * n + start, w.Phi + j * PANEL, bytes);
    }
    return 0;
}
