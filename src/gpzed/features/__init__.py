"""From photometry to the inputs of the model: features, flags, cost weights and the split of the rows."""

from __future__ import annotations

from gpzed.features.config import FeatureConfig, TargetConfig
from gpzed.features.flags import FLAG_MEANINGS, Flag, count_flags, flag_legend
from gpzed.features.split import Split, SplitConfig, random_split, split_by_column
from gpzed.features.transformer import FeatureTransformer, fit_transformer, photometry_rows
from gpzed.features.weights import (
    MAX_TARGET_ROWS,
    WeightConfig,
    balanced_weights,
    normalised,
    redshift_weights,
    target_weights,
)

__all__ = [
    "FLAG_MEANINGS",
    "MAX_TARGET_ROWS",
    "FeatureConfig",
    "FeatureTransformer",
    "Flag",
    "Split",
    "SplitConfig",
    "TargetConfig",
    "WeightConfig",
    "balanced_weights",
    "count_flags",
    "fit_transformer",
    "flag_legend",
    "normalised",
    "photometry_rows",
    "random_split",
    "redshift_weights",
    "split_by_column",
    "target_weights",
]
