"""Says which derivative differs from its finite difference, once a gradient check has failed."""

import math
from collections.abc import Callable, Sequence

from debuggers.torch_import import torch
from stability.debugging.gradient_check_values import CheckedValue
from stability.results.debugging import GradientCheckFailure, GradientMode

STEP = 1e-6
ABSOLUTE = 1e-5
RELATIVE = 1e-3
"""The defaults of ``torch.autograd.gradcheck``: a central difference's step, and ``|a - n| <= atol + rtol |n|``."""


def find_mismatches(
    evaluation: Callable[..., tuple[torch.Tensor, ...]],
    values: Sequence[CheckedValue],
    chosen: Sequence[torch.Tensor],
    mode: GradientMode,
    message: str,
) -> list[GradientCheckFailure]:
    """Returns the entry that differs most, for each input and output with one; else one with NaN for both numbers.

    Args:
        evaluation: The function that failed: from elements to outputs (outputs,), in float64.
        values: Where the elements stand.
        chosen: The elements, (chosen,) for each value.
        mode: In which mode it failed; the numbers are those of this mode.
        message: What ``gradcheck`` said.
    """
    failures = []
    for number in range(len(evaluation(*chosen))):
        analytical = _analytical(evaluation, chosen, number, mode)
        for index, value in enumerate(values):
            numerical = _numerical(evaluation, chosen, number, index)
            excess = (analytical[index] - numerical).abs() - (ABSOLUTE + RELATIVE * numerical.abs())
            excess = excess.nan_to_num(nan=math.inf)
            if excess.numel() == 0 or float(excess.max()) <= 0:
                continue
            row, column = divmod(int(excess.argmax()), excess.shape[1])
            failures.append(
                GradientCheckFailure(
                    input=value.name,
                    input_index=value.index_of(column),
                    output=number,
                    output_index=row,
                    mode=mode,
                    numerical=float(numerical[row, column]),
                    analytical=float(analytical[index][row, column]),
                    message=message,
                )
            )
    unknown = GradientCheckFailure(
        input="",
        input_index=[],
        output=0,
        output_index=0,
        mode=mode,
        numerical=math.nan,
        analytical=math.nan,
        message=message,
    )
    return failures or [unknown]


def _analytical(
    evaluation: Callable[..., tuple[torch.Tensor, ...]],
    chosen: Sequence[torch.Tensor],
    number: int,
    mode: GradientMode,
) -> tuple[torch.Tensor, ...]:
    """(outputs, chosen) for each value."""
    if mode == "forward":
        columns = [_forward_column(evaluation, chosen, number, index) for index in range(len(chosen))]
        return tuple(columns)
    output = evaluation(*chosen)[number]
    rows = [
        torch.autograd.grad(element, chosen, retain_graph=True, allow_unused=True)
        if output.requires_grad
        else [None] * len(chosen)
        for element in output
    ]
    return tuple(
        torch.stack([torch.zeros_like(part) if row[index] is None else row[index] for row in rows])  # type: ignore[misc]
        for index, part in enumerate(chosen)
    )


def _forward_column(
    evaluation: Callable[..., tuple[torch.Tensor, ...]], chosen: Sequence[torch.Tensor], number: int, index: int
) -> torch.Tensor:
    columns = []
    for direction in torch.eye(chosen[index].numel(), dtype=torch.float64, device=chosen[index].device):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(chosen[index].detach(), direction)  # type: ignore[no-untyped-call]
            parts = [dual if position == index else part.detach() for position, part in enumerate(chosen)]
            output = evaluation(*parts)[number]
            tangent = torch.autograd.forward_ad.unpack_dual(output).tangent  # type: ignore[no-untyped-call]
            columns.append(torch.zeros_like(output) if tangent is None else tangent)
    return torch.stack(columns, dim=1)


def _numerical(
    evaluation: Callable[..., tuple[torch.Tensor, ...]], chosen: Sequence[torch.Tensor], number: int, index: int
) -> torch.Tensor:
    """(outputs, chosen), by central differences."""
    columns = []
    for position in range(chosen[index].numel()):
        ends = []
        for side in (STEP, -STEP):
            moved = [part.detach().clone() for part in chosen]
            moved[index][position] += side
            ends.append(evaluation(*moved)[number].detach())
        columns.append((ends[0] - ends[1]) / (2 * STEP))
    return torch.stack(columns, dim=1)
