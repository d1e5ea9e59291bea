"""The batch that is probed: how the model is called with it, and how rows of it are taken."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.model_replay import replay_arguments
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op, tensors_in

Forward = Callable[[torch.nn.Module, Any], torch.Tensor]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
LABELS = frozenset(["labels", "label", "targets", "target", "y"])


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model: its arguments, its outputs, and the loss, a tensor of one element."""

    arguments: Arguments
    outputs: Any
    loss: torch.Tensor


@dataclass(frozen=True, slots=True)
class ProbedBatch:
    """A batch and how its loss is computed.

    Attributes:
        batch: ``(inputs, targets)``, or a mapping of the model's arguments; with ``forward`` anything.
        loss: ``loss(outputs, targets)``; for a mapping, ``loss(outputs, batch)``. None where the model's outputs have
            a ``loss``.
        forward: ``forward(model, batch)`` returns the loss, instead.
    """

    batch: Any
    loss: Callable[[Any, Any], torch.Tensor] | None = None
    forward: Forward | None = None

    @property
    def targets(self) -> Any:
        """The targets; None in a mapping without labels."""
        if isinstance(self.batch, Mapping):
            return next((value for key, value in self.batch.items() if key in LABELS), None)
        return self.batch[1] if isinstance(self.batch, (tuple, list)) and len(self.batch) == 2 else None

    def rows(self, count: int) -> "ProbedBatch":
        """The batch with at most so many rows: tensors are cut whose first dimension is that of the first one."""
        return ProbedBatch(first_rows(self.batch, count), self.loss, self.forward)

    def call(
        self, model: torch.nn.Module, change: Callable[[tuple[Any, ...], dict[str, Any]], Arguments] | None = None
    ) -> Call:
        """Calls the model on copies of the batch; ``change`` is applied to the arguments of its first call."""
        arguments: list[Arguments] = []
        outputs: list[Any] = []

        def see_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
            taken = change(args, kwargs) if change is not None and not arguments else (args, kwargs)
            arguments.append(taken)
            return taken

        with Hooks() as hooks:
            hooks.add_change(model, see_arguments, lambda: None)
            hooks.add_forward([(model, lambda module, args, output: outputs.append(output))])
            with torch.no_grad():
                batch = apply_tensor_op(torch.clone, self.batch)
            loss = self._loss(model, batch)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(loss)[:80]
            raise ValueError(f"the loss is {what}; expected a tensor of one element")
        if not arguments:
            raise ValueError("forward never called the model that it was given; expected forward(model, batch)")
        return Call(arguments[0], outputs[0], loss.reshape(()))

    def _loss(self, model: torch.nn.Module, batch: Any) -> Any:
        if self.forward is not None:
            return self.forward(model, batch)
        is_mapping = isinstance(batch, Mapping)
        args, kwargs = replay_arguments(model, batch if is_mapping else batch[0])
        outputs = model(*args, **kwargs)
        if self.loss is not None:
            return self.loss(outputs, batch if is_mapping else batch[1])
        found = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
        if found is None:
            raise ValueError("the model's outputs have no loss; expected loss=… or forward=…")
        return found


def row_count(values: Any) -> int:
    """The first dimension of the first tensor that has one; 0 without."""
    return next((tensor.shape[0] for tensor in tensors_in(values) if tensor.ndim), 0)


def first_rows(values: Any, count: int) -> Any:
    """Cuts tensors of a nest to their first rows, if they have as many as the first one."""
    rows = row_count(values)
    return apply_tensor_op(lambda one: one[:count] if one.ndim and one.shape[0] == rows else one, values)
