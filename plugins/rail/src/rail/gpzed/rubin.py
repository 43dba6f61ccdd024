"""gpzed in the pipelines of the Rubin Observatory: tasks on top of those of `lsst.meas.pz`, which run RAIL's stages.

The stack must be set up (`lsst.meas.pz`). `EstimatePZGPZedTask` is the `PipelineTask`; a pipeline names it and the
datasets to read and write:

    tasks:
      pz_gpzed:
        class: rail.gpzed.rubin.EstimatePZGPZedTask
        config:
          connections.pzModel: "pzModel_gpzed"
          connections.pzEnsemble: "pz_estimate_gpzed"

The butler's dataset `pzModel` is what `butler_model` makes of a model file of `gpzed train` or of `GPZedInformer`.
"""

from __future__ import annotations

import math
import os
from typing import Any

from lsst.meas.pz.estimate_pz_task import (
    EstimatePZAlgoConfigBase,
    EstimatePZAlgoTask,
    EstimatePZTask,
    EstimatePZTaskConfig,
)
from rail.core.model import Model

from gpzed.workflows import PhotozModel, load_photoz_model
from rail.estimation.algos.gpzed import GPZedEstimator

__all__ = [
    "EstimatePZGPZedAlgoConfig",
    "EstimatePZGPZedAlgoTask",
    "EstimatePZGPZedConfig",
    "EstimatePZGPZedTask",
    "butler_model",
]


def butler_model(model: PhotozModel | str | os.PathLike[str]) -> Model:
    """Return a model as the butler stores it.

    Parameters
    ----------
    model : PhotozModel or path
        Of `gpzed train`, `gpzed.train` or `GPZedInformer`.

    Returns
    -------
    rail.core.model.Model
        To be put as the dataset `pzModel`.
    """
    trained = model if isinstance(model, PhotozModel) else load_photoz_model(model)
    return Model(trained, creation_class_name="GPZedInformer", provenance=dict(trained.provenance))


class EstimatePZGPZedAlgoConfig(EstimatePZAlgoConfigBase):
    """Configuration of `EstimatePZGPZedAlgoTask`: how fluxes become magnitudes, and the options of GPZedEstimator."""

    @classmethod
    def estimator_class(cls) -> type[GPZedEstimator]:
        """Return RAIL's stage."""
        return GPZedEstimator

    @classmethod
    def _make_fields(cls) -> None:
        """Make the stage's options fields of this configuration; those without a default may be left out."""
        super()._make_fields()
        for name in cls.estimator_class().config_options:
            field = getattr(cls, name, None)
            if field is not None and field.default is None:
                field.optional = True

    def setDefaults(self) -> None:  # noqa: N802 - the stack's name
        """Let NaN mean a non-detection: that is what becomes of a flux below zero."""
        super().setDefaults()
        self.nondetect_val = math.nan


EstimatePZGPZedAlgoConfig._make_fields()


class EstimatePZGPZedAlgoTask(EstimatePZAlgoTask):
    """Convert fluxes to magnitudes and estimate redshifts with GPZedEstimator."""

    ConfigClass = EstimatePZGPZedAlgoConfig
    _DefaultName = "estimatePZGPZedAlgo"


class EstimatePZGPZedConfig(EstimatePZTaskConfig):
    """Configuration of `EstimatePZGPZedTask`, with gpzed as its algorithm."""

    def setDefaults(self) -> None:  # noqa: N802 - the stack's name
        """Choose gpzed."""
        super().setDefaults()
        self.pz_algo.retarget(EstimatePZGPZedAlgoTask)
        self.pz_algo.stage_name = "gpzed"
        self.pz_algo.output_mode = "return"


class EstimatePZGPZedTask(EstimatePZTask):
    """Estimate the redshifts of an object table: from the butler's model and fluxes to an ensemble of densities."""

    ConfigClass: Any = EstimatePZGPZedConfig
    _DefaultName = "estimatePZGPZed"
