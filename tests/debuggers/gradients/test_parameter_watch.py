"""Which parameters take part in a training is known by name, and weights that nothing changes are reported."""

import math

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from debuggers.gradients.debugger import GradientDebugger
from debuggers.gradients.parameter_watch import FIRST_LOOK, ParameterWatch
from debuggers.gradients.parameters import Parameters
from debuggers.measurement.arrival_queue import ArrivalQueue


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def train(model, optimizers, *, steps=FIRST_LOOK + 1, probed=False, before=lambda step: None):
    emitter = MemoryEmitter()
    debugger = GradientDebugger(model, optimizers[0], emitter=emitter, on_error="raise")
    for step in range(steps):
        before(step)
        for parameter in model.parameters():
            parameter.grad = None
        model(torch.randn(16, 4)).square().mean().backward()
        if probed:
            debugger.probe(step)
            debugger.leave_out()
        else:
            debugger.step(step)
        for optimizer in optimizers:
            optimizer.step()
    return debugger, [(item.name, item.step) for item in emitter.artifacts if item.kind == "alert"]


@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("lr", [0.0, 1e-12])
def test_weights_that_do_not_change_are_reported(lr, probed):
    model = network()
    debugger, alerts = train(model, [torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)], probed=probed)

    assert alerts == [("weights_stand_still", FIRST_LOOK)]
    assert debugger.findings()[0].name == "all weights"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=1e-4),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-6, weight_decay=0),
    ],
)
def test_small_learning_rates_that_move_weights_are_none(make, dtype):
    model = network().to(dtype)
    torch.set_default_dtype(dtype)
    try:
        debugger, alerts = train(model, [make(model.parameters())])
    finally:
        torch.set_default_dtype(torch.float32)

    assert alerts == []
    assert debugger.watch.sees_movement


def test_updates_that_bfloat16_rounds_away_are_reported():
    model = nn.Linear(4, 2).bfloat16()
    nn.init.ones_(model.weight)
    nn.init.ones_(model.bias)
    emitter = MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    debugger = GradientDebugger(model, optimizer, emitter=emitter, on_error="raise")
    for step in range(FIRST_LOOK + 1):
        optimizer.zero_grad()
        model(torch.ones(16, 4, dtype=torch.bfloat16)).float().mean().backward()
        debugger.step(step)
        optimizer.step()

    assert "weights_stand_still" in {finding.kind for finding in debugger.findings()}


def test_weights_that_begin_to_move_end_the_finding():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def warm_up(step):
        optimizer.param_groups[0]["lr"] = 0.0 if step < 40 else 0.1

    debugger, alerts = train(model, [optimizer], steps=60, before=warm_up)

    assert [kind for kind, _ in alerts] == ["weights_stand_still"]
    (finding,) = [finding for finding in debugger.findings() if finding.kind == "weights_stand_still"]
    assert not finding.ongoing


