"""What a comparison of pages found: one entry a difference, a summary in plain words, and a table."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tracker_adapters.artifacts import Cell

from debuggers.host_arrays.element_difference import ElementDifference

Change: TypeAlias = Literal["values", "dtype", "shape", "text", "type", "only in a", "only in b"]
COLUMNS = (
    "datapoint", "debugger", "path", "change", "max_abs", "mean_abs", "relative", "cosine", "non_finite", "a", "b",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """How one array, number or text of a datapoint's outputs differs.

    Attributes:
        datapoint: Its index.
        debugger: The debugger's name; ``datapoint`` for the datapoint itself.
        path: The keys and positions that lead to it, joined by ``/``; empty for the debugger's outputs as a whole.
        change: ``values``; ``dtype``, with the values compared as well; ``shape``; ``text``, of whatever is neither
            array nor number; ``type``, an array or number on one side only; ``only in a`` or ``only in b``.
        a: What lies in a, in a few words; ``b`` likewise; empty where nothing does.
        elements: The difference element by element; None unless ``change`` is ``values`` or ``dtype``.
        non_finite: Pairs of elements that are unlike because one is NaN or infinite.
    """

    datapoint: int
    debugger: str
    path: str
    change: Change
    a: str
    b: str
    elements: ElementDifference | None = None
    non_finite: int = 0

    @property
    def size(self) -> float:
        """What differences are ordered by: ``relative``, or infinity where the values cannot be set against each other.

        A number that was 0 and is no longer is infinitely different, too.
        """
        if self.elements is None or self.non_finite:
            return math.inf
        if math.isnan(self.elements.relative):  # both are zero, or their squares overflow
            return math.inf if self.elements.max_abs > 0 else 0.0
        return self.elements.relative

    @property
    def place(self) -> str:
        """Debugger and path, such as ``maps/stats/mean``."""
        return f"{self.debugger}/{self.path}" if self.path else self.debugger


@dataclass(frozen=True, slots=True, kw_only=True)
class PageComparison:
    """How the outputs in b differ from those in a.

    Attributes:
        differences: What differs, the largest ``size`` first.
        datapoints: How many both sides have.
        only_in_a: The datapoints that b lacks; ``only_in_b`` those that a lacks.
        values: Arrays, numbers and texts of the common datapoints, on either side.
        equal_non_finite: Pairs of elements that are NaN or the same infinity on both sides, and thus equal.
    """

    differences: tuple[OutputDifference, ...]
    datapoints: int
    only_in_a: tuple[int, ...]
    only_in_b: tuple[int, ...]
    values: int
    equal_non_finite: int

    def summary(self, limit: int = 20) -> str:
        """Returns the comparison in plain words: a line for each place and kind of change, the largest first."""
        equal = self.values - len(self.differences)
        head = (
            f"{self.datapoints} datapoints in both, {len(self.only_in_a)} only in a, {len(self.only_in_b)} only in b; "
            f"{equal} of {self.values} values are equal"
        )
        if self.equal_non_finite:
            head += f"; {self.equal_non_finite} elements are NaN or infinite in both"
        groups: dict[tuple[str, str], list[OutputDifference]] = {}
        for difference in self.differences:
            groups.setdefault((difference.place, difference.change), []).append(difference)
        lines = [head, *map(_described, list(groups.values())[:limit])]
        if len(groups) > limit:
            lines.append(f"and {len(groups) - limit} more")
        return "\n".join(lines)

    def table(self, limit: int | None = 1000) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
        """Returns columns and rows, one a difference, the largest first: ``run.table(name, *comparison.table())``."""
        return COLUMNS, [_row(difference) for difference in self.differences[:limit]]


def _described(members: list[OutputDifference]) -> str:
    """Returns a line about differences of one place and kind, of which the first is the largest."""
    largest, elements = members[0], members[0].elements
    count = f"{len(members)} datapoint{'s' if len(members) > 1 else ''}"
    if largest.change in ("only in a", "only in b"):
        return f"{largest.place}: {largest.change}, for {count}, such as {largest.datapoint}"
    became = f"{largest.a} became {largest.b}"
    if elements is None:
        return f"{largest.place}: another {largest.change} for {count}, such as {largest.datapoint}: {became}"
    line = f"{largest.place}: differs for {count}, most for {largest.datapoint}: relative {elements.relative:.3g}"
    if elements.compared + elements.left_out == 1:
        return f"{line}, {became}"
    line += f", at most {elements.max_abs:.3g}, on average {elements.mean_abs:.3g}, cosine {elements.cosine:.3g}"
    if largest.non_finite:
        line += f", {largest.non_finite} elements NaN or infinite on one side"
    return f"{line}, {became}" if largest.change == "dtype" else line


def _row(difference: OutputDifference) -> tuple[Cell, ...]:
    elements = difference.elements
    numbers: tuple[Cell, ...] = (None, None, None, None)
    if elements is not None:
        numbers = elements.max_abs, elements.mean_abs, elements.relative, elements.cosine
    return (
        difference.datapoint, difference.debugger, difference.path, difference.change,
        *numbers, difference.non_finite, difference.a, difference.b,
    )  # fmt: skip
