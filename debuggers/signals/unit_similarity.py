"""Units that compute the same: rows of a weight that equal each other."""

from collections.abc import Mapping

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.signals.sampling import row_hashes, usable
from debuggers.torch_import import torch

MOST_ROWS, MOST_COLUMNS, COMPARED = 1024, 4096, 32
MOST_WEIGHTS = 200


def unit_similarities(parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor | float]:
    """Returns for each weight of 2 to 1,024 rows the share of rows that equal another one, at most 200 weights.

    Rows of at most 4,096 elements are compared, by the bits of at most 32 of them, evenly spread.
    """
    found: dict[str, torch.Tensor | float] = {}
    with quiet_computation("cpu"):
        for name, parameter in parameters.items():
            values = usable(parameter) if parameter.ndim > 1 and 1 < parameter.shape[0] <= MOST_ROWS else None
            if values is None or not values.is_floating_point() or values.ndim < 2:
                continue
            if not len(values) > 1 or values.numel() // len(values) > MOST_COLUMNS or len(found) >= MOST_WEIGHTS:
                continue
            rows = values.flatten(1)
            stride = -(-rows.shape[1] // COMPARED)
            ordered = row_hashes(rows[:, :: stride + (stride % 2 == 0)] if stride > 1 else rows).sort().values
            same = ordered[1:] == ordered[:-1]
            twins = torch.zeros(len(ordered), dtype=torch.bool, device=ordered.device)
            twins[1:] |= same
            twins[:-1] |= same
            found[name] = twins.double().mean()
    return found
