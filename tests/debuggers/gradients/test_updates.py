"""Weights, their changes and the optimizer's state are those of a hand computation, and only of steps that happened."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from tracker_adapters.testing import MemoryEmitter

from debuggers.errors import DebuggerConfigError
from debuggers.gradients.debugger import GradientDebugger
from debuggers.measurement.measure import measure, summarize


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def batch():
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def watched(model, optimizer, **options):
    emitter = MemoryEmitter()
    options = {"gradients": False, "updates": True, "on_error": "raise"} | options
    return GradientDebugger(model, optimizer, emitter=emitter, **options), emitter


def watched_descent(**options):
    """A network that gradient descent trains, watched."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, *watched(model, optimizer, **options)


def backward(model):
    model.zero_grad()
    model(batch().to(model[0].weight.dtype)).square().sum().backward()


def values(emitter, kind="histogram", step=None):
    return {a.name: a for a in emitter.artifacts if a.kind == kind and step in (None, a.step)}


def assert_same(histogram, tensor):
    [expected] = summarize([tensor])
    assert histogram.bins.tolist() == expected.bins.tolist()
    assert histogram.counts.tolist() == expected.counts.tolist()
    assert (histogram.mean, histogram.m2) == pytest.approx((expected.mean, expected.m2), rel=1e-12)


@pytest.mark.parametrize("fused", [False, True])
def test_weights_updates_and_moments_are_those_around_the_optimizers_step(fused):
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=fused)
    debugger, emitter = watched(model, optimizer, weights=True, optimizer_state=True)
    for step in (0, 1):
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        backward(model)
        debugger.step(step)
        optimizer.step()
    debugger.close()
    histograms, scalars = values(emitter, step=1), values(emitter, "scalar", step=1)
    for name, parameter in model.named_parameters():
        weights = parameter.detach()
        change = weights - before[name]
        assert_same(histograms[f"weights/{name}"], weights)
        assert_same(histograms[f"updates/{name}"], change)
        assert_same(histograms[f"optimizer/exp_avg/{name}"], optimizer.state[parameter]["exp_avg"])
        assert_same(histograms[f"optimizer/exp_avg_sq/{name}"], optimizer.state[parameter]["exp_avg_sq"])
        ratio = change.double().norm() / (weights.double().norm() + 1e-9)
        assert scalars[f"update_ratio/{name}"].value == pytest.approx(ratio.item(), rel=1e-12)
        assert scalars[f"update_norm/{name}"].value == pytest.approx(change.double().norm().item(), rel=1e-12)
        series = debugger.history.series(name, "update_ratio")
        assert (series[0].tolist(), series[1][1]) == ([0, 1], pytest.approx(ratio.item(), rel=1e-12))
    assert {name.split("/")[0] for name in histograms} == {"weights", "updates", "optimizer"}
    assert not [name for name in histograms if "/step/" in name]


def test_momentum_of_sgd_and_nothing_where_the_optimizer_keeps_no_state():
    model = network()
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters(), "momentum": 0.9}, {"params": model[2].parameters()}], lr=0.1
    )
    debugger, emitter = watched(model, optimizer, updates=False, optimizer_state=True)
    backward(model)
    debugger.step(0)
    optimizer.step()
    debugger.close()
    assert {"optimizer/momentum_buffer/0.weight", "optimizer/momentum_buffer/0.bias"} == set(values(emitter))


def test_only_what_belongs_to_the_optimizer_and_has_a_gradient_is_measured():
    model = network()
    model[0].bias.requires_grad_(requires_grad=False)
    model[2].unused = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([*model[0].parameters(), model[2].bias, model[2].unused], lr=0.1)
    debugger, emitter = watched(model, optimizer)
    backward(model)
    debugger.step(0)
    optimizer.step()
    assert {"updates/0.weight", "updates/2.bias"} == set(values(emitter))


def test_tied_weights_are_measured_once():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger, emitter = watched(model, optimizer)
    model(torch.ones(1, 3)).sum().backward()
    before = model[0].weight.detach().clone()
    debugger.step(0)
    optimizer.step()
    assert {"updates/0.weight", "updates/0.bias", "updates/1.bias"} == set(values(emitter))
    assert_same(values(emitter)["updates/0.weight"], model[0].weight.detach() - before)


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_a_scaler_skips_is_counted_and_not_recorded(fused):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    scaler = GradScaler("cpu", init_scale=4.0)
    debugger, emitter = watched(model, optimizer, scaler=scaler)
    for step, spoil in enumerate((math.inf, 1.0, math.inf)):
        model.zero_grad()
        scaler.scale(model(batch()).square().sum() * spoil).backward()
        debugger.step(step)
        scaler.step(optimizer)
        scaler.update()
    debugger.close()
    assert {a.step for a in emitter.artifacts if a.name.startswith("updates")} == {1}
    assert debugger.skipped_updates == 2


