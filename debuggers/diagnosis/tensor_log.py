"""Series of signals that many tensors have, in bounded memory: one block of values a step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from debuggers.diagnosis.series import Series

FIRST_KEPT = 64
"""Steps at the beginning that are never thinned."""
MOST_LATER = 256


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    step: int
    names: tuple[str, ...]
    values: npt.NDArray[np.float32]


class TensorLog:
    """Adds values of many tensors, step by step.

    Of each signal the first 64 steps are kept, and of later ones at most 256: when they are more, every second is
    dropped, and from then on only every second, fourth, eighth … is taken. The last step is always kept. Values are
    kept as float32: 1,000 tensors with one signal take at most 1.3 MB.
    """

    def __init__(self) -> None:
        self._signals: dict[str, _Blocks] = {}

    def add(self, step: int, signal: str, names: tuple[str, ...], values: Sequence[float] | npt.ArrayLike) -> None:
        """Adds a value for each name; a step that is not after a signal's last one is left out."""
        blocks = self._signals.get(signal)
        if blocks is None:
            blocks = self._signals[signal] = _Blocks()
        with np.errstate(over="ignore"):
            blocks.add(_Block(step, names, np.asarray(values, np.float64).astype(np.float32)))

    def series(self) -> dict[str, dict[str, Series]]:
        """Returns all series so far: by signal, then by tensor, in the order of the last step that had it."""
        return {signal: blocks.series() for signal, blocks in self._signals.items()}


class _Blocks:
    __slots__ = ("_count", "_last", "_stride", "first", "later")

    def __init__(self) -> None:
        self.first: list[_Block] = []
        self.later: list[_Block] = []
        self._last: _Block | None = None
        self._stride, self._count = 1, 0

    def add(self, block: _Block) -> None:
        if self._last is not None and block.step <= self._last.step:
            return
        self._last = block
        if len(self.first) < FIRST_KEPT:
            self.first.append(block)
            return
        if self._count % self._stride == 0:
            self.later.append(block)
            if len(self.later) > MOST_LATER:
                self.later = self.later[::2]
                self._stride *= 2
        self._count += 1

    def series(self) -> dict[str, Series]:
        blocks = self.first + self.later
        if self._last is not None and blocks[-1] is not self._last:
            blocks.append(self._last)
        points: dict[str, tuple[list[int], list[float]]] = {name: ([], []) for name in blocks[-1].names}
        for block in blocks:
            for name, value in zip(block.names, block.values.tolist(), strict=True):
                steps, values = points.setdefault(name, ([], []))
                steps.append(block.step)
                values.append(value)
        return {
            name: Series(np.array(steps, np.int64), np.array(values, np.float64))
            for name, (steps, values) in points.items()
        }
