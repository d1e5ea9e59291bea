"""Gradients that were measured already need no second pass, and what is clipped stays the same to the bit."""

import math

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.measurement.measure import measure
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, StabilityError


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    loss = model(torch.randn(8, 6)).square().mean()
    loss.backward()
    return model, loss, torch.optim.SGD(model.parameters())


def summaries(model):
    return measure([p.grad for p in model.parameters() if p.grad is not None]).resolve()


def step(model, loss, optimizer, *, shared, emitter=None, histogram_every=None, **clipping):
    manager = NumericalStabilityManager(
        GradientClippingConfig(**clipping), NaNHandlingConfig(), emitter=emitter, histogram_every=histogram_every
    )
    return manager.step(model, loss, optimizer, summaries=summaries(model) if shared else None)


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


# The total norm is about 0.25: far below, just below, just above, and far above the bound.
@pytest.mark.parametrize("max_norm", [100.0, "equal", 1e-3])
@pytest.mark.parametrize("norm_type", [2.0, math.inf, 1.0])
def test_gradients_are_clipped_to_the_bit_as_without_sharing(max_norm, norm_type):
    model, loss, optimizer = network()
    if max_norm == "equal":
        max_norm = float(torch.nn.utils.get_total_norm(gradients(model), norm_type))
    own = step(model, loss, optimizer, shared=False, max_norm=max_norm, norm_type=norm_type)
    expected = gradients(model)
    model, loss, optimizer = network()

    shared = step(model, loss, optimizer, shared=True, max_norm=max_norm, norm_type=norm_type)

    assert all(torch.equal(one, other) for one, other in zip(expected, gradients(model), strict=True))
    assert own["clipping_stats"]["clip_coefficient"] == shared["clipping_stats"]["clip_coefficient"]
    assert own["clipping_stats"]["total_norm"] == pytest.approx(shared["clipping_stats"]["total_norm"], rel=1e-6)
    assert own["loss"] == shared["loss"]


def test_a_gradient_with_nan_is_named_as_without_sharing():
    model, loss, optimizer = network()
    model[2].weight.grad[0, 0] = math.nan

    result = step(model, loss, optimizer, shared=True, max_norm=100.0)

    assert [fault["name"] for fault in result["nan_stats"]["parameters"]] == ["2.weight"]


def test_histograms_are_those_that_were_measured():
    model, loss, optimizer = network()
    shared, own = MemoryEmitter(), MemoryEmitter()

    step(model, loss, optimizer, shared=True, emitter=shared, histogram_every=1, max_norm=100.0)
    step(model, loss, optimizer, shared=False, emitter=own, histogram_every=1, max_norm=100.0)

    def histograms(emitter):
        found = [artifact for artifact in emitter.artifacts if artifact.kind == "histogram"]
        return [(item.name, item.bins.tolist(), item.counts.tolist(), item.mean) for item in found]

    assert len(histograms(shared)) == 4
    assert histograms(shared) == histograms(own)


def test_summaries_of_other_gradients_are_refused():
    model, loss, optimizer = network()
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig())

    with pytest.raises(StabilityError, match="summaries of 1 gradients; expected 4"):
        manager.step(model, loss, optimizer, summaries=measure([torch.ones(3)]).resolve())


@pytest.mark.slow
@pytest.mark.parametrize(
    "clipping",
    [
        {"clipping_type": "norm", "max_norm": 0.5},
        {"clipping_type": "value", "clip_value": 0.01},
        {"clipping_type": "global_norm", "max_norm": 0.5},
        {"clipping_type": "adaptive", "adaptive_factor": 1.01},
        {"clipping_type": "exponential", "exponential_factor": 1.01},
        {"clipping_type": "layer_wise", "layer_thresholds": {"*": 0.2}},
        {"clipping_type": "percentile", "percentile": 90.0},
        {"clipping_type": "agc"},
    ],
    ids=lambda clipping: clipping["clipping_type"],
)
def test_a_training_has_the_same_bits_whichever_of_its_steps_are_shared(clipping):
    def train(is_shared):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        manager = NumericalStabilityManager(GradientClippingConfig(**clipping), NaNHandlingConfig())
        clipped = []
        for number in range(60):
            optimizer.zero_grad()
            loss = (model(torch.randn(8, 6)) - 1).square().mean()
            loss.backward()
            given = summaries(model) if is_shared(number) else None
            stats = manager.step(model, loss, optimizer, summaries=given)["clipping_stats"]
            clipped.append(stats["clip_coefficient"])
            optimizer.step()
        return clipped, [parameter.detach() for parameter in model.parameters()]

    alone = train(lambda number: False)
    shared = train(lambda number: number % 3 == 0)

    assert min(alone[0]) < 1
    assert alone[0] == shared[0]
    assert all(map(torch.equal, alone[1], shared[1]))
