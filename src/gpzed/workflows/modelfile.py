"""A trained model with all that leads from a catalogue to its inputs: what `gpzed train` writes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import gpzed
from gpzed._types import FloatArray
from gpzed.catalog import PhotometrySchema, Sentinels
from gpzed.config import PredictConfig, RunConfig
from gpzed.errors import ModelFormatError
from gpzed.features import FeatureTransformer, Flag, without_retired
from gpzed.model import GPzRegressor
from gpzed.model.coverage import THRESHOLD
from gpzed.model.modelfile import read_model, save_with_pipeline
from gpzed.prediction import Prediction


def quoted(prediction: Prediction, options: PredictConfig) -> Prediction:
    """Return the same densities, cut at zero or not, and quoted by the number that the options ask for."""
    lower = 0.0 if options.positive else None
    if isinstance(prediction.point, str) and (prediction.lower, prediction.point) == (lower, options.point):
        return prediction
    return replace(prediction, lower=lower, point=options.point)


@dataclass(frozen=True, repr=False)
class TrainedPipeline:
    """A fitted estimator with its schema, features, configuration and provenance.

    Attributes
    ----------
    model : GPzRegressor
    schema : PhotometrySchema
        Of the training catalogue.
    transformer : FeatureTransformer
    config : RunConfig
        Of the training run.
    redshift_mean, redshift_variance : float
        Of the training rows; the prediction for objects without any measurement.
    provenance : dict
        Version of gpzed, training catalogue and its hash, numbers of rows, date.
    """

    model: GPzRegressor
    schema: PhotometrySchema
    transformer: FeatureTransformer
    config: RunConfig
    redshift_mean: float
    redshift_variance: float
    provenance: dict[str, Any]

    def __repr__(self) -> str:
        what = f"{self.model.n_basis_} basis functions ({self.model.covariance})"
        return f"<TrainedPipeline of {what}, bands {', '.join(self.schema.bands)}>"

    @property
    def sentinels(self) -> Sentinels:
        """The numbers that are no measurements."""
        return self.config.sentinels

    @property
    def n_components(self) -> int:
        """Gaussians per object that a prediction is a mixture of."""
        return self.model.n_components_

    def predict(self, X: FloatArray, flags: Any, X_std: FloatArray | None = None) -> Prediction:
        """Predict for inputs and their flags; objects without a measurement get the prior.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        flags : ndarray of uint32 of shape (n,)
        X_std : ndarray of shape (n, d), or None
            Errors of the inputs, if the features have them as noise.

        Returns
        -------
        Prediction
            With `flags`; objects that the training rows do not cover are flagged here.
        """
        prediction = self.model.predict_distribution(X, X_std=X_std)
        blind = (flags & np.uint32(Flag.NO_MEASUREMENT)) != 0
        parts: dict[str, Any] = {
            name: getattr(prediction, name)
            for name in ("weights", "means", "model_variances", "noise_variances", "input_variances")
        }
        if blind.any():
            parts = {name: np.array(values) for name, values in parts.items()}
            for name, value in (
                ("means", self.redshift_mean),
                ("model_variances", 0.0),
                ("noise_variances", self.redshift_variance),
                ("input_variances", 0.0),
            ):
                parts[name][blind] = value
        coverage = prediction.coverage
        if coverage is not None:
            coverage = np.where(blind, 0.0, coverage)
            flags = flags | np.where(coverage < THRESHOLD, np.uint32(Flag.OUTSIDE_COVERAGE), np.uint32(0))
        return quoted(replace(prediction, **parts, coverage=coverage, flags=flags), self.config.predict)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one model file, atomically."""
        stored = {
            "schema": self.schema.to_dict(),
            "features": self.transformer.to_dict(),
            "config": self.config.to_dict(),
            "redshift_mean": self.redshift_mean,
            "redshift_variance": self.redshift_variance,
            "provenance": self.provenance,
        }
        save_with_pipeline(path, self.model, stored)


def load_pipeline(path: str | os.PathLike[str]) -> TrainedPipeline:
    """Read what `gpzed train` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    TrainedPipeline

    Raises
    ------
    ModelFormatError
        If the file is no model, is damaged, or was saved by `GPzRegressor.save`, without schema and features.
    """
    header, members = read_model(path)
    stored = header.get("pipeline")
    if stored is None:
        raise ModelFormatError(
            f'"{os.fspath(path)}" holds an estimator without schema and features (GPzRegressor.save wrote it); '
            "use it from Python with gpzed.load_model, or train with `gpzed train`."
        )
    try:
        config = stored["config"] | {"features": without_retired(stored["config"]["features"])}
        return TrainedPipeline(
            GPzRegressor.from_parts(header, members),
            PhotometrySchema.from_dict(stored["schema"]),
            FeatureTransformer.from_dict(stored["features"]),
            RunConfig.from_dict(config, source="its configuration"),
            stored["redshift_mean"],
            stored["redshift_variance"],
            stored["provenance"],
        )
    except (KeyError, TypeError, ValueError) as reason:
        raise ModelFormatError(
            f'"{os.fspath(path)}" was written by another version of gpzed than this one, {gpzed.__version__} '
            f"({reason}); use that version, or train again."
        ) from reason


def load_estimator(path: str | os.PathLike[str]) -> GPzRegressor | TrainedPipeline:
    """Read a model file of either kind: with schema and features, or the estimator alone.

    Parameters
    ----------
    path : path
        Written by `gpzed train` or by `GPzRegressor.save`.

    Returns
    -------
    TrainedPipeline or GPzRegressor
    """
    header, members = read_model(path)
    return load_pipeline(path) if header.get("pipeline") is not None else GPzRegressor.from_parts(header, members)


def model_hash(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a model file."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ModelFormatError(
            f"model file '{os.fspath(path)}' cannot be read: {error.strerror}; check the path"
        ) from None
