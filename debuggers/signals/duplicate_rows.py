"""Whether the rows that come several times in a batch are those of one class, and come with the same target."""

from debuggers.torch_import import torch


def duplicates_elsewhere(rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns the share of rows that equal an earlier one, of all rows but those of the class that has most of them.

    A sampler that draws a rare class as often as the others repeats the rows of that class alone. What repeats rows by
    mistake knows of no classes.

    Args:
        rows: Numbers of a batch's rows, equal where the rows are: (n,).
        labels: The class of each row, of any dtype: (n,).

    Returns:
        A 0-d float64 tensor on their device, without waiting for it. Where no row, or one, is of another class, it is
        the share of all rows: no class is left out.
    """
    equal = (rows[:, None] == rows).tril(-1).any(1)
    alike = labels[:, None] == labels
    most, place = (alike & equal).sum(1).double().max(0)
    others = len(rows) - alike.sum(1).gather(0, place[None])[0]  # indexing by a tensor would wait for it
    total = equal.sum().double()
    return torch.where(others > 1, (total - most) / others, total / len(rows))


def duplicates_agree(rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the share of the rows that equal an earlier one of which an equal one had the same target.

    A copy of a row has the same target. Where a place of a small world is visited again, what comes of it may differ.

    Args:
        rows: Numbers of a batch's rows, equal where the rows are: (n,).
        targets: The target of each row, of any dtype: (n,). One that is NaN agrees with none.

    Returns:
        A 0-d float64 tensor on their device, without waiting for it. 1 where no row equals an earlier one.
    """
    equal = (rows[:, None] == rows).tril(-1)
    agree = (equal & (targets[:, None] == targets)).any(1)
    equal_rows = equal.any(1).sum()
    return torch.where(equal_rows > 0, agree.sum().double() / equal_rows, 1.0)
