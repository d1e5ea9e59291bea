"""Tensors on a device: copied there at the call, read later, and never waited for."""

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from recording_queue import Queue
from tracker_adapters.artifacts import Image
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter

KNOWN_WITHOUT_VALUES = frozenset(
    ("detach", "dtype", "is_complex", "is_floating_point", "is_meta", "is_nested", "layout", "ndim", "shape")
)


class FarTensor:
    """What the adapters see of a tensor on a device; reading its values fails, as synchronising would be a fault."""

    def __init__(self, values):
        self._here = torch.as_tensor(values)
        self.device = torch.device("cuda")

    def __getattr__(self, name):
        if name not in KNOWN_WITHOUT_VALUES:
            raise AssertionError(f"{name} was asked of a tensor on a device")
        return getattr(self._here, name)


class Copy:
    """A pending copy; ``taken`` holds what the tensor held when it was deferred."""

    def __init__(self, tensor):
        self._taken = tensor._here.clone()
        self.nbytes = self._taken.nbytes

    def resolve(self):
        array: npt.NDArray[Any] = (
            self._taken.float().numpy() if self._taken.is_floating_point() else self._taken.numpy()
        )
        return array


def test_device_tensors_are_copied_at_the_call_and_read_later():
    queue = Queue()
    emitter = Emitter(queue, defer=Copy).scoped("gpu").at(2)
    before = time.time_ns()
    tensors = [
        FarTensor(0.5),
        FarTensor(torch.tensor([1.0, 3.0], dtype=torch.bfloat16)),
        FarTensor(torch.ones(1, 2, 2)),
    ]
    emitter.scalar("s", tensors[0])
    emitter.histogram("h", tensors[1])
    emitter.image("i", tensors[2], layout="CHW", value_range=(0, 1))
    emitter.image("u", FarTensor(torch.zeros(2, 2, dtype=torch.uint8)), layout="HW")
    after = time.time_ns()
    for tensor in tensors:
        tensor._here.fill_(9.0)
    items = [item for item, _ in queue.items]
    assert [(item.kind, item.name) for item in items] == [
        ("scalar", "gpu/s"), ("histogram", "gpu/h"), ("image", "gpu/i"), ("image", "gpu/u"),
    ]  # fmt: skip
    assert all(nbytes > item.nbytes > 0 for item, nbytes in queue.items)
    scalar, histogram, image, black = (item.build() for item in items)
    assert all(before <= built.time_ns <= after and built.step == 2 for built in (scalar, histogram, image))
    assert scalar.value == 0.5
    assert (histogram.min, histogram.max) == (1.0, 3.0)
    white = Image.from_array("i", np.ones((2, 2)), layout="HW", value_range=(0, 1), step=0)
    assert image.png == white.png
    assert black.png != white.png


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.scalar("s", FarTensor([1.0, 2.0])), r"^scalar 's': got shape \(2,\)"),
        (lambda e: e.scalar("s", FarTensor(1j)), r"^scalar 's': got a complex tensor"),
        (lambda e: e.histogram("h", FarTensor([1j])), r"^histogram 'h': got a complex tensor"),
        (lambda e: e.image("i", FarTensor(torch.ones(2, 2, 2)), layout="CHW", value_range=(0, 1)), r"got 2 channels"),
        (lambda e: e.image("i", FarTensor(torch.ones(2, 2)), layout="HW"), r"need value_range"),
        (lambda e: e.image("i", FarTensor(torch.ones(2, 2).long()), layout="HW"), r"got dtype int64"),
    ],
)
def test_a_wrong_device_tensor_is_refused_before_it_is_copied(call, message):
    queue, copied = Queue(), []
    with pytest.raises(ArtifactError, match=message):
        call(Emitter(queue, defer=copied.append, step=0))  # type: ignore[arg-type, func-returns-value]
    assert queue.items == copied == []


def test_a_curve_may_have_its_values_on_a_device_and_its_axis_on_the_host():
    queue = Queue()
    axis = np.arange(2.0)
    Emitter(queue, defer=Copy).curve("spectrum", axis, FarTensor([1.0, 3.0]), step=1, title="t")
    axis[:] = 9
    ((item, _),) = queue.items
    assert (item.kind, item.nbytes) == ("curve", 24)
    built = item.build()
    assert (built.x.tolist(), built.y.tolist(), built.title) == ([0.0, 1.0], [1.0, 3.0], "t")
    with pytest.raises(ArtifactError, match="x has 3 points and y has 2"):
        Emitter(queue, defer=Copy).curve("spectrum", [1, 2, 3], FarTensor([1.0, 3.0]), step=1)


def test_without_deferral_device_tensors_are_refused():
    emitter = MemoryEmitter()
    for call in (emitter.scalar, emitter.histogram):
        with pytest.raises(ArtifactError, match=r"got a tensor on cuda; this emitter takes host values only"):
            call("x", FarTensor(1.0), step=0)
