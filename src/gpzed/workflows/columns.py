"""The columns that prediction adds to a catalogue: names, types, values and what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gpzed._types import AnyArray
from gpzed.catalog import Lists, Note
from gpzed.config import Point, PredictConfig
from gpzed.errors import ConfigError
from gpzed.evaluation.risk import CATASTROPHIC, outlier_risk
from gpzed.prediction import Prediction
from gpzed.prediction.quantiles import compact_quantiles
from gpzed.prediction.reduce import MOST, count, reduced

FAR_TAIL = 0.01
"""Quantiles nearer to an end than this are those of all Gaussians: merging ones that are alike changes them."""
BLOCK_ROWS = 4096
"""Rows of which columns are made at once: their Gaussians stay in the cache."""
BASE_COLUMNS = ("z_phot", "z_mean", "z_std", "z_var_model", "z_var_noise", "z_var_input", "z_coverage", "z_flags")
"""Columns that are always written."""
RISK = "z_risk"
"""Column of the probability of a catastrophic outlier."""
GAUSSIANS = ("z_pdf_weight", "z_pdf_mean", "z_pdf_std")
"""Columns of the Gaussians that a density consists of: lists, or arrays that end in Gaussians of weight 0."""
GRIDDED = "z_pdf"
"""Column of the densities on a grid."""
PDF_COLUMNS = (*GAUSSIANS, GRIDDED)
PDF_QUANTILES = (0.025, 0.16, 0.5, 0.84, 0.975)
"""Levels that stand for a density where no lists can be written."""
NO_LISTS = ("csv",)
"""Formats that hold one number per row and column."""
POINTS = {
    "best": "redshift of least expected loss",
    "safe": "redshift of least expected loss (with a penalty for errors beyond 0.2 (1 + z))",
    "mean": "mean",
    "median": "median",
    "mode": "highest point",
}
"""What z_phot may be, for the description of the column."""
PHOTOZ = "src.redshift.phot"


def settled(options: PredictConfig, n_components: int, format: str | None = None) -> PredictConfig:
    """Return the options with all chosen that is left out, for a model with so many Gaussians and a file format."""
    form = options.pdf
    if form is None:
        form = "none" if n_components == 1 else "quantiles" if format in NO_LISTS else "mixture"
    elif format in NO_LISTS and form in ("mixture", "full", "grid"):
        raise ConfigError(
            f"`pdf` is {form!r}, but {format} files hold one number per row and column; write Parquet, HDF5 or FITS, "
            "or choose 'quantiles' or 'none'"
        )
    levels = dict.fromkeys([*options.quantiles, *(PDF_QUANTILES if form == "quantiles" else ())])
    return replace(options, point=options.point or "best", pdf=form, quantiles=tuple(levels))


def predict_columns(prediction: Prediction, options: PredictConfig | None = None) -> dict[str, AnyArray]:
    """Return the columns that `predict` adds to a catalogue, by name.

    Parameters
    ----------
    prediction : Prediction
    options : PredictConfig, optional
        Quantiles and form of the densities; neither `columns` nor `chunk_rows` matter.

    Returns
    -------
    dict of str to ndarray of shape (n,), or (n, width)
        Gaussians are filled up to a common number with some of weight 0; `as_lists` leaves these out.

    Examples
    --------
    >>> from gpzed import Prediction
    >>> from gpzed.workflows import predict_columns
    >>> list(predict_columns(Prediction.gaussian([0.4, 0.8], 0.001, 0.009)))
    ['z_phot', 'z_mean', 'z_std', 'z_var_model', 'z_var_noise', 'z_var_input', 'z_coverage', 'z_flags']
    """
    options = options or PredictConfig()
    if options.point is None and isinstance(prediction.point, str):
        options = replace(options, point=cast(Point, prediction.point))
    options = settled(options, prediction.n_components)
    values = tabulate(prediction, options)
    return {name: np.ascontiguousarray(values[name]) for name in values.dtype.names or ()}


def as_lists(columns: Mapping[str, Any], options: PredictConfig) -> dict[str, Any]:
    """Return the same columns with merged Gaussians as lists, no longer than each object needs; options are settled."""
    if options.pdf != "mixture" or GAUSSIANS[0] not in columns:
        return dict(columns)
    lengths = count(columns[GAUSSIANS[0]])
    return {
        name: Lists.from_padded(values, lengths) if name in GAUSSIANS else values for name, values in columns.items()
    }


def column_dtype(options: PredictConfig, n_components: int) -> np.dtype[Any]:
    """Return names and types of the columns that prediction adds, in order; the options are settled."""
    width = {"mixture": MOST, "full": n_components}.get(options.pdf or "none", 0)
    fields: list[tuple[Any, ...]] = [(name, "<f4") for name in BASE_COLUMNS[:-1]]
    fields += [(quantile_name(level), "<f4") for level in options.quantiles]
    fields += [(RISK, "<f4")] if options.risk else []
    fields += [(name, "<f4", (width,)) for name in GAUSSIANS if width]
    fields += [(GRIDDED, "<f4", (len(options.grid),))] if options.pdf == "grid" else []
    return np.dtype([*fields, (BASE_COLUMNS[-1], "<u4")])


def added_columns(options: PredictConfig, n_components: int) -> list[str]:
    """Return the names of the columns that prediction adds; the options are settled."""
    return list(column_dtype(options, n_components).names or ())


def quantile_name(level: float) -> str:
    """Return the column of a quantile: 0.16 gives z_q16, 0.975 gives z_q97.5."""
    return f"z_q{100.0 * level:.10g}" if level >= 0.1 else f"z_q0{100.0 * level:.10g}"


def column_notes(options: PredictConfig) -> dict[str, Note]:
    """Return what each column that prediction may add means; the options are settled."""
    cut = ", before the cut at zero redshift" if options.positive else ""
    notes = {
        "z_phot": Note(f"{POINTS[options.point or 'best']} of the predictive distribution", f"{PHOTOZ};meta.main"),
        "z_mean": Note("mean of the predictive distribution", f"{PHOTOZ};stat.mean"),
        "z_std": Note(
            "its standard deviation, square root of z_var_model + z_var_noise + z_var_input", f"stat.error;{PHOTOZ}"
        ),
        "z_var_model": Note(
            "variance due to limited training data (Eq. 3.13), and to members that disagree", f"stat.variance;{PHOTOZ}"
        ),
        "z_var_noise": Note(
            "variance due to limited information in the photometry (Eq. 5.10), and to heads that differ",
            f"stat.variance;{PHOTOZ}",
        ),
        "z_var_input": Note(
            "variance because bands are missing or, where errors are noise of the inputs, noisy",
            f"stat.variance;{PHOTOZ}",
        ),
        "z_coverage": Note(
            "share of the training rows that lie in emptier places; NaN if the model did not learn it", "stat.value"
        ),
        RISK: Note(
            f"probability that z_phot is off by more than {CATASTROPHIC:g} (1 + z)", f"stat.probability;{PHOTOZ}"
        ),
        "z_pdf_weight": Note(f"weights of the Gaussians of the density{cut}", f"stat.weight;{PHOTOZ}"),
        "z_pdf_mean": Note(f"their means{cut}", f"stat.mean;{PHOTOZ}"),
        "z_pdf_std": Note(f"their standard deviations{cut}", f"stat.stdev;{PHOTOZ}"),
        "z_flags": Note("sum of the bits of gpzed_flags that apply", "meta.code"),
    }
    for level in options.quantiles:
        notes[quantile_name(level)] = Note(f"redshift below which the probability is {level:g}", f"{PHOTOZ};stat.value")
    if options.pdf == "grid":
        low, high, n = options.pdf_grid
        where = f"probability density at {n:.0f} redshifts from {low:g} to {high:g}"
        notes[GRIDDED] = Note(where, f"stat.probability;{PHOTOZ}")
    return notes


def grouped(names: Sequence[str]) -> str:
    """Return the names of added columns in a sentence: quantiles by their ends, whatever their number."""
    quantiles = [name for name in names if name.startswith("z_q")]
    shown = [name for name in names if name not in quantiles and name not in PDF_COLUMNS]
    if quantiles:
        shown.append(
            f"{len(quantiles)} quantiles ({quantiles[0]} to {quantiles[-1]})" if quantiles[1:] else quantiles[0]
        )
    densities = [name for name in names if name in PDF_COLUMNS]
    return ", ".join(shown) + (f", and the densities in {', '.join(densities)}" if densities else "")


def tabulate(prediction: Prediction, options: PredictConfig) -> AnyArray:
    """Return the columns of a prediction as a structured array; the options are settled."""
    values = np.empty(len(prediction), dtype=column_dtype(options, prediction.n_components))
    for start in range(0, len(prediction), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        fill_columns(values[rows], prediction[rows], options)
    return values


def fill_columns(values: AnyArray, prediction: Prediction, options: PredictConfig) -> None:
    """Put the columns of a prediction, some thousand rows at most, in a structured array; the options are settled."""
    prediction = quoted(prediction, options)
    values["z_phot"] = prediction.z_phot
    values["z_mean"] = prediction.mean
    values["z_var_model"] = prediction.model_variance
    values["z_var_noise"] = prediction.noise_variance
    values["z_var_input"] = prediction.input_variance
    values["z_std"] = prediction.std
    values["z_coverage"] = np.nan if prediction.coverage is None else prediction.coverage
    values["z_flags"] = 0 if prediction.flags is None else prediction.flags
    if options.quantiles:
        if options.exact or not all(FAR_TAIL <= level <= 1.0 - FAR_TAIL for level in options.quantiles):
            found = prediction.quantile_grid(options.quantiles)
        else:
            found = compact_quantiles(prediction.components, prediction.lower, options.quantiles)
        for level, column in zip(options.quantiles, found.T, strict=True):
            values[quantile_name(level)] = column
    if options.risk:
        values[RISK] = outlier_risk(prediction)
    if options.pdf == "mixture":
        for name, few in zip(GAUSSIANS, reduced(prediction.components, prediction.lower), strict=True):
            values[name] = few
    elif options.pdf == "full":
        every = prediction.weights, prediction.means, prediction.component_stds
        for name, all_of_them in zip(GAUSSIANS, every, strict=True):
            values[name] = all_of_them
    elif options.pdf == "grid":
        values[GRIDDED] = prediction.pdf_grid(options.grid)


def quoted(prediction: Prediction, options: PredictConfig) -> Prediction:
    """Return the same densities, cut at zero or not, and quoted by the number that the options ask for."""
    lower, point = 0.0 if options.positive else None, options.point or "best"
    if isinstance(prediction.point, str) and (prediction.lower, prediction.point) == (lower, point):
        return prediction
    return prediction.changed(lower=lower, point=point)
