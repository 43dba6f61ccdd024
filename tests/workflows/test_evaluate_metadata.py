from __future__ import annotations

import pytest

from gpzed.catalog import Catalog, write_catalog
from gpzed.simulate import simulate_survey
from gpzed.workflows import evaluate, predict, train
from workflows.galaxy_files import quick_config


@pytest.mark.parametrize("suffix", ["fits", "csv", "hdf5", "parquet"])
@pytest.mark.filterwarnings("ignore::gpzed.errors.ConvergenceWarning")
def test_evaluate_knows_the_redshift_column_of_training(tmp_path, suffix):
    """SDSS calls it z, which is no name to guess by; the predictions carry it in their metadata."""
    survey = simulate_survey(400, survey="sdss", random_state=1, only_spectroscopic=True).columns()
    columns = {"objid": survey["id"], "z": survey["z_spec"]}
    for band in "ugriz":
        columns[f"modelMag_{band}"] = survey[f"mag_{band}"]
        columns[f"modelMagErr_{band}"] = survey[f"mag_err_{band}"]
    catalogue, model, out = tmp_path / f"in.{suffix}", tmp_path / "m.gpzed", tmp_path / f"out.{suffix}"
    write_catalog(Catalog(columns), catalogue)
    train(catalogue, model, quick_config())
    predict(model, catalogue, out)
    assert evaluate(out).redshift == "z"
