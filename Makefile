# The project's commands. `make demo` and `make test` need Python 3.11 to 3.13, make and git; they install the rest into
# .venv. `make demo PYTHON=python3.12` chooses a Python.
usable = $(shell $(1) -c 'import sys; print(int((3, 11) <= sys.version_info < (3, 14)))' 2>/dev/null)
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(if $(filter 1,$(call usable,$(name))),$(name))))
VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
READY := $(VENV)/ready-$(or $(VERSION),none)
WORKERS ?= 2

.PHONY: demo test check docs bench simulated results lock clean

demo: $(READY)
	$(BIN)/poise demo --out demo

test: $(READY)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

docs: $(READY)
	$(BIN)/zensical build --strict

# The baseline is eager PyTorch, which nothing else needs.
bench: $(READY)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/page.py

simulated: $(READY)
	$(BIN)/python benchmarks/simulated_basketball.py

# Fills the numbers in README and docs from results/.
results: $(READY)
	$(BIN)/python experiments/write_results.py

# The pinned versions come from the lock file; the project itself is installed without asking for anything newer. Another
# PYTHON makes another .venv.
$(READY): requirements.lock pyproject.toml
	@test "$(call usable,$(PYTHON))" = 1 || { echo "Poise needs Python 3.11, 3.12 or 3.13, and PYTHON='$(PYTHON)' is" \
		"none of them here; install one, or name it: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# uv resolves once for every supported Python; the file carries markers, not addresses.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra cheetah --extra sportvu \
		--no-emit-index-url --no-header pyproject.toml requirements-build.in --output-file requirements.lock

clean:
	rm -rf $(VENV) demo site
