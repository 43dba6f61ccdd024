"""From a file with predictions and true redshifts to metrics."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import CatalogInfo, Sentinels, catalog_info, read_catalog
from gpzed.catalog.conventions import REDSHIFT_NAMES
from gpzed.errors import CatalogError, ConfigError, SchemaError
from gpzed.evaluation import evaluate as evaluate_prediction
from gpzed.pipeline.qpfile import is_qp_file, read_qp
from gpzed.pipeline.source import Redshifts, valid_redshifts
from gpzed.prediction import Prediction


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one file of predictions.

    Attributes
    ----------
    path : str
    n_rows, n_used : int
        Rows of the file, and those with a redshift and a prediction.
    redshift : str
        Column of the true redshift.
    metrics : dict of str to float
        By the names of `gpzed.evaluation.METRICS`.
    redshift_range : tuple of float
        Lowest and highest true redshift used.
    no_redshift : dict of str to int
        Rows without a true redshift, by what stands in its place.
    """

    path: str
    n_rows: int
    n_used: int
    redshift: str
    metrics: dict[str, float]
    redshift_range: tuple[float, float]
    no_redshift: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return file and metrics in one flat dictionary of plain JSON types."""
        about = {
            "file": self.path,
            "n_rows": self.n_rows,
            "redshift_column": self.redshift,
            "redshift_range": list(self.redshift_range),
            "no_redshift": self.no_redshift,
        }
        return {**about, **self.metrics, "n": self.n_used}


def evaluate(
    paths: Sequence[str | os.PathLike[str]],
    *,
    redshift: str | None = None,
    min_redshift: float | None = None,
    max_redshift: float | None = None,
    format: str | None = None,
    truth: str | os.PathLike[str] | None = None,
) -> list[Evaluation]:
    """Score files that hold predictions and true redshifts.

    Parameters
    ----------
    paths : sequence of path
        Files of `predict`, any with the columns ``z_phot`` and ``z_std``, and those of qp, which codes of RAIL write.
    redshift : str, optional
        Column of the true redshift; guessed by its name otherwise.
    min_redshift, max_redshift : float, optional
        Only rows above the one and up to the other.
    format : str, optional
        Format, if the suffix does not tell.
    truth : path, optional
        Catalogue with the true redshifts, row by row, for files of qp that have none.

    Returns
    -------
    list of Evaluation
        One per file.
    """
    return [_evaluate_one(path, redshift, min_redshift, max_redshift, format, truth) for path in paths]


def read_predictions(
    path: str | os.PathLike[str],
    *,
    redshift: str | None = None,
    min_redshift: float | None = None,
    max_redshift: float | None = None,
    format: str | None = None,
    truth: str | os.PathLike[str] | None = None,
) -> tuple[FloatArray, Prediction, int, str]:
    """Read true redshifts and predictions.

    Parameters
    ----------
    path, redshift, min_redshift, max_redshift, format, truth
        As in `evaluate`.

    Returns
    -------
    z_spec : ndarray of shape (n,)
    prediction : Prediction
        The mixture if the file has its components, else one Gaussian per object; what a file of qp holds.
    n_rows : int
        Rows of the file, of which n have a redshift and a prediction.
    column : str
        Column of the true redshift.
    """
    return _read(path, redshift, min_redshift, max_redshift, format, truth)[:4]


def _read(
    path: str | os.PathLike[str],
    redshift: str | None,
    low: float | None,
    high: float | None,
    format: str | None,
    truth: str | os.PathLike[str] | None,
) -> tuple[FloatArray, Prediction, int, str, Redshifts]:
    if format is None and is_qp_file(path):
        return _read_qp(path, redshift, low, high, truth)
    if truth is not None:
        raise ConfigError(f"'{os.fspath(path)}' is no file of qp; only for those are true redshifts read elsewhere")
    info = catalog_info(path, format=format)
    for name in ("z_phot", "z_std"):
        if name not in info.names:
            raise SchemaError(
                f"'{info.path}' has no column {name!r}; expected a file written by `gpzed predict`, it has "
                f"{', '.join(info.names[:30])}"
            )
    column = _redshift_column(info.path, info.names, redshift or _recorded_redshift(info))
    n_components = sum(name.startswith("z_weight_") for name in info.names)
    extra = [f"{stem}_{k + 1}" for k in range(n_components) for stem in ("z_weight", "z_mean", "z_std")]
    has_parts = {"z_var_model", "z_var_noise"} <= set(info.names)
    base = ["z_phot", "z_std", *(("z_var_model", "z_var_noise") if has_parts else ()), column]
    table = read_catalog(path, columns=[*base, *extra], format=format)
    values = {name: table.floats(name) for name in (*base, *extra)}
    z = values[column]
    found = valid_redshifts(z, low, high, _sentinels(info.metadata))
    keep = found.keep & np.isfinite(values["z_phot"]) & (values["z_std"] > 0.0)
    if not keep.any():
        raise CatalogError(
            f"'{info.path}': none of {len(table)} rows has both a redshift in {column!r} and a prediction; "
            "nothing to score"
        )
    rows = {name: column_values[keep] for name, column_values in values.items()}
    return z[keep], _prediction(rows, n_components, has_parts), len(table), column, found


def _read_qp(
    path: str | os.PathLike[str],
    redshift: str | None,
    low: float | None,
    high: float | None,
    truth: str | os.PathLike[str] | None,
) -> tuple[FloatArray, Prediction, int, str, Redshifts]:
    stored = read_qp(path)
    n_rows, where = len(stored.usable), os.fspath(path)
    if truth is None:
        column = _redshift_column(where, list(stored.columns), redshift, "or give a catalogue of them with --truth")
        z = np.asarray(stored.columns[column], dtype=np.float64)
    else:
        info = catalog_info(truth)
        column = _redshift_column(info.path, info.names, redshift)
        if info.n_rows != n_rows:
            raise CatalogError(
                f"'{info.path}' has {info.n_rows} rows but '{where}' has {n_rows} densities; give the catalogue that "
                "they were made of"
            )
        z = read_catalog(truth, columns=[column]).floats(column)
    found = valid_redshifts(z, low, high, Sentinels())
    keep = found.keep & stored.usable
    if not keep.any():
        raise CatalogError(
            f"'{where}': none of {n_rows} rows has both a redshift in {column!r} and a density; nothing to score"
        )
    chosen = keep[stored.usable]
    prediction = stored.prediction if chosen.all() else stored.prediction[chosen]
    return z[keep], prediction, n_rows, column, found


def _sentinels(metadata: Mapping[str, Any]) -> Sentinels:
    """Return what the run that wrote the file took for no redshift, if it says so."""
    config = metadata.get("gpzed_config")
    section = config.get("sentinels") if isinstance(config, Mapping) else None
    stored = section.get("no_redshift") if isinstance(section, Mapping) else None
    return Sentinels() if stored is None else Sentinels(no_redshift=tuple(map(float, stored)))


def _prediction(rows: dict[str, FloatArray], n_components: int, has_parts: bool) -> Prediction:
    if n_components:
        stacked = {
            stem: np.column_stack([rows[f"{stem}_{k + 1}"] for k in range(n_components)])
            for stem in ("z_weight", "z_mean", "z_std")
        }
        nothing = np.zeros_like(stacked["z_std"])
        return Prediction(stacked["z_weight"], stacked["z_mean"], nothing, stacked["z_std"] ** 2)
    if has_parts:
        return Prediction.gaussian(rows["z_phot"], rows["z_var_model"], rows["z_var_noise"])
    return Prediction.gaussian(rows["z_phot"], 0.0, rows["z_std"] ** 2)


def _recorded_redshift(info: CatalogInfo) -> str | None:
    """Name of the redshift column that `gpzed predict` wrote into the metadata, if the file has it."""
    schema = info.metadata.get("gpzed_schema")
    if isinstance(schema, str):
        schema = json.loads(schema)
    column = schema.get("redshift") if isinstance(schema, dict) else None
    return column if column in info.names else None


def _redshift_column(path: str, names: Sequence[str], given: str | None, else_: str = "") -> str:
    if given is not None:
        if given not in names:
            raise SchemaError(f"'{path}' has no column {given!r}; it has {', '.join(names[:30])}")
        return given
    lower: dict[str, str] = {}
    for name in names:
        lower.setdefault(name.lower(), name)
    for known in REDSHIFT_NAMES:
        if known in lower:
            return lower[known]
    raise SchemaError(
        f"'{path}' has no column of true redshifts that is known by its name ({', '.join(REDSHIFT_NAMES[:4])}, ...); "
        f"name it with --redshift{', ' if else_ else ''}{else_}"
    )


def _evaluate_one(
    path: str | os.PathLike[str],
    redshift: str | None,
    low: float | None,
    high: float | None,
    format: str | None,
    truth: str | os.PathLike[str] | None,
) -> Evaluation:
    z, prediction, n_rows, column, found = _read(path, redshift, low, high, format, truth)
    metrics = {name: float(value) for name, value in evaluate_prediction(z, prediction).items() if name != "n"}
    used = (float(z.min()), float(z.max()))
    return Evaluation(os.fspath(path), n_rows, len(z), column, metrics, used, found.causes)
