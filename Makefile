# `make demo` and `make test` each do all the set-up; nothing else is needed on a fresh machine
# with Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO_OUT ?= out/first-market

.PHONY: help setup demo test lint bench clean

help:
	@echo "make demo    run the example market and show its report"
	@echo "make test    linters, types, layer contracts and all tests"
	@echo "make bench   the figures of docs/reference/figures.md, measured on this machine"
	@echo "make setup   only the virtual environment in .venv"
	@echo "make clean   remove what the other targets made"

setup: $(READY)

# torch comes first: what depends on it must find it there and not fetch another build.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("auctune needs Python 3.11 or later, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	@touch $(READY)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

demo: $(READY)
	$(BIN)/auctune run examples/first-market/market.toml --out $(DEMO_OUT) --fresh

bench: $(READY)
	$(BIN)/python benchmarks/auction.py
	$(BIN)/python benchmarks/training.py

clean:
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
