"""Whose calls show the passes of a model: its own, or those of its parts where a loop calls them in its place."""

from debuggers.instrumentation.module_selection import WRAPPERS
from debuggers.torch_import import torch


class Entrances:
    """The modules that a loop calls: the model, or its parts, as ``decoder(encoder(x))`` does.

    A model without a forward of its own, such as a ``ModuleDict``, has only parts. For others the first step tells in
    which gradients are on and any of them is called.

    Attributes:
        model: Whose calls show the passes, without wrappers; None where no call can be seen.
        by_parts: Whether the loop calls the parts.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = observable(model)
        self._parts = [] if self.model is None else parts_of(self.model)
        self.by_parts = self.model is not None and not _has_forward(self.model) and bool(self._parts)
        self._is_known = self.by_parts or not self._parts
        self._called: set[bool] = set()

    @property
    def modules(self) -> list[torch.nn.Module]:
        """Those to observe: until it is known which are called, the model and its parts."""
        own = [] if self.model is None or self.by_parts else [self.model]
        return own + (self._parts if self.by_parts or not self._is_known else [])

    def training_begins(self, module: torch.nn.Module) -> None:
        """Takes a call with gradients that is made within no other one."""
        if not self._is_known:
            self._called.add(module is self.model)

    def step_ends(self) -> bool:
        """Says that a step has ended; returns whether ``modules`` are others by now."""
        if self._is_known or not self._called:
            return False
        self._is_known, self.by_parts = True, True not in self._called
        return True


def observable(model: torch.nn.Module) -> torch.nn.Module | None:
    """Returns the module whose calls show the passes: what data parallelism wraps; None where no call can be seen."""
    while isinstance(model, WRAPPERS):
        model = model.module
    return None if isinstance(model, torch.jit.ScriptModule) else model


def parts_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Returns a module's children, and those of children that have no forward of their own, each once."""
    found: dict[torch.nn.Module, None] = {}
    for child in model.children():
        if not isinstance(child, torch.jit.ScriptModule):
            found.update(dict.fromkeys([child] if _has_forward(child) else parts_of(child)))
    return list(found)


def _has_forward(module: torch.nn.Module) -> bool:
    return getattr(module.forward, "__func__", module.forward) is not torch.nn.Module.forward
