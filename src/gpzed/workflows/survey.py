"""Where to look next: what spectra and deeper bands would gain, by cells of colour and magnitude and by object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.catalog import Catalog, catalog_info, iter_catalog
from gpzed.catalog.conventions import ID_NAMES
from gpzed.config import SchemaConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import Flag
from gpzed.model.survey import Survey
from gpzed.workflows.inputs import Inputs, make_inputs, needed_columns
from gpzed.workflows.magnitudes import magnitudes_of
from gpzed.workflows.model import PhotozModel, load_photoz_model
from gpzed.workflows.schema import matching_schema

MIN_CELL = 5
"""Objects that a cell needs to be listed."""
WELL_MEASURED = 0.95
"""Bands measured for this part of the objects of the most complete band are as good as that one for the axes."""


@dataclass(frozen=True)
class SurveyOptions:
    """What to look at.

    Parameters
    ----------
    magnitude : str, optional
        Band of the magnitude; by default one that is measured for most objects, near the middle of the bands.
    colour : tuple of str, optional
        Two bands whose difference is the colour; by default well-measured ones on either side of the magnitude's.
    cells : int
        Cells along each axis, from the 1st to the 99th percentile of the objects.
    n_spectra : int
        Objects to choose for spectra.
    per_cell : int
        Spectra by which the gain of a cell is measured.
    max_objects : int
        Objects of the catalogue, drawn at random, that stand for all of it.
    max_magnitude : float, optional
        Limit for spectra, in the band of `magnitude`: fainter objects count, but are not chosen, and nor are those
        without a measured magnitude and colour.
    seed : int
        Seed of the random choices.
    """

    magnitude: str | None = None
    colour: tuple[str, str] | None = None
    cells: int = 10
    n_spectra: int = 100
    per_cell: int = 10
    max_objects: int = 20_000
    max_magnitude: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("cells", "n_spectra", "per_cell", "max_objects"):
            if getattr(self, name) < 1:
                raise ConfigError(f"`{name}` is {getattr(self, name)}; expected a whole number >= 1")


@dataclass(frozen=True)
class SurveyReport:
    """What would gain most."""

    cells: Catalog
    """One row per cell of colour and magnitude, by falling `gain_spectra`; columns are explained in the docs."""
    objects: Catalog  # objects worth a spectrum, in the order of choice, with the gain of each
    magnitude: str
    colour: tuple[str, str]
    n_rows: int  # rows of the catalogue, and those that stand for them
    n_used: int
    variance: float  # sum of the variances of all objects now; gains are in the same units
    edges: tuple[FloatArray, FloatArray]  # of the cells, in magnitude and in colour

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        return {
            "rows": self.n_rows,
            "objects_used": self.n_used,
            "magnitude": self.magnitude,
            "colour": "-".join(self.colour),
            "variance": self.variance,
            "cells": {name: np.asarray(self.cells[name]).tolist() for name in self.cells.names},
            "objects": {name: np.asarray(self.objects[name]).tolist() for name in self.objects.names},
        }


def survey(
    model: str | os.PathLike[str],
    catalogue: str | os.PathLike[str],
    options: SurveyOptions | None = None,
    *,
    schema: SchemaConfig | None = None,
) -> SurveyReport:
    """Find out where spectra, and where deeper bands, would lower the uncertainty of a catalogue most.

    Parameters
    ----------
    model : path
        Model file of `train`.
    catalogue : path
        The objects whose redshifts matter.
    options : SurveyOptions, optional
    schema : SchemaConfig, optional
        Which column is what, if neither as in training nor to be guessed.
    """
    options, schema = options or SurveyOptions(), schema or SchemaConfig()
    trained = load_photoz_model(model)
    table, inputs, n_rows = _sample(trained, catalogue, schema, options)
    measured = magnitudes_of(inputs.photometry)
    magnitude, colour = _axes(measured, options)
    m, c = measured[magnitude], measured[colour[0]] - measured[colour[1]]
    placed = np.isfinite(m) & np.isfinite(c)
    if placed.sum() < MIN_CELL:
        raise CatalogError(
            f"'{os.fspath(catalogue)}': only {placed.sum()} objects are measured in {magnitude}, {colour[0]} and "
            f"{colour[1]}; choose other bands with --magnitude and --colour"
        )
    edges = _edges(m[placed], options.cells), _edges(c[placed], options.cells)
    cell = _cell(m, edges[0]) * options.cells + _cell(c, edges[1])
    cell[~placed] = options.cells**2
    scale = n_rows / len(table)
    state = _state(trained, inputs, scale)
    rng = np.random.default_rng(options.seed)
    cells = _tabulate_cells(state, cell, edges, options, rng, _deeper(trained, inputs, state, scale))
    can = placed if options.max_magnitude is None else placed & (m <= options.max_magnitude)
    if not can.any():
        raise ConfigError(f"no object is brighter than `max_magnitude` {options.max_magnitude} in {magnitude}")
    rows, gains = state.batch(options.n_spectra, np.flatnonzero(can), rng)
    objects = _tabulate_objects(table, state, rows, gains, m, c)
    total = float(state.weight @ state.prediction.variance)
    return SurveyReport(cells, objects, magnitude, colour, n_rows, len(table), total, edges)


def _state(trained: PhotozModel, inputs: Inputs, scale: float) -> Survey:
    try:
        return Survey(trained.regressor, inputs.X, np.full(len(inputs.X), scale), inputs.X_std)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _axes(measured: Mapping[str, FloatArray], options: SurveyOptions) -> tuple[str, tuple[str, str]]:
    """Return bands for magnitude and colour: in the middle of those that are measured for nearly as many as any."""
    bands = list(measured)
    for band in (options.magnitude, *(options.colour or ())):
        if band is not None and band not in bands:
            raise ConfigError(f"the model has no band '{band}'; expected one of {', '.join(bands)}")
    share = {band: float(np.isfinite(measured[band]).mean()) for band in bands}
    enough = sorted(share.values(), reverse=True)[min(1, len(bands) - 1)]  # two bands at least
    usable = [k for k, band in enumerate(bands) if share[band] >= min(enough, WELL_MEASURED * max(share.values()))]
    middle = len(bands) // 2
    k = bands.index(options.magnitude) if options.magnitude else min(usable, key=lambda j: abs(j - middle))
    bluer, redder = [j for j in usable if j < k], [j for j in usable if j > k]
    ends = (max(bluer, default=k), min(redder, default=k))
    return bands[k], options.colour or (bands[ends[0]], bands[ends[1]])


def _sample(
    trained: PhotozModel, catalogue: str | os.PathLike[str], said: SchemaConfig, options: SurveyOptions
) -> tuple[Catalog, Inputs, int]:
    """Return a random part of the catalogue with the inputs of the model, less objects without a measurement."""
    info = catalog_info(catalogue, **said.access)
    if not info.n_rows:
        raise CatalogError(f"'{info.path}' has no rows; there is nothing to plan for")
    schema = matching_schema(info.names, trained.schema, said, trained.needs_ebv, info.units)
    known = next((name for name in info.names if name.lower() in ID_NAMES), None)
    wanted = np.zeros(info.n_rows, dtype=bool)
    wanted[np.random.default_rng(options.seed).permutation(info.n_rows)[: options.max_objects]] = True
    parts, position = [], 0
    for chunk in iter_catalog(catalogue, columns=needed_columns(schema, known), **said.access):
        parts.append(chunk.take(np.flatnonzero(wanted[position : position + len(chunk)])))
        position += len(chunk)
    table, rows = Catalog.concatenate(parts), np.flatnonzero(wanted)
    inputs = make_inputs(table, schema, trained.sentinels, trained.transformer)
    seen = np.flatnonzero((inputs.flags & np.uint32(Flag.NO_MEASUREMENT)) == 0)
    if not len(seen):
        raise CatalogError(f"'{info.path}': no object has a measurement; there is nothing to plan for")
    objects = Catalog({"row": rows[seen], "id": np.asarray(table[known])[seen] if known else rows[seen]})
    return objects, inputs.take(seen), info.n_rows


def _edges(values: FloatArray, n: int) -> FloatArray:
    low, high = np.quantile(values, (0.01, 0.99))
    return np.linspace(low, high if high > low else low + 1.0, n + 1)


def _cell(values: FloatArray, edges: FloatArray) -> IntArray:
    """Return the cell along one axis; what lies beyond the edges belongs to the outermost."""
    inside = np.nan_to_num(values, nan=edges[0])
    return np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, len(edges) - 2)


def _deeper(trained: PhotozModel, inputs: Inputs, state: Survey, scale: float) -> dict[str, FloatArray]:
    """Return by how much noise falls, object by object, if the errors of a band were half as large.

    The model has learned how its noise depends on errors; unless their logarithms are inputs, there is nothing to tell.
    """
    gains = {}
    for j, name in enumerate(trained.transformer.names):
        if not name.startswith("ln_err_"):
            continue
        changed = inputs.X.copy()
        changed[:, j] -= np.log(2.0)
        after = trained.regressor.predict_distribution(changed, X_std=inputs.X_std, exact=True)
        fall = state.prediction.noise_variance - after.noise_variance
        gains[name.removeprefix("ln_err_")] = scale * fall
    return gains


def _tabulate_cells(
    state: Survey,
    cell: IntArray,
    edges: tuple[FloatArray, FloatArray],
    options: SurveyOptions,
    rng: np.random.Generator,
    deeper: dict[str, FloatArray],
) -> Catalog:
    p, n_cells = state.prediction, options.cells
    coverage, rows = _coverage(state), []
    for index in np.unique(cell[cell < n_cells**2]):
        members = np.flatnonzero(cell == index)
        if len(members) < MIN_CELL:
            continue
        i, j = divmod(int(index), n_cells)
        weight = float(state.weight[members].sum())
        picked = rng.permutation(members)[: options.per_cell]
        gain = state.group_gain(picked)
        row: dict[str, Any] = {
            "magnitude_low": edges[0][i],
            "magnitude_high": edges[0][i + 1],
            "colour_low": edges[1][j],
            "colour_high": edges[1][j + 1],
            "n_objects": weight,
            "z_phot": p.z_phot[members].mean(),
            "z_std": np.sqrt(p.variance[members].mean()),
            "coverage": np.median(coverage[members]),
            "variance_model": p.model_variance[members].mean() - state.unknown[members].mean(),
            "variance_uncovered": state.unknown[members].mean(),
            "variance_noise": p.noise_variance[members].mean(),
            "variance_input": p.input_variance[members].mean(),
            "gain_spectra": gain,
            "gain_per_spectrum": gain / len(picked),
            "gain_bands": weight * (p.noise_variance[members] + p.input_variance[members]).mean(),
        }
        row |= {f"gain_deeper_{band}": float(values[members].sum()) for band, values in deeper.items()}
        rows.append(row)
    rows.sort(key=lambda row: -float(row["gain_spectra"]))
    if not rows:
        raise CatalogError(f"no cell has {MIN_CELL} objects; use fewer cells")
    columns: dict[str, Any] = {"rank": np.arange(1, len(rows) + 1)}
    return Catalog(columns | {name: np.array([float(row[name]) for row in rows]) for name in rows[0]})


def _tabulate_objects(
    table: Catalog, state: Survey, rows: IntArray, gains: FloatArray, magnitude: FloatArray, colour: FloatArray
) -> Catalog:
    p = state.prediction
    columns = {
        "order": np.arange(1, len(rows) + 1),
        "row": np.asarray(table["row"])[rows],
        "id": np.asarray(table["id"])[rows],
        "gain": gains,
        "gain_total": np.cumsum(gains),
        "magnitude": magnitude[rows],
        "colour": colour[rows],
        "z_phot": p.z_phot[rows],
        "z_std": p.std[rows],
        "coverage": _coverage(state)[rows],
    }
    return Catalog(columns)


def _coverage(state: Survey) -> FloatArray:
    p = state.prediction
    return np.full(len(p), np.nan) if p.coverage is None else p.coverage
