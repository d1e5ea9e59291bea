"""A session measures what its configuration says, changes nothing in the training, and reports what it found."""

import copy
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager
from stepscope.errors import ConfigError, SessionError

FULL = stepscope.DebugConfig.preset("full")
EVERY_STEP = stepscope.DebugConfig(max_overhead=None)


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(inplace=True), nn.Linear(16, 3))


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def loss_of(model):
    return nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(3, (8,)))


def train(model, optimizer, step, *, steps=20, micro_batches=1):
    """Trains and returns the losses; ``step(loss)`` comes before each optimizer step."""
    torch.manual_seed(2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            loss = loss_of(model) / micro_batches
            loss.backward()
        step(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def names_of(emitter, kind):
    return {artifact.name for artifact in emitter.artifacts if artifact.kind == kind}


def steps_of(emitter, kind, name):
    return [artifact.step for artifact in emitter.artifacts if artifact.kind == kind and artifact.name == name]


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_training_is_bit_identical_with_everything_on(deterministic, micro_batches):
    torch.use_deterministic_algorithms(deterministic)
    try:
        plain = network()
        expected = train(plain, adamw(plain), lambda loss: None, micro_batches=micro_batches)
        state = torch.get_rng_state()
        model = network()
        optimizer = adamw(model)
        with stepscope.DebugSession(model, optimizer, run=MemoryEmitter(), config=FULL, on_error="raise") as session:
            losses = train(model, optimizer, session.step, micro_batches=micro_batches)
    finally:
        torch.use_deterministic_algorithms(False)

    assert expected == losses
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    for one, other in zip(plain.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def hooks_on(model, optimizer):
    per_module = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return (
        sum(len(getattr(module, kind)) for module in model.modules() for kind in per_module)
        + len(optimizer._optimizer_step_pre_hooks)
        + len(optimizer._optimizer_step_post_hooks)
    )


@pytest.mark.parametrize("fails", [False, True])
def test_no_hook_is_left(fails):
    model = network()
    optimizer = adamw(model)

    def run():
        with stepscope.DebugSession(model, optimizer, config=FULL) as session:
            assert hooks_on(model, optimizer)
            train(model, optimizer, session.step, steps=2)
            loss_of(model).backward()
            if fails:
                raise KeyboardInterrupt

    if fails:
        with pytest.raises(KeyboardInterrupt):
            run()
    else:
        run()
    assert hooks_on(model, optimizer) == 0


def test_a_watched_model_and_optimizer_can_be_copied_pickled_and_saved(tmp_path):
    model = network()
    optimizer = adamw(model)
    with stepscope.DebugSession(model, optimizer, config=FULL, on_error="raise") as session:
        train(model, optimizer, session.step, steps=2)
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        copied_optimizer = pickle.loads(pickle.dumps(optimizer))
        torch.save(model.state_dict(), tmp_path / "state.pt")
        before = len(session.gradient_debugger.history.steps)
        for twin in copies:
            loss_of(twin).backward()
        copied_optimizer.step()

        assert before == len(session.gradient_debugger.history.steps)
    assert torch.load(tmp_path / "state.pt").keys() == model.state_dict().keys()


def test_everything_that_is_configured_is_emitted_at_its_step():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    with stepscope.DebugSession(model, optimizer, run=emitter, config=FULL, on_error="raise") as session:
        train(model, optimizer, session.step, steps=3)

    histograms, scalars = names_of(emitter, "histogram"), names_of(emitter, "scalar")
    assert {
        "gradients/0.weight", "weights/0.weight", "updates/0.weight", "optimizer/exp_avg/0.weight", "activations/3",
        "activation_gradients/3",
    } <= histograms  # fmt: skip
    assert {"loss", "learning_rate", "step_ms", "gradients/0.weight/norm", "updates/4.bias/ratio"} <= scalars
    for name in ("gradients/0.weight", "weights/0.weight", "updates/0.weight", "activations/3"):
        assert steps_of(emitter, "histogram", name) == [0, 1, 2]


def test_gradients_are_those_before_the_optimizer_step():
    model, emitter, expected = network(), MemoryEmitter(), []
    optimizer = adamw(model)
    with stepscope.DebugSession(model, optimizer, run=emitter, config=EVERY_STEP, on_error="raise") as session:

        def step(loss):
            expected.append(float(model[0].weight.grad.double().norm()))
            session.step(loss)

        train(model, optimizer, step, steps=5)

    norms = [item.value for item in emitter.artifacts if item.name == "gradients/0.weight/norm"]
    assert norms == pytest.approx(expected, rel=1e-12)


def test_a_schedule_leaves_steps_out_and_their_layers_untouched():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    config = replace(FULL, schedule=stepscope.Schedule(every=3))
    hooked = []
    with stepscope.DebugSession(model, optimizer, run=emitter, config=config, on_error="raise") as session:

        def step(loss):
            hooked.append(len(model[3]._forward_hooks))
            session.step(loss)

        train(model, optimizer, step, steps=7)
        overhead = session.report().overhead

    assert hooked == [1, 0, 0, 1, 0, 0, 1]
    assert (overhead.measured, overhead.skipped_by_schedule) == (3, 4)
    for name in ("gradients/0.weight", "activations/3", "weights/0.weight"):
        assert steps_of(emitter, "histogram", name) == [0, 3, 6]
    assert len(steps_of(emitter, "scalar", "loss")) == 7


def test_activations_carry_the_numbers_that_the_loop_gives_its_steps():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    numbers = iter([5, 10, 15, 17])
    with stepscope.DebugSession(model, optimizer, run=emitter, config=FULL, on_error="raise") as session:
        train(model, optimizer, lambda loss: session.step(loss, step=next(numbers)), steps=4)

    assert steps_of(emitter, "histogram", "activations/3") == [5, 10, 15, 17]
    assert steps_of(emitter, "histogram", "gradients/0.weight") == [5, 10, 15, 17]


def test_histograms_cover_the_steps_between():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    config = stepscope.DebugConfig(histogram_every=4, max_overhead=None)
    with stepscope.DebugSession(model, optimizer, run=emitter, config=config, on_error="raise") as session:
        train(model, optimizer, session.step, steps=10)

    found = [item for item in emitter.artifacts if item.kind == "histogram" and item.name == "gradients/0.weight"]
    assert [item.count for item in found] == [4 * 96, 4 * 96, 2 * 96]


def test_without_visualization_there_are_no_histograms():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    config = replace(FULL, enable_visualization=False)
    with stepscope.DebugSession(model, optimizer, run=emitter, config=config, on_error="raise") as session:
        train(model, optimizer, session.step, steps=3)

    assert not names_of(emitter, "histogram")
    assert "gradients/0.weight/norm" in names_of(emitter, "scalar")


def test_the_documented_session_without_a_model(tmp_path):
    """Document 004's quick start, in Python."""
    session = stepscope.DebugSession(config=stepscope.DebugConfig(output_dir=str(tmp_path / "debug_output")))
    session.start()

    tensor_id = session.tensor_inspector.inspect_tensor(np.linspace(0.0, 1.0, 1000), "my_tensor", "layer_1", "forward")
    session.gradient_debugger.record_gradient_flow("layer_1", [0.01, 0.02, 0.015, 0.008])
    report = session.stop()

    assert session.tensor_inspector.get_tensor_info(tensor_id).stats.mean == pytest.approx(0.5)
    assert session.gradient_debugger.analyze_gradient_flow().overall_health
    assert "Tensors: 1 inspected" in report.summary()
    written = json.loads((tmp_path / "debug_output" / "report.json").read_text())
    assert written == json.loads(report.to_json())
    assert (tmp_path / "debug_output" / "report.txt").read_text() == report.summary() + "\n"


def test_a_stability_manager_shares_the_measurement_and_clips_as_alone():
    def clipping():
        return NumericalStabilityManager(GradientClippingConfig(max_norm=0.5), NaNHandlingConfig())

    alone = network()
    optimizer, manager = adamw(alone), clipping()
    expected = train(alone, optimizer, lambda loss: manager.step(alone, loss, optimizer))
    model = network()
    other = adamw(model)
    with stepscope.DebugSession(model, other, stability=clipping(), config=FULL, on_error="raise") as session:
        results = []
        losses = train(model, other, lambda loss: results.append(session.step(loss)))

    assert expected == losses
    assert any(result["clipping_stats"]["clipped"] for result in results)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), model.parameters(), strict=True))


