"""The operator that made the first value that counts is named, whatever surrounds it, and nothing is left behind."""

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_parts import Applies

from debuggers.errors import DebuggerConfigError
from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.first_nan.replay import replay_closure, replay_forward


def network(function=torch.log, **settings):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Sequential(Applies(function), nn.Identity()), nn.Linear(8, 2), **settings)


def answer(model, function=None, inputs=None):
    inputs = torch.randn(6, 4) if inputs is None else inputs
    return replay_closure(model, function or (lambda: model(inputs).square().mean())).origin


def name(origin):
    return origin.module, origin.operator, origin.direction


class TestWhatIsNoFault:
    def test_a_finite_step_has_no_answer(self):
        assert answer(network(torch.tanh)) is None

    @pytest.mark.parametrize(
        "harmless",
        [
            lambda x: torch.where(x > 0, x.detach().clamp(min=0).log(), 0),
            lambda x: x.masked_fill(torch.eye(6, 8, dtype=torch.bool), -torch.inf).softmax(1),
            lambda x: (x + torch.full((6, 8), -torch.inf).triu(1)).logsumexp(1, keepdim=True) + x,
            lambda x: torch.full_like(x, torch.inf).minimum(x),
            lambda x: x + (torch.zeros(6, 8) - torch.inf).exp(),
            lambda x: torch.nan_to_num(x / torch.zeros(1)).detach() * 0 + x,
            lambda x: torch.empty_like(x).fill_(torch.nan).copy_(x),
            lambda x: nn.functional.max_pool1d(nn.functional.pad(x, (1, 1), value=-torch.inf), 3, 1),
            lambda x: x + torch.finfo(x.dtype).min * 0,
        ],
    )
    def test_infinities_that_reach_nothing_are_not_blamed(self, harmless):
        assert answer(network(harmless)) is None
        assert name(answer(network(lambda values: (harmless(values) * 0 - 1).sqrt()))) == (
            "1.0",
            "aten::sqrt",
            "forward",
        )


class TestWhoIsBlamed:
    def test_an_infinity_is_blamed_for_the_nan_that_it_becomes(self):
        origin = answer(network(lambda values: (values * 1e4).exp() * 0))
        assert name(origin) == ("1.0", "aten::exp", "forward")

    def test_an_infinity_that_only_the_backward_pass_meets_is_the_forward_operators(self):
        origin = answer(network(lambda values: 1 / (1 + (values.abs() * 1e4).exp())))
        assert name(origin) == ("1.0", "aten::exp", "forward")

    def test_a_slope_that_does_not_exist_is_the_differentiated_operators(self):
        origin = answer(network(lambda values: (values * 0).sqrt()))
        assert name(origin) == ("1.0", "aten::sqrt", "backward")
        assert (origin.node, origin.kernel) == ("SqrtBackward0", "aten::div")

    def test_what_is_filled_in_on_purpose_is_named_when_it_reaches_the_loss(self):
        model = network(torch.tanh)
        origin = answer(model, lambda: model(torch.randn(6, 4)).masked_fill(torch.eye(6, 2).bool(), torch.inf).mean())
        assert (name(origin), origin.origin) == (("the loss", "aten::masked_fill", "forward"), "placed")

    def test_of_several_faults_the_one_that_flows_on_is_named(self):
        def function(values):
            torch.zeros(3).log().sum()
            return (values * 0).reciprocal()

        assert name(answer(network(function))) == ("1.0", "aten::reciprocal", "forward")

    def test_changes_in_place_are_followed(self):
        def function(values):
            kept = values.clone()
            kept[:, 2:4].sub_(1e3).log_()
            return kept

        origin = answer(network(function))
        assert name(origin) == ("1.0", "aten::log_", "forward")
        assert origin.inputs[0].negatives == 12

    def test_an_overflow_is_blamed_beside_logarithms_of_a_mask(self):
        def function(values):
            mask = torch.ones(6, 8).tril().log()
            return ((values * 1e30).square() + mask).softmax(1)

        assert name(answer(network(function))) == ("1.0", "aten::pow", "forward")

    def test_memory_that_nothing_was_written_to_is_told_from_memory_that_was_filled(self):
        def filled(values):
            return torch.empty(6, 8).copy_(values) + torch.empty(6, 8).fill_(1)

        torch.use_deterministic_algorithms(True)  # new memory holds NaN then
        try:
            assert answer(network(filled)) is None
            origin = answer(network(lambda values: values + torch.empty(6, 8)))
        finally:
            torch.use_deterministic_algorithms(False)
        assert (origin.operator, origin.origin) == ("aten::add", "elsewhere")
        assert origin.held_by == "uninitialised memory, as of torch.empty"

    def test_a_tensor_from_outside(self):
        outside = torch.full((6, 8), torch.nan)
        origin = answer(network(lambda values: values + outside))
        assert (origin.operator, origin.held_by) == ("aten::add", "a tensor from outside of the replay")

    def test_gradients_inside_of_a_forward_pass_are_a_backward_pass(self):
        class Force(nn.Module):
            def forward(self, values):
                positions = values.detach().requires_grad_()
                energy = (positions * 0).sqrt().sum()
                return values + torch.autograd.grad(energy, positions, create_graph=True)[0]

        model = nn.Sequential(nn.Linear(4, 8), Force())
        origin = answer(model)
        assert (name(origin), origin.node) == (("1", "aten::sqrt", "backward"), "SqrtBackward0")

    def test_values_that_no_operator_made_belong_to_where_they_are_read(self):
        model = network(torch.tanh)
        with torch.no_grad():
            model[2].weight[0, 1] = torch.inf
        origin = answer(model)
        assert (name(origin), origin.origin) == (("2", "aten::addmm", "forward"), "parameter")
        assert origin.held_by == "parameter 2.weight"

    def test_nan_in_the_data_names_the_argument_and_the_datapoints(self):
        inputs = torch.randn(6, 4)
        inputs[4, 1] = torch.nan
        origin = answer(network(torch.tanh), inputs=inputs)
        assert (origin.module, origin.origin, origin.held_by) == ("0", "input", "argument 0 of the model")
        assert origin.rows == (4,)

    def test_a_buffer_is_named(self):
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
        model[1].running_mean[1] = torch.nan
        origin = answer(model)
        assert (origin.module, origin.held_by) == ("1", "buffer 1.running_mean")

    def test_of_many_inputs_the_text_has_the_first(self):
        parts = [torch.ones(2, 2)] * 11 + [torch.full((2, 2), torch.nan)]
        model = nn.Sequential(nn.Linear(2, 2))
        origin = answer(model, lambda: torch.cat([model(torch.ones(1, 2)), *parts]).sum())
        assert "and 5 more" in str(origin)
        assert len(origin.inputs) == 13
        assert len(origin.samples) == 9

    def test_the_line_is_the_users(self):
        origin = answer(network(lambda values: values.abs().neg().log()))
        assert origin.source.file == __file__
        assert origin.source.text.startswith("origin = answer(network(lambda values: values.abs().neg().log()))")

    def test_a_module_that_runs_several_times_is_named_with_the_call(self):
        model = network(torch.log)
        shared = model[1][0]

        def compute():
            values = shared(torch.rand(6, 4) + 1)
            return model[0](values).square().mean() + shared(torch.zeros(6)).sum()

        origin = answer(model, compute)
        assert (origin.module, origin.call, origin.calls) == ("1.0", 2, 2)


