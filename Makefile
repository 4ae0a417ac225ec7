# What a developer runs.  `make` alone lists it.

SHELL := bash
.DEFAULT_GOAL := help

BIN := .venv/bin
# Set in many containers; every process that tests start would compile Kue again.
unexport PYTHONDONTWRITEBYTECODE
# Passed on to the program a target runs: make test ARGS="-k claim"
ARGS ?=
# Test processes at once.
WORKERS ?= 6
# How often `make steady` runs them.
TIMES ?= 30
# How many of the model's examples `make explore` tries on each engine.
EXAMPLES ?= 800
# What `make bench-against` compares with.
REV ?= HEAD~1
# What `make chaos` does.
ENGINE ?= redis
SECONDS ?= 60
SEED ?= 1
SEEDS ?= $(SEED)
# Where `make redis` listens.
PORT ?= 6379

.PHONY: help setup demo test test-clients steady explore test-lowest test-lowest-part compiled-tests check lint types docs bench bench-peers bench-http bench-bounds bench-bus bench-against chaos chaos-schedules chaos-flows mutants redis clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

setup: .venv/dev.stamp have-redis have-nginx have-browser ## make .venv with the pinned tools and this package; get redis-server, nginx and a browser
	@echo "ready: make test, make demo, $(BIN)/kue --help"

demo: .venv/run.stamp ## see Kue work, in a browser; needs no Redis
	$(BIN)/kue demo $(ARGS)

test: setup ## everything: lint, types, docs, then all tests (ARGS="-k claim", WORKERS=2)
	$(MAKE) --jobs --output-sync --no-print-directory lint types docs compiled-tests
	$(BIN)/python -m pytest -p tools.no_skips -n $(WORKERS) --dist worksteal $(ARGS)
	$(if $(ARGS),,$(MAKE) test-lowest-part)

steady: setup ## run the tests that start processes 30 times, half of them under load (TIMES=5 ARGS=tests)
	$(BIN)/python tools/steady.py --times $(TIMES) -n $(WORKERS) --dist worksteal $(or $(ARGS),-m processes)

explore: setup ## run the model, property tests and REST API fuzzer with new random seeds (EXAMPLES=800)
	KUE_EXPLORE=1 KUE_MODEL_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n $(WORKERS) \
		--dist worksteal $(or $(ARGS),$(shell grep -rlE "hypothesis|schemathesis" tests --include="test_*.py"))

test-lowest: setup .venv-lowest/stamp ## all tests, with the lowest versions of packages that pyproject.toml allows
	.venv-lowest/bin/python -m pytest -p tools.no_skips -n $(WORKERS) --ignore tests/http/test_schema.py $(ARGS)

# The part of it that `make test` runs: both stores, workers, events, the server.
LOWEST_PART := $(addprefix tests/, store/test_add.py store/test_cycle.py store/test_watch.py \
	bus/test_channels.py faults/test_moving_slots.py worker/test_worker.py \
	cli/test_help.py http/test_serve.py http/test_websocket.py)
test-lowest-part: have-redis .venv-lowest/stamp
	.venv-lowest/bin/python -m pytest -p tools.no_skips -n $(WORKERS) -q $(LOWEST_PART)

# Once, or each of the test processes would compile them all.
compiled-tests: .venv/dev.stamp
	@mkdir -p build
	@$(BIN)/python -m pytest --collect-only -q > build/tests.txt || { cat build/tests.txt; exit 1; }

test-clients: setup ## generate clients from the OpenAPI document, and use them on a server
	tools/clients/setup.sh
	$(BIN)/python tools/clients/run.py

check: ## exactly what CI runs
	CI=true .ci/run

lint: .venv/dev.stamp ## style, format, and which layer may import which
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python tools/make_sync.py --check
	$(BIN)/python tools/make_key_tables.py --check
	$(BIN)/python tools/plain_words.py

types: .venv/dev.stamp ## mypy --strict
	$(BIN)/mypy

docs: .venv/dev.stamp ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup ## measure Kue beside bare scripts and Huey: speed, and Redis memory
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: setup ## measure Kue beside other queues, latency too (ARGS="--only kue,bullmq")
	$(BIN)/python -m benchmarks.peers run --write-docs $(ARGS)

bench-http: setup ## measure the dashboard: pages of a full store, and many event streams
	$(BIN)/python -m benchmarks.pages $(ARGS)
	$(BIN)/python -m benchmarks.streams

bench-bounds: setup ## measure the longest script of Redis with very much of everything (ARGS="--quick --only types")
	$(BIN)/python -m benchmarks.bounds $(ARGS)

bench-bus: setup ## measure the event bus: alone, between processes beside bare redis-py, and when a node dies
	$(BIN)/python -m benchmarks.bus $(ARGS)

bench-against: setup ## measure what a job costs now, and did at an earlier commit (REV=HEAD~1 ARGS="--only redis")
	$(BIN)/python -m benchmarks.against $(REV) $(ARGS)

chaos: setup ## faults of all kinds, then an account (ENGINE=redis|sqlite|sentinel|cluster|lossy SECONDS=60 SEED=1 or SEEDS=1..5)
	@$(BIN)/python -m chaos --engine $(ENGINE) --seconds $(SECONDS) --seeds $(SEEDS) $(ARGS)

chaos-schedules: setup ## kill workers and Redis while 10,000 schedules fire; each tick must fire once (ARGS="--engine sqlite --seconds 60")
	@$(BIN)/python -m chaos.schedules $(ARGS)

chaos-flows: setup ## faults of all kinds while a random graph of 1,000 jobs runs; every edge must hold (ENGINE=redis|shards|sqlite|cluster SECONDS=60 SEED=1 or SEEDS=1..5 ARGS="--nodes 200")
	@$(BIN)/python -m chaos.flows --engine $(ENGINE) --seconds $(SECONDS) --seeds $(SEEDS) $(ARGS)

mutants: setup ## break the source on purpose and see that tests notice
	$(BIN)/python tools/mutants.py $(ARGS)

redis: have-redis ## a Redis to play with, in the foreground (PORT=6379)
	redis-server --port $(PORT) --save "" --appendonly no --maxmemory-policy noeviction

clean: ## remove what was built; .venv stays
	rm -rf build dist htmlcov site .coverage .coverage.* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find src tests tools benchmarks chaos -name __pycache__ -prune -exec rm -rf {} +

.PHONY: have-redis have-nginx have-browser
have-redis:
	@tools/have-redis.sh

have-nginx:
	@tools/have-nginx.sh

have-browser: .venv/dev.stamp
	@tools/have-browser.sh

# The stamps make the second run quick, and set up anew when a requirement changed.
# dev.txt contains run.txt.
.venv/dev.stamp: requirements/dev.txt pyproject.toml tools/venv.sh
	tools/venv.sh requirements/dev.txt
	touch .venv/run.stamp $@

.venv/run.stamp: requirements/run.txt pyproject.toml tools/venv.sh
	tools/venv.sh requirements/run.txt
	touch $@

.venv-lowest/stamp: .venv/dev.stamp tools/lowest.sh tools/lowest.py
	tools/lowest.sh
	touch $@
