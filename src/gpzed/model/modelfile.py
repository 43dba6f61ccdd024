"""The model file: `save` and `load_model`. One file, no pickle; loading executes nothing."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from gpzed._types import AnyArray
from gpzed.engine.lbfgs import Iteration
from gpzed.errors import ModelFormatError
from gpzed.gp.covariance import get_structure
from gpzed.gp.linalg import Factor
from gpzed.gp.parameters import Layout, Parameters
from gpzed.gp.posterior import Posterior
from gpzed.gp.whitening import Whitening
from gpzed.incomplete.density import Density
from gpzed.incomplete.patterns import ErrorClasses, InputModel
from gpzed.mixture.training import MixtureHeads
from gpzed.model.container import pack, read_bytes, unpack, write_atomically
from gpzed.model.coverage import Coverage
from gpzed.model.data import Standardisation
from gpzed.model.member import Member, TrainingReport
from gpzed.model.recalibration import Recalibration

KIND, VERSION = "model", 3
SHARED: dict[str, Any] = {"coverage": Coverage, "recalibration": Recalibration}
"""What all members share, by its name in the header; version 1 had none of it."""


def member_to_parts(member: Member) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Header and arrays of one trained model."""
    layout, parameters, factor = member.layout, member.parameters, member.posterior.factor
    map_ = member.standardisation
    header: dict[str, Any] = {
        "m": layout.m,
        "d": layout.d,
        "covariance": layout.structure.code,
        "heteroscedastic": layout.heteroscedastic,
        "relevance": layout.relevance,
        "mean_function": layout.mean_function,
        "b": parameters.b,
        "jitter": factor.jitter,
        "rcond": factor.rcond,
        "y_mean": map_.y_mean,
        "y_scale": map_.y_scale,
        "noise_correction": member.noise_correction,
    }
    arrays: dict[str, AnyArray] = {
        "P": parameters.P,
        "Gamma": parameters.Gamma,
        "u": parameters.u,
        "log_alpha": parameters.log_alpha,
        "log_eta": parameters.log_eta,
        "w_mean": member.posterior.w_mean,
        "L": factor.L,
        "s": factor.s,
        "whitening_mean": map_.whitening.mean,
        "whitening_matrix": map_.whitening.matrix,
    }
    density, errors = map_.inputs.density, map_.inputs.errors
    arrays |= {"density_weights": density.weights, "density_means": density.means}
    arrays["density_covariances"] = density.covariances
    if errors is not None:
        arrays |= {f"noise_{name}": getattr(errors, name) for name in ("centres", "variances", "floor")}
    if member.mixture is not None:
        header["mixture"], group = member.mixture.to_parts()
        arrays |= {f"mixture_{name}": array for name, array in group.items()}
    if member.report is not None:
        report = asdict(member.report)
        history = report.pop("history")
        header["report"] = {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in report.items()}
        names = [field.name for field in fields(Iteration)]
        arrays["history"] = np.array([[entry[k] for k in names] for entry in history], float).reshape(-1, len(names))
    return header, arrays


def member_from_parts(header: dict[str, Any], arrays: dict[str, AnyArray]) -> Member:
    """Inverse of `member_to_parts`."""
    layout = Layout(
        header["m"],
        header["d"],
        get_structure(header["covariance"]),
        header["heteroscedastic"],
        header["relevance"],
        header["mean_function"],
    )
    _check_shapes(layout, arrays)
    parameters = Parameters(
        arrays["P"], arrays["Gamma"], arrays["u"], header["b"], arrays["log_alpha"], arrays["log_eta"]
    )
    posterior = Posterior(arrays["w_mean"], Factor(arrays["L"], arrays["s"], header["jitter"], header["rcond"]))
    whitening = Whitening(arrays["whitening_mean"], arrays["whitening_matrix"])
    report = None
    if "report" in header:
        stored: dict[str, Any] = {k: np.nan if v is None else v for k, v in header["report"].items()}
        stored |= {"n_rows": tuple(stored["n_rows"]), "stage": tuple(stored["stage"])}
        steps = tuple(Iteration(int(row[0]), int(row[1]), *map(float, row[2:])) for row in arrays["history"])
        report = TrainingReport(history=steps, **stored)
    return Member(
        layout,
        parameters,
        posterior,
        Standardisation(whitening, header["y_mean"], header["y_scale"], _inputs_from_parts(arrays, layout.d)),
        header["noise_correction"],
        report,
        _mixture_from_parts(header, arrays, layout),
    )


