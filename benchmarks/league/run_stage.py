"""Run one phase of one code of the league: `run_stage.py inform|estimate CODE CATALOGUE SEED FILE FOLDER`.

The last line printed is JSON: wall and processor seconds of the phase without imports, and the peak memory of the
process with them. `inform` leaves the model in FOLDER, `estimate` the qp file `FOLDER/output.hdf5`.
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
from codes import BANDS, CODES, Code
from rail.core.common_params import lsst_def_maglims, lsst_mag_err_cols
from rail.core.data import DataHandle, TableHandle

GROUP = "photometry"
MIN_STD = 1e-3  # of the forest: trees may agree exactly


def read(path: Path) -> DataHandle:
    """Return a catalogue, read."""
    handle = TableHandle(path.stem, path=str(path))
    handle.read()
    return handle


def forest_inputs(table: dict[str, np.ndarray]) -> np.ndarray:
    """Magnitudes, non-detections at RAIL's limits, and errors."""
    columns = []
    for (band, limit), error in zip(lsst_def_maglims.items(), lsst_mag_err_cols, strict=True):
        if band not in table:
            continue
        unseen = ~np.isfinite(table[band]) | (table[band] > 90.0)
        columns += [np.where(unseen, limit, table[band]), np.where(unseen, 1.0, table[error])]
    return np.column_stack(columns)


def forest_inform(table: dict[str, np.ndarray], seed: int) -> None:
    """Fit scikit-learn's random forest with its defaults on all cores."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_jobs=-1, random_state=seed).fit(forest_inputs(table), table["redshift"])
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


def stage_of(code: Code, phase: str, args: argparse.Namespace, **more: Any) -> Any:
    """Make a stage with its own defaults, but for the names of files and bands, and the seed."""
    module = importlib.import_module(f"rail.estimation.algos.{code.module}")
    kind = getattr(module, code.informer if phase == "inform" else code.estimator)
    given: dict[str, Any] = {"seed": args.seed} if "seed" in kind.config_options else {}
    if BANDS[args.catalogue] != "ugrizy":
        bands = [f"mag_{band}_lsst" for band in BANDS[args.catalogue]]
        given |= {"bands": bands, "err_bands": [f"mag_err_{band}_lsst" for band in BANDS[args.catalogue]]}
        given |= {"ref_band": "mag_i_lsst", "mag_limits": {band: lsst_def_maglims[band] for band in bands}}
        if "replace_error_vals" in kind.config_options:  # one for each band, 0.1 by default
            given["replace_error_vals"] = [0.1] * len(bands)
    options = {**code.options, **given, **more}
    return kind.make_stage(name=f"league_{phase}", hdf5_groupname=GROUP, **options)


def run(args: argparse.Namespace, code: Code) -> tuple[float, float]:
    """Run the phase; return wall and processor seconds."""
    data, phase = read(args.file), args.phase
    os.chdir(args.folder)
    if not code.module and phase == "inform":
        work, given = forest_inform, (data.data[GROUP], args.seed)
    elif not code.module:
        work, given = forest_estimate, (data.data[GROUP],)
    elif phase == "inform":
        work, given = stage_of(code, phase, args).inform, (data,)
    else:
        model = next(Path().glob("model_league_inform.*"))
        work, given = stage_of(code, phase, args, model=str(model)).estimate, (data,)
    wall, cpu = time.perf_counter(), time.process_time()
    work(*given)
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    if code.module and phase == "estimate":
        Path("output_league_estimate.hdf5").rename("output.hdf5")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phase", choices=["inform", "estimate"])
    parser.add_argument("code", choices=list(CODES))
    parser.add_argument("catalogue", choices=list(BANDS))
    parser.add_argument("seed", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wall, cpu = run(options, CODES[options.code])
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes here
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    print(json.dumps({"seconds": round(wall, 2), "cpu_seconds": round(cpu, 2), "peak_mb": round(peak)}))


if __name__ == "__main__":
    main()
