"""Training sets that are not like the target: what is done about it, by which evidence, and what it leaves open."""

from __future__ import annotations

import dataclasses
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.catalog import Photometry, PhotometrySchema, Scale, catalog_info, extract_photometry, iter_catalog
from gpzed.catalog.photometry import SentinelReport, Status
from gpzed.config import RunConfig, SchemaConfig
from gpzed.errors import CatalogError, ConfigError, ConvergenceWarning
from gpzed.features import MAX_TARGET_ROWS, Split, fit_transformer, photometry_rows, target_weights
from gpzed.features.bands import POGSON
from gpzed.features.dimming import MIN_OVERLAP, Dimmed, dim
from gpzed.features.fluxes import Survey
from gpzed.features.labels import Labels
from gpzed.model.coverage import fit_coverage
from gpzed.progress import Progress
from gpzed.workflows.cautions import TARGET_UNITS, refuse_other_units, units_are_stated, warn_all
from gpzed.workflows.inputs import ebv_of, needed_columns
from gpzed.workflows.schema import target_access, target_schema
from gpzed.workflows.simulated import MAX_UNEXPLAINED, simulated_galaxies
from gpzed.workflows.tables import as_table

MIN_DIMMED, MAX_DIMMED = 5_000, 20_000
"""Rows made by dimming, where their number is not given."""
HELD_PART = 0.1
"""Galaxies that are held out, with all that is made of them, where no rows are set aside for validation."""
TRIAL_ROWS = 3_000
"""Rows of each kind that a model is trained on to compare what may be done."""
OUTSKIRTS = 0.05
"""Part of the training rows, those with the fewest others around them, beyond which the target is not covered. A few
outliers among the training rows do not move the edge of that part, but that of the much smaller one where predictions
are doubted."""
MIN_OUTSIDE = 0.1
"""Share of the target that the training rows do not cover from which on dimmed rows are tried; of the same galaxies up
to 0.03 seem to lie outside. Where few do, a trial on dimmed rows alone would judge by what hardly occurs."""
MOSTLY_OUTSIDE = 0.9
"""Share of the target that the training rows do not cover from which on nothing tells whether dimmed rows are right."""
MIN_HELD = 50
"""Dimmed rows of held-out galaxies that it takes to judge by."""
MIN_GAIN = 0.02
"""Part of the CRPS of held-out rows that a change must gain to be made. The CRPS decides since a few rows do not."""


class Rows(NamedTuple):
    """Rows with redshifts, before they become inputs."""

    photometry: Photometry
    ebv: FloatArray | None
    labels: Labels
    split: Split
    weights: FloatArray | None = None

    @property
    def z(self) -> FloatArray:
        """Redshifts."""
        return self.labels.z


@dataclass(frozen=True)
class TargetReport:
    """What was done to make training rows look like the target."""

    catalogue: str
    adapted: str  # "dim", "weights" or "none"; "auto" where no trial has decided yet
    scores: dict[str, float] = field(default_factory=dict)  # weighted CRPS of held-out rows, by what is done
    outside: float = 0.0  # share of the target that the training rows as given do not cover
    unexplained: float | None = None  # share of the target that no dimmed galaxy explains
    n_dimmed: int = 0
    dimming: float = 0.0  # median magnitudes by which they were dimmed
    is_hedged: bool = False  # whether every second member does without them, since nothing tells if they are right
    simulated: str = ""
    zero_points: dict[str, float] = field(default_factory=dict)  # magnitudes added to simulated galaxies, by band
    missed: float = 0.0  # share of the training rows that simulated galaxies do not explain

    @property
    def refuses(self) -> bool:
        """Whether simulated galaxies are too unlike those with spectra to learn from."""
        return self.missed > MAX_UNEXPLAINED

    @property
    def about_simulated(self) -> str:
        """Say what became of simulated galaxies."""
        moved = ", ".join(f"{band} {shift:+.3f}" for band, shift in self.zero_points.items())
        return (
            f"simulated galaxies of '{self.simulated}' are {'refused' if self.refuses else 'used too'}: they leave "
            f"{100 * self.missed:.0f} % of the training rows unexplained (limit {100 * MAX_UNEXPLAINED:.0f} %); "
            f"zero points moved by {moved}"
        )

    def __str__(self) -> str:
        """Say it in a few lines."""
        lines = [f"target '{self.catalogue}': {100 * self.outside:.0f} % lies outside what the training rows cover"]
        if self.scores:
            listed = ", ".join(f"{name} {score:.4f}" for name, score in self.scores.items())
            lines.append(f"CRPS of held-out rows that look like the target: {listed}")
        done = {
            "none": "training rows stay as they are",
            "weights": "training rows are weighted to look like it",
            "auto": "trial models decide whether training rows stay as they are, are weighted, or join dimmed ones",
            "dim": f"{self.n_dimmed:,} rows are made of galaxies dimmed by {self.dimming:.1f} mag on the median",
        }
        lines.append(done[self.adapted] if self.n_dimmed or self.adapted != "dim" else "galaxies will be dimmed")
        if self.is_hedged:
            lines.append("every second member of the committee does without them: nothing tells whether they are right")
        if self.unexplained is not None:
            lines.append(f"{100 * self.unexplained:.1f} % of it remain that no dimmed galaxy explains")
        if self.simulated:
            lines.append(self.about_simulated)
        return "\n".join(lines)


