/* Training of a network by small batches, many steps in one call, in single precision; included by `_blocks.h`.
 *
 * Arrays are rows first and units are lanes, unlike elsewhere: then forward, backward and gradient are one product whose
 * left factor is read element by element, in any order, and sums over rows or units run in the same order whatever the
 * instruction set. Units are padded with zeros, which stay zero in every step.
 */
#define ACROSS (2 * LANES)
#define TILE_ROWS 6
#define TILE_VECTORS (LANES == 8 ? 4 : 2)
#define unit_vec NAME(unit_vec_t)
typedef float unit_vec __attribute__((vector_size(8 * LANES), may_alias));

/* A matrix read element by element. */
struct NAME(elements) {
    const float *data;
    size_t row, column; /* strides */
};

/* out (rows, vectors) = from + A B, with B (depth, columns); `step` is from row to row of `from`, 0 if all are alike. */
TARGET INLINE void NAME(layer_tile)(size_t rows, size_t vectors, struct NAME(elements) A, const float *restrict B,
                                    size_t depth, size_t columns, const float *from, size_t step, float *out)
{
    unit_vec t[TILE_ROWS][TILE_VECTORS];
    UNROLL for (size_t r = 0; r < rows; r++)
        UNROLL for (size_t v = 0; v < vectors; v++)
            t[r][v] = *(const unit_vec *)(from + r * step + v * ACROSS);
    for (size_t k = 0; k < depth; k++, B += columns)
        UNROLL for (size_t r = 0; r < rows; r++) {
            float a = A.data[r * A.row + k * A.column];
            UNROLL for (size_t v = 0; v < vectors; v++)
                t[r][v] += a * *(const unit_vec *)(B + v * ACROSS);
        }
    UNROLL for (size_t r = 0; r < rows; r++)
        UNROLL for (size_t v = 0; v < vectors; v++)
            *(unit_vec *)(out + r * columns + v * ACROSS) = t[r][v];
}

/* The same for any number of rows, and all columns, a multiple of FLOATS. */
#define WITH_ROWS(count, vectors)                                                                                      \
    case count:                                                                                                        \
        NAME(layer_tile)(count, vectors, tile, B + j, depth, columns, from + r * step + j, step, out + r * columns + j); \
        break;
#define WITH_VECTORS(vectors)                                                                                          \
    for (; j + (vectors) * ACROSS <= columns; j += (vectors) * ACROSS)                                                 \
        for (size_t r = 0; r < rows; r += TILE_ROWS) {                                                                 \
            struct NAME(elements) tile = {A.data + r * A.row, A.row, A.column};                                        \
            switch (smaller(TILE_ROWS, rows - r)) {                                                                    \
                WITH_ROWS(1, vectors)                                                                                  \
                WITH_ROWS(2, vectors)                                                                                  \
                WITH_ROWS(3, vectors)                                                                                  \
                WITH_ROWS(4, vectors)                                                                                  \
                WITH_ROWS(5, vectors)                                                                                  \
                WITH_ROWS(6, vectors)                                                                                  \
            }                                                                                                          \
        }
TARGET static void NAME(layer_product)(struct NAME(elements) A, size_t rows, const float *restrict B, size_t depth,
                                       size_t columns, const float *from, size_t step, float *out)
{
    size_t j = 0;
    WITH_VECTORS(TILE_VECTORS)
#if LANES == 8
    WITH_VECTORS(2)
    WITH_VECTORS(1)
#endif
}
#undef WITH_ROWS
#undef WITH_VECTORS

