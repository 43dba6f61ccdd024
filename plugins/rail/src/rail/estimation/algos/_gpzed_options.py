"""From gpzed's options to ceci parameters and back: names, types, defaults and help are gpzed's own.

Options of the model keep their names (`n_basis`); those of another section of gpzed's configuration have its name in
front (`features_magnitudes`). What RAIL has a shared parameter for (`nondetect_val`, `mag_limits`, ...) goes by RAIL's
name only.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from ceci.config import StageParameter as Param
from rail.core.common_params import SHARED_PARAMS

from gpzed.catalog import PhotometrySchema
from gpzed.config import RunConfig, option_docs, option_hints
from gpzed.errors import ConfigError, SchemaError

OF_CATALOGUE = dict.fromkeys(("bands", "err_bands", "redshift_col", "nondetect_val", "mag_limits"), SHARED_PARAMS)
"""RAIL's own parameters that every informer has: which column is what, and what is no measurement."""
PREFIXES = {
    "model": "",
    "training": "",
    "features": "features_",
    "weights": "weights_",
    "target": "target_",
    "split": "split_",
    "sentinels": "sentinels_",
}
"""Sections whose options are parameters of the informer, and what stands in front of their names."""
LEFT_OUT = {
    ("features", "reference_band"),
    ("split", "test"),
    ("sentinels", "not_detected"),
    ("sentinels", "not_observed"),
    ("sentinels", "limits"),
}
"""Options for which RAIL has its own parameter, and one that nothing here would use: RAIL judges with other
files than those it trains on."""
OF_GPZ_V1 = {
    "gpz_method": "`covariance`",
    "learn_jointly": '`mean_function`: "linear" for true',
    "hetero_noise": '`noise`: "heteroscedastic" or "homoscedastic"',
    "csl_method": '`weights_method`: "none" for "normal", "redshift" for "normalized", "balanced"',
    "csl_binwidth": "`weights_bin_width`",
    "pca_decorrelate": '`whitening`: "pca" for true, "scale" for false',
    "train_frac": "`validation_fraction`, which is 1 - train_frac",
    "max_attempt": "`patience`",
    "log_errors": '`features_errors`, "inputs" for true',
    "replace_error_vals": "nothing: a band whose error is no error has no measurement",
}
"""Parameters of RAIL's GPz (pz-rail-gpz-v1), and what to use instead."""


def informer_options() -> dict[str, Param]:
    """Return the parameters of the informer that come from gpzed."""
    options = {
        prefix + name: _parameter(section, name, hint)
        for section, prefix in PREFIXES.items()
        for name, hint in option_hints(section).items()
        if (section, name) not in LEFT_OUT
    }
    options["seed"] = Param(int, RunConfig().seed, msg=option_docs("")["seed"])
    options["weight_col"] = Param(str, "", msg='Column of cost weights, for `weights_method` "column"; "" for none.')
    options["ebv_col"] = Param(str, "", msg='Column of E(B-V), for `features_extinction`; "" for none.')
    return options


def one_option(section: str, name: str) -> Param:
    """Return the parameter of one option of gpzed."""
    return _parameter(section, name, option_hints(section)[name])


def _parameter(section: str, name: str, hint: Any) -> Param:
    default = getattr(getattr(RunConfig(), section), name)
    plain = list(default) if isinstance(default, tuple) else dict(default) if isinstance(default, Mapping) else default
    return Param(_dtype(hint), plain, required=False, msg=option_docs(section).get(name, ""))