def adapt(
    rows: Rows, trained: PhotometrySchema, config: RunConfig, target: Any, progress: Progress, *, is_plan: bool = False
) -> tuple[Rows, TargetReport]:
    """Make the training rows look like the target: a catalogue named in the configuration, or the table `target`.

    For a plan alone, nothing is trained, and rows stay as they are.
    """
    options, rng = config.target, np.random.default_rng([config.seed, 16])
    photometry, ebv, stated = read_target(config, trained, target)
    scale = Scale.of(photometry_rows(rows.photometry, rows.split.train)).summary()
    refuse_other_units(scale, Scale.of(photometry), options.catalogue, stated, TARGET_UNITS)
    coefficients = np.array([config.features.extinction.get(band, 0.0) for band in trained.bands])
    training = Survey.of(rows.photometry, None if rows.ebv is None else np.nan_to_num(rows.ebv)[:, None] * coefficients)
    survey = Survey.of(photometry, None if ebv is None else np.nan_to_num(ebv)[:, None] * coefficients)
    held = np.zeros(len(rows.z), dtype=bool)
    held[rows.split.validation if len(rows.split.validation) else _some(rows.split.train, HELD_PART, rng)] = True
    used = np.concatenate([rows.split.train, rows.split.validation])
    dimmed = None
    trials = _Trials(rows, config, photometry, ebv, held, rng)
    report = TargetReport(options.catalogue, options.adapt, outside=trials.outside)
    if is_plan:
        return rows, report
    if options.adapt == "dim" or (options.adapt == "auto" and trials.outside > MIN_OUTSIDE):
        galaxies = None
        if options.simulated:
            galaxies, shifts, missed = simulated_galaxies(
                options.simulated, training.take(used), rows.z[used], trained, config
            )
            report = replace(report, simulated=options.simulated, zero_points=shifts, missed=missed)
            if report.refuses:
                galaxies = None
                warn_all([f"{report.about_simulated}; give a catalogue more like the galaxies with spectra, or none"])
        n = options.n_rows or int(np.clip(len(rows.split.train), MIN_DIMMED, MAX_DIMMED))
        try:
            dimmed = dim(training.take(used), rows.labels.take(used), held[used], survey, n, rng, galaxies)
        except CatalogError as error:
            if options.adapt == "dim":
                raise
            progress.warn(f"{error}: the target can only be used for weights")
    if options.adapt == "auto":
        scores = trials.scores(dimmed)
        best = min(scores, key=lambda name: scores[name])
        is_better = scores[best] < (1.0 - MIN_GAIN) * scores["none"]
        report = replace(report, scores=scores, adapted=best if is_better else "none")
    if dimmed is not None and report.adapted == "dim":
        is_doubtful = trials.outside > MOSTLY_OUTSIDE
        report = replace(
            report,
            n_dimmed=len(dimmed.z),
            dimming=float(np.median(dimmed.dimming)),
            unexplained=dimmed.unexplained,
            is_hedged=is_doubtful and config.model.n_members > 1,
        )
        if is_doubtful:
            hedge = "Every second member of the committee is trained without them" if report.is_hedged else (
                "A committee of two members or more would be trained in part without them"
            )  # fmt: skip
            warn_all(
                [
                    f"{100 * report.outside:.0f} % of the target lie outside what the training rows cover, so that no "
                    f"redshift tells whether galaxies like it are dimmed ones. {hedge}; `--adapt none` does without "
                    "altogether"
                ]
            )
        return joined(rows, dimmed, held), report
    if report.adapted == "weights":
        return rows._replace(weights=trials.weights()), report
    return rows, report


