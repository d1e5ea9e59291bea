"""CUDA debugging on a CUDA device: limits and recordings end with the session."""

import pytest
import torch
from torch import nn

from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    StabilityError,
)


def manager(**fields):
    config = PyTorchDebuggingConfig(enable_cuda_debugging=True, **fields)
    return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), config)


def step(stability, model):
    loss = model(torch.randn(8, 4, device=next(model.parameters()).device)).square().mean()
    loss.backward()
    return stability.step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1))["debug_info"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA")
def test_a_snapshot_needs_cuda_and_a_session(tmp_path):
    stability = manager(debug_output_dir=str(tmp_path))

    with pytest.raises(StabilityError, match=r"without a debug session; expected start_debug_session\(\) first"):
        stability.debugging.save_cuda_snapshot()
    stability.start_debug_session("snapshot")
    with pytest.raises(StabilityError, match="this process does not use CUDA"):
        stability.debugging.save_cuda_snapshot()
    stability.stop_debug_session()


@pytest.mark.cuda
def test_the_memory_fraction_holds_until_the_session_stops(tmp_path):
    stability = manager(cuda_memory_fraction=0.5, cuda_synchronize=True, debug_output_dir=str(tmp_path))
    before = torch.cuda.get_per_process_memory_fraction(0)
    stability.start_debug_session("fraction")

    info = step(stability, nn.Linear(4, 1).cuda())

    assert torch.cuda.get_per_process_memory_fraction(0) == pytest.approx(0.5)
    assert (info["cuda"]["available"], info["cuda"]["synchronized"], info["cuda"]["note"]) == (True, True, "")
    stability.stop_debug_session()
    assert torch.cuda.get_per_process_memory_fraction(0) == pytest.approx(before)


@pytest.mark.cuda
def test_memory_of_the_device_is_told_and_a_snapshot_saved(tmp_path):
    stability = manager(enable_memory_debugging=True, memory_profiling=True, debug_output_dir=str(tmp_path))
    model = nn.Linear(4, 1).cuda()
    stability.start_debug_session("memory")

    infos = [step(stability, model) for _ in range(2)]
    path = stability.debugging.save_cuda_snapshot()

    memory = infos[1]["memory_info"]["cuda_memory"]
    assert 0 < memory["allocated"] <= memory["max_allocated"] <= memory["cached"]
    assert path.stat().st_size > 0
    assert [module["module"] for module in infos[1]["memory_profile"]["modules"]] == ["Linear"]
    stability.stop_debug_session()
