/* Gaussian mixtures merged to few components, row by row; included by `_blocks.h`.
 *
 * `prediction/reduce.py` says what a merge costs, and does the same in NumPy. Lanes are partners of one component. The
 * costs of all pairs are kept as a triangle, with the least of every row of it; a merge changes one row and one column.
 */

/* costs[j] = what merging component i with each of the first n costs, and up to a whole vector. */
TARGET INLINE void NAME(merge_costs)(const struct merge_work *k, size_t i, size_t n, double *restrict costs)
{
    const double *restrict w = k->w, *restrict m = k->m, *restrict v = k->v, *restrict wl = k->wl;
    double w1 = w[i], m1 = m[i], v1 = v[i], wl1 = wl[i];
    for (size_t j = 0; j < (n + LANES - 1) / LANES * LANES; j++) {
        double total = w1 + w[j], share = w[j] / total, apart = m[j] - m1;
        double both = v1 + share * (v[j] - v1) + share * (1.0 - share) * apart * apart;
        costs[j] = 0.5 * (total * log_one(both) - wl1 - wl[j]);
    }
}

#define whole NAME(whole_t)
typedef int64_t whole __attribute__((vector_size(8 * LANES), may_alias));

/* Return the place of the least of n numbers; infinities fill the last vector. */
TARGET INLINE size_t NAME(least_of)(const double *values, size_t n, double *least)
{
    vec best = *(const loose_vec *)values;
    whole where = {0}, at = {0};
    for (size_t j = LANES; j < n; j += LANES) {
        vec a = *(const loose_vec *)(values + j);
        whole is_less = a < best;
        at += LANES;
        best = (vec)(((whole)a & is_less) | ((whole)best & ~is_less));
        where = (at & is_less) | (where & ~is_less);
    }
    size_t lane = 0;
    for (size_t l = 1; l < LANES; l++)
        lane = best[l] < best[lane] ? l : lane;
    *least = best[lane];
    return (size_t)where[lane] + lane;
}

/* Find the least of a row of the triangle again. */
TARGET INLINE void NAME(merge_least)(const struct merge_work *k, size_t i)
{
    k->where[i] = (int64_t)NAME(least_of)(k->costs + i * k->stride, i, k->least + i);
}

/* Make a place one of nothing, which costs infinitely much to merge. */
INLINE void NAME(merge_clear)(const struct merge_work *k, size_t i)
{
    k->w[i] = k->m[i] = 0.0;
    k->v[i] = 1.0;
    k->wl[i] = -INFINITY;
    k->least[i] = INFINITY;
}

/* Put component `from` in the place of component `to`, before it, with its costs. */
TARGET INLINE void NAME(merge_move)(const struct merge_work *k, size_t from, size_t to)
{
    const double *costs = k->costs + from * k->stride;
    k->w[to] = k->w[from];
    k->m[to] = k->m[from];
    k->v[to] = k->v[from];
    k->wl[to] = k->wl[from];
    memcpy(k->costs + to * k->stride, costs, to * sizeof(double));
    for (size_t j = to + 1; j < from; j++)
        k->costs[j * k->stride + to] = costs[j];
}

/* Make component j that of both. */
TARGET INLINE void NAME(merge_into)(const struct merge_work *k, size_t j, size_t i)
{
    double total = k->w[i] + k->w[j], share = k->w[i] / total, apart = k->m[i] - k->m[j];
    k->v[j] += share * (k->v[i] - k->v[j]) + share * (1.0 - share) * apart * apart;
    k->m[j] += share * apart;
    k->w[j] = total;
    k->wl[j] = total * log_one(k->v[j]);
}

/* Merge components i and j < i of n; afterwards the last one is where i was. */
TARGET static void NAME(merge_pair)(const struct merge_work *k, size_t i, size_t j, size_t n)
{
    NAME(merge_into)(k, j, i);
    if (i < n - 1)
        NAME(merge_move)(k, n - 1, i);
    NAME(merge_clear)(k, --n);
    double *new = k->fresh;
    NAME(merge_costs)(k, j, n, new);
    memcpy(k->costs + j * k->stride, new, j * sizeof(double));
    if (j > 0)
        NAME(merge_least)(k, j);
    if (i < n)
        NAME(merge_least)(k, i);
    for (size_t r = j + 1; r < n; r++) {
        k->costs[r * k->stride + j] = new[r];
        if (k->where[r] == (int64_t)i || k->where[r] == (int64_t)j)
            NAME(merge_least)(k, r);
        else {
            if (i < r && k->costs[r * k->stride + i] < k->least[r]) { /* the one that was moved there */
                k->least[r] = k->costs[r * k->stride + i];
                k->where[r] = (int64_t)i;
            }
            if (new[r] < k->least[r]) {
                k->least[r] = new[r];
                k->where[r] = (int64_t)j;
            }
        }
    }
}

