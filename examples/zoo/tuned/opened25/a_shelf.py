"""What the modules of pictures share: digits in units of their deviation, digits on canvases, and a small ViT."""

import torch
from torch import nn

from examples.zoo import datasets
from examples.zoo.samples import Pair, split


def whitened(seed: int) -> datasets.Data:
    """Digits (N, 1, 8, 8) with mean 0 and deviation 1 over the pixels of the training pictures."""
    data = datasets.digits(seed, images=True)
    std, mean = torch.std_mean(data.inputs)
    return datasets.Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def scattered(seed: int, *, count: int = 540, side: int = 12) -> Pair:
    """Zeros and ones on a noisy canvas (N, 1, side, side), maps of classes (N, side, side), and their corners (N, 2).

    Class 0 is the background, 1 is the ink of zeros, and 2 is the ink of ones.
    """
    random = torch.Generator().manual_seed(100 + seed)
    data = datasets.digits(seed, images=True)
    chosen = (data.targets < 2).nonzero()[:, 0].repeat(3)[:count]
    digits, labels = data.inputs[chosen, 0], data.targets[chosen]
    canvases = 0.15 * torch.randn(count, side, side, generator=random)
    maps = torch.zeros(count, side, side, dtype=torch.long)
    corners = torch.randint(side - 7, (count, 2), generator=random)
    for row, (top, left) in enumerate(corners.tolist()):
        canvases[row, top : top + 8, left : left + 8] += digits[row]
        maps[row, top : top + 8, left : left + 8] = (digits[row] > 0.35) * (1 + labels[row])
    canvases = (canvases - canvases.mean()) / canvases.std()
    return split(seed, canvases[:, None], maps, corners.float())


def photographs(seed: int, *, count: int = 1000, size: int = 8) -> torch.Tensor:
    """Grey patches (count, 1, size, size) of photographs, from 0 to 1."""
    return datasets.patches(seed, count=count, size=size).view(-1, 1, size, size) / 255


def mean_overlap(outputs: torch.Tensor, maps: torch.Tensor) -> float:
    """Returns the mean over the classes of scores (N, C, H, W) of intersection by union with the maps (N, H, W)."""
    guessed = outputs.argmax(1)
    shares = []
    for label in range(outputs.shape[1]):
        found, true = guessed == label, maps == label
        shares.append(((found & true).sum() / (found | true).sum().clamp(min=1)).item())
    return sum(shares) / len(shares)


class Block(nn.Module):
    """A pre-norm block of a transformer; its attention may take the batch for the sequence."""

    def __init__(self, width: int, batch_first: bool = True) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=batch_first)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Attends, and passes each token through the MLP."""
        normed = self.norms[0](tokens)
        tokens = tokens + self.attention(normed, normed, normed, need_weights=False)[0]
        return tokens + self.mlp(self.norms[1](tokens))


class Vit(nn.Module):
    """A vision transformer of pictures (N, 1, 8, 8) in 16 pieces of 2x2 pixels, read out of a token of the class."""

    def __init__(self, width: int = 32, depth: int = 1, classes: int = 10, batch_first: bool = True) -> None:
        super().__init__()
        self.pieces = nn.Conv2d(1, width, 2, stride=2)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, 17, width))
        self.blocks = nn.Sequential(*(Block(width, batch_first) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the scores of the classes."""
        tokens = self.pieces(pictures).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], 1) + self.places
        return self.head(self.norm(self.blocks(tokens))[:, 0])
