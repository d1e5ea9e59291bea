"""Which tag shows which series, and how far each series has come."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import (
    DATA_CLASS_BLOB_SEQUENCE,
    DATA_CLASS_SCALAR,
    DATA_CLASS_TENSOR,
    SummaryMetadata,
)

from tracker_adapters.artifacts import Curve, Image
from tracker_adapters.formats.protobuf import delimited
from tracker_adapters.sink import is_report_name
from tracker_adapters.sinks.tensorboard.dashboards import TAGS
from tracker_adapters.sinks.tensorboard.wire import METADATA, scalar_head, tag_field

MAX_FURTHER_TAGS = 1000
"""Further tags for texts of one name that come at one step in many batches; later ones are counted as late."""

PICTURES: Mapping[str, Callable[[Any], Image]] = {Image.kind: lambda image: image, Curve.kind: Curve.drawn}
"""The kinds that are shown as pictures, and how they become one."""
_PLUGINS = {
    "scalar": ("scalars", DATA_CLASS_SCALAR),
    "histogram": ("histograms", DATA_CLASS_TENSOR),
    **dict.fromkeys(PICTURES, ("images", DATA_CLASS_BLOB_SEQUENCE)),
}
_TEXT_PLUGIN = ("text", DATA_CLASS_TENSOR)
# The data server (0.7.2) cannot find an image again whose tag needs an escape in JSON: its keys hold the tag.
_ESCAPED_IN_JSON = re.compile(r'[\x00-\x1f"\\]')
_KIND_OF_FIELD = {"simple_value": "scalar", "histo": "histogram", "image": "image"}


@dataclass(slots=True)
class Series:
    """The artifacts of one kind and name, under one tag.

    ``metadata`` is the field that goes with the first event of a tag, empty afterwards or when readers need none.
    ``of_this_attempt`` says whether the run's latest attempt has written it. ``further`` are the same name's other
    tags, for texts whose step was written already when more of them came.
    """

    tag: str
    metadata: bytes
    last_step: int = -1
    of_this_attempt: bool = True
    further: list[Series] = field(default_factory=list)
    tag_field: bytes = b""
    scalar_head: bytes = b""

    def __post_init__(self) -> None:
        self.tag_field = tag_field(self.tag)
        self.scalar_head = scalar_head(self.tag_field)


class SeriesIndex:
    """Finds the series of a kind and name; the first kind to take a name has it as its tag.

    A tag belongs to one plugin, and entries at one step of one tag erase each other. So a further kind of the
    same name is tagged ``name (kind)``, or ``name (kind 2)`` and so on where somebody's own name reads like
    that. Control characters, quotes and backslashes in the name of an image are percent-encoded in its tag.
    The tag is a function of the artifacts before it, so it is the same after every resume.
    """

    def __init__(self) -> None:
        self._series: dict[str, dict[str, Series]] = {}
        self._tags: dict[str, Series] = {}

    def of_kind(self, kind: str) -> dict[str, Series]:
        """The series of a kind by name, to look into."""
        return self._series.setdefault(kind, {})

    def add(self, kind: str, name: str) -> None:
        """Makes sure that there is a series, and takes it as one of this attempt."""
        series = self.of_kind(kind).get(name)
        if series is None:
            self._add(kind, name, self._free_tag(kind, name))
        else:
            series.of_this_attempt = True

    def with_room(self, kind: str, name: str, step: int) -> Series | None:
        """Returns the series that takes a text at ``step``: the name's own, or one under a further tag.

        None when the step is below the last one, or there are too many further tags.
        """
        series = self._series[kind][name]
        if step != series.last_step:
            return series if step > series.last_step else None
        for further in series.further:
            if further.last_step < step:
                return further
        if len(series.further) >= MAX_FURTHER_TAGS:
            return None
        return self._add(kind, name, self._free_tag(kind, name))

    def begin_attempt(self) -> None:
        """From here on a new attempt of the run writes."""
        for series in self._tags.values():
            series.of_this_attempt = False

    def emptied(self) -> SeriesIndex:
        """Returns the index of an empty file, in which each name is going to have the tag that it has in this one."""
        index = SeriesIndex()
        for kind, named in self._series.items():
            for name, series in named.items():
                index._add(kind, name, series.tag).of_this_attempt = False
        return index

    def replay(self, event: Event, *, of_this_attempt: bool) -> None:
        """Takes an event that is in the file already into account."""
        for value in event.summary.value:
            if value.tag in TAGS:
                continue
            series = self._tags.get(value.tag)
            if series is None:
                kind = value.metadata.summary_description or _KIND_OF_FIELD[value.WhichOneof("value")]
                series = self._add(kind, value.metadata.display_name or value.tag, value.tag)
            series.metadata = b""
            series.last_step = event.step
            series.of_this_attempt = of_this_attempt

    def _add(self, kind: str, name: str, tag: str) -> Series:
        series = self._tags[tag] = Series(tag, _metadata(kind, name, tag))
        first = self.of_kind(kind).setdefault(name, series)
        if first is not series:
            first.further.append(series)
        return series

    def _free_tag(self, kind: str, name: str) -> str:
        base = _ESCAPED_IN_JSON.sub(lambda match: quote(match[0], safe=""), name) if kind in PICTURES else name
        if kind == "text" and is_report_name(name):  # capitals stand first in the page, before a session's other texts
            base = name.removesuffix("report") + "Report"
        tag, number = base, 1
        while tag in self._tags or tag in TAGS:
            tag = f"{base} ({kind} {number})" if number > 1 else f"{base} ({kind})"
            number += 1
        return tag


def _metadata(kind: str, name: str, tag: str) -> bytes:
    """What tells the reader the plugin, the user's name and, where the value does not tell it, the kind."""
    is_told = kind in _KIND_OF_FIELD.values()
    if is_told and tag == name:
        return b""
    plugin, data_class = _PLUGINS.get(kind, _TEXT_PLUGIN)
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=plugin),
        data_class=data_class,
        display_name=name,
        summary_description="" if is_told else kind,
    )
    return delimited(METADATA, metadata.SerializeToString())
