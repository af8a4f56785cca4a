# One runner for people and for CI. Needs Python >= 3.11 and gcc; everything else goes into .venv.
# ARGS reaches the tool behind a target: make test ARGS="-k journal", make kernels ARGS=--tune

PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# Relative, so that a path with spaces needs no quotes in any recipe.
BIN := .venv/bin
READY := .venv/ready
WITH_EXTRAS := .venv/with-extras
# What the tests of NVIDIA's compilers need; without it they skip and say why: make test EXTRAS=
EXTRAS ?= cuda,compileiq,triton,optuna

# Most of what is installed is never imported: compiling all of it would take a third of the time.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# Kernels that nobody here wrote, for the tests of Triton. It asks for torch, of which compiling needs nothing.
WITHOUT_DEPENDENCIES := $(if $(findstring triton,$(EXTRAS)),liger-kernel==0.8.5)

# Three workers and their compilers fill two cores: linear algebra on several threads would only wait for them, spinning.
export OPENBLAS_NUM_THREADS = 1

# Workers are many short pytests: without compiled files they would spend half their time on compiling the plugin.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test test-all suite kernels cluster lint types property fuzz mutants parity gpu gpu-evidence bench site docs

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

demo: $(READY)  ## tune one C kernel, prove it, replay it: under two minutes
	@rm -rf .demo && mkdir .demo && cp examples/demo/* .demo/ && touch .demo/pytest.ini
	@echo '$$ pytest --tune --tune-budget=60     # search, prove, store' && cd .demo && ../$(BIN)/pytest --tune --tune-budget=60
	@echo && echo '$$ pytest                            # every day: replay, and hold the claim' && cd .demo && ../$(BIN)/pytest
	@echo && echo '$$ acf list' && cd .demo && ../$(BIN)/acf list
	@echo && echo 'Written, to be committed with the kernel (here in .demo/):' && cd .demo && find acf -type f | sort | xargs ls -l

test: suite  ## the tests on the CPU, then this project's own tuned kernels; make docs is for the pages' examples
	$(MAKE) kernels ARGS=

# What each page of docs/ shows is tuned for minutes: the workflow does that beside the suite, as make docs.
PAGES = tests/e2e/test_docs_site.py::test_a_page_shows_what_happens

PARALLEL = $(BIN)/pytest -n 3 --ignore=tests/kernels --ignore=tests/gpu --ignore=tests/cluster --deselect $(PAGES)

suite: $(WITH_EXTRAS)  ## the tests alone, in parallel and in random order, without what takes long
	$(PARALLEL) -m "not slow" $(ARGS)

test-all: $(WITH_EXTRAS)  ## the suite with all that takes long: whole nights, captured programs, kills; the workflow runs it on every push
	$(PARALLEL) $(ARGS)

kernels: $(WITH_EXTRAS)  ## the tuned kernels alone, one at a time since they are measured
	$(BIN)/pytest tests/kernels $(ARGS)

lint: $(READY)  ## ruff, rules and format; zizmor on the workflows and the action
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/zizmor --offline --quiet .github action.yml

types: $(READY)  ## mypy --strict
	$(BIN)/mypy $(ARGS)

property: $(READY)  ## the hypothesis tests alone
	$(BIN)/pytest tests/property $(ARGS)

fuzz: $(WITH_EXTRAS)  ## hostile stores through every verb and pytest, e.g. ARGS="--cases 10000 --pytest 500 --seed 2"
	$(BIN)/python -m tests.fuzz $(ARGS)

mutants: $(READY)  ## every comparison and sign of rules/ changed, one at a time: does a test fail?
	$(BIN)/python bench/mutants.py $(ARGS)

parity: $(WITH_EXTRAS)  ## what users see, compared with another commit: make parity OLD=HEAD~1
	$(BIN)/python bench/parity.py $(or $(OLD),HEAD) $(ARGS)

cluster: $(WITH_EXTRAS)  ## real clusters of Ray, whose drivers, actors and nodes are killed: a quarter of an hour
	$(BIN)/pytest tests/cluster $(ARGS)

gpu: $(WITH_EXTRAS)  ## the tests that need a GPU; no GPU is a failure here
	$(BIN)/pytest tests/gpu -o acf_no_device=fail $(ARGS)

gpu-evidence:  ## an hour with a GPU, nine minutes a call: tests, tunings, replays, calibration, a page; ARGS=--rehearse
	$(or $(wildcard $(BIN)/python),$(PYTHON)) -m bench.gpu_evidence run $(ARGS)

bench: $(READY)  ## the figures that the README quotes
	$(BIN)/python bench/collect_overhead.py
	$(BIN)/python bench/unseen_kernel.py $(ARGS)

site: $(WITH_EXTRAS)  ## the documentation as a site, in .site/
	$(BIN)/mkdocs build --strict

docs: $(WITH_EXTRAS)  ## run the examples that the README and docs show
	$(BIN)/pytest tests -n 2 --ignore=tests/kernels -k 'readme or docs' $(ARGS)

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'No Python >= 3.11 with venv found: install one, or name it: make PYTHON=/path/to/python3 ...' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade 'pip>=25.1'
	$(INSTALL) --editable . --group dev
	@touch $@

$(WITH_EXTRAS): $(READY) tests/kernels/constraints.txt
	@test -z "$(EXTRAS)" || $(INSTALL) \
		--constraint tests/kernels/constraints.txt --editable '.[$(EXTRAS)]' --group docs || \
		echo 'The extras $(EXTRAS) could not be installed: the tests that need them skip and say so.' >&2
	@test -z "$(WITHOUT_DEPENDENCIES)" || $(INSTALL) \
		--no-deps $(WITHOUT_DEPENDENCIES) || \
		echo '$(WITHOUT_DEPENDENCIES) could not be installed: the tests that need it skip and say so.' >&2
	@touch $@
