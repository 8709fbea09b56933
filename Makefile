# The two commands of the README are `make demo` and `make test`; both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.peers
# What Python compiles is kept, whatever the machine's own setting: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test quick compiled test-compiled bench mutants soak attack lint docs graph clean setup

help:
	@echo "make demo    set up, then show the store and its pipeline at work, in under three minutes"
	@echo "make test    set up, then run every test, the type checker and the linter"
	@echo "make quick   set up, then the quick tests and the checkers, for the inner loop (see CONTRIBUTING.md)"
	@echo "make compiled       build the compiled wheel and install it into .venv-compiled; make test-compiled: then run tests on it"
	@echo "make bench   set up, then measure Lowtide, beside its peers and by itself (an hour)"
	@echo "make mutants set up, then break the engine in every known way and show which tests notice"
	@echo "make soak    set up, then everything at once for MINUTES=5, with random kills, and KILLS=200 of an archiver, and of processes that share a store; SEED=n repeats one"
	@echo "make attack  set up, then every crash state, many random schedules and inputs, not a sample; takes hours"
	@echo "make docs    set up, then build the site of docs/ into site/"
	@echo "make graph   set up, then draw docs/layers.svg, the imports between the packages"
	@echo "make clean   remove what the above created"

setup: $(STAMP)

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
INDEX = $(or $(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config get global.index-url 2> /dev/null))
UV = $(if $(INDEX),UV_DEFAULT_INDEX="$(INDEX)") $(BIN)/python -m uv pip install --quiet --system-certs --python $(BIN)/python -c constraints.txt
COMPILED := .venv-compiled
IN_COMPILED := $(COMPILED)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
WORK := -r requirements/test.txt -r requirements/demo.txt -r requirements/docs.txt

# uv installs what pip would, in a fifth of the time: pip judges every file of every release that an index lists. It takes
# the index that pip is configured for. Where uv cannot install something, pip does, in the last line. Spark, which is a
# source package, comes from pip at once: pip keeps the wheel that it builds of it. Neither compiles: Python compiles a
# module when it is first imported, and keeps that; most are never imported.
$(STAMP): pyproject.toml constraints.txt requirements/test.txt requirements/demo.txt requirements/docs.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Lowtide needs Python 3.11 or later: set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV) (half a minute, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@{ $(PIP) --no-deps pyspark py4j && $(BIN)/python -m tests.support.spark_start || true; } & spark=$$!; \
	  $(PIP) uv && $(UV) $(WORK) pyarrow pandas deltalake duckdb polars jsonschema rdflib typer prompt_toolkit || true; wait $$spark
	@$(UV) -e '.[all]' $(WORK) || $(PIP) -e '.[all]' $(WORK)
	@touch $@

# What only the comparison needs. A peer that cannot be installed here is left out of it.
$(PEERS): $(STAMP) requirements/peers.txt
	@echo "Installing the peers ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements/peers.txt \
	  || for peer in $$(sed 's/#.*//; s/>=.*//' requirements/peers.txt); do \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $$peer || echo "without $$peer"; \
	  done
	@touch $@

demo: setup
	@$(BIN)/python -m demo

# Three processes on two cores: many tests wait for Spark, a disk or another process.
test: setup
	@command -v java > /dev/null || test -n "$$JAVA_HOME" || echo "No Java here: the tests of Spark will be skipped. They need Java 17, 21 or 25 (Debian, Ubuntu: apt install openjdk-17-jre-headless)."
	@$(BIN)/python -m pytest -n 3

quick: setup
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy & checked=$$!; $(BIN)/python -m pytest -q -n 2 --quick; tested=$$?; wait $$checked && exit $$tested

# The same source, compiled by mypyc, in an environment of its own: plain Python is the reference.
compiled: $(COMPILED)/.installed

$(COMPILED)/.installed: pyproject.toml hatch_compile.py constraints.txt requirements/test.txt $(shell find src/lowtide -name '*.py')
	@echo "Setting up $(COMPILED) (three minutes) ..."
	@$(PYTHON) -m venv $(COMPILED)
	@LOWTIDE_COMPILE=1 $(IN_COMPILED) -r requirements/test.txt '.[all]'
	@$(COMPILED)/bin/lowtide --version
	@touch $@

# Of the promises, what shows without looking inside; tests/compiled lists what cannot apply to compiled code, and why.
test-compiled: compiled
	@$(COMPILED)/bin/python -m pytest -n 3 tests/compiled tests/isolation tests/crash tests/garbage tests/documents tests/property

mutants: setup
	@$(BIN)/python -m tests.mutants

bench: $(PEERS)
	@$(BIN)/python -m bench

soak: setup
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.soak.pipeline --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.soak.writers --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))

attack: setup
	@LOWTIDE_ATTACK=full LOWTIDE_SCHEDULES=20000 LOWTIDE_FUZZ=2000 LOWTIDE_PROPERTIES=20 LOWTIDE_MODEL_EXAMPLES=1000 \
	  $(BIN)/python -m pytest -n 2 --timeout 7200 tests/crash tests/schedules tests/isolation tests/fuzz tests/property tests/documents tests/quads tests/unit tests/spark

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: setup
	@$(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

graph: setup
	@$(BIN)/python -m tests.project.graph

clean:
	rm -rf $(VENV) $(COMPILED) .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-output site
