"""Names the operators that may have made a value NaN from what its autograd graph has saved; nothing is replayed."""

from __future__ import annotations

from typing import Any

from debuggers.first_nan.loss_graph import LIMITED, nodes_of
from debuggers.first_nan.operands import holds_more_than_minus_infinity
from debuggers.first_nan.operator_kinds import operator_of_node, plain_name
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_result, saved_tensors


def operators_before(tensor: torch.Tensor, first_node: int = 0) -> list[str]:
    """Returns the operators that may have made a tensor NaN, in the order in which they ran.

    The first operator that saved something that is not finite bounds them: it made it, if that is its result, else one
    between those that saved finite values and itself did. Of several the ones with a limited domain or range count.

    Args:
        tensor: Holds NaN; with its graph, through which no backward pass has gone.
        first_node: The number of the first autograd node that may have.
    """
    if tensor.grad_fn is None:
        return []
    passed: list[Any] = []
    for node in nodes_of(tensor.grad_fn, first_node):
        saved = list(saved_tensors(node))
        faulty = [name for name, value in saved if holds_more_than_minus_infinity(value)]
        if faulty and all(map(is_result, faulty)):
            return [operator_of_node(node.name())]
        if faulty:
            break
        if not any(is_result(name) for name, _ in saved):  # its result is finite
            passed.append(node)
    names = list(dict.fromkeys(operator_of_node(node.name()) for node in passed))
    return [name for name in names if plain_name(name) in LIMITED] or names[-1:]
