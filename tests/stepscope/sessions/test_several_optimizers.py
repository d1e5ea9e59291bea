"""``watch`` with a list of optimizers: what a step is, whose gradients and changes are seen, and wrong lists."""

import logging
import weakref

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

import stepscope
from debuggers.instrumentation import kept_gradients
from stepscope import SessionError
from stepscope.integrations.session_options import SessionOptions
from stepscope.scripts.trainings import WatchedOptimizers
from stepscope.sessions.running import is_watched


class Training:
    """A regression whose two layers have an optimizer each; knows the true norm of each gradient that was used."""

    def __init__(self, every=1, between=None, scaled=False, fused=False):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
        self.first = torch.optim.SGD(self.model[0].parameters(), 1e-2, momentum=0.9)
        self.second = torch.optim.AdamW(self.model[2].parameters(), 1e-3, fused=fused)
        self.optimizers = [self.first, self.second]
        self.schedules = [torch.optim.lr_scheduler.StepLR(one, 5, 0.5) for one in self.optimizers]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=scaled)
        self.every, self.between = every, between
        self.norms = {"0.weight": [], "2.weight": []}
        self.changes = {"0.weight": [], "2.weight": []}

    def step(self, name, optimizer):
        weight = self.model.get_parameter(name)
        before = weight.detach().clone()
        self.norms[name].append(weight.grad.norm().item() / self.scaler.get_scale())
        self.scaler.step(optimizer)
        self.changes[name].append(((weight - before).norm() / weight.norm()).item())

    def run(self, steps=12):
        losses = []
        for number in range(steps):
            for one in self.optimizers:
                one.zero_grad()
            inputs = torch.randn(16, 6)
            loss = mse_loss(self.model(inputs), inputs.sum(1, keepdim=True))
            self.scaler.scale(loss).backward()
            self.step("0.weight", self.first)
            if self.between is not None:
                self.between(self)
            steps_both = number % self.every == self.every - 1
            if steps_both:
                self.step("2.weight", self.second)
            self.scaler.update()
            for one in self.schedules if steps_both else self.schedules[:1]:
                one.step()
            losses.append(loss.item())
        return losses


@pytest.fixture
def record(tmp_path):
    def run(training, loop, **options):
        with (
            stepscope.open_run(tmp_path / "run", sinks=[]) as opened,
            stepscope.watch(training.model, training.optimizers, run=opened, config="full", **options) as session,
        ):
            losses = loop(session)
        assert session.report().failures == {}
        for one in training.optimizers:
            assert not one._optimizer_step_pre_hooks
            assert not one._optimizer_step_post_hooks
        return stepscope.read_run(tmp_path / "run"), session, losses

    return run


def values(record, name):
    found = record.scalars(name)
    return dict(zip(found.steps.tolist(), found.values.tolist(), strict=True))


def zeroed(training):
    training.first.zero_grad()


@pytest.mark.parametrize(
    ("between", "scaled", "fused"),
    [
        (None, False, True),
        (zeroed, True, False),
        pytest.param(None, False, False, marks=pytest.mark.slow),
        pytest.param(None, True, False, marks=pytest.mark.slow),
        pytest.param(None, True, True, marks=pytest.mark.slow),
        pytest.param(zeroed, False, False, marks=pytest.mark.slow),
        pytest.param(zeroed, False, True, marks=pytest.mark.slow),
        pytest.param(zeroed, True, True, marks=pytest.mark.slow),
    ],
)
def test_one_step_for_all_with_the_gradients_and_changes_of_each(record, between, scaled, fused):
    """Each choice in the fast tests, and all compositions in the slow ones."""
    training = Training(between=between, scaled=scaled, fused=fused)
    seen, session, losses = record(training, lambda session: training.run())
    assert session.last_step == 11
    assert losses == Training(between=between, scaled=scaled, fused=fused).run()
    for name in ("0.weight", "2.weight"):
        norms, changes = values(seen, f"gradient_norm/{name}"), values(seen, f"update_ratio/{name}")
        assert list(norms.values()) == pytest.approx(training.norms[name], rel=1e-4)
        assert list(changes.values()) == pytest.approx(training.changes[name], rel=1e-3)
    assert list(values(seen, "loss").values()) == pytest.approx(losses, rel=1e-5)
    for name, rate in (("learning_rate/sgd", 1e-2), ("learning_rate/adamw", 1e-3)):
        assert list(values(seen, name).values()) == pytest.approx([rate] * 5 + [rate / 2] * 5 + [rate / 4] * 2)
    assert not any(info.name == "learning_rate" for info in seen.names())


