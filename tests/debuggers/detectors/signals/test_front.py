"""The front hands signals to the rules that need them, leaves out a rule that fails, and costs little."""

import itertools
import math
import sys
from collections import Counter

import numpy as np
import pytest

from debuggers.detectors import SignalDetector
from debuggers.detectors.layers import VarianceBounds
from debuggers.detectors.signals import front
from debuggers.detectors.signals.front import SignalDetectors

OF_TENSORS = (
    "weight_rms",
    "gradient_rms",
    "gradient_zeros",
    "parameter_update_ratio",
    "output_mean",
    "output_std",
    "output_batch_std",
    "output_zeros",
    "dead_units",
    "saturated",
)


class Broken(SignalDetector):
    kind = "broken"
    level = "warning"
    signals = frozenset({"loss"})
    context = frozenset({"step_ms"})
    rule = "none"
    evidence = "none"

    def check(self, step, signal, value):
        raise RuntimeError("a fault of the rule")


def test_scalars_and_tensors_reach_their_rules():
    detectors = SignalDetectors()
    assert detectors.see(0, {"inputs/non_finite": 1.0, "unknown": 2.0})[0].kind == "non_finite_data"
    found = [detectors.see_tensors(step, "output_zeros", ("a", "b"), [1.0, 0.0]) for step in range(5)]
    assert [[finding.name for finding in step] for step in found] == [[], [], [], [], ["a"]]
    assert [finding.kind for finding in detectors.findings()] == ["all_zero", "non_finite_data"]


def test_the_signals_that_are_needed_are_named():
    needs = SignalDetectors().needs
    assert {"loss", "validation/loss", "inputs/batch_size", "output_std"} <= needs
    assert "outputs/row_sum_error" not in needs


def test_rows_stay_theirs_when_other_tensors_are_measured():
    detectors = SignalDetectors()
    for step in range(4):
        detectors.see_tensors(step, "output_zeros", ("a", "b"), [0.0, 1.0])
    assert detectors.see_tensors(4, "output_zeros", ("c", "a"), [1.0, 0.0]) == []
    (finding,) = detectors.see_tensors(5, "output_zeros", ("b",), [1.0])
    assert (finding.name, finding.step) == ("b", 0)


def test_outputs_of_the_model_may_saturate():
    layers = {"head"}
    detectors = SignalDetectors(output_layers=layers)
    layers.add("attention")
    for step in range(5):
        found = detectors.see_tensors(step, "saturated", ("fc", "head", "attention"), [1.0, 1.0, 1.0])
    assert [finding.name for finding in found] == ["fc"]


def test_rules_of_the_user_see_the_same_signals():
    detectors = SignalDetectors([VarianceBounds(highest=1.0)])
    (finding,) = detectors.see_tensors(0, "output_std", ("fc",), [1.1])
    assert finding.kind == "variance_out_of_bounds"


def test_a_rule_that_raises_is_told_once_and_left_out(caplog):
    detectors = SignalDetectors([Broken()])
    for step in range(3):
        assert detectors.see(step, {"step_ms": 1.0, "loss": math.nan}) == []
    assert list(detectors.failures) == ["broken"]
    assert caplog.text.count("a fault of the rule") == 1
    assert detectors.see(3, {"inputs/non_finite": 1.0})


@pytest.mark.parametrize(("each_s", "calls", "told"), [(2e-3, 499, 0), (2e-3, 2000, 1), (0.9e-3, 2000, 0)])
def test_a_rule_that_takes_long_is_told_once(caplog, monkeypatch, each_s, calls, told):
    class Slow(Broken):
        kind = "slow"

        def check(self, step, signal, value):
            return None

    now_s = itertools.count(0.0, each_s)
    monkeypatch.setattr(front.time, "perf_counter", lambda: next(now_s))
    detectors = SignalDetectors([Slow()])
    for step in range(calls):
        detectors.see(step, {"loss": 1.0})
    assert caplog.text.count("the detector 'slow' takes 2.0 ms a call, which is overhead") == told
    assert len(caplog.records) == told


@pytest.mark.slow
def test_memory_is_bounded_over_a_million_steps():
    import tracemalloc

    detectors = SignalDetectors()
    names = tuple(f"layer{number}" for number in range(3))

    def train(start, stop):
        for step in range(start, stop):
            detectors.see(step, {"loss": math.sin(step), "step_ms": 10.0 + 50 * (step % 97 == 0), "data_share": 0.6})
            if step % 50 == 0:
                detectors.see_tensors(step, "output_zeros", names, [step % 1000 < 500, 0.0, 1.0])

    train(0, 10_000)
    tracemalloc.start()
    train(10_000, 20_000)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    train(20_000, 900_000)
    tracemalloc.start()
    train(900_000, 910_000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after < before + 100_000


def test_all_rules_on_fifty_layers_call_few_functions_a_step():
    """The cost of a training: scalars at each step, signals of tensors at one step in ten; a call takes about 0.1 µs.

    benchmarks/diagnosis.py measures it in time.
    """
    detectors = SignalDetectors()
    names = tuple(f"layer{number}.weight" for number in range(50))
    columns = {signal: np.full(50, 0.5) for signal in OF_TENSORS}
    every = {"loss": 1.0, "total_norm/gradients": 1.0, "step_ms": 10.0}
    sampled = {
        **{
            f"{part}/{what}": 0.1 for part in ("inputs", "outputs", "targets") for what in ("mean", "std", "min", "max")
        },
        **dict.fromkeys(("inputs/batch_size", "gradient_cosine", "update_ratio", "data_share", "process_mb"), 0.1),
    }
    steps = iter(range(10**9))

    def ten_steps():
        for _ in range(10):
            step = next(steps)
            detectors.see(step, every)
        detectors.see(step, sampled)
        for signal, column in columns.items():
            detectors.see_tensors(step, signal, names, column)

    calls = Counter()

    def count(frame, event, argument):
        calls[event] += 1

    ten_steps()
    sys.setprofile(count)
    try:
        ten_steps()
    finally:
        sys.setprofile(None)
    assert (calls["call"] + calls["c_call"]) / 10 < 100
