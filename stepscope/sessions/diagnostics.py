"""The session's own scalars: loss, learning rates, step time and the caller's metrics."""

from collections.abc import Mapping
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.values.arrays import as_float
from tracker_adapters.values.tensors import is_device_tensor

from debuggers.instrumentation.joined_optimizers import learning_rates
from debuggers.torch_import import torch


def checked_scalar(name: str, value: Any) -> torch.Tensor | float:
    """Returns a number as it is emitted; one on a device stays there.

    Raises:
        ArtifactError: For what is no number, and no tensor of one element.
    """
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        scalar: torch.Tensor = value.detach().reshape(())
        return scalar if is_device_tensor(scalar) else as_float(f"scalar {name!r}", scalar)
    return as_float(f"scalar {name!r}", value)


def check_loss(loss: torch.Tensor | float | None) -> None:
    """Checks that a loss is one real number, or None; what is on a device is not waited for.

    Raises:
        ArtifactError: When it is something else.
    """
    if loss is None or type(loss) is float:
        return
    if isinstance(loss, torch.Tensor) and loss.numel() == 1 and not loss.is_complex():
        return
    checked_scalar("loss", loss)


def checked_scalars(
    loss: torch.Tensor | float | None, metrics: Mapping[str, Any] | None
) -> dict[str, torch.Tensor | float]:
    """Returns the numbers that a loop tells of a step, as they are emitted, by name.

    Raises:
        ArtifactError: When one of them is no number.
    """
    values = {**({} if loss is None else {"loss": loss}), **(metrics or {})}
    return {name: checked_scalar(name, value) for name, value in values.items()}


class Diagnostics:
    """Emits what describes a step as a whole; without an emitter it only checks it."""

    def __init__(self, emitter: Emitter | None, optimizer: torch.optim.Optimizer | None) -> None:
        self._emitter = emitter
        self._optimizer = optimizer
        self._rates: list[float] = []

    def emit(
        self, step: int, loss: torch.Tensor | float | None, metrics: Mapping[str, Any] | None, *, measured: bool
    ) -> None:
        """Emits ``loss`` and the metrics, under their own names, and the learning rates on measured steps.

        Those that are numbers are also emitted where they have changed: how fast they fall must not depend on which
        steps could be measured. For the names of learning rates see ``learning_rates``.

        Raises:
            ArtifactError: When one of them is no number; then none is emitted.
        """
        emitter = self._emitter
        measured = self._have_rates_changed() or measured
        if type(loss) is float and not metrics and not measured:  # at most steps
            if emitter is not None:
                emitter.scalar("loss", loss, step=step)
            return
        self.tell(step, loss, metrics)
        if emitter is not None and measured:
            emitter = emitter.at(step)
            for name, rate in learning_rates(self._optimizer):
                emitter.scalar(name, rate)

    def tell(self, step: int, loss: torch.Tensor | float | None, metrics: Mapping[str, Any] | None) -> None:
        """Emits ``loss`` and the metrics, under their own names.

        Raises:
            ArtifactError: When one of them is no number; then none is emitted.
        """
        checked = checked_scalars(loss, metrics)
        if self._emitter is None or not checked:
            return
        emitter = self._emitter.at(step)
        for name, value in checked.items():
            emitter.scalar(name, value)

    def _have_rates_changed(self) -> bool:
        """Whether learning rates are others than at the step before; of those in tensors it is not asked."""
        groups = [] if self._optimizer is None else self._optimizer.param_groups
        rates = [group["lr"] for group in groups if type(group["lr"]) is float]
        before, self._rates = self._rates, rates
        return rates != before

    def step_time(self, step: int, seconds: float) -> None:
        """Emits ``step_ms``."""
        if self._emitter is not None:
            self._emitter.scalar("step_ms", seconds * 1e3, step=step)
