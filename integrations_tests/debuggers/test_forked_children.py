"""A forked child that ends normally leaves pages, debug files and samples of its parent as they are."""

import os

import pytest

SCRIPT = """
import multiprocessing, os, sys, tempfile, warnings
from pathlib import Path
import numpy as np, torch, stepscope
from debuggers.page_files.buffer import PageBuffer
from stability import PyTorchDebuggingConfig
from stability.debugging.manager import PyTorchDebuggingManager
warnings.simplefilter("ignore")
here = Path(sys.argv[1]); tempfile.tempdir = str(here / "temporary"); os.mkdir(tempfile.tempdir)
def nothing(*_): pass
pages = PageBuffer(1000, on_written=nothing, on_error=nothing)
def add(buffer, idx): buffer.add({idx: {"a": {"x": np.full(1000, float(idx))}}}, idx)
add(pages, 0); add(pages, 1)  # the second pushes the first one out to a temporary page
run = stepscope.open_run(here / "run", sinks=[])
config = PyTorchDebuggingConfig(save_debug_info=True, debug_output_dir=str(here / "debug"))
manager = PyTorchDebuggingManager(config, run)
manager.start("session")
def own():  # the copy of a child is usable, empty, and its pages are its own
    add(pages, 7); pages.open(here / "own", 30); add(pages, 8); assert pages.save(30)
def wait(): assert os.wait()[1] == 0
os.fork() or sys.exit(0)
wait()
if os.fork() == 0: manager.stop(); pages.save(1); sys.exit(0)
wait()
if os.fork() == 0: del manager, pages; sys.exit(0)
wait()
worker = multiprocessing.get_context("fork").Process(target=own); worker.start(); worker.join(60)
assert worker.exitcode == 0
print(sorted(os.listdir(here / "debug")))
manager.close()
pages.open(here / "pages", 30); pages.save(30)
print(run.close(30), run.stats.lost, sorted(os.listdir(here / "debug")) != [])
"""


@pytest.mark.slow
def test_children_that_end_take_nothing_along(tmp_path, warm_python):
    from debuggers import load_page

    (tmp_path / "script.py").write_text(SCRIPT)
    done = warm_python.run(["script.py", str(tmp_path)], folder=tmp_path, environment=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "True {} True"]
    found = {
        name: {idx for page in sorted((tmp_path / name).glob("page_*.pkl")) for idx in load_page(page)}
        for name in ("pages", "own")
    }
    assert found == {"pages": {0, 1}, "own": {7, 8}}
    assert list((tmp_path / "temporary").iterdir()) == []
