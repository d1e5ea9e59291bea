"""Outputs that a layer can return and few expect, with what a page should hold of them."""

import collections.abc
import dataclasses
import types
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode


class Tagged(torch.Tensor):
    """A subclass with plain values."""


class Wrapper(torch.Tensor):
    """A subclass that keeps its values in another tensor, as quantised ones do."""

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype, device=values.device)

    def __init__(self, values):
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, function, kinds, args=(), kwargs=None):
        def unwrapped(value):
            return value.values if isinstance(value, cls) else value

        out = function(*map(unwrapped, args), **{key: unwrapped(value) for key, value in (kwargs or {}).items()})
        return cls(out) if isinstance(out, torch.Tensor) else out


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    logits: torch.Tensor
    note: str = "n"


@dataclasses.dataclass
class Unset:
    value: int = dataclasses.field(init=False)


class BrokenMapping(collections.abc.Mapping):
    def __getitem__(self, key):
        raise OSError("gone")

    def __iter__(self):
        raise OSError("gone")

    def __len__(self):
        return 1


class Unreadable:
    @property
    def __class__(self):
        raise OSError("gone")


Pair = collections.namedtuple("Pair", ["left", "right"])


def quantised(rows):
    return torch.quantize_per_tensor(torch.tensor([1.0, 2.0, 3.0]), 0.5, 0, torch.qint8)


def quantised_by_channel(rows):
    scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([0, 0])
    return torch.quantize_per_channel(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), scales, zeros, 0, torch.qint8)


def inference_tensor(rows):
    with torch.inference_mode():
        return torch.arange(3.0) * 2


def nested(rows, **options):
    return torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], **options)


def endless(rows):
    loop: list[Any] = [rows]
    loop.append(loop)
    return loop


MAP = np.arange(96, dtype=np.float32).reshape(2, 3, 4, 4)
_DTYPES = {
    torch.float64: np.float64,
    torch.float16: np.float16,
    torch.bfloat16: ml_dtypes.bfloat16,
    torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    torch.float8_e4m3fnuz: ml_dtypes.float8_e4m3fnuz,
    torch.float8_e5m2: ml_dtypes.float8_e5m2,
    torch.float8_e5m2fnuz: ml_dtypes.float8_e5m2fnuz,
    torch.int8: np.int8,
    torch.uint16: np.uint16,
    torch.uint64: np.uint64,
    torch.bool: np.bool_,
}

PLAIN = {
    "0-d": (lambda rows: torch.tensor(2.5), np.float32(2.5)),
    "0-d integer": (lambda rows: torch.tensor(7), np.int64(7)),
    "0-d bool": (lambda rows: torch.tensor(True), np.bool_(True)),
    "empty": (lambda rows: torch.ones(2, 0, 3), np.ones((2, 0, 3), np.float32)),
    "one value": (lambda rows: torch.ones(1, 1), np.ones((1, 1), np.float32)),
    "the input itself": (lambda rows: rows, np.ones((4, 3), np.float32)),
    "parameter": (lambda rows: nn.Parameter(torch.ones(2)), np.ones(2, np.float32)),
    "with a graph": (lambda rows: torch.ones(2, requires_grad=True) * 3, np.full(2, 3, np.float32)),
    "view": (lambda rows: torch.tensor(MAP)[1, :, ::2, 1], MAP[1, :, ::2, 1]),
    "transposed": (lambda rows: torch.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T),
    "channels last": (lambda rows: torch.tensor(MAP).to(memory_format=torch.channels_last), MAP),
    "five dimensions": (lambda rows: torch.tensor(MAP)[None], MAP[None]),
    "expanded": (lambda rows: torch.tensor([2.0]).expand(3, 5), np.full((3, 5), 2, np.float32)),
    "expanded map": (lambda rows: torch.ones(1).expand(2, 3, 4, 4), np.ones((2, 3, 4, 4), np.float32)),
    "overlapping": (lambda rows: torch.arange(4.0).as_strided((3, 2), (1, 1)), np.float32([[0, 1], [1, 2], [2, 3]])),
    "huge strides": (
        lambda rows: torch.arange(1_000_000).as_strided((2, 2), (900_000, 70_000)),
        np.array([[0, 70_000], [900_000, 970_000]]),
    ),
    "negative bit": (lambda rows: torch.tensor([1 + 2j, 3 - 4j]).conj().imag, np.float32([-2, 4])),
    "NaN": (lambda rows: torch.tensor([np.nan, np.inf, 1.0]), np.float32([np.nan, np.inf, 1])),
    "inference tensor": (inference_tensor, np.float32([0, 2, 4])),
    "shared memory": (lambda rows: torch.ones(2).share_memory_(), np.ones(2, np.float32)),
    "quantised": (quantised, np.float32([1, 2, 3])),
    "quantised by channel": (quantised_by_channel, np.float32([[1, 2], [3, 4]])),
    "subclass": (lambda rows: torch.ones(2).as_subclass(Tagged), np.ones(2, np.float32)),
} | {
    str(dtype): (lambda rows, dtype=dtype: torch.tensor([0, 1, 1]).to(dtype), np.array([0, 1, 1]).astype(kept))
    for dtype, kept in _DTYPES.items()
}
"""Tensors with plain real values: how a layer makes each of its input (4, 3), and the array that a page holds."""

