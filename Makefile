# Every target starts from a fresh clone: Python >= 3.11, make and a package registry are enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Two test processes with one thread each are faster than one process with two threads.
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help venv venv-all demo test test-long test-oldest quick plain base advisories lint format bench docs clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(VENV)/.app: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e ".[app,fast]"
	@touch $@

$(VENV)/.all: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e ".[app,fast,timm,onnx,ray,hf,lightning,dev]"
	@touch $@ $(VENV)/.app

venv: $(VENV)/.app ## .venv with the command-line tool
venv-all: $(VENV)/.all ## .venv with every extra and the development tools

demo: $(VENV)/.app ## the main job on embedded data: a table and a report
	$(BIN)/edgemask demo

test: $(VENV)/.all ## all tests but the longest
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long"

test-long: $(VENV)/.all ## comparisons of trainings, and the promises of docs/guarantees.md with many more cases; up to an hour
	failed=0; $(BIN)/python -m pytest -n $(WORKERS) --durations=10 -m long || failed=1; \
	EDGEMASK_LONG=1 $(BIN)/python -m pytest -n $(WORKERS) --durations=10 -m "not long" \
		tests/guarantees tests/engine/test_kill_and_resume.py || failed=1; exit $$failed

test-oldest: ## the tests with the lower bounds of pyproject.toml, in .venv-oldest; gigabytes
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip --quiet install -c constraints-oldest.txt -e ".[app,fast]" pytest pytest-xdist hypothesis
	.venv-oldest/bin/python -m pytest -n $(WORKERS) -m "not slow and not long and not browser" tests/noise tests/losses tests/heads tests/engine tests/report tests/cli tests/guarantees

quick: $(VENV)/.all ## the tests that take seconds
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

plain: $(VENV)/.all ## the tests of the heads without the native path
	EDGEMASK_NATIVE=0 $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" tests/heads \
		--ignore tests/heads/test_heads_native.py --ignore tests/heads/test_heads_compile.py

base: $(VENV)/.all ## sdist and wheel, installed in .venv-base with torch and numpy alone
	rm -rf dist .venv-base
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv .venv-base
	.venv-base/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt dist/*.whl
	cd tests/guarantees && ../../.venv-base/bin/python installed.py

advisories: $(VENV)/.all ## known advisories of the installed packages, asked of PyPI
	$(BIN)/python tests/guarantees/advisories.py

lint: $(VENV)/.all ## style, types and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.all ## rewrite the code in the project's style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.all ## performance, as ratios measured side by side
	for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

docs: $(VENV)/.all ## write the generated tables of docs/ anew, and the site to build/site
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/build.py

clean: ## remove what the other targets made
	rm -rf $(VENV) .venv-base .venv-oldest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
