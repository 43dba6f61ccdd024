"""Time of one evaluation of the evidence and its gradient, against this machine's own dgemm rate.

Flops are counted as n (4 q m + 3 m^2): two products with the quadratic map of q columns, one symmetric and one full
product of m x m per row. The last line printed is JSON.
"""

from __future__ import annotations

import numpy as np

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
from gpzed.engine.stream import StreamEngine
from gpzed.engine.threads import ThreadEngine
from gpzed.gp.evidence import evaluate
from gpzed.gp.parameters import Layout


class Chunks:
    """The rows of the benchmark, generated chunk by chunk on every pass."""

    def __init__(self, n: int, d: int, seed: int, size: int = 50_000) -> None:
        self.n, self.d, self.seed, self.size = n, d, seed, size

    def __iter__(self):
        for index, start in enumerate(range(0, self.n, self.size)):
            rows = min(self.size, self.n - start)
            X, y = make_rows(rows, self.d, self.seed + index)
            yield X, y, np.ones(rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--stream", action="store_true", help="read the rows in chunks, in constant memory")
    options = parser.parse_args()
    layout = Layout.of(options.m, options.d, options.structure)
    if options.stream:
        engine = StreamEngine(
            Chunks(options.n, options.d, options.seed), width=layout.n_weights, n_threads=options.threads
        )
        X, _ = make_rows(max(options.m, 1000), options.d, options.seed)
    else:
        X, y = make_rows(options.n, options.d, options.seed)
        engine = ThreadEngine(X, y, width=layout.n_weights, n_threads=options.threads)
    parameters = make_parameters(X, layout, options.seed)
    seconds, median, rate = side_by_side(lambda: evaluate(engine, parameters, layout), options.repeat, options.threads)
    flops = options.n * (4 * n_coefficients(layout) * options.m + 3 * options.m**2)
    emit(
        {
            "benchmark": "evidence",
            "n": options.n,
            "d": options.d,
            "m": options.m,
            "structure": options.structure,
            "stream": options.stream,
            "seconds_per_evaluation": seconds,
            "median_seconds": median,
            "gflops": flops / seconds / 1e9,
            "dgemm_gflops": rate,
            "fraction_of_dgemm": flops / seconds / 1e9 / rate,
            "peak_megabytes": peak_megabytes(),
            **environment(),
        }
    )


if __name__ == "__main__":
    main()
