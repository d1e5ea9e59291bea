"""What several trainings are made of: more views of the real data, a few networks, and scores."""

import io
import keyword
import math
import sysconfig
import tokenize
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets as sets
from torch import nn

from examples.zoo.datasets import Data

SYMBOLS = 98
TAGS = ("operator", "name", "keyword", "number", "string", "comment")
WORDS = ("self", "return", "if ", "for ", "not ", "None")


def held_back(seed: int, inputs: torch.Tensor, targets: torch.Tensor, share: float = 0.25) -> Data:
    """Splits rows into those to train on and a share to judge by."""
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(77 + seed))
    test, train = order[: int(len(order) * share)], order[int(len(order) * share) :]
    return Data(inputs[train], targets[train], inputs[test], targets[test])


def scaled(data: Data, *, targets: bool = False) -> Data:
    """Returns the inputs, and the targets on request, in standard deviations of the training rows."""
    center, spread = data.inputs.mean(0), data.inputs.std(0) + 1e-8
    inputs, test_inputs = (data.inputs - center) / spread, (data.test_inputs - center) / spread
    if not targets:
        return Data(inputs, data.targets, test_inputs, data.test_targets)
    center, spread = data.targets.mean(0), data.targets.std(0)
    return Data(inputs, (data.targets - center) / spread, test_inputs, (data.test_targets - center) / spread)


def cells(seed: int) -> Data:
    """Of 569 tumours, the twenty means and errors as measured, and the worst radius (N, 1): well predictable."""
    values = torch.from_numpy(sets.load_breast_cancer().data).float()
    return held_back(seed, values[:, :20], values[:, 20:21])


def alcohol(seed: int) -> Data:
    """Of 178 wines, twelve measurements, and the alcohol (N, 1) in percent."""
    values = torch.from_numpy(sets.load_wine().data).float()
    return held_back(seed, values[:, 1:], values[:, :1])


def scanlines(seed: int, *, length: int = 16, width: int = 6, count: int = 1600) -> Data:
    """Strips (N, length, width) of photographs, about -2 to 2, and the mean grey (N, 1) of the row that follows."""
    random = np.random.default_rng(500 + seed)
    found = []
    for _ in range(count):
        picture = _greys()[random.integers(2)]
        top, left = random.integers(picture.shape[0] - length - 1), random.integers(picture.shape[1] - width)
        found.append(picture[top : top + length + 1, left : left + width])
    strips = (torch.from_numpy(np.stack(found)).float() - 120) / 70
    return held_back(seed, strips[:, :-1].contiguous(), strips[:, -1].mean(-1, keepdim=True))


def tiles(seed: int, *, side: int = 8, count: int = 1500) -> torch.Tensor:
    """Grey tiles (count, side * side) of photographs, from 0 to 1."""
    random = np.random.default_rng(900 + seed)
    found = []
    for _ in range(count):
        picture = _greys()[random.integers(2)]
        top, left = (random.integers(extent - side) for extent in picture.shape)
        found.append(picture[top : top + side, left : left + side])
    return torch.from_numpy(np.stack(found)).float().flatten(1) / 255


def tagged(seed: int, *, length: int = 32, count: int = 1200) -> Data:
    """Windows (N, length) of characters of Python, and the kind of token, see ``TAGS``, that each belongs to."""
    codes, tags = _tokens()
    starts = np.random.default_rng(seed).integers(len(codes) - length, size=count)
    windows = [torch.from_numpy(np.stack([column[at : at + length] for at in starts])) for column in (codes, tags)]
    return held_back(seed, *windows)


def snippets(seed: int, *, length: int = 48, count: int = 1500) -> Data:
    """Windows (N, length) of characters of Python, and which of ``WORDS`` are in them (N, 6)."""
    codes, _ = _tokens()
    starts = np.random.default_rng(40 + seed).integers(len(codes) - length, size=count)
    windows = np.stack([codes[at : at + length] for at in starts])
    texts = ["".join(chr(code + 32) for code in window) for window in windows]
    labels = torch.tensor([[float(word in text) for word in WORDS] for text in texts])
    return held_back(seed, torch.from_numpy(windows), labels)


def explained(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the mean share of the columns' variance that outputs explain; -1 at least, NaN if it is NaN."""
    error = (outputs - targets).square().mean()
    return (1 - error / targets.var(0).mean()).clamp(min=-1).item()


def recalled(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Returns the mean over classes of the share that is found: accuracy with equal weight for each class."""
    guessed, targets = outputs.flatten(0, -2).argmax(-1), targets.flatten()
    return float(np.mean([(guessed[targets == one] == one).float().mean().item() for one in targets.unique()]))


def f1(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns F1 over all labels, of logits above zero."""
    guessed, labels = logits > 0, labels > 0.5
    hits = (guessed & labels).sum()
    return (2 * hits / (guessed.sum() + labels.sum()).clamp(min=1)).item()


def mlp(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns linear layers of these widths, with an activation between them."""
    layers: list[nn.Module] = []
    for entering, leaving in pairwise(widths):
        layers += [nn.Linear(entering, leaving), activation()]
    return nn.Sequential(*layers[:-1])


class Tagger(nn.Module):
    """A small transformer over characters with an output for each position."""

    def __init__(
        self,
        width: int = 32,
        layers: int = 2,
        classes: int = len(TAGS),
        *,
        batch_first: bool = True,
        first: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        self.places = nn.Parameter(torch.randn(64, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=batch_first, norm_first=first)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(codes) + self.places[: codes.shape[1]]))


class RowReader(nn.Module):
    """A recurrent network over the rows of a digit, or any sequence, with an output at the end."""

    def __init__(self, kind: type[nn.Module] = nn.GRU, features: int = 8, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.recurrent = kind(features, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        outputs, _ = self.recurrent(rows)
        return self.head(outputs[:, -1])


def convnet(channels: int = 16, classes: int = 10, *, norm: bool = False) -> nn.Sequential:
    """Returns a network of two convolutions for pictures (N, 1, 8, 8)."""

    def block(entering: int, leaving: int) -> list[nn.Module]:
        layers: list[nn.Module] = [nn.Conv2d(entering, leaving, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        return [layers[0], nn.BatchNorm2d(leaving), *layers[1:]] if norm else layers

    return nn.Sequential(
        *block(1, channels), *block(channels, 2 * channels), nn.Flatten(), nn.Linear(8 * channels, classes)
    )


def warmup_cosine(optimizer: torch.optim.Optimizer, warmup: int, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """Returns a schedule that rises for ``warmup`` steps and falls to 0 as a cosine."""

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (steps - warmup))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@cache
def _greys() -> list[np.ndarray]:
    return [picture.mean(2) for picture in sets.load_sample_images().images]


@cache
def _tokens() -> tuple[np.ndarray, np.ndarray]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    codes, tags = [], []
    for file in ("shutil.py", "heapq.py", "random.py", "tempfile.py", "queue.py"):
        text = (folder / file).read_text(encoding="utf-8").encode("ascii", "replace").decode()
        lines = text.splitlines(keepends=True)
        starts = np.cumsum([0, *map(len, lines)])
        kinds = np.zeros(len(text), np.int64)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = {tokenize.NAME: 1, tokenize.NUMBER: 3, tokenize.STRING: 4, tokenize.COMMENT: 5}.get(token.type, 0)
            if kind == 1 and keyword.iskeyword(token.string):
                kind = 2
            begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
            kinds[begin:end] = kind
        values = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
        codes.append(np.where((values >= 32) & (values < 127), values - 32, 96))
        tags.append(kinds)
    return np.concatenate(codes), np.concatenate(tags)