def test_gradients_are_unscaled_before_they_are_measured_and_the_scaler_goes_its_way():
    def run(session_of):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        session = session_of(model, optimizer, scaler)
        torch.manual_seed(2)
        for _ in range(4):
            optimizer.zero_grad()
            loss = loss_of(model)
            scaler.scale(loss).backward()
            if session is not None:
                session.step(loss)
            scaler.step(optimizer)
            scaler.update()
        return model, session

    plain, _ = run(lambda model, optimizer, scaler: None)
    emitter = MemoryEmitter()
    model, session = run(
        lambda model, optimizer, scaler: stepscope.DebugSession(
            model, optimizer, run=emitter, scaler=scaler, config=EVERY_STEP, on_error="raise"
        ).start()
    )
    session.stop()

    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters(), strict=True))
    norms = [item.value for item in emitter.artifacts if item.name == "gradients/total_norm"]
    assert len(norms) == 4
    assert max(norms) < 10


def test_nan_in_a_forward_pass_is_traced_to_its_layer_by_replay():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    inputs = torch.randn(8, 6)
    with torch.no_grad():
        model[4].weight[0, 0] = math.nan
    with stepscope.DebugSession(model, optimizer, run=emitter, on_error="raise") as session:
        loss = model(inputs).square().mean()
        loss.backward()
        session.step(loss, replay=lambda: model(inputs))

    alert = next(item for item in emitter.artifacts if item.name == "first_non_finite")
    assert "that of 4" in alert.message


