"""A session hands signals to the rules, which leave a healthy training's verdict and its bits alone."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from tracker_adapters.artifacts import Alert
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.detectors import Detector, ExplodingGradient, SignalDetector
from debuggers.detectors.layers import VarianceBounds
from stepscope.diagnosing.stored_evidence import stored_evidence

NEW = {"all_zero", "dead_units", "poor_initialization", "saturated_units", "overfitting"}


class HighAccuracy(SignalDetector):
    kind = "high_accuracy"
    level = "info"
    signals = frozenset({"val_accuracy"})
    rule = "accuracy > 0.9"
    evidence = "the accuracy {value} is above {threshold}"

    def check(self, step, signal, value):
        return (value, 0.9) if value > 0.9 else None


class Broken(HighAccuracy):
    kind = "broken"
    signals = frozenset({"loss"})

    def check(self, step, signal, value):
        raise ZeroDivisionError("a fault of the rule")


class OfNorms(Detector):
    kind = "of_norms"
    level = "info"
    statistics = frozenset({"norm"})
    judged = "norm"
    rule = evidence = "none"
    worst = np.fmax

    def check(self, observation):
        return observation.present, 0.0


def train(model, *, steps=12, offset=0.0, metrics=None, loss_of=None, **options):
    """Trains a model on two features; returns the session, and the losses and weights as bytes."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    with stepscope.DebugSession(model, optimizer, **options) as session:
        for _ in range(steps):
            optimizer.zero_grad()
            x = torch.randn(64, 2) + offset
            loss = (loss_of or (lambda out, x: (out - x[:, :1]).square().mean()))(model(x), x)
            loss.backward()
            session.step(loss, metrics=metrics)
            optimizer.step()
            losses.append(loss.detach().numpy().tobytes())
    return session, (losses, [one.detach().numpy().tobytes() for one in model.parameters()])


def sound():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))


def dead():
    model = sound()
    with torch.no_grad():
        model[0].bias.fill_(-100.0)
    return model


def kinds_of(session):
    return {finding.kind for finding in session.report().findings}


def alerts_of(emitter):
    return {item.name for item in emitter.artifacts if isinstance(item, Alert)}


def test_a_problem_is_in_the_report_and_an_alert():
    emitter = MemoryEmitter()
    session, _ = train(dead(), run=emitter)
    (finding,) = [one for one in session.report().findings if one.kind == "all_zero"]
    assert (finding.name, finding.step, finding.steps, finding.level) == ("1", 0, 11, "warning")
    assert {"all_zero", "dead_units"} <= alerts_of(emitter)
    assert [item.step for item in emitter.artifacts if isinstance(item, Alert) and item.name == "all_zero"] == [4]


def test_what_is_only_told_is_in_the_report_and_no_alert():
    emitter = MemoryEmitter()
    session, _ = train(sound(), offset=1.0, run=emitter)
    assert "off_centre_inputs" in kinds_of(session)
    assert not alerts_of(emitter)
    assert not session.report().verdict.found


def test_what_comes_again_and_again_is_one_finding_behind_the_problems():
    class Peaks(HighAccuracy):
        kind = "peaks"
        signals = frozenset({"peak"})

    class Late(HighAccuracy):
        kind = "late"
        level = "warning"
        signals = frozenset({"late"})

    class Many(HighAccuracy):
        level = "info"

    others = []
    for number in range(12):
        rule = type(f"Many{number}", (Many,), {"kind": f"many_{number}", "signals": frozenset({"peak"})})
        others.append(rule())
    torch.manual_seed(0)
    model = sound()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, detectors=[Peaks(), Late(), *others]) as session:
        for step in range(60):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 2)).square().mean()
            loss.backward()
            metrics = {"peak": 1.0 + step if step % 20 == 5 else 0.0, "late": 1.0 if step == 50 else 0.0}
            session.step(loss, metrics=metrics)
            optimizer.step()
    report = session.report()
    (peaks,) = [one for one in report.findings if one.kind == "peaks"]
    assert (peaks.step, peaks.last_step, peaks.steps, peaks.value) == (5, 45, 3, 46.0)
    (problem, notes) = [line for line in report.summary().splitlines() if "late" in line or "peaks" in line][-2:]
    assert problem.startswith("late: ")
    assert notes.startswith("Notes, not problems by themselves: ")
    assert "many_11 (1), " in notes and "peaks (1)" in notes


