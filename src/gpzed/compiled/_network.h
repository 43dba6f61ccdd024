/* Mixtures that a network predicts, a block of rows in one call; included by `_blocks.h`.
 *
 * Hidden units are a sigmoid(a). What comes out for a row does not depend on the rows beside it.
 */

/* a sigmoid(a), in place. */
TARGET static void NAME(activate)(double *restrict a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double fall = exp_one(a[i] < 0.0 ? a[i] : -a[i]);
        a[i] *= (a[i] < 0.0 ? fall : 1.0) / (1.0 + fall);
    }
}

/* Weights, means and noise variances of the rows of a panel, from its outputs. */
TARGET static void NAME(network_panel)(const struct network *c, size_t start, double *restrict O)
{
    size_t K = c->K, n = c->inputs.n, bytes = sizeof(double) * smaller(PANEL, n - start);
    double *restrict b = O + K * PANEL, *restrict gate = O + 2 * K * PANEL;
    ALIGNED double sum[PANEL], top[PANEL];
    EACH_LANE top[i] = gate[i];
    for (size_t k = 1; k < K; k++)
        EACH_LANE top[i] = gate[k * PANEL + i] > top[i] ? gate[k * PANEL + i] : top[i];
    EACH_LANE sum[i] = 0.0;
    for (size_t k = 0; k < K; k++)
        EACH_LANE sum[i] += gate[k * PANEL + i] = exp_one(gate[k * PANEL + i] - top[i]);
    for (size_t k = 0; k < K; k++) {
        double *out = c->components + k * n + start;
        size_t row = k * PANEL;
        EACH_LANE gate[row + i] /= sum[i];
        EACH_LANE b[row + i] = b[row + i] < c->min_log_beta ? c->min_log_beta : b[row + i];
        EACH_LANE b[row + i] = exp_one(-(b[row + i] > c->max_log_beta ? c->max_log_beta : b[row + i]));
        memcpy(out, gate + row, bytes);
        memcpy(out + K * n, O + row, bytes);
        memcpy(out + 2 * K * n, b + row, bytes);
    }
}

TARGET static int NAME(network)(const struct network *c)
{
    struct network_work w = divide_network(c, c->work, PANEL);
    size_t step = (c->widest + TILE) * (c->widest + 1);
    const double *layer = c->layers;
    for (size_t l = 0; l < c->n_layers; l++) {
        size_t depth = (size_t)c->units[l] + 1, units = (size_t)c->units[l + 1];
        pack(layer, units, depth, 1, units, w.layers + l * step);
        layer += depth * units;
    }
    for (size_t start = 0; start < c->inputs.n; start += PANEL) {
        double *from = w.from, *to = w.to, *kept;
        size_t rows = smaller(PANEL, c->inputs.n - start);
        for (size_t k = 0; k < c->inputs.d; k++) {
            const double *x = c->inputs.Xt + (ptrdiff_t)k * c->inputs.stride_feature;
            EACH_LANE from[k * PANEL + i] = i < rows ? x[(ptrdiff_t)(start + i) * c->inputs.stride_row] : 0.0;
        }
        for (size_t l = 0; l < c->n_layers; l++) {
            size_t inputs = (size_t)c->units[l], units = (size_t)c->units[l + 1];
            EACH_LANE from[inputs * PANEL + i] = 1.0;
            NAME(product)(w.layers + l * step, units, inputs + 1, FULL, from, to);
            if (l + 1 < c->n_layers)
                NAME(activate)(to, units * PANEL);
            kept = from, from = to, to = kept;
        }
        NAME(network_panel)(c, start, from);
    }
    return 0;
}
