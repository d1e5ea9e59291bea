"""Which tag shows which series, and how far each series has come."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import (
    DATA_CLASS_BLOB_SEQUENCE,
    DATA_CLASS_SCALAR,
    DATA_CLASS_TENSOR,
    SummaryMetadata,
)

_PLUGINS = {
    "scalar": ("scalars", DATA_CLASS_SCALAR),
    "histogram": ("histograms", DATA_CLASS_TENSOR),
    "image": ("images", DATA_CLASS_BLOB_SEQUENCE),
}
_TEXT_PLUGIN = ("text", DATA_CLASS_TENSOR)
# The data server (0.7.2) cannot find an image again whose tag needs an escape in JSON: its keys hold the tag.
_ESCAPED_IN_JSON = re.compile(r'[\x00-\x1f"\\]')
_KIND_OF_FIELD = {"simple_value": "scalar", "histo": "histogram", "image": "image"}


@dataclass(slots=True)
class Series:
    """The artifacts of one kind and name, under one tag.

    ``metadata`` goes with the first event of a tag, and is None afterwards or when readers need none.
    """

    tag: str
    metadata: SummaryMetadata | None
    last_step: int = -1


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

    def get(self, kind: str, name: str) -> Series:
        """Returns the series, after giving it a tag if it is new."""
        series = self._series.setdefault(kind, {}).get(name)
        if series is None:
            tag = self._free_tag(kind, name)
            series = self._add(kind, name, tag, _metadata(kind, name, tag))
        return series

    def replay(self, event: Event) -> None:
        """Takes an event that is in the file already into account."""
        for value in event.summary.value:
            series = self._tags.get(value.tag)
            if series is None:
                kind = _KIND_OF_FIELD.get(value.WhichOneof("value")) or value.metadata.summary_description
                series = self._add(kind, value.metadata.display_name or value.tag, value.tag, None)
            series.last_step = event.step

    def _add(self, kind: str, name: str, tag: str, metadata: SummaryMetadata | None) -> Series:
        series = Series(tag, metadata)
        self._series.setdefault(kind, {})[name] = self._tags[tag] = series
        return series

    def _free_tag(self, kind: str, name: str) -> str:
        base = _ESCAPED_IN_JSON.sub(lambda match: quote(match[0], safe=""), name) if kind == "image" else name
        tag, number = base, 1
        while tag in self._tags:
            tag = f"{base} ({kind} {number})" if number > 1 else f"{base} ({kind})"
            number += 1
        return tag


def _metadata(kind: str, name: str, tag: str) -> SummaryMetadata | None:
    """What tells the reader the plugin, the user's name and, for what is shown as text, the kind."""
    if kind in _PLUGINS and tag == name:
        return None
    plugin, data_class = _PLUGINS.get(kind, _TEXT_PLUGIN)
    return SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=plugin),
        data_class=data_class,
        display_name=name,
        summary_description="" if kind in _PLUGINS else kind,
    )
