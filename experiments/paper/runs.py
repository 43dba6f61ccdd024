"""Runs of one method each on the test set; the figures and tables of section 7 are views of these."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from experiments.paper.bench import Bench
from experiments.paper.methods import EXACT_ROWS, METHODS, NETWORKS
from experiments.paper.store import Part
from experiments.paper.summary import summarise
from experiments.rivals.annz2 import read_annz2


def run_part(bench: Bench, name: str, size: int) -> Part:
    """Return the part that trains one method of a size and scores it on the test set."""
    method = METHODS[name] if name in METHODS else NETWORKS[name]
    inputs = {"data": bench.identity, "method": name, "size": size, **bench.effort_inputs}
    if not method.available():
        inputs["available"] = False  # so that it runs once it can

    def compute() -> dict[str, Any]:
        facts: dict[str, Any] = {"method": name, "size": size, "counted": method.counted}
        if not method.available():
            return facts | {"unavailable": method.how_to_get}
        test = bench.sets.test.head(method.max_test)
        started = time.perf_counter()
        trained = method.train(bench.sets, size, bench.effort)
        trained_at = time.perf_counter()
        prediction = trained.predict(test.X)
        seconds = {"train": trained_at - started, "predict": time.perf_counter() - trained_at}
        rows = {"train": len(bench.sets.train), "validation": len(bench.sets.valid), "test": len(test)}
        facts |= {"data_sha256": bench.sets.sha256, "rows": rows, "seconds": seconds, "training": trained.details}
        return facts | summarise(test.z, prediction)

    return Part(f"{name.replace(' ', '-').lower()}-{size}", inputs, compute)


def table_parts(bench: Bench) -> list[Part]:
    """Return the parts of all methods at the size of the tables, and of the ANNz2 files given."""
    sizes = {"exact GP": min(EXACT_ROWS, bench.source.size)}
    parts = [run_part(bench, name, sizes.get(name, bench.size)) for name in METHODS]
    return [*parts, *(annz2_part(path) for path in bench.annz2)]


def annz2_part(path: str) -> Part:
    """Return the part that scores an output file of ANNz2."""
    from gpzed._files import file_hash

    def compute() -> dict[str, Any]:
        z, prediction = read_annz2(path)
        facts = {"method": "ANNz2", "size": None, "counted": "learners", "rows": {"test": len(z)}}
        return facts | summarise(z, prediction)

    return Part("annz2", {"annz2": file_hash(path)}, compute)


def complexity_parts(bench: Bench, names: Sequence[str], sizes: Sequence[int]) -> list[Part]:
    """Return the parts of some methods at several sizes each."""
    return [run_part(bench, name, size) for size in sizes for name in names]


def usable(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of stored parts whose method was available."""
    return [part["result"] for part in parts if "unavailable" not in part["result"]]
