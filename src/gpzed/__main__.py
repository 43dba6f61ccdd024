"""Run the command line as ``python -m gpzed``."""

from __future__ import annotations

import sys

from gpzed.cli import main

if __name__ == "__main__":
    code = main()
    # Python remembers an interrupt that came while it ran text as code, as dataclasses do when they are imported, and
    # ends as if by Ctrl-C whatever the exit code; more such text has it forget.
    exec("")
    sys.exit(code)
