"""How `gpzed COMMAND --help` looks: options in groups by what they are about, examples at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

MAIN, MESSAGES, LABELS = "Options", "Messages", "Redshifts that may be wrong"
GROUPS = {
    "schema": "Which column is what",
    "PredictionSource": "Which column is what",
    "EvaluationOptions": "What to score",
    "Criteria": "What to keep",
    "SurveyOptions": "What to look at",
    "predict": "What to write",
    "": "Model",
    "model": "Model",
    "training": "Model",
    "features": "Inputs of the model",
    "sentinels": "Inputs of the model",
    "weights": "Weights and target",
    "target": "Weights and target",
    "split": "Rows to train on",
    "Run": "Long runs",
}
"""Headings of options that stand for a field, by the section of the configuration or the record that it belongs to."""
PLAIN = {
    **dict.fromkeys(("as_json", "quiet", "debug"), MESSAGES),
    **dict.fromkeys(("resume", "dask", "threads"), "Long runs"),
    **dict.fromkeys(("schema__redshift_err", "schema__redshift_wrong", "schema__redshift_quality"), LABELS),
    "model__wrong_labels": LABELS,
}
"""Headings of other options, and of fields that stand apart; those that are not here come first."""
LAST = ("Long runs", MESSAGES)
SECTION = "__"
"""Between the section and the name of an option among the parameters of a command."""


def group_of(parameter: str) -> str:
    """Return the heading under which an option stands.

    Examples
    --------
    >>> group_of("model__n_basis"), group_of("output"), group_of("quiet")
    ('Model', 'Options', 'Messages')
    """
    section, found, _ = parameter.partition(SECTION)
    return PLAIN.get(parameter, GROUPS.get(section, MAIN) if found else MAIN)


def flags_of(command: click.Command | None) -> dict[str, str]:
    """Return the options of a command by the names that messages have for them: `n_basis` is --n-basis."""
    options = [
        p for p in (command.params if command else ()) if isinstance(p, click.Option) and SECTION in (p.name or "")
    ]
    return {(option.name or "").partition(SECTION)[2]: option.opts[0] for option in options}


class Command(click.Command):
    """A command whose help has groups of options, and examples.

    Parameters
    ----------
    examples : sequence of str
        Lines to type, each with what it does behind a #.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a group at a time."""
        groups: dict[str, list[tuple[str, str]]] = {MAIN: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                title = MESSAGES if "--help" in parameter.opts else group_of(parameter.name or "")
                groups.setdefault(title, []).append(record)
        for title in sorted(groups, key=lambda title: LAST.index(title) + 1 if title in LAST else 0):
            if groups[title]:
                with formatter.section(heading(title)):
                    formatter.write_dl(groups[title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, as they are typed."""
        write_examples(self.examples, formatter)


def heading(title: str) -> str:
    """Return a heading for a terminal; elsewhere click takes the style away."""
    return click.style(title, bold=True)


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write examples, what they do above each."""
    if not examples:
        return
    with formatter.section(heading("Examples")):
        for example in examples:
            line, _, text = example.partition("#")
            if text:
                formatter.write(f"{'':>{formatter.current_indent}}# {text.strip()}\n")
            formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")
