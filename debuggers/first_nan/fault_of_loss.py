"""The result if the model's outputs are finite: a fault in the loss, which was not replayed."""

from debuggers.first_nan.events import non_finite_rows
from debuggers.first_nan.exception_evidence import tensors_where_it_raised, users_place
from debuggers.first_nan.forward_start import ForwardStart
from debuggers.first_nan.graph_evidence import operators_before
from debuggers.first_nan.loss_graph import loss_candidates
from debuggers.first_nan.operands import describe, holds_non_finite, non_finite_kinds, plain
from debuggers.first_nan.origin import THE_LOSS, UNKNOWN_PLACE, NonFiniteOrigin
from debuggers.first_nan.source_lines import source_line
from debuggers.torch_import import torch


def fault_of_the_loss(found: NonFiniteOrigin | None, loss: torch.Tensor | None, start: ForwardStart) -> NonFiniteOrigin:
    """Returns the result that the loss, or its gradient, is not finite although the model's outputs are.

    Args:
        found: The result of the replay: None, or the gradient of the outputs.
        loss: With its graph, which names its operators.
        start: The initial state of the forward pass.
    """
    candidates = [] if loss is None else loss_candidates(loss, start.end_node)
    gradients = [start.gradients[position] for position in sorted(start.gradients)]
    batch = next((gradient.shape[0] for gradient in gradients if gradient.ndim), None)
    return NonFiniteOrigin(
        module=THE_LOSS,
        operator=candidates[0] if len(candidates) == 1 else "",
        direction="backward" if found is not None else "forward",
        origin="loss",
        rows=non_finite_rows(gradients, batch),
        suggestion=f"the model's outputs are finite and the loss or its gradient is not: pass replay=, a function that "
        f"returns the loss of the same batch, to find the operator{_listed(candidates)}",
        notes=() if found is None else found.notes,
    )


def fault_that_raised(
    error: BaseException, model: torch.nn.Module, start: ForwardStart | None
) -> NonFiniteOrigin | None:
    """Returns the result that the code that raised was using NaN; None if it was not.

    Infinities are ignored, because masks and bounds contain them.

    Args:
        error: With its traceback.
        model: Its parameters may hold the NaN.
        start: The initial state of the forward pass, whose replay was finite; None if it could not be replayed.
    """
    with torch.no_grad():
        for tensors in tensors_where_it_raised(error):
            faulty = next((tensor for tensor in tensors if _holds_nan(plain(tensor))), None)
            if faulty is not None:
                return _of_loss(error, faulty, start) if start is not None else _of_unknown(error, faulty, model)
    return None


def _of_loss(error: BaseException, faulty: torch.Tensor, start: ForwardStart) -> NonFiniteOrigin:
    candidates = operators_before(faulty, start.end_node)
    return NonFiniteOrigin(
        module=THE_LOSS,
        operator=candidates[0] if len(candidates) == 1 else "",
        source=source_line(users_place(error)),
        origin="loss",
        inputs=(describe("value", "", faulty),),
        suggestion="the model's outputs are finite, and a value that this line works with is not" + _listed(candidates),
    )


def _of_unknown(error: BaseException, faulty: torch.Tensor, model: torch.nn.Module) -> NonFiniteOrigin:
    source, values = source_line(users_place(error)), (describe("value", "", faulty),)
    for name, parameter in model.named_parameters():
        if holds_non_finite(parameter):
            module = name.rpartition(".")[0] or type(model).__name__
            return NonFiniteOrigin(
                module, source=source, origin="parameter", held_by=f"parameter {name}", inputs=values
            )
    listed = _listed(operators_before(faulty))
    return NonFiniteOrigin(
        module=UNKNOWN_PLACE,
        source=source,
        origin="elsewhere",
        inputs=values,
        suggestion=f"a value that this line works with is NaN{listed}; the model's arguments are not known, so nothing "
        "was repeated",
    )


def _listed(candidates: list[str]) -> str:
    return f"; it may be {', '.join(candidates)}" if candidates else ""


def _holds_nan(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and holds_non_finite(tensor) and non_finite_kinds(tensor).nan
