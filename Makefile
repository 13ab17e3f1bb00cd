# Both `make demo` and `make test` set everything up by themselves, in .venv; a second run starts at once.

PYTHON ?= python3
BIN := .venv/bin
PARALLEL := -n auto --maxprocesses 4 --dist loadfile

.PHONY: demo test test-all lint bench clean help

help:            ## what can be made
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

demo: .venv/ready        ## set up, then train, score and report two models on the embedded corpus: about five minutes
	@$(BIN)/evenglot demo --out demo

test: lint       ## set up, then lint and all fast tests
	$(BIN)/pytest $(PARALLEL)

test-all: lint   ## the same with the slow tests
	$(BIN)/pytest $(PARALLEL) -m "slow or not slow"

lint: .venv/ready        ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready       ## benchmarks; the tables go to benchmarks/results/
	$(BIN)/python -m benchmarks.best_response
	$(BIN)/python -m benchmarks.pack
	$(BIN)/python -m benchmarks.prepare
	$(BIN)/python -m benchmarks.loss_memory
	$(BIN)/python -m benchmarks.balance_overhead
	$(BIN)/python -m benchmarks.threads

clean:           ## forget the environment and all caches
	rm -rf .venv demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) scripts/setup .venv
	@touch $@
