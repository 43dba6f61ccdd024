"""SPGP, also called FITC (Snelson & Ghahramani 2005; section 6.1 of the paper), on the same block engine as GPz.

A Gaussian process with the squared-exponential kernel of appendix A, ``k(x, x') = h^2 phi(x, x')``, is replaced by
its projection on m pseudo-inputs P, what the projection leaves out being treated as independent noise:

    Q = K_nm K_mm^-1 K_mn,        y ~ N(0, Q + diag(K - Q) + s2 I).

With ``R = K_mm / h^2``, whose inverse is ``W' W``, the same density comes from weights a of unit prior covariance,

    V = h W Phi,   f = V' a,   a ~ N(0, I),   1 / B_i = s2 + h^2 - |V_i|^2,

so that ``w = h W' a`` has the prior covariance ``h^2 R^-1`` and the sums over rows are those of GPz with V in the
place of Phi: ``S = V B V' + I`` and ``a_mean = S^-1 V B y``. Arrays over rows are stored features first, and
the residual is prediction minus truth, ``delta = V' a_mean - y``. Weights of rows are not part of this model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from experiments.rivals.base import START_NOISE, GaussianProcess, Scaling
from gpzed._types import FloatArray, IntArray
from gpzed.engine.blocks import Block, Engine, Scratch, Summing, Sums
from gpzed.engine.lbfgs import Budget, OptimizeReport, Progress, minimize
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.errors import NumericalError
from gpzed.gp.basis import coefficients, pull_back, quadratic_map
from gpzed.gp.evidence import LOG_2PI
from gpzed.gp.initialize import MAX_ROWS, InitMethod, start_centres
from gpzed.gp.linalg import cholesky, triangular_product
from gpzed.gp.posterior import Posterior, weight_posterior
from gpzed.gp.predictive import Predictive, by_rows

JITTER = 1e-6
"""Added to the unit diagonal of R, always: pseudo-inputs attract each other, and R is singular where two coincide.
It is part of the model (pseudo-targets with a noise of a thousandth of h), so value and gradient stay consistent."""
MAX_LOG = 30.0
"""Logarithms of scales beyond this are a diverged step of the optimiser, not a model of standardised data."""
MIN_VALIDATION = 10
"""Fewer rows than this cannot choose an iterate: the marginal likelihood alone decides."""


@dataclass
class SPGPRegressor(GaussianProcess):
    """Sparse pseudo-input Gaussian process: kernel and places of the pseudo-inputs are optimised together.

    ``diag(K - Q)`` is free to differ from row to row, and where the scatter of the targets does, training uses it to
    describe that scatter and lets ``s2`` shrink (on BOSS to less than a hundredth). The total variance is then the
    figure to trust; the split into model and noise variance says little.
    """

    n_basis: int = 100  # pseudo-inputs at most; as many as training rows where these are fewer
    init: InitMethod = "kmeans"  # where pseudo-inputs start, see `start_centres`
    validation_fraction: float = 0.2  # of the rows, to choose the iterate; they still enter the final posterior
    max_iter: int = 500  # of L-BFGS
    n_threads: int | None = None  # all cores if None
    random_state: int | None = None  # seed of start and split

    def fit(
        self, X: FloatArray, y: FloatArray, *, validation_data: tuple[FloatArray, FloatArray] | None = None
    ) -> Self:
        """Train on rows in memory; `validation_data` choose the iterate in the place of a part of these."""
        rng = np.random.default_rng(self.random_state)
        n_valid = 0 if validation_data is not None else round(self.validation_fraction * len(y))
        n_valid = n_valid if n_valid >= MIN_VALIDATION else 0
        order = rng.permutation(len(y))
        train, held = order[n_valid:], order[:n_valid]
        valid = (X[held], y[held]) if validation_data is None else validation_data
        self.scaling_ = Scaling.fit(X[train], y[train])
        self._train(self.scaling_(X[train], y[train]), self.scaling_(*valid), rng)
        final = np.concatenate([train, held])
        engine = self._engine(*self.scaling_(X[final], y[final]), keep_bytes=0)
        self.state_, self.posterior_, _ = fit_posterior(engine, self.parameters_)
        self.n_iter_ = len(self.report_.history)
        return self

    def _train(
        self, train: tuple[FloatArray, FloatArray], valid: tuple[FloatArray, FloatArray], rng: np.random.Generator
    ) -> None:
        """Choose the parameters by the marginal likelihood of `train` and the iterate by the score of `valid`."""
        X, _ = train
        self.n_basis_ = min(self.n_basis, len(X))
        start = start_parameters(X[rng.permutation(len(X))[:MAX_ROWS]], self.n_basis_, rng, self.init)
        objective = _Objective(self._engine(*train))
        judge = self._engine(*valid, keep_bytes=0) if len(valid[1]) else None

        def validate(theta: FloatArray) -> float:
            assert judge is not None
            total, count = judge.sum(score, *objective.posterior(theta))
            return float(total / count) - float(np.log(self.scaling_.y_scale))

        self.report_: OptimizeReport = minimize(
            objective,
            Progress(start.pack()),
            score=None if judge is None else validate,
            budget=Budget(max_iter=self.max_iter),
        )
        self.parameters_: SPGPParameters = SPGPParameters.unpack(self.report_.theta, X.shape[1])
        self.log_marginal_likelihood_ = evaluate(objective.engine, self.parameters_).log_likelihood

    def _engine(self, X: FloatArray, y: FloatArray, **options: Any) -> Engine:
        return ThreadEngine(X, y, width=self.n_basis_, n_threads=self.n_threads, **options)

    def _predict_scaled(self, X: FloatArray) -> Sequence[FloatArray]:
        return predict(X, self.state_, self.posterior_, Team(self.n_threads))[:3]


class _Objective:
    """Minus the log marginal likelihood per row; remembers its last evaluation for the validation score."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.theta: FloatArray | None = None
        self.evaluation: SPGPEvaluation | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        result = evaluate(self.engine, SPGPParameters.unpack(theta, self.engine.d))
        self.theta, self.evaluation = theta.copy(), result
        n = self.engine.n
        return -result.log_likelihood / n, -result.gradient.pack() / n

    def posterior(self, theta: FloatArray) -> tuple[SPGPState, Posterior]:
        """Return the posterior at theta, from the last evaluation where that was there."""
        if self.theta is not None and self.evaluation is not None and np.array_equal(theta, self.theta):
            return self.evaluation.state, self.evaluation.posterior
        return fit_posterior(self.engine, SPGPParameters.unpack(theta, self.engine.d))[:2]


