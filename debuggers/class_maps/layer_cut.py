"""Takes a layer's output out of the graph, so that the rest of the model can be differentiated from there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from debuggers.errors import DebuggerConfigError
from debuggers.forward_debugger import is_recomputation
from debuggers.instrumentation.hooks import Hooks
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op


class LayerCut:
    """Keeps the first tensor that a layer returns, in its last call, as a leaf that requires a gradient.

    The layers behind get a copy, computed from that leaf: whether parameters are frozen makes no difference, and what
    later layers do in place reaches neither the values nor their gradient. Only calls in the thread that made this are
    cut, and those that a backward pass repeats.
    """

    def __init__(self) -> None:
        self._leaf: torch.Tensor | None = None
        self._called = False
        self._thread = threading.get_ident()

    @contextmanager
    def at(self, layer: torch.nn.Module) -> Iterator[None]:
        """Cuts at a layer while the block runs, which includes the backward pass.

        Activation checkpointing calls the layer again there, and needs the same graph as in the forward pass.
        """
        with Hooks() as hooks:
            hooks.add_output(layer, self._cut)
            yield

    def leaf(self, name: str) -> torch.Tensor:
        """Returns the leaf.

        Args:
            name: The layer's name, for messages.

        Raises:
            DebuggerConfigError: When the layer did not run, or returned no dense tensor of floating point.
        """
        if not self._called:
            raise DebuggerConfigError(
                f"layer {name!r} did not run when the model ran again on the datapoint's inputs; expected a layer that "
                "is called as a module, in the thread that calls the model, and not inside what torch.jit compiled"
            )
        leaf = self._leaf
        if leaf is None:
            raise DebuggerConfigError(f"layer {name!r} returned no tensor; expected one, or a structure that holds one")
        if leaf.is_meta or leaf.is_nested or leaf.layout != torch.strided or not leaf.is_floating_point():
            kind = "nested" if leaf.is_nested else f"{leaf.dtype}, {leaf.layout}, on {leaf.device}"
            raise DebuggerConfigError(
                f"layer {name!r} returned a tensor that has no map ({kind}); expected a dense one of floating point"
            )
        return leaf

    def _cut(self, output: Any) -> Any:
        # In other threads the layer serves forward passes that are none of this cut's business.
        if threading.get_ident() != self._thread and not is_recomputation():
            return None
        self._called = True
        self._leaf = None
        return apply_tensor_op(self._replacement, output)

    def _replacement(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._leaf is not None:
            return tensor
        leaf = tensor.detach().clone()
        self._leaf = leaf.requires_grad_(leaf.is_floating_point())
        with torch.enable_grad():
            return leaf.clone()
