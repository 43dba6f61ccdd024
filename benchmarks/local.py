"""Calibration in cells: gpzed beside Cal-PIT and a conformal method, which learn from held-out rows where it is off.

    .venv-league/bin/python benchmarks/local.py --catalogue dc2 --seed 0

A fifth of the training rows is kept for Cal-PIT (gradient boosting, its defaults) and for conformal intervals (of the
nearest held-out rows in magnitude, colour and redshift estimate); both correct a model trained on the rest. Beside them
that model, and one trained on all rows. A JSON line each: coverage of 68 % in cells, CDE loss and log-likelihood of the
test rows, all densities on one grid; conformal intervals are no densities. Needs the catalogues (`--data-dir`, or
GPZED_DATA).
"""

from __future__ import annotations

import warnings

import numpy as np
from calpit import CalPIT, GridCDE
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors

from catalogues import arguments, tables
from cells import INSIDE, judge_cells, make_cells
from common import emit
from defaults import measured
from gpzed import train
from gpzed.prediction import Prediction
from gpzed.workflows import predict_table
from networks import features

N_GRID, CHUNK, N_NEIGHBOURS = 1200, 2000, 200


def on_grid(p: Prediction, grid: np.ndarray) -> np.ndarray:
    """Return densities on a grid, normalised there."""
    values = np.concatenate([p[rows].pdf_grid(grid) for rows in chunks(len(p))])
    return values / np.trapezoid(values, grid, axis=1)[:, None]


def chunks(n: int) -> list[slice]:
    """Return slices of rows that fit into memory."""
    return [slice(start, start + CHUNK) for start in range(0, n, CHUNK)]


def score(pdf: np.ndarray, grid: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """Return CDE loss and mean log-likelihood of densities on a grid."""
    at_truth = np.array([np.interp(value, grid, row) for value, row in zip(z, pdf, strict=True)])
    squares = np.trapezoid(pdf**2, grid, axis=1)
    log_density = np.log(np.maximum(at_truth, 1e-6))
    return {"cde_loss": round(float(np.mean(squares - 2 * at_truth)), 4), "mll": round(float(np.mean(log_density)), 4)}


def conformal(near: list[np.ndarray], pit: np.ndarray, near_new: list[np.ndarray]) -> np.ndarray:
    """Return for new rows how far from 1/2 the PIT of the 68 % of their nearest held-out rows is."""
    table, new = np.column_stack(near), np.column_stack(near_new)
    centre, scale = table.mean(axis=0), table.std(axis=0)
    found = NearestNeighbors(n_neighbors=min(N_NEIGHBOURS, len(pit))).fit((table - centre) / scale)
    nearest = found.kneighbors((new - centre) / scale, return_distance=False)
    level = min(1.0, INSIDE * (nearest.shape[1] + 1) / nearest.shape[1])
    return np.quantile(np.abs(pit - 0.5)[nearest], level, axis=1)


def main() -> None:
    args = arguments(__doc__)
    warnings.simplefilter("ignore")
    training, test = tables(args.data_dir, args.catalogue)
    z = test.floats("z_spec")
    order = np.random.default_rng(args.seed).permutation(len(training))
    held, used = (training.take(np.sort(rows)) for rows in np.split(order, [len(order) // 5]))
    whole, part = (train(rows, seed=args.seed) for rows in (training, used))
    p_held, p = (predict_table(part, rows)[0] for rows in (held, test))
    p_whole = predict_table(whole, test)[0]
    columns, gaps = measured(test, part)
    cells = make_cells([*columns, p_whole.z_phot], gaps)
    pit_held, pit = p_held.cdf(held.floats("z_spec")), p.cdf(z)
    grid = np.linspace(0.0, 1.1 * float(max(z.max(), training.floats("z_spec").max())), N_GRID)
    base = {"catalogue": args.catalogue, "seed": args.seed, "n_train": len(training), "n_test": len(test)}

    def say(method: str, inside: np.ndarray, scores: dict[str, float]) -> None:
        emit({**base, "method": method, **judge_cells(inside, cells), **scores})

    def central(values: np.ndarray) -> np.ndarray:
        return np.abs(values - 0.5) < INSIDE / 2

    say("gpzed", central(p_whole.cdf(z)), score(on_grid(p_whole, grid), grid, z))
    densities = on_grid(p, grid)
    say("gpzed, four fifths of the rows", central(pit), score(densities, grid, z))
    X_held, X = features(part, held, test)
    own_held, own = (np.column_stack([q.z_phot, np.log(q.std)]) for q in (p_held, p))
    calpit = CalPIT(HistGradientBoostingClassifier(random_state=args.seed), random_state=args.seed)
    varies = np.ptp(X_held, axis=0) > 0  # False where NaN, too
    calpit.fit(np.hstack([X_held[:, varies], own_held]), pit=pit_held)
    inputs = np.hstack([X[:, varies], own])
    moved = np.concatenate([calpit.predict(inputs[rows], pit[rows, None]) for rows in chunks(len(z))])[:, 0]
    recalibrated = np.concatenate(
        [calpit.transform(inputs[rows], GridCDE(densities[rows], grid)).pdf for rows in chunks(len(z))]
    )
    say("Cal-PIT", central(moved), score(recalibrated, grid, z))
    near_held, near = [*measured(held, part)[0], p_held.z_phot], [*columns, p.z_phot]
    say("conformal", np.abs(pit - 0.5) < conformal(near_held, pit_held, near), {})


if __name__ == "__main__":
    main()
