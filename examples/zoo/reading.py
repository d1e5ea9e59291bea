"""Models and losses that several cases share."""

import torch
from torch import nn
from torch.nn import functional


def over_characters(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy over all characters of all lines."""
    return functional.cross_entropy(logits.flatten(0, 1), codes.flatten())


class Sight(nn.Module):
    """A small vision transformer for eight by eight pixels, with patches of two by two."""

    def __init__(self, *, blocks: int, norm_first: bool, width: int = 32) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, width, 2, 2)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 17, width))
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.blocks = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = self.patch(images).flatten(2).transpose(1, 2)
        values = torch.cat([self.token.expand(len(images), -1, -1), patches], 1) + self.position
        return self.head(self.blocks(values)[:, 0])
