"""The model file: what `GPzRegressor.save` and `gpzed train` write. One file, no pickle; loading executes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.errors import ModelFormatError
from gpzed.gp.covariance import Structure, get_structure
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout
from gpzed.gp.whitening import Whitening
from gpzed.incomplete.density import Density
from gpzed.mixture.heads import head_layout
from gpzed.mixture.predictive import MixtureHeads
from gpzed.model.container import pack_record, unpack_record
from gpzed.model.coverage import Coverage
from gpzed.model.data import Standardisation
from gpzed.model.member import Member, TrainingReport
from gpzed.model.network_member import NetworkMember
from gpzed.model.recalibration import Recalibration
from gpzed.model.records import learn_fields, may_be_infinite, store_as_text

KIND, VERSION = "model", 1

store_as_text(Structure, lambda structure: structure.code, get_structure)
may_be_infinite(TrainingReport, "best_score")
may_be_infinite(MixtureHeads, "best_score")
may_be_infinite(NetworkMember, "score")


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
    networks: tuple[NetworkMember, ...] = ()
    network_share: float = 0.0
    wrong_rate: float = 0.0
    pipeline: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        names, local = self.feature_names, None if self.recalibration is None else self.recalibration.local
        if names is not None and (len(names) != self.n_features or len(set(names)) < len(names)):
            raise ValueError(f"`feature_names` has {len(names)} names, not {self.n_features} different ones")
        if len(self.members) != self.parameters.get("n_members"):
            raise ValueError(f"{len(self.members)} members; expected {self.parameters.get('n_members')}, at least one")
        for index, member in enumerate(self.members):
            _check_member(member, f"members/{index}", self.n_features)
        for index, network in enumerate(self.networks):
            _check_network(network, f"networks/{index}", self.n_features)
        shares = {"network_share": lambda share: 0.0 < share < 1.0 if self.networks else share == 0.0}
        _check_values(self, "", {**shares, "wrong_rate": _is_share})
        if self.coverage is not None:
            _check_coverage(self.coverage, self.n_features)
        if self.recalibration is not None:
            _check_values(self.recalibration, "recalibration", {"wing_weight": _is_share, "wing_scale": _is_positive})
        if local is not None and local.size:
            shape = () if self.coverage is None else self.coverage.density.weights.shape
            _check_shapes(self.recalibration, "recalibration", {"local": shape})


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
    d, M = layout.d, layout.n_weights
    if d != n_features or layout.m < 1 or map_.table is not None:
        raise ValueError(f"`{path}/layout` is of {layout.m} functions of {d} inputs; expected {n_features} inputs")
    shapes: dict[str, tuple[int, ...]] = {"parameters/u": (layout.m,), "parameters/log_eta": (layout.m,)}
    shapes |= {f"parameters/{name}": shape for name, shape in layout.shapes().items() if name != "b"}
    _check_shapes(member, path, shapes)
    _check_maps(map_, f"{path}/standardisation", d)
    if member.mixture is not None:
        _check_heads(member.mixture, f"{path}/mixture", layout)
    elif member.posterior is None:
        raise ValueError(f"`{path}` has neither a posterior nor heads")
    else:
        _check_shapes(member, path, {"posterior/w_mean": (M,)})
        _check_factor(member.posterior.factor, f"{path}/posterior/factor", M)


def _check_maps(map_: Standardisation, path: str, d: int) -> None:
    _check_values(map_, path, {"y_scale": _is_positive})
    _check_whitening(map_.whitening, f"{path}/whitening", d)
    _check_density(map_.inputs.density, f"{path}/inputs/density", d)
    errors, place = map_.inputs.errors, f"{path}/inputs/errors"
    if errors is not None:
        c = max(len(errors.centres), 1)
        _check_shapes(errors, place, {"centres": (c, d), "variances": (c, d), "floor": (d,)})
        _check_values(errors, place, {"variances": _is_positive, "floor": _is_positive})


def _check_network(network: NetworkMember, path: str, n_features: int) -> None:
    _check_maps(network.standardisation, f"{path}/standardisation", n_features)
    marked, width, layers = network.marked, n_features + len(network.marked), network.network.layers
    if marked.ndim != 1 or np.any((marked < 0) | (marked >= n_features)) or len(set(marked.tolist())) < len(marked):
        raise ValueError(f"`{path}/marked` has positions that {n_features} inputs do not have")
    _check_shapes(network, path, {"lower": (n_features,), "upper": (n_features,)})
    for index, layer in enumerate(layers):
        if layer.ndim != 2 or len(layer) != width + 1:
            raise ValueError(f"array '{path}/network/layers/{index}' has shape {layer.shape}, for {width} inputs")
        width = layer.shape[1]
    if not layers or width % 3 or not width:
        raise ValueError(f"`{path}/network` has {len(layers)} layers with {width} outputs; expected 3 for every head")


def _check_heads(mixture: MixtureHeads, path: str, layout: Layout) -> None:
    own, K = head_layout(layout), len(mixture.factors)
    if K < 1 or mixture.mean_function != own.mean_function:
        raise ValueError(f"`{path}` has {K} heads with the mean function {mixture.mean_function!r}")
    shapes: dict[str, tuple[int, ...]] = {f"heads/{name}": layout.shapes()[name] for name in ("P", "Gamma")}
    _check_shapes(mixture, path, {**shapes, "heads/Theta": (own.n_weights, 3 * K), "offsets": (layout.d, K)})
    if mixture.quick is not None:
        _check_shapes(mixture.quick, f"{path}/quick", {"squares": (own.n_weights, K)})
        _check_values(mixture.quick, f"{path}/quick", {"squares": _is_not_negative})
    for index, factor in enumerate(mixture.factors):
        _check_factor(factor, f"{path}/factors/{index}", own.n_weights)


def _check_coverage(coverage: Coverage, d: int) -> None:
    _check_whitening(coverage.whitening, "coverage/whitening", d)
    _check_density(coverage.density, "coverage/density", d)
    g = max(coverage.level.size, 1)
    _check_shapes(coverage, "coverage", {"log_density": (g,), "level": (g,)})
    rules = {"log_density": _increases, "level": _is_share, "tail_scale": _is_positive, "variance": _is_positive}
    _check_values(coverage, "coverage", rules)


def _check_factor(factor: Factor, path: str, M: int) -> None:
    _check_shapes(factor, path, {"L": (M, M), "s": (M,)})
    _check_values(factor, path, {"L": lambda L: _is_positive(np.diagonal(L)), "s": _is_positive, "rcond": _is_share})


def _check_whitening(whitening: Whitening, path: str, d: int) -> None:
    _check_shapes(whitening, path, {"mean": (d,), "matrix": (d, d)})
    _check_values(whitening, path, {"matrix": _is_invertible})


def _check_density(density: Density, path: str, d: int) -> None:
    g = max(density.weights.size, 1)
    _check_shapes(density, path, {"weights": (g,), "means": (g, d), "covariances": (g, d, d)})
    rules = {"weights": lambda w: _is_share(w) and abs(w.sum() - 1.0) < 1e-6, "covariances": _are_covariances}
    _check_values(density, path, rules)


def _check_shapes(record: Any, path: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse arrays that do not fit together, named by their place in a record."""
    for place, shape in shapes.items():
        array = attrgetter(place.replace("/", "."))(record)
        if array.shape != shape:
            raise ValueError(f"array '{path}/{place}' has shape {array.shape} instead of {shape}")


