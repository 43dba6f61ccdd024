"""Fitted models: the scikit-learn estimator, its committee and the model file."""

from __future__ import annotations

import os

from gpzed.errors import ModelFormatError
from gpzed.model.estimator import GPzRegressor
from gpzed.model.member import TrainingReport
from gpzed.model.modelfile import read_model
from gpzed.model.options import Training
from gpzed.model.run import HEADS_STAGE, Run, StepInfo

__all__ = [
    "HEADS_STAGE",
    "GPzRegressor",
    "Run",
    "StepInfo",
    "Training",
    "TrainingReport",
    "load_model",
]


def load_model(path: str | os.PathLike[str]) -> GPzRegressor:
    """Read a model that `GPzRegressor.save` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    GPzRegressor
        Fitted; predicts what the saved one did, bit for bit.

    Raises
    ------
    ModelFormatError
        If the file is missing, not a model, truncated, altered, or of a later version.
    """
    header, members = read_model(path)
    try:
        return GPzRegressor.from_parts(header, members)
    except (KeyError, TypeError, IndexError, ValueError) as reason:
        raise ModelFormatError(
            f'"{os.fspath(path)}" does not describe a GPzRegressor of this version ({reason}); train again.'
        ) from reason
