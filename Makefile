# Everything runs in .venv, which the first target that needs it sets up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
EXAMPLE := examples/ftf/scalable.yaml

.PHONY: run test test-all check bench docs format clean

run: $(READY)  ## the forecast of the shipped example
	@$(BIN)/scalable plan $(EXAMPLE) --sweep calibration
	@echo
	@$(BIN)/scalable forecast margins $(EXAMPLE)
	@echo
	@echo "  this was  scalable plan  and  scalable forecast margins  on $(EXAMPLE)"
	@echo "  more:     $(BIN)/scalable --help"

test: $(DEV)  ## everything a change must pass
	@$(BIN)/python -m pytest -n 2 -q

test-all: $(DEV)  ## and the long tiers: 10,000 generated traces
	@SCALABLE_TRACES=10000 $(BIN)/python -m pytest -n 2 -q

check: $(DEV)  ## lint, types, import rules
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(DEV)  ## benchmarks; writes benchmarks/results/*.json
	@$(BIN)/python -m benchmarks

docs: $(DEV)  ## regenerate the reference pages and pictures
	@$(BIN)/python -m docs.generate

format: $(DEV)
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info src/*.egg-info

# What the product needs, and what its developers need on top.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; make PYTHON=/path/to/python3.12 uses another"; exit 1; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -c constraints.txt -e .
	@touch $@

$(DEV): $(READY)
	@echo "setting up the developers' tools (once; a minute)"
	@$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@
