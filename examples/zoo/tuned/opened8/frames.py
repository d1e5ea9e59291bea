"""The networks of this half."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.tuned.opened8.stores import TAGS, beside


def dense(*widths: int, between: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these widths, and something between them."""
    layers: list[nn.Module] = []
    for inner, outer in pairwise(widths):
        layers += [nn.Linear(inner, outer), between()]
    return nn.Sequential(*layers[:-1])


def plain_convolutions(width: int = 16, *, depth: int = 3) -> nn.Sequential:
    """Returns convolutions without any norm for pictures of eight by eight, and a linear head for ten classes."""
    layers: list[nn.Module] = []
    for index in range(depth):
        layers += [nn.Conv2d(width if index else 1, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10))


class Marker(nn.Module):
    """Gives every character (N, T) the scores of its tags (N, T, 6), by self-attention."""

    def __init__(self, *, width: int = 32, blocks: int = 1, norm_first: bool = True, length: int = 24) -> None:
        super().__init__()
        self.letters = nn.Embedding(96, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.blocks = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width) if norm_first else nn.Identity()
        self.head = nn.Linear(width, TAGS)

    def forward(self, codes: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.letters(codes) + self.places)))


class Twofold(nn.Module):
    """Reads characters from both sides with a GRU, and gives each of them the scores of its tags."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.letters = nn.Embedding(96, 16)
        self.both = nn.GRU(16, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, TAGS)

    def forward(self, codes: Tensor) -> Tensor:
        return self.head(self.both(self.letters(codes))[0])


class Neighbours(nn.Module):
    """Judges a digit (N, 64) as a graph: each layer mixes what a pixel and those around it hold."""

    def __init__(self, *, width: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.places = nn.Parameter(0.3 * torch.randn(64, width))
        self.enter = nn.Linear(1, width)
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.around = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.head = nn.Linear(64 * width, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        held = functional.relu(self.enter(pixels[..., None]) * (1 + self.places))
        for own, around in zip(self.own, self.around, strict=True):
            held = held + functional.relu(own(held) + around(beside() @ held))
        return self.head(held.flatten(1))


class Factors(nn.Module):
    """The product of a file's factors with a word's, and a bias of each."""

    def __init__(self, width: int = 6, *, spread: float = 0.1, sparse: bool = False) -> None:
        super().__init__()
        self.files, self.words = (nn.Embedding(count, width, sparse=sparse) for count in (70, 90))
        self.of_file, self.of_word = (nn.Embedding(count, 1, sparse=sparse) for count in (70, 90))
        for table in (self.files, self.words):
            nn.init.normal_(table.weight, std=spread)
        for table in (self.of_file, self.of_word):
            nn.init.zeros_(table.weight)

    def forward(self, pairs: Tensor) -> Tensor:
        file, word = pairs.unbind(1)
        taste = (self.files(file) * self.words(word)).sum(1)
        return taste + (self.of_file(file) + self.of_word(word)).squeeze(1)


class Spelled(nn.Module):
    """Reads a name (N, 24) letter by letter, and judges its last state."""

    def __init__(self, *, width: int = 32, letters: int = 16, classes: int = 8) -> None:
        super().__init__()
        self.letters = nn.Embedding(40, letters)
        self.rnn = nn.GRU(letters, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, codes: Tensor) -> Tensor:
        return self.head(self.rnn(self.letters(codes))[1][-1])


def by_position(scores: Tensor, tags: Tensor) -> Tensor:
    """Returns the cross entropy of (N, T, C) with (N, T)."""
    return functional.cross_entropy(scores.transpose(1, 2), tags)
