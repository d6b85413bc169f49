# Thin over plain commands: each target is what a person would type in the virtual environment.
PYTHON ?= python3
EXTRAS ?= dev,bench
ARGS ?=
EXAMPLES ?= 2000
SEED ?= $(shell date +%s)

BIN := .venv/bin
comma := ,
INSTALLED := .venv/.installed-$(subst $(comma),-,$(EXTRAS))
CLASSES := .venv/spark-classes.jsa

KILLS ?= 200
COMMITS ?= 10000

.PHONY: setup test check format bench bench-streams demo fuzz crash soak clean

setup: $(INSTALLED)

# uv takes a third of the time of pip, which stands in where uv is not to be had or finds no index.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	($(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[$(EXTRAS)]') \
		|| $(PIP) --editable '.[$(EXTRAS)]'
	touch $@

# Tests start a dozen JVMs; with this archive of Spark's classes each takes half the time.
$(CLASSES): $(INSTALLED)
	$(BIN)/python -m tests.class_archive

# Two workers, each with a Spark of its own; the tests of a file stay together and share their fixtures,
# and the files begin in the order of tests/conftest.py.
test: setup $(CLASSES)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

bench-streams: setup
	$(BIN)/python -m benchmarks.streaming $(ARGS)

demo: setup
	$(BIN)/spark-incr demo $(ARGS)

fuzz: setup
	@echo "seed $(SEED), $(EXAMPLES) examples; again with: make fuzz SEED=$(SEED) EXAMPLES=$(EXAMPLES)"
	$(BIN)/python -m tests.fuzz --examples $(EXAMPLES) --seed $(SEED) $(ARGS)

crash: setup
	$(BIN)/python -m tests.reliability.crash --kills $(KILLS) --seed $(SEED)

soak: setup
	$(BIN)/python -m tests.reliability.soak --commits $(COMMITS)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
