import base64
import io
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

from stepscope.viewer.outputs.display import OutputsError, display_debug_outputs

OUTPUTS = {"maps": {"feature_map": np.random.default_rng(0).normal(size=(8, 4, 4)), "stats": {"mean": 0.125}}}


def test_a_notebook_shows_pictures_and_numbers_and_loads_nothing():
    found = display_debug_outputs(OUTPUTS)._repr_html_()
    (png,) = re.findall(r'src="data:image/png;base64,([^"]+)"', found)
    assert Image.open(io.BytesIO(base64.b64decode(png))).size == (100, 100)
    assert "0.125" in found
    assert "http" not in found


def test_a_slot_of_one_number_says_its_name_once():
    found = display_debug_outputs({"margin": 3.25, "stats": {"mean": 0.125}})._repr_html_()
    assert [found.count(name) for name in ("margin<", "stats<", "mean<")] == [1, 1, 1]


def test_texts_of_a_page_are_no_html():
    outputs = {"<img src=x onerror=alert(1)>": {"<b>": 1, "text": "</pre><script>alert(1)</script>\n" * 9}}
    tags = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.add(tag)
            assert not [name for name, _ in attributes if name.startswith("on")]

    Tags().feed(display_debug_outputs(outputs)._repr_html_())
    assert not tags & {"script", "img", "b"}


def test_elsewhere_it_is_text():
    lines = repr(display_debug_outputs(OUTPUTS)).splitlines()
    assert lines[:2] == ["Debug outputs", "  maps"]
    assert lines[2].startswith("    feature_map: float64 8 × 4 × 4, from -")
    assert lines[3] == "    mean: 0.125"


def test_tensors_are_shown_as_arrays_are():
    narrow = torch.tensor([1.0, 2.0, 3.5], dtype=torch.bfloat16, requires_grad=True)
    found = repr(display_debug_outputs({"layer": {"output": narrow, "loss": torch.tensor(0.5)}}))
    assert "output: float32 3, from 1 to 3.5" in found
    assert "loss: 0.5" in found


@pytest.mark.parametrize("outputs", [None, [1], np.zeros(3)])
def test_anything_but_a_mapping_is_refused(outputs):
    with pytest.raises(OutputsError, match="expected one datapoint's"):
        display_debug_outputs(outputs)


def test_nothing_to_show_is_said():
    assert repr(display_debug_outputs({})) == "No debug outputs."
    assert "No debug outputs." in display_debug_outputs({})._repr_html_()


def test_it_needs_no_torch():
    code = (
        "import sys; from stepscope.viewer.outputs.display import display_debug_outputs as d; import numpy as np; "
        "d({'m': np.eye(4)})._repr_html_(); sys.exit(any(m in sys.modules for m in ('torch', 'matplotlib', 'PIL')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
