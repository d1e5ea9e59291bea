"""What all ways of clipping share: they measure, clip, and keep what must survive a checkpoint."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach
from stability.clipping.config import GradientClippingConfig
from stability.errors import StabilityError
from stability.gradients.measure import Gradients, Norms, measure, shared_norms, wide_dtype
from stability.results.step import ClippingStats


@dataclass(frozen=True, slots=True)
class Clipped:
    """What was done to the gradients of a step.

    Attributes:
        total_norm: Before clipping.
        coefficient: The smallest factor that a gradient, or an element of one, was multiplied by; 1.0 when all were
            left as they are.
        threshold: What was compared with it: a norm, a magnitude or a ratio; None where there is not one.
        parameters: How many gradients were changed.
        clipped_norm: The total norm after clipping; None where that would take another pass.
    """

    total_norm: float
    coefficient: float = 1.0
    threshold: float | None = None
    parameters: int = 0
    clipped_norm: float | None = None


class Clipper(ABC):
    """One way of clipping, for one training loop: some remember the norms of earlier steps."""

    def __init__(self, config: GradientClippingConfig) -> None:
        self._config = config

    def check(self, gradients: Gradients) -> None:  # noqa: B027 - most ways clip whatever there is
        """Raises StabilityError for gradients, or names of the configuration, that cannot be clipped in this way.

        Called before anything is done about a step.
        """

    def measure(self, gradients: Gradients, loss: torch.Tensor | float, summaries: SummaryTable | None = None) -> Norms:
        """Returns the norms of gradients, and what ``clip`` needs beside them, with one synchronisation.

        Args:
            gradients: What to measure. Measure again when something changed them before ``clip``.
            loss: Travels to the host in the same copy.
            summaries: Of these gradients, as measured already; they save a pass where their digits suffice.

        Raises:
            StabilityError: When the summaries are of another number of gradients, or of other sizes.
        """
        if summaries is not None:
            if len(summaries) != len(gradients.tensors):
                raise StabilityError(
                    f"got summaries of {len(summaries)} gradients; expected {len(gradients.tensors)}, one for each "
                    "parameter with a gradient"
                )
            sizes = [tensor.numel() for tensor in gradients.tensors]
            if (elements := summaries.tally("count").tolist()) != sizes:
                index = next(index for index, size in enumerate(sizes) if elements[index] != size)
                raise StabilityError(
                    f"the summary of {gradients.names[index]} is of {elements[index]} elements and its gradient has "
                    f"{sizes[index]}; expected summaries of these gradients, in the order of model.parameters()"
                )
            shared = shared_norms(summaries, loss, self._config.norm_type, self._exact_from())
            if shared is not None:
                return shared
        return self._measure_exactly(gradients, loss)

    def _measure_exactly(self, gradients: Gradients, loss: torch.Tensor | float) -> Norms:
        return measure(gradients, loss, self._config.norm_type, self._config.max_norm)

    @abstractmethod
    def clip(self, gradients: Gradients, norms: Norms) -> Clipped:
        """Clips gradients in place. All are finite; their norm may be beyond the range of their dtype.

        Args:
            gradients: As they were measured.
            norms: From ``measure``.
        """

    def stats(self, clipped: Clipped, outside_optimizer: int, outside_model: int) -> ClippingStats:
        """Returns what a step tells of its clipping; the last two are the numbers of ``optimizer_check.Strangers``."""
        return ClippingStats(
            clipping_type=self._config.clipping_type,
            max_norm=self._config.max_norm,
            norm_type=self._config.norm_type,
            total_norm=clipped.total_norm,
            clip_coefficient=clipped.coefficient,
            clipped=clipped.parameters > 0,
            clipped_norm=clipped.clipped_norm,
            threshold=clipped.threshold,
            clipped_parameters=clipped.parameters,
            parameters_outside_optimizer=outside_optimizer,
            parameters_outside_model=outside_model,
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs: plain values; empty when nothing is remembered."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` gave.

        Raises:
            StabilityError: When it is of another way of clipping.
        """
        if set(state) != set(self.state_dict()):
            raise StabilityError(
                f"the state of clipping holds {sorted(state)}; expected {sorted(self.state_dict())}, "
                f"as clipping of type {self._config.clipping_type!r} keeps"
            )

    def _exact_from(self) -> float:
        """Total norms close to this one or above need the last digits of float32, because of what is compared."""
        return math.inf


def refuse_shards(gradients: Gradients, clipping_type: str) -> None:
    """Raises StabilityError when a gradient lies in parts on several ranks; names the first."""
    for name, groups in zip(gradients.names, gradients.groups, strict=True):
        if groups:
            raise StabilityError(
                f"the gradient of {name} is sharded, which clipping of type {clipping_type!r} cannot clip; expected "
                "whole gradients, or the type 'norm', 'global_norm', 'value', 'adaptive', 'exponential' or 'layer_wise'"
            )


@torch.no_grad()
def multiply(gradients: Gradients, factors: Mapping[int, float]) -> None:
    """Multiplies gradients in place by numbers on the host, which costs no copy to a device.

    Args:
        gradients: What to change.
        factors: A factor for each position to be changed. One that is too small to be a normal number of the
            gradient's dtype is applied in float64.
    """
    tensors = [gradients.tensors[index] for index in factors]
    if all(factor >= torch.finfo(tensor.dtype).tiny for tensor, factor in zip(tensors, factors.values(), strict=True)):
        foreach.mul_(tensors, list(factors.values()))
    else:
        for tensor, factor in zip(tensors, factors.values(), strict=True):
            tensor.copy_(tensor.to(wide_dtype(tensor)) * factor)
    gradients.store()


@torch.no_grad()
def clamp_magnitudes(gradients: Gradients, bound: float, indices: Iterable[int]) -> None:
    """Brings the elements of some gradients into [-bound, bound]; complex ones keep their direction."""
    for index in indices:
        tensor = gradients.tensors[index]
        if tensor.is_complex():
            tensor.mul_((bound / tensor.abs()).clamp_(max=1.0))
        else:
            tensor.clamp_(-bound, bound)
    gradients.store()
