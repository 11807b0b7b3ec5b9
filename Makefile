# `make` lists what there is. Everything runs in .venv, which the first target that needs it makes.
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
export PYTHON

.PHONY: help venv demo quick test night fuzz drill pipeline bench papers reference pictures golden mutants wheels lock house lint types clean

help:  ## Lists the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r t d; do printf '%-14s %s\n' "$$t" "$$d"; done

venv: .venv/.installed  ## Makes .venv and installs what the project needs (again when pyproject.toml, requirements/ or .ci/venv changed)

.venv/.installed: pyproject.toml $(wildcard requirements/*.txt) .ci/venv
	@.ci/venv

.venv/.demo: pyproject.toml $(wildcard requirements/*.txt) .ci/venv
	@.ci/venv demo

demo: $(if $(REAL),venv,.venv/.demo)  ## Shows the whole way in a minute, without servers; REAL=1: with a real Kafka and Redis
	@$(if $(REAL),$(BIN)/python tests/servers/broker/with $(BIN)/streamer demo --real,$(BIN)/streamer demo)

quick: venv  ## The tests of two minutes: neither servers nor what is slow
	$(BIN)/pytest -n 3 -m "not servers and not slow and not night"

test: venv  ## The gate, 13 minutes on two cores: all that needs no servers, and every command and fault on real ones once
	$(BIN)/pytest -m "not night" -n 3 --durations=20

night: .venv/cosmic-ray  ## What the gate leaves out: all servers, pages, wheel, benchmarks, drills, new examples, mutants
	@.ci/night

# What fails is printed, and tried first the next time, out of .fuzz/ (which `make clean` leaves alone); it goes into the
# tests as an @example or as a test of its own.
fuzz: venv  ## The property tests with new examples, FUZZ_EXAMPLES=1000 for each: half an hour; what fails stays in .fuzz/
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-1000} $(BIN)/pytest -m "hypothesis and not servers" --hypothesis-profile=night -o timeout=3600 tests/unit tests/laws

drill: venv  ## The long drills, most of an hour: crashes, freezes, outages; rebuilds under load with every model; killed commands
	$(BIN)/pytest -m drill

pipeline: venv  ## The whole way on real parts, with faults: Postgres, MySQL, MariaDB, Debezium, workers, a JDBC sink; Kafka Streams, Flink
	$(BIN)/pytest -m "drill or not drill" tests/servers/pipeline

bench: venv  ## The benchmarks, one after the other
	@grep -l __main__ benchmarks/*.py | xargs -t -n 1 $(BIN)/python

papers: venv  ## The papers' experiments, run again: docs/papers/ (a quarter of an hour)
	$(BIN)/python benchmarks/papers/reproduce.py

reference: venv  ## docs/reference, written from the code: commands, table.yaml, variables, metrics, errors, reasons
	$(BIN)/python -m docs.generate.reference

pictures: venv  ## docs/pictures and README's first table, of real runs; two of the pictures need a browser
	$(BIN)/python -m docs.generate.pictures

mutants: .venv/cosmic-ray  ## Small faults put into recoding, privacy, shards and stores, and how many of them the tests see: some hours
	$(BIN)/python benchmarks/mutants/run.py $(if $(SAMPLE),--sample $(SAMPLE)) $(MODULES)

golden: venv  ## The golden files of tests/golden, written anew by what every command prints now: read their diff
	GOLDEN=write $(BIN)/pytest -n 0 tests/golden

house: venv  ## The size and shape of the house, beside what is allowed; LIST=1: with what was counted; WHY="...": allow this
	@PYTHONPATH=.:tests $(BIN)/python -m house.figures $(if $(LIST),--list) $(if $(WHY),--why "$(WHY)")

# In a folder of its own, behind the project's own libraries.
.venv/cosmic-ray: .venv/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade --no-deps --require-hashes --target $@ -r requirements/mutants.txt
	@touch $@

# The compiler of other systems too, in a folder of its own: it has 410 MB.
.venv/zig: requirements/zig.txt | .venv/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade --no-deps --require-hashes --target $@ -r requirements/zig.txt
	@touch $@

wheels: .venv/zig  ## Wheels with machine code for Linux and macOS, each on x86-64 and arm64, into dist/, checked as far as can be here
	$(BIN)/python .ci/wheels.py

lock: venv  ## Writes requirements/ anew: exact versions with hashes; UPGRADE=1: the newest that pyproject.toml allows
	$(BIN)/python .ci/lock.py $(if $(UPGRADE),--upgrade)

lint: venv  ## Style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv  ## Types
	$(BIN)/mypy

clean:  ## Removes caches and build leftovers; .venv stays
	rm -rf build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find streamer agents tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
