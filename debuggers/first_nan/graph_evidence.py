"""Names the operators that may have produced a NaN from the tensors saved in its autograd graph, without a replay."""

from typing import Any

from debuggers.first_nan.loss_graph import LIMITED, nodes_of
from debuggers.first_nan.operands import holds_more_than_minus_infinity
from debuggers.first_nan.operator_kinds import operator_of_node, plain_name
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_result, saved_tensors


def operators_before(tensor: torch.Tensor, first_node: int = 0) -> list[str]:
    """Returns the operators that may have produced a tensor's NaN, in the order in which they ran.

    If the first operator that saved a non-finite tensor saved it as its result, it is the only one. If it saved it as
    an input, they are those before it whose results are not known to be finite: of these, the ones with a limited
    domain or range, else the last.

    Args:
        tensor: Holds NaN; its graph has been through no backward pass.
        first_node: The number of the first autograd node to consider.
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
