"""Models trained on targets with errors, some of them wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from gpzed import GPzRegressor, Training
from gpzed.errors import DataWarning
from gpzed.incomplete.patterns import RawRows
from gpzed.model.wrong_labels import learn_rate, log_scores, log_wrong_density, settle_rate, with_wrong_rate
from gpzed.prediction import Prediction

NOISE = 0.05


@pytest.fixture(scope="module")
def sky():
    """Return inputs, targets, the same with one in eight drawn from anywhere, and which these are."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (1600, 2))
    y = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1] + NOISE * rng.standard_normal(len(X))
    bad = rng.random(len(y)) < 0.125
    return X, y, np.where(bad, rng.choice(y, len(y)), y), bad


def make(n_heads, **options):
    options = {"n_basis": 15, "n_members": 1, "n_threads": 1, "random_state": 0, **options}
    return GPzRegressor(n_heads=n_heads, training=Training(max_iter=200, n_epochs=30), **options)


def mll(model, X, y):
    return float(np.mean(model.predict_distribution(X).log_pdf(y)))


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
@pytest.mark.parametrize("n_heads", [1, 4])
def test_wrong_labels_are_found_and_left_aside(sky, n_heads):
    X, y, given, _ = sky
    train, test = slice(0, 1200), slice(1200, None)
    clean = mll(make(n_heads).fit(X[train], y[train]), X[test], y[test])
    naive = mll(make(n_heads, wrong_labels=0.0).fit(X[train], given[train]), X[test], y[test])
    assert naive < clean - 0.12
    for wrong_labels in ("auto", 0.125):
        robust = make(n_heads, wrong_labels=wrong_labels).fit(X[train], given[train])
        assert abs(robust.wrong_rate_ - 0.125) < 0.03
        assert mll(robust, X[test], y[test]) > clean - 0.08
        assert np.median(robust.predict_distribution(X[test]).std) < 1.5 * NOISE


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_rows_may_have_probabilities_of_their_own(sky):
    """Where it is known which labels are wrong, the others are as good as clean ones."""
    X, y, given, bad = sky
    doubt = np.where(bad, 0.9, 0.001)
    model = make(1).fit(X[:1200], given[:1200], y_wrong=doubt[:1200])
    assert mll(model, X[1200:], y[1200:]) > mll(make(1).fit(X[:1200], y[:1200]), X[1200:], y[1200:]) - 0.08


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
@pytest.mark.parametrize("n_heads", [1, 4])
def test_predictions_do_not_include_the_errors_of_labels(sky, n_heads):
    X, y, _, _ = sky
    rng = np.random.default_rng(2)
    errors = rng.choice([0.01, 0.5], len(y))
    noisy = y + errors * rng.standard_normal(len(y))
    with_, without = (make(n_heads, wrong_labels=0.0) for _ in range(2))
    with_.fit(X[:1200], noisy[:1200], y_std=errors[:1200])
    without.fit(X[:1200], noisy[:1200])
    assert np.median(with_.predict_distribution(X[1200:]).std) < 1.4 * NOISE
    assert np.median(without.predict_distribution(X[1200:]).std) > 3.0 * NOISE
    assert mll(with_, X[1200:], y[1200:]) > mll(without, X[1200:], y[1200:]) + 0.5


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_a_stream_gives_the_rows_in_memory(sky):
    X, y, given, _ = sky
    options = {"wrong_labels": 0.1, "calibrate": "noise", "coverage": False}
    errors, held = np.full(len(X), 0.02), (X[1200:], given[1200:], None, None, np.full(400, 0.02))
    whole = make(1, **options).fit(X[:1200], given[:1200], y_std=errors[:1200], validation_data=held)
    parts = [(X[i : i + 400], given[i : i + 400], np.ones(400), None, errors[:400]) for i in (0, 400, 800)]
    stream = make(1, **options).fit_stream(parts, validation_data=held)
    assert mll(stream, X[1200:], y[1200:]) == pytest.approx(mll(whole, X[1200:], y[1200:]), abs=0.1)
    trusting = [
        make(1, **{**options, "wrong_labels": q}).fit_stream(parts, validation_data=held) for q in ("auto", 0.0)
    ]
    assert mll(trusting[0], X, y) == mll(trusting[1], X, y)  # chunks are not searched for wrong labels


def rows_of(X, y, wrong=None):
    return RawRows(X, y, np.ones(len(y)), wrong=wrong)


