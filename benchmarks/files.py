"""Rows per second, read and written, for every file format.

    python benchmarks/files.py [--rows 1000000] [--against ../other/src]

Writes a catalogue of 15 columns (an identifier with a few masked values, 12 floats, a name, a flag) in chunks, reads it
back in chunks, and prints one JSON line per format: the best of several processes. With `--against`, the sources of
another version are measured in turns with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CHUNK_ROWS = 131_072
SUFFIXES = (".fits", ".fits.gz", ".parquet", ".hdf5", ".csv", ".csv.gz", ".foreign.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--formats", nargs="*", default=SUFFIXES)
    parser.add_argument("--against", type=Path, help="`src` folder of another version")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.rows)))
        return
    own = Path(__file__).parents[1] / "src"
    versions = {"this": own, **({"other": options.against} if options.against else {})}
    for suffix in options.formats:
        best: dict[str, dict[str, float]] = {name: {} for name in versions}
        for _ in range(options.repeat):
            for name, source in versions.items():
                for key, rate in run(suffix, options.rows, source).items():
                    keep = min if key == "peak_mb" else max
                    best[name][key] = keep(rate, best[name].get(key, rate))
        print(json.dumps({"format": suffix, "rows": options.rows, **best}), flush=True)


def run(suffix: str, rows: int, source: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", suffix, "--rows", str(rows)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, check=True)
    return dict(json.loads(done.stdout))


def measure(suffix: str, rows: int) -> dict[str, float]:
    import gzip
    import shutil

    from gpzed.catalog import Catalog, iter_catalog, open_writer

    blocks = [Catalog(galaxies(CHUNK_ROWS, seed), masks={"id": np.arange(CHUNK_ROWS) == seed}) for seed in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"t{suffix}")
        written = path.with_suffix("") if suffix == ".fits.gz" else path
        start = time.perf_counter()
        with open_writer(written) as writer:
            for row in range(0, rows, CHUNK_ROWS):
                writer.write(blocks[row // CHUNK_ROWS % 2].slice(0, min(rows - row, CHUNK_ROWS)))
        wrote = time.perf_counter()
        if suffix == ".fits.gz":
            with written.open("rb") as plain, gzip.open(path, "wb", 1) as zipped:
                shutil.copyfileobj(plain, zipped, 1 << 20)
        if suffix == ".foreign.csv":  # without the comment line that declares the types
            path.write_text(path.read_text().split("\n", 1)[1])
        opened = time.perf_counter()
        assert sum(len(chunk) for chunk in iter_catalog(path, chunk_rows=CHUNK_ROWS)) == rows
        return {
            "write_rows_per_s": round(rows / (wrote - start)),
            "read_rows_per_s": round(rows / (time.perf_counter() - opened)),
            "peak_mb": int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024,
        }


def galaxies(n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {"id": rng.integers(1 << 60, size=n)}
    for band in "ugrizy":
        columns[f"mag_{band}"] = rng.normal(22.0, 1.0, n).astype(np.float32)
        columns[f"mag_err_{band}"] = rng.gamma(2.0, 0.1, n)
    columns["name"] = np.char.add("J", rng.integers(10**9, 10**10, n).astype(np.str_))
    columns["flag"] = rng.integers(0, 3, n, dtype=np.int16)
    return columns


if __name__ == "__main__":
    main()
