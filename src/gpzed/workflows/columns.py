"""The columns that prediction adds to a catalogue: names, types, values and what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpzed._types import AnyArray
from gpzed.config import PredictConfig
from gpzed.prediction import Prediction

BASE_COLUMNS = ("z_phot", "z_mean", "z_std", "z_var_model", "z_var_noise", "z_var_input", "z_coverage", "z_flags")
"""Columns that are always written."""
POINTS = {"best": "redshift of least expected loss", "mean": "mean", "median": "median", "mode": "highest point"}
"""What z_phot may be, for the description of the column."""


def predict_columns(prediction: Prediction, options: PredictConfig | None = None) -> dict[str, AnyArray]:
    """Return the columns that `predict` adds to a catalogue, by name.

    Parameters
    ----------
    prediction : Prediction
    options : PredictConfig, optional
        Quantiles and components; neither `columns` nor `chunk_rows` matter.
    """
    options = options or PredictConfig()
    values = tabulate(prediction, options)
    return {name: np.ascontiguousarray(values[name]) for name in values.dtype.names or ()}


def added_columns(options: PredictConfig, n_components: int) -> list[str]:
    """Return the names of the columns that prediction adds."""
    names = [*BASE_COLUMNS[:-1], *(quantile_name(level) for level in options.quantiles)]
    if n_components > 1 if options.components is None else options.components:
        for k in range(1, n_components + 1):
            names += [f"z_weight_{k}", f"z_mean_{k}", f"z_std_{k}"]
    return [*names, BASE_COLUMNS[-1]]


def quantile_name(level: float) -> str:
    """Return the column of a quantile: 0.16 gives z_q16, 0.975 gives z_q97.5."""
    return f"z_q{100.0 * level:.10g}" if level >= 0.1 else f"z_q0{100.0 * level:.10g}"


def column_dtype(options: PredictConfig, n_components: int) -> np.dtype[Any]:
    """Return names and types of the columns that prediction adds, in order."""
    return np.dtype([(name, "<u4" if name == "z_flags" else "<f8") for name in added_columns(options, n_components)])


def column_descriptions(options: PredictConfig) -> dict[str, str]:
    """Return what each of the columns that are always written means."""
    return {
        "z_phot": f"{POINTS[options.point]} of the predictive distribution",
        "z_mean": "mean of the predictive distribution",
        "z_std": "its standard deviation, square root of z_var_model + z_var_noise + z_var_input",
        "z_var_model": "variance due to limited training data (Eq. 3.13), and to members that disagree",
        "z_var_noise": "variance due to limited information in the photometry (Eq. 5.10), and to heads that differ",
        "z_var_input": "variance because bands are missing or, where errors are noise of the inputs, noisy",
        "z_coverage": "share of the training rows that lie in emptier places; NaN if the model did not learn it",
        "z_flags": "sum of the bits of gpzed_flags that apply",
    }


def tabulate(prediction: Prediction, options: PredictConfig) -> AnyArray:
    """Return the columns of a prediction as a structured array."""
    dtype = column_dtype(options, prediction.n_components)
    values = np.empty(len(prediction), dtype=dtype)
    prediction = quoted(prediction, options)
    values["z_phot"] = prediction.z_phot
    values["z_mean"] = prediction.mean
    values["z_var_model"] = prediction.model_variance
    values["z_var_noise"] = prediction.noise_variance
    values["z_var_input"] = prediction.input_variance
    values["z_std"] = prediction.std
    values["z_coverage"] = np.nan if prediction.coverage is None else prediction.coverage
    values["z_flags"] = 0 if prediction.flags is None else prediction.flags
    for level in options.quantiles:
        values[quantile_name(level)] = prediction.quantile(level)
    if "z_weight_1" in (dtype.names or ()):
        for k in range(prediction.n_components):
            values[f"z_weight_{k + 1}"] = prediction.weights[:, k]
            values[f"z_mean_{k + 1}"] = prediction.means[:, k]
            values[f"z_std_{k + 1}"] = prediction.component_stds[:, k]
    return values


def quoted(prediction: Prediction, options: PredictConfig) -> Prediction:
    """Return the same densities, cut at zero or not, and quoted by the number that the options ask for."""
    lower = 0.0 if options.positive else None
    if isinstance(prediction.point, str) and (prediction.lower, prediction.point) == (lower, options.point):
        return prediction
    return prediction.changed(lower=lower, point=options.point)
