"""Whether the rows that come several times in a batch are those of one class, and come with the same target."""

from debuggers.torch_import import torch


def compare_duplicates(rows: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """Compares the rows that equal an earlier one of their batch by their targets.

    Args:
        rows: Numbers of a batch's rows, equal where the rows are: (n,).
        targets: The target of each row, such as its class, of any dtype: (n,). One that is NaN equals none.

    Returns:
        0-d float64 tensors on their device, without waiting for it.

        ``inputs/duplicates_elsewhere``: the share of rows that equal an earlier one, of all rows but those of the class
        that has most of them. A sampler that draws a rare class as often as the others repeats the rows of that class
        alone; what repeats rows by mistake knows of no classes. Where no row, or one, is of another class, it is the
        share of all rows: no class is left out.

        ``inputs/duplicates_agree``: the share of the rows that equal an earlier one of which an equal one had the same
        target. A copy of a row has the same; where a place of a small world is visited again, what comes of it may
        differ. 1 where no row equals an earlier one.
    """
    earlier = (rows[:, None] == rows).tril(-1)
    alike = targets[:, None] == targets
    equal = earlier.any(1)
    most, place = (alike & equal).sum(1).double().max(0)
    others = len(rows) - alike.sum(1).gather(0, place[None])[0]  # indexing by a tensor would wait for it
    total = equal.sum().double()
    agree = (earlier & alike).any(1).sum()
    return {
        "inputs/duplicates_elsewhere": torch.where(others > 1, (total - most) / others, total / len(rows)),
        "inputs/duplicates_agree": torch.where(total > 0, agree / total, 1.0),
    }
