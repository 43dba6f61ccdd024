"""Training: what is learned, what is kept, when it stops, and that it is repeatable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpzed import Run
from gpzed.engine.threads import Team
from gpzed.errors import ConvergenceWarning
from gpzed.gp.predictive import responses_of
from gpzed.incomplete.patterns import RawRows
from gpzed.model import StepInfo, training
from gpzed.model.data import ArrayData
from gpzed.model.options import make_recipe
from helpers import CODES, one_model

pytestmark = pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")


def quick(**options):
    return one_model(**({"n_basis": 6, "max_iter": 25, "n_threads": 1, "random_state": 0} | options))


def both(model, X):
    return np.stack(model.predict(X, return_std=True))


# ---------------------------------------------------------------------------------- consistent predictions


@pytest.mark.parametrize("n_members", [1, 2])
def test_predictions_are_consistent(wave, n_members):
    X, y = wave
    model = quick(n_members=n_members).fit(X, y)
    p = model.predict_distribution(X)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, p.mean)
    np.testing.assert_array_equal(model.predict(X), mean)
    np.testing.assert_array_equal(std, p.std)
    np.testing.assert_allclose(p.model_variance + p.noise_variance, std**2, rtol=1e-12)
    assert np.all(p.model_variance > 0)
    assert np.all(p.noise_variance > 0)
    rows = slice(13, 27)
    np.testing.assert_allclose(both(model, X[rows]), both(model, X)[:, rows], rtol=1e-12)


def test_draws_have_the_moments_and_correlations_of_the_posterior(wave):
    X, y = wave
    model = quick().fit(X, y)
    p, member = model.predict_distribution(X[:5]), model.members_[0]
    draws = model.sample_y(X[:5], 20_000, random_state=1)
    Phi = responses_of(member.expected(X[:5]), member.state)
    covariance = member.standardisation.y_scale**2 * Phi @ member.posterior.factor.inverse @ Phi.T
    std = np.sqrt(p.model_variance)
    assert np.all(np.abs(draws.mean(axis=1) - p.mean) < 5 * std / np.sqrt(20_000))
    assert np.all(np.abs(np.cov(draws) - covariance) < 5 * np.outer(std, std) * np.sqrt(2 / 20_000))
    np.testing.assert_array_equal(draws, model.sample_y(X[:5], 20_000, random_state=1))
    assert not np.array_equal(draws, model.sample_y(X[:5], 20_000, random_state=2))


@pytest.mark.parametrize("n_heads", [1, 3])
def test_held_out_rows_are_judged_by_posteriors_they_did_not_enter(wave, n_heads):
    X, y = wave
    y = y * np.where(np.arange(len(y)) % 3 == 0, -1.0, 1.0)
    train, valid = (RawRows(X[rows], y[rows], np.ones(150)) for rows in (slice(150), slice(150, None)))
    model = quick(n_heads=n_heads)
    model.n_features_in_ = 2
    recipe = make_recipe(model, 150)
    both = [
        training.train_member(ArrayData(train, valid, valid_is_part=is_part), recipe, np.random.default_rng(0))
        for is_part in (True, False)
    ]
    (member, blind), (without, same) = both
    rows, team = X[150:], Team(1)
    judged = blind.components(rows, team)
    for name in ("weights", "means", "model_variances", "noise_variances"):
        np.testing.assert_array_equal(getattr(judged, name), getattr(without.components(rows, team), name))
        np.testing.assert_array_equal(getattr(judged, name), getattr(same.components(rows, team), name))
    assert np.all(judged.model_variances > member.components(rows, team).model_variances)


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("options", [{"n_heads": 3}, {"n_heads": 3, "n_members": 2, "coverage": True}], ids=str)
def test_draws_come_from_the_model_that_predicts(wave, options, has_gaps):
    X, y = wave
    y = y * np.where(np.arange(len(y)) % 3 == 0, -1.0, 1.0)
    if has_gaps:
        X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = quick(**options).fit(X, y)
    X = np.vstack([X[:5], [[40.0, 40.0]]])
    parts = model.predict_distribution(X).components
    mean = (parts.weights * parts.means).sum(axis=1)
    variance = (parts.weights * (parts.model_variances + parts.means**2)).sum(axis=1) - mean**2
    draws = model.sample_y(X, 30_000, random_state=1)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(variance / 30_000))
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=0.1)
    assert not np.array_equal(model.basis_centers_, model.members_[0].parameters.P)
    assert model.weights_.shape == (model.members_[0].layout.n_weights, 3)
    with pytest.raises(AttributeError, match="predicts with 3"):
        _ = model.weight_precisions_


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("noise", ["heteroscedastic", "homoscedastic"])
def test_every_structure_learns_the_function(wave, code, noise):
    X, y = wave
    model = quick(covariance=code, noise=noise, n_basis=10, max_iter=60, coverage=False).fit(X, y)
    truth = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1]
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 0.08
    variance = model.predict_distribution(X).noise_variance
    assert 0.06 < np.sqrt(variance.mean()) < 0.16
    if noise == "homoscedastic":
        np.testing.assert_allclose(variance, variance[0], rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{"relevance": "shared"}, {"mean_function": "zero"}, {"mean_function": "linear"}, {"whitening": "scale"},
     {"whitening": "none"}, {"init": "data"}, {"init": "random"}, {"shape_prior": 0.0}, {"calibrate": "none"},
     {"validation_fraction": 0.0}, {"memory": 3}],
    ids=str,
)  # fmt: skip
def test_every_option_learns_the_function(wave, options):
    X, y = wave
    model = quick(max_iter=60, **options).fit(X, y)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize(("calibrate", "bias"), [("none", 0.1), ("noise", 0.25)])
def test_noise_variance_is_recovered(funnel, calibrate, bias):
    """Calibration rests on 400 rows, so its constant alone is uncertain by sqrt(2 / 400) = 0.07."""
    X, y, variance = funnel
    model = one_model(n_basis=10, n_threads=1, random_state=0, calibrate=calibrate).fit(X, y)
    p = model.predict_distribution(X)
    inner = np.abs(X[:, 0]) < 1.8
    log_ratio = np.log(p.noise_variance / variance)[inner]
    assert abs(log_ratio.mean()) < bias
    assert np.abs(log_ratio - log_ratio.mean()).max() < 0.4
    pulls = (y - p.mean) / p.std
    assert 1 - bias / 2 < pulls.std() < 1 + bias / 2


def test_scale_and_origin_of_the_target_do_not_matter(wave):
    X, y = wave
    model = quick(weighting="precision")  # keeps the rows in their order, and with it the split
    plain, moved = model.fit(X, y).members_, model.fit(X, 5.0 + 100.0 * y).members_
    one, two = plain[0].components(X, Team(1)).moments(), moved[0].components(X, Team(1)).moments()
    np.testing.assert_allclose(5.0 + 100.0 * one.mean, two.mean, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(1e4 * one.noise_variance, two.noise_variance, rtol=1e-3)


# ---------------------------------------------------------------------------------------- repeatability


def test_same_seed_same_bits(wave):
    X, y = wave
    np.testing.assert_array_equal(both(quick().fit(X, y), X), both(quick().fit(X, y), X))
    assert not np.array_equal(both(quick().fit(X, y), X), both(quick(random_state=1).fit(X, y), X))


def test_a_generator_is_a_seed_too(wave):
    X, y = wave
    one, two = (quick(random_state=np.random.default_rng(5)).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(both(one, X), both(two, X))


def test_the_global_random_state_is_neither_used_nor_changed(wave):
    X, y = wave
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    quick(random_state=None).fit(X, y)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("weighted", [False, True])
def test_order_of_rows_does_not_matter(wave, weighted):
    X, y = wave
    weights = np.linspace(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    order = np.random.default_rng(3).permutation(len(y))
    one = quick().fit(X, y, weights)
    two = quick().fit(X[order], y[order], weights[order])
    np.testing.assert_allclose(both(one, X), both(two, X), rtol=1e-10)


@pytest.mark.parametrize("n_threads", [2, 3, None])
def test_number_of_threads_does_not_matter(funnel, n_threads, monkeypatch):
    monkeypatch.setattr("gpzed.engine.blocks.CACHE_ELEMENTS", 1)  # many blocks
    X, y, _ = funnel
    one, two = quick().fit(X, y), quick(n_threads=n_threads).fit(X, y)
    np.testing.assert_allclose(both(one, X), both(two, X), rtol=1e-10, atol=0)


def test_refit_forgets_the_first_fit(wave):
    X, y = wave
    model = quick().fit(X[:, :1], -y)
    model.fit(X, y)
    np.testing.assert_array_equal(both(model, X), both(quick().fit(X, y), X))


# ------------------------------------------------------------------------------------------ validation


@pytest.mark.parametrize("n", [200, 300, 400])
@pytest.mark.parametrize("seed", [0, 1])
def test_held_out_likelihood_never_ends_far_below_its_best(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    y = np.tanh(X[:, 0]) + 0.5 * rng.standard_normal(n)
    model = one_model(n_basis=20, random_state=seed, n_threads=1, max_iter=150).fit(X, y)
    scores = [step.score for step in model.report_.history]
    assert model.report_.best_score >= max(scores) - 1e-6
    X_test = rng.standard_normal((4000, 4))
    y_test = np.tanh(X_test[:, 0]) + 0.5 * rng.standard_normal(4000)
    mean, std = model.predict(X_test, return_std=True)
    likelihood = np.mean(-0.5 * ((y_test - mean) / std) ** 2 - np.log(std)) - 0.5 * np.log(2 * np.pi)
    constant = -0.5 * np.log(2 * np.pi * np.e * y_test.var())
    assert likelihood > constant + 0.1, "worse than hardly any model at all"


def test_given_validation_data_choose_the_iterate(wave):
    X, y = wave
    rng = np.random.default_rng(0)
    X_valid = rng.uniform(-2, 2, (100, 2))
    y_valid = np.sin(1.5 * X_valid[:, 0]) + 0.3 * X_valid[:, 1] + 0.1 * rng.standard_normal(100)
    model = quick(coverage=False, calibrate="none").fit(X, y, validation_data=(X_valid, y_valid))
    assert model.report_.n_rows == (300,), "all rows train"
    report = model.report_
    assert report.best_score == max(step.score for step in report.history)
    mean, std = model.predict(X_valid, return_std=True)
    score = np.mean(-0.5 * ((y_valid - mean) / std) ** 2 - np.log(std)) - 0.5 * np.log(2 * np.pi)
    assert score == pytest.approx(report.best_score, abs=1e-8), "the score is in the units of the target"


def test_weights_of_validation_data_count(wave):
    X, y = wave
    part = X[:60], y[:60]
    plain = quick().fit(X, y, validation_data=part).report_.best_score
    weighted = quick().fit(X, y, validation_data=(*part, np.linspace(0, 1, 60))).report_.best_score
    assert plain != weighted
    same = quick().fit(X, y, validation_data=(*part, np.full(60, 3.0))).report_.best_score
    assert plain == pytest.approx(same, rel=1e-12)


def test_misleading_validation_data_stop_training_early(wave):
    X, y = wave
    rng = np.random.default_rng(1)
    model = quick(max_iter=200, patience=10).fit(X, y, validation_data=(X[:100], rng.permutation(y[:100])))
    assert model.report_.status == "patience"


def test_the_noise_correction_enters_predictions(wave):
    X, y = wave
    rng = np.random.default_rng(0)
    noisy = X, y + 0.3 * rng.standard_normal(len(y))  # validation says: there is more noise than you think
    model = quick(coverage=False, calibrate="noise").fit(X, y, validation_data=noisy)
    correction = model.report_.noise_correction
    assert correction < -1.0
    member = model.members_[0]
    bare = replace(member, noise_correction=0.0).components(X, Team(1)).moments()
    got = model.predict_distribution(X)
    np.testing.assert_allclose(got.noise_variance, bare.noise_variance * np.exp(-correction), rtol=1e-10)
    np.testing.assert_array_equal(got.mean, bare.mean)
    mean, std = model.predict(X, return_std=True)
    assert 0.85 < ((noisy[1] - mean) / std).std() < 1.15
    score = np.mean(-0.5 * ((noisy[1] - mean) / std) ** 2 - np.log(std)) - 0.5 * np.log(2 * np.pi)
    assert score == pytest.approx(model.report_.best_score, abs=0.01)


def test_without_validation_the_last_iterate_is_kept(wave):
    report = quick(validation_fraction=0.0).fit(*wave).report_
    assert report.best_iteration == len(report.history)
    assert report.noise_correction == 0.0


# -------------------------------------------------------------------------------- budgets and the report


def test_iteration_budget_and_warning(wave):
    with pytest.warns(ConvergenceWarning, match="`max_iter`=4"):
        model = quick(max_iter=4).fit(*wave)
    assert len(model.report_.history) == 4
    assert model.report_.status == "max_iter"


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_evaluation_budget(wave, limit):
    X, y = wave
    report = quick(max_evaluations=limit).fit(X, y).report_
    assert report.n_evaluations == limit
    assert report.status == "max_evaluations"


def test_time_budget(wave):
    report = quick(max_time=0.0).fit(*wave).report_
    assert report.status == "max_time"
    assert len(report.history) == 1


def test_time_budget_on_a_real_clock(funnel):
    X, y, _ = funnel
    report = one_model(n_basis=100, max_time=0.5, tol=0.0, patience=10_000, max_iter=100_000).fit(X, y).report_
    assert report.status == "max_time"
    assert 0.5 <= report.seconds < 5.0


def test_callback_sees_every_step_and_can_stop(wave):
    steps = []

    def callback(info):
        steps.append(info)
        return len(steps) == 5

    model = quick().fit(*wave, run=Run(callback=callback))
    assert model.report_.status == "stopped"
    assert all(isinstance(info, StepInfo) for info in steps)
    assert [info.iteration for info in steps] == [1, 2, 3, 4, 5]
    assert [info.score for info in steps] == [step.score for step in model.report_.history]
    assert steps[-1].best_score == max(info.score for info in steps)
    assert {(info.member, info.stage) for info in steps} == {(0, 0)}


def test_an_error_in_the_callback_reaches_the_caller(wave):
    def callback(info):
        raise RuntimeError("the progress bar broke")

    with pytest.raises(RuntimeError, match="the progress bar broke"):
        quick().fit(*wave, run=Run(callback=callback))


def test_report(wave):
    model = quick(max_iter=60).fit(*wave)
    report = model.report_
    assert model.reports_ == [report]
    assert report.status in ("converged", "patience", "max_iter")
    assert report.message
    assert report.n_rows == (240,)
    assert len(report.stage) == len(report.history)
    assert report.history[report.best_iteration - 1].score == report.best_score
    assert report.seconds == report.history[-1].seconds
    assert report.n_rejected >= 0
    assert np.isfinite(report.log_evidence)
    objective = [step.objective for step in report.history]
    assert objective == sorted(objective, reverse=True), "the evidence never falls"


def test_gradient_is_small_at_convergence(wave):
    model = quick(validation_fraction=0.0, max_iter=3000, covariance="GL", tol=1e-13).fit(*wave)
    assert model.report_.status == "converged"
    assert model.report_.history[-1].gradient_norm < 1e-4


# --------------------------------------------------------------------------------------- coarse to fine


def test_stage_sizes():
    first = training.FIRST_STAGE_ROWS
    assert training.stage_sizes(100, True) == (100,)
    sizes = training.stage_sizes(100 * first, True)
    assert sizes[-1] == 100 * first
    assert len(sizes) > 2
    assert list(sizes) == sorted(sizes)
    assert sizes[0] >= first
    assert training.stage_sizes(100 * first, False) == (100 * first,)


@pytest.fixture
def small_stages(monkeypatch):
    monkeypatch.setattr(training, "FIRST_STAGE_ROWS", 60)


def test_stages_end_with_all_rows(funnel, small_stages):
    X, y, _ = funnel
    model = quick(max_iter=120).fit(X, y)
    report = model.report_
    assert report.n_rows == (100, 400, 1600)
    assert set(report.stage) == {0, 1, 2}
    assert list(report.stage) == sorted(report.stage)
    seconds = [step.seconds for step in report.history]
    assert seconds == sorted(seconds)
    scores = {k: [] for k in range(3)}
    for step, stage in zip(report.history, report.stage, strict=True):
        scores[stage].append(step.score)
    assert report.best_score >= max(scores[2]) - 1e-9
    kept = report.stage[report.best_iteration - 1]  # an earlier stage, if the last one found nothing better
    assert report.history[report.best_iteration - 1].score == max(scores[kept])
    assert model.score(X, y) > quick(coarse_to_fine=False, max_iter=120).fit(X, y).score(X, y) - 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_later_stages_do_not_lose_what_earlier_ones_reached(small_stages, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((600, 3))
    y = np.tanh(X[:, 0]) + 0.5 * rng.standard_normal(600)
    report = quick(n_basis=12, max_iter=100, random_state=seed).fit(X, y).report_
    assert len(report.n_rows) > 1
    assert report.best_score > max(step.score for step in report.history) - 0.03


@pytest.mark.parametrize("limit", [3, 10, 30, 60])
def test_budgets_hold_over_stages(funnel, small_stages, limit):
    X, y, _ = funnel
    assert len(quick(max_iter=limit).fit(X, y).report_.history) <= limit
    assert quick(max_evaluations=limit).fit(X, y).report_.n_evaluations <= limit


def test_the_callback_can_stop_the_first_stage(funnel, small_stages):
    X, y, _ = funnel
    model = quick().fit(X, y, run=Run(callback=lambda info: info.iteration == 2))
    assert model.report_.status == "stopped"
    assert model.report_.n_rows == (100,)
    assert np.all(np.isfinite(both(model, X)))


# --------------------------------------------------------------------------------- number of basis functions


def test_auto_grows_with_the_rows_and_shrinks_with_the_freedom():
    from gpzed.gp.covariance import get_structure
    from gpzed.model.options import choose_n_basis

    numbers = [choose_n_basis(n, 5, get_structure("VC")) for n in (10, 300, 3000, 10**6)]
    assert numbers == sorted(numbers)
    assert numbers[0] >= 1
    assert numbers[0] < numbers[-1]
    assert choose_n_basis(500, 10, get_structure("VC")) <= choose_n_basis(500, 10, get_structure("GL"))


def test_few_rows_with_many_inputs_still_have_fifty_basis_functions():
    from gpzed.gp.covariance import get_structure
    from gpzed.model.options import choose_n_basis

    assert [choose_n_basis(n, 12, get_structure("VC")) for n in (60, 300, 3000)] == [10, 50, 50]


def test_auto_is_stored(wave):
    model = quick(n_basis="auto").fit(*wave)
    assert model.n_basis == "auto"
    assert model.n_basis_ == model.members_[0].layout.m >= 1


def test_without_validation_there_are_no_early_stages(funnel, small_stages):
    X, y = funnel[:2]
    assert len(quick(validation_fraction=0.0, max_iter=10).fit(X, y).report_.n_rows) == 1


def test_seconds_count_from_the_very_beginning(funnel):
    X, y = funnel[:2]
    model = quick(max_iter=3).fit(X, y)
    assert model.report_.history[0].seconds > 0.0
    assert model.report_.seconds == model.report_.history[-1].seconds
