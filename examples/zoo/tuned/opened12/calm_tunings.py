"""Sound trainings that go on from others: frozen, adapted, averaged, distilled."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted


def _pretrained(seed: int, width: int = 64) -> tuple[datasets.Data, nn.Sequential]:
    """Returns digits that lie on their side, and a net that knows upright ones."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pixels, labels in data.batches(64, 200):
        optimizer.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        optimizer.step()

    def turned(pixels: torch.Tensor) -> torch.Tensor:
        return pixels.view(-1, 8, 8).transpose(1, 2).flatten(1)

    return datasets.Data(turned(data.inputs), data.targets, turned(data.test_inputs), data.test_targets), model


class Low(nn.Module):
    """A frozen layer with a matrix of low rank beside it, whose second factor begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(layer.in_features, rank) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(rank, layer.out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + x @ self.down @ self.up


@healthy(at_least=0.85)
def matrices_of_low_rank_beside_frozen_layers(watch: Watch, *, seed: int) -> float:
    """LoRA for digits that lie on their side."""
    data, model = _pretrained(seed)
    for index in (0, 2, 4):
        model[index] = Low(model[index])
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fit(watch, model, torch.optim.AdamW(trainable, lr=5e-3, weight_decay=0.0), data, steps=250)
    return accuracy(model, data)


@healthy(at_least=0.85)
def only_the_biases_are_tuned(watch: Watch, *, seed: int) -> float:
    """BitFit: all weights are frozen; the sideways digits are turned back and have a grey ground."""
    data, model = _pretrained(seed, 96)

    def greyed(pixels: torch.Tensor) -> torch.Tensor:
        return 0.4 + 0.6 * pixels.view(-1, 8, 8).transpose(1, 2).flatten(1)

    data = datasets.Data(greyed(data.inputs), data.targets, greyed(data.test_inputs), data.test_targets)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.endswith("bias")
    biases = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fit(watch, model, torch.optim.Adam(biases, lr=2e-2), data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.8)
def each_layer_with_a_rate_of_its_own(watch: Watch, *, seed: int) -> float:
    """Rates that fall by two from the head to the first layer, with a ramp and a linear end."""
    data, model = _pretrained(seed)
    groups = [
        {"params": layer.parameters(), "lr": 5e-3 * 0.5**depth}
        for depth, layer in enumerate((model[4], model[2], model[0]))
    ]
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 20, (240 - step) / 220))
    fit(watch, model, optimizer, data, steps=240, scheduler=schedule)
    return accuracy(model, data)


@healthy(at_least=0.85)
def head_alone_and_then_everything(watch: Watch, *, seed: int) -> float:
    """Two stages with two optimizers: a new head on frozen features, and then the whole net at a small rate."""
    data, model = _pretrained(seed)
    model[4] = nn.Linear(64, 10)
    model[:4].requires_grad_(False)
    fit(watch, model, torch.optim.Adam(model[4].parameters(), lr=1e-2), data, steps=100)
    model.requires_grad_(True)
    fit(watch, model, torch.optim.AdamW(model.parameters(), lr=2e-3), data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.9)
def small_pupil_of_a_large_teacher(watch: Watch, *, seed: int) -> float:
    """A pupil follows a teacher's softened answers at temperature 4, and the labels a little."""
    data = datasets.digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    first = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for pixels, labels in data.batches(64, 200):
        first.zero_grad()
        functional.cross_entropy(teacher(pixels), labels).backward()
        first.step()
    teacher.requires_grad_(False).eval()

    pupil = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.Adam(pupil.parameters(), lr=5e-3)
    session = watch(pupil, optimizer)
    for pixels, labels in data.batches(64, 250):
        logits = pupil(pixels)
        with torch.no_grad():
            wanted = (teacher(pixels) / 4).softmax(1)
        soft = functional.kl_div((logits / 4).log_softmax(1), wanted, reduction="batchmean") * 16
        loss = 0.8 * soft + 0.2 * functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(pupil, data)


@healthy(at_least=0.93)
def average_of_the_last_epochs_weights(watch: Watch, *, seed: int) -> float:
    """Stochastic weight averaging with batch norm: a constant rate in the end, and statistics taken anew."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(192, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    averaged, calm = AveragedModel(model), SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)
    loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    session = watch(model, optimizer)
    for epoch in range(8):
        for images, labels in loader:
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        if epoch >= 4:
            averaged.update_parameters(model)
            calm.step()
    torch.optim.swa_utils.update_bn(loader, averaged)
    return samples.accuracy(predicted(averaged, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.9)
def teacher_that_is_the_pupils_moving_mean(watch: Watch, *, seed: int) -> float:
    """A mean teacher: 150 labelled digits, 1,100 without a label, and a consistency that grows in."""
    data = datasets.digits(seed)
    known = TensorDataset(data.inputs[:200], data.targets[:200])
    unknown = TensorDataset(data.inputs[200:])
    pupil = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 10))
    teacher = copy.deepcopy(pupil).requires_grad_(False).eval()
    optimizer = torch.optim.Adam(pupil.parameters(), lr=3e-3, weight_decay=1e-4)
    session, step = watch(pupil, optimizer), 0
    while step < 280:
        labelled = DataLoader(known, batch_size=32, shuffle=True)
        for (pixels, labels), (others,) in zip(
            labelled, DataLoader(unknown, batch_size=96, shuffle=True), strict=False
        ):
            logits = pupil(pixels)
            guess = pupil(others + 0.1 * torch.randn_like(others)).softmax(1)
            agreement = functional.mse_loss(guess, teacher(others).softmax(1))
            loss = functional.cross_entropy(logits, labels) + 5 * min(1.0, step / 100) * agreement
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
            with torch.no_grad():
                for mean, value in zip(teacher.parameters(), pupil.parameters(), strict=True):
                    mean.lerp_(value, 0.03)
            step += 1
    return accuracy(teacher, data)
