"""Growing subsets against all rows from the first step on: wall time until both have the same held-out score.

Simulated galaxies with the inputs and the model of the paper; the score is that of fixed validation rows, and the goal
what the poorer of the two runs reaches in the end. One JSON line for each number of rows.
"""

from __future__ import annotations

import argparse
import warnings

from common import emit, environment
from gpzed import GPzRegressor, Training
from gpzed.catalog import Catalog, extract_photometry, guess_schema
from gpzed.config import RunConfig
from gpzed.errors import ConvergenceWarning
from gpzed.features import fit_transformer
from gpzed.simulate import simulate_survey

N_VALID = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--n-basis", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for n in options.rows:
        galaxies = simulate_survey(n + N_VALID, random_state=options.seed, only_spectroscopic=True)
        table = Catalog(galaxies.columns())
        photometry = extract_photometry(table, guess_schema(table.names))
        X = fit_transformer(photometry, RunConfig.paper().features).transform(photometry).X
        z = table.floats("z_spec")
        runs = {}
        for growing in (True, False):
            training = Training(coarse_to_fine=growing, max_iter=300)
            model = GPzRegressor.paper(options.n_basis, training=training, random_state=options.seed)
            model.fit(X[:n], z[:n], validation_data=(X[n:], z[n:]))
            runs[growing] = model.report_
        goal = min(report.best_score for report in runs.values())
        reached = {
            key: next(step.seconds for step in report.history if step.score >= goal) for key, report in runs.items()
        }
        emit(
            {"benchmark": "coarse to fine", "n": n, "n_basis": options.n_basis, "goal": goal}
            | {"stages": list(runs[True].n_rows), "ratio": reached[False] / reached[True]}
            | {"growing_seconds_to_goal": reached[True], "all_rows_seconds_to_goal": reached[False]}
            | {"growing_score": runs[True].best_score, "all_rows_score": runs[False].best_score}
            | {"growing_seconds": runs[True].seconds, "all_rows_seconds": runs[False].seconds, **environment()}
        )


if __name__ == "__main__":
    main()
