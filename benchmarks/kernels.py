"""What the compiled kernels gain: CPU time of training and prediction with them and with NumPy alone, in turns.

    python benchmarks/kernels.py            one JSON line: seconds of both, and their ratio

The model is that of `gpzed train`; predictions are means, quoted redshifts and densities, as `gpzed predict` has them.
Both give the same numbers; `gpzed` says at import how much slower it is where nothing was compiled.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from gpzed import GPzRegressor
from gpzed._types import FloatArray
from gpzed.compiled import binding
from gpzed.config import RunConfig
from gpzed.simulate import simulate_survey
from gpzed.workflows.columns import BLOCK_ROWS


def seconds(work: Any) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def predict(model: GPzRegressor, X: FloatArray) -> None:
    """Predict what a file gets, as many rows at once."""
    for start in range(0, len(X), BLOCK_ROWS):
        prediction = model.predict_distribution(X[start : start + BLOCK_ROWS]).changed(lower=0.0)
        assert prediction.mean.size == prediction.best.size == len(prediction.reduced())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=3000, help="training rows")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    sky = simulate_survey(4 * options.size, survey="lsst", random_state=0)
    X, z = np.asarray(sky.mag), np.asarray(sky.z_true)
    n, library = options.size, binding._library
    assert library is not None, "nothing was compiled: run `python hatch_build.py`"
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(options.repeat):
        for name, used in (("compiled", library), ("numpy", None)):
            binding._library = used
            model = RunConfig().regressor().set_params(n_threads=1)
            times = found.setdefault(name, {"fit": [], "predict": []})
            times["fit"].append(seconds(lambda m=model: m.fit(X[:n], z[:n])))
            times["predict"].append(seconds(lambda m=model: predict(m, X[n:])))
    result: dict[str, Any] = {"benchmark": "kernels", "rows": n, "predicted": len(X) - n}
    for phase in ("fit", "predict"):
        best = {name: min(times[phase]) for name, times in found.items()}
        result |= {f"{phase}_{name}_cpu_seconds": round(value, 3) for name, value in best.items()}
        result[f"{phase}_ratio"] = round(best["numpy"] / best["compiled"], 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
