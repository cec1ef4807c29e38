# Everything a person or a machine does with this project starts here. `make help` lists it.
# The targets make their own .venv; all they need is Python 3.11 or newer, with pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PRODUCT := session_core frontends examples
CODE := $(PRODUCT) tests bench

# flake8-async reads no file of settings, so they stand here.
# ASYNC124: what a protocol declares async stays async, even where there is nothing to await.
# ASYNC9: its own authors leave these out; they ask for a checkpoint in every single function.
# The last list: functions that report when they are ready, so `nursery.start` is the way to start them.
FLAKE8_ASYNC := flake8-async --disable ASYNC124,ASYNC9 --startable-in-context-manager \
    run,serve,_keep,serve_unix,run_program,_run_launched,_run_peer,_hold_open

# Hundreds of tests start Python: without bytecode on disk, each of them would compile the whole product again.
unexport PYTHONDONTWRITEBYTECODE

# pyright comes inside its wheel; this keeps it from asking the network for a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# A venv without pip of its own (some systems ship Python that way) is served by the system's pip.
PIP = $$(if $(BIN)/python -c 'import pip' 2>/dev/null; then echo "$(BIN)/python -m pip"; \
         else echo "$(PYTHON) -m pip --python $(BIN)/python"; fi)
INSTALL = $(PIP) install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# Tests wait for programs, disks and clocks too, so there is one worker more than there are processors. Each further one
# would cost more than it gains: it collects all tests once again.
WORKERS = $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')

# Tests of the sandbox, of searching and of the terminal need these; without them they are skipped, and say so loudly.
PACKAGES := bubblewrap ripgrep tmux
PROGRAMS = if command -v bwrap >/dev/null && command -v rg >/dev/null && command -v tmux >/dev/null; then :; \
    elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
        echo "Installing $(PACKAGES) by apt ..."; \
        { apt-get install -y -qq $(PACKAGES) >/dev/null 2>&1 || \
          { apt-get update -qq >/dev/null 2>&1; apt-get install -y -qq $(PACKAGES) >/dev/null 2>&1; }; } || \
          echo "apt could not install them: tests that need them will be skipped."; \
    else echo "Please install the packages $(PACKAGES): tests that need them are skipped."; fi

# Without this, all workers of the first test run would compile the same modules at the same time. Tests are compiled by
# pytest, which puts more into their asserts than Python does.
COMPILE = $(BIN)/python -m compileall -q -j 0 $(wildcard $(PRODUCT)); \
    $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || :

.DEFAULT_GOAL := help
.PHONY: run test quick-tests test-all test-places bench lint types format schema clean help checks ruff lint-async lint-async-all mypy mypy-product pyright

run: $(VENV)/.runtime  ## open the terminal, offline if no model is set up; where there is no terminal, a guided tour
	@if [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && [ "$${TERM:-dumb}" != dumb ]; then $(BIN)/session-core; \
	 else $(BIN)/session-core demo; fi

test: $(VENV)/.dev  ## lint, types and all quick tests: what must pass before a change goes in
	@$(MAKE) --no-print-directory --jobs 2 quick-tests ruff mypy-product

quick-tests: $(VENV)/.dev
	$(BIN)/python -m pytest -p no:anyio -p no:cov -n $(WORKERS) --dist worksteal -m "not slow"

test-all: checks lint-async-all  ## the same with slow tests and many more random examples
	@$(INSTALL) '.[dev,fuzz]'
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n auto -o faulthandler_timeout=3600

bench: $(VENV)/.dev  ## measure speed
	$(BIN)/python -m bench

lint: $(VENV)/.dev ruff lint-async  ## style and bug patterns

ruff: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet

# flake8-async takes a second for two files, so it looks at those that can hold anything for it to find; it is part of
# `make lint` and of the long run, which shows it the tests too.
lint-async: $(VENV)/.dev
	grep -rlE --include='*.py' 'async |trio' $(wildcard $(PRODUCT)) | xargs -P 2 -n 30 $(BIN)/$(FLAKE8_ASYNC)

lint-async-all: $(VENV)/.dev
	grep -rlE --include='*.py' 'async |trio' $(wildcard $(CODE)) | xargs -P 2 -n 30 $(BIN)/$(FLAKE8_ASYNC)

types: $(VENV)/.dev mypy pyright  ## static types, by two checkers

mypy: $(VENV)/.dev
	$(BIN)/mypy

# The types of the tests take twice as long as those of the product, and running the tests finds most of what is wrong
# with them: `make types` and the long run check all.
mypy-product: $(VENV)/.dev
	$(BIN)/mypy session_core frontends

pyright: $(VENV)/.dev
	$(BIN)/pyright --level error

# Slow: each place gets a fresh copy of the checkout and a fresh install.
test-places: $(VENV)/.dev  ## make run and make test as an ordinary user, as in a plain container, and more
	$(BIN)/python -m tests.places

# All checks that run nothing, side by side.
checks: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target ruff mypy pyright lint-async

format: $(VENV)/.dev  ## rewrite the code in the common style
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

schema: $(VENV)/.dev  ## write the JSON schema and the OpenAPI document
	$(BIN)/python -m session_core.wire.schema
	$(BIN)/python -m frontends.server.http.openapi

clean:  ## remove everything that can be made again
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(wildcard $(CODE)) -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name what; do \
	    printf '  make %-11s %s\n' "$$name" "$$what"; done

# .runtime: the program can run. .dev: its checks can run too. Both are made again when the versions change.
$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing session-core into $(VENV) ..."
	@$(INSTALL) .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing session-core and its checks into $(VENV) ..."
	@$(INSTALL) '.[dev]'
	@$(PROGRAMS)
	@$(COMPILE)
	@touch $(VENV)/.runtime $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "session-core needs Python 3.11 or newer, and '$(PYTHON)' is older or missing." \
	         "Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	 else $(PYTHON) -m venv --without-pip $(VENV); fi
