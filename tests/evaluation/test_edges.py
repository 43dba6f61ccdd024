"""What lies exactly on an edge, and what weights, defaults and conventions mean, in examples done by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from gpzed.evaluation import (
    binned_metrics,
    bootstrap,
    bootstrap_metrics,
    brier,
    evaluate,
    fraction_retained,
    outlier_fraction,
    pit_ad,
    pit_cvm,
    pit_histogram,
    pulls,
    qq_curve,
    rejection_curve,
    reliability,
    retained_curve,
    rmse,
    select,
    sigma_nmad,
    stack,
)
from gpzed.prediction import OF_ALL, Prediction


def narrow(*means: float, std: float = 1e-4) -> Prediction:
    """All probability next to the means."""
    return Prediction.gaussian(np.array(means), 0.0, np.full(len(means), std**2))


def at_levels(levels: list[float]) -> tuple[np.ndarray, Prediction]:
    """Redshifts with given PIT values."""
    return 0.5 + 0.1 * norm.ppf(levels), narrow(*[0.5] * len(levels), std=0.1)


def test_an_object_on_the_edge_of_a_brier_bin_belongs_to_the_upper_one() -> None:
    assert brier([0.5], narrow(0.75), edges=[0.0, 0.5, 1.0]) == pytest.approx(0.0)
    assert brier([0.5], narrow(0.25), edges=[0.0, 0.5, 1.0]) == pytest.approx(2.0)


def test_default_brier_bins_are_a_tenth_wide_up_to_redshift_six() -> None:
    assert brier([5.85], narrow(5.75)) == pytest.approx(2.0)
    assert brier([5.95], narrow(6.5)) == pytest.approx(0.0)


def test_an_error_equal_to_the_threshold_is_not_small() -> None:
    z, p = [0.0], narrow(-0.15)  # an error of exactly 0.15
    assert fraction_retained(z, p, threshold=0.15) == evaluate(z, p)["fr_0.15"] == 0.0
    assert outlier_fraction(z, p, threshold=0.15) == evaluate(z, p)["outliers_0.15"] == 1.0
    assert retained_curve(z, p, thresholds=[0.15, 0.1500001]).values.tolist() == [0.0, 100.0]


def test_three_sigma_is_three_times_the_scaled_deviation() -> None:
    errors = np.array([-0.045, -0.01, -0.01, 0.0, 0.01, 0.01, 0.045])  # sigma_NMAD 0.014826, 3 sigma 0.0445
    assert outlier_fraction(np.zeros(7), narrow(*-errors), threshold=None) == pytest.approx(2 / 7)


def test_the_weighted_median_averages_the_two_in_the_middle_whatever_the_rounding() -> None:
    errors, repeats = np.array([0.0, 0.01, 0.02, 0.03, 0.04]), np.array([3, 2, 1, 2, 4])
    p = narrow(*-errors)
    rows = np.repeat(np.arange(5), repeats)
    assert sigma_nmad(np.zeros(5), p, sample_weight=0.1 * repeats) == pytest.approx(
        sigma_nmad(np.zeros(12), p[rows]), rel=1e-12
    )


@pytest.mark.parametrize("statistic", [pit_cvm, pit_ad])
def test_objects_without_weight_do_not_count_in_the_effective_number(statistic) -> None:
    z, p = at_levels([0.1, 0.2, 0.35, 0.6, 0.9, 0.99])
    weight = np.array([2.0, 2.0, 2.0, 0.0, 0.0, 2.0])
    assert statistic(z, p, sample_weight=weight) == pytest.approx(statistic(z[weight > 0], p[weight > 0]), rel=1e-12)


def test_rejection_orders_by_the_total_variance() -> None:
    p = Prediction.gaussian([0.5, 0.5, 0.5], [0.01, 0.04, 0.02], [0.04, 0.02, 0.01], [0.01, 0.02, 0.01])
    z = [0.5, 0.6, 0.7]  # total variances 0.06, 0.08, 0.04
    curve = rejection_curve(z, p, "rmse", fractions=[1.0, 1 / 3, 2 / 3])
    assert curve.fractions.tolist() == [1 / 3, 2 / 3, 1.0]
    assert curve.n_kept.tolist() == [1, 2, 3]
    for kept, value in zip(([2], [2, 0], [2, 0, 1]), curve.values, strict=True):
        assert value == pytest.approx(rmse(np.array(z)[kept], p[kept]))


def test_an_impossible_object_without_weight_does_not_spoil_the_curve() -> None:
    p = Prediction.gaussian([0.5, 0.5], [0.01, 0.01], [0.01, 0.02], lower=0.0)
    curve = rejection_curve([-0.1, 0.5], p, "mll", fractions=[0.5, 1.0], sample_weight=[0.0, 1.0])
    assert np.isnan(curve.values[0])
    assert np.isfinite(curve.values[1])


def test_an_object_on_the_edge_of_a_bin_belongs_to_the_upper_one() -> None:
    table = binned_metrics([0.25, 1.0], narrow(0.25, 1.0), ["bias"], fractions=[1.0])
    assert table.edges[[0, -1]].tolist() == [0.2, 1.1]
    assert np.flatnonzero(table.counts[0]).tolist() == [0, 8]
    closed = binned_metrics([0.5, 1.0], narrow(0.5, 1.0), ["bias"], edges=[0.0, 0.5, 1.0], fractions=[1.0])
    assert closed.counts[0].tolist() == [0, 2]  # the last bin holds its upper edge


def test_edges_must_increase_and_redshifts_lie_above_minus_one() -> None:
    with pytest.raises(ValueError, match="strictly increasing"):
        brier([0.5], narrow(0.5), edges=[0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="`z_spec` is not above -1"):
        rmse([-1.0], narrow(0.5))


def test_tails_and_error_of_the_pit_histogram() -> None:
    z, p = at_levels([5e-5, 5e-4, 0.3, 0.5, 0.7, 1 - 5e-4, 1 - 5e-5, 1 - 2e-5])
    histogram = pit_histogram(z, p, bins=3)
    assert (histogram.below, histogram.above) == pytest.approx((1 / 8, 2 / 8))
    assert histogram.error == pytest.approx(0.5)  # 8 / 3 objects expected in a bin, of variance 16 / 9
    weight = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    assert pit_histogram(z, p, bins=2, sample_weight=weight).error == pytest.approx(0.5)


def test_quantiles_of_the_pit_values_lie_in_the_middle_of_their_steps() -> None:
    z, p = at_levels([0.2, 0.6])
    assert qq_curve(z, p, n_points=1).empirical[0] == pytest.approx(0.4)


def test_the_error_of_reliability_is_binomial() -> None:
    z, p = at_levels([0.5] * 100)
    assert reliability(z, p, levels=[0.2]).error[0] == pytest.approx(0.04)
    assert reliability(z, p, levels=[0.2], sample_weight=[1.0] * 25 + [0.0] * 75).error[0] == pytest.approx(0.08)


def test_pulls_are_positive_where_the_truth_is_lower_and_scatter_about_their_mean() -> None:
    pull = pulls([0.3, 0.4], narrow(0.5, 0.6, std=0.1))
    np.testing.assert_allclose(pull.values, [2.0, 2.0])
    assert (pull.mean, pull.std) == pytest.approx((2.0, 0.0), abs=1e-7)


def test_bootstrap_interval_and_error() -> None:
    z, p = at_levels(list(np.linspace(0.01, 0.99, 200)))
    result = bootstrap("bias", z, p, n_resamples=400, random_state=0)
    assert [np.mean(result.resamples < end) for end in (result.low, result.high)] == pytest.approx(
        [0.16, 0.84], abs=1e-2
    )
    two = bootstrap("bias", z, p, n_resamples=2, random_state=0)
    assert two.std == pytest.approx(abs(np.diff(two.resamples)[0]) / np.sqrt(2.0))


def test_bootstrap_draws_weights_with_their_objects_and_never_none_at_all() -> None:
    z, p = at_levels([0.1, 0.5, 0.9])
    alone = bootstrap("bias", z, p, sample_weight=[0.0, 0.0, 1.0], n_resamples=50, random_state=0)
    np.testing.assert_allclose(alone.resamples, alone.value)
    weight = [0.2, 1.0, 3.0]
    several = bootstrap_metrics(z, p, ["rmse"], sample_weight=weight, n_resamples=20, random_state=4)["rmse"]
    one = bootstrap("rmse", z, p, sample_weight=weight, n_resamples=20, random_state=4)
    np.testing.assert_array_equal(several.resamples, one.resamples)


def test_the_curve_of_the_fraction_retained() -> None:
    rng = np.random.default_rng(0)
    z, weight = rng.uniform(0.1, 1.0, 50), rng.uniform(0.1, 2.0, 50)
    p = narrow(*(z + 0.1 * rng.standard_normal(50)))
    curve = retained_curve(z, p, sample_weight=weight)
    assert (len(curve.thresholds), curve.thresholds[-1]) == (201, 0.2)
    assert curve.values[50] == pytest.approx(
        fraction_retained(z, p, threshold=curve.thresholds[50], sample_weight=weight)
    )


def test_selection_takes_limits_literally() -> None:
    p = Prediction.gaussian([0.5, 0.6, 0.7], [0.04, 0.01, 0.09], 0.0)
    assert select(p, max_std=0.2).indices.tolist() == [0, 1]  # a std equal to the limit is kept
    assert select(p, min_completeness=0.34).indices.tolist() == [0, 1]  # at least 34 % of three objects are two
    falling = select(p, z_spec=[0.5, 0.9, 0.7], max_rmse=0.13)  # the most certain is worst: more objects lower the RMSE
    assert falling.indices.tolist() == [0, 1, 2]
    assert select(p, keep=1 / 3).max_std == pytest.approx(0.1)


def test_an_object_on_the_edge_of_a_sample_belongs_to_the_upper_one() -> None:
    edges = np.linspace(-1.0, 2.0, 4)
    assert stack(narrow(0.5, 0.7), edges, sample_edges=[0.0, 0.5, 1.0]).n.tolist() == [0, 2]
    quoted = narrow(0.4).changed(point=np.array([0.6]))
    assert stack(quoted, edges, sample_edges=[0.0, 0.5, 1.0]).n.tolist() == [0, 1]
    assert stack(narrow(0.5, 0.7), edges, sample_weight=[0.0, 1.0]).n.tolist() == [1]


def test_components_of_all_members_belong_to_each() -> None:
    weights = np.array([[0.4, 0.4, 0.2]])  # two members and the wings of both, far above
    labels = [0, 1, OF_ALL]
    p = Prediction(weights, np.array([[0.5, 0.5, 2.5]]), np.zeros((1, 3)), np.full((1, 3), 1e-6), member=labels)
    nz = stack(p, [0.0, 1.0, 2.0, 3.0], n_members=2, n_resamples=0)
    np.testing.assert_allclose(nz.density, [[0.8, 0.0, 0.2]], atol=1e-12)
    np.testing.assert_allclose(nz.committee_error, 0.0, atol=1e-12)


def test_members_are_cut_where_the_mixture_is_and_may_be_without_weight() -> None:
    cut = Prediction(np.full((1, 2), 0.5), np.array([[-1.0, 1.0]]), np.zeros((1, 2)), np.ones((1, 2)), lower=0.0)
    error = stack(cut, [-10.0, 0.0, 10.0], n_members=2, n_resamples=0).committee_error
    np.testing.assert_allclose(error, 0.0, atol=1e-12)  # all probability of both lies above zero
    padded = Prediction(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]), np.zeros((1, 2)), np.full((1, 2), 1e-6))
    np.testing.assert_allclose(stack(padded, [0.0, 1.0], n_members=2, n_resamples=0).committee_error, 0.0, atol=1e-12)
