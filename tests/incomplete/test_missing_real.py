"""Calibration for every pattern of gaps, and for degraded photometry, on real catalogues."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gpzed.catalog import Catalog, extract_photometry, guess_schema, read_catalog
from gpzed.features import FeatureConfig, FeatureTransformer, fit_transformer
from helpers import one_model

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")]
FILES = {
    "dc2": ["rail_dc2_9816/training"],
    "boss": ["sdss_boss_dr10/boss_dr10_0", "sdss_boss_dr10/boss_dr10_3"],  # which differ: both in either half
}
POGSON = 2.5 / np.log(10.0)


def halves(data_dir, catalogue, n):
    """Twice n random rows with a measurement in every band, to train on and to be judged by."""
    parts = [read_catalog(data_dir / f"{name}.parquet") for name in FILES[catalogue]]
    table = Catalog({name: np.concatenate([part[name] for part in parts]) for name in parts[0].names})
    photometry = extract_photometry(table, guess_schema(table.names))
    used = np.flatnonzero((table.floats("z_spec") > 0.002) & photometry.measured.all(axis=1))
    order = np.random.default_rng(0).permutation(used)
    return table.take(order[:n]), table.take(order[n : 2 * n])


def inputs(transformer: FeatureTransformer, table: Catalog):
    photometry = extract_photometry(table, guess_schema(table.names))
    features = transformer.transform(photometry)
    return features.X, features.X_std


def fitted(table, config):
    return fit_transformer(extract_photometry(table, guess_schema(table.names)), config)


def within(p, z):
    """Parts of the objects in the central 68 and 95 %, and the distance of the PIT values from uniform ones."""
    pit = p.cdf(z)
    parts = [np.mean(np.abs(pit - 0.5) < level / 2) for level in (0.68, 0.95)]
    return *parts, stats.kstest(pit, "uniform").statistic


def slack(level, n_test, n_held, complete):
    """How far the part of n_test objects with gaps in a central interval may be from its level.

    Three standard errors: of a sample of n_test, and of the level of the noise, which is that of the held-out rows (ln
    sigma to 1 / sqrt(2 n_held)). Or, where the model is off for complete rows, too (five heads on DC2 have 97 % of them
    in the central 95 %), as far as it is there and three standard errors of the sample.
    """
    edge, sampling = stats.norm.ppf(0.5 + level / 2), np.sqrt(level * (1.0 - level) / n_test)
    of_noise = 2.0 * edge * stats.norm.pdf(edge) / np.sqrt(2.0 * n_held)
    return max(3.0 * np.hypot(sampling, of_noise), abs(complete - level) + 3.0 * sampling)


@pytest.mark.parametrize("n_heads", [1, 5])
@pytest.mark.parametrize("catalogue", FILES)
def test_bands_removed_at_random_leave_predictions_calibrated(data_dir, catalogue, n_heads):
    n = 3000
    train, test = halves(data_dir, catalogue, n)
    transformer = fitted(train, FeatureConfig())
    X, X_test = (inputs(transformer, table)[0] for table in (train, test))
    z, z_test = train.floats("z_spec"), test.floats("z_spec")
    rng = np.random.default_rng(1)
    lost = rng.random(len(X)) < 0.5
    X[lost, rng.integers(X.shape[1], size=lost.sum())] = np.nan
    model = one_model(n_heads=n_heads, mean_function="linear", random_state=0).fit(X, z)
    n_held = round(model.validation_fraction * n)
    complete68, complete95, complete_ks = within(model.predict_distribution(X_test), z_test)
    for band in range(X.shape[1]):
        gaps = X_test.copy()
        gaps[:, band] = np.nan
        p = model.predict_distribution(gaps)
        c68, c95, ks = within(p, z_test)
        figures = f"band {band}: {c68:.3f} {c95:.3f} {ks:.3f}"
        print(figures)
        assert c68 == pytest.approx(0.68, abs=slack(0.68, n, n_held, complete68)), figures
        assert c95 == pytest.approx(0.95, abs=slack(0.95, n, n_held, complete95)), figures
        of_noise = 3.0 * 0.242 / np.sqrt(2.0 * n_held)  # 0.242 = max |x| pdf(x)
        assert ks < max(of_noise, complete_ks) + 1.63 / np.sqrt(n), figures  # 99 %
        assert np.all(p.input_variance > 0.0)


def degraded(table, factor):
    """Noise added to fluxes such that errors are larger by a factor; rows whose fluxes stay positive."""
    rng = np.random.default_rng(5)
    columns = {name: np.array(table[name]) for name in table.names}
    positive = np.ones(len(table), bool)
    for band in "ugrizy":
        mag, error = table.floats(f"mag_{band}"), table.floats(f"mag_err_{band}")
        flux = np.exp(-mag / POGSON)
        sigma = flux * error / POGSON
        flux = flux + np.sqrt(factor**2 - 1.0) * sigma * rng.standard_normal(len(flux))
        positive &= flux > 0.0
        flux = np.abs(flux)
        columns[f"mag_{band}"], columns[f"mag_err_{band}"] = -POGSON * np.log(flux), POGSON * factor * sigma / flux
    return Catalog(columns).take(positive), positive


def test_degraded_photometry_widens_predictions_by_as_much_as_it_should(data_dir):
    train, test = halves(data_dir, "dc2", 2500)
    test = test.take(test.floats("mag_i") < np.median(test.floats("mag_i")))
    transformer = fitted(train, FeatureConfig(errors="noise"))
    X, X_std = inputs(transformer, train)
    options = {"n_heads": 5, "mean_function": "linear", "random_state": 0}
    model = one_model(**options).fit(X, train.floats("z_spec"), X_std=X_std)
    ignorant = one_model(**options).fit(X, train.floats("z_spec"))
    A, A_std = inputs(transformer, test)
    before = within(model.predict_distribution(A, X_std=A_std), test.floats("z_spec"))
    shallow, kept = degraded(test, 3.0)
    z = test.floats("z_spec")[kept]
    B, B_std = inputs(transformer, shallow)
    p, q = model.predict_distribution(B, X_std=B_std), ignorant.predict_distribution(B)
    after = within(p, z)
    print(before, after, within(q, z), *(np.polyfit(one.mean, z, 1)[0] for one in (p, q)))
    for coverage in (before, after):  # of 68 % by 0.04: two and a half times the sampling error of 1,250 rows
        assert coverage[0] == pytest.approx(0.68, abs=0.04)
        assert coverage[1] == pytest.approx(0.95, abs=0.03)
    assert np.polyfit(p.mean, z, 1)[0] == pytest.approx(1.0, abs=0.1)
    assert within(q, z)[0] < after[0] - 0.1
