"""The viewer beside TensorBoard, MLflow and trackio, on the same ten million points under two thousand names.

Run: ``python benchmarks/viewer.py --json FILE`` on a quiet machine. It makes the data once, in the folder for temporary
files (3 GB, some minutes). Each viewer is started cold: what its files have in the machine's memory is given up before.
Measured is what its server answers; what a browser makes of that is measured with the page.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
from viewed.bytecode import compile_packages
from viewed.large_run import Size, make_run, make_runs, names_of
from viewed.others_data import mlflow_data, tensorboard_data, trackio_data
from viewed.sides import SIDES, Server, started
from watched.machine import machine

import stepscope

CHARTS, RUNS = 24, 250
STEP_VALUES, STEP_PAUSE_S = 200, 0.005
WRITERS: dict[str, Callable[[Path, Size], None]] = {
    "tensorboard": tensorboard_data,
    "mlflow": mlflow_data,
    "trackio": trackio_data,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sides", default=",".join(SIDES), help="which viewers, separated by commas")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "stepscope-viewer-benchmark")
    parser.add_argument("--pairs", type=int, default=20, help="turns of steps with and without an open viewer")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--tiny", action="store_true", help="little data, to try the command")
    parser.add_argument("--threads", help="of no use here")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.folder, arguments.pairs = Path(tempfile.mkdtemp()), 2
    return arguments


def prepared(folder: Path, side: str, size: Size) -> Path:
    """Returns the folder with a viewer's data, which is made when it is not there."""
    target = folder / f"{side}-{size.points}"
    if side == "stepscope":
        make_run(target / "large", size)
    elif not target.exists():
        making = folder / f"{side}.making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        WRITERS[side](making, size)
        making.rename(target)
    return target


def answering(side: str, folder: Path, size: Size) -> dict[str, float]:
    """Measures a viewer: seconds to the first chart, milliseconds and bytes of others, and its memory."""
    times, sizes = [], []
    with started(SIDES[side], folder) as server:
        key = SIDES[side].first(server, size.steps)
        first_s = time.perf_counter() - server.started_s
        for name in names_of(size)[1 : 1 + CHARTS]:
            begun = time.perf_counter()
            sizes.append(len(SIDES[side].chart(server, key, name)))
            times.append((time.perf_counter() - begun) * 1e3)
        memory = server.memory_mb()
    return {
        "first chart, s": first_s,
        "another chart, ms": statistics.median(times),
        "another chart, worst, ms": max(times),
        "bytes of a chart": statistics.median(sizes),
        "memory of the server, MB": memory,
    }


def folder_of_runs(folder: Path, count: int) -> dict[str, float]:
    """Measures how long a folder of runs takes to be listed, from the start of the viewer and again."""
    make_runs(folder, count)
    with started(SIDES["stepscope"], folder) as server:
        server.until(lambda: len(json.loads(server.ask("api/runs"))["runs"]) == count)
        first_s = time.perf_counter() - server.started_s
        begun = time.perf_counter()
        server.ask("api/runs")
        return {"list after the start, s": first_s, "list again, ms": (time.perf_counter() - begun) * 1e3}


def beside_a_viewer(folder: Path, pairs: int, steps: int) -> dict[str, float]:
    """Measures what a training pays for a viewer that asks for what is new all the time: CPU time of its steps."""
    shutil.rmtree(folder, ignore_errors=True)
    names = [f"layer.{number}" for number in range(STEP_VALUES)]
    costs: dict[bool, list[float]] = {True: [], False: []}
    with stepscope.open_run(folder, sinks=[]) as run, started(SIDES["stepscope"], folder) as server:
        key = server.until(lambda: json.loads(server.ask("api/runs"))["runs"][0]["key"])
        with asking(server, key, names) as page:
            others = [psutil.Process(server.process.pid), psutil.Process(page.pid)]
            for turn in range(2 * pairs):
                is_watched = turn % 2 == 1
                for one in others:
                    one.resume() if is_watched else one.suspend()
                begun = time.process_time()
                for step in range(turn * steps, (turn + 1) * steps):
                    run.scalars(names, [float(step)] * STEP_VALUES, step=step)
                    time.sleep(STEP_PAUSE_S)
                costs[is_watched].append((time.process_time() - begun) / steps * 1e6)
    differences = [watched - alone for watched, alone in zip(costs[True], costs[False], strict=True)]
    return {
        "CPU of a step alone, µs": statistics.median(costs[False]),
        "CPU of a step beside a viewer, µs": statistics.median(costs[True]),
        "difference, median of pairs, µs": statistics.median(differences),
    }


@contextmanager
def asking(server: Server, key: str, names: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Asks each second for what is new, in a process of its own, until the block ends."""
    addresses = [f"positions?runs={key}", *(f"series?run={key}&name={name}" for name in names[:12])]
    script = (
        "import sys, time, urllib.request\n"
        "while True:\n"
        "    for address in sys.argv[1:]: urllib.request.urlopen(address, timeout=300).read()\n"
        "    time.sleep(1)\n"
    )
    command = [sys.executable, "-c", script, *(f"{server.root}api/{address}" for address in addresses)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def measured(arguments: argparse.Namespace, size: Size) -> Iterator[tuple[str, dict[str, float]]]:
    for side in arguments.sides.split(","):
        if side != "stepscope" and find_spec(side) is None:
            print(f"{side} is not installed: left out")
            continue
        yield side, answering(side, prepared(arguments.folder, side, size), size)
    runs = 5 if arguments.tiny else RUNS
    yield f"folder of {runs} runs", folder_of_runs(arguments.folder / f"runs-{runs}", runs)
    yield "a training", beside_a_viewer(arguments.folder / "live", arguments.pairs, 5 if arguments.tiny else 200)


def main() -> None:
    arguments = parse()
    compile_packages()
    size = Size(2_000, 20, 0) if arguments.tiny else Size()
    found: dict[str, Any] = {"machine": machine(), "points": size.points, "names": size.names}
    try:
        for what, figures in measured(arguments, size):
            found[what] = figures
            print(what, *(f"  {title:40} {value:12.1f}" for title, value in figures.items()), sep="\n", flush=True)
    finally:
        if arguments.tiny:
            shutil.rmtree(arguments.folder, ignore_errors=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
