"""The true p(z | photometry) by brute force: a large prior sample weighted by the noise likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from gpzed._types import AnyArray, FloatArray
from gpzed.simulate.instruments import Instrument
from gpzed.simulate.noise import (
    NOT_DETECTED,
    NOT_OBSERVED,
    detection_flux,
    flux_from_mag,
    flux_std,
    spectroscopic_success,
)
from gpzed.simulate.population import Galaxies, concatenate, draw_galaxies
from gpzed.simulate.survey import SimulatedSurvey

_SHELL = 0.5  # galaxies this close in reference magnitude share a prior sample
_REACH = 6.0  # standard deviations beyond which a fainter truth is neglected
_BRIGHTEST_SHELL = 14.0
_BATCH = 100_000


@dataclass(frozen=True)
class TruePdf:
    """True redshift densities on a grid."""

    grid: FloatArray  # (n_grid,) redshifts, ascending
    density: FloatArray  # (n, n_grid) p(z), of unit trapezoidal integral
    effective_samples: FloatArray  # (n,) prior galaxies behind each row, (Σw)² / Σw²; a row with few is noisy

    def cdf_at(self, z: FloatArray) -> FloatArray:
        """Return each row's cumulative probability at its redshift in `z` (n,): the PIT when that is the truth."""
        steps = 0.5 * (self.density[:, 1:] + self.density[:, :-1]) * np.diff(self.grid)
        cumulative = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
        return np.array([np.interp(x, self.grid, row) for x, row in zip(z, cumulative, strict=True)])


@dataclass(frozen=True)
class _Prior:
    """Prior galaxies in ascending order of reference flux; band arrays have shape (n_bands, n)."""

    z: FloatArray
    log_selection: FloatArray
    flux: FloatArray
    std: FloatArray
    log_std: FloatArray


def true_pdf(
    survey: SimulatedSurvey,
    indices: AnyArray,
    *,
    z_grid: FloatArray | None = None,
    n_prior: int = 200_000,
    selection: Literal["photometric", "spectroscopic"] = "photometric",
    random_state: int | np.random.Generator | None = None,
) -> TruePdf:
    """Compute the true p(z | observed photometry) of some galaxies.

    Parameters
    ----------
    survey : SimulatedSurvey
        The simulation; its own population and noise are the prior and the likelihood.
    indices : ndarray of int, shape (k,)
        Rows to work out, a few hundred: the cost is k times `n_prior`.
    z_grid : ndarray of shape (n_grid,) or None, default=None
        Ascending redshifts; None takes 401 from 0 to the survey's highest redshift.
    n_prior : int, default=200_000
        Prior galaxies per half magnitude of brightness; bright galaxies need more.
    selection : {"photometric", "spectroscopic"}, default="photometric"
        The population a row is taken from: the whole catalogue, or its spectroscopic subsample.
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the prior sample.

    Notes
    -----
    A measured band contributes a Gaussian in flux, whose standard deviation is that of the *true* flux; a
    non-detection the probability of falling below the detection flux; an unobserved band nothing. The
    magnitude limit is a cut on observed flux, so it cancels, unless the reference band itself was not
    observed: then its probability of passing the limit enters.

    Examples
    --------
    >>> from gpzed.simulate import simulate_survey, true_pdf
    >>> survey = simulate_survey(500, survey="sdss", random_state=0)
    >>> true_pdf(survey, [0, 1], n_prior=2000, random_state=1).density.shape
    (2, 401)
    """
    grid = np.linspace(0.0, survey.instrument.z_max, 401) if z_grid is None else np.asarray(z_grid, float)
    rows = np.asarray(indices)
    _check_arguments(survey, rows, grid, n_prior, selection)
    rng = np.random.default_rng(random_state)
    faintest = _faintest_truth(survey, rows)
    shells = np.maximum(np.ceil(faintest / _SHELL) * _SHELL, _BRIGHTEST_SHELL)
    density = np.empty((rows.size, grid.size))
    effective = np.empty(rows.size)
    for shell in np.unique(shells):
        prior = _draw_prior(n_prior, survey.instrument, float(shell), selection, rng)
        for k in np.flatnonzero(shells == shell):
            part = _near(prior, survey, int(rows[k]))
            log_weight = prior.log_selection[part] + _log_likelihood(survey, int(rows[k]), prior, part)
            if log_weight.size == 0:
                raise ValueError(
                    f"no prior galaxy resembles row {rows[k]}; raise `n_prior`, now {n_prior}, or drop it."
                )
            weight = np.exp(log_weight - log_weight.max())
            density[k] = _project(weight, prior.z[part], grid)
            effective[k] = weight.sum() ** 2 / np.sum(weight**2)
    return TruePdf(grid, density, effective)


