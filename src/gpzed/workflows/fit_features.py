"""The features of a training run, with what `errors` = "auto" means settled by held-out rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpzed._types import FloatArray
from gpzed.catalog import Photometry
from gpzed.config import RunConfig
from gpzed.errors import ConfigError
from gpzed.features import FeatureTransformer, fit_transformer, photometry_rows
from gpzed.features.excess import says_something
from gpzed.model.probe import MAX_ROWS, MIN_ROWS, gain_of_inputs


def fit_features(
    photometry: Photometry, z: FloatArray, config: RunConfig, ebv: FloatArray | None
) -> tuple[FeatureTransformer, str]:
    """Fit the features to training rows, and say how the errors are used, and why.

    With `errors` = "auto", the excess of the errors becomes an input where a quick trial gains by it. With a target
    catalogue it never does: its errors may be of another depth.
    """
    options = config.features
    if options.errors == "excess":
        asked = fit_transformer(photometry, options, ebv)
        if not says_something(asked.transform(photometry, ebv).X[:, -1]):
            raise ConfigError('`errors` is "excess" but they follow from the magnitudes; set it to "auto" or "none"')
        return asked, '"excess", as asked'
    if options.errors != "auto":
        return fit_transformer(photometry, options, ebv), f'"{options.errors}", as asked'
    plain = fit_transformer(photometry, replace(options, errors="none"), ebv)
    if not np.isfinite(photometry.errors).any():
        return plain, "none are known"
    if config.target.catalogue:
        return plain, "no input: those of the target may be of another depth"
    if len(photometry) < MIN_ROWS:
        return plain, f"no input: fewer than {MIN_ROWS:,} rows cannot tell whether one would help"
    richer = fit_transformer(photometry, replace(options, errors="excess"), ebv)
    rng = np.random.default_rng(config.seed)
    chosen = np.sort(rng.permutation(len(photometry))[:MAX_ROWS])
    part, part_ebv = photometry_rows(photometry, chosen), None if ebv is None else ebv[chosen]
    before, after = (transformer.transform(part, part_ebv).X for transformer in (plain, richer))
    if not says_something(after[:, -1]):
        return plain, "no input: they follow from the magnitudes"
    gain = gain_of_inputs(before, after, z[chosen], rng)
    found = f"held-out rows of a trial gain {gain} by it"
    if gain.is_likely:
        return richer, f"their excess is an input: {found}"
    return plain, f"their excess is no input: {found}"
