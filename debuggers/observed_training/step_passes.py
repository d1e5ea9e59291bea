"""The backward passes of a step: which belong to a model, what loss they had, and whether gradients were zeroed."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from debuggers.instrumentation.optimizer_rounds import OptimizerRounds
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.backward_passes import BackwardObservation
from debuggers.observed_training.gradient_marks import GradientMarks
from debuggers.observed_training.holders import holder_of
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import SCALE, scale_of
from debuggers.torch_internals.graph_nodes import number_on_host, scale_tensor

UNDISTURBED = 10
"""Steps without a pass whose gradients no step takes, after which no other model seems to be trained any more.

A GAN's generator is usually trained once in five steps of its critic or more often (Arjovsky et al., 2017).
"""
_SEARCHES = 2
"""Passes at which a GradScaler is looked for."""


class StepPasses:
    """Follows the backward passes that fill the gradients of an optimizer's parameters.

    A pass belongs to the model if it changes the gradient of one of up to eight parameters. Only passes of the thread
    that trains the model are looked at: in another one, torch may fill the gradients at the moment of a look, which
    would end the process. What was accumulated before
    gradients were set to zero belongs to no step: in the training of a GAN, the generator's pass fills the
    discriminator's gradients, which are zeroed before its own. Of several optimizers that are watched together, a pass
    whose gradients one has stepped with belongs to the step, and the step's loss is the sum over the optimizers' turns.

    Attributes:
        scaler: The loop's GradScaler, if known.
        unrelated: Passes since the last step that did not belong to the model, or whose gradients were dropped and that
            were not repeated.
        repeats: Whether the model has been called again with the batch of a pass of this step whose gradients were
            zeroed: sharpness-aware steps and the closures of LBFGS are no training of another model.
        lost: Passes since the last step that were not repeated, and whose gradients were zeroed.
        is_scaled: Whether the pass that began last started from a loss that holds the scale of a GradScaler.
        scale_number: The loss scale on the host in the pass that begins; 1 without one, or on a device.
        begun_s, ended_s: When the first pass since the last step began and the last one ended, by
            ``time.perf_counter``; None where there was none.
        adds_up: Whether the loss of a step is the sum of its passes', as where a framework divides each of them.
        divisor: The number by which it divides them, where a step may have fewer passes than that; None where not.
    """

    _passes: int
    _changes: int
    _losses: torch.Tensor | float | None
    _earlier: torch.Tensor | float | None
    _earlier_passes: int
    _is_used: bool
    _is_unseen: bool

    def __init__(
        self,
        parameters: list[torch.Tensor],
        scaler: torch.amp.GradScaler | None,
        before: Callable[[tuple[torch.Tensor, ...], float | None], None],
        after: Callable[[], None] = lambda: None,
        still_trained: Callable[[torch.Tensor], bool] = lambda parameter: True,
        *,
        calls: Callable[[], tuple[int, int]] = lambda: (0, 0),
        rounds: OptimizerRounds | None = None,
    ) -> None:
        """Observes nothing before ``start``.

        Args:
            parameters: Those whose gradients count: of the model and the optimizer, requiring a gradient.
            scaler: The loop's GradScaler.
            before: Called before each pass with the tensors that it starts from, and the loss, without its scale, if
                it is one number on the host.
            after: Called after each pass that belongs to the model.
            still_trained: Whether a parameter still belongs to the optimizer: a layer that was replaced keeps its last
                gradients, which nothing sets to zero.
            calls: Returns how often the model was called since the last step, and with how many different batches.
            rounds: Of several optimizers.
        """
        self.scaler = scaler
        self.unrelated = self.lost = 0
        self.scale_number, self.is_scaled = 1.0, False
        self.repeats = self.adds_up = False
        self._undisturbed = UNDISTURBED
        """Steps since the last one before which gradients were zeroed that may be another model's."""
        self.divisor: Callable[[], int] | None = None
        self._before, self._after, self._still_trained = before, after, still_trained
        self._calls, self._calls_before = calls, (0, 0)
        self._rounds = rounds
        self._zeroed_members: set[int | None] = set()
        """Those of several optimizers before one of whose passes gradients were zero, since their last step."""
        self._parameters = parameters
        self._marks = GradientMarks(parameters)
        self._observation: BackwardObservation | None = None
        self._searches = 0 if scaler is not None else _SEARCHES
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._forget()
        self._had_step = self._zeroed = False
        self._dropped_passes = self._drops = 0
        self.trains_here()

    def trains_here(self) -> None:
        """Says that this thread trains the model."""
        self._thread = threading.get_ident()

    def start(self) -> None:
        """Observes backward passes from now on."""
        if self._observation is None and self._parameters:
            self._marks.note()
            self._observation = BackwardObservation(self._begin)

    def stop(self) -> None:
        """Observes none any more, and forgets those since the last step."""
        if self._observation is not None:
            self._observation.remove()
            self._observation = None
        self._forget()
        self._had_step = self.repeats = False

    @property
    def passes(self) -> int:
        """The passes of the coming step so far."""
        return self._passes

    @property
    def are_seen(self) -> bool:
        """Whether a step has ended whose passes were seen: those of another thread are not."""
        return bool(self._counts)

    @property
    def were_zeroed(self) -> bool:
        """Whether gradients were zeroed before a pass since the last step."""
        return self._zeroed

    @property
    def mixed(self) -> bool:
        """Whether passes of another model's training may have come between, in one of the last ``UNDISTURBED`` steps.

        Their gradients were zeroed before a step. A GradScaler that skips a step leaves such passes, too.
        """
        return self._undisturbed < UNDISTURBED

    @property
    def without_step(self) -> tuple[int, int]:
        """The passes since the last step, also of gradients that were zeroed meanwhile, and how often they were."""
        return self._dropped_passes + self._passes, self._drops

    @property
    def usual_passes(self) -> int:
        """The most frequent number of passes a step; 1 if none was seen."""
        return self._counts.most_common(1)[0][0] if self._counts else 1

    def optimizer_begins(self) -> None:
        """Says that one of several optimizers begins its step: the passes since the last one did are its own."""
        if not self._is_used:
            self._changes += self._marks.note()
        self._is_used = True

    def loss(self, factor: float = 1.0) -> torch.Tensor | float | None:
        """Returns the mean loss of the coming step's passes, a 0-d float64 tensor on a device; None if it is unseen.

        Args:
            factor: What the loop multiplies the loss with. If that is one by the number of passes, they add up.
        """
        if self._rounds is not None and self._rounds.is_late:
            return self._earlier
        if self._losses is None or not self._passes or self._is_unseen:
            return None
        passes = self._passes - self._earlier_passes
        averaged = self.adds_up or abs(factor * passes - 1) < 1e-6 or not passes
        divisor = self.divisor() if self.divisor is not None and passes else 1
        device = self._losses.device.type if isinstance(self._losses, torch.Tensor) else "cpu"
        with quiet_computation(device):
            losses = self._losses if averaged else self._losses / passes
            if divisor > passes:  # the last step of an epoch has the batches that were left
                losses = losses * (divisor / passes)
            return losses if self._earlier is None else losses + self._earlier

    def step_begins(self) -> bool | None:
        """Says that the optimizer is about to step; returns whether gradients were zeroed since its last step.

        None where that cannot be told: before the second step, and where no pass was seen.
        """
        known = self._had_step and self._passes > 0
        if known and self._rounds is not None:
            return self._members(self._rounds, step_now=True) <= self._zeroed_members
        return self._zeroed if known else None

    def step_ends(self) -> int:
        """Says that the optimizer has stepped.

        Returns how often gradients were changed since the last pass ended, as by unscaling and clipping.
        """
        is_late = self._rounds is not None and self._rounds.is_late
        passes = self._earlier_passes if is_late else self._passes
        if passes:  # a loop may tell of a step for each pass
            self._counts[passes] += 1
        self._undisturbed += 1
        self.repeats = False
        changed = self._marks.note()
        changes = self._changes + (0 if self._is_used else changed) if self._passes else 0
        self._dropped_passes = self._drops = self.lost = 0
        self._had_step = self._passes > 0 and self._marks.present
        self._zeroed = False
        if self._rounds is not None and not is_late:
            self._zeroed_members -= self._members(self._rounds, step_now=True)
        late_passes, late_losses = self._passes - self._earlier_passes, self._losses
        self._forget()
        if is_late:
            self._passes, self._losses = late_passes, late_losses
        return changes

    def choose_parameters(self) -> None:
        """Looks at those parameters from now on that have a gradient; call it before a step."""
        chosen = [parameter for parameter in self._parameters if parameter.grad is not None]
        if chosen:
            self._changes += self._marks.note()
            self._marks = GradientMarks(chosen)

    def _forget(self) -> None:
        self._passes = self._changes = self.unrelated = 0
        self._losses = self._earlier = None
        # Those of the turns of several optimizers before the last one, and whether that is over.
        self._earlier_passes = 0
        self._is_used = self._is_unseen = False
        self.begun_s: float | None = None
        self.ended_s: float | None = None

    def _begin(self, roots: tuple[torch.Tensor, ...]) -> Callable[[bool], None] | None:
        if threading.get_ident() != self._thread:
            return None
        marks = self._marks
        with self._lock:
            changed = marks.note()
            # A step inside of the last pass may have removed them before it ended.
            self._zeroed |= not marks.present
            if self._rounds is not None:
                self._see_turns(self._rounds, changed=changed > 0)
            if changed and marks.are_zero(self._still_trained):
                self._zeroed = True
                if self._passes and self._rounds is None:
                    self._dropped_passes, self._drops = self._dropped_passes + self._passes, self._drops + 1
                    (called, batches), (called_before, batches_before) = self._calls(), self._calls_before
                    if called > called_before and batches == batches_before:
                        self.repeats = True
                    else:
                        self._undisturbed = -1
                        self.lost += self._passes
                    others = self.unrelated + (0 if self.repeats else self._passes)
                    self._forget()
                    self.unrelated = others
        scale = self._scale_of(roots) if self.scaler is not None or self._searches else None
        self.is_scaled = scale is not None
        self.scale_number = 1.0 if scale is None else _number_or_one(scale)
        number = _number(roots)
        if number is not None:
            number /= self.scale_number
        self._before(roots, number)
        if self.begun_s is None:
            self.begun_s = time.perf_counter()
        return partial(self._end, roots, scale, number)

    def _end(
        self, roots: tuple[torch.Tensor, ...], scale: torch.Tensor | None, number: float | None, succeeded: bool
    ) -> None:
        self.ended_s = time.perf_counter()
        with self._lock:
            belongs = self._marks.note() > 0
            self._changes = 0
            if not belongs or not succeeded:
                self.unrelated += not belongs
                return
            self._passes += 1
            self._calls_before = self._calls()
            self._after()
            value = _value(roots, scale) if number is None else number
            if value is None or (self._losses is None and self._passes - self._earlier_passes > 1):
                self._losses = None
            else:
                self._losses = value if self._losses is None else self._losses + value

    def _see_turns(self, rounds: OptimizerRounds, *, changed: bool) -> None:
        """Takes that a pass begins, of several optimizers: whose gradients are zero, and whether a turn has ended."""
        rounds.pass_begins()
        if changed or not self._marks.present:
            self._zeroed_members |= self._members(rounds) - self._filled_members(rounds)
        if not self._is_used:
            return
        loss = self.loss()
        self._is_unseen |= loss is None and self._passes > self._earlier_passes
        self._earlier = self._earlier if loss is None else loss
        self._losses, self._earlier_passes, self._is_used = None, self._passes, False

    def _members(self, rounds: OptimizerRounds, *, step_now: bool = False) -> set[int | None]:
        """The optimizers that hold parameters that are looked at; only those that step in this round, if wanted."""
        parameters = self._marks.parameters
        return {rounds.member_of(one) for one in parameters if not step_now or rounds.steps_in(one)}

    def _filled_members(self, rounds: OptimizerRounds) -> set[int | None]:
        """Those of them that have a gradient that is not zero, as far as can be told."""
        filled = set()

        def note(parameter: torch.Tensor) -> bool:
            if self._still_trained(parameter):
                filled.add(rounds.member_of(parameter))
            return False

        self._marks.are_zero(note)
        return filled

    def _scale_of(self, roots: tuple[torch.Tensor, ...]) -> torch.Tensor | None:
        """Returns the loss scale if it is a factor of the root."""
        if len(roots) != 1 or roots[0].grad_fn is None:
            return None
        factor = scale_tensor(roots[0].grad_fn)
        if factor is None or factor.dtype != torch.float32:
            return None
        if self.scaler is None:
            self._searches -= 1
            self.scaler = holder_of(factor, SCALE, (torch.amp.GradScaler,))
        scale = None if self.scaler is None else scale_of(self.scaler)
        if scale is None or scale.data_ptr() != factor.data_ptr():
            return None
        return scale.detach().clone()  # update() changes it in place


def _value(roots: tuple[torch.Tensor, ...], scale: torch.Tensor | None) -> torch.Tensor | float | None:
    """The sum of the roots without the loss scale; None if one is no number, or has no values."""
    if not roots or any(root.numel() != 1 or root.is_complex() or root.is_meta for root in roots):
        return None
    if all(root.is_cpu for root in roots):
        numbers = [float(root.detach()) for root in roots]
        divisor = 1.0 if scale is None else _number_or_one(scale)
        return sum(numbers) / divisor
    with quiet_computation(roots[0].device.type):
        total = torch.stack([root.detach().double().reshape(()) for root in roots]).sum()
        return total if scale is None else total / scale


def _number(roots: tuple[torch.Tensor, ...]) -> float | None:
    """The only root, if it is one real number on the host."""
    if len(roots) != 1:
        return None
    (root,) = roots
    if not root.is_cpu:
        return None
    try:
        number = root.item()
    except RuntimeError:  # of several elements
        return None
    return None if isinstance(number, complex) else float(number)


def _number_or_one(scale: torch.Tensor) -> float:
    """Returns a scale on the host as a number; 1 for one that lies elsewhere or is 0."""
    return number_on_host(scale) or 1.0
