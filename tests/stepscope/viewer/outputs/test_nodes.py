import json

import numpy as np
import pytest

from stepscope.viewer.outputs import nodes

IMAGE = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8)


def _datapoint(**outputs):
    return {**outputs, "datapoint": {"inputs": IMAGE, "labels": 3, "meta_info": {"path": "a.png"}}}


def _flat(found):
    for node in found:
        yield node
        yield from _flat(node.get("children", []))


def test_a_datapoint_has_inputs_labels_meta_information_and_debug_outputs():
    found = nodes.describe(_datapoint(maps={"feature_map": np.ones((8, 4, 4)), "stats": {"mean": 0.5}}))
    assert [len(found[name]) for name in ("inputs", "labels", "meta_info", "debug")] == [1, 1, 1, 1]
    assert found["inputs"][0]["pictures"][0]["form"] == "image"
    assert found["labels"][0]["rows"] == [["labels", 3]]
    (maps,) = found["debug"]
    assert [child["kind"] for child in maps["children"]] == ["array", "table"]
    assert maps["children"][1]["rows"] == [["mean", 0.5]]


def test_every_picture_that_is_described_can_be_drawn_in_its_size():
    import io

    from PIL import Image

    datapoint = _datapoint(
        maps={"feature_map": np.ones((8, 4, 4))},
        cam={"gradcam": np.eye(4)},
        heads={"attention_map": np.ones((2, 16, 16))},
    )
    found = nodes.describe(datapoint)
    pictures = [
        picture for section in found.values() for node in _flat(section) for picture in node.get("pictures", [])
    ]
    assert [picture["form"] for picture in pictures] == ["image", "maps", "overlay", "maps", "overlay", "maps"]
    for picture in pictures:
        png = nodes.draw(datapoint, tuple(map(int, picture["place"].split("."))), picture["form"])
        assert Image.open(io.BytesIO(png)).size == (picture["width"], picture["height"])


def test_nothing_lies_over_an_image_that_was_not_kept():
    found = nodes.describe({"cam": {"gradcam": np.eye(4)}})
    assert [picture["form"] for picture in found["debug"][0]["children"][0]["pictures"]] == ["maps"]


def test_rows_of_numbers_are_values_and_many_a_distribution():
    found = nodes.describe({"stats": {"means": [0.5, float("nan")], "sample": [float(n) for n in range(100)]}})
    means, sample = found["debug"][0]["children"]
    assert means["values"] == [0.5, "NaN"]
    assert sample["values"] is None
    assert sum(sample["statistics"]["histogram"]["counts"]) == 100


def test_an_error_of_a_debugger_is_a_node_of_its_own():
    found = nodes.describe({"cam": {"error": "no layer"}})
    assert found["debug"][0]["children"] == [{"key": "error", "kind": "error", "text": "no layer"}]


@pytest.mark.parametrize(
    "outputs",
    [
        {"d": {str(n): {"x": n} for n in range(5000)}},
        {"d": "x" * 100_000},
        {"d": {f"{n}": n for n in range(100_000)}},
        {"d": {"a": np.array(["text"]), "b": np.zeros(2, np.complex64), "c": None, "e": b"bytes", "f": []}},
        {"d": np.zeros((0, 3))},
        {"d": np.float32(3)},
        {"d" * 10_000: {"<script>": 1}},
        {"datapoint": 5},
    ],
)
def test_whatever_a_page_holds_is_described_in_little(outputs):
    assert len(json.dumps(nodes.describe(outputs), allow_nan=False)) < 300_000


def test_what_is_left_out_is_counted():
    found = nodes.describe({"d": {f"{n}": n for n in range(nodes.MAX_NODES + 10)}})
    assert found["debug"][0]["children"][-1] == {"key": "", "kind": "left_out", "count": 10}


def test_deep_outputs_are_described_to_a_depth():
    deep = value = {}
    for _ in range(200):
        value["deeper"] = {}
        value = value["deeper"]
    json.dumps(nodes.describe({"d": deep}))


@pytest.mark.parametrize(
    ("place", "form"), [((5,), "maps"), ((0, 0, 0), "maps"), ((0, 1), "maps"), ((0, 0), "overlay")]
)
def test_a_place_that_leads_to_no_picture_is_an_error(place, form):
    with pytest.raises(nodes.PlaceError):
        nodes.draw({"maps": {"feature_map": np.ones((8, 4, 4)), "layer": "conv"}}, place, form)
