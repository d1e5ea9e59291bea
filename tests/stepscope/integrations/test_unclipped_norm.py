"""The norm before clipping is that of the gradients, whoever clips them, and costs no pass where torch computed it."""

import math

import pytest
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import stepscope
from stepscope.integrations import unclipped_norm
from stepscope.integrations.parts import Part
from stepscope.integrations.unclipped_norm import UnclippedNorm
from stepscope.integrations.watched_training import UNCLIPPED, WatchedTraining


@pytest.fixture
def probes(monkeypatch):
    """Which gradients were gone through: one entry for each time."""
    seen = []
    probe = unclipped_norm.probe_gradients

    def noted(gradients):
        seen.append(len(gradients))
        return probe(gradients)

    monkeypatch.setattr(unclipped_norm, "probe_gradients", noted)
    return seen


def recorded(folder, gradients, clip, *, by_trainer=True, dtype=torch.float32):
    """Returns what is recorded of a step for each gradient of a weight, which ``clip`` may change."""
    model = torch.nn.Linear(2, 1, bias=False, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    training = WatchedTraining("test", folder, sinks=[])
    training.watch([Part(model, optimizer)])
    norm = UnclippedNorm(optimizer, training, by_trainer=by_trainer)
    for gradient in gradients:
        model.weight.grad = torch.tensor([gradient], dtype=dtype)
        norm.see()
        clip(list(model.parameters()), 1.0)
        optimizer.step()
    norm.stop()
    training.end()
    with stepscope.read_run(folder) as record:
        series = record.scalars(UNCLIPPED)
        return series.steps.tolist(), series.values.tolist()


GRADIENTS = [[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]]


def test_what_torch_computed_is_taken_after_the_first_step(tmp_path, probes):
    assert recorded(tmp_path / "run", GRADIENTS, clip_grad_norm_) == ([0, 1, 2], pytest.approx([5.0, 10.0, 0.5]))
    assert probes == [1]


@pytest.mark.parametrize("how", [{"clip": clip_grad_value_}, {"clip": clip_grad_norm_, "by_trainer": False}])
def test_otherwise_the_gradients_are_gone_through(tmp_path, probes, how):
    assert recorded(tmp_path / "run", GRADIENTS, **how) == ([0, 1, 2], pytest.approx([5.0, 10.0, 0.5]))
    assert probes == [1, 1, 1]


def test_a_step_that_is_not_clipped_after_all_costs_its_norm_and_no_other(tmp_path):
    turns = iter([True, False, True, True])

    def clip(parameters, limit):
        if next(turns):
            clip_grad_norm_(parameters, limit)

    steps, values = recorded(tmp_path / "run", [*GRADIENTS, [0.0, 2.0]], clip)
    assert (steps, values) == ([0, 2, 3], pytest.approx([5.0, 0.5, 2.0]))


def test_the_clipping_of_another_model_is_not_taken_for_it(tmp_path):
    other = torch.nn.Linear(2, 1)
    other.weight.grad = torch.full((1, 2), 100.0)

    def clip(parameters, limit):
        clip_grad_norm_(parameters, limit)
        clip_grad_norm_(other.parameters(), limit)

    assert recorded(tmp_path / "run", GRADIENTS, clip)[1] == pytest.approx([5.0, 10.0, 0.5])


@pytest.mark.parametrize(
    ("gradient", "dtype", "expected"),
    [
        ([math.nan, 1.0], torch.float32, math.nan),
        ([math.inf, 1.0], torch.float32, math.nan),
        ([3e25, 4e25], torch.float32, 5e25),  # squares beyond float32
        ([3e-25, 4e-25], torch.float32, 5e-25),
        ([0.0, 0.0], torch.float32, 0.0),
        ([30000.0, 40000.0], torch.float16, 50000.0),  # torch's own norm is rounded to float16
        ([3.0, 4.0], torch.float64, 5.0),
    ],
)
def test_any_gradient_has_its_norm(tmp_path, gradient, dtype, expected):
    _, values = recorded(tmp_path / "run", [[1.0, 1.0], gradient], clip_grad_norm_, dtype=dtype)
    assert values == pytest.approx([math.sqrt(2), expected], rel=0.01, nan_ok=True)
