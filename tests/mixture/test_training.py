"""`one_model(n_heads=K)`: mixture densities from one model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpzed import GPzRegressor, Run, load_model
from gpzed.engine.threads import Team
from gpzed.model import HEADS_STAGE, StepInfo
from gpzed.prediction import OF_ALL
from helpers import one_model

OPTIONS = {"n_basis": 8, "n_epochs": 25, "max_iter": 30, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def two_valued(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets of which each row has two to choose from, with odds that depend on the inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    upper = rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * X[:, 1]))
    return X, np.where(upper, 2.0 + 0.3 * X[:, 0], 0.5 - 0.2 * X[:, 0]) + 0.05 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def fitted() -> GPzRegressor:
    return one_model(n_heads=2, **OPTIONS).fit(*two_valued(2000, 0))


def test_two_values_come_out_as_two_peaks(fitted: GPzRegressor) -> None:
    X, y = two_valued(1000, 1)
    mixture = fitted.predict_distribution(X)
    gaussian = one_model(**OPTIONS).fit(*two_valued(2000, 0)).predict_distribution(X)
    assert mixture.components.member.tolist() == [0, 0, OF_ALL]  # the last is for doubt
    assert np.mean(mixture.log_pdf(y)) > np.mean(gaussian.log_pdf(y)) + 0.5
    pit = np.sort(mixture.cdf(y))
    assert np.max(np.abs(pit - (np.arange(1000) + 0.5) / 1000)) < 0.07
    even = fitted.predict_distribution([[0.0, 0.0]])
    assert even.pdf(2.0)[0] > 20.0 * even.pdf(1.25)[0]
    assert even.pdf(0.5)[0] > 20.0 * even.pdf(1.25)[0]


def test_distance_between_heads_is_noise(fitted: GPzRegressor) -> None:
    even = fitted.predict_distribution([[0.0, 0.0]])
    assert even.noise_variance[0] == pytest.approx(0.25 * 1.5**2, rel=0.3)
    assert even.model_variance[0] < 0.05 * even.noise_variance[0]
    np.testing.assert_allclose(even.variance, even.model_variance + even.noise_variance + even.input_variance)


def test_saved_heads_predict_the_same(fitted: GPzRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.gpzed")
    X, _ = two_valued(50, 2)
    before, after = (model.predict_distribution(X) for model in (fitted, load_model(tmp_path / "model.gpzed")))
    for name in ("weights", "means", "model_variances", "noise_variances"):
        np.testing.assert_array_equal(getattr(before.components, name), getattr(after.components, name))
    assert after.components.member.tolist() == before.components.member.tolist()


def test_same_seed_same_heads_on_any_number_of_threads() -> None:
    X, y = two_valued(600, 3)
    options = {**OPTIONS, "n_epochs": 15, "max_iter": 5, "n_members": 2, "n_heads": 3}
    one, two = (one_model(**options, n_threads=threads).fit(X, y) for threads in (1, 2))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-8, atol=1e-8)
    own = sum(len(predictor.input_labels) for predictor in one.committee_.predictors)
    assert one.predict_distribution(X).n_components == one.n_components_ == own + 1


def test_gaussian_noise_needs_no_heads_but_loses_nothing() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-2.0, 2.0, (1500, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(1500)
    X_test = rng.uniform(-2.0, 2.0, (500, 1))
    y_test = np.sin(X_test[:, 0]) + 0.1 * rng.standard_normal(500)
    one, three = (
        np.mean(one_model(n_heads=K, **OPTIONS).fit(X, y).predict_distribution(X_test).log_pdf(y_test)) for K in (1, 3)
    )
    assert three > one - 0.03


def test_missing_inputs_widen_the_mixture(fitted: GPzRegressor) -> None:
    X, _ = two_valued(200, 5)
    gaps = X.copy()
    gaps[:, 0] = np.nan
    whole, part = fitted.predict_distribution(X), fitted.predict_distribution(gaps)
    assert np.all(whole.input_variance == 0.0)
    assert np.all(part.input_variance > 0.0)
    assert np.mean(part.variance) > np.mean(whole.variance)


def test_gaps_are_the_expectation_over_what_is_missing_for_every_head(fitted: GPzRegressor) -> None:
    model = GPzRegressor.from_file(replace(fitted.to_file(), coverage=None, recalibration=None))
    row = np.array([[np.nan, 0.4]])
    p = model.predict_distribution(row)
    given = model.members_[0].standardisation.inputs.density.condition(row)
    draws = np.random.default_rng(0).multivariate_normal(given.means[0, 0], given.covariances[0, 0], 40_000)
    sampled = model.predict_distribution(draws, exact=True)
    np.testing.assert_allclose(p.means[0], sampled.means.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(p.components.input_variances[0], sampled.means.var(axis=0), rtol=0.05, atol=1e-4)
    expected = sampled.components.model_variances.mean(axis=0)
    np.testing.assert_allclose(p.components.model_variances[0], expected, rtol=0.1, atol=1e-6)


def test_offsets_change_the_noise_of_rows_with_gaps_alone(fitted: GPzRegressor) -> None:
    """An offset o of ln beta makes the noise variance e^-o of what it was, for the head and gap it belongs to."""
    (member,) = fitted.members_
    assert member.mixture is not None
    plain, shifted = (
        replace(member, mixture=replace(member.mixture, offsets=offsets))
        for offsets in (np.zeros((2, 2)), np.array([[0.5, -1.0], [7.0, 7.0]]))
    )
    X = np.array([[0.3, 0.4], [np.nan, 0.4]])
    before, after = (one.components(X, Team(1)).noise_variances for one in (plain, shifted))
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_allclose(after[1, :2] / before[1, :2], np.exp([-0.5, 1.0]))


def test_training_on_rows_with_gaps(fitted: GPzRegressor) -> None:
    X, y = two_valued(1200, 6)
    X[::4, 0] = np.nan
    X[1::7, 1] = np.nan
    model = one_model(n_heads=2, **OPTIONS).fit(X, y)
    X_test, y_test = two_valued(500, 7)
    assert model.members_[0].mixture is not None
    full = np.mean(fitted.predict_distribution(X_test).log_pdf(y_test))
    assert np.mean(model.predict_distribution(X_test).log_pdf(y_test)) > full - 0.3


def test_progress_tells_of_epochs_and_may_stop_them() -> None:
    seen: list[StepInfo] = []

    def callback(info: StepInfo) -> bool | None:
        seen.append(info)
        return info.stage == HEADS_STAGE and info.iteration == 3

    one_model(n_heads=2, **OPTIONS).fit(*two_valued(500, 8), run=Run(callback=callback))
    assert [info.iteration for info in seen if info.stage == HEADS_STAGE] == [1, 2, 3]


def test_continued_run_gives_the_same_heads(tmp_path: Path) -> None:
    X, y = two_valued(500, 9)
    options = {**OPTIONS, "n_epochs": 5, "n_heads": 2}
    through = one_model(**options).fit(X, y).predict(X)

    def interrupt(info: StepInfo) -> None:
        if info.iteration == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one_model(**options).fit(X, y, run=Run(tmp_path / "c", 5, callback=interrupt))
    resumed = one_model(**options).fit(X, y, run=Run(tmp_path / "c", 5))
    np.testing.assert_array_equal(resumed.predict(X), through)


def test_members_of_a_committee_train_longer_than_a_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpzed.model.training.HEADS_TOLERANCE", np.inf)
    options = {**OPTIONS, "n_basis": 40, "n_epochs": 60, "max_iter": 5, "n_heads": 3}
    kept = []
    for n_members in (1, 2):
        model = one_model(**options, n_members=n_members).fit(*two_valued(300, 10))
        kept.append([member.mixture.best_epoch for member in model.members_ if member.mixture is not None])
    assert len(kept[0]) == 1
    assert kept[0][0] < 60
    assert kept[1] == [60, 60]


@pytest.mark.parametrize(("name", "value"), [("n_heads", 0), ("n_epochs", -1)])
def test_counts_are_checked(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"`{name}` is {value}"):
        one_model(**{name: value}).fit(*two_valued(50, 0))
