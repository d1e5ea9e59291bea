"""Pictures, sounds and films as other trackers take them, as what an emitter takes."""

import io
import wave
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError, MissingPackageError
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.values.arrays import as_array

_GRID_COLUMNS = 8
_LARGEST_SAMPLE = 2**15 - 1


def put_file(emitter: Emitter, name: str, content: bytes, suffix: str, media_type: str, step: int) -> None:
    """Emits bytes as a file."""
    with TemporaryFolder("stepscope_") as folder:
        path = Path(folder.path) / f"file{suffix}"
        path.write_bytes(content)
        emitter.file(path, name=name, media_type=media_type, step=step)


def host_array(what: str, values: Any) -> npt.NDArray[Any]:
    """Returns a copy of a tensor or array on the host; waits for a device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.array(as_array(what, values))


def drawn_now(value: Any) -> Any:
    """Returns the current figure where ``value`` is the module ``matplotlib.pyplot``, as W&B does, else ``value``."""
    return value.gcf() if isinstance(value, ModuleType) and value.__name__ == "matplotlib.pyplot" else value


def single(name: str, value: Any) -> Any:
    """Returns the only element of a tensor, an array or a sequence, of no dimension; a tensor stays on its device."""
    shape = tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
    if any(size != 1 for size in shape):
        raise ArtifactError(f"scalar {name!r}: got shape {shape}; expected a number, or one element")
    return (value.detach() if hasattr(value, "detach") else np.asarray(value)).reshape(())


def picture(what: str, values: npt.NDArray[Any], axes: str) -> npt.NDArray[np.uint8]:
    """Returns pixels of shape (H, W, C), as torch's SummaryWriter shows them.

    Args:
        what: Names the picture in errors.
        values: Floating point from 0 to 1, or integers from 0 to 255; what lies beyond is clipped, and NaN is black.
        axes: The meaning of the axes, in any order: ``HW``, ``CHW`` or ``NCHW``. Several pictures become a grid of
            eight columns.

    Raises:
        ArtifactError: For other axes, or values of another number of axes.
    """
    axes = axes.upper()
    if sorted(axes) not in (sorted("HW"), sorted("CHW"), sorted("NCHW")):
        raise ArtifactError(f"{what}: dataformats is {axes!r}; expected HW, CHW or NCHW, in any order")
    if values.ndim != len(axes):
        raise ArtifactError(f"{what}: got shape {values.shape}; expected {len(axes)} axes for {axes!r}")
    scale = 1.0 if values.dtype == np.uint8 else 255.0
    shown = np.clip(np.nan_to_num(values.astype(np.float32), posinf=1e9, neginf=0) * scale, 0, 255).astype(np.uint8)
    shown = shown.transpose([axes.index(axis) for axis in "NHWC" if axis in axes])
    return _grid(shown) if "N" in axes else shown if "C" in axes else shown[..., None]


def _grid(pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """One picture of many, (N, H, W, C), row by row."""
    count, height, width, channels = pictures.shape
    columns = max(1, min(count, _GRID_COLUMNS))
    rows = -(-count // columns)
    canvas = np.zeros((rows * columns, height, width, channels), np.uint8)
    canvas[:count] = pictures
    canvas = canvas.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return canvas.reshape(rows * height, columns * width, channels)


def sound(what: str, values: npt.NDArray[Any], sample_rate: int) -> bytes:
    """Returns samples as a WAV file of 16 bits.

    Args:
        what: Names it in errors.
        values: From -1 to 1, shape (samples,) or (samples, channels); what lies beyond is clipped.
        sample_rate: Samples a second.
    """
    samples = values[:, None] if values.ndim == 1 else values
    if samples.ndim != 2 or not samples.size:
        raise ArtifactError(f"{what}: got shape {values.shape}; expected (samples,) or (samples, channels)")
    if samples.dtype != np.int16:
        clipped = np.clip(np.nan_to_num(samples.astype(np.float64)), -1, 1)
        samples = (clipped * _LARGEST_SAMPLE).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(samples.shape[1])
        written.setsampwidth(2)
        written.setframerate(int(sample_rate))
        written.writeframes(samples.tobytes())
    return file.getvalue()


def film(what: str, frames: Sequence[npt.NDArray[np.uint8]], fps: float) -> bytes:
    """Returns frames, each (H, W, 1 or 3), as an animated GIF that repeats.

    Raises:
        MissingPackageError: When Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError(f"{what}: a film needs Pillow; expected it: pip install pillow") from error
    if not frames:
        raise ArtifactError(f"{what}: got no frames; expected at least one")
    pictures = [Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame) for frame in frames]
    file = io.BytesIO()
    duration = 1000 / float(fps)
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=duration, loop=0)
    return file.getvalue()


def precision_and_recall(
    labels: npt.NDArray[Any], predictions: npt.NDArray[Any], thresholds: int = 127, weights: Any = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns precision and recall at thresholds from 0 to 1, as torch's SummaryWriter computes them.

    Args:
        labels: Whether each one is positive, 0 or 1, of any shape.
        predictions: The predicted probabilities, of the same shape.
        thresholds: How many.
        weights: Of each one, or of all.
    """
    labels, predictions = labels.ravel().astype(np.float64), predictions.ravel()
    weights = np.broadcast_to(np.asarray(1.0 if weights is None else weights, np.float64).ravel(), labels.shape)
    bins = np.floor(predictions * (thresholds - 1)).astype(np.int64)
    counts = [
        np.histogram(bins, bins=thresholds, range=(0, thresholds - 1), weights=share * weights)[0][::-1].cumsum()[::-1]
        for share in (labels, 1 - labels)
    ]
    positive, negative = counts
    return positive / np.maximum(1e-7, positive + negative), positive / np.maximum(1e-7, positive[0])
