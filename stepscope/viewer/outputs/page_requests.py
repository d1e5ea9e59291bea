"""What is asked about pages, and the answers: run only in the process with limits (``page_child.py``).

A request names the folder of a run, and pages by their paths below it with the size and checksum that the run's store
or an index says; a link is not followed.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from debuggers.errors import PageError
from debuggers.page_comparison import compare_pages
from debuggers.page_files.differences import OutputDifference
from debuggers.page_files.index import DATAPOINT, PageRecord, read_index
from debuggers.page_files.loading import load_page_of
from debuggers.page_files.verdicts import judge
from debuggers.pages import PageReader
from stepscope.viewer.outputs.arrays import number
from stepscope.viewer.outputs.nodes import describe, draw

MOST_CHANGES = 500
_OPEN_PAGES = 4

Page = dict[int, dict[str, Any]]


class OpenPages:
    """The pages that were asked for last: a page that stays open is not verified again."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, str, str], Page] = OrderedDict()

    def get(self, folder: str, record: PageRecord) -> Page:
        """Opens a page, or returns the open one."""
        key = (folder, record.page, record.sha256)
        if key not in self._pages:
            page = load_page_of(Path(folder), record.page, size=record.size, sha256=record.sha256 or None)
            self._pages[key] = page
            while len(self._pages) > _OPEN_PAGES:
                self._pages.popitem(last=False)
        self._pages.move_to_end(key)
        return self._pages[key]


def answer(request: Mapping[str, Any], pages: OpenPages) -> bytes:
    """Returns the answer to one request: JSON, or a PNG file.

    Raises:
        PageError: When a page is refused or lacks the datapoint.
        PlaceError: When there is no such picture.
    """
    return _ANSWERS[request["ask"]](request, pages)


def _index(request: Mapping[str, Any], _: OpenPages) -> bytes:
    refused: list[PageError] = []
    records = read_index(Path(request["folder"]), refused=refused)
    return msgspec.json.encode([records, [str(error) for error in refused]])


def _judged(request: Mapping[str, Any], pages: OpenPages) -> bytes:
    found: list[list[Any]] = []
    for idx, outputs in pages.get(request["folder"], _record(request["page"])).items():
        verdict = judge(outputs.get(DATAPOINT))
        failed = [name for name, slot in outputs.items() if isinstance(slot, Mapping) and "error" in slot]
        if verdict is None:
            found.append([idx, None, None, None, None, None, failed])
        else:
            loss, margin = (None if one is None else number(one) for one in (verdict.loss, verdict.margin))
            found.append([idx, verdict.is_correct, verdict.label, verdict.prediction, loss, margin, failed])
    return msgspec.json.encode(found)


def _datapoint(request: Mapping[str, Any], pages: OpenPages) -> bytes:
    return msgspec.json.encode(describe(_outputs(request, pages)))


def _picture(request: Mapping[str, Any], pages: OpenPages) -> bytes:
    return draw(_outputs(request, pages), tuple(request["place"]), request["form"], request["first"])


def _changes(request: Mapping[str, Any], pages: OpenPages) -> bytes:
    found = compare_pages(*(_reader(side, request["idx"], pages) for side in request["sides"]))
    largest: dict[int, float] = {}
    for difference in found.differences:
        if math.isfinite(difference.size):
            largest[difference.datapoint] = max(difference.size, largest.get(difference.datapoint, 0.0))
    return msgspec.json.encode(
        {
            "summary": found.summary(),
            "datapoints": found.datapoints,
            "only_in_a": found.only_in_a[:MOST_CHANGES],
            "only_in_b": found.only_in_b[:MOST_CHANGES],
            "values": found.values,
            "different": len(found.differences),
            "largest": list(largest.items()),
            "changes": [_change(difference) for difference in found.differences[:MOST_CHANGES]],
        }
    )


class _OneDatapoint(PageReader):
    """One datapoint of a page that is open; none where no page has it."""

    def __init__(self, side: Mapping[str, Any], idx: int, pages: OpenPages) -> None:
        records = [record for record in map(_record, side["pages"]) if idx in record.datapoints][-1:]
        super().__init__(side["folder"], records=[replace(record, datapoints=(idx,)) for record in records])
        for record in records:
            self._open_page = (record.page, pages.get(side["folder"], record))


def _reader(side: Mapping[str, Any], idx: int | None, pages: OpenPages) -> PageReader:
    if idx is not None:
        return _OneDatapoint(side, idx, pages)
    return PageReader(side["folder"], records=[_record(page) for page in side["pages"]])


def _change(difference: OutputDifference) -> dict[str, Any]:
    elements = difference.elements
    return {
        "datapoint": difference.datapoint,
        "place": difference.place,
        "change": difference.change,
        "size": number(difference.size),
        "max_abs": None if elements is None else number(elements.max_abs),
        "cosine": None if elements is None else number(elements.cosine),
        "non_finite": difference.non_finite,
        "a": difference.a,
        "b": difference.b,
    }


def _outputs(request: Mapping[str, Any], pages: OpenPages) -> dict[str, Any]:
    record = _record(request["page"])
    page = pages.get(request["folder"], record)
    if request["idx"] not in page:
        raise PageError(f"{record.page} has no datapoint {request['idx']}, which its contents say it has")
    return page[request["idx"]]


def _record(page: Mapping[str, Any]) -> PageRecord:
    return PageRecord(
        page=page["page"], size=page["size"], sha256=page["sha256"], datapoints=tuple(page.get("datapoints", ()))
    )


_ANSWERS: dict[str, Callable[[Mapping[str, Any], OpenPages], bytes]] = {
    "index": _index,
    "judged": _judged,
    "datapoint": _datapoint,
    "picture": _picture,
    "changes": _changes,
}
