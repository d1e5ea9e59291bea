"""Lists the datapoints that a model got wrong, with their debug outputs. Needs no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from tracker_adapters.artifacts import Page
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.debug_outputs import load_debug_outputs
from debuggers.errors import ArgumentTypeError, DebuggerConfigError, PageError
from debuggers.page_files.index import DATAPOINT
from debuggers.page_files.limits import LIMITS, PageLimits
from debuggers.page_files.loading import load_page_of
from debuggers.page_files.verdicts import Verdict, judge
from debuggers.pages import PageReader


class RecordWithPages(Protocol):
    """The record of a run, as ``stepscope.read_run`` returns it."""

    def pages(self) -> Sequence[Page]:
        """Returns its pages in order of arrival."""


Source: TypeAlias = RecordWithPages | PageReader | str | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A datapoint whose prediction was wrong.

    Attributes:
        datapoint: Its index.
        page: The file that holds its debug outputs.
        step: The step at which that page was emitted; None when it was found in a folder.
        label: See ``Verdict``; so are ``prediction``, ``loss`` and ``margin``.
    """

    datapoint: int
    page: Path
    step: int | None
    label: int | None
    prediction: int | None
    loss: float | None
    margin: float | None
    _pages: _OpenPage = field(repr=False, compare=False)
    _where: _PageFile = field(repr=False, compare=False)

    @property
    def outputs(self) -> dict[str, Any]:
        """``{debugger_name: outputs}``, read now; the failures of one call keep one page open between them."""
        return self._pages.read(self._where)[self.datapoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures(Sequence[Failure]):
    """The datapoints whose predictions were wrong, the worst first.

    Attributes:
        worst: As many of them as requested; the sequence itself consists of these.
        wrong: How many were wrong in all.
        right: How many were right.
        unjudged: How many cannot be judged from their pages.
    """

    worst: tuple[Failure, ...]
    wrong: int
    right: int
    unjudged: int

    def __len__(self) -> int:
        return len(self.worst)

    def __getitem__(self, index: Any) -> Any:
        return self.worst[index]


def failures(record: Source, *, limit: int | None = None) -> Failures:
    """Returns the datapoints that were wrong, the worst first, from what pages keep under the name ``datapoint``.

    Pages have to keep ``correct``, or ``scores`` with an entry ``correct``, or the ``outputs`` and ``labels`` of a
    classifier; ``debuggers.page_files.verdicts.judge`` has the rules. They are sorted by the loss in
    ``scores``, then by the margin by which another class was ahead: NaN first, and last those with neither.

    The pages are read once, with one open at a time; debug outputs are read on access. A
    datapoint that was recorded several times counts as it was last recorded. In the record of a run that means its
    last epoch, and datapoints of different name scopes are different ones.

    Args:
        record: A page reader, a folder as for ``load_debug_outputs``, or the record of a run.
        limit: How many to return; all by default.

    Raises:
        PageError: When there are no pages, or none says whether its datapoints were right.
        DebuggerConfigError: For a limit below 1.
        ArgumentTypeError: For anything else than these as the record.
    """
    check_value("limit", limit, at_least(1) | None, DebuggerConfigError)
    files = _files_of(record)
    counts = {True: 0, False: 0, None: 0}
    found = []
    for failure_or_none, is_correct in _walk(files):
        counts[is_correct] += 1
        if failure_or_none is not None:
            found.append(failure_or_none)
    if not counts[True] and not counts[False]:
        raise PageError(
            f"{record}: no page says whether its datapoints were right; expected pages made with "
            "keep=['correct'], keep=['scores'] with a score 'correct', or a classifier's keep=['outputs', 'labels']"
        )
    found.sort(key=lambda failure: (_descending(failure.loss), _descending(failure.margin), failure.datapoint))
    return Failures(worst=tuple(found[:limit]), wrong=counts[False], right=counts[True], unjudged=counts[None])


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageFile:
    """Where a page lies. ``datapoints`` is None when that is only known once it is open."""

    path: Path
    size: int
    sha256: str
    datapoints: frozenset[int] | None
    scope: str = ""
    step: int | None = None
    limits: PageLimits = LIMITS


class _OpenPage:
    def __init__(self) -> None:
        self._path: Path | None = None
        self._page: dict[int, dict[str, Any]] = {}

    def read(self, file: _PageFile) -> dict[int, dict[str, Any]]:
        if file.path != self._path:
            self._page = load_page_of(
                file.path.parent, file.path.name, size=file.size, sha256=file.sha256, limits=file.limits
            )
            self._path = file.path
        return self._page


def _files_of(record: Source) -> list[_PageFile]:
    if isinstance(record, (str, Path)):
        record = load_debug_outputs(record)
    if isinstance(record, PageReader):
        folder = record.folder
        return [
            _PageFile(
                path=folder / page.page,
                size=page.size,
                sha256=page.sha256,
                datapoints=frozenset(page.datapoints),
                limits=record.limits,
            )
            for page in record.records
        ]
    if not hasattr(record, "pages"):
        raise ArgumentTypeError(f"record is {record!r}; expected a PageReader, a folder, or the record of a run")
    return [
        _PageFile(
            path=page.path,
            size=page.size,
            sha256=page.sha256,
            datapoints=frozenset(entry.datapoint for entry in page.contents) or None,
            scope=page.name.rpartition("/")[0],
            step=page.step,
        )
        for page in record.pages()
    ]


def _walk(files: Sequence[_PageFile]) -> Iterator[tuple[Failure | None, bool | None]]:
    pages = _OpenPage()
    seen: set[tuple[str, int]] = set()
    for file in reversed(files):  # the last record of a datapoint is the one that counts
        if file.datapoints is not None and all((file.scope, idx) in seen for idx in file.datapoints):
            continue
        for idx, outputs in pages.read(file).items():
            if (file.scope, idx) in seen:
                continue
            seen.add((file.scope, idx))
            verdict = judge(outputs.get(DATAPOINT))
            yield (
                None if verdict is None or verdict.is_correct else _failure(idx, verdict, file, pages),
                None if verdict is None else verdict.is_correct,
            )


def _failure(idx: int, verdict: Verdict, file: _PageFile, pages: _OpenPage) -> Failure:
    return Failure(
        datapoint=idx,
        page=file.path,
        step=file.step,
        label=verdict.label,
        prediction=verdict.prediction,
        loss=verdict.loss,
        margin=verdict.margin,
        _pages=pages,
        _where=file,
    )


def _descending(value: float | None) -> float:
    if value is None:
        return math.inf
    return -math.inf if math.isnan(value) else -value
