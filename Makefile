# `make run` and `make test` are all a newcomer needs: each makes the environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test lint format bench reliability real-agents snapshots docs clean

run: $(READY)
	@$(BIN)/agents-view

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(DEV_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $(READY) $@

test: $(DEV_READY)
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m tests.support.configuration_docs --check

format: $(DEV_READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reliability: $(DEV_READY)
	$(BIN)/python -m pytest -m reliability -n 2 $(ARGS)

real-agents: $(DEV_READY)
	$(BIN)/python -m pytest -m real_agent $(ARGS)

bench: $(DEV_READY)
	$(BIN)/python -m benchmarks $(ARGS)

snapshots: $(DEV_READY)
	$(BIN)/python -m pytest tests/test_snapshots.py --snapshot-update $(ARGS)

docs: $(DEV_READY)
	$(BIN)/python -m tests.support.configuration_docs

clean:
	rm -rf $(VENV) build dist *.egg-info
