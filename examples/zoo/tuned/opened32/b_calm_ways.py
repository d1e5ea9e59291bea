"""Sound trainings that look odd: ways to step, to choose data, and to build on what is there."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted
from examples.zoo.tuned.opened32.b_common import LETTERS, explained, prose, words


@healthy(at_least=0.9)
def steps_to_the_sharpest_point_and_back(watch: Watch, *, seed: int) -> float:
    """SAM climbs a little along the gradient, takes a second one there, and steps from where it was."""
    data = datasets.breast_cancer(seed)
    data = Data(data.inputs, data.targets.float()[:, None], data.test_inputs, data.test_targets.float())
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(48, 150):
        optimizer.zero_grad()
        functional.binary_cross_entropy_with_logits(model(inputs), labels).backward()
        parameters = list(model.parameters())
        norm = torch.cat([one.grad.flatten() for one in parameters]).norm() + 1e-12
        climbs = [0.05 * one.grad / norm for one in parameters]
        with torch.no_grad():
            for one, climb in zip(parameters, climbs, strict=True):
                one.add_(climb)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.binary_cross_entropy_with_logits(outputs, labels)
        loss.backward()
        with torch.no_grad():
            for one, climb in zip(parameters, climbs, strict=True):
                one.sub_(climb)
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return binary_accuracy(model, data)


@healthy(at_least=0.85)
def pixels_moved_against_the_model(watch: Watch, *, seed: int) -> float:
    """Adversarial training: each batch is moved along the sign of the loss's gradient before it is learnt."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 250):
        moved = pixels.clone().requires_grad_()
        slope = torch.autograd.grad(functional.cross_entropy(model(moved), labels), moved)[0]
        moved = (pixels + 0.1 * slope.sign()).clamp(0, 1)
        optimizer.zero_grad()
        outputs = model(moved)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=moved, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.75)
def three_labels_of_ten_are_wrong(watch: Watch, *, seed: int) -> float:
    """Many labels of digits are drawn anew and all are smoothed, so that the loss stays high."""
    train, test = samples.numerals(seed)
    images, numbers = train.tensors
    wrong = torch.rand(len(numbers)) < 0.3
    noisy = torch.where(wrong, torch.randint(10, numbers.shape), numbers)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    data = Data(images, noisy, *test.tensors)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=250)
    smoothed = nn.CrossEntropyLoss(label_smoothing=0.1)
    fit(watch, model, optimizer, data, steps=250, loss_function=smoothed, scheduler=schedule)
    return accuracy(model, data)


@healthy(at_least=0.75)
def areas_up_to_four_thousand(watch: Watch, *, seed: int) -> float:
    """Targets are as large as they were measured, and the model's last step gives them their mean and deviation."""
    train, test = samples.standardised(samples.tumours(seed), 0)
    (inputs, sizes), (test_inputs, test_sizes) = train.tensors, test.tensors
    data = Data(inputs, sizes[:, 3:4], test_inputs, test_sizes[:, 3:4])

    class Restored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 1))
            self.mean, self.std = nn.Buffer(data.targets.mean()), nn.Buffer(data.targets.std())

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.body(inputs) * self.std + self.mean

    model = Restored()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def relative(outputs: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return functional.huber_loss(outputs / model.std, wanted / model.std)

    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=relative)
    return explained(model, data)


@healthy(at_least=0.8)
def short_words_before_long_ones(watch: Watch, *, seed: int) -> float:
    """A curriculum sorts words by length for two epochs and shuffles afterwards; places behind a word do not count."""
    data = words(seed)
    vowels = torch.tensor([1, 5, 9, 15, 21])

    def numbered(codes: torch.Tensor) -> torch.Tensor:
        return torch.isin(codes, vowels).long().cumsum(1).clamp(max=4).masked_fill(codes == 0, -100)

    targets, test = numbered(data.inputs), numbered(data.test_inputs)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(LETTERS, 16, padding_idx=0)
            self.rnn, self.head = nn.GRU(16, 24, batch_first=True), nn.Linear(24, 5)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(self.letters(codes))[0])

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    lengths = (data.inputs > 0).sum(1)
    for epoch in range(8):
        order = (lengths + torch.rand(len(lengths))).argsort() if epoch < 2 else torch.randperm(len(lengths))
        for rows in order.split(32):
            optimizer.zero_grad()
            logits = model(data.inputs[rows])
            loss = functional.cross_entropy(logits.flatten(0, 1), targets[rows].flatten(), ignore_index=-100)
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=logits, targets=targets[rows])
            optimizer.step()
    right = predicted(model, data.test_inputs).argmax(-1) == test
    return right[test >= 0].float().mean().item()


@healthy(at_least=0.3)
def sharper_teachers_softened(watch: Watch, *, seed: int) -> float:
    """A small model of letters learns the soft answers of a larger one that rests, so its loss ends above 0."""
    data = prose(seed, length=16)

    def reader(width: int) -> nn.Sequential:
        layers = [nn.Embedding(LETTERS, 16), nn.Conv1d(16, width, 3), nn.ReLU(), nn.Conv1d(width, LETTERS, 2)]
        return nn.Sequential(layers[0], _Turned(), *layers[1:])

    teacher, student = reader(96), reader(32)
    first = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for codes, following in data.batches(48, 150):
        first.zero_grad()
        functional.cross_entropy(teacher(codes), following[:, 3:]).backward()
        first.step()
    teacher.eval().requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    session = watch(student, optimizer)
    for codes, following in data.batches(48, 250):
        outputs = student(codes)
        soft = (teacher(codes) / 2).softmax(1)
        distance = functional.kl_div((outputs / 2).log_softmax(1), soft, reduction="none").sum(1).mean()
        loss = 4 * distance + 0.3 * functional.cross_entropy(outputs, following[:, 3:])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=following[:, 3:])
        optimizer.step()
    return (predicted(student, data.test_inputs).argmax(1) == data.test_targets[:, 3:]).float().mean().item()


class _Turned(nn.Module):
    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return vectors.transpose(1, 2)


@healthy(at_least=0.7)
def tiny_batches_and_an_average_of_weights(watch: Watch, *, seed: int) -> float:
    """Batches of four tumours give noisy steps of SGD, and an average of the weights is what is used."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10))
    averaged = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(4, 400):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        for slow, fast in zip(averaged.parameters(), model.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.03)
    return explained(averaged, data)
