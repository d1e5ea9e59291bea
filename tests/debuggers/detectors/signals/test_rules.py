"""Each rule about scalar signals fires on its definition, and not just below it, at NaN, or at a single step."""

import itertools
import math
import random

import pytest

from debuggers.detectors.signals import (
    ClassImbalance,
    DataLoadingBound,
    LossIncreasing,
    LossNotDecreasing,
    LossSpike,
    MemoryGrowth,
    NonFiniteData,
    OffCentreInputs,
    OneClassPredicted,
    OscillatingAccuracy,
    OscillatingGradient,
    OscillatingLoss,
    Overfitting,
    Overtraining,
    SlowStep,
    StalledTraining,
    UnusualUpdate,
    signal_detectors,
)
from debuggers.diagnosis import signals

EVEN = [1.0, 1.2] * 32  # mean 1.1, sample σ 0.1008
NOISE = random.Random(0)
TURNS_46 = [(-1.0) ** step for step in range(47)]  # 45 turns
WEEK = [0.5, 0.53] * 5


def told(rule, **series):
    """The findings of signals whose values come together; ``__`` stands for ``/``."""
    columns = {name.replace("__", "/"): values for name, values in series.items()}
    found = []
    for step, row in enumerate(itertools.zip_longest(*columns.values())):
        values = {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for name in values.keys() & rule.context:
            rule.inform(step, name, values[name])
        found += filter(None, [rule.see(step, name, values[name]) for name in values if name in rule.signals])
    return found


@pytest.mark.parametrize(
    "rule, series, step",
    [
        (NonFiniteData, {"inputs__non_finite": [0, 1]}, 1),
        (NonFiniteData, {"targets__non_finite": [math.inf]}, 0),
        (LossSpike, {"loss": [*EVEN, 1.71]}, 64),
        (LossSpike, {"loss": [2.0] * 64 + [2.21]}, 64),
        (LossNotDecreasing, {"loss": [1.0] * 200}, 199),
        (LossNotDecreasing, {"loss": [1.0] * 20 + [0.9995] * 180}, 199),
        (LossNotDecreasing, {"loss": [-1.0] * 200}, 199),
        (LossIncreasing, {"loss": [1.0] * 50 + [1.06] * 50}, 99),
        (Overfitting, {"loss": [1, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1], "validation__loss": [1, 1, 1, 1.2, 1.2, 1.2]}, 4),
        (Overtraining, {"loss": [1.0] * 11, "validation__loss": [1.0] * 11}, 10),
        (OscillatingLoss, {"loss": [(-1.0) ** step for step in range(48)]}, 47),
        (OscillatingGradient, {"gradient_cosine": [-0.31] * 20}, 19),
        (OscillatingAccuracy, {"validation__accuracy": WEEK}, 9),
        (
            ClassImbalance,
            {
                "inputs__batch_size": [500],
                "targets__top_share_so_far": [0.9],
                "targets__rarest_share_so_far": [0.089],
            },
            0,
        ),
        (OneClassPredicted, {"top_predicted_share": [0.71] * 110, "targets__top_share": [0.2] * 110}, 100),
        (OffCentreInputs, {"inputs__mean": [-0.21] * 5, "inputs__batch_size": [100] * 5}, 4),
        (SlowStep, {"step_ms": [10.0] * 30 + [20.1]}, 30),
        (StalledTraining, {"step_ms": [1.81e6]}, 0),
        (DataLoadingBound, {"data_share": [0.51] * 21}, 20),
        (MemoryGrowth, {"process_mb": [1000.0] * 20 + [1000.0 * 1.02 ** (step // 10) for step in range(50)]}, 69),
        (UnusualUpdate, {"update_ratio": [9e-5] * 10}, 0),
        (UnusualUpdate, {"update_ratio": [0.11] * 10}, 0),
    ],
)
def test_the_definition_is_found(rule, series, step):
    detector = rule()
    (finding,) = told(detector, **series)
    assert (finding.kind, finding.level, finding.step) == (rule.kind, rule.level, step)
    assert finding.name in rule.signals
    assert detector.findings()[0].step == step


@pytest.mark.parametrize(
    "rule, series",
    [
        (NonFiniteData, {"inputs__non_finite": [0, 0]}),
        (LossSpike, {"loss": [*EVEN, 1.7]}),
        (LossSpike, {"loss": [2.0] * 64 + [2.19]}),
        (LossSpike, {"loss": [2.0] * 63 + [9.0]}),
        (LossNotDecreasing, {"loss": [1.0] * 20 + [0.9985] * 180}),
        (LossNotDecreasing, {"loss": [1.0] * 199}),
        (LossIncreasing, {"loss": [1.0] * 50 + [1.04] * 50}),
        (Overfitting, {"loss": [1, 0.5, 0.4, 0.3, 0.2], "validation__loss": [1, 1, 1, 1.09, 1.09, 1.09]}),
        (Overfitting, {"loss": [0.1, 0.2, 0.3, 0.4, 0.5], "validation__loss": [1, 1, 1, 1.2, 1.2, 1.2]}),
        (Overfitting, {"loss": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], "validation__loss": [1, 1, 1, 1, 1, 1]}),
        (Overfitting, {"loss": [2, 0.5, 0.4, 0.3, 0.2, 0.1], "validation__loss": [0.1, 0.1, 0.1, 0.28, 0.28, 0.28]}),
        (Overtraining, {"loss": [1.0] * 10, "validation__loss": [1.0] * 10}),
        (Overtraining, {"loss": [0.9**i for i in range(20)], "validation__loss": [1.0] * 20}),
        (OscillatingLoss, {"loss": TURNS_46}),
        (OscillatingGradient, {"gradient_cosine": [-0.29] * 30}),
        (OscillatingAccuracy, {"validation__accuracy": [0.5, 0.529] * 5}),
        (OscillatingAccuracy, {"validation__accuracy": WEEK[:9]}),
        (
            ClassImbalance,
            {"inputs__batch_size": [500], "targets__top_share_so_far": [0.9], "targets__rarest_share_so_far": [0.09]},
        ),
        (
            ClassImbalance,
            {"inputs__batch_size": [499], "targets__top_share_so_far": [0.9], "targets__rarest_share_so_far": [0.01]},
        ),
        (OneClassPredicted, {"top_predicted_share": [0.69] * 300, "targets__top_share": [0.2] * 300}),
        (OneClassPredicted, {"top_predicted_share": [1.0] * 109, "targets__top_share": [0.2] * 109}),
        (OffCentreInputs, {"inputs__mean": [0.19] * 9, "inputs__batch_size": [100] * 9}),
        (OffCentreInputs, {"inputs__mean": [0.9] * 4, "inputs__batch_size": [100] * 4}),
        (SlowStep, {"step_ms": [10.0] * 30 + [19.9]}),
        (SlowStep, {"step_ms": [500.0] * 10}),
        (StalledTraining, {"step_ms": [1.79e6]}),
        (DataLoadingBound, {"data_share": [0.49] * 50}),
        (MemoryGrowth, {"process_mb": [1000.0] * 20 + [1000.0 * 1.009 ** (step // 10) for step in range(200)]}),
        (MemoryGrowth, {"process_mb": [1000.0] * 20 + [1000.0, 1100.0] * 100}),
        (UnusualUpdate, {"update_ratio": [1e-4] * 20}),
        (UnusualUpdate, {"update_ratio": [0.1] * 20}),
        (UnusualUpdate, {"update_ratio": [9e-5] * 9}),
    ],
)
def test_just_below_it_nothing_is_found(rule, series):
    assert told(rule(), **series) == []


@pytest.mark.parametrize("rule", signal_detectors(), ids=lambda rule: rule.kind)
@pytest.mark.parametrize("value", [math.nan, 0.25])
def test_nan_and_one_step_break_no_rule(rule, value):
    fresh = type(rule)()
    for signal in fresh.context:
        fresh.inform(0, signal, value)
    if fresh.kind != "non_finite_data":
        assert [fresh.see(0, signal, value) for signal in fresh.signals] == [None] * len(fresh.signals)
    for step in range(1, 200):
        for signal in fresh.context:
            fresh.inform(step, signal, math.nan)
        for signal in fresh.signals:
            fresh.see(step, signal, math.nan)
    assert {finding.kind for finding in fresh.findings()} <= {"non_finite_data", "overtraining"}


def test_losses_of_noisy_batches_that_fall_break_no_rule_about_losses():
    found = 0
    for _ in range(30):
        rules = [LossIncreasing(), LossNotDecreasing(), LossSpike(), OscillatingLoss()]
        for step in range(500):
            value = (0.3 + 2.0 * 0.99**step) * NOISE.uniform(0.5, 1.5)
            found += sum(rule.see(step, "loss", value) is not None for rule in rules)
    assert found == 0


def test_every_signal_of_a_rule_is_a_signal_of_the_diagnosis():
    known = {signal.name for group in (signals.RECORDED_ELSEWHERE, signals.OF_A_STEP) for signal in group}
    for rule in signal_detectors():
        assert (rule.signals | rule.context) - {"validation/accuracy"} <= known, rule.kind


def test_kinds_and_levels_are_those_of_alerts():
    rules = signal_detectors()
    assert len({rule.kind for rule in rules}) == len(rules)
    assert {rule.level for rule in rules} <= {"info", "warning", "error"}
