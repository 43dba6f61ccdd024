"""The tasks for Rubin's pipelines, on a stand-in for the stack."""

from __future__ import annotations

import importlib
import pickle
import sys
from types import ModuleType

import numpy as np
import pytest

import lsst_stub
from gpzed.workflows import load_photoz_model
from rail.estimation.algos.gpzed import GPZedEstimator

Table = dict[str, np.ndarray]


@pytest.fixture
def rubin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, module in lsst_stub.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "rail.gpzed.rubin", raising=False)
    return importlib.import_module("rail.gpzed.rubin")


def fluxes_of(table: Table) -> Table:
    found = {}
    for band in lsst_stub.BANDS:
        flux = 10.0 ** (-0.4 * (table[f"mag_{band}_lsst"].astype(float) - 31.4))
        found[f"{band}_gaap1p0Flux"] = flux
        found[f"{band}_gaap1p0FluxErr"] = table[f"mag_err_{band}_lsst"] * flux * 0.4 * np.log(10.0)
    return found


def test_the_task_predicts_what_gpzed_predicts(rubin: ModuleType, model_path: str, validation: Table) -> None:
    config = rubin.EstimatePZGPZedTask.ConfigClass()
    task = rubin.EstimatePZGPZedTask(None, config=config)
    found = task.run(rubin.butler_model(model_path), fluxes_of(validation)).pzEnsemble
    expected = load_photoz_model(model_path).predict(validation)
    assert found.npdf == len(validation["redshift"])
    np.testing.assert_allclose(found.ancil["z_phot"], expected["z_phot"], rtol=1e-5)


def test_a_negative_flux_is_a_non_detection(rubin: ModuleType, model_path: str, validation: Table) -> None:
    fluxes = fluxes_of(validation)
    fluxes["u_gaap1p0Flux"][0] = -3.0
    task = rubin.EstimatePZGPZedTask(None, config=rubin.EstimatePZGPZedTask.ConfigClass())
    found = task.run(rubin.butler_model(model_path), fluxes).pzEnsemble
    assert np.isfinite(found.ancil["zmode"]).all()
    assert found.ancil["z_flags"][0] != 0
    assert (found.ancil["z_flags"][1:] == found.ancil["z_flags"][1]).all()


def test_options_of_the_stage_are_fields_and_reach_it(rubin: ModuleType, model_path: str, validation: Table) -> None:
    config = rubin.EstimatePZGPZedTask.ConfigClass()
    config.pz_algo.pdf_type = "norm"
    assert {"pdf_type", "quantiles", "chunk_size", "zmax"} <= set(config.pz_algo.value.toDict())
    assert rubin.EstimatePZGPZedAlgoConfig.estimator_class() is GPZedEstimator
    task = rubin.EstimatePZGPZedTask(None, config=config)
    found = task.run(rubin.butler_model(model_path), fluxes_of(validation)).pzEnsemble
    assert found.gen_class.name == "norm"


def test_the_butlers_model_can_be_stored(rubin: ModuleType, model_path: str, validation: Table) -> None:
    model = pickle.loads(pickle.dumps(rubin.butler_model(load_photoz_model(model_path))))
    assert model.creation_class_name == "GPZedInformer"
    expected = load_photoz_model(model_path).predict(validation)["z_phot"]
    np.testing.assert_array_equal(model.data.predict(validation)["z_phot"], expected)
