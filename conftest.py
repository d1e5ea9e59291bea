"""The environment of all tests and of the processes that they start."""

import atexit
import gc
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Beside other processes of tests one that takes every core waits for them, and they for it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The tests share the processors with each other: at the lowest priority a delivery that a test waits for would starve.
os.environ.setdefault("STEPSCOPE_PRIORITY", "same")

# A job in the background begins with Ctrl-C ignored, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast a machine is decides no test, nor does chance: what a test draws depends on the test alone. With
# --hypothesis-profile=default it draws anew each time, to search for more. make test draws a quarter of what make slow
# draws.
settings.register_profile("thorough", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("quick")
# Else Hypothesis parses the sources of all that is imported, which another test may have imported, and draws of their
# numbers and words, too.
providers.is_local_module_file = lambda path: False


LEFT_OUT = {"slow", "framework"}
"""The marks of tests that ``make slow`` runs alone. Each stands in the file whose tests it marks."""
DRAWN = "hypothesis"
"""The mark that Hypothesis's plugin gives to what it draws for: ``make slow`` runs these again, with more examples."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a test asks ``config`` for."""
    every_seed = "train all cases of the zoo with five seeds, not a sixteenth of them with one"
    parser.addoption("--every-seed", action="store_true", help=every_seed)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m "slow or framework or hypothesis"``, a file that names none of them is not imported.

    With ``-m "not slow"``, a file whose ``pytestmark`` is slow is not, either.
    """
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    asked = set(config.option.markexpr.split(" or "))
    if asked <= {*LEFT_OUT, DRAWN}:
        return not asked & _named_marks(collection_path) or None
    left_out = {part.removeprefix("not ") for part in config.option.markexpr.split(" and ") if part.startswith("not ")}
    return bool(left_out & _marks_of_all(collection_path)) or None


def _named_marks(path: Path) -> set[str]:
    """The marks in a file's text, and that of its import of Hypothesis."""
    text = path.read_text(encoding="utf-8")
    return {*re.findall(r"\bmark\.(\w+)", text), *re.findall(rf"^from ({DRAWN})\b", text, re.MULTILINE)}


def _marks_of_all(path: Path) -> set[str]:
    """The marks that a file's text gives to all of its tests."""
    found = re.search(r"^pytestmark = (\[[^]]*\]|.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"\bmark\.(\w+)", found[1])) if found else set()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """A full collection takes a second with torch and all tests in memory: none of that ever becomes garbage.

    What packages keep that are imported later does not, either, so that what is left is looked at more rarely.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(5_000, 10, 50)


@pytest.fixture(scope="module", autouse=True)
def _what_a_file_leaves_is_no_garbage() -> Iterator[None]:
    """Tests that collect garbage, or look through all objects, find those of their own file alone.

    What a file leaves is mostly what packages keep that it imported first.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    """Every other worker begins at the end: half of the test files have been compiled by another one when it comes."""
    report = yield
    if isinstance(collector, pytest.Directory) and int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 2:
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives all workers the same order again, and finds marks that come from elsewhere."""
    marked = {(item.path, mark.name) for item in items for mark in item.iter_markers() if mark.name in LEFT_OUT}
    for path, mark in marked:
        if mark not in _named_marks(path):
            raise pytest.UsageError(f"{path}: tests are marked {mark}, but the file does not name mark.{mark}")
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.path)


_exit_status: int | None = None


def pytest_sessionfinish(exitstatus: int) -> None:
    """Keeps what the process ends with."""
    global _exit_status
    _exit_status = int(exitstatus)


def _leave() -> None:
    """Ends the process without taking apart torch and all tests, which takes seconds: all has been reported."""
    if _exit_status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_exit_status)


atexit.register(_leave)  # before those of the tests and their packages, so that it is called after them
