/* The log posterior of heads given a batch, and its gradient for all parameters: P (m, d), Gamma and Theta (m + k, 3 K), one after the other in theta.
 */
enum gamma { ISOTROPIC, DIAGONAL, MATRIX };

/* Memory for a batch. */
struct posterior_work {
    double *Lambda, *grad_Lambda, *Ct, *grad_C, *shapes, *heads;
    double *end;
};

static size_t gamma_size(const struct posterior *s)
{
    size_t each = s->gamma == MATRIX ? s->d * s->d : s->gamma == DIAGONAL ? s->d : 1;
    return each * (s->is_shared ? 1 : s->m);
}

static struct basis posterior_basis(const struct posterior *s, const double *Ct)
{
    struct basis basis = {.m = s->m, .q = 1 + s->d + s->d * (s->d + 1) / 2, .k = s->k, .is_full = 1, .Ct = Ct};
    return basis;
}

static struct posterior_work divide_posterior(const struct posterior *s, double *next)
{
    struct basis basis = posterior_basis(s, NULL);
    size_t g = s->is_shared ? 1 : s->m, r = 0;
    struct posterior_work w;
    for (size_t i = 0; i < s->n_parts; i++)
        r = s->parts[i].r > r ? s->parts[i].r : r;
    struct shapes shapes = {.m = s->m, .d = s->d, .r = r};
    struct heads heads = {.basis = basis, .outputs = s->outputs};
    w.Lambda = take(&next, g * s->d * s->d);
    w.grad_Lambda = take(&next, g * s->d * s->d);
    w.Ct = take(&next, s->m * basis.q);
    w.grad_C = take(&next, s->m * basis.q);
    w.shapes = take(&next, shapes_work_size(&shapes, 1) + 3 * s->d * s->d);
    w.heads = take(&next, gpzed_heads_work_size(&heads));
    w.end = next;
    return w;
}

size_t gpzed_posterior_work_size(const struct posterior *s) { return numbers(divide_posterior(s, NULL).end); }

/* Lambda = Gamma' Gamma, (m or 1, d, d). */
static void expand(const struct posterior *s, const double *Gamma, double *restrict Lambda)
{
    size_t d = s->d;
    memset(Lambda, 0, (s->is_shared ? 1 : s->m) * d * d * sizeof(double));
    for (size_t j = 0; j < (s->is_shared ? 1 : s->m); j++, Lambda += d * d)
        if (s->gamma == MATRIX)
            for (size_t i = 0; i < d; i++)
                for (size_t k = 0; k < d; k++)
                    for (size_t l = 0; l < d; l++)
                        Lambda[k * d + l] += Gamma[(j * d + i) * d + k] * Gamma[(j * d + i) * d + l];
        else
            for (size_t k = 0; k < d; k++) {
                double gamma = s->gamma == DIAGONAL ? Gamma[j * d + k] : Gamma[j];
                Lambda[k * d + k] = gamma * gamma;
            }
}

/* grad_Gamma += what grad_Lambda asks of Gamma (Eq. C.13, C.15, C.17). */
static void fold(const struct posterior *s, const double *Gamma, const double *grad_Lambda, double *restrict grad_Gamma)
{
    size_t d = s->d;
    for (size_t j = 0; j < (s->is_shared ? 1 : s->m); j++, grad_Lambda += d * d)
        if (s->gamma == MATRIX)
            for (size_t i = 0; i < d; i++)
                for (size_t k = 0; k < d; k++)
                    for (size_t l = 0; l < d; l++)
                        grad_Gamma[(j * d + i) * d + l] += 2.0 * Gamma[(j * d + i) * d + k] * grad_Lambda[k * d + l];
        else
            for (size_t k = 0; k < d; k++) {
                size_t place = s->gamma == DIAGONAL ? j * d + k : j;
                grad_Gamma[place] += 2.0 * Gamma[place] * grad_Lambda[k * d + k];
            }
}

