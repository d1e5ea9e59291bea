"""Trainings of frameworks here: on one thread, and delivered to no tracker, because the tests read the runs' stores."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _small_trainings(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_SINKS", "none")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for such small tensors the threads would mostly wait for each other
    yield
    torch.set_num_threads(threads)
