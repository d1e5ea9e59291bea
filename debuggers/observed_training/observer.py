"""Observes a training from outside, and says what is known of it: its facts, and the findings of broken invariants."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as with_fields

from debuggers.detectors import Finding
from debuggers.diagnosis.facts import BatchFacts, Facts, GroupFacts, LayerFacts, LossFacts
from debuggers.gradients.parameter_watch import ParameterWatch
from debuggers.gradients.parameters import Parameters
from debuggers.gradients.weight_movement import WeightMovement
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.observed_training.broken_batch import BrokenBatch
from debuggers.observed_training.forward_calls import ForwardCalls, batch_facts, dtype_name
from debuggers.observed_training.invariants import InvariantLog
from debuggers.observed_training.kept_graphs import KeptGraphs
from debuggers.observed_training.loss_view import LossView, loss_view
from debuggers.observed_training.model_facts import (
    InitialParameters,
    frozen_batch_norms,
    group_facts,
    layer_facts,
    scheduler_of,
    world_size,
)
from debuggers.observed_training.step_passes import StepPasses
from debuggers.observed_training.unregistered_weights import UnregisteredWeights
from debuggers.signals.sampled_steps import is_sampled
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import changes_by_unscaling, is_unscaled, optimizer_states
from debuggers.torch_internals.optimizers import held_parameters

LOOKS = 10
"""Passes at the beginning by which the usual loss is told, and the step at which the scheduler is looked for."""
_SETTLED = 25
"""Steps after which a parameter without a gradient counts as one that gets none."""
_OFTEN = 10
"""At more than one in so many steps another model's passes are part of the training: a critic takes several a time."""
_WATCHED = 4
"""Parameters whose elements are compared around a step."""


