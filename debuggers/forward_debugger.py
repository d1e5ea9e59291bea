"""The base of debuggers that look at one layer's output during the forward pass."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from debuggers.base_debugger import BaseDebugger
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op


class ForwardDebugger(BaseDebugger):
    """Captures what ``process_forward`` makes of a layer's output.

    ``last_capture`` holds the result of the layer's last call, or None before it. SequentialDebugger attaches
    ``forward_hook_fn`` to the layer, and sets ``last_capture`` back to None once it has taken it.
    """

    def __init__(self, layer_name: str, missing_ok: bool = False) -> None:
        """Makes a debugger for one layer.

        Args:
            layer_name: The layer's dotted name in the model; ``""`` is the model itself.
            missing_ok: A model without this layer is accepted; the debugger then captures nothing.
        """
        self.layer_name = layer_name
        self.missing_ok = missing_ok
        self.last_capture: Any = None

    @abstractmethod
    def process_forward(self, module: torch.nn.Module, input: Any, output: Any) -> Any:
        """Returns the debug outputs for one call of the layer; gradients are off while it runs.

        Args:
            module: The layer.
            input: Its positional arguments, as a tuple.
            output: What it returned; not to be changed.
        """

    def forward_hook_fn(self, module: torch.nn.Module, input: Any, output: Any) -> None:
        """A forward hook: keeps a copy of what ``process_forward`` returns in ``last_capture``.

        The copy is made at once, because a later layer may change the output in place.
        """
        # During a backward pass the layer runs again only to recompute what activation checkpointing dropped.
        if torch._C._current_graph_task_id() != -1:
            return
        with torch.no_grad():
            self.last_capture = apply_tensor_op(_copied, self.process_forward(module, input, output))

    def __call__(self, datapoint: dict[str, Any], model: torch.nn.Module) -> Any:
        """Returns ``last_capture``."""
        return self.last_capture


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()
