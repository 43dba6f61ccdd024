"""The terminal in awkward moments: signals in callbacks, warnings from signal handlers."""

from __future__ import annotations

import contextlib
import gc
import signal
import time
import weakref

import pytest

pytest.importorskip("rich")
from gpzed.cli.console import Terminal, on_stop


@pytest.fixture
def may_be_interrupted():
    """A background job of a shell ignores Ctrl-C, and so would this test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("may_be_interrupted")
def test_an_interrupt_in_a_callback_that_swallows_it_comes_again():
    class Victim:
        pass

    def swallow():
        victim = Victim()
        kept = weakref.ref(victim, lambda _: signal.raise_signal(signal.SIGINT))  # Python ignores what is raised in it
        del victim
        gc.collect()
        assert kept() is None
        time.sleep(5.0)

    with pytest.raises(KeyboardInterrupt), on_stop(signal.default_int_handler):
        swallow()


class Half:
    """An object that fails to be cleared away, as those of LLVM do that an interrupt kept from being made whole."""

    def __del__(self):
        raise AttributeError("no such thing")


@pytest.mark.usefixtures("may_be_interrupted")
def test_what_an_interrupt_left_half_made_is_no_cause_for_words(monkeypatch):
    said = []
    monkeypatch.setattr("sys.unraisablehook", said.append)
    with on_stop(signal.default_int_handler):
        half = Half()
        del half
        assert len(said) == 1
        with contextlib.suppress(KeyboardInterrupt):
            half = Half()
            signal.raise_signal(signal.SIGINT)
        del half
    assert len(said) == 1


def test_a_warning_from_a_signal_handler(capfd):
    Terminal().warn_at_once("stopping")
    Terminal(quiet=True).warn_at_once("though quiet")
    assert capfd.readouterr().err == "warning: stopping\nwarning: though quiet\n"
