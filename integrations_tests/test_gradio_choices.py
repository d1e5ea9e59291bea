"""Every choice of the Gradio example trains, and what goes wrong is shown."""

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

APP = Path(__file__).parent.parent / "examples" / "gradio_app.py"
STEPS = 4


@pytest.fixture(scope="module")
def gradio():
    """Imported here: that takes three seconds of a processor, in each worker that collects this file."""
    return pytest.importorskip("gradio")


@pytest.fixture(scope="module")
def app(gradio):
    spec = importlib.util.spec_from_file_location("gradio_app", APP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SHOWN_EVERY = STEPS
    return module


@pytest.fixture(scope="module")
def inputs(gradio, app):
    """What can be chosen on the page, by label: the options, or both ends and the first value."""
    found: dict[str, list[Any]] = {}
    for block in app.build().blocks.values():
        if isinstance(block, gradio.Dropdown):
            found[block.label] = [value for _, value in block.choices]
        elif isinstance(block, gradio.Slider):
            found[block.label] = [block.minimum, block.value, block.maximum]
        elif isinstance(block, gradio.Number):
            found[block.label] = [block.minimum, block.value, 2, None]
    return found


def test_every_choice_trains(app, inputs):
    types, bounds, handlings, rates, faults, _ = inputs.values()
    choices = [
        *itertools.product(types, bounds[:1], handlings[:1], rates[1:2], faults[:1]),
        *itertools.product(types, bounds[-1:], handlings[1:2], rates[1:2], [2]),
        *itertools.product(types[:1], bounds[1:2], handlings, rates[-1:], [2]),
        *itertools.product(types[:1], bounds[1:2], handlings[:1], rates[:1], faults),
    ]
    for choice in choices:
        shown = [found for _, found in app.train(*choice, STEPS)]
        assert len(shown) == 1, choice
        assert bool(shown[0]) == (choice[-1] == 2), choice
        assert app.describe(*choice[:2]).startswith(f"`GradientClippingConfig(clipping_type='{choice[0]}'")


def test_the_middle_of_the_slider_is_the_default_of_each_type(app, inputs):
    from stability import GradientClippingConfig

    for clipping_type in inputs["clipping type"]:
        default = {"layer_thresholds": {"*": 1.0}} if clipping_type == "layer_wise" else {}
        chosen = GradientClippingConfig(**app.clipping(clipping_type, 1.0))
        assert chosen == GradientClippingConfig(clipping_type=clipping_type, **default)


def test_a_failure_is_shown_with_its_reason(gradio, app):
    with pytest.raises(gradio.Error, match="StabilityConfigError: GradientClippingConfig: max_norm is -1"):
        next(app.show("norm", -1.0, "detect", 0.05, 0, STEPS))
