"""Tracks which parameters take part in the training: have gradients, belong to the optimizer, change."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from debuggers.detectors import Finding
from debuggers.detectors.finding import name_some
from debuggers.gradients.element_samples import SAMPLES
from debuggers.gradients.late_changes import LateChanges
from debuggers.gradients.parameters import Gradients, Parameters
from debuggers.gradients.weight_movement import IdleOptimizers, Movement, WeightMovement
from debuggers.instrumentation.joined_optimizers import members_of, rounds_of
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import held_parameters, resting_parameters

FIRST_LOOK = 25
"""Steps after which weights are compared first: a GradScaler may skip up to 16 at the beginning."""
LOOK_EVERY = 100
STILL = 1e-6
"""Below this relative change over all steps, weights count as standing still."""
_LATE = 0.1
"""Share of the steps in which a parameter may have no gradient at first."""
_TRAINED_BY: Any = torch.utils.weak.WeakIdKeyDictionary()
"""Of each parameter of the process that had a gradient at a step: the mark of the watch that began to see it last."""
_RULES = {
    "weights_stand_still": f"|Δw| / |w| of all parameters of the optimizer, over all steps, is below {STILL:g}",
    "idle_optimizer": f"|Δw| / |w| of the parameters of one of several optimizers is below {STILL:g}, others' move",
    "outside_optimizer": "no parameter that has gradients and is outside the optimizer ever changed",
    "non_finite_weight": "any NaN in a parameter or buffer at the end, or +inf in a parameter that is trained",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRoles:
    """Which parameters of a model take part in its training, by name.

    Attributes:
        parameters: All of them, without aliases.
        frozen: Those that require no gradient.
        trained_elsewhere: Those of the frozen ones that another watch of the process saw with gradients.
        without_gradient: Those that require one and never had it at a step.
        lost_gradient: Those that require one and had none for the last half of the steps, at least 25, though before;
            without those outside of the optimizer.
        late_gradient: Those whose first one came after a tenth of the steps: frozen until then, or added.
        outside_optimizer: Those that require one and are in no group of the optimizer; empty without an optimizer.
        idle: Those of one of several optimizers that changes none of its own.
        at_rate_zero: Those that have gradients, had not moved whenever it was looked, and belonged to a group of the
            optimizer whose rate was 0 then, while others moved.
        not_kept: Those of one of several optimizers whose gradients would have taken too much memory until the step
            ended; they are in none of the others for their gradients.
    """

    parameters: tuple[str, ...]
    frozen: tuple[str, ...]
    trained_elsewhere: tuple[str, ...]
    without_gradient: tuple[str, ...]
    lost_gradient: tuple[str, ...]
    late_gradient: tuple[str, ...]
    outside_optimizer: tuple[str, ...]
    idle: tuple[str, ...]
    at_rate_zero: tuple[str, ...]
    not_kept: tuple[str, ...]


class ParameterWatch:
    """Remembers which parameters had a gradient, and reports when the optimizer changes none of them.

    After 25 steps, then every 100 and at the end, up to 64 elements of each parameter are compared with what they
    were at the first step. ``weights_stand_still``: all elements of the optimizer's parameters together changed by less
    than 1e-6 of their norm, whenever it was looked. ``outside_optimizer``: parameters with gradient are in no
    group of the optimizer, and not one of these changed, so that no other optimizer seems to hold them either. Both
    are stepscope's own rules. For ``idle_optimizer`` see ``IdleOptimizers``.

    ``close`` looks once at all parameters and buffers: ``non_finite_weight`` are NaN that no gradient showed, such as
    running statistics of a batch norm that saw a batch with NaN, whose step the loop left out, and +inf in parameters
    that are trained, such as after a last step that was too large.

    Attributes:
        eval_steps: Steps at which the model was in eval mode.
        eval_layers: Names of its dropouts and batch norms that were; looked for at every hundredth such step.
        farthest: The largest change of the optimizer's parameters beside their size, of all times that it was looked.
        changed_late: Whether weights were changed over and over after the last step, as by another optimizer.
    """

    def __init__(
        self,
        parameters: Parameters,
        optimizer: torch.optim.Optimizer | None,
        arrivals: ArrivalQueue,
        announce: Callable[[list[Finding]], None],
        on_reshaped: Callable[[Sequence[str]], None] = lambda names: None,
    ) -> None:
        """Sets it up; ``on_reshaped`` gets names by which parameters of another shape go now, once for each shape."""
        self._on_reshaped = on_reshaped
        self._shapes: dict[str, set[torch.Size]] = {}
        self._parameters, self._optimizer = parameters, optimizer
        self._arrivals, self._announce = arrivals, announce
        self._mark = object()
        self._first_seen: dict[str, int] = {}
        self._absent_since: dict[str, int] = {}
        self._last: list[torch.Tensor] = []
        self._movement = WeightMovement()
        self._idle = IdleOptimizers(optimizer, STILL)
        self._moved = False
        self._resting: set[str] | None = None
        self._unmoved: set[str] | None = None
        self.farthest = 0.0
        self._late = LateChanges()
        self.changed_late = False
        self.eval_steps = 0
        self.eval_layers: list[str] = []
        self._findings: dict[str, Finding] = {}
        self._steps = 0
        self._last_step = 0

    def see(self, step: int, found: Gradients) -> None:
        """Takes the gradients of a step, before the optimizer's step."""
        self._last_step = step
        self._late.see(found.parameters)
        if self._parameters.in_eval_mode:
            if self.eval_steps % LOOK_EVERY == 0 and not self.eval_layers:
                self.eval_layers = self._parameters.bound_to_mode()
            self.eval_steps += 1
        if found.parameters is not self._last:
            self._last = found.parameters
            new = [name for name in found.names if name not in self._first_seen]
            absent = self._first_seen.keys() - set(found.names)
            self._absent_since = {name: self._absent_since.get(name, self._steps) for name in absent}
            if new:
                _TRAINED_BY.update((parameter, self._mark) for parameter in found.parameters)
            self._first_seen.update(dict.fromkeys(new, self._steps))
            self._note_shapes(found)
            self._movement.keep(dict(zip(found.names, found.parameters, strict=True)))
        if self._steps == FIRST_LOOK or (self._steps and self._steps % LOOK_EVERY == 0):
            self.compare_weights()
        self._steps += 1

    def _note_shapes(self, found: Gradients) -> None:
        reshaped = []
        for name, parameter in zip(found.names, found.parameters, strict=True):
            known = self._shapes.setdefault(name, set())
            if known and parameter.shape not in known:
                reshaped.append(name)
            known.add(parameter.shape)
        if reshaped:
            self._on_reshaped(reshaped)

    def compare_weights(self) -> None:
        """Compares the weights with what they were, if there were enough steps."""
        if not self.sees_movement:
            return
        resting = self._at_rate_zero()
        self._resting = resting if self._resting is None else self._resting & resting
        watched = {name: tensor for name, tensor in self._named().items() if name in self._first_seen}
        movement = self._movement.compare(watched)
        self._arrivals.push(movement, partial(self._take, self._last_step, self._steps, movement))

    def close(self, *, look_at_values: bool) -> None:
        """Looks for the last time; with ``look_at_values`` at all values, which waits for the device."""
        self.compare_weights()
        self.changed_late = self._late.are_there()
        broken = self._parameters.broken() if look_at_values and self._steps else []
        evidence = "NaN or infinity in weights or buffers at the end, that no gradient showed"
        self._judge("non_finite_weight", name_some(broken), self._last_step, evidence if broken else None, math.nan)

    @property
    def has_optimizer(self) -> bool:
        """Whether there is an optimizer, without which nothing tells when weights move."""
        return self._optimizer is not None

    @property
    def sees_movement(self) -> bool:
        """Whether there is an optimizer, and were enough steps, to say whether weights move."""
        return self.has_optimizer and self._steps >= FIRST_LOOK

    def findings(self) -> list[Finding]:
        """Returns the findings so far."""
        return list(self._findings.values())

    def roles(self) -> ParameterRoles:
        """Returns who takes part so far."""
        named = self._named()
        trainable = [name for name, parameter in named.items() if parameter.requires_grad]
        owned = None if self._optimizer is None else set(map(id, held_parameters(self._optimizer)))
        outside = [] if owned is None else [name for name in trainable if id(named[name]) not in owned]
        rounds = rounds_of(self._optimizer)
        not_kept = () if rounds is None else tuple(name for name in trainable if rounds.is_left_out(named[name]))
        latest = self._steps - max(
            FIRST_LOOK, self._steps / 2
        )  # parts that are trained in turn may be without for less
        frozen = [name for name, parameter in named.items() if not parameter.requires_grad]
        resting = (self._resting or set()) & (self._unmoved or set()) if self._moved else set()
        return ParameterRoles(
            parameters=tuple(named),
            frozen=tuple(frozen),
            trained_elsewhere=tuple(
                name for name in frozen if _TRAINED_BY.get(named[name], self._mark) is not self._mark
            ),
            without_gradient=tuple(name for name in trainable if name not in self._first_seen and name not in not_kept),
            lost_gradient=tuple(
                name
                for name in trainable
                if self._absent_since.get(name, math.inf) <= latest and name not in outside and name not in not_kept
            ),
            late_gradient=tuple(name for name in trainable if self._first_seen.get(name, 0) > _LATE * self._steps),
            outside_optimizer=tuple(outside),
            idle=tuple(name for names in self._idle.names.values() for name in names),
            at_rate_zero=tuple(name for name in named if name in resting),
            not_kept=not_kept,
        )

    def _at_rate_zero(self) -> set[str]:
        """Those that are in a group of the optimizer whose rate is 0 now."""
        held = {one for member in members_of(self._optimizer) for one in resting_parameters(member)}
        return {name for name, parameter in self._named().items() if id(parameter) in held} if held else set()

    def _named(self) -> dict[str, torch.Tensor]:
        return dict(zip(self._parameters.names, self._parameters.tensors, strict=True))

    def _take(self, step: int, steps: int, movement: Movement) -> None:
        tables = self._sparse_tables()
        moved = {name: norms for name, norms in movement.resolve().items() if name not in tables}
        outside = sorted(set(self.roles().outside_optimizer) & moved.keys())
        unmoved = {name for name, (change, _) in moved.items() if not change}
        self._unmoved = unmoved if self._unmoved is None else self._unmoved & unmoved
        mine = [norms for name, norms in moved.items() if name not in outside] or [(0.0, 0.0)]
        change, size = (math.hypot(*column) for column in zip(*mine, strict=True))
        # A parameter that starts at zero has no magnitude of its own to compare with: only all together count.
        ratio = change / size if size else math.inf
        # What was seen to move does not stand still where its first values are loaded again, as after a search for a
        # learning rate.
        self._moved = self._moved or not ratio < STILL  # what has become NaN was moved to there
        self.farthest = max(self.farthest, self._way({name: moved[name] for name in moved if name not in outside}))
        evidence = f"in {steps} steps they changed by {ratio:.2g} of their size, less than {STILL:g}"
        self._judge("weights_stand_still", "all weights", step, None if self._moved else evidence, ratio)
        for place, idle in self._idle.judge(steps, moved, self._named()).items():
            names = name_some(self._idle.names.get(place, []))
            self._judge("idle_optimizer", names, step, idle, 0.0, key=f"idle_optimizer/{place}")
        forgotten = outside and not any(moved[name][0] for name in outside)
        evidence = f"in no group of the optimizer, and unchanged in {steps} steps, though there are gradients"
        if outside and not forgotten:  # another optimizer has begun: it was never true that none holds them
            self._findings.pop("outside_optimizer", None)
        else:
            self._judge("outside_optimizer", name_some(outside), step, evidence if forgotten else None, 0.0)

    def _sparse_tables(self) -> frozenset[str]:
        """What SparseAdam trains: the rows that are compared may be none of the few that were read."""
        sparse = [one for one in members_of(self._optimizer) if isinstance(one, torch.optim.SparseAdam)]
        held = {id(parameter) for one in sparse for parameter in held_parameters(one)}
        return frozenset(name for name, parameter in self._named().items() if id(parameter) in held)

    def _way(self, moved: Mapping[str, tuple[float, float]]) -> float:
        """Returns the change of parameters beside their size, in which each counts by its number of elements."""
        named = self._named()
        counts = {name: named[name].numel() for name in moved if name in named}
        roots = {name: math.sqrt(count / min(count, SAMPLES)) for name, count in counts.items() if count}
        change, size = (math.hypot(*(moved[name][part] * root for name, root in roots.items())) for part in (0, 1))
        return change / size if size else 0.0

    def _judge(self, kind: str, name: str, step: int, evidence: str | None, value: float, *, key: str = "") -> None:
        """Begins, goes on with, or ends the finding of a kind; without evidence there is nothing wrong.

        ``key`` tells several of a kind apart.
        """
        key = key or kind
        before = self._findings.get(key)
        if evidence is None:
            if before is not None:
                self._findings[key] = replace(before, ongoing=False)
            return
        if before is not None:
            self._findings[key] = replace(before, last_step=step, ongoing=True, value=value, evidence=evidence)
            return
        self._findings[key] = Finding.going_on(
            kind,
            name,
            [step],
            level="error" if kind == "non_finite_weight" else "warning",
            value=value,
            threshold=STILL,
            evidence=evidence,
            rule=_RULES[kind],
        )
        self._announce([self._findings[key]])
