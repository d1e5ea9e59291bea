"""What the fast tests draw at random, and which need a device."""

import os

import pytest
from hypothesis import HealthCheck, settings

# What runs record is what the tests record.
os.environ.setdefault("STEPSCOPE_SYSTEM_METRICS", "off")
os.environ.setdefault("STEPSCOPE_ENVIRONMENT", "process")
# How fast a machine is decides no test, nor does chance: what a test draws depends on the test alone. With
# --hypothesis-profile=default it draws anew each time, to search for more. make test draws a quarter of what make slow
# draws.
settings.register_profile("thorough", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("quick")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
