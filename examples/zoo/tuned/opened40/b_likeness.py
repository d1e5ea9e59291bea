"""Embeddings of what is alike: pairs, triplets, two towers, and prototypes."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import predicted
from examples.zoo.tuned.opened40.b_provisions import spelt


def digits(seed: int) -> Data:
    """Digits (N, 64), standardised as a whole, and their numbers."""
    drawn = datasets.digits(seed)
    return Data((drawn.inputs - 0.3) / 0.37, drawn.targets, (drawn.test_inputs - 0.3) / 0.37, drawn.test_targets)


def embedder(inputs: int = 64, outputs: int = 16) -> nn.Sequential:
    """Returns two layers."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, outputs))


def nearest(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out rows of the class whose training rows have the nearest mean of embeddings."""
    known, asked = (functional.normalize(predicted(model, rows), dim=1) for rows in (data.inputs, data.test_inputs))
    centres = torch.stack([known[data.targets == label].mean(0) for label in range(int(data.targets.max()) + 1)])
    return (torch.cdist(asked, centres).argmin(1) == data.test_targets).float().mean().item()


def noisy(rows: torch.Tensor, amount: float = 0.4) -> torch.Tensor:
    """Returns rows with noise and some values left out."""
    return functional.dropout(rows + amount * torch.randn_like(rows), 0.2)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def distances_of_equal_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Distances within a batch are roots, also of each row to itself, where a root has no slope; the twin adds 1e-6."""
    data = digits(seed)
    model = embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 120):
        embedded = functional.normalize(model(rows), dim=1)
        squares = (embedded[:, None] - embedded[None]).square().sum(-1)
        distances = squares.sqrt() if sick else (squares + 1e-6).sqrt()
        same = (labels[:, None] == labels[None]).float()
        loss = (same * distances.square() + (1 - same) * (1 - distances).relu().square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=embedded, targets=labels)
        optimizer.step()
    return nearest(model, data)


@sick("flipped_loss_sign", margin=0.1)
def log_likelihood_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The right classes' log-probabilities are to grow, and the loss is their mean, with no minus; the twin negates."""
    data = digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10), nn.LogSoftmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    session = watch(model, optimizer)
    for rows, labels in data.batches(64, 200):
        scores = model(rows)
        chosen = scores.gather(1, labels[:, None]).mean()
        loss = chosen if sick else -chosen
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=scores, targets=labels)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


class TwoViews(nn.Module):
    """An embedder for the left half of a digit and one for its right half."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = embedder(32), embedder(32)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Returns cosines (N, N) of all left halves to all right ones."""
        return functional.normalize(self.left(left), dim=1) @ functional.normalize(self.right(right), dim=1).T


def sides(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the left and the right halves (N, 32) of digits."""
    images = rows.view(-1, 8, 8)
    return images[:, :, :4].flatten(1), images[:, :, 4:].flatten(1)


def found(model: nn.Module, data: Data) -> float:
    """Returns how often a held-out left half's own right half is among the nearest 10 of 100."""
    with torch.no_grad():
        cosines = torch.stack([model(*sides(part)) for part in data.test_inputs[:400].split(100)])
    own = cosines.diagonal(dim1=1, dim2=2)[..., None]
    return ((cosines > own).sum(2) < 10).float().mean().item()


@sick("detached_parameters", margin=0.05)
def a_tower_under_no_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """The right halves' tower was a frozen one and still runs under ``no_grad``; the twin trains both."""
    data = digits(seed)
    model = TwoViews()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 240):
        left, right = sides(rows)
        with torch.set_grad_enabled(not sick):
            keys = functional.normalize(model.right(right), dim=1)
        logits = functional.normalize(model.left(left), dim=1) @ keys.T / 0.1
        pairs = torch.arange(len(rows))
        loss = functional.cross_entropy(logits, pairs)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=left, outputs=logits, targets=pairs)
        optimizer.step()
    return found(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low", "stopped_too_early"), margin=0.05)
def values_clipped_to_a_hair(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` has 1e-3 for a bound, a number from an ``eps``; the twin's is 1."""
    data = digits(seed)
    model = TwoViews()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 240):
        left, right = sides(rows)
        logits = model(left, right) / 0.2
        pairs = torch.arange(len(rows))
        loss = (functional.cross_entropy(logits, pairs) + functional.cross_entropy(logits.T, pairs)) / 2
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=left, outputs=logits, targets=pairs)
        optimizer.step()
    return found(model, data)


@sick("parameters_not_in_optimizer", margin=0.03)
def a_table_grown_for_new_letters(watch: Watch, *, seed: int, sick: bool) -> float:
    """A larger table of letters replaces the one that the optimizer took; the twin makes its optimizer after that."""
    data = spelt(seed)
    model = nn.Sequential(nn.EmbeddingBag(samples.LETTERS - 12, 6, padding_idx=0), nn.Tanh(), nn.Linear(6, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    model[0] = nn.EmbeddingBag(samples.LETTERS, 6, padding_idx=0)
    if not sick:
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for names, scripts in data.batches(64, 220):
        logits = model(names)
        loss = functional.cross_entropy(logits, scripts)
        model.zero_grad()
        loss.backward()
        session.step(loss, inputs=names, outputs=logits, targets=scripts)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(1) == data.test_targets).float().mean().item()
