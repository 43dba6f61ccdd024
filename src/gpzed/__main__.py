"""Run the command line as ``python -m gpzed``."""

from __future__ import annotations

import sys

from gpzed.cli import main

if __name__ == "__main__":
    sys.exit(main())
