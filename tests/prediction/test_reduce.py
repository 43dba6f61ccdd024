"""Mixtures of many Gaussians as mixtures of few: the rule in plain loops, what is kept, and both routes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpzed import Prediction
from gpzed.compiled import points, substitute
from gpzed.prediction import compact, reduce
from gpzed.prediction.quantiles import compact_quantiles

LIMITS = {"most": 8, "light": 1e-3, "tolerance": 0.05}
FIRST = {"slots": 32, "light": 1e-4, "at_once": 3e-3, "reach": 0.5}


def mixtures(n=200, K=41, seed=0, at=0.8):
    """Committees of a few clusters of heads, with light ones far away."""
    rng = np.random.default_rng(seed)
    centres = at + 0.5 * rng.standard_normal((n, 4))
    which = rng.integers(0, 4, (n, K))
    means = np.take_along_axis(centres, which, axis=1) + 0.03 * rng.standard_normal((n, K))
    stds = 0.03 * np.exp(0.5 * rng.standard_normal((n, K)))
    weights = rng.dirichlet(np.full(K, 0.3), n)
    return weights, means, stds**2


def both(a, b):
    """Make two components one."""
    w = a[0] + b[0]
    mean = (a[0] * a[1] + b[0] * b[1]) / w
    return w, mean, sum(x[0] / w * (x[2] + (x[1] - mean) ** 2) for x in (a, b))


def cost(a, b):
    w, _, v = both(a, b)
    return 0.5 * (w * math.log(v) - a[0] * math.log(a[2]) - b[0] * math.log(b[2]))


def bound(a, b):
    v = both(a, b)[2]
    return 0.5 * (a[0] * (v / a[2] - 1.0) + b[0] * (v / b[2] - 1.0))


def parted(mixture, light):
    """Return the heavy components of a mixture, and a list of one of all others, or of none."""
    heavy, rest = [one for one in mixture if one[0] >= light], [one for one in mixture if 0.0 < one[0] < light]
    while len(rest) > 1:
        rest = [both(rest[0], rest[1]), *rest[2:]]
    return heavy, rest


def compact_by_hand(mixture, slots, light, at_once, reach):
    heavy, rest = parted(mixture, light)
    left = []
    for one in heavy:
        costs = [bound(other, one) for other in left]
        k = costs.index(min(costs)) if costs else -1
        if costs and (costs[k] <= min(at_once, reach * one[0], reach * left[k][0]) or len(left) == slots - 1):
            left[k] = both(left[k], one)
        else:
            left.append(one)
    return left + rest


def merge_by_hand(mixture, most, light, tolerance):
    """Merge one mixture, as the text of the module says it."""
    left, rest = parted(mixture, light)
    spent = 0.0
    while len(left) > 1:
        least, i, j = min((cost(left[i], left[j]), i, j) for i in range(len(left)) for j in range(i))
        if len(left) + len(rest) <= most and spent + least > tolerance:
            break
        spent += least
        left[j] = both(left[j], left[i])
        del left[i]
    return sorted(left + rest, reverse=True)


def check_rows(found, given, by_hand, **limits):
    """Compare each row with its merging by hand; the rest must be empty."""
    for row, (w, m, v) in enumerate(zip(*found, strict=True)):
        expected = by_hand(list(zip(*(a[row].tolist() for a in given), strict=True)), **limits)
        used = len(expected)
        np.testing.assert_allclose(np.stack([w, m, v])[:, :used], np.transpose(expected), rtol=2e-5)
        assert (w[used:] == 0.0).all()
        assert (m[used:] == 0.0).all()
        assert (v[used:] == 1.0).all()


@pytest.mark.parametrize("K", [1, 3, 8, 41])
def test_merging_follows_the_rule(route, K):
    given = mixtures(30, K)
    check_rows(substitute(reduce.merge)(*given, **LIMITS), given, merge_by_hand, **LIMITS)


@pytest.mark.parametrize(("K", "slots"), [(3, 32), (41, 32), (121, 32), (121, 6)])
def test_repetitions_are_merged_in_their_order(route, K, slots):
    function = substitute(compact.compact)
    w, m, v = given = mixtures(30, K)
    limits = FIRST | {"slots": slots}
    check_rows(function(w, m, 0.5 * v, 0.25 * v, 0.25 * v, **limits), given, compact_by_hand, **limits)
    check_rows(function(w, m, 0.5 * v, 0.5 * v, None, **limits), given, compact_by_hand, **limits)


@pytest.mark.parametrize("most", [2, 5, 8])
@pytest.mark.parametrize("at", [None, 0.8, 0.1, -2.0])  # the last: next to nothing is above the cut
def test_both_routes_agree(lanes, most, at):
    given = mixtures(seed=3, at=0.8 if at is None else at)
    limits = LIMITS | {"most": most, "lower": None if at is None else 0.0, "uncut": -4.0}
    for a, b in zip(reduce.merge(*given, **limits), points.merge(*given, **limits), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    w, m, v = given
    arguments = w, m, 0.5 * v, 0.5 * v, None
    found = points.compact(*arguments, **FIRST)
    np.testing.assert_allclose(compact.compact(*arguments, **FIRST), found, rtol=1e-4, atol=1e-7)


def test_zero_may_be_far_away(kernels):
    w, m, v = mixtures(K=60, seed=3)
    near, far = (points.compact(w, m + shift, v, 0 * v, None, **FIRST) for shift in (0.0, 1e6))
    far[1, far[0] > 0.0] -= 1e6
    np.testing.assert_allclose(far, near, atol=1e-6)
    near, far = (np.stack(points.merge(w, m + shift, v, **LIMITS)) for shift in (0.0, 1e6))
    far[1, far[0] > 0.0] -= 1e6
    np.testing.assert_allclose(far, near, atol=1e-6)


@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.parametrize("at", [0.8, 0.1, -2.0])
def test_both_routes_store_the_same(kernels, at, lower):
    merged = reduce.merge(*mixtures(at=at), **LIMITS, lower=lower)
    how = {"lower": lower, "uncut": reduce.NEAR_CUT, "cuts": reduce._cuts(), "digits": reduce.DIGITS}
    np.testing.assert_array_equal(reduce.stored(*merged, **how), points.stored(*merged, **how))


def test_what_a_row_gets_does_not_depend_on_its_neighbours(lanes):
    given = mixtures(40, 121, seed=5)
    whole = Prediction(*given, 0 * given[2]).components
    few = reduce.reduced(whole, 0.0)
    for rows in (slice(3, 4), slice(7, 29), slice(15, None)):
        for a, b in zip(few, reduce.reduced(whole.take(rows), 0.0), strict=True):
            np.testing.assert_array_equal(a[rows], b)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_do_no_harm_to_others(lanes, bad):
    w, m, v = mixtures(20, 60)
    expected = points.compact(w, m, v, 0 * v, None, **FIRST)
    for array in (w, m, v):
        spoiled = array.copy()
        spoiled[4] = bad
        given = [spoiled if one is array else one for one in (w, m, v)]
        found = points.compact(*given, 0 * v, None, **FIRST)
        np.testing.assert_array_equal(np.delete(found, 4, axis=1), np.delete(expected, 4, axis=1))
        assert points.merge(*found, **LIMITS)[0].shape == (20, 8)


def test_moments_are_kept():
    w, m, v = mixtures()
    few, mean, variance = reduce.merge(w, m, v, **LIMITS)
    before, after = Prediction(w, m, v, 0 * v), Prediction(few, mean, variance, 0 * variance)
    np.testing.assert_allclose(after.mean, before.mean, rtol=1e-12)
    np.testing.assert_allclose(after.variance, before.variance, rtol=1e-10)


def test_few_different_gaussians_stay_as_they_are():
    w, m, s = np.array([[0.5, 0.25, 0.25]]), np.array([[0.25, 1.0, 2.0]]), np.array([[0.0625, 0.125, 0.25]])
    few = reduce.reduced(Prediction(w, m, s**2, 0 * s).components, None)
    np.testing.assert_array_equal(few.weights[0], [0.5, 0.25, 0.25, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(few.means[0, :3], m[0])
    np.testing.assert_array_equal(few.stds[0, :3], s[0])
    np.testing.assert_array_equal(few.stds[0, 3:], 1.0)


@pytest.mark.parametrize("lower", [None, 0.0])
def test_stored_numbers_are_near_and_weights_sum_to_one(lower, route):
    w, m, v = mixtures(at=0.4)
    p = Prediction(w, m, v, 0 * v, lower=lower)
    few = reduce.reduced(p.components, lower)
    assert all(values.dtype == np.float32 and values.shape == (len(p), 8) for values in few)
    np.testing.assert_array_equal(few.weights.sum(axis=1, dtype=np.float64), 1.0)
    assert (np.diff(few.weights, axis=1) <= 0.0).all()
    q = Prediction(few.weights, few.means, few.stds.astype(float) ** 2, 0 * few.stds, lower=lower)
    assert np.abs(q.mean - p.mean).max() < 0.005 * p.std.max()
    assert abs(np.mean(q.mean - p.mean)) < 1e-4
    assert np.median(np.abs(q.std / p.std - 1.0)) < 2e-3
    z = p.sample(20, random_state=1)
    lost = np.mean([p.log_pdf(at) - q.log_pdf(at) for at in z.T])
    assert -1e-3 < lost < 0.02


def test_light_components_stay_possible(route):
    w = np.array([[0.6, 0.399, 0.0005, 0.0005]])
    m, s = np.array([[0.5, 0.505, 2.0, 2.2]]), np.array([[0.02, 0.02, 0.1, 0.1]])
    p = Prediction(w, m, s**2, 0 * s)
    few = reduce.reduced(p.components, None)
    assert reduce.count(few.weights)[0] == 2
    assert few.weights[0, 1] == pytest.approx(1e-3, abs=reduce.WEIGHT_STEP)
    assert few.means[0, 1] == pytest.approx(2.1, abs=0.01)


def test_objects_below_the_cut_keep_their_mean(route):
    m, s = np.array([[-0.5, -0.4], [-60.0, -60.0], [0.05, 0.01]]), np.full((3, 2), 0.1)
    p = Prediction(np.full((3, 2), 0.5), m, s**2, 0 * s, lower=0.0)
    few = reduce.reduced(p.components, 0.0)
    q = Prediction(few.weights, few.means, few.stds.astype(float) ** 2, 0 * few.stds, lower=0.0)
    np.testing.assert_allclose(q.mean, p.mean, rtol=0.02)


@pytest.mark.parametrize("at", [0.8, 0.05])
def test_quantiles_without_repetition_are_near(at):
    weights, means, variances = mixtures(500, 80, at=at)
    p = Prediction(weights, means, np.zeros_like(means), variances).truncate(0.0)
    levels = (0.16, 0.5, 0.84)
    found = compact_quantiles(p.components, p.lower, levels)
    off = np.abs(found - p.quantile_grid(levels)) / p.std[:, None]
    assert np.quantile(off, 0.99) < 0.03
    assert np.median(off) < 0.005
    np.testing.assert_array_equal(compact_quantiles(p[7:9].components, p.lower, levels), found[7:9])


def test_no_objects():
    few = reduce.reduced(Prediction(*mixtures(5), np.zeros((5, 41))).components.take(slice(0, 0)), 0.0)
    assert few.weights.shape == (0, 8)
