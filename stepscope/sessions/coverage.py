"""The coverage of a session: what it has checked, so that its verdict claims no more."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tracker_adapters.wording import are, counted, share_of, times

from debuggers.detectors.finding import name_some
from debuggers.gradients.parameter_watch import FIRST_LOOK
from stepscope.sessions.governor import Overhead
from stepscope.sessions.instruments import Instruments

_FEW_UNMEASURED = 0.1
"""Share of the steps at which individual parameters need not be measured, where all gradients together are checked."""
_UNSEEN_LOSSES = 0.1
"""Share of the steps whose loss may be unseen; the first one's is where a session begins inside of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was checked, and what was not.

    Attributes:
        steps: Steps of the session.
        last_step: The number of the last one.
        probed: Those of which it was seen whether all gradients are finite, and what their norm is together.
        measured: Those at which each parameter's gradient was measured in full.
        parameters: Parameters of the model, each once.
        recorded_layers: Layers whose gradients the loop recorded itself, in a session without a model; 0 with one.
        recorded_steps: How often it recorded the one that it recorded most often.
        skipped: Steps that a GradScaler skipped since the last one that it made, at least, where only those that it
            makes are seen.
        unseen_losses: Steps whose loss was neither seen nor told.
        frozen: Names of those that require no gradient.
        without_gradient: Names of those that require one, and never had it.
        lost_gradient: Names of those that require one, and had none for the last half of the steps.
        late_gradient: Names of those that require one, and had none for the first tenth of the steps or longer, such as
            of layers that were added.
        outside_optimizer: Names of those that require one, and are in no group of the optimizer.
        not_kept: Names of those whose gradients would have taken too much memory until the last of several optimizers
            steps.
        eval_steps: Steps at which the model was in eval mode, though it has layers that act otherwise there.
        eval_layers: Names of these layers.
        changed_late: Whether weights were changed over and over after the last step, as by another optimizer.
        unused_passes: Forward passes in training mode after the last step, if far more than steps take.
        missed_steps: Steps that one thread took while another one had paused the session, as ``probe`` does.
        replaced: Whether another session on the same model and optimizer has taken this one's place.
        optimizer: Whether there is an optimizer.
        movement: Whether there were enough steps and an optimizer, to see whether weights move at all.
        layers: Layers whose outputs were asked for; 0 if none were.
        unseen_layers: Names of those whose output was never seen.
        ended_tools: What a stability manager's debug session stopped watching, because of its own limits.
        not_told: What the diagnosis neither saw nor was told, such as targets; see ``Facts.not_told``.
        failures: How often something inside failed.
    """

    steps: int
    last_step: int
    probed: int
    measured: int
    parameters: int
    recorded_layers: int
    recorded_steps: int
    skipped: int
    unseen_losses: int
    frozen: tuple[str, ...]
    without_gradient: tuple[str, ...]
    lost_gradient: tuple[str, ...]
    late_gradient: tuple[str, ...]
    outside_optimizer: tuple[str, ...]
    not_kept: tuple[str, ...]
    eval_steps: int
    eval_layers: tuple[str, ...]
    changed_late: bool
    unused_passes: int
    missed_steps: int
    replaced: bool
    optimizer: bool
    movement: bool
    layers: int
    unseen_layers: tuple[str, ...]
    ended_tools: tuple[str, ...]
    not_told: tuple[str, ...]
    failures: int

    @classmethod
    def of(
        cls,
        instruments: Instruments,
        overhead: Overhead,
        *,
        last_step: int,
        failures: int,
        unused_passes: int = 0,
        missed_steps: int = 0,
        replaced: bool = False,
        ended_tools: Sequence[str] = (),
        not_told: Sequence[str] = (),
        waits: bool = True,
    ) -> Self:
        """Returns the coverage of a session; ``waits`` for the device, or leaves out what a GradScaler skipped."""
        watch = instruments.gradients.watch
        roles = None if watch is None else watch.roles()
        activations = instruments.activations
        recorded = instruments.gradients.recorded
        counts = recorded.counts if watch is None else {}
        return cls(
            steps=overhead.steps,
            last_step=max(last_step, recorded.last_step) if counts else last_step,
            probed=min(instruments.gradients.probed_steps, overhead.steps),
            measured=min(instruments.gradients.measured_steps, overhead.steps),
            parameters=0 if roles is None else len(roles.parameters),
            recorded_layers=len(counts),
            recorded_steps=max(counts.values(), default=0),
            skipped=instruments.skipped.count() if waits else 0,
            unseen_losses=instruments.unseen_losses,
            frozen=() if roles is None else roles.frozen,
            without_gradient=() if roles is None else roles.without_gradient,
            lost_gradient=() if roles is None else roles.lost_gradient,
            late_gradient=() if roles is None else roles.late_gradient,
            outside_optimizer=() if roles is None else roles.outside_optimizer,
            not_kept=() if roles is None else roles.not_kept,
            eval_steps=0 if watch is None or not watch.eval_layers else watch.eval_steps,
            eval_layers=() if watch is None else tuple(watch.eval_layers),
            changed_late=watch is not None and watch.changed_late,
            unused_passes=unused_passes,
            missed_steps=missed_steps,
            replaced=replaced,
            optimizer=watch is not None and watch.has_optimizer,
            movement=watch is not None and watch.sees_movement,
            layers=0 if activations is None else len(activations.chosen),
            unseen_layers=() if activations is None else tuple(activations.never_seen),
            ended_tools=tuple(ended_tools),
            not_told=tuple(not_told),
            failures=failures,
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        """One phrase for each thing that was not checked; empty if everything was."""
        if self.recorded_layers:
            return ("nothing was checked but the gradients that the loop recorded",)
        if not self.steps:
            calls = f" in {self.unused_passes:,} forward passes" if self.unused_passes else ""
            why = ", as the same model and optimizer were watched a second time" if self.replaced else ""
            return (f"no step was taken{calls}{why}",)
        if not self.parameters:
            return ("no gradients were watched",)
        found = []
        if self.probed < self.steps:
            found.append(f"the gradients of {share_of(self.steps - self.probed, self.steps, 'steps')} were not checked")
        if self.probed and self.measured < (1 - _FEW_UNMEASURED) * self.steps:
            found.append(f"individual parameters were measured at {share_of(self.measured, self.steps, 'steps')}")
        if self.unseen_losses > max(1, _UNSEEN_LOSSES * self.steps):
            found.append(f"the loss of {share_of(self.unseen_losses, self.steps, 'steps')} was not seen")
        if self.skipped:
            steps = counted(self.skipped, "steps")
            found.append(f"at the end the GradScaler skipped {steps} or more, which were not checked")
        if not self.movement:
            needed = f"{FIRST_LOOK} steps" if self.optimizer else f"an optimizer and {FIRST_LOOK} steps"
            found.append(f"to check whether weights change, {needed} are needed")
        for names, how in (
            (self.frozen, "frozen"),
            (self.without_gradient, "without gradient in every step"),
            (self.lost_gradient, "without gradient in the last half of the steps"),
            (self.late_gradient, "without gradient in the first tenth of the steps or longer"),
            (self.outside_optimizer, "in no group of the optimizer"),
            (self.not_kept, "without measured gradients, which are freed or changed before the step ends"),
        ):
            if names:
                part = share_of(len(names), self.parameters, "parameters")
                found.append(f"{part} {are(len(names))} {how} ({name_some(list(names))})")
        if self.unseen_layers:
            unseen = share_of(len(self.unseen_layers), self.layers, "layers")
            found.append(f"the outputs of {unseen} were never seen ({name_some(list(self.unseen_layers))})")
        found += self._beside_steps()
        found += self.not_told
        found += self.ended_tools
        if self.failures:
            found.append(f"an internal error occurred {times(self.failures)}")
        return tuple(found)

    def _beside_steps(self) -> list[str]:
        """What the steps themselves do not show: the model's mode, and what continues without them."""
        found = []
        if self.eval_steps:
            act = "acts" if len(self.eval_layers) == 1 else "act"
            layers = f"{name_some(list(self.eval_layers))} {act} differently in that mode"
            found.append(f"the model was in eval mode at {share_of(self.eval_steps, self.steps, 'steps')} ({layers})")
        if self.changed_late:
            found.append("weights still changed after the last observed step (another optimizer?)")
        if self.missed_steps:
            steps = counted(self.missed_steps, "steps")
            found.append(f"not seen: {steps} that one thread took while another had paused the session, as by probe()")
        if self.unused_passes:
            found.append(f"no step of the watched optimizer followed the last {self.unused_passes:,} forward passes")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields and the gaps as plain values."""
        values = asdict(self) | {"gaps": self.gaps}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    def summary(self) -> str:
        """Returns in one sentence what was checked."""
        if self.recorded_layers:
            layers = counted(self.recorded_layers, "layers")
            return f"Checked: the recorded gradients of {layers} at {counted(self.recorded_steps, 'steps')}."
        looked = f"the gradients of {share_of(self.probed, self.steps, 'steps')}"
        left_out = (self.frozen, self.without_gradient, self.lost_gradient, self.late_gradient, self.not_kept)
        seen = self.parameters - len(set().union(*left_out))
        full = f"{share_of(seen, self.parameters, 'parameters')} in full at {counted(self.measured, 'steps')}"
        text = f"Checked: {looked}, {full}"
        if self.layers:
            text += f", the outputs of {share_of(self.layers - len(self.unseen_layers), self.layers, 'layers')}"
        return text + "."
