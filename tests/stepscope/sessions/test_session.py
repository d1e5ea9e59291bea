"""A session measures what its configuration says, at the cost that it may have, and reports what it found."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from module_hooks import hook_count
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter
from watched_training import EVERY_STEP, FULL, adamw, names_of, network, steps_of, train

import stepscope
from stepscope.errors import ConfigError, SessionError
from stepscope.sessions import governor


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
    assert {"loss", "learning_rate", "step_ms", "gradient_norm/0.weight", "update_ratio/4.bias"} <= scalars
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

    norms = [item.value for item in emitter.artifacts if item.name == "gradient_norm/0.weight"]
    assert norms == pytest.approx(expected, rel=1e-12)


def test_a_schedule_leaves_steps_out_and_their_layers_untouched():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    config = replace(FULL, schedule=stepscope.Schedule(every=3), diagnosis=False)  # which has steps of its own
    hooked = []
    with stepscope.DebugSession(model, optimizer, run=emitter, config=config, on_error="raise") as session:

        def step(loss):
            hooked.append(hook_count(model[3]))
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
    assert "gradient_norm/0.weight" in names_of(emitter, "scalar")


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
    assert "Checked: the recorded gradients of 1 layer at 1 step." in report.summary()
    written = json.loads((tmp_path / "debug_output" / "report.json").read_text())
    assert written == json.loads(report.to_json())
    assert (tmp_path / "debug_output" / "report.txt").read_text() == report.summary() + "\n"


@pytest.mark.parametrize("name", ["report.json", "report.json/inside"])
def test_a_folder_that_cannot_be_made_is_told_before_the_training(tmp_path, name):
    (tmp_path / "report.json").write_text("a file")
    model = network()
    with pytest.raises(stepscope.ConfigError, match=r"output_dir is .*report\.json.*; expected a folder"):
        stepscope.watch(model, adamw(model), output_dir=tmp_path / name)
    stepscope.DebugSession(config=stepscope.DebugConfig(output_dir=tmp_path / "made" / "below")).start().stop()
    assert (tmp_path / "made" / "below" / "report.json").exists()


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
    "failing", ["debuggers.gradients.measurement.measure_unscaled", "debuggers.gradients.updates.measure"]
)
def test_a_failure_inside_a_debugger_is_in_the_report_too(monkeypatch, failing):
    model = network()
    optimizer = adamw(model)
    monkeypatch.setattr(failing, lambda *_: 1 / 0)
    with stepscope.DebugSession(model, optimizer, config=replace(FULL, max_overhead=None)) as session:
        train(model, optimizer, session.step, steps=3)

    assert list(session.report().failures.values()) == [3]


def test_the_overhead_is_printed_and_reported(capsys):
    model = network()
    optimizer = adamw(model)
    with stepscope.DebugSession(model, optimizer) as session:
        train(model, optimizer, session.step, steps=5)

    printed = capsys.readouterr().err.splitlines()
    assert len([line for line in printed if " Overhead: " in line]) == 1
    overhead = session.report().overhead
    assert overhead.steps == 5
    assert overhead.measured + overhead.skipped_by_schedule + overhead.skipped_by_governor == 5
    assert 0 < overhead.share < 100


def test_a_low_limit_leaves_steps_out_and_counts_them(monkeypatch):
    monkeypatch.setattr(governor, "FREE_STEPS", 5)
    monkeypatch.setattr(governor, "FLOOR_S", 0.0)
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    config = replace(FULL, max_overhead=1e-6)
    with stepscope.DebugSession(model, optimizer, run=emitter, config=config) as session:
        train(model, optimizer, session.step, steps=20)

    overhead = session.report().overhead
    assert 5 <= overhead.measured <= 7
    assert overhead.measured + overhead.skipped_by_governor == 20
    assert "skipped to limit the overhead" in session.report().summary()
    assert steps_of(emitter, "scalar", "total_norm/gradients") == list(range(20))


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
    assert record.texts("stepscope/report")[0].text.startswith("Verdict: no problem in what was checked (score 0.99)")
    with pytest.raises(SessionError, match="not running"):
        session.step(1.0)


def _enter_twice(session):
    """As a cell of a notebook that is run again."""
    for _ in range(2):
        with session:
            pass


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: stepscope.DebugSession(run="runs/x"), SessionError, r"run is 'runs/x'; expected an open run"),
        (lambda: stepscope.DebugSession(run=3), SessionError, r"run is int 3; expected an open run"),
        (lambda: stepscope.DebugSession("model"), SessionError, "model is str 'model'; expected a torch.nn.Module"),
        (lambda: stepscope.DebugSession(network(), "sgd"), SessionError, "optimizer is str 'sgd'; expected"),
        (lambda: stepscope.DebugSession(network(), []), SessionError, "of type list; .* watched by watch\\(model, "),
        (lambda: stepscope.DebugSession(network(), config="full"), SessionError, "updates=True and there is no opt"),
        (lambda: stepscope.DebugSession(config=3), ConfigError, "config is 3"),
        (lambda: stepscope.DebugSession().step(1.0), SessionError, "call start"),
        (lambda: stepscope.DebugSession().start().start(), SessionError, "was started before"),
        (lambda: _enter_twice(stepscope.DebugSession()), SessionError, "has ended; expected a new one"),
        (lambda: stepscope.DebugSession().start().step(1.0, step=-1), ArtifactError, "-1"),
        (
            lambda: stepscope.DebugSession().start().step("low"),
            ArtifactError,
            "'loss': got str 'low'; expected a number",
        ),
        (lambda: stepscope.DebugSession().start().step(np.ones(3)), ArtifactError, r"'loss': got shape \(3,\)"),
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


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (torch.ones(8, 2), r"'loss': got shape \(8, 2\); expected a number"),
        (torch.ones(0), r"'loss': got shape \(0,\); expected a number"),
        (torch.tensor(1 + 2j), "'loss': got a complex tensor .* expected real values"),
    ],
)
def test_a_loss_that_is_no_number_is_one_error_and_no_failure_inside(loss, message, caplog):
    model = network()
    with stepscope.DebugSession(model, torch.optim.SGD(model.parameters(), lr=0.1)) as session:
        with pytest.raises(ArtifactError, match=message):
            session.step(loss)
        assert session.report().failures == {}
    assert caplog.records == []
