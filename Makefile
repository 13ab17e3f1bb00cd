# Every target sets up what it needs, once: `docs` in .venv-docs, which has no torch, all others in .venv.

PYTHON ?= python3
BIN := .venv/bin
PARALLEL := -n auto --maxprocesses 4 --dist loadfile

.PHONY: lock demo test test-all lint docs bench bench-peers torture clean help

help:            ## what can be made
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

demo: .venv/ready        ## set up, then train, score and report three models on the embedded corpus: about five minutes
	@$(BIN)/evenglot demo --out demo

test: lint       ## set up, then lint and all fast tests
	$(BIN)/pytest $(PARALLEL)

test-all: lint   ## the same with the slow tests
	$(BIN)/pytest $(PARALLEL) -m "slow or not slow"

lint: .venv/ready        ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Not --quiet: that silences warnings before --strict counts them.
docs: .venv-docs/ready   ## set up, then build the documentation site, site/index.html
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

bench: .venv/ready       ## benchmarks; the tables go to benchmarks/results/
	$(BIN)/python -m benchmarks.best_response
	$(BIN)/python -m benchmarks.pack
	$(BIN)/python -m benchmarks.drawing
	$(BIN)/python -m benchmarks.prepare
	$(BIN)/python -m benchmarks.loss_memory
	$(BIN)/python -m benchmarks.finetuning_memory
	$(BIN)/python -m benchmarks.finetuning
	$(BIN)/python -m benchmarks.balance_overhead
	$(BIN)/python -m benchmarks.threads
	$(BIN)/python -m benchmarks.guard
	$(BIN)/python -m benchmarks.scaling

bench-peers: .venv/ready ## training speed beside other toolkits; e.g. make bench-peers ARGS="--size tiny mini --repeats 5"
	$(BIN)/python -m benchmarks.peers $(ARGS)

torture: .venv/ready     ## attack files and states, then serve; the figures go to docs/reliability.md
	$(BIN)/python -m torture $(ARGS)
	$(BIN)/python -m torture.readers
	$(BIN)/python -m torture.load

lock: .venv/ready        ## requirements.lock with hashes, and docs/licences.md, from the packages in .venv
	$(BIN)/python scripts/lock

clean:           ## forget the environment and all caches
	rm -rf .venv .venv-docs .bench site demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) scripts/setup .venv
	@touch $@

.venv-docs/ready: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) scripts/setup .venv-docs docs
	@touch $@
