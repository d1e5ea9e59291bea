"""Parameters that are exchanged, added or frozen in mid-training: the manager decides on the gradients of now."""

import math
import warnings
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.nn.utils.prune import l1_unstructured

import stepscope
from debuggers.measurement.measure import measure
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 3), nn.Linear(3, 2, bias=False)
        self.extra = None

    def forward(self, inputs):
        outputs = self.head(self.body(inputs))
        return outputs if self.extra is None else outputs + self.extra(inputs)


def exchange(model, optimizer):
    model.head = nn.Linear(3, 2, bias=False)
    optimizer.param_groups[0]["params"] = list(model.parameters())


def add_group(model, optimizer):
    model.extra = nn.Linear(4, 2)
    optimizer.add_param_group({"params": model.extra.parameters()})


def load(model, optimizer):
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
    optimizer.param_groups[0]["params"] = list(model.parameters())


def prune(model, optimizer):
    l1_unstructured(model.head, "weight", amount=0.5)


def freeze(model, optimizer):
    model.body.requires_grad_(requires_grad=False)


@contextmanager
def steps_of(way, model, optimizer, manager):
    if way == "manager":
        yield lambda loss: manager.step(model, loss, optimizer)
        return
    config = stepscope.DebugConfig(max_overhead=None)
    with stepscope.DebugSession(model, optimizer, stability=manager, config=config) as session:
        yield session.step


@pytest.mark.parametrize(
    ("change", "way"),
    [
        (exchange, "manager"),
        (add_group, "session"),
        (load, "manager"),
        (prune, "session"),
        (freeze, "manager"),
        pytest.param(exchange, "session", marks=pytest.mark.slow),
        pytest.param(add_group, "manager", marks=pytest.mark.slow),
        pytest.param(load, "session", marks=pytest.mark.slow),
        pytest.param(prune, "manager", marks=pytest.mark.slow),
        pytest.param(freeze, "session", marks=pytest.mark.slow),
    ],
)
def test_norm_clipping_and_skipping_are_of_the_gradients_of_now(change, way):
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    config = NaNHandlingConfig(handling_type="skip")
    manager = NumericalStabilityManager(GradientClippingConfig(max_norm=1.0), config)
    with steps_of(way, model, optimizer, manager) as step:
        for number in range(8):
            if number == 3:
                change(model, optimizer)
            optimizer.zero_grad()
            loss = (model(torch.randn(16, 4)) * (10.0 if number >= 4 else 0.1)).square().mean()
            loss.backward()
            gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
            if number == 6:
                gradients[list(gradients)[-1]].view(-1)[0] = math.nan
            expected = torch.nn.utils.get_total_norm(gradients.values()).item()

            result = step(loss)

            assert result["nan_stats"]["gradients_finite"] == (number != 6)
            if number == 6:
                assert result["nan_stats"]["action"] == "skipped"
            else:
                assert result["clipping_stats"]["total_norm"] == pytest.approx(expected, rel=1e-6)
                after = torch.nn.utils.get_total_norm(gradients.values()).item()
                assert after == pytest.approx(min(expected, 1.0), rel=1e-5)
            optimizer.step()

    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_a_layer_that_was_exchanged_behind_the_optimizers_back_is_told():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig())
    strangers = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(4):
            if number == 2:
                model.head = nn.Linear(3, 2, bias=False)
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            stats = manager.step(model, loss, optimizer)["clipping_stats"]
            strangers.append((stats["parameters_outside_optimizer"], stats["parameters_outside_model"]))

    assert strangers == [(0, 0), (0, 0), (1, 1), (1, 1)]
    assert len(caught) == 1
    assert "1 of the optimizer's 3 parameters are not in Model" in str(caught[0].message)


def test_summaries_of_other_gradients_are_refused_by_name():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    summaries = measure([model.body.bias.grad, model.body.weight.grad, model.head.weight.grad]).resolve()
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig())

    with pytest.raises(ValueError, match=r"summary of body\.weight is of 3 elements and its gradient has 12"):
        manager.step(model, loss, optimizer, summaries=summaries)


def test_snapshots_from_before_a_layer_was_exchanged_are_not_put_back():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    config = NaNHandlingConfig(handling_type="restore", snapshot_every=1)
    manager = NumericalStabilityManager(GradientClippingConfig(), config)
    actions = []
    for number in range(8):
        if number == 4:
            model.head = nn.Linear(3, 5, bias=False)
            optimizer.param_groups[0]["params"] = list(model.parameters())
            head = model.head.weight.detach().clone()
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean() * (math.nan if number in (4, 7) else 1.0)
        loss.backward()
        actions.append(manager.step(model, loss, optimizer)["nan_stats"]["action"])
        optimizer.step()
        if number == 4:
            assert torch.equal(model.head.weight, head)

    assert actions == ["none"] * 4 + ["skipped", "none", "none", "restored"]
    assert model.head.weight.shape == (5, 3)
