"""Observes a training from outside, and says what is known of it: its facts, and the findings of broken invariants."""

import math
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace as with_fields

from debuggers.detectors import Finding
from debuggers.diagnosis.facts import Facts
from debuggers.gradients.parameter_watch import ParameterWatch
from debuggers.gradients.parameters import Parameters
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.joined_optimizers import members_of, optimizer_name, rounds_of
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.observed_training.broken_batch import BrokenBatch
from debuggers.observed_training.clip_calls import Clippings
from debuggers.observed_training.evaluation_losses import EvaluationLoss
from debuggers.observed_training.forward_calls import ForwardCalls, dtype_name
from debuggers.observed_training.graphs.loss_view import LossView
from debuggers.observed_training.invariants import InvariantLog
from debuggers.observed_training.known_losses import KnownLosses, not_told
from debuggers.observed_training.loop_tally import LoopTally
from debuggers.observed_training.loss_graphs import LossGraphs
from debuggers.observed_training.model_facts import FirstFacts, flagged_modules, frozen_batch_norms, world_size
from debuggers.observed_training.roles import parameter_roles
from debuggers.observed_training.step_movement import StepMovement
from debuggers.observed_training.step_passes import StepPasses
from debuggers.observed_training.told_validation import ToldValidation
from debuggers.observed_training.unused_gradients import UnusedGradients
from debuggers.signals.sampled_steps import is_sampled
from debuggers.signals.sampling import usable
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import unscaling_changes
from debuggers.torch_internals.optimizers import held_parameters
from debuggers.utils import tensors_in

_EVAL_MODE = "eval_mode_in_training"
_FEWEST_LOST = 2
"""Backward passes of a step whose gradients are lost, from which it is no other model that is trained in turn."""
_FEWEST_LENT = 3
"""Sampled calls of a model with others' weights from which these are what is trained."""
_LENT = (
    "the model was called with weights that are not its own (torch.func.functional_call), and the optimizer holds none "
    "of its own: how they are trained was not judged"
)
_SCHEDULED = 10
"""The step at which the scheduler is looked for."""


