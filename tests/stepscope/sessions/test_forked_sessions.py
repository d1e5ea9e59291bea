"""A session belongs to the process that started it; a forked child has a copy that it leaves alone."""

import subprocess
import sys

import pytest

import stepscope

SCRIPT = """
import gc, os, sys, torch, stepscope
place = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = stepscope.open_run(f"{place}/run", sinks=[])
config = stepscope.DebugConfig(output_dir=f"{place}/report")
with stepscope.watch(model, optimizer, run=run, config=config) as session:
    gc.freeze()  # a child that ends would look through, and so copy, all of torch
    for number in range(12):
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number in (5, 6, 7):
            child = os.fork()
            if child == 0:
                os.dup2(os.open(f"{place}/told", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
                if number == 5:
                    sys.exit(1)
                elif number == 6:
                    raise ValueError("in the child")
                session.stop()
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
            assert not os.path.exists(f"{place}/report/report.json")
assert os.path.exists(f"{place}/report/report.json")
run.close()
"""


@pytest.mark.slow
def test_a_forked_child_that_leaves_the_block_tells_nothing_of_its_parents_training(tmp_path):
    """By an exit, by an exception, and by ``stop``; the parent's own report comes as ever."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path], check=True, timeout=120, capture_output=True, text=True
    )
    told = (tmp_path / "told").read_text()
    assert "stepscope" not in told
    assert told.count("ValueError: in the child") == 1
    assert done.stderr.count("Overhead: ") == 1
    assert len(stepscope.read_run(tmp_path / "run").texts("stepscope/report")) == 1