def read_target(
    config: RunConfig, trained: PhotometrySchema, target: Any
) -> tuple[Photometry, FloatArray | None, bool]:
    """Return photometry and E(B-V) of at most `MAX_TARGET_ROWS` rows of the target catalogue, drawn at random.

    The last says whether the catalogue tells its units; what the user says of units is of the training catalogue.
    """
    path = config.target.catalogue
    given = None if target is None else as_table(target)
    access = {} if given is not None else target_access(path, config.schema)
    info = catalog_info(path, **access) if given is None else given.info()
    needs_ebv = bool(config.features.extinction)
    schema = target_schema(info.names, trained, config.schema, needs_ebv, info.units)
    if needs_ebv and not schema.ebv:
        raise ConfigError(f"inputs are corrected for extinction but '{path}' has no E(B-V) column that is known")
    share = min(1.0, MAX_TARGET_ROWS / max(info.n_rows, 1))
    rng = np.random.default_rng(config.seed)
    columns = needed_columns(schema)
    parts, dust = [], []
    for chunk in [given.catalog(columns)] if given is not None else iter_catalog(path, columns=columns, **access):
        picked = chunk if share == 1.0 else chunk.take(rng.random(len(chunk)) < share)
        photometry = extract_photometry(picked, schema, config.sentinels)
        measured = np.flatnonzero(photometry.measured.any(axis=1))
        parts.append(photometry_rows(photometry, measured))
        ebv = ebv_of(picked, schema, needs_ebv)
        dust.append(np.zeros(len(measured)) if ebv is None else ebv[measured])
    found = concatenated(parts) if parts else None
    if found is None or not len(found):
        raise CatalogError("the target catalogue has no usable rows; expected photometry in the bands of the model")
    stated = units_are_stated(schema, SchemaConfig(), info.units)
    return found, np.concatenate(dust) if needs_ebv else None, stated


def concatenated(parts: list[Photometry]) -> Photometry:
    """Join photometry of the same bands and kind, one below the other; the report stays that of the first."""
    limits = None
    if any(part.limit is not None for part in parts):
        limits = np.concatenate(
            [np.full(part.values.shape, np.nan) if part.limit is None else part.limit for part in parts]
        )
    values, errors, status = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "errors", "status")
    )
    return dataclasses.replace(parts[0], values=values, errors=errors, status=status, limit=limits)


def as_photometry(survey: Survey, like: Photometry) -> Photometry:
    """Return fluxes, in units of the flux of magnitude 0, as photometry of the kind of another."""
    flux, error, status, is_logarithmic = survey
    if like.kind == "flux":
        assert like.zero_point is not None
        scale = np.exp(like.zero_point / POGSON)
        values, errors = flux * scale, error * scale
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            faint = ~(flux > 0.0) & (status == Status.MEASURED)
            status = np.where(faint, np.int8(Status.NOT_DETECTED), status)
            values = np.where(faint, np.nan, -POGSON * np.log(np.where(flux > 0.0, flux, np.nan)))
            ratio = error / flux
            errors = np.where(faint, np.nan, POGSON * (np.log1p(ratio) if is_logarithmic else ratio))
    tally = np.stack([(status == s).sum(axis=0) for s in Status], axis=1).astype(np.int64)
    report = SentinelReport(like.bands, len(status), tally, {})
    return dataclasses.replace(like, values=values, errors=errors, status=status, limit=None, report=report)


def joined(rows: Rows, dimmed: Dimmed, held: BoolArray) -> Rows:
    """Return rows with dimmed ones after them.

    Those made of galaxies that are held out are to validate, the others to train; galaxies held out no longer train.
    """
    n, made = len(rows.z), np.arange(len(dimmed.z)) + len(rows.z)
    usable = (as_photometry(dimmed.survey, rows.photometry).status == Status.MEASURED).any(axis=1)
    photometry = concatenated([rows.photometry, as_photometry(dimmed.survey, rows.photometry)])
    ebv = None if rows.ebv is None else np.concatenate([rows.ebv, np.zeros(len(made))])
    train = np.concatenate([rows.split.train[~held[rows.split.train]], made[usable & ~dimmed.held_out]])
    split = Split(train, made[usable & dimmed.held_out], rows.split.test)
    weights = None if rows.weights is None else np.concatenate([rows.weights, np.ones(len(made))])
    assert n + len(made) == len(photometry)
    return Rows(photometry, ebv, rows.labels.followed_by(dimmed.labels), split, weights)


