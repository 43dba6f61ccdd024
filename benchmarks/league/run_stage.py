"""Run one phase of one code of the league in a separate process: `run_stage.py inform|estimate CODE FOLDER`.

The last line printed is JSON: wall and processor seconds of the phase without imports, and the peak memory of the
process with them. `inform` leaves the model in FOLDER, `estimate` the qp file `FOLDER/output.hdf5`. Catalogues are the
DC2 samples that come with pz-rail-base.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pickle
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import qp
from codes import CODES, Code
from rail.core.common_params import lsst_def_maglims, lsst_mag_err_cols
from rail.core.data import DataHandle, TableHandle
from rail.utils.path_utils import find_rail_file

GROUP = "photometry"
MIN_STD = 1e-3  # of the forest: trees may agree exactly


def read_dc2(part: str) -> DataHandle:
    """Return the training or validation sample of pz-rail-base, read."""
    handle = TableHandle(f"dc2_{part}", path=find_rail_file(f"examples_data/testdata/test_dc2_{part}_9816.hdf5"))
    handle.read()
    return handle


def forest_inputs(table: dict[str, np.ndarray]) -> np.ndarray:
    """Magnitudes, non-detections at RAIL's limits, and errors."""
    columns = []
    for (band, limit), error in zip(lsst_def_maglims.items(), lsst_mag_err_cols, strict=True):
        unseen = ~np.isfinite(table[band]) | (table[band] > 90.0)
        columns += [np.where(unseen, limit, table[band]), np.where(unseen, 1.0, table[error])]
    return np.column_stack(columns)


def forest_inform(table: dict[str, np.ndarray]) -> None:
    """Fit scikit-learn's random forest with its defaults on all cores."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_jobs=-1, random_state=0).fit(forest_inputs(table), table["redshift"])
    with open("model.pkl", "wb") as stream:
        pickle.dump(forest, stream)


def forest_estimate(table: dict[str, np.ndarray]) -> None:
    """Write Gaussians with mean and standard deviation of the trees."""
    with open("model.pkl", "rb") as stream:
        forest = pickle.load(stream)
    inputs = forest_inputs(table)
    trees = np.array([tree.predict(inputs) for tree in forest.estimators_])
    scale = np.maximum(trees.std(axis=0), MIN_STD)
    ensemble = qp.Ensemble(qp.stats.norm, data={"loc": trees.mean(axis=0)[:, None], "scale": scale[:, None]})
    ensemble.set_ancil({"redshift": table["redshift"]})
    ensemble.write_to("output.hdf5")


def stage_of(code: Code, phase: str, **more: Any) -> Any:
    """Make a stage with its own defaults, but for the names of files."""
    module = importlib.import_module(f"rail.estimation.algos.{code.module}")
    kind = getattr(module, code.informer if phase == "inform" else code.estimator)
    return kind.make_stage(name=f"league_{phase}", hdf5_groupname=GROUP, **code.options, **more)


def run(phase: str, code: Code) -> tuple[float, float]:
    """Run the phase; return wall and processor seconds."""
    data = read_dc2("training" if phase == "inform" else "validation")
    if not code.module:
        work, argument = (forest_inform if phase == "inform" else forest_estimate), data.data[GROUP]
    elif phase == "inform":
        work, argument = stage_of(code, phase).inform, data
    else:
        model = next(Path().glob("model_league_inform.*"))
        work, argument = stage_of(code, phase, model=str(model)).estimate, data
    wall, cpu = time.perf_counter(), time.process_time()
    work(argument)
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    if code.module and phase == "estimate":
        Path("output_league_estimate.hdf5").rename("output.hdf5")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phase", choices=["inform", "estimate"])
    parser.add_argument("code", choices=list(CODES))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    wall, cpu = run(options.phase, CODES[options.code])
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes here
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    print(json.dumps({"seconds": round(wall, 2), "cpu_seconds": round(cpu, 2), "peak_mb": round(peak)}))


if __name__ == "__main__":
    main()
