#!/bin/sh
# Create or refresh the benchmark-only environment (default: .venv-bench in the project root).
# Usage: benchmarks/rivals/setup.sh [DIRECTORY]        PYTHON=python3.12 to choose the interpreter
set -eu

here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../../.venv-bench}

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet -r "$here/requirements.txt"
"$venv/bin/python" -m pip install --quiet --no-deps -r "$here/requirements-no-deps.txt"
"$venv/bin/python" "$here/rail_gpz.py" version
