"""Looks at the graphs of losses: which loss they show, and which invariants they break."""

from debuggers.observed_training.forward_calls import ForwardCalls
from debuggers.observed_training.graphs.kept_graphs import KeptGraphs
from debuggers.observed_training.graphs.loss_view import LossView, loss_view
from debuggers.observed_training.graphs.overflows import overflowed
from debuggers.observed_training.graphs.unkept_statistics import UnkeptStatistics
from debuggers.observed_training.graphs.unregistered_weights import UnregisteredWeights
from debuggers.observed_training.invariants import InvariantLog
from debuggers.observed_training.known_losses import KnownLosses
from debuggers.observed_training.step_passes import StepPasses
from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import held_parameters

SEARCHED_STEPS = 10
"""Steps at which the graph is searched for what breaks an invariant."""


class LossGraphs:
    """Looks at the graph of a loss before its backward pass; nothing of it is kept."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        calls: ForwardCalls,
        passes: StepPasses,
        *,
        losses: KnownLosses,
        invariants: InvariantLog,
    ) -> None:
        self._optimizer, self._calls, self._passes = optimizer, calls, passes
        self._losses, self._invariants = losses, invariants
        self._marks, self._unregistered = KeptGraphs(), UnregisteredWeights(model)
        self._statistics = UnkeptStatistics(model)

    def look(self, loss: torch.Tensor, observed: int) -> LossView | None:
        """Returns what the graph shows of the loss, with what is known of losses so far; None for another model's.

        ``observed`` counts the steps before this one.
        """
        calls = self._calls
        view = loss_view(loss, calls.outputs, calls.held)
        is_called = calls.outputs or (calls.inputs is not None and not calls.sizes)
        if not view.reaches_outputs and is_called and not calls.by_parts:
            return None
        self._marks.mark(observed, loss)
        if observed < SEARCHED_STEPS and not self._passes.passes:  # once a step: others' weights change between steps
            self._search(loss, observed)
        return self._losses.see(view, calls.values, self._passes.scale_number)

    def check_kept(self, observed: int, step: int) -> None:
        """Checks that the graphs of earlier steps are gone; ``observed`` counts the steps, as ``look`` does."""
        if (found := self._marks.kept(observed)) is not None:
            kept, marked = found
            self._invariants.check("graphs_freed", step, broken=2 * kept > marked)

    def _search(self, loss: torch.Tensor, step: int) -> None:
        mixed = self._calls.mixed.found(loss.grad_fn, self._calls.outputs)
        self._calls.random.look(loss.grad_fn)
        held = () if self._optimizer is None else set(map(id, held_parameters(self._optimizer)))
        unknown = self._unregistered.look(loss.grad_fn, self._calls.outputs, self._calls.given, held)
        found = {"samples_are_apart": mixed, "first_is_batch": self._calls.mixed.along_first(loss.grad_fn)}
        if rows := self._calls.mixed.rows:
            found["batch_statistics_are_kept"] = self._statistics.look(loss.grad_fn, self._calls.outputs, rows)
        found["states_pass_gradients"] = self._calls.states.cut
        found["loss_exponentials_are_finite"] = overflowed(loss.grad_fn)
        if unknown is not None:
            found["weights_are_registered"], found["layers_last"] = unknown
        for name, where in found.items():
            if where is not None:
                self._invariants.check(name, step, broken=bool(where), where=where)
