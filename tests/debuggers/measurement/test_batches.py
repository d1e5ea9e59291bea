"""What waits to be measured on a device is measured in its order, whatever its dtype, layout and alignment are."""

import gc
import logging

import numpy as np
import pytest
import torch

from debuggers.measurement import batches, gpu
from debuggers.measurement.batches import KernelBatch
from debuggers.measurement.device_rows import read
from debuggers.measurement.gpu import why_not
from debuggers.measurement.kernels.gpu import loading
from debuggers.measurement.kernels.gpu.launching import Kernels
from debuggers.measurement.kernels.gpu.nvrtc import CompilationError
from debuggers.measurement.kernels.gpu.segments import DTYPES


def batch_on(device):
    return KernelBatch(device, loading.load()[0])


def taken(batch):
    """The least and the greatest element of each row, with the tensor's index."""
    indices, rows = batch.take()
    table = read(rows.resolve())
    return sorted(zip(indices, table.moment("min").tolist(), table.moment("max").tolist(), strict=True))


def test_each_row_has_the_index_of_its_tensor(device):
    batch = batch_on(device)
    for index in range(9):
        dtype = DTYPES[index % 4]
        after = torch.arange(index, 2 * index + 1, device=device).to(dtype)
        batch.add(index, index, after, torch.ones_like(after) if index % 3 == 0 else None)
    assert taken(batch) == [(index, index - (index % 3 == 0), 2 * index - (index % 3 == 0)) for index in range(9)]


def test_what_is_measured_is_kept_until_then(device):
    batch = batch_on(device)
    for index in range(4):
        batch.add_piece(index, index, torch.full((50_000,), float(index), device=device), is_copy=True)
        gc.collect()
    overwritten = [torch.full((50_000,), -1.0, device=device) for _ in range(4)]
    assert taken(batch) == [(index, index, index) for index in range(4)]
    assert len(overwritten) == 4


def test_many_copies_are_measured_in_turn(device, monkeypatch):
    monkeypatch.setattr(batches, "_MAX_KEPT", 100)
    batch = batch_on(device)
    for index in range(5):
        batch.add_piece(index // 2, index, torch.full((60,), float(index), device=device), is_copy=True)
    assert taken(batch) == [(0, 0, 0), (0, 1, 1), (1, 2, 2), (1, 3, 3), (2, 4, 4)]


def test_elements_between_their_places_are_copied_first(device):
    """As a tensor of memory from elsewhere may have them; a GPU cannot read them there."""
    memory = np.frombuffer(b"\0" + np.array([1.0, 2.0, 3.0], np.float32).tobytes(), np.uint8).copy()
    odd = torch.from_numpy(memory[1:].view(np.float32))
    assert odd.data_ptr() % 4
    batch = batch_on(device)
    assert batch._place("odd", odd) % 4 == 0
    if device.type == "cpu":
        batch.add(0, "odd", odd)
        batch.add(1, "odd", torch.ones(3), odd)
        assert taken(batch) == [(0, 1, 3), (1, -2, 0)]


def test_the_kernel_is_tried_before_it_is_used(device):
    for dtype in DTYPES:
        assert why_not(torch.zeros(1, device=device).device, dtype) == ""


def test_a_kernel_that_fails_later_on_is_used_no_more_and_told_once(device, monkeypatch, caplog):
    def refuses(name, constants, device):
        raise CompilationError("NVRTC refused a kernel: no room")

    after, before = torch.ones(3, device=device), torch.zeros(3, device=device)
    place = after.device
    monkeypatch.setattr(gpu, "_why_not", {(place, torch.float32): ""})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batch = KernelBatch(place, Kernels(refuses).measure)
            batch.add(0, 0, after, before)
            with pytest.raises(CompilationError, match="no room"):
                batch.take()
    failed = "the kernel failed (CompilationError: NVRTC refused a kernel: no room)"
    assert why_not(place, torch.float32) == failed
    told = f"measures torch.float32 on {place} with torch operations from now on: {failed}"
    assert caplog.messages == [told]
