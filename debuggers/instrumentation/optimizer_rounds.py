"""Which steps of several optimizers make one step of a training, and what their gradients were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from debuggers.instrumentation.kept_gradients import KeptGradients
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import handed_to
from debuggers.torch_internals.optimizers import held_parameters

Listener: TypeAlias = Callable[[torch.optim.Optimizer], None]

FOLLOWS = 3
"""Times in a row that an optimizer steps right after others, from which they wait for it once more."""


class RoundHandle:
    """Ends a listening."""

    def __init__(self, listeners: dict[int, Listener], key: int) -> None:
        self._listeners, self._key = listeners, key

    def remove(self) -> None:
        """Ends it; calling it again does nothing."""
        self._listeners.pop(self._key, None)


class OptimizerRounds:
    """Makes rounds of the steps of several optimizers: a round is one step of the training.

    A round ends with the optimizer after which no other is expected. The order is that in which the optimizers took
    their first steps, and at first all are expected. One that was waited for and did not step, because another that
    comes before it steps again, is expected no more, until it has followed the others once, or where that was in vain
    three times in a row: until then its steps are rounds of their own. One that has not come yet, or three times, may
    be missing once. So a round never waits for long, and none contains two steps of one optimizer. A critic that takes
    five steps for one of its generator soon has a round for each of the six.

    In a round, the gradients of an optimizer that has stepped are those that it stepped with, whatever became of
    them since; see ``KeptGradients``.

    Attributes:
        current: The member whose step begins or runs; None outside of them, and where a round ends late.
        alternates: Whether backward passes come between the steps of a round, as those of a GAN.
        had_pass: Whether a backward pass came since the round before: one that steps at every fourth iteration, after
            the others, has none of its own.
        is_late: Whether a round ends that has waited for an optimizer that does not come, so that backward passes may
            have come after its last step.
        guard: Catches what fails where gradients are kept, such as for want of memory; by default nothing is caught.
    """

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        self.current: torch.optim.Optimizer | None = None
        self.alternates = self.is_late = self.had_pass = False
        self.guard: Callable[[str], AbstractContextManager[object, bool | None]] = lambda place: nullcontext()
        self._members = tuple(members)
        self._places = {id(member): place for place, member in enumerate(members)}
        # In the order of their first steps; those that took none come last, in the given order.
        self._ranks = [len(members) + place for place in range(len(members))]
        self._expected = set(range(len(members)))
        self._follows, self._joined, self._misses, self._drops = ([0] * len(members) for _ in range(4))
        self._counts = [0] * len(members)
        self._stepped: list[int] = []
        self._before = -1
        """The place of the last optimizer of the last round."""
        self._last = -1
        """The place of the optimizer that stepped last."""
        self._passed = self._is_ready = False
        self._begin: dict[int, Listener] = {}
        self._keep: dict[int, Listener] = {}
        self._end: dict[int, Listener] = {}
        self._listeners = 0
        self._kept = KeptGradients()
        self._held: dict[int, int] = {}
        self._groups: list[tuple[int, int]] = []
        self._overflows: list[torch.Tensor] = []
        self._see_groups()

    def on_begin(self, function: Listener) -> RoundHandle:
        """Has a function called when the gradients of a round are complete, in the last optimizer's step."""
        return self._listen(self._begin, function)

    def on_keep(self, function: Listener) -> RoundHandle:
        """Has a function called in each other optimizer's step, with it, before it changes its weights."""
        return self._listen(self._keep, function)

    def on_end(self, function: Listener) -> RoundHandle:
        """Has a function called when a round has ended, after the last optimizer's step."""
        return self._listen(self._end, function)

    def _listen(self, listeners: dict[int, Listener], function: Listener) -> RoundHandle:
        self._listeners += 1
        listeners[self._listeners] = function
        return RoundHandle(listeners, self._listeners)

    @property
    def is_open(self) -> bool:
        """Whether an optimizer has stepped, or begun to, and its round has not ended."""
        return bool(self._stepped)

    @property
    def counts(self) -> Sequence[int]:
        """How many steps each member took so far."""
        return self._counts

    def leave(self, member: torch.optim.Optimizer) -> None:
        """Ends a round that waits, if the coming step of a member does not belong to it."""
        if self._stepped and self._ranks[self._places[id(member)]] <= self._ranks[self._stepped[-1]]:
            self.finish()

    def begins(self, member: torch.optim.Optimizer) -> None:
        """Takes that a member's gradients are complete, inside of its step; calls who listens."""
        place = self._places[id(member)]
        self.leave(member)
        if self._stepped:
            self._kept.weigh(self._stepped[-1])
        else:
            self._see_groups()
        self._see_order(place)
        self.current = member
        self._stepped.append(place)
        self._counts[place] += 1
        self.had_pass |= self._passed
        self._last, self._passed = place, False
        if self._is_awaited(place):
            with self.guard("keeping gradients"):
                self._keep_gradients(place)
            for function in list(self._keep.values()):
                function(member)
        else:
            with self.guard("keeping gradients"):
                self._unscale(place, is_last=True)
            self._fire()

    def ends(self, member: torch.optim.Optimizer) -> None:
        """Takes that a member has stepped."""
        if self.current is not member:
            return
        if (handed := handed_to(member)) is not None:
            self._overflows.append(handed[1])
        self.current = None
        if self._is_ready:
            self._close()

    def pass_begins(self) -> None:
        """Takes that a backward pass begins."""
        self._passed = True
        self._kept.weigh_all()

    def finish(self) -> None:
        """Ends a round that waits, for optimizers that do not come."""
        if not self._stepped:
            return
        self.current = None
        if not self._is_ready:
            rank = self._ranks[self._stepped[-1]]
            for one in [one for one in self._expected if self._ranks[one] > rank]:
                self._miss(one)
            self.is_late = True
        try:
            if self.is_late:
                self._fire()
        finally:
            try:
                self._close()
            finally:
                self.is_late = False

    def forget(self) -> None:
        """Drops a round that has not ended."""
        self._stepped, self._overflows = [], []
        self._kept.clear()
        self.current, self._is_ready, self.had_pass = None, False, False

    def gradient_of(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """Returns the gradient of a parameter in the round, and outside of one its gradient as it is.

        In a round it is None of a member that steps at other times, and of one whose gradients are not kept.
        """
        if not self._stepped:
            return parameter.grad
        if parameter in self._kept:
            return self._kept.gradient_of(parameter)
        place = self._held.get(id(parameter))
        if place is None or not self._counts[place]:
            return parameter.grad
        is_gone = self.is_left_out(parameter) and (self.is_late or self._is_scaled(place))
        return parameter.grad if place == self._stepped[-1] and not is_gone else None

    def _is_scaled(self, place: int) -> bool:
        """Whether a fused member is handed gradients with a GradScaler's scale."""
        handed = handed_to(self._members[place])
        return handed is not None and handed[0] is not None

    def is_left_out(self, parameter: torch.Tensor) -> bool:
        """Whether the gradient of a parameter is not kept, as it would take too much memory."""
        return self._held.get(id(parameter)) in self._kept.left_out

    def steps_now(self, parameter: torch.Tensor) -> bool:
        """Whether the member whose step runs holds a parameter, so that its weights have not moved yet."""
        return self.current is not None and self._held.get(id(parameter)) == self._places[id(self.current)]

    def steps_in(self, parameter: torch.Tensor) -> bool:
        """Whether a member that holds a parameter has stepped in this round, or does now."""
        return self._held.get(id(parameter)) in self._stepped

    def has_moved(self, parameter: torch.Tensor) -> bool:
        """Whether a member has stepped in this round, before the one whose step runs, that holds a parameter."""
        place = self._held.get(id(parameter))
        return place is not None and place in self._stepped and not self.steps_now(parameter)

    def member_of(self, parameter: torch.Tensor) -> int | None:
        """Returns the place of the member that holds a parameter; the last one's if several do."""
        return self._held.get(id(parameter))

    def overflow(self) -> torch.Tensor | None:
        """Returns a 0-d tensor above 0 if an overflow kept a fused member from updating in this round, else None."""
        if not self._overflows:
            return None
        return torch.stack([one.reshape(()).to(self._overflows[0].device) for one in self._overflows]).amax()

    def _see_order(self, place: int) -> None:
        """Learns which optimizer steps after which."""
        if self._ranks[place] >= len(self._ranks):
            self._ranks[place] = sum(rank < len(self._ranks) for rank in self._ranks)
        if self._last >= 0 and self._ranks[place] > self._ranks[self._last] and self._passed:
            self.alternates = True
        if not self._stepped and self._before >= 0:
            for one in range(len(self._members)):
                if one not in self._expected and self._ranks[one] > self._ranks[self._before]:
                    self._follows[one] = self._follows[one] + 1 if one == place else 0
                    if self._follows[one] >= (FOLLOWS if self._drops[one] > 1 else 1):
                        self._expected.add(one)

    def _miss(self, place: int) -> None:
        """Takes that an expected optimizer did not come.

        A GradScaler may skip the first step of one, and single steps of one that always came.
        """
        self._misses[place] += 1
        if 0 < self._joined[place] < FOLLOWS or self._misses[place] > 1:
            self._expected.discard(place)
            self._drops[place] += 1
            self._joined[place] = self._misses[place] = 0

    def _is_awaited(self, place: int) -> bool:
        """Whether another optimizer is expected after one."""
        return any(self._ranks[one] > self._ranks[place] for one in self._expected)

    def _fire(self) -> None:
        self._is_ready = True
        member = self._members[self._stepped[-1]]
        for function in list(self._begin.values()):
            function(member)

    def _close(self) -> None:
        self._kept.learn()
        for place in self._stepped:
            self._joined[place] += 1
            self._misses[place] = 0
        self._before = self._stepped[-1]
        member = self._members[self._before]
        try:
            for function in list(self._end.values()):
                function(member)
        finally:
            self.forget()

    def _keep_gradients(self, place: int) -> None:
        if not self._unscale(place, is_last=False):
            self._kept.keep(place, held_parameters(self._members[place]), is_first=self._counts[place] == 1)

    def _unscale(self, place: int, *, is_last: bool) -> bool:
        """Keeps copies without the scale of a fused optimizer's GradScaler; returns whether there is one."""
        member = self._members[place]
        handed = handed_to(member)
        if handed is None or handed[0] is None:
            return False
        self._kept.keep_unscaled(place, held_parameters(member), handed[0], is_last=is_last)
        return True

    def _see_groups(self) -> None:
        """Learns who holds which parameter; of those that several hold, the last one."""
        groups = [(id(group["params"]), len(group["params"])) for one in self._members for group in one.param_groups]
        if groups == self._groups:
            return
        self._groups = groups
        self._held = {id(one): place for place, member in enumerate(self._members) for one in held_parameters(member)}
