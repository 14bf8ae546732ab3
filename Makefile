# The project's commands. `make demo` and `make test` need Python 3.11, make and git; they install the rest into .venv.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test check bench simulated figures lock clean

demo: $(VENV)/ready
	$(BIN)/poise demo --out demo

test: $(VENV)/ready
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

# The baseline is eager PyTorch, which nothing else needs.
bench: $(VENV)/ready
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/page.py

simulated: $(VENV)/ready
	$(BIN)/python benchmarks/simulated_basketball.py

figures: $(VENV)/ready
	$(BIN)/python experiments/write_figures.py

# The pinned versions come from the lock file; the project itself is installed without asking for anything newer.
$(VENV)/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# uv resolves once for every supported Python; the file carries markers, not addresses.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra cheetah --extra sportvu \
		--no-emit-index-url --no-header pyproject.toml requirements-build.in --output-file requirements.lock

clean:
	rm -rf $(VENV) demo
