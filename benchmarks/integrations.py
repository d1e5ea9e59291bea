"""Tells what the integrations of training frameworks add to a step, beside what ``watch`` costs, in microseconds.

Run: ``python benchmarks/integrations.py``. Each framework trains a two-layer network on the digits, watched by its own
callback. Added up for each step is the processor time of this thread in the callback's hooks, less that of the
session's own step where a hook takes it. The first hundred steps, and beginning and end of the training, are left out.
The mean has what the framework logs in it, at its default of steps or at every 50th.
"""

import argparse
import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from typing import Any

os.environ |= {"KERAS_BACKEND": "torch", "STEPSCOPE_SYSTEM_METRICS": "off", "STEPSCOPE_ENVIRONMENT": "off"}

import torch
from torch import nn
from watched.data import Batch, digit_batches

from stepscope.sessions.session import DebugSession

WARM_UP = 100
ONCE = (
    "setup",
    "on_train_begin",
    "on_train_start",
    "on_train_end",
    "teardown",
    "on_init_end",
    "before_train",
    "after_train",
    "attach",
    "close",
)


class Meter:
    """Adds up the time in hooks, from the warm-up on; a step of the session counts the other way."""

    def __init__(self) -> None:
        self.micros = [0.0]  # of each step, the last of which has not ended
        self._depth = 0

    def hook(self, function: Callable[..., Any], sign: int) -> Callable[..., Any]:
        """Returns the function, measured; of hooks within each other the outermost counts."""

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            if sign > 0 and self._depth:
                return function(*args, **kwargs)
            self._depth += sign > 0
            inside, start = self._depth, time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = (time.thread_time() - start) * 1e6
                self._depth -= sign > 0
                if sign > 0 or inside:
                    self.micros[-1] += sign * spent
                if sign < 0:
                    self.micros.append(0.0)

        return measured


@contextmanager
def metered(*classes: type) -> Iterator[Meter]:
    """Measures the hooks that the classes define themselves, but those that are called once."""
    meter, kept = Meter(), []
    names = [(one, name, 1) for one in classes for name in vars(one) if not name.startswith("_") and name not in ONCE]
    for one, name, sign in [*names, (DebugSession, "step", -1)]:
        function = vars(one)[name]
        if callable(function) and not isinstance(function, type):
            kept.append((one, name, function))
            setattr(one, name, meter.hook(function, sign))
    try:
        yield meter
    finally:
        for one, name, function in kept:
            setattr(one, name, function)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def lightning(run: Path, batches: list[Batch], *, clip: float | None = None) -> Meter:
    import lightning as framework

    from stepscope.integrations.lightning import StepscopeCallback

    class Digits(framework.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Batch, index: int) -> torch.Tensor:
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = framework.Trainer(
        max_epochs=1, accelerator="cpu", gradient_clip_val=clip, callbacks=[StepscopeCallback(run, sinks=[])], **quiet
    )
    with metered(StepscopeCallback) as meter:
        trainer.fit(Digits(), torch.utils.data.DataLoader(batches, batch_size=None))
    return meter


def transformers(run: Path, batches: list[Batch]) -> Meter:
    import transformers as framework

    from stepscope.integrations.transformers import StepscopeCallback

    class Digits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            outputs = self.net(inputs)
            return {"loss": nn.functional.cross_entropy(outputs, labels), "logits": outputs}

    data = [
        {"inputs": one, "labels": label}
        for inputs, labels in batches
        for one, label in zip(inputs, labels, strict=True)
    ]
    arguments = framework.TrainingArguments(
        output_dir=str(run.parent / "checkpoints"), max_steps=len(batches), per_device_train_batch_size=32,
        disable_tqdm=True, save_strategy="no", use_cpu=True, report_to="none",
    )  # fmt: skip
    callback = StepscopeCallback(run, sinks=[])
    with metered(StepscopeCallback) as meter:
        framework.Trainer(Digits(), arguments, train_dataset=data, callbacks=[callback]).train()
    return meter


def ignite(run: Path, batches: list[Batch]) -> Meter:
    from ignite.engine import Events, create_supervised_trainer

    from stepscope.integrations.ignite import StepscopeLogger

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss())
    with metered(StepscopeLogger) as meter, StepscopeLogger(run, sinks=[]) as logger:
        logger.watch(trainer, model, optimizer)
        logger.attach_output_handler(
            trainer, Events.ITERATION_COMPLETED(every=50), tag="train", output_transform=lambda loss: loss
        )
        trainer.run(batches)
    return meter


