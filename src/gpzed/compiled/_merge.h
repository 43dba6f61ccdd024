/* Gaussian mixtures merged to fewer components, sixteen rows side by side; included by `_blocks.h`.
 *
 * `prediction/reduce.py` says what a merge costs, and does the same in NumPy. Lanes are rows: each step is taken by all of
 * them, and leaves those as they are that have come to their end. Single precision decides which components are merged, and
 * holds them. Empty slots have weight 0, and merging with them costs infinitely much.
 */
/* ln x for positive normal numbers, to 1e-7; as log_one(). Bits of NaN overflow, as those without a sign may. */
TARGET INLINE void NAME(crowd_log)(const crowd *x, crowd *out)
{
    crowd_bits bits = (crowd_bits)*x;
    crowd_mask k = (crowd_mask)(bits + (0x3f800000u - 0x3f3504f3u)) >> 23;
    crowd f = (crowd)(bits - ((crowd_bits)(k - 127) << 23)) - 1.0f, f2 = f * f;
    crowd low = (0.999999882f - f * 0.500005263f) + f2 * (0.333355304f - f * 0.249638623f);
    crowd high = (0.198892698f - f * 0.173051422f) + f2 * (0.163030666f - f * 0.100384259f);
    *out = __builtin_convertvector(k - 127, crowd) * 0.693147181f + f * (low + f2 * f2 * high);
}

/* A component for each row; `cost` is what its costs need of it, w ln v or w / v. */
#define gaussian_crowd NAME(gaussian_crowd_t)
struct gaussian_crowd {
    crowd w, m, v, cost;
};

/* Make two components one; `cost` is left to the caller. */
TARGET INLINE void NAME(crowd_pair)(const struct gaussian_crowd *a, const struct gaussian_crowd *b, struct gaussian_crowd *both)
{
    crowd total = a->w + b->w, share = b->w / total, apart = b->m - a->m;
    both->v = a->v + share * (b->v - a->v) + share * (1.0f - share) * apart * apart;
    both->m = a->m + share * apart;
    both->w = total;
}

/* cost = what merging two components costs. */
TARGET INLINE void NAME(crowd_cost)(const struct gaussian_crowd *a, const struct gaussian_crowd *b, crowd *cost)
{
    struct gaussian_crowd both;
    crowd log_v;
    NAME(crowd_pair)(a, b, &both);
    NAME(crowd_log)(&both.v, &log_v);
    *cost = 0.5f * (both.w * log_v - a->cost - b->cost);
}

/* Where a mask is set, put a component in the place of another. */
TARGET INLINE void NAME(crowd_put)(crowd_mask mask, const struct gaussian_crowd *from, struct gaussian_crowd *to)
{
    to->w = SELECT(mask, from->w, to->w);
    to->m = SELECT(mask, from->m, to->m);
    to->v = SELECT(mask, from->v, to->v);
    to->cost = SELECT(mask, from->cost, to->cost);
}

/* Make components empty. */
TARGET INLINE void NAME(crowd_clear)(struct gaussian_crowd *slots, size_t n, float cost)
{
    struct gaussian_crowd nothing = {ALL(0.0f), ALL(0.0f), ALL(1.0f), ALL(cost)};
    for (size_t j = 0; j < n; j++)
        slots[j] = nothing;
}

/* Weight, mean and variance of the light components of a row together, weights below `light`. Returns how many heavy ones there
 * are, and where. Means are from that of the first component: precision does not depend on where zero is. */
TARGET static size_t NAME(part_row)(const struct gaussians *c, double light, double *rest, int32_t *heavy)
{
    const double origin = c->means[0];
    ALIGNED double lanes[3][LANES] = {{0.0}};
    size_t count = 0, whole = c->K / LANES * LANES;
    const double *restrict w = c->weights, *restrict m = c->means, *restrict v = c->variances;
    for (size_t k = 0; k < whole; k += LANES)
        for (size_t i = 0; i < LANES; i++) {
            double share = w[k + i] < light ? w[k + i] : 0.0, off = m[k + i] - origin;
            lanes[0][i] += share;
            lanes[1][i] += share * off;
            lanes[2][i] += share * (v[k + i] + off * off);
        }
    rest[0] = rest[1] = rest[2] = 0.0;
    for (size_t k = whole; k < c->K; k++) {
        double share = w[k] < light ? w[k] : 0.0, off = m[k] - origin;
        rest[0] += share;
        rest[1] += share * off;
        rest[2] += share * (v[k] + off * off);
    }
    for (size_t i = 0; i < LANES; i++)
        rest[0] += lanes[0][i], rest[1] += lanes[1][i], rest[2] += lanes[2][i];
    for (size_t k = 0; k < c->K; k++) {
        heavy[count] = (int32_t)k;
        count += !(w[k] < light); /* NaN is kept, and seen */
    }
    rest[1] = rest[0] > 0.0 ? rest[1] / rest[0] : 0.0;
    rest[2] = rest[0] > 0.0 ? rest[2] / rest[0] - rest[1] * rest[1] : 1.0;
    rest[1] += rest[0] > 0.0 ? origin : 0.0;
    return count;
}

