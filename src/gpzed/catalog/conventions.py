"""How the surveys name their columns: one table, read by `guess_schema`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["magnitude", "flux"]

NANOJANSKY_ZERO_POINT = 31.4
"""AB zero point of fluxes in nanojansky: magnitude = zero point - 2.5 log10(flux)."""
MICROJANSKY_ZERO_POINT = 23.9
"""AB zero point of fluxes in microjansky."""

WAVELENGTHS = {
    "FUV": 153, "NUV": 231, "U": 365, "u": 360, "B": 440, "g": 480, "V": 550, "r": 620, "R": 650, "VIS": 715,
    "i": 760, "i2": 765, "I": 800, "Z": 880, "z": 900, "y": 980, "Y": 1020, "J": 1250, "H": 1650, "F": 1840,
    "Ks": 2150, "K": 2200, "W1": 3350, "ch1": 3550, "ch2": 4490, "W2": 4600, "W3": 11560, "W4": 22090,
}  # fmt: skip
"""Approximate effective wavelengths in nanometres, used only to put bands in order."""

_BAND = r"([A-Za-z][A-Za-z0-9]*)"
_EUCLID_BAND = r"([A-Za-z][A-Za-z0-9]*(?:_ext_[A-Za-z0-9]+)?)"


@dataclass(frozen=True)
class Convention:
    """Column names of one kind of photometry of one survey."""

    name: str  # what `guess_schema(convention=...)` is given
    title: str  # what is shown
    value: str  # template of the magnitude or flux columns; ``{band}`` stands for the band, letter case is ignored
    errors: tuple[str, ...]  # templates of the error columns; the first that fits is taken
    kind: Kind = "magnitude"  # what the values are
    zero_point: float | None = None  # AB zero point of fluxes
    flag: str | None = None  # template of the flag columns
    only: tuple[str, ...] = ()  # bands the template may stand for; any by default
    band_pattern: str = _BAND  # regular expression of a band name, one group
    needs: str = ""  # how the name of at least one band ends

    def bands(self, columns: Iterable[str]) -> dict[str, str]:
        """Return the value column of every band that has one and whose error column is there too."""
        names = list(columns)
        lower = {name.lower() for name in names}
        found = self._values(names)
        bands = {b: name for b, name in found.items() if any(e.format(band=b).lower() in lower for e in self.errors)}
        return bands if any(b.endswith(self.needs) for b in bands) else {}

    def bands_without_errors(self, columns: Iterable[str]) -> dict[str, str]:
        """Return the value column of every band that is left out because it has no error column.

        Only letters that are bands count: any column may begin like a magnitude.
        """
        names = list(columns)
        complete = self.bands(names)
        return {b: name for b, name in self._values(names).items() if b not in complete and b in WAVELENGTHS}

    def _values(self, names: list[str]) -> dict[str, str]:
        before, after = (re.escape(part) for part in self.value.split("{band}"))
        pattern = re.compile(f"{before}{self.band_pattern}{after}", re.IGNORECASE)
        found: dict[str, str] = {}
        for name in names:
            match = pattern.fullmatch(name)
            if match is not None and not (self.only and match[1].lower() not in self.only):
                found.setdefault(match[1], name)
        return found


def _mag(name: str, title: str, value: str, *errors: str, **more: str | tuple[str, ...]) -> Convention:
    return Convention(name, title, value, errors, **more)  # type: ignore[arg-type]


def _rubin(name: str, stem: str) -> Convention:
    value = f"{{band}}_{stem}Flux"
    return Convention(
        f"rubin_{name}", f"Rubin {stem} fluxes (nJy)", value, (value + "Err",), "flux", NANOJANSKY_ZERO_POINT
    )


def _euclid(stem: str) -> Convention:
    value, error = f"flux_{{band}}_{stem}", f"fluxerr_{{band}}_{stem}"
    title = f"Euclid {stem} fluxes (uJy)"
    return Convention(
        f"euclid_{stem}", title, value, (error,), "flux", MICROJANSKY_ZERO_POINT, band_pattern=_EUCLID_BAND
    )


CONVENTIONS: tuple[Convention, ...] = (
    _mag("gpzed", "gpzed", "mag_{band}", "mag_err_{band}", "magerr_{band}", "mag_{band}_err", flag="flag_{band}"),
    _mag("lsst", "LSST / RAIL", "mag_{band}_lsst", "mag_err_{band}_lsst", "mag_{band}_lsst_err"),
    _mag(
        "lsst_roman",
        "LSST and Roman, as in DESC's photo-z data challenge",
        "mag_{band}",
        "mag_{band}_err",
        "mag_err_{band}",
        band_pattern=r"([A-Za-z][A-Za-z0-9]*_(?:lsst|roman))",
        needs="_roman",
    ),
    _mag("sdss_model", "SDSS model magnitudes", "modelMag_{band}", "modelMagErr_{band}"),
    _mag(
        "sdss_dered",
        "SDSS model magnitudes, extinction removed",
        "dered_{band}",
        "deredErr_{band}",
        "modelMagErr_{band}",
        "err_{band}",
    ),
    _mag("sdss_cmodel", "SDSS composite-model magnitudes", "cModelMag_{band}", "cModelMagErr_{band}"),
    _mag("sdss_psf", "SDSS PSF magnitudes", "psfMag_{band}", "psfMagErr_{band}"),
    _mag("sdss_petro", "SDSS Petrosian magnitudes", "petroMag_{band}", "petroMagErr_{band}"),
    _mag("sdss_short", "SDSS u, g, r, i, z columns", "{band}", "err_{band}", "{band}_err", only=tuple("ugriz")),
    _rubin("cmodel", "cModel"),
    _rubin("psf", "psf"),
    _rubin("kron", "kron"),
    _rubin("gaap", "gaap1p0"),
    _mag("des_auto", "DES AUTO magnitudes", "MAG_AUTO_{band}", "MAGERR_AUTO_{band}"),
    _mag("des_auto_dered", "DES AUTO magnitudes, extinction removed", "MAG_AUTO_{band}_DERED", "MAGERR_AUTO_{band}"),
    _mag("des_detmodel", "DES DETMODEL magnitudes", "MAG_DETMODEL_{band}", "MAGERR_DETMODEL_{band}"),
    _mag("des_wavg", "DES weighted-average PSF magnitudes", "WAVG_MAG_PSF_{band}", "WAVG_MAGERR_PSF_{band}"),
    _mag("des_wavg_auto", "DES weighted-average AUTO magnitudes", "WAVG_MAG_AUTO_{band}", "WAVG_MAGERR_AUTO_{band}"),
    _mag(
        "hsc_cmodel",
        "HSC CModel magnitudes",
        "{band}_cmodel_mag",
        "{band}_cmodel_magsigma",
        "{band}_cmodel_magerr",
        "{band}_cmodel_mag_err",
    ),
    _mag(
        "hsc_cmodel_short",
        "HSC CModel magnitudes",
        "{band}cmodel_mag",
        "{band}cmodel_magsigma",
        "{band}cmodel_magerr",
        "{band}cmodel_mag_err",
    ),
    _mag("hsc_psf", "HSC PSF magnitudes", "{band}_psfflux_mag", "{band}_psfflux_magsigma", "{band}_psfflux_magerr"),
    *(
        _euclid(stem)
        for stem in ("unif", "templfit", "psf", "sersic", "1fwhm_aper", "2fwhm_aper", "3fwhm_aper", "4fwhm_aper")
    ),
    _mag("kids_gaap", "KiDS GAaP magnitudes", "MAG_GAAP_{band}", "MAGERR_GAAP_{band}"),
)
"""All conventions known, in the order they are shown."""

REDSHIFT_NAMES = (
    "z_spec", "zspec", "spec_z", "specz", "redshift", "redshift_spec", "spec_redshift", "z_true", "ztrue",
    "redshift_true", "true_redshift", "z_specz", "zbest_spec",
)  # fmt: skip
"""Names of a spectroscopic (or true) redshift, lower case; photometric ones (KiDS' Z_B) are not among them."""
SECOND_REDSHIFT_NAMES = ("z_best", "zbest", "zsp", "z_sp", "zs", "z_s", "zhelio", "z_helio", "z_hel", "zcmb", "z_cmb")
"""Names that are taken for a redshift where no clearer one is there."""
WEIGHT_NAMES = ("weight", "weights", "sample_weight")
ID_NAMES = (
    "id", "object_id", "objid", "objectid", "obj_id", "coadd_object_id", "coadd_objects_id",
    "source_id", "galaxy_id",
    "dr2objid", "sourceid", "specobjid",
)  # fmt: skip
EBV_NAMES = ("ebv", "e_bv", "ebmv", "e(b-v)", "e_b_v", "ebv_sfd98", "sfd_ebv", "ebv_sfd")
ERROR_SUFFIXES = ("_err", "err", "_error", "_sigma", "_unc")


def wavelength_order(bands: Sequence[str]) -> tuple[str, ...]:
    """Return bands from blue to red; unknown ones follow, in the order given.

    Examples
    --------
    >>> wavelength_order(["z", "u", "i2", "i", "mystery", "g"])
    ('u', 'g', 'i', 'i2', 'z', 'mystery')
    """
    lower = {name.lower(): value for name, value in reversed(WAVELENGTHS.items())}

    def key(item: tuple[int, str]) -> tuple[float, int]:
        position, band = item
        first, last = band.split("_")[0], band.split("_")[-1]
        known = (WAVELENGTHS.get(stem, lower.get(stem.lower(), _by_number(stem))) for stem in (first, last))
        return min(known), position

    return tuple(band for _, band in sorted(enumerate(bands), key=key))


def _by_number(name: str) -> float:
    """Return the wavelength in the name of a filter of HST, JWST, Roman or a narrow band; infinite if it has none."""
    found = re.fullmatch(r"([A-Za-z]{1,2})_?(\d{3})\d?([WMNX]|LP)?", name, re.IGNORECASE)
    if found is None:
        return float("inf")
    number = int(found[2])
    if len(found[1]) == 1 and not found[3] and number not in _ROMAN:
        return float("inf")
    in_nanometres = number >= 500 or number in _IN_NANOMETRES or len(found[1]) == 2
    return float(number if in_nanometres else 10 * number)


_ROMAN = (62, 87, 106, 129, 146, 158, 184, 213)
_IN_NANOMETRES = (218, 225, 275, 336, 390, 435, 438, 439, 450, 467, 475)
"""Numbers of filters of HST that are nanometres; others below 500 are tens of them."""


def canonical_bands(tokens: Sequence[str]) -> list[str]:
    """Return band names in their usual spelling when a file has all its letters in one case.

    ``MAG_AUTO_G`` and ``MAG_AUTO_Y`` give g and Y; ``flux_vis_unif`` gives VIS; mixed case is kept.
    """
    usual = {name.lower(): name for name in ("VIS", "FUV", "NUV", "Ks", "W1", "W2", "W3", "W4")}
    if any(token != token.upper() for token in tokens):
        return [usual.get(token.lower(), token) for token in tokens]
    optical = {letter.upper(): letter for letter in "ugriz"}
    return [
        usual.get(token.lower()) or optical.get(token) or (token.lower() if "_" in token else token) for token in tokens
    ]
