"""What ``torch.distributed`` counts and records of collectives (torch 2.7 to 2.15); a build may be without it."""

import os
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

from debuggers.torch_import import torch

_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


def frame_of(thread: int) -> FrameType | None:
    """Returns the innermost frame of a thread by its number, as where it waits for other ranks; None after its end."""
    return sys._current_frames().get(thread)


def begun_collectives() -> int:
    """Returns how many collectives this rank has begun in the default group; -1 where that is unknown."""
    with suppress(Exception):  # a backend need not count
        group: Any = torch.distributed.distributed_c10d._get_default_group()
        return int(group._get_sequence_number_for_group())
    return -1


def flight_recording() -> bytes:
    """Returns the Flight Recorder's entries as JSON; nothing where the environment does not switch it on."""
    if not any(os.environ.get(name, "0") not in ("", "0") for name in _SIZES):
        return b""
    with suppress(Exception):  # a build without it
        for name in _DUMPS:
            dump = getattr(torch._C._distributed_c10d, name, None)
            if dump is not None:
                found = dump()
                return found if isinstance(found, bytes) else str(found).encode()
    return b""