/* Put the heavy components of a row in its lane of the slots, which are empty; returns the origin of their means there. */
TARGET INLINE double NAME(enter_row)(const struct gaussians *c, const int32_t *heavy, size_t count, size_t row,
                                     struct gaussian_crowd *slots)
{
    const double origin = c->means[0];
    for (size_t h = 0; h < count; h++) {
        float *lane = (float *)(slots + h) + row;
        lane[0] = (float)c->weights[heavy[h]];
        lane[CROWD] = (float)(c->means[heavy[h]] - origin);
        lane[2 * CROWD] = (float)c->variances[heavy[h]];
    }
    return origin;
}

/* w ln v of n slots. */
TARGET INLINE void NAME(crowd_logs)(struct gaussian_crowd *slots, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        crowd log_v;
        NAME(crowd_log)(&slots[j].v, &log_v);
        slots[j].cost = SELECT(slots[j].w > 0.0f, slots[j].w * log_v, ALL(-INFINITY));
    }
}

/* Take in components one after the other, each into the slot where that costs least, if it costs next to nothing or there is
 * no other place; return the most slots that a row needs. */
TARGET static size_t NAME(take_in)(const struct compact *c, const struct gaussian_crowd *coming, size_t n,
                                   struct gaussian_crowd *slots)
{
    const float at_once = 2.0f * (float)c->at_once, reach = 2.0f * (float)c->reach;
    crowd_mask used = {0};
    size_t most = 0;
    for (size_t h = 0; h < n; h++) {
        struct gaussian_crowd one = coming[h], to = one;
        crowd best = ALL(INFINITY);
        crowd_mask where = {0}, at = {0};
        to.w = ALL(0.0f);
        for (size_t j = 0; j < most; j++, at += 1) {
            struct gaussian_crowd both;
            NAME(crowd_pair)(slots + j, &one, &both);
            crowd cost = both.v * (slots[j].cost + one.cost) - both.w;
            crowd_mask is_less = cost < best;
            best = SELECT(is_less, cost, best);
            where = (at & is_less) | (where & ~is_less);
            NAME(crowd_put)(is_less, slots + j, &to);
        }
        crowd_mask is_real = one.w != 0.0f, is_far = (best > reach * one.w) | (best > reach * to.w) | ~(best <= at_once);
        crowd_mask joins = ~is_far | (used >= (int32_t)c->slots - 1);
        where = ((where & joins) | (used & ~joins)) | ~is_real; /* -1: nowhere */
        to.w = SELECT(joins, to.w, ALL(0.0f));
        NAME(crowd_pair)(&one, &to, &to);
        to.cost = to.w / to.v;
        used -= is_real & ~joins;
        most += NAME(any_row)(used > (int32_t)most);
        at ^= at;
        for (size_t j = 0; j < most; j++, at += 1)
            NAME(crowd_put)(where == at, &to, slots + j);
    }
    return most;
}

