"""What decides whether a training can be repeated: seeds, random states, and switches of torch."""

import hashlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_VARIABLES = (
    "PYTHONHASHSEED", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG",
    "PYTORCH_CUDA_ALLOC_CONF", "NVIDIA_TF32_OVERRIDE",
)  # fmt: skip


def settings_of_process() -> dict[str, str]:
    """Returns seeds, digests of random states, and torch's switches; nothing is imported, started or changed.

    Two runs with equal digests draw the same random numbers from here on.
    """
    found = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    with suppress(Exception):  # somebody's own generator may stand in the place of one
        found["python_random_state"] = _digest(repr(sys.modules["random"].getstate()).encode())
    with suppress(Exception):
        state = sys.modules["numpy.random"].get_state(legacy=False)
        found["numpy_random_state"] = _digest(repr((state["state"]["key"].tobytes(), state["state"]["pos"])).encode())
    torch = sys.modules.get("torch")
    if torch is not None:
        found |= _of_torch(torch)
    return found


def _of_torch(torch: Any) -> dict[str, str]:
    asked: dict[str, Callable[[], Any]] = {
        "torch_seed": torch.initial_seed,
        "torch_random_state": lambda: _digest(torch.get_rng_state().numpy().tobytes()),
        "torch_cuda": lambda: torch.version.cuda,
        "torch_threads": torch.get_num_threads,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
        "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "default_dtype": torch.get_default_dtype,
    }
    found = {}
    for name, ask in asked.items():
        with suppress(Exception):  # of another version of torch
            value = ask()
            if value is not None:
                found[name] = str(value).removeprefix("torch.")
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
