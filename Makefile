# Two commands do everything, set-up included: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A file's tests stay in one process, so that what they share is made once.
PYTEST := $(BIN)/pytest --numprocesses 2 --dist loadfile --durations 10
CONSTRAINED := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint fast integrations slow memcheck valgrind bench wheel browser torch-versions clean

demo: $(VENV)/demo.ready
	$(BIN)/stepscope demo

test: lint fast integrations

lint: $(VENV)/dev.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fast: $(VENV)/dev.ready
	$(PYTEST) tests

integrations: $(VENV)/dev.ready browser
	$(PYTEST) integrations_tests -m "not slow"

# What takes minutes: fifty kills, long outages, a thousand forks, a hundred thousand artifacts, PostgreSQL.
slow: $(VENV)/dev.ready memcheck
	$(PYTEST) integrations_tests -m slow

# The measuring tests with all memory overwritten that is given back: what is read of it afterwards is wrong for sure.
memcheck: $(VENV)/dev.ready
	PYTHONMALLOC=malloc MALLOC_PERTURB_=165 $(BIN)/pytest tests/debuggers/measurement/test_differences.py \
	  tests/debuggers/measurement/test_cpu.py tests/debuggers/measurement/kernels/test_spread.py tests/debuggers/gradients/test_updates.py

# The measuring kernel under valgrind: what it reads and writes lies within memory that lives. Minutes.
valgrind: $(VENV)/dev.ready
	$(BIN)/python integrations_tests/support/kernel_memory.py

bench: $(VENV)/dev.ready
	for file in benchmarks/*.py; do $(BIN)/python "$$file" || exit 1; done

wheel: $(VENV)/dev.ready
	$(BIN)/python -m build --wheel --outdir dist .

# The browser tests skip with a reason where it cannot be installed.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -q && apt-get install -y -q --no-install-recommends chromium; } || \
	  echo "no chromium: the browser tests will skip"

$(VENV)/demo.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(CONSTRAINED) --editable '.[demo]'
	touch $@

$(VENV)/dev.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(CONSTRAINED) --editable '.[dev]'
	touch $@

# What is expected of torch where it documents nothing, by the oldest torch that is supported and the newest: installs both.
torch-versions: $(VENV)/dev.ready
	$(BIN)/tox run -e torch-oldest,torch-newest

clean:
	rm -rf $(VENV) .tox build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