def test_steps_that_were_not_announced_are_not_measured():
    model, optimizer, debugger, emitter = watched_descent()
    for step in range(6):
        backward(model)
        if step % 3 == 0:
            debugger.step(step)
        optimizer.step()
    debugger.close()
    assert {a.step for a in emitter.artifacts} == {0, 3}
    assert debugger.skipped_updates == 0


def test_a_step_that_is_left_out_is_not_taken_for_an_earlier_one_that_was_skipped():
    model, optimizer, debugger, emitter = watched_descent()
    backward(model)
    debugger.step(0)  # and the loop skips the optimizer's step
    debugger.leave_out()
    optimizer.step()
    debugger.close()
    assert not values(emitter, step=0)
    assert debugger.skipped_updates == 1


@pytest.mark.parametrize("kept", [slice(0, 3), slice(0, 1)])
def test_a_pruned_parameter_is_measured_in_its_new_shape(kept):
    weight = nn.Parameter(torch.randn(5, 5, generator=torch.Generator().manual_seed(0)))
    model = nn.ParameterDict({"weight": weight})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger, emitter = watched(model, optimizer)
    for step in range(2):
        optimizer.zero_grad()
        weight.square().sum().backward()
        debugger.step(step)
        before = weight.detach().clone()
        optimizer.step()
        if step == 0:
            weight.data = weight.detach()[kept].clone()
    assert_same(values(emitter, step=1)["updates/weight"], weight.detach() - before)


def test_copies_are_reused_while_the_parameters_stay_and_made_anew_when_they_change():
    model, optimizer, debugger, emitter = watched_descent()
    kept = []
    for step in range(3):
        backward(model)
        if step == 2:
            model[0].weight.grad = None
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        debugger.step(step)
        kept.append([tensor.data_ptr() for tensor in debugger._updates._before])
        optimizer.step()
    assert kept[0] == kept[1]
    last = values(emitter, step=2)
    assert set(last) == {"updates/0.bias", "updates/2.weight", "updates/2.bias"}
    assert_same(last["updates/0.bias"], model[0].bias.detach() - before["0.bias"])
    model.double()
    backward(model)
    before = model[2].bias.detach().clone()
    debugger.step(3)
    optimizer.step()
    assert_same(values(emitter, step=3)["updates/2.bias"], model[2].bias.detach() - before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_updates_of_narrow_parameters_are_not_rounded_to_their_dtype(dtype):
    model = network().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.37)
    debugger, emitter = watched(model, optimizer)
    backward(model)
    debugger.step(0)
    before = model[0].weight.detach().double().clone()
    optimizer.step()
    exact = (model[0].weight.detach().double() - before).norm().item()
    assert values(emitter, "scalar")["update_norm/0.weight"].value == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("convert", [torch.Tensor.double, torch.Tensor.bfloat16])
def test_one_parameter_converted_in_mid_training_is_kept_in_its_new_dtype(convert):
    weights = nn.ParameterDict({name: nn.Parameter(torch.linspace(0.1, 1, 7)) for name in ("first", "second")})
    optimizer = torch.optim.SGD(weights.parameters(), lr=1e-3)
    debugger, emitter = watched(weights, optimizer)
    for step in range(2):
        optimizer.zero_grad()
        sum(weight.double().square().sum() for weight in weights.values()).backward()
        debugger.step(step)
        before = weights["second"].detach().double().clone()
        optimizer.step()
        exact = (weights["second"].detach().double() - before).norm().item()
        norm = values(emitter, "scalar", step)["update_norm/second"].value
        assert norm == pytest.approx(exact, rel=1e-6 if step == 0 else 1e-9)
        weights["second"].data = convert(weights["second"].data)


def test_a_step_under_a_closure_is_one_update():
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        backward(model)
        return model(batch()).square().sum()

    debugger, emitter = watched(model, optimizer)
    backward(model)
    before = model[0].weight.detach().clone()
    debugger.step(0)
    optimizer.step(closure)
    assert_same(values(emitter)["updates/0.weight"], model[0].weight.detach() - before)


def test_calls_from_inside_of_a_closure_make_one_update():
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    debugger, emitter = watched(model, optimizer)
    calls = []

    def closure():
        backward(model)
        debugger.step(len(calls))
        debugger.leave_out()
        calls.append(1)
        return model(batch()).square().sum()

    for _ in range(2):
        before, first = model[0].weight.detach().clone(), len(calls)
        optimizer.step(closure)
        assert_same(values(emitter, step=first)["updates/0.weight"], model[0].weight.detach() - before)
    assert len(values(emitter, step=1)) == 0
    assert debugger.skipped_updates == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_step_that_raised_costs_neither_the_next_step_nor_is_taken_for_it(error):
    model, optimizer, debugger, emitter = watched_descent()

    def closure():
        raise error

    for step in range(4):
        backward(model)
        debugger.step(step)
        if step == 1:
            with pytest.raises(error):
                optimizer.step(closure)
            continue
        before = model[0].weight.detach().clone()
        optimizer.step()
    debugger.close()
    assert {artifact.step for artifact in emitter.artifacts if artifact.name.startswith("updates/")} == {0, 2, 3}
    assert_same(values(emitter, step=3)["updates/0.weight"], model[0].weight.detach() - before)
    assert debugger.skipped_updates == 1


