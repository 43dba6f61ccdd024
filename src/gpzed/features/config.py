"""Options of the features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpzed.errors import ConfigError


@dataclass(frozen=True)
class FeatureConfig:
    """How photometry becomes the inputs of the model.

    Parameters
    ----------
    magnitudes : {"pogson", "asinh"}
        Magnitudes as usual, or asinh magnitudes (luptitudes, Lupton et al. 1999), which stay well-behaved where the
        signal drowns in noise; their softening is the median flux error of the training rows, band by band.
    colours : bool
        Differences of adjacent bands and one magnitude, instead of all magnitudes.
    reference_band : str
        The band whose magnitude stands beside the colours; "" for the one in the middle.
    errors : bool
        Whether the logarithms of the errors are inputs too, as in the paper (section 6.2).
    min_error : float
        Smaller errors are raised to this, in magnitudes.
    clip : float
        Inputs are moved to the edge of the range of the training rows where they lie outside it: this many robust
        standard deviations from the median, taken separately on either side; 0 for no limit.
    coverage : float
        Objects farther from the centre of the training rows (Mahalanobis distance) than this part of them are
        flagged as outside their coverage.
    extinction : dict of str to float
        Extinction coefficient A / E(B-V) by band, to correct for Galactic dust with the E(B-V) column; empty for no
        correction. Schlafly & Finkbeiner (2011) for SDSS: u 4.239, g 3.303, r 2.285, i 1.698, z 1.263.
    """

    magnitudes: Literal["pogson", "asinh"] = "pogson"
    colours: bool = False
    reference_band: str = ""
    errors: bool = True
    min_error: float = 1e-3
    clip: float = 4.0
    coverage: float = 0.999
    extinction: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.magnitudes not in ("pogson", "asinh"):
            raise ConfigError(f'`magnitudes` is {self.magnitudes!r}; expected "pogson" or "asinh"')
        if not self.min_error > 0.0:
            raise ConfigError(f"`min_error` is {self.min_error}; expected a number above 0, in magnitudes")
        if not (self.clip == 0.0 or self.clip >= 2.0):
            raise ConfigError(f"`clip` is {self.clip}; expected 0 (no limit) or at least 2 standard deviations")
        if not 0.5 <= self.coverage <= 1.0:
            raise ConfigError(f"`coverage` is {self.coverage}; expected a part of the training rows, 0.5 to 1")
        if self.reference_band and not self.colours:
            raise ConfigError(f"`reference_band` is {self.reference_band!r} but `colours` is false; set both or none")
