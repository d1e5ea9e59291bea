"""What is not finite: named, counted, told once an episode, and a GradScaler's own overflow left in peace."""

import logging
import math

import pytest
import torch
from torch import nn
from tracker_adapters.artifacts import Alert
from tracker_adapters.testing import MemoryEmitter

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager


@pytest.fixture
def emitter():
    return MemoryEmitter()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def manager(emitter=None, **keywords):
    return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), emitter=emitter, **keywords)


def fill_gradients(model):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)


def step(stability, model, loss=0.5):
    return stability.step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1))


def alerts(emitter):
    return [artifact for artifact in emitter.artifacts if isinstance(artifact, Alert)]


def test_parameters_with_nan_or_infinities_are_named_and_counted(model, emitter):
    fill_gradients(model)
    model[0].weight.grad[1, :2] = math.nan
    model[2].bias.grad[0] = -math.inf

    stats = step(manager(emitter), model)["nan_stats"]

    assert stats["parameters"] == [
        {"name": "0.weight", "aliases": [], "nan": 2, "inf": 0, "elements": 12},
        {"name": "2.bias", "aliases": [], "nan": 0, "inf": 1, "elements": 2},
    ]
    assert (
        stats["nan_count"],
        stats["inf_count"],
        stats["gradients_finite"],
        stats["loss_finite"],
    ) == (2, 1, False, True)
    (alert,) = alerts(emitter)
    assert (alert.name, alert.level, alert.step) == ("nan_gradient", "error", 0)
    assert alert.message == "2 of 4 gradients not finite: 0.weight (2 NaN of 12), 2.bias (1 inf of 2)"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("norm_type", [0.5, 1.0, 2.0, math.inf])
def test_one_nan_is_found_in_every_dtype_and_under_every_norm(dtype, norm_type):
    model = nn.Module()
    model.weight = nn.Parameter(torch.zeros(1000, dtype=dtype))
    model.weight.grad = torch.ones(1000, dtype=dtype)
    model.weight.grad[777] = math.nan
    stability = NumericalStabilityManager(GradientClippingConfig(norm_type=norm_type), NaNHandlingConfig())

    assert [fault["name"] for fault in step(stability, model)["nan_stats"]["parameters"]] == ["weight"]


def test_a_parameter_is_named_rightly_among_others_of_other_dtypes():
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
    for broken in range(12):
        model = nn.ParameterList(torch.ones(2, dtype=dtypes[number % 4]) for number in range(12))
        fill_gradients(model)
        model[broken].grad[1] = math.nan

        assert [fault["name"] for fault in step(manager(), model)["nan_stats"]["parameters"]] == [str(broken)]


def test_only_infinities_are_an_inf_gradient(model, emitter):
    fill_gradients(model)
    model[2].bias.grad[0] = math.inf

    step(manager(emitter), model)

    assert [alert.name for alert in alerts(emitter)] == ["inf_gradient"]


def test_a_tied_parameter_is_named_by_all_its_names(emitter):
    model = nn.ModuleDict({"encoder": nn.Linear(3, 3), "decoder": nn.Linear(3, 3)})
    model["decoder"].weight = model["encoder"].weight
    fill_gradients(model)
    model["encoder"].weight.grad[0, 0] = math.nan

    stats = step(manager(emitter), model)["nan_stats"]

    assert [(f["name"], f["aliases"]) for f in stats["parameters"]] == [("encoder.weight", ["decoder.weight"])]
    assert "encoder.weight = decoder.weight (1 NaN of 9)" in alerts(emitter)[0].message


def test_many_broken_parameters_are_counted_and_ten_are_named(emitter):
    model = nn.ModuleList(nn.Linear(1, 1) for _ in range(10))
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, math.nan)

    step(manager(emitter), model)

    assert alerts(emitter)[0].message.startswith("20 of 20 gradients not finite: 0.weight (1 NaN of 1), 0.bias")
    assert alerts(emitter)[0].message.endswith("4.bias (1 NaN of 1) and 10 more")


