"""What a user says of coming sessions is checked at once, and all ranks stop together."""

import subprocess
import sys
import textwrap
import threading

import pytest
import torch
from torch import nn

import stepscope
from debuggers.conditional_hooks.control import TrainingControl
from debuggers.detectors import SignalDetector
from stepscope.integrations.parts import parts_of
from stepscope.integrations.session_options import SessionOptions
from stepscope.integrations.watched_training import WatchedTraining


class LargeLoss(SignalDetector):
    kind, level, signals = "large_loss", "warning", frozenset({"loss"})
    rule, evidence = "loss > limit", "{value} > {threshold}"

    def check(self, step, signal, value):
        return (value, 1.0) if value > 1 else None


def trained(training, *, steps=4, lr=0.0):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    training.watch(parts_of(model, [optimizer], is_called=True))
    for step in range(steps):
        optimizer.zero_grad()
        (model(torch.ones(4, 2)).sum() * 0 + step).backward()
        optimizer.step()
        if training.should_stop():
            return step
    return None


class Locked(LargeLoss):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"settings": {"confg": "full"}}, stepscope.ConfigError, "confg"),
        ({"detectors": LargeLoss()}, stepscope.SessionError, "expected a list of detectors"),
        ({"detectors": [3]}, stepscope.SessionError, "3 is no Detector"),
        ({"detectors": [Locked()]}, stepscope.SessionError, "Locked cannot be copied .*; expected detectors that"),
        ({"detectors": [LargeLoss()], "config": {"diagnosis": False}}, stepscope.SessionError, "diagnosis=False"),
        ({"on_finding": "stop"}, stepscope.SessionError, "on_finding is 'stop'; expected a mapping"),
        ({"on_finding": {"error": "halt"}}, stepscope.SessionError, "'error' has 'halt'; expected a function"),
        (
            {"on_finding": {"gradients_zeroed": "stop"}},
            stepscope.SessionError,
            "'gradients_zeroed' is judged over",
        ),
        ({"on_finding": {"non_finite_los": "stop"}}, stepscope.SessionError, "did you mean 'non_finite_loss'"),
        (
            {"on_finding": {"large_los": "stop"}, "detectors": [LargeLoss()]},
            stepscope.SessionError,
            "did you mean 'large_loss'",
        ),
    ],
)
def test_what_is_wrong_is_said_before_a_training(given, error, message):
    with pytest.raises(error, match=message):
        SessionOptions.checked(**given)


def test_each_training_has_rules_that_have_seen_nothing(tmp_path):
    rule, events = LargeLoss(), []
    options = SessionOptions.checked(detectors=[rule], on_finding={"large_loss": [events.append, "stop"]})
    for name in ("first", "second"):
        training = WatchedTraining("any", tmp_path / name, options=options)
        assert trained(training) == 2
        training.end()
    assert [(event.step, event.finding.kind) for event in events] == [(2, "large_loss")] * 2
    assert rule.findings() == []


def test_without_an_action_that_stops_no_rank_is_asked(monkeypatch):
    monkeypatch.setattr("stepscope.integrations.session_options.asked_on_any_rank", lambda asked: 1 / 0)
    control = TrainingControl()
    control.stop("test")
    assert not SessionOptions.checked(on_finding={"error": ["log", "raise"]}).asks_to_stop([control])
    with pytest.raises(ZeroDivisionError):
        SessionOptions.checked(on_finding={"error": ["log", "stop"]}).asks_to_stop([])


RANK = """
import sys
import torch
from debuggers.conditional_hooks.control import TrainingControl
from stepscope.integrations.session_options import SessionOptions
rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
options = SessionOptions.checked(on_finding={"error": "stop"})
told, quiet = TrainingControl(), TrainingControl()
told.stop("test")
print([options.asks_to_stop([quiet, told if asked else quiet]) for asked in (False, rank == 1, rank == 0, True)])
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_all_ranks_stop_where_one_is_asked_to(tmp_path):
    commands = [[sys.executable, "-c", textwrap.dedent(RANK), str(rank), str(tmp_path / "meeting")] for rank in (0, 1)]
    ranks = [subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for one in commands]
    told = [one.communicate(timeout=120) for one in ranks]
    assert [out.strip() for out, _ in told] == ["[False, True, True, True]"] * 2, told
