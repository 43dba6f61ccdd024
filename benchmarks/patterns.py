"""What missing inputs cost: an evaluation with 50 patterns of gaps beside a complete one, and predictions.

JSON lines: seconds of one evaluation of evidence and gradient, every row of the second catalogue being incomplete; rows
per second of exact predictions (mean and all parts of the variance) for incomplete rows; the same for what uncertain
inputs add to both parts of the variance of each of five heads; and for rows with errors, no two of them alike.
"""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np

from common import arguments, emit, environment, make_parameters, make_rows
from gpzed.engine.blocks import Scratch, block_rows, by_blur
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.gp.evidence import evaluate, fit_posterior
from gpzed.gp.parameters import Layout
from gpzed.gp.predictive import predict, variance_forms
from gpzed.gp.state import make_state
from gpzed.gp.whitening import Whitening
from gpzed.incomplete.density import Density
from gpzed.incomplete.givens import refresh
from gpzed.incomplete.parts import PatternTable
from gpzed.incomplete.patterns import InputModel, patterns_of
from gpzed.incomplete.spread import AddedVariance, BlurredRows, QuadraticForms

HEADS = 5


def best(job, repeat: int) -> tuple[float, float]:
    """Least seconds of a job, by the clock and of processor time, over all threads."""
    seconds, busy = [], []
    for _ in range(repeat):
        started, used = time.perf_counter(), time.process_time()
        job()
        seconds.append(time.perf_counter() - started)
        busy.append(time.process_time() - used)
    return min(seconds), min(busy)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--patterns", type=int, default=50)
    parser.add_argument("--missing", type=int, default=2, help="inputs missing at most")
    options = parser.parse_args()
    X, y = make_rows(options.n, options.d, options.seed)
    layout = Layout.of(options.m, options.d, options.structure, mean_function="constant")
    parameters = make_parameters(X, layout, options.seed)
    rng = np.random.default_rng(options.seed)
    root = np.eye(options.d) + 0.5 * rng.standard_normal((options.d, options.d)) / np.sqrt(options.d)
    covariance = root @ root.T
    possible = [c for size in range(1, options.missing + 1) for c in combinations(range(options.d), size)]
    patterns = [possible[i] for i in rng.permutation(len(possible))[: options.patterns]]
    gaps = X.copy()
    for index, pattern in enumerate(sorted(patterns)):
        gaps[index :: len(patterns), list(pattern)] = np.nan
    inputs = InputModel(Density(np.ones(1), np.zeros((1, options.d)), covariance[None]), None)
    table = PatternTable(inputs, Whitening(np.zeros(options.d), np.eye(options.d)), patterns_of(gaps)[0])
    parts = table.parts(gaps)
    complete = ThreadEngine(X, y, width=layout.n_weights, n_threads=options.threads)
    gappy = ThreadEngine(parts.X, y[parts.row], None, parts.blur, width=layout.n_weights, n_threads=options.threads)
    started = time.perf_counter()
    refresh([gappy], parameters, layout, False, table.blurs)
    refreshed = time.perf_counter() - started
    plain, blurred = [], []
    for _ in range(options.repeat):  # in turns, so that other load falls on both
        plain.append(best(lambda: evaluate(complete, parameters, layout), 1)[0])
        blurred.append(best(lambda: evaluate(gappy, parameters, layout, False, table.blurs), 1)[0])
    size = {"n": options.n, "d": options.d, "m": options.m, "structure": options.structure}
    emit(
        {"benchmark": "evidence with patterns", **size, "patterns": len(table.blurs), "complete": min(plain)}
        | {"incomplete": min(blurred), "ratio": min(blurred) / min(plain), "refresh": refreshed, **environment()}
    )
    state, posterior, _ = fit_posterior(complete, parameters, layout)
    forms = variance_forms(parameters, layout, posterior)
    spreads = [AddedVariance(forms, blur) for blur in table.blurs]
    state = make_state(parameters, layout, blurs=table.blurs)
    team = Team(options.threads)
    started = time.perf_counter()
    predict(parts.X, state, posterior, team, parts.blur, spreads)
    first = time.perf_counter() - started
    seconds, busy = best(lambda: predict(parts.X, state, posterior, team, parts.blur, spreads), min(options.repeat, 3))
    emit(
        {"benchmark": "predict with gaps", **size, "pairs": len(forms.pairs[0]), "rows_per_second": options.n / seconds}
        | {"first_pass_rows_per_second": options.n / first, "rows_per_core_second": options.n / busy, **environment()}
    )
    rng = np.random.default_rng(1)
    W = rng.standard_normal((HEADS, layout.n_weights)) * np.abs(posterior.w_mean)
    matrices = np.concatenate([W[:, :, None] * W[:, None, :], np.repeat(forms.matrices[1:], HEADS, axis=0)])
    heads = QuadraticForms(forms.P, forms.Lambda, matrices)
    groups = by_blur(parts.blur, block_rows(layout.n_weights))

    def spread_all() -> tuple[float, float, float]:
        spreads = [AddedVariance(heads, blur) for blur in table.blurs]

        def spread(rows) -> None:
            Xt = np.ascontiguousarray(parts.X[rows].T)
            spreads[parts.blur[rows[0]] - 1](Xt, Scratch(team.buffers()))

        started = time.perf_counter()
        team.map(spread, groups)
        first = time.perf_counter() - started
        return first, *best(lambda: team.map(spread, groups), min(options.repeat, 3))

    first, seconds, busy = spread_all()
    emit(
        {"benchmark": "spread of heads", **size, "heads": HEADS, "pairs": len(heads.pairs[0])}
        | {"rows_per_second": options.n / seconds, "first_pass_rows_per_second": options.n / first}
        | {"rows_per_core_second": options.n / busy, **environment()}
    )
    n = min(options.n, 20_000)
    V = np.tril(0.3 * rng.standard_normal((n, options.d, options.d)))
    noisy = BlurredRows(heads, layout.k)

    def expect_rows(rows: slice, _: int) -> None:
        noisy(X[rows].T, V[rows], Scratch(team.buffers()))

    def expect_all() -> None:
        team.map_rows(expect_rows, n, None, block_rows(layout.n_weights))

    expect_all()
    seconds, busy = best(expect_all, min(options.repeat, 3))
    emit(
        {"benchmark": "rows with errors, heads", **size, "heads": HEADS, "pairs": len(heads.pairs[0])}
        | {"rows_per_second": n / seconds, "rows_per_core_second": n / busy, **environment()}
    )


if __name__ == "__main__":
    main()