@dataclass(frozen=True)
class SPGPParameters:
    """Free parameters, or a gradient for them."""

    P: FloatArray  # (m, d) pseudo-inputs
    log_length: float  # logarithm of the length-scale
    log_h: float  # logarithm of the height of the kernel; its square is the prior variance of the function
    log_noise: float  # logarithm of the noise variance s2

    @property
    def Lambda(self) -> FloatArray:
        """Precision matrix shared by all pseudo-inputs, its diagonal only, of shape (1, d)."""
        return np.broadcast_to(np.exp(-2.0 * self.log_length), (1, self.P.shape[1]))

    def pack(self) -> FloatArray:
        """Return all numbers in one vector theta."""
        return np.concatenate([self.P.ravel(), [self.log_length, self.log_h, self.log_noise]])

    @classmethod
    def unpack(cls, theta: FloatArray, d: int) -> SPGPParameters:
        """Undo `pack` for d features."""
        log_length, log_h, log_noise = theta[-3:].tolist()
        return cls(theta[:-3].reshape(-1, d), log_length, log_h, log_noise)


def start_parameters(X: FloatArray, m: int, rng: np.random.Generator, method: InitMethod = "kmeans") -> SPGPParameters:
    """Parameters to start the optimiser from, for whitened inputs (n, d) and a target of unit variance.

    The length-scale starts at the root mean square distance of a row from the centre, sqrt(d): the kernel then
    spans the data, and the optimiser need only sharpen it.
    """
    log_length = 0.5 * float(np.log(X.shape[1]))
    return SPGPParameters(start_centres(X, m, method, rng), log_length, 0.0, float(np.log(START_NOISE)))


@dataclass(frozen=True)
class SPGPState:
    """What the kernels need to know of the parameters: made once per evaluation, sent to every block."""

    Ct: FloatArray  # (m, q)
    hW: FloatArray  # (m, m) lower triangular, h W with R^-1 = W' W
    h2: float
    s2: float


def _correlation(parameters: SPGPParameters) -> FloatArray:
    """``phi(p_j, p_k)`` of all pairs of pseudo-inputs, (m, m), without jitter."""
    P = parameters.P
    Ct = coefficients(P, parameters.Lambda).T
    R = np.exp(Ct @ _map(P.T))
    np.fill_diagonal(R, 1.0)
    return 0.5 * (R + R.T)


def _map(Pt: FloatArray) -> FloatArray:
    d, m = Pt.shape
    return quadratic_map(Pt, False, np.empty((1 + 2 * d, m)))


