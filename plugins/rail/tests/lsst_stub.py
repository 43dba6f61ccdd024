"""A stand-in for the part of the Rubin stack that `rail.gpzed.rubin` builds on.

It has the shape of `lsst.meas.pz.estimate_pz_task` (configurations made of fields, a task that hands its work to an
algorithm, fluxes to magnitudes), in as few lines as that takes. A field that is None and not optional is refused, as
`lsst.pex.config` does.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
from ceci.config import StageParameter
from rail.interfaces import PZFactory

BANDS = "ugrizy"


class Field:
    """An option."""

    def __init__(self, default: Any) -> None:
        self.default, self.optional = default, False


class Config:
    """Options, with the values of their defaults."""

    def __init__(self) -> None:
        fields = {name: field for name, field in vars(type(self)).items() if isinstance(field, Field)}
        for kind in type(self).__mro__:
            fields |= {name: f for name, f in vars(kind).items() if isinstance(f, Field) and name not in fields}
        self._fields = fields
        for name, field in fields.items():
            setattr(self, name, field.default)
        self.setDefaults()

    def setDefaults(self) -> None:
        """Nothing to set."""

    def toDict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}

    def validate(self) -> None:
        for name, field in self._fields.items():
            if getattr(self, name) is None and not field.optional:
                raise ValueError(f"Field '{name}' failed validation: Required value cannot be None")


class EstimatePZAlgoConfigBase(Config):
    stage_name = Field("")
    mag_offset = Field(31.4)
    mag_template = Field("mag_{band}_lsst")

    @classmethod
    def _make_fields(cls) -> None:
        for name, option in cls.estimator_class().config_options.items():
            if isinstance(option, StageParameter) and option.dtype in (int, float, str, list, dict):
                setattr(cls, name, Field(option.default))


class EstimatePZAlgoTask:
    ConfigClass: type[Config]

    def __init__(self, config: Any) -> None:
        self.config = config

    def init(self, model: Any) -> None:
        options = self.config.toDict()
        for name in ("stage_name", "mag_offset"):
            options.pop(name)
        stage = self.config.estimator_class()
        self._stage = PZFactory.build_stage_instance(
            self.config.stage_name, stage, model_path=model.data, input_path="dummy.in", **options
        )

    def run(self, fluxes: Any) -> Any:
        mags = {}
        for band in BANDS:
            flux, error = np.asarray(fluxes[f"{band}_gaap1p0Flux"]), np.asarray(fluxes[f"{band}_gaap1p0FluxErr"])
            with np.errstate(invalid="ignore"):
                mags[f"mag_{band}_lsst"] = self.config.mag_offset - 2.5 * np.log10(flux)
            mags[f"mag_err_{band}_lsst"] = error / (0.4 * np.log(10.0) * flux)
        return types.SimpleNamespace(pzEnsemble=PZFactory.estimate_single_pz(self._stage, mags, len(flux)))


class Choice:
    """An algorithm with its configuration."""

    def __init__(self) -> None:
        object.__setattr__(self, "task", None)
        object.__setattr__(self, "value", None)

    def retarget(self, task: Any) -> None:
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "value", task.ConfigClass())

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in self.value.toDict(), f"no field {name}"
        setattr(self.value, name, value)


class EstimatePZTaskConfig(Config):
    def __init__(self) -> None:
        self.pz_algo = Choice()
        super().__init__()


class EstimatePZTask:
    ConfigClass: type[EstimatePZTaskConfig]

    def __init__(self, initInputs: Any, config: EstimatePZTaskConfig) -> None:
        config.pz_algo.value.validate()
        self.pz_algo = config.pz_algo.task(config.pz_algo.value)

    def run(self, pzModel: Any, fluxes: Any) -> Any:
        self.pz_algo.init(pzModel)
        return self.pz_algo.run(fluxes)


def modules() -> dict[str, types.ModuleType]:
    """Return the modules of the stand-in, by name."""
    found = {name: types.ModuleType(name) for name in ("lsst", "lsst.meas", "lsst.meas.pz")}
    return {**found, "lsst.meas.pz.estimate_pz_task": sys.modules[__name__]}
