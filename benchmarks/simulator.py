"""How hard the simulated surveys are, by gradient boosting on magnitudes and colours: one JSON line for each sample.

python benchmarks/simulator.py --seed 0
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from catalogues import point_metrics
from common import emit
from gpzed.prediction import Prediction
from gpzed.simulate import simulate_survey

SAMPLES = {
    "sdss, spectroscopic": ("sdss", True),
    "sdss, all": ("sdss", False),
    "lsst, spectroscopic": ("lsst", True),
    "lsst, all": ("lsst", False),
}
N = 40_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    for name, (survey, spectroscopic) in SAMPLES.items():
        sky = simulate_survey(2 * N, survey=survey, random_state=seed, only_spectroscopic=spectroscopic)
        X, z = np.hstack([sky.mag, np.diff(sky.mag, axis=1)]), sky.z_true
        trees = HistGradientBoostingRegressor(max_iter=300, random_state=seed).fit(X[:N], z[:N])
        p = Prediction.gaussian(trees.predict(X[N:]), 0.0, float(np.var(z[:N])))
        scores = {key: round(value, 5) for key, value in point_metrics(z[N:], p, "mean").items()}
        emit({"sample": name, "seed": seed, "median_redshift": round(float(np.median(z)), 3), **scores})


if __name__ == "__main__":
    main()
