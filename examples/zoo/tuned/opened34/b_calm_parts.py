"""Sound trainings that look odd: parts that stay, wait or are shared."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened34.b_common import (
    Speller,
    explained,
    masker,
    overlap,
    parted,
    scripts,
    squares,
    strips,
    strokes,
)


class Adapted(nn.Module):
    """A frozen layer, and beside it a product of two thin matrices, of which the outer one begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.inner = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.outer = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the sum of both ways."""
        return self.layer(inputs) + inputs @ self.inner.T @ self.outer.T


@healthy(at_least=0.75)
def thin_matrices_turn_a_forecast_around(watch: Watch, *, seed: int) -> float:
    """LoRA adapts a forecast to rows that run backwards; one of its factors has no gradient at first."""
    data = strips(seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for rows, following in data.batches(64, 200):
        optimizer.zero_grad()
        functional.mse_loss(model(rows), following).backward()
        optimizer.step()
    model = nn.Sequential(*(Adapted(layer) if isinstance(layer, nn.Linear) else layer for layer in model))
    turned = Data(data.inputs.flip(1), data.targets, data.test_inputs.flip(1), data.test_targets)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=2e-3)
    fit(watch, model, optimizer, turned, steps=300, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, turned)


@healthy(at_least=0.8)
def six_experts_of_which_one_answers(watch: Watch, *, seed: int) -> float:
    """A gate sends each row to one expert, and some are hardly asked."""
    data = strips(seed)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(16, 6)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4)) for _ in range(6)
            )

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            weight, chosen = self.gate(rows).softmax(1).max(1)
            outputs = rows.new_zeros(len(rows), 4)
            for index, expert in enumerate(self.experts):
                mine = chosen == index
                if mine.any():
                    outputs = outputs.index_put((mine.nonzero()[:, 0],), weight[mine, None] * expert(rows[mine]))
            return outputs

    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=350, loss_function=functional.mse_loss)
    return explained(model, data)


@healthy(at_least=0.6)
def a_denoiser_frozen_below_a_new_head(watch: Watch, *, seed: int) -> float:
    """Layers that were trained to remove noise stay as they are, and a new layer finds the strokes."""
    data = strokes(seed)
    body = masker(24)
    optimizer = torch.optim.Adam(body.parameters(), lr=3e-3)
    for pictures, _ in data.batches(48, 150):
        optimizer.zero_grad()
        functional.mse_loss(body(pictures + 0.5 * torch.randn_like(pictures)), pictures).backward()
        optimizer.step()
    model = nn.Sequential(*body[:4].requires_grad_(False), nn.Conv2d(24, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model[4].parameters(), lr=3e-3)
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=loss_function, validate_every=40)
    return overlap(model, data)


@healthy(at_least=0.38)
def letters_that_are_read_and_written(watch: Watch, *, seed: int) -> float:
    """One matrix embeds characters and puts out their logits."""
    data = datasets.text(seed, length=20, count=1200)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(CHARACTERS, 48)
            nn.init.normal_(self.letters.weight, std=48**-0.5)
            self.reader, self.norm = nn.GRU(48, 48, batch_first=True), nn.LayerNorm(48)

        def forward(self, characters: torch.Tensor) -> torch.Tensor:
            return self.norm(self.reader(self.letters(characters))[0]) @ self.letters.weight.T

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=220, batch_size=32, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.6)
def names_of_very_different_lengths(watch: Watch, *, seed: int) -> float:
    """Half of the places are padding, whose embedding stays 0 and has no gradient."""
    data = scripts(seed)
    model = Speller()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=240, batch_size=48, validate_every=40)
    return accuracy(model, data)


@healthy(at_least=0.75)
def a_teacher_that_is_the_mean_of_its_pupil(watch: Watch, *, seed: int) -> float:
    """A network matches what its own average says of another view, and nothing else is predicted but a few pixels."""
    patches = squares(seed).flatten(1)
    data = parted(patches, patches[:, ::4].contiguous(), seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16))
    teacher = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for pixels, targets in data.batches(64, 300):
        outputs = model(pixels + 0.2 * torch.randn_like(pixels))
        with torch.no_grad():
            wanted = teacher(pixels)
        loss = functional.mse_loss(outputs, targets) + 0.3 * functional.mse_loss(outputs, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=targets)
        optimizer.step()
        for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.05)
    return explained(teacher, data)
