"""What is recorded never holds a loss scale, whether or not the loop has unscaled, and the scaler is not affected."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from debuggers.gradients.loss_scale import measure_unscaled, overflow_is_expected, scale_in_gradients
from debuggers.measurement.measure import summarize


def trained(scale, **options):
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **options)
    scaler = GradScaler("cpu", init_scale=scale)
    scaler.scale(model(torch.randn(8, 6)).square().sum()).backward()
    return model, optimizer, scaler


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


def as_torch_unscales(model, scaler):
    """Copies of the gradients, unscaled by torch itself."""
    copies = [nn.Parameter(parameter.detach().clone()) for parameter in model.parameters()]
    for one, gradient in zip(copies, gradients(model), strict=True):
        one.grad = gradient.clone()
    optimizer = torch.optim.SGD(copies)
    copied = GradScaler("cpu", init_scale=float(scaler.get_scale()))
    copied.scale(torch.zeros(()))
    copied.unscale_(optimizer)
    return [one.grad for one in copies]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one.bins.tolist(), one.counts.tolist()) == (other.bins.tolist(), other.counts.tolist())
        assert (one.min, one.max, one.count) == (other.min, other.max, other.count)
        assert one.mean == pytest.approx(other.mean, rel=1e-12, abs=1e-15)
        assert one.m2 == pytest.approx(other.m2, rel=1e-12)
        assert one.l1 == pytest.approx(other.l1, rel=1e-12)


@pytest.mark.parametrize("scale", [65536.0, 2.0**-3, 1.0, 1000.0, 3.7])
def test_scaled_gradients_are_measured_as_torch_would_unscale_them_and_are_left_alone(scale):
    model, optimizer, scaler = trained(scale)
    before = [gradient.clone() for gradient in gradients(model)]
    measured = measure_unscaled(gradients(model), scale_in_gradients(scaler, optimizer))
    assert_same(measured.resolve(), summarize(as_torch_unscales(model, scaler)))
    assert all(torch.equal(one, other) for one, other in zip(gradients(model), before, strict=True))


def test_after_unscale_and_after_the_step_there_is_no_scale():
    _, optimizer, scaler = trained(1024.0)
    assert scale_in_gradients(scaler, optimizer) == 1024
    assert scale_in_gradients(scaler, None) == 1024
    scaler.unscale_(optimizer)
    assert scale_in_gradients(scaler, optimizer) is None
    assert scale_in_gradients(scaler, None) is None
    scaler.step(optimizer)
    assert scale_in_gradients(scaler, optimizer) is None
    scaler.update()
    assert scale_in_gradients(scaler, optimizer) == 1024


def test_asking_changes_nothing_in_the_scaler():
    _, optimizer, scaler = trained(1024.0)
    before = scaler.state_dict()
    scale_in_gradients(scaler, optimizer)
    overflow_is_expected(scaler, optimizer)
    assert scaler.state_dict() == before
    assert not scaler._per_optimizer_states


def test_a_scaler_that_is_off_or_was_never_used_scales_nothing():
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters())
    assert scale_in_gradients(GradScaler("cpu", enabled=False), optimizer) is None
    assert scale_in_gradients(GradScaler("cpu"), optimizer) is None
    assert scale_in_gradients(None, optimizer) is None
    assert scale_in_gradients(None, None) is None


@pytest.mark.parametrize("unscaled_by_the_loop", [False, True])
def test_a_fused_optimizer_has_its_scale_inside_its_step(unscaled_by_the_loop):
    model, optimizer, scaler = trained(512.0, fused=True)
    expected = summarize(as_torch_unscales(model, scaler))
    seen = []

    def look(optimizer, *_):
        seen.append(overflow_is_expected(None, optimizer))
        seen.append(list(measure_unscaled(gradients(model), scale_in_gradients(None, optimizer)).resolve()))

    optimizer.register_step_pre_hook(look)
    if unscaled_by_the_loop:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    expecting, found = seen
    assert expecting
    assert_same(found, expected)
    assert not overflow_is_expected(None, optimizer)


@pytest.mark.parametrize("scale", [1024.0, 1000.0])
def test_sparse_gradients_are_unscaled_too(scale):
    embedding = nn.Embedding(10, 4, sparse=True)
    embedding(torch.tensor([1, 1, 7])).sum().mul(scale).backward()
    [found] = measure_unscaled([embedding.weight.grad], torch.tensor(scale)).resolve()
    assert (found.count, found.max) == (8, pytest.approx(2.0, rel=1e-6))
    assert embedding.weight.grad._values().unique().tolist() == [scale]


def test_what_the_scale_kept_from_underflow_in_float16_does_not_underflow():
    gradient = torch.full((4,), 6e-8 * 1000, dtype=torch.float16)
    [found] = measure_unscaled([gradient], torch.tensor(1000.0)).resolve()
    assert found.zero == 0
    assert np.isclose(found.max, gradient[0].item() / 1000, rtol=1e-6)


def test_many_large_gradients_are_copied_in_turn():
    tensors = [torch.full((3 << 20,), float(value)) for value in (3, 6, 9)]
    found = measure_unscaled(tensors, torch.tensor(3.0)).resolve()
    assert np.allclose(found.moment("mean"), [1, 2, 3])
