"""Prediction from Parquet to Parquet against prediction in memory: rate and peak memory.

    python benchmarks/pipeline.py --rows 2000000 [--model paper]

Makes a catalogue of that many rows (five bands with errors, an id; the time for it is bounded with --max-seconds, so
that fewer rows are made on a slow disk), trains a model with 100 basis functions (the default, five members with eight
heads each; or the paper's, one Gaussian from magnitudes and errors, 10 inputs), predicts the rows in memory and through
files, and prints one line of JSON at the end. Peak memory is that of the predicting process alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import peak_megabytes
from gpzed.catalog import Catalog, catalog_info, open_writer, write_catalog
from gpzed.config import RunConfig
from gpzed.workflows import load_photoz_model, predict, train

BANDS = "ugriz"
BATCH = 1 << 18
MEMORY_ROWS = 1 << 20
MODELS = {"default": RunConfig(), "paper": RunConfig.paper()}


def galaxies(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    z = rng.gamma(4.0, 0.12, n)
    bright = 17.0 + 4.0 * rng.random(n)
    columns: dict[str, np.ndarray] = {"id": rng.integers(1 << 40, size=n)}
    for k, band in enumerate(BANDS):
        mag = bright + 2.0 * np.sin(3.0 * z + k) + 0.4 * k
        error = 0.01 + 10.0 ** (0.4 * (mag - 24.0))
        columns[f"mag_{band}"] = (mag + error * rng.standard_normal(n)).astype(np.float32)
        columns[f"mag_err_{band}"] = error.astype(np.float32)
    columns["z_spec"] = z
    return columns


def make_catalogue(path: Path, rows: int, max_seconds: float) -> int:
    start, done = time.perf_counter(), 0
    blocks = [galaxies(BATCH, np.random.default_rng(seed)) for seed in range(4)]
    with open_writer(path) as writer:
        while done < rows and (done == 0 or time.perf_counter() - start < max_seconds):
            n = min(BATCH, rows - done)
            block = blocks[(done // BATCH) % len(blocks)]
            columns = {name: values[:n] for name, values in block.items() if name != "z_spec"}
            columns["id"] = np.arange(done, done + n)
            writer.write(Catalog(columns))
            done += n
    return done


def memory_rates(model: Path, repeat: int = 5) -> list[float]:
    """Rows per second of mean and both variances for inputs that are in memory, some times over."""
    trained = load_photoz_model(model)
    X = np.random.default_rng(0).standard_normal((MEMORY_ROWS // 4, len(trained.transformer.names)))
    X = np.asarray(trained.transformer.mean) + 0.5 * X
    trained.regressor.predict_distribution(X[:10_000])
    rates = []
    for _ in range(repeat):
        start = time.perf_counter()
        prediction = trained.regressor.predict_distribution(X)
        assert prediction.mean.size + prediction.model_variance.size + prediction.noise_variance.size == 3 * len(X)
        rates.append(len(X) / (time.perf_counter() - start))
    return rates


def child(model: str, catalogue: str, output: str) -> None:
    catalog_info(catalogue)  # imports what is needed
    report = predict(model, catalogue, output)
    print(json.dumps({"seconds": report.seconds, "rows": report.n_rows, "peak_mb": peak_megabytes()}))


def run_child(model: Path, catalogue: Path, output: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", str(model), str(catalogue), str(output)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--model", choices=list(MODELS), default="default")
    parser.add_argument("--max-seconds", type=float, default=120.0, help="limit on making the catalogue")
    parser.add_argument("--folder", help="where to make the files; a temporary folder by default")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        work = Path(folder)
        write_catalog(Catalog(galaxies(5000, np.random.default_rng(9))), work / "train.parquet")
        config = MODELS[arguments.model].override("model", n_basis=100).override("training", max_iter=15, tol=1e-3)
        train(work / "train.parquet", work / "model.gpzed", config)
        rows = make_catalogue(work / "survey.parquet", arguments.rows, arguments.max_seconds)
        size = (work / "survey.parquet").stat().st_size / 1e6
        print(f"catalogue: {rows:,} rows, {size:,.0f} MB, {len(catalog_info(work / 'survey.parquet').names)} columns")
        rates = memory_rates(work / "model.gpzed")
        result = run_child(work / "model.gpzed", work / "survey.parquet", work / "out.parquet")
        rates += memory_rates(work / "model.gpzed")
    rate, in_memory = result["rows"] / result["seconds"], float(np.median(rates))
    print(
        json.dumps(
            {
                "model": arguments.model,
                "rows": rows,
                "rate": rate,
                "in_memory_rate": in_memory,
                "ratio": rate / in_memory,
                "peak_mb": result["peak_mb"],
                "seconds": result["seconds"],
            }
        )
    )


if __name__ == "__main__":
    main()
