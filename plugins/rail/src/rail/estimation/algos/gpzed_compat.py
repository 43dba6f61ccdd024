"""gpzed under the options of RAIL's GPz (pz-rail-gpz-v1), so that an existing configuration runs as it is.

`GPzCompatInformer` and `GPzCompatEstimator` take the place of `GPzInformer` and `GPzEstimator`; options keep their
names, defaults and meaning. The model is as near to GPz v1's as gpzed's gets: one Gaussian, 50 basis functions,
magnitudes and the logarithms of their errors as inputs. Its file is gpzed's own, which `GPZedEstimator` and
`gpzed predict` read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ceci.config import StageParameter as Param
from rail.core.common_params import SHARED_PARAMS
from rail.estimation.informer import CatInformer

from gpzed.catalog import PhotometrySchema
from gpzed.config import RunConfig
from gpzed.errors import ConfigError
from rail.estimation.algos._gpzed_options import OF_CATALOGUE, informer_options, run_config
from rail.estimation.algos.gpzed import GPZedEstimator, GPZedInformer, as_columns

COST_WEIGHTS = {"normal": "none", "normalized": "redshift", "balanced": "balanced"}
"""Values of `csl_method`, and gpzed's names for them."""
AS_IN_GPZ_V1 = {
    "n_heads": 1,
    "n_members": 1,
    "shape_prior": 0.0,
    "calibrate": "none",
    "coverage": False,
    "weighting": "precision",
    "features_magnitudes": "pogson",
    "features_errors": "inputs",
    "features_non_detections": "limit",
    "sentinels_nan": "not_detected",
}
"""What GPz v1 has no option for, in gpzed's words."""


