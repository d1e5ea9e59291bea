"""What the integration tests share, some of it over all workers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import shared
from browser import close_browser
from faults import FaultReport
from page_code import FIRST_DAY, run_blocks
from warm_python import WarmPython
from wheels import build_wheel

# What runs record is what the tests record.
os.environ.setdefault("STEPSCOPE_SYSTEM_METRICS", "off")
os.environ.setdefault("STEPSCOPE_ENVIRONMENT", "process")
# So that a failing check of the contract shows the values that it compared.
pytest.register_assert_rewrite("tracker_adapters.testing")

LONGEST = (
    # of make slow
    "test_benchmarks.py", "test_compositions.py", "sinks/test_mlflow_server_postgres.py",
    "faults/test_killed_training.py", "commands/test_run_command.py", "test_compiled_training.py",
    "faults/test_mlflow_server.py", "faults/test_forks.py", "sinks/test_wandb_unknown_sdk.py",
    "stability/test_planted_nan.py", "test_fidelity.py",
    # of make slow and of make integrations
    "sinks/test_mlflow.py", "commands/test_sync.py", "test_remote_runs.py",
    # of make integrations
    "commands/test_demo.py", "commands/test_printed_commands.py", "test_docs_and_examples.py", "test_secrets.py",
    "commands/test_command_line.py", "faults/test_delivery.py",
)  # fmt: skip
"""The files that take longest. They go first: a worker that came to one of them last would be left alone with it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    place = {here / name: number for number, name in enumerate(LONGEST)}
    if gone := [path for path in place if not path.is_file()]:
        raise pytest.UsageError(f"LONGEST names {gone}, which are not there")
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """One browser serves the tests that follow each other and look at a page: its event loop may disturb others."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.get_closest_marker("browser") is None:
            close_browser()


@dataclass(frozen=True)
class Demo:
    """A finished run of ``stepscope demo``: its folder, and what the command printed."""

    folder: Path
    printed: str


@pytest.fixture(scope="session", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    shared.FOLDER = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def demo(warm_python: WarmPython) -> Demo:
    def make(folder: Path) -> None:
        from mlflow_delivery import with_database  # imports MLflow

        with_database({"target": f"sqlite:///{folder / 'mlflow.db'}"})
        done = warm_python.run_stepscope(["demo", "--output", str(folder / "demo")], folder=Path.cwd())
        assert done.returncode == 0, done.stderr
        (folder / "printed").write_text(done.stdout, encoding="utf-8")

    folder = shared.made_once("demo_runs", make)
    return Demo(folder / "demo", (folder / "printed").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """For programs that import torch, where that import is not what is tested."""
    with WarmPython(shared.FOLDER) as python:
        yield python


@pytest.fixture(scope="session")
def fault_report() -> FaultReport:
    """Where tests of faults write their line of the fault matrix."""
    return FaultReport()


@pytest.fixture(scope="session")
def readme_folder(warm_python: WarmPython) -> Path:
    """A working folder in which the Python code of the README and of the quickstart was run from top to bottom."""

    def make(folder: Path) -> None:
        from mlflow_delivery import with_database  # imports MLflow

        with_database({"target": f"sqlite:///{folder / 'runs' / 'mlflow.db'}"})
        for page in FIRST_DAY:
            run_blocks(page, folder, warm_python)

    return shared.made_once("readme", make)


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The wheel of stepscope."""
    return next(shared.made_once("wheel", build_wheel).glob("stepscope-*.whl"))
