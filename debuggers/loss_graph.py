"""Names the operators of a loss that may have made NaN or infinities, from its autograd graph."""

from __future__ import annotations

from typing import Any

from debuggers.operator_kinds import operator_of_node, plain_name, words
from debuggers.torch_import import torch

_RISKY = words(
    "acos acosh asin atan2 atanh binary_cross_entropy cdist cosh cumprod div erfinv exp expm1 fmod hypot lgamma "
    "linalg_vector_norm log log10 log1p log2 logit logsumexp nll_loss nll_loss2d norm poisson_nll_loss pow prod "
    "reciprocal remainder rsqrt sinh sqrt std tan var"
)


def loss_candidates(loss: torch.Tensor, first_node: int) -> list[str]:
    """Returns the operators with a limited domain or range in the graph of a loss, in the order in which they ran.

    Args:
        loss: With its graph, whose saved tensors may be freed.
        first_node: The number of the first autograd node that is no longer the model's; 0 where it is not known, then
            there are no candidates.
    """
    if loss.grad_fn is None or not first_node:
        return []
    waiting: list[Any] = [loss.grad_fn]
    numbers: dict[Any, int] = {}
    while waiting:
        node = waiting.pop()
        number = node._sequence_nr()
        if node in numbers or number < first_node or hasattr(node, "variable"):
            continue
        numbers[node] = number
        waiting += [following for following, _ in node.next_functions if following is not None]
    names = [operator_of_node(node.name()) for node in sorted(numbers, key=numbers.__getitem__)]
    return [name for name in dict.fromkeys(names) if plain_name(name) in _RISKY]
