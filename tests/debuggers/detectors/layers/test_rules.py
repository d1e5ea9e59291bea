"""Each rule about signals of tensors fires on its definition, and not just below it, at NaN, or at a single step."""

import math

import pytest

from debuggers.detectors.layers import (
    AllZero,
    DeadLayer,
    GradientZeros,
    LargeWeights,
    SaturatedUnits,
    UnchangedWeights,
    UnequalVariances,
    VarianceBounds,
    layer_detectors,
)
from debuggers.diagnosis import signals


def told(rule, observe, rows):
    (statistic,) = rule.statistics
    return [finding for step, row in enumerate(rows) for finding in rule.see(observe(step, **{statistic: row}))]


@pytest.mark.parametrize(
    "rule, rows, step",
    [
        (AllZero, [[1.0]] * 5, 0),
        (DeadLayer, [[0.0]] + [[1.0]] * 5, 1),
        (GradientZeros, [[0.7, 0.1]] * 10, 0),
        (LargeWeights, [[3.17]], 0),
        (SaturatedUnits, [[0.9]] * 5, 0),
        (UnchangedWeights, [[1e-5]] * 3, 0),
        (UnchangedWeights, [[0.0]] * 3, 0),
        (UnequalVariances, [[1.0, 3.17]] * 3, 0),
        (lambda: VarianceBounds(0.01, 4.0), [[0.099]], 0),
        (lambda: VarianceBounds(0.01, 4.0), [[2.01]], 0),
    ],
)
def test_the_definition_is_found(observe, rule, rows, step):
    (finding,) = told(rule(), observe, rows)
    assert finding.step == step
    assert finding.level in {"info", "warning"}


@pytest.mark.parametrize(
    "rule, rows",
    [
        (AllZero, [[0.999]] * 20),
        (AllZero, [[1.0]] * 4),
        (DeadLayer, [[0.999]] * 20),
        (GradientZeros, [[0.69, 0.69]] * 20),
        (GradientZeros, [[0.99, 0.1, 0.1]] * 20),
        (GradientZeros, [[0.99, 0.99]] * 9),
        (LargeWeights, [[3.16]]),
        (LargeWeights, [[1.0], [9.0]]),
        (SaturatedUnits, [[0.89]] * 20),
        (SaturatedUnits, [[1.0]] * 4),
        (UnchangedWeights, [[1.1e-5]] * 20),
        (UnchangedWeights, [[0.0]] * 2),
        (UnequalVariances, [[1.0, 3.16]] * 5),
        (UnequalVariances, [[1.0, 1.0]] * 10 + [[1.0, 9.0]] * 10),
        (UnequalVariances, [[0.0, 1.0]] * 5),
        (lambda: VarianceBounds(0.01, 4.0), [[0.1, 2.0]] * 5),
        (VarianceBounds, [[0.0, 1e300]] * 5),
    ],
)
def test_just_below_it_nothing_is_found(observe, rule, rows):
    assert told(rule(), observe, rows) == []


@pytest.mark.parametrize("rule", layer_detectors(), ids=lambda rule: rule.kind)
def test_nan_breaks_no_rule(observe, rule):
    assert told(type(rule)(), observe, [[math.nan, 0.5], [math.nan, None]] * 20) == []


def test_what_is_no_weight_may_start_large(observe):
    names = ["fc.weight", "fc.bias", "weights.spread", "rnn.weight_ih_l0", "mha.in_proj_weight"]
    found = LargeWeights().see(observe(0, names, weight_rms=[1.0, 100.0, 100.0, 100.0, 100.0]))
    assert [finding.name for finding in found] == ["rnn.weight_ih_l0", "mha.in_proj_weight"]


def test_a_layer_that_appears_later_is_judged_at_its_first_observation(observe):
    rule = LargeWeights()
    rule.see(observe(0, weight_rms=[1.0]))
    (finding,) = rule.see(observe(1, weight_rms=[9.0, 9.0]))
    assert finding.name == "layer1.weight"


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (2.0, 1.0), (math.nan, 1.0)])
def test_bounds_that_are_none_are_refused(bounds):
    with pytest.raises(ValueError, match="expected 0 <= lowest < highest"):
        VarianceBounds(*bounds)


def test_every_rule_needs_one_signal_of_the_diagnosis():
    known = {signal.name for group in (signals.OF_PARAMETERS, signals.OF_LAYERS) for signal in group}
    for rule in layer_detectors():
        (statistic,) = rule.statistics
        assert statistic in known
        assert rule.judged == statistic
