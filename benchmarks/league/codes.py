"""The codes of the league: RAIL stages with their own defaults, and scikit-learn's random forest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Code:
    """One entrant.

    Attributes
    ----------
    label : str
        Name in the table.
    distribution : str
        Package whose version is quoted.
    module, informer, estimator : str
        Where its stages are; empty for the forest, which is no RAIL stage.
    options : dict
        Options that differ from the defaults, for both stages.
    note : str
        What a reader must know about its densities.
    """

    label: str
    distribution: str
    module: str
    informer: str
    estimator: str
    options: dict[str, Any] = field(default_factory=dict)
    note: str = ""


BANDS = {"dc2": "ugrizy", "taskset1": "ugrizy", "boss": "ugriz", "gama": "grizy"}
"""Catalogues and their bands."""


CODES = {
    "gpzed": Code("gpzed", "gpzed", "gpzed", "GPZedInformer", "GPZedEstimator"),
    "gpz-v1": Code("GPz v1", "pz-rail-gpz-v1", "gpz", "GPzInformer", "GPzEstimator"),
    "gpz-compat": Code(
        "gpzed as GPz v1",
        "gpzed",
        "gpzed_compat",
        "GPzCompatInformer",
        "GPzCompatEstimator",
        note="gpzed under GPz v1's options and defaults: one Gaussian",
    ),
    "flexzboost": Code("FlexZBoost", "pz-rail-flexzboost", "flexzboost", "FlexZBoostInformer", "FlexZBoostEstimator"),
    "knn": Code("k nearest neighbours", "pz-rail-sklearn", "k_nearneigh", "KNearNeighInformer", "KNearNeighEstimator"),
    "nn": Code(
        "neural network",
        "pz-rail-sklearn",
        "sklearn_neurnet",
        "SklNeurNetInformer",
        "SklNeurNetEstimator",
        note="scales its inputs chunk by chunk",
    ),
    "tpz": Code("TPZ", "pz-rail-tpz", "tpz_lite", "TPZliteInformer", "TPZliteEstimator"),
    "dnf": Code("DNF", "pz-rail-dnf", "dnf", "DNFInformer", "DNFEstimator"),
    "cmnn": Code("CMNN", "pz-rail-cmnn", "cmnn", "CMNNInformer", "CMNNEstimator"),
    "forest": Code(
        "random forest",
        "scikit-learn",
        "",
        "",
        "",
        note="a Gaussian with mean and standard deviation of its trees",
    ),
}
