"""One datapoint's debug outputs as a Dash component, for viewers that are built with Dash (extra ``dash``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracker_adapters.errors import MissingPackageError

from stepscope.viewer.outputs.display import DebugOutputs
from stepscope.viewer.outputs.elements import Element, outputs_element


def display_debug_outputs(outputs: Mapping[str, Any]) -> Any:
    """Returns one datapoint's debug outputs as ``dash.html.Div``: the fourth section of an eval viewer.

    It holds all that it shows, needs no callback and no asset.

    Args:
        outputs: As ``stepscope.display_debug_outputs`` takes them.

    Raises:
        MissingPackageError: When dash is not installed.
        OutputsError: For anything but a mapping.
    """
    try:
        from dash import html
    except ImportError as error:
        raise MissingPackageError("dash is not installed; install stepscope[dash]") from error
    return _component(outputs_element(DebugOutputs(outputs).outputs), html)


def _component(element: Element, html: Any) -> Any:
    attributes: dict[str, Any] = {_ATTRIBUTES.get(key, key): value for key, value in element.attributes.items()}
    if "open" in attributes:
        attributes["open"] = True
    if element.style:
        attributes["style"] = {_camel(key): value for key, value in element.style.items()}
    component = getattr(html, element.tag.capitalize())
    if element.tag == "img":
        return component(**attributes)
    children = [child if isinstance(child, str) else _component(child, html) for child in element.children]
    return component(children, **attributes)


def _camel(name: str) -> str:
    first, *others = name.split("-")
    return first + "".join(part.capitalize() for part in others)


_ATTRIBUTES = {"class": "className"}