/* Take in the components of a row: the heavy ones, merged at once with those before where that costs next to nothing, and
 * at place n, which is returned, all light ones as one. Adds up what was spent. */
TARGET static size_t NAME(merge_begin)(const struct merge *c, size_t row, const struct merge_work *k, double *spent)
{
    const double *w = c->weights + row * c->K, *m = c->means + row * c->K, *v = c->variances + row * c->K;
    size_t n = 0;
    double *cut = k->cut, *shrink = cut + 2 * k->stride;
    struct gaussians all = {c->K, w, m, v};
    if (c->lower > -INFINITY &&
        NAME(cut_lanes)(&all, c->lower, c->uncut, c->series_from, cut, cut + k->stride, shrink, cut + 3 * k->stride)) {
        w = cut, m = cut + k->stride;
        for (size_t i = 0; i < c->K; i++)
            shrink[i] *= v[i];
        v = shrink;
    }
    double rest = 0.0, mean = 0.0, square = 0.0, origin = m[0];
    for (size_t i = 0; i < c->K; i++) {
        if (w[i] < c->light) {
            double at = m[i] - origin;
            rest += w[i];
            mean += w[i] * at;
            square += w[i] * (v[i] + at * at);
            continue;
        }
        k->w[n] = w[i];
        k->m[n] = m[i];
        k->v[n] = v[i];
        k->wl[n] = w[i] * log_one(v[i]);
        double least = INFINITY;
        size_t to = n;
        if (n) {
            NAME(merge_costs)(k, n, n, k->fresh);
            for (size_t j = n; j < (n + LANES - 1) / LANES * LANES; j++)
                k->fresh[j] = INFINITY;
            to = NAME(least_of)(k->fresh, n, &least);
        }
        if (least <= c->at_once) {
            *spent += least;
            NAME(merge_into)(k, to, n);
        } else
            n++;
    }
    mean = rest > 0.0 ? mean / rest : 0.0;
    k->w[n] = rest;
    k->m[n] = origin + mean;
    k->v[n] = rest > 0.0 ? square / rest - mean * mean : 1.0;
    return n;
}

/* Store what is left of a row, heaviest first. */
static void NAME(merge_end)(const struct merge *c, size_t row, const struct merge_work *k, size_t n)
{
    double *w = c->merged + row * c->most, *m = w + c->n * c->most, *v = m + c->n * c->most;
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = used++;
        for (; at > 0 && w[at - 1] < k->w[i]; at--) {
            w[at] = w[at - 1];
            m[at] = m[at - 1];
            v[at] = v[at - 1];
        }
        w[at] = k->w[i];
        m[at] = k->m[i];
        v[at] = k->v[i];
    }
    for (; used < c->most; used++) {
        w[used] = m[used] = 0.0;
        v[used] = 1.0;
    }
}

TARGET static int NAME(merge)(const struct merge *c)
{
    struct merge_work k = divide_merge(c->K, c->work);
    for (size_t row = 0; row < c->n; row++) {
        double spent = 0.0;
        size_t n = NAME(merge_begin)(c, row, &k, &spent), has_rest = k.w[n] > 0.0;
        double rest[3] = {k.w[n], k.m[n], k.v[n]};
        for (size_t i = n; i < (n + LANES - 1) / LANES * LANES; i++)
            NAME(merge_clear)(&k, i);
        k.least[0] = INFINITY;
        for (size_t i = 1; i < n; i++) {
            double *costs = k.costs + i * k.stride;
            NAME(merge_costs)(&k, i, i, costs);
            for (size_t j = i; j < (i + LANES - 1) / LANES * LANES; j++)
                costs[j] = INFINITY;
            NAME(merge_least)(&k, i);
        }
        while (n > 1) {
            double least;
            size_t i = NAME(least_of)(k.least, n, &least);
            if (n + has_rest <= c->most && spent + least > c->tolerance)
                break;
            spent += least;
            NAME(merge_pair)(&k, i, (size_t)k.where[i], n--);
        }
        if (has_rest) {
            k.w[n] = rest[0];
            k.m[n] = rest[1];
            k.v[n++] = rest[2];
        }
        NAME(merge_end)(c, row, &k, n);
    }
    return 0;
}

#undef whole