def test_a_step_that_a_scaler_skips_lends_its_number_to_no_other_update():
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    config = replace(FULL, schedule=stepscope.Schedule(every=2), max_overhead=None)
    with stepscope.DebugSession(
        model, optimizer, run=emitter, scaler=scaler, config=config, on_error="raise"
    ) as session:
        for step in range(4):
            optimizer.zero_grad()
            loss = loss_of(model) * (math.inf if step == 0 else 1.0)
            scaler.scale(loss).backward()
            session.step(loss)
            scaler.step(optimizer)
            scaler.update()

    assert steps_of(emitter, "histogram", "updates/0.weight") == [2]
    assert session.gradient_debugger.skipped_updates == 1


def test_metrics_are_emitted_under_their_names():
    emitter = MemoryEmitter()
    with stepscope.DebugSession(run=emitter) as session:
        session.step(0.5, step=7, metrics={"accuracy": 0.9})

    assert steps_of(emitter, "scalar", "accuracy") == [7]


def test_a_failure_inside_stops_nothing_and_is_reported(monkeypatch):
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    session = stepscope.DebugSession(model, optimizer, run=emitter, config=EVERY_STEP)

    def fail(step):
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(session.gradient_debugger, "step", fail)
    with session:
        train(model, optimizer, session.step, steps=3)

    assert list(session.report().failures.values()) == [3]
    assert "the disk is on fire" in next(item.message for item in emitter.artifacts if item.kind == "alert")


@pytest.mark.parametrize(
    "failing", ["debuggers.gradient_debugger.measure_unscaled", "debuggers.update_measurement.measure"]
)
def test_a_failure_inside_a_debugger_is_in_the_report_too(monkeypatch, failing):
    model = network()
    optimizer = adamw(model)
    monkeypatch.setattr(failing, lambda *_: 1 / 0)
    with stepscope.DebugSession(model, optimizer, config=replace(FULL, max_overhead=None)) as session:
        train(model, optimizer, session.step, steps=3)

    assert list(session.report().failures.values()) == [3]


