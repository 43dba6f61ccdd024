"""Time, memory, network and cost of training on many rows and of predicting for 10^10, from measured figures.

    python benchmarks/ten_billion.py docs/results/dask.jsonl > docs/results/ten_billion.jsonl

Reads what benchmarks/dask_cluster.py measured. Every assumption that was not measured is a constant below.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from common import emit

EVALUATIONS = 400  # of the full rows, for one model
DRIVER_BYTES_PER_SECOND = 1.25e9  # 10 Gbit/s at the process that leads
PRICE = 0.04  # US dollars for a core and an hour
PARTITION_ROWS = 1_000_000
TRAINING = ((10**6, 1, 16), (10**8, 8, 32), (10**8, 32, 32))  # rows, workers, cores of each
PREDICTION = ((10**10, 8, 32), (10**10, 32, 32))


class Measured:
    """The figures that everything else follows from.

    Parameters
    ----------
    records : list of dict
    """

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.engines = sorted((r for r in records if r["benchmark"] == "dask"), key=lambda r: r["n"])
        largest = self.engines[-1]
        self.m, self.d = largest["m"], largest["d"]
        self.cores = largest["cores"]
        self.row_seconds = largest["dask_seconds"] * largest["cores"] / largest["n"]
        ways = [r for r in records if r["benchmark"] == "dask patterns" and r["m"] == self.m]
        broadcast = {r["shards"]: r["overhead_ms"] / 1e3 for r in ways if r["pattern"] == "arguments broadcast"}
        few, many = min(broadcast), max(broadcast)
        self.shard_seconds = max((broadcast[many] - broadcast[few]) / (many - few), 0.0)
        self.call_seconds = max(broadcast[few] - few * self.shard_seconds, 0.0)
        self.in_task_seconds = min(r["overhead_ms"] for r in ways if r["pattern"] == "arguments in each task") / 1e3
        self.sent = ways[0]["bytes_sent"]
        q = 1 + self.d + self.d * (self.d + 1) // 2
        self.back = 8 * ((self.m + 1) ** 2 + (self.m + 1) + 1 + q * self.m + self.m + 2)
        self.predict = next(r for r in records if r["benchmark"] == "dask predict")

    def evaluation(self, n: int, workers: int, cores: int) -> float:
        """Seconds of one evaluation."""
        overhead = self.in_task_seconds if workers <= 4 else self.call_seconds + workers * self.shard_seconds
        return n * self.row_seconds / (workers * cores) + overhead + self.traffic(workers) / DRIVER_BYTES_PER_SECOND

    def traffic(self, workers: int) -> float:
        """Bytes through the leading process, per evaluation."""
        return float(workers * (self.sent + self.back))

    def worker_bytes(self, n: int, workers: int) -> float:
        """Memory of a worker: rows as loaded, rows in blocks, and what is kept between two passes (1.5 GB at most)."""
        rows = n / workers
        return 8.0 * rows * 2 * (self.d + 2) + min(8.0 * rows * (self.m + 1), 1.5e9)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as stream:
        measured = Measured([json.loads(line) for line in stream if line.strip()])
    for record in measured.engines:
        predicted = measured.evaluation(record["n"], record["workers"], measured.cores // record["workers"])
        emit(
            {
                "what": "check: one evaluation",
                "rows": record["n"],
                "workers": record["workers"],
                "predicted_seconds": predicted,
                "measured_seconds": record["dask_seconds"],
                "predicted_over_measured": predicted / record["dask_seconds"],
            }
        )
    for n, workers, cores in TRAINING:
        seconds = measured.evaluation(n, workers, cores)
        hours = EVALUATIONS * seconds / 3600.0
        emit(
            {
                "what": "training",
                "rows": n,
                "workers": workers,
                "cores": workers * cores,
                "evaluation_seconds": seconds,
                "hours": hours,
                "worker_gigabytes": measured.worker_bytes(n, workers) / 1e9,
                "network_gigabytes": EVALUATIONS * measured.traffic(workers) / 1e9,
                "core_hours": hours * workers * cores,
                "dollars": hours * workers * cores * PRICE,
            }
        )
    rate = measured.predict["rows_per_core_second"]
    for n, workers, cores in PREDICTION:
        per_file = measured.predict["overhead_seconds_per_file"]
        seconds = n / rate / (workers * cores) + n / PARTITION_ROWS * per_file  # the scheduler takes files one by one
        hours = seconds / 3600.0
        emit(
            {
                "what": "prediction",
                "rows": n,
                "workers": workers,
                "cores": workers * cores,
                "hours": hours,
                "read_terabytes": n * measured.predict["bytes_in_per_row"] / 1e12,
                "written_terabytes": n * measured.predict["bytes_out_per_row"] / 1e12,
                "network_gigabytes": workers * measured.predict["model_bytes"] / 1e9,
                "core_hours": hours * workers * cores,
                "dollars": hours * workers * cores * PRICE,
            }
        )


if __name__ == "__main__":
    main()
