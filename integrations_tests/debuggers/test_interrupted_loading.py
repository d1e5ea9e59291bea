"""Ctrl-C while the measuring code is loaded is raised at once, and leaves neither numba nor measuring damaged."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAD = """
import importlib.abc, logging, os, signal, sys, threading
import torch
from debuggers.measurement import kernel_compilation
from debuggers.measurement.kernel_compilation import compilation
from debuggers.measurement.measure import measure, prepare
logging.basicConfig(format="%(message)s")
moment, begun = sys.argv[1], threading.Event()
class Interruption(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == moment and not begun.is_set():
            begun.set(); os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interruption())
def loaded():
    for thread in threading.enumerate():
        if thread.name == "stepscope-kernel-loading": thread.join(120)
    return compilation.is_ready()
"""
LOADING = """
if moment == "at the end":
    compile_all = kernel_compilation.compile_all
    def interrupted(): compile_all(); begun.set(); os.kill(os.getpid(), signal.SIGINT)
    kernel_compilation.compile_all = interrupted
handler = signal.getsignal(signal.SIGINT)
raised = 0
try:
    prepare()
    begun.wait(120); threading.Event().wait(60)
except KeyboardInterrupt:
    raised += 1
during = measure([torch.full((5,), 2.0)]).resolve()[0].mean
ready = loaded()
import numba
own = numba.njit(lambda x: x + 1)(1)
after = measure([torch.full((5,), 3.0)]).resolve()[0].mean
print(raised, during, ready, own, after, signal.getsignal(signal.SIGINT) is handler)
"""
BROKEN_BEFORE = """
try:
    import numba
except KeyboardInterrupt:
    raised = 1
print(raised, loaded(), *(measure([torch.full((5,), 2.0)]).resolve()[0].mean for _ in range(2)))
"""


def outcome(source: str, moment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + source, moment],
        env=os.environ | {"STEPSCOPE_COMPILE": "wait"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("llvmlite", marks=pytest.mark.slow),
        pytest.param("numba.core", marks=pytest.mark.slow),
        "numba.core.types.misc",
        pytest.param("debuggers.measurement.kernels.rows", marks=pytest.mark.slow),
        pytest.param("debuggers.measurement.kernels.spread", marks=pytest.mark.slow),
        pytest.param("at the end", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_loading_goes_on_and_is_used(moment: str) -> None:
    pytest.importorskip("numba")
    printed, told = outcome(LOADING, moment)
    assert (printed, "Traceback" in told) == ("1 2.0 True 2 3.0 True", False), told


def test_a_numba_that_was_damaged_before_is_left_alone() -> None:
    pytest.importorskip("numba")
    printed, told = outcome(BROKEN_BEFORE, "numba.core.types.misc")
    assert printed == "1 False 2.0 2.0"
    assert told.count("measuring goes on with torch operations") == 1