def accelerate(run: Path, batches: list[Batch]) -> Meter:
    from accelerate import Accelerator

    from stepscope.integrations.accelerate import StepscopeTracker, watch

    accelerator = Accelerator(cpu=True, log_with="stepscope")
    model = network()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    accelerator.init_trackers("digits", init_kwargs={"stepscope": {"run": run, "sinks": []}})
    watch(accelerator, model, optimizer)
    with metered(StepscopeTracker) as meter:
        for number, (inputs, labels) in enumerate(batches):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            if number % 50 == 0:
                accelerator.log({"train_loss": loss.item()})
    accelerator.end_training()
    return meter


def keras(run: Path, batches: list[Batch]) -> Meter:
    import keras as framework

    from stepscope.integrations.keras import StepscopeCallback

    layers = framework.layers
    model = framework.Sequential([framework.Input((64,)), layers.Dense(128, activation="relu"), layers.Dense(10)])
    model.compile(framework.optimizers.SGD(0.01), framework.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    with metered(StepscopeCallback) as meter:
        model.fit(inputs, labels, batch_size=32, verbose=0, callbacks=[StepscopeCallback(run, sinks=[])])
    return meter


def mmengine(run: Path, batches: list[Batch]) -> Meter:
    from mmengine.model import BaseModel
    from mmengine.runner import Runner

    from stepscope.integrations.mmengine import StepscopeHook, StepscopeVisBackend

    class Digits(BaseModel):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, inputs: torch.Tensor, labels: torch.Tensor, mode: str = "tensor") -> Any:
            outputs = self.net(inputs)
            return {"loss": nn.functional.cross_entropy(outputs, labels)} if mode == "loss" else outputs

    data = [row for inputs, labels in batches for row in zip(inputs, labels, strict=True)]
    loader = {"sampler": {"type": "DefaultSampler", "shuffle": False}, "collate_fn": {"type": "default_collate"}}
    runner = Runner(
        model=Digits(),
        work_dir=str(run.parent / "work"),
        train_dataloader={"dataset": data, "batch_size": 32, **loader},
        train_cfg={"by_epoch": False, "max_iters": len(batches)},
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.01}},
        visualizer={"type": "Visualizer", "vis_backends": [{"type": "StepscopeVisBackend", "run": str(run)}]},
        custom_hooks=[{"type": "StepscopeHook"}],
        default_hooks={"checkpoint": None},
        log_level="ERROR",
    )
    with metered(StepscopeHook, StepscopeVisBackend) as meter:
        runner.train()
    return meter


def torchtitan(run: Path, batches: list[Batch]) -> Meter:
    """Only what the logger adds: a Trainer, and the constructor of its processor of metrics, need GPUs."""
    from torchtitan.components.metrics import LoggerContainer, MetricsProcessor

    from stepscope.integrations.torchtitan import StepscopeLogger

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    processor = MetricsProcessor.__new__(MetricsProcessor)
    processor.model_parts, processor.optimizers, processor.logger = [model], [optimizer], LoggerContainer()
    StepscopeLogger(run, sinks=[]).attach(processor)
    names = ("loss_metrics/global_avg_loss", "loss_metrics/global_max_loss", "grad_norm", "throughput(tps)", "mfu(%)")
    with metered(StepscopeLogger) as meter:
        for number, (inputs, labels) in enumerate(batches, 1):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            if number % 10 == 0:
                processor.logger.log(dict.fromkeys(names, loss.item()), number)
    processor.close()
    return meter


SIDES: dict[str, Callable[[Path, list[Batch]], Meter]] = {
    "lightning": lightning,
    "lightning, clipping": functools.partial(lightning, clip=1.0),
    "transformers": transformers,
    "accelerate": accelerate,
    "ignite": ignite,
    "keras": keras,
    "mmengine": mmengine,
    "torchtitan": torchtitan,
}


def main() -> None:
    """Prints a line for each framework."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--only", choices=SIDES, action="append", help="these frameworks alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'µs a step':24}{'steps':>8}{'median':>8}{'mean':>8}")
    for name in given.only or SIDES:
        if find_spec(name.partition(",")[0]) is None:
            print(f"{name:24} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            batches = digit_batches(given.steps, 32, 64)
            meter = SIDES[name](Path(folder) / "run", [batches[step % len(batches)] for step in range(given.steps)])
        counted = meter.micros[WARM_UP:-1] or meter.micros
        print(f"{name:24}{len(counted):8}{median(counted):8.1f}{fmean(counted):8.1f}", flush=True)


if __name__ == "__main__":
    main()
