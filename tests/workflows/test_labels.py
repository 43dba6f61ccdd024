"""Redshifts of several columns, with errors and doubts, as `train` takes them."""

from __future__ import annotations

import numpy as np
import pytest

import gpzed
from gpzed.catalog import Catalog, guess_schema
from gpzed.config import RunConfig
from gpzed.errors import ConfigError, DataWarning, SchemaError
from gpzed.features.labels import FAINT_WRONG, Labels, combine, learn_errors
from gpzed.simulate import simulate_survey
from gpzed.workflows.labels import STD, WRONG, labels_of, with_labels
from gpzed.workflows.training_set import plan_training

QUICK = {"n_members": 1, "n_heads": 1, "n_basis": 10, "max_iter": 30}


@pytest.fixture(scope="module")
def sky():
    """Return a catalogue: spectra of bright galaxies, many-band redshifts of most, some of them wrong."""
    survey = simulate_survey(3000, survey="sdss", random_state=0)
    rng = np.random.default_rng(0)
    z = survey.z_true
    table = {name: values for name, values in survey.columns().items() if name.startswith("mag_")}
    bright = np.asarray(table["mag_r"]) < np.nanmedian(table["mag_r"])
    many = z + 0.02 * (1 + z) * rng.standard_normal(len(z))
    bad = rng.random(len(z)) < 0.1
    many[bad] = rng.choice(z, bad.sum())
    table["redshift"] = np.where(bright, z, np.nan)
    table["redshift_manyband"] = np.where(rng.random(len(z)) < 0.8, many, np.nan)
    return table, z


def test_errors_are_learned_as_functions_of_magnitude():
    rng = np.random.default_rng(1)
    n = 20_000
    m, z = rng.uniform(20.0, 24.0, n), rng.uniform(0.1, 2.0, n)
    scatter, wrong = 0.01 * np.exp(0.3 * (m - 22.0)), 1.0 / (1.0 + np.exp(3.0 - 0.5 * (m - 22.0)))
    other = z + (0.005 + scatter * rng.standard_normal(n)) * (1.0 + z)
    bad = rng.random(n) < wrong
    other[bad] = z[bad] + 0.3 * (1.0 + z[bad]) * rng.standard_normal(bad.sum())
    found = learn_errors(other, z, m)
    assert found.offset == pytest.approx(0.005, abs=5e-4)
    assert np.exp(found.scatter[0]) == pytest.approx(0.01, rel=0.03)
    assert found.scatter[1] == pytest.approx(0.3, abs=0.03)
    assert found.wrong == pytest.approx((-3.0, 0.5), abs=0.15)
    labels = found(np.array([1.0, 1.0]), np.array([22.0, 26.0]))
    np.testing.assert_allclose(labels.z, 1.0 - 2.0 * found.offset)
    assert labels.std[1] / labels.std[0] == pytest.approx(np.exp(0.3 * 4.0), rel=0.1)
    inside, outside = found(np.ones(2), np.array([23.0, 24.1])).wrong
    assert inside == pytest.approx(1.0 / (1.0 + np.exp(2.5)), rel=0.15)
    assert outside == FAINT_WRONG  # where no better redshift tells
    assert found(np.ones(2), np.array([30.0, np.nan])).std[0] == found(np.ones(1), np.array([24.0 + 2.5])).std[0]


def test_rows_have_the_first_redshift_they_can_have():
    nan = np.nan
    first = Labels(np.array([1.0, nan, nan]), None, np.array([0.2, nan, nan]))
    second = Labels(np.array([1.1, 2.1, nan]), np.array([0.1, 0.3, 0.1]), np.array([0.01, 0.02, 0.03]))
    labels = combine(first, [second])
    np.testing.assert_array_equal(labels.z, [1.0, 2.1, nan])
    np.testing.assert_array_equal(labels.std, [0.0, 0.3, 0.0])
    np.testing.assert_array_equal(labels.wrong, [0.2, 0.02, nan])
    np.testing.assert_array_equal(labels.column, [0, 1, 0])


