"""Write the arrays on which gpzed and its rivals are timed and scored, as .npz files.

    python benchmarks/rivals/make_npz.py --catalogue dc2  --out build/bench/dc2.npz
    python benchmarks/rivals/make_npz.py --catalogue boss --out build/bench/boss.npz
    python benchmarks/rivals/make_npz.py --random --n 100000 --d 10 --out build/bench/random.npz

A catalogue file holds X_train, y_train, X_valid, y_valid, X_test, y_test and `features` (their names): raw
features, magnitudes first and then the natural logarithms of their errors. A random file holds X, y, omega.
Everything is float64.

dc2
    Train and validation are a seeded 75/25 split of training.parquet, test is validation.parquet. A band that
    is not detected gets the magnitude limit of RAIL's defaults and ln(error) = 1, as RAIL's stage does.
boss
    Train and validation are a seeded 75/25 split of files 0 and 3, test is file 1, all with z_spec > 0.002.
    Pogson magnitudes of fluxes near zero (u = 33, error 1e4) are clipped in every band, to magnitude 26 and
    error 10 (signal to noise of about 0.1); this touches u (3 % of the magnitudes, 6 % of the errors) and a
    handful of rows in g and z.
random
    X is standard normal, y a smooth function of it plus noise whose size depends on X, omega uniform in
    [0.5, 1.5].
"""

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]

DC2_LIMITS = {"u": 27.79, "g": 29.04, "r": 29.06, "i": 28.62, "z": 27.98, "y": 27.05}
"""RAIL's default magnitude limits, put in the place of a magnitude that was not detected."""
DC2_LOG_ERROR_UNDETECTED = 1.0  # RAIL writes this after taking the logarithm
BOSS_BANDS = "ugriz"
BOSS_MIN_REDSHIFT = 0.002
BOSS_MAX_MAGNITUDE = 26.0
BOSS_MAX_ERROR = 10.0
VALIDATION_FRACTION = 0.25


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """Columns of a Parquet file as float64 arrays, nulls as NaN."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return {name: table[name].to_numpy().astype(float) for name in table.column_names}


def dc2_features(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Magnitudes and ln(errors) of the DC2 catalogue, non-detections filled as RAIL fills them."""
    magnitudes, log_errors = [], []
    for band, limit in DC2_LIMITS.items():
        magnitude, error = columns[f"mag_{band}"], columns[f"mag_err_{band}"]
        undetected = ~np.isfinite(magnitude)
        magnitudes.append(np.where(undetected, limit, magnitude))
        log_errors.append(np.where(undetected, DC2_LOG_ERROR_UNDETECTED, np.log(error)))
    return np.column_stack(magnitudes + log_errors)


def boss_features(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Magnitudes and ln(errors) of the BOSS catalogue, clipped."""
    magnitudes = [np.minimum(columns[f"mag_{band}"], BOSS_MAX_MAGNITUDE) for band in BOSS_BANDS]
    log_errors = [np.log(np.minimum(columns[f"mag_err_{band}"], BOSS_MAX_ERROR)) for band in BOSS_BANDS]
    return np.column_stack(magnitudes + log_errors)


def split(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Shuffle with a seed, then part into train and validation."""
    order = np.random.default_rng(seed).permutation(len(y))
    n_train = int(len(y) * (1.0 - VALIDATION_FRACTION))
    train, valid = order[:n_train], order[n_train:]
    return {"X_train": X[train], "y_train": y[train], "X_valid": X[valid], "y_valid": y[valid]}


def feature_names(bands: str) -> np.ndarray:
    return np.array([f"mag_{band}" for band in bands] + [f"log_mag_err_{band}" for band in bands])


def make_dc2(data_dir: Path, seed: int) -> dict[str, np.ndarray]:
    training = read_columns(data_dir / "rail_dc2_9816" / "training.parquet")
    test = read_columns(data_dir / "rail_dc2_9816" / "validation.parquet")
    arrays = split(dc2_features(training), training["z_spec"], seed)
    return {
        **arrays,
        "X_test": dc2_features(test),
        "y_test": test["z_spec"],
        "features": feature_names("".join(DC2_LIMITS)),
    }


def make_boss(data_dir: Path, seed: int) -> dict[str, np.ndarray]:
    features, redshifts = [], []
    for part in (0, 3, 1):
        columns = read_columns(data_dir / "sdss_boss_dr10" / f"boss_dr10_{part}.parquet")
        kept = columns["z_spec"] > BOSS_MIN_REDSHIFT
        features.append(boss_features(columns)[kept])
        redshifts.append(columns["z_spec"][kept])
    arrays = split(np.concatenate(features[:2]), np.concatenate(redshifts[:2]), seed)
    return {
        **arrays,
        "X_test": features[2],
        "y_test": redshifts[2],
        "features": feature_names(BOSS_BANDS),
    }


def make_random(n: int, d: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    directions = rng.standard_normal((3, d)) / np.sqrt(d)
    a, b, c = directions @ X.T
    noise = np.exp(-2.0 + 0.5 * np.tanh(c))  # standard deviation
    y = np.sin(2.0 * a) + 0.5 * b**2 + 0.3 * a * b + noise * rng.standard_normal(n)
    return {"X": X, "y": y, "omega": rng.uniform(0.5, 1.5, n)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--catalogue", choices=["dc2", "boss"])
    what.add_argument("--random", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared" / "data"),
        help="folder of the real catalogues (default: $GPZED_DATA, then ../shared/data beside the project)",
    )
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--d", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    if args.random:
        arrays = make_random(args.n, args.d, args.seed)
    elif not args.data_dir.is_dir():
        sys.exit(f"no catalogues in {args.data_dir}: give --data-dir or set GPZED_DATA")
    else:
        arrays = {"dc2": make_dc2, "boss": make_boss}[args.catalogue](args.data_dir, args.seed)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            sys.exit(f"{name} has non-finite values")

    args.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(args.out, **arrays)
    print(json.dumps({"out": str(args.out), **{name: list(array.shape) for name, array in arrays.items()}}))


if __name__ == "__main__":
    main()
