"""The parts of the manager work by themselves: each is made and asked without the others."""

import math

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.first_nan.finder import FirstNaNFinder
from stability import GradientClippingConfig, NaNHandlingConfig
from stability.clipping.clipper import make_clipper
from stability.emission import StabilityEmission
from stability.gradients.measure import collect_gradients
from stability.handling.faults import FaultHandling
from stability.monitoring.anomalies import find_anomalies
from stability.monitoring.score import StabilityScore


@pytest.fixture
def model():
    """Two weights with the gradients 3 and 4."""
    model = nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    return model


def test_a_clipper_measures_clips_and_tells(model):
    clipper = make_clipper(GradientClippingConfig(max_norm=1.0))
    gradients = collect_gradients(model)
    norms = clipper.measure(gradients, 0.5)
    stats = clipper.stats(clipper.clip(gradients, norms), outside_optimizer=2, outside_model=0)

    assert norms.each == [norms.total] == [stats["total_norm"]] == [5.0]
    assert stats["clipped"]
    assert stats["clip_coefficient"] == pytest.approx(0.2)
    assert stats["parameters_outside_optimizer"] == 2
    torch.testing.assert_close(model.weight.grad, torch.tensor([[0.6, 0.8]]))


@pytest.mark.parametrize(("handling", "finite"), [("replace", True), ("skip", False)])
def test_fault_handling_examines_and_handles(model, handling, finite):
    model.weight.grad[0, 0] = math.nan
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    faults = FaultHandling(NaNHandlingConfig(handling_type=handling), None)
    gradients = collect_gradients(model)
    norms = make_clipper(GradientClippingConfig()).measure(gradients, 0.5)
    stats = faults.examine(model, gradients, norms, scaling=False)

    assert faults.handle(model, optimizer, gradients, stats, number=7, scaling=False) is finite
    assert (stats["nan_count"], stats["action"]) == (1, {"replace": "replaced", "skip": "skipped"}[handling])
    assert [anomaly["kind"] for anomaly in find_anomalies(7, 0.5, stats, norms.total, 1)] == ["nan_gradient"]
    assert StabilityScore().rate(stats, norms.total) == 0.0


def test_a_series_is_left_to_who_emits_it_to_the_same_place(model):
    emitter = MemoryEmitter()
    emission = StabilityEmission(emitter, None, 1)
    gradients = collect_gradients(model)

    emission.leave_to(emitter, ["histograms"])
    emission.histograms(gradients, None, 0)
    emission.leave_to(MemoryEmitter(), ["histograms"])
    emission.histograms(gradients, None, 1)
    emission.leave_to(None)
    emission.histograms(gradients, None, 2)

    assert [(item.name, item.step) for item in emitter.artifacts] == [
        ("stability/gradients/weight", 1),
        ("stability/gradients/weight", 2),
    ]


def test_a_finder_is_asked_with_what_is_known_of_a_step():
    model = nn.Sequential(nn.Linear(2, 1), nn.ReLU())

    def replay():
        return model(torch.zeros(1, 2)).mul(math.inf).mean()

    with FirstNaNFinder(model, to_terminal=False, only_with_replay=True) as finder:
        assert finder.look(0, 1.0, loss_is_finite=True, finite=True, replay=replay) is None
        assert finder.look(1, math.nan, loss_is_finite=False, finite=False) is None
        assert finder.look(2, math.nan, loss_is_finite=False, finite=False, is_ours=False, replay=replay) is None
        answer = finder.look(3, math.nan, loss_is_finite=False, finite=False, replay=replay)

    assert (answer.step, answer.origin.operator) == (3, "aten::mul")
    assert finder.found == [answer]
