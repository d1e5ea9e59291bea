"""A step that went wrong is repeated once, and the answer goes to the result, the terminal, an alert and a page."""

import math

import numpy as np
import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch_parts import Graphs

import stepscope
from debuggers import DebuggerConfigError
from debuggers.pages import load_page
from stability import (
    FirstNaNFinder,
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
)


class Logarithm(nn.Module):
    def forward(self, values):
        return (values + 7).clamp(min=0).log()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), Logarithm(), nn.Linear(8, 2))


class Loop:
    """A training loop whose batches hold one outlier at the steps of a set."""

    def __init__(self, bad_steps, *, emitter=None, scaler=None, with_replay=False, **finder):
        self.model, self.bad_steps, self.with_replay = network(), bad_steps, with_replay
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.finder = FirstNaNFinder(self.model, **finder)
        self.manager = NumericalStabilityManager(
            GradientClippingConfig(),
            NaNHandlingConfig(handling_type="skip"),
            emitter=emitter,
            find_first_nan=self.finder,
        )

    def step(self, number):
        generator = torch.Generator().manual_seed(number)
        inputs = torch.randn(64, 4, generator=generator)
        if number in self.bad_steps:
            inputs[3] *= 1000

        def compute():
            return self.model(inputs).square().mean()

        self.optimizer.zero_grad()
        loss = compute()
        loss.backward()
        self.finder.datapoints = range(100, 164)
        result = self.manager.step(self.model, loss, self.optimizer, replay=compute if self.with_replay else None)
        self.optimizer.step()
        return result


@pytest.mark.parametrize("with_replay", [False, True])
def test_the_result_names_module_operator_and_datapoints(with_replay):
    loop = Loop({3}, with_replay=with_replay)
    results = [loop.step(number) for number in range(5)]

    assert ["first_nan" in result["nan_stats"] for result in results] == [False, False, False, True, False]
    origin = results[3]["nan_stats"]["first_nan"]["origin"]
    assert (origin["module"], origin["operator"], origin["direction"]) == ("3", "aten::log", "forward")
    assert (origin["rows"], origin["datapoints"]) == ([3], [103])
    assert origin["inputs"][0]["zeros"] > 0
    assert "clamp" in origin["suggestion"]
    assert "test_finder.py" in origin["source"]


def test_the_last_steps_of_the_module_are_reported():
    loop = Loop({3}, history=3)
    results = [loop.step(number) for number in range(4)]
    history = results[3]["nan_stats"]["first_nan"]["history"]

    assert [entry["step"] for entry in history] == [0, 1, 2, 3]
    assert all(math.isfinite(entry["mean"]) for entry in history[:3])
    assert history[3]["minimum"] == -math.inf


def test_the_terminal_the_alert_and_the_page_report_it(tmp_path, capsys):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        loop = Loop({1}, emitter=run)
        for number in range(2):
            loop.step(number)
        loop.finder.close()
    record = stepscope.read_run(tmp_path / "run")
    alerts = [alert for alert in record.alerts() if alert.name == "first_nan"]
    (page,) = record.pages()
    outputs = load_page(page.path)[103]["first_nan"]

    assert "3 (Logarithm): aten::log in the forward pass" in capsys.readouterr().err
    assert [(alert.step, alert.level) for alert in alerts] == [(1, "error")]
    assert "3 (Logarithm): aten::log" in alerts[0].message
    assert np.isneginf(outputs["values"]["output"]).any()
    assert (outputs["values"]["self"] == 0).any()
    assert [entry["step"] for entry in outputs["history"]] == [0, 1]


def test_only_the_first_step_of_a_fault_is_repeated_and_not_too_often():
    loop = Loop({1, 2, 3, 6, 12}, steps_between=10)
    asked = [number for number in range(14) if "first_nan" in loop.step(number)["nan_stats"]]

    assert asked == [1, 12]
    assert [answer.step for answer in loop.finder.found] == [1, 12]


def test_training_is_bit_identical_to_training_without_it():
    def trained(finds):
        loop = Loop({2, 5}, steps_between=1, to_terminal=False)
        if not finds:
            loop.finder.close()
            loop.manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(handling_type="skip"))
        torch.manual_seed(1)
        for number in range(8):
            loop.step(number)
        state = loop.model.state_dict()
        return {name: value.clone() for name, value in state.items()}, torch.get_rng_state()

    (watched, state), (plain, plain_state) = trained(True), trained(False)

    assert all(
        torch.equal(value.view(-1).view(torch.uint8), plain[name].view(-1).view(torch.uint8))
        for name, value in watched.items()
    )
    assert torch.equal(state, plain_state)


