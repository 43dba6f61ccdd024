/* Mixtures that a committee predicts, in single precision; included by `_blocks.h`.
 *
 * Inputs are whitened in double precision, and results are put together in it; what lies in between, responses and
 * products, loses less than a thousandth of a standard deviation to rounding, and is twice as fast. A panel is one of six
 * vectors of doubles, three of floats; all members predict for it before the next one, while its results are in the cache.
 */
#define WIDE_PANEL (2 * PANEL)
#define EACH_WIDE for (size_t i = 0; i < WIDE_PANEL; i++)
#define float_vec NAME(float_vec_t)
typedef float float_vec __attribute__((vector_size(8 * LANES), may_alias));

/* out (m, panel) = A B with A (m, depth) packed in tiles of four rows, see pack_float(). */
TARGET static void NAME(product_float)(const float *restrict A, size_t m, size_t depth, const float *restrict B,
                                       float *restrict out)
{
    for (size_t j = 0; j < m; j += TILE, A += TILE * depth) {
        float_vec t[TILE][3];
        UNROLL for (size_t r = 0; r < TILE; r++)
            UNROLL for (size_t v = 0; v < 3; v++)
                t[r][v] = (float_vec){0.0f};
        for (size_t k = 0; k < depth; k++) {
            const float_vec *b = (const float_vec *)(B + k * WIDE_PANEL);
            float_vec b0 = b[0], b1 = b[1], b2 = b[2];
            UNROLL for (size_t r = 0; r < TILE; r++) {
                float a = A[k * TILE + r];
                t[r][0] += a * b0;
                t[r][1] += a * b1;
                t[r][2] += a * b2;
            }
        }
        UNROLL for (size_t r = 0; r < TILE; r++)
            UNROLL for (size_t v = 0; v < 3; v++)
                if (j + r < m)
                    ((float_vec *)(out + (j + r) * WIDE_PANEL))[v] = t[r][v];
    }
}

/* raw (d, panel) = inputs of rows; NaN beyond the data. */
TARGET static void NAME(load_wide)(const struct inputs *c, size_t start, size_t rows, double *restrict raw)
{
    const ptrdiff_t step = c->stride_row;
    for (size_t k = 0; k < c->d; k++) {
        const double *x = c->Xt + (ptrdiff_t)k * c->stride_feature + (ptrdiff_t)start * step;
        for (size_t i = 0; i < rows; i++)
            raw[k * WIDE_PANEL + i] = x[(ptrdiff_t)i * step];
        for (size_t i = rows; i < WIDE_PANEL; i++)
            raw[k * WIDE_PANEL + i] = NAN;
    }
}

/* U (d, panel) = whitened rows; NaN is taken for the mean. */
TARGET static void NAME(whiten_wide)(const double *restrict raw, size_t d, const double *mean, const double *matrix,
                                     double *restrict centred, float *restrict U)
{
    ALIGNED double sum[PANEL];
    for (size_t k = 0; k < d; k++) {
        const double *restrict x = raw + k * WIDE_PANEL;
        double *restrict to = centred + k * WIDE_PANEL, centre = mean[k];
        EACH_WIDE to[i] = x[i] == x[i] ? x[i] - centre : 0.0;
    }
    for (size_t l = 0; l < d; l++)
        for (size_t half = 0; half < WIDE_PANEL; half += PANEL) {
            vec s0 = (vec){0.0}, s1 = s0, s2 = s0;
            for (size_t k = 0; k < d; k++) {
                const vec *x = (const vec *)(centred + k * WIDE_PANEL + half);
                double a = matrix[k * d + l];
                s0 += a * x[0];
                s1 += a * x[1];
                s2 += a * x[2];
            }
            NAME(store)(sum, s0, s1, s2);
            EACH_LANE U[l * WIDE_PANEL + half + i] = (float)sum[i];
        }
}

#define whole_vec NAME(whole_vec_t)
typedef int64_t whole_vec __attribute__((vector_size(8 * LANES), may_alias));

/* out (rows, step) from values (K, panel). */
TARGET static void NAME(spread_out)(size_t K, size_t step, const double *restrict values, size_t rows, double *restrict out)
{
    size_t k = 0;
#if !defined(__clang__)
    for (; k + LANES <= K && rows == WIDE_PANEL; k += LANES) /* squares of lanes, transposed by halves, quarters and so on */
        for (size_t i = 0; i < WIDE_PANEL; i += LANES) {
            vec t[LANES];
            UNROLL for (size_t r = 0; r < LANES; r++)
                t[r] = *(const vec *)(values + (k + r) * WIDE_PANEL + i);
            UNROLL for (size_t s = LANES / 2; s > 0; s /= 2) {
                whole_vec low, high;
                UNROLL for (size_t j = 0; j < LANES; j++)
                    low[j] = (int64_t)(j & s ? j - s + LANES : j), high[j] = (int64_t)(j & s ? j + LANES : j + s);
                UNROLL for (size_t r = 0; r < LANES; r++)
                    if (!(r & s)) {
                        vec a = t[r], b = t[r + s];
                        t[r] = __builtin_shuffle(a, b, low);
                        t[r + s] = __builtin_shuffle(a, b, high);
                    }
            }
            UNROLL for (size_t r = 0; r < LANES; r++)
                *(loose_vec *)(out + (i + r) * step + k) = t[r];
        }
#endif
    for (size_t i = 0; k < K && i < rows; i++)
        for (size_t l = k; l < K; l++)
            out[i * step + l] = values[l * WIDE_PANEL + i];
}

