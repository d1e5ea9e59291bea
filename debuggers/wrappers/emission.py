"""Emits what debuggers return by type: numbers, pictures and histograms, and a page's contents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
from tracker_adapters.artifacts import Histogram, PageEntry
from tracker_adapters.emitter import Emitter
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.values.image import Layout

from debuggers.base_debugger import Picture
from debuggers.measurement.tensor_summary import TensorSummary
from debuggers.page_files.preview import preview
from debuggers.torch_import import torch

_MAX_SUMMARY = 300
_PREVIEWS_BYTES = 256 * 1024


def emit_outputs(
    emitter: Emitter, name: str, outputs: Any, guard: Callable[[], AbstractContextManager[None]], levels: int = 50
) -> None:
    """Emits what nested dicts hold, each named ``<name>/<key path>``, at the emitter's step.

    Numbers (int, float, bool, and 0-d arrays and tensors of real values) become scalars, each ``Picture`` an image,
    each ``TensorSummary`` and ``Histogram`` a histogram. Everything else is data, lists included, and emits nothing.

    Args:
        emitter: Where to.
        name: The name of the outputs.
        outputs: What a debugger returned.
        guard: Returns a context for each value, so that a failure does not affect the others.
        levels: How deep dicts may be nested.
    """
    items: list[tuple[Any, Any]] = []
    with guard():
        if not isinstance(outputs, Mapping):
            _emit_value(emitter, name, outputs)
        elif not levels:
            raise ValueError("dicts are nested too deeply, or contain themselves")
        else:
            items = list(outputs.items())
    for key, item in items:
        emit_outputs(emitter, f"{name}/{key}", item, guard, levels - 1)


def _emit_value(emitter: Emitter, name: str, outputs: Any) -> None:
    if isinstance(outputs, Picture):
        _emit_picture(emitter, name, outputs)
    elif isinstance(outputs, (TensorSummary, Histogram)):
        histogram = outputs if isinstance(outputs, Histogram) else outputs.histogram("summary", 0)
        emitter.histograms((name,), HistogramColumns.of([histogram]), time_ns=histogram.time_ns)
    elif _is_number(outputs):
        emitter.scalar(name, outputs)


def emit_pictures(emitter: Emitter, name: str, pictures: Iterable[Picture]) -> None:
    """Emits each picture as an image named ``<name>/<picture>``."""
    for picture in pictures:
        _emit_picture(emitter, f"{name}/{picture.name}", picture)


def _emit_picture(emitter: Emitter, name: str, picture: Picture) -> None:
    layout: Layout = "HW" if picture.values.ndim == 2 else "HWC"
    emitter.image(name, picture.values, layout=layout, value_range=(0.0, 1.0))


def page_contents(datapoints: Mapping[int, Mapping[str, Any]]) -> Iterator[PageEntry]:
    """Yields one line for each debugger of each datapoint, the first ones with a picture: 256 kB of pictures in all."""
    left = _PREVIEWS_BYTES
    for idx, by_debugger in datapoints.items():
        for debugger, outputs in by_debugger.items():
            picture = b""
            if left > 0:
                with suppress(Exception):  # unusual arrays raise anything, and lose only their picture
                    picture = preview(outputs)
            left -= len(picture)
            yield PageEntry(datapoint=idx, debugger=debugger, summary=summary(outputs)[:_MAX_SUMMARY], picture=picture)


def summary(outputs: Any) -> str:
    """Returns in a few words what a page holds: ``map float32 (16, 4, 4) from 0 to 2.5, mean 0.4, layer_name conv``."""
    if isinstance(outputs, Mapping):
        return ", ".join(f"{key} {_leaf(item, 1)}" for key, item in outputs.items())
    return _leaf(outputs, 1)


def _leaf(value: Any, levels: int) -> str:
    value = value.resolve() if hasattr(value, "resolve") else value
    if isinstance(value, Mapping):
        items = [f"{key} {_leaf(item, 0)}" for key, item in value.items()] if levels else map(str, value)
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        return f"{len(value)} values"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}{_statistics(value)}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _statistics(array: Any) -> str:
    if not array.size or array.dtype.kind in "cOSUMm":
        return ""
    try:
        with np.errstate(all="ignore"):
            low, high, mean = float(array.min()), float(array.max()), float(array.mean(dtype=np.float64))
    except (TypeError, ValueError):  # a dtype that NumPy cannot order
        return ""
    return f" from {low:.4g} to {high:.4g}, mean {mean:.4g}"


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.ndim == 0 and not value.is_complex()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float))
