/* Predicted mixtures with model variances that are sums of squares, in single precision; included by `_blocks.h`.
 *
 * Inputs are whitened in double precision, and results are put together in it; what lies in between, responses and
 * products, loses less than a thousandth of a standard deviation to rounding, and is twice as fast. A panel is one of six
 * vectors of doubles, three of floats.
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

/* U (d, panel) = whitened rows; rows beyond the data, and inputs that are NaN, are those of the mean. */
TARGET static void NAME(whiten_wide)(const struct inputs *c, const double *mean, const double *matrix, size_t start,
                                     size_t rows, double *restrict centred, float *restrict U)
{
    size_t d = c->d;
    const ptrdiff_t step = c->stride_row;
    ALIGNED double sum[WIDE_PANEL];
    for (size_t k = 0; k < d; k++) {
        const double *x = c->Xt + (ptrdiff_t)k * c->stride_feature + (ptrdiff_t)start * step;
        double *restrict to = centred + k * WIDE_PANEL;
        EACH_WIDE to[i] = i < rows ? x[(ptrdiff_t)i * step] - mean[k] : 0.0;
        EACH_WIDE to[i] = to[i] == to[i] ? to[i] : 0.0;
    }
    for (size_t l = 0; l < d; l++) {
        EACH_WIDE sum[i] = 0.0;
        for (size_t k = 0; k < d; k++)
            EACH_WIDE sum[i] += matrix[k * d + l] * centred[k * WIDE_PANEL + i];
        EACH_WIDE U[l * WIDE_PANEL + i] = (float)sum[i];
    }
}

/* results of the rows of a panel (panel, step), where head k is at column first + k; those of further inputs repeat it. */
TARGET static void NAME(spread_out)(const struct columns *c, size_t K, const double *restrict values, size_t rows,
                                    int is_weight, double *restrict out)
{
    out += c->first;
    for (size_t i = 0; i < rows; i++, out += c->step) {
        for (size_t k = 0; k < K; k++)
            out[k] = values[k * WIDE_PANEL + i];
        for (size_t k = K; k < K * c->repeats; k++)
            out[k] = is_weight ? 0.0 : out[k - K];
    }
}

/* Columns of the rows of a panel from O (3 K, panel): means, ln beta and gates; nu has the model variances, or is NULL.
 * Returns how many are not finite, or far beyond all scale. */
TARGET static size_t NAME(fill_wide)(const struct columns *c, const struct head_outputs *outputs, size_t start, size_t rows,
                                     float *restrict O, const float *restrict nu, double *restrict values)
{
    const float least = (float)outputs->min_log_beta, most = (float)outputs->max_log_beta;
    const double scale = c->y_scale, square = scale * scale;
    size_t K = outputs->K, place = start * c->step, bad = 0;
    float *restrict b = O + K * WIDE_PANEL, *restrict gate = O + 2 * K * WIDE_PANEL;
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
    EACH_WIDE sum[i] = c->share / sum[i];
    for (size_t k = 0; k < K; k++)
        EACH_WIDE values[k * WIDE_PANEL + i] = (double)gate[k * WIDE_PANEL + i] * sum[i];
    NAME(spread_out)(c, K, values, rows, 1, c->weights + place);
    for (size_t i = 0; i < K * WIDE_PANEL; i++)
        bad += !(O[i] < 1e30f && O[i] > -1e30f), values[i] = c->y_mean + scale * (double)O[i];
    NAME(spread_out)(c, K, values, rows, 0, c->means + place);
    for (size_t i = 0; i < K * WIDE_PANEL; i++) {
        float inside = b[i] < least ? least : b[i];
        values[i] = square * (double)exp_float(inside > most ? -most : -inside);
    }
    NAME(spread_out)(c, K, values, rows, 0, c->noise_variances + place);
    for (size_t i = 0; i < K * WIDE_PANEL; i++)
        values[i] = nu ? square * (double)nu[i] : 0.0;
    for (size_t i = 0; nu && i < K * WIDE_PANEL; i++)
        bad += !(nu[i] < 1e30f);
    NAME(spread_out)(c, K, values, rows, 0, c->model_variances + place);
    return bad;
}