def translated(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of GPZedInformer from those of GPzInformer.

    Parameters
    ----------
    config : mapping
        Values of all options of GPzInformer.

    Returns
    -------
    dict
        What is not in it is left at gpzed's default.

    Raises
    ------
    ConfigError
        A value has no meaning.
    """
    if config["csl_method"] not in COST_WEIGHTS:
        raise ConfigError(f"`csl_method` is {config['csl_method']!r}; expected one of {', '.join(COST_WEIGHTS)}")
    if not 0.0 < config["train_frac"] <= 1.0:
        raise ConfigError(f"`train_frac` is {config['train_frac']}; expected a part of the rows, above 0 and up to 1")
    return {
        **AS_IN_GPZ_V1,
        "seed": config["seed"],
        "n_basis": config["n_basis"],
        "covariance": config["gpz_method"],
        "mean_function": "linear" if config["learn_jointly"] else "zero",
        "noise": "heteroscedastic" if config["hetero_noise"] else "homoscedastic",
        "whitening": "pca" if config["pca_decorrelate"] else "scale",
        "weights_method": COST_WEIGHTS[config["csl_method"]],
        "weights_bin_width": config["csl_binwidth"],
        "validation_fraction": round(1.0 - config["train_frac"], 12),
        "max_iter": config["max_iter"],
        "patience": config["max_attempt"],
    }


def limits_by_column(limits: Mapping[str, float], bands: list[str]) -> dict[str, float]:
    """Return limiting magnitudes by column: by name where the names are those of the bands, else in their order.

    GPz v1 goes by the order alone, whatever the names.
    """
    if set(bands) <= set(limits):
        return {band: float(limits[band]) for band in bands}
    if len(limits) != len(bands):
        raise ConfigError(
            f"`mag_limits` has {len(limits)} values, for {', '.join(limits)}, but there are {len(bands)} bands: "
            f"{', '.join(bands)}; give one for each"
        )
    return dict(zip(bands, map(float, limits.values()), strict=True))


def with_errors_replaced(columns: Mapping[str, Any], err_bands: list[str], values: list[float]) -> dict[str, Any]:
    """Return the columns with errors that are none (zero, negative, NaN, infinite) replaced; the caller's stay."""
    replaced = dict(columns)
    for name, value in zip(err_bands, values, strict=True):
        if name in columns:
            error = np.asarray(columns[name])
            replaced[name] = np.where(np.isfinite(error) & (error > 0.0), error, error.dtype.type(value))
    return replaced


def check_lengths(config: Mapping[str, Any]) -> None:
    """Raise unless there is an error column and a value to replace its errors with for every band."""
    n_bands, n_errors, n_values = (len(config[name]) for name in ("bands", "err_bands", "replace_error_vals"))
    if not n_bands == n_errors == n_values:
        raise ConfigError(
            f"`bands`, `err_bands` and `replace_error_vals` have {n_bands}, {n_errors} and {n_values} entries; "
            "expected one of each for every band"
        )


class GPzCompatInformer(GPZedInformer):
    """Train gpzed with the options of RAIL's GPz: one Gaussian for each object, as near to GPz v1 as it gets."""

    name = "GPzCompatInformer"
    entrypoint_function = "inform"
    interactive_function = "gpz_compat_informer"
    extra_interactive_documentation = """
    Examples
    --------
    >>> import rail.interactive as ri
    >>> informer = ri.estimation.algos.gpzed_compat.gpz_compat_informer
    >>> model = informer(training_data=table, n_basis=50, gpz_method="VC", hdf5_groupname="")["model"]
    """
    config_options = CatInformer.config_options.copy()
    config_options.update(
        **OF_CATALOGUE,
        replace_error_vals=SHARED_PARAMS,
        train_frac=Param(float, 0.75, msg="Part of the rows to train on; the others choose the iterate"),
        seed=Param(int, 87, msg="Seed of all that is random, the choice of those rows included"),
        gpz_method=Param(str, "VC", msg="Covariances of the basis functions: GL, VL, GD, VD, GC or VC"),
        n_basis=Param(int, 50, msg="Number of basis functions"),
        learn_jointly=Param(bool, True, msg="Whether a linear mean function is learned with the rest"),
        hetero_noise=Param(bool, True, msg="Whether the noise depends on the inputs"),
        csl_method=Param(str, "normal", msg="Cost weights: normal (none), normalized ((1 + z)^-2) or balanced"),
        csl_binwidth=Param(float, 0.1, msg="Width of the bins in redshift for balanced weights"),
        pca_decorrelate=Param(bool, True, msg="Whether the inputs are brought to principal components"),
        max_iter=Param(int, 200, msg="Limit on iterations"),
        max_attempt=Param(int, 100, msg="Iterations without a better score after which training stops"),
        log_errors=Param(bool, True, msg="Errors enter by their logarithm; false is not supported, and warned about"),
    )

    def __init__(self, args: Any, **kwargs: Any) -> None:
        super().__init__(args, **kwargs)
        if not self.config.log_errors:
            self.log.warning("`log_errors` is false, but gpzed takes the logarithm of errors that are inputs")

    def schema(self) -> PhotometrySchema:
        """Return which column is what."""
        c = self.config
        check_lengths(c)
        return PhotometrySchema.from_columns(c.bands, c.err_bands, redshift=c.redshift_col)

    def run_config(self) -> RunConfig:
        """Return gpzed's configuration of this stage."""
        c = self.config
        defaults = {name: parameter.default for name, parameter in informer_options().items()}
        shared = {
            "ref_band": None,
            "nondetect_val": c.nondetect_val,
            "nonobserved_val": None,
            "mag_limits": limits_by_column(c.mag_limits, c.bands),
        }
        return run_config({**defaults, **shared, **translated(c)}, self.schema())

    def training_columns(self) -> Mapping[str, Any]:
        """Return the columns of the training data, with errors where there are none."""
        return with_errors_replaced(super().training_columns(), self.config.err_bands, self.config.replace_error_vals)


class GPzCompatEstimator(GPZedEstimator):
    """Estimate redshifts with the options of RAIL's GPz: one Gaussian for each object."""

    name = "GPzCompatEstimator"
    entrypoint_function = "estimate"
    interactive_function = "gpz_compat_estimator"
    extra_interactive_documentation = """
    Examples
    --------
    >>> import rail.interactive as ri
    >>> estimator = ri.estimation.algos.gpzed_compat.gpz_compat_estimator
    >>> output = estimator(input_data=table, model=model, hdf5_groupname="")["output"]
    """
    config_options = GPZedEstimator.config_options.copy()
    config_options.update(
        pdf_type=Param(str, "norm", msg="Form of the ensemble, as in GPZedEstimator; GPz v1 has 'norm' only"),
        bands=SHARED_PARAMS,
        err_bands=SHARED_PARAMS,
        replace_error_vals=SHARED_PARAMS,
        ref_band=Param(str, "", msg="Accepted, and without effect as in GPz v1"),
        log_errors=Param(bool, True, msg="Settled in training; accepted, and without effect"),
    )

    def __init__(self, args: Any, **kwargs: Any) -> None:
        super().__init__(args, **kwargs)
        check_lengths(self.config)
        if self.config.mag_limits is not None:
            self.config.mag_limits = limits_by_column(self.config.mag_limits, self.config.bands)

    def _process_chunk(self, start: int, end: int, data: Any, first: bool) -> None:
        columns = with_errors_replaced(as_columns(data, None), self.config.err_bands, self.config.replace_error_vals)
        super()._process_chunk(start, end, columns, first)
