"""A session beside a stability manager, a GradScaler, and values that are not finite."""

import contextlib
import math
from dataclasses import replace

import pytest
import torch
from tracker_adapters.testing import MemoryEmitter
from watched_training import EVERY_STEP, FULL, adamw, loss_of, network, steps_of, train

import stepscope
from stability import (
    FirstNaNFinder,
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
)
from stepscope.errors import SessionError


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
    norms = [item.value for item in emitter.artifacts if item.name == "total_norm/gradients"]
    assert len(norms) == 4
    assert max(norms) < 10


def test_nan_is_traced_to_its_operator_by_replay(capsys):
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    inputs = torch.randn(8, 6)
    with torch.no_grad():
        model[4].weight[0, 0] = math.nan
    with stepscope.DebugSession(model, optimizer, run=emitter, on_error="raise") as session:
        loss = model(inputs).square().mean()
        loss.backward()
        session.step(loss, replay=lambda: model(inputs))

    alert = next(item for item in emitter.artifacts if item.name == "first_nan" and hasattr(item, "message"))
    assert alert.message.startswith("step 0: 4 (Linear): aten::addmm in the forward pass")
    assert "parameter 4.weight was not finite before this step" in alert.message
    assert "4 (Linear): aten::addmm" in capsys.readouterr().err
    report = session.report()
    assert "4 (Linear): aten::addmm" in report.summary()
    assert report.to_dict()["first_nans"][0]["origin"]["held_by"] == "parameter 4.weight"


def test_a_loss_that_is_not_finite_is_traced_on_a_step_that_is_not_measured():
    model = network()
    optimizer = adamw(model)
    config = replace(FULL, schedule=stepscope.Schedule(every=100))
    with stepscope.DebugSession(model, optimizer, config=config, on_error="raise") as session:
        for step in range(4):
            inputs = torch.full((8, 6), math.nan if step == 2 else 1.0)

            def compute(inputs=inputs):
                return model(inputs).square().mean()

            loss = compute()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, replay=compute)

    assert [answer.step for answer in session.report().first_nans] == [2]


def test_a_stability_manager_that_looks_for_nan_answers_for_the_session():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    with FirstNaNFinder(model, to_terminal=False) as finder:
        manager = NumericalStabilityManager(
            GradientClippingConfig(), NaNHandlingConfig(), emitter=emitter, find_first_nan=finder
        )
        inputs = torch.randn(8, 6)
        with stepscope.DebugSession(model, optimizer, run=emitter, stability=manager, on_error="raise") as session:
            loss = (model(inputs) - 100).log().mean()
            loss.backward()
            session.step(loss, replay=lambda: (model(inputs) - 100).log().mean())

    assert [answer.origin.operator for answer in session.report().first_nans] == ["aten::log"]
    assert sum(item.name == "first_nan" for item in emitter.artifacts) == 2  # the alert and the page


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


@pytest.mark.parametrize("theirs", [None, torch.amp.GradScaler("cpu")], ids=["none", "another"])
def test_a_manager_that_does_not_know_the_loops_scaler_is_an_error(theirs):
    """It would clip gradients that are multiplied by the scale."""
    model = network()
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), scaler=theirs)

    with pytest.raises(
        SessionError, match=r"has a GradScaler .* expected NumericalStabilityManager\(..., scaler=scaler"
    ):
        stepscope.DebugSession(model, adamw(model), stability=manager, scaler=torch.amp.GradScaler("cpu"))


def test_something_else_than_a_manager_is_an_error():
    model = network()

    with pytest.raises(
        SessionError, match="stability is of type NaNHandlingConfig; expected a NumericalStabilityManager"
    ):
        stepscope.DebugSession(model, adamw(model), stability=NaNHandlingConfig())


OF_THE_MANAGER = {
    "loss": {"stability/loss"},
    "norms": {"stability/total_norm/gradients", "stability/gradient_norm/0.weight"},
    "histograms": {"stability/gradients/0.weight"},
}


def emitted_with(config, *, emitters=None, clipping=None, training=train):
    """Trains with a manager in a session; returns the names that were emitted."""
    run, own = emitters or [MemoryEmitter()] * 2
    model = network()
    optimizer = adamw(model)
    manager = NumericalStabilityManager(
        clipping or GradientClippingConfig(),
        NaNHandlingConfig(),
        emitter=own,
        parameter_norms_every=1,
        histogram_every=1,
    )
    session = stepscope.DebugSession(model, optimizer, run=run, stability=manager, config=config, on_error="raise")
    with session:
        training(model, optimizer, session.step)
    names = {item.name for item in run.artifacts}
    training(model, optimizer, lambda loss: manager.step(model, loss, optimizer))
    assert {name for names in OF_THE_MANAGER.values() for name in names} <= {item.name for item in own.artifacts}
    return names


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        pytest.param(stepscope.DebugConfig(), [], id="standard"),
        pytest.param(
            stepscope.DebugConfig.preset("economy", sampling_rate=1.0), [], id="economy", marks=pytest.mark.slow
        ),
        pytest.param(
            stepscope.DebugConfig(enable_visualization=False),
            ["histograms"],
            id="no histograms",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            stepscope.DebugConfig(enable_model_diagnostics=False), ["loss"], id="no diagnostics", marks=pytest.mark.slow
        ),
        pytest.param(
            stepscope.DebugConfig(gradients=False, weights=True),
            ["norms", "histograms"],
            id="weights only",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            stepscope.DebugConfig(enable_gradient_debugging=False), ["norms", "histograms"], id="no gradients"
        ),
    ],
)
def test_a_manager_leaves_out_what_its_session_emits_and_nothing_else_and_only_meanwhile(config, kept):
    names = emitted_with(config)

    theirs = {name for name in names if name.startswith("stability/")}
    assert {series for series, theirs_of in OF_THE_MANAGER.items() if theirs_of & theirs} == set(kept)
    for series, own in OF_THE_MANAGER.items():
        if series not in kept:
            assert {name.removeprefix("stability/") for name in own} <= names
    assert {"stability/score", "stability/clip_coefficient"} <= theirs


def test_a_manager_with_other_norms_or_another_emitter_emits_them_all():
    standard = stepscope.DebugConfig()
    largest = GradientClippingConfig(norm_type=math.inf)
    assert emitted_with(standard, clipping=largest) >= OF_THE_MANAGER["norms"] | {"total_norm/gradients"}
    elsewhere = MemoryEmitter()
    names = emitted_with(standard, emitters=[MemoryEmitter(), elsewhere])
    assert not any(name.startswith("stability/") for name in names)


@pytest.mark.filterwarnings("ignore:Error detected in MulBackward0")
def test_the_step_that_backward_ended_is_the_last_of_the_sessions_losses():
    model, emitter = network(), MemoryEmitter()
    optimizer = adamw(model)
    debug = PyTorchDebuggingConfig(enable_autograd_anomaly=True, autograd_anomaly_mode="raise", save_debug_info=False)
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), debug, emitter=emitter)
    manager.start_debug_session("x")

    with (
        contextlib.closing(manager),
        pytest.raises(RuntimeError, match="returned nan values"),
        stepscope.DebugSession(model, optimizer, run=emitter, stability=manager) as session,
    ):
        train(model, optimizer, session.step, steps=2)
        (loss_of(model) + (model[4].weight * 0).sqrt().sum()).backward()

    assert steps_of(emitter, "scalar", "loss") == [0, 1, 2]
    assert steps_of(emitter, "scalar", "stability/score") == [0, 1, 2]
    assert steps_of(emitter, "scalar", "stability/loss") == []
