"""The first layer's gradient is compared with the last one's, at ten observed steps in a row."""

import math

import pytest

from debuggers.detectors import ExplodingByDepth, Modules, VanishingByDepth
from debuggers.detectors.call_order import places_in

NAMES = ["0.weight", "0.bias", "2.weight", "4.weight", "4.bias"]


def steps(rule, observe, norms, count=10, names=NAMES):
    return [finding for step in range(count) for finding in rule.see(observe(step, names, norm=norms))]


@pytest.mark.parametrize(
    "rule, norms",
    [
        (VanishingByDepth, [9.9e-5, 1e-6, 0.01, 0.1, 0.01]),
        (VanishingByDepth, [1e-6, 9e-7, 1.0, 1e-2, 1.1e-3]),
        (ExplodingByDepth, [70.1, 1.0, 5.0, 0.5, 1.0]),
    ],
)
def test_the_definition_is_found(observe, rule, norms):
    (finding,) = steps(rule(), observe, norms)
    assert (finding.name, finding.step, finding.value) == ("0.weight", 0, norms[0])


@pytest.mark.parametrize(
    "rule, norms",
    [
        (VanishingByDepth, [1e-4, 1e-6, 0.01, 0.2, 0.01]),
        (VanishingByDepth, [9.9e-5, 1e-6, 0.01, 0.09, 0.01]),
        (VanishingByDepth, [0.0, 0.0, 1e-6, 1e-4, 1e-4]),
        (VanishingByDepth, [math.nan, math.inf, 1e-2, 0.1, 0.1]),
        (ExplodingByDepth, [70.0, 1.0, 5.0, 0.5, 1.0]),
        (ExplodingByDepth, [1e9, 1e9, 0.0, 0.0, 0.0]),
    ],
)
def test_just_below_it_nothing_is_found(observe, rule, norms):
    assert steps(rule(), observe, norms, 20) == []


def test_nine_steps_are_too_few(observe):
    assert steps(VanishingByDepth(), observe, [1e-9, 0.0, 0.1, 1.0, 1.0], 9) == []


def test_a_model_of_one_layer_has_no_depth(observe):
    assert steps(VanishingByDepth(), observe, [1e-9, 1.0], 20, ["fc.weight", "fc.bias"]) == []


def test_a_bias_whose_weight_is_frozen_is_not_the_first_layer(observe):
    names = ["conv.bias", "norm.weight", "head.weight"]
    assert steps(VanishingByDepth(), observe, [1e-9, 1e-2, 1.0], names=names) == []
    (finding,) = steps(VanishingByDepth(), observe, [1e-9, 1e-9, 1.0], names=names)
    assert finding.name == "norm.weight"


def test_a_parameter_of_the_model_itself_is_not_the_first_layer(observe):
    norms = [1e-9, 1e-2, 1.0]
    assert steps(VanishingByDepth(), observe, norms, names=["temperature", "body.weight", "head.weight"]) == []
    (finding,) = steps(VanishingByDepth(), observe, norms, names=["first", "second", "third"])
    assert finding.name == "first"


@pytest.mark.parametrize(("order", "first"), [
    (("2", "4", "0"), "2.weight"),
    (("4", "2", "0"), None),  # nothing is known of what is larger than the first
    ((), "0.weight"),
    (("2", "4"), "0.weight"),  # one of them is not known
])  # fmt: skip
def test_the_first_layer_is_the_one_that_is_called_first(observe, order, first):
    """Its attributes may have been set in any order."""
    norms = [1e-9 if first == "0.weight" else 1.0, 0.0, 1e-9 if first == "2.weight" else 1.0, 1.0, 1.0]
    rule = VanishingByDepth(Modules(lambda: order))
    assert [finding.name for finding in steps(rule, observe, norms)] == ([first] if first else [])


def test_an_order_that_comes_to_be_known_holds_from_then_on(observe):
    order: list[str] = []
    rule = VanishingByDepth(Modules(lambda: order))
    norms = [1.0, 0.0, 1.0, 1e-9, 0.0]
    assert steps(rule, observe, norms) == []
    order += ["4", "2", "0"]
    assert [finding.name for finding in steps(rule, observe, norms)] == ["4.weight"]


def test_a_part_of_a_module_stands_where_that_is_called():
    assert places_in(["embed", "attention", "head"], ["attention.out_proj", "embed", "head"]) == [1, 0, 2]
    assert places_in(["embed", "attention"], ["attention", "own"]) is None
    assert places_in([], ["embed"]) is None
