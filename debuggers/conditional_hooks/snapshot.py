"""Emits statistics of all parameters and their gradients at one moment."""

from typing import Any

from tracker_adapters.artifacts import Cell
from tracker_adapters.emitter import Emitter

from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.measurement.measure import measure
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch

COLUMNS = (
    "parameter", "shape", "dtype", "trainable", "norm", "mean", "std", "min", "max", "non_finite",
    "gradient_norm", "gradient_abs_max", "gradient_non_finite",
)  # fmt: skip


class Snapshots:
    """Measures without waiting for a device, and emits the table once it has arrived."""

    def __init__(self, model: torch.nn.Module | None, emitter: Emitter | None) -> None:
        self._model, self._emitter = model, emitter
        self._arrivals = ArrivalQueue()

    def take(self, hook: str, step: int) -> list[dict[str, Any]] | None:
        """Emits the table ``hooks/<hook>/snapshot``.

        Returns:
            Its rows; None while they are on a device.
        """
        assert self._model is not None  # without a model no such hook can be registered
        parameters = dict(self._model.named_parameters())
        gradients = {name: value.grad for name, value in parameters.items() if value.grad is not None}
        described: list[list[Cell]] = [
            [name, str(tuple(value.shape)), str(value.dtype).removeprefix("torch."), value.requires_grad]
            for name, value in parameters.items()
        ]
        pending = measure([value.detach() for value in (*parameters.values(), *gradients.values())])
        order = {name: place for place, name in enumerate(gradients)}
        places = [order.get(name) for name in parameters]
        rows: list[dict[str, Any]] = []

        def arrive() -> None:
            rows.extend(_rows(described, places, pending.resolve()))
            if self._emitter is not None:
                cells = [list(row.values()) for row in rows]
                self._emitter.table(f"hooks/{hook}/snapshot", COLUMNS, cells, step=step)

        self._arrivals.push(pending, arrive)
        return rows or None

    def drain(self) -> None:
        """Emits what is still on a device, waiting for it."""
        self._arrivals.drain()


def _rows(described: list[list[Cell]], places: list[int | None], table: SummaryTable) -> list[dict[str, Any]]:
    """The rows of parameters: ``places`` are those of their gradients behind them, in the table."""
    rows = []
    for index, (cells, place) in enumerate(zip(described, places, strict=True)):
        weights = table[index]
        cells += [weights.l2, weights.mean, weights.std, weights.min, weights.max, weights.count - weights.finite_count]
        if place is None:
            cells += [None, None, None]
        else:
            gradient = table[len(described) + place]
            largest = max(abs(gradient.min), abs(gradient.max))
            cells += [gradient.l2, largest, gradient.count - gradient.finite_count]
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows
