# Two commands do everything on a fresh machine: `make demo` runs the main job, `make test` passes the tests.
# Each sets up .venv first; a second run does not install again.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check bench figure format clean

demo: $(READY)
	$(BIN)/python examples/dispersion.py

test: $(READY)
	$(BIN)/pytest -n 2

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/attention.py

figure: $(READY)
	$(BIN)/python examples/dispersion.py docs/figures/dispersion.png

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build dist out .mypy_cache .ruff_cache .hypothesis
