"""From columns to arrays of photometry in which every missing value says why it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gpzed._types import AnyArray, BoolArray, FloatArray
from gpzed.catalog.conventions import Kind
from gpzed.catalog.schema import PhotometrySchema
from gpzed.catalog.table import Catalog
from gpzed.errors import CatalogError, ConfigError, SchemaError


class Status(IntEnum):
    """What is known of one band of one object."""

    MEASURED = 0
    NOT_OBSERVED = 1
    NOT_DETECTED = 2
    FAILED = 3


@dataclass(frozen=True)
class Sentinels:
    """The numbers that stand for "no measurement", and what each of them means.

    Parameters
    ----------
    not_detected : tuple of float
        Magnitudes that mean: observed, nothing seen. 99 is SExtractor's.
    not_detected_above : float
        Every magnitude above this means the same (99.9, 99.99, ...).
    not_observed : tuple of float
        Values that mean: no observation, of fluxes only without a valid error beside them. -9999 is SDSS's, -99 and
        -999 are widespread.
    not_observed_below : float
        Every magnitude below this means the same.
    nan : {"not_observed", "not_detected"}
        What NaN means; masked and null values mean the same (pandas writes NaN to Parquet as null). Magnitudes
        computed from negative fluxes are NaN where nothing was seen.
    limits : dict of str to float
        Limiting magnitude by band, for non-detections beside which the catalogue has none; bands left out get the
        faint end of what is measured in training.
    failed_errors : tuple of float
        Errors of magnitudes that mean: the measurement failed, though there is a value. Errors that are zero, negative,
        NaN, infinite or masked mean it always, and so does an infinite value.
    limit_range : tuple of float
        Some codes (BPZ and its kin) put the limiting magnitude into the error column of a non-detection. An
        error within this range beside a non-detection is taken as that limit.
    no_redshift : tuple of float
        Redshifts that mean: none is known (9.9999 is zCOSMOS's). Values of -1 and below (-9, -99, -9999), NaN and
        masked values mean it always.

    Notes
    -----
    Large errors as such are real: SDSS lists u = 33 with an error of 1e4 for a faint galaxy. Only exact
    sentinel numbers count, in double or single precision, so 99.0 does and 98.7 does not.

    Fluxes may be negative, zero or 99: their values are sentinels only if listed in `not_observed` *and*
    without a valid error beside them; `not_detected` and the two thresholds are for magnitudes.
    """

    not_detected: tuple[float, ...] = (99.0,)
    not_detected_above: float = 90.0
    not_observed: tuple[float, ...] = (-99.0, -999.0, -9999.0)
    not_observed_below: float = -90.0
    nan: Literal["not_observed", "not_detected"] = "not_observed"
    limits: Mapping[str, float] = field(default_factory=dict)
    failed_errors: tuple[float, ...] = (99.0, 999.0, 9999.0)
    limit_range: tuple[float, float] = (10.0, 40.0)
    no_redshift: tuple[float, ...] = (9.99, 9.999, 9.9999, 99.0, 99.9, 99.99, 99.999, 999.0, 9999.0)

    def __post_init__(self) -> None:
        if self.nan not in ("not_observed", "not_detected"):
            raise ConfigError(f'`nan` is {self.nan!r}; expected "not_observed" or "not_detected"')
        bad = [band for band, limit in self.limits.items() if not np.isfinite(limit)]
        if bad:
            raise ConfigError(f"`limits` is {self.limits[bad[0]]} for band {bad[0]!r}; expected a limiting magnitude")


@dataclass(frozen=True)
class SentinelReport:
    """How many values of every band are measured, and why the others are not.

    Reports of chunks add up with ``+``.
    """

    bands: tuple[str, ...]
    n_rows: int  # objects seen
    counts: npt.NDArray[np.int64]  # (n_bands, 4) objects by band and `Status`
    causes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by cause ("= 99", "masked", ...) and band

    def __add__(self, other: SentinelReport) -> SentinelReport:
        if self.bands != other.bands:
            raise SchemaError(f"reports of different bands cannot be added: {self.bands} and {other.bands}")
        none = (0,) * len(self.bands)
        causes = {
            key: tuple(a + b for a, b in zip(self.causes.get(key, none), other.causes.get(key, none), strict=True))
            for key in {**self.causes, **other.causes}
        }
        return SentinelReport(self.bands, self.n_rows + other.n_rows, self.counts + other.counts, causes)

    @property
    def n_missing(self) -> int:
        """Number of values that are not measured, over all bands."""
        return int(self.counts[:, 1:].sum())

    def count(self, band: str, status: Status) -> int:
        """Return how many objects have this status in this band."""
        return int(self.counts[self.bands.index(band), status])

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain JSON types."""
        by_status = {s.name.lower(): self.counts[:, s].tolist() for s in Status}
        causes = {k: list(v) for k, v in self.causes.items()}
        return {"bands": list(self.bands), "n_rows": self.n_rows, **by_status, "causes": causes}

    def __str__(self) -> str:
        """Return the report as a table: one line per band, then the causes."""
        titles = ["band", "measured", "not observed", "not detected", "failed"]
        rows = [titles, *([band, *map(str, counts)] for band, counts in zip(self.bands, self.counts, strict=True))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        seen = {cause: sum(n) for cause, n in self.causes.items() if any(n)}
        if seen:
            lines.append("because: " + ", ".join(f"{cause}: {n}" for cause, n in seen.items()))
        return "\n".join(lines)


@dataclass(frozen=True)
class Photometry:
    """Photometry of n objects in b bands, without sentinels."""

    bands: tuple[str, ...]
    values: FloatArray  # (n, b) magnitudes or fluxes; NaN unless the status is MEASURED
    errors: FloatArray  # (n, b) likewise; all NaN if the catalogue has none
    status: npt.NDArray[np.int8]  # (n, b) `Status` of every value
    kind: Kind
    zero_point: float | None  # AB, of fluxes
    limit: FloatArray | None  # (n, b) limiting magnitudes of non-detections where given, else NaN; None if nowhere
    report: SentinelReport

    def __len__(self) -> int:
        return len(self.values)

    @property
    def measured(self) -> BoolArray:
        """True where the status is MEASURED, shape (n, b)."""
        return np.asarray(self.status == Status.MEASURED)


def extract_photometry(catalog: Catalog, schema: PhotometrySchema, sentinels: Sentinels | None = None) -> Photometry:
    """Take the photometry out of a table, telling measurements from sentinels.

    The first rule that applies to a value settles its status:

    1. flag 2: not observed; flag 1: not detected (the flag's "not detected or failed" cannot be told apart).
       Where the flag says 0 the sentinel values below are not looked for; a masked, NaN or infinite value,
       or a bad error, is then a failed measurement.
    2. value masked or NaN: not observed, or as `Sentinels` says. Value infinite: failed.
    3. value a sentinel: not detected or not observed, as `Sentinels` says.
    4. error masked, NaN, infinite, zero, negative, or a sentinel: failed.

    Examples
    --------
    >>> table = Catalog({"mag_g": [21.0, 99.0, -9999.0], "mag_err_g": [0.1, 99.0, -9999.0]})
    >>> schema = PhotometrySchema(("g",), mag={"g": "mag_g"}, mag_err={"g": "mag_err_g"})
    >>> extract_photometry(table, schema).status.ravel()
    array([0, 2, 1], dtype=int8)
    """
    rules = sentinels or Sentinels()
    schema.require(catalog.names)
    strange = [band for band in rules.limits if band not in schema.bands]
    if strange:
        raise SchemaError(f"`limits` has band {strange[0]!r}; the bands are {', '.join(schema.bands)}")
    n, b, is_magnitude = len(catalog), len(schema.bands), schema.kind == "magnitude"
    values = np.empty((b, n))
    errors = np.empty((b, n)) if schema.errors else np.full((b, n), np.nan)
    limit: FloatArray | None = None
    status = np.zeros((b, n), dtype=np.int8)
    counts: dict[str, list[int]] = {}
    for j, band in enumerate(schema.bands):
        if band in schema.absent:
            values[j] = errors[j] = np.nan
            status[j] = Status.NOT_OBSERVED
            counts.setdefault("no column, or not used", [0] * b)[j] = n
            continue
        value = catalog.floats(schema.values[band])
        error = catalog.floats(schema.errors[band]) if schema.errors else None
        if error is not None and schema.inverse_variance:
            value, error = _from_inverse_variance(value, error)
        flag = _flags(catalog, schema.flag[band]) if band in schema.flag else None
        odd = np.flatnonzero(~_plainly_measured(value, error, flag, is_magnitude, rules))
        values[j] = value
        if error is not None:
            errors[j] = error
        if len(odd):
            masked = catalog.mask(schema.values[band])[odd]
            odd_error, odd_flag = (None if array is None else array[odd] for array in (error, flag))
            undecided = np.ones(len(odd), dtype=bool)
            for cause, meaning, where in _rules(value[odd], odd_error, odd_flag, masked, is_magnitude, rules):
                fresh = where & undecided
                undecided &= ~fresh
                status[j, odd[fresh]] = meaning
                counts.setdefault(cause, [0] * b)[j] += int(fresh.sum())
            missing = odd[status[j, odd] != Status.MEASURED]
            values[j, missing] = errors[j, missing] = np.nan
            beside = error[missing] if error is not None and is_magnitude else None
            found = _limits(beside, status[j, missing], rules, rules.limits.get(band, np.nan))
            if np.isfinite(found).any():
                limit = np.full((b, n), np.nan) if limit is None else limit
                limit[j, missing] = found
        value_factor, error_factor = schema.factors(band)
        if value_factor != 1.0:
            values[j] *= value_factor
        if error_factor != 1.0:
            errors[j] *= error_factor
    kind: Kind = "magnitude" if is_magnitude else "flux"
    tally = np.stack([(status == s).sum(axis=1) for s in Status], axis=1).astype(np.int64)
    report = SentinelReport(schema.bands, n, tally, {k: tuple(v) for k, v in counts.items() if any(v)})
    limits = None if limit is None else limit.T
    return Photometry(schema.bands, values.T, errors.T, status.T, kind, schema.zero_point, limits, report)


def _from_inverse_variance(value: FloatArray, inverse: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and errors; an inverse variance of 0 means that there was no observation."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 1.0 / np.sqrt(inverse)
    return np.where(inverse == 0.0, np.nan, value), np.where(inverse < 0.0, -1.0, error)


def _plainly_measured(
    value: FloatArray, error: FloatArray | None, flag: AnyArray | None, magnitudes: bool, rules: Sentinels
) -> BoolArray:
    """Return where no rule can apply: nearly everywhere, so that the rules need not look at every row."""
    if magnitudes:
        plain = (value >= rules.not_observed_below) & (value <= rules.not_detected_above)
        suspects: tuple[float, ...] = (*rules.not_detected, *rules.not_observed)
        suspects = tuple(s for s in suspects if rules.not_observed_below <= s <= rules.not_detected_above)
    else:
        plain, suspects = np.isfinite(value), rules.not_observed if error is None else ()
    for sentinel in suspects:
        plain &= ~_is(value, sentinel)
    if error is not None:
        plain &= (error > 0) & (error < np.inf)
        for sentinel in rules.failed_errors if magnitudes else ():
            plain &= ~_is(error, sentinel)
    return np.asarray(plain if flag is None else plain & (flag == 0))


def _is(values: FloatArray, sentinel: float) -> BoolArray:
    """Return where values are a sentinel, or what single precision makes of it."""
    return np.asarray((values == sentinel) | (values == float(np.float32(sentinel))))


def _rules(
    value: FloatArray, error: Any, flag: AnyArray | None, masked: BoolArray, magnitudes: bool, rules: Sentinels
) -> list[tuple[str, Status, BoolArray]]:
    """Return (cause, status, where) in the order in which they are applied."""
    flag = np.full(len(value), -1) if flag is None else flag
    trusted = flag == 0
    table: list[tuple[str, Status, BoolArray]] = [
        ("flag 2", Status.NOT_OBSERVED, flag == 2),
        ("flag 1", Status.NOT_DETECTED, flag == 1),
        ("no value though flag 0", Status.FAILED, trusted & np.isnan(value)),
        ("masked", Status[rules.nan.upper()], masked),
        ("NaN", Status[rules.nan.upper()], np.isnan(value)),
        ("infinite", Status.FAILED, np.isinf(value)),
    ]
    if magnitudes:
        table += [(f"= {s:g}", Status.NOT_DETECTED, _is(value, s) & ~trusted) for s in rules.not_detected]
        above = (value > rules.not_detected_above) & ~trusted
        table.append((f"> {rules.not_detected_above:g}", Status.NOT_DETECTED, above))
    no_error = np.ones(len(value), bool) if error is None else ~(np.isfinite(error) & (error > 0))
    guard = ~trusted if magnitudes else ~trusted & no_error
    table += [(f"= {s:g}", Status.NOT_OBSERVED, _is(value, s) & guard) for s in rules.not_observed]
    if magnitudes:
        below = (value < rules.not_observed_below) & ~trusted
        table.append((f"< {rules.not_observed_below:g}", Status.NOT_OBSERVED, below))
    if error is not None:
        table += [
            ("no error", Status.FAILED, np.isnan(error)),
            ("error infinite", Status.FAILED, np.isinf(error)),
            ("error zero", Status.FAILED, error == 0),
            ("error negative", Status.FAILED, error < 0),
        ]
        if magnitudes:
            table += [(f"error = {s:g}", Status.FAILED, _is(error, s) & ~trusted) for s in rules.failed_errors]
    return table


def _flags(catalog: Catalog, column: str) -> AnyArray:
    """Return the flag column as integers, -1 where masked; anything but 0, 1, 2 is an error."""
    given = catalog.floats(column)
    flag = np.where(np.isnan(given), -1.0, given)
    wrong = ~((given == 0) | (given == 1) | (given == 2) | np.isnan(given))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise CatalogError(
            f"{catalog.provenance.where(row)}: flag column {column!r} is {catalog[column][row]}; "
            f"expected 0 (measured), 1 (not detected) or 2 (not observed); {int(wrong.sum())} such rows: leave the "
            "flag out of the schema"
        )
    return flag.astype(np.int64)


def _limits(error: FloatArray | None, status: npt.NDArray[np.int8], rules: Sentinels, limit: float) -> FloatArray:
    """Return the limiting magnitude of non-detections: that in the error column, else `limit`; NaN elsewhere."""
    low, high = rules.limit_range
    found: FloatArray = np.where(status == Status.NOT_DETECTED, limit, np.nan)
    if error is None:
        return found
    return np.where((status == Status.NOT_DETECTED) & (error > low) & (error < high), error, found)
