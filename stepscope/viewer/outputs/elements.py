"""The nodes of a datapoint as elements: HTML for a notebook, and what another viewer builds its components from.

An element has a tag, attributes and children; a child is an element or text. Everything lies in it, pictures too.
"""

import base64
import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from debuggers.pictures.colours import NAN_COLOUR
from stepscope.viewer.outputs.nodes import Node, describe, draw

_TITLES = {"inputs": "Inputs", "labels": "Labels", "meta_info": "Meta information", "debug": "Debug outputs"}
_BAR_WIDTH, _BARS_HEIGHT = 6, 48
_LEAST_PICTURE = 160
_MUTED = {"opacity": "0.7", "font-size": "0.9em"}
_CELL = {"padding": "1px 10px 1px 0", "text-align": "left", "vertical-align": "top"}


@dataclass(frozen=True, slots=True)
class Element:
    """One element; ``style`` has CSS properties."""

    tag: str
    children: tuple["Element | str", ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    style: Mapping[str, str] = field(default_factory=dict)


def outputs_element(outputs: Mapping[str, Any]) -> Element:
    """Returns a datapoint's sections as one element: those that hold something, debug outputs last.

    Args:
        outputs: ``{debugger: outputs}`` with arrays and plain values, as a page holds it.
    """
    sections = [
        Element("section", (Element("h4", (_TITLES[name],)), *(_node(node, outputs) for node in nodes)))
        for name in ("inputs", "labels", "meta_info", "debug")
        if (nodes := describe(outputs)[name])
    ]
    empty = Element("p", ("No debug outputs.",), style=_MUTED)
    return Element("div", tuple(sections) or (empty,), {"class": "stepscope-outputs"}, {"overflow-x": "auto"})


def to_html(element: Element) -> str:
    """Returns the element as HTML; whatever texts it has are escaped."""
    attributes = dict(element.attributes)
    if element.style:
        attributes["style"] = "; ".join(f"{key}: {value}" for key, value in element.style.items())
    opening = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items())
    if element.tag == "img":
        return f"<img{opening}>"
    inner = "".join(html.escape(child) if isinstance(child, str) else to_html(child) for child in element.children)
    return f"<{element.tag}{opening}>{inner}</{element.tag}>"


