"""Options of the command line, made from the fields of configurations: names, types and help stand there alone."""

from __future__ import annotations

import dataclasses
import os
import re
import types
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import click

from gpzed._config_text import parameter_docs
from gpzed._files import check_output
from gpzed.cli.console import DEBUG, QUIET
from gpzed.cli.help import SECTION
from gpzed.config import RunConfig, load_config, option_docs, option_hints
from gpzed.workflows import PredictionSource

F = TypeVar("F", bound=Callable[..., Any])


def section_options(section: str, *names: str, **flags: str) -> Callable[[F], F]:
    """Add options for some keys of a section of the configuration.

    Parameters
    ----------
    section : str
        Section, or "" for keys at the top.
    *names : str
        Keys whose option has the same name.
    **flags : str
        Keys of other options, by the name of the option: ``members="n_members"`` is --members.
    """
    defaults = RunConfig().to_dict()
    fields = _Fields(option_hints(section), option_docs(section), defaults[section] if section else defaults)
    return _add(section, fields, {name: name for name in names} | flags)


def field_options(kind: Any, *names: str, **flags: str) -> Callable[[F], F]:
    """Add options for some fields of a dataclass; the names are as in `section_options`."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    fields = _Fields(get_type_hints(kind), parameter_docs(kind), defaults)
    return _add(kind.__name__, fields, {name: name for name in names} | flags)


def values_of(section: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a section, or the fields of a dataclass, that the command line gives."""
    start = (section if isinstance(section, str) else section.__name__) + SECTION
    named = {name.removeprefix(start): value for name, value in given.items() if name.startswith(start)}
    return {name: value for name, value in named.items() if value is not None}


AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, for machines.")


def common(function: F) -> F:
    """Add --json, --quiet and --debug."""
    return AS_JSON(QUIET(DEBUG(function)))


SCHEMA_NAMES = (
    "bands", "convention", "mag", "flux", "err", "flag", "translate", "unit", "zero_point", "redshift", "ebv",
    "hdf5_group",
)  # fmt: skip


def schema_options(function: F) -> F:
    """Add options that say which column is what."""
    return section_options("schema", *SCHEMA_NAMES, input_format="format")(function)


def source_options(*names: str) -> Callable[[F], F]:
    """Add options that say where predictions and true redshifts are found."""
    return field_options(PredictionSource, *names, input_format="format")


def source(path: str, given: dict[str, Any]) -> PredictionSource:
    """Return where predictions and true redshifts are found."""
    return PredictionSource(path, **values_of(PredictionSource, given))


def load(path: str | None) -> RunConfig:
    """Return the configuration of a file, or the defaults."""
    return RunConfig() if path is None else load_config(path)


_WINS_OVER = {"mag": ("flux", "zero_point"), "flux": ("mag",), "unit": ("zero_point",), "zero_point": ("unit",)}
"""Options of the command line, and what they exclude of a configuration."""


def with_schema(config: RunConfig, given: dict[str, Any]) -> RunConfig:
    """Return the configuration with the schema options of the command line put in."""
    said = values_of("schema", given)
    for one, others in _WINS_OVER.items():
        lost = {other: None for other in others if one in said and other not in said}
        config = dataclasses.replace(config, schema=dataclasses.replace(config.schema, **lost))
    return config.override("schema", **said)


def check_outputs(inputs: Iterable[str | os.PathLike[str] | None], *outputs: str | None) -> None:
    """Refuse, before any work, outputs that cannot be written, or that are inputs or each other."""
    used = [*inputs]
    for output in outputs:
        if output is not None:
            check_output(output, "the output", used)
            used.append(output)


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Return the names of a comma-separated list."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def numbers_of(text: str | None) -> tuple[float, ...] | None:
    """Return the numbers of a comma-separated list."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(f"'{text}' is not a list of numbers; write it like 0.16,0.5,0.84") from None


# ---------------------------------------------------------------- from fields to options


class _Fields(NamedTuple):
    """Types, descriptions and defaults of fields, by name."""

    hints: dict[str, Any]
    docs: dict[str, str]
    defaults: dict[str, Any]


def _add(section: str, fields: _Fields, flags: dict[str, str]) -> Callable[[F], F]:
    named = {flag.replace("_", "-"): key for flag, key in flags.items()}

    def decorate(function: F) -> F:
        for flag, key in reversed(named.items()):
            text = _help(fields.docs[key])
            for other, name in named.items():
                text = re.sub(rf"\b{name}\b", f"--{other}", text) if "_" in name else text
            text += _default(fields.defaults.get(key), flag)
            function = _option(flag, f"{section}{SECTION}{key}", fields.hints[key], text)(function)
        return function

    return decorate


def _option(flag: str, parameter: str, hint: Any, text: str) -> Callable[[F], F]:
    choices = _choices(hint)
    if choices == (bool,):
        return click.option(f"--{flag}/--no-{flag}", parameter, default=None, help=text)
    return click.option(f"--{flag}", parameter, type=_type(choices), help=text)


def _default(value: Any, flag: str) -> str:
    """Return a default as help shows it; where there is no value, the description says what happens."""
    if isinstance(value, bool):
        return f"  [default: {'' if value else 'no-'}{flag}]"
    if isinstance(value, (list, tuple)):
        value = ",".join(f"{entry:g}" for entry in value)
    if isinstance(value, str):
        value = value.replace("_", "-")
    return f"  [default: {value}]" if isinstance(value, (str, int, float)) and value != "" else ""


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the types that a hint allows, None apart."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(choice for choice in choices if choice is not type(None))


def _type(choices: tuple[Any, ...]) -> Any:
    first = choices[0]
    if get_origin(first) is tuple:
        return _List(get_args(first)[0])
    if get_origin(first) is Literal:
        return _Words(get_args(first))
    words = [word for choice in choices[1:] if get_origin(choice) is Literal for word in get_args(choice)]
    return _NumberOr(first, tuple(words)) if words else first if first in (int, float) else str


class _Words(click.Choice):  # type: ignore[type-arg]
    """One of some words; hyphens stand for underscores."""

    def __init__(self, words: tuple[str, ...]) -> None:
        super().__init__([word.replace("_", "-") for word in words])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the word, with underscores."""
        return super().convert(str(value).replace("_", "-"), param, ctx).replace("-", "_")


class _List(click.ParamType):  # type: ignore[type-arg]
    """Comma-separated names or numbers."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.name = kind, "list"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the entries as a tuple."""
        if not isinstance(value, str):
            return value
        return names_of(value) if self.kind is str else numbers_of(value)


class _NumberOr(click.ParamType):  # type: ignore[type-arg]
    """A number, or one of some words."""

    def __init__(self, kind: Any, words: tuple[str, ...]) -> None:
        self.kind, self.words, self.name = kind, words, f"{kind.__name__} or {', '.join(words)}"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number or the word."""
        if value in self.words:
            return value
        try:
            return self.kind(value)
        except ValueError:
            expected = " or ".join(f"'{word}'" for word in self.words)
            return self.fail(f"'{value}' is not a number; give one, or {expected}", param, ctx)


def _help(doc: str) -> str:
    """Return the first sentence of a description, less the value of another option that it starts with, and None."""
    sentence = re.split(r"(?<!et al)\.(?: |$)", doc, maxsplit=1)[0]
    sentence = re.sub(r'^"[a-z]+": |[;,] None [^;,]*', "", sentence.replace("`", ""))
    sentence = re.sub(r"\b(?:if|for) None\b", "by default", sentence).replace("None", "left out")
    return f"{sentence[:1].upper()}{sentence[1:]}."
