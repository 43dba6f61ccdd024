"""The excess of errors is what they say beside the magnitudes, whatever is missing or off."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.catalog import Catalog, Photometry, extract_photometry, guess_schema
from gpzed.features import FeatureConfig, fit_transformer, photometry_rows
from gpzed.features.excess import MAX_EXCESS, UsualErrors, says_something


def rows_of(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Magnitudes and ln errors of three bands, with what is theirs in common beside the magnitudes."""
    rng = np.random.default_rng(seed)
    magnitudes = rng.uniform(18.0, 25.0, (n, 1)) + rng.normal(0.0, 0.5, (n, 3))
    common = rng.standard_normal(n)
    return magnitudes, law_of(magnitudes) + 0.2 * common[:, None] + 0.05 * rng.standard_normal((n, 3)), common


def test_the_excess_is_what_bands_have_in_common_beside_their_magnitudes() -> None:
    magnitudes, ln_errors, common = rows_of(3000)
    usual = UsualErrors.fit(magnitudes[:2000], ln_errors[:2000])
    excess = usual.excess(magnitudes[2000:], ln_errors[2000:])
    assert np.corrcoef(excess, common[2000:])[0, 1] > 0.97
    assert abs(np.corrcoef(excess, magnitudes[2000:, 1])[0, 1]) < 0.1
    assert np.std(excess) == pytest.approx(1.0, abs=0.1)


def test_missing_bands_change_little_and_rows_without_any_have_none() -> None:
    magnitudes, ln_errors, common = rows_of(3000)
    usual = UsualErrors.fit(magnitudes, ln_errors)
    with_gaps = np.where(np.arange(3) == 1, np.nan, ln_errors)
    assert np.corrcoef(usual.excess(magnitudes, with_gaps), common)[0, 1] > 0.95
    assert np.isnan(usual.excess(magnitudes[:3], np.full((3, 3), np.nan))).all()


def test_outlying_errors_count_for_little() -> None:
    magnitudes, ln_errors, _ = rows_of(1000)
    spoilt = ln_errors.copy()
    spoilt[::10, 0] = 50.0
    clean, other = UsualErrors.fit(magnitudes, ln_errors), UsualErrors.fit(magnitudes, spoilt)
    np.testing.assert_allclose(other.ln_errors[0], clean.ln_errors[0], atol=0.15)
    far = other.excess(magnitudes[:1], np.array([[50.0, 50.0, np.inf]]))
    np.testing.assert_allclose(far, MAX_EXCESS)


def law_of(magnitudes: np.ndarray) -> np.ndarray:
    """Ln errors that follow from the magnitudes."""
    return -6.0 + np.logaddexp(0.4 * (magnitudes - 18.0), 0.9 * (magnitudes - 21.0))


def test_errors_that_follow_from_the_magnitudes_say_nothing() -> None:
    magnitudes, ln_errors, _ = rows_of(2000)
    for law in (np.full_like(magnitudes, -3.0), 0.7 * magnitudes - 20.0, law_of(magnitudes)):
        usual = UsualErrors.fit(magnitudes, law)
        assert not says_something(usual.excess(magnitudes, law))
        assert np.abs(usual.excess(magnitudes, law + np.log(1.02))).mean() < 1.2
    assert says_something(UsualErrors.fit(magnitudes, ln_errors).excess(magnitudes, ln_errors))
    assert not says_something(np.full(10, np.nan))


def test_what_is_usual_goes_on_beyond_the_training_rows() -> None:
    magnitudes, ln_errors, _ = rows_of(4000)
    middle = (magnitudes > 20.0).all(axis=1) & (magnitudes < 23.5).all(axis=1)
    usual = UsualErrors.fit(magnitudes[middle], ln_errors[middle])
    excess = usual.excess(magnitudes, ln_errors)
    for beyond in (magnitudes.min(axis=1) > 23.5, magnitudes.max(axis=1) < 20.0):
        assert beyond.sum() > 100
        assert abs(np.mean(excess[beyond])) < 0.5


def photometry(magnitudes: np.ndarray, ln_errors: np.ndarray) -> Photometry:
    columns = {f"mag_{band}": magnitudes[:, j] for j, band in enumerate("gri")}
    columns |= {f"mag_err_{band}": np.exp(ln_errors[:, j]) for j, band in enumerate("gri")}
    return extract_photometry(Catalog(columns), guess_schema(list(columns)))


@pytest.mark.parametrize("magnitudes", ["asinh", "pogson"])
def test_one_further_input_that_bands_without_a_measurement_do_not_enter(magnitudes: str) -> None:
    values, ln_errors, _ = rows_of(800)
    rows = photometry(values, ln_errors)
    fitted = fit_transformer(rows, FeatureConfig(errors="excess", magnitudes=magnitudes))
    assert fitted.names[3:] == ("error_excess",)
    X = fitted.transform(rows).X
    assert X.shape == (800, 4)
    values[:, 0] = 99.0  # not detected
    values[0] = -99.0  # not observed
    gaps = photometry(values, np.where(np.abs(values) == 99.0, 20.0, ln_errors))
    other = fitted.transform(gaps).X[:, 3]
    assert np.isnan(other[0])
    assert np.corrcoef(other[1:], X[1:, 3])[0, 1] > 0.9
    np.testing.assert_array_equal(fitted.transform(photometry_rows(rows, slice(5, 6))).X[0], X[5])


@pytest.mark.parametrize(
    "changes",
    [
        {"scatter": (1.0,)},
        {"scatter": (0.0, 1.0)},
        {"magnitudes": ((20.0, 19.0), (20.0, 21.0))},
        {"ln_errors": ((0.0,), (0.0, 0.0))},
        {"magnitudes": ((), ()), "ln_errors": ((), ())},
    ],
)
def test_what_is_no_table_of_errors_is_refused(changes: dict) -> None:
    good = {"magnitudes": ((20.0, 21.0),) * 2, "ln_errors": ((-3.0, -2.0),) * 2, "scatter": (0.1, 0.1)}
    UsualErrors(**good)
    with pytest.raises(ValueError, match="usual errors"):
        UsualErrors(**(good | changes))
