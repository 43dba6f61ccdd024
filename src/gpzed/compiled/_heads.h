/* Likelihood of a mixture of K heads and its gradient, a block of rows in one call; included by `_blocks.h`.
 *
 * The 3 K outputs of a row, means, ln beta and gates, are Theta' Phi; H is the gradient for them.
 */

/* Log density of the rows of a panel from their outputs O (3 K, panel), whose place H takes. */
TARGET static double NAME(heads_panel)(const struct heads *call, size_t start, double *restrict O)
{
    const struct targets *c = &call->targets;
    const double least = call->outputs.min_log_beta, most = call->outputs.max_log_beta;
    size_t K = call->outputs.K, n = call->inputs.n, rows = smaller(PANEL, n - start);
    double *restrict mean = O, *restrict log_beta = O + K * PANEL, *restrict gate = O + 2 * K * PANEL, sum = 0.0;
    ALIGNED double y[PANEL], omega[PANEL], v[PANEL], top[PANEL], gates[PANEL], best[PANEL], total[PANEL];
    EACH_LANE y[i] = i < rows ? c->y[start + i] : 0.0;
    EACH_LANE omega[i] = i < rows ? c->omega[start + i] : 0.0;
    EACH_LANE v[i] = 0.0;
    EACH_LANE top[i] = gate[i];
    for (size_t k = 1; k < K; k++)
        EACH_LANE top[i] = gate[k * PANEL + i] > top[i] ? gate[k * PANEL + i] : top[i];
    EACH_LANE gates[i] = total[i] = 0.0;
    for (size_t k = 0; k < K; k++)
        EACH_LANE gates[i] += exp_one(gate[k * PANEL + i] - top[i]);
    EACH_LANE top[i] += log(gates[i]);
    for (size_t k = 0; k < K; k++) { /* gate becomes ln pi, log_beta the precision, O + 3 K the terms of the mixture */
        double *restrict b = log_beta + k * PANEL, *restrict g = gate + k * PANEL, *restrict t = O + (3 * K + k) * PANEL;
        const double *restrict f = mean + k * PANEL;
        EACH_LANE b[i] = b[i] < least ? least : b[i];
        EACH_LANE b[i] = b[i] > most ? most : b[i];
        EACH_LANE g[i] -= top[i];
        EACH_LANE t[i] = b[i];
        EACH_LANE b[i] = exp_one(b[i]);
        if (c->v) {
            EACH_LANE v[i] = i < rows ? c->v[k * n + start + i] : 0.0;
            EACH_LANE t[i] -= log1p(b[i] * v[i]);
            EACH_LANE b[i] /= 1.0 + b[i] * v[i];
        }
        EACH_LANE t[i] = g[i] + 0.5 * (t[i] - b[i] * (y[i] - f[i]) * (y[i] - f[i]) - LOG_2PI);
        EACH_LANE best[i] = k == 0 || t[i] > best[i] ? t[i] : best[i];
    }
    for (size_t k = 0; k < K; k++)
        EACH_LANE total[i] += exp_one(O[(3 * K + k) * PANEL + i] - best[i]);
    EACH_LANE total[i] = best[i] + log(total[i]);
    for (size_t i = 0; i < rows; i++)
        sum += doubted(total[i], c, start + i) * omega[i];
    for (size_t k = 0; k < K; k++) {
        double *restrict f = mean + k * PANEL, *restrict b = log_beta + k * PANEL, *restrict g = gate + k * PANEL;
        const double *restrict t = O + (3 * K + k) * PANEL;
        if (c->v)
            EACH_LANE v[i] = i < rows ? c->v[k * n + start + i] : 0.0;
        for (size_t i = 0; i < PANEL; i++) {
            double share = exp_one(t[i] - total[i]), residual = y[i] - f[i], misfit = b[i] * residual * residual;
            f[i] = omega[i] * share * b[i] * residual;
            b[i] = 0.5 * omega[i] * share * (1.0 - misfit) * (1.0 - b[i] * v[i]); /* d ln precision / d ln beta */
            g[i] = omega[i] * (share - exp_one(g[i]));
        }
    }
    return sum;
}