def make_state(parameters: SPGPParameters) -> SPGPState:
    """Prepare the parameters for the kernels."""
    scales = np.array([parameters.log_length, parameters.log_h, parameters.log_noise])
    if not np.all(np.abs(scales) < MAX_LOG):  # also catches NaN
        raise NumericalError(f"a length-scale, height or noise lies beyond exp(+-{MAX_LOG:g}).")
    R = _correlation(parameters)
    R[np.diag_indices_from(R)] += JITTER
    h = float(np.exp(parameters.log_h))
    Ct = np.ascontiguousarray(coefficients(parameters.P, parameters.Lambda).T)
    return SPGPState(Ct, h * cholesky(R).whitener, h**2, float(np.exp(parameters.log_noise)))


def _responses(block: Block, scratch: Scratch, state: SPGPState) -> tuple[FloatArray, FloatArray]:
    """``Zt`` (q, n) and ``Phi`` (m, n)."""
    m, q = state.Ct.shape
    n = block.Xt.shape[1]
    Zt = quadratic_map(block.Xt, False, scratch.array("Z", (q, n)))
    Phi = scratch.array("Phi", (m, n))
    np.matmul(state.Ct, Zt, out=Phi)
    np.exp(Phi, out=Phi)  # Eq. 3.2
    return Zt, Phi


def _whitened(Phi: FloatArray, scratch: Scratch, state: SPGPState) -> FloatArray:
    """``V = h W Phi`` (m, n), in the memory that the engine keeps for the second pass if it grants any."""
    return triangular_product(state.hW, Phi, scratch.array_to_keep("V", Phi.shape))


def _slack(V: FloatArray, state: SPGPState) -> FloatArray:
    """``diag(K - Q)`` (n,): prior variance that the pseudo-inputs do not explain; never negative but for rounding."""
    explained: FloatArray = np.einsum("ij,ij->j", V, V)
    return np.maximum(state.h2 - explained, 0.0)


def forward(block: Block, scratch: Scratch, state: SPGPState) -> Sums:
    """First pass: ``V B V'``, ``V B y`` and ``ln |B|``."""
    _, Phi = _responses(block, scratch, state)
    V = _whitened(Phi, scratch, state)
    variance = state.s2 + _slack(V, state)
    sqrt_B = 1.0 / np.sqrt(variance)
    Psi = np.multiply(V, sqrt_B, out=Phi)
    return Psi @ Psi.T, Psi @ (sqrt_B * block.y), np.asarray(-np.log(variance).sum())


def backward(block: Block, scratch: Scratch, state: SPGPState, posterior: Posterior) -> Sums:
    """Second pass: what value and gradient need of the rows.

    With ``g = dL/d ln B = 1/2 (1 - B delta^2 - B nu)`` (cf. Eq. C.6) and ``c = g B = dL/d|V_i|^2`` the gradient
    for V is ``E = 2 V c - a (B delta)' - S^-1 V B``, and for ln Phi it is ``G = (h W' E) o Phi`` (cf. Eq. C.7). The
    sums are ``Z' G``, ``V c V'``, ``sum c``, ``sum c diag(K - Q)`` and ``delta' B delta``.
    """
    Zt, Phi = _responses(block, scratch, state)
    kept = scratch.recall(Phi.shape)
    V = _whitened(Phi, scratch, state) if kept is None else kept
    slack = _slack(V, state)
    B = 1.0 / (state.s2 + slack)
    half = triangular_product(posterior.factor.whitener, V, scratch.array("half", V.shape))
    nu = np.einsum("ij,ij->j", half, half)
    delta = posterior.w_mean @ V - block.y
    c = 0.5 * B * (1.0 - B * delta**2 - B * nu)
    Vc = np.multiply(V, c, out=scratch.array("Vc", V.shape))
    E = np.matmul(posterior.factor.whitener.T, half, out=scratch.array("E", V.shape))  # S^-1 V
    E += posterior.w_mean[:, None] * delta
    E *= -B
    E += 2.0 * Vc
    G = np.matmul(state.hW.T, E, out=half)
    G *= Phi
    sums = np.asarray(c.sum()), np.asarray(c @ slack), np.asarray(delta @ (B * delta))
    return Zt @ G.T, Vc @ V.T, *sums


@dataclass(frozen=True)
class SPGPEvaluation:
    """Everything one evaluation of the marginal likelihood gives."""

    log_likelihood: float
    gradient: SPGPParameters
    posterior: Posterior
    state: SPGPState


