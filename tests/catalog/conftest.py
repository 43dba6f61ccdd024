"""Leave out what needs the optional packages where they are not installed."""

from __future__ import annotations

import importlib.util

collect_ignore = (
    []
    if all(importlib.util.find_spec(name) for name in ("astropy", "h5py", "pyarrow"))
    else [
        "test_foreign_files.py",
        "test_io_errors.py",
        "test_lists_and_notes.py",
        "test_photometry.py",
        "test_round_trip.py",
    ]
)
