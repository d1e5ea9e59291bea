"""A session names the first NaN of steps that come with a ``replay``, measured or not, and of what they end with."""

import contextlib
import math
from typing import get_args

import msgspec
import numpy as np
import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter
from watched_training import hooks_on

import stepscope
from debuggers.first_nan.replay import replay_error
from stability import FirstNaNFinder, GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager
from stability.handling.config import HandlingType

EVERY_FIFTH = stepscope.DebugConfig(schedule=stepscope.Schedule(every=5), max_overhead=None)
GOVERNED = stepscope.DebugConfig(max_overhead=1e-9)
UNMEASURED = stepscope.DebugConfig(enable_gradient_debugging=False)


class Loop:
    """Trains with a loss whose gradient is NaN, and nothing else, at the steps of a set."""

    def __init__(self, bad_steps, *, dropout=0.0):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self.bad_steps = bad_steps

    def step(self, session, number, *, replay=True):
        inputs = torch.randn(16, 8)

        def compute():
            outputs = self.model(inputs)
            loss = (outputs - inputs.sum(1, keepdim=True)).square().mean()
            return loss + (outputs * 0).sqrt().sum() if number in self.bad_steps else loss

        self.optimizer.zero_grad()
        loss = compute()
        loss.backward()
        result = session.step(loss, replay=compute if replay else None)
        self.optimizer.step()
        return result


def told(session):
    return [(answer.step, answer.origin and answer.origin.operator) for answer in session.report().first_nans]


def skipping(**settings):
    return NumericalStabilityManager(
        GradientClippingConfig(max_norm=1.0), NaNHandlingConfig(handling_type="skip"), **settings
    )


