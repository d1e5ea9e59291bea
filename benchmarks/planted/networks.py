"""Three networks with spots where faults are planted, which also do what is no fault.

They mask with -inf, take the log of 0 and drop it, pad with -inf, and drop out.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Change = Callable[[Tensor], Tensor]


class Decoys(nn.Module):
    """Makes infinities that reach nothing."""

    def forward(self, values: Tensor) -> Tensor:
        kept = torch.where(values > 0, values.detach().clamp(min=0).log(), values.detach())
        masked = values.masked_fill(values < 0, -torch.inf).flatten(1)
        masked = torch.cat([masked, values.new_zeros(len(values), 1)], 1).softmax(1).sum(1)
        return values + 0 * torch.nan_to_num(kept) + 0 * masked.reshape(-1, *[1] * (values.ndim - 1))


class Spot(nn.Module):
    """Applies a function to the third datapoint, and leaves the others as they are."""

    def __init__(self, function: Change | None = None) -> None:
        super().__init__()
        self.function = function

    def forward(self, values: Tensor) -> Tensor:
        if self.function is None:
            return values
        return torch.cat([values[:2], self.function(values[2:3]), values[3:]])


class Images(nn.Module):
    """A convolutional network for images (n, 1, 8, 8)."""

    def __init__(self, spot: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), Decoys(), nn.MaxPool2d(2, padding=1), spot
        )
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(4 * 25, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.drop(self.blocks(images)).flatten(1))


class Attention(nn.Module):
    """Causal self-attention; ``mask_all`` masks the third datapoint completely."""

    def __init__(self, width: int, mask_all: bool) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.mask_all = mask_all
        self.gain = 1.0

    def forward(self, values: Tensor) -> Tensor:
        queries, keys, contents = self.project(values).chunk(3, -1)
        scores = (self.gain * queries) @ keys.transpose(1, 2) / 4
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(causal, -torch.inf)
        if self.mask_all:
            scores = scores.index_fill(0, torch.tensor([2]), -torch.inf)
        return scores.softmax(-1) @ contents


class Block(nn.Module):
    """Two kinds of attention, a norm and a spot."""

    def __init__(self, width: int, spot: nn.Module, mask_all: bool) -> None:
        super().__init__()
        self.attention = Attention(width, mask_all)
        self.builtin = nn.MultiheadAttention(width, 2, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(width)
        self.spot = spot

    def forward(self, values: Tensor) -> Tensor:
        values = values + self.attention(values)
        values = values + self.builtin(values, values, values, need_weights=False)[0]
        return self.spot(self.norm(values))


class Tokens(nn.Module):
    """A transformer for tokens (n, length)."""

    def __init__(self, spot: nn.Module, *, mask_all: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        self.decoys = Decoys()
        self.blocks = nn.ModuleList([Block(16, Spot(), False), Block(16, spot, mask_all)])
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        values = self.decoys(self.embedding(tokens))
        for block in self.blocks:
            values = block(values)
        return self.head(values).mean(1)


class Cell(nn.Module):
    """A recurrent cell; a function changes the state in the third of five steps."""

    def __init__(self, function: Change | None) -> None:
        super().__init__()
        self.mix = nn.Linear(12, 8)
        self.function = function
        self.step = 0

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        self.step += 1
        state = torch.tanh(self.mix(torch.cat([values, state], 1)))
        return state if self.function is None or self.step % 5 != 3 else self.function(state)


class Steps(nn.Module):
    """A recurrent network for sequences (n, 5, 4)."""

    def __init__(self, function: Change | None = None, spot: nn.Module | None = None) -> None:
        super().__init__()
        self.decoys = Decoys()
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.cell = Cell(function)
        self.spot = spot or Spot()
        self.head = nn.Linear(8, 5)

    def forward(self, sequences: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):  # there is no float16 kernel for every CPU
            values, _ = self.lstm(self.decoys(sequences))
        state = values.new_zeros(len(values), 8)
        self.cell.step = 0
        for column in values.unbind(1):
            state = self.cell(column, state)
        return self.head(self.spot(state))


class BadSlope(torch.autograd.Function):
    """The magnitude, with a backward pass that divides by 0."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values.abs()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        return gradient * values / (values - values)
