"""How workflows tell what they do; silent by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Receives messages and progress; this one drops them. Front ends derive their own."""

    def say(self, text: str) -> None:
        """Tell something worth knowing."""

    def warn(self, text: str) -> None:
        """Tell something worth a second look."""

    @contextmanager
    def task(self, title: str, total: int | None, unit: str) -> Iterator[Task]:
        """Announce a long step of `total` units (None if unknown) and yield what is told of its progress."""
        yield Task()


class Task:
    """A long step under way."""

    def advance(self, done: int, note: str = "") -> None:
        """Tell that `done` more units are finished."""
