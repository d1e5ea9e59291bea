"""Tells a forward pass of a training from others that run through the same hooks."""

from __future__ import annotations

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from debuggers.torch_import import torch

_WITHOUT_VALUES = {"FakeTensorMode", "FunctionalTensorMode", "ProxyTorchDispatchMode"}


def is_training_forward() -> bool:
    """Whether an eager forward pass runs whose results a backward pass may follow.

    Not with gradients off, inside a backward pass, where activation checkpointing calls modules again, and where
    tensors hold no values of their own: in ``torch.func`` transformations, while tracing, and under FakeTensorMode.
    """
    return (
        torch.is_grad_enabled()
        and torch._C._current_graph_task_id() == -1
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._is_tracing()
        and not (torch._C._len_torch_dispatch_stack() and _is_without_values())
    )


def _is_without_values() -> bool:
    # By name: importing the class of fake tensors is slow.
    return any(type(mode).__name__ in _WITHOUT_VALUES for mode in _get_current_dispatch_mode_stack())
