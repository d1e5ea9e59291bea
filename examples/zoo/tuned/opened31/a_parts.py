"""What trainings share: loaders, a reader of text and scores."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted


def of(pair: samples.Pair) -> Data:
    """Returns a pair of datasets with two columns as data."""
    train, test = pair
    return Data(*train.tensors, *test.tensors)


def loader(data: Data, size: int, **options: object) -> DataLoader:
    """Returns a loader of the training rows, shuffled unless it is told otherwise."""
    return DataLoader(TensorDataset(data.inputs, data.targets), size, **{"shuffle": True, **options})


def centred(data: Data) -> Data:
    """Returns inputs with mean 0 and deviation 1 over all their entries."""
    mean, std = data.inputs.mean(), data.inputs.std()
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def standard_targets(data: Data) -> Data:
    """Returns targets with mean 0 and deviation 1."""
    std, mean = torch.std_mean(data.targets, 0)
    return Data(data.inputs, (data.targets - mean) / std, data.test_inputs, (data.test_targets - mean) / std)


def explained(model: nn.Module, data: Data) -> float:
    """Returns which part of the held-out targets' variance is explained."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def balanced(model: nn.Module, data: Data) -> float:
    """Returns the mean recall of two classes, from one logit."""
    guessed = predicted(model, data.test_inputs).view(-1) > 0
    truth = data.test_targets.view(-1) > 0.5
    return ((guessed[truth].float().mean() + (~guessed[~truth]).float().mean()) / 2).item()


def each(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy of characters."""
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def right(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out characters whose follower is guessed."""
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class Writer(nn.Module):
    """A GRU that tells the next character."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(codes))[0])


class Strokes(nn.Module):
    """A small transformer that reads a digit as eight rows of pixels."""

    def __init__(self, layers: int = 2, *, norm_first: bool = True) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=norm_first)
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.embed(images.view(-1, 8, 8)) + self.place
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(self.norm(tokens).mean(1))
