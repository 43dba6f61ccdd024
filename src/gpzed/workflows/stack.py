"""From a file of predictions to the redshift distribution of its objects."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gpzed._types import AnyArray, BoolArray, FloatArray, IntArray
from gpzed.catalog import Catalog, write_catalog
from gpzed.errors import CatalogError, ConfigError
from gpzed.evaluation.realisations import realise
from gpzed.evaluation.stack import RedshiftDistribution, Stack, redshift_bins, sample_names
from gpzed.prediction import OF_ALL
from gpzed.workflows.predictions import PredictionFile, PredictionSource, read_predictions, recorded

MAX_SAMPLES = 100
"""Samples at most that a column may tell apart."""


@dataclass(frozen=True)
class Shift:
    """By how much known redshifts of objects of a sample differ from predicted ones on the mean: z_spec - z_mean."""

    n: int
    shift: float
    error: float


@dataclass(frozen=True)
class StackReport:
    """What `stack` did: the distribution, rows read and left out, members told apart, labels of the model."""

    distribution: RedshiftDistribution
    n_rows: int
    n_skipped: int
    n_members: int
    n_labels: float | None = None
    shifts: tuple[Shift | None, ...] = ()  # of the samples, where some of their objects have a known redshift

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types."""
        nz = self.distribution
        samples = []
        for k, (low, high) in enumerate(itertools.pairwise(nz.sample_edges)):
            found = self.shifts[k] if self.shifts else None
            interval = None if nz.realisations is None or not nz.n[k] else nz.realisations.interval()[:, k].tolist()
            samples.append(
                {
                    "name": nz.names[k],
                    "z_phot_from": float(low) if np.isfinite(low) else None,
                    "z_phot_to": float(high) if np.isfinite(high) else None,
                    "n": int(nz.n[k]),
                    "weight": float(nz.weight[k]),
                    "mean": float(nz.mean[k]) if nz.n[k] else None,
                    "mean_error": float(nz.mean_error[k]) if nz.n[k] else None,
                    "mean_interval_68": interval,
                    "outside": float(nz.outside[k]) if nz.n[k] else None,
                    "known": None if found is None else asdict(found),
                }
            )
        return {
            "rows": self.n_rows,
            "rows_skipped": self.n_skipped,
            "members": self.n_members,
            "labels": self.n_labels,
            "range": [float(nz.edges[0]), float(nz.edges[-1])],
            "width": float(nz.edges[1] - nz.edges[0]),
            "realisations": 0 if nz.realisations is None else len(nz.realisations.mean),
            "samples": samples,
        }


def stack(
    predictions: PredictionSource | str | os.PathLike[str],
    edges: Sequence[float] | FloatArray | None = None,
    *,
    sample_edges: Sequence[float] | None = None,
    n_samples: int | None = None,
    sample_column: str | None = None,
    weight: str | None = None,
    min_coverage: float = 0.0,
    n_resamples: int = 100,
    n_realisations: int = 200,
    n_labels: float | None = None,
    seed: int = 0,
) -> StackReport:
    """Stack the predictive distributions of a file.

    Parameters
    ----------
    predictions : PredictionSource or path
        The error bars between members need the components of the mixtures.
    edges : sequence of float, optional
        Bins in redshift; by default such that they hold nearly all probability.
    sample_edges : sequence of float, optional
        Tomographic bins in ``z_phot``; one sample of all by default.
    n_samples : int, optional
        Or the number of tomographic bins, with equal numbers of objects.
    sample_column : str, optional
        Or a column whose values tell the bins apart.
    weight : str, optional
        Column of weights.
    min_coverage : float
        Objects with a lower ``z_coverage`` are left out.
    n_resamples, n_realisations, seed : int
        Of the bootstrap of the objects, and of n(z) as a whole (`gpzed.evaluation.realisations`).
    n_labels : float, optional
        Redshifts that the model was trained on; what the file says by default, 0 to leave out what they make uncertain.
    """
    if sum(choice is not None for choice in (sample_edges, n_samples, sample_column)) > 1:
        raise ConfigError("tomographic bins are given in two ways; give edges, a number of bins, or a column")
    extra = [weight, "z_coverage" if min_coverage > 0.0 else None, sample_column]
    file = read_predictions(predictions, need_truth=False, columns=[name for name in extra if name is not None])
    weights = np.ones(len(file.rows)) if weight is None else file.table.floats(weight)
    if np.any(weights < 0.0):
        raise ConfigError(f"'{file.path}': column '{weight}' has negative values; weights are 0 or more")
    keep = weights > 0.0  # leaves NaN out, too
    if min_coverage > 0.0:
        keep &= file.table.floats("z_coverage") >= min_coverage
    if not keep.any():
        raise CatalogError(f"'{file.path}': none of {file.n_rows} rows has a weight and enough coverage")
    p, weights = file.prediction[keep], weights[keep]
    if n_samples is not None:
        sample_edges = equal_numbers(p.z_phot, weights, n_samples)
    column = None if sample_column is None else file.table[sample_column][keep]
    sample, limits, names = _samples(file.path, p.z_phot, sample_edges, column, str(sample_column))
    n_members = _members(file)
    bins = redshift_bins(p) if edges is None else np.asarray(edges, dtype=np.float64)
    total = Stack(bins, n_samples=len(names), n_members=n_members, n_resamples=n_resamples, random_state=seed)
    total.add(p, weights, sample)
    try:
        result = total.result()
    except ValueError:
        raise CatalogError(f"'{file.path}': none of {file.n_rows} rows lies in any of the samples") from None
    result = replace(result, sample_edges=limits, names=names)
    if n_labels is None:
        told = file.metadata.get("gpzed_training_rows")
        n_labels = float(told) if isinstance(told, int | float) else None
    if n_realisations > 1:
        labels = n_labels or None
        drawn = realise(
            p,
            bins,
            sample,
            len(names),
            sample_weight=weights,
            n_labels=labels,
            n_members=n_members,
            n_realisations=n_realisations,
            random_state=seed,
        )
        result = replace(result, realisations=drawn, mean_error=drawn.mean_error)
    z = None if file.z_spec is None else file.z_spec[keep]
    shifts = tuple(_shift(p, z, weights, sample == k) for k in range(len(names)))
    return StackReport(result, file.n_rows, file.n_rows - int(keep.sum()), n_members, n_labels, shifts)


