"""Answers where the model is sound and what follows it is not: in the loss, which was not repeated."""

from __future__ import annotations

from dataclasses import replace

from debuggers.exception_evidence import tensors_where_it_raised, users_place
from debuggers.forward_start import ForwardStart
from debuggers.graph_evidence import operators_before
from debuggers.loss_graph import loss_candidates
from debuggers.non_finite_origin import THE_LOSS, UNKNOWN_PLACE, NonFiniteOrigin
from debuggers.operands import describe, holds_non_finite, plain, signs_of
from debuggers.operator_births import non_finite_rows
from debuggers.source_lines import source_line
from debuggers.torch_import import torch


def fault_of_the_loss(found: NonFiniteOrigin | None, loss: torch.Tensor | None, start: ForwardStart) -> NonFiniteOrigin:
    """Returns the answer that the loss, or its gradient, is not finite although the model's outputs are.

    Args:
        found: What the replay found: None, or the gradient that came back from the loss.
        loss: With its graph, for the names of the operators in it.
        start: Of the forward pass.
    """
    candidates = [] if loss is None else loss_candidates(loss, start.end_node)
    listed = f"; it may be {', '.join(candidates)}" if candidates else ""
    gradients = [start.gradients[position] for position in sorted(start.gradients)]
    batch = next((gradient.shape[0] for gradient in gradients if gradient.ndim), None)
    return NonFiniteOrigin(
        module=THE_LOSS,
        operator=candidates[0] if len(candidates) == 1 else "",
        direction="backward" if found is not None else "forward",
        origin="loss",
        rows=non_finite_rows(gradients, batch),
        suggestion=f"the model's outputs are finite and the loss or its gradient is not: give replay=, a function that "
        f"returns the loss of the same batch, and the operator is found{listed}",
        notes=() if found is None else found.notes,
    )


def fault_that_raised(error: BaseException, model: torch.nn.Module, *, model_is_finite: bool) -> NonFiniteOrigin | None:
    """Returns the answer that an exception's code was working with NaN; None where it was not.

    Infinities do not count: masks and bounds hold them.

    Args:
        error: With its traceback.
        model: Its parameters may hold the NaN.
        model_is_finite: Whether the model's outputs are known to be finite; else the place is not known.
    """
    with torch.no_grad():
        for tensors in tensors_where_it_raised(error):
            faulty = next((tensor for tensor in tensors if _holds_nan(plain(tensor))), None)
            if faulty is not None:
                return _answer(error, faulty, None if model_is_finite else model)
    return None


def _answer(error: BaseException, faulty: torch.Tensor, model: torch.nn.Module | None) -> NonFiniteOrigin:
    found = NonFiniteOrigin(
        module=THE_LOSS,
        source=source_line(users_place(error)),
        origin="loss",
        inputs=(describe("value", "", faulty),),
        suggestion="the model's outputs are finite, and a value that this line works with is not: look at the "
        "operators between them",
    )
    if model is None:
        return found
    for name, parameter in model.named_parameters():
        if holds_non_finite(parameter):
            held_by, module = f"parameter {name}", name.rpartition(".")[0] or type(model).__name__
            return replace(found, module=module, origin="parameter", held_by=held_by, suggestion="")
    candidates = operators_before(faulty)
    listed = f"; it may be {', '.join(candidates)}" if candidates else ""
    return replace(
        found,
        module=UNKNOWN_PLACE,
        origin="elsewhere",
        suggestion=f"a value that this line works with is NaN{listed}: with a FirstNaNFinder, or replay= in each step, "
        "the module is named too",
    )


def _holds_nan(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and holds_non_finite(tensor) and signs_of(tensor).nan
