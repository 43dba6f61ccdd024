"""Options of the features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpzed.errors import ConfigError

CHOICES: dict[str, tuple[str, ...]] = {
    "magnitudes": ("auto", "asinh", "pogson"),
    "errors": ("auto", "excess", "inputs", "noise", "both", "none"),
    "missing": ("marginalise", "fill"),
    "non_detections": ("auto", "flux", "limit", "marginalise"),
}


@dataclass(frozen=True)
class FeatureConfig:
    """How photometry becomes the inputs of the model.

    Parameters
    ----------
    magnitudes : {"auto", "asinh", "pogson"}
        Magnitudes as usual, or asinh magnitudes (luptitudes, Lupton et al. 1999), which stay well-behaved where the
        signal drowns in noise; their softening is the median flux error of the training rows, band by band.
        "auto" takes these where the catalogue has errors.
    colours : bool
        Differences of adjacent bands and one magnitude, instead of all magnitudes.
    reference_band : str
        The band whose magnitude stands beside the colours; "" for the one in the middle.
    errors : {"auto", "excess", "inputs", "noise", "both", "none"}
        How the errors of the magnitudes are used: one further input, by how much they exceed what is usual at the
        magnitudes, in the mean of the bands; their logarithms as further inputs, as in the paper (section 6.2); as
        noise of the inputs, which training removes and prediction adds back, so that training and target may differ in
        depth; logarithms and noise; or not at all. "auto" is "excess" if held-out rows gain by it in a quick trial (at
        least 1,000 training rows, no target catalogue), else "none".
    missing : {"marginalise", "fill"}
        What becomes of bands that were not observed, or failed: the model takes the expectation over them, given the
        other bands, and adds the variance that this brings; or they are filled with their mean given the other bands,
        as if measured.
    non_detections : {"auto", "flux", "limit", "marginalise"}
        What becomes of bands in which nothing was detected: a small flux, what such rows are expected to have on the
        median given their other bands, with the error of a typical faint object (asinh magnitudes only); the limiting
        magnitude if the catalogue has it, else the faint end of the training rows; or the same as bands that were not
        observed. "auto" is "flux" for asinh magnitudes, but for bands that fewer than 20 training rows lack, of which
        nothing can be learned: "marginalise"; and "limit" for Pogson magnitudes.
    min_error : float
        Smaller errors are raised to this, in magnitudes.
    clip : float
        Rows with magnitudes outside the range of the training rows are moved to its edge, all bands by the same amount,
        so that colours stay: this many robust standard deviations from the median, taken separately on either side. 0
        for no limit: coverage then tells how far outside they are.
    extinction : dict of str to float
        Extinction coefficient A / E(B-V) by band, to correct for Galactic dust with the E(B-V) column; empty for no
        correction. Schlafly & Finkbeiner (2011) for SDSS: u 4.239, g 3.303, r 2.285, i 1.698, z 1.263.
    """

    magnitudes: Literal["auto", "asinh", "pogson"] = "auto"
    colours: bool = False
    reference_band: str = ""
    errors: Literal["auto", "excess", "inputs", "noise", "both", "none"] = "auto"
    missing: Literal["marginalise", "fill"] = "marginalise"
    non_detections: Literal["auto", "flux", "limit", "marginalise"] = "auto"
    min_error: float = 1e-3
    clip: float = 0.0
    extinction: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                listed = " or ".join(f'"{choice}"' for choice in allowed)
                raise ConfigError(f"`{name}` is {value!r}; expected {listed}")
        if self.non_detections == "flux" and self.magnitudes == "pogson":
            raise ConfigError(
                '`non_detections` is "flux" but Pogson magnitudes know no flux of zero; set `magnitudes` to "asinh"'
            )
        if self.colours and self.errors in ("noise", "both"):
            raise ConfigError(
                f'`errors` is "{self.errors}" but those of adjacent colours are not independent; set `colours` to false'
            )
        if not self.min_error > 0.0:
            raise ConfigError(f"`min_error` is {self.min_error}; expected a number above 0, in magnitudes")
        if not (self.clip == 0.0 or self.clip >= 2.0):
            raise ConfigError(f"`clip` is {self.clip}; expected 0 (no limit) or at least 2 standard deviations")
        if self.reference_band and not self.colours:
            raise ConfigError(f"`reference_band` is {self.reference_band!r} but `colours` is false; set both or none")

    @property
    def has_error_inputs(self) -> bool:
        """Whether the logarithms of the errors are inputs."""
        return self.errors in ("inputs", "both")

    @property
    def has_input_noise(self) -> bool:
        """Whether the errors are the noise of the inputs."""
        return self.errors in ("noise", "both")

    @property
    def non_detection(self) -> str:
        """What becomes of non-detections, "auto" settled."""
        if self.non_detections == "auto":
            return "flux" if self.magnitudes == "asinh" else "limit"
        return self.non_detections


Adaptation = Literal["auto", "dim", "weights", "none"]
ADAPTATIONS: tuple[Adaptation, ...] = ("auto", "dim", "weights", "none")


@dataclass(frozen=True)
class TargetConfig:
    """The survey that the model is for, where the training rows are not like it.

    Parameters
    ----------
    catalogue : str
        Catalogue of the survey; needs no redshifts. "" for none.
    adapt : {"auto", "dim", "weights", "none"}
        What is done about the difference: further training rows, made of training galaxies that are dimmed, with the
        noise of the target; weights that give the training rows the distribution of the target (Lima et al. 2008);
        nothing. "auto" takes what does best on held-out rows that look like the target.
    n_rows : int or None
        Rows that are made by dimming; as many as there are training rows, but at least 5,000 and at most 20,000, if
        left out.
    simulated : str
        Simulated catalogue with redshifts whose galaxies are used too, where there are no spectra: a file, or "lsst" or
        "sdss" for this package's own simulator. "" for none.
    n_neighbours : int
        "weights": training neighbours that set the size of the neighbourhood in which target objects are counted.
    """

    catalogue: str = ""
    adapt: Adaptation = "auto"
    n_rows: int | None = None
    simulated: str = ""
    n_neighbours: int = 20

    def __post_init__(self) -> None:
        if self.adapt not in ADAPTATIONS:
            raise ConfigError(f"`adapt` is {self.adapt!r}; expected one of {', '.join(ADAPTATIONS)}")
        if not 1 <= self.n_neighbours <= 1_000_000:
            raise ConfigError(f"`n_neighbours` is {self.n_neighbours}; expected at least 1, at most a million")
        if self.n_rows is not None and not 100 <= self.n_rows <= 1_000_000:
            raise ConfigError(f"`n_rows` is {self.n_rows}; expected 100 to a million, or nothing")
        if self.simulated and self.adapt in ("weights", "none"):
            raise ConfigError(f'`simulated` is given but `adapt` is "{self.adapt}"; set it to "auto" or "dim"')
