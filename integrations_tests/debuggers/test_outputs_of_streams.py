"""Outputs that are made on several CUDA streams are read after they were written, on the stream that wrote them."""

from dataclasses import dataclass

import pytest
import torch
from pretended_device import DEVICE, tried_device

from debuggers.activations import output_rows
from debuggers.activations.output_rows import OutputRows


@dataclass
class Layer:
    waits: bool | None = True


@pytest.fixture
def streams(monkeypatch):
    """A device with streams of which the last one is current, and a list of what was measured and waited for."""
    done, measure = [], output_rows.measure
    with tried_device(monkeypatch):
        kind = type(torch.cuda.current_stream())
        streams = [torch.Stream.__new__(kind, stream_id=number, device_index=0, device_type=1) for number in (1, 2)]
        current = [streams[0]]
        monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: current[-1])

        def wait(one, other):
            if one in streams:  # no stream of copies
                done.append((one.stream_id, "waits for", other.stream_id))

        monkeypatch.setattr(kind, "wait_stream", wait)

        def measured(tensors):
            done.append((current[-1].stream_id, "measures", [tensor.numel() for tensor in tensors]))
            return measure(tensors)

        monkeypatch.setattr(output_rows, "measure", measured)
        yield streams, current, done


def test_one_of_another_stream_than_those_that_wait_is_measured_at_once(streams):
    (_, beside), current, done = streams
    rows = OutputRows()
    rows.add("first", torch.ones(1, device=DEVICE), Layer())
    current.append(beside)
    rows.add("beside", torch.ones(2, device=DEVICE), Layer())
    current.pop()
    rows.add("last", torch.ones(3, device=DEVICE), Layer())
    assert done == [(2, "measures", [2])]
    rows.flush()
    assert done == [(2, "measures", [2]), (1, "measures", [1, 3])]


def test_what_waits_on_another_stream_is_waited_for_by_the_device(streams):
    (_, beside), current, done = streams
    rows = OutputRows()
    current.append(beside)
    rows.add("beside", torch.ones(2, device=DEVICE), Layer())
    current.pop()
    rows.flush()
    rows.add("the next", torch.ones(1, device=DEVICE), Layer())
    rows.flush()
    assert done == [(1, "waits for", 2), (1, "measures", [2]), (1, "measures", [1])]
