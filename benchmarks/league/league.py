"""Train and score RAIL's codes, a random forest and gpzed on RAIL's DC2 samples, and write one table: `make league`.

Every code runs with its own defaults, inform and estimate each in a separate process. All are scored by
`gpzed.evaluation` from the qp files that they write. Results go to `docs/results/league.jsonl`, one line per code, and
the page `docs/reference/league.md` is written from that file and `page.md`.

    make league                                     all codes
    make league LEAGUE_ARGS="--only gpzed forest"   some of them; the other lines of the file stay
    make league LEAGUE_ARGS="--page"                only write the page
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from codes import CODES
from rail.utils.path_utils import find_rail_file

from gpzed.evaluation import bias, fraction_retained, outlier_fraction, rmse, sigma_nmad
from gpzed.evaluation import evaluate as evaluate_prediction
from gpzed.workflows import PredictionSource, read_predictions

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "league"
RESULTS = ROOT / "docs" / "results" / "league.jsonl"
PAGE = ROOT / "docs" / "reference" / "league.md"
FLOOR = 1e-3  # of densities, for the log-likelihood that is never infinite
COLUMNS = [
    ("inform, CPU s", "inform_cpu_seconds", "{:.1f}", False),
    ("estimate, CPU s", "estimate_cpu_seconds", "{:.1f}", False),
    ("peak memory, MB", "peak_mb", "{:.0f}", False),
    ("RMSE", "rmse", "{:.4f}", False),
    ("FR0.15, %", "fr_0.15", "{:.2f}", True),
    ("FR0.05, %", "fr_0.05", "{:.2f}", True),
    ("bias", "bias", "{:+.4f}", None),
    ("sigma_NMAD", "sigma_nmad", "{:.4f}", False),
    ("outliers, %", "outliers_percent", "{:.2f}", False),
    ("MLL", "mll", "{:.3f}", True),
    ("MLL, p ≥ 0.001", "mll_floored", "{:.3f}", True),
    ("CRPS", "crps", "{:.4f}", False),
    ("CDE", "cde_loss", "{:.2f}", False),
    ("PIT KS", "pit_ks", "{:.3f}", False),
    ("Brier", "brier", "{:.4f}", False),
]
"""Column, key, format, and whether higher is better (None: neither)."""
POINTS = [("RMSE", "rmse", "{:.4f}"), ("FR0.15, %", "fr_0.15", "{:.2f}"), ("FR0.05, %", "fr_0.05", "{:.2f}"),
          ("bias", "bias", "{:+.4f}"), ("sigma_NMAD", "sigma_nmad", "{:.4f}")]  # fmt: skip


def run_phase(phase: str, name: str) -> dict[str, Any]:
    """Run one phase in a separate process; return what it printed last."""
    command = [sys.executable, str(HERE / "run_stage.py"), phase, name, str(WORK / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} fails to {phase}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def score(path: Path) -> dict[str, Any]:
    """Score the densities of a qp file by gpzed's metrics."""
    truth = find_rail_file("examples_data/testdata/test_dc2_validation_9816.hdf5")  # some codes do not pass it on
    file = read_predictions(PredictionSource(path, truth=truth, redshift="redshift"))
    z, prediction, n_rows = file.z_spec, file.prediction, file.n_rows
    scores = evaluate_prediction(z, prediction)
    log_density = prediction.log_pdf(z)
    at_mode: dict[str, Any] = {"point": "mode"}
    return {
        **{key: finite(value) for key, value in scores.items() if key not in ("n", "pit_cvm", "pit_ad")},
        "outliers_percent": 100.0 * outlier_fraction(z, prediction),
        "mll_floored": float(np.mean(np.maximum(log_density, math.log(FLOOR)))),
        "zero_density_percent": float(100.0 * np.mean(np.isneginf(log_density))),
        "n": len(z),
        "n_rows": n_rows,
        "mode": {
            "rmse": rmse(z, prediction, **at_mode),
            "fr_0.15": fraction_retained(z, prediction, threshold=0.15, **at_mode),
            "fr_0.05": fraction_retained(z, prediction, threshold=0.05, **at_mode),
            "bias": bias(z, prediction, **at_mode),
            "sigma_nmad": sigma_nmad(z, prediction, **at_mode),
        },
    }


def finite(value: float) -> float | None:
    """Return a number that JSON can hold; None stands for minus infinity."""
    return float(value) if math.isfinite(value) else None


