"""A curve: y over x at one step, such as a ROC curve or a spectrum."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import ArtifactError
from tracker_adapters.kinds.table import Table
from tracker_adapters.redaction import redact
from tracker_adapters.values.arrays import as_array
from tracker_adapters.values.base import Artifact
from tracker_adapters.values.image import Image
from tracker_adapters.values.line_plot import line_plot

MAX_POINTS = 100_000
MAX_LABEL_LENGTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve(Artifact):
    """y over x at one step, such as a ROC curve or a spectrum; the points are joined in their order.

    ``x`` and ``y`` are float64 of shape (n,), read-only copies, with n from 0 to 100,000. ``x`` is finite and need not
    ascend. ``y`` may be NaN or infinite, where the line has a gap. ``title`` and the labels of the axes have at most
    1000 characters; secrets in them become ``***``.
    """

    kind: ClassVar[str] = "curve"
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    title: str = ""
    x_label: str = "x"
    y_label: str = "y"

    def __post_init__(self) -> None:
        Artifact.__post_init__(self)
        what = f"curve {self.name!r}"
        for key in ("x", "y"):
            given = as_array(f"{what}, {key}", getattr(self, key))
            if given.ndim != 1 or len(given) > MAX_POINTS:
                raise ArtifactError(f"{what}: {key} has shape {given.shape}; expected (n,), n at most {MAX_POINTS:,}")
            values = np.array(given, np.float64)
            values.flags.writeable = False
            object.__setattr__(self, key, values)
        if len(self.x) != len(self.y):
            raise ArtifactError(f"{what}: x has {len(self.x)} points and y has {len(self.y)}; expected as many")
        if len(odd := np.flatnonzero(~np.isfinite(self.x))):
            raise ArtifactError(f"{what}: x[{odd[0]}] is {self.x[odd[0]]}; expected finite numbers")
        self._check_texts("title", "x_label", "y_label")
        for key in ("title", "x_label", "y_label"):
            if len(text := getattr(self, key)) > MAX_LABEL_LENGTH:
                raise ArtifactError(f"{what}: {key} has {len(text)} characters; expected at most {MAX_LABEL_LENGTH}")
            object.__setattr__(self, key, redact(text))

    def plainer(self) -> Table:
        """Returns its points as a table of two columns, named after the axes where their labels differ."""
        columns = (self.x_label, self.y_label) if self.x_label != self.y_label else ("x", "y")
        rows: Any = zip(self.x.tolist(), self.y.tolist(), strict=True)
        return Table(name=self.name, step=self.step, time_ns=self.time_ns, columns=columns, rows=rows)

    def drawn(self) -> Image:
        """Returns a picture of it; needs Pillow."""
        pixels = line_plot(self.x, self.y, title=self.title or self.name, x_label=self.x_label, y_label=self.y_label)
        return Image.from_pixels(self.name, pixels, step=self.step, time_ns=self.time_ns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Curve):
            return NotImplemented
        texts = ("name", "step", "time_ns", "title", "x_label", "y_label")
        return all(getattr(self, key) == getattr(other, key) for key in texts) and all(
            np.array_equal(getattr(self, key), getattr(other, key), equal_nan=True) for key in ("x", "y")
        )

    __hash__ = None  # type: ignore[assignment]