def test_a_table_of_which_few_rows_are_read_does_not_stand_still():
    """What is compared of it may be other rows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50_000, 4, sparse=True))
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.01)
    debugger = GradientDebugger(model, optimizer, on_error="raise")
    for step in range(FIRST_LOOK + 1):
        optimizer.zero_grad()
        model(torch.full((16,), 7)).square().mean().backward()
        debugger.step(step)
        optimizer.step()

    assert not [finding for finding in debugger.findings() if finding.kind == "weights_stand_still"]
    assert debugger.watch.roles().idle == ()


@pytest.mark.parametrize(("rates", "resting"), [
    (lambda step: (0.0, 0.1), ("0.weight", "0.bias", "1.weight", "1.bias")), (lambda step: (1e-3, 0.1), ()),
    (lambda step: (0.0, 0.1) if step < 30 else (0.1, 0.1), ()), (lambda step: (0.1, 0.1) if step < 30 else (0, 0), ()),
    (lambda step: (0.0, 0.0), ()),
])  # fmt: skip
def test_what_never_moves_in_a_group_of_rate_zero_rests_beside_others(rates, resting):
    """Neither a part that begins late, nor what a schedule ends with."""
    model = network()
    optimizer = torch.optim.SGD([{"params": model[:2].parameters()}, {"params": model[2:].parameters()}], lr=0.1)

    def set_rates(step):
        for group, rate in zip(optimizer.param_groups, rates(step), strict=True):
            group["lr"] = rate

    debugger, _ = train(model, [optimizer], steps=2 * FIRST_LOOK, before=set_rates)
    debugger.watch.compare_weights()
    debugger.findings()

    assert debugger.watch.roles().at_rate_zero == resting


def test_a_layer_that_no_optimizer_holds_is_reported():
    model = network()
    debugger, alerts = train(model, [torch.optim.SGD(model[:3].parameters(), lr=0.1)])

    assert alerts == [("outside_optimizer", FIRST_LOOK)]
    assert debugger.watch.roles().outside_optimizer == ("3.weight", "3.bias")
    assert debugger.findings()[-1].name == "3.bias, 3.weight"


def test_a_second_optimizer_may_hold_the_rest():
    model = network()
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[:3], model[3:])]

    debugger, alerts = train(model, optimizers)

    assert alerts == []
    assert debugger.watch.roles().outside_optimizer == ("3.weight", "3.bias")


def test_a_second_optimizer_may_begin_late():
    model = network()
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[:3], model[3:])]

    def wait(step):
        optimizers[1].param_groups[0]["lr"] = 0.0 if step < 40 else 0.1

    debugger, alerts = train(model, optimizers, steps=110, before=wait)

    assert alerts == [("outside_optimizer", FIRST_LOOK)]
    assert "outside_optimizer" not in {finding.kind for finding in debugger.findings()}


def test_frozen_and_unused_parameters_are_named():
    model = network()
    model.unused = nn.Linear(2, 2)
    model.forward = lambda inputs: nn.Sequential.forward(model[:4], inputs)
    model[0].requires_grad_(False)

    debugger, _ = train(model, [torch.optim.SGD(model.parameters(), lr=0.1)], steps=2)

    roles = debugger.watch.roles()
    assert roles.frozen == ("0.weight", "0.bias")
    assert roles.without_gradient == ("unused.weight", "unused.bias")
    assert roles.outside_optimizer == ()
    assert not debugger.watch.sees_movement


def test_what_is_frozen_and_another_watch_has_seen_with_gradients_is_known():
    model = network()
    model[0].requires_grad_(False)
    first, _ = train(model, [torch.optim.SGD(model.parameters(), lr=0.1)], steps=2)
    model.requires_grad_(False)
    model[0].requires_grad_(True)
    second, _ = train(model, [torch.optim.SGD(model.parameters(), lr=0.1)], steps=2)
    model.requires_grad_(False)

    assert first.watch.roles().trained_elsewhere == ("0.weight", "0.bias")
    assert second.watch.roles().trained_elsewhere == ("1.weight", "1.bias", "3.weight", "3.bias")


def test_a_parameter_that_is_replaced_is_compared_from_then_on_and_not_kept():
    import gc
    import weakref

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    old = weakref.ref(model[3].weight)

    def replace(step):
        if step == 10:
            optimizer.param_groups[0]["params"] = [p for p in model.parameters() if p is not model[3].weight]
            model[3].weight = nn.Parameter(torch.randn(2, 8))
            optimizer.param_groups[0]["params"].append(model[3].weight)

    _, alerts = train(model, [optimizer], before=replace)
    optimizer.state.clear()
    gc.collect()

    assert alerts == []
    assert old() is None


@pytest.mark.parametrize("part", ["parameter", "view", "buffer"])
def test_memory_that_was_freed_when_the_training_ends_is_left_out(part):
    model = network()
    model[1].running_mean[:] = math.nan
    debugger, _ = train(model, [torch.optim.SGD(model.parameters(), lr=0.1)], steps=FIRST_LOOK)
    model.eval()
    if part == "view":
        whole = torch.zeros(40)
        model[0].weight.data = whole[8:].view(8, 4)
    offloaded = model[1].running_var if part == "buffer" else model[0].weight
    offloaded.untyped_storage().resize_(0)
    debugger.close()

    (found,) = debugger.findings()
    assert (found.kind, found.name) == ("non_finite_weight", "1.running_mean")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_weights_that_the_last_step_made_infinite_are_reported(dtype):
    model = network().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def before(step):
        if step == FIRST_LOOK:
            optimizer.param_groups[0]["lr"] = math.inf

    torch.set_default_dtype(dtype)
    try:
        debugger, _ = train(model, [optimizer], before=before)
    finally:
        torch.set_default_dtype(torch.float32)
    assert not model[0].weight.isnan().any()
    debugger.close()

    (found,) = debugger.findings()
    assert (found.kind, found.ongoing) == ("non_finite_weight", True)
    assert "0.weight" in found.name


@pytest.mark.parametrize(
    ("steps", "trained", "lost"),
    [
        (60, range(20), True),
        (60, range(0, 60, 2), False),
        (60, range(40, 60), False),
        (60, range(40), False),  # a part that is trained in turn
        (26, range(13), False),  # too few to say
    ],
)
def test_a_part_that_gets_no_gradient_any_more_is_known(steps, trained, lost):
    model = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
    watch = ParameterWatch(parameters := Parameters(model), None, ArrivalQueue(), lambda begun: None)
    for step in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        if step not in trained:
            model[1].weight.grad = model[1].bias.grad = None
        watch.see(step, parameters.gradients())

    assert watch.roles().lost_gradient == (("1.weight", "1.bias") if lost else ())
    assert watch.roles().without_gradient == ()


def test_infinities_that_may_be_masks_are_no_finding():
    model = network()
    model.register_buffer("limits", torch.tensor([-math.inf, math.inf]))
    model.frozen = nn.Parameter(torch.tensor([math.inf]), requires_grad=False)
    model.mask = nn.Parameter(torch.tensor([0.0, -math.inf]))
    debugger, _ = train(model, [torch.optim.SGD(model.parameters(), lr=0.1)], steps=2)
    debugger.close()

    assert debugger.findings() == []


def test_each_kind_of_narrow_floats_is_looked_through_at_the_end():
    model = network()
    for name in ("float8_e4m3fn", "float8_e5m2", "bfloat16"):
        model.register_buffer(f"in_{name}", torch.tensor([1.0, math.nan]).to(getattr(torch, name)))
    debugger, _ = train(model, [torch.optim.SGD(model.parameters(), lr=0.1)], steps=2)
    debugger.close()

    (found,) = debugger.findings()
    assert found.name == "in_float8_e4m3fn, in_float8_e5m2, in_bfloat16"


def test_layers_that_eval_mode_changes_are_looked_for_now_and_then():
    class Counts(nn.Sequential):
        walks = 0

        def named_modules(self, *arguments, **keywords):
            self.walks += not arguments
            return super().named_modules(*arguments, **keywords)

    model = Counts(nn.Linear(4, 2)).eval()
    watch = ParameterWatch(Parameters(model), None, ArrivalQueue(), lambda begun: None)
    model[0].weight.grad, model[0].bias.grad = torch.ones(2, 4), torch.ones(2)
    before = model.walks
    for step in range(10):
        watch.see(step, watch._parameters.gradients())

    assert (watch.eval_steps, watch.eval_layers) == (10, [])
    assert model.walks == before + 1


def test_how_far_weights_came_counts_each_element_and_not_each_parameter():
    """Norms have few elements of a large size beside those of a matrix."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.LayerNorm(64))
    watch = ParameterWatch(
        Parameters(model), torch.optim.SGD(model.parameters()), ArrivalQueue(), lambda findings: None
    )
    for step in range(FIRST_LOOK):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        watch.see(step, Parameters(model).gradients())
    nn.init.normal_(model[0].weight, std=0.0722)
    watch.close(look_at_values=False)

    assert 0.5 < watch.farthest < 1.0


def test_names_of_parameters_with_another_shape_are_told_once_for_each_shape():
    model, told = nn.Sequential(nn.Linear(4, 2)), []
    parameters = Parameters(model)
    watch = ParameterWatch(parameters, None, ArrivalQueue(), lambda begun: None, told.append)
    for step, width in enumerate((4, 4, 6, 6, 4, 6)):
        model[0] = nn.Linear(width, 2)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        watch.see(step, parameters.gradients())
    assert told == [["0.weight"]]


@pytest.mark.parametrize("inserts", [True, False])
def test_a_layer_that_is_inserted_begins_its_own_history(inserts):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    debugger = GradientDebugger(model, optimizer)

    def step(number, scale):
        optimizer.zero_grad()
        (scale * model(torch.ones(8, 4))).square().mean().backward()
        debugger.step(number)

    for number in range(40):
        step(number, 1e-3)
    if inserts:
        model.insert(2, nn.Linear(64, 64))
    for number in range(40, 60):
        step(number, 1.0)
    debugger.close()
    found = {finding.name for finding in debugger.findings() if finding.kind == "exploding_gradient"}
    assert any("2.weight" in name for name in found) is not inserts
    _, norms = debugger.history.series("2.weight")
    assert len(norms) == (20 if inserts else 60)
