"""The parameters of a model by name, and their gradients."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import Self

from tracker_adapters.values.tensors import plain_tensor

from debuggers.gradients.states import is_state
from debuggers.host_arrays.readable import is_dense, is_freed
from debuggers.instrumentation.joined_optimizers import rounds_of
from debuggers.instrumentation.long_names import fitting_name
from debuggers.instrumentation.module_changes import ModuleMembers
from debuggers.instrumentation.module_selection import WRAPPERS
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import WRAPPED, BatchNorm, Dropout, children_of, parameters_of
from debuggers.torch_internals.optimizers import ReleasedParameters


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """Gradients of one moment, in the model's order.

    Attributes:
        names: Of the parameters that have one; the same tuple as long as they are the same.
        parameters: These parameters.
        tensors: Their gradients, themselves.
        missing: Parameters that require a gradient and have none.
    """

    names: tuple[str, ...]
    parameters: list[torch.Tensor]
    tensors: list[torch.Tensor]
    missing: int

    def of(self, takes_part: Callable[[torch.Tensor], bool]) -> Self:
        """Returns those of some parameters."""
        chosen = list(map(takes_part, self.parameters))
        if all(chosen):
            return self
        return replace(
            self,
            names=tuple(compress(self.names, chosen)),
            parameters=list(compress(self.parameters, chosen)),
            tensors=list(compress(self.tensors, chosen)),
        )


class Parameters:
    """The parameters of a model, each once.

    Wrappers of data parallelism and of ``torch.compile`` leave no trace in the names. A parameter or module that was
    added, exchanged or removed is noticed by the next call of ``gradients``: each call compares what the modules hold,
    by identity, with what the last walk through the model found, in a fraction of the time of a walk.

    What an optimizer has let go, as where a layer is frozen by taking it out of the groups, is left out: nothing uses
    its gradients any more, nor sets them to zero, so that they add up from step to step. What a framework keeps as
    parameters though they are states of layers (``states``) is left out, too.

    Attributes:
        names: In the model's order. A tied parameter has its first name; the others are in ``aliases``.
        tensors: The parameters.
        aliases: The other names of those that have several.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Takes the parameters that there are; without an optimizer the gradients of all of them count."""
        self._model = model
        self._released = None if optimizer is None else ReleasedParameters(optimizer)
        self._rounds = rounds_of(optimizer)
        self.names: tuple[str, ...] = ()
        self._walk()

    def _walk(self) -> None:
        found = _named_parameters(self._model)
        named = {tensor: names for tensor, names in found.items() if not is_state(tensor)}
        self._states = {first: tensor for tensor, (first, *_) in found.items() if is_state(tensor)}
        names = tuple(first for first, *_ in named.values())
        # Whoever has seen the names knows them by their tuple.
        self.names = self.names if names == self.names else names
        self.tensors: list[torch.Tensor] = list(named)
        self._members = ModuleMembers(self._model, with_parameters=True)
        self.aliases = {first: tuple(others) for first, *others in named.values() if others}
        self._absent: tuple[int, ...] = ()
        self._present_names, self._present = self.names, self.tensors

    @property
    def in_eval_mode(self) -> bool:
        """Whether the model is in eval mode now."""
        return not self._model.training

    def bound_to_mode(self) -> list[str]:
        """Returns the names of the dropouts and batch norms that are in eval mode now, as they act otherwise there."""
        return [
            name
            for name, module in self._model.named_modules()
            if not module.training and (isinstance(module, BatchNorm) or (isinstance(module, Dropout) and module.p))
        ]

    @torch.no_grad()
    def broken(self) -> list[str]:
        """Returns the names of the parameters and buffers that hold a NaN, of shards those here; waits for the device.

        Also those of parameters that require a gradient and hold +∞. -∞ alone may be a mask, and what is not trained
        may hold any infinity. What has no dense values is left out, or none at all at the moment.
        """
        named = dict(zip(self.names, self.tensors, strict=True)) | self._states | dict(self._model.named_buffers())
        flags = {}
        for name, tensor in named.items():
            dense = is_dense(tensor) and not tensor.is_quantized
            if dense and (tensor.is_floating_point() or tensor.is_complex()) and not is_freed(tensor):
                values = plain_tensor("parameter", tensor)
                values = values.float() if values.element_size() == 1 else values  # not every float8 knows isnan
                flags[name] = values.isnan().any()
                if tensor.requires_grad:
                    infinite = values.isinf() if values.is_complex() else values.isposinf()
                    flags[name] |= infinite.any()
        return [name for name, flag in flags.items() if flag]

    def gradients(self, *, with_released: bool = False) -> Gradients:
        """Returns the gradients that are there now, on demand also those of what the optimizer has let go.

        Of several optimizers, those that each has stepped with in the round that is not ended; none of those that step
        in other rounds.
        """
        if self._members.have_changed():
            self._walk()
        rounds = self._rounds
        if rounds is not None and rounds.is_open:
            found = [rounds.gradient_of(parameter) for parameter in self.tensors]
        else:
            found = [parameter.grad for parameter in self.tensors]
        released = self._released
        if not with_released and released is not None and released.look():
            found = [None if one in released else grad for one, grad in zip(self.tensors, found, strict=True)]
        return self._collect(found)

    def _collect(self, found: list[torch.Tensor | None]) -> Gradients:
        tensors = [gradient for gradient in found if gradient is not None]
        if len(tensors) == len(found):
            return Gradients(self.names, self.tensors, tensors, 0)
        absent = tuple(place for place, gradient in enumerate(found) if gradient is None)
        if absent != self._absent:
            left_out = set(absent)
            present = [place for place in range(len(found)) if place not in left_out]
            self._absent = absent
            self._present_names = tuple(self.names[place] for place in present)
            self._present = [self.tensors[place] for place in present]
        missing = sum(self.tensors[place].requires_grad and self.tensors[place].grad is None for place in absent)
        return Gradients(self._present_names, self._present, tensors, missing)


def _named_parameters(model: torch.nn.Module) -> dict[torch.Tensor, list[str]]:
    """Returns each parameter with all its names."""
    found: dict[torch.Tensor, list[str]] = {}
    for name, parameter in _visit(model, ""):
        found.setdefault(parameter, []).append(fitting_name(name))
    return found


def _visit(module: torch.nn.Module, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    for key, parameter in parameters_of(module).items():
        if parameter is not None:
            yield prefix + key, parameter
    for key, child in children_of(module).items():
        if child is not None:
            hidden = key in WRAPPED or isinstance(module, WRAPPERS)
            yield from _visit(child, prefix if hidden else f"{prefix}{key}.")
