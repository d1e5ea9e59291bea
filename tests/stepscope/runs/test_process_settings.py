"""Seeds, random states and switches, recorded without a change to them."""

import random

import numpy as np
import torch

from stepscope.runs.process_settings import settings_of_process


def seeded(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return settings_of_process()


def drawn():
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_equal_seeds_give_equal_digests_and_others_do_not():
    first, again, other = seeded(1), seeded(1), seeded(2)
    assert first == again
    assert first["torch_seed"] == "1"
    for name in ("python_random_state", "numpy_random_state", "torch_random_state"):
        assert first[name] != other[name], name


def test_asking_draws_nothing():
    seeded(1)
    expected = drawn()
    seeded(1)
    settings_of_process()
    assert drawn() == expected


def test_switches_of_torch_and_variables_are_recorded(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    found = settings_of_process()
    assert (found["cudnn_benchmark"], found["CUBLAS_WORKSPACE_CONFIG"]) == ("True", ":4096:8")
    assert found["torch_threads"] == str(torch.get_num_threads())
