# Everything runs in .venv, which is made from the pinned lock file on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := .venv-peers
TORCH := $(shell grep '^torch==' requirements.lock)

.PHONY: help train train-paper test test-all check campaign bench figures bench-peers problems docs notebooks format lock clean

help: ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

# torch goes first and alone: a pinned torch keeps pip from looking for another build of it
$(INSTALLED): requirements.lock pyproject.toml setup.py $(wildcard src/revalued/native/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

train: $(INSTALLED) ## A first run: ten lean critics on walker-walk
	$(BIN)/revalued train walker-walk --algo lean --env-steps 120000

train-paper: $(INSTALLED) ## The paper's protocol on the same task (10 critics, 500,000 interactions)
	$(BIN)/revalued train walker-walk

test: $(INSTALLED) ## All quick tests
	$(BIN)/python -m pytest

test-all: $(INSTALLED) ## Also the slow tests
	$(BIN)/python -m pytest -m ""

check: $(INSTALLED) ## Style, types and quick tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

campaign: $(INSTALLED) ## Kills, damaged files, wrong flags, bad environments: 10 minutes of attempts to break it
	$(BIN)/python -m campaign

bench: $(INSTALLED) ## Measure everything (leave the machine alone meanwhile)
	$(BIN)/python -m benchmarks --save
	$(BIN)/python -m benchmarks.plot

figures: $(INSTALLED) ## Write the report, every picture and every table of results on a page, from the saved results
	$(BIN)/revalued report results -o results/report.html --into README.md docs/index.md docs/results.md docs/learnt.md \
		$(shell grep -l '<!-- results:' docs/algorithms/*.md)
	$(BIN)/python -m benchmarks.plot
	$(BIN)/python -m benchmarks.problems
	$(BIN)/python -m benchmarks.recipe

bench-peers: $(PEERS)/.installed ## Install the libraries that `make bench` and `revalued compare` compare with

$(PEERS)/.installed: benchmarks/peers.lock
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet $(shell grep '^torch==' benchmarks/peers.lock)
	$(PEERS)/bin/python -m pip install --quiet --no-deps -r benchmarks/peers.lock
	$(PEERS)/bin/python -c "import pathlib, sysconfig; pathlib.Path(sysconfig.get_path('purelib'), 'revalued.pth').write_text('$(CURDIR)/src')"
	@touch $@

problems: $(INSTALLED) ## Install the packages of the problems (docs/problems.md) beside the others
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-problems.lock

docs: $(INSTALLED) ## Build the documentation site in site/
	$(BIN)/mkdocs build --strict

notebooks: $(INSTALLED) ## Write the notebooks from their Markdown pages
	$(BIN)/python docs/notebooks/make.py

format: $(INSTALLED) ## Mend the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## Write requirements.lock from what is installed in .venv
	$(BIN)/python -m pip freeze --all --exclude-editable | sed 's/+cpu//' | grep -vE '^(pip|wheel)==' | grep -vxFf requirements-problems.lock > requirements.lock

clean: ## Remove .venv and caches (never the runs)
	rm -rf $(VENV) src/revalued/native/*.so .mypy_cache .ruff_cache .pytest_cache build dist