/* Returns 1 if some result is not finite, or far beyond all scale. */
TARGET static int NAME(quick)(const struct quick *c)
{
    struct quick_work w = divide_quick(c, c->work, WIDE_PANEL);
    size_t d = c->inputs.d, m = c->basis.m, M = m + c->basis.k, K = c->outputs.K, n = c->inputs.n, bad = 0;
    float *restrict Phi = w.Phi, *restrict Z = w.Z;
    pack_float(c->basis.Ct, m, c->basis.q, c->basis.q, 1, w.C);
    pack_float(c->outputs.Theta, 3 * K, M, 1, 3 * K, w.Theta);
    pack_float(c->squares, K, M, 1, K, w.squares);
    for (size_t start = 0; start < n; start += WIDE_PANEL) {
        size_t rows = smaller(WIDE_PANEL, n - start);
        EACH_WIDE Z[i] = 1.0f;
        NAME(whiten_wide)(&c->inputs, c->mean, c->matrix, start, rows, w.centred, Z + WIDE_PANEL);
        float *restrict out = Z + (d + 1) * WIDE_PANEL;
        for (size_t k = 1; k <= d; k++)
            for (size_t l = k; l <= (c->basis.is_full ? d : k); l++, out += WIDE_PANEL)
                EACH_WIDE out[i] = Z[k * WIDE_PANEL + i] * Z[l * WIDE_PANEL + i];
        NAME(product_float)(w.C, m, c->basis.q, Z, Phi);
        for (size_t i = 0; i < m * WIDE_PANEL; i++)
            Phi[i] = exp_float(Phi[i]);
        memcpy(Phi + m * WIDE_PANEL, Z, c->basis.k * WIDE_PANEL * sizeof(float));
        NAME(product_float)(w.Theta, 3 * K, M, Phi, w.O);
        for (size_t i = 0; i < M * WIDE_PANEL; i++)
            Phi[i] *= Phi[i];
        NAME(product_float)(w.squares, K, M, Phi, w.O + 3 * K * WIDE_PANEL);
        bad += NAME(fill_wide)(&c->columns, &c->outputs, start, rows, w.O, w.O + 3 * K * WIDE_PANEL, w.values);
    }
    return bad > 0;
}

/* As above, of a network: hidden units are a sigmoid(a). */
TARGET static int NAME(quick_network)(const struct quick_network *c)
{
    struct quick_network_work w = divide_quick_network(c, c->work, WIDE_PANEL);
    size_t d = c->inputs.d, n = c->inputs.n, bad = 0;
    const double *layer = c->layers;
    for (size_t l = 0; l < c->n_layers; l++) {
        size_t depth = (size_t)c->units[l] + 1, units = (size_t)c->units[l + 1];
        pack_float(layer, units, depth, 1, units, w.layers + l * packed_layer(c));
        layer += depth * units;
    }
    for (size_t start = 0; start < n; start += WIDE_PANEL) {
        size_t rows = smaller(WIDE_PANEL, n - start);
        float *from = w.from, *to = w.to, *kept;
        NAME(whiten_wide)(&c->inputs, c->mean, c->matrix, start, rows, w.centred, from);
        for (size_t k = 0; k < d; k++) {
            float *restrict u = from + k * WIDE_PANEL, least = (float)c->lower[k], most = (float)c->upper[k];
            EACH_WIDE u[i] = u[i] < least ? least : u[i];
            EACH_WIDE u[i] = u[i] > most ? most : u[i];
        }
        for (size_t k = d; k < (size_t)c->units[0]; k++)
            EACH_WIDE from[k * WIDE_PANEL + i] = 0.0f;
        for (size_t l = 0; l < c->n_layers; l++) {
            size_t inputs = (size_t)c->units[l], units = (size_t)c->units[l + 1];
            float *restrict a = to;
            EACH_WIDE from[inputs * WIDE_PANEL + i] = 1.0f;
            NAME(product_float)(w.layers + l * packed_layer(c), units, inputs + 1, from, a);
            for (size_t i = 0; l + 1 < c->n_layers && i < units * WIDE_PANEL; i++)
                a[i] /= 1.0f + exp_float(-a[i]);
            kept = from, from = to, to = kept;
        }
        bad += NAME(fill_wide)(&c->columns, &c->outputs, start, rows, from, NULL, w.values);
    }
    return bad > 0;
}

#undef WIDE_PANEL
#undef EACH_WIDE
#undef float_vec