TARGET static int NAME(heads)(const struct heads *c)
{
    struct head_work w = divide_heads(&c->basis, c->outputs.K, 0, c->work, PANEL);
    size_t m = c->basis.m, M = m + c->basis.k, n = c->inputs.n, outputs = 3 * c->outputs.K;
    pack(c->basis.Ct, m, c->basis.q, c->basis.q, 1, w.C);
    pack(c->outputs.Theta, outputs, M, 1, outputs, w.Theta_t);
    pack(c->outputs.Theta, m, outputs, outputs, 1, w.Theta);
    for (size_t start = 0; start < n; start += w.G.panels * PANEL) {
        struct strip Z = w.Z, Phi = w.Phi, G = w.G, H = w.H;
        Z.panels = Phi.panels = G.panels = H.panels = smaller(w.G.panels, (n - start + PANEL - 1) / PANEL);
        for (size_t panel = 0; panel < G.panels; panel++) {
            size_t first = start + panel * PANEL;
            double *z = Z.data + panel * Z.stride, *p = Phi.data + panel * Phi.stride, *h = H.data + panel * H.stride;
            double *restrict g = G.data + panel * G.stride;
            NAME(map_panel)(&c->inputs, c->basis.is_full, first, z);
            NAME(respond_panel)(&c->basis, w.C, z, p);
            NAME(product)(w.Theta_t, outputs, M, FULL, p, h);
            *c->log_likelihood += NAME(heads_panel)(c, first, h);
            if (c->ZT_G) {
                NAME(product)(w.Theta, m, outputs, FULL, h, g);
                for (size_t i = 0; i < m * PANEL; i++)
                    g[i] *= p[i];
            }
        }
        if (c->ZT_G) {
            NAME(cross)(G, Z, 0, c->ZT_G, 1, m);
            NAME(cross)(H, Phi, 0, c->PhiT_H, 1, outputs);
        }
    }
    return 0;
}

TARGET static int NAME(mixture)(const struct mixture *c)
{
    size_t M = c->basis.m + c->basis.k, n = c->inputs.n, K = c->outputs.K, outputs = 3 * K, packed = round_up(M) * M;
    struct head_work w = divide_heads(&c->basis, K, K, c->work, PANEL);
    const double least = c->outputs.min_log_beta, most = c->outputs.max_log_beta;
    ALIGNED double sum[PANEL], top[PANEL];
    double *O = w.H.data, *Phi = w.Phi.data, *T = w.T;
    pack(c->basis.Ct, c->basis.m, c->basis.q, c->basis.q, 1, w.C);
    pack(c->outputs.Theta, outputs, M, 1, outputs, w.Theta_t);
    for (size_t k = 0; k < K; k++)
        pack(c->whiteners + k * M * M, M, M, M, 1, w.whiteners + k * packed);
    for (size_t start = 0; start < n; start += PANEL) {
        size_t bytes = sizeof(double) * smaller(PANEL, n - start);
        NAME(map_panel)(&c->inputs, c->basis.is_full, start, w.Z.data);
        NAME(respond_panel)(&c->basis, w.C, w.Z.data, Phi);
        NAME(product)(w.Theta_t, outputs, M, FULL, Phi, O);
        double *restrict gate = O + 2 * K * PANEL, *restrict b = O + K * PANEL;
        EACH_LANE top[i] = gate[i];
        for (size_t k = 1; k < K; k++)
            EACH_LANE top[i] = gate[k * PANEL + i] > top[i] ? gate[k * PANEL + i] : top[i];
        EACH_LANE sum[i] = 0.0;
        for (size_t k = 0; k < K; k++)
            EACH_LANE sum[i] += gate[k * PANEL + i] = exp_one(gate[k * PANEL + i] - top[i]);
        for (size_t k = 0; k < K; k++) {
            double *out = c->components + k * n + start;
            size_t step = K * n, row = k * PANEL;
            EACH_LANE gate[row + i] /= sum[i];
            EACH_LANE b[row + i] = b[row + i] < least ? least : b[row + i];
            EACH_LANE b[row + i] = exp_one(-(b[row + i] > most ? most : b[row + i]));
            NAME(product)(w.whiteners + k * packed, M, M, LOWER, Phi, T);
            EACH_LANE top[i] = 0.0;
            NAME(add_products)(T, T, M, 1.0, top); /* Eq. 3.13 */
            memcpy(out, gate + row, bytes);
            memcpy(out + step, O + row, bytes);
            memcpy(out + 2 * step, top, bytes);
            memcpy(out + 3 * step, b + row, bytes);
        }
    }
    return 0;
}
