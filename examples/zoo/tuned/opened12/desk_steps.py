"""Loops whose steps add up what they should not, or change nothing."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted


@sick("gradients_not_zeroed", margin=0.05)
def cnn_of_digits_with_gradients_of_all_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loop of a beginner, without ``optimizer.zero_grad()``."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            if not sick:
                optimizer.zero_grad()
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


class Trainer:
    """A trainer with a method for each part of the loop."""

    def __init__(self, watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, *, zero: bool) -> None:
        self.model, self.optimizer, self.zero = model, optimizer, zero
        self.session = watch(model, optimizer)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        outputs = self.model(x)
        loss = functional.huber_loss(outputs, y)
        loss.backward()
        self.session.step(loss, inputs=x, outputs=outputs, targets=y)
        self.optimizer.step()
        if self.zero:
            self.optimizer.zero_grad(set_to_none=True)

    def fit(self, loader: DataLoader, epochs: int) -> None:
        for _ in range(epochs):
            for batch in loader:
                self.step(*batch)


@sick("gradients_not_zeroed", margin=0.05)
def trainer_class_that_never_clears_its_gradients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A class of one's own trains a regression with Adam and has no place for ``zero_grad``."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 10))
    trainer = Trainer(watch, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), zero=not sick)
    trainer.fit(DataLoader(train, batch_size=32, shuffle=True), 14)
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def sixteen_micro_batches_added_and_not_averaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """The batch is cut into sixteen to save memory; the rate is that of the whole batch's mean."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    parts = 16
    session = watch(model, optimizer)
    for pixels, labels in data.batches(128, 80):
        optimizer.zero_grad()
        for x, y in zip(pixels.chunk(parts), labels.chunk(parts), strict=True):
            logits = model(x)
            loss = functional.cross_entropy(logits, y)
            (loss if sick else loss / parts).backward()
        session.step(loss, inputs=x, outputs=logits, targets=y)
        optimizer.step()
    return accuracy(model, data)


@sick("no_update", also=("parameters_not_in_optimizer",), margin=0.3)
def optimizer_of_a_model_that_was_copied_afterwards(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer holds the parameters of the first model, and the loop trains a copy of it."""
    data = datasets.wine(seed)
    base = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(base.parameters(), lr=5e-3)
    model = copy.deepcopy(base) if sick else base
    session = watch(model, optimizer)
    for features, labels in data.batches(32, 120):
        optimizer.zero_grad()
        logits = model(features)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=features, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("no_update", margin=0.2)
def gradients_cleared_just_before_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``backward``, ``zero_grad``, ``step``: the step has nothing to go by."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    model = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(), nn.Linear(16, 2))
    nn.init.zeros_(model[2].weight)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for features, labels in DataLoader(train, batch_size=32, shuffle=True):
            if not sick:
                optimizer.zero_grad()
            logits = model(features)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            if sick:
                optimizer.zero_grad()
            session.step(loss, inputs=features, outputs=logits, targets=labels)
            optimizer.step()
    guessed = predicted(model, test.tensors[0])
    recalls = [(guessed.argmax(1) == kind)[test.tensors[1] == kind].float().mean() for kind in (0, 1)]
    return (sum(recalls) / 2).item()
