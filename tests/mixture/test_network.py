"""Networks with heads: gradient, training, predictions that do not depend on the rows beside them."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.compiled import substitute
from gpzed.compiled.binding import is_compiled
from gpzed.engine.adam import Adam
from gpzed.engine.threads import Team
from gpzed.mixture.network import (
    BLOCK_ROWS,
    Network,
    NetworkRows,
    last_layer,
    likelihood_and_gradient,
    mean_log_likelihood,
    moments,
    split_outputs,
    start_network,
)
from gpzed.mixture.network_training import (
    DECAY,
    PEAK_RATE,
    _is_weight,
    _masks,
    _pack,
    descend,
    fit_network,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def make_rows(rng: np.random.Generator, n: int, *, labels: bool = False) -> NetworkRows:
    X = rng.standard_normal((n, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    extra = (rng.uniform(0.01, 0.3, n), rng.uniform(0.0, 0.5, n)) if labels else (None, None)
    return NetworkRows(X, y, rng.uniform(0.5, 2.0, n), *extra)


@pytest.mark.parametrize("labels", [False, True])
def test_gradient_agrees_with_central_differences(rng: np.random.Generator, labels: bool) -> None:
    rows = make_rows(rng, 40, labels=labels)
    layers = start_network((3, 5, 4), rows.y, 3, rng)
    masks = [(rng.random((40, width)) > 0.2) / 0.8 for width in (5, 4)]
    _, gradient = likelihood_and_gradient(layers, rows, masks)
    step = np.cbrt(np.finfo(float).eps)
    for layer, found in zip(layers, gradient, strict=True):
        for place in [(0, 0), (-1, -1), (1, 2), (-1, 0)]:
            kept, values = layer[place], []
            for sign in (1.0, -1.0):
                layer[place] = kept + sign * step
                values.append(likelihood_and_gradient(layers, rows, masks)[0])
            layer[place] = kept
            np.testing.assert_allclose(found[place], (values[0] - values[1]) / (2 * step), rtol=1e-5, atol=1e-5)


def test_likelihood_is_that_of_the_mixture_written_out(rng: np.random.Generator) -> None:
    rows = make_rows(rng, 15, labels=True)
    layers = start_network((3, 6), rows.y, 2, rng)
    outputs = split_outputs(last_layer(layers, rows.X))
    total = 0.0
    for i in range(15):
        density = 0.0
        for k in range(2):
            variance = np.exp(-outputs.log_beta[k, i]) + rows.variance[i]
            gauss = np.exp(-0.5 * (rows.y[i] - outputs.mean[k, i]) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
            density += np.exp(outputs.log_pi[k, i]) * gauss
        anywhere = np.exp(-0.5 * rows.y[i] ** 2) / np.sqrt(2 * np.pi)
        total += rows.omega[i] * np.log((1 - rows.wrong[i]) * density + rows.wrong[i] * anywhere)
    assert likelihood_and_gradient(layers, rows)[0] == pytest.approx(total, rel=1e-12)
    assert mean_log_likelihood(layers, rows) == pytest.approx(total / rows.omega.sum(), rel=1e-12)


def test_training_learns_a_curve_and_its_noise(rng: np.random.Generator) -> None:
    found = fit_network(make_rows(rng, 400), make_rows(rng, 100), 2, rng)
    new = make_rows(rng, 2000)
    exact = -0.5 - np.log(0.1 * np.sqrt(2 * np.pi))
    assert exact - 0.35 < mean_log_likelihood(found.network.layers, new) < exact + 0.1
    assert found.score == pytest.approx(mean_log_likelihood(found.network.layers, new), abs=0.3)


def test_wrong_targets_do_not_pull(rng: np.random.Generator) -> None:
    rows = make_rows(rng, 400)
    spoilt = rng.random(400) < 0.2
    y = np.where(spoilt, 3.0 + rows.y, rows.y)
    new, means = make_rows(rng, 500), []
    for wrong in (None, np.where(spoilt, 0.9, 0.02)):
        network = fit_network(
            NetworkRows(rows.X, y, rows.omega, None, wrong), None, 1, np.random.default_rng(0)
        ).network
        means.append(network.predict(new.X, Team(1))[1][:, 0])
    misled, told = (np.sqrt(np.mean((mean - new.y) ** 2)) for mean in means)
    assert told < 0.5 * misled


@pytest.mark.skipif(not is_compiled(), reason="in NumPy rows agree to rounding")
def test_rows_are_predicted_alike_wherever_they_stand(rng: np.random.Generator) -> None:
    layers = start_network((3, 16, 16), rng.standard_normal(50), 4, rng)
    network, X = Network(tuple(layers)), rng.standard_normal((3 * BLOCK_ROWS + 7, 3))
    whole = network.predict(X, Team(1))
    for first, last in [(0, 1), (5, 900), (BLOCK_ROWS - 1, BLOCK_ROWS + 2)]:
        for part, all_rows in zip(network.predict(X[first:last], Team(2)), whole, strict=True):
            np.testing.assert_array_equal(part, all_rows[first:last])


@pytest.mark.skipif(not is_compiled(), reason="there is no compiled library")
@pytest.mark.parametrize("n", [0, 1, 25, 400])
def test_compiled_predictions_are_those_of_numpy(rng: np.random.Generator, n: int) -> None:
    layers = tuple(4.0 * layer for layer in start_network((3, 17, 30, 6), rng.standard_normal(50), 5, rng))
    X = np.concatenate([rng.standard_normal((n, 3)), 1e3 * rng.standard_normal((n, 3))])
    for fast, plain in zip(substitute(moments)(layers, X), moments(layers, X), strict=True):
        np.testing.assert_allclose(fast, plain, rtol=1e-10, atol=1e-300)


def trained(start: list[np.ndarray], rows: NetworkRows, order: np.ndarray, compiled: bool) -> tuple[Adam, float, float]:
    """Parameters after a step for each batch, the log-likelihood of the rows, and the norm of the last gradient."""
    adam = Adam(_pack(start), 100, PEAK_RATE, DECAY * _pack([_is_weight(layer) for layer in start]))
    return adam, *(substitute(descend) if compiled else descend)(adam, start, rows, order, 0.2, 2**32 - 5)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize(("size", "widths"), [(1, (3, 5)), (37, (3, 20, 33)), (64, (3, 16, 48, 7)), (150, (3, 64, 64))])
def test_compiled_steps_are_those_of_numpy(
    lanes: int, rng: np.random.Generator, labels: bool, size: int, widths: tuple[int, ...]
) -> None:
    rows = make_rows(rng, 5 * size, labels=labels).single()
    start = start_network(widths, rows.y, 4, rng, np.float32)
    order = rng.permutation(5 * size)[: 3 * size].reshape(3, size)
    fast, plain = (trained(start, rows, order, compiled) for compiled in (True, False))
    np.testing.assert_allclose(fast[1:], plain[1:], rtol=1e-5)
    for name in ("first", "second", "theta", "mean"):
        one, other = (getattr(result[0], name) for result in (fast, plain))
        np.testing.assert_allclose(one, other, atol=2e-5 * float(np.abs(other).max()))


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("n", [1, 63, 200])
def test_compiled_scores_are_those_of_numpy(lanes: int, rng: np.random.Generator, labels: bool, n: int) -> None:
    rows = make_rows(rng, n, labels=labels).single()
    layers = start_network((3, 17, 30), rows.y, 5, rng, np.float32)
    expected = mean_log_likelihood(layers, rows)
    assert substitute(mean_log_likelihood)(layers, rows) == pytest.approx(expected, rel=1e-5)


def test_dropout_leaves_out_that_part_of_the_units_others_for_each_row_and_seed() -> None:
    one, other = (_masks(np.arange(1000), [40, 20], 0.25, seed) for seed in (1, 2))
    assert [mask.shape for mask in one] == [(1000, 40), (1000, 20)]
    kept, again = (np.hstack(masks) > 0.0 for masks in (one, other))
    for axis in (0, 1):  # 4.5 standard errors of a part of 1,000 rows, or of 60 units
        np.testing.assert_allclose(kept.mean(axis=axis), 0.75, atol=4.5 * np.sqrt(0.1875 / kept.shape[axis]))
    for pair in [(kept, again), (kept[1:], kept[:-1]), (kept[:, 1:], kept[:, :-1])]:
        assert np.mean(pair[0] & pair[1]) == pytest.approx(0.75**2, abs=0.01)
    assert np.unique(np.hstack(one)) == pytest.approx([0.0, 1.0 / 0.75])


def test_an_epoch_limit_of_time_ends_training(rng: np.random.Generator) -> None:
    assert fit_network(make_rows(rng, 200), None, 2, rng, max_time=0.0).epoch == 1


def test_callback_ends_training(rng: np.random.Generator) -> None:
    found = fit_network(make_rows(rng, 200), None, 2, rng, on_epoch=lambda step: step.iteration == 3)
    assert found.epoch == 3


def test_hopeless_training_ends_early_with_the_best_epoch(rng: np.random.Generator) -> None:
    rows = make_rows(rng, 200)
    noise = NetworkRows(rows.X, rng.standard_normal(200), rows.omega)  # all that can be learned is over-fitted
    steps: list[int] = []
    valid = NetworkRows(make_rows(rng, 100).X, rng.standard_normal(100), np.ones(100))
    found = fit_network(noise, valid, 4, rng, on_epoch=lambda step: steps.append(step.iteration))
    assert found.epoch < steps[-1] < 100
    assert found.score > -1.6
