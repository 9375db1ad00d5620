# Two commands on a fresh machine: `make reproduce` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup reproduce test lint types contracts check bench clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

setup: $(READY)  ## make the environment in .venv (the other targets do it by themselves)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("hardmax needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if $(BIN)/python -m pip install --quiet --constraint constraints.txt uv; then \
	  echo "installing with uv"; \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --group dev --editable . ; \
	else false; fi || { \
	  echo "uv is not available or failed: installing with pip (slower)"; \
	  $(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip && \
	  $(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable . ; }
	@touch $@

reproduce: $(READY)  ## run the main job: every result the library can regenerate
	$(BIN)/hardmax reproduce

# One thread: the matrices are small, and idle threads of OpenBLAS spin.
test: $(READY)  ## run the tests
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

lint: $(READY)  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## check types
	$(BIN)/mypy

contracts: $(READY)  ## check that imports go only downwards
	$(BIN)/lint-imports

check: lint types contracts test  ## everything that must pass before a change lands

bench: $(READY)  ## measure against the peers, as ratios in one run
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks

clean:  ## remove the environment and every cache
	rm -rf $(VENV) build dist results .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
