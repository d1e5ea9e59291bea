"""Statistics of samples of layers' outputs, by the compiled code or by NumPy with the same bits; dead units."""

from collections.abc import Mapping, Sequence

import numpy as np

from debuggers.measurement.kernels.samples import describe, is_usable
from debuggers.signals.deferred_values import Floats
from debuggers.signals.sampling import WHOLE_LAYER
from debuggers.torch_import import torch

STATISTICS = ("output_zeros", "output_mean", "output_std", "output_batch_std")
_READ = frozenset({torch.float32, torch.float64})
_FIRST = 1 << 14
"""Elements of an output among which nearly every unit that is not dead has a positive one."""
_MOST_TOGETHER = 1 << 13
"""Elements of samples that NumPy describes together."""
Statistics = dict[str, dict[str, float]]


def statistics_on_host(samples: Mapping[str, torch.Tensor]) -> Statistics:
    """Returns ``STATISTICS`` of samples on the host, by statistic and name.

    A deviation has no value where it has only one element.

    Args:
        samples: Two dimensions, contiguous, of a float dtype, with at least one element each.
    """
    found: Statistics = {statistic: {} for statistic in STATISTICS}
    read = {name: sample for name, sample in samples.items() if sample.dtype in _READ} if is_usable() else {}
    if read:
        each = {id(sample): sample for sample in read.values()}  # layers that return what they were given share one
        rows = dict(zip(each, describe(list(each.values())).tolist(), strict=True))
        for name, sample in read.items():
            known = (True, True, sample.numel() > 1, sample.shape[0] > 1)
            for statistic, value, is_known in zip(STATISTICS, rows[id(sample)], known, strict=True):
                if is_known:
                    found[statistic][name] = value
    rest = {name: sample for name, sample in samples.items() if name not in read}
    for names in groups_of_one_shape(rest):
        for statistic, values in statistics_of(as_arrays([rest[name] for name in names])).items():
            found[statistic].update(zip(names, values.tolist(), strict=True))
    return found


def groups_of_one_shape(samples: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """The names by the shapes of their samples; few together, so that their memory is small and is used again."""
    groups: list[list[str]] = []
    last: dict[tuple[object, ...], list[str]] = {}
    for name, sample in samples.items():
        key = (sample.shape, sample.device)
        group = last.get(key)
        if group is None or (len(group) + 1) * sample.numel() > _MOST_TOGETHER:
            group = last[key] = []
            groups.append(group)
        group.append(name)
    return groups


def as_arrays(samples: Sequence[torch.Tensor]) -> Floats:
    """Returns samples of one shape on the host as float64 (samples, rows, columns)."""
    array = np.empty((len(samples), *samples[0].shape))
    torch.cat([one.reshape(-1) for one in samples], out=torch.from_numpy(array.reshape(-1)))
    return array


def statistics_of(samples: Floats) -> dict[str, Floats]:
    """Statistics of samples (layers, rows, columns), each (layers,)."""
    layers, rows, columns = samples.shape
    size = rows * columns
    flat = samples.reshape(layers, size)
    found = {"output_zeros": (size - np.count_nonzero(flat, axis=1)) / size}
    with np.errstate(all="ignore"):
        # ``mean`` and ``std``, without what NumPy does around them.
        mean = np.add.reduce(flat, axis=1) / size
        found["output_mean"] = mean
        if size > 1:
            centred = flat - mean[:, None]
            centred *= centred
            found["output_std"] = np.sqrt(np.add.reduce(centred, axis=1) / size)
        if rows > 1:
            centred = np.subtract(
                samples, (np.add.reduce(samples, axis=1) / rows)[:, None], out=centred.reshape(samples.shape)
            )
            centred *= centred
            found["output_batch_std"] = np.add.reduce(np.sqrt(np.add.reduce(centred, axis=1) / rows), axis=1) / columns
    return found


def dead_share(values: torch.Tensor) -> torch.Tensor | float:
    """Returns the share of units without a positive element; of many rows some are looked at.

    Args:
        values: Of a float dtype, with at least one dimension. Units are dimension 1 of four dimensions or more, else
            the last.

    Returns:
        A float on the host, if that is known at once, else a 0-d float64 tensor. NaN counts as positive.
    """
    if values.numel() > WHOLE_LAYER:
        values = values[:: -(-values.numel() // WHOLE_LAYER)]
    units = _units_of(values)
    others = [axis for axis in range(values.ndim) if axis != units]
    if values.is_cpu and others and values.numel() > 2 * _FIRST:
        return _dead_on_host(values, units, others)
    largest = values.amax(others) if others else values
    return (largest <= 0).double().mean()


def elements_of_a_unit(values: torch.Tensor) -> int:
    """Returns how many elements each unit has, as ``dead_share`` counts units."""
    return values.numel() // max(1, values.shape[_units_of(values)])


def _units_of(values: torch.Tensor) -> int:
    return 1 if values.ndim >= 4 else values.ndim - 1


def _dead_on_host(values: torch.Tensor, units: int, others: list[int]) -> float:
    """The same, of which most is read only for units without a positive element in the first rows."""
    first = max(1, _FIRST // max(1, values[0].numel()))
    dead = values[:first].amax(others) <= 0
    if len(values) > first and (left := int(dead.count_nonzero())):
        rest = values[first:]
        if 4 * left > len(dead):
            dead &= rest.amax(others) <= 0
        else:
            places = dead.nonzero().squeeze(1)
            dead[places] = rest.index_select(units, places).amax(others) <= 0
    return int(dead.count_nonzero()) / len(dead)
