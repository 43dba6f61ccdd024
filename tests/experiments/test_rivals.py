from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from experiments.data import Rows, Sets
from experiments.rivals.annz2 import read_annz2
from experiments.rivals.base import Effort
from experiments.rivals.forest import MAX_FEATURES, MIN_LEAF, train_forest
from experiments.rivals.mlp import PENALTIES, train_mlp
from experiments.rivals.randomised import _ranks, train_randomised
from experiments.rivals.tpz import has_tpz, train_tpz
from gpzed.errors import CatalogError, MissingDependencyError

NONE = Rows(np.empty((0, 2)), np.empty(0))
ONE_THREAD = Effort(n_threads=1)


def rows(n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    return Rows(X, 0.5 + 0.2 * X[:, 0] + 0.02 * rng.standard_normal(n))


def test_the_variance_of_the_forest_is_that_of_the_rows_in_its_leaves() -> None:
    train, test = rows(300, 0), rows(20, 1)
    predict, _ = train_forest(Sets(train, NONE, test, ("a", "b")), 7, ONE_THREAD)
    forest = RandomForestRegressor(
        7, max_features=min(MAX_FEATURES, 2), min_samples_leaf=MIN_LEAF, random_state=0, bootstrap=True
    ).fit(train.X, train.z)
    prediction = predict(test.X)
    np.testing.assert_allclose(prediction.mean, forest.predict(test.X))
    trees = np.stack([tree.predict(test.X) for tree in forest.estimators_])
    np.testing.assert_allclose(prediction.model_variance, trees.var(axis=0), atol=1e-12)
    within = []
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        mates = tree.apply(train.X[drawn].astype(np.float32))
        within.append([train.z[drawn][mates == leaf].var() for leaf in tree.apply(test.X.astype(np.float32))])
    np.testing.assert_allclose(prediction.noise_variance, np.mean(within, axis=0), rtol=1e-6)


def test_randomised_regression_uses_the_best_learner_and_its_neighbours() -> None:
    sets = Sets(rows(400, 0), rows(300, 1), rows(200, 2), ("a", "b"))
    predict, details = train_randomised(sets, 4, ONE_THREAD)
    prediction = predict(sets.test.X)
    assert details["learners"] == 4
    assert details["best"]["kind"] in ("network", "boosted trees")
    residual = sets.test.z - prediction.mean
    assert np.sqrt(np.mean(residual**2)) < 0.05
    assert 0.5 < np.mean(np.abs(residual) < prediction.std) < 0.85
    again, _ = train_randomised(sets, 4, ONE_THREAD)
    np.testing.assert_array_equal(again(sets.test.X).mean, prediction.mean)
    held_out, _ = train_randomised(Sets(rows(400, 0), NONE, rows(200, 2), ("a", "b")), 2, ONE_THREAD)
    assert np.isfinite(held_out(sets.test.X).mean).all()


def test_learners_are_ranked_by_bias_scatter_and_outliers() -> None:
    z = np.linspace(0.1, 1.0, 50)
    worse = z + np.where(np.arange(50) % 2, 0.1, -0.05)
    assert np.argmin(_ranks([worse, z + 0.001 * np.sin(np.arange(50)), z + 0.2], z)) == 1


@pytest.mark.skipif(has_tpz(), reason="TPZ is installed")
def test_without_tpz_the_message_says_how_to_get_it() -> None:
    with pytest.raises(MissingDependencyError, match="pip install pz-rail-tpz"):
        train_tpz(Sets(rows(50, 0), NONE, NONE, ("mag_u", "ln_err_u")), 5, ONE_THREAD)


@pytest.mark.parametrize(
    "text",
    [
        "Z,ANNZ_best,ANNZ_best_err\n0.5,0.52,0.02\n0.7,0.65,0.04\n",
        "# F;Z , F;ANNZ_best , F;ANNZ_best_err\n0.5 , 0.52 , 0.02\n\n0.7 , 0.65 , 0.04\n",
        "ANNZ_best ANNZ_best_err other z_spec\n0.52 0.02 1 0.5\n0.65 0.04 2 0.7\n",
    ],
)
def test_output_of_annz2_is_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ANNZ_randomReg_0000.csv"
    path.write_text(text)
    z, prediction = read_annz2(path)
    np.testing.assert_array_equal(z, [0.5, 0.7])
    np.testing.assert_array_equal(prediction.mean, [0.52, 0.65])
    np.testing.assert_allclose(prediction.std, [0.02, 0.04])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Z,ANNZ_best\n0.5,0.52\n", "no column 'ANNZ_best_err'"),
        ("ANNZ_best,ANNZ_best_err\n0.5,0.52\n", "no true redshift"),
        ("Z,ANNZ_best,ANNZ_best_err\n0.5,0.52,0\n", "row 1 first"),
        ("Z,ANNZ_best,ANNZ_best_err\n0.5,0.52\n", "line 2: 2 values; expected 3"),
        ("Z,ANNZ_best,ANNZ_best_err\n0.5,0.52,x\n", "no number"),
        ("", "no column 'ANNZ_best'"),
    ],
)
def test_bad_output_of_annz2_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text(text)
    with pytest.raises(CatalogError, match=message):
        read_annz2(path)


def test_missing_output_of_annz2(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="there is no file"):
        read_annz2(tmp_path / "none.csv")


def test_least_squares_network_chooses_its_penalty_and_has_constant_noise() -> None:
    sets = Sets(rows(300, 0), rows(200, 1), rows(200, 2), ("a", "b"))
    predict, details = train_mlp(sets, 5, Effort(max_iter=100))
    prediction = predict(sets.test.X)
    assert details["penalty"] in PENALTIES
    assert np.ptp(prediction.variance) == 0.0
    assert 0.018 < np.sqrt(np.mean((sets.test.z - prediction.mean) ** 2)) < 0.025  # the noise is 0.02
    assert prediction.std[0] == pytest.approx(0.02, rel=0.2)
