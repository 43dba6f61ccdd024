"""From a file with predictions and true redshifts to metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.errors import CatalogError, ConfigError
from gpzed.evaluation import (
    BinnedMetrics,
    RejectionCurve,
    binned_metrics,
    bootstrap_metrics,
    rejection_curves,
    relative_improvement,
    select,
)
from gpzed.evaluation import evaluate as evaluate_prediction
from gpzed.prediction import Prediction
from gpzed.workflows.photoz_catalog import PhotozCatalog
from gpzed.workflows.predictions import PredictionFile, PredictionSource, read_predictions
from gpzed.workflows.redshifts import Redshifts

BINNED = ("bias", "rmse", "sigma_nmad", "fr_0.15", "fr_0.05")
"""Metrics in bins."""
N_BINS = 10
"""Bins across the range of a column that is no redshift."""
CURVES = ("rmse", "mll", "fr_0.15", "fr_0.05", "sigma_nmad", "crps")
"""Metrics of rejection curves."""
FRACTIONS = np.arange(1, 21) / 20
"""Fractions kept at which they are given."""


@dataclass(frozen=True)
class EvaluationOptions:
    """What is scored, and what is computed beside the metrics.

    Parameters
    ----------
    weight : str or None
        Column of weights.
    keep : float or None
        Score only this fraction of the objects, those with the smallest predicted variance.
    n_bootstrap : int
        Resamples for error bars; 0 for none.
    seed : int
        Seed of the resamples.
    bins : str or None
        Column to give metrics in bins of: the redshift, ``z_phot``, a magnitude.
    bin_width : float or None
        Width of the bins; 0.1 for redshifts and a tenth of the range for others by default.
    rejection : bool
        Whether to compute rejection curves.
    """

    weight: str | None = None
    keep: float | None = None
    n_bootstrap: int = 0
    seed: int = 0
    bins: str | None = None
    bin_width: float | None = None
    rejection: bool = False

    def __post_init__(self) -> None:
        if self.n_bootstrap < 0 or self.n_bootstrap == 1:
            raise ConfigError(f"`n_bootstrap` is {self.n_bootstrap}; expected at least 2 resamples, or 0 for none")
        if self.bin_width is not None and self.bins is None:
            raise ConfigError("`bin_width` is the width of the bins of a column; name it with `bins=`")
        if self.bin_width is not None and not self.bin_width > 0:
            raise ConfigError(f"`bin_width` is {self.bin_width}; expected a positive width")


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one file of predictions."""

    path: str
    n_rows: int
    n_used: int  # rows that were scored
    redshift: str  # column of the true redshift
    metrics: dict[str, float]  # by the names of `gpzed.evaluation.METRICS`
    redshift_range: tuple[float, float]  # lowest and highest true redshift used
    no_redshift: dict[str, int]  # rows without a true redshift, by what stands in its place
    cuts: Redshifts  # which redshifts count, and what was left out
    errors: dict[str, float] = field(default_factory=dict)  # bootstrap standard deviations of the metrics, if asked for
    bins: BinnedMetrics | None = None  # metrics in bins, if asked for
    curves: dict[str, RejectionCurve] = field(default_factory=dict)  # metrics against the fraction kept, if asked for

    def to_dict(self) -> dict[str, Any]:
        """Return file and metrics in one flat dictionary of plain JSON types; extras are nested."""
        about: dict[str, Any] = {
            "file": self.path,
            "n_rows": self.n_rows,
            "redshift_column": self.redshift,
            "redshift_range": list(self.redshift_range),
            "no_redshift": self.no_redshift,
            "redshift_cuts": {
                "above": self.cuts.limits.low,
                "up_to": self.cuts.limits.high,
                "origin": self.cuts.limits.origin,
                "left_out": self.cuts.outside,
            },
        }
        extra: dict[str, Any] = {}
        if self.errors:
            extra["errors"] = self.errors
        if self.bins is not None:
            extra["bins"] = {
                "edges": self.bins.edges.tolist(),
                "fractions": self.bins.fractions.tolist(),
                "counts": self.bins.counts.tolist(),
                **{name: values.tolist() for name, values in self.bins.values.items()},
            }
        if self.curves:
            extra["rejection"] = {
                "fractions": next(iter(self.curves.values())).fractions.tolist(),
                **{name: curve.values.tolist() for name, curve in self.curves.items()},
                "area": {name: curve.area for name, curve in self.curves.items()},
            }
        return {**about, **self.metrics, "n": self.n_used, **extra}


