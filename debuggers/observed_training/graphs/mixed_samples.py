"""Sees operators of a model that mix the samples of a batch: over the first dimension, where it should not."""

import math
from collections.abc import Callable, Container
from functools import partial
from typing import Any

from debuggers.observed_training.graphs.dimensions import SOFTMAXES
from debuggers.observed_training.graphs.over_batch import (
    MOST_NODES,
    goes_over_batch,
    is_batch,
    joins_samples,
    nodes_before,
    rolls_over_first,
)
from debuggers.observed_training.graphs.reshaped_batches import VIEWS, deals_out, moves_batch
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_in_transform, node_number, saved_value
from debuggers.torch_internals.graph_nodes import dimension_of, operands, operator, shape_of

_ATTENTION = "ScaledDotProduct"
_ORDERED = (torch.nn.RNNBase, torch.nn.MultiheadAttention)
"""Layers that are told by ``batch_first`` in which order the first two dimensions come."""
_FIRST = (
    torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.Embedding, torch.nn.LSTMCell,
    torch.nn.MultiheadAttention,
)  # fmt: skip
"""Layers that may read the inputs themselves."""


class MixedSamples:
    """Looks at the calls of recurrent layers and attention, and at the graph of a model's outputs.

    It speaks only of models that return one row, of one or two dimensions, for each row that they are given: there the
    first dimension is the batch. What samples share on purpose, as in batch norms, it does not look at. What is done to
    inputs before the first parameter is in no graph: there, a layer that is given their own memory in another shape
    shows that it was a view and no transposition.
    """

    def __init__(self, model: torch.nn.Module | None) -> None:
        self._ordered: dict[torch.nn.Module, str] = {
            module: name
            for name, module in (() if model is None else model.named_modules())
            if isinstance(module, _ORDERED)
        }
        self._attention = {
            name for module, name in self._ordered.items() if isinstance(module, torch.nn.MultiheadAttention)
        }
        self._readers = _readers(model)
        self._calls: dict[str, tuple[int, int, bool]] = {}
        self._read: list[Any] = []
        self._is_called = False
        self._view, self._is_joined = "", False
        self._address = 0
        self._given: tuple[int, ...] = ()
        self._is_batch = False
        self._returned: tuple[int, ...] = ()
        self._is_alone = self._by_parts = False

    def hooks(self) -> list[tuple[torch.nn.Module, Callable[..., None]]]:
        """Returns what is to be called with the outputs of recurrent layers and of attention."""
        return [(module, self._note_order) for module in self._ordered]

    def call_begins(self, tensor: torch.Tensor | None, *, alone: bool = True) -> None:
        """Takes the first tensor that the model is given, and whether it is given no other."""
        self._is_alone, self._by_parts = alone, False
        self._given = () if tensor is None else tuple(tensor.shape)
        # Rows of one dimension less may be the positions of a single sequence, or the nodes of a graph.
        self._is_batch = tensor is not None and tensor.ndim >= (3 if tensor.is_floating_point() else 2)
        self._address = tensor.data_ptr() if tensor is not None and _is_plain(tensor) else 0
        self._returned, self._calls, self._view, self._is_joined = (), {}, "", False
        self._read, self._is_called = [], True

    @property
    def readers(self) -> list[torch.nn.Module]:
        """The layers that may read the inputs themselves."""
        return list(self._readers)

    def reads(self, module: torch.nn.Module, given: Any) -> None:
        """Takes what one of ``readers`` is given first."""
        if not self._address or not isinstance(given, torch.Tensor) or not _is_plain(given):
            return
        shape = tuple(given.shape)
        same = given.data_ptr() == self._address and math.prod(shape) == math.prod(self._given)
        self._is_joined |= same and self._given[1:2] != () and shape[0] == self._given[0] * self._given[1]
        if same and shape != self._given and moves_batch(self._given, shape, self._given[0]):
            self._view = (
                f"{self._readers[module]} is given the inputs {self._given} in the shape {shape} by a view, which "
                f"deals the elements of a batch of {self._given[0]} out to other samples"
            )

    def call_ends(self, values: torch.Tensor | None) -> None:
        """Takes the first floating-point tensor that it returns."""
        self._returned, self._is_called = () if values is None else tuple(values.shape), False

    def part_begins(self, tensor: torch.Tensor) -> None:
        """Takes what a part of the model is given, where a loop calls its parts: of a step, that of the first part."""
        if not self._given:
            self.call_begins(tensor, alone=False)
            self._by_parts, self._address = True, 0

    def part_ends(self, values: torch.Tensor | None) -> None:
        """Takes what a part returns: of a step, that of the last part counts."""
        if self._by_parts:
            self.call_ends(values)

    def step_ends(self) -> None:
        """Lets go of the graph of the step, and of its calls."""
        self._read, self._is_called = [], False
        if self._by_parts:
            self._given, self._by_parts = (), False

    @property
    def rows(self) -> int:
        """How many samples a model was given, in one tensor alone, and returned a row of numbers for; 0 for others."""
        is_of_each = self._is_alone and self._returned[:1] == self._given[:1] and len(self._returned) < 3
        return self._given[0] if is_of_each and len(self._given) > 1 and self._given[0] > 1 else 0

    def found(self, root: Any, outputs: Container[int] = frozenset()) -> str | None:
        """Returns what mixes samples, ``""`` for nothing; None where that cannot be told.

        Args:
            root: The node of the loss; with the loss's own operators, which may have the same fault.
            outputs: See ``loss_view.output_nodes``. Running sums and lengths over a batch are a fault behind them only:
                a loss may compare samples.
        """
        rows = self._given[0] if self._given else 0
        if rows < 2 or self._returned[:1] != (rows,) or len(self._returned) > 2:
            return None
        if self._by_parts:  # what a loop does between them may compare samples: a reshape alone compares none
            return _in_graph(root, self._given, outputs, look=_between_parts)
        for name, (steps, batch, is_first) in self._calls.items():
            # Sequences may be parts of samples, as the lines of texts are: there are a multiple of the samples then.
            may_be = batch % rows == 0 if name in self._attention else is_first and self._may_be_parts(batch)
            if steps == rows and batch not in (1, rows) and not may_be:
                return (
                    f"{name} has batch_first={is_first} and runs over the {rows} samples of a batch as over time, for "
                    f"{batch} positions apart"
                )
        joined = self._given[:2] if self._is_joined else ()
        # Of the steps of a recurrence there are more operators than are looked at: what is before it comes by itself.
        starts, self._read = [(root, outputs), *((node, {node_number(node)}) for node in self._read)], []
        look = partial(_of_model, joined=joined, from_batch=self._is_batch)
        texts = (_in_graph(node, self._given, ends, look=look) for node, ends in starts)
        return self._view or next(filter(None, texts), "")

    def along_first(self, root: Any) -> str | None:
        """Returns what goes along the first dimension of a model that puts out something for each position.

        ``""`` for nothing; None where that cannot be told. Which of the first two dimensions is time, and which the
        batch, no shape says: where it is the batch, samples are mixed.
        """
        rows, positions = self._given[:2] if len(self._given) > 1 else (0, 0)
        if self._by_parts or min(rows, positions) < 2 or rows == positions or len(self._returned) != 3:
            return None
        if self._returned[:2] != (rows, positions):
            return None
        for name, call in self._calls.items():
            if call == (rows, positions, False):
                return f"{name} has batch_first=False and runs along the first dimension of {(rows, positions)}"
        for node in nodes_before(root):
            if _scores_of(node) == (positions, rows):
                return f"attention runs along the first dimension of {(rows, positions)}: batch_first is missing"
            if shape_of(node)[:2] == (rows, positions) and rolls_over_first(node):
                return f"a roll shifts what it is given along the first dimension of {(rows, positions)}"
        return ""

    def _may_be_parts(self, batch: int) -> bool:
        return batch % self._given[0] == 0 and batch not in self._given[1:]

    def _note_order(self, module: Any, args: Any, output: Any) -> None:
        given = args[0] if args else None
        if isinstance(given, torch.Tensor) and given.ndim == 3 and torch.is_grad_enabled():
            steps, batch = given.shape[:2]
            is_first = bool(module.batch_first)
            if given.grad_fn is not None and self._is_called and isinstance(module, torch.nn.RNNBase):
                self._read.append(given.grad_fn)
            self._calls[self._ordered[module]] = (batch, steps, True) if is_first else (steps, batch, False)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor of two dimensions or more lies in memory in the order of its elements."""
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or is_in_transform(tensor):
        return False
    return tensor.ndim > 1 and not tensor.is_meta and tensor.is_contiguous()


def _readers(model: torch.nn.Module | None) -> dict[torch.nn.Module, str]:
    """The layers that may read the inputs: recurrent ones, and the first two others."""
    named = [] if model is None else [(module, name) for name, module in model.named_modules()]
    recurrent = [pair for pair in named if isinstance(pair[0], torch.nn.RNNBase)]
    return dict([*recurrent, *[pair for pair in named if isinstance(pair[0], _FIRST)][:2]])


def _in_graph(root: Any, given: tuple[int, ...], outputs: Container[int], *, look: Callable[..., str]) -> str:
    waiting, seen, inside = [root], {root}, set()
    while waiting:
        node = waiting.pop(0)
        if node in inside or node_number(node) in outputs:
            inside.update([node, *operands(node)])
        if text := look(node, given, is_inside=node in inside):
            return text
        if len(seen) < MOST_NODES:
            new = [one for one in dict.fromkeys(operands(node)) if one not in seen]
            seen.update(new)
            waiting += new
    return ""


def _of_model(node: Any, given: tuple[int, ...], *, is_inside: bool, joined: tuple[int, ...], from_batch: bool) -> str:
    text = _mixes(node, given, joined)
    if not text and is_inside:
        text = goes_over_batch(node, given[0]) or (joins_samples(node, given) if from_batch else "")
    return text


def _between_parts(node: Any, given: tuple[int, ...], *, is_inside: bool) -> str:
    return deals_out(node, given[0]) if is_inside else ""


def _mixes(node: Any, given: tuple[int, ...], joined: tuple[int, ...]) -> str:
    """What an operator does to the batch, if it mixes its samples; not where its sizes may be the batch's by chance.

    Args:
        node: The operator.
        given: The shape of the inputs.
        joined: The batch and the parts of a sample, where a layer was given all parts one after the other.
    """
    name, rows = operator(node), given[0]
    if name in SOFTMAXES:
        return _softmax(node, shape_of(node), given)
    if text := deals_out(node, rows, joined):
        return text
    if name.startswith(_ATTENTION) and (scores := _scores_of(node)) is not None:
        return _attention(node, *scores, given)
    return ""


def _scores_of(node: Any) -> tuple[int, int] | None:
    """The batch and the length over which an operator attends, if it does; None for others."""
    name, shape = operator(node), shape_of(node)
    if len(shape) != 4:
        return None
    if name.startswith(_ATTENTION):
        return shape[0], shape[2]
    is_softmax = name in SOFTMAXES and dimension_of(saved_value(node, "dim"), 4) == 3
    return (shape[0], shape[3]) if is_softmax else None


def _softmax(node: Any, shape: tuple[int, ...], given: tuple[int, ...]) -> str:
    rows = given[0]
    dimension = dimension_of(saved_value(node, "dim"), len(shape))
    if dimension is None or len(shape) < 2:
        return ""
    if dimension == 0 and is_batch(shape, rows):
        return f"a softmax over dimension 0 of {shape} lets the {rows} samples of a batch compete"
    if shape[2:3] == (rows,) and (scores := _scores_of(node)) is not None:
        return _attention(node, *scores, given)
    return ""


def _attention(node: Any, batch: int, length: int, given: tuple[int, ...]) -> str:
    """Scores (batch, heads, length, length) of which the length is the batch's.

    Samples may be cut into parts as long as there are samples: there are a multiple of the samples then, and a reshape
    that cut them.
    """
    rows = given[0]
    if length != rows or batch in (1, rows):
        return ""
    if batch % rows == 0 and (batch not in given[1:] or _is_cut(node, batch, rows)):
        return ""
    return f"attention runs over the {rows} samples of a batch, for {batch} positions apart: batch_first is missing"


def _is_cut(node: Any, parts: int, length: int) -> bool:
    """Whether a reshape before a node makes parts of that length."""
    return any(operator(one) in VIEWS and shape_of(one)[:2] == (parts, length) for one in nodes_before(node))
