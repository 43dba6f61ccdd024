/* The point of least expected loss of Gaussian mixtures, sixteen rows side by side; included by `_blocks.h`.
 *
 * `prediction/point.py` says what the loss is, and does the same in NumPy. Lanes are rows, which share no operation: what
 * one gets does not depend on its neighbours. Redshifts are in single precision, from an origin within each density.
 */
#define crowd NAME(crowd_t)
#define crowd_mask NAME(crowd_mask_t)
#define crowd_bits NAME(crowd_bits_t)
typedef float crowd __attribute__((vector_size(4 * CROWD), may_alias));
typedef int32_t crowd_mask __attribute__((vector_size(4 * CROWD), may_alias));
typedef uint32_t crowd_bits __attribute__((vector_size(4 * CROWD), may_alias));
#define SELECT(mask, yes, no) ((crowd)(((crowd_mask)(yes) & (mask)) | ((crowd_mask)(no) & ~(mask))))
#define ALL(value) ((crowd){0.0f} + (value))

TARGET INLINE int NAME(any_row)(crowd_mask mask)
{
    int32_t any = 0;
    for (size_t i = 0; i < CROWD; i++)
        any |= mask[i];
    return any != 0;
}

/* Order the rows of a window by how many of their K weights are not below `light`: rows of a crowd wait for each other, and are
 * to have about as much to do. */
TARGET static void NAME(order_rows)(const double *weights, size_t first, size_t rows, size_t K, double light, size_t *order)
{
    int32_t counts[WINDOW], places[MOST_COUNTED + 2] = {0};
    for (size_t i = 0; i < rows; i++) {
        int64_t count = 0;
        for (size_t k = 0; k < K; k++)
            count += !(weights[(first + i) * K + k] < light);
        counts[i] = (int32_t)(count < MOST_COUNTED ? count : MOST_COUNTED);
        places[counts[i] + 1]++;
    }
    for (size_t count = 1; count <= MOST_COUNTED; count++)
        places[count] += places[count - 1];
    for (size_t i = 0; i < rows; i++)
        order[places[counts[i]]++] = first + i;
}

/* The nodes of a component beyond a cut at a, from an origin: from the table, or one by one where that ends. */
static void NAME(cut_nodes)(const struct points *c, double a, double std, double origin, size_t first, size_t last, float *z)
{
    double at = (a - c->first_cut) * c->cuts_per_unit, lower = c->lower - origin;
    if (at < (double)(c->n_cuts - 1)) {
        size_t i = (size_t)at, step = c->G + c->g;
        double part = at - (double)i;
        const double *x = c->excess + i * step;
        for (size_t g = first; g < last; g++, z += CROWD)
            *z = (float)(lower + std * (x[g] + part * (x[step + g] - x[g])));
        return;
    }
    double tail = 0.5 * erfc(0.7071067811865476 * a);
    for (size_t g = first; g < last; g++, z += CROWD)
        *z = (float)(lower + std * cut_excess(a, tail, c->above[g]));
}

/* Put the components of a row in its lane: heavy ones in the first K slots, light ones in the next K, empty without weight.
 * Those near the cut have a negative standard deviation, and their nodes in `cut`. Returns the row's origin. */
static double NAME(enter_mixture)(const struct points *c, size_t row, size_t lane, const struct point_work *w, size_t *used)
{
    const double *mean = c->means + row * c->K, *std = c->stds + row * c->K;
    size_t K = used_components(c->weights + row * c->K, c->K), most = larger(c->G, c->g), count[2] = {0, 0};
    double total = point_shares(c, row, K, w->shares), origin = 0.0;
    for (size_t k = 0; k < K; k++)
        origin += w->shares[k] > 0.0 ? w->shares[k] * (mean[k] > c->lower ? mean[k] : c->lower) : 0.0;
    origin /= total;
    for (size_t k = 0; k < K; k++) {
        if (w->shares[k] <= c->negligible * total)
            continue;
        int is_light = w->shares[k] < c->light * total, is_cut = c->lower - mean[k] > c->uncut * std[k];
        size_t first = is_light ? c->G : 0, last = is_light ? c->G + c->g : c->G, slot = count[is_light]++ + is_light * c->K;
        float *to = w->mixtures + slot * 3 * CROWD + lane;
        to[0] = (float)(w->shares[k] / total);
        to[CROWD] = (float)(mean[k] - origin);
        to[2 * CROWD] = is_cut ? -1.0f : (float)std[k];
        if (is_cut)
            NAME(cut_nodes)(c, (c->lower - mean[k]) / std[k], std[k], origin, first, last, w->cut + slot * most * CROWD + lane);
    }
    used[0] = larger(used[0], count[0]), used[1] = larger(used[1], count[1]);
    return origin;
}

