"""Memory of large arrays that is used again, and never while someone still looks at it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gpzed.engine import memory
from gpzed.engine.memory import LEAST, recycled


@pytest.fixture(autouse=True)
def spare(monkeypatch):
    """No memory is left from earlier tests."""
    kept = []
    monkeypatch.setattr(memory, "_spare", kept)
    return kept


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_the_last_view_is_gone():
    shape = (LEAST // 8, 10)
    first = recycled(shape)
    first[:] = 1.0
    place, view = address(first), first[5:, ::2]
    del first
    other = recycled(shape)
    other[:] = 2.0
    assert address(other) != place
    assert np.all(view == 1.0)
    view.flags.writeable = True  # as predictions need it that are corrected in their place
    del view
    assert address(recycled(shape)) == place


def test_other_sizes_get_memory_of_their_own(spare):
    large = recycled((4 * LEAST // 8,))
    place = address(large)
    del large
    assert address(recycled((LEAST // 8,))) != place
    assert recycled((10, 3)).shape == (10, 3)  # small ones are not kept
    assert recycled((0, 3)).shape == (0, 3)
    assert sorted(one.size for one in spare) == [LEAST, 4 * LEAST]


def test_no_more_is_kept_than_allowed(spare, monkeypatch):
    monkeypatch.setattr(memory, "MAX_SPARE", 3 * LEAST)
    arrays = [recycled((size * LEAST // 8,)) for size in (1, 2, 1, 8)]
    while arrays:
        arrays.pop(0)
    assert sum(one.size for one in spare) <= 3 * LEAST


def test_nobody_waits_for_memory_in_use(spare):
    """Arrays may be cleared away while their own thread chooses memory, or a fork was made while another one did."""
    held = recycled((LEAST // 8,))

    def cleared_away_while_choosing():
        nonlocal held
        with memory._lock:
            del held
            recycled((LEAST // 8,))

    thread = threading.Thread(target=cleared_away_while_choosing, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive()
    assert len(spare) == 0  # what came back meanwhile is gone
