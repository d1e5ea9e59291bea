"""Statistics of what enters a model, what it returns, and the targets: 0-d tensors on the batch's device."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from debuggers.signals.sampling import fingerprint, row_hashes, row_numbers, sampled_rows, widened
from debuggers.torch_import import torch

WHOLE = 1 << 20
"""Elements of a tensor whose extremes are taken of all of them; larger ones are sampled."""
IGNORED = -100
"""Targets that count for nothing: ``ignore_index`` of torch's losses."""
_ROUNDING = 1e-6
"""Share of a column's largest value from which its deviation is more than float32's rounding of a constant."""
_LENGTH_ERROR = 1e-3
"""How far a square of length 1 may be off by rounding, in halves too."""
COMPARED_ROWS = 256
"""Rows of a batch at most that are compared with those of earlier batches."""
KEPT_ROWS, KEPT_COLUMNS = 128, 8
"""Targets of a batch that are remembered one by one."""
MOST_CLASSES = 4096
MOST_COLUMNS = 4096
Statistics = dict[str, torch.Tensor | float]


def input_statistics(tensors: Sequence[torch.Tensor]) -> Statistics:
    """Returns ``inputs/*`` of the tensors that a model is given, all usable, and at least one.

    Those whose first dimension is as long as that of the first one are put side by side.
    """
    found: Statistics = {}
    batch = _side_by_side(tensors)
    if batch[0].ndim:
        found["inputs/batch_size"] = float(batch[0].shape[0])
    if batch[0].ndim > 1:
        found["inputs/length"] = float(batch[0].shape[1])
    samples = [sampled_rows(tensor) for tensor in batch]
    floats = [sample for sample, tensor in zip(samples, batch, strict=True) if tensor.is_floating_point()]
    if floats:
        found |= _of_values("inputs", [tensor for tensor in tensors if tensor.is_floating_point()], floats)
        spread = _column_spread(floats)
        if spread is not None:
            found["inputs/batch_std"] = spread.mean()
            found["inputs/scale_ratio"] = _ratio(spread, floats)
            if len(floats[0]) == batch[0].shape[0]:  # of some rows alone the length is not known
                found["inputs/unit_columns"] = _unit_columns(floats)
    hashes = _hashes(samples)
    if len(hashes) > 1:
        ordered = hashes.sort().values
        found["inputs/duplicates"] = (ordered[1:] == ordered[:-1]).sum() / len(hashes)
        runs = torch.searchsorted(ordered, ordered, right=True) - torch.searchsorted(ordered, ordered)
        found["inputs/top_row_share"] = runs.amax() / len(hashes)
    found["inputs/fingerprint"] = fingerprint(hashes)
    found["inputs/rows"] = _compared(hashes)
    return found


