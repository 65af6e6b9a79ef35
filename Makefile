# `make demo` and `make test` each do all the set-up; nothing else is needed on a fresh machine
# with Python 3.11 or later.
SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach python,python3 python3.13 python3.12 python3.11,$(shell \
	$(python) -c 'import sys; sys.version_info >= (3, 11) and print("$(python)")' 2>/dev/null)))
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO_OUT ?= out/demo

DOCS_READY := .venv/.docs-ready

.PHONY: help setup docs demo test thorough checked lint kernels bench soak experiments clean

help:
	@echo "make demo    a service with zones of every kind: bids of all kinds, watched to the end; minutes"
	@echo "             STAY=1 leaves it up for its page, until Ctrl-C"
	@echo "make test    linters, types, layer contracts and all tests"
	@echo "make lint    the quick half of it: all but the tests"
	@echo "make thorough  all tests, with all combinations and more drawn cases"
	@echo "make bench   the figures of docs/reference/figures.md, measured on this machine"
	@echo "             SPOT_DATA=FOLDER adds those on records of spot markets"
	@echo "make soak    zones of all kinds, four Ray nodes, random bids, random faults; then the books:"
	@echo "             10 minutes; MINUTES=60 for so many (and some more until all jobs are over),"
	@echo "             SEED=N for the same draws again"
	@echo "make experiments  the figures of docs/explanation/experiments-*.md: an hour or so"
	@echo "make docs    the site of these pages, in build/site/index.html"
	@echo "make setup   only the virtual environment in .venv"
	@echo "make clean   remove what the other targets made"

setup: $(READY)

# torch comes first: what depends on it must find it there and not fetch another build.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "auctune needs Python 3.11 or later; name one with make PYTHON=..." >&2; exit 1; }
	@echo "setting up .venv with $$($(PYTHON) --version): once, a few minutes, 1 GB or more (torch)"
	@$(PYTHON) -m venv .venv
	@SECONDS=0; \
	echo "1 of 2: torch" && $(PIP) torch==2.13.0 && \
	echo "2 of 2: auctune and the rest of constraints.txt" && $(PIP) --editable '.[train,service,spot,timeshare,ray,dev]' && \
	echo "set up in $$SECONDS s"
	@touch $(READY)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A file's tests stay together: what they share is made once. One process more than most machines'
# two cores, as many tests wait for slots to end. Files keep their order: those of whole services,
# few and long, come before the many short ones of units.
PYTEST := $(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder
test: checked
	$(PYTEST)

thorough: checked
	AUCTUNE_THOROUGH=1 $(PYTEST)

# Linters take one core, the compiler another.
checked: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint kernels

kernels: $(READY)
	@echo "compiling kernels for the tests: once, a minute or two" && PYTHONPATH=tests $(BIN)/python tests/support/compile_kernels.py

demo: $(READY)
	$(BIN)/python examples/service/demo.py $(DEMO_OUT) $(if $(STAY),--stay)

bench: $(READY)
	$(BIN)/python benchmarks/auction.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/spot.py
	$(if $(SPOT_DATA),$(BIN)/python benchmarks/spot_ahap.py $(SPOT_DATA))
	$(if $(SPOT_DATA),$(BIN)/python benchmarks/spot_advice.py $(SPOT_DATA) 100)
	$(BIN)/python benchmarks/timeshare.py
	$(BIN)/python benchmarks/service_load.py
	$(BIN)/python benchmarks/service_restart.py

# Ten minutes of faults, unless `make soak MINUTES=60` or the environment says more.
SOAK_MINUTES ?= 10
MINUTES ?= $(SOAK_MINUTES)
soak: $(READY)
	$(BIN)/python benchmarks/service_soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

experiments: $(READY)
	$(BIN)/python experiments/pdftsp/run_all.py
	$(BIN)/python experiments/spot/run_all_spot.py
	$(BIN)/python experiments/edge/run_all_edge.py
	$(BIN)/python experiments/timeshare/run_all_timeshare.py

# Sphinx is for the site alone: `make setup` and `make test` do without it.
$(DOCS_READY): $(READY)
	@echo "setting up what builds the site: once" && $(PIP) --editable '.[docs]'
	@touch $(DOCS_READY)

docs: $(DOCS_READY)
	$(BIN)/sphinx-build --quiet --fail-on-warning -c docs/site -d build/doctrees docs build/site
	$(BIN)/python docs/site/check_assets.py build/site
	@echo "the site is in build/site/index.html"

clean:
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
