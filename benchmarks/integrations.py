"""Tells what the integrations of training frameworks add to a step, beside what ``watch`` costs, in microseconds.

Run: ``python benchmarks/integrations.py``. Each framework trains a two-layer network on the digits, watched by its own
callback. Added up for each step is the processor time of this thread in the callback's hooks, less that of the
session's own step where a hook takes it. What ``watch`` itself observes, such as a clipping by ``clip_grad_norm_``, is
the same in a plain loop and is not counted. The first hundred steps, and beginning and end of the training, are left
out. The mean has what the framework logs in it, at its default of steps or at every 50th.

At steps chosen at random, half of all, empty hooks are measured in the same places: where a step has filled the
processor's caches, measuring an empty function takes ten microseconds and more. What the hooks add is the difference;
the last column is what the empty ones take.
"""

import argparse
import functools
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from typing import Any

os.environ |= {"KERAS_BACKEND": "torch", "STEPSCOPE_SYSTEM_METRICS": "off", "STEPSCOPE_ENVIRONMENT": "off"}

import torch
from torch import nn
from watched.data import Batch, digit_batches
from watched.hook_meter import Meter, metered


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def lightning(run: Path, batches: list[Batch], **clipping: Any) -> Meter:
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
    callback = StepscopeCallback(run, sinks=[])
    trainer = framework.Trainer(max_epochs=1, accelerator="cpu", callbacks=[callback], **clipping, **quiet)
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

    def step(callback: Any, *args: Any, **kwargs: Any) -> None:
        callback._training.sessions[0].step()

    with metered(StepscopeCallback, on_train_batch_end=step) as meter:
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
    "lightning, clipping": functools.partial(lightning, gradient_clip_val=1.0),
    "lightning, clipping by value": functools.partial(
        lightning, gradient_clip_val=1.0, gradient_clip_algorithm="value"
    ),
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
    print(f"{'µs a step':32}{'steps':>8}{'median':>8}{'mean':>8}{'empty':>8}")
    for name in given.only or SIDES:
        if find_spec(name.partition(",")[0]) is None:
            print(f"{name:32} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            batches = digit_batches(given.steps, 32, 64)
            meter = SIDES[name](Path(folder) / "run", [batches[step % len(batches)] for step in range(given.steps)])
        added = [of(meter.micros) - of(meter.empty) for of in (median, fmean)]
        print(f"{name:32}{len(meter.micros):8}{added[0]:8.1f}{added[1]:8.1f}{median(meter.empty):8.1f}", flush=True)


if __name__ == "__main__":
    main()
