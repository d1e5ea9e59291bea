"""Measures outputs, or gradients with respect to them, several in one call where nothing changes them in between."""

import weakref
from typing import Protocol

from debuggers.host_arrays.readable import is_freed
from debuggers.measurement.joined_summaries import JoinedSummaries
from debuggers.measurement.measure import PendingSummaries, measure
from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of

_MAX_HELD = 1 << 20  # elements: they stay in the cache, and keep little memory alive


class Producer(Protocol):
    """The module that returned an output, or whose output has a gradient.

    Attributes:
        waits: Whether its outputs may wait to be measured; None while that is not known.
    """

    waits: bool | None


class OutputRows:
    """Names and measurements of one step's outputs, or of the gradients with respect to them.

    A later operation may change an output in place, so it is measured at once, unless an earlier output of its module
    was held for a while and seen to stay as it was: then it waits to be measured with a few others. torch counts the
    changes of a tensor, for autograd; an output that changed while it waited, or whose memory was freed, is not
    recorded but counted, and its module's outputs never wait again. Writes that torch does not count, as through
    ``.data``, are not seen. On CUDA only outputs of one stream wait, so that they are read after they were written, and
    before a later operation writes there.

    Attributes:
        names: The name of each output, in order.
        lost: Outputs that changed, or were freed, while they waited.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.lost = 0
        self._slots: list[int] = []
        self._rows: list[int | None] = []  # the row of each slot in the measurements; None while it waits, or is lost
        self._parts: list[PendingSummaries] = []
        self._measured = 0
        self._waiting: list[tuple[int, torch.Tensor, int, Producer]] = []
        self._held_elements = 0
        self._streams: dict[torch.device, torch.cuda.Stream] = {}  # on which those that wait were made
        self._last: tuple[weakref.ref[torch.Tensor], int, int] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str, tensor: torch.Tensor, producer: Producer) -> None:
        """Takes an output, and measures it now or with others before the forward pass ends."""
        self._slots.append(self._slot_of(tensor, producer))
        self.names.append(name)

    def mark(self) -> tuple[int, int]:
        """Returns what ``drop_from`` takes to leave only what was added until now."""
        return len(self.names), len(self._rows)

    def drop_from(self, mark: tuple[int, int]) -> None:
        """Forgets the outputs that were added after a mark."""
        names, slots = mark
        del self.names[names:], self._slots[names:]
        self._waiting = [entry for entry in self._waiting if entry[0] < slots]
        self._held_elements = sum(entry[1].numel() for entry in self._waiting)
        self._last = None

    def flush(self) -> None:
        """Measures what waits, and learns whose outputs may wait from now on; call it when the forward pass ends."""
        waiting, self._waiting, self._held_elements = self._waiting, [], 0
        unchanged = []
        for slot, tensor, version, producer in waiting:
            is_measured = self._rows[slot] is not None
            if version_of(tensor) != version or is_freed(tensor):
                producer.waits = False
                self.lost += not is_measured
            elif not is_measured:
                unchanged.append((slot, tensor))
            elif producer.waits is None:
                producer.waits = True
        for device, stream in self._streams.items():
            if (current := torch.cuda.current_stream(device)) != stream:
                current.wait_stream(stream)
        self._streams = {}
        if unchanged:
            self._measure([slot for slot, _ in unchanged], [tensor for _, tensor in unchanged])

    def joined(self) -> JoinedSummaries:
        """Returns what was measured as one, with one row for each distinct name; what waits is not in it."""
        found = [
            (name, row)
            for name, slot in zip(self.names, self._slots, strict=True)
            if (row := self._rows[slot]) is not None
        ]
        return JoinedSummaries([name for name, _ in found], self._parts, [row for _, row in found])

    def _slot_of(self, tensor: torch.Tensor, producer: Producer) -> int:
        slot = len(self._rows)
        if tensor.is_inference():  # its changes are not counted
            self._rows.append(None)
            self._measure([slot], [tensor])
            return slot
        version = version_of(tensor)
        if self._last is not None and self._last[0]() is tensor and self._last[1] == version:
            return self._last[2]  # ``Identity`` and an idle ``Dropout`` return what they were given
        self._rows.append(None)
        self._last = weakref.ref(tensor), version, slot
        if not (producer.waits and self._is_made_with_others(tensor)):
            self._measure([slot], [tensor])
        if producer.waits is not False:
            # Without its graph, which would hold on to all of a forward pass that raises.
            self._waiting.append((slot, tensor.detach(), version, producer))
            self._held_elements += tensor.numel()
            if self._held_elements > _MAX_HELD:
                self.flush()
        return slot

    def _is_made_with_others(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor that was just made is of the stream of those that wait on its device."""
        if not tensor.is_cuda:
            return True
        stream = torch.cuda.current_stream(tensor.device)
        return self._streams.setdefault(tensor.device, stream) == stream

    def _measure(self, slots: list[int], tensors: list[torch.Tensor]) -> None:
        self._parts.append(measure(tensors))
        for slot in slots:
            self._rows[slot] = self._measured
            self._measured += 1
