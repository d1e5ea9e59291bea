"""Which rows of a series count, where a run was resumed and recorded steps again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]


def latest(
    *, seqs: _Integers, attempts: _Integers, steps: _Integers, ranks: _Integers, compacted: npt.NDArray[np.bool_]
) -> _Integers:
    """Returns the places of the rows of one series that no later attempt replaced, by step, rank and arrival.

    An attempt replaces what earlier ones of its rank recorded at the same steps; where its rows were compacted, it
    replaces everything between the first and the last step of those, since it may have lost the very steps.

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
    attempts, steps, ranks, compacted = attempts[order], steps[order], ranks[order], compacted[order]
    starts = np.flatnonzero(np.concatenate([[True], (steps[1:] != steps[:-1]) | (ranks[1:] != ranks[:-1])]))
    best = np.repeat(np.maximum.reduceat(attempts, starts), np.diff(starts, append=len(steps)))
    kept = attempts == best
    for rank, attempt in {*zip(ranks[compacted].tolist(), attempts[compacted].tolist(), strict=True)}:
        inside = steps[compacted & (ranks == rank) & (attempts == attempt)]
        covered = (steps >= inside.min()) & (steps <= inside.max())
        kept &= ~(covered & (ranks == rank) & (attempts < attempt))
    kept_order: _Integers = order[kept]
    return kept_order
