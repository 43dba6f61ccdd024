#!/bin/sh
# Create or refresh the environment of benchmarks/networks.py and shift_rivals.py (default: .venv-networks in the project root).
# Usage: benchmarks/rivals/setup_networks.sh [DIRECTORY]        PYTHON=python3.12 to choose the interpreter
set -eu

here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../../.venv-networks}

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet torch==2.13.0 flexcode==0.2.3 xgboost==3.2.0 pzflow==4.0.0 pyarrow --editable "$here/../.."
