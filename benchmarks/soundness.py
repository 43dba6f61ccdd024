"""Whether held-out rows tell the truth about others: one JSON line per structure, number of rows and seed.

    python benchmarks/soundness.py --structure VC --n 1000

Draws training sets of a function of four inputs whose noise varies, trains on each with the paper's 100 basis functions
(a third of the rows at most), and compares the mean log-likelihood of the held-out rows, as recalibration sees it, with
that of 20,000 fresh rows; and scores the fresh rows without and with recalibration. A fifth of the rows is held out;
30 of them are enough to recalibrate (200 by default), so that small training sets are put to the test, too.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace

import numpy as np

from common import emit
from gpzed import GPzRegressor
from gpzed.errors import ConvergenceWarning
from gpzed.model import committee_training, recalibration

N_FRESH = 20_000
N_BASIS = 100
MIN_ROWS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="training rows")
    parser.add_argument("--structure", default="VC")
    parser.add_argument("--seeds", type=int, default=6, help="how many, from 0 on")
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--members", type=int, default=1)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    recalibration.MIN_ROWS = committee_training.MIN_ROWS = MIN_ROWS
    for seed in range(args.seeds):
        emit(measure(args.structure, args.n, seed, args.heads, args.members))


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the toy problem."""
    X = rng.uniform(-3.0, 3.0, (n, 4))
    mean = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 / 6.0 + np.cos(X[:, 2] * X[:, 3] / 2.0)
    return X, mean + (0.1 + np.abs(X[:, 1]) / 15.0) * rng.standard_normal(n)


def measure(structure: str, n: int, seed: int, n_heads: int, n_members: int) -> dict[str, object]:
    """Train on n rows, and compare what held-out rows say with fresh ones."""
    rng = np.random.default_rng(seed)
    X, y = draw(n, rng)
    X_fresh, y_fresh = draw(N_FRESH, rng)
    model = GPzRegressor(
        min(N_BASIS, n // 3),
        structure,
        n_heads=n_heads,
        n_members=n_members,
        validation_fraction=0.2,
        coverage=False,
        random_state=seed,
    ).fit(X, y)
    p = model.predict_distribution(X_fresh)
    result: dict[str, object] = {"structure": structure, "n": n, "heads": n_heads, "members": n_members, "seed": seed}
    result |= {"mll_after": float(p.log_pdf(y_fresh).mean()), "coverage_68_after": coverage_68(p.cdf(y_fresh))}
    found = model.recalibration_
    if found is None:  # a committee keeps few rows apart, and needs some to recalibrate
        return result
    model.committee_ = replace(model.committee_, recalibration=None)
    p = model.predict_distribution(X_fresh)
    mll = float(p.log_pdf(y_fresh).mean())
    result |= {"held_out": found.n_rows, "held_out_mll": found.before["mll"], "factor": float(np.exp(found.log_scale))}
    result |= {"mll_before": mll, "coverage_68_before": coverage_68(p.cdf(y_fresh))}
    return result | {"excess": found.before["mll"] - mll}


def coverage_68(pit: np.ndarray) -> float:
    """Share of rows within the central 68 % interval."""
    return float(np.mean(np.abs(pit - 0.5) < 0.34134))


if __name__ == "__main__":
    main()
