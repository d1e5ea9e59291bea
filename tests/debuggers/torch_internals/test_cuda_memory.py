"""What is expected of the CUDA allocator's history; needs nothing but torch and the module that it is about."""

import inspect
import pickle

import pytest
import torch

from debuggers.torch_internals import cuda_memory


def test_recording_takes_these_arguments():
    names = inspect.signature(cuda_memory.record_history).parameters
    assert {"enabled", "max_entries"} <= set(names) or "kwargs" in names


@pytest.mark.cuda
def test_a_recording_is_noticed_and_written(tmp_path):
    assert not cuda_memory.is_recording()
    cuda_memory.record_history(max_entries=1000)
    try:
        assert cuda_memory.is_recording()
        kept = torch.ones(1024, device="cuda")
        cuda_memory.dump_snapshot(str(tmp_path / "snapshot.pickle"))
    finally:
        cuda_memory.record_history(enabled=None)
    assert not cuda_memory.is_recording()
    assert kept.is_cuda
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert any(segment["total_size"] for segment in snapshot["segments"])
