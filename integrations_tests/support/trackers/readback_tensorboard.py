"""Reads an event folder back through both of TensorBoard's readers, and insists that they agree."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import grpc  # type: ignore[import-untyped]
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.data import grpc_provider
from tensorboard.data.provider import BlobSequenceDatum, DataProvider
from tensorboard.data.server_ingester import get_server_binary
from tensorboard.plugin_util import markdown_to_safe_html
from tensorboard.util import tensor_util
from tracker_adapters.sinks.tensorboard.dashboards import TAGS
from tracker_adapters.testing.contract import Shown, pixel_digest

_EVERYTHING = dict.fromkeys(("scalars", "histograms", "compressedHistograms", "images", "audio", "tensors"), 0)
_ALL_POINTS = 2**31 - 1
_PLUGINS = ("scalars", "histograms", "images", "text")


class TagContents(NamedTuple):
    """What a reader shows under one tag; ``points`` are (step, wall time, value), in its order."""

    display_name: str
    description: str
    points: list[tuple[int, float, Any]]


def read_back(options: dict[str, Any]) -> list[Shown]:
    """Returns what TensorBoard shows for a sink's options, tag by tag.

    Raises:
        AssertionError: When the Python reader and the data server show different things.
    """
    folder = Path(options["target"])
    if not folder.exists():
        return []
    seen = read_with_data_server(folder)
    # As text: equal down to the last bit, NaN too, and in a fifth of the time of NumPy's comparison.
    by_python = read_with_python(folder)
    assert by_python.keys() == seen.keys()
    for key, contents in seen.items():
        assert repr(by_python[key]) == repr(contents), key
    return [
        shown
        for (plugin, tag), contents in seen.items()
        for step, _, value in contents.points
        for shown in _shown(plugin, tag, contents, step, value)
    ]


def _shown(plugin: str, tag: str, contents: TagContents, step: int, value: Any) -> Iterator[Shown]:
    name = contents.display_name or tag
    if plugin == "text":
        for text in value:
            plain = text if contents.description == "text" else as_rendered(text)
            yield Shown("text", name, step, plain)
    elif plugin == "images":
        width, height, png = value
        assert png[16:24] == int(width).to_bytes(4, "big") + int(height).to_bytes(4, "big")
        yield Shown("image", name, step, pixel_digest(png))
    elif plugin == "histograms":
        lefts, rights, counts = np.array(value).reshape(-1, 3).T
        assert (lefts[1:] == rights[:-1]).all()
        ends = (lefts[0], rights[-1]) if counts.size else (float("nan"), float("nan"))
        yield Shown("histogram", name, step, (counts.sum(), *ends))
    else:
        yield Shown("scalar", name, step, value)


def read_with_python(folder: Path) -> dict[tuple[str, str], TagContents]:
    """Reads with EventAccumulator, the reader of scripts and notebooks; nothing is left out."""
    accumulator = EventAccumulator(str(folder), size_guidance=_EVERYTHING)
    accumulator.Reload()
    tags = accumulator.Tags()
    found: dict[tuple[str, str], TagContents] = {}

    def take(plugin: str, tag: str, points: list[tuple[int, float, Any]]) -> None:
        try:
            metadata = accumulator.SummaryMetadata(tag)
        except KeyError:
            found[plugin, tag] = TagContents("", "", points)
        else:
            assert metadata.plugin_data.plugin_name == plugin
            found[plugin, tag] = TagContents(metadata.display_name, metadata.summary_description, points)

    for tag in tags["scalars"]:
        take("scalars", tag, [(e.step, e.wall_time, e.value) for e in accumulator.Scalars(tag)])
    for tag in tags["histograms"]:
        events = accumulator.Histograms(tag)
        take("histograms", tag, [(e.step, e.wall_time, _buckets(e.histogram_value)) for e in events])
    for tag in tags["images"]:
        events = accumulator.Images(tag)
        points = [(e.step, e.wall_time, (e.width, e.height, e.encoded_image_string)) for e in events]
        take("images", tag, points)
    for tag in set(tags["tensors"]) - TAGS:
        events = accumulator.Tensors(tag)
        take("text", tag, [(e.step, e.wall_time, _texts(tensor_util.make_ndarray(e.tensor_proto))) for e in events])
    return found


def read_with_data_server(folder: Path) -> dict[tuple[str, str], TagContents]:
    """Reads with the server behind ``tensorboard``, through its gRPC interface; nothing is left out."""
    found: dict[tuple[str, str], TagContents] = {}
    with _data_server(folder) as provider:

        def take(plugin: str, listed: Any, read: Any, value_of: Any) -> None:
            arguments = {"experiment_id": "", "plugin_name": plugin}
            series = listed(None, **arguments).get(".", {})
            points = read(None, downsample=_ALL_POINTS, **arguments).get(".", {})
            assert series.keys() == points.keys()
            for tag, info in series.items():
                found[plugin, tag] = TagContents(
                    info.display_name,
                    info.description,
                    [(point.step, point.wall_time, value_of(point)) for point in points[tag]],
                )

        def blobs(point: BlobSequenceDatum) -> tuple[int, int, bytes]:
            width, height, png = (provider.read_blob(None, blob_key=blob.blob_key) for blob in point.values)
            return int(width), int(height), png

        take("scalars", provider.list_scalars, provider.read_scalars, lambda point: point.value)
        take("histograms", provider.list_tensors, provider.read_tensors, lambda point: point.numpy.tolist())
        take("text", provider.list_tensors, provider.read_tensors, lambda point: _texts(point.numpy))
        take("images", provider.list_blob_sequences, provider.read_blob_sequences, blobs)
    return found


@contextmanager
def _data_server(folder: Path) -> Iterator[DataProvider]:
    limits = ",".join(f"{plugin}=all" for plugin in _PLUGINS)
    command = [
        get_server_binary().path,
        *(f"--logdir={folder}", "--host=127.0.0.1", "--port=0", "--reload=once"),
        *(f"--samples-per-plugin={limits}", "--checksum", "--die-after-stdin", "--verbose"),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        log = ""
        for line in server.stderr:
            log += line
            if "Finished load cycle" in line:
                break
        assert "WARN" not in log, log
        port = re.search(r"listening on 127\.0\.0\.1:(\d+)", log)
        assert port is not None, log
        address = f"127.0.0.1:{port[1]}"
        unlimited = [("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(address, options=unlimited) as channel:
            yield grpc_provider.GrpcDataProvider(address, grpc_provider.make_stub(channel))
        server.stdin.close()
        server.wait(60)


def _buckets(histogram: Any) -> list[list[float]]:
    """The rows (left, right, count) that TensorBoard makes of a HistogramProto."""
    assert sum(histogram.bucket) == histogram.num
    inner = histogram.bucket_limit[:-1]
    lefts, rights = [histogram.min, *inner], [*inner, histogram.max]
    return [list(row) for row in zip(lefts, rights, histogram.bucket, strict=False)]


def _texts(tensor: Any) -> list[str]:
    return [text.decode() for text in tensor.reshape(-1).tolist()]


def as_rendered(markdown: str) -> str:
    """The text that a person reads once TensorBoard has rendered ``markdown``."""
    parts: list[str] = []

    class TextNodes(HTMLParser):
        def handle_data(self, data: str) -> None:
            parts.append(data)

    TextNodes().feed(markdown_to_safe_html(markdown))
    return "".join(parts)
