"""Problems, random parameters and numerical derivatives for the tests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields, replace

import numpy as np

import reference
from gpzed import GPzRegressor, Training
from gpzed.compiled.binding import is_compiled
from gpzed.engine.threads import ThreadEngine
from gpzed.gp.evidence import evaluate
from gpzed.gp.parameters import Layout, Parameters
from gpzed.incomplete.blur import Blur

TRAINING = tuple(field.name for field in fields(Training))
CODES = ("GL", "VL", "GD", "VD", "GC", "VC")


def one_model(n_basis="auto", covariance="VC", **options):
    """A model of one member with one head, quick to train; options of `Training` may stand beside its own."""
    small = {"n_heads": 1, "n_members": 1, "mean_function": "constant", "validation_fraction": 0.2}
    own = {name: value for name, value in options.items() if name not in TRAINING}
    training = Training(**{name: value for name, value in options.items() if name in TRAINING})
    return GPzRegressor(n_basis, covariance, **small | own, training=training)


def assert_same_rows(found, expected):
    """Rows do not depend on their company: to the last bit with the kernels, to rounding with NumPy's products."""
    np.testing.assert_allclose(found, expected, rtol=0.0 if is_compiled() else 1e-12, atol=0.0)


@dataclass(frozen=True)
class Problem:
    """Rows, a layout and a point in parameter space."""

    X: np.ndarray
    y: np.ndarray
    omega: np.ndarray
    layout: Layout
    parameters: Parameters
    weighted_precision: bool = False

    def engine(self, **options):
        options = {"width": self.layout.n_weights, "n_threads": 1} | options
        return ThreadEngine(self.X, self.y, self.omega, **options)

    def evaluate(self, parameters=None):
        parameters = self.parameters if parameters is None else parameters
        return evaluate(self.engine(), parameters, self.layout, self.weighted_precision)

    @property
    def alpha(self):
        free = np.exp(self.parameters.log_alpha)
        if self.layout.relevance:
            return free
        return np.concatenate([np.full(self.layout.m, free[0]), free[1:]])

    @property
    def Gammas(self):
        layout = self.layout
        return reference.expand_gamma(self.parameters.Gamma, layout.structure.code, layout.m, layout.d)

    def reference_arguments(self):
        p = self.parameters
        eta = np.exp(p.log_eta)
        return self.X, self.y, p.P, self.Gammas, p.u, p.b, self.alpha, eta, self.omega

    def reference_options(self):
        return {"mean_function": self.layout.mean_function, "weighted_precision": self.weighted_precision}

    def replace(self, **changes):
        return replace(self, **changes)


def random_parameters(layout, rng):
    """A point at which every term of the evidence matters."""
    shape = layout.structure.gamma_shape(layout.m, layout.d)
    Gamma = 0.3 * rng.standard_normal(shape)
    Gamma = Gamma + 0.7 * np.eye(layout.d) if layout.structure.code[1] == "C" else Gamma + 0.7
    n_alpha = (layout.m if layout.relevance else 1) + layout.k
    het = float(layout.heteroscedastic)
    return Parameters(
        P=rng.standard_normal((layout.m, layout.d)),
        Gamma=Gamma,
        u=het * 0.7 * rng.standard_normal(layout.m),
        b=0.8,
        log_alpha=0.5 * rng.standard_normal(n_alpha),
        log_eta=het * 0.5 * rng.standard_normal(layout.m),
    )


def make_problem(code="VC", seed=0, *, n=40, d=2, m=4, weights=False, weighted_precision=False, **options):
    """A small random problem; `options` go to the layout."""
    rng = np.random.default_rng(seed)
    layout = Layout.of(m, d, code, **options)
    X = rng.standard_normal((n, d))
    y = np.sin(X.sum(axis=1)) + 0.3 * rng.standard_normal(n)
    omega = rng.uniform(0.2, 2.5, n) if weights else np.ones(n)
    return Problem(X, y, omega, layout, random_parameters(layout, rng), weighted_precision)


def central_difference(function, theta, direction):
    """Slope along a direction from four central points: error O(h^4) + O(eps / h) with h = cbrt(eps) scaled."""
    h = np.cbrt(np.finfo(float).eps) * max(1.0, float(np.abs(theta).max()))
    h *= 5.0 / max(1.0, float(np.abs(direction).max()))
    near = (function(theta + h * direction) - function(theta - h * direction)) / (2 * h)
    far = (function(theta + 2 * h * direction) - function(theta - 2 * h * direction)) / (4 * h)
    return (4.0 * near - far) / 3.0


def option_grid():
    """Heteroscedastic or not, ARD or shared, weights (both blurs) or none, three mean functions."""
    weightings = {"none": (False, False), "likelihood": (True, False), "precision": (True, True)}
    for het, ard, name, mean in itertools.product(
        (True, False), (True, False), weightings, ("zero", "constant", "linear")
    ):
        weights, weighted_precision = weightings[name]
        yield (
            {
                "heteroscedastic": het,
                "relevance": ard,
                "weights": weights,
                "weighted_precision": weighted_precision,
                "mean_function": mean,
            },
            f"{'het' if het else 'hom'}-{'ard' if ard else 'shared'}-{name}-{mean}",
        )


def make_kinds(d, seed=0):
    """Two blurs that lose inputs (conditional on the others), one that blurred_bases all of them."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) + 1.5 * np.eye(d)
    covariance = root @ root.T / d
    blurs = []
    for missing in ([0], list(range(1, d))):
        seen = [i for i in range(d) if i not in missing]
        gain = covariance[np.ix_(missing, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        left = covariance[np.ix_(missing, missing)] - gain @ covariance[np.ix_(seen, missing)]
        V, plane = np.zeros((d, len(missing))), np.zeros((d, len(seen)))
        V[missing] = np.linalg.cholesky(left)
        plane[seen] = np.eye(len(seen))
        plane[missing] = gain
        blurs.append(Blur(V, 0.1 * rng.standard_normal(d), np.linalg.qr(plane)[0], np.isin(np.arange(d), missing)))
    blurs.append(Blur(0.4 * np.linalg.cholesky(covariance), np.zeros(d), np.eye(d), np.zeros(d, dtype=bool)))
    return tuple(blurs)
