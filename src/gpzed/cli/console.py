"""What goes to the screen: messages and progress to standard error, results to standard output."""

from __future__ import annotations

import _thread
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.progress import Task as RichTask
from rich.table import Table
from rich.text import Text

from gpzed.progress import Progress, Task

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Ask a command to stop: Ctrl-C, a batch system, a terminal that is closed."""
QUIET = click.option("--quiet", "-q", is_flag=True, help="Print results, warnings and errors only.")
DEBUG = click.option("--debug", is_flag=True, help="Show where in the code an error came from.")
AGAIN_SECONDS = 0.05
"""After which an interrupt that was swallowed is repeated."""
PLAIN_SECONDS = 15.0
"""Seconds between lines of progress when the screen is no terminal."""


@contextmanager
def on_stop(handle: Callable[[int, Any], Any]) -> Iterator[None]:
    """Let signals that ask to stop call a function, those apart that are ignored, as under nohup."""
    before, came = {}, []  # type: dict[int, Any], list[int]

    def stop(number: int, frame: Any) -> None:
        came.append(number)
        handle(number, frame)

    if threading.current_thread() is threading.main_thread():
        asked = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, stop) for number in asked}
    hook = sys.unraisablehook
    sys.unraisablehook = partial(_ask_again, hook, came)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _ask_again(hook: Callable[[Any], Any], came: Sequence[int], swallowed: Any) -> None:
    """Repeat an interrupt that came in a callback of Python's own, which swallows what is raised in it.

    Once a signal `came`, objects that it kept from being made whole may fail to be cleared away: not a word of that.
    """
    if issubclass(swallowed.exc_type, KeyboardInterrupt):
        threading.Timer(AGAIN_SECONDS, _thread.interrupt_main).start()
    elif not came:
        hook(swallowed)


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: RichTask) -> Text:
        """Return units per second."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self.unit}/s", style="cyan")


class _BarTask(Task):
    def __init__(self, progress: RichProgress, task_id: Any) -> None:
        self._progress, self._id = progress, task_id

    def advance(self, done: int, note: str = "") -> None:
        self._progress.update(self._id, advance=done, note=note)


class _PlainTask(Task):
    def __init__(self, terminal: Terminal, title: str, total: int | None, unit: str) -> None:
        self._terminal, self._title, self._total, self._unit = terminal, title, total, unit
        self._done, self._start = 0, time.monotonic()
        self._last = self._start

    def advance(self, done: int, note: str = "") -> None:
        self._done += done
        now = time.monotonic()
        if now - self._last < PLAIN_SECONDS:
            return
        self._last = now
        rate = self._done / max(now - self._start, 1e-9)
        text = f"{self._title}: {self._done:,} {self._unit}"
        if self._total:
            left = (self._total - self._done) / max(rate, 1e-9)
            text = f"{self._title}: {self._done:,} of {self._total:,} {self._unit}, at most {left:,.0f} s left"
        self._terminal.say(f"{text}, {rate:,.0f} {self._unit}/s{'; ' + note if note else ''}")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Terminal(Progress):
    """The screen, to which workflows tell their progress."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.log: list[str] = []
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        self._out = Console(highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Tell something worth knowing."""
        self.log.append(text)
        if not self.quiet:
            self._err.print(escape(text))

    def warn(self, text: str) -> None:
        """Tell something worth a second look; never silent, since a result may be wrong for that reason."""
        self.log.append(f"warning: {text}")
        self._err.print(f"[yellow]warning:[/yellow] {escape(text)}")

    def warn_at_once(self, text: str) -> None:
        """Tell something from a signal handler, in whatever was interrupted: no library can be relied on there."""
        with suppress(OSError):
            os.write(2, f"warning: {text}\n".encode())

    def error(self, text: str) -> None:
        """Tell why the command failed; never silent."""
        self._err.print(f"[bold red]error:[/bold red] {escape(text)}")

    def result(self, text: str) -> None:
        """Print a result."""
        self._out.print(escape(text))

    def answer(self, as_json: bool, value: Any, lines: Iterable[str]) -> None:
        """Print a result: for machines, or line by line."""
        if as_json:
            self.json(value)
        else:
            for line in lines:
                self.result(line)

    def save(self, path: str | None, write: Callable[[str], None]) -> None:
        """Write a file, if it was asked for, and say so."""
        if path:
            write(path)
            self.say(f"wrote {path}")

    def table(self, table: Table) -> None:
        """Print a table as a result."""
        self._out.print(table)

    def note(self, table: Table) -> None:
        """Print a table beside the result, to standard error."""
        if not self.quiet:
            self._err.print(table)

    def json(self, value: Any) -> None:
        """Print a result for machines; numbers that are not finite, which JSON has not, become null."""
        sys.stdout.write(json.dumps(_finite(value), indent=2, allow_nan=False, default=str) + "\n")

    @contextmanager
    def task(self, title: str, total: int | None, unit: str) -> Iterator[Task]:
        """Show a bar with rate and time left on a terminal, now and then a line elsewhere."""
        if self.quiet:
            yield Task()
        elif not self._err.is_terminal:
            yield _PlainTask(self, title, total, unit)
        else:
            columns = [
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(unit),
                TimeRemainingColumn(), TextColumn("[dim]{task.fields[note]}"),
            ]  # fmt: skip
            with RichProgress(*columns, console=self._err, transient=True) as progress:
                yield _BarTask(progress, progress.add_task(title, total=total, note=""))
