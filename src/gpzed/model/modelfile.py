"""The model file: what `GPzRegressor.save` and `gpzed train` write. One file, no pickle; loading executes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from gpzed.errors import ModelFormatError
from gpzed.gp.covariance import Structure, get_structure
from gpzed.gp.parameters import Layout
from gpzed.mixture.heads import head_layout
from gpzed.mixture.predictive import MixtureHeads
from gpzed.model.container import pack_record, unpack_record
from gpzed.model.coverage import Coverage
from gpzed.model.member import Member
from gpzed.model.recalibration import Recalibration
from gpzed.model.records import learn_fields, store_as_text

KIND, VERSION = "model", 1

store_as_text(Structure, lambda structure: structure.code, get_structure)


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds: an estimator with what it learned, and what leads from a catalogue to its inputs.

    `parameters`, the options of the estimator, and `pipeline` are plain JSON types.
    """

    estimator: str
    parameters: dict[str, Any]
    n_features: int
    feature_names: tuple[str, ...] | None
    members: tuple[Member, ...]
    coverage: Coverage | None
    recalibration: Recalibration | None
    pipeline: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("no members")
        for index, member in enumerate(self.members):
            _check_member(member, f"members/{index}", self.n_features)
        if self.coverage is not None:
            _check_coverage(self.coverage, self.n_features)


learn_fields(ModelFile)


def pack_model(model: ModelFile) -> bytes:
    """Return the content of a model file."""
    return pack_record(KIND, VERSION, model)


def unpack_model(payload: bytes, source: str | os.PathLike[str]) -> ModelFile:
    """Read the content of a model file; `source` names it in messages.

    Raises
    ------
    ModelFormatError
        If it is not a model, truncated, altered, or of a later version.
    """
    return unpack_record(payload, KIND, VERSION, ModelFile, source=os.fspath(source), error=ModelFormatError)


def _check_member(member: Member, path: str, n_features: int) -> None:
    layout, map_ = member.layout, member.standardisation
    d, M, g = layout.d, layout.n_weights, len(map_.inputs.density.weights)
    if d != n_features:
        raise ValueError(f"`{path}/layout/d` is {d}; expected {n_features}")
    shapes: dict[str, tuple[int, ...]] = {
        "parameters/u": (layout.m,),
        "parameters/log_eta": (layout.m,),
        "posterior/w_mean": (M,),
        "posterior/factor/L": (M, M),
        "posterior/factor/s": (M,),
        "standardisation/whitening/mean": (d,),
        "standardisation/whitening/matrix": (d, d),
        "standardisation/inputs/density/weights": (g,),
        "standardisation/inputs/density/means": (g, d),
        "standardisation/inputs/density/covariances": (g, d, d),
    }
    shapes |= {
        f"parameters/{name}": shape for name, shape in layout.shapes().items() if name not in ("b", "u", "log_eta")
    }
    errors = map_.inputs.errors
    if errors is not None:
        c = len(errors.centres)
        for name, shape in {"centres": (c, d), "variances": (c, d), "floor": (d,)}.items():
            shapes[f"standardisation/inputs/errors/{name}"] = shape
    _check_shapes(member, path, shapes)
    if member.mixture is not None:
        _check_heads(member.mixture, f"{path}/mixture", layout)


def _check_heads(mixture: MixtureHeads, path: str, layout: Layout) -> None:
    own = head_layout(layout)
    M, K = own.n_weights, mixture.heads.K
    shapes: dict[str, tuple[int, ...]] = {f"heads/{name}": layout.shapes()[name] for name in ("P", "Gamma")}
    shapes |= {"heads/Theta": (M, 3 * K), "offsets": (layout.d, K)}
    if len(mixture.factors) != K:
        raise ValueError(f"`{path}/factors` has {len(mixture.factors)} parts; expected {K}")
    _check_shapes(mixture, path, shapes)
    for index, factor in enumerate(mixture.factors):
        _check_shapes(factor, f"{path}/factors/{index}", {"L": (M, M), "s": (M,)})


def _check_coverage(coverage: Coverage, d: int) -> None:
    K, g = len(coverage.density.weights), len(coverage.level)
    shapes: dict[str, tuple[int, ...]] = {
        "whitening/mean": (d,),
        "whitening/matrix": (d, d),
        "density/weights": (K,),
        "density/means": (K, d),
        "density/covariances": (K, d, d),
        "log_density": (g,),
        "level": (g,),
    }
    _check_shapes(coverage, "coverage", shapes)


def _check_shapes(record: Any, path: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse arrays that do not fit together, named by their place in a record."""
    for place, shape in shapes.items():
        array = record
        for name in place.split("/"):
            array = getattr(array, name)
        if array.shape != shape:
            raise ValueError(f"array '{path}/{place}' has shape {array.shape} instead of {shape}")
