"""Which call of a step has its batch, where a loop calls its model for single rows, too, as to choose an action."""

from collections.abc import Sequence


def follows_single_row(first: Sequence[int] | None, later: Sequence[int]) -> bool:
    """Returns whether a call was given one row alone, and a later one several such rows.

    Args:
        first: Shape of what the first call was given: of a row without a batch's dimension, or with one of length 1;
            None where no call was made.
        later: The same of the later one.
    """
    if first is None or not later or later[0] < 2:
        return False
    return tuple(first) in (tuple(later[1:]), (1, *later[1:]))