def test_the_optimizer_can_be_pickled_and_copied_while_watched_and_the_copy_is_not_watched():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    debugger, emitter = watched(model, optimizer, weights=True, optimizer_state=True)
    backward(model)
    debugger.step(0)
    for twin_model, twin in (
        copy.deepcopy((model, optimizer)),
        pickle.loads(pickle.dumps((model, optimizer))),
    ):
        backward(twin_model)
        twin.step()
    assert not values(emitter)
    assert optimizer.state_dict()["param_groups"] == twin.state_dict()["param_groups"]
    optimizer.step()
    assert values(emitter)
    debugger.close()
    debugger.close()
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_pre_hooks


def test_a_failure_inside_does_not_stop_the_optimizer(monkeypatch):
    model, optimizer, debugger, emitter = watched_descent(on_error="isolate")
    backward(model)
    debugger.step(0)
    before = model[0].weight.detach().clone()
    monkeypatch.setattr("debuggers.gradients.updates.measure", lambda tensors: 1 / 0)
    optimizer.step()
    assert not torch.equal(before, model[0].weight)
    [alert] = values(emitter, "alert").values()
    assert alert.name == "debugger_failed"
    assert "measuring an update failed: ZeroDivisionError" in alert.message


def test_a_distributed_tensor_is_measured_by_its_local_shard_and_marked(process_group):
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    model = network()
    torch.distributed.fsdp.fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger, emitter = watched(model, optimizer, gradients=True, weights=True)
    backward(model)
    before = model[0].weight.to_local().detach().clone()
    assert debugger.step(0).local_shard.all()
    optimizer.step()
    assert_same(values(emitter)["updates/0.weight"], model[0].weight.to_local().detach() - before)
    debugger.close()


def test_weights_need_an_optimizer():
    with pytest.raises(DebuggerConfigError, match=r"expected GradientDebugger\(model, optimizer\)"):
        GradientDebugger(network(), weights=True)


def test_a_ratio_of_weights_that_are_zero_is_finite():
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    debugger, _ = watched(model, optimizer)
    model(torch.ones(1, 2)).sum().backward()
    debugger.step(0)
    optimizer.step()
    assert np.array_equal(debugger.history.window("update_ratio"), [[0.0]])


class Late:
    """A measurement on a device that is as many steps behind as it is told."""

    finished = 0
    made = 0

    def __init__(self, tensors):
        self._pending = measure(tensors)
        self._number = Late.made
        Late.made += 1

    def ready(self):
        return self._number < Late.finished

    def resolve(self):
        return self._pending.resolve()


def test_what_a_late_device_measured_comes_in_order_with_ratios_of_its_own_step(monkeypatch):
    monkeypatch.setattr(Late, "finished", 0)
    monkeypatch.setattr(Late, "made", 0)
    monkeypatch.setattr("debuggers.gradients.updates.measure", Late)
    model, optimizer, debugger, emitter = watched_descent(weights=True)
    expected, seen = [], []
    for step in range(5):
        Late.finished = max(0, step - 1)
        backward(model)
        debugger.step(step)
        before = model[0].weight.detach().double().clone()
        optimizer.step()
        after = model[0].weight.detach().double()
        expected.append(((after - before).norm() / after.norm()).item())
        seen.append(debugger.history.update_steps.tolist())
    assert seen == [[], [], [0], [0, 1], [0, 1, 2]]
    debugger.close()
    ratios = [a for a in emitter.artifacts if a.name == "update_ratio/0.weight"]
    assert [a.step for a in ratios] == [0, 1, 2, 3, 4]
    assert [a.value for a in ratios] == pytest.approx(expected, rel=1e-5)
    assert sorted(a.time_ns for a in ratios) == [a.time_ns for a in ratios]


def test_a_step_in_which_no_parameter_of_the_optimizer_has_a_gradient_measures_no_update():
    """As of a generator's step, when only the discriminator's optimizer is watched."""
    model = network()
    optimizer = torch.optim.Adam(model[2].parameters())
    debugger, emitter = watched(model, optimizer, weights=True, updates=True, optimizer_state=True)
    for step in range(3):
        model.zero_grad()
        (model(batch()) if step != 1 else model[0](batch())).square().mean().backward()
        debugger.step(step)
        optimizer.step()
    debugger.close()

    assert debugger.failures == {}
    assert {item.step for item in emitter.artifacts if item.name == "update_norm/2.weight"} == {0, 2}
