"""One configuration for a run: frozen sections, read strictly from TOML, with a commented template.

Options of the model are those of `GPzRegressor` and `Training`: names, types, defaults and descriptions are read from
signature and docstring, never written a second time.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from gpzed._config_text import commented, describe_type, fits_type, nearest, parameter_docs, shown, unreasonable
from gpzed._types import FloatArray
from gpzed.catalog.photometry import Sentinels
from gpzed.errors import ConfigError
from gpzed.features import FeatureConfig, SplitConfig, TargetConfig, WeightConfig
from gpzed.model import GPzRegressor, Training
from gpzed.model.options import check_options

NOT_OPTIONS = ("self", "training", "random_state")
"""Arguments of the estimator that section [model] does not have: [training] and the seed have their own places."""


@dataclass(frozen=True)
class SchemaConfig:
    """Which column is what. Everything left out is guessed from the names of the columns, and shown.

    Parameters
    ----------
    bands : list of str or None
        Bands to use, in this order; all that are found if left out.
    convention : str or None
        Naming convention of the columns, where several fit ("gpzed", "sdss_model", "lsst", "des_auto", ...).
    mag : str or None
        Template of the magnitude columns, like "mag_{band}_lsst"; needs `bands`.
    flux : str or None
        Template of the flux columns, instead of magnitudes.
    err : str or None
        Template of the error columns.
    flag : str or None
        Template of the flag columns: 0 measured, 1 not detected, 2 not observed.
    translate : str or None
        Translate file of EAZY, which says which column is which filter.
    unit : str or None
        Unit of the photometry: uJy, nJy, nanomaggy, mag, ... What the catalogue says of its columns if left out.
    zero_point : float or None
        AB magnitude of flux 1, instead of a unit: 31.4 for nJy, 23.9 for uJy.
    redshift : str or None
        Column of the spectroscopic redshift. Several by priority, like "redshift,redshift_manyband", for training: a
        row has the first one it can have, and the errors of the others are learned where a better one is known.
    redshift_err : str or None
        Column of the error of the (first) redshift.
    redshift_wrong : str or None
        Column of the probability that the redshift is wrong, from 0 to 1.
    redshift_quality : str or None
        Column of quality flags of the redshift; how many are wrong is learned for each of its values.
    weight : str or None
        Column of the cost weight.
    id : str or None
        Column of the identifier.
    ebv : str or None
        Column of E(B-V).
    format : str or None
        Format of the catalogue if its suffix does not tell: fits, parquet, hdf5, csv, ecsv, votable, ascii.
    hdf5_group : str or None
        Group of an HDF5 file that holds the columns.
    """

    bands: tuple[str, ...] | None = None
    convention: str | None = None
    mag: str | None = None
    flux: str | None = None
    err: str | None = None
    flag: str | None = None
    translate: str | None = None
    unit: str | None = None
    zero_point: float | None = None
    redshift: str | None = None
    redshift_err: str | None = None
    redshift_wrong: str | None = None
    redshift_quality: str | None = None
    weight: str | None = None
    id: str | None = None
    ebv: str | None = None
    format: str | None = None
    hdf5_group: str | None = None

    @property
    def redshifts(self) -> tuple[str, ...]:
        """Redshift columns that are named, by priority."""
        return tuple(name.strip() for name in (self.redshift or "").split(",") if name.strip())

    @property
    def access(self) -> dict[str, Any]:
        """Arguments to open the catalogue with."""
        return {"format": self.format, "hdf5_group": self.hdf5_group}


Point = Literal["best", "safe", "mean", "median", "mode"]
Pdf = Literal["mixture", "full", "grid", "quantiles", "none"]
PDF_GRID = (0.0, 3.0, 301.0)


@dataclass(frozen=True)
class PredictConfig:
    """What `gpzed predict` writes.

    Parameters
    ----------
    point : {"best", "safe", "mean", "median", "mode"} or None
        What is written as z_phot: the redshift of least expected loss ("best", see `gpzed.Prediction.best`), the same
        with a penalty for errors beyond 0.2 (1 + z) ("safe"), or another number from the density. If left out: what was
        asked for in training, or else "safe" for a model trained for a target, "best" for others.
    positive : bool
        Whether densities are cut at zero redshift, exactly.
    quantiles : list of float
        Levels between 0 and 1; 0.16 becomes the column z_q16.
    pdf : {"mixture", "full", "grid", "quantiles", "none"} or None
        How densities are written: at most eight Gaussians per object in the lists z_pdf_weight, z_pdf_mean and
        z_pdf_std ("mixture"); every Gaussian of the committee ("full"); on a grid, in the list z_pdf ("grid"); five
        quantiles ("quantiles"); not at all ("none"). If left out: "mixture", "quantiles" in CSV, "none" for a model of
        one Gaussian, which mean and standard deviation tell.
    pdf_grid : list of float
        First and last redshift of the grid, and the number of points.
    columns : list of str or None
        Input columns to copy to the output; all if left out, none if empty.
    chunk_rows : int or None
        Rows worked on at a time; chosen by the width of the table if left out.
    risk : bool
        Whether to write z_risk, the predicted probability that z_phot is off by more than 0.2 (1 + z).
    exact : bool
        Whether to compute every model variance from the posterior of the weights, and quantiles of all Gaussians, which
        takes several times as long; otherwise sums of squares that training found to be good enough, and mixtures whose
        near-identical Gaussians are merged, take their place.
    """

    point: Point | None = None
    positive: bool = True
    quantiles: tuple[float, ...] = ()
    pdf: Pdf | None = None
    pdf_grid: tuple[float, ...] = PDF_GRID
    columns: tuple[str, ...] | None = None
    chunk_rows: int | None = None
    risk: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        if self.point is not None and self.point not in get_args(Point):
            raise ConfigError(f"`point` is {self.point!r}; expected one of {', '.join(get_args(Point))}")
        if self.pdf is not None and self.pdf not in get_args(Pdf):
            raise ConfigError(f"`pdf` is {self.pdf!r}; expected one of {', '.join(get_args(Pdf))}")
        ends = self.pdf_grid
        if len(ends) != 3 or not ends[0] < ends[1] or ends[2] != int(ends[2]) or not 2 <= ends[2] <= 10_000:
            raise ConfigError(
                f"`pdf_grid` is {', '.join(f'{x:g}' for x in ends)}; expected the first redshift, the last, and the "
                "number of points (2 to 10000), like 0, 3, 301"
            )
        if self.pdf != "grid" and tuple(ends) != PDF_GRID:
            raise ConfigError("`pdf_grid` is the grid of densities on one; add `pdf` grid, or leave it out")
        bad = [level for level in self.quantiles if not 0.0 < level < 1.0]
        if bad:
            raise ConfigError(f"`quantiles` has {bad[0]:g}; expected levels above 0 and below 1, like 0.16")
        columns = [f"{100.0 * level:.10g}" for level in self.quantiles]
        twice = [level for level, name in zip(self.quantiles, columns, strict=True) if columns.count(name) > 1]
        if twice:
            raise ConfigError(f"`quantiles` has {twice[0]:g} twice; give every level once")
        if self.chunk_rows is not None and not 1 <= self.chunk_rows <= 10**9:
            raise ConfigError(f"`chunk_rows` is {self.chunk_rows}; expected at least 1, at most a billion")

    @property
    def grid(self) -> FloatArray:
        """Redshifts of the grid."""
        low, high, n = self.pdf_grid
        return np.linspace(low, high, int(n))


def _model_fields() -> list[tuple[str, Any, Any]]:
    hints = get_type_hints(GPzRegressor.__init__)
    parameters = inspect.signature(GPzRegressor.__init__).parameters
    return [
        (name, hints[name], field(default=parameter.default))
        for name, parameter in parameters.items()
        if name not in NOT_OPTIONS
    ]


def _check_model(self: Any) -> None:
    try:
        check_options(GPzRegressor(**dataclasses.asdict(self)))
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from None


ModelConfig: Any = make_dataclass(
    "ModelConfig", _model_fields(), frozen=True, namespace={"__post_init__": _check_model}
)
ModelConfig.__doc__ = (
    "The model: the options of `gpzed.GPzRegressor`.\n\n"
    + inspect.cleandoc(GPzRegressor.__doc__ or "").partition("\n\n")[2]
)
ModelConfig.__module__ = __name__


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run.

    Parameters
    ----------
    seed : int
        Seed of all that is random: starts, splits, samples.
    """

    seed: int = 0
    schema: SchemaConfig = field(default_factory=SchemaConfig)
    sentinels: Sentinels = field(default_factory=Sentinels)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    weights: WeightConfig = field(default_factory=WeightConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    model: Any = field(default_factory=ModelConfig)
    training: Training = field(default_factory=Training)
    predict: PredictConfig = field(default_factory=PredictConfig)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ConfigError(f"`seed` is {self.seed}; expected a whole number >= 0")

    @classmethod
    def paper(cls) -> RunConfig:
        """Return the configuration of the paper: its model, inputs and predictions.

        `GPzRegressor.paper` on magnitudes and the logarithms of their errors (section 6.2), with the mean of one
        Gaussian as the redshift. How rows are split, weighted and named is left as by default.
        """
        model = GPzRegressor.paper()
        options = {item.name: getattr(model, item.name) for item in dataclasses.fields(ModelConfig)}
        return cls(
            features=FeatureConfig(magnitudes="pogson", errors="inputs", missing="fill", clip=0.0),
            model=ModelConfig(**options),
            training=model.training or Training(),
            predict=PredictConfig(point="mean", positive=False),
        )

    def regressor(self) -> GPzRegressor:
        """Return the estimator that these options describe, not yet fitted."""
        return GPzRegressor(**dataclasses.asdict(self.model), training=self.training, random_state=self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain JSON types, options left at None omitted."""
        return {
            key: {k: _plain(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value
            for key, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], source: str = "configuration") -> RunConfig:
        """Build a configuration from nested mappings, strictly."""
        sections = _sections()
        known = [*sections, "seed"]
        ready: dict[str, Any] = {}
        for key, value in stored.items():
            if key == "seed":
                ready[key] = _checked(value, int, "seed", source)
            elif key in sections:
                ready[key] = _section(key, sections[key], value, source)
            else:
                raise ConfigError(f"{source}: unknown key `{key}`; {nearest(key, _everywhere(known))}")
        made: RunConfig = _made(cls, ready, source, "")
        return made

    def override(self, section: str, **options: Any) -> RunConfig:
        """Return the configuration with some options of a section replaced; those that are None stay as they are."""
        given = {key: value for key, value in options.items() if value is not None}
        if not given:
            return self
        if section == "":
            made: RunConfig = _made(dataclasses.replace, given, "option", "", self)
            return made
        part = _made(dataclasses.replace, given, "option", section, getattr(self, section))
        return dataclasses.replace(self, **{section: part})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _sections() -> dict[str, Any]:
    return {item.name: item.default_factory for item in dataclasses.fields(RunConfig) if item.name != "seed"}


def option_hints(section: str) -> dict[str, Any]:
    """Return the types of the options of a section, or of the top level for "", in their order."""
    if not section:
        return {"seed": int}
    kind = _sections()[section]
    resolved = {} if kind is ModelConfig else get_type_hints(kind)
    return {item.name: resolved.get(item.name, item.type) for item in dataclasses.fields(kind)}


def option_docs(section: str) -> dict[str, str]:
    """Return the descriptions of the options of a section, or of the top level for ""."""
    return parameter_docs(_sections()[section] if section else RunConfig)


def _everywhere(top: list[str]) -> dict[str, str]:
    """Return where every key lives, for hints: the top level first."""
    places = dict.fromkeys(top, "at the top")
    for section, kind in _sections().items():
        for item in dataclasses.fields(kind):
            places.setdefault(item.name, f"in section [{section}]")
    return places


def _section(section: str, kind: Any, stored: Any, source: str) -> Any:
    if not isinstance(stored, Mapping):
        raise ConfigError(f"{source}: `{section}` is {shown(stored)}; expected a section: write [{section}]")
    hints = option_hints(section)
    ready = {}
    for key, value in stored.items():
        if key not in hints:
            places = dict.fromkeys(hints, f"in section [{section}]")
            raise ConfigError(
                f"{source}: unknown key `{key}` in section [{section}]; {nearest(key, places, _everywhere([]))}"
            )
        ready[key] = _checked(value, hints[key], f"{section}.{key}", source)
    return _made(kind, ready, source, section)


def _checked(value: Any, hint: Any, name: str, source: str) -> Any:
    wrong = unreasonable(value)
    if wrong:
        raise ConfigError(f"{source}: `{name}` {wrong}")
    ok, ready = fits_type(value, hint)
    if not ok:
        raise ConfigError(f"{source}: `{name}` is {shown(value)}; expected {describe_type(hint)}")
    return ready


def _made(kind: Any, options: dict[str, Any], source: str, section: str, *arguments: Any) -> Any:
    try:
        return kind(*arguments, **options)
    except (ValueError, TypeError) as error:
        place = f", section [{section}]" if section else ""
        raise ConfigError(f"{source}{place}: {error}") from None


def as_config(
    config: RunConfig | Mapping[str, Any] | str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> RunConfig:
    """Return a configuration from any form of it, with single options replaced, whatever their section."""
    if isinstance(config, str | os.PathLike):
        config = load_config(config)
    elif isinstance(config, Mapping):
        config = RunConfig.from_dict(config)
    settled: RunConfig = config or RunConfig()
    given: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        homes = [section for section in ("", *_sections()) if name in option_hints(section)]
        if not homes:
            raise ConfigError(f"unknown option `{name}`; {nearest(name, _everywhere(['seed']))}")
        if len(homes) > 1:
            raise ConfigError(
                f"`{name}` is in sections {', '.join(f'[{home}]' for home in homes)}; say which: "
                f"config={{'{homes[0]}': {{'{name}': {value!r}}}}}"
            )
        ready = _checked(value, option_hints(homes[0])[name], name, "option")
        given.setdefault(homes[0], {})[name] = ready
    for section, chosen in given.items():
        settled = settled.override(section, **chosen)
    return settled


def load_config(path: str | os.PathLike[str]) -> RunConfig:
    """Read a configuration from a TOML file."""
    try:
        with Path(path).open("rb") as stream:
            stored = tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"configuration '{path}' cannot be read: {error.strerror}; check the path") from None
    except RecursionError:
        raise ConfigError(f"configuration '{path}' is not valid TOML: lists within lists go too deep") from None
    except ValueError as error:  # also of numbers with too many digits
        raise ConfigError(f"configuration '{path}' is not valid TOML: {error}") from None
    return RunConfig.from_dict(stored, source=f"'{path}'")


def config_template(config: RunConfig | None = None) -> str:
    """Return a commented TOML file that holds the defaults, or the values of a configuration.

    Parameters
    ----------
    config : RunConfig, optional

    Examples
    --------
    >>> import tomllib
    >>> RunConfig.from_dict(tomllib.loads(config_template())) == RunConfig()
    True
    """
    chosen = config or RunConfig()
    lines = [
        "# Configuration of gpzed: `gpzed train FILE -o MODEL --config THIS_FILE`.",
        "# Values are the defaults; lines that start with #: are unset, remove the #: to set them.",
        "",
        *commented("seed", chosen.seed, int, option_docs("")["seed"]),
    ]
    for section in _sections():
        part = getattr(chosen, section)
        kind, hints, docs = type(part), option_hints(section), option_docs(section)
        lines += ["", f"# {(kind.__doc__ or '').strip().splitlines()[0]}", f"[{section}]"]
        for item in dataclasses.fields(kind):
            lines += commented(item.name, getattr(part, item.name), hints[item.name], docs.get(item.name, ""))
    return "\n".join(lines) + "\n"
