"""Sums over rows that live on the workers of a Dask cluster.

Every worker holds one *shard* of the rows, as an engine of its own. A sum sends kernel and arguments out, lets each
shard add up its blocks, and adds the parts, over a tree where there are many. Shards are results of tasks: when a
worker dies, Dask makes its shard again from its source on another one. Sums are added in an order that does not
depend on where shards live, so that the result is the same to the last bit.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any

from gpzed.distributed.connection import address, is_lost, lost_error, require_dask
from gpzed.engine.blocks import Engine, Givens, Kernel, Summing, Sums, add
from gpzed.errors import ClusterError

FAN_IN = 8
"""Partial sums that are added at once; more than that are added by the workers first, in a tree."""
MAX_COPIES, MAX_COPY_BYTES = 4, 1_000_000
"""Kernel and arguments travel with the tasks up to this number of shards and this size; else they are broadcast to the
workers first: one round trip more, but they go to each only once (measured: benchmarks/dask_cluster.py)."""
ATTEMPTS = 5
"""Times that work lost with a worker is restarted before giving up."""
_turn = threading.Lock()  # one shard of a process at a time: each uses all its threads


@dataclass(frozen=True)
class Carried:
    """What rows carry as given: a kernel (None for nothing) and its arguments."""

    number: int
    kernel: Callable[..., Givens] | None
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """One pass: a kernel, its arguments, the passes it belongs to (None for none), and what rows carry."""

    kernel: Kernel
    arguments: tuple[Any, ...]
    passes: int | None = None
    begins: bool = False
    carried: Carried | None = None


class Shard:
    """The rows of one worker, behind an engine of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._passes: tuple[int, Summing] | None = None  # those whose first pass this copy has seen
        self._carried = 0  # number of what the rows carry

    def __sizeof__(self) -> int:
        """Bytes of the rows, so that Dask sends work to them and not them to the work."""
        return 8 * self.engine.n * (self.engine.d + 2) + 10_000

    def __getstate__(self) -> dict[str, Any]:
        return {"engine": self.engine, "_passes": None, "_carried": -1}

    def describe(self) -> tuple[int, int, float]:
        """Return rows, features and sum of weights."""
        return self.engine.n, self.engine.d, self.engine.sum_omega

    def run(self, call: Call) -> Sums | None:
        """Return the sum of one pass over these rows; None if there are none.

        A copy that was recreated or moved since the first of several passes recomputes what that one kept.
        """
        if self.engine.n == 0:
            return None
        with _turn:
            self._carry(call.carried)
            if call.passes is None:
                return self.engine.sum(call.kernel, *call.arguments)
            if call.begins:
                self._passes = (call.passes, self.engine.passes())
            seen = self._passes is not None and self._passes[0] == call.passes
            rows = self._passes[1] if self._passes is not None and seen else self.engine
            return rows.sum(call.kernel, *call.arguments)

    def set_givens(self, carried: Carried) -> None:
        """Let the rows carry something."""
        if self.engine.n:
            with _turn:
                self._carry(carried)

    def _carry(self, carried: Carried | None) -> None:
        if carried is not None and self._carried != carried.number:
            self.engine.set_givens(carried.kernel, *carried.arguments)
            self._carried = carried.number


def make_shard(build: Callable[..., Engine], *arguments: Any) -> Shard:
    """Task: build an engine on a worker."""
    return Shard(build(*arguments))


def add_all(parts: Sequence[Sums | None]) -> Sums | None:
    """Add sums in order, leaving out those of nothing."""
    total: Sums | None = None
    for part in parts:
        if part is not None:
            total = add(total, part)
    return total