class TrainingObserver:
    """Observes a model and its optimizer from ``start`` to ``close``; whatever fails inside is isolated.

    Nothing waits for a device but ``facts`` and ``findings``, if asked to; nothing of the training is changed or kept.

    Attributes:
        passes: The backward passes of the coming step.
        calls: The calls of the model.
        told_validation: Looks at the validations that the loop tells.
        error: The exception that ended the training, in one line.
        is_told_step_end: Whether ``after_step`` is called, in place of a hook of the optimizer's steps.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        scaler: torch.amp.GradScaler | None,
        *,
        isolation: Isolation,
        stopwatch: Stopwatch,
        on_loss: Callable[[LossView], None] = lambda view: None,
        on_backward_end: Callable[[], None] = lambda: None,
        on_step_end: Callable[[], None] = lambda: None,
        on_broken_batch: Callable[[int, int], None] = lambda step, count: None,
        on_evaluation: Callable[[int, torch.Tensor], None] = lambda step, outputs: None,
        on_evaluation_loss: Callable[[int, EvaluationLoss], None] = lambda step, loss: None,
    ) -> None:
        """Sets it up.

        ``on_loss`` gets what the graph of a loss shows, at the steps at which it is looked at; ``on_backward_end`` is
        called after each backward pass of the model; ``on_step_end`` after each step of the optimizer;
        ``on_broken_batch`` gets the step of the first loss that is not
        finite, where it is known on the host and its call is not sampled, and how many of the inputs are not finite: of
        a step that is sampled before that ends;
        ``on_evaluation`` gets the last step and the outputs of the first call without gradients after it;
        ``on_evaluation_loss`` the last step, and each loss of such a call.
        """
        self._model, self._optimizer = model, optimizer
        self._isolation, self._stopwatch = isolation, stopwatch
        self._on_loss, self._on_step_end, self._on_broken_batch = on_loss, on_step_end, on_broken_batch
        self._broken = BrokenBatch()
        mine = Parameters(model)
        held = None if optimizer is None else set(map(id, held_parameters(optimizer)))
        trainable = [one for one in mine.tensors if one.requires_grad]
        # An optimizer of another model holds none of them: their gradients show that it does.
        mine_held = [one for one in trainable if held is None or id(one) in held]
        self._holds, trained = bool(mine_held), mine_held or trainable
        self._rounds = rounds_of(optimizer)
        self.passes = StepPasses(
            trained,
            scaler,
            self._before_pass,
            on_backward_end,
            self._is_trained,
            calls=lambda: self.calls.counts,
            rounds=self._rounds,
        )
        self.calls = ForwardCalls(
            model,
            isolation,
            stopwatch,
            on_training=self.passes.trains_here,
            on_evaluation=lambda values: on_evaluation(self._last_step, values),
            on_evaluation_loss=lambda loss: on_evaluation_loss(self._last_step, loss),
        )
        self.told_validation = ToldValidation(model, self.calls.validations, self.calls.random, isolation)
        self.error = ""
        self.is_told_step_end = False
        self._invariants, self._losses = InvariantLog(), KnownLosses()
        self._graphs = LossGraphs(
            model, optimizer, self.calls, self.passes, losses=self._losses, invariants=self._invariants
        )
        self._hooks, self._arrivals = Hooks(), ArrivalQueue()
        self._first, self._trained = FirstFacts(model, optimizer, mine), trained
        self._is_observing = False
        self._movement = StepMovement(self._invariants, self._arrivals)
        self._tally, self._last_step = LoopTally(), -1
        self._looks_closely = is_sampled(0)
        self._precision, self._loses_passes = "", False
        self._unused = UnusedGradients(() if optimizer is None else trained)
        self._told: set[str] = set()
        self.clippings = Clippings(
            self.passes,
            optimizer,
            trained,
            mine.tensors,
            isolation=isolation,
            stopwatch=stopwatch,
            step=lambda: self._last_step + 1,
            invariants=self._invariants,
        )

    def start(self) -> None:
        """Begins to observe."""
        if self._is_observing:
            return
        with self._isolation.guard("observing a training"):
            self._is_observing = True
            self.passes.start()
            self.calls.attach()
            self.clippings.start()
            if self._optimizer is not None and not self.is_told_step_end and not len(self._hooks):
                self._hooks.add_optimizer_post_step(self._optimizer, lambda optimizer: self.after_step())

    def pause(self) -> None:
        """Observes nothing until ``start``."""
        self._is_observing = False
        self._unused.judge(self.passes, self._invariants)
        self.passes.stop()
        self.calls.detach()
        self._hooks.remove()
        self._movement.forget()
        self.clippings.stop()

    def optimizer_begins(self) -> None:
        """Says that one of several optimizers begins its step."""
        with self._stopwatch, self._isolation.guard("observing a step"):
            self.passes.optimizer_begins()

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        self.passes.scaler = scaler

    def loss(self) -> torch.Tensor | float | None:
        """Returns the loss of the coming step as its backward passes showed it; None where it was not seen."""
        with self._isolation.guard("observing the loss"):
            return self.passes.loss(self._losses.factor)
        return None

    def tell(self, **told: Any) -> None:
        """Takes what a loop told of its batch: ``loss``, ``inputs``, ``outputs`` or ``targets``.

        Tensors that hold nothing to look at, such as sparse ones, tell nothing.
        """
        new = {name: value for name, value in told.items() if value is not None and name not in self._told}
        self._told.update(name for name, value in new.items() if name == "loss" or any(map(_says, tensors_in(value))))
        tensor = told.get("targets")
        if isinstance(tensor, torch.Tensor):
            self._losses.see_targets(tensor)

    def step(self, step: int) -> None:
        """Takes a step, after its backward passes and before the optimizer changes the weights."""
        with self._isolation.guard("observing a step"):  # its time is the session's
            self.passes.trains_here()
            if not self._tally.steps:
                self._first.look()
            if self._tally.steps == _SCHEDULED - 1:
                self._first.look_for_scheduler()
            looks = self._looks_closely
            self._check(step, looks=looks)
            if looks:
                self.passes.choose_parameters()
            if (count := self._broken.take()) is not None:
                self._on_broken_batch(step, count)
            self._last_step = step
            self._tally.begin()
            self._looks_closely = is_sampled(self._tally.steps)
            if self._optimizer is None:
                self._end_step()

    def close(self) -> None:
        """Removes every hook; calling it again does nothing."""
        self.pause()

    @property
    def is_on_host(self) -> bool:
        """Whether what ``facts`` needs has come from the device; what is checked at each step may come later."""
        return self._first.is_on_host()

    def findings(self, *, waits: bool = True) -> list[Finding]:
        """Returns a finding for each invariant that is broken; ``waits`` for the device, or takes what has arrived."""
        self._take(waits=waits)
        found = self._invariants.findings()
        return [one for one in found if one.kind != _EVAL_MODE] if self._keeps_statistics() else found

    def facts(self, watch: ParameterWatch | None, *, waits: bool = True, **known: Any) -> Facts:
        """Returns what is known so far.

        Args:
            watch: Who knows which parameters take part.
            waits: Whether to wait for the device; without, only where ``is_on_host``.
            known: Fields that others know.
        """
        self._take(waits=waits)
        first = self._first
        is_lent = not self._holds and self.calls.lent >= _FEWEST_LENT
        roles = (
            {}
            if watch is None or is_lent
            else parameter_roles(watch, self._invariants, self._tally.steps, self._last_step)
        )
        eval_steps = watch.eval_steps if watch is not None and watch.eval_layers else 0
        dtypes = {dtype_name(one.dtype) for one in self._trained}
        narrow = next((name for name in ("float16", "bfloat16") if name in dtypes), "")
        return with_fields(
            Facts(
                steps=self._tally.steps,
                last_step=self._last_step,
                model=type(self._model).__name__,
                parameters=first.parameters(roles, waits=waits),
                layers=(*first.layers, *self.calls.random.layers),
                optimizer=optimizer_name(self._optimizer),
                groups=first.groups,
                scheduler=first.scheduler,
                loss=self._losses.usual_of(self.passes.usual_passes if self.passes.adds_up else 1),
                inputs=self.calls.inputs,
                outputs=self.calls.first_outputs,
                targets=self._losses.targets,
                backward_passes=self.passes.usual_passes,
                joins_calls=self._tally.joins_calls,
                trained_with_others=self._tally.trains_with_others,
                trained_in_parts=watch is not None and bool(watch.roles().trained_elsewhere),
                eval_steps=eval_steps,
                keeps_statistics=self._keeps_statistics(),
                validations=self.calls.validations.count,
                train_validations=self.calls.validations.in_training_mode,
                mixed_precision=self._precision or narrow,
                clips=self._tally.clips,
                farthest=None if watch is None or not math.isfinite(watch.farthest) else watch.farthest,
                weights_replaced=self._unused.has_replaced,
                trained_on=watch is not None and watch.changed_late,
                invariants=self._invariants.facts(),
                not_told=(
                    *not_told(self._told, self._losses, self.calls.inputs),
                    *self._tally.not_judged(),
                    *((_LENT,) if is_lent else ()),
                ),
                error=self.error,
                world_size=world_size(),
            ),
            **known,
        )

    def _keeps_statistics(self) -> bool:
        return self._invariants.is_always_broken(_EVAL_MODE) and self._first.has_trained_statistics()

    def _take(self, *, waits: bool) -> None:
        if waits:
            self._arrivals.drain()
        else:
            self._arrivals.take_arrived()
        self._unused.judge(self.passes, self._invariants)
        self.calls.random.judge(self._invariants)

    def _is_trained(self, parameter: torch.Tensor) -> bool:
        """Whether the optimizer still holds a parameter that it held at first, or never held one of the model's."""
        if self._optimizer is None or not self._holds:
            return True
        return any(one is parameter for one in held_parameters(self._optimizer))

    def _before_pass(self, roots: tuple[torch.Tensor, ...], number: float | None) -> None:
        self._unused.pass_begins()
        if number is not None and not math.isfinite(number):
            given = self.calls.given
            # What is sampled has statistics that count them, of a step's first call, and but for complex numbers.
            is_first = self.calls.counts[0] == 1
            if not (self._looks_closely and is_first) or (given is not None and given.is_complex()):
                with self._stopwatch, self._isolation.guard("looking at a loss"):
                    self._broken.look(given)
                    if self._looks_closely and (count := self._broken.take()) is not None:
                        self._on_broken_batch(self._last_step + 1, count)
        if not self._looks_closely:
            return
        if len(roots) != 1:
            return
        with self._stopwatch, self._isolation.guard("looking at the loss's graph"):
            view = self._graphs.look(roots[0], self._tally.steps)
            alternates = self._rounds is not None and self._rounds.alternates
            if view is None or self.passes.repeats or alternates:
                return
            chosen = self._losses.choose(view, mixed=self.passes.mixed, gives_back=self.calls.was_given(view.targets))
            if chosen is not None:
                self._on_loss(chosen)

    def _check(self, step: int, *, looks: bool) -> None:
        invariants, passes = self._invariants, self.passes
        # Those of a closure that the optimizer calls again come later.
        are_of_data = self.calls.are_of_data and not self.calls.by_parts
        self._loses_passes = are_of_data and passes.lost >= _FEWEST_LOST
        zeroed = passes.step_begins()
        if zeroed is not None:
            invariants.check("gradients_zeroed", step, broken=not zeroed)
        alternates = self._rounds is not None and self._rounds.alternates
        self._tally.joined += len(self.calls.sizes) > 2 * max(1, passes.passes)
        if len(self.calls.sizes) > 1 and passes.passes > 1 and not alternates:
            invariants.check("micro_batch_size_constant", step, broken=len(set(self.calls.sizes)) > 1)
        if self.calls.autocast is not None:
            self._precision = dtype_name(self.calls.autocast)
            if looks and (products := self.calls.products):
                broken = self.calls.autocast not in products
                invariants.check("activations_have_autocast_dtype", step, broken=broken)
        elif looks and torch.float16 in self.calls.products:  # the model casts by itself
            self._precision = dtype_name(torch.float16)
        if self._first.acts_by_mode:
            invariants.check(_EVAL_MODE, step, broken=not self._model.training)
        if looks:
            self._graphs.check_kept(self._tally.steps, step)
            flagged = flagged_modules(self._model)
            invariants.check("flags_are_of_parameters", step, broken=bool(flagged), where=", ".join(flagged[:5]))
            frozen = frozen_batch_norms(self._model)
            invariants.check("parameters_change_with_buffers", step, broken=bool(frozen), where=", ".join(frozen[:5]))
            if self._rounds is None:
                self._movement.keep(step, self._optimizer, self._trained)
            elif self._rounds.current is not None:  # the others have moved already
                theirs = [one for one in self._trained if self._rounds.steps_now(one)]
                self._movement.keep(step, self._rounds.current, theirs)

    def after_step(self) -> None:
        """Takes that the optimizer has stepped."""
        if not self._is_observing:
            return
        self._on_step_end()
        with self._stopwatch, self._isolation.guard("observing a step"):
            scaler = self.passes.scaler
            self._unused.optimizer_steps()
            self._movement.compare(scaled=scaler is not None and scaler.is_enabled())
            self._end_step()

    def _end_step(self) -> None:
        # Not before the step: a loop may clip after it has called session.step().
        unscaled = unscaling_changes(self.passes.scaler, *members_of(self._optimizer))
        self._tally.dropped += self.passes.unrelated
        others = self.passes.unrelated > 0 or (self._rounds is not None and self._rounds.alternates)
        is_changed = self.passes.step_ends() > unscaled
        self._tally.clipped += is_changed
        # What puts gradients together by itself keeps those of each pass, and changes the last ones.
        loses = self._loses_passes and not is_changed and not self._tally.waits_again
        self._invariants.check("backward_passes_are_used", self._last_step, broken=loses)
        self._tally.end()
        self._losses.step_ends(mixed=self.passes.mixed)
        self._tally.others += others
        acted = self.calls.validations.step_ends(step_had_other_passes=others)
        if acted is not None:
            self._invariants.check("no_training_mode_in_validation", self._last_step, broken=acted)
        self.calls.step_ends(looks_closely=self._looks_closely)


def _says(tensor: torch.Tensor) -> bool:
    """Whether a tensor that a loop told holds values."""
    values = usable(tensor)
    return values is not None and values.numel() > 0
