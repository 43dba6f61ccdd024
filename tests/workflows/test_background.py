from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from gpzed.workflows.background import read_ahead, write_behind


def test_order_is_kept() -> None:
    seen: list[int] = []
    with write_behind(seen.append) as put:
        for item in read_ahead(range(50)):
            put(item)
    assert seen == list(range(50))


def test_an_error_of_the_source_is_raised_in_its_place() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise RuntimeError("torn")

    items = read_ahead(source())
    assert next(items) == 1
    with pytest.raises(RuntimeError, match="torn"):
        next(items)


@pytest.mark.parametrize("n", [1, 20])
def test_an_error_of_the_writer_reaches_the_caller(n: int) -> None:
    def write(item: int) -> None:
        raise OSError("full")

    def use() -> None:
        with write_behind(write) as put:
            for item in range(n):
                put(item)

    with pytest.raises(OSError, match="full"):
        use()


def test_no_thread_is_left_when_the_caller_gives_up() -> None:
    items = read_ahead(iter(range(1000)))
    next(items)
    items.close()  # type: ignore[attr-defined]

    def use() -> None:
        with write_behind(lambda item: time.sleep(0.01)) as put:
            put(1)
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        use()
    assert not [t for t in threading.enumerate() if t.name.startswith("gpzed-")]
