"""The group of commands, options common to all, and what becomes of errors."""

from __future__ import annotations

import importlib
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

import gpzed
from gpzed._files import reason
from gpzed.cli.console import Terminal, on_stop
from gpzed.errors import ConfigError, GPzError, GPzWarning

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("gpzed.cli.train", "Train a model on a catalogue with redshifts."),
    "predict": ("gpzed.cli.predict", "Predict redshifts for a catalogue of any size."),
    "evaluate": ("gpzed.cli.evaluate", "Score predictions against true redshifts."),
    "select": ("gpzed.cli.select", "Choose the reliable objects, and say what that costs."),
    "report": ("gpzed.cli.report", "Make one interactive page about predictions."),
    "nz": ("gpzed.cli.nz", "Stack predictions to a redshift distribution n(z)."),
    "survey": ("gpzed.cli.survey", "Say where spectra and deeper bands would gain most."),
    "info": ("gpzed.cli.info", "Show what a model file holds."),
    "config": ("gpzed.cli.config", "Print a commented configuration file."),
    "sdss": ("gpzed.cli.sdss", "Print the query for the paper's SDSS sample."),
    "demo": ("gpzed.cli.demo", "Simulate a survey, train, predict and evaluate."),
    "completion": ("gpzed.cli.completion", "Print the shell completion script."),
}
"""Commands by name: module and what it does. Modules are imported when their command is called."""
EXIT_FAILURE, EXIT_USAGE = 1, 2
NO_THREAD = "can't start new thread"
"""What Python says when there is no memory for a thread."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them."""
        commands = [
            CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command, or name the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1, 0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"commands: {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(gpzed.__version__, prog_name="gpzed")
def cli() -> None:
    """Photometric redshifts with calibrated uncertainties (GPz; Almosallam, Jarvis & Roberts 2016).

    A first try: `gpzed demo`. With your own data: `gpzed train spectra.fits -o model.gpzed`, then
    `gpzed predict model.gpzed survey.fits -o redshifts.parquet`.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; errors become one line on standard error and an exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wants_trace = "--debug" in given
    terminal = Terminal(quiet="--quiet" in given or "-q" in given)
    with warnings.catch_warnings(), on_stop(signal.default_int_handler):
        warnings.simplefilter("default", GPzWarning)
        _show_warnings_plainly(terminal)
        try:
            result = cli.main(given, prog_name="gpzed", standalone_mode=False)
        except click.exceptions.Exit as finished:
            return finished.exit_code
        except click.Abort:
            return _interrupted(terminal)
        except click.ClickException as error:
            error.show()
            return EXIT_USAGE
        except KeyboardInterrupt:
            return _interrupted(terminal)
        except (GPzError, MemoryError, OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not isinstance(error, GPzError) and NO_THREAD not in str(error):
                raise
            if wants_trace:
                traceback.print_exc()
            terminal.error(_message(error))
            return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILURE
    return result if isinstance(result, int) else 0


def _interrupted(terminal: Terminal) -> int:
    terminal.error("interrupted; nothing half-finished was left under the name of the output")
    return EXIT_FAILURE


def _message(error: Exception) -> str:
    if isinstance(error, MemoryError) or NO_THREAD in str(error):
        return "out of memory; train on fewer rows, or predict with a smaller `chunk_rows`"
    if isinstance(error, OSError) and not isinstance(error, GPzError):
        file = "a file" if error.filename is None else f"'{error.filename}'"
        return f"{file} cannot be read or written: {reason(error)}; check the folder and the disk"
    return str(error)


def _show_warnings_plainly(terminal: Terminal) -> None:
    def show(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        text = " ".join(str(message).split())
        terminal.warn(text if issubclass(category, GPzWarning) else f"{category.__name__}: {text}")

    warnings.showwarning = show