TARGET static int NAME(compact)(const struct compact *c)
{
    struct merge_work k = divide_compact(c, c->work);
    struct gaussian_crowd *coming = (struct gaussian_crowd *)k.slots, *slots = coming + c->K;
    size_t step = c->n * c->slots, order[WINDOW];
    for (size_t start = 0; start < c->n; start += CROWD) {
        double rest[CROWD][3], origin[CROWD];
        size_t most = 0, rows = smaller(CROWD, c->n - start);
        const size_t *row_at = order + start % WINDOW;
        if (row_at == order)
            NAME(order_rows)(c->weights, start, smaller(WINDOW, c->n - start), c->K, c->light, order);
        NAME(crowd_clear)(coming, c->K, 0.0f);
        NAME(crowd_clear)(slots, c->slots, INFINITY);
        for (size_t i = 0; i < rows; i++) {
            size_t at = row_at[i] * c->K;
            struct gaussians row = {c->K, c->weights + at, c->means + at, k.variances};
            NAME(total_variance)(c->model_variances + at, c->noise_variances + at,
                                 c->input_variances ? c->input_variances + at : NULL, c->K, k.variances);
            size_t count = NAME(part_row)(&row, c->light, rest[i], k.heavy);
            origin[i] = NAME(enter_row)(&row, k.heavy, count, i, coming);
            most = larger(most, count);
        }
        for (size_t h = 0; h < most; h++)
            coming[h].cost = coming[h].w / coming[h].v;
        size_t used = NAME(take_in)(c, coming, most, slots);
        for (size_t i = 0; i < rows; i++) {
            double *out = c->compacted + row_at[i] * c->slots;
            size_t n = 0;
            for (const float *lane = (const float *)slots + i; n < used && lane[0] != 0.0f; n++, lane += 4 * CROWD)
                for (size_t a = 0; a < 3; a++)
                    out[a * step + n] = (double)lane[a * CROWD] + (a == 1 ? origin[i] : 0.0);
            for (size_t a = 0; rest[i][0] > 0.0 && a < 3; a++)
                out[a * step + n] = rest[i][a];
            for (n += rest[i][0] > 0.0; n < c->slots; n++)
                out[n] = out[step + n] = 0.0, out[2 * step + n] = 1.0;
        }
    }
    return 0;
}

/* Store what is left of a row, heaviest first; at most `most`. */
static void NAME(merge_end)(const struct merge *c, size_t row, const float *lane, size_t n, double origin, const double *rest)
{
    double *w = c->merged + row * c->most, *m = w + c->n * c->most, *v = m + c->n * c->most;
    size_t used = 0;
    for (size_t j = 0; j <= n; j++, lane += 4 * CROWD) {
        double one[3] = {rest[0], rest[1], rest[2]};
        for (size_t a = 0; j < n && a < 3; a++)
            one[a] = (double)lane[a * CROWD] + (a == 1 ? origin : 0.0);
        if (one[0] == 0.0 || (used == c->most && !(one[0] > w[used - 1])))
            continue;
        size_t at = used < c->most ? used++ : used - 1;
        for (; at > 0 && w[at - 1] < one[0]; at--) {
            w[at] = w[at - 1];
            m[at] = m[at - 1];
            v[at] = v[at - 1];
        }
        w[at] = one[0];
        m[at] = one[1];
        v[at] = one[2];
    }
    for (; used < c->most; used++) {
        w[used] = m[used] = 0.0;
        v[used] = 1.0;
    }
}

/* Merge the cheapest pair of n slots in each row, time and again; `left` has how many components there are, and how many may
 * not be merged. */
TARGET static void NAME(merge_crowd)(const struct merge *c, size_t n, crowd_mask left, struct gaussian_crowd *slots,
                                     crowd *costs, crowd *fresh)
{
    const crowd_mask none = {0};
    crowd spent = ALL(0.0f), *at = costs;
    struct gaussian_crowd empty;
    NAME(crowd_clear)(&empty, 1, -INFINITY);
    for (size_t a = 1; a < n; a++)
        for (size_t b = 0; b < a; b++)
            NAME(crowd_cost)(slots + b, slots + a, at++);
    crowd_mask from = none - 1, to = from; /* the last merge: none yet */
    for (;;) {
        crowd least = ALL(INFINITY);
        crowd_mask first = none, second = none, row = none + 1;
        at = costs;
        for (size_t a = 1; a < n; a++, row += 1) {
            crowd_mask column = none, is_gone = row == from, is_new = row == to;
            crowd own = fresh[a];
            for (size_t b = 0; b < a; b++, column += 1, at++) {
                crowd cost = SELECT(is_new, fresh[b], SELECT(column == to, own, *at));
                *at = cost = SELECT(is_gone | (column == from), ALL(INFINITY), cost);
                crowd_mask is_less = cost < least;
                least = SELECT(is_less, cost, least);
                first = (row & is_less) | (first & ~is_less);
                second = (column & is_less) | (second & ~is_less);
            }
        }
        crowd_mask goes = (least < INFINITY) & ((left > (int32_t)c->most) | (spent + least <= (float)c->tolerance));
        if (!NAME(any_row)(goes))
            return;
        spent += SELECT(goes, least, ALL(0.0f));
        left += goes;
        from = first | ~goes, to = second | ~goes;
        struct gaussian_crowd one = empty, both = empty;
        crowd_mask j = none;
        for (size_t k = 0; k < n; k++, j += 1) {
            NAME(crowd_put)(j == from, slots + k, &one);
            NAME(crowd_put)(j == to, slots + k, &both);
        }
        crowd log_v;
        NAME(crowd_pair)(&both, &one, &both);
        NAME(crowd_log)(&both.v, &log_v);
        both.cost = both.w * log_v;
        j ^= j;
        for (size_t k = 0; k < n; k++, j += 1) {
            NAME(crowd_put)(j == to, &both, slots + k);
            NAME(crowd_put)(j == from, &empty, slots + k);
            NAME(crowd_cost)(slots + k, &both, fresh + k);
        }
    }
}

