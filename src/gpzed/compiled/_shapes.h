/* Small algebra on the shape of each basis function: coefficients of the quadratic map under uncertain inputs, the way
 * back from their gradient, and the prior on shapes.
 */

/* What uncertain inputs do to one shape. With R = I + V' Lambda V = L L': */
struct blurred {
    double *log_det;   /* of R; NaN if that is not finite */
    double *star;      /* Lambda - A'A, (d, d) */
    double *A, *K;     /* L^-1 V' Lambda and L^-1 V', (r, d) */
    double *L, *G, *H; /* (r, r), (d, d), (r, d): for a while */
};

static size_t blurred_size(const struct shapes *s) { return 1 + s->d * s->d + 2 * s->r * s->d; }

/* Shapes whose results are there at the same time: all of them if they are left to the gradient. */
static size_t n_blurred(const struct shapes *s, size_t keeps) { return keeps && !s->is_shared ? s->m : 1; }

static size_t shapes_work_size(const struct shapes *s, size_t keeps)
{
    return n_blurred(s, keeps) * blurred_size(s) + s->r * s->r + s->d * s->d + s->r * s->d;
}

size_t gpzed_blur_work_size(const struct blur *c) { return shapes_work_size(&c->shapes, c->keeps); }
size_t gpzed_blur_gradient_work_size(const struct blur_gradient *c) { return shapes_work_size(&c->shapes, c->recalls); }
size_t gpzed_shape_prior_work_size(const struct shape_prior *c) { return 3 * c->d * c->d; }

/* Memory for basis function j. */
static struct blurred blurred_of(const struct shapes *s, double *work, size_t keeps, size_t j)
{
    size_t d = s->d, r = s->r, count = n_blurred(s, keeps), size = blurred_size(s);
    struct blurred b = {.log_det = work + (count > 1 ? j : 0) * size};
    b.star = b.log_det + 1;
    b.A = b.star + d * d;
    b.K = b.A + r * d;
    b.L = work + count * size;
    b.G = b.L + r * r;
    b.H = b.G + d * d;
    return b;
}

/* Lower factor of a positive definite matrix, in its place; the diagonal is that of L^-1. Gives ln |matrix|, or NaN. */
static double factorise(double *R, size_t r)
{
    double log_det = 0.0;
    for (size_t i = 0; i < r; i++)
        for (size_t l = 0; l <= i; l++) {
            double sum = R[i * r + l];
            for (size_t h = 0; h < l; h++)
                sum -= R[i * r + h] * R[l * r + h];
            if (l < i)
                R[i * r + l] = sum * R[l * r + l];
            else if (sum > 0.0 && sum < INFINITY) {
                log_det += log(sum);
                R[i * r + i] = 1.0 / sqrt(sum);
            } else
                return NAN;
        }
    return log_det;
}

/* L^-1 in the place of L as `factorise` leaves it. */
static void invert_lower(double *L, size_t r)
{
    for (size_t i = 0; i < r; i++)
        for (size_t l = 0; l < i; l++) { /* row i of L is needed from column l + 1 on */
            double sum = 0.0;
            for (size_t h = l; h < i; h++)
                sum += L[i * r + h] * L[h * r + l];
            L[i * r + l] = -sum * L[i * r + i];
        }
}

/* x (r, d) <- L^-1 x */
static void substitute(const double *L, size_t r, size_t d, double *x)
{
    for (size_t i = 0; i < r; i++) {
        double *restrict row = x + i * d;
        for (size_t h = 0; h < i; h++)
            for (size_t l = 0; l < d; l++)
                row[l] -= L[i * r + h] * x[h * d + l];
        for (size_t l = 0; l < d; l++)
            row[l] *= L[i * r + i];
    }
}

