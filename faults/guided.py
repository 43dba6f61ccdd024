"""Inputs that a fuzzer finds by following the code: for model files, and for catalogues as ECSV. Needs Atheris.

`python -m faults guided` runs one fuzzer for each target, in a process of its own. Inputs that break something stay in
``build/faults``; `python -m faults.guided TARGET FILE` tries one of them again.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from faults.campaign import Case

CASES = 20_000
FOUND = Path("build/faults")
CORPUS = Path(__file__).resolve().parents[1] / "tests" / "faults" / "corpus"
SECONDS, MEGABYTES, LENGTH = 20, 3000, 1 << 18
"""What one input may take, and how long it may be."""
LINE = b"model 1\n"
FOLLOWED = {
    "model": ["gpzed.model", "gpzed.workflows.model", "gpzed.config", "gpzed.features", "json"],
    "ecsv": ["gpzed.catalog", "astropy.io.ascii.ecsv", "astropy.io.misc.yaml", "yaml"],
}
"""The targets, and whose branches guide their fuzzer."""


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Give half of the inputs to each target."""
    if importlib.util.find_spec("atheris") is None:
        raise SystemExit("inputs that follow the code need Atheris: pip install atheris")
    FOUND.mkdir(parents=True, exist_ok=True)
    for target in FOLLOWED:
        corpus = folder / target
        shutil.copytree(CORPUS / target, corpus)
        for number, seed in enumerate(_seeds(target, folder)):
            (corpus / f"seed{number}").write_bytes(seed)
        yield from _fuzz(target, corpus, cases // len(FOLLOWED), int(rng.integers(1, 2**31)))


def _fuzz(target: str, corpus: Path, cases: int, seed: int) -> Iterator[Case]:
    """Run a fuzzer; it ends at the first input that breaks something."""
    options = [f"-runs={cases}", f"-seed={seed}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}"]
    options += [f"-max_len={LENGTH}", f"-artifact_prefix={FOUND}/{target}-", "-print_final_stats=1"]
    command = [sys.executable, "-W", "ignore", "-m", "faults.guided", target, str(corpus), *options]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    tried = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    for _ in range(int(tried[1]) if tried else 0):
        yield Case(f"guided {target}", "refused or sound", True)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "Exception" in line or "ERROR" in line]
        kept = re.search(r"Test unit written to (\S+)", done.stderr)
        detail = f"{' '.join(lines)[-400:] or done.stderr[-400:]} ({kept[1] if kept else 'no file'})"
        yield Case(f"guided {target}", "broken", False, detail)


def _seeds(target: str, folder: Path) -> list[bytes]:
    """Return whole files to begin with, without what the target adds itself."""
    if target == "model":
        from faults.models import make_models
        from gpzed.model.container import MAGIC

        made = [path.read_bytes() for path in make_models(folder)]
        return [data.removeprefix(MAGIC + LINE)[: -hashlib.sha256().digest_size] for data in made]
    from faults.catalogues import make_seeds

    return make_seeds(folder)[".ecsv"]


def target_of(name: str, folder: Path) -> Callable[[bytes], Case]:
    """Return what is done with an input: a model file, sealed, is loaded and predicts; a catalogue is read."""
    if name == "model":
        judge = importlib.import_module("faults.models").judge
        magic = importlib.import_module("gpzed.model.container").MAGIC

        def as_model(data: bytes) -> Case:
            body = magic + LINE + data
            path = folder / "fuzzed.gpzed"
            path.write_bytes(body + hashlib.sha256(body).digest())
            case: Case = judge("guided model", path, "")
            return case

        return as_model
    catalogues = importlib.import_module("faults.catalogues")
    hostile = importlib.import_module("faults.hostile_catalogues").Hostile
    attempt = catalogues.Attempt(folder)

    def as_ecsv(data: bytes) -> Case:
        outcome, _, detail = attempt(hostile("guided ecsv", ".ecsv", data)).partition(": ")
        return Case("guided ecsv", outcome, outcome in ("read", "refused"), detail)

    return as_ecsv


def main(arguments: list[str]) -> None:
    """Follow the code from here on; inputs and options are those of libFuzzer."""
    import tempfile

    atheris: Any = importlib.import_module("atheris")
    name = arguments[0]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="gpzed-guided-") as folder:
        with atheris.instrument_imports(include=FOLLOWED[name], enable_loader_override=False):
            attempt = target_of(name, Path(folder))

        def one(data: bytes) -> None:
            case = attempt(data)
            if not case.held:
                raise RuntimeError(f"{case.outcome}: {case.detail}")

        atheris.Setup([sys.argv[0], *arguments[1:]], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
