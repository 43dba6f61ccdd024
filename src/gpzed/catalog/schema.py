"""Which column is what: the mapping from a catalogue's columns to bands, errors, redshift and the rest."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpzed.catalog._names import near_misses
from gpzed.catalog.conventions import Kind
from gpzed.catalog.units import FLUX_UNITS, UNIT, factor_to, known_units, parse_unit
from gpzed.errors import SchemaError

_OPTIONAL_ROLES = ("redshift", "redshift_err", "weight", "id", "ebv")


@dataclass(frozen=True)
class PhotometrySchema:
    """The columns that hold the photometry and what goes with it.

    Parameters
    ----------
    bands : tuple of str
        Band names, in the order in which arrays will have them.
    mag, mag_err : dict of str to str
        Magnitude and error column by band, if the photometry is in magnitudes.
    flux, flux_err : dict of str to str
        Flux and error column by band, if it is in fluxes.
    kind : {"magnitude", "flux"}, optional
        Follows from which of `mag` and `flux` is given.
    zero_point : float or None
        AB magnitude of flux 1; needed for fluxes, unless `units` tell it.
    units : dict of str to str
        Unit by column, where known; values are converted to magnitudes, or to fluxes of `zero_point`, when read.
    inverse_variance : bool
        Whether the errors are given as inverse variances.
    absent : tuple of str
        Bands that the catalogue does not have; no object has been observed in them.
    flag : dict of str to str
        Flag column by band, where there is one: 0 measured, 1 not detected or failed, 2 not observed.
    redshift, redshift_err, weight, id, ebv : str or None
        Columns of spectroscopic redshift, its error, cost weight, identifier, E(B-V).
    convention : str
        Name of the convention the columns were recognised by, or "given".

    Notes
    -----
    Error columns may be left out altogether (`mag_err` empty), never for some bands only.

    Examples
    --------
    >>> schema = PhotometrySchema(("g", "r"), mag={"g": "G", "r": "R"}, mag_err={"g": "eG", "r": "eR"})
    >>> schema.kind, schema.columns
    ('magnitude', ('G', 'R', 'eG', 'eR'))
    """

    bands: tuple[str, ...]
    mag: dict[str, str] = field(default_factory=dict)
    mag_err: dict[str, str] = field(default_factory=dict)
    flux: dict[str, str] = field(default_factory=dict)
    flux_err: dict[str, str] = field(default_factory=dict)
    kind: Kind | None = None
    zero_point: float | None = None
    units: dict[str, str] = field(default_factory=dict)
    inverse_variance: bool = False
    absent: tuple[str, ...] = ()
    flag: dict[str, str] = field(default_factory=dict)
    redshift: str | None = None
    redshift_err: str | None = None
    weight: str | None = None
    id: str | None = None
    ebv: str | None = None
    convention: str = "given"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bands", tuple(self.bands))
        object.__setattr__(self, "absent", tuple(self.absent))
        if bool(self.mag) == bool(self.flux):
            raise SchemaError("a schema needs either `mag` or `flux` columns; give one of the two")
        kind: Kind = "magnitude" if self.mag else "flux"
        if self.kind not in (None, kind):
            raise SchemaError(f"`kind` is '{self.kind}' but {kind} columns are given; expected '{kind}'")
        object.__setattr__(self, "kind", kind)
        if (self.flux_err if self.mag else self.mag_err) or len(set(self.bands)) != len(self.bands):
            raise SchemaError(f"bands {', '.join(self.bands)} or their errors are given twice; give every band once")
        for name, columns in (("values", self.values), ("errors", self.errors)):
            if set(columns) != set(self.observed) and (name == "values" or columns):
                raise SchemaError(
                    f"{kind} {name} are given for bands {', '.join(sorted(columns))} but `bands` is "
                    f"{', '.join(self.observed)}; give one column per band"
                )
        strange = sorted((set(self.flag) | set(self.absent)) - set(self.bands))
        if strange:
            raise SchemaError(f"`flag` or `absent` names bands that are not in `bands`: {', '.join(strange)}")
        self._check_units(kind)

    def _check_units(self, kind: Kind) -> None:
        """Keep the units of the photometry, refuse those of the other kind, and take the zero point from them."""
        columns = [*self.values.values(), *(() if self.inverse_variance else self.errors.values())]
        units = known_units({name: unit for name, unit in self.units.items() if name in columns})
        plain = [name for name, unit in units.items() if kind == "magnitude" and factor_to(unit, kind, None) == 1.0]
        object.__setattr__(self, "units", {name: unit for name, unit in units.items() if name not in plain})
        for name, unit in units.items():
            if (meaning := parse_unit(unit)) is not None and meaning.kind != kind:
                other = "mag" if kind == "flux" else "flux"
                raise SchemaError(
                    f"column '{name}' is taken for a {kind} but its unit is {unit}; name the columns with `{other}=`, "
                    "or correct the unit with `unit=`"
                )
        if kind == "flux" and self.zero_point is None:
            stated = [parse_unit(units[name]) for name in self.values.values() if name in units]
            if len(stated) < len(self.values) or stated[0] is None:
                raise SchemaError(
                    "fluxes need a unit and the catalogue does not give one: say it with `unit=`, one of "
                    f"{FLUX_UNITS}, or the AB magnitude of flux 1 with `zero_point=`",
                    {"unit": UNIT},
                )
            object.__setattr__(self, "zero_point", stated[0].zero_point)

    @property
    def observed(self) -> tuple[str, ...]:
        """Bands that the catalogue has, in order."""
        return tuple(band for band in self.bands if band not in self.absent)

    def factors(self, band: str) -> tuple[float, float]:
        """Return what values and errors of a band are multiplied by, to be in the unit of the schema."""
        assert self.kind is not None
        value = self.units.get(self.values[band])
        error = value if self.inverse_variance else self.units.get(self.errors.get(band, ""), value)
        return factor_to(value, self.kind, self.zero_point), factor_to(error, self.kind, self.zero_point)

    @property
    def values(self) -> dict[str, str]:
        """Magnitude or flux column by band."""
        return self.mag or self.flux

    @property
    def errors(self) -> dict[str, str]:
        """Error column by band; empty if the catalogue has none."""
        return self.mag_err or self.flux_err

    @property
    def photometry_columns(self) -> tuple[str, ...]:
        """Columns needed to predict: values, errors, flags, E(B-V)."""
        names = [mapping[band] for mapping in (self.values, self.errors) if mapping for band in self.observed]
        names += [self.flag[band] for band in self.observed if band in self.flag]
        return tuple(dict.fromkeys([*names, *([self.ebv] if self.ebv else [])]))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the schema, each once."""
        others = [getattr(self, role) for role in _OPTIONAL_ROLES]
        return tuple(dict.fromkeys([*self.photometry_columns, *(name for name in others if name)]))

    @classmethod
    def from_templates(
        cls,
        columns: Iterable[str],
        bands: Sequence[str],
        *,
        mag: str | None = None,
        flux: str | None = None,
        err: str | None = None,
        flag: str | None = None,
        zero_point: float | None = None,
        units: Mapping[str, str] | None = None,
        inverse_variance: bool = False,
        redshift: str | None = None,
        redshift_err: str | None = None,
        weight: str | None = None,
        id: str | None = None,
        ebv: str | None = None,
        convention: str = "given",
    ) -> PhotometrySchema:
        """Build a schema from column-name templates.

        Parameters
        ----------
        columns : iterable of str
            Columns of the catalogue.
        bands : sequence of str
            Band names; kept in this order.
        mag, flux : str
            Template of the value columns, one of the two; ``{band}`` stands for the band, ``{BAND}`` for it in
            capitals. Letter case is ignored if no column fits exactly.
        err, flag : str, optional
            Templates of the error and flag columns.
        zero_point, units, inverse_variance, redshift, redshift_err, weight, id, ebv, convention
            As in the schema.

        Examples
        --------
        >>> columns = ["mag_u_lsst", "mag_err_u_lsst", "mag_g_lsst", "mag_err_g_lsst"]
        >>> schema = PhotometrySchema.from_templates(
        ...     columns, bands=("u", "g"), mag="mag_{band}_lsst", err="mag_err_{band}_lsst")
        >>> schema.mag
        {'u': 'mag_u_lsst', 'g': 'mag_g_lsst'}
        """
        names = list(columns)
        if bool(mag) == bool(flux):
            raise SchemaError("`mag` and `flux` are both given or both missing; give the template of one of them")

        def fill(template: str | None) -> dict[str, str]:
            return {b: find_column(expand(template, b), names, f"band {b!r}") for b in bands} if template else {}

        roles = {"redshift": redshift, "redshift_err": redshift_err, "weight": weight, "id": id, "ebv": ebv}
        found = {role: find_column(name, names, role) if name else None for role, name in roles.items()}
        values, errors = ("mag", "mag_err") if mag else ("flux", "flux_err")
        given: dict[str, Any] = {values: fill(mag or flux), errors: fill(err), "flag": fill(flag), **found}
        given |= {"units": dict(units or {}), "inverse_variance": inverse_variance}
        return cls(tuple(bands), **given, zero_point=zero_point, convention=convention)

    @classmethod
    def from_columns(cls, mag: Sequence[str], mag_err: Sequence[str] = (), **roles: str | None) -> PhotometrySchema:
        """Build a schema of magnitudes from lists of columns, naming the bands after what tells the columns apart.

        Error columns are those of the same bands in the same order, or none at all; `roles` are `redshift`, `weight`,
        `id` and `ebv`.

        Examples
        --------
        >>> PhotometrySchema.from_columns(["mag_u_lsst", "mag_g_lsst"], ["err_u", "err_g"]).mag_err
        {'u': 'err_u', 'g': 'err_g'}
        """
        twice = [name for name in mag if list(mag).count(name) > 1]
        if twice:
            raise SchemaError(f"magnitude column {twice[0]!r} is given twice; give every band once")
        if mag_err and len(mag_err) != len(mag):
            raise SchemaError(
                f"{len(mag_err)} error columns are given for {len(mag)} magnitude columns; give one per band, in the "
                "same order, or none"
            )
        bands = bands_of(mag)
        errors = dict(zip(bands, mag_err, strict=True)) if mag_err else {}
        given: dict[str, Any] = {role: name or None for role, name in roles.items()}
        return cls(bands, mag=dict(zip(bands, mag, strict=True)), mag_err=errors, **given)

    def require(self, columns: Iterable[str], *, redshift: bool = False) -> None:
        """Raise unless the columns needed, with `redshift` also that one, are among `columns`; name near misses."""
        names = list(columns)
        needed = list(self.photometry_columns)
        if redshift:
            if self.redshift is None:
                raise SchemaError("the schema has no redshift column; name it with `redshift=`")
            needed.append(self.redshift)
        missing = [name for name in needed if name not in names]
        if missing:
            hints = []
            for name in missing:
                near = near_misses(name, names)
                hints.append(f"{name!r}" + (f" (near: {', '.join(map(repr, near))})" if near else ""))
            raise SchemaError(
                f"{len(missing)} column(s) of the schema are missing: {', '.join(hints)}; the catalogue has "
                f"{listed(names)}; map other names with column templates"
            )

    def describe(self) -> list[tuple[str, str]]:
        """Return (role, column) pairs for display."""
        lines = [("convention", self.convention)]
        for band in self.observed:
            unit = self.units.get(self.values[band])
            lines.append((f"{self.kind} {band}", self.values[band] + (f" [{unit}]" if unit else "")))
            if self.errors:
                lines.append((f"{'inverse variance' if self.inverse_variance else 'error'} {band}", self.errors[band]))
            if band in self.flag:
                lines.append((f"flag {band}", self.flag[band]))
        lines += [(f"{self.kind} {band}", "not in the catalogue") for band in self.absent]
        if self.zero_point is not None:
            lines.append(("zero point", f"{self.zero_point:g}"))
        lines += [(role, getattr(self, role)) for role in _OPTIONAL_ROLES if getattr(self, role)]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain JSON types."""
        stored = dataclasses.asdict(self)
        stored["bands"], stored["absent"] = list(self.bands), list(self.absent)
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> PhotometrySchema:
        """Return the schema that `to_dict` stored."""
        known = {item.name for item in dataclasses.fields(cls)}
        unknown = sorted(set(stored) - known)
        if unknown:
            near = near_misses(unknown[0], known)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SchemaError(f"unknown schema entry {unknown[0]!r}{hint} Valid entries: {', '.join(sorted(known))}")
        if "bands" not in stored:
            raise SchemaError("the schema has no `bands`; list the band names")
        return cls(**{**stored, "bands": tuple(stored["bands"])})


def bands_of(columns: Sequence[str]) -> tuple[str, ...]:
    """Return what is left of column names when the beginning and the end that all share are taken off.

    Whole parts are taken off, between underscores. Where nothing sensible is left, the names are the columns' own.

    Examples
    --------
    >>> bands_of(["mag_u_lsst", "mag_g_lsst"]), bands_of(["G", "R"]), bands_of(["mag_g", "w1mag"])
    (('u', 'g'), ('G', 'R'), ('mag_g', 'w1mag'))
    """
    parts = [name.split("_") for name in columns]
    shortest = min((len(part) for part in parts), default=0)
    start = 0
    while start < shortest - 1 and len({part[start] for part in parts}) == 1:
        start += 1
    end = 0
    while end < shortest - 1 - start and len({part[-1 - end] for part in parts}) == 1:
        end += 1
    names = tuple("_".join(part[start : len(part) - end]) for part in parts)
    return names if len(columns) > 1 and all(names) else tuple(columns)


def as_template(columns: Mapping[str, str]) -> str:
    """Return the template that makes these columns of their bands; empty if there is none.

    Examples
    --------
    >>> as_template({"u": "lsst.u_err", "g": "lsst.g_err"}), as_template({"u": "lsst.u", "g": "gmag"})
    ('lsst.{band}_err', '')
    """
    band, column = next(iter(columns.items()), ("", ""))
    starts = [found.start() for found in re.finditer(re.escape(band), column)] if band else []
    for start in reversed(starts):
        template = f"{column[:start]}{{band}}{column[start + len(band) :]}"
        if all(template.replace("{band}", other) == name for other, name in columns.items()):
            return template
    return ""


def expand(template: str, band: str) -> str:
    """Return a template with the band put in."""
    if "{band}" not in template and "{BAND}" not in template:
        raise SchemaError(f"template {template!r} has no '{{band}}'; write it like 'mag_{{band}}'")
    return template.replace("{band}", band).replace("{BAND}", band.upper())


def find_column(name: str, columns: Sequence[str], role: str) -> str:
    """Return the column of this name, letter case aside if none fits exactly."""
    if name in columns:
        return name
    folded = [column for column in columns if column.lower() == name.lower()]
    if len(folded) == 1:
        return folded[0]
    if folded:
        raise SchemaError(f"{role}: column {name!r} could be any of {', '.join(folded)}; spell it as in the file")
    near = near_misses(name, columns)
    hint = f"did you mean {', '.join(map(repr, near))}?" if near else f"the catalogue has {listed(columns)}"
    raise SchemaError(f"{role}: there is no column {name!r}; {hint}")


def listed(names: Sequence[str]) -> str:
    """Return names quoted for a message, at most 40 of them."""
    return ", ".join(map(repr, names[:40])) + (f", ... ({len(names)} in all)" if len(names) > 40 else "")
