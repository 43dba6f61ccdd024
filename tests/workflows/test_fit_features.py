"""Errors become inputs where held-out rows gain by them, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from gpzed.catalog import Photometry, Sentinels, extract_photometry
from gpzed.catalog.schema import PhotometrySchema
from gpzed.catalog.table import Catalog
from gpzed.config import RunConfig
from gpzed.workflows.fit_features import fit_features
from gpzed.workflows.schema import resolve_schema


def galaxies(informative: bool, n: int = 700, *, errors: bool = True) -> tuple[Photometry, np.ndarray]:
    """Three bands; with `informative` errors the noise of the redshift follows them."""
    rng = np.random.default_rng(0)
    z = rng.uniform(0.1, 1.0, n)
    size = rng.uniform(0.02, 0.2, n)
    columns = {"z_spec": z}
    for i, band in enumerate("gri"):
        columns[f"mag_{band}"] = 20.0 + (i + 1.0) * z + 0.05 * rng.standard_normal(n)
        columns[f"mag_err_{band}"] = size if informative else rng.uniform(0.02, 0.2, n)
    if informative:
        z = z + 3.0 * size * rng.standard_normal(n)
    names = [name for name in columns if errors or "err" not in name]
    table = Catalog({name: columns[name] for name in names})
    config = RunConfig() if errors else RunConfig().override("schema", bands=["g", "r", "i"], mag="mag_{band}")
    schema: PhotometrySchema = resolve_schema(table.names, config.schema, {})
    return extract_photometry(table, schema, Sentinels()), z


@pytest.mark.parametrize("informative", [True, False])
def test_held_out_rows_decide(informative: bool) -> None:
    photometry, z = galaxies(informative, 2000 if informative else 1200)
    fitted = fit_features(photometry, z, RunConfig(), None)
    assert fitted.has_errors == informative
    assert fitted.config.errors == ("inputs" if informative else "none")


def test_a_target_catalogue_or_few_rows_leave_errors_out() -> None:
    photometry, z = galaxies(True, 1200)
    targeted = RunConfig().override("target", catalogue="survey.fits")
    assert not fit_features(photometry, z, targeted, None).has_errors
    photometry, z = galaxies(True, 900)
    assert not fit_features(photometry, z, RunConfig(), None).has_errors


def test_without_errors_there_is_nothing_to_choose() -> None:
    photometry, z = galaxies(True, errors=False)
    assert fit_features(photometry, z, RunConfig(), None).config.errors == "none"


def test_what_is_asked_for_is_done() -> None:
    photometry, z = galaxies(False)
    for errors in ("inputs", "noise", "none"):
        fitted = fit_features(photometry, z, RunConfig().override("features", errors=errors), None)
        assert (fitted.has_errors, fitted.has_noise) == (errors == "inputs", errors == "noise")
