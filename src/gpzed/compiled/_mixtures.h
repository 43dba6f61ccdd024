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

/* total (K) = sums of the parts of the variance; the last may be NULL. */
TARGET INLINE void NAME(total_variance)(const double *restrict model, const double *restrict noise, const double *inputs,
                                        size_t K, double *restrict total)
{
    for (size_t k = 0; k < K; k++)
        total[k] = model[k] + noise[k];
    for (size_t k = 0; inputs && k < K; k++)
        total[k] += inputs[k];
}

/* Cut the components of a row as cut_row() does, lanes being components. Returns 0 if none is near the cut: then nothing
 * is written. */
TARGET static int NAME(cut_lanes)(const struct gaussians *c, double lower, double uncut, double series_from,
                                  double *restrict w, double *restrict mean, double *restrict shrink, double *restrict alpha)
{
    const double *restrict weights = c->weights, *restrict means = c->means, *restrict variances = c->variances;
    int64_t near = 0, far = 0;
    double sum = 0.0;
    size_t K = c->K;
    for (size_t k = 0; k < K; k++) {
        double above = means[k] - lower;
        near |= above * fabs(above) < uncut * uncut * variances[k];
    }
    if (!near)
        return 0;
    for (size_t k = 0; k < K; k++) {
        double std = sqrt(variances[k]), a = (lower - means[k]) / std, size = fabs(a);
        double fall = exp_one(-0.5 * a * a), tail = 0.5 * fall * scaled_tail(size < 6.0 ? size : 6.0);
        int is_far = a < uncut;
        tail = a < 0.0 ? 1.0 - tail : tail;
        double mills = 0.3989422804014327 * fall / tail;
        alpha[k] = a;
        w[k] = is_far ? weights[k] : weights[k] * tail;
        mean[k] = is_far ? means[k] : means[k] + std * mills;
        shrink[k] = is_far ? 1.0 : 1.0 - mills * (mills - a);
        far |= a > 5.0;
    }
    ALIGNED double lanes[LANES] = {0.0};
    for (size_t k = 0; k < K / LANES * LANES; k += LANES)
        for (size_t i = 0; i < LANES; i++)
            lanes[i] += alpha[k + i] > 5.0 ? 0.0 : w[k + i];
    for (size_t k = K / LANES * LANES; k < K; k++)
        sum += alpha[k] > 5.0 ? 0.0 : w[k];
    for (size_t i = 0; i < LANES; i++)
        sum += lanes[i];
    if (sum < 1e-2) { /* next to nothing is above the cut */
        cut_row(c, lower, uncut, series_from, w, mean, shrink, alpha);
        return 1;
    }
    for (size_t k = 0; far && k < K; k++)
        if (alpha[k] > 5.0) {
            mean[k] = lower + sqrt(variances[k]) * tail_moments(alpha[k], series_from, shrink + k);
            sum += w[k] = weights[k] * exp(log_upper_tail(alpha[k]));
        }
    for (size_t k = 0; k < K; k++)
        w[k] /= sum;
    return 1;
}

TARGET static int NAME(moments)(const struct moments *c)
{
    size_t K = c->K, n = c->n;
    double *w = c->work, *mean = w + K, *weighted = mean + K, *shrink = weighted + K, *alpha = shrink + K;
    double *variances = alpha + K;
    for (size_t row = 0; row < n; row++) {
        const double *share = c->weights + row * K, *centre = c->means + row * K, *scaled = share;
        const double *model = c->model_variances + row * K, *noise = c->noise_variances + row * K;
        const double *inputs = c->input_variances ? c->input_variances + row * K : NULL;
        if (c->lower > -INFINITY) {
            struct gaussians all = {K, share, centre, variances};
            NAME(total_variance)(model, noise, inputs, K, variances);
            if (NAME(cut_lanes)(&all, c->lower, c->uncut, c->series_from, w, mean, shrink, alpha)) {
                share = w, centre = mean, scaled = shrink;
                for (size_t k = 0; k < K; k++)
                    shrink[k] *= w[k];
            }
        }
        double middle = NAME(sum_of)(share, centre, K), total = 0.0;
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
        double between = c->n_members == K ? total : between_runs(c->members, c->n_members, share, weighted);
        double both = c->n_parts == c->n_members ? between : between_runs(c->parts, c->n_parts, share, weighted);
        c->moments[row] = middle;
        c->moments[n + row] = NAME(sum_of)(scaled, model, K) + between;
        c->moments[2 * n + row] = NAME(sum_of)(scaled, noise, K) + (total > both ? total - both : 0.0);
        c->moments[3 * n + row] = (inputs ? NAME(sum_of)(scaled, inputs, K) : 0.0) + (both > between ? both - between : 0.0);
    }
    return 0;
}
