"""The equations of Almosallam, Jarvis & Roberts (2016) written out with loops, independent of the package.

Slow on purpose: one line per line of the paper, so that it can be checked by eye. Letters are the paper's; its
``Sigma`` (a precision) is ``S``. ``Gamma`` is always a list of m full (d, d) matrices here.
"""

from __future__ import annotations

from math import exp, log, pi

import numpy as np


def basis(X, P, Gammas):
    """Eq. 3.2: phi_j(x_i) = exp(-1/2 (x_i - p_j)' Gamma_j' Gamma_j (x_i - p_j))."""
    n, m = len(X), len(P)
    Phi = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            v = Gammas[j] @ (X[i] - P[j])
            Phi[i, j] = exp(-0.5 * sum(float(a) ** 2 for a in v))
    return Phi


def mean_columns(X, mean_function):
    """Columns that enter the mean beside the basis functions: none, 1, or 1 and x."""
    n, _d = X.shape
    if mean_function == "zero":
        return np.zeros((n, 0))
    if mean_function == "constant":
        return np.ones((n, 1))
    return np.hstack([np.ones((n, 1)), X])


def noise_precision(Phi, u, b):
    """Eq. 5.10: beta_i = exp(phi_i u + b)."""
    beta = np.zeros(len(Phi))
    for i in range(len(Phi)):
        beta[i] = exp(sum(Phi[i, j] * u[j] for j in range(len(u))) + b)
    return beta


def posterior(F, B, alpha, y):
    """Eq. 5.3 and 5.4, by sums over rows; F holds the basis and the mean columns."""
    M = F.shape[1]
    S = np.diag(np.asarray(alpha, float))
    right = np.zeros(M)
    for i in range(len(F)):
        S = S + B[i] * np.outer(F[i], F[i])
        right = right + B[i] * y[i] * F[i]
    return np.linalg.solve(S, right), S


def log_evidence_terms(X, y, P, Gammas, u, b, alpha, eta, omega, *, mean_function="zero", weighted_precision=False):
    """The nine terms of Eq. 5.6, in the order of the paper.

    With `weighted_precision` B = beta omega everywhere (end of section 5). Otherwise omega multiplies the
    log-likelihood of each row: the terms ln beta and ln 2 pi carry it too.
    """
    n, m = len(X), len(P)
    Phi = basis(X, P, Gammas)
    F = np.hstack([Phi, mean_columns(X, mean_function)])
    beta = noise_precision(Phi, u, b)
    B = [beta[i] * omega[i] for i in range(n)]
    w, S = posterior(F, B, alpha, y)
    misfit = log_noise = normalisation = 0.0
    for i in range(n):
        delta = float(F[i] @ w) - y[i]
        misfit += -0.5 * B[i] * delta**2
        if weighted_precision:
            log_noise += 0.5 * log(B[i])
            normalisation += -0.5 * log(2 * pi)
        else:
            log_noise += 0.5 * omega[i] * log(beta[i])
            normalisation += -0.5 * omega[i] * log(2 * pi)
    return {
        "misfit": misfit,
        "log_noise": log_noise,
        "normalisation": normalisation,
        "weight_penalty": sum(-0.5 * alpha[j] * w[j] ** 2 for j in range(len(w))),
        "weight_prior": sum(0.5 * log(a) for a in alpha),
        "occam": -0.5 * sum(log(value) for value in np.linalg.eigvalsh(S)),
        "noise_penalty": sum(-0.5 * eta[j] * u[j] ** 2 for j in range(m)),
        "noise_prior": sum(0.5 * log(e) for e in eta),
        "noise_normalisation": -0.5 * m * log(2 * pi),
    }


def predict(X_new, X, y, P, Gammas, u, b, alpha, omega, *, mean_function="zero"):
    """Eq. 5.8-5.10 and 3.13: mean, model variance nu and noise variance 1/beta at new inputs."""
    Phi = basis(X, P, Gammas)
    beta = noise_precision(Phi, u, b)
    w, S = posterior(np.hstack([Phi, mean_columns(X, mean_function)]), beta * omega, alpha, y)
    Phi_new = basis(X_new, P, Gammas)
    F_new = np.hstack([Phi_new, mean_columns(X_new, mean_function)])
    beta_new = noise_precision(Phi_new, u, b)
    mean, nu, noise = [], [], []
    for i in range(len(X_new)):
        mean.append(sum(F_new[i, j] * w[j] for j in range(len(w))))
        nu.append(float(F_new[i] @ np.linalg.solve(S, F_new[i])))
        noise.append(1.0 / beta_new[i])
    return np.array(mean), np.array(nu), np.array(noise)


