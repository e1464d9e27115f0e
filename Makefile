# Two commands do everything on a clean machine: `make search` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Pins for repeatable runs; `pip install rephaze` itself needs only the ranges in pyproject.toml. Modules become bytecode
# when they are imported, as most of them never are: doing it for all takes as long as the rest of the installation.
INSTALL := install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
PIP := $(BIN)/python -m pip $(INSTALL)

# Images of containers often forbid bytecode: then each of three processes would compile a thousand modules of numba and others.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: search docs test lint unit test-slow test-pythons hooks bench attack attack-mutations soak tampering fuzz clean

# Ends with the chip, the plan, the certificate and the path of the report; each time a new run.
search: $(VENV)/.core
	rm -rf runs/gpt2-xl
	$(BIN)/rephaze search gpt2-xl --out runs/gpt2-xl

# The site in build/site: offline, warnings are errors, the tutorial is run.
docs: $(VENV)/.test
	$(BIN)/python docs/make_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f build/mkdocs.yml

test: lint unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.test
	$(BIN)/pytest -n 2 --dist worksteal -q

# Every test there is, those marked slow too, and longer hunts in those that draw their cases.
test-slow: $(VENV)/.test
	REPHAZE_TEST_LONG=1 $(BIN)/pytest -n 2 --dist worksteal -q -m ''

# Unit tests on every Python rephaze is for, each in an environment of its own; those not at hand are named and left out.
PYTHONS ?= python3.11 python3.12 python3.13
test-pythons:
	@failed=; tested=; for python in $(PYTHONS); do \
	  if ! $$python -c '' 2>/dev/null; then \
	    echo "$$python: not at hand, skipped (say where with: make test-pythons PYTHONS='/path/to/$$python')"; continue; fi; \
	  folder=build/pythons/$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "$$python: unit tests in $$folder"; tested=yes; \
	  { test -x $$folder/bin/python || $$python -m venv $$folder; } && \
	  $$folder/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	    --editable '.[test,extract,dask,parquet,serve,docs]' && \
	  $$folder/bin/pytest tests/unit -q -n 2 --dist worksteal || failed="$$failed $$python"; \
	done; test -n "$$tested" || { echo "no Python to test on"; exit 1; }; \
	test -z "$$failed" || { echo "failed on:$$failed"; exit 1; }

# Checks before every commit (.pre-commit-config.yaml), if pre-commit is there: in .venv or on the path.
hooks: $(VENV)/.test
	@tool=$$(command -v $(BIN)/pre-commit || command -v pre-commit) || \
	  { echo "pre-commit is not installed; get it with: $(BIN)/pip install pre-commit"; exit 1; }; $$tool install

bench: $(VENV)/.test
	$(BIN)/pytest benchmarks -q --benchmark-columns=min,median,max,rounds

# Tries to refute the proofs with fresh seeds; the last lines go to attack-summary.txt.
ATTACK_MINUTES ?= 60
attack: $(VENV)/.test
	$(BIN)/python -m tests.attack --minutes $(ATTACK_MINUTES)

# Puts known defects back, one at a time: the attack with fixed seeds must find each.
attack-mutations: $(VENV)/.test
	$(BIN)/pytest tests/attack/test_mutations.py -q -m ''

# Searches killed, stopped, out of disk, with a second writer: all must end as undisturbed ones. Last lines: soak-summary.txt.
SOAK_MINUTES ?= 60
soak: $(VENV)/.test
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES)

# Tampers recorded runs in every way there is, and writes what told it into docs/verify.md.
tampering: $(VENV)/.test
	$(BIN)/python -m tests.tampering

# Broken input of every format to every command, in one process, with fresh seeds.
FUZZ_MINUTES ?= 60
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES)

# A pip at hand fetches one into the environment in less time than Python unpacks its own, which is older and slower.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rephaze needs Python 3.11 or newer; say which one with: make PYTHON=python3.11"; exit 1; }
	@{ $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python $(INSTALL) pip; } >/dev/null 2>&1 || \
	  $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing rephaze into $(VENV) (half a minute the first time)"
	$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing rephaze and its test tools into $(VENV) (a few minutes the first time)"
	$(PIP) --editable '.[test,extract,dask,parquet,serve,docs]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
