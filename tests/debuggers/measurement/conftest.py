"""Where the kernels for GPUs are tested: on a CUDA device, or compiled for the host."""

import pytest
import torch
from gpu_on_host import has_compiler, kernels_on_host


@pytest.fixture(scope="module")
def device():
    if torch.cuda.is_available():
        yield torch.device("cuda")
        return
    if not has_compiler:
        pytest.skip("needs a CUDA device, or gcc, which compiles the kernels for the host")
    with kernels_on_host():
        yield torch.device("cpu")
