"""The features of a training run, with what `errors` = "auto" means settled by held-out rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import Photometry
from gpzed.config import RunConfig
from gpzed.features import FeatureTransformer, fit_transformer, photometry_rows
from gpzed.incomplete.patterns import RawRows
from gpzed.model.probe import MAX_ROWS, MIN_ROWS, gain_of_inputs


def fit_features(
    photometry: Photometry, z: FloatArray, config: RunConfig, ebv: FloatArray | None
) -> FeatureTransformer:
    """Fit the features to training rows.

    With `errors` = "auto", logarithms of the errors become inputs where a quick trial gains by them. With a
    target catalogue they never do: its errors may be of another depth.
    """
    options = config.features
    if options.errors != "auto":
        return fit_transformer(photometry, options, ebv)
    plain = fit_transformer(photometry, replace(options, errors="none"), ebv)
    has_errors = bool(np.isfinite(photometry.errors).any())
    if not has_errors or len(photometry) < MIN_ROWS or config.target.catalogue:
        return plain
    richer = fit_transformer(photometry, replace(options, errors="inputs"), ebv)
    rng = np.random.default_rng(config.seed)
    chosen = np.sort(rng.permutation(len(photometry))[:MAX_ROWS])
    part, part_ebv = photometry_rows(photometry, chosen), None if ebv is None else ebv[chosen]
    inputs = [transformer.transform(part, part_ebv).X for transformer in (plain, richer)]
    rows = RawRows(inputs[0], z[chosen], np.ones(len(chosen)))
    return richer if gain_of_inputs(inputs[0], inputs[1], rows, rng).is_certain else plain