def fit_posterior(rows: Summing, parameters: SPGPParameters) -> tuple[SPGPState, Posterior, float]:
    """First pass alone: state, posterior of the weights a (whitener ready for threads), and ``ln |B|``."""
    state = make_state(parameters)
    V_B_V, V_B_y, log_det_B = rows.sum(forward, state)
    posterior = weight_posterior(V_B_V, V_B_y, np.ones(len(V_B_y)))
    posterior.factor.whitener  # noqa: B018  computed once, before the threads ask for it
    return state, posterior, float(log_det_B)


def evaluate(engine: Engine, parameters: SPGPParameters) -> SPGPEvaluation:
    """Log marginal likelihood of the rows of an engine, whose weights are ignored, and its gradient."""
    passes = engine.passes()
    state, posterior, log_det_B = fit_posterior(passes, parameters)
    grad_C, V_c_V, sum_c, sum_c_slack, misfit = passes.sum(backward, state, posterior)
    a = posterior.w_mean
    log_likelihood = -0.5 * float(misfit) + 0.5 * log_det_B - 0.5 * LOG_2PI * engine.n
    log_likelihood = log_likelihood - 0.5 * float(a @ a) - 0.5 * posterior.factor.log_det  # S is relative to the prior
    E_V = np.outer(a, a) + posterior.factor.inverse - np.eye(len(a)) + 2.0 * V_c_V  # sum_i E_i V_i'
    grad_P, grad_Lambda = pull_back(grad_C, parameters.P, parameters.Lambda)
    grad_P_R, grad_Lambda_R = _pull_back_correlation(parameters, state, E_V)
    grad_log_length = -2.0 * parameters.Lambda[0] * (grad_Lambda + grad_Lambda_R)[0]
    gradient = SPGPParameters(
        P=grad_P + grad_P_R,
        log_length=float(grad_log_length.sum()),
        log_h=float(a @ a + posterior.factor.inverse_diagonal.sum() - len(a) - 2.0 * sum_c_slack),
        log_noise=-state.s2 * float(sum_c),
    )
    return SPGPEvaluation(log_likelihood, gradient, posterior, state)


def _pull_back_correlation(
    parameters: SPGPParameters, state: SPGPState, E_V: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradients for P and Lambda by way of R alone, ``dL/dR = -1/2 W' (E V') W``, since ``V = h W Phi``."""
    P = parameters.P
    grad_log_R = -0.5 / state.h2 * (state.hW.T @ E_V @ state.hW) * _correlation(parameters)
    np.fill_diagonal(grad_log_R, 0.0)  # the correlation of a point with itself is 1 whatever the parameters
    grad_P, grad_Lambda = pull_back(_map(P.T) @ grad_log_R, P, parameters.Lambda)
    return 2.0 * grad_P, grad_Lambda  # twice: a pseudo-input is a centre and a row of R


def _predict_block(block: Block, scratch: Scratch, state: SPGPState, posterior: Posterior) -> Predictive:
    _, Phi = _responses(block, scratch, state)
    V = triangular_product(state.hW, Phi, scratch.array("V", Phi.shape))
    half = triangular_product(posterior.factor.whitener, V, Phi)
    nu = np.einsum("ij,ij->j", half, half) + _slack(V, state)
    return Predictive(posterior.w_mean @ V, nu, np.full(V.shape[1], state.s2), np.zeros_like(nu))


def score(block: Block, scratch: Scratch, state: SPGPState, posterior: Posterior) -> Sums:
    """Kernel: log-likelihood of rows that did not enter the fit, and their number."""
    mean, nu, noise, _ = _predict_block(block, scratch, state, posterior)
    variance = nu + noise
    log_likelihood = -0.5 * ((block.y - mean) ** 2 / variance + np.log(variance) + LOG_2PI)
    return np.asarray(log_likelihood.sum()), np.asarray(float(len(mean)))


def predict(X: FloatArray, state: SPGPState, posterior: Posterior, team: Team) -> Predictive:
    """Predict for rows X (n, d) in memory, block by block over the threads of `team`.

    The mean is ``V' a_mean``, the model variance ``diag(K - Q) + V' S^-1 V`` (which returns to h^2 far from all
    pseudo-inputs), the noise variance s2.
    """

    def predict_rows(rows: slice | IntArray, _: int) -> Predictive:
        return _predict_block(Block.of_inputs(X[rows]), Scratch(team.buffers()), state, posterior)

    return by_rows(Predictive, (len(X),), len(posterior.w_mean), team, predict_rows)
