"""Which of the fast tests need a device."""

import os

import pytest

# What runs record is what the tests record.
os.environ.setdefault("STEPSCOPE_SYSTEM_METRICS", "off")
os.environ.setdefault("STEPSCOPE_ENVIRONMENT", "process")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
