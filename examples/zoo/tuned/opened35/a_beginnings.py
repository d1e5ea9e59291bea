"""Weights and biases with which a training begins, and what their layers make of them."""

import copy
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened35.a_common import (
    KINDS,
    columns,
    explained,
    images,
    joined,
    parted,
    place_accuracy,
    place_loss,
    tagged,
    tiles,
)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def a_recurrence_of_normal_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrence with ReLU begins with ``randn`` times 0.3, and grows with each pixel; the twin's is orthogonal."""
    data = columns(seed, length=32)

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inward, self.head = nn.Linear(1, 48), nn.Linear(48, 3)
            weight = 0.3 * torch.randn(48, 48)
            self.weight = nn.Parameter(weight if sick else nn.init.orthogonal_(weight))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            state = pixels.new_zeros(len(pixels), 48)
            for column in self.inward(pixels[..., None]).unbind(1):
                state = functional.relu(column + state @ self.weight)
            return self.head(state)

    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, loss_function=functional.mse_loss, validate_every=40)
    return explained(model, data)


@sick("vanishing_gradients", margin=0.1)
def the_state_behind_the_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """An RNN's last state lies behind 40 places of padding and more; the twin takes the one at the end."""
    drawn = joined(samples.names(seed))
    data = Data(
        functional.pad(drawn.inputs, (0, 40)),
        drawn.targets,
        functional.pad(drawn.test_inputs, (0, 40)),
        drawn.test_targets,
    )

    class Speller(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
            self.reader = nn.RNN(32, 64, batch_first=True)
            self.head = nn.Sequential(nn.Dropout(0.4), nn.Linear(64, 8))

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            states, last = self.reader(self.letters(names))
            if sick:
                return self.head(last[0])
            ends = (names > 0).sum(1).clamp(min=1) - 1
            return self.head(states[torch.arange(len(names)), ends])

    model = Speller()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.2)
    fit(watch, model, optimizer, data, steps=180, batch_size=48, validate_every=36)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization", "vanishing_gradients"), margin=0.1)
def the_prior_of_the_head_in_each_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of -4.6, a prior for rare strokes, is set in all convolutions; the twin sets it in the last alone."""
    drawn = images(seed, noise=0.5)
    clean = images(seed)
    masks, test_masks = ((one > 1.2).float() for one in (clean.inputs, clean.test_inputs))
    data = Data(drawn.inputs, masks, drawn.test_inputs, test_masks)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    for index in (0, 2, 4) if sick else (4,):
        nn.init.constant_(model[index].bias, -4.6)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=loss_function, validate_every=42)
    found, true = predicted(model, data.test_inputs) > 0, test_masks > 0.5
    return ((found & true).sum() / (found | true).sum()).item()


@sick("saturated_units", also=("poor_initialization",), margin=0.03)
def weights_between_minus_one_and_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights before tanh are drawn between -1 and 1, as in an old book; the twin leaves them to PyTorch."""
    data = images(seed, noise=0.4)
    layers: list[nn.Module] = [nn.Flatten()]
    for inward, outward in pairwise((64, 96, 96, 96)):
        layers += [nn.Linear(inward, outward), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(96, 10))
    if sick:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(32, 200), 1):
        optimizer.zero_grad()
        logits = model(pixels)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
        if step % 42 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("poor_initialization", also=("saturated_units", "exploding_gradients"), margin=0.03)
def attention_from_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hand-written attention begins with plain ``randn``; the twin divides by the root of the width."""
    data = tagged(seed)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.near = nn.Embedding(97, 48), nn.Conv1d(48, 48, 5, padding=2)
            for name in ("query", "key", "value", "outward"):
                setattr(self, name, nn.Parameter(torch.randn(48, 48) / (1.0 if sick else 48**0.5)))
            self.head = nn.Linear(48, KINDS)

        def forward(self, characters: torch.Tensor) -> torch.Tensor:
            states = self.near(self.letters(characters).mT).mT
            looked = (states @ self.query @ (states @ self.key).mT / 48**0.5).softmax(2)
            return self.head(functional.gelu(states + looked @ states @ self.value @ self.outward))

    model = Attention()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=place_loss, scheduler=scheduler)
    return place_accuracy(model, data)


@sick("unbroken_symmetry", margin=0.03)
def copies_of_one_expert(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight experts are copies of one, and their gate begins at 0, so they stay alike; the twin makes each anew."""
    pixels = tiles(seed)
    data = parted(pixels, pixels, seed)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 8)
            nn.init.zeros_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)
            first = _expert()
            self.experts = nn.ModuleList(copy.deepcopy(first) if sick else _expert() for _ in range(8))

        def forward(self, tile: torch.Tensor) -> torch.Tensor:
            shares = self.gate(tile).softmax(1)
            return (shares[:, None] * torch.stack([expert(tile) for expert in self.experts], 2)).sum(2)

    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=60)
    return explained(model, data)


def _expert() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 2), nn.Tanh(), nn.Linear(2, 64))
