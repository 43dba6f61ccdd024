"""Where to look next: what spectra and deeper bands would gain, by cells of colour and magnitude and by object."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpzed._types import FloatArray, IntArray
from gpzed.catalog import Catalog, Photometry, catalog_info, iter_catalog, open_writer
from gpzed.catalog.conventions import ID_NAMES
from gpzed.config import SchemaConfig
from gpzed.errors import CatalogError, ConfigError
from gpzed.features import Flag
from gpzed.model.survey import Survey
from gpzed.workflows.inputs import Inputs, make_inputs, needed_columns
from gpzed.workflows.model import PhotozModel, load_photoz_model
from gpzed.workflows.schema import matching_schema

MIN_CELL = 5
"""Objects that a cell needs to be listed."""


@dataclass(frozen=True)
class SurveyOptions:
    """What to look at.

    Parameters
    ----------
    magnitude : str, optional
        Band of the magnitude; the middle one by default.
    colour : tuple of str, optional
        Two bands whose difference is the colour; the neighbours of the middle one by default.
    cells : int
        Cells along each axis, from the 1st to the 99th percentile of the objects.
    n_spectra : int
        Objects to choose for spectra.
    per_cell : int
        Spectra by which the gain of a cell is measured.
    max_objects : int
        Objects of the catalogue, drawn at random, that stand for all of it.
    max_magnitude : float, optional
        Limit for spectra, in the band of `magnitude`: fainter objects count, but are not chosen.
    seed : int
        Of the random choices.
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
    """What would gain most.

    Attributes
    ----------
    cells : Catalog
        One row per cell of colour and magnitude, by falling `gain_spectra`; columns are explained in the docs.
    objects : Catalog
        Objects worth a spectrum, in the order of choice, with the gain of each.
    magnitude : str
    colour : tuple of str
    n_rows, n_used : int
        Rows of the catalogue, and those that stand for them.
    variance : float
        Sum of the variances of all objects now; gains are in the same units.
    edges : tuple of ndarray
        Of the cells, in magnitude and in colour.
    """

    cells: Catalog
    objects: Catalog
    magnitude: str
    colour: tuple[str, str]
    n_rows: int
    n_used: int
    variance: float
    edges: tuple[FloatArray, FloatArray]

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

    Returns
    -------
    SurveyReport
    """
    options, schema = options or SurveyOptions(), schema or SchemaConfig()
    trained = load_photoz_model(model)
    magnitude, colour = _axes(trained.schema.bands, options)
    table, inputs, n_rows = _sample(trained, catalogue, schema, options)
    m = _magnitudes(inputs.photometry, magnitude)
    c = _magnitudes(inputs.photometry, colour[0]) - _magnitudes(inputs.photometry, colour[1])
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
    can = np.ones(len(table), dtype=bool) if options.max_magnitude is None else m <= options.max_magnitude
    if not can.any():
        raise ConfigError(f"no object is brighter than `max_magnitude` {options.max_magnitude} in {magnitude}")
    rows, gains = state.batch(options.n_spectra, np.flatnonzero(can), rng)
    objects = _tabulate_objects(table, state, rows, gains, m, c, cell, options.cells)
    total = float(state.weight @ state.prediction.variance)
    return SurveyReport(cells, objects, magnitude, colour, n_rows, len(table), total, edges)


def _state(trained: PhotozModel, inputs: Inputs, scale: float) -> Survey:
    try:
        return Survey(trained.regressor, inputs.X, np.full(len(inputs.X), scale), inputs.X_std)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _axes(bands: tuple[str, ...], options: SurveyOptions) -> tuple[str, tuple[str, str]]:
    middle = len(bands) // 2
    magnitude = options.magnitude or bands[middle]
    colour = options.colour or (bands[max(middle - 1, 0)], bands[min(middle + 1, len(bands) - 1)])
    for band in (magnitude, *colour):
        if band not in bands:
            raise ConfigError(f"the model has no band {band!r}; expected one of {', '.join(bands)}")
    return magnitude, colour


def _sample(
    trained: PhotozModel, catalogue: str | os.PathLike[str], schema_config: SchemaConfig, options: SurveyOptions
) -> tuple[Catalog, Inputs, int]:
    """Return a random part of the catalogue with the inputs of the model, less objects without a measurement."""
    info = catalog_info(catalogue, format=schema_config.format, hdf5_group=schema_config.hdf5_group)
    schema = matching_schema(info.names, trained.schema, schema_config, bool(trained.transformer.config.extinction))
    known = [name for name in info.names if name.lower() in ID_NAMES][:1]
    n = info.n_rows
    wanted = np.zeros(n, dtype=bool)
    wanted[np.random.default_rng(options.seed).permutation(n)[: options.max_objects]] = True
    parts, rows, position = [], [], 0
    columns = list(dict.fromkeys([*needed_columns(schema), *known]))
    for chunk in iter_catalog(
        catalogue, columns=columns, format=schema_config.format, hdf5_group=schema_config.hdf5_group
    ):
        picked = np.flatnonzero(wanted[position : position + len(chunk)])
        if picked.size:
            parts.append(make_inputs(chunk.take(picked), schema, trained.sentinels, trained.transformer))
            ids = np.asarray(chunk.take(picked)[known[0]]) if known else picked + position
            rows.append((picked + position, ids))
        position += len(chunk)
    if not parts:
        raise CatalogError(f"'{info.path}' has no rows; there is nothing to plan for")
    flags = np.concatenate([part.flags for part in parts])
    seen = (flags & np.uint32(Flag.NO_MEASUREMENT)) == 0
    first = parts[0].photometry
    photometry = Photometry(
        first.bands,
        np.concatenate([part.photometry.values for part in parts])[seen],
        np.concatenate([part.photometry.errors for part in parts])[seen],
        np.concatenate([part.photometry.status for part in parts])[seen],
        first.kind,
        first.zero_point,
        None,
        first.report,
    )
    table = Catalog(
        {
            "row": np.concatenate([numbers for numbers, _ in rows])[seen],
            "id": np.concatenate([ids for _, ids in rows])[seen],
        }
    )
    if not len(table):
        raise CatalogError(f"'{info.path}': no object has a measurement; there is nothing to plan for")
    X = np.concatenate([part.X for part in parts])[seen]
    errors = [part.X_std for part in parts if part.X_std is not None]
    return table, Inputs(X, flags[seen], photometry, np.concatenate(errors)[seen] if errors else None), n


def _magnitudes(photometry: Photometry, band: str) -> FloatArray:
    values = photometry.values[:, photometry.bands.index(band)]
    if photometry.kind == "magnitude":
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((photometry.zero_point or 0.0) - 2.5 * np.log10(values))


def _edges(values: FloatArray, n: int) -> FloatArray:
    low, high = np.quantile(values, (0.01, 0.99))
    return np.linspace(low, high if high > low else low + 1.0, n + 1)


def _cell(values: FloatArray, edges: FloatArray) -> IntArray:
    """Return the cell along one axis; what lies beyond the edges belongs to the outermost."""
    inside = np.nan_to_num(values, nan=edges[0])
    return np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, len(edges) - 2)


def _deeper(trained: PhotozModel, inputs: Inputs, state: Survey, scale: float) -> dict[str, FloatArray]:
    """Return by how much noise falls, object by object, if the errors of a band were half as large.

    The model has learned how its noise depends on errors; without these among its inputs there is nothing to tell.
    """
    gains = {}
    for j, name in enumerate(trained.transformer.names):
        if not name.startswith("ln_err_"):
            continue
        changed = inputs.X.copy()
        changed[:, j] -= np.log(2.0)
        after = trained.regressor.predict_distribution(changed, X_std=inputs.X_std)
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
    coverage = np.full(len(cell), np.nan) if p.coverage is None else p.coverage
    rows = []
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
    table: Catalog,
    state: Survey,
    rows: IntArray,
    gains: FloatArray,
    magnitude: FloatArray,
    colour: FloatArray,
    cell: IntArray,
    n_cells: int,
) -> Catalog:
    p = state.prediction
    coverage = np.full(len(cell), np.nan) if p.coverage is None else p.coverage
    return Catalog(
        {
            "order": np.arange(1, len(rows) + 1),
            "row": np.asarray(table["row"])[rows],
            "id": np.asarray(table["id"])[rows],
            "gain": gains,
            "gain_total": np.cumsum(gains),
            "magnitude": magnitude[rows],
            "colour": colour[rows],
            "z_phot": p.z_phot[rows],
            "z_std": p.std[rows],
            "coverage": coverage[rows],
        }
    )


def write_table(table: Catalog, path: str | os.PathLike[str]) -> None:
    """Write one of the tables of a report; the suffix says in which format."""
    with open_writer(path) as writer:
        writer.write(table)
