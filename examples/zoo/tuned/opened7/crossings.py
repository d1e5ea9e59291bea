"""Samples of a batch that influence each other."""

from typing import Any

from sklearn.datasets import load_wine
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import mlp, right
from examples.zoo.tuned.opened7.drills import drill, falling
from examples.zoo.tuned.opened7.supplies import (
    anew,
    fresh,
    images,
    parted,
    scaled,
    tones,
)


class Weighing(nn.Module):
    """Weighs the times of a series by attention; ``dim`` is over what the weights are shares."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.read = nn.Conv1d(1, 16, 5, padding=2)
        self.score, self.head = nn.Linear(16, 1), nn.Linear(16, 3)
        self.dim = dim

    def forward(self, series: Tensor) -> Tensor:
        seen = self.read(series.mT).relu().mT
        weights = self.score(seen).softmax(self.dim)
        return self.head((weights * seen).sum(1))


@sick("batch_mixing")
def attention_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``softmax(0)``: the samples of a batch compete; at the test, a thousand of them do."""
    model = Weighing(0 if sick else 1)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, fresh(tones, 8, 300))
    return right(model, anew(tones, 1000, seed))


class Sequential3D(nn.Module):
    """A recurrent layer over the rows of a picture; ``batch_first`` is as it was passed."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 32, **options), nn.Linear(32, 10)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.head(self.rnn(pictures.squeeze(1))[0].mean(1))


@sick("batch_mixing")
def batch_first_forgotten(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU takes the samples of a batch for the times of a series."""
    rows = images(seed)
    model = Sequential3D(batch_first=not sick)
    optimizer = optim.Adam(model.parameters(), lr=2e-2)
    drill(watch, model, optimizer, rows.epochs(32, 240), after=falling(optimizer, 240))
    return right(model, rows)


@sick("batch_mixing")
def scaled_by_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``x / x.sum(0)`` in ``forward`` was to be ``sum(1)``: shares of a batch instead of shares of a row."""
    x, y = load_wine(return_X_y=True)
    rows = scaled(parted(x.astype("float32"), y, seed))

    class Shares(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            positive = x.exp()
            return 13 * positive / positive.sum(1, keepdim=True) if not sick else 5 * positive / positive.sum(0)

    model = nn.Sequential(Shares(), mlp(13, 24, 3))
    optimizer = optim.Adam(model.parameters(), lr=6e-3, weight_decay=1e-2)
    drill(watch, model, optimizer, rows.draws(6, 200))
    return right(model, rows)
