"""Clipping of gradients, and their accumulation."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    RowReader,
    cells,
    convnet,
    explained,
    mlp,
    scaled,
    scanlines,
)  # fmt: skip


class ReluReader(nn.Module):
    """A plain recurrent network with ReLU that begins as the identity."""

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.recurrent = nn.RNN(features, width, nonlinearity="relu", batch_first=True)
        nn.init.eye_(self.recurrent.weight_hh_l0)
        self.head = nn.Linear(width, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(rows)[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients",))
def clipped_before_there_are_gradients(watch: Watch, *, seed, sick):
    """The line that clips stands above ``backward``."""
    data = scanlines(seed, length=16)
    model = ReluReader(6, 48, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for rows, goal in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, goal)
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=rows, outputs=outputs, targets=goal)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("clipping_ineffective", also=("exploding_gradients",))
def limit_of_ten_thousand(watch: Watch, *, seed, sick):
    data = digits(seed)
    data = Data(data.inputs.view(-1, 16, 4), data.targets, data.test_inputs.view(-1, 16, 4), data.test_targets)
    model = ReluReader(4, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in data.batches(32, 220):
        optimizer.zero_grad()
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e4 if sick else 0.25)
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data) + 0.1


@sick("clipping_too_strong")
def norm_limited_to_a_thousandth(watch: Watch, *, seed, sick):
    data = digits(seed, images=True)
    model = convnet(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 180):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 5.0)
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong")
def values_cut_to_almost_nothing(watch: Watch, *, seed, sick):
    """``clip_grad_value_`` got the tolerance from the line above it in the config."""
    data = scanlines(seed, length=8)
    model = RowReader(nn.LSTM, 6, 24, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for rows, goal in data.batches(40, 180):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, goal)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-5 if sick else 1.0)
        session.step(loss, inputs=rows, outputs=outputs, targets=goal)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("accumulation_not_averaged")
def sixteen_small_batches_added_up(watch: Watch, *, seed, sick):
    data = digits(seed, images=True)
    model, parts = convnet(8), 16
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for number, (images, labels) in enumerate(data.batches(6, 60 * parts), 1):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        (loss if sick else loss / parts).backward()
        if number % parts == 0:
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("accumulation_not_averaged")
def accumulation_in_a_helper(watch: Watch, *, seed, sick):
    """The helper runs the micro-batches of a large batch; whoever wrote it had Adam, and this training has SGD."""
    data = scaled(cells(seed), targets=True)
    model = mlp(20, 64, 64, 1, activation=nn.SiLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)

    def accumulate(rows, goal):
        pieces = list(zip(rows.split(8), goal.split(8), strict=True))
        total = 0.0
        for inputs, targets in pieces:
            loss = functional.mse_loss(model(inputs), targets)
            if not sick:
                loss = loss / len(pieces)
            loss.backward()
            total += loss.item()
        return total if not sick else total / len(pieces)

    for rows, goal in data.batches(96, 120):
        optimizer.zero_grad()
        value = accumulate(rows, goal)
        session.step(value, inputs=rows, targets=goal)
        optimizer.step()
    return r_squared(model, data)
