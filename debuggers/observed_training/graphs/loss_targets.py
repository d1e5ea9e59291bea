"""The targets of a loss, and what it has saved of their difference to the outputs."""

from typing import Any

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.graphs.loss_formulas import has_minus
from debuggers.observed_training.graphs.loss_term import Term
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import operator, unexpanded_shape


def targets_of(term: Term) -> torch.Tensor | None:
    """Returns the targets that a comparison has saved."""
    node = term.comparison
    if node is None or term.difference_sign:
        return None
    name = operator(node)
    if name in ("Gather", "TakeAlongDim"):
        return _tensor(saved_value(node, "index"))
    if name == "Index":
        indices = saved_value(node, "indices")
        return _tensor(indices[-1]) if indices else None
    if term.margin is not None and (term.margin.compares or term.margin.targets is None):
        return None  # what stands beside a pair says which of the two is to be larger
    if name == "Mul":
        factor = _tensor(saved_value(node, "other" if node.next_functions[0][0] else "self"))
        if factor is None:
            return None
        if term.margin is not None and not factor.is_floating_point():  # 1 and -1 are no indices of classes
            factor = factor.float()
        turned = term.margin.grows if term.margin is not None else term.kind != "cosine" and has_minus(factor)
        with quiet_computation(factor.device.type):
            factor = -factor if turned else factor
            # Beside the logarithm of 1 minus a probability stands 1 minus the target.
            return 1 - factor if term.complementary else factor
    return _tensor(saved_value(node, "target"))


def difference_of(term: Term) -> torch.Tensor | None:
    """Returns what a comparison is applied to; of a quantile's loss, what its two sides differ by."""
    ours = _tensor(saved_value(term.comparison, "self"))
    theirs = _tensor(saved_value(term.comparison, "other")) if term.kind == "quantile" else None
    if ours is None or theirs is None:
        return ours
    with quiet_computation(ours.device.type):
        return ours - theirs


def _tensor(value: Any) -> torch.Tensor | None:
    return value.detach() if isinstance(value, torch.Tensor) else None


def unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor before it was expanded: a view of it."""
    shape = unexpanded_shape(tensor)
    kept = (slice(None, 1) if stride == 0 else slice(None) for stride in tensor.stride())
    return tensor[tuple(kept)].reshape(shape)
