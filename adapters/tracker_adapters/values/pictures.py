"""Pictures as people have them: figures of matplotlib, images of Pillow, and arrays without a word on their axes.

Their objects are known by the module of their class: neither package is imported where nobody else has imported it, and
matplotlib brings Pillow.
"""

import io
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.image import Layout
from tracker_adapters.values.plain import comes_from

CHANNELS = (1, 3, 4)


def is_picture(value: object) -> bool:
    """Whether ``value`` is a matplotlib figure, or something in one, or a Pillow image."""
    return _figure_of(value) is not None or (comes_from(value, "PIL") and hasattr(value, "convert"))


def picture_pixels(what: str, picture: Any) -> npt.NDArray[np.uint8]:
    """Returns a picture's pixels, (H, W, 3 or 4); a figure is drawn at its own resolution and stays as it is.

    Raises:
        ArtifactError: When it cannot be drawn.
    """
    from PIL import Image

    try:
        if (figure := _figure_of(picture)) is not None:
            drawn = io.BytesIO()
            figure.savefig(drawn, format="png", dpi="figure")
            picture = Image.open(drawn).convert("RGB")
        has_alpha = "A" in picture.getbands() or "transparency" in picture.info
        return np.asarray(picture.convert("RGBA" if has_alpha else "RGB"))
    except Exception as error:  # whatever somebody's artist raises
        raise ArtifactError(f"{what}: cannot draw {type(picture).__name__}: {error!r}") from error


def with_layout(what: str, values: Any, layout: Layout | None) -> tuple[Any, Layout]:
    """Returns a picture as an array with its layout.

    Raises:
        ArtifactError: When an array comes without one; says what its shape allows.
    """
    if is_picture(values):
        return picture_pixels(what, values), "HWC"
    if layout is None:
        raise _missing_layout(what, tuple(np.shape(values)))
    return values, layout


def layouts_of(shape: tuple[int, ...]) -> list[Layout]:
    """Returns the layouts that pixels of a shape can have."""
    if len(shape) == 2:
        return ["HW"]
    if len(shape) != 3:
        return []
    fitting: list[Layout] = ["CHW"] if shape[0] in CHANNELS else []
    return [*fitting, "HWC"] if shape[-1] in CHANNELS else fitting


def _missing_layout(what: str, shape: tuple[int, ...]) -> ArtifactError:
    layouts = layouts_of(shape)
    if not layouts:
        why = "expected 2 axes, or 3 with 1, 3 or 4 channels"
        if len(shape) == 4:
            why += "; of a batch give one picture, such as images[0]"
        return ArtifactError(f"{what}: shape {shape} is not a picture; {why}")
    allowed = " or ".join(f"layout={layout!r}" for layout in layouts)
    return ArtifactError(f"{what}: layout is missing; shape {shape} allows {allowed}")


def _figure_of(value: Any) -> Any:
    if not comes_from(value, "matplotlib"):
        return None
    return value if hasattr(value, "savefig") else getattr(value, "figure", None)
