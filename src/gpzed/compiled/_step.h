/* One step of the training of heads: likelihood of a batch, prior, gradient for all parameters, and Adam; the same as
 * `stochastic.Adam`. Parameters are P (m, d), Gamma and Theta (m + k, 3 K), one after the other in theta.
 */
enum gamma { ISOTROPIC, DIAGONAL, MATRIX };

struct step {
    size_t m, d, k, K, gamma, is_shared;      /* basis functions, structure of Gamma */
    size_t n_blocks;
    const struct call *blocks;                /* rows of one kind each: n, strides, Xt, y, omega, v */
    const size_t *ranks;                      /* of the kinds of the blocks */
    const double *const *V;                   /* (d, r) of each */
    double kappa, ridge, scale;               /* of the priors, and of the gradient: -1 / rows */
    double max_norm, momentum, decay, rate;   /* of Adam, */
    double root_scale, epsilon;               /* the rate being corrected for the start, root_scale = 1 / (1 - decay^t) */
    double value, norm;                       /* results: log posterior, norm of the scaled gradient */
    double *theta, *first, *second;           /* changed, unless the step fails */
    double *work;                             /* gpzed_step_work_size() numbers */
    size_t lanes;
};

/* Memory of a step. */
struct step_work {
    double *gradient, *Lambda, *grad_Lambda, *Ct, *grad_C, *u, *shapes, *heads;
    double *end;
};

static size_t gamma_size(const struct step *s)
{
    size_t each = s->gamma == MATRIX ? s->d * s->d : s->gamma == DIAGONAL ? s->d : 1;
    return each * (s->is_shared ? 1 : s->m);
}

static struct call step_call(const struct step *s, const struct call *rows)
{
    struct call c = *rows;
    c.lanes = s->lanes;
    c.d = s->d;
    c.q = 1 + s->d + s->d * (s->d + 1) / 2;
    c.m = s->m;
    c.k = s->k;
    c.K = s->K;
    c.is_full = 1;
    return c;
}

static struct step_work divide_step(const struct step *s)
{
    size_t d = s->d, m = s->m, g = s->is_shared ? 1 : m, q = 1 + d + d * (d + 1) / 2, r = 0;
    struct call c = step_call(s, s->blocks);
    double *next = s->work;
    struct step_work w;
    for (size_t i = 0; i < s->n_blocks; i++)
        r = s->ranks[i] > r ? s->ranks[i] : r;
    struct shapes shapes = {.m = m, .d = d, .r = r, .keeps = 1};
    w.gradient = take(&next, m * d + gamma_size(s) + (m + s->k) * 3 * s->K);
    w.Lambda = take(&next, g * d * d);
    w.grad_Lambda = take(&next, g * d * d);
    w.Ct = take(&next, m * q);
    w.grad_C = take(&next, m * q);
    w.u = take(&next, m);
    w.shapes = take(&next, gpzed_shapes_work_size(&shapes));
    w.heads = take(&next, gpzed_heads_work_size(&c));
    w.end = next;
    return w;
}

/* Numbers that `work` must hold for a step. */
size_t gpzed_step_work_size(const struct step *s)
{
    struct step aligned = *s;
    aligned.work = NULL;
    return (uintptr_t)divide_step(&aligned).end / sizeof(double) + 8;
}

/* Lambda = Gamma' Gamma, (m or 1, d, d). */
static void expand(const struct step *s, const double *Gamma, double *restrict Lambda)
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
static void fold(const struct step *s, const double *Gamma, const double *grad_Lambda, double *restrict grad_Gamma)
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

/* The log posterior of the batch and its gradient. Returns 1 if shapes are not finite or not positive definite. */
static int step_gradient(struct step *s, const struct step_work *w, size_t n)
{
    double *P = s->theta, *Gamma = P + s->m * s->d, *Theta = Gamma + gamma_size(s);
    double *grad_P = w->gradient, *grad_Gamma = grad_P + s->m * s->d, *grad_Theta = grad_Gamma + gamma_size(s);
    size_t g = s->is_shared ? 1 : s->m;
    struct shapes shapes = {.m = s->m, .d = s->d, .is_shared = s->is_shared && s->m > 1, .keeps = 1};
    shapes.kappa = s->kappa;
    shapes.P = P, shapes.Lambda = w->Lambda, shapes.Ct = w->Ct, shapes.grad_C = w->grad_C, shapes.work = w->shapes;
    shapes.grad_P = grad_P, shapes.grad_Lambda = w->grad_Lambda;
    memset(w->gradient, 0, n * sizeof(double));
    memset(w->grad_Lambda, 0, g * s->d * s->d * sizeof(double));
    memset(w->u, 0, s->m * sizeof(double));
    expand(s, Gamma, w->Lambda);
    s->value = 0.0;
    for (size_t i = 0; i < s->n_blocks; i++) {
        struct call c = step_call(s, s->blocks + i);
        c.Ct = w->Ct, c.u = w->u, c.A = Theta, c.work = w->heads;
        c.sum_a = w->grad_C, c.sum_b = grad_Theta, c.sums = &s->value;
        shapes.V = s->V[i], shapes.r = s->ranks[i];
        memset(w->grad_C, 0, c.q * c.m * sizeof(double));
        if (gpzed_blur(&shapes) || gpzed_heads(&c) || gpzed_blur_gradient(&shapes))
            return 1;
    }
    shapes.Ct = &s->value;
    if (s->kappa != 0.0 && !s->is_shared && s->m > 1 && gpzed_shape_prior(&shapes))
        return 1;
    fold(s, Gamma, w->grad_Lambda, grad_Gamma);
    for (size_t i = 0; i < s->m * 3 * s->K; i++) {
        s->value -= 0.5 * s->ridge * Theta[i] * Theta[i];
        grad_Theta[i] -= s->ridge * Theta[i];
    }
    return 0;
}

/* One step. Returns 1, parameters and moments being as before, if shapes are not finite or not positive definite. */
int gpzed_step(struct step *s)
{
    struct step_work w = divide_step(s);
    size_t n = s->m * s->d + gamma_size(s) + (s->m + s->k) * 3 * s->K;
    double sum = 0.0;
    if (step_gradient(s, &w, n))
        return 1;
    for (size_t i = 0; i < n; i++)
        sum += w.gradient[i] * w.gradient[i];
    s->norm = fabs(s->scale) * sqrt(sum);
    double scale = s->norm > s->max_norm ? s->scale * s->max_norm / s->norm : s->scale;
    for (size_t i = 0; i < n; i++) {
        double g = scale * w.gradient[i];
        s->first[i] += (1.0 - s->momentum) * (g - s->first[i]);
        s->second[i] += (1.0 - s->decay) * (g * g - s->second[i]);
        s->theta[i] -= s->rate * s->first[i] / (sqrt(s->second[i] * s->root_scale) + s->epsilon);
    }
    return 0;
}