def _dtype(hint: Any) -> type | None:
    """Return the type that ceci may cast to, None where there is more than one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = {_dtype(choice) for choice in arguments if choice is not type(None)}
        return kinds.pop() if len(kinds) == 1 else None
    if origin is Literal:
        return type(arguments[0])
    if origin is tuple:
        return list
    if origin is not None and issubclass(origin, Mapping):
        return dict
    return hint


def run_config(config: Mapping[str, Any], schema: PhotometrySchema) -> RunConfig:
    """Return gpzed's configuration from that of the informer.

    Parameters
    ----------
    config : mapping
        Values of all parameters.
    schema : PhotometrySchema
        Bands and columns.

    Returns
    -------
    RunConfig
    """
    stored: dict[str, Any] = {"seed": config["seed"]}
    for section, prefix in PREFIXES.items():
        hints = option_hints(section)
        given = {name: config[prefix + name] for name in hints if (section, name) not in LEFT_OUT}
        stored[section] = {name: _typed(v, hints[name]) for name, v in given.items() if v is not None}
    features = stored["features"]
    if "extinction" in features:
        features["extinction"] = _by_band(features["extinction"], schema, "features_extinction")
    features |= _reference(config, features, schema)
    stored["sentinels"] |= sentinel_options(config, schema)
    features["non_detections"] = _non_detections(config, features, bool(stored["sentinels"]["limits"]))
    return RunConfig.from_dict(stored, source="RAIL configuration")


def _typed(value: Any, hint: Any) -> Any:
    """Return what a command line can only give as text as the number that it means."""
    if isinstance(value, list):
        return [_typed(entry, get_args(hint)[0]) for entry in value]
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        if kind in (get_args(hint) or (hint,)):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


def _by_band(values: Mapping[str, float], schema: PhotometrySchema, option: str) -> dict[str, float]:
    """Return values by column or band as values by band; a name that is neither is an error."""
    bands = {**{band: band for band in schema.bands}, **{column: band for band, column in schema.mag.items()}}
    strange = [name for name in values if name not in bands]
    if strange:
        raise SchemaError(
            f"`{option}` has {strange[0]!r}; expected columns of `bands`: {', '.join(schema.mag.values())}"
        )
    return {bands[name]: float(value) for name, value in values.items()}


def _reference(config: Mapping[str, Any], features: Mapping[str, Any], schema: PhotometrySchema) -> dict[str, str]:
    """Return the band beside the colours, if there are any."""
    given = config["ref_band"]
    if not features["colours"]:
        if given not in (SHARED_PARAMS["ref_band"], None, ""):
            raise ConfigError(
                f"`ref_band` is {given!r} but the inputs are no colours; set `features_colours` or leave it out"
            )
        return {}
    band = {column: band for band, column in schema.mag.items()}.get(given)
    if band is None:
        raise SchemaError(f"`ref_band` is {given!r}; expected one of `bands`: {', '.join(schema.mag.values())}")
    return {"reference_band": band}


def _non_detections(config: Mapping[str, Any], features: Mapping[str, Any], has_limits: bool) -> str:
    """Return what becomes of non-detections: RAIL's limits are used unless something else is asked for."""
    asked: str = features["non_detections"]
    if asked == "auto":
        return "limit" if has_limits else asked
    if asked != "limit" and has_limits and config["mag_limits"] != SHARED_PARAMS["mag_limits"]:
        raise ConfigError(
            f'`mag_limits` is given but `features_non_detections` is "{asked}", which has no use for them; '
            "give one of the two"
        )
    return asked


def sentinel_options(config: Mapping[str, Any], schema: PhotometrySchema) -> dict[str, Any]:
    """Return what RAIL's parameters say about numbers that are no measurements; those left at None say nothing.

    Parameters
    ----------
    config : mapping
        With `nondetect_val`, `nonobserved_val` and `mag_limits`; limits of columns that are no bands are left aside,
        since RAIL's default has all six bands of LSST.
    schema : PhotometrySchema

    Returns
    -------
    dict
        Options of `gpzed.catalog.Sentinels`.
    """
    options: dict[str, Any] = {}
    unseen, unobserved, limits = (config[name] for name in ("nondetect_val", "nonobserved_val", "mag_limits"))
    if unseen is not None:
        options["not_detected"] = () if math.isnan(unseen) else (float(unseen),)
        if math.isnan(unseen):
            options["nan"] = "not_detected"
    if unobserved is not None:  # NaN means it anyway, unless it means a non-detection
        if math.isnan(unobserved) and options.get("nan") == "not_detected":
            raise ConfigError("`nondetect_val` and `nonobserved_val` are both NaN; give one of them a number")
        options["not_observed"] = () if math.isnan(unobserved) else (float(unobserved),)
    if limits is not None:
        options["limits"] = {band: float(limits[column]) for band, column in schema.mag.items() if column in limits}
    return options


def check_names(stage: str, given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Raise if a name is that of an option of RAIL's GPz, or nearly one of ours; return others that are not known."""
    options = sorted(known)
    strange = [name for name in given if name not in options]
    for name in strange:
        if name in OF_GPZ_V1:
            raise ConfigError(f"{stage} has no parameter `{name}`, which is one of RAIL's GPz; use {OF_GPZ_V1[name]}")
        near = difflib.get_close_matches(name, options, 1, 0.8)
        if near:
            raise ConfigError(f"{stage} has no parameter `{name}`; did you mean `{near[0]}`?")
    return strange
