/* Moments of Gaussian mixtures, row by row, lanes being components; included by `_blocks.h`. `_moments.h` has the cut. */

/* Sum of products of n numbers. */
TARGET INLINE double NAME(sum_of)(const double *a, const double *b, size_t n)
{
    vec s = (vec){0.0}, t = s;
    size_t k = 0;
    double rest = 0.0;
    for (; k + 2 * LANES <= n; k += 2 * LANES) {
        s += *(const loose_vec *)(a + k) * *(const loose_vec *)(b + k);
        t += *(const loose_vec *)(a + k + LANES) * *(const loose_vec *)(b + k + LANES);
    }
    for (; k < n; k++)
        rest += a[k] * b[k];
    return rest + NAME(add_up)(s + t);
}

TARGET static int NAME(moments)(const struct moments *c)
{
    size_t K = c->K, n = c->n;
    double *w = c->work, *mean = w + K, *weighted = mean + K, *shrink = weighted + K;
    int is_cut = c->lower > -INFINITY;
    for (size_t row = 0; row < n; row++) {
        const double *share = c->weights + row * K, *centre = c->means + row * K, *scaled = share;
        if (is_cut) {
            cut_row(c, row, w, mean, shrink);
            share = w, centre = mean, scaled = shrink;
            for (size_t k = 0; k < K; k++)
                shrink[k] *= w[k];
        }
        double middle = NAME(sum_of)(share, centre, K), total = 0.0, inputs = 0.0;
        ALIGNED double lanes[LANES] = {0.0};
        for (size_t k = 0; k < K / LANES * LANES; k += LANES)
            for (size_t i = 0; i < LANES; i++) {
                double off = centre[k + i] - middle;
                weighted[k + i] = share[k + i] * off;
                lanes[i] += weighted[k + i] * off;
            }
        for (size_t k = K / LANES * LANES; k < K; k++) {
            double off = centre[k] - middle;
            weighted[k] = share[k] * off;
            total += weighted[k] * off;
        }
        for (size_t i = 0; i < LANES; i++)
            total += lanes[i];
        if (c->input_variances)
            inputs = NAME(sum_of)(scaled, c->input_variances + row * K, K);
        double between = c->n_members == K ? total : between_runs(c->members, c->n_members, share, weighted);
        double both = c->n_parts == c->n_members ? between : between_runs(c->parts, c->n_parts, share, weighted);
        c->moments[row] = middle;
        c->moments[n + row] = NAME(sum_of)(scaled, c->model_variances + row * K, K) + between;
        c->moments[2 * n + row] =
            NAME(sum_of)(scaled, c->noise_variances + row * K, K) + (total > both ? total - both : 0.0);
        c->moments[3 * n + row] = inputs + (both > between ? both - between : 0.0);
    }
    return 0;
}
