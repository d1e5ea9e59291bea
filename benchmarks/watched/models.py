"""Models that the benchmarks train: a transformer of any size, ResNet-50, and a network of many small tensors."""

from collections.abc import Sequence

import torch
from torch import nn

VOCABULARY, WIDTH, BLOCKS, BATCH, LENGTH = 1000, 256, 4, 8, 64
"""The transformer's sizes by default, and the batch that it gets."""


class Transformer(nn.Module):
    """By default four blocks of width 256: 3.67 million parameters in 53 tensors. Without dropout."""

    def __init__(self, vocabulary: int = VOCABULARY, width: int = WIDTH, blocks: int = BLOCKS, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, blocks, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns logits (batch, length, vocabulary) for tokens (batch, length)."""
        logits: torch.Tensor = self.head(self.blocks(self.embedding(tokens)))
        return logits


class Bottleneck(nn.Module):
    """A residual block: 1x1, 3x3 and 1x1 convolutions, the last one four times as wide (He et al., 2015)."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != 4 * width:
            convolution = nn.Conv2d(channels, 4 * width, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(4 * width))
        self.activation = nn.ReLU()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns maps of ``4 * width`` channels for maps (batch, channels, height, width)."""
        outputs: torch.Tensor = self.activation(self.convolutions(images) + self.shortcut(images))
        return outputs


class ResNet(nn.Module):
    """By default ResNet-50 for 1000 classes: 25.56 million parameters in 161 tensors."""

    def __init__(self, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        stages, channels = [], width
        for depth, count in enumerate(blocks):
            for index in range(count):
                stages.append(Bottleneck(channels, width << depth, stride=2 if depth and index == 0 else 1))
                channels = 4 * (width << depth)
        self.blocks = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns logits (batch, classes) for images (batch, 3, height, width)."""
        logits: torch.Tensor = self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))
        return logits


class ManyTensors(nn.Module):
    """A residual chain of square linear layers: two tensors each, 1,000 layers of width 16 by default."""

    def __init__(self, layers: int = 1000, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns logits (batch, width) for values (batch, width)."""
        for layer in self.layers:
            values = values + layer(values) / len(self.layers)
        return values
