"""Sound trainings from ranks, counts, several labels, doubtful labels, and few of them."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted


@healthy(at_least=0.93)
def digits_near_their_kind_by_contrast(watch: Watch, *, seed: int) -> float:
    """A supervised contrastive loss: all digits of a batch that are alike attract each other.

    Quality: how often a held-out digit is nearest to the centre of its kind.
    """
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(128, 200):
        codes = functional.normalize(model(pixels), dim=1)
        itself = torch.eye(len(codes), dtype=torch.bool)
        logs = (codes @ codes.T / 0.2).masked_fill(itself, -1e9).log_softmax(1)
        alike = ((labels[:, None] == labels) & ~itself).float()
        loss = -((logs * alike).sum(1) / alike.sum(1).clamp(min=1)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    known, asked = (functional.normalize(predicted(model, part), dim=1) for part in (data.inputs, data.test_inputs))
    centres = torch.stack([known[data.targets == digit].mean(0) for digit in range(10)])
    return ((asked @ centres.T).argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.55)
def counts_of_a_letter_under_a_poisson_law(watch: Watch, *, seed: int) -> float:
    """How many letters e are in three lines, from the other counts? The likelihood may lie below zero."""
    train, test = samples.lines(seed)
    letter = ord("e") - 32
    parts = []
    for part in (train, test):
        counts = part.tensors[0].clone()
        wanted = counts[:, letter].clone()
        counts[:, letter] = 0
        parts += [counts.log1p(), wanted[:, None]]
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 1))
    nn.init.constant_(model[-1].bias, parts[1].mean().log().item())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    fit(watch, model, optimizer, datasets.Data(*parts), steps=200, loss_function=nn.PoissonNLLLoss(log_input=True))
    return samples.explained(predicted(model, parts[2]).exp(), parts[3])


STROKES = torch.tensor([[3, 8, 0, 6, 9], [2, 3, 5, 7, 7], [0, 2, 4, 6, 8], [0, 1, 2, 3, 4]])
"""Digits that are round, prime, even and small."""


@healthy(at_least=0.9)
def four_traits_of_a_digit(watch: Watch, *, seed: int) -> float:
    """Round, prime, even, small: several labels at once, each with its own sigmoid."""
    data = datasets.digits(seed, images=True)
    traits = torch.zeros(10, 4)
    for column, digits in enumerate(STROKES):
        traits[digits, column] = 1.0
    data = datasets.Data(data.inputs, traits[data.targets], data.test_inputs, traits[data.test_targets])
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=160, loss_function=nn.BCEWithLogitsLoss())
    return ((predicted(model, data.test_inputs) > 0) == (data.test_targets > 0)).float().mean().item()


@healthy(at_least=0.5)
def three_quantiles_of_proline_at_once(watch: Watch, *, seed: int) -> float:
    """The pinball loss of a tenth, a half and nine tenths. Quality: how often the outer two hold the truth."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    levels = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Linear(12, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for _ in range(25):
        for features, amount in DataLoader(train, batch_size=31, shuffle=True):
            guesses = model(features)
            over = amount - guesses
            loss = torch.maximum(levels * over, (levels - 1) * over).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features, outputs=guesses, targets=amount)
            optimizer.step()
    low, _, high = predicted(model, test.tensors[0]).unbind(1)
    return ((test.tensors[1][:, 0] > low) & (test.tensors[1][:, 0] < high)).float().mean().item()


@healthy(at_least=0.85)
def easy_digits_first_and_all_of_them_shuffled(watch: Watch, *, seed: int) -> float:
    """A curriculum: with each epoch more rows take part, from clear ones to unclear ones, always shuffled."""
    data = datasets.digits(seed)
    centres = torch.stack([data.inputs[data.targets == digit].mean(0) for digit in range(10)])
    order = (data.inputs - centres[data.targets]).square().sum(1).argsort()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for epoch in range(12):
        rows = order[: int(len(order) * min(1.0, 0.3 + 0.1 * epoch))]
        for pixels, labels in DataLoader(TensorDataset(data.inputs[rows], data.targets[rows]), 64, shuffle=True):
            logits = model(pixels)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def wrong_labels_under_a_bounded_loss(watch: Watch, *, seed: int) -> float:
    """A fifth of the labels is wrong, and a generalised cross-entropy does not chase them; it ends where it must."""
    data = datasets.digits(seed)
    wrong = torch.rand(len(data.targets)) < 0.2
    labels = torch.where(wrong, torch.randint(10, data.targets.shape), data.targets)

    def bounded(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return ((1 - logits.softmax(1).gather(1, targets[:, None]).clamp(min=1e-6) ** 0.7) / 0.7).mean()

    data = datasets.Data(data.inputs, labels, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=250, loss_function=bounded)
    return accuracy(model, data)
