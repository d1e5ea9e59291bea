"""What is expected of torch's counts and records of collectives; needs nothing but torch and the module."""

import json
import os
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from debuggers.torch_internals import collectives


@pytest.fixture
def group(tmp_path):
    """A process group, and a tensor for it that outlives it.

    Gloo's thread lets go of a tensor after the call has returned. If it has to delete its Python object then, it waits
    for the GIL, which torch 2.7 holds while the group's destructor waits for the thread.
    """
    tensor = torch.ones(1)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield tensor
    dist.destroy_process_group()


def test_collectives_of_the_default_group_are_counted(group):
    before = collectives.begun_collectives()
    dist.all_reduce(group)
    dist.barrier()
    assert collectives.begun_collectives() - before == 2


def test_without_a_group_the_number_is_unknown():
    assert not dist.is_initialized()
    assert collectives.begun_collectives() == -1


def test_the_flight_recorder_answers_where_the_environment_switches_it_on(monkeypatch):
    monkeypatch.delenv("TORCH_FR_BUFFER_SIZE", raising=False)
    assert collectives.flight_recording() == b""
    monkeypatch.setitem(os.environ, "TORCH_FR_BUFFER_SIZE", "10")
    assert isinstance(json.loads(collectives.flight_recording()), dict)


def test_the_frame_of_another_thread_is_where_it_waits():
    begun, ending = threading.Event(), threading.Event()

    def wait():
        begun.set()
        ending.wait(60)

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(60)
    frame = collectives.frame_of(thread.ident)
    names = []
    while frame is not None:
        names.append((Path(frame.f_code.co_filename).name, frame.f_code.co_name))
        frame = frame.f_back
    ending.set()
    thread.join(60)
    assert (Path(__file__).name, "wait") in names
    assert collectives.frame_of(thread.ident) is None
