# Everything runs in .venv, which the first target that needs it sets up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
PEERS := $(VENV)/.peers
ROOT := $(CURDIR)
# Processes that run tests: one more than two cores, since some wait for clusters.
JOBS ?= 3
SWEEP := examples/calibration

.PHONY: run console test test-rest test-all mutants soak system check bench docs format clean

run: $(READY)  ## plan the calibration sweep, run it on this machine, show results and decision; again: only what is missing
	@cd $(SWEEP) && "$(ROOT)/$(BIN)/scalable" plan calibration
	@echo
	@cd $(SWEEP) && "$(ROOT)/$(BIN)/scalable" run calibration
	@echo
	@echo "  this was  scalable plan  and  scalable run calibration  in $(SWEEP)"
	@echo "  see it:   make console    the same in the browser, also while it runs"
	@echo "  more:     $(BIN)/scalable --help"

console: $(READY)  ## the page on which runs of that sweep are seen, live or later
	@cd $(SWEEP) && "$(ROOT)/$(BIN)/scalable" console

test: $(DEV) system  ## all unit tests, and one way through each capability; minutes
	@$(BIN)/python -m pytest -n $(JOBS) -q -m 'unit or journey'

test-rest: $(DEV) system  ## the tests with real processes, clusters and programs that make test leaves out
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -m 'not unit and not journey'

test-all: $(DEV) system  ## everything: also 10,000 generated traces, 50 kills of a sweep, a real MLflow and Airflow
	@SCALABLE_LONG=1 SCALABLE_TRACES=10000 SCALABLE_KILLS=50 $(BIN)/python -m pytest -n $(JOBS) -q -o faulthandler_timeout=7200

mutants: $(DEV)  ## plant 30 defects, one at a time, and see which tests catch them; an hour
	@$(BIN)/python -m tests.tools.mutants --journeys

soak: $(DEV)  ## ten sessions in a row, a heavy one among them, with faults: nothing lost, nothing leaked; minutes
	@$(BIN)/python -m benchmarks.soak

system: $(DEV)  ## system packages some tests need; installed if this is root, else named
	@$(BIN)/python -m tests.tools.system

check: $(DEV)  ## lint, types, import rules
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(PEERS)  ## benchmarks beside Dask, Ray, Parsl and others; writes benchmarks/results/*.json
	@$(BIN)/python -m benchmarks

docs: $(DEV)  ## regenerate the reference pages and pictures; those of pages need chromium and a run of the example
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m docs.screenshots

format: $(DEV)
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info src/*.egg-info

# What the product needs, and what its developers need on top.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; make PYTHON=/path/to/python3.12 uses another"; exit 1; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -c constraints.txt -e '.[finetune,console]'
	@touch $@

$(PEERS): $(DEV)
	@echo "setting up those we are measured beside (once)"
	@$(PIP) -c constraints.txt -e '.[dev,bench]'
	@touch $@

$(DEV): $(READY)
	@echo "setting up the developers' tools (once; a minute)"
	@$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@
