"""What the cases of this half read: a series, ratings, gases, tags of characters."""

import numpy as np
import torch
from torch import nn

from examples.zoo import datasets
from examples.zoo.datasets import Data


def parted(inputs: torch.Tensor, targets: torch.Tensor, seed: int) -> Data:
    """Returns three quarters of the rows, drawn by the seed, and the others."""
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(3000 + seed))
    test, train = order[: len(order) // 4], order[len(order) // 4 :]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def load(seed: int, *, length: int = 24, horizon: int = 1, count: int = 1000) -> Data:
    """Windows (N, length, 1) of an hourly load, standardised, and what follows (N, horizon)."""
    random = np.random.default_rng(seed)
    hours = np.arange(4000)
    series = np.sin(hours * 2 * np.pi / 24) + 0.6 * np.sin(hours * 2 * np.pi / 168 + 1) + 0.5 * np.sin(hours / 3.7)
    series = series + 0.15 * random.standard_normal(len(hours))
    series = torch.from_numpy((series - series.mean()) / series.std()).float()
    starts = random.integers(len(series) - length - horizon, size=count)
    rows = torch.stack([series[start : start + length + horizon] for start in starts])
    return parted(rows[:, :length, None], rows[:, length:], seed)


def ratings(seed: int, *, users: int = 60, items: int = 50, count: int = 2600, rank: int = 3) -> Data:
    """Pairs (N, 2) of a user and an item, and a standardised rating (N,) of low rank with a little noise."""
    random = torch.Generator().manual_seed(500 + seed)
    tastes, kinds = (torch.randn(number, rank, generator=random) for number in (users, items))
    pairs = torch.randperm(users * items, generator=random)[:count]
    pairs = torch.stack([pairs // items, pairs % items], 1)
    scores = (tastes[pairs[:, 0]] * kinds[pairs[:, 1]]).sum(1)
    scores = scores + 0.3 * torch.randn(count, generator=random)
    return parted(pairs, (scores - scores.mean()) / scores.std(), seed)


def tags(seed: int, *, length: int = 24, count: int = 900) -> Data:
    """Windows of Python's sources, and whether each character begins a word (2), is another letter (1) or none (0)."""
    windows = datasets.text(seed, length=length, count=count)
    rows = torch.cat([windows.inputs, windows.test_inputs])
    letter = ((rows >= 33) & (rows <= 58)) | ((rows >= 65) & (rows <= 90))
    before = torch.cat([torch.zeros_like(letter[:, :1]), letter[:, :-1]], 1)
    return parted(rows, torch.where(letter, torch.where(before, 2, 1), 0), seed)


class Factors(nn.Module):
    """A user's and an item's vector multiplied, plus what each of both adds."""

    def __init__(self, users: int = 60, items: int = 50, width: int = 4, scale: float = 0.3) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=scale)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Returns a score (N,) of each pair."""
        users, items = pairs.unbind(-1)
        return (self.users(users) * self.items(items)).sum(-1) + (self.user_bias(users) + self.item_bias(items))[..., 0]


class Forecaster(nn.Module):
    """A recurrent layer over a window, and a linear layer on its last state."""

    def __init__(self, horizon: int = 1, width: int = 24, inputs: int = 1) -> None:
        super().__init__()
        self.rnn = nn.GRU(inputs, width, batch_first=True)
        self.head = nn.Linear(width, horizon)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """Returns the forecast (N, horizon)."""
        return self.head(self.rnn(windows)[0][:, -1])


class Tagger(nn.Module):
    """Embeddings, a recurrent layer in both directions, and a linear layer at each place."""

    def __init__(self, classes: int, width: int = 16, codes: int = datasets.CHARACTERS) -> None:
        super().__init__()
        self.embed = nn.Embedding(codes, width)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, length, classes)."""
        return self.head(self.rnn(self.embed(codes))[0])


class CharacterModel(nn.Module):
    """A small causal transformer over characters."""

    def __init__(self, width: int = 32, length: int = 24, layers: int = 1) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, width)
        self.place = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, datasets.CHARACTERS, bias=False)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, length, CHARACTERS)."""
        length = codes.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.norm(self.body(self.embed(codes) + self.place[:length], mask=mask)))
