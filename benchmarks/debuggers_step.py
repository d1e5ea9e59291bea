"""What debuggers cost a step: switched off, and keeping the feature maps of four layers beside bare copies of them.

Run: ``python benchmarks/debuggers_step.py``. Switched off, a plain and a debugged copy of one model train in turn on
the same batches. The feature maps are taken in validation steps of one model, all sides in turn on the same batch; what
a side adds to a step is compared turn by turn. The same maps are also captured outside of any step, where nothing else
disturbs: that ratio is the sharper one.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from watched.cases import cases
from watched.data import image_batches
from watched.figures import figures
from watched.models import ResNet
from watched.pairs import measure_side
from watched.sides import Watching

from debuggers.feature_map import FeatureMapDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger

OFF_GOAL, MAPS_GOAL = 0.005, 1.2
LAYERS = tuple(f"blocks.{stage}" for stage in range(4))
WARM_UP = 3
PLAIN, CLONES, CAPTURES, PAGES = "plain", "clones in hooks", "captures in hooks", "captures and pages"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=300, help="training steps with the debuggers switched off")
    parser.add_argument("--turns", type=int, default=30, help="validation steps a side")
    parser.add_argument("--threads", type=int, help="torch's threads; by default torch's own choice")
    parser.add_argument("--tiny", action="store_true", help="tiny models, to try the command")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.pairs, arguments.turns = 5, 3
    return arguments


def feature_maps(model: nn.Module) -> SequentialDebugger:
    """A debugger of four layers, whatever the model calls them."""
    names = [name for name, _ in model.named_modules() if name in LAYERS] or [
        name for name, _ in model.named_children()
    ]
    config = [
        {"name": name, "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": name}}} for name in names
    ]
    return SequentialDebugger(config, model)


@contextmanager
def switched_off(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
    """Calls a debugger that is not enabled once a step."""
    with feature_maps(model) as debugger:
        datapoint: dict[str, Any] = {"meta_info": {"idx": 0}}
        yield Watching(lambda step, loss: debugger(datapoint, model))


def compare_switched_off(pairs: int, *, tiny: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        found = measure_side(cases(tiny=tiny)["transformer"], switched_off, Path(folder), pairs, seconds=1e9)
    overhead = figures(found["plain_ms"], found["watched_ms"], found["quiet_ms"])
    model = nn.Sequential(nn.Linear(2, 2))
    debugger, calls = feature_maps(model), 100_000
    call_s = timed(lambda: [debugger({}, model) for _ in range(calls)]) / calls
    return {
        "a training step, ms": overhead.plain_ms,
        "a call that is switched off, us": 1e6 * call_s,
        "share of the step, %": 100 * 1e3 * call_s / overhead.plain_ms,
        "overhead of paired steps, %": 100 * overhead.median.value,
        "  95 % from": 100 * overhead.median.low,
        "  to": 100 * overhead.median.high,
    }


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@dataclass
class Clones:
    """Bare copies of the layers' outputs, kept until they are dropped: as captures are, after the step."""

    model: nn.Module
    kept: dict[str, torch.Tensor] = field(default_factory=dict)

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Has hooks in the model for a while."""
        handles = [self.model.get_submodule(name).register_forward_hook(self._keep(name)) for name in LAYERS]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _keep(self, name: str) -> Callable[..., None]:
        def keep(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            self.kept[name] = output.detach().clone()

        return keep


def compare_feature_maps(turns: int, *, tiny: bool) -> dict[str, float]:
    torch.manual_seed(0)
    model = ResNet((1, 1, 1, 1), 4 if tiny else 64).eval()
    images, _ = image_batches(1, 2 if tiny else 16, 32 if tiny else 128)[0]
    clones = Clones(model)
    seconds: dict[str, list[float]] = {name: [] for name in (PLAIN, CLONES, CAPTURES, PAGES)}
    alone: dict[str, list[float]] = {CLONES: [], CAPTURES: []}
    with tempfile.TemporaryDirectory() as folder, feature_maps(model) as debugger, torch.no_grad():
        debugger.begin_epoch(Path(folder))

        @contextmanager
        def enabled() -> Iterator[None]:
            debugger.enabled = True
            yield
            debugger.enabled = False

        def page() -> None:
            debugger({"outputs": model(images), "meta_info": {"idx": range(len(images))}}, model)

        sides: dict[str, tuple[Callable[[], AbstractContextManager[None]], Callable[[], object]]] = {
            PLAIN: (nullcontext, lambda: model(images)),
            CLONES: (clones.hooked, lambda: model(images)),
            CAPTURES: (enabled, lambda: model(images)),
            PAGES: (enabled, page),
        }
        debugger.enabled = False
        for turn in range(turns + WARM_UP):
            for name in list(sides) if turn % 2 else list(sides)[::-1]:
                prepared, step = sides[name]
                with prepared():
                    spent = timed(step)
                if turn >= WARM_UP:
                    seconds[name].append(spent)
                debugger.save_all()  # the writer works for its own side alone
                if clones.kept:
                    nbytes = sum(kept.nbytes for kept in clones.kept.values())
                    alone_turn(model, clones.kept, alone)
                    clones.kept.clear()
    return report_maps(seconds, alone, nbytes)


def alone_turn(model: nn.Module, outputs: dict[str, torch.Tensor], seconds: dict[str, list[float]]) -> None:
    """Copies and captures the same outputs, outside of a step."""
    debuggers = [(FeatureMapDebugger(name), model.get_submodule(name), outputs[name]) for name in LAYERS]

    def capture() -> None:
        for debugger, layer, output in debuggers:
            debugger.forward_hook_fn(layer, (), output)

    seconds[CLONES].append(timed(lambda: [output.detach().clone() for output in outputs.values()]))
    seconds[CAPTURES].append(timed(capture))


def report_maps(seconds: dict[str, list[float]], alone: dict[str, list[float]], nbytes: int) -> dict[str, float]:
    added = {
        name: [spent - plain for spent, plain in zip(seconds[name], seconds[PLAIN], strict=True)]
        for name in (CLONES, CAPTURES, PAGES)
    }
    medians = {name: statistics.median(values) for name, values in added.items()}
    return {
        "feature maps of a step, MB": nbytes / (1 << 20),
        "a validation step, ms": 1e3 * statistics.median(seconds[PLAIN]),
        **{f"{name} add, ms": 1e3 * value for name, value in medians.items()},
        "captures / clones, in steps": medians[CAPTURES] / medians[CLONES],
        "captures and pages / clones, in steps": medians[PAGES] / medians[CLONES],
        "clones alone, ms": 1e3 * statistics.median(alone[CLONES]),
        "captures alone, ms": 1e3 * statistics.median(alone[CAPTURES]),
        "captures / clones, alone": statistics.median(
            ours / theirs for ours, theirs in zip(alone[CAPTURES], alone[CLONES], strict=True)
        ),
    }


def main() -> None:
    arguments = parse()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    found = {
        f"switched off; goal: {100 * OFF_GOAL} %": compare_switched_off(arguments.pairs, tiny=arguments.tiny),
        f"feature maps of four layers; goal: {MAPS_GOAL} x": compare_feature_maps(arguments.turns, tiny=arguments.tiny),
    }
    print(f"{torch.get_num_threads()} threads")
    for title, values in found.items():
        print(title)
        for what, value in values.items():
            print(f"  {what:44}{value:12.4f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
