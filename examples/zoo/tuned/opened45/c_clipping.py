"""Gradients that are clipped too late, or to nearly nothing."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened45.c_common import joined, of_columns


class Echo(nn.Module):
    """An Elman recurrence over the rows of a digit, which begins with a large echo."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(8, 48, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(48, 10)
        nn.init.eye_(self.rnn.weight_hh_l0)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(pixels.view(-1, 8, 8))[0][:, -1])


@sick("clipping_ineffective", margin=0.1)
def clipped_while_they_are_none(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norm is clipped after ``zero_grad``, when there is nothing to clip; the twin clips after ``backward``."""
    data = datasets.digits(seed)
    model = Echo()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 200):
        optimizer.zero_grad()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.1)
def values_clipped_to_a_ten_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each gradient is clipped to 1e-4, so that SGD hardly moves; the twin clips them to 1."""
    data = joined(samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for rows, targets in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-4 if sick else 1.0)
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
    return of_columns(model, data)