@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_many_band_redshifts_join_with_errors_learned_from_the_spectra(sky):
    table, z = sky
    model = gpzed.train(table, redshift="redshift,redshift_manyband", **QUICK)
    learned = model.report.plan.labels["redshift_manyband"]
    assert learned["scatter"] == pytest.approx(0.02, rel=0.2)
    assert learned["wrong"] == pytest.approx(0.1, abs=0.04)
    only_spectra = gpzed.train(table, redshift="redshift", **QUICK)
    by_hand = dict(table)
    by_hand["redshift"] = np.where(np.isnan(table["redshift"]), table["redshift_manyband"], table["redshift"])
    naive = gpzed.train({k: v for k, v in by_hand.items() if k != "redshift_manyband"}, **QUICK)
    faint = np.isnan(table["redshift"])
    scores = [
        float(np.mean(one.predict(table).prediction[faint].log_pdf(z[faint]))) for one in (model, only_spectra, naive)
    ]
    assert scores[0] > scores[1] + 0.3
    assert scores[0] > scores[2] - 0.05  # noise of the photometry hides what labels are wrong: nothing is lost
    assert model.report.plan.counts["no redshift"] == int((faint & np.isnan(table["redshift_manyband"])).sum())


def test_too_few_rows_with_both_are_said(sky):
    table = dict(sky[0])
    table["redshift_manyband"] = np.where(np.isnan(table["redshift"]), table["redshift_manyband"], np.nan)
    with pytest.warns(DataWarning, match="only 0 rows have 'redshift_manyband' beside a better redshift, too few"):
        plan_training(table, RunConfig().override("schema", redshift="redshift,redshift_manyband"))


def labelled(columns, **options):
    table = Catalog(columns)
    schema = guess_schema(table.names)
    return with_labels(table, schema, RunConfig().override("schema", **options))[0], schema


def test_errors_and_probabilities_are_read_from_columns():
    n = 6
    columns = {f"{kind}_{band}": np.full(n, 0.1) for kind in ("mag", "mag_err") for band in "gr"}
    columns |= {"z_spec": np.linspace(0.1, 0.6, n), "z_spec_err": np.array([0.01, 0.02, -9, np.nan, 0, 0.1])}
    columns["p_wrong"] = np.array([0.0, 1.0, 0.5, np.nan, 0.1, 0.1])
    table, schema = labelled(columns, redshift_wrong="p_wrong")
    np.testing.assert_array_equal(table[STD], [0.01, 0.02, 0.0, 0.0, 0.0, 0.1])
    np.testing.assert_array_equal(table[WRONG], [0.0, 0.99, 0.5, np.nan, 0.1, 0.1])
    np.testing.assert_array_equal(labels_of(table, schema).z, columns["z_spec"])
    columns["p_wrong"] = np.array([0.0, 3.0, 4.0, 2.0, 1.0, 9.0])
    with pytest.raises(ConfigError, match=r"column 'p_wrong' is 3; .* flags go to `redshift_quality`"):
        labelled(columns, redshift_wrong="p_wrong")


def test_flags_learn_how_many_are_wrong(sky):
    table, z = sky
    rng = np.random.default_rng(3)
    flag = rng.integers(2, 5, len(z))
    bad = (flag == 2) & (rng.random(len(z)) < 0.3)
    given = {name: values for name, values in table.items() if name.startswith("mag_")}
    given |= {"z_spec": np.where(bad, rng.choice(z, len(z)), z), "zflag": flag}
    rates = plan_training(given, RunConfig().override("schema", redshift_quality="zflag")).labels["zflag"]
    assert set(rates) == {"2", "3", "4"}
    assert rates["2"] > 0.15
    assert max(rates["3"], rates["4"]) < 0.1


def test_columns_that_are_not_there_or_named_twice(sky):
    with pytest.raises(SchemaError, match=r"redshift: there is no column 'redshift_many'; did you mean"):
        gpzed.train(sky[0], redshift="redshift,redshift_many", **QUICK)
    with pytest.raises(ConfigError, match="names a column twice"):
        gpzed.train(sky[0], redshift="redshift,redshift", **QUICK)
