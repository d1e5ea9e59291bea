"""What the graph of a policy's gradient shows of its gains: the numbers that log-probabilities are multiplied with."""

from dataclasses import dataclass

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.graphs.loss_term import Term
from debuggers.torch_import import torch
from debuggers.torch_internals.graph_nodes import constant_operand, operator

_AT_AN_END = 0.01
"""Share of the range of gains from its ends at which a gain is one of two values."""


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """What is known of the gains of a batch.

    Attributes:
        of_two_values: The share of them that are the smallest or the largest, as where each choice is paid or not,
            0-d.
        high: The share of them that are nearer to the largest than to the smallest, 0-d.
    """

    of_two_values: torch.Tensor
    high: torch.Tensor


def gains_of(term: Term) -> Gains | None:
    """Returns what is known of the gains of a term of drawn classes; None where they were not saved."""
    weights = _weights(term)
    if weights is None:
        return None
    with quiet_computation(weights.device.type):
        weights = weights.detach().double()
        least, most = weights.aminmax()
        place = (weights - least) / (most - least)  # NaN where all are the same
        at_ends = ((place < _AT_AN_END) | (place > 1 - _AT_AN_END)).double().mean()
        known = torch.where(most > least, 1.0, torch.nan)
        return Gains(at_ends * known, (place > 0.5).double().mean() * known)


def push_both_ways(term: Term) -> bool:
    """Whether single elements of a term are multiplied with numbers of both signs, as choices are with gains.

    Which of its signs is the right one is not known then. Only where they lie on the host: nothing waits for a device.
    """
    weights = _weights(term) if term.weighted else None
    if weights is None or not weights.is_cpu:
        return False
    with quiet_computation("cpu"):
        return bool((weights.detach() < 0).any()) and bool((weights.detach() > 0).any())


def _weights(term: Term) -> torch.Tensor | None:
    """The constants that single elements of a term are multiplied with; None where they were not saved."""
    constants = (constant_operand(node) for node in term.nodes if operator(node) == "Mul")
    weights = next((one for one in constants if isinstance(one, torch.Tensor) and one.ndim and one.numel()), None)
    return None if weights is None or weights.is_complex() else weights
