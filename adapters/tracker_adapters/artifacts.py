"""The vocabulary: what producers emit, the store keeps and sinks show.

Every artifact has a ``name`` (any text of 1 to 1000 characters), a ``step`` (an integer from 0 to
2**63 - 1) and ``time_ns`` (nanoseconds since the epoch, frozen when the artifact is made). Artifacts are
immutable: arrays are copied and read-only. NaN and infinity are legal values.
"""

from collections.abc import Mapping

from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.kinds.alert import Alert, AlertLevel
from tracker_adapters.kinds.curve import Curve
from tracker_adapters.kinds.files import File, StoredFile, sha256_of
from tracker_adapters.kinds.page import MAX_PREVIEW_BYTES, Page, PageEntry
from tracker_adapters.kinds.scalar import Scalar
from tracker_adapters.kinds.table import Cell, Table
from tracker_adapters.kinds.text import Text
from tracker_adapters.run_info import RunInfo, RunStatus
from tracker_adapters.values.base import MAX_NAME_LENGTH, MAX_STEP, Artifact, check_name, check_step
from tracker_adapters.values.image import Image

KINDS: Mapping[str, type[Artifact]] = {
    cls.kind: cls for cls in (Scalar, Histogram, Image, Text, Alert, Table, Page, File, Curve)
}
"""The class of each kind of artifact, by the kind's name."""

__all__ = [
    "KINDS",
    "MAX_NAME_LENGTH",
    "MAX_PREVIEW_BYTES",
    "MAX_STEP",
    "Alert",
    "AlertLevel",
    "Artifact",
    "Cell",
    "Curve",
    "File",
    "Histogram",
    "Image",
    "Page",
    "PageEntry",
    "RunInfo",
    "RunStatus",
    "Scalar",
    "StoredFile",
    "Table",
    "Text",
    "check_name",
    "check_step",
    "sha256_of",
]