def test_a_compiled_model_keeps_its_one_graph_and_is_repeated_eagerly(finding):
    torch._dynamo.reset()
    graphs, model = Graphs(), nn.Sequential(nn.Linear(4, 8), Logarithm(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend=graphs, fullgraph=True)
    with finding(compiled) as (finder, step):
        for scale in (1, 1, 1e3):
            step(compiled(torch.randn(16, 4) * scale).square().mean())

    assert len(graphs) == 1
    assert [(answer.step, answer.origin.module, answer.origin.operator) for answer in finder.found] == [
        (2, "1", "aten::log")
    ]


def test_closing_leaves_no_hook():
    model = network()
    with FirstNaNFinder(model):
        assert hook_count(model)
    assert not hook_count(model)


def test_a_fault_in_the_loss_needs_a_closure(finding):
    model, inputs = nn.Linear(3, 2), torch.randn(4, 3)

    def compute():
        outputs = model(inputs)
        return (outputs - outputs).square().sum(1).sqrt().mean()

    with finding(model) as (finder, step):
        compute().backward()
        step(compute())
    (answer,) = finder.found

    assert answer.origin.module == "the loss"
    assert "replay=" in answer.message
    assert "aten::sqrt" in answer.message


def test_a_replay_that_is_finite_says_what_differed(finding):
    model, inputs = nn.Sequential(nn.Linear(3, 2)), torch.full((4, 3), torch.nan)
    with finding(model) as (finder, step):
        step(model(inputs).mean(), after_backward=inputs.zero_, replay=lambda: model(inputs).mean())
    (answer,) = finder.found

    assert answer.origin is not None
    assert (answer.origin.module, answer.origin.operator) == ("0", "")
    assert "the replay was finite; 1 of the model's arguments were changed in place" in answer.message


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda model: model(torch.ones(4, 3)).mean(), "the replay was finite; the difference is not known"),
        (lambda model: "loss", "not replayed: the closure returned str and called no backward; expected the loss"),
    ],
    ids=["another batch", "no loss"],
)
def test_a_replay_of_something_else_says_so(finding, returned, said):
    model = nn.Sequential(nn.Linear(3, 2))
    with finding(model) as (finder, step):
        step(model(torch.full((4, 3), torch.nan)).mean(), replay=lambda: returned(model))

    assert said in finder.found[0].message
    assert said.partition(";")[0] in str(finder.found[0])


def test_a_replay_that_raises_stops_nothing(caplog):
    loop = Loop({0}, to_terminal=False)

    def broken():
        raise LookupError("no such batch")

    loop.model(torch.full((2, 4), torch.nan)).mean().backward()
    loss = torch.tensor(math.nan)
    result = loop.manager.step(loop.model, loss, loop.optimizer, replay=broken)

    assert any("no such batch" in note for note in result["nan_stats"]["first_nan"]["notes"])


@pytest.mark.parametrize("field", ["history", "steps_between"])
def test_wrong_numbers_are_refused(field):
    with pytest.raises(DebuggerConfigError, match=rf"{field} is 0; expected an integer of at least 1"):
        FirstNaNFinder(nn.Linear(1, 1), **{field: 0})
    with pytest.raises(DebuggerConfigError, match=rf"{field} is 1.5; expected an integer of at least 1"):
        FirstNaNFinder(nn.Linear(1, 1), **{field: 1.5})


def test_a_model_that_is_none_is_refused():
    with pytest.raises(DebuggerConfigError, match="model is 'network'; expected a Module"):
        FirstNaNFinder("network")


def test_steps_that_a_scaler_skips_by_itself_are_not_repeated():
    model = nn.Sequential(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    finder = FirstNaNFinder(model, to_terminal=False, steps_between=1)
    manager = NumericalStabilityManager(
        GradientClippingConfig(), NaNHandlingConfig(), scaler=scaler, find_first_nan=finder
    )

    def step(inputs):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        manager.step(model, loss, optimizer)
        scaler.step(optimizer)
        scaler.update()

    step(torch.full((4, 3), 1e8))  # overflows by the scale
    assert finder.found == []
    step(torch.full((4, 3), 1e30))  # overflows by itself
    (answer,) = finder.found
    assert answer.origin.module == "the loss"


@pytest.mark.parametrize("datapoints", [range(2), "abcd", [None] * 4], ids=str)
def test_wrong_datapoints_are_reported_and_stop_nothing(finding, datapoints):
    model = nn.Linear(3, 2)
    inputs = torch.ones(4, 3)
    inputs[3] = torch.nan
    with finding(model) as (finder, step):
        loss = model(inputs).mean()
        finder.datapoints = datapoints
        step(loss)

    assert finder.found[0].origin.rows == (3,)
    assert finder.found[0].origin.datapoints is None
    assert "expected an integer for each row of the batch" in finder.found[0].message


class Fails(nn.Module):
    """Makes NaN and raises in the calls of a set."""

    def __init__(self, calls):
        super().__init__()
        self.layer, self.bad_calls, self.calls = nn.Linear(4, 4), calls, 0

    def forward(self, values):
        self.calls += 1
        values = self.layer(values * torch.nan if self.calls in self.bad_calls else values)
        if self.calls in self.bad_calls:
            raise RuntimeError("out of something")
        return values


def test_a_pass_that_raised_and_was_tried_again_is_no_evidence(finding):
    model = nn.Sequential(Fails({3}), nn.Identity())
    with finding(model) as (finder, step):
        for number in range(3):
            if number == 2:
                with pytest.raises(RuntimeError):
                    model(torch.randn(3, 4))
            outputs = model(torch.randn(3, 4))
            step((outputs * (0 if number == 2 else 1)).abs().log().mean())
    (found,) = finder.found

    assert (found.origin.module, found.origin.operator, found.seen_first) == ("the loss", "aten::log", None)


def test_an_exception_that_is_handled_can_be_looked_at_and_is_answered_once():
    class Checks(nn.Module):
        def forward(self, values):
            values = (values * 0).log()
            return torch.distributions.Normal(values, 1.0, validate_args=True).rsample()

    model = nn.Sequential(nn.Linear(4, 4), Checks())
    with FirstNaNFinder(model, to_terminal=False) as finder:
        try:
            model(torch.randn(3, 4) * torch.tensor([1, 1, math.nan, 1]))
        except ValueError as error:
            answer = finder.look_at_error(error)
            assert finder.look_at_error(error) is None
        with pytest.raises(KeyError), FirstNaNFinder(model, to_terminal=False) as other:
            model({}["no such batch"])

    assert (answer.origin.module, answer.origin.held_by) == ("0", "argument 0 of the model")
    assert finder.found == [answer]
    assert other.found == []
