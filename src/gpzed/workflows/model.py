"""A trained model with all that leads from a catalogue to its inputs: what `gpzed train` writes."""

from __future__ import annotations

import copy
import hashlib
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpzed
from gpzed._files import check_output, write_atomically
from gpzed._types import FloatArray
from gpzed.catalog import (
    CatalogInfo,
    PhotometrySchema,
    ScaleSummary,
    Sentinels,
    local_path,
)
from gpzed.config import Point, PredictConfig, RunConfig, SchemaConfig
from gpzed.errors import ModelFormatError
from gpzed.features import FeatureTransformer, Flag, flag_legend
from gpzed.model import GPzRegressor
from gpzed.model.container import read_bytes
from gpzed.model.coverage import THRESHOLD
from gpzed.model.modelfile import ModelFile, pack_model, unpack_model
from gpzed.model.records import from_parts, to_parts
from gpzed.prediction import Prediction
from gpzed.workflows.cautions import cautions, refuse_other_units, strange_units, units_are_stated, warn_all
from gpzed.workflows.columns import column_notes, quoted, settled
from gpzed.workflows.inputs import needed_columns
from gpzed.workflows.photoz_catalog import PhotozCatalog
from gpzed.workflows.rows import predict_rows
from gpzed.workflows.schema import absent_bands_text, matching_schema
from gpzed.workflows.tables import as_table

if TYPE_CHECKING:
    from gpzed.workflows.train import TrainReport


