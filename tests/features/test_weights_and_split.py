from __future__ import annotations

import numpy as np
import pytest

from gpzed.errors import CatalogError, ConfigError
from gpzed.features import (
    SplitConfig,
    TargetConfig,
    WeightConfig,
    balanced_weights,
    normalised,
    random_split,
    redshift_weights,
    split_by_column,
    target_weights,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_redshift_weights(rng: np.random.Generator) -> None:
    z = rng.random(100)
    weights = redshift_weights(z)
    assert weights.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(weights * (1 + z) ** 2, weights[0] * (1 + z[0]) ** 2)


@pytest.mark.parametrize("width", [0.05, 0.25])
def test_balanced_weights_make_bins_of_the_given_width_count_alike(width: float, rng: np.random.Generator) -> None:
    z = rng.gamma(3.0, 0.1, 5000)
    z = z[z < 0.5]
    weights = balanced_weights(z, width, max_weight=1e9)
    sums = np.bincount((z / width).astype(int), weights)
    np.testing.assert_allclose(sums, sums[0])
    assert weights.mean() == pytest.approx(1.0)


def test_weights_are_capped() -> None:
    z = np.concatenate([np.full(9999, 0.05), [3.0]])
    assert balanced_weights(z, 0.1, max_weight=20.0).max() <= 20.0 * 1.01


def test_target_weights_move_the_training_sample_to_the_target(rng: np.random.Generator) -> None:
    bright = rng.normal(18.0, 1.0, (3000, 1))
    faint = rng.normal(19.0, 1.0, (3000, 1))
    weights = target_weights(bright, faint)
    assert weights.mean() == pytest.approx(1.0)
    assert np.average(bright[:, 0], weights=weights) == pytest.approx(19.0, abs=0.15)
    np.testing.assert_array_equal(weights, target_weights(bright, faint))


def test_target_weights_of_the_same_sample_are_about_one(rng: np.random.Generator) -> None:
    X = rng.standard_normal((1000, 3))
    weights = target_weights(X, X, n_neighbours=20)
    np.testing.assert_allclose(weights, 1.0)


def test_weight_messages(rng: np.random.Generator) -> None:
    with pytest.raises(CatalogError, match="1 training rows have a weight that is negative or missing"):
        normalised(np.array([1.0, -1.0]))
    with pytest.raises(CatalogError, match="weight 0"):
        normalised(np.zeros(3))
    with pytest.raises(CatalogError, match="no target object resembles"):
        target_weights(rng.standard_normal((50, 1)), 1e6 + rng.standard_normal((50, 1)))
    with pytest.raises(CatalogError, match="no usable rows"):
        target_weights(np.ones((3, 1)), np.ones((0, 1)))
    for options, match in (
        ({"method": "inverse"}, "expected one of none"),
        ({"bin_width": 0.0}, "`bin_width`"),
        ({"max_weight": 1.0}, "`max_weight`"),
    ):
        with pytest.raises(ConfigError, match=match):
            WeightConfig(**options)  # type: ignore[arg-type]
    for wrong, match in (
        ({"adapt": "magic"}, "expected one of auto, dim, weights, none"),
        ({"n_neighbours": 0}, "`n_neighbours`"),
        ({"n_rows": 3}, "`n_rows` is 3"),
        ({"simulated": "lsst", "adapt": "weights"}, "`simulated` is given but `adapt`"),
    ):
        with pytest.raises(ConfigError, match=match):
            TargetConfig(**wrong)  # type: ignore[arg-type]


def test_random_split_is_seeded_and_complete() -> None:
    split = random_split(100, 0.2, 0.3, seed=3)
    assert (len(split.train), len(split.validation), len(split.test)) == (50, 20, 30)
    assert sorted(np.concatenate([split.train, split.validation, split.test])) == list(range(100))
    np.testing.assert_array_equal(split.train, random_split(100, 0.2, 0.3, seed=3).train)
    assert set(split.train) != set(random_split(100, 0.2, 0.3, seed=4).train)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["train", "Validation", "TEST", "training"]),
        np.array([0, 1, 2, 0]),
        np.array([0.0, 1.0, 2.0, 0.0]),
    ],
)
def test_split_by_column(values: np.ndarray) -> None:
    split = split_by_column(values, "part")
    assert (split.train.tolist(), split.validation.tolist(), split.test.tolist()) == ([0, 3], [1], [2])


def test_split_by_booleans_and_messages() -> None:
    split = split_by_column(np.array([True, False]), "use")
    assert (split.train.tolist(), split.test.tolist()) == ([0], [1])
    with pytest.raises(CatalogError, match="split column 'part' holds maybe"):
        split_by_column(np.array(["train", "maybe"]), "part")
    for options, match in (
        ({"test": 1.0}, "`test` is 1.0"),
        ({"test": 0.5, "validation": 0.5}, "nothing is left"),
        ({"column": "a", "test": 0.1}, "either the column"),
    ):
        with pytest.raises(ConfigError, match=match):
            SplitConfig(**options)  # type: ignore[arg-type]
