"""What a newcomer types: short ways to begin and to end, and what is shown of an object."""

import inspect

import numpy as np
import pytest
import torch
from module_hooks import hook_count
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.testing import MemoryEmitter
from watched_training import network, train

import debuggers
import stability
import stepscope
from stepscope.errors import ConfigError, SessionError


def test_watch_takes_the_settings_as_keywords():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, updates=True, activations=["0"]) as session:
        assert (session.config.updates, session.config.activations, session.config.weights) == (True, ["0"], False)
    with stepscope.watch(model, optimizer, config="full", updates=False) as session:
        assert (session.config.updates, session.config.weights) == (False, True)
    config = stepscope.DebugConfig(sampling_rate=0.5, weights=True)
    with stepscope.watch(model, optimizer, config=config, sampling_rate=0.1) as session:
        assert (session.config.schedule.every, session.config.weights) == (10, True)


@pytest.mark.parametrize("config", [None, "economy", stepscope.DebugConfig()], ids=["none", "preset", "config"])
def test_an_unknown_setting_is_named_with_the_nearest(config):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ConfigError, match="DebugConfig has no field 'activation'; did you mean 'activations' or"):
        stepscope.watch(model, optimizer, config=config, activation=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="updates is 1; expected True or False"):
        stepscope.watch(model, optimizer, config=config, updates=1)  # type: ignore[arg-type]
    assert not hook_count(model)


def test_a_session_takes_its_configuration_alone():
    config = stepscope.DebugConfig(max_tracked_tensors=7)
    assert stepscope.DebugSession(config).config is config
    assert stepscope.debug_session(config).config is config
    assert stepscope.debug_session(max_tracked_tensors=8).config.max_tracked_tensors == 8
    with pytest.raises(SessionError, match="two configurations"):
        stepscope.DebugSession(config, config="full")


def documented_loop(session, steps, *, passes=1):
    """The loop of the original documents: tensors and gradients are handed over, and no step is told."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(passes):
            output = model(torch.ones(2, model[0].in_features))
            session.tensor_inspector.inspect_tensor(output, "model_output", None, "forward")
            output.square().mean().backward()
        for name, parameter in model.named_parameters():
            session.gradient_debugger.record_gradient_flow(name, parameter.grad)
            session.tensor_inspector.inspect_tensor(parameter.grad, "gradient", name, "backward")
        optimizer.step()
    return model


def test_steps_advance_in_a_loop_that_never_tells_one(capsys):
    emitter = MemoryEmitter()
    session = stepscope.DebugSession(run=emitter).start()
    documented_loop(session, 4)
    outputs = session.tensor_inspector.tensors("model_output")
    assert [info.step for info in outputs] == [0, 1, 2, 3]
    assert {info.step for info in session.tensor_inspector.tensors("gradient")} == {0, 1, 2, 3}
    assert session.tensor_inspector.compare_steps("model_output", 0, 3)
    session.close()
    told = capsys.readouterr().err
    assert "Checked: the recorded gradients of 6 layers at 4 steps." in told
    assert len(told.splitlines()) == 1
    steps = {a.name: a.step for a in emitter.artifacts if a.kind == "histogram"}
    assert steps["gradients/0.weight"] == steps["tensors/model_output"] == 3


def test_rounds_are_not_counted_once_a_step_was_told():
    session = stepscope.debug_session().start()
    for _ in range(3):
        for _ in range(2):  # two micro-batches
            session.tensor_inspector.inspect_tensor([1.0], "x", step=None if session.tensor_inspector.inspected else 5)
    assert [info.step for info in session.tensor_inspector.tensors()] == [5] * 6
    model = network()
    watched = stepscope.DebugSession(model).start()
    for _ in range(3):
        watched.tensor_inspector.inspect_tensor([1.0], "x")
        watched.tensor_inspector.inspect_tensor([1.0], "x")
        watched.step(1.0)
    assert [info.step for info in watched.tensor_inspector.tensors()] == [0, 0, 1, 1, 2, 2]
    watched.close()


def test_one_verb_ends_everything():
    classes = [
        stepscope.Run, stepscope.DebugSession, RunRecord, debuggers.SequentialDebugger, debuggers.GradientDebugger,
        debuggers.ActivationMonitor, debuggers.TensorInspector, stability.NumericalStabilityManager,
        stability.PyTorchDebuggingManager, stability.FirstNaNFinder, stability.Recovery,
    ]  # fmt: skip
    for cls in classes:
        parameters = list(inspect.signature(cls.close).parameters.values())[1:]
        assert all(parameter.default is not parameter.empty for parameter in parameters), cls
    manager = stability.NumericalStabilityManager(
        stability.GradientClippingConfig(),
        stability.NaNHandlingConfig(),
        stability.PyTorchDebuggingConfig(save_debug_info=False),
    )
    manager.start_debug_session("x")
    manager.close()
    manager.close()
    manager.start_debug_session("y")  # the first one has ended
    manager.close()


def test_what_is_shown_of_an_object_is_one_short_line(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.watch(model, optimizer, run=run) as session:
        run.log({"loss": 0.25, "values": np.arange(4.0)}, step=0)
        assert repr(session) == "<Watch of Sequential: running, last step -1>"
        train(model, optimizer, lambda loss: None, steps=3)
        assert repr(session) == "<Watch of Sequential: running, last step 2>"
        assert repr(run).startswith(f"<Run '{tmp_path}/run': open, ")
    assert "closed, finished" in repr(run)
    report = session.report()
    assert repr(report).startswith("<DebugReport: ")
    assert "<iframe sandbox srcdoc=" in report._repr_html_()
    with stepscope.read_run(run.path) as record:
        assert repr(record).startswith(f"<RunRecord '{tmp_path}/run': 'run', finished, ")
    (run.path / "run.json").unlink()
    assert "holds no run.json" in repr(record)
    for text in (repr(run), repr(session), repr(report), repr(record)):
        assert len(text.splitlines()) == 1
        assert len(text) < 300
