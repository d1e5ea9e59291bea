"""Datapoints of a run: the epochs that have some, what is right and wrong, one datapoint, its pictures, and changes."""

from __future__ import annotations

import atexit
import json
import threading
from collections import OrderedDict
from typing import Any
from urllib.parse import urlencode

from stepscope.viewer.answers.answer import Answer, BadRequest, NotFound, json_answer
from stepscope.viewer.answers.epochs import Epoch, EpochList
from stepscope.viewer.answers.images import PNG
from stepscope.viewer.answers.query import Query
from stepscope.viewer.outputs.page_process import PageProcess
from stepscope.viewer.watched_runs import RunList

_FORMS = ("image", "maps", "overlay")
_KEPT_VERDICTS = 512
_MOST_REFUSED = 100

_pages = PageProcess()
_all_pages = PageProcess()  # takes long: looking at datapoints goes on meanwhile
_epochs = EpochList(_pages)
_verdicts: OrderedDict[str, list[Any]] = OrderedDict()
_keeping = threading.Lock()
for _process in (_pages, _all_pages):
    atexit.register(_process.close)


def datapoints_answer(runs: RunList, query: Query) -> Answer:
    """``datapoints?run=K``: the epochs: key, title, step, rank, count, debuggers; with ``epoch=E`` its datapoints.

    Those are ``datapoints``, the indices in order of arrival, and ``of_debugger``: the positions of those that a
    debugger has left something of, or null for all. No page is opened. Beside the epochs, ``refused`` has a line for
    each of up to a hundred pages that are in none, because they cannot be opened.
    """
    key, wanted = query.run(), query.text("epoch", "")
    _pages.start()
    with runs.opened(key) as record:
        position = runs.position(key)
        run = _epochs.of(record)
    if wanted:
        return json_answer({"position": position, **_listed(_named(run.epochs, wanted))}, position)
    found = [
        {
            "key": epoch.key,
            "title": epoch.title,
            "step": epoch.step,
            "rank": epoch.rank,
            "count": len(epoch.page_of),
            "debuggers": list(epoch.debuggers),
            "bytes": sum(page["size"] for page in epoch.pages),
        }
        for epoch in run.epochs
    ]
    refused = run.refused[:_MOST_REFUSED]
    return json_answer({"position": position, "epochs": found, "refused": refused}, position)


def judged_answer(runs: RunList, query: Query) -> Answer:
    """``judged?run=K&epoch=E``: what the pages say of each datapoint, in the order of ``datapoints``.

    Columns ``correct`` (null where nothing says so), ``label``, ``prediction``, ``loss``, ``margin`` and ``failed``,
    the debuggers that left an error. ``errors`` has a line for each page that cannot be opened.
    """
    folder, epoch = _epoch(runs, query)
    found: dict[int, Any] = {}
    errors = []
    for number, page in enumerate(epoch.pages):
        try:
            rows = _judged(folder, page)
        except Exception as error:  # of one page: the others are shown
            errors.append(str(error))
            continue
        found |= {row[0]: row[1:] for row in rows if epoch.page_of.get(row[0]) == number}
    rows = [found.get(idx, [None, None, None, None, None, []]) for idx in epoch.page_of]
    names = ("correct", "label", "prediction", "loss", "margin", "failed")
    return json_answer({"errors": errors} | dict(zip(names, zip(*rows, strict=True), strict=True) if rows else {}))


def datapoint_answer(runs: RunList, query: Query) -> Answer:
    """``datapoint?run=K&epoch=E&idx=I``: its sections as nodes (see ``outputs.nodes``), pictures with ``address``."""
    folder, epoch = _epoch(runs, query)
    page, idx = _page_of(epoch, query)
    content = _pages.ask({"ask": "datapoint", "folder": folder, "page": page, "idx": idx})
    sections = json.loads(content)
    common = {"run": query.run(), "epoch": epoch.key, "idx": idx}
    for nodes in sections.values():
        _address(nodes, common)
    return json_answer({"idx": idx, "page": page["page"], "sections": sections})