/* The expected loss, over the knee, with the cost of far errors. The third number of a node is its probability here. */
TARGET INLINE crowd NAME(expected_loss)(const struct points *c, const crowd *nodes, const crowd *end, crowd point)
{
    const float knee = (float)c->knee, cost = (float)c->far_cost, from = (float)c->far_from;
    const float per_error = (float)(1.0 / (c->far_to - c->far_from));
    crowd loss = ALL(0.0f);
    for (const crowd *node = nodes; node < end; node += 3) {
        crowd d = (node[0] - point) * node[1], size = SELECT(d < 0.0f, -d, d), far = (size - from) * per_error;
        crowd near = SELECT(size < knee, size, ALL(knee));
        far = SELECT(far < 0.0f, ALL(0.0f), far);
        far = SELECT(far > 1.0f, ALL(1.0f), far);
        loss += node[2] * (near * (size - 0.5f * near) * (1.0f / knee) + cost * far);
    }
    return loss;
}

/* The points of least expected loss where far errors cost more. There are several minima: points at even distances are tried,
 * then both sides of the best, ever closer; none where hardly anything is far from `point`. */
TARGET static crowd NAME(safest)(const struct points *c, crowd *nodes, crowd *end, crowd point)
{
    crowd total = ALL(0.0f), first = total, second = total, beyond = total, lowest = ALL(INFINITY), highest = -lowest;
    for (crowd *node = nodes; node < end; node += 3) {
        crowd p = node[2] / node[1], d = (node[0] - point) * node[1];
        crowd_mask is_far = (d > (float)c->far_from) | (d < -(float)c->far_from);
        lowest = SELECT((p > 0.0f) & (node[0] < lowest), node[0], lowest);
        highest = SELECT((p > 0.0f) & (node[0] > highest), node[0], highest);
        total += p, first += p * node[0], second += p * node[0] * node[0], beyond += SELECT(is_far, p, ALL(0.0f));
        node[2] = p;
    }
    crowd_mask searched = beyond > (float)c->far_share * total;
    if (!NAME(any_row)(searched))
        return point;
    crowd mean = first / total, variance = second / total - mean * mean, reach;
    for (size_t i = 0; i < CROWD; i++)
        reach[i] = variance[i] > 0.0f ? (float)c->far_stds * sqrtf(variance[i]) : 0.0f;
    lowest = SELECT(mean - reach > lowest, mean - reach, lowest);
    highest = SELECT(mean + reach < highest, mean + reach, highest);
    crowd best = point, step = (highest - lowest) / (float)c->far_steps, least = NAME(expected_loss)(c, nodes, end, point);
    for (size_t i = 0; i <= c->far_steps; i++) {
        crowd other = lowest + (float)i * step, loss = NAME(expected_loss)(c, nodes, end, other);
        best = SELECT(loss < least, other, best);
        least = SELECT(loss < least, loss, least);
    }
    for (size_t i = 0; i < c->far_halvings; i++) {
        crowd middle = best;
        step *= 0.5f;
        for (int side = -1; side <= 1; side += 2) {
            crowd other = middle + (float)side * step, loss = NAME(expected_loss)(c, nodes, end, other);
            best = SELECT(loss < least, other, best);
            least = SELECT(loss < least, loss, least);
        }
    }
    return SELECT(searched, best, point);
}

