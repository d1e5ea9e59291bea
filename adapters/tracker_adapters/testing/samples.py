"""What the contract suite writes, and how it compares what trackers show."""

import hashlib
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracker_adapters.artifacts import (
    Alert,
    Artifact,
    Curve,
    File,
    Histogram,
    Image,
    Page,
    PageEntry,
    RunInfo,
    Scalar,
    Table,
    Text,
)
from tracker_adapters.values.png import encode

TIME_NS = 1_700_000_000_123_456_789
ODD_NAMES = (
    "a:b", "a//b", "a/b/", "/a", "grad[0]", "loss @ 50%", "😀/weight", "Ünïcødé", " spaced ", "x" * 300,
    "../../x", "/etc/passwd", "..", ".", "CON", "case", "Case", "CASE", "a\nb", "a\tb", "<b>&amp;</b>", "a\\b",
    "'quoted\"", "%2e%2e/x", "_", "step",
)  # fmt: skip
ODD_VALUES = (0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 3.0e38, -1e-30, 16777216.0)
INFO = RunInfo(
    id="contract", name="contract run", config={"optim": {"lr": 0.1}, "layers": [1, 2], "note": "a\nb"}, tags=("t1",)
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a tracker shows for one artifact, under the name that the user gave.

    ``value`` by kind: scalar: float. histogram: (finite elements, min, max). image: ``pixel_digest``.
    text: the text. alert: (level, message). table: (columns, rows). curve: (x, y). page and file: SHA-256 in
    hexadecimal.
    """

    kind: str
    name: str
    step: int
    value: Any


def pixel_digest(png: bytes) -> str:
    """Returns a checksum of a picture's size and pixels, whatever encoder wrote the file."""
    from PIL import Image as PillowImage

    picture = PillowImage.open(io.BytesIO(png)).convert("RGBA")
    return hashlib.sha256(repr(picture.size).encode() + picture.tobytes()).hexdigest()


def shown(artifact: Artifact) -> Shown:
    """Returns what a tracker without limits would show."""
    match artifact:
        case Scalar():
            value: Any = artifact.value
        case Histogram():
            value = (artifact.finite_count, artifact.min, artifact.max)
        case Image():
            value = pixel_digest(artifact.png)
        case Text():
            value = artifact.text
        case Alert():
            value = (artifact.level, artifact.message)
        case Table():
            value = (artifact.columns, artifact.rows)
        case Curve():
            value = (tuple(artifact.x.tolist()), tuple(artifact.y.tolist()))
        case Page() | File():
            value = artifact.sha256
        case _:
            raise AssertionError(f"no rule for {artifact.kind}")
    return Shown(artifact.kind, artifact.name, artifact.step, value)


def one_of_each(folder: Path, *, name: str = "", step: int = 3) -> list[Artifact]:
    """Returns one artifact of every kind, named ``name`` or after its kind; writes the files into ``folder``."""
    page, blob = folder / "page_0.pkl", folder / "notes.bin"
    page.write_bytes(b"page bytes " * 50)
    blob.write_bytes(bytes(range(256)))
    shared: dict[str, Any] = {"step": step, "time_ns": TIME_NS}
    values = np.linspace(-2, 3, 1001, dtype=np.float32)
    x, y = np.linspace(0, 1, 11), np.linspace(0, 1, 11) ** 0.5
    picture = (np.arange(20 * 30 * 3) % 251).astype(np.uint8).reshape(20, 30, 3)
    return [
        Scalar(name=name or "scalar", value=0.25, **shared),
        Histogram.from_values(name or "histogram", values, **shared),
        Image.from_array(name or "image", picture, layout="HWC", **shared),
        Text(name=name or "text", text="**bold** <i>&</i>\nsecond line", **shared),
        Alert(name=name or "alert", message="fc1: norm 3.1e5", level="error", **shared),
        Table(name=name or "table", columns=("layer", "norm"), rows=(("fc1", 1.5), ("fc2|x", None)), **shared),
        Page(
            name=name or "page",
            path=page,
            contents=(
                PageEntry(
                    datapoint=7, debugger="conv1", summary="feature_map float32 (16, 8, 8)", picture=encode(picture)
                ),
                PageEntry(datapoint=8, debugger="conv1", summary="feature_map float32 (16, 8, 8)"),
            ),
            **shared,
        ),
        File(name=name or "file", path=blob, media_type="application/octet-stream", **shared),
        Curve(name=name or "curve", x=x, y=y, x_label="false alarms", y_label="hits", **shared),
    ]
