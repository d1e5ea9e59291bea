"""``watch`` finds the steps of an unchanged loop by the optimizer's own hook."""

import copy
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope
from stepscope.errors import SessionError

EVERY_STEP = stepscope.DebugConfig(max_overhead=None)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(model, optimizer, *, steps=4, scaler=None, factor=1.0):
    torch.manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        inputs = torch.randn(16, 4)
        loss = factor * nn.functional.mse_loss(model(inputs), inputs[:, :2])
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()


def norms(emitter):
    return [item.value for item in emitter.artifacts if item.name == "total_norm/gradients"]


def test_every_optimizer_step_is_measured():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.Adam(model.parameters())

    with stepscope.watch(model, optimizer, run=emitter, config="full"):
        train(model, optimizer)

    assert len(norms(emitter)) == 4
    assert {item.step for item in emitter.artifacts if item.name == "updates/0.weight"} == {0, 1, 2, 3}
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_training_is_bit_identical():
    plain, model = network(), network()
    train(plain, torch.optim.Adam(plain.parameters()))
    optimizer = torch.optim.Adam(model.parameters())
    with stepscope.watch(model, optimizer, config="full"):
        train(model, optimizer)

    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("scale", [1024.0, 1000.0])
def test_gradients_under_a_scaler_are_unscaled(scale):
    plain, emitter, expected = network(), MemoryEmitter(), MemoryEmitter()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    with stepscope.watch(plain, optimizer, run=expected, config=EVERY_STEP):
        train(plain, optimizer)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with stepscope.watch(model, optimizer, run=emitter, config=EVERY_STEP):
        train(model, optimizer, scaler=torch.amp.GradScaler("cpu", init_scale=scale))

    assert norms(emitter) == pytest.approx(norms(expected), rel=1e-5)


def test_a_step_that_the_scaler_skips_is_none():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with stepscope.watch(model, optimizer, run=emitter, config="full") as session:
        train(model, optimizer, scaler=torch.amp.GradScaler("cpu", init_scale=2.0**127), steps=3, factor=1e6)

    assert session.report().overhead.steps == 0


def test_accumulated_gradients_are_measured_once():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(4, 8, 4)
    twin = copy.deepcopy(model)
    (twin(inputs.flatten(0, 1)).square().mean()).backward()

    with stepscope.watch(model, optimizer, run=emitter, config="full"):
        for part in inputs:
            (model(part).square().mean() / 4).backward()
        optimizer.step()

    total = float(torch.cat([parameter.grad.flatten() for parameter in twin.parameters()]).norm())
    assert norms(emitter) == pytest.approx([total], rel=1e-5)
    outputs = next(item for item in emitter.artifacts if item.name == "activations/0" and item.kind == "histogram")
    assert outputs.count == 4 * 8 * 8


def test_it_ends_with_the_run_when_there_is_no_block(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        stepscope.watch(model, optimizer, run=run, config=EVERY_STEP)
        train(model, optimizer)

    assert not optimizer._optimizer_step_pre_hooks
    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("total_norm/gradients").steps.tolist() == [0, 1, 2, 3]


def test_both_model_and_optimizer_are_needed():
    with pytest.raises(SessionError, match="expected both"):
        stepscope.watch(network(), None)


def test_arguments_in_each_others_place_are_told_in_a_line():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = (
        "model is of type SGD and optimizer is of type Sequential; expected the model first, then its optimizer: "
        "(model, optimizer)"
    )
    for start in (stepscope.watch, stepscope.DebugSession):
        with pytest.raises(SessionError) as told:
            start(optimizer, model)
        assert str(told.value) == expected
    with pytest.raises(SessionError, match="model is of type SGD and optimizer is None"):
        stepscope.DebugSession(optimizer)
    with pytest.raises(SessionError, match="model is of type list; expected"):
        stepscope.watch([model], optimizer)


def test_the_environment_switches_it_off(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, config="full"):
        assert not optimizer._optimizer_step_pre_hooks
        train(model, optimizer)


def test_what_is_done_in_a_pause_is_left_out():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.Adam(model.parameters())

    begun = time.perf_counter()
    with stepscope.watch(model, optimizer, run=emitter, config="full") as session:
        train(model, optimizer, steps=2)
        paused = time.perf_counter()
        with session.paused():
            assert not hook_count(model)
            while time.perf_counter() - paused < 2 * (paused - begun):
                train(model, optimizer, steps=1)
            with pytest.raises(SessionError, match="paused"):
                session.step()
        pause_s = time.perf_counter() - paused
        train(model, optimizer, steps=1)
        overhead = session.report().overhead
        beside_pause_s = time.perf_counter() - begun - pause_s

    assert {item.step for item in emitter.artifacts if item.name == "activations/0"} == {0, 1, 2}
    assert overhead.steps == 3
    assert overhead.plain_s + overhead.spent_s <= beside_pause_s


def test_steps_while_another_thread_has_paused_the_session_are_a_gap():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        train(model, optimizer, steps=30)
        with session.paused():
            train(model, optimizer, steps=2)  # of the one who paused, and so on purpose
            assert not any("not seen" in gap for gap in session.report().coverage.gaps)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(train, model, optimizer, steps=3).result()
        train(model, optimizer, steps=1)
    coverage = session.report().coverage
    assert coverage.steps == 31
    assert "not seen: 3 steps that one thread took while another had paused the session, as by probe()" in coverage.gaps


@pytest.mark.parametrize("given", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("bad_steps", "health"), [(0, "healthy"), (3, "no problem in what was checked"), (40, "critical")]
)
def test_a_training_that_a_scaler_skips_to_its_end_is_not_healthy(given, bad_steps, health):
    model, emitter = network(), MemoryEmitter()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)

    with stepscope.watch(model, optimizer, run=emitter, scaler=scaler if given else None) as session:
        train(model, optimizer, scaler=scaler, steps=30)
        assert session.report().verdict.health == "healthy"
        train(model, optimizer, scaler=scaler, steps=bad_steps, factor=float("nan"))

    report = session.report()
    assert report.overhead.steps == 30
    assert report.verdict.health == health
    assert report.coverage.skipped == bad_steps
    alerts = [(item.name, item.level, item.step) for item in emitter.artifacts if item.kind == "alert"]
    assert alerts == ([("skipped_steps", "error", 29)] if bad_steps == 40 else [])


