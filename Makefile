# make demo    sets everything up and runs the main job
# make test    sets everything up, then lint, types, import rules and tests
# make test-scale   the tests that need Dask and LSDB, workers killed and all
# make bench   sets everything up and runs the benchmarks (JSON lines)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint unit slow test-scale bench rivals clean

$(VENV)/.stamp: pyproject.toml hatch_build.py src/gpzed/core/_kernels.c src/gpzed/core/_blocks.h
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "gpzed needs Python 3.11 or later; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $@

demo: $(VENV)/.stamp
	$(BIN)/gpzed demo

test: lint unit

lint: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

slow: $(VENV)/.stamp
	$(BIN)/python -m pytest --run-slow --run-real -m "slow or real" $(PYTEST_ARGS)

# LSDB brings a gigabyte of packages: an environment of its own
.venv-scale/.stamp: pyproject.toml hatch_build.py src/gpzed/core/_kernels.c
	$(PYTHON) -m venv .venv-scale
	.venv-scale/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-scale/bin/python -m pip install --quiet --editable ".[all,lsdb]" --group dev
	touch $@

test-scale: .venv-scale/.stamp
	OMP_NUM_THREADS=1 .venv-scale/bin/python -m pytest --run-slow tests/scale $(PYTEST_ARGS)

bench: $(VENV)/.stamp
	$(BIN)/python benchmarks/run.py

rivals: $(VENV)/.stamp
	benchmarks/rivals/setup.sh
	$(BIN)/python benchmarks/versus.py

clean:
	rm -rf $(VENV) .venv-bench .venv-scale build gpzed-demo .mypy_cache .ruff_cache .pytest_cache