/* Bits that differ at random from one number to the next (the constants are those of Wellons' lowbias32). */
INLINE uint32_t NAME(scramble)(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

/* Units of a row: a sigmoid(a) in place of a, and the slopes. Units whose bits are below `least` are left out. */
TARGET static void NAME(activate_row)(float *restrict a, float *restrict slope, size_t units, uint32_t first, uint32_t seed,
                                      uint32_t least, float scale)
{
    for (size_t i = 0; i < units; i++) {
        float x = a[i] < -60.0f ? -60.0f : a[i], gate = 1.0f / (1.0f + exp_float(-x)), value = a[i] * gate;
        float mask = NAME(scramble)((first + (uint32_t)i) * 0x9e3779b9u + seed) >= least ? scale : 0.0f;
        a[i] = mask * value;
        slope[i] = mask * (gate + value * (1.0f - gate));
    }
}

TARGET static void NAME(activate_plainly)(float *restrict a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] /= 1.0f + exp_float(a[i] < -60.0f ? 60.0f : -a[i]);
}

/* What belongs to the rows of a chunk but inputs; without weight beyond the last. Returns a multiple of FLOATS. */
static size_t NAME(gather)(const struct network_rows *c, const int64_t *which, size_t count, const struct descent_work *w)
{
    const float *const from[] = {c->y, c->omega, c->variance, c->wrong};
    for (size_t i = 0; i < count; i++)
        memcpy(w->hidden + i * c->d, c->X + (size_t)which[i] * c->d, c->d * sizeof(float));
    for (size_t a = 0; a < 4; a++)
        for (size_t i = 0; i < CHUNK; i++)
            w->rows[a * CHUNK + i] = from[a] && i < count ? from[a][which[i]] : 0.0f;
    return padded((int64_t)count);
}

/* Log-likelihood of rows from outputs O (3 K, CHUNK), whose place the gradient takes; R has targets and so on. */
TARGET static double NAME(heads_chunk)(const struct network_shape *c, size_t n, const float *restrict R, float *restrict O,
                                       int has_variance, int has_wrong)
{
    const float *restrict y = R, *restrict omega = R + CHUNK, *restrict v = R + 2 * CHUNK, *restrict q = R + 3 * CHUNK;
    const float least = (float)c->min_log_beta, most = (float)c->max_log_beta;
    size_t K = c->K;
    ALIGNED float top[CHUNK], sum[CHUNK], best[CHUNK], total[CHUNK], weight[CHUNK];
    double result = 0.0;
    for (size_t i = 0; i < n; i++)
        top[i] = O[2 * K * CHUNK + i], sum[i] = total[i] = 0.0f, best[i] = -INFINITY, weight[i] = omega[i];
    for (size_t k = 1; k < K; k++) {
        const float *restrict g = O + (2 * K + k) * CHUNK;
        for (size_t i = 0; i < n; i++)
            top[i] = g[i] > top[i] ? g[i] : top[i];
    }
    for (size_t k = 0; k < K; k++) {
        const float *restrict g = O + (2 * K + k) * CHUNK;
        for (size_t i = 0; i < n; i++)
            sum[i] += exp_float(g[i] - top[i]);
    }
    for (size_t i = 0; i < n; i++)
        top[i] += (float)log_one((double)sum[i]);
    for (size_t k = 0; k < K; k++) { /* ln beta becomes the precision, gates ln pi */
        const float *restrict f = O + k * CHUNK;
        float *restrict b = O + (K + k) * CHUNK, *restrict g = O + (2 * K + k) * CHUNK, *restrict t = O + (3 * K + k) * CHUNK;
        for (size_t i = 0; i < n; i++) {
            float inside = b[i] < least ? least : b[i];
            inside = inside > most ? most : inside;
            b[i] = exp_float(inside);
            t[i] = inside;
            g[i] -= top[i];
        }
        for (size_t i = 0; has_variance && i < n; i++) {
            float more = 1.0f + b[i] * v[i];
            t[i] -= (float)log_one((double)more);
            b[i] /= more;
        }
        for (size_t i = 0; i < n; i++) {
            float residual = y[i] - f[i];
            t[i] = g[i] + 0.5f * (t[i] - b[i] * residual * residual - (float)LOG_2PI);
            best[i] = t[i] > best[i] ? t[i] : best[i];
        }
    }
    for (size_t k = 0; k < K; k++) {
        const float *restrict t = O + (3 * K + k) * CHUNK;
        for (size_t i = 0; i < n; i++)
            total[i] += exp_float(t[i] - best[i]);
    }
    for (size_t i = 0; i < n; i++)
        total[i] = best[i] + (float)log_one((double)total[i]);
    for (size_t k = 0; k < K; k++) {
        float *restrict f = O + k * CHUNK, *restrict b = O + (K + k) * CHUNK, *restrict g = O + (2 * K + k) * CHUNK;
        const float *restrict t = O + (3 * K + k) * CHUNK;
        for (size_t i = 0; i < n; i++) {
            float share = exp_float(t[i] - total[i]), residual = y[i] - f[i], misfit = b[i] * residual * residual;
            f[i] = share * b[i] * residual;
            b[i] = 0.5f * share * (1.0f - misfit) * (1.0f - b[i] * v[i]); /* d ln precision / d ln beta */
            g[i] = share - exp_float(g[i]);
        }
    }
    for (size_t i = 0; has_wrong && i < n; i++) { /* right with what the mixture says, or else from anywhere */
        double right = log1p(-(double)q[i]) + (double)total[i];
        double wrong = log((double)q[i]) - 0.5 * ((double)y[i] * (double)y[i] + LOG_2PI);
        double larger_one = right > wrong ? right : wrong, both = larger_one + log(exp(right - larger_one) + exp(wrong - larger_one));
        weight[i] *= (float)exp(right - both);
        total[i] = (float)both;
    }
    for (size_t k = 0; k < 3 * K; k++)
        for (size_t i = 0; i < n; i++)
            O[k * CHUNK + i] *= weight[i];
    for (size_t i = 0; i < n; i++)
        result += (double)omega[i] * (double)total[i];
    return result;
}