def test_the_rate_is_learned_where_inputs_tell_most(sky):
    X, y, given, bad = sky
    rng = np.random.default_rng(0)
    assert learn_rate(rows_of(X, y), rng) == 0.0
    assert learn_rate(rows_of(X, given), rng) == pytest.approx(bad.mean(), abs=0.04)
    assert learn_rate(rows_of(X[:300], given[:300]), rng) == 0.0  # too few to tell
    blurred = np.where(X[:, 0] > 0.0, y, rng.choice(y, len(y)))  # half of the rows: inputs tell nothing
    assert learn_rate(rows_of(X, blurred), rng) == 0.0


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_outliers_with_a_place_of_their_own_are_no_wrong_labels(sky):
    """A second branch of targets looks like wrong ones to neighbours, but a model learns where it is."""
    X, y, given, bad = sky
    branch = np.where(bad, y + 1.5, y)
    model = make(4)
    assert learn_rate(rows_of(X, branch), np.random.default_rng(0)) > 0.05
    assert settle_rate(model, rows_of(X, branch)) == 0.0
    with pytest.warns(DataWarning, match=r"about \d+ % of the targets look wrong"):
        assert settle_rate(model, rows_of(X, given)) == pytest.approx(bad.mean(), abs=0.04)
    assert settle_rate(make(4, weighting="precision"), rows_of(X, given)) == 0.0


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
@pytest.mark.parametrize("n_heads", [1, 4])
def test_targets_within_their_errors_are_not_wrong(sky, n_heads):
    X, y, _, _ = sky
    rng = np.random.default_rng(2)
    errors = rng.choice([0.01, 0.5], len(y))
    rows = rows_of(X, y + errors * rng.standard_normal(len(y)))
    assert learn_rate(rows, np.random.default_rng(0)) > 0.05
    assert settle_rate(make(n_heads), rows._replace(y_std=errors)) == 0.0


def test_rows_of_known_doubt_keep_it(sky):
    X, y, _, _ = sky
    wrong = np.where(X[:, 0] > 0.0, np.nan, 0.4)
    found = with_wrong_rate(rows_of(X, y, wrong), 0.1).wrong
    assert set(found) == {0.1, 0.4}
    assert with_wrong_rate(rows_of(X, y), 0.0).wrong is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y_std": -np.ones(1600)}, r"`y_std` has 1600 values that it cannot have, the first in row 0 \(-1.0\)"),
        ({"y_std": np.ones(3)}, r"`y_std` has shape \(3,\); expected \(1600,\)"),
        ({"y_wrong": np.ones(1600)}, "expected probabilities >= 0 and < 1, or NaN"),
    ],
)
def test_labels_that_cannot_be(sky, given, message):
    with pytest.raises(ValueError, match=message):
        make(1).fit(sky[0], sky[1], **given)


def test_doubts_are_weights_of_the_likelihood(sky):
    with pytest.raises(ValueError, match=r'`wrong_labels` is 0.1 but `weighting` is "precision"'):
        make(1, wrong_labels=0.1, weighting="precision").fit(sky[0], sky[1])
    with pytest.raises(ValueError, match=r"`wrong_labels` is 0.9; expected a number from 0 to 0.5"):
        make(1, wrong_labels=0.9).fit(sky[0], sky[1])


def test_a_few_far_targets_are_no_rate(monkeypatch):
    """Of 600 rows the surest 120 count; two in a hundred of these are fewer than five."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    y = X[:, 0] + 0.01 * rng.standard_normal(600)
    y[::50] += 3.0
    assert learn_rate(rows_of(X, y), np.random.default_rng(0)) == 0.0
    monkeypatch.setattr("gpzed.model.wrong_labels.MIN_FAR", 1)
    assert learn_rate(rows_of(X, y), np.random.default_rng(0)) > 0.005


def test_scores_have_the_errors_of_targets():
    """A Gaussian and an error give a Gaussian with the sum of the variances; half of the targets may be anywhere."""
    y, y_std, wrong = np.array([0.3, 0.9]), np.array([0.1, 0.4]), np.array([0.0, 0.5])
    predicted = Prediction.gaussian(np.array([0.2, 0.5]), np.zeros(2), np.full(2, 0.04)).components
    rows = rows_of(np.zeros((2, 1)), y)._replace(y_std=y_std, wrong=wrong)
    right = norm.pdf(y, [0.2, 0.5], np.sqrt(0.04 + y_std**2))
    anywhere = np.exp(log_wrong_density(y, 0.6, 0.3))
    expected = np.log((1.0 - wrong) * right + wrong * anywhere)
    np.testing.assert_allclose(log_scores(predicted, rows, 0.6, 0.3), expected, rtol=1e-12)
