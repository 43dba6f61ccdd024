"""All speed figures of the package, one JSON line each: `make bench`.

Every measurement runs in a separate process, so that peak memory is its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
STRUCTURES = ("GL", "VL", "GD", "VD", "GC", "VC")


def jobs(quick: bool) -> list[list[str]]:
    """Command lines: evidence by structure and m, then by structure and n, then streaming, then prediction."""
    evidence, predict = str(HERE / "evidence.py"), str(HERE / "predict.py")
    sizes = [(100_000, m) for m in (5, 25, 100, 500)] + [(n, 100) for n in (10_000, 1_000_000)]
    table = [
        [evidence, "--structure", code, "--n", str(n), "--m", str(m)]
        + (["--repeat", "3"] if n * m * m > 2 * 10**9 else [])
        for n, m in sizes
        for code in STRUCTURES
    ]
    table += [[evidence, "--n", "1000000", "--m", "100", "--repeat", "2", "--stream"]]
    table += [[predict, "--n", "200000", "--structure", code] for code in STRUCTURES]
    return [[*job, "--repeat", "2"] for job in table if "1000000" not in job] if quick else table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two repeats each, without a million rows")
    for job in jobs(parser.parse_args().quick):
        done = subprocess.run([sys.executable, *job], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(job)} failed:\n{done.stderr}")
        print(done.stdout.strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
