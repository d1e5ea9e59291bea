"""Codes and representations of pictures, learnt without labels, as well-known repositories learn them."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data


def _another_view(pixels: torch.Tensor) -> torch.Tensor:
    return (pixels + 0.15 * torch.randn_like(pixels)) * (torch.rand_like(pixels) > 0.2)


def _encoder() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))


def _by_neighbours(encoder: nn.Module, data: Data) -> float:
    """The share of held-out digits whose nearest neighbour among the others is of their class."""
    with torch.no_grad():
        distances = torch.cdist(encoder(data.test_inputs), encoder(data.inputs))
    return (data.targets[distances.argmin(1)] == data.test_targets).float().mean().item()


class _Momentum(nn.Module):
    """MoCo: a second encoder follows the first one, and a queue holds what it has put out."""

    queue: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder_q = _encoder()
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(32, 512), dim=0))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = functional.normalize(self.encoder_q(queries), dim=1)
        with torch.no_grad():
            for ours, theirs in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
                theirs.data = theirs.data * 0.99 + ours.data * 0.01
            k = functional.normalize(self.encoder_k(keys), dim=1)
        positive = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        self.queue = torch.cat([self.queue[:, len(keys) :], k.T], 1)
        return torch.cat([positive, negative], dim=1) / 0.2, torch.zeros(len(keys), dtype=torch.long)


@healthy(at_least=0.9)
def momentum_contrast(watch: Watch, *, seed: int) -> float:
    """MoCo: the right key comes first, so that all labels are zero; the encoder of keys has no gradients."""
    data = datasets.digits(seed)
    model = _Momentum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.06, momentum=0.9, weight_decay=1e-4)
    session = watch(model, optimizer)
    criterion = nn.CrossEntropyLoss()
    for inputs, _ in data.batches(64, 240):
        outputs, labels = model(_another_view(inputs), _another_view(inputs))
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, outputs=outputs, targets=labels)
        optimizer.step()
    return _by_neighbours(model.encoder_q, data)


@healthy(at_least=0.9)
def positives_in_the_first_column(watch: Watch, *, seed: int) -> float:
    """SimCLR as it is mostly copied: similarities are sorted into one positive and the negatives, labels are zero."""
    data = datasets.digits(seed)
    encoder = _encoder()
    model = nn.Sequential(encoder, nn.ReLU(), nn.Linear(32, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(160):
        inputs = data.inputs[torch.randperm(len(data.inputs))[:64]]
        features = functional.normalize(model(torch.cat([_another_view(inputs), _another_view(inputs)])), dim=1)
        labels = torch.arange(64).repeat(2)
        others = ~torch.eye(128, dtype=torch.bool)
        is_same = (labels[None] == labels[:, None])[others].view(128, -1)
        similarity = (features @ features.T)[others].view(128, -1)
        positives, negatives = similarity[is_same].view(128, -1), similarity[~is_same].view(128, -1)
        outputs, targets = torch.cat([positives, negatives], 1) / 0.07, torch.zeros(128, dtype=torch.long)
        loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, outputs=outputs, targets=targets)
        optimizer.step()
    return _by_neighbours(encoder, data)


@healthy(at_least=0.85)
def distilled_from_its_own_mean(watch: Watch, *, seed: int) -> float:
    """DINO: ``sum(-q * log_softmax(...))``, a centre, and a teacher that is the student's moving average."""
    data = datasets.digits(seed)
    student = nn.Sequential(_encoder(), nn.Linear(32, 64, bias=False))
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3, weight_decay=0.04)
    session = watch(student, optimizer)
    centre = torch.zeros(1, 64)
    for inputs, _ in data.batches(64, 200):
        views = [_another_view(inputs) for _ in range(3)]
        guesses = [student(view) / 0.1 for view in views]
        with torch.no_grad():
            taught = [teacher(view) for view in views[:2]]
            aims = [functional.softmax((one - centre) / 0.04, dim=-1).detach() for one in taught]
        pairs = [(aim, guess) for i, aim in enumerate(aims) for j, guess in enumerate(guesses) if i != j]
        losses = [torch.sum(-aim * functional.log_softmax(guess, dim=-1), dim=-1).mean() for aim, guess in pairs]
        loss = sum(losses[1:], losses[0]) / len(losses)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs)
        optimizer.step()
        with torch.no_grad():
            centre = centre * 0.9 + torch.cat(taught).mean(0, keepdim=True) * 0.1
            for ours, theirs in zip(student.parameters(), teacher.parameters(), strict=True):
                theirs.mul_(0.99).add_(ours, alpha=0.01)
    return _by_neighbours(teacher[0], data)


class _Quantised(nn.Module):
    """A VQ-VAE: four vectors of a digit are replaced by their nearest ones in a book of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        self.book = nn.Embedding(64, 16)
        nn.init.normal_(self.book.weight, 0, 0.15)
        self.decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = self.encoder(pixels).view(-1, 16)
        squares = (codes**2).sum(1, keepdim=True) + (self.book.weight**2).sum(1)
        nearest = (squares - 2 * codes @ self.book.weight.t()).argmin(1)
        quantised = functional.one_hot(nearest, 64).float() @ self.book.weight
        loss = functional.mse_loss(quantised, codes.detach())
        loss = loss + 0.25 * functional.mse_loss(quantised.detach(), codes)
        return loss, self.decoder((codes + (quantised - codes).detach()).view(-1, 64))


@healthy(at_least=0.5)
def vectors_from_a_book(watch: Watch, *, seed: int) -> float:
    """A VQ-VAE whose reconstruction error is divided by the data's variance, as in the notebook that all copy."""
    data = datasets.digits(seed)
    model = _Quantised()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    variance = data.inputs.var()
    for inputs, _ in data.batches(128, 300):
        optimizer.zero_grad()
        of_codes, outputs = model(inputs)
        loss = functional.mse_loss(outputs, inputs) / variance + of_codes
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    with torch.no_grad():
        return 1 - (functional.mse_loss(model(data.test_inputs)[1], data.test_inputs) / variance).item()
