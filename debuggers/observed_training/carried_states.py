"""Sees whether a loop over the positions of a sequence cuts the state of its recurrence off the graph at each one."""

from typing import Any

from debuggers.torch_import import torch
from debuggers.utils import tensors_in

_RECURRENT = (torch.nn.RNNCellBase, torch.nn.RNNBase)
FEWEST = 4
"""Calls that go on from the state of the one before, from which nearly all should pass gradients back."""
NEARLY_ALL = 0.9


class CarriedStates:
    """Counts the calls of recurrent modules that are given the state that the call before has put out.

    A state that is detached shares the memory of the one that was put out, which is kept until the next call, or the
    end of the step. One that is copied besides is not seen. Cutting at some positions bounds how far gradients go back
    (truncated back-propagation, Williams and Peng 1990); cutting at each one leaves none that go back at all.
    """

    def __init__(self, model: torch.nn.Module | None) -> None:
        self._names: dict[Any, str] = {
            module: name
            for name, module in (() if model is None else model.named_modules())
            if isinstance(module, _RECURRENT)
        }
        self.forget()

    @property
    def modules(self) -> list[torch.nn.Module]:
        """The recurrent modules, whose calls are to be given to ``see``."""
        return list(self._names)

    def forget(self) -> None:
        """Lets go of the states and the counts of a step."""
        self._last: dict[Any, torch.Tensor] = {}
        self._carried: dict[Any, tuple[int, int]] = {}

    @property
    def cut(self) -> str | None:
        """The module whose state was cut off at nearly each call since ``forget``, ``""`` for none; None if unknown."""
        counts = {module: pair for module, pair in self._carried.items() if pair[0] >= FEWEST}
        found = (self._names[module] for module, (all_of, cut) in counts.items() if cut >= NEARLY_ALL * all_of)
        return next(found, "") if counts else None

    def see(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """Takes a call of one of ``modules`` in training: its arguments, and what it has put out."""
        last = self._last.pop(module, None)
        given = next(iter(tensors_in(args[1:])), None)
        if last is not None and given is not None and _is_same(given, last):
            carried, cut = self._carried.get(module, (0, 0))
            self._carried[module] = (carried + 1, cut + (not given.requires_grad))
        # Of a cell it is the output, or the first of two; of a layer it comes behind the outputs of all positions.
        state = output[1] if isinstance(module, torch.nn.RNNBase) else output
        put_out = next(iter(tensors_in(state)), None)
        if put_out is not None and put_out.requires_grad:
            self._last[module] = put_out.detach()


def _is_same(given: torch.Tensor, last: torch.Tensor) -> bool:
    """Whether two tensors are the same memory, in whatever shape."""
    if given.layout is not torch.strided or last.layout is not torch.strided or given.is_meta:
        return False
    return given.numel() == last.numel() and given.data_ptr() == last.data_ptr()