def _mixture_from_parts(header: dict[str, Any], arrays: dict[str, AnyArray], layout: Layout) -> MixtureHeads | None:
    if header.get("mixture") is None:
        return None
    group = {name.removeprefix("mixture_"): array for name, array in arrays.items() if name.startswith("mixture_")}
    return MixtureHeads.from_parts(header["mixture"], group, layout)


def _inputs_from_parts(arrays: dict[str, AnyArray], d: int) -> InputModel:
    if "density_weights" not in arrays:  # version 1: what the whitening knows
        matrix = arrays["whitening_matrix"]
        covariance = np.linalg.pinv(matrix @ matrix.T)
        return InputModel(Density(np.ones(1), arrays["whitening_mean"][None], covariance[None]), None)
    weights, means, covariances = (arrays[f"density_{name}"] for name in ("weights", "means", "covariances"))
    g = len(weights)
    if weights.shape != (g,) or means.shape != (g, d) or covariances.shape != (g, d, d):
        raise ValueError(f"density of the inputs has shapes {weights.shape}, {means.shape}, {covariances.shape}")
    errors = None
    if "noise_centres" in arrays:
        errors = ErrorClasses(*(arrays[f"noise_{name}"] for name in ("centres", "variances", "floor")))
        c = len(errors.centres)
        if errors.centres.shape != (c, d) or errors.variances.shape != (c, d) or errors.floor.shape != (d,):
            raise ValueError(f"classes of errors have shapes {errors.centres.shape}, {errors.variances.shape}")
    return InputModel(Density(weights, means, covariances), errors)


def _check_shapes(layout: Layout, arrays: dict[str, AnyArray]) -> None:
    d, M = layout.d, layout.n_weights
    expected = layout.shapes() | {
        "u": (layout.m,),
        "log_eta": (layout.m,),
        "w_mean": (M,),
        "L": (M, M),
        "s": (M,),
        "whitening_mean": (d,),
        "whitening_matrix": (d, d),
    }
    for name, shape in expected.items():
        if name != "b" and arrays[name].shape != shape:
            raise ValueError(f"array {name!r} has shape {arrays[name].shape} instead of {shape}")


def write_model(path: str | os.PathLike[str], header: dict[str, Any], members: list[Member]) -> None:
    """Write trained models with a header of the caller's (estimator, options, features) to one file.

    What the header holds under a name of `SHARED`, learned by all members together, is taken apart like a member.
    """
    parts = [member_to_parts(member) for member in members]
    arrays = {f"{i}/{name}": array for i, (_, group) in enumerate(parts) for name, array in group.items()}
    header = header | {"members": [head for head, _ in parts]}
    for kind in SHARED:
        if header.get(kind) is not None:
            header[kind], group = header[kind].to_parts()
            arrays |= {f"{kind}/{name}": array for name, array in group.items()}
    write_atomically(path, pack(KIND, VERSION, header, arrays))


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Member]]:
    """Inverse of `write_model`.

    Raises
    ------
    ModelFormatError
        If the file is missing, not a model, truncated, altered, or of a later version.
    """
    payload = read_bytes(path, ModelFormatError)
    header, arrays = unpack(payload, KIND, VERSION, source=os.fspath(path), error=ModelFormatError)

    def group(prefix: object) -> dict[str, AnyArray]:
        return {name.split("/", 1)[1]: array for name, array in arrays.items() if name.startswith(f"{prefix}/")}

    try:
        members = [member_from_parts(head, group(i)) for i, head in enumerate(header.pop("members"))]
        for kind, maker in SHARED.items():
            if header.get(kind) is not None:
                header[kind] = maker.from_parts(header[kind], group(kind))
        if not members:
            raise ValueError("no members")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as reason:
        raise ModelFormatError(
            f'"{os.fspath(path)}" lacks or garbles a part of the model ({reason}); '
            "it was not written by gpzed as it is. Train again."
        ) from reason
    return header, members


def save_with_pipeline(path: str | os.PathLike[str], model: Any, pipeline: dict[str, Any]) -> None:
    """Write a fitted estimator together with what leads from a catalogue to its inputs.

    Parameters
    ----------
    path : path
    model : GPzRegressor
        Fitted.
    pipeline : dict
        Schema, features, configuration and provenance as plain JSON types; kept under ``header["pipeline"]``.
    """
    write_model(path, model._header() | {"pipeline": pipeline}, list(model.members_))
