"""Try things that may crash, hang or eat the memory: in forked children, with limits, one answer for each."""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
BATCH = 25
"""Items that one child tries, unless it dies before."""


def in_children(
    attempt: Callable[[Item], str], items: Sequence[Item], *, seconds: float, megabytes: int
) -> Iterator[str]:
    """Yield what `attempt` says of each item, or "crash: ..." or "hang" if it never says anything.

    A child may take `megabytes` more address space than it starts with, and `seconds` for an item.
    """
    done = 0
    while done < len(items):
        answers = 0
        for answer in _one_child(attempt, items[done : done + BATCH], seconds, megabytes):
            answers += 1
            yield answer
        done += answers


def _one_child(attempt: Callable[[Item], str], items: Sequence[Item], seconds: float, megabytes: int) -> Iterator[str]:
    """Yield answers until the child is through or an item ends it."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads about
        child = os.fork()
    if child == 0:
        os.close(reader)
        _work(attempt, items, megabytes, writer)
    os.close(writer)
    buffer, answered = b"", 0
    try:
        while answered < len(items):
            ready, _, _ = select.select([reader], [], [], seconds)
            piece = os.read(reader, 1 << 16) if ready else b""
            buffer += piece
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                answered += 1
                yield line.decode("utf-8", "replace")
            if not piece:
                break
    finally:
        if answered < len(items) and not ready:
            os.kill(child, signal.SIGKILL)
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if answered < len(items):
        code = os.waitstatus_to_exitcode(status)
        yield "hang" if not ready else f"crash: the process ended with {code}"


def _work(attempt: Callable[[Item], str], items: Sequence[Item], megabytes: int, writer: int) -> None:
    """Try all items in this process, which then ends."""
    try:
        faulthandler.disable()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)
        warnings.simplefilter("ignore")
        with open("/proc/self/statm", encoding="ascii") as stream:
            taken = int(stream.read().split()[0]) * resource.getpagesize()
        limit = taken + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for item in items:
            answer = attempt(item).replace("\n", " ")[:400]
            os.write(writer, answer.encode("utf-8", "replace") + b"\n")
    finally:
        os._exit(0)
