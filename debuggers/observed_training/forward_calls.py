"""Sees how a loop calls its model: what it returns, the size of its batches, and whether a validation runs."""

import operator
import time
import weakref
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace as with_fields

from debuggers.diagnosis.facts import BatchFacts
from debuggers.host_arrays.readable import is_dense
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.instrumentation.training_pass import holds_values, is_training_forward
from debuggers.observed_training.carried_states import CarriedStates
from debuggers.observed_training.evaluation_losses import EvaluationLosses, OnEvaluation
from debuggers.observed_training.graphs.loss_view import output_nodes
from debuggers.observed_training.graphs.mixed_samples import MixedSamples
from debuggers.observed_training.random_calls import RandomCalls
from debuggers.observed_training.validations import Validations
from debuggers.signals.entrances import Entrances
from debuggers.signals.modes import evaluates_as_in_training, is_in_training_mode
from debuggers.signals.single_rows import follows_single_row
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id, node_number, transforms_are_active
from debuggers.torch_internals.graph_nodes import dtypes_of_products
from debuggers.torch_internals.modules import is_replica
from debuggers.utils import tensors_in

_MOST_OUTPUTS = 64
"""Nodes of outputs that are known at a time."""
_MOST_HELD = 1 << 18
"""Elements of outputs that are held until their backward pass."""


