"""The excess of errors becomes an input where held-out rows gain by it, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.catalog import Photometry, Sentinels, extract_photometry
from gpzed.catalog.schema import PhotometrySchema
from gpzed.catalog.table import Catalog
from gpzed.config import RunConfig
from gpzed.errors import ConfigError
from gpzed.workflows.fit_features import fit_features
from gpzed.workflows.schema import resolve_schema

ERRORS = ("of the size", "of the magnitude", "random")


def galaxies(which: str, n: int = 1500, *, errors: bool = True) -> tuple[Photometry, np.ndarray]:
    """Three bands with errors that follow from the magnitudes; what more there is may come from the redshift.

    Colours leave the redshift uncertain by 0.15.
    """
    rng = np.random.default_rng(0)
    z = rng.uniform(0.1, 1.0, n)
    brightness = rng.normal(20.0, 1.0, n)
    more = {"of the size": 0.3 - z, "of the magnitude": np.zeros(n), "random": rng.standard_normal(n)}[which]
    columns = {"z_spec": z}
    for i, band in enumerate("gri"):
        magnitude = brightness + i * (z + 0.15 * rng.standard_normal(n))
        columns[f"mag_{band}"] = magnitude
        columns[f"mag_err_{band}"] = 0.02 * np.exp(0.5 * (magnitude - 20.0) + 0.5 * more)
    names = [name for name in columns if errors or "err" not in name]
    table = Catalog({name: columns[name] for name in names})
    config = RunConfig() if errors else RunConfig().override("schema", bands=["g", "r", "i"], mag="mag_{band}")
    schema: PhotometrySchema = resolve_schema(table.names, config.schema, {})
    return extract_photometry(table, schema, Sentinels()), z


@pytest.mark.parametrize("which", ERRORS)
def test_held_out_rows_decide(which: str) -> None:
    fitted, why = fit_features(*galaxies(which), RunConfig(), None)
    is_chosen = which == "of the size"
    assert (fitted.names[-1] == "error_excess") == is_chosen
    assert fitted.config.errors == ("excess" if is_chosen else "none")
    starts = {"of the size": "their excess is an input: ", "of the magnitude": "no input: they follow from"}
    assert why.startswith(starts.get(which, "their excess is no input: "))


def test_the_excess_of_errors_that_follow_from_magnitudes_is_refused() -> None:
    config = RunConfig().override("features", errors="excess")
    with pytest.raises(ConfigError, match="they follow from the magnitudes"):
        fit_features(*galaxies("of the magnitude"), config, None)


def test_gaps_do_not_keep_errors_out() -> None:
    photometry, z = galaxies("of the size")
    gaps = np.random.default_rng(1).random(photometry.values.shape) < 0.2
    gaps[:, 1] = False
    photometry.values[gaps], photometry.errors[gaps], photometry.status[gaps] = np.nan, np.nan, 1
    assert fit_features(photometry, z, RunConfig(), None)[0].usual_errors is not None


def test_a_target_catalogue_or_few_rows_leave_errors_out() -> None:
    photometry, z = galaxies("of the size")
    targeted = RunConfig().override("target", catalogue="survey.fits")
    fitted, why = fit_features(photometry, z, targeted, None)
    assert fitted.config.errors == "none"
    assert "another depth" in why
    fitted, why = fit_features(*galaxies("of the size", 900), RunConfig(), None)
    assert fitted.config.errors == "none"
    assert "fewer than 1,000 rows" in why


def test_without_errors_there_is_nothing_to_choose() -> None:
    fitted, why = fit_features(*galaxies("random", errors=False), RunConfig(), None)
    assert (fitted.config.errors, why) == ("none", "none are known")


def test_what_is_asked_for_is_done() -> None:
    photometry, z = galaxies("random", 700)
    for errors in ("excess", "inputs", "noise", "none"):
        fitted, why = fit_features(photometry, z, RunConfig().override("features", errors=errors), None)
        assert (fitted.has_errors, fitted.has_noise) == (errors == "inputs", errors == "noise")
        assert (fitted.usual_errors is not None) == (errors == "excess")
        assert why == f'"{errors}", as asked'
