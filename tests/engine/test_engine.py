"""Engines: the same sums from threads, recomputation and streams."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from gpzed.engine import blocks as module
from gpzed.engine.blocks import Givens, Scratch, block_rows
from gpzed.engine.stream import StreamEngine
from gpzed.engine.threads import Team, ThreadEngine, single_threaded_blas
from gpzed.gp.evidence import backward, evaluate, fit_posterior, forward
from helpers import make_problem

WIDTH = 9  # basis functions and mean function of the problem below


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 128 rows, so that there are many."""
    monkeypatch.setattr("gpzed.engine.blocks.CACHE_ELEMENTS", 1)


@pytest.fixture(scope="module")
def problem():
    return make_problem("VC", 1, n=3000, d=3, m=5, weights=True, mean_function="linear")


def run(engine, problem):
    result = evaluate(engine, problem.parameters, problem.layout)
    return result.evidence.total, problem.layout.pack(result.gradient)


@pytest.fixture
def expected(problem):
    return run(ThreadEngine(problem.X, problem.y, problem.omega, width=WIDTH, n_threads=1), problem)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("keep_bytes", [0, 10**9])
def test_threads_and_kept_memory_change_nothing(problem, expected, n_threads, keep_bytes):
    engine = ThreadEngine(problem.X, problem.y, problem.omega, width=WIDTH, n_threads=n_threads, keep_bytes=keep_bytes)
    for _ in range(2):  # a second evaluation reuses the buffers
        total, gradient = run(engine, problem)
        assert total == expected[0]
        np.testing.assert_array_equal(gradient, expected[1])


class Source:
    """Chunks that can be read again; counts the passes."""

    def __init__(self, problem, sizes):
        self.rows, self.sizes, self.passes = (problem.X, problem.y, problem.omega), sizes, 0

    def __iter__(self):
        self.passes += 1
        start = 0
        for size in self.sizes:
            yield tuple(array[start : start + size] for array in self.rows)
            start += size


@pytest.mark.parametrize("sizes", [[3000], [1000] * 3, [1, 999, 0, 1500, 500], [300] * 10])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_stream_equals_memory(problem, expected, sizes, n_threads):
    source = Source(problem, sizes)
    engine = StreamEngine(source, width=WIDTH, n_threads=n_threads)
    assert (engine.n, engine.d) == (3000, 3)
    assert engine.sum_omega == pytest.approx(problem.omega.sum())
    total, gradient = run(engine, problem)
    assert total == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-12 * np.abs(expected[1]).max())
    assert source.passes == 3  # one to count, one per pass


def test_stream_is_the_same_on_any_number_of_threads(problem):
    results = [run(StreamEngine(Source(problem, [700, 2300]), width=WIDTH, n_threads=k), problem) for k in (1, 2, 3)]
    for total, gradient in results[1:]:
        assert total == results[0][0]
        np.testing.assert_array_equal(gradient, results[0][1])


@pytest.mark.parametrize("width", [1, 8, 10, 1000])
def test_width_is_only_a_hint(problem, expected, width):
    engine = ThreadEngine(problem.X, problem.y, problem.omega, width=width, n_threads=1)
    total, gradient = run(engine, problem)
    assert total == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-12 * np.abs(expected[1]).max())


def test_an_error_while_reading_reaches_the_caller(problem):
    class Broken(Source):
        def __iter__(self):
            self.passes += 1
            yield from list(super().__iter__())[:1]
            if self.passes > 2:
                raise OSError("the disk is gone")

    engine = StreamEngine(Broken(problem, [1500, 1500]), width=WIDTH)
    with pytest.raises(OSError, match="the disk is gone"):
        run(engine, problem)


def test_an_error_in_a_kernel_reaches_the_caller(problem):
    def kernel(block, scratch):
        raise FloatingPointError("no")

    for n_threads in (1, 2):
        with pytest.raises(FloatingPointError, match="no"):
            problem.engine(n_threads=n_threads).sum(kernel)


def test_every_row_is_visited_once(problem):
    def kernel(block, scratch):
        return (np.asarray(block.omega.sum()), block.Xt.sum(axis=1), np.asarray(float(len(block.y))))

    engine = ThreadEngine(problem.X, problem.y, problem.omega, width=WIDTH, n_threads=2)
    weight, total, count = engine.sum(kernel)
    assert count == 3000
    assert weight == pytest.approx(engine.sum_omega)
    np.testing.assert_allclose(total, problem.X.sum(axis=0), rtol=1e-11)