/* Log-likelihood of a chunk of rows; with `descent` the gradient is added to that of the batch, of whose rows `first` is
 * the first. */
TARGET static double NAME(network_chunk)(const struct network_shape *c, const struct network_rows *rows,
                                         const int64_t *which, size_t count, size_t first, const struct descent *descent,
                                         const struct descent_work *w)
{
    size_t L = c->n_layers, n = NAME(gather)(rows, which, count, w), outputs = 3 * c->K, wide = padded((int64_t)outputs);
    size_t all_units = 0, before = 0, place = 0, stride = rows->d;
    float *O = w->rows + 4 * CHUNK;
    for (size_t l = 1; l < L; l++)
        all_units += (size_t)c->units[l];
    for (size_t l = 0; l < L; l++) {
        size_t inputs = (size_t)c->units[l], units = (size_t)c->units[l + 1], columns = padded(c->units[l + 1]);
        struct NAME(elements) A = {w->hidden + l * w->step, stride, 1};
        float *out = w->hidden + (l + 1) * w->step, *slope = w->slopes + l * w->step;
        NAME(layer_product)(A, count, w->theta + place, inputs, columns, w->theta + place + inputs * columns, 0, out);
        if (l + 1 < L && !descent)
            NAME(activate_plainly)(out, count * columns);
        for (size_t i = 0; l + 1 < L && descent && i < count; i++)
            NAME(activate_row)(out + i * columns, slope + i * columns, columns, (uint32_t)((first + i) * all_units + before),
                               (uint32_t)descent->seed, (uint32_t)(descent->dropout * 4294967296.0),
                               (float)(1.0 / (1.0 - descent->dropout)));
        place += (inputs + 1) * columns;
        before += units;
        stride = columns;
    }
    for (size_t k = 0; k < outputs; k++)
        for (size_t i = 0; i < n; i++)
            O[k * CHUNK + i] = i < count ? w->hidden[L * w->step + i * wide + k] : 0.0f;
    double result = NAME(heads_chunk)(c, n, w->rows, O, rows->variance != NULL, rows->wrong != NULL);
    if (!descent)
        return result;
    float *G = w->G, *next = w->other, *kept;
    memset(G, 0, count * wide * sizeof(float));
    for (size_t k = 0; k < outputs; k++)
        for (size_t i = 0; i < count; i++)
            G[i * wide + k] = O[k * CHUNK + i];
    for (size_t l = L; l-- > 0;) {
        size_t inputs = (size_t)c->units[l], columns = padded(c->units[l + 1]), across = l ? padded(c->units[l]) : rows->d;
        place -= (inputs + 1) * columns;
        float *gradient = w->gradient + place, *restrict bias = gradient + inputs * columns;
        struct NAME(elements) turned = {w->hidden + l * w->step, 1, across}, plain = {G, columns, 1};
        NAME(layer_product)(turned, inputs, G, count, columns, gradient, columns, gradient);
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < columns; j++)
                bias[j] += G[i * columns + j];
        if (!l)
            break;
        NAME(layer_product)(plain, count, w->transposed + l * (w->step / CHUNK) * (w->step / CHUNK), (size_t)c->units[l + 1],
                            across, w->zeros, 0, next);
        const float *restrict slope = w->slopes + (l - 1) * w->step;
        float *restrict out = next;
        for (size_t i = 0; i < count * across; i++)
            out[i] *= slope[i];
        kept = G, G = next, next = kept;
    }
    return result;
}