/* Returns 1 if shapes are not finite or not positive definite. */
int gpzed_posterior(const struct posterior *s)
{
    struct posterior_work w = divide_posterior(s, s->work);
    size_t m = s->m, g = s->is_shared ? 1 : m, n_Gamma = gamma_size(s), n_Theta = (m + s->k) * 3 * s->outputs.K;
    const double *P = s->theta, *Gamma = P + m * s->d, *Theta = Gamma + n_Gamma;
    double *grad_P = s->gradient, *grad_Gamma = grad_P + m * s->d, *grad_Theta = grad_Gamma + n_Gamma;
    struct basis basis = posterior_basis(s, w.Ct);
    struct head_outputs outputs = s->outputs;
    outputs.Theta = Theta;
    memset(s->gradient, 0, (m * s->d + n_Gamma + n_Theta) * sizeof(double));
    memset(w.grad_Lambda, 0, g * s->d * s->d * sizeof(double));
    expand(s, Gamma, w.Lambda);
    *s->value = 0.0;
    for (size_t i = 0; i < s->n_parts; i++) {
        const struct part *part = s->parts + i;
        struct shapes shapes = {m, s->d, part->r, s->is_shared && m > 1, P, w.Lambda, part->V};
        struct blur blur = {shapes, 1, w.shapes, w.Ct};
        struct heads heads = {part->inputs, part->targets, basis, outputs, w.heads, w.grad_C, grad_Theta, s->value};
        struct blur_gradient back = {shapes, 1, w.shapes, w.grad_C, grad_P, w.grad_Lambda};
        memset(w.grad_C, 0, basis.q * m * sizeof(double));
        if (gpzed_blur(&blur) || gpzed_heads(&heads) || gpzed_blur_gradient(&back))
            return 1;
    }
    struct shape_prior prior = {m, s->d, s->kappa, w.Lambda, w.shapes, s->value, w.grad_Lambda};
    if (s->kappa != 0.0 && !s->is_shared && m > 1 && gpzed_shape_prior(&prior))
        return 1;
    fold(s, Gamma, w.grad_Lambda, grad_Gamma);
    for (size_t i = 0; i < m * 3 * s->outputs.K; i++) {
        *s->value -= 0.5 * s->ridge * Theta[i] * Theta[i];
        grad_Theta[i] -= s->ridge * Theta[i];
    }
    return 0;
}

/* Memory of steps by batches: the rows of one, and what its posterior needs. */
struct heads_descent_work {
    double *X, *y, *omega, *v, *gradient, *posterior;
    struct part *parts;
    double *end;
};

static size_t posterior_size(const struct posterior *s)
{
    return s->m * s->d + gamma_size(s) + (s->m + s->k) * 3 * s->outputs.K;
}

static struct heads_descent_work divide_heads_descent(const struct heads_descent *c, double *next)
{
    size_t size = c->adam.size;
    struct heads_descent_work w;
    w.X = take(&next, size * c->posterior.d);
    w.y = take(&next, size);
    w.omega = take(&next, size);
    w.v = take(&next, c->v ? size * c->posterior.outputs.K : 0);
    w.gradient = take(&next, posterior_size(&c->posterior));
    w.parts = (struct part *)take(&next, size * (sizeof(struct part) / sizeof(double) + 1));
    w.posterior = take(&next, numbers(divide_posterior(&c->posterior, NULL).end));
    w.end = next;
    return w;
}

size_t gpzed_heads_descent_work_size(const struct heads_descent *c) { return numbers(divide_heads_descent(c, NULL).end); }

/* Rows of a batch as parts of one kind each; returns how many parts there are. */
static size_t gather_parts(const struct heads_descent *c, const int64_t *order, const struct heads_descent_work *w)
{
    size_t d = c->posterior.d, K = c->posterior.outputs.K, size = c->adam.size, n_parts = 0, end;
    for (size_t start = 0; start < size; start = end, n_parts++) {
        int64_t kind = c->kind ? c->kind[order[start]] : 0;
        for (end = start; end < size && (c->kind ? c->kind[order[end]] : 0) == kind; end++)
            ;
        size_t n = end - start;
        int has_v = c->v && (kind || c->all_vary);
        double *X = w->X + start * d, *v = w->v + start * K;
        struct inputs inputs = {n, d, (ptrdiff_t)n, 1, X};
        struct targets targets = {.y = w->y + start, .omega = w->omega + start, .v = has_v ? v : NULL};
        struct part part = {inputs, targets, c->posterior.parts[kind].r, c->posterior.parts[kind].V};
        for (size_t i = 0; i < n; i++) {
            size_t row = (size_t)order[start + i];
            w->y[start + i] = c->y[row];
            w->omega[start + i] = c->omega[row];
            for (size_t k = 0; k < d; k++)
                X[k * n + i] = c->X[row * d + k];
            for (size_t k = 0; has_v && k < K; k++)
                v[k * n + i] = c->v[row * K + k];
        }
        w->parts[n_parts] = part;
    }
    return n_parts;
}

/* Returns 1 if shapes are not finite or not positive definite in the batch after the last that is done. */
int gpzed_heads_descent(const struct heads_descent *c)
{
    struct heads_descent_work w = divide_heads_descent(c, c->work);
    struct posterior posterior = c->posterior;
    double value;
    posterior.parts = w.parts;
    posterior.theta = c->theta;
    posterior.gradient = w.gradient;
    posterior.value = &value;
    posterior.work = w.posterior;
    for (size_t batch = c->first; batch < c->adam.n_batches; batch++) {
        struct adam_step_of step = {
            &c->adam, c->adam.schedule + 4 * batch, posterior_size(&c->posterior), w.gradient,
            c->theta, c->mean, c->first_moment, c->second_moment, c->norm,
        };
        posterior.n_parts = gather_parts(c, c->adam.order + batch * c->adam.size, &w);
        if (gpzed_posterior(&posterior))
            return 1;
        gpzed_adam_step_of(&step);
        *c->value += value;
        *c->done = (double)(batch + 1);
    }
    return 0;
}
