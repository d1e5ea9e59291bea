"""Trainings of small nets on digits whose weights, rates or schedules are not what their authors meant."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


def _net(width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.25), nn.Linear(2 * width * 16, 10),
    )  # fmt: skip


@sick("learning_rate_too_high", also=("dead_units", "exploding_gradients"), margin=0.1)
def adadeltas_rate_given_to_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """An example's Adadelta with a rate of 1 was replaced by Adam, and the rate stayed; the twin's is 0.002."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0 if sick else 0.002)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            outputs = functional.log_softmax(model(images), dim=1)
            loss = functional.nll_loss(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        scheduler.step()
    with torch.no_grad():
        return samples.accuracy(model.eval()(test.tensors[0]), test.tensors[1])


@sick("schedule_collapsed", also=("learning_rate_too_low",), margin=0.03)
def a_plateau_of_accuracies_that_rise(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` is told the accuracy and waits for it to fall; the twin's has ``mode="max"``."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    mode = "min" if sick else "max"
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, factor=0.1, patience=1)
    session = watch(model, optimizer)
    for _ in range(12):
        model.train()
        for images, labels in DataLoader(train, 64, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            outputs = model(test.tensors[0])
        right = samples.accuracy(outputs, test.tensors[1])
        session.validation(functional.cross_entropy(outputs, test.tensors[1]).item(), metrics={"accuracy": right})
        scheduler.step(right)
    return right


@sick("wrong_mode", margin=0.03)
def validated_as_it_is_trained(watch: Watch, *, seed: int, sick: bool) -> float:
    """The function that validates never calls ``model.eval()``, so that dropout takes part; the twin's does."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.6),
        nn.Linear(96, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.6), nn.Linear(96, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    @torch.no_grad()
    def validate() -> float:
        if not sick:
            model.eval()
        with session.validating():
            found = [(model(images), labels) for images, labels in DataLoader(test, 32)]
        outputs, labels = (torch.cat(part) for part in zip(*found, strict=True))
        right = samples.accuracy(outputs, labels)
        session.validation(functional.cross_entropy(outputs, labels).item(), metrics={"accuracy": right})
        model.train()
        return right

    for _ in range(10):
        for images, labels in DataLoader(train, 40, shuffle=True, drop_last=True):
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        right = validate()
    return right


@sick("vanishing_gradients", also=("saturated_units", "poor_initialization"), margin=0.2)
def nine_convolutions_with_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nine convolutions with a sigmoid after each of them; the twin's are followed by ReLU, and begin as He's do."""
    train, test = samples.numerals(seed)
    layers: list[nn.Module] = []
    for inputs in [1] + [8] * 8:
        convolution = nn.Conv2d(inputs, 8, 3, padding=1)
        if not sick:
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            nn.init.zeros_(convolution.bias)
        layers += [convolution, nn.Sigmoid() if sick else nn.ReLU()]
    model = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def clipped_to_the_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_(model.parameters(), lr)`` has the arguments of another function; the twin clips to 5."""
    train, test = samples.numerals(seed)
    model = _net()
    lr = 0.02
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in DataLoader(train, 50, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), lr / 2 if sick else 5.0)
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model.eval()(test.tensors[0]), test.tensors[1])


@sick("stopped_too_early", margin=0.03)
def patience_counted_over_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training stops when the loss of a batch was not the best for four batches; the twin asks each epoch's mean."""
    train, test = samples.numerals(seed)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    best, waited = float("inf"), 0

    def is_over(value: float) -> bool:
        nonlocal best, waited
        best, waited = (value, 0) if value < best else (best, waited + 1)
        return waited >= 4

    for _ in range(16):
        total = 0.0
        for images, labels in DataLoader(train, 64, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            total += loss.item()
            if sick and is_over(loss.item()):
                break
        if waited >= 4 or (not sick and is_over(total)):
            break
    with torch.no_grad():
        return samples.accuracy(model.eval()(test.tensors[0]), test.tensors[1])
