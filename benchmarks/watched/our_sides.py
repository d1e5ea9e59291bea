"""stepscope in several settings, delivering to its run store and to TensorBoard, or to every tracker."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

import stepscope
from watched.sides import Side, Watching

RUN_FOLDER = "run"
DRAIN_TIMEOUT_S = 300.0


def watch(settings: Callable[[], stepscope.DebugConfig], sinks: Sequence[str] = ("tensorboard",)) -> Side:
    """Returns ``stepscope.watch`` with settings and sinks."""

    @contextmanager
    def side(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[Watching]:
        with stepscope.open_run(folder / RUN_FOLDER, sinks=list(sinks)) as run:
            with stepscope.watch(model, optimizer, run=run, config=settings()) as session:
                yield Watching(
                    after_backward=lambda step, loss: run.scalar("loss", loss, step=step),
                    paused=session.paused,
                    lag=lambda: sum(sink.pending for sink in run.stats.sinks.values()),
                    own_share=lambda: session.report().overhead.share,
                )
            if not run.flush(DRAIN_TIMEOUT_S):
                raise TimeoutError(f"not delivered after {DRAIN_TIMEOUT_S:.0f} s: {run.stats}")

    return side


def _every_step(**settings: Any) -> Callable[[], stepscope.DebugConfig]:
    return lambda: stepscope.DebugConfig(**{"histogram_every": 1, "max_overhead": None, **settings})


OURS: dict[str, Side] = {
    "gradients": watch(_every_step()),
    "weights": watch(_every_step(weights=True, updates=True)),
    "activations": watch(_every_step(gradients=False, activations=True)),
    "economy": watch(lambda: stepscope.DebugConfig.preset("economy")),
    "standard": watch(lambda: stepscope.DebugConfig.preset("standard")),
    "full": watch(lambda: stepscope.DebugConfig.preset("full")),
    "governor": watch(_every_step(max_overhead=0.02)),
    "all_sinks": watch(_every_step(), ("tensorboard", "mlflow", "wandb", "local")),
    "measured_gradients": watch(_every_step(diagnosis=False)),
    "measured_weights": watch(_every_step(weights=True, updates=True, diagnosis=False)),
    "measured_activations": watch(_every_step(gradients=False, activations=True, diagnosis=False)),
    "measured_full": watch(lambda: stepscope.DebugConfig.preset("full", diagnosis=False)),
}
TITLES = {
    "gradients": "stepscope, gradients",
    "weights": "stepscope, + weights, updates",
    "activations": "stepscope, activations",
    "economy": "stepscope, preset economy",
    "standard": "stepscope, preset standard",
    "full": "stepscope, preset full",
    "governor": "stepscope, governor at 2 %",
    "all_sinks": "stepscope, gradients, 4 sinks",
    "measured_gradients": "gradients, undiagnosed",
    "measured_weights": "+ weights, undiagnosed",
    "measured_activations": "activations, undiagnosed",
    "measured_full": "full, undiagnosed",
}
SAMPLING = frozenset({"economy", "standard", "governor"})
"""Settings that may leave steps out: only the mean over all steps says what they cost."""