def gradient(X, y, P, Gammas, u, b, alpha, eta, omega, *, mean_function="zero", weighted_precision=False):
    """Eq. C.5-C.13 for full Gamma_j: a dict of P, Gamma (m, d, d), u, b, log_alpha, log_eta."""
    n, d = X.shape
    m = len(P)
    Phi = basis(X, P, Gammas)
    F = np.hstack([Phi, mean_columns(X, mean_function)])
    beta = noise_precision(Phi, u, b)
    B = beta * omega
    w, S = posterior(F, B, alpha, y)
    S_inv = np.linalg.inv(S)
    delta = F @ w - y

    d_log_beta = np.zeros(n)  # C.6
    for i in range(n):
        nu = float(F[i] @ S_inv @ F[i])
        d_log_beta[i] = -0.5 * B[i] * delta[i] ** 2 - 0.5 * B[i] * nu
        d_log_beta[i] += 0.5 if weighted_precision else 0.5 * omega[i]

    d_log_Phi = np.zeros((n, m))  # C.7
    for i in range(n):
        F_S = F[i] @ S_inv
        for j in range(m):
            inner = d_log_beta[i] * u[j] - B[i] * delta[i] * w[j] - B[i] * F_S[j]
            d_log_Phi[i, j] = inner * Phi[i, j]

    grad_P = np.zeros((m, d))
    grad_Gamma = np.zeros((m, d, d))
    for j in range(m):
        Delta = X - P[j]
        grad_P[j] = d_log_Phi[:, j] @ Delta @ Gammas[j].T @ Gammas[j]  # C.12
        grad_Gamma[j] = -Gammas[j] @ (Delta * d_log_Phi[:, j : j + 1]).T @ Delta  # C.13

    dw = -S_inv @ (alpha * w)  # C.5
    FBdelta = F.T @ (B * delta)
    log_alpha = np.zeros(len(alpha))
    for j in range(len(alpha)):  # C.11
        log_alpha[j] = -FBdelta[j] * dw[j] - 0.5 * alpha[j] * w[j] ** 2
        log_alpha[j] += -alpha[j] * w[j] * dw[j] - 0.5 * alpha[j] * S_inv[j, j] + 0.5
    return {
        "P": grad_P,
        "Gamma": grad_Gamma,
        "u": np.array([Phi[:, j] @ d_log_beta - eta[j] * u[j] for j in range(m)]),  # C.8
        "b": float(sum(d_log_beta)),  # C.9
        "log_alpha": log_alpha,
        "log_eta": np.array([-0.5 * eta[j] * u[j] ** 2 + 0.5 for j in range(m)]),  # C.10
    }


def fold_gamma(grad_Gamma, code):
    """Eq. C.14-C.18: gradient for the free numbers of a structure from those of m full matrices."""
    m, d, _ = grad_Gamma.shape
    if code == "VC":
        return grad_Gamma
    if code == "GC":
        return sum(grad_Gamma[j] for j in range(m))[None]  # C.14
    diagonals = np.array([[grad_Gamma[j, k, k] for k in range(d)] for j in range(m)])
    if code == "VD":
        return diagonals  # C.15
    if code == "GD":
        return sum(diagonals[j] for j in range(m))[None]  # C.16
    if code == "VL":
        return np.array([sum(diagonals[j]) for j in range(m)])  # C.17
    return np.array([sum(sum(diagonals[j]) for j in range(m))])  # C.18


def expand_gamma(Gamma, code, m, d):
    """The m full matrices Gamma_j that the free numbers of a structure stand for (section 3)."""
    matrices = []
    for j in range(m):
        free = Gamma[0] if code[0] == "G" else Gamma[j]
        if code[1] == "L":
            matrices.append(float(free) * np.eye(d))
        elif code[1] == "D":
            matrices.append(np.diag(free))
        else:
            matrices.append(np.asarray(free))
    return matrices


def dense_log_density(y, Phi, B, alpha):
    """Oracle for Eq. 5.5: ln N(y; 0, diag(1/B) + Phi diag(1/alpha) Phi')."""
    K = np.diag(1.0 / np.asarray(B)) + Phi @ np.diag(1.0 / np.asarray(alpha)) @ Phi.T
    sign, log_det = np.linalg.slogdet(K)
    assert sign > 0
    return -0.5 * (y @ np.linalg.solve(K, y) + log_det + len(y) * log(2 * pi))