def picture_answer(runs: RunList, query: Query) -> Answer:
    """``picture?run=K&epoch=E&idx=I&place=P&form=F&map=0``: a PNG file of what a node's ``pictures`` name."""
    folder, epoch = _epoch(runs, query)
    page, idx = _page_of(epoch, query)
    form, place = query.text("form"), query.text("place")
    if form not in _FORMS:
        raise BadRequest(f"form is {form[:80]!r}; expected one of {', '.join(_FORMS)}")
    parts = place.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts) or len(parts) > 32:
        raise BadRequest(f"place is {place[:80]!r}; expected whole numbers joined by dots, such as 0.2")
    request = {"ask": "picture", "folder": folder, "page": page, "idx": idx, "form": form}
    return Answer(_pages.ask(request | {"place": list(map(int, parts)), "first": query.whole("map", 0)}), PNG)


def changes_answer(runs: RunList, query: Query) -> Answer:
    """``changes?a=K&a_epoch=E&b=L&b_epoch=F``: what differs from E to F, the largest first.

    ``summary``, ``datapoints`` in both, ``only_in_a``, ``only_in_b``, ``different``, up to 500 ``changes``, and of each
    datapoint the ``largest`` finite change; see ``debuggers.page_comparison``. With ``idx=I`` of one datapoint.
    """
    found = [_epoch(runs, query, side, f"{side}_epoch") for side in ("a", "b")]
    sides = [{"folder": folder, "pages": epoch.pages} for folder, epoch in found]
    idx = _idx(query) if "idx" in query.parameters else None
    process = _all_pages if idx is None else _pages
    return json_answer(json.loads(process.ask({"ask": "changes", "sides": sides, "idx": idx})))


def _epoch(runs: RunList, query: Query, run: str = "run", epoch: str = "epoch") -> tuple[str, Epoch]:
    """The folder of a run, and one of its epochs."""
    with runs.opened(query.run(run)) as record:
        return str(record.path), _named(_epochs.of(record).epochs, query.text(epoch))


def _named(epochs: list[Epoch], key: str) -> Epoch:
    for epoch in epochs:
        if epoch.key == key:
            return epoch
    known = ", ".join(epoch.key for epoch in epochs[:8]) or "none"
    raise NotFound(f"the run has no epoch {key[:80]!r} with datapoints; it has {known}")


def _listed(epoch: Epoch) -> dict[str, Any]:
    everything = set(epoch.page_of)
    places = {idx: place for place, idx in enumerate(epoch.page_of)}
    of_debugger = {
        name: None if having == everything else sorted(places[idx] for idx in having)
        for name, having in epoch.debuggers.items()
    }
    return {"datapoints": list(epoch.page_of), "of_debugger": of_debugger}


def _page_of(epoch: Epoch, query: Query) -> tuple[dict[str, Any], int]:
    idx = _idx(query)
    if idx not in epoch.page_of:
        raise NotFound(f"epoch {epoch.key} has no datapoint {idx}")
    page = epoch.record_of(idx)
    return {key: page[key] for key in ("page", "size", "sha256")}, idx


def _idx(query: Query) -> int:
    text = query.text("idx")
    try:
        return int(text[:40])
    except ValueError as error:
        raise BadRequest(f"idx is {text[:80]!r}; expected the index of a datapoint") from error


def _judged(folder: str, page: dict[str, Any]) -> list[Any]:
    """What a page says of its datapoints; a page never changes, so that it is kept by its checksum."""
    sha256 = page["sha256"]
    with _keeping:
        found = _verdicts.get(sha256)
    if found is None:
        request = {"ask": "judged", "folder": folder, "page": {**page, "datapoints": ()}}
        found = json.loads(_all_pages.ask(request))
        with _keeping:
            _verdicts[sha256] = found
            while len(_verdicts) > _KEPT_VERDICTS:
                _verdicts.popitem(last=False)
    return found


def _address(nodes: list[dict[str, Any]], common: dict[str, Any]) -> None:
    for node in nodes:
        for picture in node.get("pictures", ()):
            asked = {"place": picture["place"], "form": picture["form"]}
            picture["address"] = f"picture?{urlencode(common | asked)}"
        _address(node.get("children", []), common)
