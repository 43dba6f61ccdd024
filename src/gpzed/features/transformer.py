"""The fitted map from photometry to the inputs of the model, and the flags that go with it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin

from gpzed._types import BoolArray, FloatArray, IntArray
from gpzed.catalog.photometry import Photometry, Status
from gpzed.errors import CatalogError, ConfigError
from gpzed.features.bands import POGSON, BandValues, asinh_error, asinh_flux, asinh_magnitude, band_values, softening_of
from gpzed.features.config import FeatureConfig
from gpzed.features.excess import UsualErrors
from gpzed.features.flags import Flag
from gpzed.features.measurements import density_of_rows, depth_of, linearise
from gpzed.features.nondetections import bands_with_few, faint_errors, faint_fluxes, faint_limits
from gpzed.incomplete.density import Density

BLOCK_ROWS = 4096
"""Rows that are worked on at once, so that temporary arrays stay in the cache."""

Floats = tuple[float, ...]


class Features(NamedTuple):
    """Inputs of the model for some rows."""

    X: FloatArray  # (n, d); NaN where there is no measurement, unless the configuration says "fill"
    flags: npt.NDArray[np.uint32]  # (n,) bits of `Flag`
    X_std: FloatArray | None  # (n, d) noise of the inputs, if asked for; 0 for inputs that are errors or filled in


@dataclass(frozen=True)
class FeatureTransformer(TransformerMixin):  # type: ignore[misc]
    """Photometry to inputs, as fitted on training rows by `fit_transformer`.

    There are b bands and k columns: magnitudes, then ln errors or their excess if these are inputs. With scikit-learn's
    ``set_output(transform="pandas")`` the inputs are a data frame.
    """

    config: FeatureConfig
    bands: tuple[str, ...]
    has_errors: bool  # whether the inputs hold the logarithms of the errors
    has_noise: bool  # whether the errors are the noise of the inputs
    softening: Floats  # (b,) of asinh magnitudes, in units of the flux of magnitude 0
    lower: Floats  # (k,) range of each column; rows outside it are moved to its edge
    upper: Floats
    mean: Floats  # (k,) density of the columns, for missing bands
    covariance: tuple[Floats, ...]  # (k, k)
    faint: Floats  # (k,) columns of a band in which nothing was detected
    faint_error: Floats  # (b,) error of such a band, in magnitudes of the kind used
    ebv: float  # median E(B-V), for rows without one
    center: Floats  # (d,) mean of the inputs, for colours of missing bands
    marginalised: tuple[bool, ...] = ()  # (b,) too few training rows lacked a detection: one is as if not observed
    usual_errors: UsualErrors | None = None  # if the inputs hold by how much the errors exceed these

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sklearn_output_config", {})  # what `set_output` writes to

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the inputs, as scikit-learn asks for them; `input_features` is not looked at."""
        return np.array(self.names, dtype=object)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs, in their order."""
        stem = "asinh_" if self.config.magnitudes == "asinh" else "mag_"
        if self.config.colours:
            values = [f"{blue}-{red}" for blue, red in zip(self.bands, self.bands[1:], strict=False)]
            values.append(stem + self.bands[_reference(self.config, self.bands)])
        else:
            values = [stem + band for band in self.bands]
        if self.usual_errors is not None:
            return (*values, "error_excess")
        return (*values, *(f"ln_err_{band}" for band in self.bands if self.has_errors))

    @property
    def n_columns(self) -> int:
        """Number k of columns."""
        return len(self.bands) + (1 if self.usual_errors is not None else len(self.bands) * self.has_errors)

    def transform(self, photometry: Photometry, ebv: FloatArray | None = None) -> Features:
        """Make the inputs of the model, a row's own whatever rows come with it; `ebv` if extinction is corrected."""
        if photometry.bands != self.bands:
            raise CatalogError(
                f"the photometry has bands {', '.join(photometry.bands)}; the model was trained on "
                f"{', '.join(self.bands)}: "
                "give these, in this order"
            )
        n = len(photometry)
        X, flags = np.empty((n, len(self.names))), np.empty(n, dtype=np.uint32)
        X_std = np.zeros((n, len(self.names))) if self.has_noise else None
        for start in range(0, n, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            part = ebv if ebv is None else ebv[rows]
            X[rows], flags[rows], errors = self._transform_block(photometry_rows(photometry, rows), part)
            if X_std is not None:
                X_std[rows, : len(self.bands)] = errors
        return Features(X, flags, X_std)

    def _transform_block(
        self, photometry: Photometry, ebv: FloatArray | None
    ) -> tuple[FloatArray, npt.NDArray[np.uint32], FloatArray | None]:
        extinction, no_ebv = _extinction(self.config, self.bands, ebv, len(photometry), self.ebv)
        bands = band_values(photometry, self.config, self.softening, extinction)
        columns = _columns(bands, self.has_errors, self.usual_errors)
        flags = _status_flags(bands.status)
        flags[no_ebv] |= np.uint32(Flag.MISSING_BAND)
        if self.config.clip:
            outside = _move_inside(columns, np.array(self.lower), np.array(self.upper), len(self.bands))
            flags[outside] |= np.uint32(Flag.CLIPPED_INPUT)
        if bands.status.any():
            _substitute_limits(columns, bands.status, photometry.limit, self, extinction)
        errors = self._add_noise(columns, bands) if self.has_noise else None
        if self.config.missing == "fill":
            columns = self._density.fill(columns)
        return _arranged(columns, self.config, self.bands), flags, errors

    def _add_noise(self, columns: FloatArray, bands: BandValues) -> FloatArray:
        """Return errors of the magnitudes, 0 where there is none; `columns` change to what these errors belong to."""
        b = len(self.bands)
        values, measured = columns[:, :b], bands.status == Status.MEASURED
        unseen = (bands.status == Status.NOT_DETECTED) & np.isfinite(values)
        errors = np.where(measured, bands.errors, np.where(unseen, np.array(self.faint_error), np.nan))
        if self.config.magnitudes == "asinh":
            softening = np.array(self.softening)
            if unseen.any():
                self._deepen(values, errors, measured, unseen)
            magnitudes = Density.gaussian(self._density.means[0, :b], self._density.covariances[0, :b, :b])
            values[:], errors = linearise(values, errors, softening, magnitudes)
        return np.where(np.isfinite(errors), np.maximum(errors, self.config.min_error), 0.0)

    def _deepen(self, values: FloatArray, errors: FloatArray, measured: BoolArray, unseen: BoolArray) -> None:
        """Give bands without a detection the flux error of the row, and a flux that grows with it; in place."""
        softening = np.array(self.softening)
        flux = asinh_flux(values, softening)
        sigma = errors * np.hypot(flux, 2.0 * softening) / POGSON
        depth = depth_of(sigma, measured, softening)[:, None]
        if self.config.non_detection == "flux":  # a limit stays what it is
            flux = depth * flux
        values[unseen] = asinh_magnitude(flux, softening)[unseen]
        errors[unseen] = asinh_error(depth * sigma, flux, softening)[unseen]

    def filled(self, X: FloatArray) -> FloatArray:
        """Return inputs with the mean, given the others, in place of those that are missing."""
        if self.config.colours:
            return np.where(np.isnan(X), self.center, X)
        return self._density.fill(X)

    @cached_property
    def _density(self) -> Density:
        return Density.gaussian(np.array(self.mean), np.array(self.covariance))


def photometry_rows(photometry: Photometry, rows: slice | IntArray) -> Photometry:
    """Return the photometry of some rows; the report stays that of all.

    Examples
    --------
    >>> from gpzed.catalog import Catalog, guess_schema, extract_photometry
    >>> from gpzed.features import photometry_rows
    >>> from gpzed.simulate import simulate_survey
    >>> table = Catalog(simulate_survey(100, survey="sdss", random_state=0).columns())
    >>> len(photometry_rows(extract_photometry(table, guess_schema(table.names)), slice(0, 10)).values)
    10
    """
    limit = None if photometry.limit is None else photometry.limit[rows]
    return dataclasses.replace(
        photometry,
        values=photometry.values[rows],
        errors=photometry.errors[rows],
        status=photometry.status[rows],
        limit=limit,
    )


def fit_transformer(
    photometry: Photometry, config: FeatureConfig | None = None, ebv: FloatArray | None = None
) -> FeatureTransformer:
    """Fit the map from photometry to inputs on training rows; `ebv`, the E(B-V) of each, if extinction is corrected.

    Examples
    --------
    >>> import numpy as np
    >>> from gpzed.catalog import Catalog, guess_schema, extract_photometry
    >>> from gpzed.features import fit_transformer
    >>> from gpzed.simulate import simulate_survey
    >>> table = Catalog(simulate_survey(100, survey="sdss", random_state=0).columns())
    >>> fit_transformer(extract_photometry(table, guess_schema(table.names))).names
    ('asinh_u', 'asinh_g', 'asinh_r', 'asinh_i', 'asinh_z')
    """
    config = config or FeatureConfig()
    has_errors = _check(photometry, config)
    if config.magnitudes == "auto":
        config = dataclasses.replace(config, magnitudes="asinh" if has_errors else "pogson")
    fill_ebv = 0.0 if ebv is None or not np.isfinite(ebv).any() else float(np.nanmedian(ebv))
    extinction, _ = _extinction(config, photometry.bands, ebv, len(photometry), fill_ebv)
    is_asinh = config.magnitudes == "asinh"
    softening = softening_of(photometry, extinction) if is_asinh else np.ones(len(photometry.bands))
    bands = band_values(photometry, config, softening, extinction)
    usual = UsualErrors.fit(*_measured(bands)) if has_errors and config.errors == "excess" else None
    columns = _columns(bands, has_errors and config.has_error_inputs, usual)
    empty = [photometry.bands[j] for j in np.flatnonzero((~np.isfinite(bands.values)).all(axis=0))]
    if empty:
        raise CatalogError(
            f"band {empty[0]!r} has no measurement in any training row; leave it out: --bands "
            f"{','.join(name for name in photometry.bands if name not in empty)}"
        )
    lower, upper = _ranges(columns, config.clip)
    if config.clip:
        _move_inside(columns, lower, upper, len(photometry.bands))
    faint = faint_limits(columns, len(photometry.bands))
    if config.non_detection == "flux":
        faint[: len(photometry.bands)] = faint_fluxes(columns, bands.status, softening)
    faint_error = faint_errors(bands, config)
    marginalised = bands_with_few(bands.status) if config.non_detections == "auto" and is_asinh else ()
    draft = FeatureTransformer(
        config, photometry.bands, has_errors and config.has_error_inputs, config.has_input_noise, _floats(softening),
        _floats(lower), _floats(upper), _floats(faint), ((0.0,),), _floats(faint), _floats(faint_error), fill_ebv,
        (), marginalised, usual,
    )  # fmt: skip
    _substitute_limits(columns, bands.status, photometry.limit, draft, extinction)
    density = density_of_rows(columns, np.nanmedian(columns, axis=0))
    center = _arranged(density.fill(columns), config, photometry.bands).mean(axis=0)
    mean, covariance = _floats(density.mean), tuple(map(_floats, density.covariances[0]))
    return dataclasses.replace(draft, mean=mean, covariance=covariance, center=_floats(center))


def _floats(values: FloatArray) -> Floats:
    return tuple(float(value) for value in values)


def _check(photometry: Photometry, config: FeatureConfig) -> bool:
    """Check that options and photometry go together; return whether there are errors."""
    if len(photometry) == 0:
        raise CatalogError("there are no training rows to fit the features on; give a catalogue with redshifts")
    has_errors = bool(np.isfinite(photometry.errors).any())
    if config.magnitudes == "asinh" and not has_errors:
        raise ConfigError('`magnitudes` is "asinh" but the catalogue has no errors, which set its softening')
    if config.errors not in ("auto", "none") and not has_errors:
        raise ConfigError(f'`errors` is "{config.errors}" but the catalogue has no errors; set it to "none"')
    known = list(photometry.bands)
    strange = [band for band in config.extinction if band not in known]
    if strange:
        raise ConfigError(f"`extinction` has band {strange[0]!r}; the bands are {', '.join(known)}")
    if config.reference_band and config.reference_band not in known:
        raise ConfigError(f"`reference_band` is {config.reference_band!r}; expected one of {', '.join(known)}")
    return has_errors


def _extinction(
    config: FeatureConfig, bands: tuple[str, ...], ebv: FloatArray | None, n: int, fill: float
) -> tuple[FloatArray | None, BoolArray]:
    """Return magnitudes of extinction (n, b), or None, and where E(B-V) was missing."""
    none = np.zeros(n, dtype=bool)
    if not config.extinction:
        return None, none
    if ebv is None:
        raise ConfigError("`extinction` is given but there is no E(B-V) column; name it with `ebv` under [schema]")
    missing = ~np.isfinite(ebv)
    coefficients = np.array([config.extinction.get(band, 0.0) for band in bands])
    return np.where(missing, fill, ebv)[:, None] * coefficients, missing


def _columns(bands: BandValues, has_errors: bool, usual: UsualErrors | None) -> FloatArray:
    """Return magnitudes, and ln errors or their excess, in one new array, NaN where there is no measurement."""
    if usual is not None:
        magnitudes, ln_errors = _measured(bands)
        return np.column_stack([magnitudes, usual.excess(magnitudes, ln_errors)])
    n, b = bands.values.shape
    columns = np.empty((n, 2 * b if has_errors else b))
    columns[:, :b] = bands.values
    if has_errors:
        np.log(bands.errors, out=columns[:, b:])
    if bands.status.any():
        columns[np.tile(bands.status != Status.MEASURED, columns.shape[1] // b)] = np.nan
    return columns


def _measured(bands: BandValues) -> tuple[FloatArray, FloatArray]:
    """Return magnitudes and ln errors, NaN where there is no measurement."""
    b = bands.values.shape[1]
    columns = _columns(bands, has_errors=True, usual=None)
    return columns[:, :b], columns[:, b:]


def _status_flags(status: npt.NDArray[np.int8]) -> npt.NDArray[np.uint32]:
    flags = np.zeros(len(status), dtype=np.uint32)
    if not status.any():
        return flags
    for meaning, flag in (
        (Status.NOT_OBSERVED, Flag.MISSING_BAND),
        (Status.NOT_DETECTED, Flag.NOT_DETECTED),
        (Status.FAILED, Flag.FAILED_BAND),
    ):
        flags[(status == meaning).any(axis=1)] |= np.uint32(flag)
    flags[(status != Status.MEASURED).all(axis=1)] |= np.uint32(Flag.NO_MEASUREMENT)
    return flags


def _ranges(columns: FloatArray, clip: float) -> tuple[FloatArray, FloatArray]:
    """Return the range of each column: `clip` robust standard deviations from the median, either side its own."""
    k = columns.shape[1]
    if clip == 0.0:
        return np.full(k, -1e300), np.full(k, 1e300)
    low, middle, high = np.nanquantile(columns, (0.025, 0.5, 0.975), axis=0)
    spread = np.maximum((high - low) / 3.92, 1e-6)  # 95 % of a Gaussian lie within 1.96 standard deviations
    below, above = np.maximum((middle - low) / 1.96, 0.1 * spread), np.maximum((high - middle) / 1.96, 0.1 * spread)
    return middle - clip * below, middle + clip * above


def _move_inside(columns: FloatArray, lower: FloatArray, upper: FloatArray, b: int) -> BoolArray:
    """Move rows to the edge of the range, in `columns` itself, and return which they are.

    All magnitudes of a row move by the same amount, so that its colours stay: as far as the one that lies farthest
    outside, or the difference if some lie outside on either side. The logarithms of errors are clipped one by one.
    """
    distance = np.where(np.isnan(columns), 0.0, np.maximum(columns - upper, 0.0) - np.maximum(lower - columns, 0.0))
    outside = np.asarray((distance != 0.0).any(axis=1))
    magnitudes = distance[:, :b]
    columns[:, :b] -= (magnitudes.max(axis=1, initial=0.0) + magnitudes.min(axis=1, initial=0.0))[:, None]
    columns[:, b:] -= distance[:, b:]
    return outside


def _substitute_limits(
    columns: FloatArray,
    status: npt.NDArray[np.int8],
    limit: FloatArray | None,
    fitted: FeatureTransformer,
    extinction: FloatArray | None,
) -> None:
    """Put limits in place of non-detections, in `columns` itself."""
    unseen = status == Status.NOT_DETECTED
    if fitted.config.non_detection == "marginalise" or not unseen.any():
        return
    b = len(fitted.bands)
    if fitted.marginalised:
        unseen = unseen & ~np.array(fitted.marginalised)
    for j in np.flatnonzero(unseen.any(axis=0)):
        rows = unseen[:, j]
        columns[rows, j] = fitted.faint[j]
        if fitted.has_errors:
            columns[rows, b + j] = fitted.faint[b + j]
        if limit is not None and fitted.config.non_detection == "limit":
            given = rows & np.isfinite(limit[:, j])
            value = limit[given, j] - (0.0 if extinction is None else extinction[given, j])
            if fitted.config.magnitudes == "asinh":
                value = asinh_magnitude(np.exp(-value / POGSON), fitted.softening[j])
            columns[given, j] = np.clip(value, fitted.lower[j], fitted.upper[j])


def _reference(config: FeatureConfig, bands: tuple[str, ...]) -> int:
    return bands.index(config.reference_band) if config.reference_band else len(bands) // 2


def _arranged(columns: FloatArray, config: FeatureConfig, bands: tuple[str, ...]) -> FloatArray:
    """Return magnitudes as they are, or as colours and one magnitude; errors follow."""
    if not config.colours:
        return columns
    b = len(bands)
    values = columns[:, :b]
    reference = values[:, [_reference(config, bands)]]
    return np.concatenate([values[:, :-1] - values[:, 1:], reference, columns[:, b:]], axis=1)