def test_one_that_steps_every_third_time_has_steps_of_its_own(record):
    training = Training(every=3)
    seen, session, losses = record(training, lambda session: training.run(30))
    assert losses == Training(every=3).run(30)
    assert session.last_step == 30 + 10 - 1
    ratios = values(seen, "update_ratio/2.weight")
    assert list(ratios.values()) == pytest.approx(training.changes["2.weight"], rel=1e-3)
    assert all(ratio > 0 for ratio in ratios.values())
    assert len(values(seen, "update_ratio/0.weight")) >= 29
    assert not [one for one in session.report().findings if one.kind in ("small_update", "idle_optimizer")]
    assert not any("loss" in gap for gap in session.report().coverage.gaps)


def test_a_step_told_by_the_loop_is_taken_once(record):
    training = Training()

    def loop(session):
        for number in range(6):
            for one in training.optimizers:
                one.zero_grad()
            loss = training.model(torch.randn(4, 6)).square().mean()
            loss.backward()
            session.step(loss, metrics={"number": number})
            for one in training.optimizers:
                one.step()
            assert session.last_step == number
        training.model(torch.randn(4, 6)).square().mean().backward()
        session.step(0.25)  # no optimizer steps any more

    seen, _, _ = record(training, loop)
    assert values(seen, "number") == {number: float(number) for number in range(6)}
    assert values(seen, "loss")[6] == 0.25
    assert len(values(seen, "loss")) == 7


def test_what_is_told_is_checked_at_once(record):
    training = Training()

    def loop(session):
        with pytest.raises(stepscope.ArtifactError, match="loss"):
            session.step("low")
        with pytest.raises(SessionError, match="inputs is 3"):
            session.step(0.5, inputs=3)
        with pytest.raises(TypeError, match="unexpected keyword argument 'los'"):
            session.step(los=0.5)

    _, session, _ = record(training, loop)
    assert session.last_step == -1


def test_pauses_and_the_end_take_a_step_that_waits(record):
    training = Training()

    def loop(session):
        for parameter in training.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        training.first.step()
        with session.paused():
            training.second.step()
        assert session.last_step == 0
        training.first.step()

    seen, session, _ = record(training, loop)
    assert session.last_step == 1
    assert list(values(seen, "update_ratio/0.weight")) == [0, 1]


def test_a_list_of_one_is_that_one(tmp_path):
    training = Training()
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.watch(training.model, (training.first,), run=run),
    ):
        training.run(2)
    names = [one.name for one in stepscope.read_run(tmp_path / "run").names()]
    assert [one for one in names if "learning" in one] == ["learning_rate"]


def test_a_schedule_and_a_resumed_run(tmp_path):
    training = Training()
    for start in (0, 6):
        with (
            stepscope.open_run(tmp_path / "run", sinks=[], resume=start > 0) as run,
            stepscope.watch(
                training.model, training.optimizers, run=run, updates=True, schedule={"every": 3}
            ) as session,
        ):
            training.run(6)
        assert session.last_step == start + 5
    seen = stepscope.read_run(tmp_path / "run")
    ratios = values(seen, "update_ratio/0.weight")
    assert {0, 3, 6, 9} <= set(ratios)
    assert list(ratios.values()) == pytest.approx([training.changes["0.weight"][step] for step in ratios], rel=1e-3)
    assert "mixed_series" not in {one.name for one in seen.names()}
    assert all(is_watched(one) is False for one in training.optimizers)


def test_a_script_is_not_watched_a_second_time(tmp_path):
    training = Training()
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        script = WatchedOptimizers(run, SessionOptions())
        with stepscope.watch(training.model, training.optimizers):
            training.run(3)
            assert script.sessions == {}
        script.end()