static void blur_one(const struct shapes *s, const double *Lambda, const struct blurred *b)
{
    size_t d = s->d, r = s->r;
    for (size_t i = 0; i < r; i++) {
        double *restrict A = b->A + i * d, *restrict K = b->K + i * d;
        for (size_t l = 0; l < d; l++) {
            A[l] = 0.0;
            K[l] = s->V[l * r + i];
        }
        for (size_t k = 0; k < d; k++)
            for (size_t l = 0; l < d; l++)
                A[l] += s->V[k * r + i] * Lambda[k * d + l];
        for (size_t j = 0; j <= i; j++) {
            double sum = i == j;
            for (size_t l = 0; l < d; l++)
                sum += A[l] * s->V[l * r + j];
            b->L[i * r + j] = sum;
        }
    }
    *b->log_det = factorise(b->L, r);
    substitute(b->L, r, d, b->A);
    substitute(b->L, r, d, b->K);
    memcpy(b->star, Lambda, d * d * sizeof(double));
    for (size_t i = 0; i < r; i++) {
        const double *A = b->A + i * d;
        for (size_t k = 0; k < d; k++) {
            double *restrict row = b->star + k * d;
            for (size_t l = 0; l < d; l++)
                row[l] -= A[k] * A[l];
        }
    }
}

/* Returns 1 if a shape is not finite. */
int gpzed_blur(const struct blur *c)
{
    const struct shapes *s = &c->shapes;
    size_t d = s->d;
    double *C = c->Ct;
    for (size_t j = 0; j < s->m; j++) {
        struct blurred b = blurred_of(s, c->work, c->keeps, j);
        const double *p = s->P + j * d;
        if (j == 0 || !s->is_shared)
            blur_one(s, s->Lambda + j * d * d, &b);
        if (isnan(*b.log_det))
            return 1;
        double *constant = C++;
        *constant = -0.5 * *b.log_det;
        for (size_t k = 0; k < d; k++) {
            double sum = 0.0;
            for (size_t l = 0; l < d; l++)
                sum += b.star[k * d + l] * p[l];
            *constant -= 0.5 * p[k] * sum;
            *C++ = sum;
        }
        for (size_t k = 0; k < d; k++)
            for (size_t l = k; l < d; l++)
                *C++ = (k == l ? -0.5 : -1.0) * b.star[k * d + l];
    }
    return 0;
}

/* Returns 1 if a shape is not finite.
 *
 * The change of Lambda* is T' dLambda T with T = I - K'A, that of ln |R| is K dLambda K'. With G the gradient for Lambda*
 * the one for Lambda is T G T' - 1/2 sum_G K'K = G + K'H + H'K, H = 1/2 (A G A' - 1/2 sum_G) K - A G.
 */
int gpzed_blur_gradient(const struct blur_gradient *c)
{
    const struct shapes *s = &c->shapes;
    size_t d = s->d, r = s->r, m = s->m;
    for (size_t j = 0; j < m; j++) {
        struct blurred b = blurred_of(s, c->work, c->recalls, j);
        const double *p = s->P + j * d, *g = c->grad_C + j;
        double sum_G = g[0], *restrict grad_P = c->grad_P + j * d;
        if (!c->recalls && (j == 0 || !s->is_shared))
            blur_one(s, s->Lambda + j * d * d, &b);
        if (isnan(*b.log_det))
            return 1;
        for (size_t k = 0, row = d + 1; k < d; k++) {
            double G_k = g[(k + 1) * m], shift_k = G_k - sum_G * p[k];
            for (size_t l = 0; l < d; l++)
                grad_P[l] += b.star[k * d + l] * shift_k; /* Eq. C.12 */
            for (size_t l = k; l < d; l++, row++) { /* cf. Eq. C.13 */
                double shift_l = g[(l + 1) * m] - sum_G * p[l];
                b.G[k * d + l] = b.G[l * d + k] = -0.5 * (g[row * m] - G_k * p[l] - p[k] * shift_l);
            }
        }
        for (size_t i = 0; i < r; i++) {
            double *restrict H = b.H + i * d;
            memset(H, 0, d * sizeof(double));
            for (size_t k = 0; k < d; k++)
                for (size_t l = 0; l < d; l++)
                    H[l] -= b.A[i * d + k] * b.G[k * d + l];
        }
        for (size_t i = 0; i < r; i++)
            for (size_t h = 0; h < r; h++) {
                double sum = i == h ? -0.5 * sum_G : 0.0;
                for (size_t l = 0; l < d; l++)
                    sum -= b.H[i * d + l] * b.A[h * d + l];
                b.L[i * r + h] = 0.5 * sum; /* the factor is not needed any more */
            }
        for (size_t i = 0; i < r; i++)
            for (size_t h = 0; h < r; h++)
                for (size_t l = 0; l < d; l++)
                    b.H[i * d + l] += b.L[i * r + h] * b.K[h * d + l];
        for (size_t k = 0; k < d; k++) {
            double *restrict out = c->grad_Lambda + (s->is_shared ? 0 : j * d * d) + k * d;
            for (size_t l = 0; l < d; l++)
                out[l] += b.G[k * d + l];
            for (size_t i = 0; i < r; i++) {
                const double *K = b.K + i * d, *H = b.H + i * d;
                for (size_t l = 0; l < d; l++)
                    out[l] += K[k] * H[l] + H[k] * K[l];
            }
        }
    }
    return 0;
}

