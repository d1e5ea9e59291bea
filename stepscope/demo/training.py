"""What the demo trains: a small convolutional network on scikit-learn's 1,797 scanned digits."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.integration import after_epoch, before_epoch, checkpoint_indices
from debuggers.wrappers.sequential_debugger import SequentialDebugger
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager
from stepscope.runs.opening import Run
from stepscope.sessions.config import DebugConfig
from stepscope.sessions.schedule import Schedule
from stepscope.sessions.session import DebugSession

CONFIG: dict[str, Any] = {
    "model": {"name": "DigitsNet", "channels": [16, 32], "hidden": 64},
    "optimizer": {"name": "AdamW", "max_learning_rate": 1e-2, "weight_decay": 1e-2},
    "batch_size": 64,
    "checkpoint_method": 2,
    "max_gradient_norm": 1.0,
    "measure_every": 5,
    "seed": 0,
}
VALIDATION_SIZE = 360


class DigitsNet(nn.Module):
    """Two convolutions and two linear layers for images of shape (N, 1, 8, 8) in [0, 1]; returns (N, 10) scores."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns unnormalised class scores."""
        maps = torch.relu(self.conv2(torch.relu(self.conv1(images))))
        hidden = torch.relu(self.fc1(nn.functional.max_pool2d(maps, 2).flatten(1)))
        scores: torch.Tensor = self.fc2(hidden)
        return scores