REFUSED = {
    "sparse COO": (lambda rows: torch.eye(2).to_sparse(), "sparse_coo"),
    "sparse CSR": (lambda rows: torch.eye(2).to_sparse_csr(), "sparse_csr"),
    "sparse complex": (lambda rows: torch.eye(2, dtype=torch.complex64).to_sparse(), "complex"),
    "meta": (lambda rows: torch.ones(2, device="meta"), "meta"),
    "nested": (nested, "nested"),
    "jagged": (lambda rows: nested(rows, layout=torch.jagged), "nested"),
    "mkldnn": (lambda rows: torch.ones(2).to_mkldnn(), "mkldnn"),
    "fake": (lambda rows: FakeTensorMode().from_tensor(torch.ones(2)), "FakeTensor"),
    "wrapper": (lambda rows: Wrapper(torch.ones(2)), "Wrapper"),
    "masked": (lambda rows: torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])), "MaskedTensor"),
    "uninitialised": (lambda rows: nn.UninitializedParameter(), "UninitializedParameter"),
}
"""Tensors without plain values, and a part of what every debugger says of them."""

STRUCTURES = {
    "None": (lambda rows: None, None),
    "str": (lambda rows: "text", "text"),
    "number": (lambda rows: 2.5, 2.5),
    "tuple": (lambda rows: (rows[0], None), ([1, 1, 1], None)),
    "list": (lambda rows: [rows[0], [rows[0, :1]]], [[1, 1, 1], [[1]]]),
    "dict": (lambda rows: {"a": rows[0], 1: {"b": "text"}}, {"a": [1, 1, 1], 1: {"b": "text"}}),
    "ordered dict": (lambda rows: collections.OrderedDict(a=rows[0]), {"a": [1, 1, 1]}),
    "mapping proxy": (lambda rows: types.MappingProxyType({"a": rows[0]}), {"a": [1, 1, 1]}),
    "named tuple": (lambda rows: Pair(rows[0], (1, [2])), {"left": [1, 1, 1], "right": (1, [2])}),
    "data class": (lambda rows: Result(rows[0]), {"logits": [1, 1, 1], "note": "n"}),
    "result of max": (lambda rows: rows[:2].max(1), ([1, 1], [0, 0])),
    "packed sequence": (
        lambda rows: nn.utils.rnn.pack_sequence([rows[0], rows[0, :1]]),
        {"data": [1, 1, 1, 1], "batch_sizes": [2, 1, 1], "sorted_indices": None, "unsorted_indices": None},
    ),
    "array": (lambda rows: np.arange(3), [0, 1, 2]),
}
"""What is no tensor, and what a page holds of it, with lists for arrays."""

STRANGERS = {
    "generator": (lambda rows: (row for row in rows), "builtins.generator"),
    "module": (lambda rows: nn.ReLU(), "activation.ReLU"),
    "endless": (endless, "does it hold itself?"),
    "unset field": (lambda rows: Unset(), "value"),
    "sparse inside": (lambda rows: [rows[0], rows.to_sparse()], "sparse_coo"),
}
"""What a page cannot hold, and a part of the reason that it gives."""
