"""Trainings of frameworks here: on one thread, and delivered to no tracker, because the tests read the runs' stores."""

from pathlib import Path

import pytest
import torch

FRAMEWORKS = frozenset({"accelerate", "ignite", "keras", "lightning", "mmengine", "transformers", "trl"})
"""Those that take seconds to import; their tests are marked ``framework``."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where tests of frameworks are left out, no worker imports one to find its tests."""
    is_left_out = "not framework" in (config.option.markexpr or "")
    return True if is_left_out and collection_path.stem.removeprefix("test_") in FRAMEWORKS else None


@pytest.fixture(autouse=True)
def _small_trainings(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_SINKS", "none")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for such small tensors the threads would mostly wait for each other
    yield
    torch.set_num_threads(threads)
