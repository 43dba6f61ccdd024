"""What each simulated survey observes: bands, depths, limits and spectroscopic follow-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from gpzed._types import FloatArray


@dataclass(frozen=True)
class Filter:
    """A passband with two logistic edges.

    The throughput is expit((λ - blue) / blue_width) expit((red - λ) / red_width): ``blue`` and
    ``red`` are the half-power points and the widths say how soft the edges are. The absolute scale
    does not matter: AB magnitudes are ratios.
    """

    name: str
    blue: float  # half-power wavelength, Å
    red: float
    blue_width: float  # scale of the edge, Å
    red_width: float

    def throughput(self, wavelength: FloatArray) -> FloatArray:
        """Return the throughput per photon, 0 to 1, at observed wavelengths."""
        rise = expit((wavelength - self.blue) / self.blue_width)
        fall = expit((self.red - wavelength) / self.red_width)
        return np.asarray(rise * fall, dtype=np.float64)

    @property
    def log_integral(self) -> float:
        """Integral of throughput over ln λ, which normalises AB fluxes."""
        wavelength, weight = self._quadrature()
        return float(np.sum(self.throughput(wavelength) * weight))

    @property
    def effective_wavelength(self) -> float:
        """Effective wavelength exp(∫ R ln λ dlnλ / ∫ R dlnλ), in Å (Fukugita et al. 1996)."""
        wavelength, weight = self._quadrature()
        response = self.throughput(wavelength) * weight
        return float(np.exp(np.sum(response * np.log(wavelength)) / np.sum(response)))

    def _quadrature(self) -> tuple[FloatArray, FloatArray]:
        log_wavelength = np.linspace(np.log(2000.0), np.log(14000.0), 8001)
        step = float(log_wavelength[1] - log_wavelength[0])
        return np.exp(log_wavelength), np.full(log_wavelength.size, step)


# Half-power points follow the published effective wavelengths and widths; see docs/explanation/simulator.md.
SDSS_FILTERS = (
    Filter("u", 3282.0, 3860.0, 60.0, 45.0),
    Filter("g", 4110.0, 5380.0, 100.0, 55.0),
    Filter("r", 5617.0, 6770.0, 50.0, 55.0),
    Filter("i", 6887.0, 8125.0, 55.0, 70.0),
    Filter("z", 8270.0, 9450.0, 70.0, 300.0),
)

LSST_FILTERS = (
    Filter("u", 3390.0, 3990.0, 70.0, 40.0),
    Filter("g", 4120.0, 5530.0, 80.0, 45.0),
    Filter("r", 5520.0, 6910.0, 45.0, 45.0),
    Filter("i", 6910.0, 8185.0, 45.0, 45.0),
    Filter("z", 8185.0, 9225.0, 45.0, 45.0),
    Filter("y", 9235.0, 10080.0, 60.0, 210.0),
)


@dataclass(frozen=True)
class FollowUp:
    """One spectroscopic programme: who is targeted, and how often it succeeds."""

    limit: float  # true reference magnitude at which the success falls to half
    width: float  # magnitude scale of the fall
    completeness: tuple[float, float, float]  # success for bright early, spiral and starburst galaxies
    z_start: float = 0.0  # redshift from which the programme's colour cuts let galaxies in


@dataclass(frozen=True)
class Instrument:
    """A photometric survey and its spectroscopic follow-up."""

    name: str  # survey name
    filters: tuple[Filter, ...]  # bands, from blue to red
    depths: tuple[float, ...]  # 5σ depth of each band, in AB magnitudes
    sky_factors: tuple[float, ...]  # γ of Ivezić et al. (2019), one per band
    systematic_error: float  # error floor, a fraction of the flux
    reference: str  # band in which the sample is limited
    limit: float  # faintest observed magnitude in the reference band
    margin: float  # how much fainter than `limit` true magnitudes are simulated
    z_max: float  # highest redshift
    follow_ups: tuple[FollowUp, ...]  # spectroscopic programmes; a galaxy has a redshift if any of them succeeds
    desert: tuple[float, float, float]  # start, end and remaining success of the redshift desert

    @property
    def bands(self) -> tuple[str, ...]:
        """Band names, from blue to red."""
        return tuple(band.name for band in self.filters)

    @property
    def reference_index(self) -> int:
        """Position of the reference band."""
        return self.bands.index(self.reference)


SDSS = Instrument(
    name="sdss",
    filters=SDSS_FILTERS,
    depths=(22.0, 22.2, 22.2, 21.3, 20.5),
    sky_factors=(0.038, 0.039, 0.039, 0.039, 0.039),
    systematic_error=0.015,
    reference="r",
    limit=22.0,
    margin=0.8,
    z_max=1.2,
    follow_ups=(
        FollowUp(17.77, 0.05, (0.93, 0.93, 0.93)),
        FollowUp(19.4, 0.15, (0.80, 0.05, 0.0), z_start=0.15),
        FollowUp(21.0, 0.20, (0.75, 0.15, 0.01), z_start=0.43),
        FollowUp(21.5, 0.20, (0.005, 0.005, 0.005)),
    ),
    desert=(0.75, 1.2, 0.4),
)

LSST = Instrument(
    name="lsst",
    filters=LSST_FILTERS,
    depths=(26.1, 27.4, 27.5, 26.8, 26.1, 24.9),
    sky_factors=(0.038, 0.039, 0.039, 0.039, 0.039, 0.039),
    systematic_error=0.005,
    reference="i",
    limit=25.3,
    margin=0.4,
    z_max=3.5,
    follow_ups=(FollowUp(22.5, 0.25, (0.95, 0.95, 0.95)), FollowUp(24.2, 0.35, (0.35, 0.45, 0.55))),
    desert=(1.5, 2.2, 0.2),
)

INSTRUMENTS: Mapping[str, Instrument] = {"sdss": SDSS, "lsst": LSST}


def find_instrument(survey: str, magnitude_limit: float | None, depth_offset: float) -> Instrument:
    """Return a named survey, with its limit or depths changed on request."""
    if survey not in INSTRUMENTS:
        known = ", ".join(repr(name) for name in INSTRUMENTS)
        raise ValueError(f"`survey` is {survey!r}, which is not simulated; choose one of {known}.")
    instrument = INSTRUMENTS[survey]
    if not -5.0 <= depth_offset <= 5.0:
        raise ValueError(
            f"`depth_offset` is {depth_offset}; expected magnitudes between -5 and 5 to add to every depth."
        )
    limit = instrument.limit if magnitude_limit is None else magnitude_limit
    if not 14.0 <= limit <= instrument.limit + 2.0:
        raise ValueError(
            f"`magnitude_limit` is {limit}; the {survey!r} simulation holds between 14 and "
            f"{instrument.limit + 2.0:g} in the {instrument.reference} band, so give a value in that range."
        )
    depths = tuple(depth + depth_offset for depth in instrument.depths)
    return replace(instrument, limit=limit, depths=depths)