def equal_numbers(z_phot: FloatArray, weight: FloatArray, n: int) -> list[float]:
    """Return edges in z_phot between which there are equal numbers of objects, or weights."""
    if not 1 <= n <= MAX_SAMPLES:
        raise ConfigError(f"{n} tomographic bins are asked for; expected 1 to {MAX_SAMPLES}")
    order = np.argsort(z_phot, kind="stable")
    share = np.cumsum(weight[order]) / weight.sum()
    inner = z_phot[order][np.searchsorted(share, np.arange(1, n) / n)]
    edges = [float(z_phot.min()), *inner.tolist(), float(np.nextafter(z_phot.max(), np.inf))]
    if any(b <= a for a, b in itertools.pairwise(edges)):
        raise ConfigError(f"{n} bins of equal numbers cannot be made: too many objects share a z_phot; use fewer bins")
    return edges


def _samples(
    path: str, z_phot: FloatArray, edges: Sequence[float] | None, column: AnyArray | None, name: str
) -> tuple[IntArray, FloatArray, tuple[str, ...]]:
    """Return the sample of each object, -1 for none; edges in z_phot, NaN if cut otherwise; and names."""
    if column is not None:
        known = np.ones(len(column), dtype=bool) if column.dtype.kind not in "f" else np.isfinite(column)
        values = np.unique(column[known])
        if not 1 <= len(values) <= MAX_SAMPLES:
            raise ConfigError(
                f"'{path}': column '{name}' has {len(values)} values; expected 1 to {MAX_SAMPLES}, one for each bin"
            )
        sample = np.where(known, np.searchsorted(values, np.where(known, column, values[0])), -1)
        return sample, np.full(len(values) + 1, np.nan), tuple(f"{name} = {value}" for value in values.tolist())
    limits = np.array([-np.inf, np.inf]) if edges is None else np.asarray(edges, dtype=np.float64)
    sample = np.searchsorted(limits, z_phot, side="right") - 1
    return np.where(sample < len(limits) - 1, sample, -1), limits, sample_names(limits)


def _shift(p: Any, z: FloatArray | None, weight: FloatArray, inside: BoolArray) -> Shift | None:
    known = np.flatnonzero(inside & np.isfinite(z)) if z is not None else np.empty(0, dtype=int)
    if z is None or len(known) < 2:
        return None
    own = weight[known] / weight[known].sum()
    delta = z[known] - p.mean[known]
    mean = float(own @ delta)
    return Shift(len(known), mean, float(np.sqrt(np.sum(own**2 * (delta - mean) ** 2))))


def _members(file: PredictionFile) -> int:
    """Return the members of the committee that the file's metadata tell of, if its components are all there."""
    if recorded(file.metadata, "gpzed_pdf", "form") != "full":
        return 1
    return max(len(set(file.prediction.components.member.tolist()) - {OF_ALL}), 1)


def write_distribution(report: StackReport, path: str | os.PathLike[str]) -> None:
    """Write n(z) as a table: one row per bin in redshift, four columns per sample."""
    nz = report.distribution
    columns: dict[str, Any] = {"z_low": nz.edges[:-1], "z_high": nz.edges[1:]}
    for k in range(len(nz.n)):
        columns[f"nz_{k + 1}"] = nz.density[k]
        columns[f"nz_err_bootstrap_{k + 1}"] = nz.bootstrap_error[k]
        columns[f"nz_err_committee_{k + 1}"] = nz.committee_error[k]
        if nz.realisations is not None:
            columns[f"nz_err_{k + 1}"] = nz.realisations.density[:, k].std(axis=0, ddof=1)
    write_catalog(Catalog(columns), path, metadata={"gpzed_nz": report.to_dict()})
