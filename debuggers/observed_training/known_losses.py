"""What the losses of the first steps looked like, by which the usual one is told."""

from collections import Counter
from collections.abc import Container
from dataclasses import replace

from msgspec.structs import replace as with_fields

from debuggers.diagnosis.facts import BatchFacts, LossFacts
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.forward_calls import batch_facts
from debuggers.observed_training.graphs.loss_view import LossView
from debuggers.torch_import import torch

LOOKS = 10
"""Losses by which the usual one is told."""
GROW = 1.5
"""Times the first classes of a cross entropy that there are at some step, from which they grow."""
_ROUNDING_SHARE, _ROUNDING = 1 / 16, 0.01
"""The rounding that targets computed from outputs may hold: a share of the largest target, or this if that is more."""


class KnownLosses:
    """Counts what the graphs of the first losses show, and keeps what the first targets were.

    Attributes:
        factor: That of the usual loss; 1 before one is known.
        targets: Shape and dtype of the first targets; None before any are known.
    """

    def __init__(self) -> None:
        self._counts: Counter[LossFacts] = Counter()
        self.factor = 1.0
        self.targets: BatchFacts | None = None
        self._looked_at = self._left_out = 0
        self._was_mixed = False
        self._classes, self._varies = (0, 0), False
        self._blur: tuple[float, float] | None = None

    def see(self, view: LossView, outputs: torch.Tensor | None, scale: float) -> LossView:
        """Takes a loss, and returns it without the loss scale, and with the targets that follow from the outputs."""
        view = _with_targets(view, outputs)
        if scale != 1.0:
            view = replace(view, facts=with_fields(view.facts, factor=view.facts.factor / scale))
        if view.facts.kind == "cross_entropy" and len(shape := view.facts.outputs_shape) == 2:
            first, most = self._classes
            self._varies |= shape[1] < most
            self._classes = first or shape[1], max(most, shape[1])
        facts = self._without_blur(view.facts)
        if len(self._counts) < LOOKS:
            self._counts[facts] += 1
            usual = self.usual
            self.factor = 1.0 if usual is None else usual.factor
        if view.targets is not None:
            self.see_targets(view.targets)
        return view

    def _without_blur(self, facts: LossFacts) -> LossFacts:
        """Keeps label smoothing and confidence penalty apart: of those that a schedule changes, none is usual."""
        if facts.kind != "cross_entropy":
            return facts
        blur = facts.smoothing, facts.confidence_penalty
        self._blur = blur if self._blur in (None, blur) else (0.0, 0.0)
        return with_fields(facts, smoothing=0.0, confidence_penalty=0.0) if any(blur) else facts

    def choose(self, view: LossView, *, mixed: bool, gives_back: bool) -> LossView | None:
        """Returns what is to be looked at of a loss; None for one that may be another model's.

        Of several terms that compare, as of a GAN's judge, the targets of one say little, unless inputs are given back.
        Where others than the one that compares the model's outputs are penalties, they are what the model is to learn.

        Args:
            view: The loss, as ``see`` returned it.
            mixed: Whether another model's passes may come between.
            gives_back: Whether the targets are the inputs.
        """
        if mixed:
            self._left_out += 1
            return None
        is_alone = view.is_only_comparison and view.compares_outputs
        if view.facts.terms > 1 and not gives_back and not is_alone:
            view = replace(view, targets=None)
        self._looked_at += view.targets is not None or view.order is not None
        return view

    def step_ends(self, *, mixed: bool) -> None:
        """Says that a step has ended, and whether another model's passes may have come before it."""
        self._was_mixed = mixed

    @property
    def left_out_targets(self) -> bool:
        """Whether no targets were looked at, or those of few losses, to the end."""
        return not self._looked_at or (self._was_mixed and self._left_out > self._looked_at)

    def see_targets(self, targets: torch.Tensor) -> None:
        """Takes targets; nested ones have no shape."""
        if self.targets is None and not targets.is_nested:
            self.targets = batch_facts(targets)

    @property
    def usual(self) -> LossFacts | None:
        """The most frequent loss of a known kind, else the most frequent one; None before any was seen."""
        ordered = [facts for facts, _ in self._counts.most_common()]
        found = next((facts for facts in ordered if facts.kind), ordered[0] if ordered else None)
        if found is not None and found.kind == "cross_entropy" and self._blur and any(self._blur):
            found = with_fields(found, smoothing=self._blur[0], confidence_penalty=self._blur[1])
        first, most = self._classes
        grow = most > GROW * first and not self._varies  # of heads in turn, or lists of any length, they fall again
        return with_fields(found, classes_grow=True) if found is not None and grow else found

    def usual_of(self, passes: int) -> LossFacts | None:
        """Returns the usual loss, as one that is divided by the number of a step's passes if there are several."""
        usual = self.usual
        return usual if usual is None or passes < 2 else with_fields(usual, factor=1 / passes)


def _with_targets(view: LossView, outputs: torch.Tensor | None) -> LossView:
    """Adds the targets that follow from outputs and their difference, which is what the loop's own formula saved.

    They do not follow where outputs are not finite, or so large that the difference was rounded by more than the
    targets: all look like zero then. On a device, where nothing may wait to find that out, they become NaN.
    """
    difference = view.difference
    if difference is None or outputs is None or view.facts.broadcast or outputs.numel() != difference.numel():
        return view
    if not view.compares_outputs or outputs.device != difference.device:
        return view
    with quiet_computation(difference.device.type):
        targets = outputs.reshape(difference.shape) - view.difference_sign * difference
        if not targets.is_floating_point() or not targets.numel():
            return replace(view, targets=targets)
        rounding = outputs.abs().amax().double() * torch.finfo(targets.dtype).eps
        follow = rounding <= (targets.abs().amax().double() * _ROUNDING_SHARE).clamp(min=_ROUNDING)
        if targets.is_cpu:
            return replace(view, targets=targets) if bool(follow) else view
        return replace(view, targets=torch.where(follow, targets, torch.nan))


def not_told(told: Container[str], losses: KnownLosses, inputs: BatchFacts | None) -> tuple[str, ...]:
    """Returns what a session neither saw nor was told, with the argument that would tell it.

    Args:
        told: The names of the arguments that the loop gave.
        losses: What was seen of losses and targets.
        inputs: The first inputs.
    """
    missing, usual = [], losses.usual
    terms = 0 if usual is None else max(usual.terms, len(usual.parts))
    if usual is None:
        missing.append("the loss's graph was not seen")
    elif not usual.kind and not usual.parts:
        missing.append("the loss is of no known kind")
    if "targets" in told:
        if terms > 1:
            missing.append(f"the loss has {terms} terms, and the targets of one were passed")
    elif losses.left_out_targets:
        missing.append("no targets were seen (pass them as session.step(targets=targets))")
    if inputs is None and "inputs" not in told:
        missing.append("no inputs were seen (pass them as session.step(inputs=inputs))")
    return tuple(missing)
