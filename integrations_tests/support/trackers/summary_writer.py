"""Logs with PyTorch's own SummaryWriter in a process of its own while a fault is done to it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import readback_tensorboard

LOGGED = 200
_SCRIPT = f"""
import sys
from torch.utils.tensorboard import SummaryWriter
raised = ""
try:
    board = SummaryWriter(sys.argv[1], flush_secs=1)
    for step in range({LOGGED}):
        board.add_scalar("loss", step, step)
        if step == {LOGGED // 2 - 1}:
            board.flush()
            print("half", flush=True)
            sys.stdin.readline()
    board.close()
except Exception as error:
    raised = f", {{type(error).__name__}} raised in the training"
print("end" + raised, flush=True)
"""


def under_fault(folder: Path, between: Callable[[int], object] = lambda pid: None) -> str:
    """Logs 200 scalars; returns what became of them as a sentence.

    Args:
        folder: Where SummaryWriter writes.
        between: The fault, done after the first 100; it is given the number of the process.
    """
    command = [sys.executable, "-c", _SCRIPT, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line == "half":
            between(process.pid)
            process.stdin.write("\n")
            process.stdin.flush()
            line = process.stdout.readline().strip()
        process.kill()  # its exit waits for a thread that may have died
    points = readback_tensorboard.read_with_python(folder) if folder.exists() else {}
    shown = len(points["scalars", "loss"].points) if points else 0
    return f"SummaryWriter: {LOGGED - shown} of {LOGGED} lost{line.removeprefix('end')}"


def killed(folder: Path) -> str:
    """Logs 200 scalars and kills the process, as a power cut or the system would; returns what became of them."""
    script = (
        "import os, signal, sys; from torch.utils.tensorboard import SummaryWriter\n"
        "board = SummaryWriter(sys.argv[1])\n"
        f"for step in range({LOGGED}): board.add_scalar('loss', step, step)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], stderr=subprocess.DEVNULL, check=False)
    points = readback_tensorboard.read_with_python(folder)
    shown = len(points["scalars", "loss"].points) if points else 0
    return f"SummaryWriter: {LOGGED - shown} of {LOGGED} lost"
