"""What a user waits for on a machine that has never run the package: the import, the first measured step, the demo.

Run: ``python benchmarks/first_minute.py``. Each figure is taken in a fresh process, three times over: with all caches
empty, as in a checkout; with Python's bytecode alone, as pip leaves an installation; and with everything cached.
``--beside CHECKOUT`` measures another checkout in turn with this one.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from watched.machine import machine

IMPORT = """
import time, torch
start = time.perf_counter()
import debuggers.measurement.measure
print(time.perf_counter() - start)
"""
FIRST_STEP = """
import sys, time, torch
from torch import nn
folder = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(32, 64), torch.arange(32) % 10
if folder:
    import stepscope
    run = stepscope.open_run(folder, sinks=[])
start = time.perf_counter()
if folder:
    session = stepscope.watch(model, optimizer, run=run, config="full")
optimizer.zero_grad()
nn.functional.cross_entropy(model(inputs), targets).backward()
optimizer.step()
print(time.perf_counter() - start)
if folder:
    session.close()
    run.close()
    steps = stepscope.read_run(folder).scalars("gradient_norm/0.weight").steps.tolist()
    assert steps == [0], f"the first step was not measured: {steps}"
"""
DEMO = """
import sys
from stepscope.demo.run import run_demo
run_demo(None, epochs=int(sys.argv[2]), sinks=sys.argv[1].split(","))
"""
CACHED = ("nothing", "bytecode", "everything")
TITLES = (
    "| checkout | cached | import, ms | first step, s | watched, s | adds, s | demo trains, s |\n" + "| --- " * 7 + "|"
)


@dataclass(frozen=True)
class Side:
    """A checkout with its name in the table, the Python that runs it, and more folders to import from."""

    name: str
    checkout: Path
    python: str
    path: list[str] = field(default_factory=list)

    def run(self, code: str, *arguments: str, caches: Path | None, home: Path) -> str:
        """Runs a program whose bytecode lies in ``caches``, for None where it is, and whose other caches in ``home``.

        Returns its output.
        """
        folders = [self.checkout, self.checkout / "adapters", *self.path]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            # A checkout that compiles with Numba would keep code beside its sources.
            "NUMBA_CACHE_DIR": str(home / "numba"),
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
        }
        if caches:
            environment["PYTHONPYCACHEPREFIX"] = str(caches)
        command = [self.python, "-c", code, *arguments]
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{self.checkout}: {done.stderr}")
        return done.stdout


def first_minutes(side: Side, sinks: str, epochs: int, *, compiled: bool = False) -> list[dict[str, float]]:
    """Returns the seconds of each figure for nothing, bytecode and everything cached.

    With ``compiled``, the bytecode that is there is used: compiling torch takes most of the time.
    """
    figures: list[dict[str, float]] = [{} for _ in CACHED]
    programs = {
        "import": lambda **where: float(side.run(IMPORT, **where)),
        "step": lambda **where: float(side.run(FIRST_STEP, "", **where)),
        "watched": lambda **where: float(side.run(FIRST_STEP, tempfile.mkdtemp(dir=where["home"]) + "/run", **where)),
        "demo": lambda **where: trained_in(side.run(DEMO, sinks, str(epochs), **where)),
    }
    for name, program in programs.items():
        with tempfile.TemporaryDirectory() as folder:
            caches = None if compiled else Path(folder, "bytecode")
            first, second = Path(folder, "first"), Path(folder, "second")
            for home, cached, found in zip((first, second, second), CACHED, figures, strict=True):
                home.mkdir(exist_ok=True)
                found[name] = program(caches=caches, home=home)
                print(f"{side.name}, {cached} cached: {name} {found[name]:.3f} s", file=sys.stderr, flush=True)
    return figures


def trained_in(printed: str) -> float:
    """Returns the seconds that the demo says."""
    found = re.search(r"trained in ([\d.]+) s", printed)
    assert found, printed
    return float(found[1])


def row(name: str, cached: str, found: list[dict[str, float]]) -> str:
    """Returns a line of the table: medians."""
    cells = {what: median(one[what] for one in found) for what in found[0]}
    added = median(one["watched"] - one["step"] for one in found)
    return (
        f"| {name} | {cached} | {cells['import'] * 1000:.0f} | {cells['step']:.3f} | {cells['watched']:.3f} "
        f"| {added:+.3f} | {cells['demo']:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What the first minute on a new machine goes to.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured")
    parser.add_argument("--sinks", default="tensorboard,mlflow,wandb,local", help="of the demo")
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--beside-python", default=sys.executable, help="the Python that runs it")
    parser.add_argument("--beside-path", action="append", default=[], help="a folder that it imports from, too")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument("--tiny", action="store_true", help="compile nothing anew, to try the command")
    arguments = parser.parse_args()
    sides = [Side("this checkout", Path(__file__).resolve().parent.parent, sys.executable)]
    if arguments.beside:
        beside = arguments.beside.resolve()
        sides.append(Side(beside.name, beside, arguments.beside_python, arguments.beside_path))
    found: dict[str, list[list[dict[str, float]]]] = {side.name: [] for side in sides}
    for number in range(arguments.rounds):
        for side in reversed(sides) if number % 2 else sides:
            epochs = 2 if arguments.tiny else 6
            found[side.name].append(first_minutes(side, arguments.sinks, epochs, compiled=arguments.tiny))
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value is not None))
    print(TITLES)
    for name, rounds in found.items():
        for cached, figures in zip(CACHED, zip(*rounds, strict=True), strict=True):
            print(row(name, cached, list(figures)))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