def test_the_store_has_each_finding_once(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(dead(), offset=1.0, run=run)
    found = [(one.kind, one.name) for one in stored_evidence(stepscope.read_run(tmp_path / "run")).findings]
    assert ("off_centre_inputs", "inputs/mean") in found
    assert found.count(("all_zero", "1")) == 1
    assert len(found) == len(set(found))


def test_training_is_the_same_to_the_bit():
    _, plain = train(dead(), config=stepscope.DebugConfig(diagnosis=False))
    _, watched = train(dead(), detectors=[VarianceBounds(highest=1e-9), Broken()])
    assert watched == plain


def test_detectors_of_the_user_see_signals_and_metrics_and_are_told_whatever_their_level():
    emitter = MemoryEmitter()
    detectors = [VarianceBounds(highest=1e-9), HighAccuracy()]
    session, _ = train(sound(), detectors=detectors, metrics={"val_accuracy": 0.95, "other": 3.0}, run=None)
    assert {"variance_out_of_bounds", "high_accuracy"} <= kinds_of(session)
    train(sound(), detectors=[HighAccuracy()], metrics={"val_accuracy": 0.95}, run=emitter)
    assert alerts_of(emitter) == {"high_accuracy"}


@pytest.mark.parametrize(
    ("signal", "gap"),
    [
        ("val_accuracy", None),
        ("update_ratio", None),
        ("accuracy", "the detector 'high_accuracy' has seen no 'accuracy'"),
        ("acuracy", "the detector 'high_accuracy' has seen no 'acuracy'; did you mean 'accuracy'?"),
        ("no_such", "the detector 'high_accuracy' has seen no 'no_such'"),
    ],
)
def test_a_signal_of_a_detector_that_never_came_is_a_gap(signal, gap):
    detector = HighAccuracy()
    detector.signals = frozenset({signal})
    session, _ = train(sound(), detectors=[detector], metrics={"val_accuracy": 0.5})
    told = [one for one in session.report().verdict.gaps if "the detector" in one]
    assert told == ([gap] if gap else [])


class Recurrence(torch.nn.Module):
    """Its state is zero at first, and so is what ``keep`` makes of it in its first call."""

    def __init__(self):
        super().__init__()
        self.read, self.keep, self.out = torch.nn.Linear(2, 4), torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 1)

    def forward(self, inputs):
        state = torch.zeros(len(inputs), 4)
        for _ in range(3):
            state = torch.tanh(self.read(inputs) + self.keep(state))
        return self.out(state)


def test_a_state_that_begins_at_zero_is_no_output_of_zeros():
    session, _ = train(Recurrence())
    assert {"read", "keep"}.isdisjoint(session.evidence().tensors["output_zeros"])
    assert "all_zero" not in kinds_of(session)


def test_watch_takes_them_too():
    model = sound()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer, detectors=[VarianceBounds(highest=1e-9)]) as session:
        model(torch.randn(4, 2)).sum().backward()
        optimizer.step()
    assert "variance_out_of_bounds" in kinds_of(session)


def test_a_detector_that_raises_is_a_failure_of_the_session_and_the_others_go_on(caplog):
    session, _ = train(dead(), detectors=[Broken()])
    report = session.report()
    assert report.failures == {"the detector 'broken': ZeroDivisionError": 1}
    assert "all_zero" in kinds_of(session)
    assert caplog.text.count("the detector 'broken' failed") == 1


@pytest.mark.parametrize("functional", [False, True])
def test_only_inner_layers_may_not_saturate(functional):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.tanh, self.out = nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)
            self.sigmoid = torch.sigmoid if functional else nn.Sigmoid()
            with torch.no_grad():
                self.inner.weight.mul_(1e4)
                self.out.bias.fill_(50.0)

        def forward(self, x):
            return self.sigmoid(self.out(self.tanh(self.inner(x)))).squeeze(-1)

    session, _ = train(Model(), loss_of=lambda out, x: out.mean())
    found = {one.name for one in session.report().findings if one.kind == "saturated_units"}
    assert "tanh" in found
    assert found <= {"tanh", "inner"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (VarianceBounds(), "expected a list of detectors"),
        ([VarianceBounds], "no SignalDetector; expected an instance"),
        (["loss_spike"], "'loss_spike' is no Detector"),
        ([OfNorms()], "the detector 'of_norms' needs norm; expected one of the signals of tensors"),
        ([ExplodingGradient()], "needs non_finite, norm"),
    ],
)
def test_what_is_no_detector_of_signals_is_refused(given, message):
    with pytest.raises(stepscope.SessionError, match=re.escape(message)):
        stepscope.DebugSession(sound(), detectors=given)


def test_detectors_need_a_model_and_its_signals():
    with pytest.raises(stepscope.SessionError, match="diagnosis=False"):
        stepscope.DebugSession(sound(), config=stepscope.DebugConfig(diagnosis=False), detectors=[HighAccuracy()])
    with pytest.raises(stepscope.SessionError, match="no model"):
        stepscope.DebugSession(detectors=[HighAccuracy()])
