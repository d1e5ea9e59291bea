"""Distinguishes forward passes of a training from others that run through the same hooks."""

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id, is_tracing, transforms_are_active
from debuggers.torch_internals.dispatch import MODES_WITHOUT_VALUES, current_modes, number_of_modes


def is_training_forward() -> bool:
    """Whether an eager forward pass runs whose results a backward pass may follow.

    Not with gradients off, inside a backward pass, where activation checkpointing calls modules again, and where
    tensors hold no values of their own: in ``torch.func`` transformations, while tracing, and under FakeTensorMode.
    """
    return torch.is_grad_enabled() and backward_pass_id() == NO_BACKWARD_PASS and holds_values()


def holds_values() -> bool:
    """Whether tensors of this thread have values of their own now: no transformation, tracing or FakeTensorMode."""
    return not transforms_are_active() and not is_tracing() and not (number_of_modes() and _is_without_values())


def _is_without_values() -> bool:
    # By name: importing the class of fake tensors is slow.
    return any(type(mode).__name__ in MODES_WITHOUT_VALUES for mode in current_modes())
