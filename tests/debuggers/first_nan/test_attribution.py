"""A NaN is attributed to the module, the value and the step that it comes from, and to nothing else."""

import math
import random

import pytest
import torch
from torch import nn
from torch_parts import Applies

from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.first_nan.loss_graph import loss_candidates
from debuggers.first_nan.replay import replay_closure, replay_forward
from debuggers.torch_internals.autograd import next_node_number


class BadSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        ctx.save_for_backward(values)
        return values.abs()

    @staticmethod
    def backward(ctx, gradient):
        (values,) = ctx.saved_tensors
        return gradient / (values - values)


class NoOperators(torch.autograd.Function):
    """Its forward pass runs no operator."""

    @staticmethod
    def forward(ctx, values):
        return values

    @staticmethod
    def backward(ctx, gradient):
        return (gradient - gradient) / 0


def network(function):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), Applies(function), nn.Linear(8, 2))


def answer(model, inputs=None):
    inputs = torch.randn(6, 4) if inputs is None else inputs
    return replay_closure(model, lambda: model(inputs).square().mean()).origin


class TestWhoMadeANode:
    @pytest.mark.parametrize("function", [BadSlope.apply, NoOperators.apply], ids=["operators", "none"])
    def test_a_custom_function_at_the_end_of_a_module_is_the_modules(self, function):
        origin = answer(network(function))

        assert (origin.module, origin.operator, origin.direction) == ("1", "aten::div", "backward")
        assert "ctx" not in origin.source.text
        assert "/" in origin.source.text

    def test_a_custom_function_at_the_end_of_the_model_is_not_the_losses(self):
        model = nn.Sequential(nn.Linear(4, 8), Applies(BadSlope.apply))
        assert answer(model).module == "1"

    def test_a_custom_function_of_the_loss_is_the_losses(self):
        model, inputs = nn.Linear(4, 8), torch.randn(6, 4)
        assert replay_closure(model, lambda: BadSlope.apply(model(inputs)).mean()).origin.module == "the loss"

    def test_a_change_in_place_of_a_part_at_the_end_of_a_module_is_the_modules(self):
        def function(values):
            kept = values * 0
            kept[:, 2:4].sqrt_()
            return kept

        origin = answer(network(function))
        assert (origin.module, origin.operator, origin.direction) == ("1", "aten::sqrt_", "backward")

    def test_after_a_custom_function_the_next_operator_has_its_own_node(self):
        origin = answer(network(lambda values: (NoOperators.apply(values.detach()) * 0 + values * 0).sqrt()))
        assert (origin.module, origin.operator) == ("1", "aten::sqrt")


