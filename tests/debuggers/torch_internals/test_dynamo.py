"""What is expected of torch's compiler; needs nothing but torch and the module that it is about."""

import pytest
import torch

from debuggers.torch_internals import dynamo


def test_the_callback_is_none_outside_of_compiled_code_and_can_be_put_back():
    set_callback, seen = dynamo.callback_setter(), []
    assert dynamo.is_imported()

    def look():
        callback = set_callback(None)
        set_callback(callback)
        seen.append(callback is not None)

    def between(x):
        look()
        return compiled_again(x)

    def compiled_again(x):
        return x + 1

    dynamo.skip_frames([look.__code__, between.__code__])
    run = torch.compile(between, backend="eager")

    assert set_callback(None) is None
    assert [run(torch.zeros(())) for _ in range(3)] == [1, 1, 1]
    assert seen == [True] * 3
    assert set_callback(None) is None


def test_frames_of_functions_that_are_skipped_run_as_they_are_and_what_they_call_is_compiled():
    def inner(x):
        return x * 3 if torch.compiler.is_compiling() else x * 2

    def outer(x):
        return x * 0 if torch.compiler.is_compiling() else inner(x)

    dynamo.skip_frames([outer.__code__])
    assert torch.compile(outer, backend="eager")(torch.ones(())) == 3


def test_a_package_that_is_skipped_cuts_graphs_and_is_not_traced(tmp_path, monkeypatch):
    (tmp_path / "skipped_package.py").write_text(
        "import torch\ndef is_traced():\n    return torch.compiler.is_compiling()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import skipped_package

    dynamo.skip_package("skipped_package")
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    @torch.compile(backend=count)
    def run(x):
        x = x + 1
        return x + (100 if skipped_package.is_traced() else 1)

    assert run(torch.zeros(())) == 2
    assert len(graphs) == 2


@pytest.mark.parametrize("whole", [True, False])
def test_it_is_known_whether_a_graph_must_be_whole(whole):
    torch.compiler.reset()
    seen = []

    @torch.compiler.assume_constant_result
    def look():
        seen.append(dynamo.is_tracing_whole_graph())
        return True

    @torch.compile(backend="eager", fullgraph=whole)
    def run(x):
        return x + 1 if look() else x

    assert run(torch.zeros(())) == 1
    assert seen == [whole]


def test_outside_of_tracing_the_question_raises():
    with pytest.raises(Exception):  # noqa: B017  which one is torch's own affair
        dynamo.is_tracing_whole_graph()
