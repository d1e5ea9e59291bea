"""The page about debuggers names what the built-in debuggers keep."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from debuggers.wrappers.debugger_registry import BUILT_IN
from debuggers.wrappers.sequential_debugger import SequentialDebugger

PAGE = (Path(__file__).parent.parent / "docs" / "debuggers.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"\w+", PAGE))


class Attention(nn.Module):
    """Attention of four heads between the columns of maps (B, 4, H, W), as more maps."""

    def forward(self, maps):
        return nn.functional.scaled_dot_product_attention(maps, maps, maps)


@pytest.fixture(scope="module")
def slots():
    """What each built-in debugger returns for two images."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), Attention(), nn.Flatten(), nn.Linear(4 * 36, 3))
    config = []
    for name in BUILT_IN:
        argument = "target_layer" if "CAM" in name else "layer_name"
        config.append({"name": name, "type": name, argument: "1" if name == "AttentionDebugger" else "0"})
    images = torch.rand(2, 1, 8, 8)
    with SequentialDebugger(config, model, on_error="raise") as debugger:
        debugger.enabled = True
        outputs = model(images)
        found = debugger({"inputs": images, "outputs": outputs, "meta_info": {"idx": [0, 1]}}, model)
        debugger.reset_buffer()
    return found


def keys_of(slot):
    return set(slot) | {key for value in slot.values() if isinstance(value, dict) for key in keys_of(value)}


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_debugger_and_all_that_it_keeps_are_on_the_page(slots, name):
    keys = keys_of(slots[name])
    assert "error" not in keys
    assert keys | {name} <= WORDS


@pytest.mark.parametrize("module", BUILT_IN.values())
def test_the_page_says_where_to_import_it_from(module):
    assert f"`{module}." in PAGE or f"from {module} import" in PAGE
