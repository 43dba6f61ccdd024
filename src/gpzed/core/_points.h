/* The point of least expected loss of Gaussian mixtures, a panel of rows at a time; included by `_blocks.h`.
 *
 * `prediction/_point.py` says what the loss is, and does the same in NumPy. Lanes are rows, which share no operation: what
 * one gets does not depend on its neighbours.
 */

/* Fill the nodes of a panel, (K G, panel) each: redshifts, 1 / (1 + z), and probabilities up to a factor. */
TARGET static void NAME(point_nodes)(const struct points *c, size_t start, double *z, double *inverse, double *p)
{
    ALIGNED double mean[PANEL], std[PANEL], weight[PANEL], top[PANEL];
    EACH_LANE top[i] = c->lower == -INFINITY ? 0.0 : largest_log_tail(c, smaller(start + i, c->n - 1));
    for (size_t k = 0; k < c->K; k++) {
        EACH_LANE
        {
            size_t at = smaller(start + i, c->n - 1) * c->K + k; /* the last row again, beyond it */
            mean[i] = c->means[at];
            std[i] = c->stds[at];
            weight[i] = c->weights[at];
        }
        for (size_t g = 0; g < c->G; g++) {
            double *restrict zg = z + (k * c->G + g) * PANEL, *restrict pg = p + (k * c->G + g) * PANEL;
            EACH_LANE zg[i] = mean[i] + std[i] * c->t[g];
            EACH_LANE pg[i] = weight[i] * c->share[g];
        }
        if (c->lower == -INFINITY)
            continue;
        EACH_LANE
        {
            double a = (c->lower - mean[i]) / std[i], log_tail = log_upper_tail(a);
            if (log_tail == 0.0 && top[i] == 0.0)
                continue;
            double kept = weight[i] > 0.0 ? exp(log_tail - top[i]) : 0.0;
            for (size_t at = k * c->G * PANEL + i, g = 0; g < c->G; g++, at += PANEL) {
                p[at] *= kept;
                if (a > c->uncut)
                    z[at] = c->lower + std[i] * cut_excess(a, log_tail, c->above[g]);
            }
        }
    }
    for (size_t j = 0; j < c->K * c->G; j++)
        EACH_LANE
        {
            double scale = 1.0 + z[j * PANEL + i];
            inverse[j * PANEL + i] = 1.0 / (scale < c->smallest ? c->smallest : scale);
        }
}

/* out (n) = the points of least expected loss, by Newton's method kept between bounds, then by bisection. */
TARGET static int NAME(points)(const struct points *c)
{
    size_t nodes = c->K * c->G;
    double *z = align(c->work), *inverse = z + nodes * PANEL, *p = inverse + nodes * PANEL;
    ALIGNED double point[PANEL], lo[PANEL], hi[PANEL], pull[PANEL], curvature[PANEL], moving[PANEL];
    for (size_t start = 0; start < c->n; start += PANEL) {
        NAME(point_nodes)(c, start, z, inverse, p);
        EACH_LANE lo[i] = hi[i] = z[i];
        EACH_LANE pull[i] = curvature[i] = 0.0;
        EACH_LANE moving[i] = 1.0;
        for (size_t j = 0; j < nodes * PANEL; j += PANEL)
            EACH_LANE
            {
                double at = z[j + i], slope = p[j + i] *= inverse[j + i];
                lo[i] = at < lo[i] ? at : lo[i];
                hi[i] = at > hi[i] ? at : hi[i];
                pull[i] += slope * inverse[j + i] * at;
                curvature[i] += slope * inverse[j + i];
            }
        EACH_LANE point[i] = pull[i] / curvature[i];
        size_t left = PANEL;
        for (size_t step = 0; step < c->max_steps && left; step++) {
            EACH_LANE pull[i] = curvature[i] = 0.0;
            for (size_t j = 0; j < nodes * PANEL; j += PANEL)
                EACH_LANE
                {
                    double d = (z[j + i] - point[i]) * inverse[j + i];
                    double clipped = d < -c->knee ? -c->knee : d;
                    clipped = clipped > c->knee ? c->knee : clipped;
                    pull[i] += p[j + i] * clipped;
                    curvature[i] += d == clipped ? p[j + i] * inverse[j + i] : 0.0;
                }
            left = 0;
            EACH_LANE
            {
                lo[i] = pull[i] > 0.0 ? point[i] : lo[i];
                hi[i] = pull[i] < 0.0 ? point[i] : hi[i];
                double next = point[i] + pull[i] / curvature[i];
                int inside = (next > lo[i]) & (next < hi[i]) & (step < c->newton_steps);
                next = inside | (next == point[i]) ? next : 0.5 * (lo[i] + hi[i]);
                double moved = moving[i] * (next - point[i]);
                point[i] = moving[i] > 0.0 ? next : point[i];
                moving[i] = fabs(moved) > c->tolerance ? 1.0 : 0.0;
                left += moving[i] > 0.0;
            }
        }
        memcpy(c->out + start, point, sizeof(double) * smaller(PANEL, c->n - start));
    }
    return 0;
}