def test_clipping_is_seen_per_step(record):
    training = Training()

    def loop(session):
        for _ in range(40):
            for one in training.optimizers:
                one.zero_grad()
            (100 * training.model(torch.randn(8, 6)).square().mean()).backward()
            for one, layer in zip(training.optimizers, (0, 2), strict=True):
                nn.utils.clip_grad_norm_(training.model[layer].parameters(), 0.1)
                one.step()
                one.zero_grad()

    seen, session, _ = record(training, loop)
    total = list(values(seen, "total_norm/gradients").values())
    assert max(total) <= 0.1 * 2**0.5 + 1e-6
    assert not [one for one in session.report().findings if one.level != "info"]


def test_an_optimizer_of_each_parameter_that_steps_inside_of_the_backward_pass(record):
    training = Training()
    parameters = list(training.model.parameters())
    training.optimizers = [torch.optim.SGD([one], 1e-2) for one in parameters]
    own = dict(zip(parameters, training.optimizers, strict=True))

    def take(parameter):
        own[parameter].step()
        own[parameter].zero_grad()

    handles = [one.register_post_accumulate_grad_hook(take) for one in parameters]

    def loop(session):
        for _ in range(10):
            training.model(torch.randn(8, 6)).square().mean().backward()

    seen, session, _ = record(training, loop)
    for handle in handles:
        handle.remove()
    assert session.last_step == 9
    for name, _ in training.model.named_parameters():
        assert len(values(seen, f"gradient_norm/{name}")) == 10
        assert len(values(seen, f"update_ratio/{name}")) >= 9


def test_gradients_that_are_freed_at_once_are_kept_as_far_as_they_fit(record, monkeypatch):
    """Which are not, the report says, and the training is what it is."""

    def made():
        training = Training()
        parameters = list(training.model.parameters())
        training.optimizers = [torch.optim.Adam([one], 1e-2) for one in parameters]
        own, alive, most = dict(zip(parameters, training.optimizers, strict=True)), [], []
        order = []

        def take(parameter):
            alive.append(weakref.ref(parameter.grad))
            order.append(parameter)
            own[parameter].step()
            own[parameter].zero_grad()
            most.append(sum(one() is not None for one in alive))

        for one in parameters:
            one.register_post_accumulate_grad_hook(take)

        def loop():
            losses = []
            for _ in range(60):
                inputs = torch.randn(8, 6)
                loss = mse_loss(training.model(inputs), inputs.sum(1, keepdim=True))
                loss.backward()
                losses.append(loss.item())
            return losses

        return training, loop, most, order

    monkeypatch.setattr(kept_gradients, "MOST_HELD", 4 * 13)  # the second layer
    _, alone, _, _ = made()
    expected = alone()
    training, loop, most, order = made()
    seen, session, losses = record(training, lambda session: loop())
    assert losses == expected
    assert session.last_step == 59
    assert max(most) <= 3
    names = {parameter: name for name, parameter in training.model.named_parameters()}
    last = names[order[3]]  # the step ends with it, so that nothing need be kept
    assert {names[one] for one in order[:2]} == {"2.weight", "2.bias"}
    (left_out,) = {"0.weight", "0.bias"} - {last}
    coverage = session.report().coverage
    assert coverage.not_kept == (left_out,)
    assert coverage.without_gradient == coverage.lost_gradient == ()
    assert any("1 of 4 parameters is without measured gradients" in gap for gap in coverage.gaps)
    assert session.report().causes == ()
    assert not [one for one in session.report().findings if one.level != "info"]
    norms = {name: values(seen, f"gradient_norm/{name}") for name in names.values() if name != left_out}
    assert {name: len(found) for name, found in norms.items()} == {last: 60, "2.weight": 60, "2.bias": 60}


@pytest.mark.parametrize(
    ("bad", "fused"),
    [
        (1, True),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0, False), (0, True), (1, False))),
    ],
)
def test_a_scaler_that_skips_the_step_of_one(record, bad, fused):
    """The others' steps count, none is taken twice, and nothing is said to be wrong."""

    def loop(training, losses):
        for number in range(40):
            for one in training.optimizers:
                one.zero_grad()
            loss = training.model(torch.randn(16, 6)).square().mean()
            training.scaler.scale(loss).backward()
            if number % 5 == 4:
                training.model[2 * bad].weight.grad[0, 0] = torch.inf
            for one in training.optimizers:
                training.scaler.step(one)
            training.scaler.update()
            losses.append(loss.item())
        return losses

    training = Training(scaled=True, fused=fused)
    _, session, losses = record(training, lambda session: loop(training, []))
    assert losses == loop(Training(scaled=True, fused=fused), [])
    assert session.last_step == 39
    assert session.report().causes == ()
    assert not [one for one in session.report().findings if one.level != "info"]


