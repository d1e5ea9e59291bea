"""The weights with which a network begins."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import breast_cancer
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened5.material import (
    ALPHABET,
    VOWELS,
    Factors,
    correct,
    dense,
    explained,
    pixels,
    turned,
    words,
)


@sick("saturated_units", also=("poor_initialization",))
def recurrence_with_a_gain_of_twelve(watch: Watch, *, seed: int, sick: bool) -> float:
    """Orthogonal weights with a gain of 1.2; the point was lost."""

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(ALPHABET, 12)
            self.cell = nn.RNN(12, 40, batch_first=True)
            nn.init.orthogonal_(self.cell.weight_hh_l0, 12.0 if sick else 1.2)
            self.out = nn.Linear(40, VOWELS)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.out(self.cell(self.letters(codes))[0][:, -1])

    data, model = words(seed, length=10), Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=40)
    return accuracy(model, data)


@sick("poor_initialization")
def uniform_from_zero_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.rand`` for weights: all positive and large, so that the first loss is in the thousands."""
    data = breast_cancer(seed)
    model = dense(30, 64, 64, 64, 2)
    for layer in model[::2]:
        with torch.no_grad():
            if sick:
                layer.weight.copy_(torch.rand_like(layer.weight))
            else:
                layer.weight.copy_((torch.rand_like(layer.weight) - 0.5) * (24 / layer.in_features) ** 0.5)
            layer.bias.zero_()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("poor_initialization")
def head_multiplied_by_the_width(watch: Watch, *, seed: int, sick: bool) -> float:
    """A rule for wide networks divides the head's first weights by its width; here it multiplies."""
    data = words(seed)
    model = nn.Sequential(nn.Embedding(ALPHABET, 16), nn.Flatten(), *dense(256, 96, 96, VOWELS, act=nn.GELU))
    with torch.no_grad():
        if sick:
            model[-1].weight.mul_(96)
        else:
            model[-1].weight.div_(96)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for codes, kinds in data.batches(40, 160):
        optimizer.zero_grad()
        logits = model(codes)
        loss = F.cross_entropy(logits, kinds)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


@sick("unbroken_symmetry")
def factors_that_all_begin_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight factors for each page and place, and all tables start at a constant: they stay one factor, eight times."""
    data = pixels(seed)
    model = Factors(8)
    if sick:
        for table in (model.pages, model.places):
            nn.init.constant_(table.weight, 0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for pairs, ink in data.batches(256, 300):
        guess = model(pairs)
        loss = F.mse_loss(guess, ink)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pairs, outputs=guess, targets=ink)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("unbroken_symmetry")
def averaging_filters_everywhere(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every filter of both layers starts as the mean of what it sees, 'to begin with a blur'."""
    data = turned(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.Tanh(), nn.Conv2d(16, 24, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(96, 4),
    )  # fmt: skip
    if sick:
        for layer in (model[0], model[2], model[6]):
            nn.init.constant_(layer.weight, 1 / layer.weight[0].numel())
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=240, batch_size=40)
    return correct(predicted(model, data.test_inputs), data.test_targets)
