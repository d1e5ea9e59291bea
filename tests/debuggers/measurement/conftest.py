"""Where the Triton kernels are tested: on a CUDA device, or in Triton's interpreter, as ``make versions`` does it."""

import importlib.util
import os

import pytest
import torch


@pytest.fixture(scope="session")
def device():
    """The host where Triton's interpreter was chosen, which has to be before Triton is imported."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton, with a CUDA device or TRITON_INTERPRET=1: make versions installs it")
    if os.environ.get("TRITON_INTERPRET") == "1":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device, or TRITON_INTERPRET=1")
    return torch.device("cuda")
