"""Missing and noisy inputs: calibration, agreement with Monte Carlo, and everything that must not depend on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from gpzed import Run, load_model
from gpzed.engine.threads import Team
from gpzed.errors import DataWarning
from gpzed.prediction import Prediction
from helpers import one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
MIX = np.array([[1.0, 0.0, 0.0], [0.7, 0.7, 0.0], [0.5, 0.3, 0.8]])


def quick(**options):
    plain = {"coverage": False, "calibrate": "noise"}  # which change predictions for reasons of their own
    return one_model(**({"n_basis": 12, "max_iter": 60, "n_threads": 1, "random_state": 0} | plain | options))


def sky(n, seed=0):
    """Three correlated Gaussian inputs and a smooth target with noise of 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ MIX.T
    return X, np.sin(X[:, 0]) + 0.4 * X[:, 2] + 0.1 * rng.standard_normal(n)


def with_gaps(X, share=0.2, seed=1):
    rng = np.random.default_rng(seed)
    gaps = rng.random(X.shape) < share
    gaps[gaps.all(axis=1), 0] = False
    return np.where(gaps, np.nan, X)


@pytest.fixture(scope="module")
def gappy():
    """A model trained on rows with gaps, with the rows."""
    X, y = sky(1500)
    X = with_gaps(X)
    return quick().fit(X, y), X, y


def test_a_mixture_is_chosen_where_the_inputs_ask_for_one():
    rng = np.random.default_rng(3)
    X = np.where(rng.random((1200, 1)) < 0.5, [[-3.0, 2.0]], [[3.0, 2.0]]) + 0.5 * rng.standard_normal((1200, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(1200)
    X[::3, 0] = np.nan
    model = quick(n_basis=6).fit(X, y)
    assert model.n_components_ >= 2
    p = model.predict_distribution(np.array([[np.nan, 2.0], [3.0, 2.0]]))
    assert p.pdf(np.array([-3.0, 3.0]))[0] > 5.0 * p.pdf(np.array([0.0, 0.0]))[0]  # two peaks, nothing between
    assert p.weights[1].max() == 1.0
    assert quick(n_basis=6, density_components=1).fit(X, y).n_components_ == 1


# --------------------------------------------------------------------------------------------- calibration


def require_calibration(p, y, slack=0.01):
    """PIT values are uniform, and as many targets as there should be lie in the central intervals."""
    pit, n = p.cdf(y), len(y)
    for level in (0.68, 0.95):
        inside = np.mean(np.abs(pit - 0.5) < level / 2)
        assert inside == pytest.approx(level, abs=3.5 * np.sqrt(level * (1 - level) / n) + slack)
    assert stats.kstest(pit, "uniform").statistic < 2.0 / np.sqrt(n) + slack


def two_skies(n, seed=0):
    """As `sky`, but a target may also be 2 higher, the more likely the larger the second input."""
    X, y = sky(n, seed)
    rng = np.random.default_rng(seed + 100)
    return X, y + 2.0 * (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * X[:, 1])))


@pytest.fixture(scope="module")
def gappy_heads():
    X, y = two_skies(2500)
    return quick(n_heads=3, n_epochs=40).fit(with_gaps(X), y)


@pytest.mark.parametrize("pattern", [[], [0], [1], [2], [0, 2]], ids=str)
@pytest.mark.parametrize("has_heads", [False, True])
def test_coverage_is_right_for_every_pattern(gappy, gappy_heads, has_heads, pattern):
    model = gappy_heads if has_heads else gappy[0]
    X, y = (two_skies if has_heads else sky)(1500, 5)
    X[:, pattern] = np.nan
    p = model.predict_distribution(X)
    assert (p.n_components > 1) == has_heads
    require_calibration(p, y, slack=0.015 if has_heads else 0.01)
    np.testing.assert_allclose(p.model_variance + p.noise_variance + p.input_variance, p.variance, rtol=1e-12)
    assert np.all(p.input_variance > 0.0) if pattern else np.all(p.input_variance == 0.0)


