"""The parameters of a model by name, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass

from debuggers.torch_import import torch

_WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
# What torch.compile, FSDP and its checkpoint wrapper put into names.
_INFIXES = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
_WALK_EVERY = 100


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """Gradients of one moment.

    Attributes:
        names: Of the parameters that have one, in the model's order; the same tuple as long as they are the same.
        tensors: The gradients themselves, in that order.
    """

    names: tuple[str, ...]
    tensors: list[torch.Tensor]


class Parameters:
    """The parameters of a model, each once.

    Wrappers of data parallelism and of ``torch.compile`` leave no trace in the names. The model is walked again at
    every hundredth call of ``gradients``, and whenever no parameter has a gradient: parameters that are exchanged
    are noticed then.

    Attributes:
        names: In the model's order. A tied parameter has its first name; the others are in ``aliases``.
        tensors: The parameters.
        aliases: The other names of those that have several.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        while isinstance(model, _WRAPPERS):
            model = model.module
        self._model = model
        self._calls = 0
        self._missing: tuple[int, ...] = ()
        self._present_names: tuple[str, ...] = ()
        self._walk()

    def _walk(self) -> None:
        found: dict[torch.Tensor, list[str]] = {}
        for name, parameter in self._model.named_parameters(remove_duplicate=False):
            found.setdefault(parameter, []).append(_plain_name(name))
        self.tensors = list(found)
        names = tuple(aliases[0] for aliases in found.values())
        self.aliases = {first: tuple(others) for first, *others in found.values() if others}
        self.names = names
        self._missing, self._present_names = (), names

    @property
    def trainable(self) -> list[int]:
        """The places of the parameters that require a gradient."""
        return [place for place, parameter in enumerate(self.tensors) if parameter.requires_grad]

    def gradients(self) -> Gradients:
        """Returns the gradients that are there now."""
        self._calls += 1
        if self._calls % _WALK_EVERY == 0:
            self._walk_again()
        found = [parameter.grad for parameter in self.tensors]
        tensors = [gradient for gradient in found if gradient is not None]
        if not tensors:
            self._walk_again()
            found = [parameter.grad for parameter in self.tensors]
            tensors = [gradient for gradient in found if gradient is not None]
        if len(tensors) == len(found):
            return Gradients(self.names, tensors)
        missing = tuple(place for place, gradient in enumerate(found) if gradient is None)
        if missing != self._missing:
            left_out = set(missing)
            self._missing = missing
            self._present_names = tuple(name for place, name in enumerate(self.names) if place not in left_out)
        return Gradients(self._present_names, tensors)

    def _walk_again(self) -> None:
        before = self.names, self.tensors
        self._walk()
        if before[0] == self.names:
            # The names' tuple is known to those who have seen it.
            self.names = self._present_names = before[0]


def _plain_name(name: str) -> str:
    for infix in _INFIXES:
        name = name.replace(infix, "")
    return name
