"""The command line: `gpzed train | predict | evaluate | select | report | info | config | sdss | demo | completion`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failure, 2 wrong usage or configuration."""
    missing = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"gpzed: the command line needs {' and '.join(missing)}; install it with `pip install 'gpzed[cli]'`.\n"
        )
        return 2
    try:
        from gpzed.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:  # before anything has begun
        sys.stderr.write("error: interrupted\n")
        return 1
