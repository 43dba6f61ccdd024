"""Rate of prediction (mean and both variances), against this machine's own dgemm rate.

Flops are counted as n (2 q m + m^2 + 6 m): one product with the quadratic map of q columns, one triangular product for
the model variance and its squares (2 m), mean and noise (2 m each). The exponentials are not counted. The last line
printed is JSON.
"""

from __future__ import annotations

from common import (
    arguments,
    emit,
    environment,
    make_parameters,
    make_rows,
    n_coefficients,
    peak_megabytes,
    side_by_side,
)
from gpzed.engine.threads import Team, ThreadEngine
from gpzed.gp.evidence import fit_posterior
from gpzed.gp.parameters import Layout
from gpzed.gp.predictive import predict


def main() -> None:
    options = arguments(__doc__).parse_args()
    layout = Layout.of(options.m, options.d, options.structure)
    X, y = make_rows(options.n, options.d, options.seed)
    parameters = make_parameters(X, layout, options.seed)
    rows = slice(0, min(options.n, 20_000))
    state, posterior, _ = fit_posterior(ThreadEngine(X[rows], y[rows], width=layout.n_weights), parameters, layout)
    team = Team(options.threads)
    seconds, median, rate = side_by_side(lambda: predict(X, state, posterior, team), options.repeat, options.threads)
    flops = options.n * (2 * n_coefficients(layout) * options.m + options.m**2 + 6 * options.m)
    emit(
        {
            "benchmark": "predict",
            "n": options.n,
            "d": options.d,
            "m": options.m,
            "structure": options.structure,
            "seconds": seconds,
            "median_seconds": median,
            "rows_per_second": options.n / seconds,
            "gflops": flops / seconds / 1e9,
            "dgemm_gflops": rate,
            "fraction_of_dgemm": flops / seconds / 1e9 / rate,
            "peak_megabytes": peak_megabytes(),
            **environment(),
        }
    )


if __name__ == "__main__":
    main()
