"""Decides which rows of a series count after a resumed run recorded steps again."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Span = tuple[int, int]
_Integers = npt.NDArray[np.int64]


class Replacements:
    """Says which rows of one series and rank a later attempt replaced.

    An attempt replaces what earlier ones recorded at the same steps; where its rows were compacted, it replaces
    everything between the first and the last step of those, since it may have lost the very steps.
    """

    def __init__(self, *, attempts: _Integers, steps: _Integers, compacted: Mapping[int, Span]) -> None:
        """Takes what the attempts recorded, in any order.

        Args:
            attempts: The attempt that recorded each row, int64 (n,). The first one replaces nothing and may be missing.
            steps: Their steps, int64 (n,).
            compacted: The first and last step that lie in compacted segments, of each attempt of which some do.
        """
        order = np.lexsort((attempts, steps))
        attempts, steps = attempts[order], steps[order]
        is_last = np.append(steps[1:] != steps[:-1], True)[: len(steps)]
        self._attempts, self._steps = attempts[is_last], steps[is_last]
        self._compacted = compacted

    def replaced(self, *, attempts: _Integers, steps: _Integers) -> npt.NDArray[np.bool_]:
        """Returns whether a later attempt replaced each row, of these attempts and steps, int64 (n,); bool (n,)."""
        at = np.searchsorted(self._steps, steps)
        found: npt.NDArray[np.bool_] = at < self._steps.size
        at = at[found]
        found[found] = (self._steps[at] == steps[found]) & (self._attempts[at] > attempts[found])
        for attempt, (first, last) in self._compacted.items():
            found |= (attempts < attempt) & (steps >= first) & (steps <= last)
        return found


def latest(
    *, seqs: _Integers, attempts: _Integers, steps: _Integers, ranks: _Integers, compacted: npt.NDArray[np.bool_]
) -> _Integers:
    """Returns the places of the rows of one series that no later attempt replaced, by step, rank and arrival.

    Args:
        seqs: Sequence numbers, int64 (n,), as are ``attempts``, ``steps`` and ``ranks``.
        attempts: The attempt that recorded each.
        steps: Their steps.
        ranks: Their ranks.
        compacted: Whether each lies in a compacted segment; bool (n,).
    """
    order: _Integers = np.lexsort((seqs, ranks, steps))
    if attempts.size and (attempts == attempts[0]).all():
        return order
    replaced = np.zeros(len(seqs), np.bool_)
    for rank in np.unique(ranks):
        places = np.flatnonzero(ranks == rank)
        of_rank, steps_of_rank = attempts[places], steps[places]
        spans = _spans(of_rank[compacted[places]], steps_of_rank[compacted[places]])
        rule = Replacements(attempts=of_rank, steps=steps_of_rank, compacted=spans)
        replaced[places] = rule.replaced(attempts=of_rank, steps=steps_of_rank)
    kept: _Integers = order[~replaced[order]]
    return kept


def _spans(attempts: _Integers, steps: _Integers) -> dict[int, Span]:
    """The first and last step of each attempt."""
    return {
        attempt: (int(steps[attempts == attempt].min()), int(steps[attempts == attempt].max()))
        for attempt in np.unique(attempts).tolist()
    }