class TestSurroundings:
    @pytest.mark.parametrize("reentrant", [False, True])
    def test_activation_checkpointing(self, reentrant):
        model = network(lambda values: (values * 0).sqrt())

        def compute():
            inputs = torch.randn(6, 4, requires_grad=True)
            return checkpoint(model, inputs, use_reentrant=reentrant).mean()

        assert name(answer(model, compute)) == ("1.0", "aten::sqrt", "backward")
        assert all(parameter.grad is None for parameter in model.parameters())

    def test_a_backward_pass_that_cannot_be_intercepted(self):
        model = network(lambda values: (values * 0).sqrt())
        origin = answer(model, lambda: torch.autograd.backward(model(torch.randn(6, 4)).mean()))
        assert name(origin) == ("1.0", "aten::sqrt", "backward")
        assert all(parameter.grad is None for parameter in model.parameters())

    def test_wrappers_are_looked_through(self):
        model = network()
        assert name(answer(nn.DataParallel(model))) == ("1.0", "aten::log", "forward")

    def test_compiled_models_are_repeated_eagerly(self):
        model = network()
        assert name(answer(torch.compile(model, backend="eager"))) == ("1.0", "aten::log", "forward")

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_autocast(self, dtype):
        model = network(lambda values: values * torch.tensor(3e38).to(dtype))
        inputs = torch.randn(6, 4)
        with ForwardCapture(model) as capture:
            with torch.autocast("cpu", dtype=dtype):
                outputs = model(inputs)
            outputs.float().square().mean().backward()
            origin = replay_forward(model, capture.start, loss_is_finite=False).origin
        assert origin.module == "1.0"
        assert origin.outputs[0].dtype == str(dtype).removeprefix("torch.")

    def test_sparse_gradients(self):
        model = nn.Sequential(nn.Embedding(5, 4, sparse=True), Applies(lambda values: (values * 0).sqrt()))
        assert name(answer(model, inputs=torch.tensor([1, 2]))) == ("1", "aten::sqrt", "backward")

    def test_a_model_that_is_sharded_is_refused(self):
        class FullyShardedDataParallel(nn.Module):
            """Has the name by which such modules are known."""

        with pytest.raises(DebuggerConfigError, match="computes together with other processes"):
            answer(nn.Sequential(FullyShardedDataParallel()))

    def test_what_a_closure_raises_passes_when_there_is_nothing_else_to_tell(self):
        model = network()
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            answer(model, inputs=torch.ones(2, 5))
        assert not hook_count(model)

    def test_a_closure_that_raises_at_nan_is_answered(self):
        model = network()

        def compute():
            outputs = model(torch.randn(6, 4))
            if outputs.isnan().any():
                raise ArithmeticError("NaN")

        result = replay_closure(model, compute)
        assert name(result.origin) == ("1.0", "aten::log", "forward")
        assert result.notes[0] == "the replay ended with ArithmeticError: NaN"


class TestWithoutATrace:
    def test_what_a_closure_writes_to_is_put_back(self):
        model, total, inputs = network(), torch.zeros(2), torch.randn(6, 4)
        before = inputs.clone()

        def compute():
            inputs.sub_(inputs.mean())
            total.add_(1)
            return model(inputs).mean()

        answer(model, compute)
        assert torch.equal(inputs, before)
        assert total.tolist() == [0, 0]

    def test_hooks_of_parameters_that_step_the_optimizer_do_not_run(self):
        model, calls = network(torch.tanh), []
        model[0].weight.register_post_accumulate_grad_hook(calls.append)

        def compute():
            loss = model(torch.randn(6, 4)).mean()
            loss.backward()
            return loss

        answer(model, compute)
        assert calls == []
