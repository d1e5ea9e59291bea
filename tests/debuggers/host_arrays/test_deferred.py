"""A deferred tensor holds the values as they were; from a device nothing waits for them."""

import numpy as np
import pytest
import torch
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryRecorder

from debuggers.host_arrays.deferred import DeferredRow, defer_tensor

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.cuda),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_a_later_change_does_not_reach_the_copy(device, dtype):
    tensor = torch.ones(3, 4, dtype=dtype, device=device).T
    pending = defer_tensor(tensor)
    tensor.zero_()
    assert (pending.nbytes, pending.shape) == (12 * dtype.itemsize, (4, 3))
    assert (pending.resolve() == np.ones((4, 3))).all()
    assert (pending.resolve() == 1).all()


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_is_cut_when_it_is_resolved(device):
    row = DeferredRow(defer_tensor(torch.arange(6, device=device).reshape(2, 3)), 1, 2)
    assert (row.nbytes, row.resolve().tolist()) == (24, [3, 4, 5])


@pytest.mark.parametrize("device", DEVICES)
def test_a_dtype_that_numpy_lacks_is_refused_before_the_values_arrive(device):
    with pytest.raises(ArtifactError, match="complex32"):
        defer_tensor(torch.ones(2, dtype=torch.complex64, device=device).to(torch.complex32))


@pytest.mark.cuda
def test_emitting_from_a_device_never_synchronises():
    recorder = MemoryRecorder()
    tensor = torch.ones(1000, device="cuda")
    queue = []
    recorder.put = lambda item, _: queue.append(item)
    torch.cuda.set_sync_debug_mode("error")
    try:
        Emitter(recorder, defer=defer_tensor).histogram("h", tensor, step=0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert queue[0].build().count == 1000


def test_a_host_tensor_is_copied_whatever_the_default_device_is():
    with torch.device("meta"):
        assert defer_tensor(torch.ones(2, device="cpu")).resolve().tolist() == [1, 1]
