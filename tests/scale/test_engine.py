"""The contract: rows on a cluster give the evidence and gradient of the thread engine."""

from __future__ import annotations

import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from gpzed.distributed import DaskEngine, make_shard
from gpzed.distributed import engine as module
from gpzed.distributed.engine import Call, Carried, Shard
from gpzed.engine.blocks import Givens
from gpzed.engine.threads import ThreadEngine
from gpzed.gp.evidence import backward, evaluate, fit_posterior, forward
from helpers import CODES, make_problem

RTOL = 1e-10


def shards(client, problem, bounds, **options):
    def recipe(start, stop):
        rows = (problem.X[start:stop], problem.y[start:stop], problem.omega[start:stop])
        build = partial(ThreadEngine, width=problem.layout.n_weights, **options)
        return client.submit(make_shard, build, *rows, pure=False)

    return [partial(recipe, start, stop) for start, stop in pairwise(bounds)]


def same(engine, problem, times=1):
    expected = problem.evaluate()
    for _ in range(times):
        found = evaluate(engine, problem.parameters, problem.layout, problem.weighted_precision)
        assert found.evidence.total == pytest.approx(expected.evidence.total, rel=RTOL)
        for name, value in vars(expected.gradient).items():
            scale = np.abs(value).max()
            np.testing.assert_allclose(getattr(found.gradient, name), value, rtol=RTOL, atol=RTOL * scale, err_msg=name)


@pytest.mark.parametrize("code", CODES)
def test_every_structure(client, code):
    problem = make_problem(code, 3, n=700, d=3, m=5, weights=True, mean_function="linear")
    same(DaskEngine(client, shards(client, problem, [0, 300, 700])), problem, times=2)


@pytest.mark.parametrize(
    "bounds", [[0, 700], [0, 1, 2, 700], [0, 0, 350, 350, 700], [*range(0, 700, 35), 700]], ids=len
)
@pytest.mark.parametrize("weighted_precision", [False, True])
def test_any_number_of_shards_even_empty_ones(client, bounds, weighted_precision):
    problem = make_problem("VC", 4, n=700, weights=True, weighted_precision=weighted_precision)
    engine = DaskEngine(client, shards(client, problem, bounds))
    assert (engine.n, engine.d) == problem.X.shape
    assert engine.sum_omega == pytest.approx(problem.omega.sum(), rel=1e-14)
    same(engine, problem)


def test_sums_over_a_tree(client, monkeypatch):
    monkeypatch.setattr(module, "FAN_IN", 2)
    problem = make_problem("VD", 5, n=700)
    same(DaskEngine(client, shards(client, problem, [*range(0, 700, 100), 700])), problem)


def test_a_shard_that_was_made_again_does_not_recall_what_its_predecessor_kept():
    problem = make_problem("VC", 6, n=300)
    engine = problem.engine()
    for memory in engine._memory:
        memory.fill(np.nan)
    shard = Shard(engine)
    state, posterior, _ = fit_posterior(engine, problem.parameters, problem.layout)
    later = shard.run(Call(backward, (state, posterior), 7))  # the first pass went to another copy
    shard.run(Call(forward, (state,), 7, begins=True))
    assert not np.isnan(engine._memory[0]).all()
    for found, expected in zip(later, shard.run(Call(backward, (state, posterior), 7)), strict=True):
        np.testing.assert_array_equal(found, expected)


def constant(block, scratch, value):
    return Givens(np.full(len(block.y), value))


def total(block, scratch):
    return (np.asarray(0.0 if block.v is None else block.v.sum()),)


def test_a_shard_that_was_made_again_sets_the_variance_of_its_rows_first():
    problem = make_problem("VC", 6, n=300)
    first, second = Carried(1, constant, (1.0,)), Carried(2, constant, (2.0,))
    shard = Shard(problem.engine())
    assert shard.run(Call(total, ()))[0] == 0.0
    shard.set_givens(first)
    assert shard.run(Call(total, (), carried=first))[0] == 300.0
    assert shard.run(Call(total, (), carried=second))[0] == 600.0
    moved = pickle.loads(pickle.dumps(shard))
    assert moved.run(Call(total, (), carried=first))[0] == 300.0


def test_rows_on_a_cluster_carry_the_variance_they_are_given(client):
    problem = make_problem("VC", 6, n=300)
    engine = DaskEngine(client, shards(client, problem, [0, 100, 100, 300]))
    for value in (0.5, 2.0):
        engine.set_givens(constant, value)
        assert engine.sum(total)[0] == 300 * value
    engine.set_givens(None)
    assert engine.sum(total)[0] == 0.0


def test_errors_of_a_kernel_arrive_as_they_are(client):
    from gpzed.errors import NumericalError

    problem = make_problem("VC", 7, n=100)
    engine = DaskEngine(client, shards(client, problem, [0, 50, 100]))
    from dataclasses import replace

    with pytest.raises(NumericalError, match="noise precision"):
        evaluate(engine, replace(problem.parameters, b=1e4), problem.layout)
    same(engine, problem)
