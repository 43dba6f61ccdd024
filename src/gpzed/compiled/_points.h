/* The point of least expected loss of Gaussian mixtures, a panel of rows at a time; included by `_blocks.h`.
 *
 * `prediction/point.py` says what the loss is, and does the same in NumPy. Lanes are rows, which share no operation: what
 * one gets does not depend on its neighbours.
 */

/* The nodes of a component beyond a cut at a: from the table, or one by one where that ends. */
static void NAME(cut_nodes)(const struct points *c, double a, double std, size_t first, size_t last, double *z)
{
    double at = (a - c->first_cut) * c->cuts_per_unit;
    if (at < (double)(c->n_cuts - 1)) {
        size_t i = (size_t)at, step = c->G + c->g;
        double part = at - (double)i;
        const double *x = c->excess + i * step;
        for (size_t g = first; g < last; g++, z += PANEL)
            *z = c->lower + std * (x[g] + part * (x[step + g] - x[g]));
        return;
    }
    double tail = 0.5 * erfc(0.7071067811865476 * a);
    for (size_t g = first; g < last; g++, z += PANEL)
        *z = c->lower + std * cut_excess(a, tail, c->above[g]);
}

/* Fill the nodes of a panel, (nodes, panel) each: redshifts, 1 / (1 + z), and probabilities up to a factor. Components
 * without a share in a row have none there; rows that need fewer nodes than others are filled up with nothing. */
TARGET static size_t NAME(point_nodes)(const struct points *c, size_t start, double *z, double *inverse, double *p)
{
    size_t most = 0, used[PANEL], rows = smaller(PANEL, c->n - start);
    double *shares = p + c->K * (c->G > c->g ? c->G : c->g) * PANEL;
    for (size_t i = 0; i < rows; i++) {
        const double *mean = c->means + (start + i) * c->K, *std = c->stds + (start + i) * c->K;
        double total = point_shares(c, start + i, shares);
        used[i] = 0;
        for (size_t k = 0; k < c->K; k++) {
            if (shares[k] <= c->negligible * total)
                continue;
            int is_light = shares[k] < c->light * total;
            size_t first = is_light ? c->G : 0, last = is_light ? c->G + c->g : c->G, at = used[i] * PANEL + i;
            if (c->lower - mean[k] > c->uncut * std[k])
                NAME(cut_nodes)(c, (c->lower - mean[k]) / std[k], std[k], first, last, z + at);
            else
                for (size_t g = first; g < last; g++)
                    z[at + (g - first) * PANEL] = mean[k] + std[k] * c->t[g];
            for (size_t g = first; g < last; g++, at += PANEL)
                p[at] = shares[k] * c->share[g];
            used[i] += last - first;
        }
        most = used[i] > most ? used[i] : most;
    }
    for (size_t i = 0; i < PANEL; i++)
        for (size_t node = i < rows ? used[i] : 0; node < most; node++) {
            z[node * PANEL + i] = i < rows ? z[i] : 0.0;
            p[node * PANEL + i] = i < rows ? 0.0 : 1.0;
        }
    for (size_t j = 0; j < most; j++)
        EACH_LANE
        {
            double scale = 1.0 + z[j * PANEL + i];
            inverse[j * PANEL + i] = 1.0 / (scale < c->smallest ? c->smallest : scale);
        }
    return most;
}

/* The points of least expected loss, by Newton's method kept between bounds, then by bisection. */
TARGET static int NAME(points)(const struct points *c)
{
    size_t most = c->K * (c->G > c->g ? c->G : c->g) * PANEL;
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
