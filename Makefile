# Everything a newcomer needs. Each target makes its own environment first; nothing but python3, pip, git and make is assumed.

# Another Python in an environment of its own: `make test PYTHON=python3.13 VENV=.venv-3.13`.
PYTHON ?= python3
VENV ?= .venv
BIN := "$(VENV)/bin"
SETUP := "$(PYTHON)" tools/setup_env.py
# Three workers suit two cores: one of them mostly waits for servers (tests/conftest.py). `make test WORKERS=0` runs in one process.
WORKERS ?= 3
# What is passed on: `make test ARGS=tests/architecture`, `make bench NAME=ownership ARGS=--quick`, `make run ARGS="--config my.toml"`.
ARGS ?=
NAME ?= ownership
PIN := "$(VENV)/boot/bin/uv" pip compile -q --universal --generate-hashes --no-header --no-annotate --python-version 3.11
LOCK := $(PIN) pyproject.toml --extra all --no-emit-package argosy

.DEFAULT_GOAL := help
.PHONY: help setup run test fuzz lint format types bench docs lock clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup:  ## the developers' environment in .venv (at once when nothing changed)
	@$(SETUP) dev "$(VENV)"

run:  ## everything in one process, this repository indexed: argosy up .
	@$(SETUP) run "$(VENV)"
	@$(BIN)/argosy up $(or $(ARGS),.)

# Bytecode is kept, whatever the environment says: hundreds of processes are started, and each would compile what it imports.
test: setup  ## all tests, with a real Valkey and real etcds
	@$(BIN)/python tools/etcd.py >/dev/null
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

fuzz: setup  ## the decoders of the content index, fed with noise for FUZZ_SECONDS (60)
	@$(BIN)/python -m tests.fuzz

lint: setup types  ## ruff (rules and format), mypy, and the import contract
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check -q || { echo 'not formatted: run "make format"' >&2; exit 1; }
	@$(BIN)/lint-imports --no-logo

format: setup  ## format the code with ruff
	@$(BIN)/ruff check -q --select I --fix
	@$(BIN)/ruff format -q

types: setup  ## mypy, strict
	@$(BIN)/mypy

bench: setup  ## one benchmark, beside its peers
	@$(BIN)/argosy bench $(NAME) $(ARGS)

docs: setup  ## the generated pages under docs/reference
	@$(BIN)/python tools/docs.py

lock: setup  ## new pins in requirements/, from pyproject.toml and the .in files
	@$(LOCK) -o requirements/run.txt
	@$(LOCK) --group dev -o requirements/dev.txt
	@$(PIN) requirements/peers.in -o requirements/peers.txt
	@$(PIN) requirements/go.in -o requirements/go.txt

clean:  ## back to a fresh clone
	@rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
