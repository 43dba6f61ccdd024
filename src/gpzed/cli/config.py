"""`gpzed config`."""

from __future__ import annotations

import sys

import click

from gpzed.cli.console import DEBUG, QUIET, Terminal
from gpzed.cli.help import Command
from gpzed.config import config_template, load_config

EXAMPLES = (
    "gpzed config --template > run.toml  # all options, their defaults and what they do",
    "gpzed config --check run.toml",
)


@click.command("config", cls=Command, examples=EXAMPLES)
@click.option("--template", is_flag=True, help="Print a commented file with all keys and their defaults.")
@click.option("--check", "path", help="Check a configuration file, and print it complete.")
@QUIET
@DEBUG
def command(template: bool, path: str | None, quiet: bool, debug: bool) -> int:
    """Print a configuration for `gpzed train --config`."""
    if template == (path is not None):
        raise click.UsageError("give either --template or --check FILE")
    config = None if path is None else load_config(path)
    sys.stdout.write(config_template(config))
    if path is not None:
        Terminal(quiet).say(f"{path} is valid")
    return 0
