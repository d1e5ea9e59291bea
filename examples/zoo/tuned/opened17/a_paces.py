"""Schedules, clipping and rates, in loops over sequences, pictures and tables."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


class _Rows(nn.Module):
    """Reads a digit row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.head = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(images.squeeze(1))[0][:, -1])


def _convolutions(channels: int = 3, classes: int = 2) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, classes),
    )  # fmt: skip


def _right(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return samples.accuracy(model(inputs), labels)


@sick("schedule_collapsed", margin=0.05)
def a_polynomial_over_epochs_stepped_by_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``PolynomialLR`` over 8 epochs is stepped by each batch, and is at zero after 8; the twin steps by epoch."""
    train, test = samples.numerals(seed)
    model = _Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    epochs = 8
    schedule = lr_scheduler.PolynomialLR(optimizer, total_iters=epochs, power=1.0)
    session = watch(model, optimizer)
    for _ in range(epochs):
        for images, labels in DataLoader(train, 48, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
    return _right(model, *test.tensors)


@sick("schedule_collapsed", margin=0.05)
def a_plateau_seen_in_single_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` gets the loss of each batch, which is noise to it; the twin's gets that of validations."""
    train, test = samples.scenes(seed, count=1500)
    model = _convolutions()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=2)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, 24, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            if sick:
                schedule.step(loss.item())
        with torch.no_grad(), session.validating():
            held_out = functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item()
        session.validation(held_out)
        if not sick:
            schedule.step(held_out)
    return _right(model, *test.tensors)


@sick("no_update", also=("learning_rate_too_low", "schedule_collapsed"), margin=0.15)
def a_warm_up_by_epochs_in_one_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A warm-up from 0 that steps by epochs, and one epoch: the rate is 0 throughout; the twin's steps by batches."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    loader = DataLoader(train, 8, shuffle=True)
    warm_up = 1 if sick else len(loader) // 10
    schedule = lr_scheduler.LambdaLR(optimizer, lambda count: min(1.0, count / warm_up))
    session = watch(model, optimizer)
    for counts, files in loader:
        logits = model(counts)
        loss = functional.cross_entropy(logits, files)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=counts, outputs=logits, targets=files)
        optimizer.step()
        if not sick:
            schedule.step()
    schedule.step()
    model.eval()
    return _right(model, *test.tensors)


class _Pixels(nn.Module):
    """ReLUs that read a digit two pixels at a time, from an identity as in a recipe for long sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.head = nn.RNN(4, 40, nonlinearity="relu", batch_first=True), nn.Linear(40, 10)
        nn.init.eye_(self.reader.weight_hh_l0)
        nn.init.normal_(self.reader.weight_ih_l0, std=0.2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(images.reshape(len(images), 16, 4))[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def clipped_before_the_backward_pass(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped between ``zero_grad`` and ``backward``, when there are none; the twin clips after it."""
    train, test = samples.numerals(seed)
    model = _Pixels()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in DataLoader(train, 32, shuffle=True):
            loss = functional.cross_entropy(logits := model(images), labels)
            optimizer.zero_grad()
            if sick:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.05)
def each_value_clipped_to_a_ten_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` gets 1e-4, which is below nearly all gradients, before SGD; the twin's limit is 1."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(16):
        for some, their in DataLoader(train, 16, shuffle=True):
            outputs = model(some)
            loss = functional.smooth_l1_loss(outputs, their)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1e-4 if sick else 1.0)
            session.step(loss, inputs=some, outputs=outputs, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("learning_rate_too_low", margin=0.1)
def adadelta_at_the_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adadelta with 0.001, where its default is 1; the twin keeps the default."""
    data = datasets.digits(seed, images=True)
    model = _convolutions(channels=1, classes=10)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1e-3 if sick else 1.0)
    session = watch(model, optimizer)
    for images, labels in data.batches(32, 210):
        inputs = 2 * images - 0.6
        optimizer.zero_grad()
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
    return _right(model, 2 * data.test_inputs - 0.6, data.test_targets)
