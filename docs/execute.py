"""Execute notebooks and store their outputs: `python docs/execute.py NOTEBOOK...`, in a temporary folder each."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: str) -> None:
    """Execute a notebook in place; times and the version of Python are left out, so that only results make a change."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, record_timing=False, coalesce_streams=True, resources=resources).execute()
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for `gpzed` and `ceci`
    for path in sys.argv[1:]:
        execute(path)
