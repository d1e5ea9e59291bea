"""Rates, depths, and how units begin."""

import itertools
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened53.k_shared import Spelling, from_pair


@sick("learning_rate_too_high", margin=0.1)
def adam_inherits_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD was replaced with Adam and its rate of 0.2 was left; the twin has 0.004."""
    data = from_pair(samples.names(seed))
    model = nn.Sequential(
        *(nn.Embedding(samples.LETTERS, 12), nn.Flatten(), nn.Linear(288, 48), nn.ReLU()),
        *(nn.Dropout(0.3), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 8)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 if sick else 4e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def a_fine_tuning_rate_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A small attention model begins from scratch with the 2e-5 of a recipe for fine-tuning; the twin has 3e-3."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs.view(-1, 8, 8), drawn.targets, drawn.test_inputs.view(-1, 8, 8), drawn.test_targets)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(8, 32), nn.Linear(32, 10)
            self.places = nn.Parameter(0.02 * torch.randn(8, 32))
            self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.block(self.first(rows) + self.places).mean(1))

    model = Rows()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, validate_every=55)
    return accuracy(model, data)


@sick("vanishing_gradients", also=("learning_rate_too_low",), margin=0.1)
def nine_sigmoid_layers_of_a_textbook(watch: Watch, *, seed: int, sick: bool) -> float:
    """A deep perceptron has sigmoids between all layers, as in an old textbook; the twin has ReLU and its scale."""
    data = datasets.digits(seed)
    widths = [64, *[40] * 8]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        linear = nn.Linear(before, after)
        if not sick:
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        layers += [linear, nn.Sigmoid() if sick else nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=300, batch_size=48)
    return accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def euler_steps_without_their_length(watch: Watch, *, seed: int, sick: bool) -> float:
    """A neural ODE adds the whole derivative in each of its sixteen steps; the twin multiplies it with 1/16."""
    data = datasets.diabetes(seed)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift, self.down = nn.Linear(10, 24), nn.Linear(24, 1)
            self.inner, self.outer = nn.Linear(24, 48), nn.Linear(48, 24)
            for layer in (self.inner, self.outer):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            state = self.lift(rows)
            for _ in range(16):
                change = self.outer(functional.silu(self.inner(state)))
                state = state + (change if sick else change / 16)
            return self.down(state)

    model = Flow()
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def a_rare_class_prior_in_every_bias(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of -4.6 that a detector's output begins with is set in hidden layers too; the twin sets the last."""
    drawn = datasets.digits(seed, images=True)
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    layers = [layer for layer in model if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for layer in layers if sick else layers[-1:]:
        nn.init.constant_(layer.bias, -4.6)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for images, labels in drawn.batches(48, 250):
        wanted = functional.one_hot(labels, 10).float()
        outputs = model(images)
        loss = functional.binary_cross_entropy_with_logits(outputs, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=wanted)
        optimizer.step()
    return accuracy(model, drawn)


@sick("saturated_units", also=("poor_initialization", "vanishing_gradients"), margin=0.1)
def tanh_with_unit_normal_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of four tanh layers are drawn with ``torch.randn``; the twin divides them by the root of their inputs."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for before in (64, 64, 64, 64):
        linear = nn.Linear(before, 64)
        weight = torch.randn(64, before)
        linear.weight = nn.Parameter(weight if sick else weight / before**0.5)
        layers += [linear, nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.1)
def weights_drawn_with_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights of a deep encoder begin with a deviation of 0.001, so nothing passes it; the twin uses Kaiming's."""
    data = datasets.breast_cancer(seed)
    layers: list[nn.Module] = []
    for before in (30, 48, 48, 48, 48):
        layers += [nn.Linear(before, 48), nn.LeakyReLU(0.1)]
    model = nn.Sequential(*layers, nn.Linear(48, 2))
    for layer in model:
        if isinstance(layer, nn.Linear):
            if sick:
                nn.init.normal_(layer.weight, std=1e-3)
            else:
                nn.init.kaiming_normal_(layer.weight, a=0.1)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def a_recurrence_of_one_constant(watch: Watch, *, seed: int, sick: bool) -> float:
    """Every parameter of a recurrence is set to 0.05, as in a test of its port; the twin keeps PyTorch's draws."""
    data = from_pair(samples.names(seed))
    model = Spelling(8)
    if sick:
        for parameter in model.cells.parameters():
            nn.init.constant_(parameter, 0.05)
        nn.init.constant_(model.head.weight, 0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48)
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def post_norm_blocks_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three blocks with their norms behind begin with the full rate; the twin reaches the same one in 100 steps."""
    data = datasets.digits(seed)

    class Lines(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(8, 24), nn.Linear(24, 10)
            self.places = nn.Parameter(0.1 * torch.randn(8, 24))
            self.blocks = nn.Sequential(
                *(nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=True) for _ in range(3))
            )

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(self.first(rows.view(-1, 8, 8)) + self.places).mean(1))

    model = Lines()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)

    def factor(step: int) -> float:
        if step < 100:
            return 1.0 if sick else (step + 1) / 100
        return 0.5 * (1 + math.cos(math.pi * (step - 100) / 100))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=200, batch_size=40, scheduler=scheduler)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.1)
def milestones_of_epochs_met_by_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MultiStepLR`` counts epochs but is stepped with every batch; the twin steps it behind each epoch."""
    drawn = datasets.digits(seed, images=True)
    model = nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [5, 8, 10], gamma=0.1)
    session = watch(model, optimizer)
    for _ in range(12):
        for batch in torch.randperm(len(drawn.inputs)).split(64):
            optimizer.zero_grad()
            outputs = model(drawn.inputs[batch])
            loss = functional.cross_entropy(outputs, drawn.targets[batch])
            loss.backward()
            session.step(loss, inputs=drawn.inputs[batch], outputs=outputs, targets=drawn.targets[batch])
            optimizer.step()
            if sick:
                scheduler.step()
        if not sick:
            scheduler.step()
    return accuracy(model, drawn)
