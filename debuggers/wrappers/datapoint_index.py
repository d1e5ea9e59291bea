"""Which datapoints an output belongs to: one index for all of it, or one for each row of a batch."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from debuggers.errors import DatapointError
from debuggers.host_arrays.readable import readable_tensor
from debuggers.torch_import import torch

_EXPECTED = "expected an int for the whole batch, or a list or tensor with a different int for each of its rows"
_PARTS = ("inputs", "labels", "outputs")


def datapoint_indices(datapoint: Mapping[str, Any]) -> int | list[int]:
    """Returns ``datapoint["meta_info"]["idx"]``: one int, or a list of different int, one a row.

    (N, 1) is read as (N,). A list of one is that of a batch of one. An index that lies on a device is waited for.

    Raises:
        DatapointError: When it is missing, holds anything but whole numbers, one of them twice, or several while none
            of the inputs, labels and outputs has as many rows.
    """
    try:
        idx = datapoint["meta_info"]["idx"]
    except (KeyError, TypeError) as error:
        raise DatapointError(
            "the datapoint has no ['meta_info']['idx']; expected its index, or one index for each of its rows"
        ) from error
    try:
        values = np.asarray(readable_tensor(idx).cpu() if isinstance(idx, torch.Tensor) else idx)
    except Exception as error:  # a tensor without values, or a list that is no array
        raise DatapointError(f"['meta_info']['idx'] is {_shown(idx)}, which cannot be read; {_EXPECTED}") from error
    if values.dtype.kind not in "iu" or not values.size or (values.ndim > 1 and len(values) != values.size):
        hint = "; keep text under another key of meta_info" if values.dtype.kind in "US" else ""
        raise DatapointError(f"['meta_info']['idx'] is {_shown(idx)}; {_EXPECTED}{hint}")
    if values.ndim == 0:
        return int(values)
    indices = [int(value) for value in values.reshape(-1)]
    if len(set(indices)) < len(indices):
        twice = next(index for row, index in enumerate(indices) if index in indices[:row])
        raise DatapointError(f"['meta_info']['idx'] is {_shown(idx)}, which has {twice} twice; {_EXPECTED}")
    _check_rows(datapoint, len(indices), idx)
    return indices


def _check_rows(datapoint: Mapping[str, Any], count: int, idx: Any) -> None:
    """A single index stands for the whole batch; several have to be those of its rows."""
    found = {rows for part in _PARTS if part in datapoint for rows in _row_counts(datapoint[part])}
    if count > 1 and found and count not in found:
        rows = ", ".join(map(str, sorted(found)))
        raise DatapointError(
            f"['meta_info']['idx'] is {_shown(idx)}, {count} indices, and inputs, labels and outputs have {rows} rows; "
            f"{_EXPECTED}"
        )


def _row_counts(value: Any) -> Iterator[int]:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        if value.ndim:
            yield value.shape[0]
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _row_counts(item)
    elif isinstance(value, (list, tuple)):
        yield len(value)
        for item in value:
            if not isinstance(item, (str, bytes, int, float)):
                yield from _row_counts(item)


def _shown(idx: Any) -> str:
    text = repr(idx)
    return text if len(text) <= 100 else f"{text[:100]}…"