def evaluate(
    predictions: PredictionSource | PhotozCatalog | str | os.PathLike[str],
    options: EvaluationOptions | None = None,
    *,
    redshift: str | None = None,
    truth: str | os.PathLike[str] | None = None,
    min_redshift: float | None = None,
    max_redshift: float | None = None,
) -> Evaluation:
    """Score predictions against true redshifts.

    Parameters
    ----------
    predictions : path, PhotozCatalog or PredictionSource
        File of predictions, or what `predict` returned, with true redshifts among the columns; or a record that says
        where they are found, and then the other arguments do not matter.
    options : EvaluationOptions, optional
    redshift, truth, min_redshift, max_redshift : optional
        As in `PredictionSource`.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> scores = gpzed.evaluate(gpzed.predict(model, table)).metrics
    >>> scores["rmse"] < 0.1
    True
    """
    if not isinstance(predictions, PredictionSource):
        predictions = PredictionSource(predictions, redshift, None, min_redshift, max_redshift, truth)
    options = options or EvaluationOptions()
    needed = [name for name in (options.weight, options.bins) if name is not None]
    file = read_predictions(predictions, columns=needed)
    assert file.z_spec is not None
    assert file.found is not None
    rows = _kept(file.prediction, options.keep)
    weight = None if options.weight is None else _weights(file, options.weight)[rows]
    z, prediction = file.z_spec[rows], file.prediction[rows]
    scores = evaluate_prediction(z, prediction, weight)
    curves = {}
    if options.rejection:
        curves = rejection_curves(z, prediction, CURVES, fractions=FRACTIONS, sample_weight=weight)
    return Evaluation(
        file.path,
        file.n_rows,
        len(z),
        str(file.redshift),
        {name: float(value) for name, value in scores.items() if name != "n"},
        (float(z.min()), float(z.max())),
        file.found.causes,
        file.found,
        _errors(z, prediction, weight, options),
        None if options.bins is None else _bins(file, rows, options, weight),
        curves,
    )


def _errors(
    z: FloatArray, prediction: Prediction, weight: FloatArray | None, options: EvaluationOptions
) -> dict[str, float]:
    """Return bootstrap standard deviations of the metrics, if asked for."""
    if not options.n_bootstrap:
        return {}
    drawn = bootstrap_metrics(
        z, prediction, sample_weight=weight, n_resamples=options.n_bootstrap, random_state=options.seed
    )
    return {name: result.std for name, result in drawn.items()}


def improvements(results: Sequence[Evaluation]) -> dict[str, dict[str, float]]:
    """Return the gain of the first file over each of the others, in per cent, averaged over the fractions kept.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, n_members=1, n_heads=1, n_basis=5)  # small, to be quick
    >>> gpzed.predict(model, table).write("redshifts.parquet")
    >>> from gpzed.workflows import EvaluationOptions, improvements
    >>> result = gpzed.evaluate("redshifts.parquet", EvaluationOptions(rejection=True))
    >>> improvements([result, result])["redshifts.parquet"]["rmse"]
    0.0
    """
    first, *others = results
    return {
        other.path: {name: relative_improvement(curve, other.curves[name]).mean for name, curve in first.curves.items()}
        for other in others
    }


def _kept(prediction: Prediction, keep: float | None) -> Any:
    """Return positions of the objects to score."""
    if keep is None:
        return np.arange(len(prediction))
    if not 0 < keep <= 1:
        raise ConfigError(f"`keep` is {keep}; expected a fraction above 0 and at most 1, such as 0.5")
    return select(prediction, keep=keep).indices


def _weights(file: PredictionFile, column: str) -> FloatArray:
    weight = file.table.floats(column)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size or not weight.any():
        where = f"{weight[bad[0]]} in row {file.rows[bad[0]]}" if bad.size else "zero everywhere"
        raise CatalogError(
            f"'{file.path}': weight column {column!r} is {where}; give weights that are finite and not negative"
        )
    return weight


def _bins(file: PredictionFile, rows: Any, options: EvaluationOptions, weight: FloatArray | None) -> BinnedMetrics:
    """Return metrics in bins of a column, objects without a value in it left out."""
    assert file.z_spec is not None
    by = file.table.floats(str(options.bins))[rows]
    usable = np.isfinite(by) & (np.abs(by) < 90.0)  # -99, 99 and -9999 stand for no measurement
    if not usable.any():
        raise CatalogError(f"'{file.path}': no row has a value in {options.bins!r} to make bins of")
    z, prediction, by = file.z_spec[rows][usable], file.prediction[rows][usable], by[usable]
    low, high = float(by.min()), float(by.max())
    is_redshift = options.bins in (file.redshift, "z_phot")
    width = options.bin_width or (0.1 if is_redshift else max(high - low, 1e-9) / N_BINS)
    start = np.floor(low / width) if is_redshift or options.bin_width else low / width
    n_bins = max(1, int(np.ceil((high / width - start) * (1 - 1e-12))))
    if n_bins > 10_000:
        raise ConfigError(f"bins of width {width:g} from {low:g} to {high:g} are {n_bins}; give a larger `bin_width`")
    edges = np.round(width * (start + np.arange(n_bins + 1)), 12)
    edges[-1] = max(edges[-1], high)
    edges[0] = min(edges[0], low)
    return binned_metrics(
        z, prediction, BINNED, by=by, edges=edges, sample_weight=None if weight is None else weight[usable]
    )
