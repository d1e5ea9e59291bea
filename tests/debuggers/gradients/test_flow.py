"""What the analysis says about histories whose answer is known."""

import json
import math

import numpy as np
import pytest
import torch

from debuggers.detectors import gradient_detectors
from debuggers.gradients.flow import Health, Trend, analyze
from debuggers.gradients.history import GradientHistory
from debuggers.measurement.measure import measure


def record(history, step, **gradients):
    """Names are written with two underscores for a dot."""
    names = tuple(name.replace("__", ".") for name in gradients)
    return history.record(
        step, names, measure([torch.tensor(values, dtype=torch.float64) for values in gradients.values()]).resolve()
    )


def layer(analysis, name):
    return next(flow for flow in analysis.layers if flow.name == name)


def test_nothing_recorded_is_unknown():
    analysis = analyze(GradientHistory())
    assert (
        analysis.overall_health,
        analysis.score,
        analysis.layers,
        analysis.findings,
    ) == (Health.UNKNOWN, None, (), ())
    assert "unknown" in analysis.summary()
    json.dumps(analysis.to_dict(), allow_nan=False)


def test_one_record_is_enough_for_a_verdict():
    history = GradientHistory()
    record(history, 0, layer_1=[0.01, 0.02, 0.015, 0.008])
    analysis = analyze(history)
    assert (analysis.overall_health, analysis.score) == (Health.HEALTHY, 1.0)
    assert layer(analysis, "layer_1").last_norm == pytest.approx(math.sqrt(7.89e-4))


def test_layers_tell_last_and_mean_values():
    history = GradientHistory()
    record(history, 0, a=[3.0, 4.0], b=[0.0, 1.0])
    record(history, 1, a=[math.nan, 1.0])
    a, b = analyze(history).layers
    assert (a.steps, a.last_norm, a.mean_norm, a.mean_magnitude, a.non_finite_steps) == (2, 1.0, 3.0, 2.25, 1)
    assert (b.steps, b.last_norm, b.zero_fraction, b.non_finite_steps) == (1, 1.0, 0.5, 0)


def test_modules_add_up_their_parameters_at_every_level():
    history = GradientHistory()
    record(history, 0, net__fc1__weight=[1.0, 2.0], net__fc1__bias=[2.0], net__fc2__weight=[4.0], scale=[12.0])
    modules = {module.path: module for module in analyze(history).modules}
    assert list(modules) == ["", "net", "net.fc1", "net.fc2"]
    assert [module.last_norm for module in modules.values()] == pytest.approx([13, 5, 3, 4])
    assert [module.tensors for module in modules.values()] == [4, 3, 2, 1]


def test_flow_through_depth_is_the_ratio_and_the_factor_of_a_layer():
    history = GradientHistory()
    for step in range(3):
        record(history, step, **{f"layers__{depth}__weight": [10.0**depth] for depth in range(6)})
    depth = analyze(history).depth
    assert depth.layers == tuple(f"layers.{place}" for place in range(6))
    assert depth.first_to_last == pytest.approx(1e-5)
    assert depth.factor_per_layer == pytest.approx(0.1)


def test_flow_through_depth_follows_the_calls():
    history = GradientHistory()
    for step in range(3):
        record(history, step, **{f"layers__{depth}__weight": [10.0**depth] for depth in range(6)})
    depth = analyze(history, order=[f"layers.{place}" for place in reversed(range(6))]).depth
    assert depth.layers[0] == "layers.5"
    assert depth.first_to_last == pytest.approx(1e5)
    assert depth.factor_per_layer == pytest.approx(10)


def test_trends_are_named_over_the_whole_history():
    history = GradientHistory()
    for step in range(0, 200, 5):
        share = step / 195
        record(history, step, up=[10**share], down=[10**-share], level=[1.0 + 0.1 * (step % 2)])
    analysis = analyze(history)
    assert [flow.trend for flow in analysis.layers] == [Trend.RISING, Trend.FALLING, Trend.STEADY]
    assert layer(analysis, "up").decades_per_step == pytest.approx(1 / 195)
    assert analysis.overall_health is Health.HEALTHY