@pytest.mark.parametrize("has_heads", [False, True])
def test_calibration_is_lost_without_the_input_variance(gappy, gappy_heads, has_heads):
    """The test above can fail: what it checks hangs on the variance that gaps add."""
    X, y = (two_skies if has_heads else sky)(1500, 5)
    X[:, [0, 2]] = np.nan
    p = (gappy_heads if has_heads else gappy[0]).predict_distribution(X)
    without = replace(p.components, input_variances=np.zeros_like(p.means))
    with pytest.raises(AssertionError):
        require_calibration(p.changed(components=without), y, slack=0.015)


def test_marginalising_beats_filling_in_and_dropping(gappy):
    model, X, y = gappy
    X_test, y_test = sky(2000, 7)
    X_test = with_gaps(X_test, seed=8)
    ours = model.predict_distribution(X_test)
    complete = np.isfinite(X).all(axis=1)
    mean = np.nanmean(X, axis=0)
    filled = (
        quick().fit(np.where(np.isnan(X), mean, X), y).predict_distribution(np.where(np.isnan(X_test), mean, X_test))
    )
    dropped = quick().fit(X[complete], y[complete]).predict_distribution(np.where(np.isnan(X_test), mean, X_test))
    for other in (filled, dropped):
        assert ours.log_pdf(y_test).mean() > other.log_pdf(y_test).mean() + 0.1
        assert ours.crps(y_test).mean() < 0.9 * other.crps(y_test).mean()


def test_a_pattern_that_training_never_saw_is_the_expectation_over_what_is_missing():
    X, y = sky(800)
    model = quick().fit(X, y)
    row = np.array([[0.5, np.nan, -0.3]])
    p = model.predict_distribution(row)
    density = model.members_[0].standardisation.inputs.density
    given = density.condition(row)
    draws = np.random.default_rng(0).multivariate_normal(given.means[0, 0], given.covariances[0, 0], 40_000)
    sampled = model.predict_distribution(draws)
    assert p.mean[0] == pytest.approx(sampled.mean.mean(), abs=0.01)
    assert p.input_variance[0] == pytest.approx(sampled.mean.var(), rel=0.05)
    assert p.model_variance[0] == pytest.approx(sampled.model_variance.mean(), rel=0.05)


def test_a_row_without_any_input_gets_what_the_training_rows_are_like(gappy):
    model, _, y = gappy
    p = model.predict_distribution(np.full((1, 3), np.nan))
    assert p.mean[0] == pytest.approx(y.mean(), abs=0.1)
    assert p.std[0] == pytest.approx(y.std(), rel=0.15)


# --------------------------------------------------------------------------------------------- input noise


def test_noisy_inputs_are_covered_if_the_true_ones_may_be():
    rng = np.random.default_rng(6)
    X, y = sky(800)
    model = quick(max_iter=10, coverage=True).fit(X, y, X_std=np.full(X.shape, 0.05))
    X, _ = sky(500, 7)
    noisy, std = X + rng.standard_normal(X.shape), np.ones(X.shape)
    assert np.mean(model.predict_distribution(noisy, X_std=std).coverage < 0.01) < 0.02
    assert np.mean(model.predict_distribution(noisy, X_std=0.05 * std).coverage < 0.01) > 0.1


def test_predictions_stay_unbiased_and_calibrated_when_the_target_is_noisier():
    rng = np.random.default_rng(2)
    X, y = sky(1500)
    X_test, y_test = sky(3000, 4)
    deep, shallow = np.full(3, 0.05), np.array([0.7, 0.4, 0.5])
    seen = X + deep * rng.standard_normal(X.shape)
    seen_test = X_test + shallow * rng.standard_normal(X_test.shape)
    ignorant = quick().fit(seen, y).predict_distribution(seen_test)
    aware = quick().fit(seen, y, X_std=np.tile(deep, (1500, 1)))
    p = aware.predict_distribution(seen_test, X_std=np.tile(shallow, (3000, 1)))
    slope = {name: np.polyfit(q.mean, y_test, 1)[0] for name, q in (("aware", p), ("ignorant", ignorant))}
    assert slope["aware"] == pytest.approx(1.0, abs=0.06)
    assert slope["ignorant"] < 0.85
    for level in (0.68, 0.95):
        assert np.mean(np.abs(p.cdf(y_test) - 0.5) < level / 2) == pytest.approx(level, abs=0.03)
    assert np.all(p.input_variance > 0.0)
    clear = aware.predict_distribution(seen_test, X_std=np.zeros((3000, 3)))
    assert np.median(clear.std) < 0.5 * np.median(p.std)


