"""A model's parameters as they are at its first step: their shapes, moments, and how alike the rows of tables are."""

import math
from collections.abc import Container, Mapping
from typing import Any

from tracker_adapters.values.tensors import plain_tensor

from debuggers.diagnosis.facts import MOST_ROWS, ParameterFacts
from debuggers.gradients.parameters import Parameters
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.host_arrays.readable import is_freed
from debuggers.instrumentation.joined_optimizers import learning_rates, rounds_of
from debuggers.observed_training.forward_calls import dtype_name
from debuggers.torch_import import torch

MOST = 1000
"""Parameters, and layers, that are described."""
FEWEST_ROWS, MOST_COLUMNS = 64, 256
"""Rows of a table from which they are compared with each other, and in how many columns."""
_SAMPLED = 512


class InitialParameters:
    """Name, shape and dtype of each parameter, and mean and standard deviation of up to 512 elements of it.

    They may still be on their way from a device.
    """

    def __init__(
        self,
        parameters: Parameters,
        optimizer: torch.optim.Optimizer | None = None,
        tables: Container[str] = (),
    ) -> None:
        """Looks at them as they are now, waiting for no device; ``tables`` are the names of embeddings' weights."""
        rates = {} if rounds_of(optimizer) is None else _rates(optimizer)
        self._named = [
            (name, tuple(tensor.shape), dtype_name(tensor.dtype), rates.get(id(tensor), ""))
            for name, tensor in list(zip(parameters.names, parameters.tensors, strict=True))[:MOST]
        ]
        named = dict(list(zip(parameters.names, parameters.tensors, strict=True))[:MOST])
        self._pending = _moments_of(named)
        self._likeness = _likeness_of({name: one for name, one in named.items() if name in tables})

    def ready(self) -> bool:
        """Whether they have arrived."""
        return all(rows.ready() for _, rows in (*self._pending, *self._likeness))

    def changed(self, parameters: Mapping[str, torch.Tensor]) -> frozenset[str]:
        """Returns the names of those of which the sampled elements are others now; waits for the device."""
        before, now = _resolved(self._pending), _resolved(_moments_of(parameters))
        return frozenset(name for name, row in now.items() if before.get(name, row) != row)

    def facts(self, roles: Mapping[str, Any], moving: Container[str] = ()) -> tuple[ParameterFacts, ...]:
        """Returns the facts with the role of each parameter that has another than ``trained``; waits for the device.

        ``moving`` are the names of those that change though they are frozen.
        """
        moments, likeness = _resolved(self._pending), _resolved(self._likeness)
        return tuple(
            ParameterFacts(
                name=name,
                shape=shape,
                dtype=dtype,
                rate=rate,
                mean=moments.get(name, (0.0, 0.0))[0],
                std=moments.get(name, (0.0, 0.0))[1],
                is_sampled=name in moments,
                role=roles.get(name, "trained"),
                moves=name in moving,
                likeness=likeness[name][0] if name in likeness else None,
            )
            for name, shape, dtype, rate in self._named
        )


_Pending = list[tuple[list[str], DeferredTensor]]
"""Names, and mean and standard deviation of each."""


def _moments_of(parameters: Mapping[str, torch.Tensor]) -> _Pending:
    by_device: dict[torch.device, dict[str, torch.Tensor]] = {}
    for name, tensor in parameters.items():
        values = _sample(tensor)
        if values is not None:
            by_device.setdefault(values.device, {})[name] = values
    return [
        (
            list(named),
            DeferredTensor(torch.stack([torch.stack([one.mean(), one.std(correction=0)]) for one in named.values()])),
        )
        for named in by_device.values()
    ]


@torch.no_grad()
def _likeness_of(tables: Mapping[str, torch.Tensor]) -> _Pending:
    """The mean square of the cosines between rows, times their length, of tables that require no gradient."""
    found: _Pending = []
    for name, table in tables.items():
        if table.requires_grad or not _is_sampled(table):
            continue
        values: torch.Tensor = plain_tensor("parameter", table)
        if values.ndim != 2 or len(values) < FEWEST_ROWS or is_freed(values):
            continue
        some = values[:: -(-len(values) // MOST_ROWS), :MOST_COLUMNS].double()
        rows = torch.nn.functional.normalize(some)
        squares = (rows @ rows.T).square()
        likeness = (squares.sum() - squares.trace()) * rows.shape[1] / (len(rows) * (len(rows) - 1))
        found.append(([name], DeferredTensor(likeness.reshape(1, 1))))
    return found


def _resolved(pending: _Pending) -> dict[str, list[float]]:
    """Mean and standard deviation by name, without those that are not finite; waits for the device."""
    return {
        name: row
        for names, rows in pending
        for name, row in zip(names, rows.resolve().tolist(), strict=True)
        if all(map(math.isfinite, row))
    }


def _rates(optimizer: torch.optim.Optimizer | None) -> dict[int, str]:
    groups = () if optimizer is None else optimizer.param_groups
    names = [name for name, _ in learning_rates(optimizer)]
    return {id(one): name for name, group in zip(names, groups, strict=True) for one in group["params"]}


def _is_sampled(parameter: torch.Tensor) -> bool:
    """Whether there are elements to take."""
    if parameter.is_meta or not parameter.is_floating_point() or parameter.layout is not torch.strided:
        return False
    return not torch.nn.parameter.is_lazy(parameter) and parameter.numel() > 0


@torch.no_grad()
def _sample(parameter: torch.Tensor) -> torch.Tensor | None:
    """Evenly spread elements in float64; None where there are none to take."""
    if not _is_sampled(parameter):
        return None
    values: torch.Tensor = plain_tensor("parameter", parameter)
    if is_freed(values):
        return None
    return values.detach().flatten()[:: max(1, values.numel() // _SAMPLED)].double()