def test_growth_that_was_there_from_the_first_step_on_is_found():
    history = GradientHistory()
    for step in range(40):
        record(history, step, a=[1.2**step], b=[1.0])
    (finding,) = [finding for finding in analyze(history).findings if finding.is_problem]
    assert (finding.kind, finding.name, finding.step, finding.last_step) == ("exploding_gradient", "a", 0, 39)
    assert finding.value == pytest.approx(1.2**39)


def test_layers_far_above_the_last_one_are_found():
    history = GradientHistory()
    for step in range(3):
        record(history, step, **{f"layers__{depth}__weight": [100 * 10.0**-depth] for depth in range(7)})
    analysis = analyze(history)
    assert [finding.name for finding in analysis.findings] == ["layers.0", "layers.1"]
    assert "1e+06 times that of layers.6" in analysis.findings[0].message
    assert "layers.0, layers.1" in analysis.recommendations[0]


def test_one_small_last_layer_is_no_explosion_of_the_others():
    history = GradientHistory()
    norms = [1.0] * 9 + [1e-6]
    record(history, 0, **{f"layers__{depth}__weight": [norm] for depth, norm in enumerate(norms)})
    assert analyze(history).findings == ()


def test_findings_of_live_detectors_keep_their_beginning():
    """A history of 5 steps sees only the end of what has lasted for 29, since there is another one to compare with."""
    history, detectors = GradientHistory(max_gradient_history=5), gradient_detectors()
    for step in range(30):
        detectors.see(record(history, step, a=[1e-9], b=[math.nan if step == 0 else 1.0]))
    (again,) = analyze(history).findings
    assert (again.step, again.steps) == (25, 5)
    found = analyze(history, findings=detectors.findings()).findings
    assert [(live.kind, live.step, live.steps) for live in found] == [
        ("vanishing_by_depth", 1, 29),
        ("vanishing_gradient", 1, 29),
    ]


def test_looking_again_finds_what_the_live_detectors_found():
    history, detectors = GradientHistory(), gradient_detectors()
    generator = np.random.default_rng(0)
    names = ("a.weight", "a.bias", "b.weight")
    for step in range(150):
        values = [generator.normal(size=8) * (1e-9 if step > 100 else 1) for _ in names]
        values[2][0] = np.nan if step % 40 == 7 else values[2][0]
        values[0] *= 1e4 if step == 60 else 1
        table = measure([torch.tensor(value) for value in values]).resolve()
        detectors.see(history.record(step, names, table, expected_overflow=step == 7))
        detectors.see(history.record_updates(step, names, generator.choice([0.0, 1e-3], 3)))
    assert detectors.findings()
    assert sorted(analyze(history).findings, key=repr) == sorted(detectors.findings(), key=repr)


def test_the_analysis_is_json_with_nothing_but_plain_values():
    history = GradientHistory()
    for step in range(3):
        record(history, step, a=[math.nan], b=[0.0], c=[1.0])
    written = json.loads(json.dumps(analyze(history).to_dict(), allow_nan=False))
    assert written["overall_health"] == "critical"
    assert written["layers"][0]["mean_magnitude"] is None
    assert written["findings"][0]["message"].startswith("a: NaN or infinite elements: 1")


def test_the_summary_says_it_in_plain_words():
    history = GradientHistory()
    for step in range(3):
        history.record(
            step, ("a.weight", "b.weight"), measure([torch.tensor([math.inf]), torch.ones(1)]).resolve(),
            expected_overflow=step < 2,
        )  # fmt: skip
    lines = analyze(history).summary().splitlines()
    assert lines[0].startswith("Gradient health: critical (score 0.")
    assert "Overflows were expected at 2 steps" in lines[1]
    assert lines[2] == "non_finite_gradient: a.weight: NaN or infinite elements: 1 at step 2"
    assert lines[3].startswith("Find where the first NaN or infinity arises in a.weight")
