"""Simulate a photometric survey with a spectroscopic subsample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.simulate.instruments import Instrument, find_instrument
from gpzed.simulate.noise import (
    MEASURED,
    NOT_DETECTED,
    NOT_OBSERVED,
    detection_flux,
    flux_from_mag,
    flux_std,
    spectroscopic_success,
    to_magnitudes,
)
from gpzed.simulate.population import Galaxies, concatenate, draw_galaxies

_BATCH = 100_000
_PATCH = (150.0, 170.0, -5.0, 5.0)  # right ascension and declination limits, degrees


@dataclass(frozen=True)
class SimulatedSurvey:
    """A simulated catalogue together with the truth behind it."""

    instrument: Instrument
    detection_snr: float  # signal-to-noise ratio below which a band counts as not detected
    galaxies: Galaxies  # true redshift, kind, age and dust
    true_mag: FloatArray  # (n, n_bands) noise-free AB magnitudes
    flux: FloatArray  # (n, n_bands) observed, in nJy; NaN where not observed, negative where noise won
    flux_err: FloatArray  # (n, n_bands)
    flag: npt.NDArray[np.int8]  # (n, n_bands) 0 measured, 1 not detected, 2 not observed
    spectroscopic: BoolArray  # (n,) whether the galaxy has a spectroscopic redshift
    ra: FloatArray  # (n,) degrees
    dec: FloatArray

    def __len__(self) -> int:
        return int(self.spectroscopic.size)

    @property
    def bands(self) -> tuple[str, ...]:
        """Band names, from blue to red."""
        return self.instrument.bands

    @property
    def z_true(self) -> FloatArray:
        """True redshifts, of shape (n,)."""
        return self.galaxies.z

    @property
    def mag(self) -> FloatArray:
        """Observed magnitudes, of shape (n, n_bands); NaN where the flag is not 0."""
        return to_magnitudes(self.flux, self.flux_err, self.flag == MEASURED)[0]

    @property
    def mag_err(self) -> FloatArray:
        """Errors of the magnitudes, of shape (n, n_bands); NaN where the flag is not 0."""
        return to_magnitudes(self.flux, self.flux_err, self.flag == MEASURED)[1]

    def columns(self, *, truth: bool = False, flux: bool = False) -> dict[str, AnyArray]:
        """Return the catalogue as named columns.

        These are ``id``, ``ra``, ``dec``; ``mag_{band}``, ``mag_err_{band}``, ``flag_{band}``; ``z_spec``, NaN without
        a spectrum; ``spectroscopic``; with `flux` also ``flux_{band}`` and ``flux_err_{band}`` in nJy; with `truth`
        also ``z_true``, ``true_mag_{band}``, ``true_type`` (0 early, 1 spiral, 2 starburst), ``true_age``,
        ``true_ebv``.
        """
        columns: dict[str, AnyArray] = {"id": np.arange(len(self), dtype=np.int64), "ra": self.ra, "dec": self.dec}
        mag, mag_err = to_magnitudes(self.flux, self.flux_err, self.flag == MEASURED)
        for k, band in enumerate(self.bands):
            columns[f"mag_{band}"] = mag[:, k].astype(np.float32)
            columns[f"mag_err_{band}"] = mag_err[:, k].astype(np.float32)
            columns[f"flag_{band}"] = self.flag[:, k].copy()
            if flux:
                columns[f"flux_{band}"] = self.flux[:, k].astype(np.float32)
                columns[f"flux_err_{band}"] = self.flux_err[:, k].astype(np.float32)
        columns["z_spec"] = np.where(self.spectroscopic, self.galaxies.z, np.nan)
        columns["spectroscopic"] = self.spectroscopic.copy()
        if truth:
            columns["z_true"] = self.galaxies.z.copy()
            columns |= {f"true_mag_{band}": self.true_mag[:, k].copy() for k, band in enumerate(self.bands)}
            columns["true_type"] = self.galaxies.kind.copy()
            columns["true_age"] = self.galaxies.age.copy()
            columns["true_ebv"] = self.galaxies.reddening.copy()
        return columns


def simulate_survey(
    n: int,
    *,
    survey: str = "sdss",
    random_state: int | np.random.Generator | None = None,
    missing_fraction: float = 0.0,
    only_spectroscopic: bool = False,
    detection_snr: float = 1.0,
    magnitude_limit: float | None = None,
    depth_offset: float = 0.0,
) -> SimulatedSurvey:
    """Simulate the catalogue of a magnitude-limited survey.

    Parameters
    ----------
    n : int
        Galaxies in the catalogue.
    survey : {"sdss", "lsst"}, default="sdss"
        "sdss": ugriz, r < 22; "lsst": ugrizy at ten-year depth, i < 25.3.
    random_state : int, numpy.random.Generator or None, default=None
        Seed; the same seed gives the same catalogue.
    missing_fraction : float, default=0.0
        Probability that a band of a galaxy was not observed (flag 2). At least one band always was.
    only_spectroscopic : bool, default=False
        Keep only galaxies with a spectroscopic redshift: `n` of them.
    detection_snr : float, default=1.0
        A band with a smaller signal-to-noise ratio is a non-detection (flag 1).
    magnitude_limit : float or None, default=None
        Faintest observed magnitude in the reference band; None takes the survey's.
    depth_offset : float, default=0.0
        Magnitudes added to every 5σ depth; -1.25 is one year of the ten-year survey.

    Examples
    --------
    >>> from gpzed.simulate import simulate_survey
    >>> columns = simulate_survey(1000, survey="sdss", random_state=0).columns()
    >>> sorted(columns)[:4]
    ['dec', 'flag_g', 'flag_i', 'flag_r']
    >>> bool((columns["mag_r"] < 22).all())
    True
    """
    _check_arguments(n, missing_fraction, detection_snr)
    instrument = find_instrument(survey, magnitude_limit, depth_offset)
    rng = np.random.default_rng(random_state)
    galaxies, true_mag, flux, spectroscopic = _observe(n, instrument, only_spectroscopic, rng)
    flux_err = flux_std(flux, instrument)
    flag = np.where(flux < detection_flux(instrument, detection_snr), NOT_DETECTED, MEASURED).astype(np.int8)
    unobserved = _draw_unobserved(flux.shape, missing_fraction, rng)
    ra_low, ra_high, dec_low, dec_high = _PATCH
    sine = rng.uniform(np.sin(np.radians(dec_low)), np.sin(np.radians(dec_high)), n)
    return SimulatedSurvey(
        instrument=instrument,
        detection_snr=detection_snr,
        galaxies=galaxies,
        true_mag=true_mag,
        flux=np.where(unobserved, np.nan, flux),
        flux_err=np.where(unobserved, np.nan, flux_err),
        flag=np.where(unobserved, np.int8(NOT_OBSERVED), flag),
        spectroscopic=spectroscopic,
        ra=rng.uniform(ra_low, ra_high, n),
        dec=np.degrees(np.arcsin(sine)),
    )


def _check_arguments(n: int, missing_fraction: float, detection_snr: float) -> None:
    if n < 1:
        raise ValueError(f"`n` is {n}; expected at least 1 galaxy to simulate.")
    if not 0.0 <= missing_fraction < 1.0:
        raise ValueError(f"`missing_fraction` is {missing_fraction}; expected a probability, at least 0 and below 1.")
    if not 0.0 < detection_snr <= 20.0:
        raise ValueError(
            f"`detection_snr` is {detection_snr}; expected a signal-to-noise ratio above 0 and up to 20, "
            "such as 1 or 5."
        )


def _observe(
    n: int, instrument: Instrument, only_spectroscopic: bool, rng: np.random.Generator
) -> tuple[Galaxies, FloatArray, FloatArray, BoolArray]:
    """Draw batches until n galaxies pass the limit; return galaxies, true mags, fluxes, spectra."""
    reference = instrument.reference_index
    flux_limit = flux_from_mag(np.array(instrument.limit))
    parts: list[tuple[Galaxies, FloatArray, FloatArray, BoolArray]] = []
    found, batch = 0, min(_BATCH, (30 if only_spectroscopic else 3) * n + 1000)
    while found < n:
        galaxies, true_mag = draw_galaxies(batch, instrument, instrument.limit + instrument.margin, rng)
        true_flux = flux_from_mag(true_mag)
        flux = true_flux + flux_std(true_flux, instrument) * rng.standard_normal(true_flux.shape)
        success = spectroscopic_success(galaxies, true_mag[:, reference], instrument)
        spectroscopic = rng.random(success.size) < success
        kept = flux[:, reference] > flux_limit
        if only_spectroscopic:
            kept &= spectroscopic
        rows = np.flatnonzero(kept)[: n - found]
        parts.append((galaxies.take(rows), true_mag[rows], flux[rows], spectroscopic[rows]))
        found += rows.size
    merged, mags, fluxes, spectra = zip(*parts, strict=True)
    return concatenate(list(merged)), np.concatenate(mags), np.concatenate(fluxes), np.concatenate(spectra)


def _draw_unobserved(shape: tuple[int, ...], missing_fraction: float, rng: np.random.Generator) -> BoolArray:
    """Choose bands at random, and give one back to each galaxy left with none."""
    unobserved = rng.random(shape) < missing_fraction
    spared = rng.integers(shape[1], size=shape[0])
    empty = np.flatnonzero(unobserved.all(axis=1))
    unobserved[empty, spared[empty]] = False
    return np.asarray(unobserved, dtype=np.bool_)