@pytest.mark.parametrize(
    ("bad", "skipped", "extra"),
    [
        (0, (0,), 0),
        pytest.param(1, (1,), 1, marks=pytest.mark.slow),
        pytest.param(0, (0, 1, 2), 1, marks=pytest.mark.slow),
        (1, (3, 4, 9), 1),
        pytest.param(1, (0,), 0, marks=pytest.mark.slow),
        pytest.param(0, (1,), 1, marks=pytest.mark.slow),
        pytest.param(1, (0, 1, 2), 1, marks=pytest.mark.slow),
        pytest.param(0, (3, 4, 9), 1, marks=pytest.mark.slow),
    ],
)
def test_a_scaler_that_skips_early_steps_of_one(record, bad, skipped, extra):
    """Where it is not known yet who follows whom, at most one iteration counts as two steps."""
    training = Training(scaled=True)

    def loop(session):
        for number in range(20):
            for one in training.optimizers:
                one.zero_grad()
            loss = training.model(torch.randn(16, 6)).square().mean()
            training.scaler.scale(loss).backward()
            if number in skipped:
                training.model[2 * bad].weight.grad[0, 0] = torch.inf
            for one in training.optimizers:
                training.scaler.step(one)
            training.scaler.update()

    _, session, _ = record(training, loop)
    assert 20 <= session.last_step + 1 <= 20 + extra
    assert not [one for one in session.report().findings if one.level != "info"]


@pytest.mark.parametrize("order", [(0, 1), pytest.param((1, 0), marks=pytest.mark.slow)])
def test_one_that_accumulates_and_one_that_is_given_up_need_no_zeroed_gradients(order):
    """Gradients that nobody steps with, or not yet, may add up; those of each step are looked at all the same."""
    training = Training()

    def loop(steps, stepping, zeroed):
        for number in range(steps):
            training.model(torch.randn(16, 6)).square().mean().backward()
            for place in order:
                if stepping(place, number):
                    training.optimizers[place].step()
                    if zeroed(place):
                        training.optimizers[place].zero_grad()

    with stepscope.watch(training.model, training.optimizers) as session:
        loop(60, lambda place, number: place == 0 or number % 4 == 3, lambda place: True)
        loop(60, lambda place, number: place == 1, lambda place: True)
        assert session.report().causes == ()
        training.first.zero_grad()
        loop(60, lambda place, number: True, lambda place: place == 0)
    assert session.report().causes[0].code == "gradients_not_zeroed"


def test_a_probe_leaves_no_trace():
    training = Training()
    with stepscope.watch(training.model, training.optimizers) as session:
        losses = training.run(4)
        inputs = torch.ones(16, 6)
        probed = session.probe((inputs, inputs.sum(1, keepdim=True)), loss=mse_loss)
        assert session.last_step == 3
        assert "fits" in probed.results["fit_one_batch"]
        losses += training.run(4)
    assert session.report().failures == {}
    assert losses == Training().run(8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda first, second: [], "optimizer is an empty list; expected a torch.optim.Optimizer, or a list"),
        (lambda first, second: (), "optimizer is an empty tuple"),
        (lambda first, second: [first, "adam"], r"optimizer\[1\] is str 'adam'; expected a torch.optim.Optimizer"),
        (lambda first, second: [first, None], r"optimizer\[1\] is None"),
        (lambda first, second: [first, second, first], r"optimizer\[0\] and optimizer\[2\] are the same SGD"),
        (lambda first, second: {"a": first}, "optimizer is of type dict"),
    ],
)
def test_wrong_lists_are_named(make, message):
    training = Training()
    with pytest.raises(SessionError, match=message):
        stepscope.watch(training.model, make(training.first, training.second))
    assert not training.first._optimizer_step_pre_hooks


