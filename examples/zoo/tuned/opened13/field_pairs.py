"""Losses and layers in which rows of a batch meet that have nothing to do with each other."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, springs


@sick("shape_broadcast", margin=0.1)
def heteroscedastic_errors_of_every_pair(watch: Watch, *, seed: int, sick: bool) -> float:
    """Means (N,) and targets (N, 1) make a Gaussian's error of all pairs of rows; the twin's means are (N, 1)."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(16):
        for rows, places in DataLoader(train, batch_size=64, shuffle=True):
            found = model(rows)
            mean, spread = (found[:, 0], found[:, 1]) if sick else (found[:, :1], found[:, 1:])
            variance = functional.softplus(spread) + 1e-2
            loss = 0.5 * (variance.log() + (places - mean).square() / variance).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=mean, targets=places)
            optimizer.step()
    return judged(model, test, lambda found, places: samples.explained(found[:, :1], places))


class _Attention(nn.Module):
    """One block of attention over a digit's rows, whose weights are normed over the rows that are looked at or not."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.rows, self.places = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.score = nn.Linear(32, 1)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = functional.gelu(self.rows(images.squeeze(1)) + self.places)
        weights = self.score(tokens).softmax(self.axis)
        return self.head((weights * tokens).sum(1))


@sick("batch_mixing", margin=0.03)
def attention_normed_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention pooling takes its softmax over axis 0, the batch, so that samples compete; the twin's is over rows."""
    train, test = samples.numerals(seed)
    model = _Attention(0 if sick else 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(12):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


class _Rowwise(nn.Module):
    """An encoder over the rows of a digit, which takes the batch's axis for the rows' one or not."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.rows, self.places = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=batch_first, norm_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.rows(images.squeeze(1)) + self.places)[:, 0])


@sick("batch_mixing", margin=0.1)
def an_encoder_that_wants_the_batch_second(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first`` is forgotten, so that rows attend to other digits; the first row's answer needs the others."""
    train, test = samples.numerals(seed)
    model = _Rowwise(batch_first=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)