/* What stands for further inputs: the same, without weight. */
static void NAME(repeat_wide)(const struct committee *c, const struct place *place, size_t K, size_t start, size_t rows)
{
    double *const all[] = {c->weights, c->means, c->model_variances, c->noise_variances};
    for (size_t a = 0; a < 4; a++)
        for (size_t i = start; i < start + rows; i++) {
            double *out = all[a] + i * c->step + place->first;
            for (size_t k = K; k < K * place->repeats; k++)
                out[k] = a ? out[k - K] : 0.0;
        }
}

/* Columns of the rows of a panel from O (3 K, panel): means, ln beta and gates; nu has the model variances, or is NULL.
 * Returns whether some are not finite, or far beyond all scale: 1e8 times as much, times 0, is NaN then. */
TARGET static int NAME(fill_wide)(const struct committee *c, const struct place *place, const struct head_outputs *outputs,
                                  size_t start, size_t rows, float *restrict O, const float *restrict nu,
                                  double *restrict values)
{
    const float least = (float)outputs->min_log_beta, most = (float)outputs->max_log_beta;
    const double scale = place->y_scale, square = scale * scale, centre = place->y_mean;
    size_t K = outputs->K, step = c->step, at = start * step + place->first, size = K * WIDE_PANEL;
    float *restrict b = O + size, *restrict gate = O + 2 * size, check = 0.0f;
    ALIGNED float top[WIDE_PANEL];
    ALIGNED double sum[WIDE_PANEL];
    EACH_WIDE top[i] = gate[i];
    for (size_t k = 1; k < K; k++)
        EACH_WIDE top[i] = gate[k * WIDE_PANEL + i] > top[i] ? gate[k * WIDE_PANEL + i] : top[i];
    EACH_WIDE sum[i] = 0.0;
    for (size_t k = 0; k < K; k++) {
        EACH_WIDE gate[k * WIDE_PANEL + i] = exp_float(gate[k * WIDE_PANEL + i] - top[i]);
        EACH_WIDE sum[i] += (double)gate[k * WIDE_PANEL + i];
    }
    EACH_WIDE sum[i] = place->share / sum[i];
    for (size_t k = 0; k < K; k++)
        EACH_WIDE values[k * WIDE_PANEL + i] = (double)gate[k * WIDE_PANEL + i] * sum[i];
    NAME(spread_out)(K, step, values, rows, c->weights + at);
    EACH_WIDE top[i] = 0.0f;
    for (size_t k = 0; k < K; k++) {
        EACH_WIDE top[i] += O[k * WIDE_PANEL + i] * 1e8f * 0.0f;
        EACH_WIDE values[k * WIDE_PANEL + i] = centre + scale * (double)O[k * WIDE_PANEL + i];
    }
    NAME(spread_out)(K, step, values, rows, c->means + at);
    for (size_t i = 0; i < size; i++) {
        float inside = b[i] < least ? least : b[i];
        values[i] = square * (double)exp_float(inside > most ? -most : -inside);
    }
    NAME(spread_out)(K, step, values, rows, c->noise_variances + at);
    for (size_t k = 0; nu && k < K; k++) {
        EACH_WIDE top[i] += nu[k * WIDE_PANEL + i] * 1e8f * 0.0f;
        EACH_WIDE values[k * WIDE_PANEL + i] = square * (double)nu[k * WIDE_PANEL + i];
    }
    if (nu)
        NAME(spread_out)(K, step, values, rows, c->model_variances + at);
    for (size_t i = 0; !nu && i < rows; i++)
        memset(c->model_variances + at + i * step, 0, K * sizeof(double));
    if (place->repeats > 1)
        NAME(repeat_wide)(c, place, K, start, rows);
    for (size_t i = 0; i < rows; i++)
        check += top[i];
    return check != 0.0f;
}

/* Outputs O (3 K, panel) of heads, and model variances below. */
TARGET static void NAME(wide_heads)(const struct quick_heads *c, const struct packed_heads *p, size_t d,
                                    const struct committee_work *w)
{
    size_t m = c->basis.m, M = m + c->basis.k, K = c->outputs.K;
    float *restrict Phi = w->Phi, *restrict Z = w->Z, *restrict out = Z + (d + 1) * WIDE_PANEL;
    EACH_WIDE Z[i] = 1.0f;
    NAME(whiten_wide)(w->raw, d, c->mean, c->matrix, w->centred, Z + WIDE_PANEL);
    for (size_t k = 1; k <= d; k++)
        for (size_t l = k; l <= (c->basis.is_full ? d : k); l++, out += WIDE_PANEL)
            EACH_WIDE out[i] = Z[k * WIDE_PANEL + i] * Z[l * WIDE_PANEL + i];
    NAME(product_float)(p->C, m, c->basis.q, Z, Phi);
    for (size_t i = 0; i < m * WIDE_PANEL; i++)
        Phi[i] = exp_response(Phi[i]);
    memcpy(Phi + m * WIDE_PANEL, Z, c->basis.k * WIDE_PANEL * sizeof(float));
    NAME(product_float)(p->Theta, 3 * K, M, Phi, w->O);
    for (size_t i = 0; i < M * WIDE_PANEL; i++)
        Phi[i] *= Phi[i];
    NAME(product_float)(p->squares, K, M, Phi, w->O + 3 * K * WIDE_PANEL);
}

