/* Several blocks of rows of different kinds in one call: where rows have gaps in many patterns blocks are small, and
 * Python would take longer than the work itself.
 */

/* Memory beside that of a block: coefficients of blurred basis functions, their gradient, and what both need. */
struct parts_work {
    double *Ct, *grad_C, *shapes, *each;
};

static struct parts_work divide_parts(const struct parts *p, const struct basis *basis, double *next)
{
    size_t size = basis->m * larger(basis->q, 1 + p->shapes.d + p->shapes.d * (p->shapes.d + 1) / 2);
    struct parts_work w;
    w.Ct = take(&next, size);
    w.grad_C = take(&next, size);
    w.shapes = take(&next, shapes_work_size(&p->shapes, 1));
    w.each = align(next);
    return w;
}

static struct shapes shapes_of(const struct parts *p, const struct part *part)
{
    struct shapes shapes = p->shapes;
    shapes.r = part->r;
    shapes.V = part->V;
    return shapes;
}

static struct basis full_basis(const struct parts *p, struct basis basis)
{
    basis.is_full = 1;
    basis.q = 1 + p->shapes.d + p->shapes.d * (p->shapes.d + 1) / 2;
    return basis;
}

/* Basis functions as the rows of a part see them. Returns 1 if a shape is not finite. */
static int part_basis(const struct parts *p, const struct part *part, const struct parts_work *w, struct basis *basis)
{
    if (!part->r)
        return 0;
    struct blur blur = {shapes_of(p, part), 1, w->shapes, w->Ct};
    *basis = full_basis(p, *basis);
    basis->Ct = w->Ct;
    return gpzed_blur(&blur);
}

/* Numbers that the parts need where one block needs `each` at most. */
static size_t parts_size(const struct parts *p, const struct basis *basis, size_t each)
{
    return numbers(divide_parts(p, basis, NULL).each) + each;
}

/* The basis of blurred rows. A block may need more memory with it, or with that of the others: the smaller one lets more
 * rows be taken at once. */
static struct basis blurred_basis(const struct parts *p, const struct basis *basis)
{
    return p->shapes.r ? full_basis(p, *basis) : *basis;
}

size_t gpzed_forward_parts_work_size(const struct forward_parts *c)
{
    struct forward blurred = {.basis = blurred_basis(&c->parts, &c->each.basis)};
    size_t each = larger(gpzed_forward_work_size(&c->each), gpzed_forward_work_size(&blurred));
    return parts_size(&c->parts, &c->each.basis, each);
}

/* Returns 1 if a shape is not finite or a noise precision out of bounds; so do the others. */
int gpzed_forward_parts(const struct forward_parts *c)
{
    struct parts_work w = divide_parts(&c->parts, &c->each.basis, c->work);
    for (size_t i = 0; i < c->parts.n_parts; i++) {
        const struct part *part = c->parts.parts + i;
        struct forward each = c->each;
        each.inputs = part->inputs;
        each.targets = part->targets;
        each.kept = part->kept;
        each.work = w.each;
        if (part_basis(&c->parts, part, &w, &each.basis) || gpzed_forward(&each))
            return 1;
    }
    return 0;
}

size_t gpzed_backward_parts_work_size(const struct backward_parts *c)
{
    struct backward blurred = {.basis = blurred_basis(&c->parts, &c->each.basis)};
    size_t each = larger(gpzed_backward_work_size(&c->each), gpzed_backward_work_size(&blurred));
    return parts_size(&c->parts, &c->each.basis, each);
}

int gpzed_backward_parts(const struct backward_parts *c)
{
    struct parts_work w = divide_parts(&c->parts, &c->each.basis, c->work);
    for (size_t i = 0; i < c->parts.n_parts; i++) {
        const struct part *part = c->parts.parts + i;
        struct backward each = c->each;
        each.inputs = part->inputs;
        each.targets = part->targets;
        each.kept = part->kept;
        each.work = w.each;
        if (part_basis(&c->parts, part, &w, &each.basis))
            return 1;
        if (part->r) {
            each.ZT_G = w.grad_C;
            memset(w.grad_C, 0, each.basis.q * each.basis.m * sizeof(double));
        }
        struct blur_gradient back = {shapes_of(&c->parts, part), 1, w.shapes, w.grad_C, c->grad_P, c->grad_Lambda};
        if (gpzed_backward(&each) || (part->r && gpzed_blur_gradient(&back)))
            return 1;
    }
    return 0;
}

size_t gpzed_heads_parts_work_size(const struct heads_parts *c)
{
    struct heads blurred = {.basis = blurred_basis(&c->parts, &c->each.basis), .outputs = c->each.outputs};
    size_t each = larger(gpzed_heads_work_size(&c->each), gpzed_heads_work_size(&blurred));
    return parts_size(&c->parts, &c->each.basis, each);
}

int gpzed_heads_parts(const struct heads_parts *c)
{
    struct parts_work w = divide_parts(&c->parts, &c->each.basis, c->work);
    for (size_t i = 0; i < c->parts.n_parts; i++) {
        const struct part *part = c->parts.parts + i;
        struct heads each = c->each;
        each.inputs = part->inputs;
        each.targets = part->targets;
        each.work = w.each;
        if (part_basis(&c->parts, part, &w, &each.basis) || gpzed_heads(&each))
            return 1;
    }
    return 0;
}

static size_t score_size(const struct score_parts *c)
{
    struct predict blurred = {.basis = blurred_basis(&c->parts, &c->each.basis)};
    return larger(gpzed_predict_work_size(&c->each), gpzed_predict_work_size(&blurred));
}

size_t gpzed_score_parts_work_size(const struct score_parts *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->parts.n_parts; i++)
        n = larger(n, c->parts.parts[i].inputs.n);
    return parts_size(&c->parts, &c->each.basis, score_size(c)) + 3 * n;
}

int gpzed_score_parts(const struct score_parts *c)
{
    struct parts_work w = divide_parts(&c->parts, &c->each.basis, c->work);
    for (size_t i = 0; i < c->parts.n_parts; i++) {
        const struct part *part = c->parts.parts + i;
        size_t n = part->inputs.n;
        struct predict each = c->each;
        each.inputs = part->inputs;
        each.work = w.each;
        each.moments = w.each + score_size(c);
        if (part_basis(&c->parts, part, &w, &each.basis) || gpzed_predict(&each))
            return 1;
        const double *mean = each.moments, *nu = mean + n, *noise = nu + n, *v = part->targets.v;
        for (size_t row = 0; row < n; row++) {
            double residual = part->targets.y[row] - mean[row], base = nu[row] + (v ? v[row] : 0.0);
            for (size_t s = 0; s < c->n_factors; s++) { /* Eq. 5.9 */
                double variance = base + c->factors[s] * noise[row];
                double log_density = -0.5 * (residual * residual / variance + log(variance) + LOG_2PI);
                c->totals[s] += part->targets.omega[row] * doubted(log_density, &part->targets, row);
            }
        }
    }
    return 0;
}