/* The points of least expected loss, by Newton's method kept between bounds, then by bisection. */
TARGET static int NAME(points)(const struct points *c)
{
    struct point_work w = divide_points(c, c->work);
    const float knee = (float)c->knee, smallest = (float)c->smallest;
    size_t most = larger(c->G, c->g), order[WINDOW];
    for (size_t start = 0; start < c->n; start += CROWD) {
        size_t rows = smaller(CROWD, c->n - start), used[2] = {0, 0};
        const size_t *row = order + start % WINDOW;
        if (row == order)
            NAME(order_rows)(c->weights, start, smaller(WINDOW, c->n - start), c->K, c->light, order);
        ALIGNED double origin[CROWD] = {0.0};
        ALIGNED float found[CROWD], near[CROWD] = {0.0f};
        memset(w.mixtures, 0, 2 * c->K * 3 * CROWD * sizeof(float));
        for (size_t i = 0; i < rows; i++) {
            origin[i] = NAME(enter_mixture)(c, row[i], i, &w, used);
            near[i] = (float)(1.0 + origin[i]);
        }
        crowd scale, lo = ALL(INFINITY), hi = ALL(-INFINITY), pull = ALL(0.0f), curvature = pull;
        crowd *nodes = (crowd *)w.nodes, *end = nodes;
        memcpy(&scale, near, sizeof scale);
        for (size_t is_light = 0; is_light < 2; is_light++)
            for (size_t slot = is_light * c->K; slot < is_light * c->K + used[is_light]; slot++) {
                const crowd *one = (const crowd *)w.mixtures + 3 * slot, *cut = (const crowd *)w.cut + slot * most;
                size_t first = is_light ? c->G : 0, last = is_light ? c->G + c->g : c->G;
                crowd_mask is_cut = one[2] < 0.0f, is_real = one[0] != 0.0f;
                for (size_t g = first; g < last; g++, end += 3) {
                    crowd z = SELECT(is_cut, cut[g - first], one[1] + one[2] * (float)c->t[g]), size = scale + z;
                    crowd inverse = 1.0f / SELECT(size < smallest, ALL(smallest), size);
                    crowd slope = one[0] * (float)c->share[g] * inverse;
                    lo = SELECT(is_real & (z < lo), z, lo);
                    hi = SELECT(is_real & (z > hi), z, hi);
                    pull += slope * inverse * z;
                    curvature += slope * inverse;
                    end[0] = z, end[1] = inverse, end[2] = slope;
                }
            }
        crowd point = pull / curvature, tolerance = (hi - lo) * ROUNDING;
        crowd_mask moving = lo <= hi;
        tolerance = SELECT(tolerance < (float)c->tolerance, ALL((float)c->tolerance), tolerance);
        for (size_t step = 0; step < c->max_steps && NAME(any_row)(moving); step++) {
            pull = curvature = ALL(0.0f);
            for (const crowd *node = nodes; node < end; node += 3) {
                crowd d = (node[0] - point) * node[1], clipped = SELECT(d < -knee, ALL(-knee), d);
                clipped = SELECT(clipped > knee, ALL(knee), clipped);
                pull += node[2] * clipped;
                curvature += SELECT(d == clipped, node[2] * node[1], ALL(0.0f));
            }
            lo = SELECT(pull > 0.0f, point, lo);
            hi = SELECT(pull < 0.0f, point, hi);
            crowd next = point + pull / curvature;
            crowd_mask inside = (next > lo) & (next < hi);
            if (step >= c->newton_steps)
                inside ^= inside;
            next = SELECT(inside | (next == point), next, 0.5f * (lo + hi));
            crowd moved = next - point;
            point = SELECT(moving, next, point);
            moving &= (moved > tolerance) | (moved < -tolerance);
        }
        if (c->far_cost > 0.0)
            point = NAME(safest)(c, nodes, end, point);
        memcpy(found, &point, sizeof found);
        for (size_t i = 0; i < rows; i++)
            c->points[row[i]] = origin[i] + (double)found[i];
    }
    return 0;
}