def _check_arguments(survey: SimulatedSurvey, rows: AnyArray, grid: FloatArray, n_prior: int, selection: str) -> None:
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"`indices` has shape {rows.shape} and type {rows.dtype}; expected a list of row numbers.")
    if rows.size and not (rows.min() >= 0 and rows.max() < len(survey)):
        raise ValueError(f"`indices` runs from {rows.min()} to {rows.max()}; expected 0 to {len(survey) - 1}.")
    if grid.ndim != 1 or grid.size < 2 or not np.all(np.diff(grid) > 0):
        raise ValueError("`z_grid` must hold at least 2 ascending redshifts; try numpy.linspace(0, z_max, 401).")
    if n_prior < 1000:
        raise ValueError(f"`n_prior` is {n_prior}; expected at least 1000 prior galaxies, better 200000.")
    if selection not in ("photometric", "spectroscopic"):
        raise ValueError(f"`selection` is {selection!r}; choose 'photometric' or 'spectroscopic'.")


def _faintest_truth(survey: SimulatedSurvey, rows: AnyArray) -> FloatArray:
    """Return the faintest true reference magnitude that can matter, per row."""
    instrument, reference = survey.instrument, survey.instrument.reference_index
    limit = instrument.limit + instrument.margin
    flux = survey.flux[rows, reference]
    floor = flux_from_mag(np.array(limit))
    lowest = np.maximum(flux - _REACH * survey.flux_err[rows, reference], floor)
    mag = limit - 2.5 * np.log10(np.where(np.isnan(lowest), floor, lowest) / floor)
    return np.minimum(mag + 1e-3, limit)


def _draw_prior(n: int, instrument: Instrument, mag_limit: float, selection: str, rng: np.random.Generator) -> _Prior:
    parts: list[Galaxies] = []
    mags: list[FloatArray] = []
    limit = min(mag_limit, instrument.limit + instrument.margin)
    while sum(len(m) for m in mags) < n:
        galaxies, mag = draw_galaxies(min(_BATCH, 2 * n + 1000), instrument, limit, rng)
        parts.append(galaxies)
        mags.append(mag)
    reference = instrument.reference_index
    mag = np.concatenate(mags)[:n]
    order = np.argsort(-mag[:, reference])
    galaxies, mag = concatenate(parts).take(order), mag[order]
    flux = flux_from_mag(mag)
    success = np.ones(n)
    if selection == "spectroscopic":
        success = spectroscopic_success(galaxies, mag[:, reference], instrument)
    std = flux_std(flux, instrument)
    log_selection = np.log(np.maximum(success, 1e-300))
    return _Prior(galaxies.z, log_selection, flux.T.copy(), std.T.copy(), np.log(std).T.copy())


def _near(prior: _Prior, survey: SimulatedSurvey, row: int) -> slice:
    """Return the prior galaxies whose true reference flux is within reach of the observed one."""
    reference = survey.instrument.reference_index
    flux, reach = survey.flux[row, reference], _REACH * survey.flux_err[row, reference]
    if np.isnan(flux):
        return slice(0, prior.z.size)
    low, high = np.searchsorted(prior.flux[reference], [flux - reach, flux + reach])
    return slice(int(low), int(high))


def _log_likelihood(survey: SimulatedSurvey, row: int, prior: _Prior, part: slice) -> FloatArray:
    """Return the log likelihood of one row's photometry under the prior galaxies of a slice."""
    instrument = survey.instrument
    threshold = detection_flux(instrument, survey.detection_snr)
    total = np.zeros(part.stop - part.start)
    for band, flag in enumerate(survey.flag[row]):
        mean, std = prior.flux[band, part], prior.std[band, part]
        if flag == NOT_DETECTED:
            total += log_ndtr((threshold[band] - mean) / std)
        elif flag != NOT_OBSERVED:
            total -= 0.5 * ((survey.flux[row, band] - mean) / std) ** 2 + prior.log_std[band, part]
        elif band == instrument.reference_index:
            total += log_ndtr((mean - flux_from_mag(np.array(instrument.limit))) / std)
    return total


def _project(weight: FloatArray, z: FloatArray, grid: FloatArray) -> FloatArray:
    """Share each weight between the two grid nodes around its redshift; return a density."""
    low = np.clip(np.searchsorted(grid, z, side="right") - 1, 0, grid.size - 2)
    share = np.clip((z - grid[low]) / (grid[low + 1] - grid[low]), 0.0, 1.0)
    mass = np.bincount(low, weight * (1.0 - share), minlength=grid.size)
    mass += np.bincount(low + 1, weight * share, minlength=grid.size)
    gaps = np.diff(grid)
    cell = 0.5 * (np.concatenate([gaps, [0.0]]) + np.concatenate([[0.0], gaps]))
    return np.asarray(mass / (mass.sum() * cell), dtype=np.float64)
