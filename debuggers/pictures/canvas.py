"""Figures of matplotlib that look alike whatever the user's settings are, and change none of them.

Canvases are made directly, so that neither pyplot nor a backend is chosen. Colours, sizes and texts are set on each
figure, because rcParams belong to the user: a dark style, or TeX for all texts, would spoil a picture on white.
"""

import io
from functools import cache
from typing import Any

from tracker_adapters.errors import MissingPackageError
from tracker_adapters.terminal_text import printable_line

from debuggers.pictures.names import shortened
from debuggers.pictures.numbers import Floats, tick_texts

INK, GRID = "#1b1f24", "#e3e7eb"
_LONGEST = 76


def new_figure(height: float = 3.6) -> Any:
    """Returns an empty figure, 8 inches wide.

    Raises:
        MissingPackageError: Without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError(
            "figures need matplotlib, which is not installed: pip install 'stepscope[plots]'"
        ) from error
    return Figure(figsize=(8.0, height), dpi=100, layout="constrained", facecolor="white", edgecolor="white")


def new_axes(title: str, notes: str, x_label: str, y_label: str, *, height: float = 3.6) -> tuple[Any, Any]:
    """Returns a figure with axes, a title, a line of notes below it, and labels."""
    figure = new_figure(height)
    axes = figure.add_subplot(facecolor="white")
    head = "\n".join(filter(None, [readable(title), readable(notes)]))
    axes.set_title(head, parse_math=False, fontsize=11, loc="left")
    axes.set_xlabel(readable(x_label), parse_math=False, fontsize=10)
    axes.set_ylabel(readable(y_label), parse_math=False, fontsize=10)
    return figure, axes


def plain_ticks(axis: Any, ticks: Floats, texts: list[str] | None = None) -> None:
    """Gives an axis ticks whose texts are as they stand, without formulas and offsets."""
    axis.set_ticks(ticks, tick_texts(ticks) if texts is None else texts)
    axis.set_minor_locator(_nothing())


def finished(figure: Any) -> Any:
    """Returns the figure with the colours and texts that rcParams would choose otherwise."""
    from matplotlib.text import Text

    for axes in figure.axes:
        axes.tick_params(which="both", colors=INK, labelsize=9)
        for side in axes.spines.values():
            side.set_edgecolor(INK)
    for text in figure.findobj(Text):
        text.set_usetex(False)
        text.set_color(INK)
    return figure


def rendered(figure: Any, suffix: str) -> bytes:
    """Returns a figure as ``png`` or ``svg``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    stream = io.BytesIO()
    if suffix == "svg":
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})
    else:
        FigureCanvasAgg(figure).print_png(stream)
    return stream.getvalue()


def readable(text: str) -> str:
    r"""Returns a text in one line of at most 76 characters; what the font cannot draw is shown as ``\u4e2d``."""
    line = printable_line(text)
    line = shortened(line, _LONGEST)
    drawable = _glyphs()
    return "".join(one if ord(one) in drawable else one.encode("ascii", "backslashreplace").decode() for one in line)


@cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def _nothing() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