class TestWhatIsAMask:
    @pytest.mark.parametrize("place", [torch.inf, torch.nan])
    @pytest.mark.parametrize("rest", [0.0, 1.0])
    def test_one_infinity_in_a_constant_argument_is_a_fault_of_the_data(self, place, rest):
        inputs = torch.full((6, 4), rest)
        inputs[2, 1] = place
        origin = answer(network(torch.tanh), inputs)

        assert (origin.origin, origin.held_by, origin.rows) == ("input", "argument 0 of the model", (2,))

    def test_minus_infinity_that_is_multiplied_is_a_fault_of_the_data(self):
        inputs = torch.zeros(6, 4)
        inputs[2, 1] = -torch.inf
        assert answer(network(torch.tanh), inputs).origin == "input"

    def test_one_infinity_in_a_buffer_is_no_mask(self):
        model = network(nn.BatchNorm1d(8).eval())
        model[1].function.running_mean[3] = torch.inf
        assert answer(model).held_by == "buffer 1.function.running_mean"

    @pytest.mark.parametrize(
        "table", [[0.0, -math.inf, -1.5, -0.3], [-math.inf] * 4, [0.0, -math.inf, 0.0, 0.0]], ids=str
    )
    def test_logarithms_of_probabilities_are_meant(self, table):
        class Chain(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                self.register_buffer("table", torch.tensor(table))

            def forward(self, values):
                values = self.layer(values)
                return torch.cat([values + self.table, values], 1).logsumexp(1) - (values - 1e3).square().sqrt()[:, 0]

        assert answer(Chain()) is None


class TestMemoryOfEmpty:
    @pytest.fixture(autouse=True)
    def filled_with_nan(self):
        torch.use_deterministic_algorithms(True)
        yield
        torch.use_deterministic_algorithms(False)

    def test_what_a_partial_write_left_out_keeps_its_name(self):
        def partly(values):
            memory = torch.empty(6, 8)
            memory[:4] = values[:4].detach()
            memory[4:, :7] = 0
            return values + memory

        origin = answer(network(partly))
        assert origin.held_by == "uninitialised memory, as of torch.empty"

    def test_changes_in_place_of_what_was_not_written_keep_it_too(self):
        origin = answer(network(lambda values: values + torch.empty(6, 8).mul_(2).add_(values.detach())))
        assert origin.held_by == "uninitialised memory, as of torch.empty"

    def test_memory_that_was_written_part_by_part_is_written(self):
        def wholly(values):
            memory = torch.empty(6, 8)
            memory[:4] = values[:4].detach()
            memory[4:, ::2] = 0
            memory[4:, 1::2].fill_(1)
            return (values + memory).sub(1e3).log()

        assert answer(network(wholly)).operator == "aten::log"


class Noisy(nn.Module):
    """Divides by 0 where a row is dropped: which it does depends on the generators."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, values):
        kept = (torch.rand(len(values), 1) > 0.2).float() * (random.random() > 0.05)
        return self.layer(values) / kept


class TestMicroBatches:
    def step(self, covers):
        """Returns what a replay names of a step of four micro-batches whose third one has the fault."""
        torch.manual_seed(0)
        model = Noisy()
        batches = [torch.randn(1, 4) for _ in range(4)]
        for seed in range(200):
            torch.manual_seed(seed)
            random.seed(seed)
            with ForwardCapture(model) as capture:
                losses = [model(batch).sum() for batch in batches]
                finite = [bool(loss.isfinite()) for loss in losses]
                if finite == [place not in covers for place in range(4)]:
                    result = replay_closure(
                        model, lambda: sum(model(batches[place]).sum() for place in covers), start=capture.start
                    )
                    again = replay_closure(
                        model, lambda: sum(model(batch).sum() for batch in batches), start=capture.start
                    )
                    return result.origin, again.origin
        raise AssertionError("no seed has the fault in these micro-batches only")

    @pytest.mark.parametrize("covers", [(0,), (2,), (3,), (1, 2)])
    def test_each_begins_with_the_random_states_that_it_had(self, covers):
        part, whole = self.step(covers)

        assert (part.operator, part.call) == ("aten::div", 1)
        assert (whole.operator, whole.call) == ("aten::div", covers[0] + 1)

    def test_buffers_are_those_before_the_first(self):
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 1)
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, values):
                self.calls += 1
                return self.layer(values) / (self.calls - 2)

        model, batches = Counts(), [torch.randn(3, 4) for _ in range(4)]

        def compute():
            return sum(model(batch).mean() for batch in batches)

        with ForwardCapture(model) as capture:
            compute().backward()
            origin = replay_closure(model, compute, start=capture.start).origin

        assert (origin.operator, origin.call) == ("aten::div", 2)
        assert model.calls == 4

    def test_a_pass_that_was_aborted_and_tried_again_does_not_count(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), Applies(lambda values: values))
        batches = [torch.randn(3, 4) for _ in range(3)]
        with ForwardCapture(model) as capture:
            outputs = [model(batches[0])]
            with pytest.raises(RuntimeError):
                model(torch.randn(3, 5))
            outputs += [model(batch) for batch in batches[1:]]
            again = []
            replay_closure(
                model, lambda: again.extend(model(batch) for batch in batches) or again[-1].sum(), start=capture.start
            )

        assert all(torch.equal(one, other) for one, other in zip(outputs, again, strict=True))


class TestWithoutAClosure:
    def test_the_losses_are_not_blamed_for_what_the_watch_saw_in_a_module(self, finding):
        class Third(nn.Module):
            calls = 0

            def forward(self, values):
                self.calls += 1
                return values / (self.calls - 3)

        model = nn.Sequential(nn.Linear(4, 4), Third(), nn.Linear(4, 1))
        with finding(model) as (finder, step):
            for _ in range(3):
                step(model(torch.randn(3, 4)).square().mean())
        (found,) = finder.found

        assert (found.origin.module, found.seen_first) == ("1", "1")
        assert "the replay was finite" in found.message

    def test_a_module_that_masks_in_every_step_is_no_evidence_against_the_loss(self, finding):
        masks = Applies(lambda values: values.masked_fill(torch.eye(3, 4).bool(), -torch.inf))
        model = nn.Sequential(nn.Linear(4, 4), masks, nn.Softmax(1))
        with finding(model) as (finder, step):
            for number in range(3):
                step((model(torch.randn(3, 4)) - (10 if number == 2 else -1)).log().mean())
        (found,) = finder.found

        assert (found.origin.module, found.origin.operator, found.seen_first) == ("the loss", "aten::log", None)


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        (lambda o: o[o > 1e3].mean(), ["aten::mean"]),
        (lambda o: o.log().sum() + o[o > 1e3].mean(), ["aten::mean"]),
        (lambda o: o.mean() + o.log1p().sum(), ["aten::log1p"]),
        (lambda o: o[:1].std(0).sum(), ["aten::std"]),
        (lambda o: o[:1].var(0).sum() + o.var(0).sum(), ["aten::var"]),
        (lambda o: o.var(0, correction=0).mean(), []),
        (lambda o: (o.half() * 6e4).mean().float(), ["aten::mul", "aten::mean"]),
        (lambda o: torch.linalg.cholesky(o.T @ o).sum(), ["aten::linalg_cholesky_ex"]),
        (lambda o: nn.functional.nll_loss(o.view(6, 4, 1, 1), torch.full((6, 1, 1), -100)), ["aten::nll_loss2d"]),
        (lambda o: torch.logsumexp(o - torch.inf, 1).mean(), ["aten::logsumexp"]),
        (lambda o: torch.xlogy(o, o).mean(), ["aten::xlogy"]),
    ],
)
def test_what_in_a_loss_may_have_made_nan(loss, named):
    model = nn.Linear(4, 4)
    outputs = model(torch.randn(6, 4))
    first = next_node_number()
    value = loss(outputs)
    value.backward()

    assert loss_candidates(value, first) == named


def test_a_forward_replay_says_which_of_several_passes_it_repeats():
    model = nn.Linear(4, 1)
    with ForwardCapture(model) as capture:
        model(torch.randn(2, 4)).sum().backward()
        model(torch.full((2, 4), torch.nan)).sum().backward()
        result = replay_forward(model, capture.start, loss_is_finite=False)

    assert result.origin.origin == "input"
    assert result.notes == ("of the step's 2 forward passes the last one is repeated",)
