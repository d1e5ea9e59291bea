"""torch.compile never traces into what measures: it cuts its graph, or leaves the call out where it may not."""

import inspect

import pytest
import torch
from torch import nn
from torch_parts import Graphs

import stepscope
from debuggers.instrumentation import compiled_code
from debuggers.instrumentation.hooks import GradientsReadyHook, Hooks, OptimizerHook


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", [OptimizerHook, GradientsReadyHook])
def test_where_no_graph_may_be_cut_a_hook_lets_the_training_go_on_and_a_warning_says_so(kind, caplog):
    compiled_code._warn.cache_clear()
    seen = []
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    hooks = Hooks()
    hooks.add_optimizer_pre_step(optimizer, seen.append)
    hook = kind(seen.append)

    def step(x):
        hook(optimizer, (optimizer,), {})
        return x + 1

    assert torch.equal(torch.compile(step, backend="eager", fullgraph=True)(torch.ones(1)), torch.full((1,), 2.0))
    assert seen == []
    assert "fullgraph=True" in caplog.text
    assert torch.equal(torch.compile(step, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))
    assert seen == [optimizer]


def test_a_call_of_ours_where_no_graph_may_be_cut_says_what_to_do():
    with stepscope.debug_session() as session:

        @torch.compile(backend="eager", fullgraph=True)
        def compiled(loss):
            session.step(loss)

        takes_reason = "reason" in inspect.signature(torch.compiler.disable).parameters  # not before torch 2.8
        with pytest.raises(Exception, match="remove fullgraph=True" if takes_reason else "disable"):
            compiled(torch.ones(()))


@pytest.mark.slow
def test_a_compiled_training_is_measured_and_computes_the_same(tmp_path):
    weights = []
    for watched in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer, norms = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), []

        @torch.compile(backend="eager")
        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        with stepscope.open_run(tmp_path / str(watched), sinks=[]) as run:
            session = stepscope.watch(model, optimizer, run=run, config="full") if watched else None
            for _ in range(3):
                step(torch.randn(4, 3))
                norms.append(model.weight.grad.norm().item())
            if session is not None:
                assert session.stop().failures == {}
        weights.append(model.weight.detach())
    assert torch.equal(*weights)
    series = stepscope.read_run(tmp_path / "True").scalars("gradient_norm/weight")
    assert series.values.tolist() == pytest.approx(norms, rel=1e-5)


def test_what_a_call_of_ours_calls_is_compiled_nowhere():
    graphs, seen = Graphs(), []
    inner = compiled_code.between_graphs(lambda x: seen.append(x.sub(3)))

    @compiled_code.between_graphs
    def outer(x):
        inner(x.mul(2))

    def step(x):
        y = torch.cos(x)
        outer(y)
        return torch.sin(y)

    for how in (torch.compile(step, backend=graphs), step):
        how(torch.zeros(2))
    assert graphs.operators == ["cos", "sin"]
    assert [value.tolist() for value in seen] == [[-1.0, -1.0]] * 2


def test_compiled_code_that_a_call_of_ours_runs_is_compiled_without_the_calls_of_ours_in_it():
    graphs, seen = Graphs(), []
    note = compiled_code.between_graphs(lambda x: seen.append(x.sub(3)))

    def training(x):
        y = torch.cos(x)
        note(y)
        return torch.sin(y)

    compiled = torch.compile(training, backend=graphs)
    replay = compiled_code.between_graphs(lambda x: compiled(x).exp())
    for number in range(2):
        assert replay(torch.zeros(2)).tolist() == pytest.approx([2.3197768] * 2)
        assert len(seen) == number + 1
    assert graphs.operators == ["cos", "sin"]


def test_a_call_of_ours_that_raises_leaves_compilation_as_it_was():
    graphs = Graphs()

    @compiled_code.between_graphs
    def fails():
        raise LookupError("ours")

    def step(x):
        y = torch.cos(x)
        try:
            fails()
        except LookupError:
            y = y + 1
        return after(y)

    def after(y):
        return torch.sin(y)

    assert torch.equal(torch.compile(step, backend=graphs)(torch.zeros(2)), torch.full((2,), 2.0).sin())
    assert "sin" in graphs.operators
