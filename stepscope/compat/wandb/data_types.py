"""W&B's data types, with their arguments; each says how an emitter records it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.frames import frame_table, is_frame
from tracker_adapters.values.pictures import is_picture, picture_pixels

from stepscope.compat.errors import missing, refuse
from stepscope.compat.media import drawn_now, film, host_array, picture, put_file, sound


class DataType:
    """A value that records itself."""

    def put(self, emitter: Emitter, name: str, step: int) -> None:
        """Emits it."""
        raise NotImplementedError


class Image(DataType):
    """A picture: an array (H, W) or (H, W, C), a tensor (C, H, W), a Pillow image, a matplotlib figure, or a file.

    The module ``matplotlib.pyplot`` stands for its current figure.

    Floating point is from 0 to 1, or from -1 to 1 where a value is negative; integers are from 0 to 255. A caption is
    recorded as the text ``<name>/caption``.
    """

    def __init__(
        self,
        data_or_path: Any,
        mode: str | None = None,
        caption: str | None = None,
        grouping: int | None = None,
        classes: Any = None,
        boxes: Any = None,
        masks: Any = None,
        file_type: str | None = None,
    ) -> None:
        """Copies the pixels; ``mode`` and ``file_type`` have no effect: pictures are PNG."""
        refuse("Image", {"classes": classes, "boxes": boxes, "masks": masks}, "draw them into the picture")
        self.caption, self.grouping = caption, grouping
        self.pixels = _pixels(data_or_path)

    def put(self, emitter: Emitter, name: str, step: int) -> None:
        """Emits an image, and its caption as a text."""
        emitter.image(name, self.pixels, layout="HWC", step=step)
        if self.caption:
            emitter.text(f"{name}/caption", str(self.caption), step=step)


class Histogram(DataType):
    """A distribution: of values, in bins of its own, or one that was counted, as a table of its bins."""

    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64) -> None:
        """Copies the values; ``num_bins`` has no effect."""
        if (sequence is None) == (np_histogram is None):
            raise ArtifactError("Histogram expects either a sequence of values, or np_histogram=(counts, edges)")
        self._values = None if sequence is None else host_array("Histogram", sequence)
        self._counted = None if np_histogram is None else [np.array(part).tolist() for part in np_histogram[:2]]

    def put(self, emitter: Emitter, name: str, step: int) -> None:
        """Emits a histogram, or a table with ``left``, ``right`` and ``count``."""
        if self._counted is None:
            emitter.histogram(name, self._values, step=step)
            return
        counts, edges = self._counted
        rows = [[left, right, count] for left, right, count in zip(edges, edges[1:], counts, strict=False)]
        emitter.table(name, ["left", "right", "count"], rows, step=step)


class Table(DataType):
    """Rows of plain cells under named columns."""

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        dtype: Any = None,
        optional: bool | list[bool] = True,
        allow_mixed_types: bool = False,
        log_mode: str | None = "IMMUTABLE",
    ) -> None:
        """Takes rows in ``data`` (or ``rows``), or a data frame; types of columns are not checked."""
        refuse("Table", {"dtype": dtype}, "a column may hold any plain values")
        self.data: list[list[Any]]
        frame = dataframe if dataframe is not None else data if is_frame(data) else None
        if frame is not None:
            names, cells = frame_table(frame)
            self.columns, self.data = list(names), [list(row) for row in cells]
            return
        self.columns = list(columns) if columns is not None else ["Input", "Output", "Expected"]
        self.data = []
        for row in data if data is not None else rows if rows is not None else ():
            self.add_data(*row)

    def add_data(self, *data: Any) -> None:
        """Adds a row, with a cell for each column."""
        if len(data) != len(self.columns):
            raise ArtifactError(f"Table: got a row of {len(data)} cells; expected {len(self.columns)}: {self.columns}")
        self.data.append(list(data))

    def add_row(self, *row: Any) -> None:
        """Does what ``add_data`` does."""
        self.add_data(*row)

    def add_column(self, name: str, data: Any, optional: bool = False) -> None:
        """Adds a column, with a cell for each row."""
        if len(data) != len(self.data) and self.data:
            raise ArtifactError(f"Table: column {name!r} has {len(data)} cells; expected {len(self.data)}")
        self.data = self.data or [[] for _ in data]
        self.columns.append(name)
        for row, cell in zip(self.data, data, strict=True):
            row.append(cell)

    def get_column(self, name: str, convert_to: str | None = None) -> Any:
        """Returns the cells of a column, as an array where ``convert_to`` is ``numpy``."""
        cells = [row[self.columns.index(name)] for row in self.data]
        return np.array(cells) if convert_to == "numpy" else cells

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        """Yields the number and the cells of each row."""
        return iter(enumerate(self.data))

    def copied(self) -> Table:
        """Returns a copy: a table may grow after it was logged.

        Raises:
            ArtifactError: When a cell is itself a data type.
        """
        for row in self.data:
            for cell in row:
                if isinstance(cell, DataType):
                    raise ArtifactError(f"a Table holds {type(cell).__name__}; expected plain cells")
        return Table(columns=self.columns, data=[[_cell(cell) for cell in row] for row in self.data])

    def put(self, emitter: Emitter, name: str, step: int) -> None:
        """Emits a table."""
        emitter.table(name, self.columns, self.copied().data, step=step)

    def __getattr__(self, name: str) -> Any:
        raise missing("stepscope.compat.wandb.Table", name, dir(type(self)))


class Html(DataType):
    """A page of HTML, or the path of one."""

    def __init__(self, data: Any, inject: bool = True, data_is_not_path: bool = False) -> None:
        """Reads the page; ``inject`` has no effect."""
        text = data.read() if hasattr(data, "read") else data
        is_path = isinstance(text, Path) or (str(text).endswith(".html") and Path(str(text)).is_file())
        self.html = Path(text).read_text(encoding="utf-8") if is_path and not data_is_not_path else str(text)

    def put(self, emitter: Emitter, name: str, step: int) -> None:
        """Emits a file."""
        put_file(emitter, name, self.html.encode(), ".html", "text/html", step)


class _Recording(DataType):
    """A sound or a film: a file, or what was encoded as one."""

    def __init__(self, path: Any, caption: str | None, media_type: str) -> None:
        self.caption, self._media_type = caption, media_type
        self._path = Path(path) if isinstance(path, (str, Path)) else None
        self._content = b""

    def put(self, emitter: Emitter, name: str, step: int) -> None:
        """Emits a file, and its caption as a text."""
        if self._path is not None:
            emitter.file(self._path, name=name, step=step)
        else:
            suffix = f".{self._media_type.rpartition('/')[2]}"
            put_file(emitter, name, self._content, suffix, self._media_type, step)
        if self.caption:
            emitter.text(f"{name}/caption", str(self.caption), step=step)


class Audio(_Recording):
    """Samples from -1 to 1, shape (samples,) or (samples, channels), or the path of a file."""

    def __init__(self, data_or_path: Any, sample_rate: int | None = None, caption: str | None = None) -> None:
        """Encodes samples as WAV; they need ``sample_rate``."""
        super().__init__(data_or_path, caption, "audio/wav")
        if self._path is None:
            if sample_rate is None:
                raise ArtifactError("Audio: samples need a sample_rate; expected samples a second, such as 44100")
            self._content = sound("Audio", host_array("Audio", data_or_path), sample_rate)


class Video(_Recording):
    """Frames, shape (T, C, H, W), integers from 0 to 255, or the path of a file."""

    def __init__(
        self,
        data_or_path: Any,
        caption: str | None = None,
        fps: int | None = None,
        format: str | None = None,
    ) -> None:
        """Encodes frames as GIF, with Pillow; ``format`` may be ``gif``."""
        super().__init__(data_or_path, caption, "image/gif")
        if self._path is not None:
            return
        refuse("Video", {"format": None if format == "gif" else format}, "frames become a GIF")
        frames = host_array("Video", data_or_path)
        if frames.ndim != 4:
            raise ArtifactError(f"Video: got shape {frames.shape}; expected (T, C, H, W)")
        pixels = np.clip(np.nan_to_num(frames), 0, 255).astype(np.uint8)
        self._content = film("Video", [picture("Video", frame, "CHW") for frame in pixels], fps or 4)


def _pixels(given: Any) -> Any:
    """The pixels of what an Image is given, (H, W, C)."""
    given = drawn_now(given)
    if isinstance(given, Image):
        return given.pixels
    if isinstance(given, (str, Path)):
        from PIL import Image as PillowImage

        with PillowImage.open(given) as opened:
            return picture_pixels("Image", opened)
    if is_picture(given):
        return picture_pixels("Image", given)
    array = host_array("Image", given)
    axes = "HW" if array.ndim == 2 else "CHW" if hasattr(given, "detach") else "HWC"
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            array = (array + 1) / 2 if (array < 0).any() else array
    elif array.dtype == np.bool_:
        array = array * np.uint8(255)
    elif array.dtype != np.uint8:
        array = np.clip(array, 0, 255).astype(np.uint8)
    return picture("Image", array, axes)


def _cell(cell: Any) -> Any:
    if hasattr(cell, "item") and getattr(cell, "ndim", 1) == 0:
        return cell.item()
    if isinstance(cell, (list, tuple, Mapping)):
        return json.dumps(cell, default=str)
    return cell if isinstance(cell, (str, int, float, bool, type(None))) else str(cell)
