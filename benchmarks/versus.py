"""gpzed beside RAIL's GPz (pz-rail-gpz-v1), in turns in one run, on the same arrays: `make rivals`.

Evidence: seconds per evaluation at n = 100,000, d = 10, m = 100, VC. Training: wall time until gpzed's validation score
reaches the one at which the rival ends (its last iterate), and the best one it ever had; gpzed with its noise
correction, which the score includes, as by default, and without it. Both codes have a linear mean function. The rival
runs with its own defaults in a separate environment (`benchmarks/rivals/setup.sh`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import emit, environment, make_parameters
from gpzed import GPzRegressor
from gpzed.engine.threads import ThreadEngine
from gpzed.evaluation import evaluate as score_predictions
from gpzed.gp.evidence import evaluate
from gpzed.gp.parameters import Layout

ROOT = Path(__file__).resolve().parent.parent
RIVAL = ROOT / ".venv-bench" / "bin" / "python"
FILES = ROOT / "build" / "bench"


def rival(*arguments: str) -> dict[str, Any]:
    """Run the rival; its last line is JSON."""
    command = [str(RIVAL), str(ROOT / "benchmarks/rivals/rail_gpz.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def arrays(name: str, *arguments: str) -> Path:
    """Make the file of arrays that both codes read."""
    FILES.mkdir(parents=True, exist_ok=True)
    path = FILES / f"{name}.npz"
    if not path.exists():
        command = [sys.executable, str(ROOT / "benchmarks/rivals/make_npz.py"), *arguments, "--out", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    return path


def compare_evidence(rounds: int) -> None:
    """One evaluation of each in turns; best against best and median against median."""
    path = arrays("random", "--random", "--n", "100000", "--d", "10")
    data = np.load(path)
    X = (data["X"] - data["X"].mean(axis=0)) / data["X"].std(axis=0)
    y = (data["y"] - data["y"].mean()) / data["y"].std()
    layout = Layout.of(100, 10, "VC", mean_function="linear")  # the rival has a linear mean, too
    engine = ThreadEngine(X, y, width=layout.n_weights)
    parameters = make_parameters(X, layout)
    evaluate(engine, parameters, layout)
    ours, theirs = [], []
    for _ in range(rounds):
        for _ in range(5):
            started = time.perf_counter()
            evaluate(engine, parameters, layout)
            ours.append(time.perf_counter() - started)
        result = rival("evidence", "--npz", str(path), "--m", "100", "--structure", "VC", "--repeat", "3")
        theirs += [result["seconds_per_evaluation"], result["seconds_median"]]
    emit(
        {
            "benchmark": "versus evidence",
            "ours_best": min(ours),
            "theirs_best": min(theirs),
            "ratio_of_best": min(theirs) / min(ours),
            "ratio_of_medians": float(np.median(theirs) / np.median(ours)),
            **environment(),
        }
    )


def compare_training(name: str, m: int) -> None:
    """Time to the rival's validation scores."""
    path = arrays(name, "--catalogue", name)
    data = np.load(path)
    theirs = rival("train", "--npz", str(path), "--m", str(m), "--structure", "VC", "--iterations", "200")
    final, best = theirs["valid_mll_final"], theirs["valid_mll_best"]
    for calibrate in ("noise", "none"):
        model = GPzRegressor(m, n_heads=1, n_members=1, calibrate=calibrate, random_state=0)
        model.fit(data["X_train"], data["y_train"], validation_data=(data["X_valid"], data["y_valid"]))
        to_final, to_best = (
            next((step.seconds for step in model.report_.history if step.score >= score), None)
            for score in (final, best)
        )
        scores = score_predictions(data["y_test"], model.predict_distribution(data["X_test"]))
        emit(
            {
                "benchmark": f"versus training {name}",
                "m": m,
                "noise_correction": calibrate == "noise",
                "their_final_score": final,
                "their_best_score": best,
                "our_best_score": model.report_.best_score,
                "their_seconds": theirs["seconds"],
                "their_seconds_to_best": next(seconds for seconds, score in theirs["trace"] if score >= best),
                "our_seconds_to_their_final": to_final,
                "our_seconds_to_their_best": to_best,
                "our_seconds": model.report_.seconds,
                "ratio_to_final": None if to_final is None else theirs["seconds"] / to_final,
                "ratio_to_best": None if to_best is None else theirs["seconds"] / to_best,
                "their_test": {k: theirs.get(k) for k in ("test_rmse", "test_mll", "test_fr15", "test_fr05")},
                "our_test": {k: scores[k] for k in ("rmse", "mll", "fr_0.15", "fr_0.05")},
                **environment(),
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["evidence", "training"])
    options = parser.parse_args()
    if not RIVAL.exists():
        sys.exit("the rival's environment is missing; make it with `benchmarks/rivals/setup.sh`.")
    if options.only != "training":
        compare_evidence(options.rounds)
    if options.only != "evidence":
        for name, m in (("dc2", 50), ("dc2", 100), ("boss", 50)):
            compare_training(name, m)


if __name__ == "__main__":
    main()