@pytest.mark.parametrize(("loss", "kind"), [(math.nan, "nan_loss"), (math.inf, "inf_loss"), (-math.inf, "inf_loss")])
def test_a_non_finite_loss_is_an_alert_of_its_own(model, emitter, loss, kind):
    fill_gradients(model)

    result = step(manager(emitter), model, torch.tensor(loss))

    assert not result["nan_stats"]["loss_finite"]
    assert result["stability_score"] == 0.0
    assert [kind] == [alert.name for alert in alerts(emitter)]


def test_an_episode_is_told_once_and_a_new_one_again(model, emitter, caplog):
    stability = manager(emitter)
    with caplog.at_level(logging.INFO, logger="stability"):
        for poisoned in (True, True, False, True):
            fill_gradients(model)
            if poisoned:
                model[0].bias.grad[0] = math.nan
            result = step(stability, model)
            assert poisoned == result["debug_info"]["anomalies_detected"]

    assert [alert.step for alert in alerts(emitter)] == [0, 3]
    assert sum("nan_gradient" in record.message for record in caplog.records) == 2
    assert stability.get_debug_summary()["anomalies_by_kind"] == {"nan_gradient": 3}


class TestGradScaler:
    """A GradScaler on the CPU: unscaling, its own overflow, and a fault that it cannot be blamed for."""

    def run(self, *, steps=1, poison=None, unscale_first=False, init_scale=2.0**16, emitter=None):
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
        stability = manager(emitter, scaler=scaler)
        results = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 3)).square().mean()
            scaler.scale(loss).backward()
            if poison is not None:
                model.weight.grad[0, 0] = poison
            if unscale_first:
                scaler.unscale_(optimizer)
            results.append(stability.step(model, loss, optimizer))
            scaler.step(optimizer)
            scaler.update()
        return model, results

    def plain(self):
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 3)).square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        return model, norm

    @pytest.mark.parametrize("unscale_first", [False, True])
    def test_gradients_are_unscaled_before_they_are_measured_and_clipped(self, unscale_first):
        expected, norm = self.plain()

        model, (result,) = self.run(unscale_first=unscale_first)

        assert norm == pytest.approx(result["clipping_stats"]["total_norm"], rel=1e-6)
        assert torch.allclose(expected.weight, model.weight, rtol=1e-6)

    @pytest.mark.parametrize("poison", [math.inf, math.nan])
    def test_its_own_overflow_is_recognised_and_not_alarmed(self, poison, emitter):
        _, results = self.run(steps=3, poison=poison, emitter=emitter)

        assert [result["nan_stats"]["scaler_step"] for result in results] == [True] * 3
        assert [result["stability_score"] for result in results] == [1.0] * 3
        assert alerts(emitter) == []

    def test_it_is_not_to_blame_when_the_loss_itself_is_not_finite(self, emitter):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        loss = model(torch.ones(2, 3)).mean() * math.nan
        scaler.scale(loss).backward()

        stats = manager(emitter, scaler=scaler).step(model, loss, optimizer)["nan_stats"]

        assert not stats["scaler_step"]
        assert [alert.name for alert in alerts(emitter)] == ["nan_loss", "nan_gradient"]

    def test_a_fault_that_outlasts_the_falling_scale_is_alarmed(self, emitter):
        _, results = self.run(steps=20, poison=math.nan, emitter=emitter)

        blamed = [result["nan_stats"]["scaler_step"] for result in results]
        assert blamed == [True] * 16 + [False] * 4
        assert [(alert.name, alert.step) for alert in alerts(emitter)] == [("nan_gradient", 16)]

    def test_a_disabled_scaler_counts_as_none(self, model, emitter):
        fill_gradients(model)
        model[0].bias.grad[0] = math.nan

        step(manager(emitter, scaler=torch.amp.GradScaler("cpu", enabled=False)), model)

        assert [alert.name for alert in alerts(emitter)] == ["nan_gradient"]

    def test_unscaling_after_the_step_is_the_callers_error(self):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(model(torch.ones(2, 3)).mean()).backward()
        scaler.step(optimizer)

        with pytest.raises(RuntimeError, match="after step"):
            manager(scaler=scaler).step(model, 0.5, optimizer)