class Trainer:
    """The training loop, with debuggers at the validation of every second epoch."""

    validation_size = VALIDATION_SIZE

    def __init__(self, run: Run, *, epochs: int, config: dict[str, Any] = CONFIG, pages: bool = True) -> None:
        """Prepares the data, the network and its observers.

        Args:
            run: Where everything is emitted; epochs, checkpoints and pages lie in its folder.
            epochs: Passes over the training images.
            config: As ``CONFIG``.
            pages: Whether debuggers keep datapoints, and checkpoints are written.
        """
        torch.manual_seed(config["seed"])
        torch.set_num_threads(1)  # several would mostly wait for each other: the tensors are small
        digits = load_digits()
        order = torch.randperm(len(digits.target))
        images = torch.from_numpy(digits.images).float()[order, None] / 16
        labels = torch.from_numpy(digits.target)[order]
        self.validation = images[:VALIDATION_SIZE], labels[:VALIDATION_SIZE]
        self.images, self.labels = images[VALIDATION_SIZE:], labels[VALIDATION_SIZE:]
        self.run = run
        self.config = config
        self.pages = pages
        self.epochs = epochs
        self.step = 0
        self.accuracy = 0.0
        self.model = DigitsNet()
        self.steps_per_epoch = -(-len(self.labels) // config["batch_size"])
        self.total_steps = epochs * self.steps_per_epoch
        self.optimizer = torch.optim.AdamW(self.model.parameters(), weight_decay=config["optimizer"]["weight_decay"])
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, config["optimizer"]["max_learning_rate"], total_steps=max(self.total_steps, 2)
        )
        stability = NumericalStabilityManager(
            GradientClippingConfig(max_norm=config["max_gradient_norm"]), NaNHandlingConfig(), emitter=run
        )
        self.session = DebugSession(
            self.model,
            self.optimizer,
            run=run,
            stability=stability,
            config=DebugConfig(
                schedule=Schedule(every=config["measure_every"]),
                histogram_every=1,
                weights=True,
                updates=True,
                max_overhead=None,
            ),
        )
        self.debugger = SequentialDebugger(
            [
                _debugger("conv1_maps", FeatureMapDebugger, "conv1"),
                _debugger("conv2_maps", FeatureMapDebugger, "conv2"),
                _debugger("fc1_activations", ActivationStatsDebugger, "fc1"),
            ],
            self.model,
            page_size_mb=1,
            emitter=run.scoped("validation"),
            keep=("inputs", "labels", "outputs", "correct"),
        )
        run.text("model", f"```\n{self.model}\n```", step=0)

    def steps(self) -> Iterator[tuple[float, float]]:
        """Trains; yields the loss and the last validation accuracy after each step."""
        indices = checkpoint_indices(self.config["checkpoint_method"], self.epochs) if self.pages else []
        with self.debugger, self.session:
            for epoch in range(self.epochs):
                self.model.train()
                for batch in torch.split(torch.randperm(len(self.labels)), self.config["batch_size"]):
                    yield self._train_step(batch), self.accuracy
                before_epoch(self.debugger, self.run.path, epoch, indices)
                self._validate(epoch)
                after_epoch(self.debugger)

    def _train_step(self, batch: torch.Tensor) -> float:
        loss = nn.functional.cross_entropy(self.model(self.images[batch]), self.labels[batch])
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves Tensor.backward without annotations
        self.session.step(loss, step=self.step)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        return float(loss.detach())

    def _validate(self, epoch: int) -> None:
        self.model.eval()
        # All digits in one batch: what debuggers put out is one point for each validation, at the step of the training.
        self.debugger.step = self.step
        images, labels = self.validation
        with torch.no_grad():
            scores = self.model(images)
        predictions = scores.argmax(1)
        if self.debugger.enabled:
            datapoint = {
                "inputs": images,
                "labels": labels,
                "outputs": scores,
                "correct": predictions == labels,
                "meta_info": {"idx": list(range(len(labels)))},
            }
            self.debugger(datapoint, self.model)
        kept = torch.arange(1, len(labels) + 1)
        correct = (predictions == labels)[scores.max(1).values.argsort(descending=True)].cumsum(0)
        self.run.curve("validation/accuracy_by_coverage", kept / len(labels), correct / kept, step=self.step,
                       x_label="share of the digits, the surest first", y_label="accuracy")  # fmt: skip
        self._emit_validation(epoch, float(nn.functional.cross_entropy(scores, labels)), predictions)

    def _emit_validation(self, epoch: int, loss: float, predictions: torch.Tensor) -> None:
        images, labels = self.validation
        wrong = torch.nonzero(predictions != labels).flatten().tolist()
        self.accuracy = 1 - len(wrong) / len(labels)
        emitter = self.run.scoped("validation").at(self.step)
        emitter.scalar("loss", loss)
        emitter.scalar("accuracy", self.accuracy)
        confusion = torch.zeros(10, 10, dtype=torch.int64)
        confusion.index_put_((labels, predictions), torch.ones_like(labels), accumulate=True)
        emitter.table("confusion", ["digit", *map(str, range(10))], [[d, *confusion[d].tolist()] for d in range(10)])
        if wrong:
            emitter.image("wrong_digits", _strip([images[i] for i in wrong[:16]]), layout="HW",
                          value_range=(0.0, 1.0))  # fmt: skip
        if self.debugger.enabled:
            self._checkpoint(epoch, loss)

    def _checkpoint(self, epoch: int, loss: float) -> None:
        folder = self.run.path / f"epoch_{epoch}"
        scores = {"loss": loss, "accuracy": self.accuracy}
        (folder / "validation_scores.json").write_text(json.dumps(scores), encoding="utf-8")
        torch.save(self.model.state_dict(), folder / "checkpoint.pt")
        emitter = self.run.at(self.step)
        emitter.file(folder / "checkpoint.pt", name="checkpoint")
        emitter.alert("checkpoint", f"epoch {epoch}: accuracy {self.accuracy:.3f}, loss {loss:.3f}", level="info")


def _debugger(name: str, cls: type, layer_name: str) -> dict[str, Any]:
    return {"name": name, "debugger_config": {"class": cls, "args": {"layer_name": layer_name}}}


def _strip(images: list[torch.Tensor]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Pictures of shape (1, 8, 8) side by side, four times as large, with a gap between them."""
    tiles = [np.pad(np.kron(image[0].numpy(), np.ones((4, 4), np.float32)), 2) for image in images]
    return np.concatenate(tiles, axis=1)
