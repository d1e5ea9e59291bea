"""Several optimizers that train one model, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from debuggers.instrumentation.optimizer_rounds import OptimizerRounds
from debuggers.torch_import import torch


class JoinedOptimizers(torch.optim.Optimizer):
    """Shows several optimizers as one: their groups one after the other, and the state of all parameters.

    Attributes:
        members: The optimizers, in the given order.
        rounds: Which of their steps make one step of the training.
    """

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        """Joins them; torch's own constructor, which makes groups and adds hooks to ``step``, is left out."""
        self.members = tuple(members)
        self.rounds = OptimizerRounds(self.members)

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of all members, as they are now."""
        return [group for member in self.members for group in member.param_groups]

    @property
    def state(self) -> Mapping[torch.Tensor, Any]:  # type: ignore[override]
        """The state of all parameters; asking for one that has none does not make any."""
        return _JoinedState(self.members)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Has all members step, on the gradients of one call of the closure."""
        if closure is None:
            for member in self.members:
                member.step()
            return None
        first, *others = self.members
        loss = first.step(closure)
        for member in others:
            member.step(lambda: loss)
        return loss


class _JoinedState(Mapping[torch.Tensor, Any]):
    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        self._members = members

    def __getitem__(self, parameter: torch.Tensor) -> Any:
        for member in self._members:
            if parameter in member.state:
                return member.state[parameter]
        raise KeyError(parameter)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (parameter for member in self._members for parameter in member.state)

    def __len__(self) -> int:
        return sum(len(member.state) for member in self._members)


def members_of(optimizer: torch.optim.Optimizer | None) -> tuple[torch.optim.Optimizer, ...]:
    """Returns the optimizers that step: those that were joined, or the one itself; none without one."""
    if optimizer is None:
        return ()
    return optimizer.members if isinstance(optimizer, JoinedOptimizers) else (optimizer,)


def rounds_of(optimizer: torch.optim.Optimizer | None) -> OptimizerRounds | None:
    """Returns the rounds of optimizers that were joined; None of a single one."""
    return optimizer.rounds if isinstance(optimizer, JoinedOptimizers) else None


def optimizer_name(optimizer: torch.optim.Optimizer | None) -> str:
    """Returns the class of an optimizer, of several ``Muon + AdamW``; ``""`` without one."""
    return " + ".join(type(member).__name__ for member in members_of(optimizer))


def learning_rates(optimizer: torch.optim.Optimizer | None) -> list[tuple[str, Any]]:
    """Returns the learning rate of each group, by the name of its series.

    That is ``learning_rate``, with several groups ``learning_rate/<index>``. Of several optimizers it is
    ``learning_rate/<class>``, in small letters, with ``_<index of the optimizer>`` where two are of one class, and
    with ``/<index>`` where it has several groups.
    """
    members = members_of(optimizer)
    kinds = [type(member).__name__.lower() for member in members]
    found = []
    for place, (member, kind) in enumerate(zip(members, kinds, strict=True)):
        name = "learning_rate"
        if len(members) > 1:
            name += f"/{kind}" if kinds.count(kind) == 1 else f"/{kind}_{place}"
        groups = member.param_groups
        found += [(name if len(groups) == 1 else f"{name}/{index}", group["lr"]) for index, group in enumerate(groups)]
    return found
