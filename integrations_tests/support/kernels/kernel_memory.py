"""Runs the measuring kernel under valgrind's memcheck and counts what it finds in it; ``make valgrind`` calls this.

One process does three things one after the other, and notes in between how long valgrind's log is:

- ``control``: imports and loads everything, and runs torch operations of each kind, and none of the kernel. What
  valgrind finds here lies in CPython, torch, numpy or the system's loader.
- ``measured``: measures tensors in all the ways there are. Nothing may be found but what the control run has as well: a
  use of an uninitialised value with the same two innermost frames.
- ``planted``: has the kernel read freed memory and memory behind an end, and write behind an end. Each must be found.
"""

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FINDING = re.compile(
    r"^==\d+== (Invalid \w+|Use of uninit|Conditional jump|Syscall param|Mismatched|Process terminating)"
)
FRAME = re.compile(r"^==\d+==\s+(?:at|by) 0x[0-9A-F]+: (.*)")
_NEVER_KNOWN = frozenset({"Invalid read", "Invalid write", "Process terminating"})
PHASES = ("control", "measured", "freed memory", "behind the end", "written behind the end")


def main() -> int:
    """Runs it, prints what was found where, and returns the exit status."""
    if sys.platform != "linux" or shutil.which("valgrind") is None:
        print("skipped: there is no valgrind on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="kernel-memory-") as name:
        folder = Path(name)
        paths = os.pathsep.join([str(ROOT), str(ROOT / "adapters")])
        environment = {"PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "2", "PYTHONPATH": paths}
        log, marks = folder / "valgrind.log", folder / "marks.json"
        valgrind = ["valgrind", "--tool=memcheck", "--error-limit=no", "--num-callers=25", f"--log-file={log}"]
        done = subprocess.run(
            [*valgrind, sys.executable, __file__, str(log), str(marks)],
            env=os.environ | environment,
            check=False,
            timeout=3600,
        )
        if done.returncode or not marks.exists():
            print(f"the process under valgrind ended with {done.returncode}:\n{log.read_text()[-4000:]}")
            return 1
        return _judge(log.read_bytes(), json.loads(marks.read_text()))


def _judge(log: bytes, marks: dict[str, int]) -> int:
    ends = [*(marks[phase] for phase in PHASES)]
    parts = {
        phase: log[start:end].decode(errors="replace")
        for phase, start, end in zip(PHASES, [0, *ends], ends, strict=False)
    }
    found = {phase: _findings(part) for phase, part in parts.items()}
    known = {places for kind, places in found["control"] if kind not in _NEVER_KNOWN}
    noise = [finding for finding in found["measured"] if finding[0] not in _NEVER_KNOWN and finding[1] in known]
    found["measured"] = [finding for finding in found["measured"] if finding not in noise]
    for phase, findings in found.items():
        kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(kind for kind, _ in findings).items())
        print(f"{phase}: {len(findings)} findings{f' ({kinds})' if kinds else ''}")
    print(f"left out of what was measured, since the control has them: {len(noise)}")
    for places in sorted({places for _, places in noise}):
        print(f"  {' < '.join(places)}")
    missed = [phase for phase in PHASES[2:] if not _NEVER_KNOWN.intersection(kind for kind, _ in found[phase])]
    if found["measured"]:
        print(parts["measured"])
    if missed:
        print(f"valgrind did not find what was planted: {', '.join(missed)}")
    return 1 if found["measured"] or missed else 0


def _findings(part: str) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the kind of each finding and its two innermost frames."""
    findings = []
    lines = part.splitlines()
    for number, line in enumerate(lines):
        if found := FINDING.match(line):
            frames = [named[1] for one in lines[number + 1 : number + 3] if (named := FRAME.match(one))]
            findings.append((found[1], tuple(frames)))
    return findings


def work(log: Path, marks: Path) -> None:
    """What runs under valgrind."""
    lengths: dict[str, int] = {}
    for phase, do in zip(PHASES, (_control, _measure_all, _freed, _behind, _written), strict=True):
        do()
        gc.collect()
        lengths[phase] = log.stat().st_size
    marks.write_text(json.dumps(lengths))
    sys.stdout.flush()
    os._exit(0)  # memory is damaged, on purpose


def _tensors() -> list[Any]:
    import torch

    torch.manual_seed(0)
    plain = [torch.randn(size) for size in (0, 1, 7, 2047, 2048, 2049, 40_000)]
    plain += [torch.randn(300, dtype=torch.float64), torch.tensor([1e300, -1e300] * 40, dtype=torch.float64)]
    plain += [torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, 1e-45, 3e38] * 500), torch.zeros(0, 3)]
    square = torch.randn(64, 64)
    odd = [square.t(), square[::2, 1:], square[:, :1].expand(64, 5), square[3:][1:], square.to_sparse(), square * 1j]
    return plain + odd + [square.to(dtype) for dtype in (torch.bfloat16, torch.float16, torch.int64, torch.bool)]


def _control() -> None:
    """Everything but the kernel's own work on tensors; it is loaded, with nothing to measure."""
    import torch

    from debuggers.measurement.kernels.availability import is_usable
    from debuggers.measurement.measure import prepare

    prepare()
    assert is_usable()
    for tensor in _tensors():
        values = tensor.to_dense().to(torch.complex128 if tensor.is_complex() else torch.float64).abs()
        (values - values.clone()).sum().item()
        values.reshape(-1).contiguous().numpy().sum()


def _measure_all() -> None:
    import torch

    from debuggers.measurement.kernels.spread import spread_of
    from debuggers.measurement.measure import Difference, measure

    for threads in (1, 2):
        torch.set_num_threads(threads)
        tensors = _tensors()
        pending = measure(tensors)
        del tensors
        gc.collect()
        pending.resolve()
        before, after = _tensors(), _tensors()
        pending = measure([Difference(one, other) for one, other in zip(after, before, strict=True)])
        del before, after
        pending.resolve()
        large = [torch.randn(300_000), torch.randn(300_000, dtype=torch.float64)]
        measure([*large, Difference(large[0].view(500, 600).t(), torch.ones(600, 500)), *large]).resolve()
        for values in (*large, torch.randn(2), torch.randn(2049), torch.full((5,), torch.nan)):
            spread_of(values)
            spread_of(values, torch.empty_like(values))


def _segments(address: int, length: int) -> Any:
    import numpy as np

    return np.array([[0, address, length, 0, 0]], np.int64)


def _freed() -> None:
    import torch

    from debuggers.measurement.cpu import measure_segments

    segments = _segments(torch.ones(5000).data_ptr(), 5000)
    measure_segments(segments, 5000)


def _behind() -> None:
    import torch

    from debuggers.measurement.cpu import measure_segments

    values = torch.ones(5000)
    measure_segments(_segments(values.data_ptr(), 5100), 5100)


def _written() -> None:
    import torch

    from debuggers.measurement.kernels.spread import spread_of

    spread_of(torch.ones(5000), torch.ones(4998))  # few: more would damage what valgrind itself keeps there


if __name__ == "__main__":
    match sys.argv[1:]:
        case [log, marks]:
            work(Path(log), Path(marks))
        case _:
            sys.exit(main())
