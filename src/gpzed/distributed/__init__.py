"""Computing on a Dask cluster: how it is reached, and sums over rows that its workers hold."""

from __future__ import annotations

from gpzed.distributed.connection import check_cluster, connect
from gpzed.distributed.engine import DaskEngine, Shard, make_shard

__all__ = ["DaskEngine", "Shard", "check_cluster", "connect", "make_shard"]
