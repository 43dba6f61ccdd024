/* How well training rows cover objects, `model/coverage.py`; included by `_blocks.h`. */

/* What share of the training rows has a log density below this one, by linear interpolation of a table. */
static double NAME(level_of)(const struct coverage *c, double log_density)
{
    const double *x = c->log_density;
    size_t n = c->n_levels, low = 0;
    if (!(log_density > x[0]))
        return c->level[0] * exp((log_density - x[0]) / c->tail_scale);
    for (size_t step = n / 2; n > 1; n -= step, step = n / 2) /* x[low] <= log_density; the end is within n */
        low = x[low + step] <= log_density ? low + step : low;
    if (low + 1 == c->n_levels)
        return c->level[low];
    return c->level[low] + (c->level[low + 1] - c->level[low]) * ((log_density - x[low]) / (x[low + 1] - x[low]));
}

TARGET static int NAME(coverage)(const struct coverage *c)
{
    struct coverage_work w = divide_coverage(c, c->work, PANEL);
    size_t d = c->inputs.d, q = 1 + d + d * (d + 1) / 2, n = c->inputs.n;
    pack(c->Ct, c->g, q, q, 1, w.Ct);
    for (size_t start = 0; start < n; start += PANEL) {
        size_t rows = smaller(PANEL, n - start);
        ALIGNED double top[PANEL], sum[PANEL];
        for (size_t k = 0; k < d; k++) {
            const double *x = c->inputs.Xt + (ptrdiff_t)k * c->inputs.stride_feature;
            EACH_LANE w.raw[k * PANEL + i] =
                i < rows ? x[(ptrdiff_t)(start + i) * c->inputs.stride_row] - c->mean[k] : 0.0;
        }
        for (size_t l = 0; l < d; l++) {
            vec s0 = (vec){0.0}, s1 = s0, s2 = s0;
            for (size_t k = 0; k < d; k++) {
                const vec *x = (const vec *)(w.raw + k * PANEL);
                double a = c->matrix[k * d + l];
                s0 += a * x[0];
                s1 += a * x[1];
                s2 += a * x[2];
            }
            NAME(store)(w.Z + (l + 1) * PANEL, s0, s1, s2);
        }
        double *restrict out = w.Z + (d + 1) * PANEL, *restrict logs = w.logs;
        EACH_LANE w.Z[i] = 1.0;
        for (size_t k = 1; k <= d; k++)
            for (size_t l = k; l <= d; l++, out += PANEL)
                EACH_LANE out[i] = w.Z[k * PANEL + i] * w.Z[l * PANEL + i];
        NAME(product)(w.Ct, c->g, q, FULL, w.Z, logs);
        EACH_LANE top[i] = logs[i];
        for (size_t k = 1; k < c->g; k++)
            EACH_LANE top[i] = logs[k * PANEL + i] > top[i] ? logs[k * PANEL + i] : top[i];
        EACH_LANE sum[i] = 0.0;
        for (size_t k = 0; k < c->g; k++)
            EACH_LANE sum[i] += exp_one(logs[k * PANEL + i] - top[i]);
        EACH_LANE sum[i] = top[i] + log_one(sum[i]);
        for (size_t i = 0; i < rows; i++) { /* beyond all scale, or NaN: infinitely far */
            double value = top[i] > -1e300 ? sum[i] : -INFINITY;
            c->values[start + i] = value;
            c->values[n + start + i] = NAME(level_of)(c, value);
        }
    }
    return 0;
}
