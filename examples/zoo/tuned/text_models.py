"""What the trainings on characters share: loops, and networks."""

from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Session

SCRIPTS, FILES = len(samples.SCRIPTS), len(samples.FILES)


def endless(loader: DataLoader, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields that many batches, epoch after epoch."""
    while True:
        for batch in loader:
            if steps == 0:
                return
            steps -= 1
            yield batch


@torch.inference_mode()
def evaluate(model: nn.Module, test: TensorDataset) -> float:
    """Returns the accuracy, and leaves the model as it was."""
    training = model.training
    model.eval()
    logits = model(test.tensors[0])
    model.train(training)
    return samples.accuracy(logits, test.tensors[1])


def train_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    session: Session,
    criterion: Callable[..., torch.Tensor] = functional.cross_entropy,
) -> None:
    """Trains once through the data, telling the loss alone."""
    for codes, labels in loader:
        loss = criterion(model(codes), labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()


class Speller(nn.Module):
    """Reads a name letter by letter, with padding."""

    def __init__(self, width: int = 24, *, batch_first: bool = True, gain: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, width, padding_idx=0)
        cell = nn.RNN if gain else nn.GRU
        self.rnn = cell(width, 32, batch_first=batch_first)
        self.classify = nn.Linear(32, SCRIPTS)
        if gain:
            nn.init.orthogonal_(self.rnn.weight_hh_l0, gain)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.rnn(self.embed(codes))
        return self.classify(states.mean(1))


class Bag(nn.Module):
    """Shares of characters, a hidden layer, and a head."""

    def __init__(self, hidden: int = 40, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(96)
        self.hidden = nn.Linear(96, hidden)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, FILES)

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        return self.head(self.dropout(functional.relu(self.hidden(self.norm(counts.sqrt())))))
