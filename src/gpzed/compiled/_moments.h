/* Mean and parts of the variance of Gaussian mixtures cut at a lower bound, row by row; included by `_kernels.c`, and used by `_mixtures.h`.
 *
 * `prediction/mixture.py` says what the parts are.
 */

/* Mean above the cut at `alpha` and variance of a standard normal; from their series beyond `series_from`. */
static double tail_moments(double alpha, double series_from, double *spread)
{
    if (alpha > series_from) {
        double i = 1.0 / (alpha * alpha);
        *spread = i * (1.0 - i * (6.0 - i * (50.0 - i * (518.0 - i * 6354.0))));
        return sqrt(i) * (1.0 - i * (2.0 - i * (10.0 - i * (74.0 - i * 706.0))));
    }
    if (alpha > 5.0) { /* a continued fraction: the difference to alpha does not cancel */
        double t = alpha;
        for (size_t k = 30; k > 1; k--)
            t = alpha + (double)k / t;
        *spread = 1.0 - (alpha + 1.0 / t) / t;
        return 1.0 / t;
    }
    double mills = exp(-0.5 * (alpha * alpha + LOG_2PI)) / (0.5 * erfc(0.7071067811865476 * alpha));
    *spread = 1.0 - mills * (mills - alpha);
    return mills - alpha;
}

/* Gaussians of a row, before they are cut. */
struct gaussians {
    size_t K;
    const double *weights, *means, *variances;
};

/* Weights w, means and factors of the variances of the components of a row, once cut at `lower`; those whose cut is farther
 * out than `uncut` standard deviations stay as they are. With care: all may be far below the cut. */
static void cut_row(const struct gaussians *c, double lower, double uncut, double series_from, double *restrict w,
                    double *restrict mean, double *restrict shrink, double *restrict log_tail)
{
    double top = -INFINITY, sum = 0.0;
    for (size_t k = 0; k < c->K; k++) {
        double above = c->means[k] - lower;
        mean[k] = c->means[k], shrink[k] = 1.0, log_tail[k] = 0.0;
        if (c->weights[k] > 0.0 && (above <= 0.0 || above * above < uncut * uncut * c->variances[k])) {
            double std = sqrt(c->variances[k]), alpha = -above / std, spread;
            double excess = tail_moments(alpha, series_from, &spread);
            log_tail[k] = log_upper_tail(alpha);
            shrink[k] = spread;
            mean[k] = alpha > 0.0 ? lower + std * excess : c->means[k] + std * (excess + alpha);
        }
        if (c->weights[k] > 0.0 && log_tail[k] > top)
            top = log_tail[k];
    }
    for (size_t k = 0; k < c->K; k++)
        sum += w[k] = c->weights[k] > 0.0 ? log_tail[k] == top ? c->weights[k] : c->weights[k] * exp(log_tail[k] - top) : 0.0;
    for (size_t k = 0; k < c->K; k++)
        w[k] /= sum;
}

/* The variance of the means of runs of components; deviations are weighted. */
static double between_runs(const int64_t *ends, size_t runs, const double *w, const double *weighted)
{
    double total = 0.0;
    for (size_t run = 0, k = 0; run < runs; run++) {
        double weight = 0.0, sum = 0.0;
        for (; k < (size_t)ends[run]; k++) {
            weight += w[k];
            sum += weighted[k];
        }
        total += weight > 0.0 ? sum * sum / weight : 0.0;
    }
    return total;
}