def test_after_a_failure_the_stability_manager_measures_for_itself(monkeypatch):
    model = network()
    optimizer = adamw(model)
    manager = NumericalStabilityManager(GradientClippingConfig(max_norm=1e6), NaNHandlingConfig())
    norms, expected = [], []
    with stepscope.DebugSession(model, optimizer, stability=manager, config=FULL) as session:

        def step(loss):
            expected.append(float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])))
            norms.append(session.step(loss)["clipping_stats"]["total_norm"])
            if len(norms) == 2:
                monkeypatch.setattr(session.activation_monitor, "detach", lambda step=None: 1 / 0)

        train(model, optimizer, step, steps=4)
        monkeypatch.undo()

    assert norms == pytest.approx(expected, rel=1e-6)


def test_the_overhead_is_printed_and_reported(capsys):
    model = network()
    optimizer = adamw(model)
    with stepscope.DebugSession(model, optimizer) as session:
        train(model, optimizer, session.step, steps=5)

    printed = capsys.readouterr().err.splitlines()
    assert len([line for line in printed if line.startswith("stepscope: Overhead:")]) == 1
    overhead = session.report().overhead
    assert overhead.steps == 5
    assert overhead.measured + overhead.skipped_by_schedule + overhead.skipped_by_governor == 5
    assert 0 < overhead.share < 100


def test_a_low_limit_leaves_steps_out_and_counts_them():
    model = network()
    optimizer = adamw(model)
    config = replace(FULL, max_overhead=1e-6)
    with stepscope.DebugSession(model, optimizer, config=config) as session:
        train(model, optimizer, session.step, steps=20)

    overhead = session.report().overhead
    assert overhead.measured <= 3
    assert overhead.measured + overhead.skipped_by_governor == 20
    assert "left out to keep the overhead under its limit" in session.report().summary()


def test_the_environment_switches_it_off(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    manager = NumericalStabilityManager(GradientClippingConfig(max_norm=1e-3), NaNHandlingConfig())
    with stepscope.DebugSession(model, optimizer, run=emitter, stability=manager, config=FULL) as session:
        results = []
        train(model, optimizer, lambda loss: results.append(session.step(loss)), steps=2)
        assert hooks_on(model, optimizer) == 0

    assert names_of(emitter, "histogram") == set()
    assert results[0]["clipping_stats"]["clipped"]
    assert "STEPSCOPE_DISABLED" in session.report().summary()


def test_closing_the_run_ends_the_session_first(tmp_path):
    model = network()
    optimizer = adamw(model)
    config = stepscope.DebugConfig(histogram_every=100, max_overhead=None)
    run = stepscope.open_run(tmp_path / "run", sinks=[])
    session = stepscope.DebugSession(model, optimizer, run=run, config=config).start()
    train(model, optimizer, session.step, steps=3)
    run.close()

    record = stepscope.read_run(tmp_path / "run")
    assert record.histograms("gradients/0.weight")[0].count == 3 * 96
    assert "Gradient health" in record.texts("stepscope/report")[0].text
    with pytest.raises(SessionError, match="not running"):
        session.step(1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: stepscope.DebugSession("model"), SessionError, "model is str 'model'; expected a torch.nn.Module"),
        (lambda: stepscope.DebugSession(network(), "sgd"), SessionError, "optimizer is str; expected"),
        (lambda: stepscope.DebugSession(network(), config="full"), SessionError, "updates=True and there is no opt"),
        (lambda: stepscope.DebugSession(config=3), ConfigError, "config is 3"),
        (lambda: stepscope.DebugSession().step(1.0), SessionError, "call start"),
        (lambda: stepscope.DebugSession().start().start(), SessionError, "was started before"),
        (lambda: stepscope.DebugSession().start().step(1.0, step=-1), ArtifactError, "-1"),
        (
            lambda: stepscope.DebugSession(stability=object()),
            SessionError,
            "needs a model and an optimizer",
        ),
    ],
)
def test_wrong_use_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
