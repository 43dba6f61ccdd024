"""The group of commands, options common to all, and what becomes of errors."""

from __future__ import annotations

import importlib
import re
import shlex
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from gpzed._files import reason
from gpzed.cli.console import Terminal, on_stop
from gpzed.cli.help import flags_of, heading, write_examples
from gpzed.errors import ConfigError, GPzError, GPzWarning, SchemaError

WORK, JUDGE, USE, SETUP = "From spectra to redshifts", "How good they are", "What to do with them", "Help and set-up"
COMMANDS: dict[str, tuple[str, str, str]] = {
    "train": ("gpzed.cli.train", "Train a model on a catalogue with redshifts.", WORK),
    "predict": ("gpzed.cli.predict", "Predict redshifts for a catalogue of any size.", WORK),
    "evaluate": ("gpzed.cli.evaluate", "Score predictions against true redshifts.", JUDGE),
    "report": ("gpzed.cli.report", "Make one interactive page about predictions.", JUDGE),
    "select": ("gpzed.cli.select", "Choose the reliable objects, and say what that costs.", JUDGE),
    "nz": ("gpzed.cli.nz", "Stack predictions to a redshift distribution n(z).", USE),
    "survey": ("gpzed.cli.survey", "Say where spectra and deeper bands would gain most.", USE),
    "challenge": ("gpzed.cli.challenge", "Make an entry to DESC's photo-z data challenge.", USE),
    "demo": ("gpzed.cli.demo", "Simulate a survey, train, predict and evaluate.", SETUP),
    "info": ("gpzed.cli.info", "Show what a model file holds.", SETUP),
    "config": ("gpzed.cli.config", "Print a commented configuration file.", SETUP),
    "sdss": ("gpzed.cli.sdss", "Print the query for the paper's SDSS sample.", SETUP),
    "completion": ("gpzed.cli.completion", "Print the shell completion script.", SETUP),
}
"""Commands by name: module, what it does, heading in the help. Modules are imported when their command is called."""
EXAMPLES = (
    "gpzed demo  # a first try, on simulated galaxies",
    "gpzed train spectra.fits -o galaxies.gpzed",
    "gpzed predict galaxies.gpzed survey.fits -o redshifts.parquet",
    "gpzed report redshifts.parquet -o report.html",
)
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
        for title in dict.fromkeys(group for _, _, group in COMMANDS.values()):
            with formatter.section(heading(title)):
                formatter.write_dl([(name, text) for name, (_, text, group) in COMMANDS.items() if group == title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        write_examples(EXAMPLES, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them."""
        commands = [
            CompletionItem(name, help=text) for name, (_, text, _) in COMMANDS.items() if name.startswith(incomplete)
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
@click.version_option(package_name="gpzed", prog_name="gpzed")
def cli() -> None:
    """Photometric redshifts with calibrated uncertainties (GPz; Almosallam, Jarvis & Roberts 2016).

    `gpzed COMMAND --help` has the options of a command, with examples.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; errors become one line on standard error and an exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wants_trace = "--debug" in given
    terminal = Terminal(quiet="--quiet" in given or "-q" in given)
    with warnings.catch_warnings(), on_stop(signal.default_int_handler):
        warnings.simplefilter("default", GPzWarning)
        _show_warnings_plainly(terminal, given)
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
            terminal.error(_message(error, given))
            return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILURE
    return result if isinstance(result, int) else 0


def _interrupted(terminal: Terminal) -> int:
    terminal.error("interrupted; nothing half-finished was left under the name of the output")
    return EXIT_FAILURE


def _message(error: Exception, given: Sequence[str] = ()) -> str:
    if isinstance(error, MemoryError) or NO_THREAD in str(error):
        return "out of memory; train on fewer rows, or predict with a smaller `chunk_rows`"
    if isinstance(error, OSError) and not isinstance(error, GPzError):
        file = "a file" if error.filename is None else f"'{error.filename}'"
        return f"{file} cannot be read or written: {reason(error)}; check the folder and the disk"
    if isinstance(error, SchemaError) and error.suggestion and given:
        return f"{_as_options(error.message)}. Try:\n  {_with_options(given, error.suggestion)}"
    return _as_options(str(error), given)


_INSTEAD = {"mag": "flux", "flux": "mag", "unit": "zero-point", "zero_point": "unit"}
"""Options that rule each other out."""


def _with_options(given: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the command that was given with other options, ready to be copied."""
    names = [f"--{name.replace('_', '-')}" for name in options]
    replaced = [*names, *(f"--{_INSTEAD[name]}" for name in options if name in _INSTEAD)]
    kept, skip = [], False
    for word in given:
        if skip or word in replaced:
            skip = not skip and word in replaced
        elif word.partition("=")[0] not in replaced:
            kept.append(word)
    values = [",".join(value) if isinstance(value, list | tuple) else str(value) for value in options.values()]
    more = [word for pair in zip(names, values, strict=True) for word in pair]
    return shlex.join(["gpzed", *kept, *more])


def _as_options(text: str, given: Sequence[str] = ()) -> str:
    """Return a message with arguments of Python as options: `zero_point=` and, of a command, `n_basis` as --n-basis."""
    text = text.replace("`format=`", "--input-format")  # only readers ask for it
    text = re.sub(r"`([a-z][a-z0-9_]*)=`", lambda found: f"--{found[1].replace('_', '-')}", text)
    if "section [" in text and not text.startswith("option, "):
        return text  # of a configuration file, where keys are called as they are
    module = sys.modules.get(COMMANDS[given[0]][0]) if given and given[0] in COMMANDS else None
    flags = flags_of(getattr(module, "command", None))
    text = re.sub(r"^option(?:, section \[\w+\])?: ", "", text)
    return re.sub(r"`([a-z][a-z0-9_]*)`", lambda found: flags.get(found[1], found[0]), text)


def _show_warnings_plainly(terminal: Terminal, given: Sequence[str]) -> None:
    def show(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        text = _as_options(" ".join(str(message).split()), given)
        terminal.warn(text if issubclass(category, GPzWarning) else f"{category.__name__}: {text}")

    warnings.showwarning = show
