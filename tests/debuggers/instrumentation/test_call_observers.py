"""What observes a module leaves nothing in copies, files, scripts and replicas, and changes no path of torch's."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch_parts import Applies, Graphs
from waiting import frequent_switches, in_threads

from debuggers.instrumentation.call_observers import is_compiled_in_place
from debuggers.instrumentation.hooks import Hooks

ONE = torch.ones(1, 2)


def observed(model):
    seen, hooks = [], Hooks()
    modules = [*model.modules()]
    hooks.add_forward([(module, lambda module, args, output: seen.append(type(module).__name__)) for module in modules])
    hooks.add_around_forward(model, lambda *_: seen.append("begin"), lambda _: seen.append("end"))
    return seen, hooks


def network():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())


class Unannotated(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x).relu()


def reduced(model):
    return copy._reconstruct(model, None, *model.__reduce_ex__(4))


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.deepcopy,
        copy.copy,
        reduced,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda m: AveragedModel(m).module,
    ],
)
def test_copies_carry_nothing_and_call_nothing(duplicate):
    model = network()
    seen, hooks = observed(model)
    twin = duplicate(model)
    hooks.remove()
    assert hook_count(twin) == 0
    assert torch.equal(twin(ONE), model(ONE))
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    assert seen == []


@pytest.mark.slow
def test_a_file_of_an_observed_model_is_read_without_this_package(tmp_path):
    model = network()
    hooks = observed(model)[1]
    hooks.add_change(model[0], lambda args, kwargs: (args, kwargs), lambda: None)
    hooks.add_output(model[1], lambda output: output)
    torch.save(nn.parallel.DataParallel(model), tmp_path / "model.pt")
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['debuggers', 'stepscope', 'stability', 'tracker_adapters']))\n"
        "import torch\n"
        f"model = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False).module\n"
        "assert all(module.__dict__.get('_compiled_call_impl') is None for module in model.modules())\n"
        "print(model(torch.ones(1, 2)).tolist())\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == str(model(ONE).tolist())


@pytest.mark.parametrize(
    "convert", [torch.jit.script, lambda model: torch.jit.trace(model, ONE), torch.fx.symbolic_trace]
)
@pytest.mark.parametrize("make", [network, Unannotated])
def test_an_observed_model_can_be_converted(convert, make):
    model = make()
    expected = model(ONE)
    observed(model)
    assert torch.equal(expected, convert(model)(ONE))


def test_an_observed_model_can_be_exported():
    model = network()
    expected = model(ONE)
    seen, _ = observed(model)
    program = torch.export.export(model, (ONE,), strict=False)
    assert torch.equal(expected, program.module()(ONE))
    assert seen == []


def test_the_fused_path_of_a_frozen_encoder_is_taken_as_without_observers(monkeypatch):
    fused = []
    forward = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(
        torch, "_transformer_encoder_layer_fwd", lambda *args, **kwargs: fused.append(1) or forward(*args, **kwargs)
    )
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    batch = torch.randn(2, 3, 8)
    with torch.no_grad():
        expected = layer(batch)
        seen, _ = observed(layer)
        assert torch.equal(expected, layer(batch))
    assert len(fused) == 2
    assert seen == ["begin", "end", "TransformerEncoderLayer"]


def test_a_replica_of_data_parallelism_computes_with_what_is_its_own_and_is_seen():
    layer, seen = nn.Linear(2, 2), []
    Hooks().add_forward([(layer, lambda module, args, output: seen.append(module))])
    replica = layer._replicate_for_data_parallel()
    replica.weight, replica.bias = torch.eye(2), torch.zeros(2)
    assert torch.equal(replica(ONE), ONE)
    assert seen == [replica]


def test_another_set_of_parameters_is_used_where_the_caller_gives_one():
    layer, seen = nn.Linear(2, 2), []
    Hooks().add_forward([(layer, lambda module, args, output: seen.append(output))])
    output = torch.func.functional_call(layer, {"weight": torch.eye(2), "bias": torch.zeros(2)}, (ONE,))
    assert torch.equal(output, ONE)
    assert seen[0] is output


def test_the_output_is_what_the_caller_gets():
    layer, seen = nn.Identity(), []
    Hooks().add_forward([(layer, lambda module, args, output: seen.append(output))])
    layer.register_forward_hook(lambda module, args, output: output + 1)
    assert layer(1) == seen[0] == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_end_is_seen_whatever_ends_the_forward(error):
    def fail():
        raise error

    model = Applies(fail)
    seen, hooks = observed(model)
    with pytest.raises(error):
        model()
    assert seen == ["begin", "end"]
    hooks.remove()
    assert hook_count(model) == 0


def test_who_comes_while_the_module_runs_and_after_another_has_left_sees_the_end_of_the_call():
    model, seen, first, second = network(), [], Hooks(), Hooks()

    def replace(module, args, kwargs):
        first.remove()
        second.add_forward([(model, lambda module, args, output: seen.append("output"))])

    first.add_before_forward(model, replace)
    model(ONE)
    second.remove()
    assert (seen, hook_count(model)) == (["output"], 0)


def test_threads_may_add_and_remove_observers_of_one_module_at_once():
    model, seen, hooks = nn.Identity(), [], Hooks()
    hooks.add_before_forward(model, lambda *_: seen.append("kept"))

    def add_and_remove(_):
        for _ in range(8000):
            with Hooks() as others:
                others.add_before_forward(model, lambda *_: None)

    with frequent_switches():
        in_threads(add_and_remove, range(8))
    model(1)
    hooks.remove()
    assert (seen, hook_count(model)) == (["kept"], 0)


def test_equal_modules_are_told_apart():
    class Equal(nn.Identity):
        def __hash__(self):
            return 0

        def __eq__(self, other):
            return True

    first, second, seen = Equal(), Equal(), []
    Hooks().add_forward([(first, lambda module, args, output: seen.append(output))])
    second(1)
    first(2)
    assert seen == [2]


class TestCompiledInPlace:
    """What ``module.compile`` made is called as before, and nothing else is compiled."""

    @pytest.fixture(autouse=True)
    def fresh(self):
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    def graphs(self, model, calls=3):
        found = Graphs()
        model.compile(backend=found)
        return found, [model(ONE) for _ in range(calls)]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x).relu()

    @pytest.mark.parametrize("make", [network, Block])
    @pytest.mark.parametrize("before", [True, False])
    def test_the_same_graphs_are_compiled(self, make, before):
        expected, outputs = self.graphs(model := make())
        torch._dynamo.reset()
        twin = make()
        twin.load_state_dict(model.state_dict())
        if before:
            seen, hooks = observed(twin)
            found, ours = self.graphs(twin)
        else:
            found, ours = self.graphs(twin, calls=1)
            seen, hooks = observed(twin)
            ours += [twin(ONE), twin(ONE)]
        assert [len(graph.graph.nodes) for graph in found] == [len(graph.graph.nodes) for graph in expected]
        assert all(map(torch.equal, outputs, ours))
        assert is_compiled_in_place(twin)
        assert ("begin" in seen) is not before  # what is compiled later takes the place of what observed
        hooks.remove()
        assert is_compiled_in_place(twin)
        assert hook_count(twin) == 1

    def test_observers_that_come_and_go_compile_nothing_anew(self):
        model, found = self.Block(), Graphs()
        compiled = torch.compile(model, backend=found)
        for _ in range(3):
            compiled(ONE)
            with Hooks() as hooks:
                hooks.add_forward((module, print) for module in model.modules())
                compiled(ONE)
        assert len(found) == 1


def test_observers_that_are_put_back_see_calls_again_and_leave_as_little_behind():
    model, seen, hooks = network(), [], Hooks()
    outputs = hooks.add_forward(
        [(one, lambda module, args, output: seen.append(type(module).__name__)) for one in model]
    )
    begin = hooks.add_before_forward(model, lambda *_: seen.append("begin"))
    for _ in range(3):
        seen.clear()
        hooks.remove()
        assert hook_count(model) == 0
        model(ONE)
        assert seen == []
        hooks.put_back([begin, *outputs])
        model(ONE)
        assert seen == ["begin", "Linear", "ReLU"]
    hooks.remove()
    del model
    hooks.put_back([begin, *outputs])  # the modules are gone
    hooks.remove()


def test_what_was_compiled_in_place_meanwhile_is_called_by_observers_that_are_put_back():
    model, seen, hooks = network(), [], Hooks()
    begin = hooks.add_before_forward(model, lambda *_: seen.append("begin"))
    hooks.remove()
    model.compile(backend="eager")
    hooks.put_back([begin])
    assert is_compiled_in_place(model)
    model(ONE)
    assert seen == ["begin"]
    hooks.remove()
    assert is_compiled_in_place(model)