def test_a_copy_that_memory_is_missing_for_never_stops_the_training():
    class Large(torch.Tensor):
        def clone(self, *args, **kwargs):
            raise torch.OutOfMemoryError("out of memory")

    training = Training()
    for one in training.model.parameters():
        one.grad = torch.ones_like(one)
    training.model[0].weight.grad = torch.ones(12, 6).as_subclass(Large)
    training.first.param_groups[0]["momentum"] = 0.0  # of which torch makes a copy itself
    with stepscope.watch(training.model, training.optimizers) as session:
        for one in training.optimizers:
            one.step()
    report = session.report()
    assert session.last_step == 0
    assert report.failures == {"keeping gradients: OutOfMemoryError": 1}
    assert any("an internal error occurred" in gap for gap in report.coverage.gaps)


class Wrapper(torch.optim.Optimizer):
    """An optimizer in another one, made without torch's constructor, as Accelerate makes them."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def step(self, closure=None):
        return self.optimizer.step(closure)


def test_what_a_wrapper_without_hooks_wraps_is_watched():
    training = Training()
    wrapped = [Wrapper(Wrapper(training.first)), Wrapper(training.second)]
    with pytest.raises(SessionError, match=r"optimizer\[0\] and optimizer\[2\] are the same SGD"):
        stepscope.watch(training.model, [*wrapped, training.first])
    with stepscope.watch(training.model, wrapped) as session:
        assert is_watched(training.first)
        training.run(3)
    assert session.last_step == 2
    with stepscope.DebugSession(training.model, wrapped[0], config=stepscope.DebugConfig(updates=True)) as session:
        session.step()
        wrapped[0].step()
    assert session.report().failures == {}


def test_a_wrapper_that_shows_the_hooks_of_what_it_hides_is_watched():
    """The hooks are called by another optimizer than the one that was given."""

    class Delegating(Wrapper):
        def __init__(self, optimizer):
            self.hidden = optimizer

        def __getattr__(self, name):
            return getattr(self.__dict__["hidden"], name)

        def step(self, closure=None):
            return self.hidden.step(closure)

        param_groups = property(lambda self: self.hidden.param_groups)

    training = Training()
    wrapped = [Delegating(training.first), training.second]
    with stepscope.watch(training.model, wrapped, updates=True) as session:
        training.run(3)
    assert session.last_step == 2
    assert session.report().failures == {}


@pytest.mark.parametrize(("place", "name"), [(0, "optimizer"), (1, r"optimizer\[1\]")])
def test_a_wrapper_without_hooks_that_wraps_nothing_is_named(place, name):
    training, empty = Training(), Wrapper(None)
    given = [training.first, empty] if place else empty
    with pytest.raises(SessionError, match=name + r" is of type Wrapper, which did not call torch.optim.Optimizer.__i"):
        stepscope.watch(training.model, given)
    assert not training.first._optimizer_step_pre_hooks


def test_shared_and_foreign_parameters_are_named(caplog):
    training = Training()
    everything = torch.optim.SGD(training.model.parameters(), 1e-3)
    foreign = torch.optim.SGD(nn.Linear(2, 2).parameters(), 1e-3)
    with caplog.at_level(logging.WARNING):
        stepscope.watch(training.model, [training.first, everything, foreign]).close()
    messages = [one.getMessage() for one in caplog.records]
    assert any("optimizer[0] (SGD) and optimizer[1] (SGD) hold the same 2 parameters (0.weight, 0.bias)" in one
               for one in messages)  # fmt: skip
    assert any("none of optimizer[2]'s 2 parameters is one of the Sequential's 4" in one for one in messages)


def test_a_session_on_one_of_them_gives_way(tmp_path, caplog):
    training = Training()
    alone = stepscope.watch(training.model, training.first)
    both = stepscope.watch(training.model, training.optimizers)
    training.run(2)
    both.close()
    assert alone.last_step == -1
    assert both.last_step == 1
    assert any("already watched" in one.getMessage() for one in caplog.records)


def test_without_measuring_nothing_is_hooked(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    training = Training()
    session = stepscope.watch(training.model, training.optimizers)
    session.step(0.5)
    assert not training.first._optimizer_step_pre_hooks
    session.close()
    assert session.last_step == 0
