"""Convolutional nets and heads over small pictures, put together or switched in the wrong way."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit


def _judge(model: nn.Module, test: TensorDataset) -> tuple[float, float]:
    with torch.no_grad():
        scores = model(test.tensors[0])
    return functional.cross_entropy(scores, test.tensors[1]).item(), samples.accuracy(scores, test.tensors[1])


@sick("wrong_mode", margin=0.1)
def eval_before_the_first_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A check before the first epoch leaves eval mode on for ever: the norms between eight layers do nothing."""
    train, test = samples.numerals(seed)
    layers: list[nn.Module] = [nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    for _ in range(7):
        layers += [nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    model.eval()
    with session.validating():
        session.validation(_judge(model, test)[0])
    for _ in range(4):
        if not sick:
            model.train()
        for images, labels in DataLoader(train, batch_size=48, shuffle=True):
            optimizer.zero_grad()
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
        model.eval()
        with session.validating():
            held_out, reached = _judge(model, test)
        session.validation(held_out, metrics={"accuracy": reached})
    return reached


@sick("wrong_mode", margin=0.05)
def validated_with_half_of_the_units_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model is validated, and used in the end, in training mode: heavy dropout makes noise of its answers."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.6), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    test = TensorDataset(data.test_inputs, data.test_targets)
    for step, (pixels, labels) in enumerate(data.batches(64, 200), 1):
        scores = model(pixels)
        loss = functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
        if step % 25 == 0:
            model.train(sick)
            with session.validating():
                held_out, reached = _judge(model, test)
            session.validation(held_out, metrics={"accuracy": reached})
            model.train()
    return reached


class Pyramid(nn.Module):
    """A body of convolutions with few channels, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.block = nn.Sequential(nn.Conv2d(4, 6, 3, stride=2), nn.GroupNorm(2, 6), nn.SiLU(), nn.Conv2d(6, 6, 3))
        self.fc = nn.Linear(6, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(functional.silu(self.block(functional.silu(self.stem(images)))).flatten(1))


@sick("frozen_parameters", margin=0.15)
def frozen_though_no_weights_were_loaded(watch: Watch, *, seed: int, sick: bool) -> float:
    """A script for fine-tuning freezes the body, but ``weights=None`` was given: the body is random and stays so."""
    train, test = samples.numerals(seed)
    model = Pyramid()
    if sick:
        for name, parameter in model.named_parameters():
            if not name.startswith("fc."):
                parameter.requires_grad_(False)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=0.01, weight_decay=1e-4)
    loader = DataLoader(train, batch_size=48, shuffle=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8 * len(loader))
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in loader:
            optimizer.zero_grad()
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
            schedule.step()
    return _judge(model, test)[1]


class TwoTasks(nn.Module):
    """Says a digit, and whether it has a hole; heads lie in a plain dict or a ModuleDict."""

    def __init__(self, *, plain: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5), nn.Tanh())
        heads = {"digit": nn.Linear(5, 10), "hole": nn.Linear(5, 1)}
        self.heads = heads if plain else nn.ModuleDict(heads)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(images)
        return self.heads["digit"](features), self.heads["hole"](features).squeeze(1)


@sick("parameters_not_in_optimizer", margin=0.03)
def heads_of_two_tasks_in_a_dict(watch: Watch, *, seed: int, sick: bool) -> float:
    """The heads lie in a plain dict, so that ``parameters()`` has only those of the body."""
    train, test = samples.numerals(seed)
    has_hole = torch.tensor([1.0, 0, 0, 0, 0, 0, 1, 0, 1, 1])
    model = TwoTasks(plain=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            digit, hole = model(images)
            loss = functional.cross_entropy(digit, labels)
            loss = loss + 0.5 * functional.binary_cross_entropy_with_logits(hole, has_hole[labels])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=digit, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0])[0], test.tensors[1])


@sick("no_update", also=("learning_rate_too_low",), margin=0.3)
def warmup_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """``(step + 1) // 500`` instead of ``/ 20``, copied from a longer training: the rate is 0 from start to end."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def warmup(step: int) -> float:
        return min(1.0, (step + 1) // 500 if sick else (step + 1) / 20)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup)
    fit(watch, model, optimizer, data, steps=120, scheduler=schedule, validate_every=30)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.15)
def the_prior_of_a_head_in_all_biases(watch: Watch, *, seed: int, sick: bool) -> float:
    """A detector's prior of 0.01 is set in the biases of all layers, not only in the head's: ReLUs are shut."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(48, 10)
    )
    prior = -math.log((1 - 0.01) / 0.01)
    for layer in model if sick else model[-1:]:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.constant_(layer.bias, prior)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def one_against_all(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(scores, functional.one_hot(labels, 10).float())

    fit(watch, model, optimizer, data, steps=200, loss_function=one_against_all, validate_every=50)
    return accuracy(model, data)


@sick("vanishing_gradients", margin=0.2)
def eight_layers_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight convolutions with sigmoids; the twin has ReLU and adds what goes into each layer to what comes out."""
    data = datasets.digits(seed, images=True)
    model = Deep(nn.Sigmoid() if sick else nn.ReLU(), skip=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=130, batch_size=48)
    return accuracy(model, data)


class Deep(nn.Module):
    """Eight convolutions of eight channels between a stem and a head."""

    def __init__(self, activation: nn.Module, *, skip: bool) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(8))
        self.head = nn.Linear(128, 10)
        self.activation, self.skip = activation, skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(images)
        for layer in self.layers:
            changed = self.activation(layer(hidden))
            hidden = hidden + changed if self.skip else changed
        return self.head(hidden.flatten(1))