/* Return the outputs (3 K, panel) of a network; hidden units are a sigmoid(a). */
TARGET static float *NAME(wide_network)(const struct quick_network *c, const float *layers, size_t d,
                                        const struct committee_work *w)
{
    float *from = w->Z, *to = w->Phi, *kept;
    NAME(whiten_wide)(w->raw, d, c->mean, c->matrix, w->centred, from);
    for (size_t k = 0; k < d; k++) {
        float *restrict u = from + k * WIDE_PANEL, least = (float)c->lower[k], most = (float)c->upper[k];
        EACH_WIDE u[i] = u[i] < least ? least : u[i];
        EACH_WIDE u[i] = u[i] > most ? most : u[i];
    }
    memset(from + d * WIDE_PANEL, 0, ((size_t)c->units[0] - d) * WIDE_PANEL * sizeof(float));
    for (size_t l = 0; l < c->n_layers; l++) {
        size_t inputs = (size_t)c->units[l], units = (size_t)c->units[l + 1];
        float *restrict a = to;
        EACH_WIDE from[inputs * WIDE_PANEL + i] = 1.0f;
        NAME(product_float)(layers + l * packed_layer(c), units, inputs + 1, from, a);
        for (size_t i = 0; l + 1 < c->n_layers && i < units * WIDE_PANEL; i++)
            a[i] = swish_float(a[i]);
        kept = from, from = to, to = kept;
    }
    return from;
}

/* Pack the matrices of all members. */
TARGET static void NAME(pack_committee)(const struct committee *c, double *next)
{
    for (size_t i = 0; i < c->n_heads; i++) {
        const struct quick_heads *h = c->heads + i;
        struct packed_heads p = divide_quick_heads(h, &next);
        size_t M = h->basis.m + h->basis.k, K = h->outputs.K;
        pack_float(h->basis.Ct, h->basis.m, h->basis.q, h->basis.q, 1, p.C);
        pack_float(h->outputs.Theta, 3 * K, M, 1, 3 * K, p.Theta);
        pack_float(h->squares, K, M, 1, K, p.squares);
    }
    for (size_t i = 0; i < c->n_networks; i++) {
        const struct quick_network *n = c->networks + i;
        const double *layer = n->layers;
        float *layers = divide_quick_network(n, &next);
        for (size_t l = 0; l < n->n_layers; l++) {
            size_t depth = (size_t)n->units[l] + 1, units = (size_t)n->units[l + 1];
            pack_float(layer, units, depth, 1, units, layers + l * packed_layer(n));
            layer += depth * units;
        }
    }
}

/* Returns 1 if some result is not finite, or far beyond all scale. */
TARGET static int NAME(committee)(const struct committee *c)
{
    struct committee_work w = divide_committee(c, c->work, WIDE_PANEL);
    double *const all[] = {c->weights, c->means, c->model_variances, c->noise_variances};
    size_t d = c->inputs.d, n = c->inputs.n;
    int bad = 0;
    NAME(pack_committee)(c, w.packed);
    for (size_t start = 0; start < n; start += WIDE_PANEL) {
        size_t rows = smaller(WIDE_PANEL, n - start);
        double *next = w.packed;
        NAME(load_wide)(&c->inputs, start, rows, w.raw);
        for (size_t i = 0; i < c->n_heads; i++) {
            const struct quick_heads *h = c->heads + i;
            struct packed_heads p = divide_quick_heads(h, &next);
            NAME(wide_heads)(h, &p, d, &w);
            bad |= NAME(fill_wide)(c, &h->place, &h->outputs, start, rows, w.O, w.O + 3 * h->outputs.K * WIDE_PANEL, w.values);
        }
        for (size_t i = 0; i < c->n_networks; i++) {
            const struct quick_network *network = c->networks + i;
            float *O = NAME(wide_network)(network, divide_quick_network(network, &next), d, &w);
            bad |= NAME(fill_wide)(c, &network->place, &network->outputs, start, rows, O, NULL, w.values);
        }
        for (size_t a = 0; a < 4 * c->spare; a++)
            for (size_t row = start; row < start + rows; row++)
                all[a][(row + 1) * c->step - 1] = a ? all[a][row * c->step] : 0.0;
    }
    return bad;
}

#undef WIDE_PANEL
#undef EACH_WIDE
#undef float_vec
#undef whole_vec