def test_a_scale_that_a_scaler_has_brought_to_zero_tells_of_skipped_steps():
    model = network()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")

    with stepscope.watch(model, optimizer) as session:
        train(model, optimizer, scaler=scaler, steps=2)
        train(model, optimizer, scaler=scaler, steps=200, factor=float("nan"))

    assert scaler.get_scale() == 0.0
    assert session.report().coverage.skipped == 165  # from 2**16 to 2**-149
    assert session.report().failures == {}


def test_a_training_through_functional_calls_gets_no_warning_of_torch():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with stepscope.watch(model, optimizer, config="full") as session:
            for _ in range(3):
                optimizer.zero_grad()
                weights = dict(model.named_parameters())
                inner = torch.func.functional_call(model, weights, torch.randn(8, 4)).square().mean()
                slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
                weights = {
                    name: weight - 0.01 * slope for (name, weight), slope in zip(weights.items(), slopes, strict=True)
                }
                for _ in range(2):
                    torch.func.functional_call(model, weights, torch.randn(8, 4)).square().mean().backward(
                        retain_graph=True
                    )
                optimizer.step()
    assert not session.report().failures


def steps_of(run, name="total_norm/gradients"):
    return stepscope.read_run(run).scalars(name).steps.tolist()


@pytest.mark.parametrize("scope", [None, "D"])
def test_steps_are_counted_on_in_a_run_that_goes_on(tmp_path, scope):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for part in range(2):
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=part > 0) as run:
            place = run if scope is None else run.scoped(scope)
            for _ in range(2):
                with stepscope.watch(model, optimizer, run=place):
                    train(model, optimizer, steps=3)

    name = "total_norm/gradients" if scope is None else "D/total_norm/gradients"
    assert steps_of(tmp_path / "run", name) == list(range(12))


def test_a_loop_that_goes_back_to_a_checkpoint_says_its_step(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for first in (None, 2):
        with (
            stepscope.open_run(tmp_path / "run", sinks=[], resume=first is not None) as run,
            stepscope.watch(model, optimizer, run=run, first_step=first),
        ):
            train(model, optimizer, steps=4)

    assert steps_of(tmp_path / "run") == list(range(6))


def test_another_model_of_the_run_in_a_scope_of_its_own_begins_at_zero(tmp_path):
    models = {"": network(), "D": network()}
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for scope, model in models.items():
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            with stepscope.watch(model, optimizer, run=run.scoped(scope) if scope else run):
                train(model, optimizer, steps=3)

    assert steps_of(tmp_path / "run", "D/total_norm/gradients") == [0, 1, 2]


@pytest.mark.parametrize("with_scaler", [False, True])
def test_a_step_that_the_loop_tells_is_counted_once(with_scaler, caplog):
    model, emitter, losses = network(), MemoryEmitter(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=with_scaler, init_scale=8.0)

    with stepscope.watch(model, optimizer, run=emitter, scaler=scaler if with_scaler else None) as session:
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(torch.randn(16, 4)).square().mean()
            scaler.scale(loss).backward()
            session.step(loss)
            losses.append(loss.item())
            scaler.step(optimizer)
            scaler.update()

    assert session.report().overhead.steps == len(norms(emitter)) == 4
    found = [(item.step, item.value) for item in emitter.artifacts if item.name == "loss"]
    assert found == list(enumerate(losses))
    assert not caplog.records


def test_a_call_after_the_optimizer_has_counted_the_step_counts_none(caplog):
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with stepscope.watch(model, optimizer, run=emitter) as session:
        for _ in range(4):
            train(model, optimizer, steps=1)
            session.step(0.5)

    assert session.report().overhead.steps == len(norms(emitter)) == 4
    assert [item.value for item in emitter.artifacts if item.name == "loss"] == [0.5] * 4
    assert not caplog.records


@pytest.mark.parametrize("given", [False, True])
def test_a_step_that_is_told_before_the_scaler_is_known_is_said_to_be_scaled(caplog, given):
    model = network()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)

    with stepscope.watch(model, optimizer, scaler=scaler if given else None) as session:
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 4)).square().mean()
            scaler.scale(loss).backward()
            session.step(loss)
            scaler.step(optimizer)
            scaler.update()

    told = [record.getMessage() for record in caplog.records if "GradScaler" in record.getMessage()]
    assert len(told) == (0 if given else 1)
    assert given or told[0].startswith("the gradients of step 0 were recorded without unscaling")
