"""What each value of an event becomes: the tag is the name, step and wall time are kept.

Scalars stay what they are. Histograms, whose edges are not ours, become tables with the columns ``left``, ``right``
and ``count``: cutting them into the fixed bins would move values. PNG pictures stay as they are; other pictures, and
audio, become files. Texts stay texts. Other tensors become scalars or tables, as their shape is.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.util.tensor_util import make_ndarray
from tracker_adapters.artifacts import Image, Table, Text

from stepscope.importing.new_run import NewRun
from stepscope.importing.skipped import NotImportable

MAX_CELLS = 10_000
"""Cells of a tensor that becomes a table; rows of a histogram."""
MAX_STRINGS = 1_000
MAX_PIXELS = 100_000_000
_PNG = b"\x89PNG\r\n\x1a\n"
_PICTURES = {b"GIF8": ("image/gif", ".gif"), b"\xff\xd8\xff": ("image/jpeg", ".jpg"), b"BM": ("image/bmp", ".bmp")}
_HISTOGRAM = ("left", "right", "count")
_NOT_DATA = frozenset({"custom_scalars", "hparams"})
"""Plugins whose tensors describe how to show something."""


def add_value(run: NewRun, value: Summary.Value, plugin: str, common: dict[str, Any]) -> None:
    """Adds what a value holds to a run.

    Args:
        run: The run.
        value: The value.
        plugin: The plugin of its tag.
        common: Name, step and time_ns, which were checked.

    Raises:
        NotImportable: For what is omitted.
        ArtifactError: For what cannot be an artifact.
    """
    match value.WhichOneof("value"):
        case "simple_value":
            run.put_scalar((common["name"], common["step"], common["time_ns"], value.simple_value))
        case "histo":
            _add_table(run, _HISTOGRAM, _histogram_rows(value.histo), common)
        case "image":
            _add_picture(run, value.image.encoded_image_string, common)
        case "audio":
            _add_audio(run, value.audio.encoded_audio_string, value.audio.content_type, common)
        case "tensor":
            _add_tensor(run, value.tensor, plugin, common)
        case None:
            raise NotImportable(f"a value of the plugin {plugin!r} without data")
        case other:
            raise NotImportable(f"a value of the kind {other}")


def _add_tensor(run: NewRun, tensor: TensorProto, plugin: str, common: dict[str, Any]) -> None:
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if plugin in _NOT_DATA:
        raise NotImportable(f"a value of the plugin {plugin!r}")
    if tensor.dtype == DT_STRING:
        if len(tensor.string_val) > MAX_STRINGS:
            raise NotImportable(f"a tensor of more than {MAX_STRINGS} texts")
        _add_strings(run, list(tensor.string_val), shape, plugin, common)
        return
    # A few bytes can declare any shape, and would be filled up to it.
    if any(size < 0 for size in shape) or math.prod(shape) > MAX_CELLS:
        raise NotImportable(f"a tensor of more than {MAX_CELLS} elements")
    try:
        array = make_ndarray(tensor)
    except (TypeError, ValueError, KeyError, OverflowError, MemoryError) as error:  # KeyError: a type without values
        raise NotImportable(f"a tensor that cannot be read ({error})") from error
    if array.dtype.kind not in "biuf":
        raise NotImportable(f"a tensor of dtype {array.dtype}")
    if array.ndim == 0:
        run.put_scalar((common["name"], common["step"], common["time_ns"], float(array)))
    elif plugin == "histograms" and array.ndim == 2 and array.shape[1] == 3:
        _add_table(run, _HISTOGRAM, [tuple(row) for row in array.tolist()], common)
    elif array.ndim <= 2:
        rows = np.atleast_2d(array)
        _add_table(run, tuple(map(str, range(rows.shape[1]))), rows.tolist(), common)
    else:
        raise NotImportable(f"a tensor with {array.ndim} axes")


def _add_strings(run: NewRun, strings: list[bytes], shape: list[int], plugin: str, common: dict[str, Any]) -> None:
    if plugin == "images":
        for picture in strings[2:]:  # width and height come first
            _add_picture(run, picture, common)
    elif plugin == "audio":
        for sound in strings[:: 2 if len(shape) == 2 else 1]:  # beside each stands its label
            _add_audio(run, sound, "audio/wav", common)
    elif plugin == "text" or not plugin:
        for text in strings:
            run.put(Text(text=text.decode(errors="replace"), **common), len(text))
    else:
        raise NotImportable(f"a value of the plugin {plugin!r}")


def _histogram_rows(histogram: HistogramProto) -> Iterator[tuple[float, float, float]]:
    if len(histogram.bucket_limit) != len(histogram.bucket):
        raise NotImportable("a histogram with more edges than counts, or fewer")
    if len(histogram.bucket) > MAX_CELLS:
        raise NotImportable(f"a histogram of more than {MAX_CELLS} bins")
    inner = histogram.bucket_limit[:-1]
    return zip([histogram.min, *inner], [*inner, histogram.max], histogram.bucket, strict=False)


def _add_table(run: NewRun, columns: tuple[str, ...], rows: Any, common: dict[str, Any]) -> None:
    table = Table(columns=columns, rows=tuple(rows), **common)
    run.put(table, 32 * len(columns) * len(table.rows))


def _add_picture(run: NewRun, content: bytes, common: dict[str, Any]) -> None:
    if content.startswith(_PNG) and len(content) > 24:
        width, height = (int.from_bytes(content[start : start + 4], "big") for start in (16, 20))
        if not 0 < width * height <= MAX_PIXELS:
            raise NotImportable(f"a picture of more than {MAX_PIXELS} pixels, or none")
        run.put(Image(png=content, width=width, height=height, **common), len(content))
        return
    for start, (media_type, suffix) in _PICTURES.items():
        if content.startswith(start):
            run.put_content(content, filename=f"picture{suffix}", media_type=media_type, **common)
            return
    raise NotImportable("a picture that is neither PNG, JPEG, GIF nor BMP")


def _add_audio(run: NewRun, content: bytes, media_type: str, common: dict[str, Any]) -> None:
    run.put_content(content, filename="audio.wav", media_type=media_type or "audio/wav", **common)
