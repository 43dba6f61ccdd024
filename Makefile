# make demo    sets everything up and runs the main job
# make test    sets everything up, then lint, types, import rules and tests
# make test-scale   the tests that need Dask, LSDB and object storage, workers killed and all
# make test-rail    the tests of the RAIL plugin, in a separate environment
# make docs    builds the documentation site in docs/_build/html; warnings are errors
# make notebooks   executes the notebooks and stores their outputs; the one with RAIL and LSDB in a separate environment
# make bench   sets everything up and measures the speed of evidence and prediction again
# make paper   reproduces the tables and figures of the paper; PAPER_ARGS="--table metrics --size 10000" for a part
# make faults  breaks gpzed on purpose, for some minutes, and counts what happens; FAULTS_ARGS="--scale 10" for longer,
#              FAULTS_ARGS="--each 200" for hours of signals, resumed by the same command
# make sanitize  runs the tests of the C kernels under AddressSanitizer and UBSan; minutes
# make lock    writes requirements-dev.lock anew: the packages of the environment, by version and hash
# make audit   looks for known vulnerabilities of the packages in that file (asks the network)
# make results  measures what docs/results lacks and fills the tables of the pages; RESULTS_ARGS="--list" or "--budget 40m"

PYTHON ?= python3
VENV := .venv
SOURCES := $(wildcard src/gpzed/compiled/*.c src/gpzed/compiled/*.h)
BIN := $(VENV)/bin

# `make` alone shows the comments at the top
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

.PHONY: help demo test lint unit docs notebooks slow test-scale faults sanitize lock audit bench paper rivals test-rail results clean

$(VENV)/.stamp: pyproject.toml requirements-dev.lock hatch_build.py $(SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "gpzed needs Python 3.11 or later; set PYTHON=python3.11")'
	@echo "setting up $(VENV), which takes a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock 2> $(VENV)/pip.log \
		&& $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . \
		|| { cat $(VENV)/pip.log >&2; ! grep -q "DO NOT MATCH THE HASHES" $(VENV)/pip.log \
		&& echo "The packages of requirements-dev.lock are not available here; installing what pyproject.toml allows." >&2 \
		&& $(BIN)/python -m pip install --quiet --upgrade "pip>=25.1" \
		&& $(BIN)/python -m pip install --quiet --editable ".[all]" --group dev; }
	@touch $@

demo: $(VENV)/.stamp
	@$(BIN)/gpzed demo

test: lint unit

lint: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports

unit: $(VENV)/.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

docs: $(VENV)/.stamp
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# RAIL and LSDB are too large for the environment of the site, which shows the stored outputs of that notebook
.venv-lsst/.stamp: pyproject.toml hatch_build.py $(SOURCES) plugins/rail/pyproject.toml
	$(PYTHON) -m venv .venv-lsst
	.venv-lsst/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-lsst/bin/python -m pip install --quiet --editable ".[all,lsdb]" --editable plugins/rail nbclient ipykernel
	touch $@

notebooks: $(VENV)/.stamp .venv-lsst/.stamp
	OMP_NUM_THREADS=1 $(BIN)/python docs/execute.py $(filter-out %/lsst-survey.ipynb,$(wildcard docs/*/*.ipynb))
	OMP_NUM_THREADS=1 .venv-lsst/bin/python docs/execute.py docs/notebooks/lsst-survey.ipynb

slow: $(VENV)/.stamp
	$(BIN)/python -m pytest --run-slow --run-real -m "slow or real" $(PYTEST_ARGS)

# LSDB brings a gigabyte of packages: a separate environment
.venv-scale/.stamp: pyproject.toml hatch_build.py $(SOURCES)
	$(PYTHON) -m venv .venv-scale
	.venv-scale/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-scale/bin/python -m pip install --quiet --editable ".[all,lsdb,s3]" --group dev --group s3
	touch $@

test-scale: .venv-scale/.stamp
	OMP_NUM_THREADS=1 .venv-scale/bin/python -m pytest --run-slow tests/scale tests/workflows/test_addresses.py $(PYTEST_ARGS)

# FAULTS_VENV=.venv-scale has LSDB, so that HATS catalogues are among the faults
FAULTS_VENV ?= $(VENV)

faults: $(FAULTS_VENV)/.stamp
	OMP_NUM_THREADS=1 $(FAULTS_VENV)/bin/python -m faults $(FAULTS_ARGS)

# leaks are Python's own; compiled for every vector width, of which tests choose by their fixture `lanes`
SANITIZED := build/sanitized/_kernels.so
SANITIZERS = $$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)

$(SANITIZED): hatch_build.py $(SOURCES) $(VENV)/.stamp
	mkdir -p $(@D)
	CC=gcc $(BIN)/python hatch_build.py $@ -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined

sanitize: $(SANITIZED)
	LD_PRELOAD="$(SANITIZERS)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n 2 -p no:cacheprovider --kernels $(SANITIZED) tests/compiled tests/gp tests/mixture \
		tests/incomplete tests/prediction tests/model/test_coverage.py $(PYTEST_ARGS)

.venv-lock/.stamp:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv pip-audit
	touch $@

lock: .venv-lock/.stamp
	.venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--upgrade --extra all --group dev -o requirements-dev.lock pyproject.toml

audit: .venv-lock/.stamp
	.venv-lock/bin/pip-audit --require-hashes --disable-pip -r requirements-dev.lock

bench: $(VENV)/.stamp
	$(BIN)/python -m experiments.results --again --only evidence prediction

results: $(VENV)/.stamp
	$(BIN)/python -m experiments.results $(RESULTS_ARGS)

paper: $(VENV)/.stamp
	$(BIN)/python -m experiments.paper $(or $(PAPER_ARGS),--all)

rivals: $(VENV)/.stamp
	benchmarks/rivals/setup.sh
	$(BIN)/python benchmarks/versus.py

.venv-rail/.stamp: pyproject.toml hatch_build.py $(SOURCES) plugins/rail/pyproject.toml
	$(PYTHON) -m venv .venv-rail
	.venv-rail/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-rail/bin/python -m pip install --quiet --editable ".[hdf5,parquet,cli]" --editable plugins/rail --group plugins/rail/pyproject.toml:test
	touch $@

test-rail: .venv-rail/.stamp
	OMP_NUM_THREADS=1 .venv-rail/bin/python -m pytest -c plugins/rail/pyproject.toml -n 2 plugins/rail/tests $(PYTEST_ARGS)

.venv-league/.stamp: pyproject.toml hatch_build.py plugins/rail/pyproject.toml benchmarks/league/requirements.txt
	$(PYTHON) -m venv .venv-league
	.venv-league/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-league/bin/python -m pip install --quiet --editable ".[hdf5,parquet]" --editable plugins/rail -r benchmarks/league/requirements.txt
	touch $@

.venv-networks/.stamp: benchmarks/rivals/setup_networks.sh
	benchmarks/rivals/setup_networks.sh
	touch $@

clean:
	rm -rf $(VENV) .venv-networks .venv-rail .venv-league .venv-lock .venv-bench .venv-scale .venv-lsst build docs/_build docs/reference/api gpzed-demo .mypy_cache .ruff_cache .pytest_cache