def text_lines(outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each node, indented by its level."""
    for name, nodes in describe(outputs).items():
        if nodes:
            yield _TITLES[name]
            for node in nodes:
                yield from _lines(node, "  ")


def _node(node: Node, outputs: Mapping[str, Any]) -> Element:
    kind = node["kind"]
    if kind == "group":
        inner = Element("div", tuple(_node(child, outputs) for child in node["children"]), style={"margin-left": "1em"})
        return Element("details", (Element("summary", (node["key"],)), inner), {"open": ""})
    if kind == "table":
        is_one = [name for name, _ in node["rows"]] == [node["key"]]  # a slot of one number, whose row says its name
        return _titled({**node, "key": ""} if is_one else node, _table(node["rows"]))
    if kind == "array":
        pictures = [_picture(node, picture, outputs) for picture in node["pictures"]]
        return _titled(node, Element("div", (_said(node),), style=_MUTED), *pictures, *_bars(node))
    if kind == "left_out":
        return Element("p", (f"{node['count']:,} more are not shown",), style=_MUTED)
    more = f" … ({node['length']:,} characters in all)" if "length" in node else ""
    style = {"white-space": "pre-wrap", "margin": "0"} | ({"color": NAN_COLOUR} if kind == "error" else {})
    return _titled(node, Element("pre", (f"{node['text']}{more}",), style=style))


def _titled(node: Node, *children: Element) -> Element:
    title = [Element("strong", (node["key"],))] if node["key"] else []
    return Element("div", (*title, *children), style={"margin": "4px 0 8px"})


def _table(rows: list[list[Any]]) -> Element:
    lines = tuple(
        Element("tr", (Element("th", (str(name),), style=_CELL), Element("td", (_said_number(value),), style=_CELL)))
        for name, value in rows
    )
    return Element("table", (Element("tbody", lines),), style={"border-collapse": "collapse"})


def _picture(node: Node, picture: Mapping[str, Any], outputs: Mapping[str, Any]) -> Element:
    place = tuple(map(int, picture["place"].split(".")))
    png = base64.b64encode(draw(outputs, place, picture["form"])).decode()
    factor = max(1, -(-_LEAST_PICTURE // max(picture["width"], picture["height"])))
    attributes = {
        "src": f"data:image/png;base64,{png}",
        "alt": f"{node['key']}: {picture['form']}",
        "title": picture.get("caption", picture["form"]),
        "width": str(picture["width"] * factor),
        "height": str(picture["height"] * factor),
    }
    return Element("img", attributes=attributes, style={"image-rendering": "pixelated", "margin": "4px 8px 4px 0"})


def _bars(node: Node) -> Iterator[Element]:
    """A row of numbers as bars from zero; of more numbers their distribution."""
    statistics, values = node["statistics"], node["values"]
    histogram = statistics["histogram"]
    if values and len(values) > 1 and all(isinstance(value, (int, float)) for value in values):
        yield _svg(values, f"{node['key']}: {len(values)} values")
    elif histogram and not values:
        said = f"{node['key']}: distribution from {histogram['low']:.4g} to {histogram['high']:.4g}"
        yield _svg(histogram["counts"], said)


def _svg(values: list[float], said: str) -> Element:
    low, high = min(0.0, *values), max(0.0, *values)
    span = high - low if 0 < high - low < float("inf") else 1.0
    bars = []
    for place, value in enumerate(values):
        top, bottom = ((high - end) / span * _BARS_HEIGHT for end in (max(0.0, value), min(0.0, value)))
        bars.append(
            f'<rect x="{place * _BAR_WIDTH}" y="{top:.2f}" width="{_BAR_WIDTH - 1}" height="{bottom - top:.2f}"/>'
        )
    width = len(values) * _BAR_WIDTH
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_BARS_HEIGHT}" '
        f'preserveAspectRatio="none" fill="#0072b2">{"".join(bars)}</svg>'
    )
    encoded = base64.b64encode(drawing.encode()).decode()
    attributes = {
        "src": f"data:image/svg+xml;base64,{encoded}",
        "alt": said,
        "title": said,
        "width": str(max(width, 96)),
        "height": str(_BARS_HEIGHT),
    }
    return Element("img", attributes=attributes, style={"display": "block"})


def _said(node: Node) -> str:
    statistics = node["statistics"]
    parts = [f"{node['dtype']} {' × '.join(map(str, node['shape']))}"]
    if statistics["min"] is not None:
        parts += [
            f"from {statistics['min']:.4g} to {statistics['max']:.4g}",
            f"mean {_said_number(statistics['mean'])}",
        ]
    parts += [f"{statistics[key]:,} {name}" for key, name in _ODD.items() if statistics[key]]
    for picture in node["pictures"]:
        if picture.get("maps", 0) > 64:
            parts.append(f"the first 64 of {picture['maps']} maps")
        if picture.get("block", 1) > 1:
            parts.append(f"each pixel is the largest of {picture['block']} × {picture['block']}")
    return ", ".join(parts)


def _said_number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)


def _lines(node: Node, indent: str) -> Iterator[str]:
    if node["kind"] == "group":
        yield f"{indent}{node['key']}"
        for child in node["children"]:
            yield from _lines(child, f"{indent}  ")
    elif node["kind"] == "table":
        yield from (f"{indent}{name}: {_said_number(value)}" for name, value in node["rows"])
    elif node["kind"] == "array":
        yield f"{indent}{node['key']}: {_said(node)}"
    elif node["kind"] == "left_out":
        yield f"{indent}{node['count']:,} more are not shown"
    else:
        yield f"{indent}{node['key']}: {node['text'][:_SHORT_TEXT]}"


_SHORT_TEXT = 500
_ODD = {"nan": "NaN (orange)", "pinf": "infinite (pink)", "ninf": "-infinite (pink)"}
