"""A trace is a file of the run in every sink, of bounded size, and a training goes on whatever happens to it."""

import gzip
import json

import pytest
import torch

import stepscope
from debuggers.errors import DebuggerConfigError, ProfilerError


def train(steps, *, trace, run=None, **options):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, run=run, **options) as session:
        trace(session.profiler)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize(("steps", "last"), [(4, 1), (1, 0)])
def test_a_trace_is_a_file_of_the_run_of_the_sinks_and_of_the_output_dir(tmp_path, steps, last):
    """One step of two is seen where the session ends after it."""
    with stepscope.open_run(tmp_path / "run", sinks=["local"], delivery="thread") as run:
        weights = train(steps, trace=lambda profiler: profiler.trace(2), run=run, output_dir=tmp_path / "out")

    (file,) = (tmp_path / "run" / "local" / "files" / "profiler_trace").iterdir()
    copied = tmp_path / "out" / f"trace_step_{last}.json.gz"
    assert copied.read_bytes() == file.read_bytes()
    names = [event.get("name", "") for event in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]]
    assert sum("AddmmBackward" in name and "evaluate" in name for name in names) == last + 1
    assert all(map(torch.equal, weights, train(steps, trace=lambda profiler: None)))


def test_a_trace_that_is_too_large_is_told_and_not_kept(tmp_path, capsys):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(3, trace=lambda profiler: profiler.trace(1, max_mb=0.0001), run=run)

    assert "was not kept; expected at most 0.0001: trace fewer steps" in capsys.readouterr().err
    with stepscope.read_run(tmp_path / "run") as record:
        assert "profiler_trace" not in [info.name for info in record.names()]
        assert [alert.name for alert in record.alerts()] == ["trace_left_out"]


def test_what_cannot_be_traced_is_one_clear_error(tmp_path):
    session = stepscope.DebugSession(torch.nn.Linear(1, 1))
    with pytest.raises(ProfilerError, match="neither a run nor an output_dir"):
        session.profiler.trace()
    with pytest.raises(DebuggerConfigError, match=r"max_mb is -1; expected a number above 0"):
        session.profiler.trace(max_mb=-1)
    with pytest.raises(DebuggerConfigError, match=r"steps is 'two'; expected an integer of at least 1"):
        session.profiler.trace("two")
    session = stepscope.DebugSession(torch.nn.Linear(1, 1), config=stepscope.DebugConfig(output_dir=tmp_path))
    with torch.profiler.profile(), pytest.raises(ProfilerError, match="a profiler of torch runs"):
        session.profiler.trace()