class DaskEngine:
    """Rows on the workers of a Dask cluster.

    Each of the `recipes` starts the making of one shard and returns its future; it is called again when the data it was
    made from were lost for good. One or a few per worker are best.
    """

    def __init__(self, client: Any, recipes: Sequence[Callable[[], Any]]) -> None:
        self._client, self._recipes = client, list(recipes)
        address(client)  # to be told when it is lost
        self._shards: list[Any] = [recipe() for recipe in self._recipes]
        self._n_passes = self._n_carried = 0
        self._carried: Carried | None = None
        described = self._attempt(lambda: client.gather(client.map(Shard.describe, self._shards, pure=False)))
        self.n = sum(n for n, _, _ in described)
        self.d = max(d for _, d, _ in described)
        self.sum_omega = float(sum(omega for _, _, omega in described))

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks of all shards."""
        return self.run(Call(kernel, arguments))

    def passes(self) -> DaskPasses:
        """Begin passes that belong together."""
        self._n_passes += 1
        return DaskPasses(self, self._n_passes)

    def set_givens(self, kernel: Callable[..., Givens] | None, *arguments: Any) -> None:
        """Let blocks carry what ``kernel(block, scratch, *arguments)`` gives from now on; nothing without a kernel.

        Shards that are recreated later set it first.
        """
        self._n_carried += 1
        self._carried = carried = Carried(self._n_carried, kernel, arguments)
        self._attempt(lambda: self._client.gather(self._submit(Shard.set_givens, carried)))

    def run(self, call: Call) -> Sums:
        """Return the sum of one pass over all shards."""
        call = replace(call, carried=self._carried)
        total: Sums | None = self._attempt(lambda: self._reduced(call))
        assert total is not None
        return total

    def _reduced(self, call: Call) -> Sums | None:
        parts, client = self._submit(Shard.run, call), self._client
        while len(parts) > FAN_IN:
            parts = [client.submit(add_all, parts[i : i + FAN_IN], pure=False) for i in range(0, len(parts), FAN_IN)]
        return add_all(client.gather(parts))

    def _submit(self, task: Callable[[Shard, Any], Any], argument: Any) -> list[Any]:
        """Start a task on every shard."""
        sent = argument
        if len(self._shards) > MAX_COPIES or len(pickle.dumps(argument)) > MAX_COPY_BYTES:
            (sent,) = self._client.scatter([argument], broadcast=True, hash=False)
        return [self._client.submit(task, shard, sent, pure=False) for shard in self._shards]

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """Do something on the workers, again if data were lost with one of them."""
        return attempt(self._client, work, self._restore)

    def _restore(self) -> None:
        """Make those shards again that cannot be made from what the cluster still has."""
        for index, shard in enumerate(self._shards):
            if shard.status in ("cancelled", "lost", "error"):
                self._shards[index] = self._recipes[index]()


class DaskPasses:
    """Passes over the rows of a `DaskEngine` that belong together."""

    def __init__(self, engine: DaskEngine, number: int) -> None:
        self._engine, self._number, self._is_first = engine, number, True

    def sum(self, kernel: Kernel, *arguments: Any) -> Sums:
        """Add up ``kernel(block, scratch, *arguments)`` over all blocks of all shards."""
        begins, self._is_first = self._is_first, False
        return self._engine.run(Call(kernel, arguments, self._number, begins))


def attempt(client: Any, work: Callable[[], Any], restore: Callable[[], None]) -> Any:
    """Do `work` on a cluster; when data of a dead worker are missing, `restore` them and do it again."""
    distributed = require_dask()
    reason: BaseException | None = None
    for _ in range(ATTEMPTS):
        try:
            return work()
        except distributed.KilledWorker as error:
            reason = error
            break
        except CancelledError as error:
            if is_lost(client, error):
                raise lost_error(client, error) from error
            reason = error
            restore()
        except (OSError, RuntimeError) as error:
            if not is_lost(client, error):
                raise  # of the work itself
            raise lost_error(client, error) from error
    raise ClusterError(
        f"workers of the Dask cluster at {address(client)} keep dying ({reason}); they may lack memory: give them "
        "more, or use more workers, then add --resume"
    ) from reason