/* grad_Lambda (m, d, d) += scale times the inverse of Lambda, which is (m, d, d); `log_det` += scale ln |Lambda|. */
static int add_inverses(const double *Lambda, size_t m, size_t d, double scale, double *work, double *log_det,
                        double *grad_Lambda)
{
    for (size_t j = 0; j < m; j++, Lambda += d * d, grad_Lambda += d * d) {
        memcpy(work, Lambda, d * d * sizeof(double));
        double one = factorise(work, d);
        if (isnan(one))
            return 1;
        *log_det += scale * one;
        invert_lower(work, d);
        for (size_t i = 0; i < d; i++)
            for (size_t k = 0; k <= i; k++)
                for (size_t l = 0; l <= i; l++)
                    grad_Lambda[k * d + l] += scale * work[i * d + k] * work[i * d + l];
    }
    return 0;
}

/* Returns 1 if a shape is not positive definite. */
int gpzed_shape_prior(const struct shape_prior *s)
{
    size_t d = s->d, size = d * d, m = s->m;
    double *mean = s->work, *inverse = mean + size, *work = inverse + size, log_det = 0.0, log_det_mean = 0.0;
    memset(mean, 0, 2 * size * sizeof(double));
    for (size_t j = 0; j < m; j++)
        for (size_t k = 0; k < size; k++)
            mean[k] += s->Lambda[j * size + k] / (double)m;
    if (add_inverses(mean, 1, d, 0.5 * s->kappa, work, &log_det_mean, inverse) ||
        add_inverses(s->Lambda, m, d, 0.5 * s->kappa, work, &log_det, s->grad_Lambda))
        return 1;
    for (size_t j = 0; j < m; j++)
        for (size_t k = 0; k < size; k++)
            s->grad_Lambda[j * size + k] -= inverse[k];
    *s->value += log_det - (double)m * log_det_mean;
    return 0;
}

/* Returns 1 if a matrix is not finite. */
int gpzed_pair_factors(const struct pair_factors *c)
{
    size_t r = c->r;
    double L[MAX_RANK * MAX_RANK], *out = c->factors;
    for (size_t pair = 0; pair < c->count; pair++) {
        const double *one = c->VLV + c->j[pair] * r * r, *two = c->VLV + c->k[pair] * r * r;
        for (size_t i = 0; i < r * r; i++)
            L[i] = one[i] + two[i];
        for (size_t i = 0; i < r; i++)
            L[i * r + i] += 1.0;
        double log_det = factorise(L, r);
        if (isnan(log_det))
            return 1;
        invert_lower(L, r);
        *out++ = -0.5 * log_det;
        for (size_t i = 0; i < r; i++)
            for (size_t l = 0; l <= i; l++)
                *out++ = 0.7071067811865476 * L[i * r + l];
    }
    return 0;
}
