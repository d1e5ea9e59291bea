"""What the trainings share: loaders, scores and small networks."""

from collections.abc import Iterator

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


def loader(data: Data, size: int) -> DataLoader:
    """Returns a loader of the training rows, shuffled anew in each epoch."""
    return DataLoader(TensorDataset(data.inputs, data.targets), size, shuffle=True, drop_last=True)


def forever(data: Data, size: int, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields shuffled batches of equal size, for a number of steps."""
    batches = loader(data, size)
    while True:
        for batch in batches:
            if steps == 0:
                return
            steps -= 1
            yield batch


def centred(data: Data) -> Data:
    """Returns inputs with mean 0 and deviation 1 over all their entries."""
    mean, std = data.inputs.mean(), data.inputs.std()
    return Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)


def explained(model: nn.Module, data: Data) -> float:
    """Returns which part of the held-out targets' variance is explained."""
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


def of_characters(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy of characters."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def right(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out characters whose follower is guessed."""
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


def masks(seed: int, *, level: float = 0.5, noise: float = 0.5) -> Data:
    """Digits (N, 1, 8, 8) below noise, centred, and which of their pixels (N, 1, 8, 8) are above a level."""
    data = datasets.digits(seed, images=True)
    random = torch.Generator().manual_seed(seed)

    def noisy(images: torch.Tensor) -> torch.Tensor:
        return images + noise * torch.randn(images.shape, generator=random)

    wanted, test_wanted = (data.inputs > level).float(), (data.test_inputs > level).float()
    return centred(Data(noisy(data.inputs), wanted, noisy(data.test_inputs), test_wanted))


def segmenter(width: int = 16) -> nn.Sequential:
    """Returns three convolutions that put out a logit for each pixel."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 1, 3, padding=1),
    )


class Speller(nn.Module):
    """An LSTM or GRU that tells the next character."""

    def __init__(self, width: int = 48, kind: type[nn.RNNBase] = nn.LSTM, **options: object) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, width)
        self.rnn = kind(width, width, **{"batch_first": True, **options})
        self.head = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(codes))[0])