/* Layers but the first, transposed. */
TARGET static void NAME(transpose_layers)(const struct network_shape *c, const struct descent_work *w)
{
    size_t place = ((size_t)c->units[0] + 1) * padded(c->units[1]), widest = w->step / CHUNK;
    for (size_t l = 1; l < c->n_layers; l++) {
        size_t inputs = (size_t)c->units[l], units = (size_t)c->units[l + 1], columns = padded(c->units[l + 1]);
        size_t across = padded(c->units[l]);
        float *restrict out = w->transposed + l * widest * widest;
        const float *restrict layer = w->theta + place;
        for (size_t j = 0; j < units; j++)
            for (size_t i = 0; i < across; i++)
                out[j * across + i] = i < inputs ? layer[i * columns + j] : 0.0f;
        place += (inputs + 1) * columns;
    }
}

/* A step of Adam against the gradient of `size` rows; returns its norm per row. */
TARGET static double NAME(adam_step)(const struct descent *c, const double *schedule, const struct descent_work *w)
{
    float *restrict theta = w->theta, *restrict mean = w->mean, *restrict first = w->first, *restrict second = w->second;
    const float *restrict gradient = w->gradient;
    size_t size = padded_size(&c->shape), l = 0, end = 0;
    double sums[FLOATS] = {0.0}, norm = 0.0;
    for (size_t i = 0; i < size; i += FLOATS)
        for (size_t j = 0; j < FLOATS; j++)
            sums[j] += (double)gradient[i + j] * (double)gradient[i + j];
    for (size_t j = 0; j < FLOATS; j++)
        norm += sums[j];
    norm = sqrt(norm) / (double)c->adam.size;
    const float scale = (float)(-(norm > c->adam.max_norm ? c->adam.max_norm / norm : 1.0) / (double)c->adam.size);
    const float towards = (float)(1.0 - schedule[1]), forget = (float)c->adam.forget, rate = (float)schedule[2];
    const float root_scale = (float)schedule[3], epsilon = (float)c->adam.epsilon, memory = (float)c->adam.memory;
    for (size_t start = 0; l < c->shape.n_layers; l++, start = end) {
        size_t columns = padded(c->shape.units[l + 1]), biases = start + (size_t)c->shape.units[l] * columns;
        end = biases + columns;
        for (size_t part = 0; part < 2; part++) { /* weights, which decay, and biases, which do not */
            const float keep = part ? 1.0f : (float)(1.0 - schedule[0] * c->decay);
            for (size_t i = part ? biases : start; i < (part ? end : biases); i++) {
                float g = scale * gradient[i];
                first[i] += towards * (g - first[i]);
                second[i] += forget * (g * g - second[i]);
                theta[i] = keep * theta[i] - rate * first[i] / (sqrtf(second[i] * root_scale) + epsilon);
                mean[i] += memory * (theta[i] - mean[i]);
            }
        }
    }
    return norm;
}