def test_weights_default_to_one(problem):
    assert ThreadEngine(problem.X, problem.y).sum_omega == 3000.0


def test_block_rows_fit_the_cache_within_bounds(monkeypatch):
    monkeypatch.undo()
    rows = [block_rows(width) for width in (0, 1, 10, 100, 1000, 10**6)]
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] == 128
    assert 100 * block_rows(100) <= module.CACHE_ELEMENTS


def test_scratch_reuses_memory_and_grows():
    scratch = Scratch()
    a = scratch.array("a", (3, 4))
    b = scratch.array("a", (2, 5))
    assert a.shape == (3, 4)
    assert b.shape == (2, 5)
    assert np.shares_memory(a, b)
    assert not np.shares_memory(scratch.array("c", (2,)), b)
    assert scratch.array("a", (10, 10)).flags.c_contiguous


def test_team_keeps_the_order_and_one_set_of_buffers_per_thread():
    team = Team(3)
    assert list(team.map(lambda i: i * i, range(50))) == [i * i for i in range(50)]
    assert team.buffers() is team.buffers()
    assert team.submit(lambda a: a + 1, 2).result() == 3
    assert Team(1).submit(threading.get_ident).result() != threading.get_ident()


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_blas_is_single_threaded_inside_and_restored_after():
    before = blas_threads()
    with single_threaded_blas():
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
    with pytest.raises(KeyError, match="x"), single_threaded_blas():
        raise KeyError("x")
    assert blas_threads() == before


def test_a_pickled_engine_gives_the_same_sums_and_carries_no_work_memory(problem, expected):
    engine = ThreadEngine(problem.X, problem.y, problem.omega, width=WIDTH, n_threads=1)
    run(engine, problem)
    payload = pickle.dumps(engine)
    assert len(payload) < 2 * (problem.X.nbytes + problem.y.nbytes + problem.omega.nbytes)
    copy = pickle.loads(payload)
    value, gradient = run(copy, problem)
    assert value == expected[0]
    np.testing.assert_array_equal(gradient, expected[1])


@pytest.mark.usefixtures("route")
def test_later_passes_take_the_memory_and_earlier_ones_compute_again(problem, expected):
    engine = ThreadEngine(problem.X, problem.y, problem.omega, width=WIDTH, n_threads=1)
    earlier, later = engine.passes(), engine.passes()
    state, posterior, _ = fit_posterior(earlier, problem.parameters, problem.layout)
    first = later.sum(forward, state)
    kept = engine._memory[0].copy()
    assert_same(earlier.sum(backward, state, posterior), later.sum(backward, state, posterior))
    assert_same(earlier.sum(forward, state), first)
    assert_same(engine.sum(forward, state), first)
    np.testing.assert_array_equal(engine._memory[0], kept)  # nobody else wrote to it


@pytest.mark.usefixtures("route")
def test_what_was_kept_is_used(problem):
    engine = ThreadEngine(problem.X, problem.y, problem.omega, width=WIDTH, n_threads=1)
    passes = engine.passes()
    state, posterior, _ = fit_posterior(passes, problem.parameters, problem.layout)
    for memory in engine._memory:
        memory.fill(np.nan)
    assert np.isnan(passes.sum(backward, state, posterior)[-1])


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def variance_of(block, scratch, factor):
    return Givens(None if block.Xt[0, 0] > 0.0 else factor * block.y**2)


def total_variance(block, scratch):
    return (np.zeros(()) if block.v is None else np.asarray(block.v @ block.omega),)


@pytest.mark.parametrize("blur", ["threads", "stream"])
def test_blocks_carry_the_variance_they_are_given(problem, blur):
    if blur == "threads":
        engine = ThreadEngine(problem.X, problem.y, problem.omega, width=WIDTH, n_threads=2)
    else:
        engine = StreamEngine(Source(problem, [1000] * 3), width=WIDTH, n_threads=2)
    assert engine.sum(total_variance)[0] == 0.0
    totals = []
    for factor in (1.0, 3.0):
        engine.set_givens(variance_of, factor)
        totals.append(engine.sum(total_variance)[0])
    assert 0.0 < totals[0] < problem.y**2 @ problem.omega
    assert totals[1] == pytest.approx(3.0 * totals[0])
    engine.set_givens(None)
    assert engine.sum(total_variance)[0] == 0.0
