"""Decides whether hooks act on a tensor; where a condition asks for values on a device, once they have arrived."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracker_adapters.errors import ArtifactError

from debuggers.conditional_hooks.acting import HookActing
from debuggers.conditional_hooks.events import HookEvent, HookResult
from debuggers.conditional_hooks.registered import RegisteredHook
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.measurement.measure import PendingSummaries, measure
from debuggers.torch_import import torch


@dataclass(slots=True, eq=False)
class SeenTensor:
    """A tensor that hooks look at; the fields are those of ``HookEvent``. Frozen ones take long to make."""

    layer: str
    tensor: torch.Tensor
    step: int
    is_forward: bool
    given_step: int | None = None


class HookDeciding:
    """Asks the conditions of hooks, and has those act that hold."""

    def __init__(self, acting: HookActing, stopwatch: Stopwatch) -> None:
        """Takes who acts, and what adds up the time that measuring takes."""
        self._acting, self._stopwatch = acting, stopwatch
        self._arrivals = ArrivalQueue()

    def consider(self, entry: RegisteredHook, seen: SeenTensor) -> list[HookResult]:
        """Has a hook that may act at this step do so if its condition holds; returns what it did until now."""
        if not entry.needs_values:
            return self._act(entry, seen)
        condition = entry.hook.condition
        with self._stopwatch:
            bounds = None if condition is None else condition.bounds
            if bounds is not None and not bounds.may_hold(seen.tensor):
                return []
            pending = measure({seen.layer: seen.tensor})
        if pending.ready():
            return self._decide(entry, seen, pending)
        later = replace(seen, tensor=seen.tensor.clone())

        def decide() -> None:
            self._decide(entry, later, pending)

        self._arrivals.push(pending, decide)
        return []

    def take_arrived(self) -> None:
        """Decides what has arrived; waits for nothing."""
        self._arrivals.push(_NOTHING, lambda: None)

    def drain(self) -> None:
        """Decides everything, waiting for devices."""
        self._arrivals.drain()

    def _decide(self, entry: RegisteredHook, seen: SeenTensor, pending: PendingSummaries) -> list[HookResult]:
        try:
            accepted = entry.active and entry.accepts(seen.step, pending.resolve()[0])
        except Exception as error:
            self._acting.fail(entry, "its condition", error)
            return []
        return self._act(entry, seen) if accepted else []

    def _act(self, entry: RegisteredHook, seen: SeenTensor) -> list[HookResult]:
        event = HookEvent(
            entry.hook.name,
            seen.layer,
            seen.step,
            executions=entry.executions,
            is_forward=seen.is_forward,
            source=seen.tensor,
            given_step=seen.given_step,
        )
        return self._acting.act(entry, event)


class _Nothing:
    """What waits for no device: pushing it takes what has arrived."""

    def ready(self) -> bool:
        """True."""
        return True


_NOTHING = _Nothing()


def shaped(layer: str, tensor: torch.Tensor, shape: Sequence[int] | None) -> torch.Tensor:
    """Returns a tensor in a shape; as it is for None.

    Raises:
        ArtifactError: When its elements do not have that shape.
    """
    if shape is None:
        return tensor
    try:
        sizes = tuple(int(size) for size in shape)
        wanted = math.prod(sizes)
    except (TypeError, ValueError):
        raise ArtifactError(f"hook: layer {layer!r}: shape is {shape!r}; expected a sequence of sizes") from None
    if any(size < 0 for size in sizes) or wanted != tensor.numel():
        raise ArtifactError(
            f"hook: layer {layer!r}: {tensor.numel()} values have the shape {sizes}; expected sizes of that product"
        )
    return tensor.reshape(sizes)
