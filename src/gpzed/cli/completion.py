"""`gpzed completion`."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from gpzed.cli.console import DEBUG
from gpzed.cli.help import Command

EXAMPLES = ("gpzed completion bash >> ~/.bashrc",)


@click.command("completion", cls=Command, examples=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@DEBUG
def command(shell: str, debug: bool) -> int:
    """Print the completion script for SHELL.

    bash: eval "$(gpzed completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc;
    fish: gpzed completion fish > ~/.config/fish/completions/gpzed.fish
    """
    from gpzed.cli.app import cli

    kind = get_completion_class(shell)
    assert kind is not None
    sys.stdout.write(kind(cli, {}, "gpzed", "_GPZED_COMPLETE").source() + "\n")
    return 0