def _check_values(record: Any, path: str, rules: Mapping[str, Callable[[Any], bool]]) -> None:
    """Refuse numbers that cannot be what their names say."""
    for name, rule in rules.items():
        if not rule(getattr(record, name)):
            raise ValueError(f"`{path}/{name}` is out of range")


def _is_positive(values: Any) -> bool:
    return bool(np.all(np.asarray(values) > 0.0))


def _is_not_negative(values: Any) -> bool:
    return bool(np.all(np.asarray(values) >= 0.0))


def _is_share(values: Any) -> bool:
    return bool(np.all((np.asarray(values) >= 0.0) & (np.asarray(values) <= 1.0)))


def _increases(values: FloatArray) -> bool:
    return bool(np.all(np.diff(values) >= 0.0))


def _is_invertible(matrix: FloatArray) -> bool:
    return bool(np.isfinite(np.linalg.slogdet(matrix)[1]))


def _are_covariances(matrices: FloatArray) -> bool:
    if not np.allclose(matrices, matrices.transpose(0, 2, 1), rtol=1e-6, atol=1e-300):
        return False
    eigenvalues = np.linalg.eigvalsh(matrices)
    return bool(np.all(eigenvalues >= -1e-6 * np.abs(eigenvalues).max(axis=1, keepdims=True)))
