"""Pretends, on a machine without one, that tensors lie on a CUDA device, and notes whatever would wait for it.

Tensors are plain ones with real values, on the host. What torch's Python functions and attributes tell of their place
is replaced, and which of them would make the host wait is known here; what happens inside one operation is not seen.
"""

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from gpu_on_host import has_compiler, kernels_on_host
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from debuggers.measurement import gpu
from debuggers.measurement.kernels.gpu.segments import DTYPES

DEVICE = torch.device("cuda", 0)
_READS_PLACE = {
    torch.Tensor.device.__get__: lambda far: DEVICE if far else torch.device("cpu"),
    torch.Tensor.is_cpu.__get__: lambda far: not far,
    torch.Tensor.is_cuda.__get__: lambda far: far,
    torch.Tensor.get_device: lambda far: 0 if far else -1,
}
_WAITS = {
    "item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__", "__array__", "__contains__",
    "nonzero",
    "argwhere", "masked_select", "unique", "unique_consecutive", "equal", "allclose", "is_nonzero",
    "bincount", "histc",
}  # fmt: skip
_ON_HOST_BY_DEFAULT = {"tensor", "zeros", "ones", "empty", "full", "arange", "from_numpy", "as_tensor", "rand", "randn"}
_OURS = ("debuggers", "stability", "stepscope", "tracker_adapters")


class PretendedDevice(TorchFunctionMode):
    """As a context manager: tensors lie on the device unless they were made on the host inside of it.

    Attributes:
        waits: What in this package would have made this thread wait for the device, with the lines that did it.
        events: CUDA events that were made: one for each copy that was enqueued.
        kept: Where the memory begins that is not given to others before a stream has read it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.events: list[Any] = []
        self.kept: list[int] = []
        self._thread = threading.get_ident()
        self._host = WeakIdKeyDictionary()

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: dict[str, Any] | None = None
    ) -> Any:
        keywords = dict(keywords or {})
        if (read := _READS_PLACE.get(function)) is not None:
            return read(self._is_far(arguments[0]))
        name = getattr(function, "__name__", "")
        given = [*_tensors(arguments), *_tensors(list(keywords.values()))]
        far = any(map(self._is_far, given))
        self._look(name, arguments, keywords, far=far)
        here = self._is_asked_to_host(arguments, keywords) or (not far and not _names_device((arguments, keywords)))
        if name == "record_stream":
            self.kept.append(arguments[0].data_ptr())
        if name in ("pin_memory", "record_stream"):
            return arguments[0]
        keywords.pop("pin_memory", None)
        result = function(*_without_device(arguments), **{key: _without_device(one) for key, one in keywords.items()})
        for tensor in _tensors(result):
            if here and (given or name in _ON_HOST_BY_DEFAULT) and not any(tensor is one for one in given):
                self._host[tensor] = True
        return result

    def _is_far(self, tensor: torch.Tensor) -> bool:
        return tensor not in self._host

    def _is_asked_to_host(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        return any(
            str(one) == "cpu" for one in (*arguments, *keywords.values()) if isinstance(one, (str, torch.device))
        )

    def _look(self, name: str, arguments: Any, keywords: Any, *, far: bool) -> None:
        waits = far and name in _WAITS
        if name == "repeat_interleave":
            waits = far and keywords.get("output_size") is None
        if name in ("__getitem__", "index_put_"):
            waits = any(one.dtype in (torch.bool, torch.uint8) and self._is_far(one) for one in _tensors(arguments[1:]))
        if name == "copy_":
            waits = self._is_far(arguments[0]) != self._is_far(arguments[1]) and not (
                keywords.get("non_blocking") or True in arguments[2:]
            )
        if name in ("to", "type"):
            crosses = far and self._is_asked_to_host(arguments, keywords)
            crosses = crosses or (not far and _names_device((arguments, keywords)))
            waits = crosses and not keywords.get("non_blocking")
        if waits:
            self._note(name)

    def _note(self, name: str) -> None:
        if threading.get_ident() != self._thread:
            return  # whoever reads what has arrived may wait for it
        frames = [frame for frame in traceback.extract_stack() if "pretended_device" not in frame.filename]
        ours = [frame for frame in frames if any(f"/{package}/" in frame.filename for package in _OURS)]
        if ours and "site-packages" not in frames[-1].filename:
            self.waits.append(f"{name}: " + " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in ours[::-1][:4]))


class _Event:
    """A CUDA event that has happened when it is asked for the third time; waiting for it before that is noted."""

    device: PretendedDevice

    def __init__(self) -> None:
        self._asked = 0
        self.device.events.append(self)

    def record(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        self._asked += 1
        return self._asked > 2

    def synchronize(self) -> None:
        if self._asked <= 2:
            self.device._note("Event.synchronize")


class _Stream(torch.Stream):
    """A CUDA stream; all of them are the host."""

    def __new__(cls, device: Any = None) -> Any:
        return super().__new__(cls, stream_id=0, device_index=0, device_type=1)

    def wait_stream(self, stream: Any) -> None:
        pass


@contextmanager
def pretended_device(monkeypatch: Any) -> Iterator[PretendedDevice]:
    """Yields a device that is there within the block."""
    device = PretendedDevice()
    _Event.device = device
    monkeypatch.setattr(torch.cuda, "Event", _Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: _Stream())
    monkeypatch.setattr(torch.cuda, "Stream", _Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    group = torch._C._group_tensors_by_device_and_dtype

    def grouped(*arguments: Any) -> dict[Any, Any]:
        return {(DEVICE, dtype): members for (_, dtype), members in group(*arguments).items()}

    monkeypatch.setattr(torch._C, "_group_tensors_by_device_and_dtype", grouped)
    with device:
        yield device
    monkeypatch.undo()


@contextmanager
def tried_device(monkeypatch: Any, *, with_kernels: bool = has_compiler) -> Iterator[PretendedDevice]:
    """A device on which the kernels measure, compiled for the host, or torch operations."""
    monkeypatch.setattr(gpu, "_why_not", {})
    with kernels_on_host() if with_kernels else nullcontext(), pretended_device(monkeypatch) as device:
        reasons = [gpu.why_not(DEVICE, dtype) for dtype in DTYPES]  # trying the kernel waits once
        device.waits.clear()
        assert any(reasons) != with_kernels, reasons
        yield device


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for one in value for tensor in _tensors(one)] if isinstance(value, (list, tuple)) else []


def _names_device(value: Any) -> bool:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return any(_names_device(one) for one in value)
    return isinstance(value, torch.device) and value.type == "cuda"


def _without_device(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_without_device, value))
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value
