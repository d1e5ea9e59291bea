"""A session leaves no trace: not in the training, the model and the optimizer, nor when it is switched off."""

import copy
import pickle

import pytest
import torch
from tracker_adapters.testing import MemoryEmitter
from watched_training import FULL, adamw, hooks_on, loss_of, names_of, network, train

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("micro_batches", [1, pytest.param(4, marks=pytest.mark.slow)])
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
    assert [result["step"] for result in results] == [0, 1]
    assert "STEPSCOPE_DISABLED" in session.report().summary()