def run_code(name: str, rescore: bool) -> dict[str, Any]:
    """Train, estimate and score one code."""
    code = CODES[name]
    timing = WORK / name / "timing.json"
    if not rescore:
        inform, estimate = run_phase("inform", name), run_phase("estimate", name)
        timing.write_text(json.dumps({"inform": inform, "estimate": estimate, "load": round(os.getloadavg()[0], 1)}))
    stored = json.loads(timing.read_text())
    return {
        "code": name,
        "label": code.label,
        "package": code.distribution,
        "version": importlib.metadata.version(code.distribution),
        "note": code.note,
        "inform_seconds": stored["inform"]["seconds"],
        "inform_cpu_seconds": stored["inform"]["cpu_seconds"],
        "estimate_seconds": stored["estimate"]["seconds"],
        "estimate_cpu_seconds": stored["estimate"]["cpu_seconds"],
        "peak_mb": max(stored["inform"]["peak_mb"], stored["estimate"]["peak_mb"]),
        "load": stored["load"],
        **score(WORK / name / "output.hdf5"),
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in ("pz-rail-base", "qp-prob", "numpy")},
        "cores": os.cpu_count(),
    }


def read_results() -> dict[str, dict[str, Any]]:
    """Return the stored lines by code."""
    if not RESULTS.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines() if line.strip()]
    return {line["code"]: line for line in lines}


def cell(value: float | None, pattern: str) -> str:
    """Write a number; None is minus infinity."""
    return "\N{MINUS SIGN}∞" if value is None else pattern.format(value)


def table(results: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the main table; the best of each column in bold."""
    best: dict[str, float] = {}
    for _, key, _, higher in COLUMNS:
        values = [result[key] for result in results if result[key] is not None]
        if higher is not None:
            best[key] = max(values) if higher else min(values)
        elif key == "bias":
            best[key] = min(values, key=abs)
    lines = ["| | " + " | ".join(title for title, *_ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for result in results:
        cells = []
        for _, key, pattern, _ in COLUMNS:
            text = cell(result[key], pattern)
            cells.append(f"**{text}**" if result[key] == best.get(key) else text)
        lines.append(f"| {result['label']} | " + " | ".join(cells) + " |")
    return lines


def mode_table(results: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of point estimates by the mode."""
    lines = ["| | " + " | ".join(title for title, *_ in POINTS) + " |", "|---" * (len(POINTS) + 1) + "|"]
    for result in results:
        cells = [cell(result["mode"][key], pattern) for _, key, pattern in POINTS]
        lines.append(f"| {result['label']} | " + " | ".join(cells) + " |")
    return lines


def versions(results: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the table of versions and remarks."""
    lines = ["| | package | version | run on | load of the machine | remarks |", "|---|---|---|---|---|---|"]
    for result in results:
        remarks = [result["note"]] if result["note"] else []
        if result["n"] < result["n_rows"]:
            remarks.append(
                f"{result['n_rows'] - result['n']:,} objects without a usable density, left out of its scores"
            )
        if result["zero_density_percent"]:
            remarks.append(
                f"density zero at the true redshift for {result['zero_density_percent']:.2g} % of the objects"
            )
        load = "not recorded, busy" if result["load"] is None else result["load"]
        lines.append(
            f"| {result['label']} | {result['package']} | {result['version']} | {result['date']} | {load} "
            f"| {'; '.join(remarks)} |"
        )
    return lines


def write_page() -> None:
    """Write the page from the file of results."""
    stored = read_results()
    results = [stored[name] for name in CODES if name in stored]
    first = results[0]
    PAGE.write_text(
        (HERE / "page.md")
        .read_text()
        .format(
            n_rows=first["n_rows"],
            cores=first["cores"],
            python=first["python"],
            numpy=first["numpy"],
            rail=first["pz-rail-base"],
            qp=first["qp-prob"],
            table="\n".join(table(results)),
            mode_table="\n".join(mode_table(results)),
            versions="\n".join(versions(results)),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CODES), default=list(CODES), metavar="CODE")
    parser.add_argument("--rescore", action="store_true", help="score what the codes wrote last time")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        for name in options.only:
            result = run_code(name, options.rescore)
            print(json.dumps(result), flush=True)
            results = {**read_results(), name: result}
            RESULTS.write_text("".join(json.dumps(results[key]) + "\n" for key in CODES if key in results))
    write_page()


if __name__ == "__main__":
    main()