@dataclass(frozen=True, repr=False)
class PhotozModel:
    """A fitted estimator with its schema, features, configuration and provenance."""

    regressor: GPzRegressor
    schema: PhotometrySchema  # of the training catalogue
    transformer: FeatureTransformer
    config: RunConfig  # of the training run
    redshift_mean: float  # of the training rows; the prediction for objects without any measurement
    redshift_variance: float
    scale: ScaleSummary  # of the training rows
    provenance: dict[str, Any]  # version of gpzed, training catalogue and its hash, rows, use of errors, date
    path: str = field(default="", compare=False)  # of the model file; empty if it was not read from one
    file_sha256: str | None = field(default=None, compare=False)
    report: TrainReport | None = field(default=None, compare=False)  # how training went; not kept in the model file

    def __repr__(self) -> str:
        what = f"{self.regressor.n_basis_} basis functions ({self.regressor.covariance})"
        return f"<PhotozModel of {what}, bands {', '.join(self.schema.bands)}>"

    @property
    def sentinels(self) -> Sentinels:
        """The numbers that are no measurements."""
        return self.config.sentinels

    @property
    def n_components(self) -> int:
        """Gaussians per object that a prediction is a mixture of."""
        return self.regressor.n_components_

    @property
    def needs_ebv(self) -> bool:
        """Whether the inputs are corrected for extinction."""
        return bool(self.transformer.config.extinction)

    @property
    def sha256(self) -> str:
        """SHA-256 of the model file, or of the one that `save` would write."""
        return self.file_sha256 or hashlib.sha256(self._packed()).hexdigest()

    def with_threads(self, n_threads: int | None) -> PhotozModel:
        """Return the same model, to be used with so many threads; all cores if None."""
        regressor = copy.copy(self.regressor)
        regressor.n_threads = n_threads
        return replace(self, regressor=regressor, file_sha256=self.sha256)

    def asked(self, options: PredictConfig | None = None) -> PredictConfig:
        """Return the options of a prediction, by default those of training, with what is quoted chosen.

        Where training is unlike the target, many objects are off by far, and what is quoted guards against it.
        """
        options = options or self.config.predict
        usual: Point = "safe" if self.config.target.catalogue else "best"
        return replace(options, point=options.point or self.config.predict.point or usual)

    def predict(
        self, data: Any, options: PredictConfig | None = None, *, schema: SchemaConfig | None = None
    ) -> PhotozCatalog:
        """Predict redshifts for the rows of a table, each as if it were alone.

        Parameters
        ----------
        data : data frame (pandas, polars, pyarrow), astropy table, dict of arrays, Catalog, or path
        options : PredictConfig, optional
            What z_phot is, quantiles, components; those of training by default.
        schema : SchemaConfig, optional
            Which column is what, if neither as in training nor to be guessed.

        Returns
        -------
        PhotozCatalog
            Its `to_table` is a table of the same kind with the redshifts added, `prediction` has the densities.
        """
        options, schema = self.asked(options), schema or SchemaConfig()
        table = as_table(data, schema)
        found = matching_schema(table.names, self.schema, schema, self.needs_ebv, table.units)
        info = table.info()
        warn_all(strange_units(found, schema, info.units))
        prediction, report, seen = predict_rows(self, table.catalog(needed_columns(found)), found, exact=options.exact)
        refuse_other_units(self.scale, seen.scale, info.path, units_are_stated(found, schema, info.units))
        warn_all(cautions(self.scale, seen, info.path, absent_bands_text(found, self.schema, table.names)))
        metadata = self.metadata(info, found, settled(options, self.n_components))
        return PhotozCatalog(quoted(prediction, options), table, found, options, report, metadata)

    def predict_inputs(
        self,
        X: FloatArray,
        flags: Any,
        X_std: FloatArray | None = None,
        *,
        exact: bool = False,
        lean: bool = False,
    ) -> Prediction:
        """Predict for inputs and their flags; objects without a measurement get the prior.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        flags : ndarray of uint32 of shape (n,)
        X_std : ndarray of shape (n, d), or None
            Errors of the inputs, if the features have them as noise.
        exact, lean : bool
            As in `GPzRegressor.predict_distribution`.

        Returns
        -------
        Prediction
            With `flags`; objects that the training rows do not cover are flagged here.
        """
        return self.flagged(self.regressor.predict_distribution(X, X_std=X_std, exact=exact, lean=lean), flags)

    def flagged(self, prediction: Prediction, flags: Any) -> Prediction:
        """Do the same with what the regressor predicts."""
        blind = (flags & np.uint32(Flag.NO_MEASUREMENT)) != 0
        components = prediction.components.filled(blind, self.redshift_mean, self.redshift_variance)
        coverage = prediction.coverage
        if coverage is not None:
            coverage = np.where(blind, 0.0, coverage)
            flags = flags | np.where(coverage < THRESHOLD, np.uint32(Flag.OUTSIDE_COVERAGE), np.uint32(0))
        return quoted(prediction.changed(components=components, coverage=coverage, flags=flags), self.asked())

    def metadata(self, info: CatalogInfo, schema: PhotometrySchema, options: PredictConfig) -> dict[str, Any]:
        """Return what a file of predictions says about itself; no times, so that equal runs give equal files.

        The options are settled.
        """
        pdf: dict[str, Any] = {"form": options.pdf, "lower": 0.0 if options.positive else None}
        pdf |= self.regressor.component_labels_ if options.pdf == "full" else {}
        pdf |= {"grid": list(options.pdf_grid)} if options.pdf == "grid" else {}
        return {
            **info.metadata,
            "gpzed_version": gpzed.__version__,
            "gpzed_model": Path(self.path).name,
            "gpzed_model_sha256": self.sha256,
            "gpzed_training_rows": self.provenance["rows"]["train"],
            "gpzed_input": Path(info.path).name,
            "gpzed_input_rows": info.n_rows,
            "gpzed_schema": schema.to_dict(),
            "gpzed_features": list(self.transformer.names),
            "gpzed_config": self.config.to_dict(),
            "gpzed_point": options.point,
            "gpzed_quantiles": list(options.quantiles),
            "gpzed_pdf": pdf,
            "gpzed_flags": flag_legend(),
            "gpzed_columns": {name: note.description for name, note in column_notes(options).items()},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one model file, atomically; `gpzed.load_model` reads it."""
        check_output(path, "the model")
        write_atomically(path, self._packed())

    def _packed(self) -> bytes:
        about = _Pipeline(
            self.schema,
            self.transformer,
            self.config.to_dict(),
            self.redshift_mean,
            self.redshift_variance,
            self.scale,
            _Provenance(**self.provenance),
        )
        return pack_model(self.regressor.to_file(to_parts(about)[0]))


@dataclass(frozen=True)
class _Pipeline:
    """What the model file holds beside the estimator."""

    schema: PhotometrySchema
    features: FeatureTransformer
    config: dict[str, Any]
    redshift_mean: float
    redshift_variance: float
    scale: ScaleSummary
    provenance: _Provenance


@dataclass(frozen=True)
class _Provenance:
    """Where a model comes from."""

    gpzed_version: str
    catalogue: str
    catalogue_sha256: str
    rows: dict[str, int]
    redshift_range: list[float]
    errors: str
    date: str

    def __post_init__(self) -> None:
        if not {"read", "train"} <= set(self.rows) or len(self.redshift_range) != 2:
            raise ValueError("`provenance` does not say how many rows there were, or between which redshifts")


def load_model(path: str | os.PathLike[str]) -> PhotozModel | GPzRegressor:
    """Read a model file.

    Parameters
    ----------
    path : path
        Written by `gpzed train` or `PhotozModel.save`, or by `GPzRegressor.save`.

    Returns
    -------
    PhotozModel or GPzRegressor
        The object that was saved; it predicts what that one did, bit for bit.

    Raises
    ------
    ModelFormatError
        If the file is missing, not a model, truncated, altered, or of a later version.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, "model.gpzed", n_members=1, n_heads=1, n_basis=5)
    >>> gpzed.load_model("model.gpzed")
    <PhotozModel of 5 basis functions (VC), bands u, g, r, i, z>
    """
    path = local_path(path)
    payload = read_bytes(path, ModelFormatError)
    file = unpack_model(payload, path)
    try:
        regressor = GPzRegressor.from_file(file)
        return regressor if file.pipeline is None else _photoz_model(regressor, file, os.fspath(path), payload)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, ArithmeticError, RecursionError) as reason:
        raise ModelFormatError(
            f'"{os.fspath(path)}" was written by another version of gpzed than this one, {gpzed.__version__} '
            f"({str(reason)[:300]}); use that version, or train again."
        ) from reason


def _photoz_model(regressor: GPzRegressor, file: ModelFile, path: str, payload: bytes) -> PhotozModel:
    stored = from_parts(_Pipeline, file.pipeline, {})
    _check_pipeline(stored, regressor)
    return PhotozModel(
        regressor,
        stored.schema,
        stored.features,
        RunConfig.from_dict(stored.config, source="its configuration"),
        stored.redshift_mean,
        stored.redshift_variance,
        stored.scale,
        asdict(stored.provenance),
        path,
        hashlib.sha256(payload).hexdigest(),
    )


def load_photoz_model(path: str | os.PathLike[str]) -> PhotozModel:
    """Read a model that can be applied to catalogues.

    Parameters
    ----------
    path : path
        Written by `gpzed train` or `PhotozModel.save`.

    Raises
    ------
    ModelFormatError
        If the file is not a model, is damaged, or was saved by `GPzRegressor.save`, without schema and features.

    Examples
    --------
    >>> import gpzed
    >>> from gpzed.simulate import simulate_survey
    >>> table = simulate_survey(400, survey="sdss", random_state=0, only_spectroscopic=True).columns()
    >>> model = gpzed.train(table, "model.gpzed", n_members=1, n_heads=1, n_basis=5)
    >>> from gpzed.workflows import load_photoz_model
    >>> load_photoz_model("model.gpzed").schema.bands
    ('u', 'g', 'r', 'i', 'z')
    """
    model = load_model(path)
    if isinstance(model, GPzRegressor):
        raise ModelFormatError(
            f'"{os.fspath(path)}" holds an estimator without schema and features (GPzRegressor.save wrote it); '
            "use it from Python with gpzed.load_model, or train with `gpzed train`."
        )
    return model


def _check_pipeline(stored: _Pipeline, regressor: GPzRegressor) -> None:
    """Refuse parts of a pipeline that do not fit each other or the model."""
    features, d = stored.features, regressor.n_features_in_
    b, k = len(features.bands), features.n_columns
    lengths = {name: [k] for name in ("lower", "upper", "mean", "faint", "covariance")} | {"center": [d]}
    lengths |= {name: [0, b] for name in ("softening", "faint_error", "marginalised")}
    for name, allowed in lengths.items():
        if len(getattr(features, name)) not in allowed:
            raise ValueError(f"`features/{name}` has {len(getattr(features, name))} values; expected {allowed[-1]}")
    covariance = np.array(features.covariance)
    has_errors = regressor.members_[0].standardisation.inputs.errors is not None
    if (
        not features.bands == stored.schema.bands == stored.scale.bands
        or len(features.names) != d
        or features.has_noise != has_errors
        or (features.usual_errors is not None and len(features.usual_errors.scatter) != b)
    ):
        raise ValueError(f"features {features.names} of bands {features.bands} are not those of the model")
    if not all(1e-100 < value < 1e100 for value in features.softening):
        raise ValueError("`features/softening` is out of range")
    if covariance.shape != (k, k) or not np.linalg.eigvalsh(covariance).min() > -1e-6 * np.abs(covariance).max():
        raise ValueError("`features/covariance` is no covariance")
    if not stored.redshift_variance > 0.0 or not np.isfinite([*features.mean, *features.center]).all():
        raise ValueError("`redshift_variance`, `features/mean` or `features/center` is out of range")