@pytest.mark.parametrize(
    ("config", "managed"),
    [
        pytest.param(EVERY_FIFTH, False, id="scheduled"),
        pytest.param(GOVERNED, True, id="governed, managed"),
        pytest.param(UNMEASURED, False, id="unmeasured"),
        pytest.param(EVERY_FIFTH, True, id="scheduled, managed", marks=pytest.mark.slow),
        pytest.param(GOVERNED, False, id="governed", marks=pytest.mark.slow),
        pytest.param(UNMEASURED, True, id="unmeasured, managed", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("at", [23, *(pytest.param(at, marks=pytest.mark.slow) for at in (0, 20))])
def test_a_fault_in_any_step_is_named_whoever_measures_it(config, managed, at):
    loop = Loop({at})
    manager = skipping() if managed else None
    with stepscope.DebugSession(loop.model, loop.optimizer, stability=manager, config=config) as session:
        for number in range(26):
            loop.step(session, number)

    assert told(session)[0] == (at, "aten::sqrt")
    assert len(told(session)) == 1


@pytest.mark.parametrize("handling", get_args(HandlingType))
def test_a_step_is_repeated_before_a_manager_mends_it(handling):
    loop = Loop({3})
    nan_config = NaNHandlingConfig(handling_type=handling)
    manager = NumericalStabilityManager(GradientClippingConfig(), nan_config)
    with stepscope.DebugSession(loop.model, loop.optimizer, stability=manager, config=EVERY_FIFTH) as session:
        results = [loop.step(session, number) for number in range(5)]

    assert told(session) == [(3, "aten::sqrt")]
    assert results[3]["nan_stats"]["first_nan"]["origin"]["operator"] == "aten::sqrt"


def test_after_a_step_that_a_manager_skips_the_next_fault_of_a_silent_answer_is_looked_at_again():
    loop = Loop({3, 5})
    with stepscope.DebugSession(loop.model, loop.optimizer, stability=skipping()) as session:
        for number in range(7):
            if number == 3:  # repeated without its fault
                inputs = torch.randn(16, 8)
                loop.optimizer.zero_grad()
                (loop.model(inputs) * 0).sqrt().sum().backward()
                session.step(0.0, replay=lambda: loop.model(torch.ones(16, 8)).mean())
                loop.optimizer.step()
            else:
                loop.step(session, number)

    assert told(session) == [(3, None), (5, "aten::sqrt")]


class TestWhatIsSaidOfAParameter:
    def broken(self, session, loop):
        with torch.no_grad():
            loop.model[0].weight[0, 0] = math.nan
        return loop.step(session, 99)

    def test_an_update_is_blamed_only_after_a_step_that_was_seen_to_be_finite(self):
        loop = Loop(set())
        with stepscope.DebugSession(loop.model, loop.optimizer) as session:
            loop.step(session, 0)
            self.broken(session, loop)
        (answer,) = session.report().first_nans

        assert answer.origin.held_by == "parameter 0.weight"
        assert "the gradients of step 0 were finite, so the update after it broke it" in answer.message

    def test_before_the_first_step_the_initialisation_is_named(self):
        loop = Loop(set())
        with stepscope.DebugSession(loop.model, loop.optimizer) as session:
            self.broken(session, loop)
        (answer,) = session.report().first_nans

        assert "the step before it, if any, was not checked: check the initialisation" in answer.message

    def test_weights_that_an_unanswered_fault_broke_are_no_second_answer(self):
        loop = Loop(set())
        with stepscope.DebugSession(loop.model, loop.optimizer) as session:
            loop.optimizer.zero_grad()
            loss = loop.model(torch.full((4, 8), math.nan)).mean()
            loss.backward()
            session.step(loss, replay=lambda: loop.model(torch.ones(4, 8)).mean())
            loop.optimizer.step()
            loop.step(session, 1)

        assert told(session) == [(0, None)]


class TestScaledGradients:
    def overflowing(self, scale):
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        inputs = torch.full((4, 4), 1e8)
        with stepscope.DebugSession(model, optimizer, scaler=scaler) as session:
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(inputs).square().mean()
                scaler.scale(loss).backward()
                session.step(loss, replay=lambda: model(inputs).square().mean())
                scaler.step(optimizer)
                scaler.update()
        return session

    def test_overflows_by_the_scale_are_no_fault(self):
        assert told(self.overflowing(2.0**100)) == []

    def test_a_scaler_is_as_before_after_a_replay_that_uses_it(self):
        loop = Loop({1})
        scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=1000)
        with stepscope.DebugSession(loop.model, loop.optimizer, scaler=scaler) as session:
            for number in range(3):
                inputs = torch.randn(4, 8)

                def compute(number=number, inputs=inputs):
                    outputs = loop.model(inputs)
                    loss = outputs.square().mean() + ((outputs * 0).sqrt().sum() if number == 1 else 0)
                    scaler.scale(loss).backward()
                    scaler.unscale_(loop.optimizer)
                    return loss

                loop.optimizer.zero_grad()
                loss = compute()
                session.step(loss, replay=compute)
                scaler.step(loop.optimizer)
                scaler.update()

        assert told(session) == [(1, "aten::sqrt")]
        assert scaler.get_scale() == 0.5  # one step was skipped, as without the replay


def test_forward_passes_are_observed_between_start_and_stop_and_not_in_a_pause():
    loop = Loop(set())
    session = stepscope.DebugSession(loop.model, loop.optimizer, config=UNMEASURED)
    plain = hooks_on(loop.model, loop.optimizer)
    session.start()
    watched = hooks_on(loop.model, loop.optimizer)
    loop.step(session, 0)
    with session.paused():
        assert hooks_on(loop.model, loop.optimizer) == plain
    assert hooks_on(loop.model, loop.optimizer) == watched > plain
    session.stop()
    assert hooks_on(loop.model, loop.optimizer) == plain


def test_training_with_replays_is_bit_identical_to_training_without():
    def trained(watched):
        loop = Loop({2, 4}, dropout=0.3)
        session = stepscope.DebugSession(loop.model, loop.optimizer) if watched else contextlib.nullcontext()
        with session:
            for number in range(6):
                loop.optimizer.zero_grad()
                inputs = torch.randn(16, 8)

                def compute(inputs=inputs, number=number):
                    outputs = loop.model(inputs)
                    return outputs.square().mean() + ((outputs * 0).sqrt().sum() if number in loop.bad_steps else 0)

                loss = compute()
                loss.backward()
                if watched:
                    session.step(loss, replay=compute)
                if number not in loop.bad_steps:
                    loop.optimizer.step()
        return [parameter.detach().clone() for parameter in loop.model.parameters()], torch.get_rng_state()

    (ours, our_state), (plain, state) = trained(True), trained(False)

    assert all(torch.equal(one, other) for one, other in zip(ours, plain, strict=True))
    assert torch.equal(our_state, state)


class Checked(nn.Module):
    def forward(self, values):
        values = (values * 0 - 1).sqrt()
        assert torch.isfinite(values).all(), "not finite"
        return values


class TestExceptions:
    @pytest.mark.parametrize("watched", ["watch", "session", "manager"])
    def test_nan_that_make_the_forward_pass_raise_are_named(self, watched):
        model = nn.Sequential(nn.Linear(4, 8), Checked(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        emitter = MemoryEmitter()
        finder = FirstNaNFinder(model)
        session = {
            "watch": lambda: stepscope.watch(model, optimizer, run=emitter),
            "session": lambda: stepscope.DebugSession(model, optimizer, run=emitter),
            "manager": lambda: stepscope.DebugSession(
                model, optimizer, run=emitter, stability=skipping(find_first_nan=finder, emitter=emitter)
            ),
        }[watched]()
        with pytest.raises(AssertionError, match="not finite"), finder, session:
            model(torch.randn(3, 4))
        (answer,) = session.report().first_nans

        assert (answer.origin.module, answer.origin.operator) == ("1", "aten::sqrt")
        assert "sessions/test_first_nan.py" in str(answer.origin.source)
        assert [alert.name for alert in emitter.artifacts if alert.name == "first_nan" and hasattr(alert, "level")] == [
            "first_nan"
        ]

    def test_nan_that_make_the_loss_raise_are_named_in_the_model(self):
        loop = Loop(set())
        with (
            pytest.raises(ValueError, match="Expected parameter"),
            stepscope.DebugSession(loop.model, loop.optimizer) as session,
        ):
            loop.step(session, 0)
            with torch.no_grad():
                loop.model[3].bias.fill_(math.nan)
            torch.distributions.Normal(loop.model(torch.randn(4, 8)), 1.0, validate_args=True)
        (answer,) = session.report().first_nans

        assert (answer.origin.module, answer.origin.operator) == ("3", "aten::addmm")
        assert answer.origin.held_by == "parameter 3.bias"

    @pytest.mark.parametrize("error", [KeyError("x"), OSError("disk"), RuntimeError("elsewhere"), ValueError("no")])
    def test_other_exceptions_are_not_put_down_to_infinities_that_are_meant(self, error):
        class Masks(nn.Module):
            def forward(self, values):
                scores = values.masked_fill(torch.eye(4, 8).bool(), -math.inf)
                kept = torch.where(values > 0, values.clamp(min=0).log(), 0)
                values = scores.softmax(1) + kept.detach().nan_to_num()
                raise error

        model = nn.Sequential(nn.Linear(4, 8), Masks())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(type(error)), stepscope.DebugSession(model, optimizer) as session:
            model(torch.randn(4, 4))

        assert session.report().first_nans == ()

    @pytest.mark.parametrize(
        ("function", "operators"),
        [
            (lambda x: (x * 0 - 1).sqrt(), ["aten::sqrt"]),
            (lambda x: (x * 0 - 1).log() + x, ["aten::log"]),
            (lambda x: (x * 0) / (x * 0) - 1, ["aten::div"]),
        ],
    )
    def test_nan_of_the_loss_that_make_it_raise_are_put_down_to_it(self, function, operators):
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(ValueError, match="Expected parameter"), stepscope.watch(model, optimizer) as session:
            torch.distributions.Categorical(logits=function(model(torch.randn(2, 4))), validate_args=True)
        (answer,) = session.report().first_nans

        assert (answer.origin.module, [answer.origin.operator]) == ("the loss", operators)
        assert "Categorical" in answer.origin.source.text

    def raised(self, model):
        with pytest.raises(ValueError, match="Expected parameter") as raised:
            torch.distributions.Categorical(logits=(model(torch.randn(2, 4)) - 1e9).sqrt(), validate_args=True)
        return replay_error(model, None, raised.value).origin

    def test_where_nothing_was_kept_the_operator_is_known_from_the_graph(self):
        origin = self.raised(nn.Linear(4, 3))

        assert origin.module == "the model or the loss"
        assert "it may be aten::sqrt;" in origin.suggestion

    def test_where_nothing_was_kept_a_parameter_that_holds_nan_is_named(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        with torch.no_grad():
            model[1].bias[1] = math.nan
        origin = self.raised(model)

        assert (origin.module, origin.held_by) == ("1", "parameter 1.bias")

    def test_a_watched_step_before_it_is_evidence(self):
        loop = Loop(set())
        with pytest.raises(ValueError, match="Expected"), stepscope.watch(loop.model, loop.optimizer) as session:
            loop.optimizer.zero_grad()
            loop.model(torch.randn(4, 8)).mean().backward()
            loop.optimizer.step()
            with torch.no_grad():
                loop.model[0].bias[1] = math.nan
            torch.distributions.Normal(loop.model(torch.randn(4, 8)), 1.0, validate_args=True)
        (answer,) = session.report().first_nans

        assert answer.step == 1
        assert "gradients of step 0 were finite, so the update after it broke it" in answer.message

    def test_a_factorisation_and_a_range_check_inside_of_the_model_are_named(self):
        class Gaussian(nn.Module):
            def forward(self, values):
                return torch.linalg.cholesky((values - 1e9).log().mT @ values)

        model = nn.Sequential(nn.Linear(4, 4), Gaussian())
        finder = FirstNaNFinder(model, to_terminal=False)
        with pytest.raises(RuntimeError), finder:
            model(torch.randn(3, 4))

        assert [(answer.origin.module, answer.origin.operator) for answer in finder.found] == [("1", "aten::log")]


@pytest.mark.parametrize("backward", [torch.Tensor.backward, torch.autograd.backward])
def test_a_repeated_step_enters_no_evidence(backward):
    def evidence(replays):
        loop = Loop({3})
        with stepscope.watch(loop.model, loop.optimizer) as session:
            for number in range(6):
                inputs = torch.randn(16, 8)

                def compute(inputs=inputs, number=number):
                    loss = loop.model(inputs).square().mean()
                    return loss + (loss * 0).sqrt() if number in loop.bad_steps else loss

                def again(compute=compute):
                    loss = compute()
                    backward(loss)
                    return loss

                loss = compute()
                loss.backward()
                session.step(replay=again if replays else None)
                if number in loop.bad_steps:
                    loop.optimizer.zero_grad()
                else:
                    loop.optimizer.step()
        assert len(told(session)) == replays
        return session.evidence()

    with_replay, without = evidence(replays=True), evidence(replays=False)
    facts = [msgspec.structs.replace(one.facts, first_nans=()) for one in (with_replay, without)]
    assert facts[0] == facts[1]
    for name in ("loss", "backward_passes", "unclipped_norm", "total_norm/gradients"):
        one, other = with_replay[name], without[name]
        assert one.steps.tolist() == other.steps.tolist(), name
        np.testing.assert_array_equal(one.values, other.values)
    assert [one.broken for one in facts[0].invariants if one.name == "gradients_zeroed"] == [4]