class ForwardCalls:
    """Observes a model's calls from ``attach`` to ``detach``.

    Where a loop calls the model's parts, what they return counts as the model's outputs. Batches are not counted then,
    nor validations: a part that is called without gradients may be a teacher, or a frozen body.

    Attributes:
        outputs: The nodes of the outputs since the last step; see ``output_nodes``.
        inputs: The first batch, of the first training call that is looked at closely; of a later one if that was of one
            row and the later one is of several such.
        first_outputs: What that returned.
        values: The first floating-point output of the last call that was looked at closely, until its step ends; None
            for a large one.
        held: The first floating-point outputs of all calls since the last step that were looked at closely, without
            their graphs, by the numbers of their nodes; without those beyond a size.
        autocast: The dtype of autocast in the last call that was looked at closely; None without.
        products: The dtypes of matrix products in the last call that was looked at closely.
        sizes: The lengths of the batches since the last step.
        are_of_data: Whether no training call since the last step was given what requires a gradient: what another model
            puts out, or inputs that are to be changed.
        counts: Training calls since the last step, and the different batches that they had.
        validations: Counts them.
        lent: Training calls that were looked at closely in which the model had other weights than between the steps, as
            by ``torch.func.functional_call``.
        random: Says whether dropout goes on in evaluation.
        mixed: Says whether samples of the last call that was looked at closely are mixed.
        states: Says whether a loop cuts the state of a recurrence off the graph.
        begun_s: When the first training call since the last step began, by ``time.perf_counter``; None before it.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        isolation: Isolation,
        stopwatch: Stopwatch,
        *,
        on_training: Callable[[], None] = lambda: None,
        on_evaluation: Callable[[torch.Tensor], None] = lambda outputs: None,
        on_evaluation_loss: OnEvaluation = lambda loss: None,
    ) -> None:
        """Observes nothing before ``attach``.

        ``on_training`` is called in the thread of each training call; ``on_evaluation`` gets the outputs of the first
        call after a step that is made without gradients, of a model none of whose layers is in training mode;
        ``on_evaluation_loss`` what a loss makes of each.
        """
        self._entrances = Entrances(model)
        self._model = self._entrances.model
        self._isolation, self._stopwatch = isolation, stopwatch
        self._on_training, self._on_evaluation = on_training, on_evaluation
        self._hooks, self._first_hooks = Hooks(), Hooks()
        self.outputs: frozenset[int] = frozenset()
        self.inputs: BatchFacts | None = None
        self.first_outputs: BatchFacts | None = None
        self._of_part: BatchFacts | None = None
        self.values: torch.Tensor | None = None
        self.held: dict[int, torch.Tensor] = {}
        self.autocast: torch.dtype | None = None
        self.products: frozenset[torch.dtype] = frozenset()
        self.sizes: list[int] = []
        self.are_of_data = True
        self.validations = Validations()
        self.mixed = MixedSamples(self._model)
        self.states = CarriedStates(self._model)
        self.random = RandomCalls(self._model)
        self._evaluations = EvaluationLosses(on_evaluation_loss, isolation, stopwatch)
        self.lent = 0
        self._own: tuple[torch.Tensor, ...] = ()
        self._looks_closely = True
        self._depth = 0
        self._batch: weakref.ref[torch.Tensor] | None = None
        self._evaluates = False
        self._given: weakref.ref[torch.Tensor] | None = None
        self.counts = (0, 0)
        self._batches: list[weakref.ref[torch.Tensor]] = []
        self.begun_s: float | None = None

    @property
    def by_parts(self) -> bool:
        """Whether the loop calls the model's parts in its place, as far as is known by now."""
        return self._entrances.by_parts

    @property
    def given(self) -> torch.Tensor | None:
        """The first tensor that the last training call was given, if loop or graph still hold it."""
        return None if self._given is None else self._given()

    def was_given(self, tensor: torch.Tensor | None) -> bool:
        """Whether a tensor is what the last training call was given first, in whatever shape: as of an autoencoder."""
        given = self.given
        if tensor is None or given is None or tensor.numel() != given.numel():
            return False
        return tensor.data_ptr() == given.data_ptr()

    def attach(self) -> None:
        """Observes the model's calls from now on."""
        if self._model is not None and not len(self._hooks):
            self._evaluations.start()
            modules = self._entrances.modules
            for module in modules:
                self._hooks.add_around_forward(module, self._begin, self._end)
            self._hooks.add_forward([*self.mixed.hooks(), *((module, self._note_output) for module in modules)])
            if self._looks_closely:
                readers = [(module, self._note_reader) for module in self.mixed.readers]
                states = [(module, self._note_state) for module in self.states.modules]
                self._first_hooks.add_forward([*readers, *states])

    def detach(self) -> None:
        """Takes the hooks off the model, and forgets the calls since the last step."""
        self._hooks.remove()
        self._first_hooks.remove()
        self._evaluations.stop()
        self.random.forget_call()
        self._depth = 0
        self.step_ends(looks_closely=self._looks_closely)

    def step_ends(self, *, looks_closely: bool) -> None:
        """Says that a step has ended, and whether the graphs of the next one's outputs are looked at."""
        self.outputs, self.sizes, self.values, self.held = frozenset(), [], None, {}
        self._batches, self.counts = [], (0, 0)
        self.begun_s, self.are_of_data = None, True
        self._looks_closely = looks_closely
        self.mixed.step_ends()
        self.states.forget()
        self._own = self._weights() if looks_closely else ()
        if not looks_closely and len(self._first_hooks):
            self._first_hooks.remove()
        changed = self._entrances.step_ends()
        if self.by_parts and self.first_outputs is None:
            self.first_outputs = self._of_part
        if changed and len(self._hooks):
            self._hooks.remove()
            self._first_hooks.remove()
            self.attach()

    def _begin(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        with self._stopwatch, self._isolation.guard("watching the model's calls"):
            if is_training_forward():
                if self.begun_s is None:
                    self.begun_s = time.perf_counter()
                if not is_replica(module):  # data parallelism calls each in a thread of its own
                    self._on_training()
                self._entrances.training_begins(module)
                if module is self._model:
                    self._see_training(args, kwargs)
                elif self._looks_closely and (tensor := _first_tensor((args, kwargs))) is not None:
                    self.mixed.part_begins(tensor)
                    self._see_first(tensor)
            elif module is self._model and transforms_are_active() and torch.is_grad_enabled():
                self._count_lent()
            elif (
                module is self._model
                and not torch.is_grad_enabled()
                and backward_pass_id() == NO_BACKWARD_PASS
                and holds_values()
            ):
                tensor = _first_tensor((args, kwargs))
                last = None if self._batch is None else self._batch()
                again = self._evaluates and tensor is not None and last is tensor
                self._evaluates = True
                self._batch = None if tensor is None else weakref.ref(tensor)
                self.random.call_begins(again=again)
                validations = self.validations
                trains = (validations.wants_mode or validations.acted) and is_in_training_mode(module)
                acted = trains and validations.wants_mode and evaluates_as_in_training(module)
                validations.see_call(acted=acted, again=again, rests=validations.acted and not trains)

    def _see_training(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensor = _first_tensor((args, kwargs))
        if tensor is not None and self._batch is not None and self._batch() is tensor:
            self.validations.forget_calls()
        self._evaluates = False  # the same tensor may come to a validation after this call
        self._evaluations.training_begins(tensor)
        self._given = None if tensor is None else weakref.ref(tensor)
        self.are_of_data &= tensor is not None and not tensor.requires_grad
        is_known = tensor is not None and any(one() is tensor for one in self._batches)
        self.counts = (self.counts[0] + 1, self.counts[1] + (not is_known))
        if self._given is not None and not is_known and len(self._batches) < _MOST_OUTPUTS:
            self._batches.append(self._given)
        if tensor is not None and tensor.ndim and len(self.sizes) < _MOST_OUTPUTS:
            self.sizes.append(tensor.shape[0])
        if not self._looks_closely:
            return
        self._count_lent()
        self.mixed.call_begins(tensor, alone=len(tensors_in((args, kwargs))) == 1)
        if tensor is not None:
            self._see_first(tensor)

    def _weights(self) -> tuple[torch.Tensor, ...]:
        return () if self._model is None else tuple(self._model.parameters())

    def _count_lent(self) -> None:
        """Counts a call in which the model has other weights, some or all, than between the steps."""
        if self._own:
            weights = self._weights()
            self.lent += len(weights) != len(self._own) or any(map(operator.is_not, weights, self._own))

    def _see_first(self, tensor: torch.Tensor) -> None:
        """Takes the first tensor of a call that is looked at closely."""
        if self.inputs is None or follows_single_row(self.inputs.shape, tensor.shape):
            self.inputs = with_fields(batch_facts(tensor), requires_grad=tensor.requires_grad)
        kind = tensor.device.type
        is_on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        self.autocast = torch.get_autocast_dtype(kind) if is_on else None

    def _end(self, module: torch.nn.Module) -> None:
        self._depth = max(0, self._depth - 1)
        if not self._depth and self.random.is_within_call:  # whatever the model has switched within it
            with self._stopwatch, self._isolation.guard("watching the model's calls"):
                self.random.call_ends()

    def _note_reader(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if args and self._looks_closely and is_training_forward():
            with self._stopwatch, self._isolation.guard("watching the model's calls"):
                self.mixed.reads(module, args[0])

    def _note_state(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._looks_closely and is_training_forward():
            with self._stopwatch, self._isolation.guard("watching the model's calls"):
                self.states.see(module, args, output)

    def _note_output(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._depth:
            return
        is_evaluated = module is self._model and not torch.is_grad_enabled() and self.validations.calls
        if is_evaluated and holds_values():  # a graph that is traced would take what is computed here
            with self._stopwatch, self._isolation.guard("looking at the outputs of a validation"):
                values = next((one for one in tensors_in(output) if is_dense(one) and one.is_floating_point()), None)
                self._evaluations.call_ends(args, values)
                if values is not None and self.validations.calls == 1 and not self.validations.acted:
                    self._on_evaluation(values)
        if not (self._looks_closely and is_training_forward()):
            return
        with self._stopwatch, self._isolation.guard("watching the model's calls"):
            found = [one for one in tensors_in(output) if is_dense(one)]
            if len(self.outputs) < _MOST_OUTPUTS:
                self.outputs |= output_nodes(found[:_MOST_OUTPUTS])
            values = next((one for one in found if one.is_floating_point() and one.ndim), None)
            if module is self._model:
                self.mixed.call_ends(values)
            else:
                self.mixed.part_ends(values)
            known = self.first_outputs
            if values is not None and (known is None or follows_single_row(known.shape, values.shape)):
                if module is self._model:
                    self.first_outputs = batch_facts(values)
                elif known is None:
                    self._of_part = batch_facts(values)
            small = values is not None and values.numel() <= _MOST_HELD
            self.values = values.detach() if values is not None and small else None
            if self.values is not None and values is not None and values.grad_fn is not None:
                fit = self.values.numel() + sum(one.numel() for one in self.held.values()) <= _MOST_HELD
                self.held |= {node_number(values.grad_fn): self.values} if fit else {}
            if values is not None and values.grad_fn is not None:
                self.products = dtypes_of_products(values.grad_fn)


def batch_facts(tensor: torch.Tensor) -> BatchFacts:
    """Returns what is stored of a tensor of the first batch."""
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    return BatchFacts(shape=tuple(tensor.shape), dtype=dtype_name(tensor.dtype), integer=whole)


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the name of a dtype, such as ``float32``."""
    return str(dtype).removeprefix("torch.")


def _first_tensor(values: Any) -> torch.Tensor | None:
    """The first argument if it is a tensor, as it mostly is, else the first dense one among the arguments."""
    args = values[0]
    if args and isinstance(args[0], torch.Tensor) and is_dense(args[0]):
        return args[0]
    return next(filter(is_dense, tensors_in(values)), None)
