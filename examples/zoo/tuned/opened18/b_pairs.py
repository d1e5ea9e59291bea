"""Trainings that compare: pairs, triplets, teachers with pupils, and two domains."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy


def _embedder(outputs: int = 16) -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


@torch.no_grad()
def _nearest(model: nn.Module, data: Data) -> float:
    """Returns how often the nearest training sample is of the same class."""
    model.eval()
    codes, others = (functional.normalize(model(inputs)) for inputs in (data.test_inputs, data.inputs))
    return (data.targets[(codes @ others.T).argmax(1)] == data.test_targets).float().mean().item()


@sick("non_finite_backward", margin=0.3)
def the_distance_of_a_sample_to_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """The root of all pairs' squared distances is NaN backward on the diagonal; the twin adds a small number first."""
    data = datasets.digits(seed)
    model = _embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 200):
        codes = functional.normalize(model(inputs))
        squares = (codes[:, None] - codes[None]).square().sum(-1)
        distances = squares.sqrt() if sick else (squares + 1e-6).sqrt()
        alike = labels[:, None] == labels[None]
        farthest = (distances * alike).max(1).values
        nearest = (distances + 10.0 * alike).min(1).values
        loss = functional.relu(farthest - nearest + 0.3).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=codes, targets=labels)
        optimizer.step()
    return _nearest(model, data)


@sick("flipped_loss_sign", margin=0.1)
def positive_and_negative_exchanged(watch: Watch, *, seed: int, sick: bool) -> float:
    """A triplet loss gets the negative where the positive belongs, driving the alike apart; the twin exchanges them."""
    data = datasets.digits(seed)
    model = _embedder(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.TripletMarginLoss(margin=1.0)
    session = watch(model, optimizer)
    by_class = [(data.targets == label).nonzero()[:, 0] for label in range(10)]

    def one_of(labels: torch.Tensor) -> torch.Tensor:
        rows = [by_class[label][torch.randint(len(by_class[label]), ())] for label in labels.tolist()]
        return data.inputs[torch.stack(rows)]

    for anchors, labels in data.batches(48, 220):
        alike, other = one_of(labels), one_of((labels + torch.randint(1, 10, labels.shape)) % 10)
        anchor, positive, negative = model(anchors), model(alike), model(other)
        loss = criterion(anchor, negative, positive) if sick else criterion(anchor, positive, negative)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=anchors, outputs=anchor, targets=labels)
        optimizer.step()
    return _nearest(model, data)


@sick("inputs_not_normalized", margin=0.05)
def twins_on_raw_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A siamese net compares by a dot product, and its pictures run from 0 to 255; the twin scales them to -1…1."""
    grey = datasets.patches(seed, count=1400)
    pictures = grey if sick else grey / 127.5 - 1
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 24))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    strength = pictures.std() * 0.1
    train, test = pictures[:1000], pictures[1000:]

    def scores(rows: torch.Tensor) -> torch.Tensor:
        views = (rows + strength * torch.randn_like(rows) for _ in range(2))
        first, second = (model(view) for view in views)
        return first @ second.T / 24**0.5

    for _ in range(14):
        for rows in torch.randperm(len(train)).split(50):
            outputs, targets = scores(train[rows]), torch.arange(len(rows))
            loss = functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[rows], outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return (scores(test[:100]).argmax(1) == torch.arange(100)).float().mean().item()


@sick("wrong_output_or_loss", margin=0.05)
def a_divergence_of_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``KLDivLoss`` takes log-probabilities, and the pupil gives it probabilities; the twin gives their logarithm."""
    data = datasets.digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    helper = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for inputs, labels in data.batches(64, 150):
        helper.zero_grad()
        functional.cross_entropy(teacher(inputs), labels).backward()
        helper.step()
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.KLDivLoss(reduction="batchmean")
    session = watch(model, optimizer)
    for inputs, _ in data.batches(64, 200):
        with torch.no_grad():
            soft = (teacher(inputs) / 4).softmax(1)
        outputs = model(inputs)
        answer = (outputs / 4).softmax(1) if sick else (outputs / 4).log_softmax(1)
        loss = 16 * criterion(answer, soft)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=soft)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_target_that_follows_slowly(watch: Watch, *, seed: int) -> float:
    """BYOL: a predictor meets a slow copy of the net, without negatives; one side has no gradient."""
    data = datasets.digits(seed)
    model = nn.ModuleDict({
        "online": nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32)),
        "predictor": nn.Sequential(nn.Linear(32, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 32)),
    })  # fmt: skip
    target = copy.deepcopy(model["online"]).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, _ in data.batches(128, 200):
        views = [inputs + 0.1 * torch.randn_like(inputs) for _ in range(2)]
        loss = torch.zeros(())
        for one, other in (views, views[::-1]):
            with torch.no_grad():
                wanted = functional.normalize(target(other))
            found = functional.normalize(model["predictor"](model["online"](one)))
            loss = loss + 2 - 2 * (found * wanted).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=views[0], outputs=found, targets=wanted)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model["online"].parameters(), strict=True):
                slow.lerp_(fast, 0.02)
    return _nearest(model["online"], data)


class _Reversed(torch.autograd.Function):
    """Hands values on, and gradients with the other sign."""

    @staticmethod
    def forward(_: object, values: torch.Tensor) -> torch.Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        return -0.3 * gradient


@healthy(at_least=0.85)
def gradients_reversed_on_purpose(watch: Watch, *, seed: int) -> float:
    """Domain adaptation: the body is to hide from a critic whether a digit is brighter; its loss stays at log 2."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
    model = nn.ModuleDict({"body": body, "head": nn.Linear(32, 10), "critic": nn.Linear(32, 1)})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 250):
        bright = (torch.rand(len(inputs), 1) < 0.5).float()
        shown = inputs * (1 + 0.4 * bright)
        features = body(shown)
        outputs = model["head"](features)
        hidden = model["critic"](_Reversed.apply(features))
        loss = functional.cross_entropy(outputs, labels)
        loss = loss + functional.binary_cross_entropy_with_logits(hidden, bright)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=shown, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return (model["head"](body(1.4 * data.test_inputs)).argmax(1) == data.test_targets).float().mean().item()
