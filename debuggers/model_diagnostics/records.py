"""What a loop records about its model and its training, checked."""

import math
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Annotated

from msgspec import Meta
from tracker_adapters.values.checked_values import PositiveInteger, check_fields

from debuggers.errors import DebuggerConfigError

_Count = Annotated[int, Meta(ge=0, description="an integer of at least 0")]
_Number = Annotated[float, Meta(description="a number")]
_Amount = Annotated[float, Meta(ge=0, description="a number of at least 0")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArchitectureInfo:
    """The size and shape of a model.

    Attributes:
        total_parameters: Number of elements of all parameters; a shared one counts once.
        trainable_parameters: Those with ``requires_grad``.
        model_size_mb: Bytes of parameters and buffers, over 2**20.
        layer_count: Number of modules without submodules.
        depth: Deepest nesting of modules: 0 for a single layer.
        parameters_by_module: Number of elements of the parameters that each module holds itself, by its dotted name.
        widths: Number of outputs of each linear, embedding or convolutional layer, in the order of registration.
        bottlenecks: The layers of ``widths`` that are narrower than a quarter of both neighbours.

    Raises:
        DebuggerConfigError: For a wrong value.
    """

    total_parameters: _Count
    trainable_parameters: _Count
    model_size_mb: _Amount
    layer_count: _Count
    depth: _Count | None = None
    parameters_by_module: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    bottlenecks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, DebuggerConfigError, "model architecture: ")
        if self.trainable_parameters > self.total_parameters:
            raise DebuggerConfigError(
                f"model architecture: trainable_parameters is {self.trainable_parameters}; expected at most "
                f"total_parameters, {self.total_parameters}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPerformanceMetrics:
    """The numbers of one training step. NaN and infinity are legal everywhere but in integers.

    Arrays and tensors without dimensions are numbers, too. Reading a tensor on a device waits for it.

    Attributes:
        training_step: The step.
        loss: The training loss. Of a tensor on a device, record it at few steps.
        validation_loss: The loss on data that is not trained on, of the same kind.
        accuracy: Share of right answers, from 0 to 1.
        learning_rate: The learning rate.
        batch_size: Number of samples of the step, at least 1.
        throughput_samples_per_sec: Samples per second, at least 0; as all that follows but the time.
        memory_usage_mb: Memory in use, in MiB.
        gpu_utilization: In per cent.
        timestamp: When it was; not used in any formula.

    Raises:
        DebuggerConfigError: For a wrong value, such as a str, or an accuracy in per cent.
    """

    training_step: _Count
    loss: _Number
    validation_loss: _Number | None = None
    accuracy: _Number | None = None
    learning_rate: _Number | None = None
    batch_size: PositiveInteger | None = None
    throughput_samples_per_sec: _Number | None = None
    memory_usage_mb: _Number | None = None
    gpu_utilization: _Number | None = None
    timestamp: datetime | None = None

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            if getattr(value := getattr(self, name), "ndim", None) == 0:
                with suppress(RuntimeError, NotImplementedError):  # of a tensor without data, which is no number
                    object.__setattr__(self, name, value.item())
        check_fields(self, DebuggerConfigError, "performance metrics: ")
        for name, (most, words) in _AMOUNTS.items():
            if (value := getattr(self, name)) is not None and (value < 0 or value > most):  # NaN is neither
                raise DebuggerConfigError(f"performance metrics: {name} is {value!r}; expected {words}, or None")


_AMOUNTS = {
    "accuracy": (1.0, "a share from 0 to 1, such as 0.85"),
    **dict.fromkeys(
        ("throughput_samples_per_sec", "memory_usage_mb", "gpu_utilization"), (math.inf, "a number of at least 0")
    ),
}
"""The most of numbers that are not negative, and what is expected of them in words."""
_NUMBERS = tuple(one.name for one in fields(ModelPerformanceMetrics) if one.name != "timestamp")