def test_noise_in_training_is_not_counted_twice():
    rng = np.random.default_rng(3)
    X, y = sky(1500)
    std = np.exp(rng.normal(-1.2, 0.5, X.shape))
    model = quick().fit(X + std * rng.standard_normal(X.shape), y, X_std=std)
    X_test, y_test = sky(3000, 5)
    std = np.exp(rng.normal(-1.2, 0.5, X_test.shape))
    p = model.predict_distribution(X_test + std * rng.standard_normal(X_test.shape), X_std=std)
    assert ((y_test - p.mean) / p.std).std() == pytest.approx(1.0, abs=0.06)


def test_any_errors_give_what_draws_of_the_true_inputs_give():
    rng = np.random.default_rng(4)
    X, y = sky(500)
    std = np.exp(rng.normal(-2.0, 0.3, X.shape))
    model = quick(max_iter=25, density_components=4).fit(X, y, X_std=std)
    row, error = np.array([[0.5, -0.2, np.nan]]), np.array([[0.7, 0.02, 0.3]])
    member = model.members_[0]
    p = Prediction.of(member.components(row, Team(1), error))
    share, mean, Psi = member.standardisation.inputs.density.condition(row, error)
    g = rng.choice(4, 40_000, p=share[0])
    drawn = mean[0, g] + np.einsum("nab,nb->na", np.linalg.cholesky(Psi[0])[g], rng.standard_normal((40_000, 3)))
    clear = Prediction.of(member.components(drawn, Team(1)))
    assert p.mean[0] == pytest.approx(clear.mean.mean(), abs=0.02 * p.std[0])
    assert p.input_variance[0] == pytest.approx(clear.mean.var(), rel=0.05)
    assert p.model_variance[0] == pytest.approx(clear.model_variance.mean(), rel=0.05)


def test_errors_that_the_scatter_of_the_inputs_has_no_room_for_are_told_of():
    X, y = sky(400)
    with pytest.warns(DataWarning, match=r"errors of the inputs are larger than the scatter of these allows.*X_std"):
        quick(n_basis=4, max_iter=3).fit(X, y, X_std=np.full(X.shape, 1.0))


# ------------------------------------------------------------------------------------------ nothing else changes


def test_complete_rows_do_not_notice_others(gappy):
    model, X, _ = gappy
    complete = np.isfinite(X).all(axis=1)
    alone, among = model.predict_distribution(X[complete]), model.predict_distribution(X)[complete]
    np.testing.assert_allclose(among.mean, alone.mean, rtol=1e-12)
    np.testing.assert_allclose(among.variance, alone.variance, rtol=1e-12)


def test_rows_do_not_depend_on_the_company_they_keep(gappy):
    model, X, _ = gappy
    whole = model.predict_distribution(X[:200])
    for rows in (slice(0, 1), slice(30, 77), [5, 150, 3]):
        part = model.predict_distribution(X[:200][rows])
        np.testing.assert_allclose(part.mean, whole[rows].mean, rtol=1e-10)
        np.testing.assert_allclose(part.input_variance, whole[rows].input_variance, rtol=1e-7, atol=1e-12)


def test_saved_models_predict_the_same(gappy, tmp_path):
    model, X, y = gappy
    std = np.full(X.shape, 0.1)
    noisy = quick(max_iter=10).fit(X, y, X_std=std)
    for one, errors in ((model, None), (noisy, std)):
        one.save(tmp_path / "m.gpzed")
        p, q = (m.predict_distribution(X, X_std=errors) for m in (one, load_model(tmp_path / "m.gpzed")))
        for name in ("weights", "means", "model_variances", "noise_variances", "input_variances"):
            np.testing.assert_array_equal(getattr(p.components, name), getattr(q.components, name))