class TrainingObserver:
    """Observes a model and its optimizer from ``start`` to ``close``; whatever fails inside is isolated.

    Nothing waits for a device but ``facts`` and ``findings``, if asked to; nothing of the training is changed or kept.

    Attributes:
        passes: The backward passes of the coming step.
        calls: The calls of the model.
        error: The exception that ended the training, in one line.
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
        on_broken_batch: Callable[[int, int], None] = lambda step, count: None,
    ) -> None:
        """Sets it up.

        ``on_loss`` gets what the graph of a loss shows, at the steps at which it is looked at; ``on_backward_end`` is
        called after each backward pass of the model; ``on_broken_batch`` gets the step of the first loss that is not
        finite, where it is known on the host and the step is not sampled, and how many of the inputs are not finite.
        """
        self._model, self._optimizer = model, optimizer
        self._isolation, self._stopwatch = isolation, stopwatch
        self._on_loss, self._on_broken_batch = on_loss, on_broken_batch
        self._broken = BrokenBatch()
        mine = Parameters(model)
        held = None if optimizer is None else set(map(id, held_parameters(optimizer)))
        trained = [one for one in mine.tensors if one.requires_grad and (held is None or id(one) in held)]
        self.passes = StepPasses(trained, scaler, self._before_pass, on_backward_end)
        self.calls = ForwardCalls(model, isolation, stopwatch, self.passes.trains_here)
        self.error = ""
        self._invariants, self._graphs = InvariantLog(), KeptGraphs()
        self._hooks, self._arrivals = Hooks(), ArrivalQueue()
        self._parameters, self._trained = mine, trained
        self._initial: InitialParameters | None = None
        self._layers: tuple[LayerFacts, ...] = ()
        self._acts_by_mode = False
        self._groups: tuple[GroupFacts, ...] = ()
        self._scheduler = ""
        self._losses: Counter[LossFacts] = Counter()
        self._factor = 1.0
        self._is_observing = False
        self._targets: BatchFacts | None = None
        self._movement: tuple[int, WeightMovement, dict[str, torch.Tensor]] | None = None
        self._steps, self._last_step = 0, -1
        self._clipped = self._others = 0
        self._precision = ""
        self._unregistered = UnregisteredWeights(model)
        self._told: set[str] = set()

    def start(self) -> None:
        """Begins to observe."""
        if self._is_observing:
            return
        with self._isolation.guard("observing a training"):
            self._is_observing = True
            self.passes.start()
            self.calls.attach()
            if self._optimizer is not None and not len(self._hooks):
                self._hooks.add_optimizer_post_step(self._optimizer, self._after_step)

    def pause(self) -> None:
        """Observes nothing until ``start``."""
        self._is_observing = False
        self.passes.stop()
        self.calls.detach()
        self._hooks.remove()
        self._movement = None

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes the loop's GradScaler from now on."""
        self.passes.scaler = scaler

    def loss(self) -> torch.Tensor | float | None:
        """Returns the loss of the coming step as its backward passes showed it; None where it was not seen."""
        with self._isolation.guard("observing the loss"):
            return self.passes.loss(self._factor)
        return None

    def tell(self, **told: Any) -> None:
        """Takes the first batch's tensors that a loop told: ``loss``, ``inputs``, ``outputs`` or ``targets``."""
        self._told.update(name for name, value in told.items() if value is not None)
        tensor = told.get("targets")
        if self._targets is None and isinstance(tensor, torch.Tensor):
            self._targets = batch_facts(tensor)

    def step(self, step: int) -> None:
        """Takes a step, after its backward passes and before the optimizer changes the weights."""
        with self._stopwatch, self._isolation.guard("observing a step"):
            self.passes.trains_here()
            if not self._steps:
                self._look_at_model()
            if self._steps == LOOKS - 1 and self._optimizer is not None:
                self._scheduler = scheduler_of(self._optimizer) or self._scheduler
            looks = self._looks_closely
            self._check(step, looks=looks)
            if looks:
                self.passes.choose_parameters()
            if (count := self._broken.take()) is not None:
                self._on_broken_batch(step, count)
            self._last_step = step
            self._steps += 1
            if self._optimizer is None:
                self._end_step()

    def close(self) -> None:
        """Removes every hook; calling it again does nothing."""
        self.pause()

    @property
    def is_on_host(self) -> bool:
        """Whether what ``facts`` needs has come from the device; what is checked at each step may come later."""
        return self._initial is None or self._initial.ready()

    def findings(self, *, waits: bool = True) -> list[Finding]:
        """Returns a finding for each invariant that is broken; ``waits`` for the device, or takes what has arrived."""
        self._take(waits=waits)
        return self._invariants.findings()

    def facts(self, watch: ParameterWatch | None, *, waits: bool = True, **known: Any) -> Facts:
        """Returns what is known so far.

        Args:
            watch: Who knows which parameters take part.
            waits: Whether to wait for the device; without, only where ``is_on_host``.
            known: Fields that others know.
        """
        self._take(waits=waits)
        roles = {} if watch is None else self._roles(watch)
        eval_steps = watch.eval_steps if watch is not None and watch.eval_layers else 0
        dtypes = {dtype_name(one.dtype) for one in self._trained}
        narrow = next((name for name in ("float16", "bfloat16") if name in dtypes), "")
        return with_fields(
            Facts(
                steps=self._steps,
                last_step=self._last_step,
                model=type(self._model).__name__,
                parameters=() if self._initial is None else self._initial.facts(roles),
                layers=self._layers,
                optimizer="" if self._optimizer is None else type(self._optimizer).__name__,
                groups=self._groups,
                scheduler=self._scheduler,
                loss=self._usual_loss() if self._losses else None,
                inputs=self.calls.inputs,
                outputs=self.calls.first_outputs,
                targets=self._targets,
                backward_passes=self.passes.usual_passes,
                trained_with_others=_OFTEN * self._others > self._steps,
                eval_steps=eval_steps,
                validations=self.calls.validations.count,
                train_validations=self.calls.validations.in_training_mode,
                mixed_precision=self._precision or narrow,
                clips=2 * self._clipped > self._steps,
                invariants=self._invariants.facts(),
                not_told=self._not_told(),
                error=self.error,
                world_size=world_size(),
            ),
            **known,
        )

    @property
    def _looks_closely(self) -> bool:
        return is_sampled(self._steps)

    def _take(self, *, waits: bool) -> None:
        if waits:
            self._arrivals.drain()
        else:
            self._arrivals.take_arrived()

    def _usual_loss(self) -> LossFacts:
        known = [facts for facts, _ in self._losses.most_common() if facts.kind]
        return known[0] if known else self._losses.most_common(1)[0][0]

    def _before_pass(self, roots: tuple[torch.Tensor, ...]) -> None:
        if len(roots) != 1:
            return
        if not self._looks_closely:
            if not self._broken.is_over:
                with self._stopwatch, self._isolation.guard("looking at a loss"):
                    self._broken.look(roots[0], self.calls.given)
            return
        with self._stopwatch, self._isolation.guard("looking at the loss's graph"):
            view = loss_view(roots[0], self.calls.outputs)
            calls = self.calls
            if not view.reaches_outputs and (calls.outputs or (calls.inputs is not None and not calls.sizes)):
                return  # another model's loss
            self._graphs.mark(self._steps, roots[0])
            if self._steps < LOOKS and not self.passes.passes:  # once a step: others' weights change between steps
                self._check_graph(roots[0])
            view = _with_targets(view, self.calls.values)
            scale = self.passes.scale_number
            if scale != 1.0:
                view = replace(view, facts=with_fields(view.facts, factor=view.facts.factor / scale))
            if len(self._losses) < LOOKS:
                self._losses[view.facts] += 1
                self._factor = self._usual_loss().factor
            if self._targets is None and view.targets is not None:
                self._targets = batch_facts(view.targets)
            if not self.passes.mixed:
                self._on_loss(view)

    def _check_graph(self, loss: torch.Tensor) -> None:
        mixed = self.calls.mixed.found(loss.grad_fn)
        held = () if self._optimizer is None else set(map(id, held_parameters(self._optimizer)))
        unknown = self._unregistered.look(loss.grad_fn, self.calls.outputs, self.calls.given, held)
        for name, found in (("samples_are_apart", mixed), ("weights_are_registered", unknown)):
            if found is not None:
                self._invariants.check(name, self._steps, broken=bool(found), where=found)

    def _look_at_model(self) -> None:
        self._initial = InitialParameters(self._parameters)
        self._layers = layer_facts(self._model)
        self._acts_by_mode = any(layer.kind.startswith(("Dropout", "BatchNorm")) for layer in self._layers)
        self._groups = () if self._optimizer is None else group_facts(self._optimizer)

    def _check(self, step: int, *, looks: bool) -> None:
        invariants, passes = self._invariants, self.passes
        zeroed = passes.step_begins()
        if zeroed is not None:
            invariants.check("gradients_zeroed", step, broken=not zeroed)
        if len(self.calls.sizes) > 1 and passes.passes > 1:
            invariants.check("micro_batch_size_constant", step, broken=len(set(self.calls.sizes)) > 1)
        if self.calls.autocast is not None:
            self._precision = dtype_name(self.calls.autocast)
            if looks and (products := self.calls.products):
                broken = self.calls.autocast not in products
                invariants.check("activations_have_autocast_dtype", step, broken=broken)
        if self._acts_by_mode:
            invariants.check("eval_mode_in_training", step, broken=not self._model.training)
        if looks:
            if (graphs := self._graphs.kept(self._steps)) is not None:
                invariants.check("graphs_freed", step, broken=2 * graphs[0] > graphs[1])
            frozen = frozen_batch_norms(self._model)
            invariants.check("parameters_change_with_buffers", step, broken=bool(frozen), where=", ".join(frozen[:5]))
            self._keep_weights(step)

    def _was_unscaled(self) -> int:
        """How many changes of the gradients a GradScaler has made since the last pass."""
        scaler, optimizer = self.passes.scaler, self._optimizer
        if scaler is None or optimizer is None or not scaler.is_enabled():
            return 0
        state = optimizer_states(scaler).get(id(optimizer))
        return changes_by_unscaling() if state is not None and is_unscaled(state) else 0

    def _keep_weights(self, step: int) -> None:
        if self._optimizer is None or not any(group["lr"] for group in self._optimizer.param_groups):
            return  # a warm-up may begin at zero
        chosen = [one for one in self._trained if one.grad is not None and one.grad.layout is torch.strided]
        stride = max(1, len(chosen) // _WATCHED)
        named = {str(place): one for place, one in enumerate(chosen[::stride][:_WATCHED])}
        movement = WeightMovement()
        movement.keep(named)
        self._movement = (step, movement, named) if named else None

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        with self._stopwatch, self._isolation.guard("observing a step"):
            if self._movement is not None:
                (step, before, named), self._movement = self._movement, None
                moved = before.compare(named)
                scaled = self.passes.scaler is not None and self.passes.scaler.is_enabled()

                def take() -> None:
                    changes = [change for change, _ in moved.resolve().values()]
                    still = not any(changes)
                    # Complex weights and those without values cannot be compared; a fused optimizer leaves out what
                    # overflowed.
                    if changes and not (still and scaled):
                        self._invariants.check("step_changes_weights", step, broken=still)

                self._arrivals.push(moved, take)
            self._end_step()

    def _end_step(self) -> None:
        # Not before the step: a loop may clip after it has called session.step().
        unscaled, others = self._was_unscaled(), self.passes.unrelated > 0
        self._clipped += self.passes.step_ends() > unscaled
        self._others += others
        acted = self.calls.validations.step_ends(step_had_other_passes=others)
        if acted is not None:
            self._invariants.check("no_training_mode_in_validation", self._last_step, broken=acted)
        self.calls.step_ends(looks_closely=self._looks_closely)

    def _roles(self, watch: ParameterWatch) -> dict[str, str]:
        """Returns the role of each parameter, and enters the invariants that are about roles."""
        found = watch.roles()
        kinds = {finding.kind for finding in watch.findings()}
        roles = dict.fromkeys(found.outside_optimizer, "outside_optimizer")
        if self._steps >= _SETTLED:
            held = [name for name in found.without_gradient if name not in roles]
            self._invariants.state(
                "optimizer_gets_gradients", self._last_step, broken=bool(held), where=", ".join(held[:5])
            )
            where = ", ".join(found.outside_optimizer[:5])
            broken = "outside_optimizer" in kinds
            self._invariants.state("gradients_in_optimizer", self._last_step, broken=broken, where=where)
        roles |= dict.fromkeys(found.lost_gradient, "lost_gradient")
        roles |= dict.fromkeys(found.without_gradient, "without_gradient")
        roles |= dict.fromkeys(found.frozen, "frozen")
        if "weights_stand_still" in kinds:
            roles |= {name: "unchanged" for name in found.parameters if name not in roles}
        return roles

    def _not_told(self) -> tuple[str, ...]:
        missing = []
        if not self._losses and "loss" not in self._told:
            missing.append("the loss: pass it as session.step(loss)")
        if self._targets is None and "targets" not in self._told:
            missing.append("the targets: pass them as session.step(targets=targets)")
        if self.calls.inputs is None and "inputs" not in self._told:
            missing.append("the inputs: pass them as session.step(inputs=inputs)")
        return tuple(missing)


def _with_targets(view: LossView, outputs: torch.Tensor | None) -> LossView:
    """Adds the targets that follow from outputs and their difference, which is what the loop's own formula saved."""
    difference = view.difference
    if difference is None or outputs is None or view.facts.broadcast or outputs.numel() != difference.numel():
        return view
    if not view.compares_outputs or outputs.device != difference.device:
        return view
    with quiet_computation(difference.device.type):
        return replace(view, targets=outputs.reshape(difference.shape) - view.difference_sign * difference)