class _Trials:
    """Small models, to see what the training rows cover and what does best on rows that look like the target."""

    def __init__(
        self,
        rows: Rows,
        config: RunConfig,
        target: Photometry,
        target_ebv: FloatArray | None,
        held: BoolArray,
        rng: np.random.Generator,
    ) -> None:
        self.rows, self.config, self.rng = rows, config, rng
        self.target, self.target_ebv = target, target_ebv
        self.held = _some(np.flatnonzero(held), 1.0, rng)[:TRIAL_ROWS]
        train = rows.split.train[~held[rows.split.train]]
        self.train = _some(train, 1.0, rng)[:TRIAL_ROWS]
        some = rng.permutation(len(target))[: 2 * TRIAL_ROWS]
        photometry, ebv = (
            photometry_rows(rows.photometry, self.train),
            None if rows.ebv is None else rows.ebv[self.train],
        )
        self.transformer = fit_transformer(photometry, config.features, ebv)
        coverage = fit_coverage(self.transformer.transform(photometry, ebv).X, 0.0, 1.0, rng)
        ebv = None if target_ebv is None else target_ebv[some]
        X = self.transformer.transform(photometry_rows(target, some), ebv).X
        self.outside = 0.0 if coverage is None else _excess(coverage(X))

    def _fitted(self, rows: Rows, train: IntArray, weights: FloatArray | None = None) -> tuple[Any, Any]:
        """Train one member on some rows; return how inputs are made, and the model."""
        photometry = photometry_rows(rows.photometry, train)
        ebv = None if rows.ebv is None else rows.ebv[train]
        transformer = fit_transformer(photometry, self.config.features, ebv)
        X, _, X_std = transformer.transform(photometry, ebv)
        quick = self.config.override("model", n_members=1, wrong_labels=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the model that counts is trained later
            labels = rows.labels.take(train)
            return transformer, quick.regressor().fit(
                X, labels.z, weights, X_std=X_std, y_std=labels.std, y_wrong=labels.wrong
            )

    def weights(self) -> FloatArray:
        """Weights that give training rows, and validation rows, the distribution of the target, each of mean 1."""
        rows, split = self.rows, self.rows.split
        weights = np.ones(len(rows.z)) if rows.weights is None else rows.weights.copy()
        for part in (split.train, split.validation):
            if len(part):
                weights[part] *= self._target_weights(part)
        return weights

    def _target_weights(self, part: IntArray) -> FloatArray:
        photometry = photometry_rows(self.rows.photometry, part)
        ebv = None if self.rows.ebv is None else self.rows.ebv[part]
        own = self.transformer.filled(self.transformer.transform(photometry, ebv).X)
        wanted = self.transformer.filled(self.transformer.transform(self.target, self.target_ebv).X)
        return target_weights(own, wanted, self.config.target.n_neighbours, self.config.weights.max_weight)

    def scores(self, dimmed: Dimmed | None) -> dict[str, float]:
        """CRPS of held-out rows that look like the target, by what is done.

        Where the training rows cover the target, these are held-out training rows with weights like the target; else
        dimmed rows of held-out galaxies.
        """
        done: dict[str, tuple[Any, Any]] = {"none": self._fitted(self.rows, self.train)}
        with suppress(CatalogError):  # nothing in common
            weights = self._target_weights(self.train)
            if weights.sum() ** 2 / (weights @ weights) > MIN_OVERLAP * len(weights):
                done["weights"] = self._fitted(self.rows, self.train, weights)
        test, part, weight = self.rows, self.held, np.ones(len(self.held))
        if dimmed is not None and dimmed.held_out.sum() >= MIN_HELD:
            test = joined(self.rows, dimmed, np.zeros(len(self.rows.z), dtype=bool))
            made = test.split.train[test.split.train >= len(self.rows.z)]
            train = np.concatenate([self.train, _some(made, 1.0, self.rng)[:TRIAL_ROWS]])
            done["dim"] = self._fitted(test, train)
            held = test.split.validation  # bright ones first
            part = held[:: -(-len(held) // TRIAL_ROWS)]
            weight = np.ones(len(part))
        else:
            with suppress(CatalogError):
                weight = self._target_weights(self.held)
        return {
            name: float(np.average(_crps(transformer, model, test, part), weights=weight))
            for name, (transformer, model) in done.items()
        }


def _excess(coverage: FloatArray) -> float:
    """Return the share of objects in the outskirts of the training rows beyond the share that these have there."""
    return max(float(np.mean(coverage < OUTSKIRTS)) - OUTSKIRTS, 0.0) / (1.0 - OUTSKIRTS)


def _crps(transformer: Any, model: Any, rows: Rows, part: IntArray) -> FloatArray:
    """Continuous ranked probability score of some rows."""
    ebv = None if rows.ebv is None else rows.ebv[part]
    X, _, X_std = transformer.transform(photometry_rows(rows.photometry, part), ebv)
    return np.asarray(model.predict_distribution(X, X_std=X_std).crps(rows.z[part]))


def _some(rows: IntArray, part: float, rng: np.random.Generator) -> IntArray:
    """Return a random part of rows."""
    return rng.permutation(rows)[: max(round(part * len(rows)), 1)]