def test_streams_learn_the_same(gappy):
    _, X, y = gappy
    chunks = [(X[i : i + 400], y[i : i + 400]) for i in range(0, 1500, 400)]
    stream = quick(density_components=1, max_iter=30).fit_stream(chunks).predict_distribution(X)
    memory = quick(density_components=1, max_iter=30).fit(X, y).predict_distribution(X)
    assert stream.log_pdf(y).mean() == pytest.approx(memory.log_pdf(y).mean(), abs=0.1)
    assert stream.input_variance.mean() == pytest.approx(memory.input_variance.mean(), rel=0.2)


def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(gappy, tmp_path):
    _, X, y = gappy
    X, y = X[:300], y[:300]
    whole = quick(n_basis=5, max_iter=30).fit(X, y)
    steps = []

    def stop(step):
        steps.append(step)
        if len(steps) == 18:
            raise KeyboardInterrupt

    options = {"n_basis": 5, "max_iter": 30}
    run = Run(tmp_path / "c", checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        quick(**options).fit(X, y, run=replace(run, callback=stop))
    assert steps[-1].stage > 0
    resumed = quick(**options).fit(X, y, run=run)
    np.testing.assert_array_equal(resumed.weights_, whole.weights_)


def test_stages_are_repeated_where_enough_rows_have_gaps():
    X, y = sky(600)
    for n_gaps, n_stages in ((3, 1), (60, 3)):
        gaps = X.copy()
        gaps[:n_gaps, 0] = np.nan
        model = quick(n_basis=4, max_iter=40, random_state=0).fit(gaps, y)
        assert len(model.report_.n_rows) == n_stages


def test_committees_and_functions(gappy):
    _, X, y = gappy
    model = quick(n_members=2, max_iter=10, density_components=2).fit(X, y)
    p = model.predict_distribution(X[:50])
    assert p.n_components == model.n_components_ == 4
    np.testing.assert_allclose(p.weights.sum(axis=1), 1.0)
    values = model.sample_y(X[:50], 200)
    assert values.shape == (50, 200)
    assert np.abs(values.mean(axis=1) - p.mean).max() < 0.5


def test_duplicates_with_gaps_are_merged():
    X, y = sky(60)
    X = with_gaps(X)
    once = quick(n_basis=4, max_iter=5).fit(X, y, np.full(60, 2.0))
    twice = quick(n_basis=4, max_iter=5).fit(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_array_equal(once.weights_, twice.weights_)


# ---------------------------------------------------------------------------------------------- bad input


def test_what_users_may_get_wrong():
    X, y = sky(50)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        quick(missing="error").fit(with_gaps(X), y)
    with pytest.raises(ValueError, match=r"X has only NaN in feature \[1\]"):
        quick().fit(np.where([True, False, True], X, np.nan), y)
    with pytest.raises(ValueError, match=r"`X_std` has shape \(50, 2\); expected \(50, 3\)"):
        quick().fit(X, y, X_std=X[:, :2] ** 2)
    std = np.ones(X.shape)
    std[3, 1] = -1.0
    with pytest.raises(ValueError, match=r"`X_std` has 1 negative or non-finite.*row 3, column 1 \(-1.0\)"):
        quick().fit(X, y, X_std=std)
    with pytest.raises(ValueError, match=r"`missing` is 'margin'.*Did you mean \"marginalise\""):
        quick(missing="margin").fit(X, y)
    with pytest.raises(ValueError, match="`density_components` is 0"):
        quick(density_components=0).fit(X, y)
    plain = quick(max_iter=2, n_basis=3).fit(X, y)
    with pytest.raises(ValueError, match="`X_std` is given but the model was trained without"):
        plain.predict(X, X_std=np.ones(X.shape))
    noisy = quick(max_iter=2, n_basis=3).fit(X, y, X_std=np.ones(X.shape))
    with pytest.raises(ValueError, match="trained with errors of the inputs; give `X_std`"):
        noisy.predict(X)
    with pytest.raises(ValueError, match="`X_std` is given for training or validation rows only"):
        quick().fit(X, y, X_std=np.ones(X.shape), validation_data=(X, y))
    with pytest.raises(ValueError, match="chunk 1 of `source` differs from the first in having `X_std`"):
        quick().fit_stream([(X, y, None, np.ones(X.shape)), (X, y)])