def numbers_of_rows(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the numbers by which rows of a batch are known, of at most 256 of them; see ``input_statistics``."""
    return _compared(_hashes([sampled_rows(tensor) for tensor in _side_by_side(tensors)]))


def _side_by_side(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    batch = [tensor for tensor in tensors if tensor.ndim] or list(tensors)
    size = batch[0].shape[0] if batch[0].ndim else 1
    return [tensor for tensor in batch if tensor.ndim and tensor.shape[0] == size] or batch[:1]


def _hashes(samples: Sequence[torch.Tensor]) -> torch.Tensor:
    hashes = row_hashes(samples[0])
    for sample in samples[1:]:
        if len(sample) == len(hashes) and sample.device == hashes.device:
            hashes = hashes * 31 + row_hashes(sample)
    return hashes


def _compared(hashes: torch.Tensor) -> torch.Tensor:
    return row_numbers(hashes[:: -(-len(hashes) // COMPARED_ROWS)])


def output_statistics(tensor: torch.Tensor) -> Statistics:
    """Returns ``outputs/*`` of a model's first floating-point output."""
    sample = sampled_rows(tensor)
    found = _of_values("outputs", [tensor], [sample])
    spread = _column_spread([sample])
    if spread is not None:
        found["outputs/batch_std"] = spread.mean()
    if tensor.ndim > 1:
        rows = widened(sampled_positions(tensor))
        error = (rows.sum(1) - 1).abs().amax()
        found["outputs/row_sum_error"] = torch.where(rows.amin() >= 0, error, torch.nan)
    return found


@dataclass(slots=True, eq=False)
class TargetColumns:
    """What is remembered of the targets of a batch.

    Attributes:
        counts: How often each class is there, of at most 4,096, for targets that are class indices or one-hot; or how
            many are 0 and how many 1; zeros for other values.
        sums: (3, columns) float64: for each column how many values count, their sum, and the sum of their squares.
        values: (rows, columns) at most 128 rows of targets that are values, of their first 8 columns; else None.
        rows: (3,) float64: how many rows count, the sum of their means, and the sum of the means' squares.
    """

    rows: torch.Tensor
    sums: torch.Tensor
    counts: torch.Tensor | None = field(default=None)
    values: torch.Tensor | None = field(default=None)


def target_statistics(
    tensor: torch.Tensor, batch_size: int | None, classes: int | None
) -> tuple[Statistics, TargetColumns]:
    """Returns ``targets/*`` of one batch, and what is needed to describe all batches.

    Args:
        tensor: The targets; of integers those that are -100 count for nothing.
        batch_size: The number of inputs, if known: targets of all positions of all inputs in one row are cut by it.
        classes: How many classes the output has, if known.
    """
    whole = not tensor.is_floating_point()
    flat = tensor.reshape(-1)
    rows = _as_rows(tensor, batch_size)
    sample = sampled_rows(rows).double()
    kept = (sample != IGNORED).double() if whole else torch.ones_like(sample)
    columns = sample[:, :MOST_COLUMNS]
    weights = kept[:, :MOST_COLUMNS]
    sums = torch.stack([weights.sum(0), (columns * weights).sum(0), (columns.square() * weights).sum(0)])
    number = kept.sum(1)
    used = (number > 0).double()
    means = (sample * kept).sum(1) / number.clamp(min=1)
    over_rows = torch.stack([used.sum(), (means * used).sum(), (means.square() * used).sum()])
    flat_values = sampled_rows(flat).reshape(-1)
    found = _of_targets(flat_values, whole=whole)
    if whole:
        counts = _sign_counts(flat_values, class_counts(flat_values, classes))
    else:
        counts = _binary_counts(flat_values)
        if tensor.ndim == 2 and 2 < tensor.shape[1] <= MOST_COLUMNS:
            counts = _one_hot_counts(columns, counts)
        if tensor.ndim == 2 and tensor.shape[1] > 1:
            found["targets/most_labels"] = torch.where(counts.sum() > 0, columns.sum(1).amax(), torch.nan)
    total = counts.sum()
    # One target is of one class, whatever the data: that of an action taken says nothing of a batch.
    found["targets/classes"] = torch.where(total > 1, (counts > 0).sum().double(), torch.nan)
    found["targets/top_share"] = counts.amax() / total
    values = None if whole else columns[:: -(-len(columns) // KEPT_ROWS), :KEPT_COLUMNS]
    return found, TargetColumns(over_rows, sums, counts, values)


def class_counts(values: torch.Tensor, classes: int | None = None) -> torch.Tensor:
    """Returns how often each class index is among integers: float64 (classes,), at most 4,096; others are left out."""
    number = min(classes or MOST_CLASSES, MOST_CLASSES)
    if values.is_cpu:
        # Of what is left out, that below goes to the first place and that above to the last.
        return torch.bincount(values.long().clamp(-1, number) + 1, minlength=number + 2)[1:-1].double()
    # Counting by adding would need an order on a device to be repeatable, or wait for it.
    ordered = values.long().sort().values
    bounds = torch.searchsorted(ordered, torch.arange(number + 1, device=values.device))
    return bounds.diff().double()


def sampled_positions(
    tensor: torch.Tensor, classes_at: int | None = None, positions: int | None = None
) -> torch.Tensor:
    """Returns some rows over the classes of an output, two dimensions.

    Args:
        tensor: Of two dimensions or more.
        classes_at: Where the classes are: by default dimension 1 of two, four or five dimensions, else the last.
        positions: How many rows at most; about 65,536 elements by default, and at least 64 rows.
    """
    if classes_at is None:
        classes_at = 1 if tensor.ndim in (2, 4, 5) else tensor.ndim - 1
    classes = tensor.shape[classes_at]
    most = positions or max(64, (1 << 16) // max(1, classes))
    rows = tensor.movedim(classes_at, -1)
    length = rows.shape[:-1].numel()
    stride = -(-length // most)
    if stride > 1 and length > rows.shape[0] and rows.ndim > 2:
        # Without a copy of all: some inputs first, then some positions of them.
        rows = rows[:: -(-rows.shape[0] // 64)]
        stride = -(-rows.shape[:-1].numel() // most)
        stride += stride % 2 == 0
    return rows.reshape(-1, classes)[::stride]


def _of_values(what: str, tensors: Sequence[torch.Tensor], samples: Sequence[torch.Tensor]) -> Statistics:
    values = torch.cat([widened(sample).reshape(-1) for sample in samples])
    found: Statistics = {f"{what}/mean": values.mean()}
    if len(values) > 1:
        found[f"{what}/std"] = _deviation(values, 0)
    low, high, broken = zip(*(_extremes(tensor) for tensor in tensors), strict=True)
    found[f"{what}/min"] = torch.stack([one.double() for one in low]).amin()
    found[f"{what}/max"] = torch.stack([one.double() for one in high]).amax()
    found[f"{what}/non_finite"] = torch.stack(broken).sum()
    return found


def _extremes(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The smallest and the largest finite value, infinite if there is none, and how many are not finite."""
    values = tensor if tensor.numel() <= WHOLE else sampled_rows(tensor, WHOLE)
    if values.is_cpu:
        low, high = torch.aminmax(values)
        if torch.isfinite(low) and torch.isfinite(high):  # one pass instead of five, and on the host nothing waits
            return low, high, torch.zeros((), dtype=torch.int64)
    finite = torch.isfinite(values)
    low = torch.where(finite, values, torch.inf).amin()
    high = torch.where(finite, values, -torch.inf).amax()
    return low, high, values.numel() - finite.sum()


def _column_spread(samples: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Standard deviations over the rows, of each column; None for a single row."""
    if len(samples[0]) < 2:
        return None
    return torch.cat([_deviation(widened(sample), 0) for sample in samples if len(sample) > 1]).double()


def _deviation(values: torch.Tensor, dimension: int) -> torch.Tensor:
    """The standard deviation along a dimension; ``torch.std`` takes ten times as long on the host."""
    return (values - values.mean(dimension, keepdim=True)).square_().mean(dimension).sqrt()


def _ratio(spread: torch.Tensor, samples: Sequence[torch.Tensor]) -> torch.Tensor:
    """The largest over the smallest that is more than the rounding of a constant column; NaN if all are less."""
    level = torch.cat([widened(sample).abs().amax(0) for sample in samples if len(sample) > 1])
    smallest = torch.where(spread > _ROUNDING * level, spread, torch.inf).amin()
    return torch.where(smallest < torch.inf, spread.amax() / smallest, torch.nan)


def _unit_columns(samples: Sequence[torch.Tensor]) -> torch.Tensor:
    """The share of length 1 among columns that have several values; NaN if there are none. One 1 alone is a choice."""
    squares = torch.cat([widened(sample).square().sum(0) for sample in samples]).double()
    several = torch.cat([(sample != 0).sum(0) > 1 for sample in samples])
    return (((squares - 1).abs() < _LENGTH_ERROR) & several).sum() / several.sum()


def _as_rows(tensor: torch.Tensor, batch_size: int | None) -> torch.Tensor:
    if not tensor.ndim:
        return tensor.reshape(1, 1)
    if batch_size and tensor.shape[0] != batch_size and tensor.shape[0] % batch_size == 0:
        return tensor.reshape(batch_size, -1)
    return tensor.reshape(tensor.shape[0], -1)


def _of_targets(values: torch.Tensor, *, whole: bool) -> Statistics:
    wide = values.double()
    kept = values != IGNORED if whole else torch.isfinite(wide)
    number = kept.sum()
    low = torch.where(kept, wide, torch.inf).amin()
    high = torch.where(kept, wide, -torch.inf).amax()
    if not whole:
        spread = _deviation(wide, 0) if len(wide) > 1 else wide.mul(0).sum()
        found: Statistics = {"targets/mean": wide.mean(), "targets/std": spread}
        found["targets/non_finite"] = len(wide) - number
    else:
        mean = torch.where(kept, wide, 0).sum() / number
        spread = torch.where(kept, (wide - mean).square(), 0).sum().div(number).sqrt()
        found = {"targets/mean": mean, "targets/std": spread, "targets/non_finite": 0.0}
    return found | {"targets/min": low, "targets/max": high}


def _one_hot_counts(rows: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """How many rows have their one in each column, if each row is one-hot; otherwise two numbers, then zeros."""
    one_hot = (((rows == 0) | (rows == 1)).all(1) & (rows.sum(1) == 1)).all()
    others = torch.nn.functional.pad(otherwise, (0, rows.shape[1] - len(otherwise)))
    return torch.where(one_hot, rows.sum(0), others)


def _sign_counts(values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """How many are -1 and how many 1, as a margin wants them, where there is nothing else: no index is below 0."""
    signs = torch.stack([(values == -1).sum(), (values == 1).sum()])
    are_signs = (signs[0] > 0) & (signs.sum() == len(values))
    padded = torch.nn.functional.pad(signs.double(), (0, max(0, len(counts) - 2)))
    return torch.where(are_signs, padded, torch.nn.functional.pad(counts, (0, len(padded) - len(counts))))


def _binary_counts(values: torch.Tensor) -> torch.Tensor:
    """How many are 0 and how many 1; none where any is something else."""
    zeros, ones = (values == 0).sum(), (values == 1).sum()
    counts = torch.stack([zeros, ones]).double()
    return torch.where(counts.sum() == len(values), counts, torch.zeros_like(counts))