TARGET static int NAME(descent)(const struct descent *c)
{
    struct descent_work w = divide_descent(&c->shape, 1, c->work);
    float *const padded_state[] = {w.theta, w.mean, w.first, w.second}, *const state[] = {c->theta, c->mean, c->first, c->second};
    for (size_t a = 0; a < 4; a++)
        pad_layers(&c->shape, state[a], padded_state[a]);
    memset(w.zeros, 0, w.step / CHUNK * sizeof(float));
    for (size_t batch = 0; batch < c->adam.n_batches; batch++) {
        memset(w.gradient, 0, padded_size(&c->shape) * sizeof(float));
        NAME(transpose_layers)(&c->shape, &w);
        for (size_t start = 0; start < c->adam.size; start += CHUNK) {
            size_t first = batch * c->adam.size + start;
            *c->log_likelihood += NAME(network_chunk)(&c->shape, &c->rows, c->adam.order + first, smaller(CHUNK, c->adam.size - start),
                                                      first, c, &w);
        }
        *c->norm = NAME(adam_step)(c, c->adam.schedule + 4 * batch, &w);
    }
    for (size_t a = 0; a < 4; a++)
        unpad_layers(&c->shape, padded_state[a], state[a]);
    return 0;
}

TARGET static int NAME(network_score)(const struct network_score *c)
{
    struct descent_work w = divide_descent(&c->shape, 0, c->work);
    int64_t which[CHUNK];
    pad_layers(&c->shape, c->layers, w.theta);
    for (size_t start = 0; start < c->rows.n; start += CHUNK) {
        size_t count = smaller(CHUNK, c->rows.n - start);
        for (size_t i = 0; i < count; i++)
            which[i] = (int64_t)(start + i);
        *c->log_likelihood += NAME(network_chunk)(&c->shape, &c->rows, which, count, 0, NULL, &w);
    }
    return 0;
}

/* A step of Adam on numbers in double precision. */
TARGET static int NAME(adam_step_of)(const struct adam_step_of *c)
{
    double *restrict theta = c->theta, *restrict mean = c->mean, *restrict first = c->first, *restrict second = c->second;
    const double *restrict gradient = c->gradient;
    double sums[FLOATS] = {0.0}, norm = 0.0;
    size_t i = 0;
    for (; i + FLOATS <= c->size; i += FLOATS)
        for (size_t j = 0; j < FLOATS; j++)
            sums[j] += gradient[i + j] * gradient[i + j];
    for (; i < c->size; i++)
        sums[0] += gradient[i] * gradient[i];
    for (size_t j = 0; j < FLOATS; j++)
        norm += sums[j];
    norm = *c->norm = sqrt(norm) / (double)c->adam->size;
    const double scale = -(norm > c->adam->max_norm ? c->adam->max_norm / norm : 1.0) / (double)c->adam->size;
    const double towards = 1.0 - c->schedule[1], rate = c->schedule[2], root_scale = c->schedule[3];
    const double forget = c->adam->forget, epsilon = c->adam->epsilon, memory = c->adam->memory;
    for (i = 0; i < c->size; i++) {
        double g = scale * gradient[i];
        first[i] += towards * (g - first[i]);
        second[i] += forget * (g * g - second[i]);
        theta[i] -= rate * first[i] / (sqrt(second[i] * root_scale) + epsilon);
        mean[i] += memory * (theta[i] - mean[i]);
    }
    return 0;
}

#undef ACROSS
#undef TILE_ROWS
#undef TILE_VECTORS
#undef unit_vec
