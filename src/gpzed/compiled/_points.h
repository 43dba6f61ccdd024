/* The point of least expected loss of Gaussian mixtures, a panel of rows at a time; included by `_blocks.h`.
 *
 * `prediction/point.py` says what the loss is, and does the same in NumPy. Lanes are rows, which share no operation: what
 * one gets does not depend on its neighbours.
 */

/* Fill the nodes of a panel, (slots G, panel) each: redshifts, 1 / (1 + z), and probabilities up to a factor. Components
 * without a share in a row have no slot there; rows that need fewer slots than others are filled up with nothing. */
TARGET static size_t NAME(point_nodes)(const struct points *c, size_t start, double *z, double *inverse, double *p)
{
    size_t slots = 0, used[PANEL], rows = smaller(PANEL, c->n - start);
    double *shares = p + c->K * c->G * PANEL;
    for (size_t i = 0; i < rows; i++) {
        const double *mean = c->means + (start + i) * c->K, *std = c->stds + (start + i) * c->K;
        double total = point_shares(c, start + i, shares);
        used[i] = 0;
        for (size_t k = 0; k < c->K; k++) {
            if (shares[k] <= c->negligible * total)
                continue;
            double a = (c->lower - mean[k]) / std[k], tail = a > c->uncut ? 0.5 * erfc(0.7071067811865476 * a) : 1.0;
            for (size_t at = used[i]++ * c->G * PANEL + i, g = 0; g < c->G; g++, at += PANEL) {
                z[at] = a > c->uncut ? c->lower + std[k] * cut_excess(a, tail, c->above[g]) : mean[k] + std[k] * c->t[g];
                p[at] = shares[k] * c->share[g];
            }
        }
        slots = used[i] > slots ? used[i] : slots;
    }
    for (size_t i = 0; i < PANEL; i++)
        for (size_t node = i < rows ? used[i] * c->G : 0; node < slots * c->G; node++) {
            z[node * PANEL + i] = i < rows ? z[i] : 0.0;
            p[node * PANEL + i] = i < rows ? 0.0 : 1.0;
        }
    for (size_t j = 0; j < slots * c->G; j++)
        EACH_LANE
        {
            double scale = 1.0 + z[j * PANEL + i];
            inverse[j * PANEL + i] = 1.0 / (scale < c->smallest ? c->smallest : scale);
        }
    return slots * c->G;
}

/* The points of least expected loss, by Newton's method kept between bounds, then by bisection. */
TARGET static int NAME(points)(const struct points *c)
{
    size_t most = c->K * c->G * PANEL;
    double *z = align(c->work), *inverse = z + most, *p = inverse + most;
    ALIGNED double point[PANEL], lo[PANEL], hi[PANEL], pull[PANEL], curvature[PANEL], moving[PANEL];
    for (size_t start = 0; start < c->n; start += PANEL) {
        size_t nodes = NAME(point_nodes)(c, start, z, inverse, p);
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
        memcpy(c->points + start, point, sizeof(double) * smaller(PANEL, c->n - start));
    }
    return 0;
}
