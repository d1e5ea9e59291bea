"""Repeats a forward pass to find the module whose output is the first that is not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from debuggers.hooks import HookFunction, Hooks
from debuggers.model_replay import run_aside
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op


def find_first_non_finite(model: torch.nn.Module, replay: Callable[[], Any]) -> str | None:
    """Returns the name of the module that put out the first NaN or infinity, or None when all outputs are finite.

    A module counts when its forward ends: the innermost one is named. ``replay`` runs without gradients; buffers, such
    as the running statistics of a batch norm, and the random number generators are as before afterwards. Dropout
    draws other numbers than in the pass that is repeated.

    Args:
        model: The model that ``replay`` calls.
        replay: Repeats the forward pass, such as ``lambda: model(inputs)``.

    Raises:
        DebuggerConfigError: When the model computes together with other processes; see ``run_aside``.
    """
    found: list[str] = []

    def examine(name: str) -> HookFunction:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            if not found:
                apply_tensor_op(lambda tensor: _note(tensor, name, found), output)

        return hook

    def examined_replay() -> None:
        with Hooks() as hooks:
            hooks.add_forward((module, examine(name or "the model")) for name, module in model.named_modules())
            replay()

    run_aside(model, examined_replay, gradients=False)
    return found[0] if found else None


def _note(tensor: torch.Tensor, name: str, found: list[str]) -> torch.Tensor:
    if not found and (tensor.is_floating_point() or tensor.is_complex()) and not bool(torch.isfinite(tensor).all()):
        found.append(name)
    return tensor