TARGET static int NAME(merge)(const struct merge *c)
{
    struct merge_work k = divide_merge(c, c->work);
    struct gaussian_crowd *slots = (struct gaussian_crowd *)k.slots;
    double *cut = k.variances, *shrink = cut + 2 * c->K;
    size_t order[WINDOW];
    for (size_t start = 0; start < c->n; start += CROWD) {
        double rest[CROWD][3], origin[CROWD];
        crowd_mask left = {0};
        size_t most = 0, rows = smaller(CROWD, c->n - start);
        const size_t *row_at = order + start % WINDOW;
        if (row_at == order)
            NAME(order_rows)(c->weights, start, smaller(WINDOW, c->n - start), c->K, c->light, order);
        NAME(crowd_clear)(slots, c->K, -INFINITY);
        for (size_t i = 0; i < rows; i++) {
            size_t at = row_at[i] * c->K, K = used_components(c->weights + at, c->K);
            struct gaussians row = {K, c->weights + at, c->means + at, c->variances + at};
            if (c->lower > -INFINITY && NAME(cut_lanes)(&row, c->lower, c->uncut, c->series_from, cut, cut + c->K, shrink, cut + 3 * c->K)) {
                for (size_t j = 0; j < K; j++)
                    shrink[j] *= row.variances[j];
                row.weights = cut, row.means = cut + c->K, row.variances = shrink;
            }
            size_t count = NAME(part_row)(&row, c->light, rest[i], k.heavy);
            origin[i] = NAME(enter_row)(&row, k.heavy, count, i, slots);
            left[i] = (int32_t)(count + (rest[i][0] > 0.0));
            most = larger(most, count);
        }
        NAME(crowd_logs)(slots, most);
        NAME(merge_crowd)(c, most, left, slots, (crowd *)k.costs, (crowd *)k.fresh);
        for (size_t i = 0; i < rows; i++)
            NAME(merge_end)(c, row_at[i], (const float *)slots + i, most, origin[i], rest[i]);
    }
    return 0;
}

/* Mixtures as they are stored; each row has been cut already, so what they were before is found first. */
TARGET static int NAME(stored)(const struct stored *c)
{
    for (size_t row = 0; row < c->n; row++) {
        double *w = c->mixtures + row * c->most, *m = w + c->n * c->most, *v = m + c->n * c->most, left = 1.0 / c->weight_step;
        size_t heaviest = 0;
        if (c->lower > -INFINITY)
            before_cut(c, w, m, v);
        for (size_t k = 0; k < c->most; k++) {
            left -= w[k] = rint(w[k] / c->weight_step);
            heaviest = w[k] > w[heaviest] ? k : heaviest;
        }
        w[heaviest] += left;
        for (size_t k = 0; k < c->most; k++) {
            double std = sqrt(v[k]), unit = power_below(std), per_std = c->per_std / unit, per_mean = c->per_mean / unit;
            double one[3] = {w[k] * c->weight_step, rint(m[k] * per_mean) / per_mean, rint(std * per_std) / per_std};
            size_t at = k;
            if (!(one[0] > 0.0))
                one[1] = 0.0, one[2] = 1.0;
            for (; at > 0 && w[at - 1] < one[0]; at--) {
                w[at] = w[at - 1];
                m[at] = m[at - 1];
                v[at] = v[at - 1];
            }
            w[at] = one[0];
            m[at] = one[1];
            v[at] = one[2];
        }
    }
    return 0;
}

#undef crowd
#undef crowd_mask
#undef crowd_bits
#undef gaussian_crowd
#undef SELECT
#undef ALL
