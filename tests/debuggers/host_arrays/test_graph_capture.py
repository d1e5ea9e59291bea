"""What waits for a device beside a thread that captures a CUDA graph does not end the capture."""

import threading

import pytest
import torch

from debuggers.host_arrays import graph_capture
from debuggers.host_arrays.deferred import defer_tensor
from debuggers.host_arrays.graph_capture import beside_captures


def test_a_thread_waits_in_a_mode_of_its_own_and_then_has_the_mode_that_it_had(monkeypatch):
    modes = [2]

    def exchange(reference):  # as CUDA's driver does it
        given, reference._obj.value = reference._obj.value, modes[-1]
        modes.append(given)

    monkeypatch.setattr(graph_capture, "_exchange_capture_mode", lambda: exchange)
    with pytest.raises(ZeroDivisionError), beside_captures():
        assert modes == [2, 1]
        raise ZeroDivisionError
    assert modes == [2, 1, 2]


def test_without_cuda_there_is_no_mode(monkeypatch):
    monkeypatch.setattr(graph_capture.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    graph_capture._exchange_capture_mode.cache_clear()
    try:
        with beside_captures():
            pass
    finally:
        graph_capture._exchange_capture_mode.cache_clear()


@pytest.mark.cuda
def test_another_thread_reads_a_copy_while_a_graph_is_captured():
    values, copies = torch.ones(5, device="cuda"), []
    pending = defer_tensor(values)
    values.add_(1)
    thread = threading.Thread(target=lambda: copies.append(pending.resolve()))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values.add_(1)
        thread.start()
        thread.join()
    graph.replay()
    assert copies[0].tolist() == [1] * 5
    assert values.tolist() == [3] * 5
