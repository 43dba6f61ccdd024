"""What every compiled kernel gains over the same in NumPy, on one thread, at shapes of training and prediction.

One JSON line per kernel: the least seconds of a call by both routes, and their ratio. Kernels that gain less than 1.3
are not worth their C.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import contextmanager
from unittest import mock

import numpy as np

from common import emit, environment
from gpzed.compiled import binding, substitute
from gpzed.engine.blocks import Block, Scratch, block_rows
from gpzed.engine.threads import ThreadEngine, single_threaded_blas
from gpzed.gp import evidence, predictive
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import weight_posterior
from gpzed.gp.prior import common_shape
from gpzed.gp.state import make_state
from gpzed.incomplete.blur import Blur, BlurredBasis
from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms
from gpzed.mixture import likelihood as mixture
from gpzed.mixture.heads import Heads
from gpzed.prediction.point import best_points

BLURRED = 2  # rank of what is missing
BATCH_ROWS = 256


class Problem:
    """Basis functions, weights, heads and rows at a typical place."""

    def __init__(self, m: int, d: int, K: int, code: str) -> None:
        rng = np.random.default_rng(0)
        self.layout = layout = Layout.of(m, d, code, mean_function="linear")
        self.n = block_rows(layout.n_weights)
        X, y = rng.standard_normal((self.n, d)), rng.standard_normal(self.n)
        self.block = Block(np.ascontiguousarray(X.T), y, np.ones(self.n))
        Lambda = np.repeat(np.eye(d)[None] / (2.0 * d), m, axis=0) * rng.uniform(0.5, 2.0, (m, 1, 1))
        Gamma = layout.structure.factor(Lambda[:1] if layout.structure.is_global else Lambda)
        numbers = (0.1 * rng.standard_normal(m), 1.0, np.zeros(layout.n_weights), np.zeros(m))
        self.parameters = Parameters(rng.standard_normal((m, d)), Gamma, *numbers)
        self.state = make_state(self.parameters, layout)
        sums = ThreadEngine(X, y, width=layout.n_weights, n_threads=1).sum(evidence.forward, self.state)
        self.posterior = weight_posterior(sums[0], sums[1], np.ones(layout.n_weights))
        self.heads = Heads(self.parameters.P, Gamma, 0.1 * rng.standard_normal((layout.n_weights, 3 * K)))
        self.blur = Blur(0.3 * np.eye(d)[:, :BLURRED], np.zeros(d), np.eye(d)[:, BLURRED:], np.arange(d) < BLURRED)
        self.V = np.tril(0.3 * rng.standard_normal((self.n, d, d)))
        self.mixtures = (
            rng.dirichlet(np.ones(3 * K), self.n),
            rng.random((self.n, 3 * K)),
            np.full((self.n, 3 * K), 0.1),
        )


@contextmanager
def route(compiled: bool):
    """Use the compiled functions, or NumPy."""
    with mock.patch.object(binding, "_library", binding._library if compiled else None):
        yield


def passes(problem: Problem) -> dict[str, Callable[[], object]]:
    """Return calls of the kernels on rows without gaps."""
    p, size = problem, (problem.layout.n_weights + 4) * (problem.n + 64)
    buffers: dict[str, np.ndarray] = {}
    memory, batch = (
        np.empty(size),
        Block(p.block.Xt[:, :BATCH_ROWS], p.block.y[:BATCH_ROWS], p.block.omega[:BATCH_ROWS]),
    )
    heads = make_state(p.parameters, p.layout), p.heads.Theta
    factors = (p.posterior.factor,) * p.heads.K
    return {
        "forward": lambda: substitute(evidence.forward)(p.block, Scratch(buffers, keep=memory), p.state),
        "backward": lambda: substitute(evidence.backward)(p.block, Scratch(buffers, kept=memory), p.state, p.posterior),
        "moments": lambda: substitute(predictive.moments)(p.block, Scratch(buffers), p.state, p.posterior),
        "likelihood of heads": lambda: substitute(mixture.likelihood)(p.block, Scratch(buffers), *heads),
        "held-out likelihood of heads": lambda: substitute(mixture.held_out_likelihood)(
            p.block, Scratch(buffers), *heads
        ),
        "moments of heads": lambda: substitute(mixture.moments)(p.block, Scratch(buffers), *heads, factors),
        "posterior of a batch": lambda: substitute(mixture.batch_posterior)(
            [batch], Scratch(buffers), p.heads, p.layout, (), 1.0, 0.1
        ),
        "points of least loss": lambda: best_points(*p.mixtures, 0.0),
    }


def uncertain(problem: Problem) -> dict[str, Callable[[], object]]:
    """Return calls of the kernels on shapes, and on rows with gaps or errors."""
    p, buffers = problem, {}
    Lambda = p.layout.structure.expand(p.parameters.Gamma, p.layout.d)
    grad_C = np.random.default_rng(0).standard_normal((1 + p.layout.d + p.layout.d * (p.layout.d + 1) // 2, p.layout.m))
    w = p.posterior.w_mean
    forms = QuadraticForms(p.parameters.P, Lambda, np.stack([np.outer(w, w), p.posterior.factor.inverse]))
    few, spreads = slice(0, 512), {True: AddedVariance(forms, p.blur), False: AddedVariance(forms, p.blur)}
    noisy = BlurredRows(forms, p.layout.k)

    def prepare() -> object:
        spread = AddedVariance(forms, p.blur)
        return spread(p.block.Xt[:, :0], Scratch(buffers))

    return {
        "prior on shapes": lambda: substitute(common_shape)(Lambda, 1.0),
        "coefficients of a kind": lambda: BlurredBasis(p.parameters.P, Lambda, p.blur.V).Ct,
        "pull-back of a kind": lambda: BlurredBasis(p.parameters.P, Lambda, p.blur.V).pull_back(grad_C),
        "pairs of a kind, prepared": prepare,
        "pairs of a kind": lambda: spreads[binding.is_compiled()](p.block.Xt[:, few], Scratch(buffers)),
        "pairs of rows with errors": lambda: noisy(p.block.Xt[:, :16], p.V[:16], Scratch(buffers)),
    }


def best(job: Callable[[], object], repeat: int) -> float:
    """Return the least seconds of a call."""
    job()
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", type=int, default=100, help="basis functions")
    parser.add_argument("-d", type=int, default=10, help="features")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--structure", default="VC")
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    problem = Problem(options.m, options.d, options.heads, options.structure)
    size = {"m": options.m, "d": options.d, "heads": options.heads, "structure": options.structure, "rows": problem.n}
    with single_threaded_blas():
        for name, job in (passes(problem) | uncertain(problem)).items():
            seconds = {}
            for compiled in (True, False, True, False):
                with route(compiled):
                    seconds[compiled] = min(best(job, options.repeat), seconds.get(compiled, np.inf))
            ratio = seconds[False] / seconds[True]
            times = {"compiled_seconds": seconds[True], "numpy_seconds": seconds[False], "ratio": round(ratio, 2)}
            emit({"benchmark": "kernel", "kernel": name, **size, **times, **environment()})


if __name__ == "__main__":
    main()
