"""Redshifts that are none, or no galaxy's: counted, named, left out or refused; and cuts that travel with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpzed
from gpzed.catalog import Catalog, Sentinels, catalog_info, extract_photometry
from gpzed.errors import CatalogError, DataWarning
from gpzed.progress import Progress
from gpzed.workflows import Criteria, plan_training, select, write_report
from gpzed.workflows.redshifts import Limits, repeated_objects, valid_redshifts
from workflows.galaxy_files import galaxies, quick_config, write


def changed(n: int = 400, **columns: Any) -> dict[str, Any]:
    """Galaxies of which the first values of some columns are others."""
    table = galaxies(n)
    ready = {name: np.array(table[name]) for name in table.names}
    for name, values in columns.items():
        ready[name][: len(values)] = values
    return ready


def test_every_redshift_is_used_or_counted_once() -> None:
    z = np.array([0.5, np.nan, np.inf, -1.0, -99.0, 9.9999, 0.0, -0.001, 0.001, 19.0, 25.0])
    found = valid_redshifts(z, Limits(), Sentinels())
    assert z[found.keep].tolist() == [0.5, 0.001, 19.0]
    assert found.causes == {"NaN or masked": 1, "infinite": 1, "<= -1": 2, "= 9.9999": 1}
    assert found.outside == {"z < 0": 1, "z = 0": 1, "z > 20": 1}
    assert str(found) == "0 < z <= 20 (by default); left out: 1 with z < 0, 1 with z = 0, 1 with z > 20"
    wide = valid_redshifts(z, Limits.of(-1.0, 30.0, "as asked"), Sentinels())
    assert z[wide.keep].tolist() == [0.5, 0.0, -0.001, 0.001, 19.0, 25.0]


def test_stars_and_mistakes_are_left_out_of_training_and_named() -> None:
    plan = plan_training(changed(z_spec=[0.0, 0.0, -0.0005, 30.0]), quick_config())
    assert plan.out_of_range == {"z < 0": 1, "z = 0": 2, "z > 20": 1}
    assert plan.counts["train"] == 396


@pytest.mark.parametrize("unit", [None, "km/s"])
def test_velocities_are_refused(unit: str | None) -> None:
    columns = changed()
    columns["z_spec"] = columns["z_spec"] * (299_792.458 if unit is None else 1.0)
    table = Catalog(columns, units={} if unit is None else {"z_spec": unit})
    with pytest.raises(CatalogError, match=r"column 'z_spec' is no redshift.*cz in km/s; divide it by 299792.458"):
        plan_training(table, quick_config())


def test_objects_that_contradict_themselves_are_left_out_and_named() -> None:
    columns = changed()
    for name in columns:
        if name not in ("z_spec", "id"):
            columns[name][1] = columns[name][0]  # same photometry
            columns[name][3] = columns[name][2]
    columns["z_spec"][:4] = (0.2, 0.9, 0.4, 0.4)
    columns["id"][11] = columns["id"][10]
    columns["z_spec"][10:12] = (0.1, 0.7)
    with pytest.warns(DataWarning, match=r"2 objects are there more than once .* \(z = 0.2, 0.9\).* all 4 rows"):
        plan = plan_training(columns, quick_config())
    assert plan.counts["contradicting redshifts"] == 4
    assert plan.counts["train"] == 396


def test_identifiers_of_fields_are_no_identifiers_of_objects() -> None:
    table = Catalog(changed(id=np.arange(400) % 7))
    schema = gpzed.catalog.guess_schema(table.names)
    found = repeated_objects(extract_photometry(table, schema), table.floats("z_spec"), table["id"])
    assert not found.contradicting.any()


def test_rows_that_repeat_others_are_told_of() -> None:
    columns = changed()
    twice = {name: np.concatenate([values, values[:100]]) for name, values in columns.items()}
    with pytest.warns(DataWarning, match="100 of 500 rows repeat others"):
        plan = plan_training(twice, quick_config())
    assert plan.counts["train"] == 500


@pytest.mark.filterwarnings("ignore:.*is not like the training catalogue:gpzed.errors.DataWarning")
def test_the_cuts_of_training_are_applied_and_stated_by_whoever_scores(tmp_path: Path) -> None:
    config = quick_config(split={"min_redshift": 0.1, "max_redshift": 0.8})
    model = gpzed.train(galaxies(400), None, config)
    survey = changed(200, z_spec=[0.0] * 20)
    z = survey["z_spec"]
    write(Catalog(survey), tmp_path / "survey.parquet")
    for output in ("out.parquet", "out.fits", "out.csv"):
        gpzed.predict(model, tmp_path / "survey.parquet", tmp_path / output)
        result = gpzed.evaluate(tmp_path / output)
        assert result.n_used == int(((z > 0.1) & (z <= 0.8)).sum())
        cuts = result.to_dict()["redshift_cuts"]
        assert (cuts["above"], cuts["up_to"], cuts["origin"]) == (0.1, 0.8, "as in training")
        assert cuts["left_out"]["z = 0"] == 20
    assert gpzed.evaluate(tmp_path / "out.parquet", min_redshift=0.5).n_used == int((z > 0.5).sum())
    chosen = select(tmp_path / "out.parquet", Criteria(keep=0.5))
    assert chosen.n_truth == result.n_used
    assert "0.1 < z <= 0.8 (as in training)" in chosen.cuts
    said: list[str] = []
    progress = Progress()
    progress.say = said.append  # type: ignore[method-assign]
    page = write_report([tmp_path / "out.parquet"], tmp_path / "page.html", progress=progress)
    assert page.sets[0][1] == result.n_used
    assert any("0.1 < z <= 0.8 (as in training)" in line for line in said)
    assert "gpzed_config" in catalog_info(tmp_path / "out.parquet").metadata


def test_stars_are_not_scored_as_galaxies() -> None:
    model = gpzed.train(galaxies(400), None, quick_config())
    survey = changed(200, z_spec=[0.0] * 100 + [-0.0003] * 27)
    result = gpzed.evaluate(model.predict(survey))
    assert result.n_used == 73
    assert np.isfinite(result.metrics["mll"])
    assert result.cuts.outside == {"z < 0": 27, "z = 0": 100}
