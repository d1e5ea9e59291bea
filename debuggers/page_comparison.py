"""Compares the debug outputs in two folders of pages, such as two epochs: what changed, and by how much."""

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from debuggers.debug_outputs import load_debug_outputs
from debuggers.errors import PageError
from debuggers.host_arrays.element_difference import element_difference
from debuggers.page_files.differences import OutputDifference, PageComparison
from debuggers.pages import PageReader

_CHUNK = 1 << 18
MAX_ELEMENTS_A_BYTE = 4
"""How much is compared of two pages: what they share is compared once for each pair that it stands in."""
_Path: TypeAlias = tuple[Any, ...]


def compare_pages(a: PageReader | str | Path, b: PageReader | str | Path) -> PageComparison:
    """Compares the outputs that two folders of pages hold of the same datapoints.

    What lies under the same debugger and path is compared: arrays and numbers element by element in float64
    (complex ones in complex128), a list of numbers like an array, anything else for equality. NaN equals NaN, and
    infinity the same infinity. Integers beyond 2**53 are rounded. At most one page of each side is open at a time.

    Args:
        a: The earlier or reference side: a reader, or a folder as for ``load_debug_outputs``.
        b: The other side.

    Raises:
        PageError: For a folder without pages, or a page that is damaged.
    """
    first, second = (side if isinstance(side, PageReader) else load_debug_outputs(side) for side in (a, b))
    pages_a, pages_b = _page_numbers(first), _page_numbers(second)
    common = [idx for idx in first if idx in second]
    tally = _Tally()
    # In the order of the pages of both sides, so that none is opened again for every datapoint.
    for idx in sorted(common, key=lambda idx: (pages_a[idx], pages_b[idx])):
        page_a, page_b = first.records[pages_a[idx]], second.records[pages_b[idx]]
        tally.open_pages((page_a.page, page_b.page), page_a.size + page_b.size)
        tally.add(idx, first[idx], second[idx])
    return PageComparison(
        differences=tuple(sorted(tally.differences, key=lambda difference: -difference.size)),
        datapoints=len(common),
        only_in_a=tuple(idx for idx in first if idx not in second),
        only_in_b=tuple(idx for idx in second if idx not in first),
        values=tally.values,
        equal_non_finite=tally.equal_non_finite,
    )


class _Tally:
    def __init__(self) -> None:
        self.differences: list[OutputDifference] = []
        self.values = 0
        self.equal_non_finite = 0
        self._pages = ("", "")
        self._elements_left = 0
        # Datapoints of a page may share what belongs to the whole batch: it is compared once.
        self._known: dict[tuple[int, int], tuple[dict[str, Any] | None, int]] = {}

    def open_pages(self, pages: tuple[str, str], nbytes: int) -> None:
        """Sets which pages are open, and their size: while they are open, an id belongs to one object."""
        if pages != self._pages:
            self._pages = pages
            self._elements_left = MAX_ELEMENTS_A_BYTE * nbytes
            self._known.clear()

    def add(self, datapoint: int, a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
        for debugger in {**a, **b}:
            # What only one side has counts as a whole.
            leaves = _leaves if debugger in a and debugger in b else _whole
            first, second = (dict(leaves(side[debugger])) if debugger in side else {} for side in (a, b))
            for path in {**first, **second}:
                self.values += 1
                found = self._compared(path, first, second)
                if found is not None:
                    place: dict[str, Any] = {"debugger": debugger, "path": "/".join(map(str, path))}
                    self.differences.append(OutputDifference(datapoint=datapoint, **place, **found))

    def _compared(self, path: _Path, a: Mapping[_Path, Any], b: Mapping[_Path, Any]) -> dict[str, Any] | None:
        """Returns what an OutputDifference says beside its place, or None where there is none."""
        if path not in b:
            return {"change": "only in a", "a": _short(a[path]), "b": ""}
        if path not in a:
            return {"change": "only in b", "a": "", "b": _short(b[path])}
        one, other = a[path], b[path]
        pair = id(one), id(other)
        if pair not in self._known:
            before = self.equal_non_finite
            found = self._of_pair(one, other)
            self._known[pair] = found, self.equal_non_finite - before
            return found
        found, alike = self._known[pair]
        self.equal_non_finite += alike
        return found

    def _of_pair(self, one: Any, other: Any) -> dict[str, Any] | None:
        words = {"a": _short(one), "b": _short(other)}
        x, y = _as_array(one), _as_array(other)
        if x is None or y is None:
            if (x is None) != (y is None):
                return {"change": "type", **words}
            return None if one == other else {"change": "text", **words}
        if x.shape != y.shape:
            return {"change": "shape", **words}
        self._elements_left -= x.size
        if self._elements_left < 0:
            raise PageError(
                f"{' and '.join(self._pages)} share arrays in more pairs than debug outputs do: comparing them takes "
                f"more than {MAX_ELEMENTS_A_BYTE} elements a byte"
            )
        elements = element_difference(x, y)
        alike, unlike = _non_finite_pairs(x, y) if elements.left_out else (0, 0)
        self.equal_non_finite += alike
        found = {**words, "elements": elements, "non_finite": unlike}
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype != other.dtype:
            return {"change": "dtype", **found}
        return {"change": "values", **found} if elements.max_abs > 0 or unlike else None


def _page_numbers(reader: PageReader) -> dict[int, int]:
    return {idx: number for number, record in enumerate(reader.records) for idx in record.datapoints}


def _whole(value: Any) -> Iterator[tuple[_Path, Any]]:
    yield (), value


def _leaves(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yields arrays, numbers, lists of numbers and whatever is no container, with the keys that lead there."""
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping) and value:
        items = value.items()
    elif isinstance(value, (list, tuple)) and not all(isinstance(item, (bool, int, float)) for item in value):
        items = enumerate(value)
    else:
        yield path, value
        return
    for key, item in items:
        yield from _leaves(item, (*path, key))


def _as_array(value: Any) -> npt.NDArray[Any] | None:
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, (bool, int, float, list, tuple)):
        return None
    try:
        return np.asarray(value, dtype=np.float64)
    except OverflowError:  # an integer that no float can hold
        return None


def _non_finite_pairs(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[int, int]:
    """Returns of the pairs with an element that is NaN or infinite how many are alike, and how many are not."""
    kind: npt.DTypeLike = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    alike = unlike = 0
    first, second = a.reshape(-1), b.reshape(-1)
    for start in range(0, first.size, _CHUNK):
        x, y = (part[start : start + _CHUNK].astype(kind) for part in (first, second))
        left_out = ~(np.isfinite(x) & np.isfinite(y))
        x, y = x[left_out], y[left_out]
        same = int(np.count_nonzero((x == y) | (np.isnan(x) & np.isnan(y))))
        alike, unlike = alike + same, unlike + x.size - same
    return alike, unlike


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        kind = f"{value.dtype} {value.shape}"
        return f"{kind} {value.reshape(-1)[0]:.6g}" if value.size == 1 else kind
    return f"{value:.6g}" if isinstance(value, float) else reprlib.repr(value)
