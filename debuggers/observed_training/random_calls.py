"""Sees dropout that goes on in evaluation: random numbers are drawn there, and the training has masks of its own."""

from typing import Any

from debuggers.diagnosis.facts import LayerFacts
from debuggers.instrumentation.random_state import RandomStates
from debuggers.observed_training.dropout_calls import DropoutCalls
from debuggers.observed_training.invariants import InvariantLog
from debuggers.observed_training.validations import SAMPLES
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import constant_operand, operands, operator
from debuggers.torch_internals.modules import Dropout

_MOST_CALLS = 8
_MOST_NODES = 512
_SAMPLED = 4096
_NEAR = 0.1
_FUSED = frozenset(["NativeDropout", "FusedDropout"])


class RandomCalls:
    """Compares the state of torch's generator on the host around the first calls of a model in evaluation mode.

    That numbers are drawn there says little: a variational autoencoder draws its codes. It is dropout where the graph
    of the training's loss has more masks than the model has dropout modules, which do rest in evaluation. Where the
    model calls torch's dropout functions itself, and has all of them rest there, it is something else, such as drawn
    neighbours. A model that is called with one tensor again and again is left out: its outputs are meant to differ.
    Draws on a device are not seen.
    """

    def __init__(self, model: torch.nn.Module | None) -> None:
        """Takes the model; nothing is seen of None."""
        self._model = model
        self._calls = self._draws = 0
        self._masks: list[float] | None = None
        self._repeats = 0
        self._before: torch.Tensor | None = None
        self._dropouts = DropoutCalls()

    def call_begins(self, *, again: bool) -> None:
        """Takes a call without gradients; ``again`` says that the call before it was given the same tensor."""
        self._before = None
        if self._model is None or self._model.training or self._calls >= _MOST_CALLS:
            return
        self._repeats = self._repeats + 1 if again else 0
        if self._repeats >= SAMPLES:
            self._calls, self._draws = _MOST_CALLS, 0
        elif not again:
            self._before = RandomStates.now(host_only=True).host
            self._dropouts.start()

    def call_ends(self) -> None:
        """Says that the call has returned."""
        before, self._before = self._before, None
        if before is not None:
            self._dropouts.stop()
            self._calls += 1
            rests = self._dropouts.resting > 0 and not self._dropouts.dropping
            self._draws += not rests and not torch.equal(before, RandomStates.now(host_only=True).host)

    @property
    def is_within_call(self) -> bool:
        """Whether a call has begun and has not returned."""
        return self._before is not None

    def forget_call(self) -> None:
        """Says that a call that may have begun is observed no more."""
        self._before = None
        self._dropouts.stop()

    @property
    def layers(self) -> tuple[LayerFacts, ...]:
        """The dropouts that are no modules, as of ``functional.dropout``, where the model has no others."""
        return tuple(LayerFacts(name="functional.dropout", kind="Dropout", value=share) for share in self._masks or ())

    def look(self, root: Any) -> None:
        """Counts the masks between a loss and its model's inputs, once."""
        if self._masks is None and self._model is not None:
            self._masks = _masks(root)[_modules_that_drop(self._model) :]

    def judge(self, invariants: InvariantLog) -> None:
        """Enters the invariant ``no_dropout_in_validation``, if that can be told by now."""
        if self._masks and self._calls >= 2:
            invariants.state("no_dropout_in_validation", 0, broken=2 * self._draws > self._calls)


def _modules_that_drop(model: torch.nn.Module | None) -> int:
    return 0 if model is None else sum(isinstance(one, Dropout) and bool(one.p) for one in model.modules())


def _masks(root: Any) -> list[float]:
    """The shares of zeros of the random masks that operators multiply with, the largest last.

    A mask has some zeros, and is else one number that makes up for them.
    """
    waiting, seen, found = [root], {root}, list[float]()
    while waiting:
        node = waiting.pop()
        share = _share_of_mask(constant_operand(node)) if operator(node) == "Mul" else saved_value(node, "p")
        if share is not None and (operator(node) == "Mul" or operator(node) in _FUSED):
            found.append(float(share))
        if len(seen) < _MOST_NODES:
            new = [one for one in dict.fromkeys(operands(node)) if one not in seen]
            seen.update(new)
            waiting += new
    return sorted(found)


def _share_of_mask(constant: Any) -> float | None:
    """The share of zeros; None for what is no mask."""
    if not isinstance(constant, torch.Tensor) or not constant.is_cpu or constant.numel() < 64:
        return None
    values = constant.detach().flatten()
    values = values[:: -(-len(values) // _SAMPLED)].double()
    largest, zeros = float(values.amax()), float((values == 0).double().mean())
    if not 0 < zeros < 1 or not bool(((values == 0) | (values == largest)).all()):
        return None
    is_made_up_for = abs(largest * (1 - zeros) - 1) < _NEAR + 3 * (zeros / len(values) / (1 - zeros)) ** 0.5
    return 1 - 1 / largest if is_made_up_for and largest > 1 else None
