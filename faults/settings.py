"""Hostile configurations: each is refused by an error that names the key, or accepted and valid.

Every key of the template is given values of the wrong type, out of range, huge, not finite or nested; keys are
invented, sections misplaced; the text itself is damaged.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from faults.campaign import Case
from faults.trials import in_children
from gpzed.config import RunConfig, config_template, load_config, option_hints
from gpzed.errors import ConfigError

CASES = 3000
SECTIONS = ("", "schema", "sentinels", "features", "weights", "split", "model", "training", "predict")
VALUES = (
    "true", "false", "0", "1", "-1", "2", "3.5", "1e-300", "-0.0", "1e308", "1e400", "nan", "inf", "-inf", '""', '"x"',
    '"auto"', '"none"', '"\\u0000"', '"../../etc/passwd"', "[]", "[[]]", "[1, 2]", "[0.5, 0.5]", '["u"]', '["u", "u"]',
    '[1, "a"]', "[nan, inf]", "{}", "{u = 1}", "{u = nan}", "{u = {v = 1}}", "1979-05-27", "1979-05-27T07:32:00Z",
    "9223372036854775807", "-9223372036854775808", "1000000000000", str(10**25), str(10**400), "9" * 5000,
    "[" * 50 + "]" * 50, "[" * 5000 + "]" * 5000, '"' + "x" * 100_000 + '"', "0x7fffffffffffffff", "1_000_000_000",
)  # fmt: skip
"""TOML for values that some key cannot have, and most should refuse."""


class Hostile(NamedTuple):
    """A configuration: what was done to it, the key concerned ("" for none in particular) and its text."""

    fault: str
    key: str
    text: bytes


def run(cases: int, rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Load configurations, the same for the same generator."""
    keys = [(section, key) for section in SECTIONS for key in option_hints(section)]
    every = [assigned(section, key, value) for section, key in keys for value in VALUES]
    order = rng.permutation(len(every))
    others = [_damaged(rng) if rng.random() < 0.5 else _misplaced(keys, rng) for _ in range(max(cases // 4, 1))]
    files = [every[k] for k in order[: cases - len(others)]] + others
    attempt = Attempt(folder / "run.toml")
    for file, answer in zip(files, in_children(attempt, files, seconds=20, megabytes=1000), strict=True):
        outcome, _, detail = answer.partition(": ")
        yield Case(file.fault, outcome, outcome in ("accepted", "refused"), f"{file.text[:200]!r}: {detail}")


class Attempt:
    """Load one configuration and say how it went."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, file: Hostile) -> str:
        self._path.write_bytes(file.text)
        try:
            config = load_config(self._path)
        except ConfigError as error:
            if len(str(error)) > 2000:
                return f"message too long: {len(str(error))} characters"
            named = file.key in str(error) or "is not valid TOML" in str(error)
            return f"refused: {error}" if named else f"key not named: {error}"
        except BaseException as error:
            return f"foreign error: {type(error).__name__}: {error}"
        try:
            return self._judge(config)
        except BaseException as error:
            return f"accepted but broken: {type(error).__name__}: {error}"

    def _judge(self, config: RunConfig) -> str:
        """Return whether an accepted configuration is usable: finite, of sane size, and stored without loss."""
        stored = config.to_dict()
        wrong = [value for value in _numbers(stored) if not abs(value) <= (2**63 if isinstance(value, int) else 1e38)]
        if wrong:
            return f"accepted but broken: {wrong[0]} is no sensible number"
        json.dumps(stored, allow_nan=False)
        config.regressor()
        if RunConfig.from_dict(json.loads(json.dumps(stored))) != config:
            return "accepted but broken: other after a round trip through JSON"
        if RunConfig.from_dict(tomllib.loads(config_template(config))) != config:
            return "accepted but broken: other after a round trip through the template"
        counts = [config.model.n_members, config.model.n_heads, config.training.n_epochs, config.training.memory]
        return "accepted" if max(counts) <= 10**6 else f"accepted but broken: {max(counts)} is more than can be trained"


def _numbers(stored: Any) -> Iterator[float]:
    if isinstance(stored, dict):
        for value in stored.values():
            yield from _numbers(value)
    elif isinstance(stored, list | tuple):
        for value in stored:
            yield from _numbers(value)
    elif isinstance(stored, int | float):
        yield stored


def assigned(section: str, key: str, value: str) -> Hostile:
    """Return a configuration of one key."""
    head = f"[{section}]\n" if section else ""
    return Hostile("value", key, f"{head}{key} = {value}\n".encode())


def _misplaced(keys: list[tuple[str, str]], rng: np.random.Generator) -> Hostile:
    """Return a configuration with an unknown key, a known one in the wrong place, or a section that is none."""
    section, key = keys[rng.integers(len(keys))]
    other = SECTIONS[rng.integers(len(SECTIONS))]
    head = f"[{other}]\n" if other else ""
    kind = rng.integers(5)
    if kind == 0:
        typo = key[:-1] + "abcdefgh"[rng.integers(8)]
        known = typo in option_hints(other)
        return Hostile("unknown key", "" if known else typo, f"{head}{typo} = 1\n".encode())
    if kind == 1:
        known = key in option_hints(other)
        return Hostile("misplaced key", "" if known else key, f"{head}{key} = 1\n".encode())
    if kind == 2:
        return Hostile("section for value", key, f"[{section + '.' if section else ''}{key}]\nx = 1\n".encode())
    if kind == 3:
        name = other or "model"
        return Hostile("value for section", name, f"{name} = {VALUES[rng.integers(len(VALUES))]}\n".encode())
    deep = ".".join(["a"] * int(rng.integers(2, 3000)))
    return Hostile("deep section", "", f"[{deep}]\nx = 1\n".encode())


def _damaged(rng: np.random.Generator) -> Hostile:
    """Return the template with bytes changed, inserted or cut off."""
    text = bytearray(config_template().encode())
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(len(text)))
        kind = rng.integers(4)
        if kind == 0:
            text[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            text[at:at] = VALUES[rng.integers(len(VALUES))].encode()
        elif kind == 2:
            del text[at : at + int(rng.integers(1, 30))]
        else:
            text[at:at] = [b"\n", b"\0", b"\xff", b'"', b"=", b"[", b"#"][rng.integers(7)]
    return Hostile("damaged text", "", bytes(text[: int(rng.integers(1, len(text)))] if rng.random() < 0.1 else text))
