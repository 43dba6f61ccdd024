"""Help in groups with examples that work, and messages in words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest

from gpzed.catalog import Catalog, write_catalog
from gpzed.cli.app import COMMANDS, EXAMPLES, cli
from gpzed.cli.help import GROUPS, MAIN, MESSAGES, Command, group_of
from gpzed.config import RunConfig

Call = Callable[..., tuple[int, str, str]]
PYTHON = re.compile(r"np\.|\{'|\['|array\(|None|dtype|<class|\('")
"""What a message for astronomers has not."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_groups_and_examples_that_parse(name: str, call: Call) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, Command)
    assert command.examples, name
    for example in command.examples:
        words = shlex.split(example.partition(" > ")[0].partition(" >> ")[0], comments=True)
        assert words[:2] == ["gpzed", name]
        with command.make_context(name, words[2:]):
            pass
    _, text, _ = call(name, "--help")
    assert f"{MESSAGES}:" in text
    assert "Examples:" in text
    assert not PYTHON.search(text), PYTHON.search(text)
    sections = {p.name.partition("__")[0] for p in command.params if "__" in (p.name or "")}
    assert not sections - GROUPS.keys(), "options of a section without a heading"


def test_no_group_of_options_is_a_wall(call: Call) -> None:
    _, text, _ = call("train", "--help")
    sections = re.split(r"\n\n(?=[A-Z][^\n]*:\n)", text)
    counts = {part.splitlines()[0]: len(re.findall(r"(?m)^  -", part)) for part in sections}
    assert len(counts) >= 8
    assert max(counts.values()) <= 13, counts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train", "1 for the paper's model. [default: {model.n_heads}]"),
        ("train", "Number m of basis functions. [default: auto]"),
        ("train", "(pandas writes NaN to Parquet as null). [default: not-observed]"),
        ("predict", "exactly. [default: positive]"),
        ("predict", "[default: 0,3,301]"),
        ("evaluate", "Seed of the resamples. [default: 0]"),
        ("select", "--max-risk implies it. [default: no-"),
    ],
)
def test_help_shows_defaults_and_options_by_their_names(name: str, text: str, call: Call) -> None:
    _, shown, _ = call(name, "--help")
    assert text.format(model=RunConfig().model) in " ".join(shown.split())


def test_the_first_help_has_groups_and_examples(call: Call) -> None:
    _, text, _ = call("--help")
    for title in {group for _, _, group in COMMANDS.values()} | {"Examples"}:
        assert f"\n{title}:\n" in text
    assert all(f"  {name} " in text for name in COMMANDS)
    assert all(example.partition("#")[0].strip() in text for example in EXAMPLES)


def test_options_without_a_section_come_first() -> None:
    assert [group_of(name) for name in ("output", "unknown__key", "resume")] == [MAIN, MAIN, "Long runs"]


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Catalogues with something wrong."""
    folder = tmp_path_factory.mktemp("odd")
    good = {f"mag_{band}": np.linspace(18.0, 22.0, 50) for band in "gri"} | {"z_spec": np.linspace(0.1, 0.9, 50)}
    tables = {
        "text": good | {"mag_r": np.array(["bright"] * 50)},
        "text_redshift": good | {"z_spec": np.array(["low"] * 50)},
        "letters": good | {"MAG_R": good["mag_r"], "mag_R": good["mag_r"]},
        "dates": good | {"z_spec": np.array(["2020-01-01"] * 50, dtype="datetime64[D]").astype(str)},
        "predictions": {"z_phot": good["z_spec"], "z_std": np.full(50, 0.1), "z_spec": np.array(["x"] * 50)},
    }
    for name, columns in tables.items():
        write_catalog(Catalog(columns), folder / f"{name}.parquet")
    return {name: folder / f"{name}.parquet" for name in tables}


@pytest.mark.parametrize(
    "words",
    [
        "train text",
        "train text_redshift",
        "train dates",
        "train letters --mag Mag_{band} --bands r,g",
        "train text --bands g,r,y",
        "train text --covariance XX",
        "train text --split-column mag_g",
        "train text --weights column",
        "evaluate predictions",
        "evaluate predictions --bins nothing",
        "evaluate predictions --keep 3",
        "select predictions --keep 2",
        "nz predictions --range 3,1",
    ],
)
def test_messages_show_no_python(words: str, odd_files: dict[str, Path], call: Call, tmp_path: Path) -> None:
    command, file, *options = words.split()
    output = ["-o", tmp_path / "out.gpzed"] if command == "train" else []
    code, _, message = call(command, odd_files[file], *output, *options)
    assert code in (1, 2)
    told = message[message.index("rror:") :] if "rror:" in message else message
    assert not PYTHON.search(told), told
