"""Whether training changes the weights at all: compares a few elements of each parameter with their first values.

Of several optimizers, too, which one changes none of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tracker_adapters.wording import counted

from debuggers.gradients.element_samples import sample_elements
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.instrumentation.joined_optimizers import members_of, rounds_of
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach

FEWEST_STEPS = 25
"""Own steps after which an optimizer has moved its weights."""
MISSED = 100
"""Steps of the others after which one that took none is missed: one may step at every 64th iteration."""


class WeightMovement:
    """Keeps at most 64 elements of each parameter, evenly spread, as they were when it was seen first."""

    def __init__(self) -> None:
        # A parameter that is replaced is not kept alive here.
        self._before: Any = torch.utils.weak.WeakIdKeyDictionary()

    @torch.no_grad()
    def keep(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Takes the elements of parameters that are not known yet; nothing waits for a device."""
        for parameter in parameters.values():
            if parameter not in self._before and (values := _sample(parameter)) is not None:
                self._before[parameter] = values

    @torch.no_grad()
    def compare(self, parameters: Mapping[str, torch.Tensor]) -> Movement:
        """Compares parameters with what they were; those that are not known yet are left out."""
        pairs: dict[torch.device, dict[str, tuple[torch.Tensor, torch.Tensor]]] = defaultdict(dict)
        for name, parameter in parameters.items():
            before = self._before.get(parameter)
            after = None if before is None else _sample(parameter)
            if after is not None and before.shape == after.shape and before.device == after.device:
                pairs[after.device][name] = before, after
        return Movement([(tuple(named), _norms(*zip(*named.values(), strict=True))) for named in pairs.values()])


class Movement:
    """How far parameters moved; it may still be on its way from devices."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[tuple[tuple[str, ...], DeferredTensor]]) -> None:
        """Takes for each device the names, and two rows: norms of the elements' change, and their own."""
        self._parts = parts

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait."""
        return all(norms.ready() for _, norms in self._parts)

    def resolve(self) -> dict[str, tuple[float, float]]:
        """Waits for the devices; returns by name the norm of the elements' change, and their own, the larger one."""
        found: dict[str, tuple[float, float]] = {}
        for names, norms in self._parts:
            found.update(zip(names, zip(*norms.resolve().tolist(), strict=True), strict=True))
        return found


def _norms(before: tuple[torch.Tensor, ...], after: tuple[torch.Tensor, ...]) -> DeferredTensor:
    """Starts to copy the norms of the elements' change, and of the elements where they are larger: (2, tensors)."""
    changes = [new - old for old, new in zip(before, after, strict=True)]
    change, old, new = (torch.stack(foreach.norm(list(tensors))) for tensors in (changes, before, after))
    return DeferredTensor(torch.stack([change, torch.maximum(old, new)]))


def _sample(parameter: torch.Tensor) -> torch.Tensor | None:
    """Some elements in float64; None where there are none to take."""
    values = sample_elements(parameter)
    return None if values is None else values.double()


class IdleOptimizers:
    """Judges each of several optimizers by how far its parameters have come since the first step.

    Idle is one whose parameters changed by less than a share of their size, and never by more, in 25 steps of its own,
    or one that took no step in 100 steps of the training; only as long as parameters of another one have moved. It is
    stepscope's own rule.
    """

    def __init__(self, optimizer: torch.optim.Optimizer | None, still: float) -> None:
        """Takes joined optimizers, of others nothing is judged, and the change below which weights stand still."""
        self._members, self._rounds, self._still = members_of(optimizer), rounds_of(optimizer), still
        self._moved: set[int] = set()
        self.names: dict[int, list[str]] = {}
        """The parameters of each that is idle now, by its place."""

    def judge(
        self, steps: int, moved: Mapping[str, tuple[float, float]], named: Mapping[str, torch.Tensor]
    ) -> dict[int, str | None]:
        """Returns for each optimizer, by its place, the evidence that it is idle; None of one that is not.

        Args:
            steps: The steps of the training so far.
            moved: How far parameters that had gradients have come: the norm of the change, and their own.
            named: All parameters.
        """
        self.names = {}
        if self._rounds is None:
            return {}
        mine: dict[int, list[str]] = {}
        for name in moved:
            place = self._rounds.member_of(named[name]) if name in named else None
            if place is not None:
                mine.setdefault(place, []).append(name)
        ratios = {place: _ratio([moved[name] for name in names]) for place, names in mine.items()}
        # Weights that have become NaN were moved to there.
        self._moved |= {place for place, ratio in ratios.items() if not ratio < self._still}
        found: dict[int, str | None] = {}
        for place, ratio in ratios.items():
            found[place] = evidence = self._evidence(place, ratio, steps) if self._moved - {place} else None
            if evidence is not None:
                self.names[place] = mine[place]
        return found

    def _evidence(self, place: int, ratio: float, steps: int) -> str | None:
        assert self._rounds is not None
        if place in self._moved:
            return None
        member, own = self._members[place], self._rounds.counts[place]
        name = f"optimizer[{place}] ({type(member).__name__})"
        if not own:
            return f"{name}, which holds them, took no step in {steps:,}" if steps >= MISSED else None
        if own < FEWEST_STEPS:
            return None
        rates = [group["lr"] for group in member.param_groups]
        why = ", with a learning rate of 0," if not any(map(bool, rates)) else ""
        return f"{counted(own, 'steps')} of {name}{why} changed them by {ratio:.2g} of their size"


def _ratio(norms: Sequence[tuple[float, float]]) -> float:
    change, size = (math.hypot(*column) for column in zip(*norms, strict=True))
    return change / size if size else math.inf if change else 0.0
