import json

import numpy as np
import pytest

from stepscope.viewer.dash_section import display_debug_outputs

dash = pytest.importorskip("dash")
OUTPUTS = {"maps": {"feature_map": np.random.default_rng(0).normal(size=(8, 4, 4)), "stats": {"mean": 0.125}}}


def _components(component):
    yield component
    children = getattr(component, "children", None)
    for child in children if isinstance(children, list) else [children]:
        if isinstance(child, dash.development.base_component.Component):
            yield from _components(child)


def test_the_section_is_a_component_of_dash_with_pictures_and_numbers():
    found = list(_components(display_debug_outputs(OUTPUTS)))
    assert [type(one).__name__ for one in found[:3]] == ["Div", "Section", "H4"]
    pictures = [one.src for one in found if type(one).__name__ == "Img"]
    assert [source.partition(",")[0] for source in pictures] == [
        "data:image/png;base64", "data:image/svg+xml;base64",
    ]  # fmt: skip


def test_an_app_of_dash_serves_a_layout_with_it():
    app = dash.Dash(__name__)
    app.layout = dash.html.Div([dash.html.H2("Datapoint 3"), display_debug_outputs(OUTPUTS)])
    layout = app.server.test_client().get("/_dash-layout").get_data(as_text=True)
    assert "0.125" in layout
    assert json.loads(layout)["props"]["children"][1]["type"] == "Div"
