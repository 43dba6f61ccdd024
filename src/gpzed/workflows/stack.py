"""From a file of predictions to the redshift distribution of its objects."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import Catalog, write_catalog
from gpzed.errors import CatalogError, ConfigError
from gpzed.evaluation.stack import RedshiftDistribution, Stack
from gpzed.workflows.predictions import PredictionFile, PredictionSource, read_predictions, recorded


@dataclass(frozen=True)
class StackReport:
    """What `stack` did: the distribution, rows read and left out, members told apart."""

    distribution: RedshiftDistribution
    n_rows: int
    n_skipped: int
    n_members: int

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types."""
        nz = self.distribution
        samples = [
            {
                "z_phot_from": float(low) if np.isfinite(low) else None,
                "z_phot_to": float(high) if np.isfinite(high) else None,
                "n": int(nz.n[k]),
                "weight": float(nz.weight[k]),
                "mean": float(nz.mean[k]) if nz.n[k] else None,
                "mean_error": float(nz.mean_error[k]) if nz.n[k] else None,
            }
            for k, (low, high) in enumerate(zip(nz.sample_edges[:-1], nz.sample_edges[1:], strict=True))
        ]
        return {"rows": self.n_rows, "rows_skipped": self.n_skipped, "members": self.n_members, "samples": samples}


def stack(
    predictions: PredictionSource | str | os.PathLike[str],
    edges: Sequence[float] | FloatArray,
    *,
    sample_edges: Sequence[float] | None = None,
    weight: str | None = None,
    min_coverage: float = 0.0,
    n_resamples: int = 100,
    seed: int = 0,
) -> StackReport:
    """Stack the predictive distributions of a file.

    Parameters
    ----------
    predictions : PredictionSource or path
        The error bars between members need the components of the mixtures.
    edges : sequence of float
        Bins in redshift.
    sample_edges : sequence of float, optional
        Tomographic bins in ``z_phot``; one sample of all by default.
    weight : str, optional
        Column of weights.
    min_coverage : float
        Objects with a lower ``z_coverage`` are left out.
    n_resamples, seed : int
        Of the bootstrap.
    """
    extra = [name for name in (weight, "z_coverage" if min_coverage > 0.0 else None) if name is not None]
    file = read_predictions(predictions, need_truth=False, columns=extra)
    weights = np.ones(len(file.rows)) if weight is None else file.table.floats(weight)
    if np.any(weights < 0.0):
        raise ConfigError(f"'{file.path}': column {weight!r} has negative values; weights are 0 or more")
    keep = weights > 0.0  # leaves NaN out, too
    if min_coverage > 0.0:
        keep &= file.table.floats("z_coverage") >= min_coverage
    n_members = _members(file)
    total = Stack(edges, sample_edges, n_members=n_members, n_resamples=n_resamples, random_state=seed)
    if keep.any():
        total.add(file.prediction[keep], weights[keep])
    try:
        result = total.result()
    except ValueError:
        raise CatalogError(f"'{file.path}': none of {file.n_rows} rows lies in any of the samples") from None
    return StackReport(result, file.n_rows, file.n_rows - int(keep.sum()), n_members)


def _members(file: PredictionFile) -> int:
    """Return the members of the committee that the file's metadata tell of, if its components are all there."""
    stored = recorded(file.metadata, "gpzed_config", "model", "n_members")
    n_components = file.prediction.n_components
    if not isinstance(stored, int) or "z_weight_1" not in file.names:
        return 1
    return stored if n_components >= stored and n_components % stored <= 1 else 1


def write_distribution(report: StackReport, path: str | os.PathLike[str]) -> None:
    """Write n(z) as a table: one row per bin in redshift, three columns per sample."""
    nz = report.distribution
    columns: dict[str, Any] = {"z_low": nz.edges[:-1], "z_high": nz.edges[1:]}
    for k in range(len(nz.n)):
        columns[f"nz_{k + 1}"] = nz.density[k]
        columns[f"nz_err_bootstrap_{k + 1}"] = nz.bootstrap_error[k]
        columns[f"nz_err_committee_{k + 1}"] = nz.committee_error[k]
    write_catalog(Catalog(columns), path, metadata={"gpzed_nz": report.to_dict()})
